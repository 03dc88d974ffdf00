//! Cameo's context of a message, and its TRANSFORM: from a message's progress to the end of the window that it waits
//! for.

use laxity_graph::{EventTime, OperatorId, ProcessingTime, QueryId, WindowEnds, WindowShape};

use crate::{OperatorSnapshot, Snapshot};

/// What a rank may know of a message when it is enqueued: Cameo's priority context (§4.3), completed by the
/// estimates of the operator it goes to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MessageContext {
    /// The operator that must process it.
    pub operator: OperatorId,
    /// Its query.
    pub query: QueryId,
    /// It takes rows from outside: where a share of tokens is spent.
    pub is_source: bool,
    /// It was not made here: it came into a source, or from another machine.
    pub is_from_outside: bool,
    /// Now.
    pub now: ProcessingTime,
    /// t_M.
    pub ingested: ProcessingTime,
    /// t_MF: when the result it takes part in can be complete at the earliest, as predicted. Equal to t_M
    /// for a regular operator; never earlier.
    pub frontier: ProcessingTime,
    /// L: the latency target of the query.
    pub target_ns: u64,
    /// C_o(n): predicted CPU time of the message.
    pub cost_ns: u64,
    /// C_path(o): predicted CPU time from behind the operator to the sink.
    pub path_cost_ns: u64,
    /// Rows; 0 for a bare watermark.
    pub rows: u32,
    /// Importance of the query.
    pub weight: f64,
}

impl MessageContext {
    /// Of the message that the operator would take next; `None` where none waits.
    pub fn of_head(operator: &OperatorSnapshot, snapshot: &Snapshot) -> Option<MessageContext> {
        let head = operator.head?;
        let query = snapshot.query(operator.query)?;
        Some(MessageContext {
            operator: operator.id,
            query: operator.query,
            is_source: operator.upstream.is_empty(),
            is_from_outside: operator.upstream.is_empty(),
            now: snapshot.now,
            ingested: head.ingested,
            frontier: ProcessingTime(head.deadline.0.saturating_sub(query.target_ns)),
            target_ns: query.target_ns,
            cost_ns: operator.cost_ns(head.rows.into()) as u64,
            path_cost_ns: operator.path_cost_ns,
            rows: head.rows,
            weight: query.weight,
        })
    }

    /// When the result is due: t_MF + L.
    pub fn deadline(&self) -> ProcessingTime {
        self.frontier.plus_ns(self.target_ns)
    }
}

/// What the frontier logic remembers of one input channel.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Channel {
    /// Local priority of the last message, below which the next may not fall: channel order.
    pub local: i64,
    /// Furthest progress of its messages with rows.
    data: EventTime,
    /// Furthest progress of its bare watermarks.
    watermark: EventTime,
}

impl Channel {
    pub const NEW: Channel = Channel { local: i64::MIN, data: EventTime::MIN, watermark: EventTime::MIN };

    /// TRANSFORM: the progress at which the window that this message takes part in closes, or `None` if the
    /// message itself may close one and so must not wait.
    ///
    /// Deviates from Cameo §4.3 where a message *crosses* a window's end: read literally, the message that
    /// closes a window would be deferred to the end of the next one. A watermark w closes the windows that end at
    /// or before w + 1 (Flink). Bare watermarks and rows are followed apart, because rows run ahead of the
    /// watermark that closes their window.
    ///
    /// Deviates further in two ways. Between operators p_M is the watermark of the one above as it sent the message, where the
    /// paper's rows carry their own logical time. And whether a message closes a window is judged by its channel alone, so that of many
    /// channels the first to cross an end counts as closing it, as the last does. To count the last alone (a message
    /// that crosses while another channel is behind waits for the first end still open) was tried and gained nothing; no
    /// figures of it were kept. At .99 of one server deferring so is worse than not deferring at all: medians without are
    /// .65 to .77 of those with it (`cameo-7`).
    pub fn transform(&mut self, progress: EventTime, rows: u32, ends: WindowEnds) -> Option<EventTime> {
        let seen = if rows == 0 { &mut self.watermark } else { &mut self.data };
        let before = *seen;
        *seen = before.max(progress);
        if progress == EventTime::MIN || progress == EventTime::MAX {
            return None;
        }
        if before == EventTime::MIN || ends.passed(progress) > ends.passed(before) {
            return None;
        }
        ends.next(progress)
    }
}

/// The ends TRANSFORM works with: `None` where the operator is regular for messages of that upstream slide.
pub(crate) fn deferring_ends(window: Option<WindowShape>, upstream_slide_ms: i64) -> Option<WindowEnds> {
    window?.ends().filter(|ends| upstream_slide_ms < ends.every_ms())
}
