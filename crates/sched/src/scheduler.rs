//! The mechanism of every policy: what waits, who runs and what a grant is. What goes first is the policy's to say.

mod deferral;
mod exchange;
mod follow;
mod graph;
mod merge;
mod operator;
mod peek;
mod plans;
mod pressure;
mod questions;
mod ready;
mod shedding;
mod streams;
mod switch;
mod view;

use laxity_graph::{EventTime, OperatorId, ProcessingTime, QueryId, WorkerId};

use self::operator::{Operator, Query, UrgentBy};
use self::pressure::Pressure;
use self::ready::{Granted, Ready, Worker};
use self::view::View;
use crate::mailbox::{Mailbox, Queued};
use crate::{
    By, CallCost, Composition, Config, Event, Grant, Memory, Message, MessageContext, Needs, RemoteCost,
    RunReport, Shedder, Work,
};

/// Decides which worker runs which operator.
///
/// A driver calls it in this order, under one lock if several threads do:
///
/// 1. [`add_query`](Scheduler::add_query), then [`add_operator`](Scheduler::add_operator) from sources to sinks.
/// 2. Events: [`on_message`](Scheduler::on_message) for every batch or watermark that reaches an operator,
///    [`on_finished`](Scheduler::on_finished) after every grant was carried out. What a run sends on
///    is given by `on_message` before its `on_finished`.
/// 3. [`next`](Scheduler::next) says what a worker does. After `on_finished` the worker keeps its operator until
///    it calls `next`, so call it at once; a worker that stops for good calls [`release`](Scheduler::release).
/// 4. [`next_timeout`](Scheduler::next_timeout) says when to ask again although nothing happened.
///
/// ```
/// use laxity_graph::{EventTime, OperatorId, ProcessingTime, QueryId, WorkerId};
/// use laxity_sched::{CORE, Config, Message, OperatorSpec, QuerySpec, RunReport, Scheduler};
///
/// let mut scheduler = Scheduler::new(CORE.recipe("llf")?.compose(), Config::default());
/// scheduler.add_query(QuerySpec { id: QueryId(0), target_ns: 50_000_000, weight: 1.0, qos: None });
/// scheduler.add_operator(OperatorSpec {
///     id: OperatorId(0),
///     query: QueryId(0),
///     upstream: vec![],
///     window: None,
///     channels: 1,
/// });
/// let now = ProcessingTime(1_000);
/// let message = Message {
///     to: OperatorId(0),
///     channel: 0,
///     progress: EventTime(7),
///     ingested: now,
///     rows: 128,
///     bytes: 4_096,
///     body: "a batch",
/// };
/// assert!(scheduler.on_message(message, now), "a worker should wake");
/// let grant = scheduler.next(WorkerId(0), now).expect("the message is ready");
/// assert_eq!(grant.operator, OperatorId(0));
/// let report = RunReport { rows_in: 128, rows_out: 12, cpu_ns: 3_000, more: false };
/// scheduler.on_finished(WorkerId(0), report, ProcessingTime(4_000));
/// assert!(scheduler.next(WorkerId(0), ProcessingTime(4_000)).is_none());
/// # Ok::<(), laxity_sched::UnknownPolicy>(())
/// ```
///
/// # Invariants
/// - A message is in one mailbox, in one grant, or handed back by `remove_query`; never in two places.
/// - Messages of one channel are granted in the order given.
/// - An operator is idle, ready, running or blocked. It runs on one worker, and what comes meanwhile waits.
/// - `next` answers `None` only if no unit waits and the worker's own has nothing left.
/// - The same calls with the same seed give the same answers.
#[derive(Debug)]
pub struct Scheduler<T> {
    composition: Composition,
    config: Config,
    /// By query id; `None` once removed.
    queries: Vec<Option<Query>>,
    /// By operator id; `None` once removed.
    operators: Vec<Option<Operator<T>>>,
    ready: Ready,
    workers: Vec<Worker>,
    pressure: Pressure,
    /// What the rank declares.
    needs: Needs,
    urgent_by: UrgentBy,
    /// When the rank looks again, if it does.
    look_due: ProcessingTime,
    /// What it sees.
    view: View,
    memory: Memory,
    /// What other nodes said, by query and node.
    remote_costs: Vec<RemoteCost>,
    /// Which node this is, once it has reported.
    node: Option<u32>,
    /// What a grant costs beside its work.
    call: CallCost,
    /// `None` until a query allows it.
    shedder: Option<Box<Shedder>>,
    /// Operators that cycles have looked at.
    cycle_work: u64,
    /// The last time that was given.
    latest: ProcessingTime,
    /// Mailboxes that are empty and keep their memory: idle operators hold none.
    spare: Vec<Mailbox<T>>,
}

