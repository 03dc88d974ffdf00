//! The loop of the simulator: it takes the next event in virtual time; what follows from it stands in the files below.

mod arrive;
mod deploy;
mod ending;
mod exchange;
mod look;
mod open;
mod run;
mod send;
mod threads;

use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use laxity_graph::{EventClock, EventTime, OperatorId, ProcessingTime, QueryId};
use laxity_runtime::{
    Agenda, Instance, Load, Outcome as Ended, Parcel, Payload, Process, Query, RunContext, Write, expand,
};
use laxity_sched::{Config, CostReport, Recipe, Scheduler, StreamReport, Unit, WaitBound, Work};
use laxity_workload::{DelaySampler, QueryModel, StageKind};

use crate::account::Account;
use crate::check::Promise;
use crate::event::Event;
use crate::machine::{Core, Machine, Sharing, Underway};
use crate::modelled::{Maker, Modelled, with_outlets};
use crate::order::Order;
use crate::queue::{Queue, ScheduledEvent};
use crate::run_clock::{Begin, RunClock};
use crate::table::Table;
use crate::threads::Threads;
use crate::topology::Topology;
use crate::watch::Watch;
use crate::world::open::Opened;
use crate::{Driver, Outcome, ResultRecord, Sample, Setup, Simulation, SimulationError, Slice};

/// A simulation under way.
pub(crate) struct World<C: Modelled> {
    setup: Setup,
    policy: String,
    /// By machine: what its queries share.
    processes: Vec<Arc<Process>>,
    now: ProcessingTime,
    queue: Queue,
    topology: Topology,
    queries: Vec<QueryModel>,
    accounts: Vec<Account>,
    tables: Vec<Table<C>>,
    /// What the run that ends has made ready first: the machine, and the operator's id there.
    made_ready: Option<(u32, OperatorId)>,
    /// By place of a table: its number.
    numbers: Vec<u32>,
    /// Tables that are opened with each query.
    tables_of: Vec<Vec<u32>>,
    /// Where the event times of each query lie: as its first feed says.
    clocks: Vec<EventClock>,
    running: Vec<Arc<Query>>,
    instances: Vec<Arc<Instance<C>>>,
    /// By operator: the watermark that a source was given last.
    given: Vec<EventTime>,
    /// By operator, for the timeline: progress of the message in hand, or of the last.
    progress: Vec<EventTime>,
    /// Of the run that is being worked out; shared with all operators.
    clock: Rc<RunClock>,
    /// What went out by sinks, if anybody wants the rows.
    written: Option<Vec<WrittenRows<C>>>,
    /// Why it cannot go on.
    failed: Option<SimulationError>,
    machines: Vec<Machine<C>>,
    cores: Vec<Core<C>>,
    watch: Watch,
    network: DelaySampler,
    /// What has not arrived; `None`: free.
    in_transit: Vec<Option<InTransit<C>>>,
    free: Vec<u32>,
    /// By route and target: when the last message arrives, which the next must not overtake.
    arrivals: std::collections::BTreeMap<(u32, u32), ProcessingTime>,
    /// Messages that a table admits, or that go with the one granted.
    staged: Vec<Parcel<C>>,
    /// Results that are made in a look.
    writes: Vec<Write<C>>,
    merged: Vec<Parcel<C>>,
    next_message: u64,
    /// Messages that are queued, in hand or between machines.
    outstanding: u64,
    /// Nothing more is taken in.
    closing: bool,
    bytes: u64,
    samples: Vec<Sample>,
    timeline: Option<Vec<Slice>>,
    results: Option<Vec<ResultRecord>>,
    totals: Totals,
}

#[derive(Debug, Default)]
struct Totals {
    busy_ns: u64,
    look_ns: u64,
    asleep_ns: u64,
    overhead_ns: u64,
    switches: u64,
    grants: u64,
    messages: u64,
    memory_peak_bytes: u64,
}

/// Rows that a sink wrote.
#[cfg_attr(not(feature = "operators"), expect(dead_code, reason = "wanted where they are more than numbers"))]
pub(crate) struct WrittenRows<C: Modelled> {
    pub query: QueryId,
    pub sink: u32,
    pub at: ProcessingTime,
    pub batch: C::Batch,
}

