//! The engine in one thread: what threads do at once there are single steps here, in random order, with checks on the
//! way. Cannot catch: what only the order of memory between real threads brings about.

mod checkpoints;
mod ends;

use std::cell::Cell;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use laxity_graph::{
    Dataflow, Input, LatencyTarget, Node, NodeId, OperatorId, Partitioning, ProcessingTime, QosCurve,
    QueryId, QuerySettings, WorkerId,
};
use laxity_runtime::{
    Blueprint, Clock, Given, InFlight, Instance, Intake, IntakeContext, LateWay, Outcome, Outlet, Parcel,
    Payload, Position, Process, Promise, Query, Reader, Registry, Reserved, Retiring, Rhythm, Role,
    RunContext, Split, Step, Taken, Template, Visited, Work as DoneByOthers, Write, Written, expand,
};
use laxity_sched::{Config, Grant, OperatorSpec, QuerySpec, Relief, RunReport, Shards, Stamps, Work};
use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg32;

use super::numbers::{Counting, Every, Fickle, Numbers, Pass, Rest};

const WORKERS: u32 = 3;
const AT_ONCE: usize = 10;
const CREDIT_BYTES: u64 = 4_000;
const BACKLOG_BYTES: u64 = 3_000;

/// Everything between tables and outputs, and what has come out.
pub struct World {
    now: Ticking,
    random: Pcg32,
    process: Arc<Process>,
    registry: Registry<Numbers, OperatorId>,
    shards: Shards<Payload<Vec<u64>>>,
    /// By operator.
    instances: BTreeMap<OperatorId, Arc<Instance<Numbers>>>,
    tables: BTreeMap<OperatorId, Table>,
    workers: Vec<Option<Running>>,
    /// By outlet's number: writes that wait for it.
    outputs: BTreeMap<usize, Output>,
    next_outlet: usize,
    retiring: Vec<(QueryId, Retiring<Numbers, OperatorId>)>,
    /// Are to be taken out of these tables, and have so long to work off what they have.
    draining: Vec<(Arc<Query>, Vec<OperatorId>, ProcessingTime)>,
    /// Copies that are being opened.
    splits: Vec<(Split<Numbers>, Fickle)>,
    living: Vec<QueryId>,
    ended: Vec<QueryId>,
    names: u64,
    held: Vec<Still>,
    /// What was saved of queries of a template that are to come back.
    saved: Vec<Saved>,
    /// Queries that may be one of a template.
    of_template: Vec<QueryId>,
    pub seen: Seen,
}

/// A query that is held, and what it had been given by then.
struct Still {
    query: QueryId,
    /// `None` until it is in its operators, of one that reads with others.
    rows_given: Option<u64>,
    /// What others hold for it who do its work, or else its own operators.
    held: Vec<u64>,
    /// Of one that reads with others: where it stood.
    saved: Option<(Position, Taken<Numbers>)>,
    is_as_one: bool,
    /// What its output held once it was drained.
    count: Option<u64>,
    /// What others had written when it was held.
    of_others: u64,
}

/// A query as it was saved.
#[derive(Clone)]
struct Saved {
    position: Position,
    taken: Taken<Numbers>,
    held: Vec<u64>,
    /// What had come out.
    out: Vec<Option<u64>>,
    first: Option<u64>,
    count: u64,
}

/// How often what happened.
#[derive(Debug, Default)]
pub struct Seen {
    pub submitted: u64,
    pub refused: u64,
    pub joined: u64,
    pub drained: u64,
    pub dropped: u64,
    pub altered: u64,
    pub given_a_curve: u64,
    pub tables_failed: u64,
    pub waited: u64,
    pub brought: u64,
    pub failed: u64,
    pub finished: u64,
    pub went_while_running: u64,
    pub went_while_resuming: u64,
    pub split: u64,
    pub ended_while_split: u64,
    pub done_as_one: u64,
    pub relieved: u64,
    pub held: u64,
    pub held_with_others: u64,
    pub drained_while_held: u64,
    pub stopped_while_held: u64,
    pub others_went_on: u64,
    pub held_as_one: u64,
    pub saved: u64,
    pub saved_as_one: u64,
    pub restored: u64,
    pub restored_as_one: u64,
    pub restored_with_windows: u64,
}

