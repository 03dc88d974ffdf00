//! The state that is kept of every query and operator; the states and their meaning stand at `Operator`.

use laxity_graph::{EventTime, OperatorId, ProcessingTime, QueryId, WindowEnds, WindowShape};

use crate::context::Channel;
use crate::mailbox::Mailbox;
use crate::stream::Expected;
use crate::stream::Windows;
use crate::{By, CostModel, Frontier, Ladder, Message, Needs, QuerySpec, Scheduler, Selectivity};

/// A query and its operators, producers before consumers.
#[derive(Debug)]
pub(super) struct Query {
    pub spec: QuerySpec,
    pub operators: Vec<OperatorId>,
    /// `None` where it has no windows whose ends are known.
    pub windows: Option<Box<Windows>>,
    /// `None` until a step was taken.
    pub ladder: Option<Box<Ladder>>,
}

/// An operator instance: idle, ready or running.
///
/// Idle: no message, no resumption, not running. Ready: one of both, not running. Running: granted to one worker.
/// Blocked: has work, but a mailbox below is full.
///
/// Aligned, so that with many operators ready it costs the three cache lines it is long, not four.
#[derive(Debug)]
#[repr(align(64))]
pub(super) struct Operator<T> {
    pub unit: u32,
    pub query: QueryId,
    pub running: bool,
    pub blocked: bool,
    /// The last run left work that needs no message.
    pub resume: bool,
    /// Messages may be deferred to the end of a window: see [`Links::deferring_to`].
    pub defers: bool,
    pub mailbox: Mailbox<T>,
    /// The message being processed, over all grants it takes.
    pub run: Run,
    pub cost: CostModel,
    /// C_path.
    pub path_cost_ns: u64,
    /// What the operators above were last told: C_o + C_path.
    pub reply_ns: u64,
    pub target_ns: u64,
    pub weight: f32,
    pub selectivity: Selectivity,
    pub is_source: bool,
    /// The first input channel; most operators have no other.
    pub channel: Channel,
    /// What is not touched at every message.
    pub links: Box<Links>,
}

/// An operator's place in the graph.
#[derive(Debug)]
pub(super) struct Links {
    pub window: Option<WindowShape>,
    /// C_path of operators on other machines, as they last replied.
    pub remote_path_cost_ns: u64,
    /// S_u as the operators below see it: the slide of the nearest window here or above.
    pub slide_ms: i64,
    /// Input channels from the second on.
    pub channels: Vec<Channel>,
    pub upstream: Vec<OperatorId>,
    pub downstream: Vec<OperatorId>,
    /// Where messages may be deferred to the end of a window (TRANSFORM): when they end, S_d apart.
    pub deferring_to: Option<WindowEnds>,
    /// What TRANSFORM defers to here: `None` where the operator closes no window or is regular.
    pub window_ends: Option<WindowEnds>,
    /// The ends of what lies below, as far as rows here wait for them.
    pub on_the_way: Option<WindowEnds>,
    /// The sources above a deferring operator.
    pub sources: Vec<OperatorId>,
    /// PROGRESSMAP of a source.
    pub frontier: Frontier,
    /// A source whose watermarks close windows.
    pub feeds_windows: bool,
    /// Of such a source: when its watermark passes the next end, if that is known; `None` until somebody asks.
    pub expected: Option<Option<Expected>>,
    /// It closes windows, or an operator above it does.
    pub below_window: bool,
    /// Of a sink below windows: channel and progress of the message it works on, and how far each channel is.
    pub at: (u32, EventTime),
    pub sunk: Vec<EventTime>,
}

/// What makes an operator urgent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum UrgentBy {
    /// The message that it takes next.
    Head,
    /// The most urgent message that it has.
    Inherited,
    /// How much it has: rows, and each message as one more, so that a watermark alone is not nothing.
    Queue,
}

impl UrgentBy {
    pub fn of(needs: &Needs) -> UrgentBy {
        match (needs.by == By::Queue, needs.inherits) {
            (true, _) => UrgentBy::Queue,
            (false, true) => UrgentBy::Inherited,
            (false, false) => UrgentBy::Head,
        }
    }

    pub fn inherits(self) -> bool {
        self == UrgentBy::Inherited
    }
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Run {
    pub urgency: f64,
    pub rows_in: u32,
    pub rows_out: u32,
    pub cpu_ns: u64,
}

impl<T> Operator<T> {
    pub fn has_work(&self) -> bool {
        self.resume || !self.mailbox.is_empty()
    }

    /// Priority of what it would run next. A resumption has that of its message and, where urgency is
    /// inherited, of what waits behind it.
    #[inline]
    pub fn urgency(&self, by: UrgentBy) -> Option<f64> {
        if by == UrgentBy::Queue {
            return self.has_work().then(|| -((self.mailbox.rows() + self.mailbox.len() as u64) as f64));
        }
        let head = self.mailbox.head().map(|head| head.urgency);
        match (self.resume, head) {
            (true, Some(head)) if by == UrgentBy::Inherited => Some(head.min(self.run.urgency)),
            (true, _) => Some(self.run.urgency),
            (false, head) => head,
        }
    }

    pub fn channel_mut(&mut self, number: u32) -> &mut Channel {
        let Some(further) = (number as usize).checked_sub(1) else { return &mut self.channel };
        let channels = &mut self.links.channels;
        if channels.len() <= further {
            channels.resize(further + 1, Channel::NEW);
        }
        &mut channels[further]
    }

    /// A message is done: learn from it.
    pub fn observe_run(&mut self) {
        self.cost.observe(self.run.rows_in, self.run.cpu_ns);
        self.selectivity.observe(self.run.rows_in, self.run.rows_out);
    }
}

impl<T> Scheduler<T> {
    /// t_MF of a message.
    pub(super) fn frontier(&mut self, message: &Message<T>) -> ProcessingTime {
        let operator = self.operators[message.to.index()].as_mut().expect("looked up by the caller");
        if !operator.defers || self.composition.topology_only {
            return message.ingested;
        }
        let Some(ends) = operator.links.deferring_to else { return message.ingested };
        let bytes = operator.mailbox.bytes();
        let channel = operator.channel_mut(message.channel);
        let closes = channel.transform(message.progress, message.rows, ends);
        closes
            // Where the mailbox is half full, work that waits for a window's end would soon block those above.
            .filter(|_| bytes <= self.mailbox_bytes_low())
            .and_then(|closes| self.progress_map(message.to, closes))
            .unwrap_or(message.ingested)
            .clamp(message.ingested, message.ingested.plus_ns(self.config.deferral_max_ns))
    }

    /// When all sources above will have reached `progress`; `None` while one of them cannot tell.
    ///
    /// By PROGRESSMAP, a line through the rows seen; for a rank that awaits watermarks by the forecast of the one
    /// that passes, which knows how far watermarks are behind rows.
    fn progress_map(&mut self, id: OperatorId, progress: EventTime) -> Option<ProcessingTime> {
        let mut latest = None;
        for place in 0..self.operator(id)?.links.sources.len() {
            let source = self.operator(id)?.links.sources[place];
            let expected = if self.needs.forecasts { self.expected(source) } else { None };
            let reached = match expected {
                Some(expected) => expected.at(progress),
                None => self.operator(source)?.links.frontier.predict(progress)?,
            };
            latest = latest.max(Some(reached));
        }
        latest
    }
}

#[cfg(test)]
mod tests {
    use super::Operator;

    #[test]
    fn an_operator_is_three_cache_lines() {
        assert_eq!(size_of::<Option<Operator<u64>>>(), 3 * 64);
    }
}