impl<T> Scheduler<T> {
    /// A scheduler without queries.
    pub fn new(mut composition: Composition, config: Config) -> Scheduler<T> {
        composition.rank.seed(config.seed);
        let needs = composition.rank.needs();
        Scheduler {
            needs,
            urgent_by: UrgentBy::of(&needs),
            ready: Ready::new(&needs, &config),
            workers: (0..config.workers).map(|_| Worker::default()).collect(),
            pressure: Pressure::default(),
            composition,
            config,
            queries: Vec::new(),
            operators: Vec::new(),
            look_due: ProcessingTime::ZERO,
            view: View::default(),
            memory: Memory::default(),
            remote_costs: Vec::new(),
            node: None,
            call: CallCost::default(),
            shedder: None,
            cycle_work: 0,
            latest: ProcessingTime::ZERO,
            spare: Vec::new(),
        }
    }

    /// A batch or a watermark reached an operator. True if a unit just became ready: wake a worker.
    ///
    /// A message to an operator that was removed is dropped. One to a source also feeds PROGRESSMAP, if its
    /// progress is known; where it is not before the source has run, see [`on_progress`](Scheduler::on_progress).
    pub fn on_message(&mut self, message: Message<T>, now: ProcessingTime) -> bool {
        self.receive(message, false, now)
    }

    /// As [`on_message`](Scheduler::on_message), of one that came from another machine.
    pub fn on_remote_message(&mut self, message: Message<T>, now: ProcessingTime) -> bool {
        self.receive(message, true, now)
    }

    #[inline]
    fn receive(&mut self, message: Message<T>, is_remote: bool, now: ProcessingTime) -> bool {
        let index = message.to.index();
        let Some(operator) = self.operators.get_mut(index).and_then(Option::as_mut) else {
            return false;
        };
        if operator.is_source {
            if let Some(shedder) = self.shedder.as_deref_mut().filter(|shedder| shedder.is_on()) {
                shedder.on_admitted(operator.query, message.ingested, now);
            }
            operator.links.frontier.observe(message.progress, message.ingested);
            if message.rows == 0 && operator.links.feeds_windows {
                self.on_watermark(message.to, message.progress, message.ingested);
            }
        }
        let frontier = self.frontier(&message);
        let operator = self.operators[index].as_mut().expect("looked up above");
        let context = MessageContext {
            operator: message.to,
            query: operator.query,
            is_source: operator.is_source,
            is_from_outside: operator.is_source || is_remote,
            now,
            ingested: message.ingested,
            frontier,
            target_ns: operator.target_ns,
            cost_ns: operator.cost.predict_ns(message.rows),
            path_cost_ns: operator.path_cost_ns,
            rows: message.rows,
            weight: f64::from(operator.weight),
        };
        let urgency = self.composition.rank.message(&context);
        debug_assert!(!urgency.is_nan(), "{context:?} was ranked NaN");
        let before = operator.urgency(self.urgent_by);
        if operator.mailbox.is_empty() && !operator.mailbox.has_memory() {
            operator.mailbox = self.spare.pop().unwrap_or_else(Mailbox::for_one);
        }
        // No progress yet says nothing of the order: such a message stays behind those that wait already.
        let last_local = operator.mailbox.last_local();
        let channel = operator.channel_mut(message.channel);
        let local = message.progress.0.max(channel.local);
        let local = if local == i64::MIN { last_local } else { local };
        channel.local = local;
        let deadline = context.deadline();
        self.view.touch(message.to);
        self.view.note_message(message.to, message.rows);
        let bytes = operator.mailbox.bytes();
        self.pressure.see(self.config.mailbox_bytes_max, bytes, bytes + message.bytes);
        operator
            .mailbox
            .push(Queued { message, enqueued: now, deadline, local, urgency }, self.urgent_by.inherits());
        if operator.running || operator.blocked {
            return false;
        }
        let after = operator.urgency(self.urgent_by);
        let unit = operator.unit;
        match before {
            None => self.became_ready(unit, now),
            Some(before) => {
                if after != Some(before) {
                    self.urgency_changed(unit);
                }
                false
            }
        }
    }