struct Table {
    query: QueryId,
    intake: Intake<Numbers>,
    feed: Fickle,
    look: Option<ProcessingTime>,
}

/// A run that is over and not reported.
struct Running {
    operator: OperatorId,
    of: Option<QueryId>,
    report: RunReport,
    staged: Vec<Parcel<Numbers>>,
    look: Option<(OperatorId, ProcessingTime)>,
}

struct Output {
    outlet: Arc<Outlet>,
    writes: VecDeque<Write<Numbers>>,
    /// Nobody takes anything until then.
    stalled: ProcessingTime,
    /// By instance that wrote (its numbers are alike modulo so many), the last number out.
    out: Vec<Option<u64>>,
    first: Option<u64>,
    count: u64,
    is_closed: bool,
}

struct Ticking(Cell<u64>);

impl Clock for Ticking {
    fn now(&self) -> ProcessingTime {
        self.0.set(self.0.get() + 200);
        ProcessingTime(self.0.get())
    }
}

/// One source, one to three instances, one sink.
struct Parts<'a> {
    query: &'a Arc<Query>,
    outlet: Arc<Outlet>,
    fails_at: Option<u64>,
    cannot_be: bool,
    windows: Option<Every>,
}

impl Blueprint<Role> for Parts<'_> {
    type Content = Numbers;
    type Error = ();

    fn role(&self, role: &Role) -> Role {
        *role
    }

    fn operator(&mut self, _: NodeId, role: &Role, _: usize, _: usize) -> Result<Pass, ()> {
        if self.cannot_be {
            return Err(());
        }
        let fails_at = self.fails_at.filter(|_| *role == Role::Operator);
        let windows = self.windows.filter(|_| *role == Role::Operator);
        Ok(Pass { fails_at, left: Vec::new(), ended: false, windows })
    }

    fn outlet(&mut self, _: NodeId, _: &Role, _: usize) -> Result<Arc<Outlet>, ()> {
        assert!(Arc::ptr_eq(&self.outlet.query, self.query));
        Ok(self.outlet.clone())
    }

    fn late(&mut self, _: NodeId, _: usize) -> Result<Option<LateWay<Numbers>>, ()> {
        Ok(None)
    }

    fn partitioner(&mut self, _: &[usize], targets: usize) -> u64 {
        targets as u64
    }
}

fn flow(settings: QuerySettings, parallelism: usize) -> Dataflow<Role> {
    let mut flow = Dataflow::new(settings);
    let node =
        |parallelism, inputs, stage| Node { name: "n".into(), parallelism, inputs, window: None, stage };
    let source = flow.push(node(1, vec![], Role::Source)).unwrap();
    let by_key = vec![Input { from: source, partitioning: Partitioning::Hash(vec![0]) }];
    let middle = flow.push(node(parallelism, by_key, Role::Operator)).unwrap();
    let all = vec![Input { from: middle, partitioning: Partitioning::Gather }];
    flow.push(node(1, all, Role::Sink)).unwrap();
    flow
}

impl World {
    pub fn new(policy: &str, shards: usize, seed: u64) -> World {
        let policy = policy.to_owned();
        let config = Config { workers: WORKERS as usize, quantum_ns: 1_000, seed, ..Config::default() };
        World {
            now: Ticking(Cell::new(1_000)),
            random: Pcg32::seed_from_u64(seed),
            process: Arc::new(Process::new(1 << 40, CREDIT_BYTES)),
            registry: Registry::default(),
            shards: Shards::new(shards, shards, 1, &laxity_policies::recipe(&policy).unwrap(), &config),
            instances: BTreeMap::new(),
            tables: BTreeMap::new(),
            workers: (0..WORKERS).map(|_| None).collect(),
            outputs: BTreeMap::new(),
            next_outlet: 0,
            retiring: Vec::new(),
            draining: Vec::new(),
            splits: Vec::new(),
            living: Vec::new(),
            ended: Vec::new(),
            names: 0,
            held: Vec::new(),
            saved: Vec::new(),
            of_template: Vec::new(),
            seen: Seen::default(),
        }
    }

