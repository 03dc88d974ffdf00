mod arrive;
mod deploy;
mod ending;
mod exchange;
mod run;
mod send;
mod threads;

use std::time::Duration;

use laxity_graph::{EventClock, EventTime, OperatorId, ProcessingTime};
use laxity_sched::{Composition, Config, CostReport, Message, Scheduler, StreamReport, Unit};
use laxity_workload::{DelaySampler, QueryModel, StageKind};
use rand_core::SeedableRng;
use rand_pcg::Pcg32;

use crate::account::Account;
use crate::check::Promise;
use crate::contents::Contents;
use crate::event::Event;
use crate::fault::Speeds;
use crate::feed::Feed;
use crate::instance::{Body, Emitted, Instance, Manner, Step};
use crate::machine::{Core, Machine, Sharing};
use crate::queue::{Coming, Queue};
use crate::sleep::Sleeper;
use crate::threads::Threads;
use crate::topology::Topology;
use crate::watch::Watch;
use crate::{Driver, Outcome, ResultRecord, Sample, Setup, Simulation, SimulationError, Slice};

/// A simulation under way.
pub(crate) struct World {
    setup: Setup,
    policy: String,
    now: ProcessingTime,
    queue: Queue,
    topology: Topology,
    queries: Vec<QueryModel>,
    accounts: Vec<Account>,
    feeds: Vec<Feed>,
    /// Feeds of each query.
    feeds_of: Vec<Vec<u32>>,
    /// Where the event times of each query lie: as its first feed says.
    clocks: Vec<EventClock>,
    instances: Vec<Instance>,
    /// The rows in messages, and the operators that take them; `None` where stages do instead.
    contents: Option<Box<dyn Contents>>,
    /// Why it cannot go on.
    failed: Option<SimulationError>,
    /// Watermarks of the input channels of all instances.
    channels: Vec<EventTime>,
    /// By route: whose turn it is.
    counters: Vec<u32>,
    machines: Vec<Machine>,
    cores: Vec<Core>,
    speeds: Speeds,
    manner: Manner,
    watch: Watch,
    network: DelaySampler,
    /// Between machines; `None`: free.
    travellers: Vec<Option<Traveller>>,
    free: Vec<u32>,
    /// By route and target: when the last message arrives, which the next must not overtake.
    arrivals: std::collections::BTreeMap<(u32, u32), ProcessingTime>,
    /// Messages of a run, on their way out.
    staged: Vec<Message<Body>>,
    /// By operator: place of the last message staged for it.
    staged_at: Vec<u32>,
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
    asleep_ns: u64,
    overhead_ns: u64,
    switches: u64,
    grants: u64,
    messages: u64,
    memory_peak_bytes: u64,
}

/// What travels between machines.
#[derive(Clone, Debug)]
enum Traveller {
    Message(Message<Body>),
    Watermarks(u32, StreamReport),
    Costs(u32, CostReport),
}

impl World {
    pub fn new(
        simulation: Simulation,
        contents: Option<Box<dyn Contents>>,
    ) -> Result<World, SimulationError> {
        let Simulation { workload, policy, setup } = simulation;
        let mut topology = Topology::new(&workload.queries, &setup.cluster);
        topology.carries_rows = contents.is_some();
        let mut queries = workload.queries;
        let (mut feeds, mut feeds_of, mut clocks) = (Vec::new(), Vec::new(), Vec::new());
        for (index, query) in queries.iter_mut().enumerate() {
            let mut of_query = Vec::new();
            clocks.push(query.feeds.first().map_or(FROM_THE_START, |feed| feed.arrivals.clock()));
            for feed in std::mem::take(&mut query.feeds) {
                let operator = topology.instance(index, query, feed.node, feed.instance);
                let operator = operator.filter(|&o| topology.operator(o).upstream.is_empty());
                let Some(operator) = operator else {
                    return Err(SimulationError::Feed {
                        query: query.dataflow.settings.name.clone(),
                        node: feed.node.0,
                        instance: feed.instance,
                    });
                };
                of_query.push(feeds.len() as u32);
                feeds.push(Feed::new(operator, feed.arrivals));
            }
            feeds_of.push(of_query);
        }
        let accounts = queries.iter().map(|query| {
            let settings = &query.dataflow.settings;
            let target_ns = settings.latency_target.ns();
            Account::new(settings.name.clone(), target_ns, settings.curve(), setup.latency_digits)
        });
        let watch = Watch::new(&topology, &setup, promise(&setup, &policy()));
        let instances = instances(&setup, &topology)?;
        let (machines, cores) = machines(&setup, &topology, &policy);
        let mut world = World {
            policy: policy().name(),
            now: ProcessingTime::ZERO,
            queue: Queue::default(),
            accounts: accounts.collect(),
            instances,
            contents,
            failed: None,
            channels: vec![EventTime::MIN; topology.channels],
            counters: vec![0; topology.route_count()],
            staged_at: vec![0; topology.operators.len()],
            queries,
            topology,
            feeds,
            feeds_of,
            clocks,
            machines,
            cores,
            speeds: Speeds::new(&setup.faults),
            manner: Manner {
                cut: setup.cut,
                quantum_ns: setup.config.quantum_ns,
                rounding: setup.rounding,
                random: Pcg32::seed_from_u64(setup.seed),
            },
            watch,
            network: setup.cluster.network.sampler(setup.seed)?,
            travellers: Vec::new(),
            free: Vec::new(),
            arrivals: std::collections::BTreeMap::new(),
            staged: Vec::new(),
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
            self.queue.push(query.deployed, Coming::Deploy(index as u32));
        }
        for (index, switch) in self.setup.switches.iter().enumerate() {
            self.queue.push(ProcessingTime::ZERO.plus(switch.at), Coming::Switch(index as u32));
        }
        self.queue.push(ProcessingTime::ZERO, Coming::Sample);
        if let Driver::OsThreads(os) = &self.setup.driver
            && let Some(renice) = &os.renice
        {
            for machine in 0..self.machines.len() as u32 {
                self.queue.push(ProcessingTime::ZERO.plus(at_least(renice.period)), Coming::Renice(machine));
            }
        }
        if self.topology.spans {
            self.queue.push(ProcessingTime::ZERO.plus(self.setup.exchange), Coming::Exchange);
        }
    }