    /// A grant was carried out.
    pub fn on_finished(&mut self, worker: WorkerId, report: RunReport, now: ProcessingTime) {
        self.latest = now;
        let place = worker.index();
        let worker = &mut self.workers[place];
        let Some(id) = worker.running.take() else {
            debug_assert!(false, "{report:?} without a grant");
            return;
        };
        worker.rows += u64::from(report.rows_in);
        worker.cpu_ns += report.cpu_ns;
        if let Some(call) = &mut worker.last_call {
            call.cpu_ns += report.cpu_ns;
        }
        let Some(operator) = self.operators[id.index()].as_mut() else {
            worker.unit = None;
            return;
        };
        self.view.touch(id);
        let source_rows = if operator.is_source { report.rows_in } else { 0 };
        if let Some(shedder) = self.shedder.as_deref_mut().filter(|shedder| shedder.is_on()) {
            shedder.on_run(operator.query, source_rows, report.cpu_ns);
        }
        operator.running = false;
        operator.run.rows_in += report.rows_in;
        operator.run.rows_out += report.rows_out;
        operator.run.cpu_ns += report.cpu_ns;
        operator.resume = report.more;
        if !report.more {
            operator.observe_run();
        }
        let (query, unit, has_work) = (operator.query, operator.unit, operator.has_work());
        self.view.note_work(id, has_work);
        let ready = !self.block_if_downstream_is_full(id) && has_work;
        if self.needs.told.ran {
            let rests = !ready && self.ready.units[unit as usize].ready == 0;
            let cpu_ns = report.cpu_ns;
            self.composition.rank.on(Event::Ran { query, unit, rests, source_rows, cpu_ns });
        }
        if self.workers[place].unit == Some(unit) {
            let state = &mut self.ready.units[unit as usize];
            if ready {
                state.ready += 1;
            } else if state.ready == 0 {
                state.held = false;
                self.workers[place].unit = None;
            }
        } else if ready {
            // The policy changed under the run, and the unit is not this worker's any more.
            self.became_ready(unit, now);
        }
        if !report.more {
            self.reply(id);
            self.on_sunk(id);
        }
    }

    /// A source has reached `progress`, by rows ingested at `ingested`: what PROGRESSMAP learns from where
    /// the driver knows progress only once the source has run.
    pub fn on_progress(&mut self, source: OperatorId, progress: EventTime, ingested: ProcessingTime) {
        if self.operator(source).is_none() || self.on_watermark(source, progress, ingested) {
            // PROGRESSMAP is not asked where watermarks are forecast.
            return;
        }
        if let Some(operator) = self.operators[source.index()].as_mut() {
            operator.links.frontier.observe(progress, ingested);
        }
    }

    /// How many bytes queued rows and state occupy, and how many they may: what ranks by memory go by.
    pub fn on_memory(&mut self, used_bytes: u64, bound_bytes: u64) {
        self.memory = Memory { used_bytes, bound_bytes };
    }