/// What the operators and tables of a query are made of.
pub(crate) struct Plans<C: Modelled> {
    /// By query.
    pub plans: Vec<C::Plan>,
    /// By feed of all queries: the rows that it brings, where they are more than numbers.
    pub rows: Vec<VecDeque<C::Batch>>,
    /// Behind the last of them the input ends.
    pub feeds_end: bool,
    /// Rows that are written are kept.
    pub keeps_rows: bool,
}

/// What travels between machines, or waits for a sink that stalls.
#[derive(Debug)]
enum InTransit<C: Modelled> {
    /// With the route that it goes by.
    Message(u32, Parcel<C>),
    Watermarks(u32, StreamReport),
    Costs(u32, CostReport),
    /// With the operator that sends it.
    Stalled(u32, Write<C>),
}

impl<C: Modelled> World<C> {
    pub fn new(simulation: Simulation, plans: Plans<C>) -> Result<World<C>, SimulationError> {
        let Simulation { workload, policy, setup } = simulation;
        let mut topology = Topology::new(&workload.queries, &setup.cluster);
        topology.carries_rows = plans.keeps_rows;
        let Plans { mut plans, rows, feeds_end, keeps_rows } = plans;
        let mut queries = workload.queries;
        plans.resize_with(queries.len(), C::Plan::default);
        let clock = Rc::new(RunClock::new(&setup));
        let processes: Vec<Arc<Process>> =
            (0..setup.cluster.machines()).map(|_| Arc::new(process(&setup))).collect();
        let holds_sources = matches!(setup.driver, Driver::Scheduler) && policy.needs().holds_sources;
        processes.iter().for_each(|process| process.memory.hold_sources(holds_sources));
        let mut running = Vec::new();
        for (index, query) in queries.iter().enumerate() {
            let first = topology.queries[index].start;
            let home = topology.operators.get(first as usize).map_or(0, |place| place.machine as usize);
            let settings = query.dataflow.settings.clone();
            let sinks = query.dataflow.nodes().iter().filter(|node| node.stage.kind == StageKind::Sink);
            let (id, process) = (QueryId(index as u32), Arc::clone(&processes[home]));
            running.push(Arc::new(Query::new(id, settings, sinks.count(), process)));
        }
        let (mut instances, mut outlets) = (Vec::with_capacity(topology.operators.len()), Vec::new());
        for ((query, running), plan) in queries.iter().zip(&running).zip(&plans) {
            let next = instances.len() as u32;
            let mut maker =
                Maker::<C> { plan, query: running, topology: &topology, setup: &setup, clock: &clock, next };
            let flow = with_outlets(&query.dataflow).expect("outlets keep what a dataflow keeps");
            let expanded = expand(&flow, running, OperatorId(next), false, &mut maker)?;
            instances.extend(expanded.instances);
            // Results that are made for several queries go to the one outlet that each has.
            outlets.push(match &expanded.outlets[..] {
                [outlet] => Some(Arc::clone(outlet)),
                _ => None,
            });
        }
        let readers = open::Readers { running: &running, outlets: &outlets, clock: &clock };
        let opened = open::tables(&mut topology, &mut queries, readers, rows, feeds_end, &setup)?;
        let Opened { tables, numbers, tables_of, clocks } = opened;
        let accounts = queries.iter().map(|query| {
            let settings = &query.dataflow.settings;
            let target_ns = settings.latency_target.ns();
            Account::new(settings.name.clone(), target_ns, settings.curve(), setup.latency_digits)
        });
        let (machines, cores) = machines(&setup, &topology, &policy);
        let shards = machines.iter().map(|machine| machine.agendas.len()).max().unwrap_or(1);
        let watch = Watch::new(&topology, &setup, promise(&setup, shards, &policy));
        let mut world = World {
            policy: policy.name().to_owned(),
            processes,
            now: ProcessingTime::ZERO,
            queue: Queue::default(),
            accounts: accounts.collect(),
            instances,
            running,
            failed: None,
            given: vec![EventTime::MIN; topology.first_table as usize],
            progress: vec![EventTime::MIN; if setup.keep.timeline { topology.operators.len() } else { 0 }],
            clock,
            written: keeps_rows.then(Vec::new),
            queries,
            topology,
            tables,
            made_ready: None,
            numbers,
            tables_of,
            clocks,
            machines,
            cores,
            watch,
            network: setup.cluster.network.sampler(setup.seed)?,
            in_transit: Vec::new(),
            free: Vec::new(),
            arrivals: std::collections::BTreeMap::new(),
            staged: Vec::new(),
            writes: Vec::new(),
            merged: Vec::new(),
            next_message: 0,
            outstanding: 0,
            closing: false,
            bytes: 0,
            samples: Vec::new(),
            timeline: setup.keep.timeline.then(Vec::new),
            results: setup.keep.results.then(Vec::new),
            totals: Totals::default(),
            setup,
        };
        world.plan_ahead();
        Ok(world)
    }

