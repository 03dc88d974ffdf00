use laxity_graph::{EventTime, OperatorId};
use laxity_sched::{Message, Stamps};

use crate::Content;

/// What a message carries from one operator instance to the next: rows, then the watermark that follows
/// them. One message for both halves the number of dispatches.
#[derive(Debug)]
pub struct Payload<B> {
    /// The rows.
    pub batch: Option<B>,
    /// What follows them.
    pub watermark: Option<EventTime>,
    /// The channel falls silent: it no longer holds the watermark back.
    pub idle: bool,
    /// It is not processed together with others: its rows are judged by when they came.
    pub is_alone: bool,
    /// All rows that were due when it was ingested came before it: that instant has come for who hears it.
    pub tells_time: bool,
    /// The way so far.
    pub stamps: Stamps,
    /// End of the window this is the result of.
    pub window_end: Option<EventTime>,
}

impl<B> Payload<B> {
    /// What the message that a table is to be looked at carries, or that an operator's time has come: nothing.
    pub fn look() -> Payload<B> {
        Payload {
            batch: None,
            watermark: None,
            idle: false,
            is_alone: true,
            tells_time: false,
            stamps: Stamps::default(),
            window_end: None,
        }
    }

    /// Whether it is one of those. No query counts it as in flight.
    pub fn is_look(&self) -> bool {
        self.batch.is_none() && self.watermark.is_none() && !self.idle && !self.tells_time
    }

    /// Whether the next of its channel may be processed together with it.
    pub fn goes_with(&self, next: &Payload<B>) -> bool {
        // Results of two windows are due at two times.
        let goes = |payload: &Payload<B>| !payload.idle && !payload.is_alone;
        goes(self) && goes(next) && self.window_end == next.window_end
    }
}

/// A message of a runtime.
pub type Parcel<C> = Message<Payload<<C as Content>::Batch>>;

/// A message for one target; who sends it counts it against its query.
pub(crate) fn parcel<C: Content>(
    to: OperatorId,
    channel: u32,
    progress: EventTime,
    payload: Payload<C::Batch>,
) -> Parcel<C> {
    let rows = payload.batch.as_ref().map_or(0, C::rows);
    let bytes = payload.batch.as_ref().map_or(0, C::bytes);
    Message { to, channel, progress, ingested: payload.stamps.ingested, rows, bytes, body: payload }
}