    /// What this worker does now; `None` if nothing is ready for it.
    ///
    /// Taking a message out of a full mailbox may let blocked operators go on: where workers sleep, wake one
    /// while [`waiting_units`](Scheduler::waiting_units) is positive.
    pub fn next(&mut self, worker: WorkerId, now: ProcessingTime) -> Option<Grant<T>> {
        if self.workers.len() <= worker.index() {
            self.workers.resize_with(worker.index() + 1, Worker::default);
        }
        if self.needs.look_every_ns.is_some() {
            self.look(now);
        }
        let place = worker.index();
        if let Some(unit) = self.workers[place].unit {
            let state = self.ready.units[unit as usize];
            if state.ready == 0 || !state.held {
                self.workers[place].unit = None;
            } else if !self.train_is_over(place, now) {
                return Some(self.grant(place, unit, now));
            } else {
                return Some(self.swap(place, unit, now));
            }
        }
        let Some(unit) = self.ready.take(now) else {
            if let Some(shedder) = &mut self.shedder {
                shedder.on_rest();
            }
            if let Some(call) = &mut self.workers[place].last_call {
                call.rested = true;
            }
            return None;
        };
        let priority = self.ready.units[unit as usize].priority;
        self.take(place, unit, priority, now);
        Some(self.grant(place, unit, now))
    }

    /// When to call [`next`](Scheduler::next) again although nothing happened: the next cycle of a rank per
    /// cycle, the next review of one that reviews. `None` for the others.
    pub fn next_timeout(&self) -> Option<ProcessingTime> {
        self.needs.look_every_ns.map(|_| self.look_due)
    }

    /// The worker goes away without asking for more work; what it held may go to others. True if
    /// something now waits that no worker was woken for. Does nothing while the worker runs a grant.
    pub fn release(&mut self, worker: WorkerId, now: ProcessingTime) -> bool {
        let idle = self.workers.get_mut(worker.index()).filter(|worker| worker.running.is_none());
        let Some(worker) = idle else { return false };
        if let Some(call) = &mut worker.last_call {
            call.rested = true;
        }
        let Some(unit) = worker.unit.take() else { return false };
        let state = &mut self.ready.units[unit as usize];
        state.held = false;
        if state.ready == 0 {
            return false;
        }
        self.join(unit, now);
        true
    }

    /// The quantum is over: go on with `unit`, or put it back and take the more urgent one.
    fn swap(&mut self, place: usize, unit: u32, now: ProcessingTime) -> Grant<T> {
        let head = self.unit_urgency(unit);
        let priority = self.ready.priority(&mut *self.composition.rank, unit, head);
        let unit = match self.ready.swap(unit, priority, now) {
            Some(other) => {
                let priority = self.ready.units[other as usize].priority;
                self.take(place, other, priority, now);
                other
            }
            None => {
                self.tell_granted(unit, priority);
                unit
            }
        };
        self.grant(place, unit, now)
    }

    fn take(&mut self, place: usize, unit: u32, priority: f64, now: ProcessingTime) {
        self.tell_granted(unit, priority);
        self.ready.units[unit as usize].held = true;
        let budget = match self.composition.train {
            crate::Train::Fraction(fraction) => {
                let queued = self.unit_messages(unit) as f64;
                (queued * fraction).ceil() as u64
            }
            _ => 0,
        };
        self.workers[place].start(unit, budget, now);
    }

    fn grant(&mut self, place: usize, unit: u32, now: ProcessingTime) -> Grant<T> {
        let id = self.choose(place, unit, now);
        self.observe_call(place, id, now);
        self.view.touch(id);
        self.ready.units[unit as usize].ready -= 1;
        let worker = &mut self.workers[place];
        worker.running = Some(id);
        worker.messages += 1;
        let operator = self.operators[id.index()].as_mut().expect("a held unit has its operators");
        operator.running = true;
        if operator.resume {
            operator.resume = false;
            worker.granted = Granted::default();
            return Grant { operator: id, work: Work::Resume };
        }
        let bytes = operator.mailbox.bytes();
        let queued = operator.mailbox.pop().expect("a ready operator has a message or a resumption");
        self.pressure.see(self.config.mailbox_bytes_max, bytes, operator.mailbox.bytes());
        self.workers[place].granted =
            Granted { deadline: queued.deadline, channel: queued.message.channel, rows: queued.message.rows };
        if self.needs.told.started {
            let (query, source) = (operator.query, operator.is_source.then_some(id));
            let ingested = queued.message.ingested;
            self.composition.rank.on(Event::Started { query, source, ingested });
        }
        operator.takes(&queued.message);
        operator.run = operator::Run { urgency: queued.urgency, rows_in: 0, rows_out: 0, cpu_ns: 0 };
        if operator.mailbox.is_empty() {
            let emptied = std::mem::take(&mut operator.mailbox);
            let kept_max = if emptied.is_for_one() { SPARE_FOR_ONE_MAX } else { SPARE_MAX };
            if emptied.is_small() && self.spare.len() < kept_max {
                self.spare.push(emptied);
            }
        }
        self.unblock_upstream(id, now);
        Grant { operator: id, work: Work::Message { message: queued.message, enqueued: queued.enqueued } }
    }