    /// Everything that is known to come before the first event.
    fn plan_ahead(&mut self) {
        for (index, query) in self.queries.iter().enumerate() {
            self.queue.push(query.deployed, ScheduledEvent::Deploy(index as u32));
        }
        for (index, switch) in self.setup.switches.iter().enumerate() {
            self.queue.push(ProcessingTime::ZERO.plus(switch.at), ScheduledEvent::Switch(index as u32));
        }
        self.queue.push(ProcessingTime::ZERO, ScheduledEvent::Sample);
        if let Driver::OsThreads(os) = &self.setup.driver
            && let Some(renice) = &os.renice
        {
            for machine in 0..self.machines.len() as u32 {
                self.queue.push(
                    ProcessingTime::ZERO.plus(at_least(renice.period)),
                    ScheduledEvent::Renice(machine),
                );
            }
        }
        if self.topology.spans {
            self.queue.push(ProcessingTime::ZERO.plus(self.setup.exchange), ScheduledEvent::Exchange);
        }
        if self.setup.sources.scheduled().is_some() {
            self.queue.push(ProcessingTime(Load::PERIOD_NS), ScheduledEvent::Load);
        }
    }

    /// What came of it, and the rows that were written if they are kept.
    pub fn run(mut self) -> Result<(Outcome, Vec<WrittenRows<C>>), SimulationError> {
        while self.step() {}
        if let Some(error) = self.failed {
            return Err(error);
        }
        let end = ProcessingTime::ZERO.plus(self.setup.duration);
        self.now = if self.setup.drain { self.now.max(end) } else { end };
        let written = self.written.take().unwrap_or_default();
        Ok((self.outcome(), written))
    }

    /// Lets the next thing happen. False if it is over.
    fn step(&mut self) -> bool {
        if self.failed.is_some() {
            return false;
        }
        let Some((at, order, scheduled)) = self.queue.pop() else { return false };
        if at > ProcessingTime::ZERO.plus(self.setup.duration) {
            if !self.setup.drain || self.outstanding == 0 {
                return false;
            }
            self.closing = true;
        }
        if let Some(resumes) = self.machine_of(scheduled).and_then(|m| self.clock.paused_until(m, at)) {
            self.queue.put_off(resumes, order, scheduled);
            return true;
        }
        self.now = at;
        self.happen(scheduled);
        true
    }

    fn happen(&mut self, scheduled: ScheduledEvent) {
        match scheduled {
            ScheduledEvent::Deploy(query) => self.deploy(query),
            ScheduledEvent::Arrive(table) => self.arrive(table),
            ScheduledEvent::Deliver(slot) => self.deliver(slot),
            ScheduledEvent::Finish { core, run } => self.finish(core, run),
            ScheduledEvent::Tick(machine) => self.tick(machine),
            ScheduledEvent::Alarm(machine) => self.alarm(machine),
            ScheduledEvent::Woken(core) => self.woken(core),
            ScheduledEvent::Stir(machine) => self.dispatch(machine),
            ScheduledEvent::Load => self.observe_load(),
            ScheduledEvent::Renice(machine) => self.renice(machine),
            ScheduledEvent::Wake(operator) => self.wake_thread(operator),
            ScheduledEvent::Time { operator, due } => self.tell_time(operator, due),
            ScheduledEvent::Switch(index) => self.switch(index),
            ScheduledEvent::Exchange => self.exchange(),
            ScheduledEvent::Sample => self.sample(),
        }
    }

