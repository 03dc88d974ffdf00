use std::convert::Infallible;
use std::rc::Rc;
use std::sync::Arc;

use laxity_graph::{EventClock, OperatorId, ProcessingTime};
use laxity_runtime::{FeedEvent, Intake, Query, Reader};

use crate::feed::Feed;
use crate::modelled::Modelled;
use crate::run_clock::RunClock;

/// A table being read.
pub(crate) struct Table<C: Modelled> {
    /// The source instance that it feeds.
    pub operator: u32,
    pub intake: Intake<C>,
    pub feed: Feed<C::Batch>,
    /// When it is looked at next, if that is known.
    pub look: Option<ProcessingTime>,
    /// Arrived, and held back.
    pub is_held: bool,
}

/// A table's feed as the runtime sees it: time passes while rows are read.
pub(crate) struct Read<'a, C: Modelled> {
    pub feed: &'a mut Feed<C::Batch>,
    pub clock: &'a Rc<RunClock>,
    pub per_row_ns: f64,
}

impl<C: Modelled> Table<C> {
    pub fn new(
        id: u32,
        operator: u32,
        query: Arc<Query>,
        feed: Feed<C::Batch>,
        start: ProcessingTime,
    ) -> Table<C> {
        let reader = Reader::new(query, OperatorId(operator), None, false, start);
        let intake = Intake::new(OperatorId(id), vec![reader]).without_rest();
        Table { operator, intake, feed, look: None, is_held: false }
    }

    /// Rows that have arrived and wait for credit.
    pub fn rows_held(&self) -> u64 {
        self.intake.readers().iter().map(Reader::backlog_rows).sum()
    }
}

impl<C: Modelled> laxity_runtime::Feed<C> for Read<'_, C> {
    type Error = Infallible;

    fn poll(&mut self, now: ProcessingTime) -> Result<FeedEvent<C::Batch>, Infallible> {
        let event = self.feed.poll::<C>(now);
        if let FeedEvent::Batch(batch, _) = &event {
            self.clock.spend(self.per_row_ns * f64::from(C::rows(batch)));
        }
        Ok(event)
    }

    fn prepare(&mut self) -> Result<bool, Infallible> {
        Ok(false)
    }

    fn is_repeatable(&self) -> bool {
        true
    }

    fn held_bytes(&self) -> u64 {
        0
    }

    fn prepared_until(&self) -> Option<ProcessingTime> {
        None
    }

    fn event_clock(&self) -> Option<EventClock> {
        Some(self.feed.event_clock())
    }

    fn dead_rows(&self) -> u64 {
        0
    }

    fn progress(&self) -> Option<f64> {
        None
    }

    fn project(batch: &C::Batch, _: &[usize]) -> C::Batch {
        batch.clone()
    }
}