    /// One thing happens.
    pub fn step(&mut self) {
        let pick = self.random.next_u32() as usize;
        let query = (!self.living.is_empty()).then(|| self.living[pick % self.living.len()]);
        match (self.random.next_u32() % 1_000, query) {
            (0..=19, _) if self.living.len() < AT_ONCE => self.submit(),
            (20..=23, Some(query)) => self.cancel(query, true),
            (24..=27, Some(query)) => self.cancel(query, false),
            (28..=34, Some(query)) => self.alter(query),
            (35..=74, _) => self.retire_some(),
            (75..=84, _) => self.forget_one(pick),
            (85..=86, _) => self.stall(pick),
            (400..=401, _) => self.open_split(),
            (402..=412, Some(query)) => self.hold(query),
            (413..=440, _) => self.look_at_held(pick),
            (441, _) => self.restore(),
            (442..=443, _) => self.bring(pick),
            (87..=109, _) => {
                self.now.0.set(self.now.0.get() + u64::from(self.random.next_u32() % 1_000_000));
            }
            (110..=399, _) => self.write(pick),
            _ => self.work(pick % WORKERS as usize),
        }
    }

    fn submit(&mut self) {
        // Names come again, so some are taken.
        let name = format!("q{}", self.random.next_u32() % (8 * AT_ONCE as u32));
        let mut settings = QuerySettings::named(name.clone());
        let ns = 1_000_000 << (self.random.next_u32() % 8);
        settings.latency_target = LatencyTarget::new(Duration::from_nanos(ns)).unwrap();
        let parallelism = [1, 1, 1, 1, 2, 3][self.random.next_u32() as usize % 6];
        let Some(reserved) = self.registry.reserve(&name, 1 + parallelism as u32) else {
            self.seen.refused += 1;
            return;
        };
        // Takes rows by itself, or with others, at once or when a window of so many numbers ends.
        let way = self.random.next_u32() % 8;
        // Of one output it may be done as one with others.
        let windows = (1..=5).contains(&way) && parallelism == 1;
        let Some((query, outlet, source)) = self.make(&reserved, settings, parallelism, windows, None) else {
            return;
        };
        let now = self.now.now();
        let reader = Reader::new(query.clone(), source, None, false, now);
        let reader = match way {
            0 => reader.sharing(Rest::ALL, Rhythm::Rows),
            1..=5 if windows => of_template(reader, outlet),
            1..=5 => reader.sharing(Rest::ALL, super::windows_of(20, 60)),
            _ => reader,
        };
        self.read(&query, reader, now);
    }

    /// The parts of a query, its output and its source; with what was saved of it, if it is restored.
    fn make(
        &mut self,
        reserved: &Reserved,
        settings: QuerySettings,
        parallelism: usize,
        windows: bool,
        saved: Option<&Saved>,
    ) -> Option<(Arc<Query>, Arc<Outlet>, OperatorId)> {
        let query = Arc::new(Query::new(reserved.id, settings.clone(), 1, self.process.clone()));
        let number = self.next_outlet;
        let outlet = Arc::new(Outlet::new(query.clone(), number, parallelism, true, false));
        let fails_at =
            (self.random.next_u32().is_multiple_of(6)).then(|| u64::from(self.random.next_u32() % 500));
        let cannot_be = saved.is_none() && self.random.next_u32().is_multiple_of(10);
        let windows = windows.then_some(Every(20));
        let mut parts = Parts { query: &query, outlet: outlet.clone(), fails_at, cannot_be, windows };
        let made = expand(&flow(settings, parallelism), &query, reserved.first, false, &mut parts);
        let Ok(expanded) = made else {
            self.registry.withdraw(reserved);
            self.seen.refused += 1;
            return None;
        };
        self.next_outlet += 1;
        self.names += 1;
        self.outputs.insert(
            number,
            Output {
                outlet: outlet.clone(),
                writes: VecDeque::new(),
                stalled: ProcessingTime::ZERO,
                out: saved.map_or_else(|| vec![None; parallelism], |saved| saved.out.clone()),
                first: saved.and_then(|saved| saved.first),
                count: saved.map_or(0, |saved| saved.count),
                is_closed: false,
            },
        );
        for instance in &expanded.instances {
            assert!(self.instances.insert(instance.id, instance.clone()).is_none(), "the id is in use");
            if let Some(saved) = saved.filter(|_| instance.node == 1) {
                let mut state = instance.save().unwrap();
                state.operator = saved.held.clone();
                assert!(instance.restore(state).unwrap().is_empty());
            }
        }
        self.registry.enter(reserved, query.clone(), expanded.instances, expanded.outlets);
        self.shards.add_query(query.spec(), &expanded.operators);
        self.living.push(query.id);
        self.of_template.extend(windows.map(|_| query.id));
        self.seen.submitted += 1;
        Some((query, outlet, expanded.sources[0].operator))
    }

