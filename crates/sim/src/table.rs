//! A simulated table between its feed and the runtime, which decides when to look at it and what to admit.

use std::rc::Rc;

use laxity_graph::{EventClock, ProcessingTime};
use laxity_runtime::{Content, FeedEvent, Intake, Look, Split, Step};

use crate::ScheduledSources;
use crate::feed::Feed;
use crate::modelled::Modelled;
use crate::run_clock::RunClock;

/// A table being read.
pub(crate) struct Table<C: Modelled> {
    /// Where it stands: of its own where looks are scheduled, else that of the source instance that it feeds.
    pub place: u32,
    pub intake: Intake<C>,
    pub feed: Feed<C::Batch>,
    /// When it is looked at next, where no scheduler keeps that.
    pub look: Option<Look>,
    /// Arrived, and held back.
    pub is_held: bool,
    /// Places for copies of it.
    pub spare: Vec<u32>,
}

/// What a look at a table led to.
#[derive(Debug)]
pub(crate) struct Looked<C: Content> {
    pub table: u32,
    pub step: Step,
    pub split: Option<Split<C>>,
}

/// A table's feed as the runtime sees it: time passes while rows are read.
pub(crate) struct Read<'a, C: Modelled> {
    pub feed: &'a mut Feed<C::Batch>,
    pub clock: &'a Rc<RunClock>,
    /// `None`: everything is free, and batches stay what they are.
    pub costs: Option<&'a ScheduledSources>,
}

impl<C: Modelled> Table<C> {
    pub fn new(place: u32, intake: Intake<C>, feed: Feed<C::Batch>, spare: Vec<u32>) -> Table<C> {
        Table { place, intake, feed, look: None, is_held: false, spare }
    }
}

impl<C: Modelled> Read<'_, C> {
    /// All that is due, as far as it fits one batch.
    fn take(&mut self, now: ProcessingTime) -> Result<FeedEvent<C::Batch>, C::Error> {
        self.decode_if_needed();
        let event = self.feed.poll::<C>(now);
        let Some(costs) = self.costs else { return Ok(event) };
        let FeedEvent::Batch(first, mut arrival) = event else { return Ok(event) };
        let mut rows = C::rows(&first);
        let mut batches = vec![first];
        // A watermark without rows is a message of its own.
        while rows > 0 && rows < costs.batch_rows_max {
            self.decode_if_needed();
            let fits = |rows_more: u32| rows_more > 0 && rows + rows_more <= costs.batch_rows_max;
            if self.feed.next().is_none_or(|next| next.at > now || !fits(next.rows)) {
                break;
            }
            let FeedEvent::Batch(more, at) = self.feed.poll::<C>(now) else { break };
            rows += C::rows(&more);
            arrival = arrival.max(at);
            batches.push(more);
        }
        self.clock.spend(costs.row_ns * f64::from(rows));
        let batch = match &batches[..] {
            [_] => batches.remove(0),
            _ => C::concat(&batches.iter().collect::<Vec<_>>())?,
        };
        Ok(FeedEvent::Batch(batch, arrival))
    }

    fn decode_if_needed(&mut self) {
        if self.feed.pieces() == 0 {
            self.decode();
        }
    }

    fn decode(&mut self) {
        if let Some(decoding) = self.costs.and_then(|costs| costs.decoding) {
            let rows = self.feed.decode(decoding.piece_rows);
            self.clock.spend(decoding.row_ns * rows as f64);
        }
    }
}

impl<C: Modelled> laxity_runtime::Feed<C> for Read<'_, C> {
    type Error = C::Error;

    fn poll(&mut self, now: ProcessingTime) -> Result<FeedEvent<C::Batch>, C::Error> {
        self.take(now)
    }

    fn prepare(&mut self) -> Result<bool, C::Error> {
        // One piece ahead, besides the one that is being given.
        const PIECES: usize = 2;
        let before = self.feed.pieces();
        if before < PIECES {
            self.decode();
        }
        Ok(self.feed.pieces() > before)
    }

    fn is_repeatable(&self) -> bool {
        true
    }

    fn held_bytes(&self) -> u64 {
        0
    }

    fn prepared_until(&self) -> Option<ProcessingTime> {
        self.costs.and_then(|costs| costs.decoding).and_then(|_| self.feed.decoded_until())
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
