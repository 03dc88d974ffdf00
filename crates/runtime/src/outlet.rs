//! The runtime's last word on a result: from here on the driver writes, and says when it has, so that latency ends
//! there.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use laxity_graph::{EventTime, ProcessingTime};
use laxity_sched::Stamps;

use crate::{Content, InFlight, Query};

/// Where the results, or late rows, of one query leave the runtime: what its operators know of a sink.
#[derive(Debug)]
pub struct Outlet {
    /// Whose.
    pub query: Arc<Query>,
    /// What the driver knows it by.
    pub number: usize,
    /// Results for the user count towards latency; a late table does not.
    pub is_result: bool,
    /// Rows have left as soon as they get here: nothing is to be written.
    pub is_immediate: bool,
    /// Instances that still write here.
    open_channels: AtomicI64,
}

/// Something for the driver to do at a sink, in order for each outlet.
#[derive(Debug)]
pub struct Write<C: Content> {
    /// Where.
    pub outlet: Arc<Outlet>,
    /// What.
    pub what: Written<C::Batch>,
}

/// Rows, or the end of them.
#[derive(Debug)]
pub enum Written<B> {
    /// Rows to write; once they are written, [`Outlet::count`], and then in any case, [`Outlet::written`].
    Rows {
        /// The rows.
        batch: B,
        /// How many.
        rows: u32,
        /// Their bytes, in flight until then.
        bytes: u64,
        /// Their way.
        stamps: Stamps,
        /// Of the window they are the result of.
        window_end: Option<EventTime>,
        /// When they came to the outlet.
        ready: ProcessingTime,
    },
    /// One of the instances that write here has no more. Where it was the last ([`Outlet::end_channel`]), the output is
    /// to be completed; then, [`Outlet::closed`].
    ///
    /// Counted by who writes, not by who sends: what another instance sent before its own end may still be on its way
    /// there.
    End,
}

impl Outlet {
    /// An outlet that so many instances write to.
    pub fn new(
        query: Arc<Query>,
        number: usize,
        writers: usize,
        is_result: bool,
        is_immediate: bool,
    ) -> Outlet {
        Outlet { query, number, is_result, is_immediate, open_channels: AtomicI64::new(writers as i64) }
    }

    /// Rows reach the outlet. What is in flight of them from now on.
    pub fn send<C: Content>(
        self: &Arc<Outlet>,
        batch: C::Batch,
        stamps: Stamps,
        window_end: Option<EventTime>,
        now: ProcessingTime,
        writes: &mut Vec<Write<C>>,
    ) {
        let rows = C::rows(&batch);
        if self.is_immediate {
            self.count(rows, &stamps, window_end, now, now);
            return;
        }
        if self.is_result {
            self.query.owe(|owed| owed.due(stamps.ingested));
        }
        let bytes = C::bytes(&batch);
        let what = Written::Rows { batch, rows, bytes, stamps, window_end, ready: now };
        writes.push(Write { outlet: self.clone(), what });
    }

    /// One of the instances that write here has passed a watermark.
    pub(crate) fn on_watermark<C: Content>(
        self: &Arc<Outlet>,
        watermark: EventTime,
        writes: &mut Vec<Write<C>>,
    ) {
        if watermark == EventTime::MAX {
            writes.push(Write { outlet: self.clone(), what: Written::End });
        } else if self.is_result {
            self.query.watermark_ms.fetch_max(watermark.0, Ordering::Relaxed);
            self.query.watermark_out(watermark);
        }
    }

    /// Rows have left the program at `now`.
    pub fn count(
        &self,
        rows: u32,
        stamps: &Stamps,
        window_end: Option<EventTime>,
        ready: ProcessingTime,
        now: ProcessingTime,
    ) {
        if self.is_result {
            self.query.rows_out.fetch_add(u64::from(rows), Ordering::Relaxed);
            self.query.record_result(stamps, window_end, ready, now);
        }
    }

    /// Rows that were to be written are, or are dropped.
    pub fn written(&self, stamps: &Stamps) {
        if self.is_result {
            self.query.owe(|owed| owed.out(stamps.ingested));
        }
    }

    /// Takes an end; true if it was the last.
    pub fn end_channel(&self) -> bool {
        let is_last = self.open_channels.fetch_sub(1, Ordering::AcqRel) == 1;
        if is_last && self.is_result {
            self.query.watermark_out(EventTime::MAX);
        }
        is_last
    }

    /// The output is complete. The last of a query's results ends it.
    pub fn closed(&self) {
        if self.is_result && self.query.open_sinks.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.query.end(crate::Outcome::Finished);
        }
    }
}

impl<B> Written<B> {
    /// The run that sent it worked for so long more, and was kept from working for so long, until it was over.
    pub fn delay(&mut self, execute_ns: u64, wait_ns: u64, over: ProcessingTime) {
        if let Written::Rows { stamps, ready, .. } = self {
            stamps.execute_ns += execute_ns;
            stamps.queue_ns += wait_ns;
            *ready = over;
        }
    }

    /// What is in flight until it is done.
    pub fn in_flight(&self) -> InFlight {
        match self {
            Written::Rows { rows, bytes, .. } => InFlight::one(*rows, *bytes),
            Written::End => InFlight::one(0, 0),
        }
    }
}