    /// Joins a table that is read, or opens one.
    fn read(&mut self, query: &Arc<Query>, reader: Reader<Numbers>, now: ProcessingTime) {
        let open: Vec<OperatorId> = self.tables.keys().copied().collect();
        // The older a table, the more read it.
        let bound = 1 + self.random.next_u32() as usize % (open.len() + 2);
        let reader = match open.get(self.random.next_u32() as usize % bound) {
            Some(id) => {
                let table = self.tables.get_mut(id).unwrap();
                match table.intake.join(reader) {
                    Some(reader) => reader,
                    None => {
                        assert!(self.registry.reads(query.id, *id));
                        table.look = Some(now);
                        let seated = table.intake.take_seated();
                        self.relieve(seated);
                        self.seen.joined += 1;
                        return;
                    }
                }
            }
            None => reader,
        };
        let endless = !self.random.next_u32().is_multiple_of(4);
        let mut feed = Fickle::new(Counting {
            start: now,
            next: 0,
            end: if endless { u64::MAX } else { u64::from(self.random.next_u32() % 500) },
            gap_ns: 100_000 << (self.random.next_u32() % 5),
            at_once: 1 + u64::from(self.random.next_u32() % 40),
        });
        let fails = self.random.next_u32().is_multiple_of(16);
        feed.fails_at = fails.then(|| u64::from(self.random.next_u32() % 1_000));
        if self.random.next_u32().is_multiple_of(8) {
            feed.there = u64::from(self.random.next_u32() % 100);
        }
        let id = self.registry.table_id();
        self.open(id, Intake::new(id, vec![reader]), feed, now);
        assert!(self.registry.reads(query.id, id));
    }

    /// Others do the work of these: they need no operators.
    fn relieve(&mut self, seated: Vec<QueryId>) {
        for query in seated {
            let instances = self.registry.relieve(query);
            assert!(self.shards.remove_query(query).is_empty(), "{query} had rows before it was seated");
            if let Some(still) = self.held.iter_mut().find(|still| still.query == query) {
                // It has told how far it was before others took its work over.
                still.held = instances.iter().flat_map(|i| i.save().unwrap().operator).collect();
                still.is_as_one = true;
            }
            for instance in &instances {
                // What was restored of it has been taken over.
                let _ = instance.clear();
                self.instances.remove(&instance.id);
            }
            self.registry.give_back(&instances);
            self.seen.relieved += 1;
        }
    }

    fn open(&mut self, id: OperatorId, intake: Intake<Numbers>, feed: Fickle, now: ProcessingTime) {
        let query = self.registry.query_id();
        let spec = QuerySpec { id: query, target_ns: intake.target_ns() / 2, weight: 1.0, qos: None };
        let operator = OperatorSpec { id, query, upstream: Vec::new(), window: None, channels: 1 };
        self.shards.add_query(spec, &[operator]);
        assert!(self.tables.insert(id, Table { query, intake, feed, look: Some(now) }).is_none());
    }

