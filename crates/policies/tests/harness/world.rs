//! What happens in a run of the harness: each operation goes to the scheduler and to the model, and both must agree.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use laxity_graph::{EventTime, OperatorId, ProcessingTime, QueryId, WindowShape, WorkerId};
use laxity_sched::{Config, Message, OperatorSpec, QuerySpec, RunReport, Scheduler, Snapshot, Work};

use crate::model::{Facts, Model};
use crate::policies::Policy;

/// What can happen.
#[derive(Clone, Debug)]
pub enum Operation {
    /// A message reaches an operator from outside.
    Message { operator: u32, channel: u32, progress_step: i64, age_ns: u64, rows: u32 },
    /// A worker asks, unless it is busy.
    Next { worker: u32 },
    /// A busy worker is done and sends so many messages on.
    Finish { worker: u32, cpu_ns: u64, more: bool, sends: u32 },
    /// An idle worker gives back what it holds.
    Release { worker: u32 },
    /// Time goes by.
    Pass { ns: u64 },
    /// Another policy from now on: the composition of that number.
    Switch { composition: usize },
    /// The last query is removed.
    Remove { really: bool },
}

pub const QUERIES: u32 = 3;
const PER_QUERY: u32 = 4;
pub const WORKERS: u32 = 3;
pub const START_NS: u64 = 1_000_000;

/// Each query: 0 feeds 1 and 2, both feed 3. Targets differ by query.
fn upstream(operator: u32) -> Vec<u32> {
    let first = operator - operator % PER_QUERY;
    match operator % PER_QUERY {
        0 => vec![],
        3 => vec![first + 1, first + 2],
        _ => vec![first],
    }
}

/// The scheduler, the model beside it, and the truth about messages.
pub struct World {
    policy: Policy,
    scheduler: Scheduler<u64>,
    model: Option<Model>,
    now: ProcessingTime,
    sent: u64,
    /// Messages given and not yet granted or handed back, by operator and channel, in order.
    outstanding: BTreeMap<(u32, u32), Vec<u64>>,
    running: BTreeMap<u32, Running>,
    resumptions: BTreeSet<u32>,
    progress: i64,
    queries: u32,
    trace: String,
}

struct Running {
    operator: u32,
    rows: u32,
    /// Granted before the policy last changed.
    before_switch: bool,
}

impl World {
    pub fn new(policy: &Policy, seed: u64) -> World {
        World::beside(policy, seed, 0)
    }

    /// With so many queries more that never get a message.
    pub fn beside(policy: &Policy, seed: u64, idle: u32) -> World {
        let config = Config {
            workers: WORKERS as usize,
            quantum_ns: 4_000,
            quantum_max_ns: 0,
            seed,
            ageing_bound_ns: 60_000,
            mailbox_bytes_max: 2_000,
            ..Config::default()
        };
        let composition = policy.composition();
        let mut model = policy.is_predicted().then(|| Model::new(policy.oracle, &composition, &config));
        let windows = composition.topology_only || model.is_none();
        let mut scheduler = Scheduler::new(composition, config);
        for query in 0..QUERIES + idle {
            // No other target than those that have work, so that ranges over all stay.
            let target_ns = 10_000 * 10u64.pow(query % QUERIES);
            scheduler.add_query(QuerySpec { id: QueryId(query), target_ns, weight: 1.0, qos: None });
            for id in query * PER_QUERY..(query + 1) * PER_QUERY {
                // Where the model ranks, windows would need its own idea of the frontier.
                let window = WindowShape { size_ms: 100, slide_ms: 20, end_ms: Some(0) };
                scheduler.add_operator(OperatorSpec {
                    id: OperatorId(id),
                    query: QueryId(query),
                    upstream: upstream(id).into_iter().map(OperatorId).collect(),
                    window: (windows && id % PER_QUERY == 2).then_some(window),
                    channels: 2,
                });
                if let Some(model) = &mut model {
                    for above in upstream(id) {
                        model.operators.get_mut(&above).unwrap().downstream.push(id);
                    }
                    model.operators.entry(id).or_default().upstream = upstream(id);
                }
            }
        }
        World {
            policy: policy.clone(),
            scheduler,
            model,
            now: ProcessingTime(START_NS),
            sent: 0,
            outstanding: BTreeMap::new(),
            running: BTreeMap::new(),
            resumptions: BTreeSet::new(),
            progress: 0,
            queries: QUERIES,
            trace: String::new(),
        }
    }