    pub fn run(mut self) -> Result<Outcome, SimulationError> {
        while self.step() {}
        if let Some(error) = self.failed {
            return Err(error);
        }
        let end = ProcessingTime::ZERO.plus(self.setup.duration);
        self.now = if self.setup.drain { self.now.max(end) } else { end };
        Ok(self.outcome())
    }

    /// Lets the next thing happen. False if it is over.
    fn step(&mut self) -> bool {
        if self.failed.is_some() {
            return false;
        }
        let Some((at, order, coming)) = self.queue.pop() else { return false };
        if at > ProcessingTime::ZERO.plus(self.setup.duration) {
            if !self.setup.drain || self.outstanding == 0 {
                return false;
            }
            self.closing = true;
        }
        if let Some(resumes) = self.machine_of(coming).and_then(|m| self.speeds.paused_until(m, at)) {
            self.queue.put_off(resumes, order, coming);
            return true;
        }
        self.now = at;
        self.happen(coming);
        true
    }

    fn happen(&mut self, coming: Coming) {
        match coming {
            Coming::Deploy(query) => self.deploy(query),
            Coming::Arrive(feed) => self.arrive(feed),
            Coming::Deliver(traveller) => self.deliver(traveller),
            Coming::Finish { core, run } => self.finish(core, run),
            Coming::Tick(machine) => self.tick(machine),
            Coming::Renice(machine) => self.renice(machine),
            Coming::Wake(operator) => self.wake(operator),
            Coming::Switch(index) => self.switch(index),
            Coming::Exchange => self.exchange(),
            Coming::Sample => self.sample(),
        }
    }

    /// The machine that must be running for this to happen.
    fn machine_of(&self, coming: Coming) -> Option<usize> {
        let machine = match coming {
            Coming::Arrive(feed) => self.topology.operator(self.feeds[feed as usize].operator).machine,
            Coming::Deliver(traveller) => match self.travellers[traveller as usize].as_ref()? {
                Traveller::Message(message) => self.topology.operator(message.to.0).machine,
                Traveller::Watermarks(entry, _) => self.topology.operator(*entry).machine,
                Traveller::Costs(machine, _) => *machine,
            },
            Coming::Tick(machine) | Coming::Renice(machine) => machine,
            Coming::Wake(operator) => self.topology.operator(operator).machine,
            Coming::Finish { .. }
            | Coming::Deploy(_)
            | Coming::Switch(_)
            | Coming::Exchange
            | Coming::Sample => return None,
        };
        Some(machine as usize)
    }