    fn close(&mut self, id: OperatorId) {
        // Who found out first has closed it.
        if let Some(table) = self.tables.remove(&id) {
            self.shards.remove_query(table.query);
            self.registry.give_back_table_id(id);
        }
    }

    fn alter(&mut self, id: QueryId) {
        let entry = self.registry.get(id).unwrap();
        if entry.query.stopped() {
            return;
        }
        let ns = 1_000_000 << (self.random.next_u32() % 8);
        let latency_target = LatencyTarget::new(Duration::from_nanos(ns)).unwrap();
        let latencies = [(Duration::from_nanos(ns / 2), 1.0), (Duration::from_nanos(2 * ns), 0.0)];
        let qos = self.random.next_u32().is_multiple_of(2).then(|| QosCurve::new(latencies).unwrap());
        self.seen.given_a_curve += u64::from(qos.is_some());
        let weight = f64::from(1 + self.random.next_u32() % 8) / 2.0;
        entry.query.alter(Promise { latency_target, qos, weight });
        let now = self.now.now();
        self.shards.alter_query(entry.query.spec(), now);
        for id in entry.tables().to_vec() {
            self.retarget(id, now);
        }
        self.seen.altered += 1;
    }

    fn retarget(&mut self, id: OperatorId, now: ProcessingTime) {
        if let Some(table) = self.tables.get_mut(&id) {
            table.intake.space();
            let target_ns = table.intake.target_ns() / 2;
            self.shards.alter_query(QuerySpec { id: table.query, target_ns, weight: 1.0, qos: None }, now);
        }
    }

    fn stall(&mut self, pick: usize) {
        let until = self.now.now().plus_ns(u64::from(self.random.next_u32() % 20_000_000));
        let place = pick % self.outputs.len().max(1);
        if let Some(output) = self.outputs.values_mut().nth(place) {
            output.stalled = until;
        }
    }

    /// What a table waited for is there.
    fn bring(&mut self, pick: usize) {
        let waiting = || self.tables.iter().filter(|(_, table)| table.feed.is_waiting).map(|(&id, _)| id);
        let place = pick % waiting().count().max(1);
        let Some(id) = waiting().nth(place) else { return };
        self.tables.get_mut(&id).unwrap().feed.bring();
        self.wake(vec![id]);
        self.seen.brought += 1;
    }

    /// One write of one output.
    fn write(&mut self, pick: usize) {
        let now = self.now.now();
        let place = pick % self.outputs.len().max(1);
        let Some((&number, output)) = self.outputs.iter_mut().nth(place) else { return };
        if now < output.stalled {
            return;
        }
        let Some(Write { outlet, what }) = output.writes.pop_front() else {
            if output.is_closed && output.outlet.query.drained() {
                self.outputs.remove(&number);
            }
            return;
        };
        let held = what.in_flight();
        match what {
            Written::Rows { batch, rows, stamps, window_end, ready, .. } => {
                if !outlet.query.failed() {
                    output.take(&batch);
                    outlet.count(rows, &stamps, window_end, ready, now);
                }
                outlet.written(&stamps);
            }
            Written::End => {
                if outlet.end_channel() {
                    output.is_closed = true;
                    outlet.closed();
                }
            }
        }
        if outlet.query.release(held) {
            self.wake(outlet.query.wake());
        }
    }

    fn wake(&mut self, tables: Vec<OperatorId>) {
        let now = self.now.now();
        for id in tables {
            if let Some(table) = self.tables.get_mut(&id) {
                table.look = Some(now);
            }
        }
    }