    pub fn now(&self) -> ProcessingTime {
        self.now
    }

    pub fn snapshot(&self) -> Snapshot {
        self.scheduler.snapshot(self.now)
    }

    pub fn into_trace(self) -> String {
        self.trace
    }

    pub fn apply(&mut self, operation: &Operation) {
        match *operation {
            Operation::Message { operator, channel, progress_step, age_ns, rows } => {
                self.progress += progress_step.max(-20);
                self.message(operator, channel, age_ns, rows);
            }
            Operation::Next { worker } => self.next(worker),
            Operation::Finish { worker, cpu_ns, more, sends } => self.finish(worker, cpu_ns, more, sends),
            Operation::Release { worker } => {
                if !self.running.contains_key(&worker) {
                    let waits = self.scheduler.release(WorkerId(worker), self.now);
                    if let Some(model) = &mut self.model {
                        assert_eq!(waits, model.release(worker, self.now), "release of {worker}");
                    }
                }
            }
            Operation::Switch { composition } => {
                self.policy = Policy::composed(composition);
                self.model = None;
                self.running.values_mut().for_each(|running| running.before_switch = true);
                self.scheduler.set_policy(self.policy.composition(), self.now);
            }
            Operation::Pass { ns } => self.now = self.now.plus_ns(ns),
            Operation::Remove { really } => {
                if really {
                    self.remove();
                }
            }
        }
        self.check();
    }

    /// Runs everything to the end with workers that send nothing on.
    pub fn drain(&mut self) {
        for worker in 0..WORKERS {
            self.finish(worker, 10, false, 0);
        }
        loop {
            for worker in 0..WORKERS {
                self.next(worker);
            }
            if self.running.is_empty() {
                break;
            }
            for worker in 0..WORKERS {
                self.finish(worker, 10, false, 0);
            }
            self.check();
        }
        let left: usize = self.outstanding.values().map(Vec::len).sum();
        assert_eq!(left, 0, "{}: messages never granted: {:?}", self.policy.name, self.outstanding);
        assert!(self.resumptions.is_empty(), "{}: never resumed {:?}", self.policy.name, self.resumptions);
        assert_eq!(self.scheduler.ready_operators(), 0);
    }

    fn message(&mut self, operator: u32, channel: u32, age_ns: u64, rows: u32) {
        let id = self.sent;
        self.sent += 1;
        // Every seventh says nothing of progress, as a source without a watermark.
        let progress = if id % 7 == 6 { i64::MIN } else { self.progress };
        let ingested = ProcessingTime(self.now.0.saturating_sub(age_ns));
        let message = Message {
            to: OperatorId(operator),
            channel,
            progress: EventTime(progress),
            ingested,
            rows,
            bytes: u64::from(rows),
            body: id,
        };
        let alive = operator < self.queries * PER_QUERY;
        let expected = self.model.as_mut().map(|model| {
            let facts = Facts {
                id,
                channel,
                bytes: u64::from(rows),
                rows: u64::from(rows),
                progress,
                ingested: ingested.0,
                target_ns: 10_000 * 10u64.pow(operator / PER_QUERY),
                cost_ns: self.scheduler.cost_ns(OperatorId(operator), rows),
                path_cost_ns: self.scheduler.path_cost_ns(OperatorId(operator)),
            };
            model.message(operator, facts, self.now)
        });
        let wakes = self.scheduler.on_message(message, self.now);
        if let Some(expected) = expected {
            assert_eq!(wakes, expected, "{}: wake-up for message {id}", self.policy.name);
        }
        if alive {
            self.outstanding.entry((operator, channel)).or_default().push(id);
        } else {
            assert!(!wakes, "a removed operator woke a worker");
        }
    }

