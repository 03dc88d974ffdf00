use laxity_graph::{EventTime, OperatorId, ProcessingTime};

use crate::context::Channel;
use crate::mailbox::Mailbox;
use crate::{CostModel, Frontier, Message, QuerySpec, Scheduler, Selectivity};

/// A query and its operators, producers before consumers.
#[derive(Debug)]
pub(super) struct Query {
    pub spec: QuerySpec,
    pub operators: Vec<OperatorId>,
}

/// An operator instance: idle, ready or running.
///
/// Idle: no message, no resumption, not running. Ready: one of both, not running. Running: granted to one worker.
#[derive(Debug)]
pub(super) struct Operator<T> {
    pub unit: u32,
    pub running: bool,
    /// The last run left work that needs no message.
    pub resume: bool,
    pub mailbox: Mailbox<T>,
    /// The message being processed, over all grants it takes.
    pub run: Run,
    pub cost: CostModel,
    /// C_path.
    pub path_cost_ns: u64,
    /// What the operators above were last told: C_o + C_path.
    pub reply_ns: u64,
    pub target_ns: u64,
    pub weight: f64,
    /// S_d where messages may be deferred to the end of a window (TRANSFORM), 0 where they may not.
    pub deferring_slide_ms: i64,
    pub channels: Vec<Channel>,
    pub selectivity: Selectivity,
    pub query: u32,
    /// S_u as the operators below see it: the slide of the nearest window here or above.
    pub slide_ms: i64,
    pub upstream: Vec<OperatorId>,
    pub downstream: Vec<OperatorId>,
    /// The sources above a deferring operator.
    pub sources: Vec<OperatorId>,
    /// PROGRESSMAP of a source.
    pub frontier: Option<Box<Frontier>>,
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
    pub fn urgency(&self, inherits: bool) -> Option<f64> {
        let head = self.mailbox.head().map(|head| head.urgency);
        match (self.resume, head) {
            (true, Some(head)) if inherits => Some(head.min(self.run.urgency)),
            (true, _) => Some(self.run.urgency),
            (false, head) => head,
        }
    }

    /// A message is done: learn from it.
    pub fn observe_run(&mut self) {
        self.cost.observe(self.run.rows_in, self.run.cpu_ns);
        self.selectivity.observe(self.run.rows_in, self.run.rows_out);
    }
}

impl<T> Scheduler<T> {
    /// The channel as it is after `message`, and t_MF of the message.
    pub(super) fn frontier(&mut self, message: &Message<T>) -> (Channel, ProcessingTime) {
        let operator = self.operators[message.to.index()].as_mut().expect("looked up by the caller");
        let channel = message.channel as usize;
        if operator.channels.len() <= channel {
            operator.channels.resize(channel + 1, Channel::NEW);
        }
        let mut channel = operator.channels[channel];
        let slide_ms = operator.deferring_slide_ms;
        if slide_ms == 0 || self.composition.topology_only {
            return (channel, message.ingested);
        }
        let closes = channel.transform(message.progress, message.rows, slide_ms);
        let frontier = closes
            .and_then(|closes| self.progress_map(message.to, closes))
            .unwrap_or(message.ingested)
            .clamp(message.ingested, message.ingested.plus_ns(self.config.deferral_max_ns));
        (channel, frontier)
    }

    /// When all sources above will have reached `progress`; `None` while one of them cannot tell.
    fn progress_map(&self, id: OperatorId, progress: EventTime) -> Option<ProcessingTime> {
        let mut latest = None;
        for source in &self.operator(id)?.sources {
            let reached = self.operator(*source)?.frontier.as_ref()?.predict(progress)?;
            latest = latest.max(Some(reached));
        }
        latest
    }
}