    /// A worker reports what it ran, or takes the next.
    fn work(&mut self, worker: usize) {
        let now = self.now.now();
        let id = WorkerId(worker as u32);
        if let Some(Running { mut staged, report, look, .. }) = self.workers[worker].take() {
            for message in staged.drain(..) {
                self.enqueue(message, now);
            }
            if let Some((table, at)) = look
                && let Some(table) = self.tables.get_mut(&table)
            {
                table.look = Some(at);
            }
            self.shards.on_finished(id, report, now);
            return;
        }
        let due: Vec<OperatorId> = self
            .tables
            .iter_mut()
            .filter_map(|(&id, table)| table.look.take_if(|at| *at <= now).map(|_| id))
            .collect();
        for table in due {
            self.shards.on_message(look(table, now), now);
        }
        let Some(Grant { operator, work }) = self.shards.next(id, now) else { return };
        let instance = self.instances.get(&operator).map(|instance| instance.query.id);
        let of = instance.or_else(|| self.tables.get(&operator).map(|table| table.query));
        // One that went while it ran may have had the same id, but was not of that query.
        let twice =
            self.workers.iter().flatten().any(|running| running.operator == operator && running.of == of);
        assert!(!twice || of.is_none(), "{operator} runs twice");
        self.workers[worker] = Some(match self.instances.get(&operator) {
            Some(instance) => {
                let instance = instance.clone();
                self.run(&instance, work)
            }
            None => self.look_at(operator),
        });
    }

    fn run(&mut self, instance: &Arc<Instance<Numbers>>, work: Work<Payload<Vec<u64>>>) -> Running {
        let (mut staged, mut merged, mut writes) = (Vec::new(), Vec::new(), Vec::new());
        let mut context = RunContext {
            clock: &self.now,
            quantum_ns: 100,
            merged: &mut merged,
            staged: &mut staged,
            writes: &mut writes,
            operator_ns: 0,
        };
        let run = instance.run(work, &mut context);
        self.take(writes);
        if run.returned_credit {
            self.wake(instance.query.wake());
        }
        let of = Some(instance.query.id);
        Running { operator: instance.id, of, report: run.report, staged, look: None }
    }

    fn take(&mut self, writes: Vec<Write<Numbers>>) {
        for write in writes {
            match self.outputs.get_mut(&write.outlet.number) {
                Some(output) => output.writes.push_back(write),
                None => {
                    let _ = write.outlet.query.release(write.what.in_flight());
                }
            }
        }
    }

    fn look_at(&mut self, id: OperatorId) -> Running {
        let (mut staged, mut writes) = (Vec::new(), Vec::new());
        let idle = RunReport::default();
        let Some(Table { query, intake, feed, .. }) = self.tables.get_mut(&id) else {
            return Running { operator: id, of: None, report: idle, staged, look: None };
        };
        let of = Some(*query);
        for Reader { query, .. } in intake.readers() {
            let is_leaving = self.draining.iter().any(|(leaving, ..)| Arc::ptr_eq(leaving, query));
            let reads = query.stopped() || is_leaving || self.registry.takes_in(query.id);
            assert!(reads, "{} still reads", query.id);
            assert!(!self.registry.is_gone(query.id), "{} reads and is gone", query.id);
        }
        let mut context = IntakeContext {
            clock: &self.now,
            quantum_ns: 100_000,
            unix_start_ms: 0,
            load: f64::from(self.random.next_u32() % 100) / 100.0,
            backlog_bytes: BACKLOG_BYTES,
            memory: &self.process.memory,
            relief: |_, _, _| Relief::default(),
            staged: &mut staged,
            writes: &mut writes,
        };
        let (step, split) = intake.attend(feed, &mut context);
        // Of restored ones, as the table comes to where they were.
        let seated = intake.take_seated();
        self.seen.tables_failed += u64::from(feed.has_failed);
        self.seen.waited += u64::from(feed.is_waiting && step == Step::Waiting(None));
        self.seen.restored_as_one += seated.len() as u64;
        self.seen.done_as_one += writes.len() as u64;
        self.relieve(seated);
        self.take(writes);
        if let Some(split) = split {
            let of = &self.tables[&id].feed;
            let feed = of.copy_from(split.position.rows);
            self.splits.push((split, feed));
            let now = self.now.now();
            self.retarget(id, now);
        }
        let look = match step {
            Step::At { at, .. } | Step::Amid { at, .. } | Step::Held(at) | Step::Waiting(Some(at)) => {
                Some((id, at))
            }
            Step::Waiting(None) => None,
            Step::Done => {
                self.close(id);
                None
            }
        };
        Running { operator: id, of, report: idle, staged, look }
    }