    /// Lets an operator work on what it has in hand.
    fn advance(&mut self, operator: u32, emitted: &mut Vec<Emitted>) -> Step {
        let place = self.topology.operator(operator);
        let instance = &mut self.instances[operator as usize];
        if let Some(contents) = &mut self.contents
            && place.kind != StageKind::Sink
        {
            let before = contents.state_bytes(operator);
            let step = instance.advance_called(operator, place, &self.manner, contents.as_mut(), emitted);
            let after = contents.state_bytes(operator);
            self.state_changed(operator, before, after);
            return step.unwrap_or_else(|message| {
                self.fail(operator, message);
                Step::default()
            });
        }
        let before = instance.windows.held_rows();
        let channels = place.channels.start as usize..place.channels.end as usize;
        let step = instance.advance(place, &mut self.channels[channels], &mut self.manner, emitted);
        let after = instance.windows.held_rows();
        if let StageKind::Window { state_row_bytes, .. } = place.kind {
            let row_bytes = u64::from(state_row_bytes);
            self.state_changed(operator, before * row_bytes, after * row_bytes);
        }
        step
    }

    /// The query of this operator, and with it the simulation, cannot go on.
    fn fail(&mut self, operator: u32, message: String) {
        let query = self.topology.operator(operator).query;
        let query = self.queries[query.index()].dataflow.settings.name.clone();
        self.failed.get_or_insert(SimulationError::Operator { query, message });
    }

    fn switch(&mut self, index: u32) {
        for machine in 0..self.machines.len() {
            let composition = (self.setup.switches[index as usize].to)();
            if let Sharing::Scheduler(scheduler) = &mut self.machines[machine].sharing {
                let promise = promise(&self.setup, &composition);
                scheduler.set_policy(composition, self.now);
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
            held_sources: self.feeds.iter().filter(|feed| feed.held).count() as u64,
        });
        if !self.closing {
            self.queue.push(self.now.plus(at_least(self.setup.sample)), Coming::Sample);
        }
    }
}

/// Of a query that nothing feeds.
const FROM_THE_START: EventClock =
    EventClock { event_origin: EventTime(0), processing_origin: ProcessingTime::ZERO, speed: 1.0 };

/// A period of nothing would never let time pass.
fn at_least(period: Duration) -> Duration {
    period.max(Duration::from_micros(1))
}

/// What a policy promises to those that wait.
fn promise(setup: &Setup, composition: &Composition) -> Promise {
    match setup.driver {
        Driver::Scheduler => Promise { unit: composition.unit, bound: Some(composition.rank.wait_bound()) },
        Driver::OsThreads(_) => Promise { unit: Unit::Operator, bound: None },
    }
}

/// What does not run yet; with the sleeps that are ahead of it.
fn instances(setup: &Setup, topology: &Topology) -> Result<Vec<Instance>, SimulationError> {
    let instances = topology.operators.iter().enumerate().map(|(operator, place)| {
        let mut instance = Instance::default();
        let Some(sleep) = &place.sleep else { return Ok(instance) };
        let sleeper = Sleeper::new(sleep, setup.seed, operator as u32);
        let sleeper =
            sleeper.map_err(|source| SimulationError::Sleep { operator: place.name.clone(), source })?;
        instance.sleeper = sleeper.map(Box::new);
        Ok(instance)
    });
    instances.collect()
}

fn machines(
    setup: &Setup,
    topology: &Topology,
    policy: &dyn Fn() -> Composition,
) -> (Vec<Machine>, Vec<Core>) {
    let cores = setup.cluster.cores() as u32;
    let mut operators = vec![Vec::new(); setup.cluster.machines()];
    for (operator, place) in topology.operators.iter().enumerate() {
        operators[place.machine as usize].push(operator as u32);
    }
    if topology.spans {
        let all: Vec<u32> = (0..topology.operators.len() as u32).collect();
        operators.fill(all);
    }
    let sharing = |operators: usize| {
        let config = Config { workers: cores as usize, seed: setup.seed, ..setup.config.clone() };
        let scheduler = Scheduler::new(policy(), config);
        match &setup.driver {
            Driver::Scheduler => Sharing::Scheduler(scheduler),
            Driver::OsThreads(os) => {
                let slice_ns = ProcessingTime::ZERO.plus(os.slice).0;
                let rank = os.renice.as_ref().map(|renice| {
                    let mut rank = (renice.rank)().rank;
                    rank.seed(setup.seed);
                    rank
                });
                Sharing::Threads(Threads::new(scheduler, operators, slice_ns, rank))
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
        held: Vec::new(),
        tick_at: None,
    };
    let all_cores = (0..setup.cluster.machines() as u32)
        .flat_map(|machine| (0..cores).map(move |number| Core { machine, number, ..Core::default() }));
    (operators.into_iter().map(machine).collect(), all_cores.collect())
}

/// The id by which the scheduler of its machine knows an operator.
fn local(topology: &Topology, operator: u32) -> OperatorId {
    topology.operator(operator).local
}
