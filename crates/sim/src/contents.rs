#![cfg_attr(not(feature = "operators"), allow(dead_code, reason = "made where operators are called"))]

use std::fmt;

use laxity_graph::{EventTime, ProcessingTime, QueryId};

/// The rows behind messages, and the operators that are called with them, where results matter and not times alone.
/// Without, a batch is a count and a time, and a [`laxity_workload::Stage`] says what becomes of it.
///
/// Rows in a message are a [`Rows`], a place in a table. Whoever has it must give it back: to a call, a split or a
/// write.
pub(crate) trait Contents: fmt::Debug {
    /// The rows of the next batch of a feed.
    fn arrive(&mut self, feed: u32) -> Option<Rows>;

    /// Calls an operator. What it sends goes to `sent`, in order.
    ///
    /// # Errors
    /// What the operator says, in words.
    fn call(&mut self, operator: u32, call: Call, sent: &mut Vec<Sent>) -> Result<Answer, String>;

    /// The parts of rows by hash of their key: for each target that gets some, how many.
    ///
    /// # Errors
    /// If a key cannot be hashed.
    fn split(&mut self, split: &Split<'_>) -> Result<Vec<Part>, String>;

    /// The same rows for another message.
    fn share(&mut self, rows: Rows) -> Rows;

    /// Rows that nobody needs any more.
    fn free(&mut self, rows: Rows);

    /// Rows leave by a sink.
    fn write(&mut self, query: QueryId, sink: u32, rows: Rows, at: ProcessingTime);

    /// Bytes of state that an operator holds.
    fn state_bytes(&self, operator: u32) -> u64;
}

/// Rows that are kept for a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rows(pub u32);

/// What an operator is asked to do.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Call {
    /// Take rows: so many from the first on. The last of them give the place back.
    Rows { channel: u32, rows: Rows, first: u32, count: u32, ingested: ProcessingTime },
    /// Learn that a channel is so far.
    Watermark { channel: u32, watermark: EventTime },
    /// Go on.
    Resume,
}

/// What an operator did.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Answer {
    /// It wants to go on.
    pub more: bool,
    pub late_rows: u64,
}

/// What an operator sends.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Sent {
    Rows {
        rows: Rows,
        count: u32,
        /// When the last row that it had held back for them was ingested.
        ingested: Option<ProcessingTime>,
        window_end: Option<EventTime>,
    },
    Watermark(EventTime),
}

/// Rows to be spread over the targets of a route.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Split<'a> {
    pub rows: Rows,
    pub route: u32,
    pub keys: &'a [usize],
    pub targets: u32,
}

/// What one of the targets gets.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Part {
    pub target: u32,
    pub rows: Rows,
    pub count: u32,
}
