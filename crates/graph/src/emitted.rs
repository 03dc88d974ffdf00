use crate::{EventTime, ProcessingTime};

/// Whether a call of an operator finished what it was asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Flow {
    /// All done.
    Done,
    /// The operator has work left: let it resume before anything else.
    More,
}

/// What an operator sends on, in order. `Rows` is what a batch is.
#[derive(Debug)]
pub enum Emitted<Rows> {
    /// Result rows.
    Batch {
        /// The rows.
        batch: Rows,
        /// The latest ingestion among the rows that influenced this one, where the operator held them back
        /// (a window, a join). `None`: that of the message being processed.
        ingested: Option<ProcessingTime>,
        /// End of the window that this batch is the result of (ms), for event-time latency.
        window_end: Option<EventTime>,
    },
    /// Everything before this point is complete up to the watermark.
    Watermark(EventTime),
}