    #[inline]
    fn tell_granted(&mut self, unit: u32, priority: f64) {
        if self.needs.told.granted {
            self.composition.rank.on(Event::Granted { unit, priority });
        }
    }

    fn became_ready(&mut self, unit: u32, now: ProcessingTime) -> bool {
        let state = &mut self.ready.units[unit as usize];
        state.ready += 1;
        if state.held {
            return false;
        }
        if state.ready == 1 {
            self.join(unit, now);
            return true;
        }
        self.urgency_changed(unit);
        false
    }

    fn join(&mut self, unit: u32, now: ProcessingTime) {
        let head = self.unit_urgency(unit);
        let priority = self.ready.priority(&mut *self.composition.rank, unit, head);
        self.ready.join(unit, priority, now);
    }

    /// Asks the rank anew for the priority of every waiting unit.
    fn join_again(&mut self) {
        for unit in 0..self.ready.units.len() as u32 {
            self.urgency_changed(unit);
        }
    }

    fn urgency_changed(&mut self, unit: u32) {
        if self.ready.queue.contains(unit) {
            let head = self.unit_urgency(unit);
            let priority = self.ready.priority(&mut *self.composition.rank, unit, head);
            self.ready.update(unit, priority);
        }
    }

    /// Has the rank look at everything, if that is due.
    fn look(&mut self, now: ProcessingTime) {
        let Some(every_ns) = self.needs.look_every_ns else { return };
        if now < self.look_due {
            return;
        }
        if self.needs.by == By::Cycle || self.needs.reads.watermarks {
            self.refresh_view(now);
        } else {
            // Whoever only reviews says if he reads watermarks: of every query they are dear to bring up to date.
            self.refresh_for_review(now);
        }
        let (rank, snapshot) = (&mut *self.composition.rank, &self.view.snapshot);
        let operators = snapshot.operators.len() as u64;
        if self.needs.by == By::Cycle {
            let cycled = rank.cycle(snapshot, &mut self.ready.priorities);
            self.cycle_work += cycled.looked_at.unwrap_or(operators);
            match cycled.moved {
                Some(units) => self.ready.rekey_some(units),
                None => self.ready.rekey(),
            }
        } else if rank.review(snapshot) {
            self.join_again();
        }
        for query in self.composition.rank.standing_back() {
            if let Some(query) = self.queries.get_mut(query.index()).and_then(Option::as_mut) {
                query.ladder.get_or_insert_default().stood_back.see(now);
            }
        }
        self.view.seen();
        let every_ns = every_ns.max(self.needs.look_ns_per_operator * operators);
        self.look_due = now.plus_ns(every_ns.max(1));
    }
}

/// Empty mailboxes kept: about as many as are filled between two rests of a busy process. Picked.
const SPARE_MAX: usize = 256;

/// Of those for one message, as many as a crowd fills at once, where thousands of tables have a row at the same instant; two
/// megabytes. Given back and taken again every second, they would be pages that the system clears every second. Picked.
const SPARE_FOR_ONE_MAX: usize = 8_192;

impl<T> Scheduler<T> {
    /// The ids that a caller may ask about.
    fn operator(&self, id: OperatorId) -> Option<&Operator<T>> {
        self.operators.get(id.index())?.as_ref()
    }

    fn query(&self, id: QueryId) -> Option<&Query> {
        self.queries.get(id.index())?.as_ref()
    }
}