    fn next(&mut self, worker: u32) {
        if self.running.contains_key(&worker) {
            return;
        }
        let waiting = self.scheduler.waiting_units();
        let (scheduler, now) = (&self.scheduler, self.now);
        let expected = self.model.as_mut().map(|model| {
            model.cycle(now, || scheduler.snapshot(now));
            model.next(worker, now)
        });
        let Some(grant) = self.scheduler.next(WorkerId(worker), self.now) else {
            assert_eq!(waiting, 0, "{}: idle beside waiting work", self.policy.name);
            assert_eq!(expected.flatten(), None, "{}: the model has work", self.policy.name);
            return;
        };
        let operator = grant.operator.0;
        let busy = self.running.values().any(|running| running.operator == operator);
        assert!(!busy, "{}: operator {operator} runs twice", self.policy.name);
        if self.scheduler.composition().unit.is_query() {
            let beside = |running: &&Running| running.operator / PER_QUERY == operator / PER_QUERY;
            let beside = self.running.values().filter(|running| !running.before_switch).find(beside);
            assert!(beside.is_none(), "{}: one query on two workers", self.policy.name);
        }
        let (message, rows) = match grant.work {
            Work::Resume => {
                assert!(self.resumptions.remove(&operator), "{operator} had nothing to resume");
                (None, 0)
            }
            Work::Message { message, .. } => {
                assert!(!self.resumptions.contains(&operator), "{operator} must resume first");
                let queue = self.outstanding.get_mut(&(operator, message.channel)).expect("it was sent");
                assert_eq!(queue.remove(0), message.body, "{}: channel order", self.policy.name);
                (Some(message.body), message.rows)
            }
        };
        if let Some(expected) = expected {
            assert_eq!(Some((operator, message)), expected, "{}: pick at {:?}", self.policy.name, self.now);
        }
        writeln!(self.trace, "{} {worker} {operator} {message:?}", self.now.0).unwrap();
        self.running.insert(worker, Running { operator, rows, before_switch: false });
    }

    fn finish(&mut self, worker: u32, cpu_ns: u64, more: bool, sends: u32) {
        let Some(Running { operator, rows, .. }) = self.running.remove(&worker) else { return };
        let alive = operator < self.queries * PER_QUERY;
        for send in 0..sends {
            let below = match operator % PER_QUERY {
                0 => operator + 1 + send % 2,
                3 => break,
                place => operator - place + 3,
            };
            self.message(below, (operator + 1) % 2, 500, rows / 2);
        }
        if more && alive {
            self.resumptions.insert(operator);
        }
        let report = RunReport { rows_in: rows, rows_out: sends * (rows / 2), cpu_ns, more };
        if let Some(model) = &mut self.model {
            model.finished(worker, &report);
        }
        self.scheduler.on_finished(WorkerId(worker), report, self.now);
    }

    fn remove(&mut self) {
        let Some(last) = self.queries.checked_sub(1) else { return };
        self.queries = last;
        let operators: Vec<u32> = (last * PER_QUERY..(last + 1) * PER_QUERY).collect();
        let mut back: Vec<u64> =
            self.scheduler.remove_query(QueryId(last)).into_iter().map(|message| message.body).collect();
        let mut expected = Vec::new();
        for operator in &operators {
            self.resumptions.remove(operator);
            for channel in 0..2 {
                expected.extend(self.outstanding.remove(&(*operator, channel)).unwrap_or_default());
            }
        }
        back.sort_unstable();
        expected.sort_unstable();
        assert_eq!(back, expected, "{}: handed back", self.policy.name);
        if let Some(model) = &mut self.model {
            model.remove(&operators);
        }
    }

    fn check(&self) {
        let queued: usize =
            (0..QUERIES * PER_QUERY).map(|id| self.scheduler.queued_messages(OperatorId(id))).sum();
        assert_eq!(queued, self.outstanding.values().map(Vec::len).sum::<usize>());
        if let Some(model) = &self.model {
            assert_eq!(self.scheduler.waiting_units(), model.waiting(), "{}", self.policy.name);
            assert_eq!(self.scheduler.ready_operators(), model.ready(), "{}", self.policy.name);
        }
    }
}
