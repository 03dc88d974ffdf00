//! While a worker runs one operator, the memory of those that come next is asked for. Where thousands have a row at the same
//! instant, the state of each was thrown out of the caches by the others, and waiting for it is most of what a row costs.

use laxity_graph::OperatorId;

use super::slot::Desk;
use crate::unit::Fetched;

/// Units that wait from which on it is worth it: the state of fewer is in the caches as it is. Picked.
const MANY: usize = 64;

/// The two that were asked for last: who stays next while others are followed is asked for once.
#[derive(Debug, Default)]
pub(super) struct Ahead {
    next: Option<OperatorId>,
    after: Option<OperatorId>,
}

impl<T, U: Fetched> Desk<T, U> {
    /// To be called when somebody was granted something. What the next but one stands in is asked for, then, when it is the
    /// next, what it points to: that can only be read once it is there.
    pub fn fetch_ahead(&mut self) {
        if self.shard.scheduler().waiting_units() < MANY {
            return;
        }
        let [next, after] = self.shard.scheduler().first_two();
        if next != self.ahead.next {
            self.ahead.next = next;
            self.with_fed(next, |unit, _| unit.fetch_behind());
        }
        if after != self.ahead.after {
            self.ahead.after = after;
            self.with_fed(after, |unit, id| {
                self.shard.scheduler().fetch(id);
                unit.fetch();
            });
        }
    }

    /// An operator, and those that its rows go to at once.
    fn with_fed(&self, id: Option<OperatorId>, ask: impl Fn(&U, OperatorId)) {
        let Some(id) = id else { return };
        let fed = self.fed.get(id.index()).cloned().unwrap_or_default().map(OperatorId);
        for id in std::iter::once(id).chain(fed) {
            if let Some(Some(unit)) = self.units.get(id.index()) {
                ask(unit, id);
            }
        }
    }
}