    /// A copy is open. Those it is for may have ended since, or read nothing more.
    fn open_split(&mut self) {
        let Some((split, feed)) = self.splits.pop() else { return };
        self.seen.split += 1;
        let now = self.now.now();
        let copy = self.registry.table_id();
        let readers: Vec<Arc<Query>> = split.readers().map(|reader| reader.query.clone()).collect();
        let mut intake = Intake::of_split(copy, split);
        for query in readers {
            if !self.registry.reads(query.id, copy) {
                self.seen.ended_while_split += 1;
                intake.leave(&query, &self.process.memory);
            }
        }
        self.open(copy, intake, feed, now);
    }

    fn enqueue(&mut self, message: Parcel<Numbers>, now: ProcessingTime) {
        if self.instances.contains_key(&message.to) {
            self.shards.on_message(message, now);
        } else {
            let query = self.registry.owner(message.to).expect("what is on its way keeps its query known");
            let _ = query.release(InFlight::one(message.rows, message.bytes));
        }
    }

    /// Ends everything, and looks at what is left.
    pub fn finish(mut self) -> Seen {
        for Still { query, .. } in std::mem::take(&mut self.held) {
            if let Some(query) = self.registry.get(query).map(|entry| entry.query.clone()) {
                self.let_go(&query);
            }
        }
        for id in self.living.clone() {
            self.cancel(id, true);
        }
        for _ in 0..2_000_000 {
            let worker = self.random.next_u32() as usize;
            self.work(worker % WORKERS as usize);
            self.write(worker);
            if worker.is_multiple_of(8) {
                self.open_split();
                self.retire_some();
                self.now.0.set(self.now.0.get() + 1_000_000);
            }
            if self.registry.running() == 0
                && !self.registry.is_waiting()
                && self.outputs.is_empty()
                && self.splits.is_empty()
                && self.tables.is_empty()
                && self.draining.is_empty()
            {
                break;
            }
        }
        let ended = std::mem::take(&mut self.ended);
        ended.into_iter().for_each(|id| assert!(self.registry.forget(id).is_some(), "{id} did not end"));
        let held = self.registry.held();
        assert_eq!((held.entries, held.names, held.owned), (0, 0, 0));
        // Up to four operators and a table each, in blocks of three lengths.
        assert!(held.ids_bound < 40 * AT_ONCE as u32, "{held:?}");
        for shard in self.shards.shards() {
            assert!(shard.ids_bound() < 40 * AT_ONCE as u32, "{}", shard.ids_bound());
        }
        let left = (self.tables.len(), self.instances.len(), self.outputs.len(), self.retiring.len());
        assert_eq!((left, self.splits.len()), ((0, 0, 0, 0), 0));
        assert_eq!((self.process.memory.used_bytes(), self.shards.waiting_units()), (0, 0));
        self.seen
    }
}

impl Output {
    /// Numbers come in order per instance, and none is left out: those of the others lie between.
    fn take(&mut self, batch: &[u64]) {
        let instances = self.out.len() as u64;
        for &number in batch {
            let last = &mut self.out[(number % instances) as usize];
            if let Some(last) = *last {
                assert_eq!(number, last + instances, "lost, doubled or out of order");
            }
            *last = Some(number);
            self.first = Some(self.first.map_or(number, |first| first.min(number)));
            self.count += 1;
        }
    }
}

fn of_template(reader: Reader<Numbers>, outlet: Arc<Outlet>) -> Reader<Numbers> {
    let rest = Rest { windows: Some(Every(20)), ..Rest::ALL };
    reader.sharing(rest, super::windows_of(20, 60)).with_outlet(Some(outlet))
}

fn look(table: OperatorId, due: ProcessingTime) -> Parcel<Numbers> {
    let stamps = Stamps::default();
    let body = Payload {
        batch: None,
        watermark: None,
        idle: false,
        is_alone: false,
        tells_time: false,
        stamps,
        window_end: None,
    };
    let progress = laxity_graph::EventTime::MIN;
    Parcel::<Numbers> { to: table, channel: 0, progress, ingested: due, rows: 0, bytes: 0, body }
}