    /// The machine that must be running for this to happen.
    fn machine_of(&self, scheduled: ScheduledEvent) -> Option<usize> {
        let machine = match scheduled {
            ScheduledEvent::Arrive(table) => {
                self.topology.operator(self.tables[table as usize].place).machine
            }
            ScheduledEvent::Deliver(slot) => match self.in_transit[slot as usize].as_ref()? {
                InTransit::Message(_, message) => self.topology.operator(message.to.0).machine,
                InTransit::Watermarks(entry, _) => self.topology.operator(*entry).machine,
                InTransit::Costs(machine, _) => *machine,
                InTransit::Stalled(operator, _) => self.topology.operator(*operator).machine,
            },
            ScheduledEvent::Woken(core) => self.cores[core as usize].machine,
            ScheduledEvent::Tick(machine)
            | ScheduledEvent::Alarm(machine)
            | ScheduledEvent::Stir(machine)
            | ScheduledEvent::Renice(machine) => machine,
            ScheduledEvent::Wake(operator) | ScheduledEvent::Time { operator, .. } => {
                self.topology.operator(operator).machine
            }
            ScheduledEvent::Finish { .. }
            | ScheduledEvent::Deploy(_)
            | ScheduledEvent::Switch(_)
            | ScheduledEvent::Exchange
            | ScheduledEvent::Load
            | ScheduledEvent::Sample => return None,
        };
        Some(machine as usize)
    }

    /// Works out what a run of an operator does, and how long it takes. The message and those in `merged`, or what is
    /// left of the last; what comes of it is let out once that time has passed.
    fn work(
        &mut self,
        operator: u32,
        work: Work<Payload<C::Batch>>,
        begin: Begin,
        underway: &mut Underway<C>,
    ) {
        if let Some(table) = self.table_at(operator) {
            self.look(table, begin, underway);
            return;
        }
        self.clock.begin(begin);
        let instance = &self.instances[operator as usize];
        let mut context = RunContext {
            clock: &*self.clock,
            quantum_ns: self.clock.quantum_ns(),
            merged: &mut self.merged,
            staged: &mut underway.staged,
            writes: &mut underway.writes,
            operator_ns: 0,
        };
        underway.run = instance.work(work, &mut context);
        std::mem::swap(&mut underway.said, &mut self.clock.said.borrow_mut());
        underway.late_rows = self.clock.late_rows.get();
        underway.cpu_ns = self.clock.cpu_ns();
        underway.slowed_ns = self.clock.slowed_ns();
        underway.sleep_ns = self.clock.slept_ns();
        if instance.query.failed()
            && let Ended::Failed(message) = instance.query.outcome()
        {
            self.fail(operator, message);
        }
        if underway.run.state_grown_bytes != 0 {
            self.state_changed(operator, underway.run.state_grown_bytes);
        }
    }

    /// How many times as long work takes on a machine whose heap is as full as it is.
    fn slowdown(&self, machine: u32) -> f64 {
        match (self.setup.heap, self.setup.memory_bound_bytes) {
            (Some(heap), Some(bound)) => heap.slowdown(self.machines[machine as usize].bytes, bound),
            _ => 1.0,
        }
    }

    /// The query of this operator, and with it the simulation, cannot go on.
    fn fail(&mut self, operator: u32, message: String) {
        let query = self.topology.operator(operator).query;
        let query = self.queries[query.index()].dataflow.settings.name.clone();
        self.failed.get_or_insert(SimulationError::Operator { query, message });
    }

    fn switch(&mut self, index: u32) {
        for machine in 0..self.machines.len() {
            let to = &self.setup.switches[index as usize].to;
            if let Sharing::Scheduler(order) = &mut self.machines[machine].sharing {
                let promise = promise(&self.setup, order.shards(), to);
                order.set_policy(to, self.now);
                self.processes[machine].memory.hold_sources(to.needs().holds_sources);
                self.watch.on(self.now, Event::Switched { machine: machine as u32 });
                self.watch.promised(self.now, promise);
                self.dispatch(machine as u32);
            }
        }
    }

