use super::{By, Cycled, Decorator, Needs, Rank, WaitBound};
use crate::Snapshot;

/// `RANK@PERIOD`: any rank, but taken anew every period only, from a snapshot.
///
/// The shape of schedulers that compute all priorities at a period's start, after which every worker takes the first
/// operator in that order that has work, until its end. The order between periods costs nothing, and what has happened
/// since the last is not seen.
///
/// Does badly where the order changes faster than the period: a unit that had nothing when it was ranked
/// stands where its rank puts an empty one.
#[derive(Debug)]
pub struct Periodic {
    /// The rank.
    pub rank: Box<dyn Rank>,
    /// How often.
    pub period_ns: u64,
}

impl Decorator for Periodic {
    fn inner(&self) -> &dyn Rank {
        &*self.rank
    }

    fn inner_mut(&mut self) -> &mut dyn Rank {
        &mut *self.rank
    }

    fn needs(&self) -> Needs {
        Needs {
            by: By::Cycle,
            look_every_ns: Some(self.period_ns),
            look_ns_per_operator: 0,
            // A snapshot's order is no promise: what comes between two may wait for all of them.
            bound: WaitBound::Ageing,
            ..self.rank.needs()
        }
    }

    fn cycle<'a>(&'a mut self, snapshot: &Snapshot, priorities: &mut [f64]) -> Cycled<'a> {
        let needs = self.rank.needs();
        if needs.by == By::Cycle || needs.look_every_ns.is_none() {
            return self.rank.cycle(snapshot, priorities);
        }
        super::rank_all(&mut *self.rank, snapshot, priorities);
        Cycled::ALL
    }
}