    fn sample(&mut self) {
        self.samples.push(Sample {
            at: self.now,
            queued_rows: self.machines.iter().map(|machine| machine.queued_rows).sum(),
            queued_messages: self.machines.iter().map(|machine| machine.queued_messages).sum(),
            bytes: self.bytes,
            held_sources: self.tables.iter().filter(|table| table.is_held).count() as u64,
        });
        if !self.closing {
            self.queue.push(self.now.plus(at_least(self.setup.sample)), ScheduledEvent::Sample);
        }
    }
}

/// A period of nothing would never let time pass.
fn at_least(period: Duration) -> Duration {
    period.max(Duration::from_micros(1))
}

/// What a policy promises to those that wait, with so many schedulers on a machine.
fn promise(setup: &Setup, shards: usize, policy: &Recipe) -> Promise {
    let composition = policy.compose();
    let bound = Some(composition.rank.needs().bound);
    match setup.driver {
        Driver::OsThreads(_) => Promise { unit: Unit::Operator, bound: None, shards: 1 },
        // Deadlines rule inside a shard; from outside one does not see which has what.
        Driver::Scheduler => Promise {
            unit: composition.unit,
            bound: bound.filter(|&bound| shards == 1 || bound != WaitBound::Deadline),
            shards,
        },
    }
}

/// What the queries of a machine share.
fn process(setup: &Setup) -> Process {
    let limit = |bytes: u64| bytes.clamp(1, i64::MAX as u64);
    Process::new(limit(setup.memory_bound_bytes.unwrap_or(u64::MAX)), limit(setup.credit_bytes))
}

fn machines<C: Modelled>(
    setup: &Setup,
    topology: &Topology,
    policy: &Recipe,
) -> (Vec<Machine<C>>, Vec<Core<C>>) {
    let cores = setup.cluster.cores() as u32;
    let mut operators = vec![Vec::new(); setup.cluster.machines()];
    for (operator, place) in topology.operators.iter().enumerate() {
        operators[place.machine as usize].push(operator as u32);
    }
    if topology.spans {
        let all: Vec<u32> = (0..topology.operators.len() as u32).collect();
        operators.fill(all);
    }
    // What spans machines is known by one scheduler on each.
    let (few, many) = match &setup.driver {
        Driver::Scheduler if !topology.spans => {
            (setup.shards, setup.shards.max(setup.shards_of_crowd).clamp(1, cores as usize))
        }
        _ => (1, 1),
    };
    let sharing = |operators: usize| {
        let config = Config { workers: cores as usize, seed: setup.seed, ..setup.config.clone() };
        match &setup.driver {
            Driver::Scheduler => Sharing::Scheduler(Order::new(few, many, policy, &config)),
            Driver::OsThreads(os) => {
                let rank = os.renice.as_ref().map(|renice| {
                    let mut rank = renice.rank.compose().rank;
                    rank.seed(setup.seed);
                    rank
                });
                let graph = Scheduler::new(policy.compose(), config);
                Sharing::Threads(Threads::new(graph, operators, os, rank))
            }
        }
    };
    let machine = |operators: Vec<u32>| Machine {
        sharing: sharing(operators.len()),
        idle: (0..cores).rev().collect(),
        operators,
        bytes: 0,
        queued_rows: 0,
        queued_messages: 0,
        tick_at: None,
        waking: 0,
        agendas: (0..many).map(|_| Agenda::default()).collect(),
        alarm_at: None,
        load: Load::default(),
    };
    let all_cores = (0..setup.cluster.machines() as u32)
        .flat_map(|machine| (0..cores).map(move |number| Core::new(machine, number)));
    (operators.into_iter().map(machine).collect(), all_cores.collect())
}

/// The id by which the scheduler of its machine knows an operator.
fn local(topology: &Topology, operator: u32) -> OperatorId {
    topology.operator(operator).local
}
