//! Random simulations that test everything together: a failure is known by its seed, and the seed repeats it.

use std::time::Duration;

use laxity_graph::{
    Dataflow, Input, LatencyTarget, Node, NodeId, Partitioning, ProcessingTime, QueryId, QuerySettings,
    WindowShape,
};
use laxity_sched::{Config, Recipe};
use laxity_workload::{
    Batching, Cadence, Cost, Delay, Feed, QueryModel, Rate, Sleep, Spacing, Stage, StageKind, Stream,
    Watermarks, Workload,
};
use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg32;

use crate::{
    Cluster, Cut, Decoding, Driver, Fault, FaultKind, FeedId, FrontMember, Keep, OsThreads, Overheads,
    Placement, Renice, Rounding, ScheduledSources, Setup, SharedFront, SharedTemplate, Simulation, Sources,
    Switch,
};

/// A random simulation: queries, machines, faults, a policy and others to switch to, all from one seed. Small
/// queues, short bounds and odd sizes, so that seldom things happen often. Everything taken in is drained.
#[derive(Debug)]
pub struct Scenario {
    /// What it was made from.
    pub seed: u64,
    /// In one line.
    pub summary: String,
    /// Ready to run.
    pub simulation: Simulation,
}

impl Scenario {
    /// The scenario of a seed, under a policy of its choice or under this one alone.
    ///
    /// # Panics
    /// If the policy's name is none.
    pub fn of_seed(seed: u64, policy: Option<&str>) -> Scenario {
        let mut dice = Dice {
            random: Pcg32::seed_from_u64(seed),
            sleeps: Pcg32::seed_from_u64(!seed),
            sources: Pcg32::seed_from_u64(seed.rotate_left(32) ^ 1),
        };
        let duration_ms = dice.between(300, 2_000);
        let cluster = dice.cluster();
        let (nodes, cores) = (cluster.nodes, cluster.cores_per_node);
        let queries: Vec<QueryModel> = (0..dice.between(1, 6)).map(|index| dice.query(seed, index)).collect();
        let chosen = policy.map_or_else(|| dice.policy(), str::to_owned);
        let switches: Vec<(Duration, String)> = match policy {
            Some(_) => Vec::new(),
            None => (0..dice.between(0, 3))
                .map(|_| (Duration::from_millis(dice.between(0, duration_ms)), dice.policy()))
                .collect(),
        };
        let mut faults: Vec<Fault> =
            (0..dice.between(0, 4)).map(|_| dice.fault(&cluster, queries.len(), duration_ms)).collect();
        let (sources, wake_ns, message_ns) = dice.sources(&queries);
        let shards = dice.shards(cores);
        faults.extend(dice.outages(queries.len(), duration_ms));
        let summary = format!(
            "{} queries on {nodes} x {cores} cores with {shards} shards for {duration_ms} ms under {chosen}, sources {}, {} faults, switches to {:?}",
            queries.len(),
            if sources == Sources::AtOnce { "at once" } else { "scheduled" },
            faults.len(),
            switches.iter().map(|(_, name)| name.as_str()).collect::<Vec<_>>()
        );
        let setup = Setup {
            cluster,
            config: dice.config(),
            overheads: Overheads { wake_ns, message_ns, ..dice.overheads() },
            sources,
            shards,
            faults,
            duration: Duration::from_millis(duration_ms),
            drain: true,
            seed,
            cut: if dice.one_in(4) {
                Cut::Never
            } else {
                Cut::AtQuantum { rows_min: dice.between(1, 128) as u32 }
            },
            merge_rows_max: dice.one_in(3).then_some(500),
            rounding: if dice.one_in(5) { Rounding::Binomial } else { Rounding::Carry },
            credit_bytes: if dice.one_in(3) { dice.between(1_000, 100_000) } else { 64 << 20 },
            memory_bound_bytes: dice.one_in(3).then(|| dice.between(2_000, 500_000)),
            switches: switches.into_iter().map(|(at, name)| Switch { at, to: parse(&name) }).collect(),
            shed: dice.one_in(5),
            driver: if policy.is_none() && dice.one_in(6) { dice.threads() } else { Driver::Scheduler },
            latency_digits: 1,
            keep: Keep { timeline: false, results: false, trace: false, checks: true },
            ..Setup::default()
        };
        let workload = Workload { name: format!("scenario {seed}"), queries };
        Scenario { seed, summary, simulation: Simulation::new(workload, parse(&chosen), setup) }
    }
}

fn parse(name: &str) -> Recipe {
    laxity_policies::recipe(name).unwrap_or_else(|error| panic!("{error}"))
}

struct Dice {
    random: Pcg32,
    /// Of its own, so that what else a seed makes does not depend on who sleeps.
    sleeps: Pcg32,
    /// Likewise, on how tables are read.
    sources: Pcg32,
}

impl Dice {
    /// Both ends included.
    fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.random.next_u64() % (high - low + 1)
    }

    fn one_in(&mut self, n: u64) -> bool {
        self.between(1, n) == 1
    }

    /// Orders of magnitude are as likely.
    fn spread(&mut self, low: f64, high: f64) -> f64 {
        let share = self.between(0, 1_000) as f64 / 1_000.0;
        low * (high / low).powf(share)
    }

    fn policy(&mut self) -> String {
        let names = laxity_policies::names();
        names[self.between(0, names.len() as u64 - 1) as usize].to_owned()
    }

    fn delay(&mut self) -> Delay {
        match self.between(0, 3) {
            0 => Delay::NONE,
            1 => Delay::Constant { ns: self.between(1, 20_000_000) },
            2 => Delay::Uniform { low_ns: 0, high_ns: self.between(1, 50_000_000) },
            _ => Delay::Exponential { mean_ns: self.spread(1e4, 2e7) },
        }
    }

    fn cluster(&mut self) -> Cluster {
        let nodes = if self.one_in(2) { 1 } else { self.between(2, 3) as usize };
        let placement = match self.between(0, 2) {
            0 => Placement::Queries,
            1 => Placement::Operators,
            _ => Placement::By(Box::new(|QueryId(query), NodeId(node), _| query as usize + node / 2)),
        };
        Cluster { nodes, cores_per_node: self.between(1, 4) as usize, network: self.delay(), placement }
    }

    fn config(&mut self) -> Config {
        Config {
            quantum_ns: self.spread(5e4, 5e6) as u64,
            ageing_bound_ns: self.spread(2e7, 1e9) as u64,
            deferral_max_ns: self.spread(1e7, 1e9) as u64,
            mailbox_bytes_max: if self.one_in(2) { self.between(200, 50_000) } else { 4 << 20 },
            ..Config::default()
        }
    }

    fn overheads(&mut self) -> Overheads {
        if self.one_in(2) {
            return Overheads::default();
        }
        Overheads {
            call_ns: self.between(0, 2_000),
            switch_ns: self.between(0, 5_000),
            schedule_ns: self.between(0, 500),
            cycle_ns_per_operator: self.between(0, 200),
            ..Overheads::default()
        }
    }

    fn threads(&mut self) -> Driver {
        let rank = self.policy();
        let renice = Renice {
            period: Duration::from_millis(self.between(1, 200)),
            rank: parse(&rank),
            best: -20,
            worst: self.between(0, 19) as i32,
        };
        Driver::OsThreads(OsThreads {
            slice: Duration::from_micros(self.between(100, 5_000)),
            tick: Duration::from_millis(if self.one_in(2) { self.between(1, 10) } else { 0 }),
            to_parity: self.one_in(2),
            renice: self.one_in(2).then_some(renice),
        })
    }

    fn fault(&mut self, cluster: &Cluster, queries: usize, duration_ms: u64) -> Fault {
        let node = self.between(0, cluster.nodes as u64 - 1) as usize;
        let kind = match self.between(0, 2) {
            0 => FaultKind::Pause { node },
            1 => FaultKind::Straggler {
                node,
                core: self.between(0, cluster.cores_per_node as u64 - 1) as usize,
                factor: self.spread(1.0, 20.0),
            },
            _ => FaultKind::Burst {
                query: self.one_in(2).then(|| QueryId(self.between(0, queries as u64 - 1) as u32)),
                factor: self.spread(1.5, 10.0),
            },
        };
        let from = self.between(0, duration_ms);
        let to = from + self.between(1, duration_ms / 3);
        Fault { kind, from: Duration::from_millis(from), to: Duration::from_millis(to) }
    }

    /// How tables are read, and what a wake-up and a message cost.
    fn sources(&mut self, queries: &[QueryModel]) -> (Sources, u64, u64) {
        std::mem::swap(&mut self.random, &mut self.sources);
        let costs = ScheduledSources {
            look_ns: self.between(0, 20_000),
            row_ns: self.spread(1.0, 1_000.0),
            batch_rows_max: if self.one_in(3) { self.between(1, 100) as u32 } else { 8_192 },
            decoding: self.one_in(3).then(|| Decoding {
                piece_rows: self.between(1, 2_000) as u32,
                row_ns: self.spread(1.0, 1_000.0),
            }),
            backlog_bytes: if self.one_in(2) { self.between(100, 100_000) } else { 128 << 20 },
            shared: self.shared(queries),
            fronts: Vec::new(),
        };
        let (wake_ns, message_ns) = (self.between(0, 1) * self.between(1, 50_000), self.between(0, 2_000));
        let is_scheduled = self.one_in(2);
        let fronts = self.fronts(queries, &costs.shared);
        let costs = (Sources::Scheduled(ScheduledSources { fronts, ..costs }), wake_ns, message_ns);
        let sources = if is_scheduled { costs } else { (Sources::AtOnce, 0, 0) };
        std::mem::swap(&mut self.random, &mut self.sources);
        sources
    }

    fn shards(&mut self, cores: usize) -> usize {
        std::mem::swap(&mut self.random, &mut self.sources);
        let shards = if self.one_in(3) { self.between(1, cores as u64) } else { 1 };
        std::mem::swap(&mut self.random, &mut self.sources);
        shards as usize
    }

    /// What is done as one for those who share some of the tables: of those with the same one window in an operator of
    /// all, if there are enough of them.
    fn fronts(&mut self, queries: &[QueryModel], shared: &[Vec<FeedId>]) -> Vec<SharedFront> {
        let mut fronts = Vec::new();
        for readers in shared {
            if self.one_in(2) {
                continue;
            }
            let mut front = SharedFront {
                batch_ns: self.spread(1.0, 20_000.0),
                row_ns: self.spread(1.0, 1_000.0),
                ..SharedFront::default()
            };
            for &feed in readers {
                let nodes = queries[feed.query.index()].dataflow.nodes();
                let mut windows = nodes.iter().filter_map(|node| node.window);
                let window = windows.next().filter(|_| windows.next().is_none());
                let template = window.map(|window| {
                    let known = front.templates.iter().position(|template| template.window == window);
                    known.unwrap_or_else(|| {
                        front.templates.push(SharedTemplate {
                            cost: Cost {
                                fixed_ns: self.spread(1.0, 20_000.0),
                                per_row_ns: self.spread(1.0, 1_000.0),
                                watermark_ns: self.spread(1.0, 20_000.0),
                            },
                            result_ns: self.spread(1.0, 20_000.0),
                            window,
                            selectivity: self.spread(0.01, 1.0),
                            rows_max: self.spread(1.0, 100.0),
                            row_bytes: 8,
                        });
                        front.templates.len() - 1
                    })
                });
                front.members.push(FrontMember { feed, share: self.spread(0.001, 1.0), template });
            }
            fronts.push(front);
        }
        fronts
    }

    /// A few tables, and who reads each.
    fn shared(&mut self, queries: &[QueryModel]) -> Vec<Vec<FeedId>> {
        let mut shared = vec![Vec::new(); self.between(0, 2) as usize];
        for (index, query) in queries.iter().enumerate() {
            for feed in 0..query.feeds.len() {
                let table = self.between(0, 3) as usize;
                if let Some(readers) = shared.get_mut(table) {
                    readers.push(FeedId { query: QueryId(index as u32), feed });
                }
            }
        }
        shared
    }

    /// Sources that fall silent and sinks that stall.
    fn outages(&mut self, queries: usize, duration_ms: u64) -> Vec<Fault> {
        std::mem::swap(&mut self.random, &mut self.sources);
        let outage = |dice: &mut Dice| {
            let query = dice.one_in(2).then(|| QueryId(dice.between(0, queries as u64 - 1) as u32));
            let kind = if dice.one_in(2) { FaultKind::Silence { query } } else { FaultKind::Stall { query } };
            let from = dice.between(0, duration_ms);
            let to = from + dice.between(1, duration_ms / 3);
            Fault { kind, from: Duration::from_millis(from), to: Duration::from_millis(to) }
        };
        let outages = (0..self.between(0, 2)).map(|_| outage(self)).collect();
        std::mem::swap(&mut self.random, &mut self.sources);
        outages
    }

    fn cost(&mut self) -> Cost {
        Cost {
            fixed_ns: if self.one_in(4) { 0.0 } else { self.spread(100.0, 200_000.0) },
            per_row_ns: if self.one_in(4) { 0.0 } else { self.spread(10.0, 20_000.0) },
            watermark_ns: if self.one_in(4) { 0.0 } else { self.spread(100.0, 20_000.0) },
        }
    }

    fn window(&mut self) -> WindowShape {
        let slide_ms = self.between(10, 200) as i64;
        let slides = self.between(1, 4) as i64;
        let end_ms = match self.between(0, 9) {
            0 => None,
            1 => Some(slide_ms / 3),
            _ => Some(0),
        };
        WindowShape { size_ms: slide_ms * slides, slide_ms, end_ms }
    }

    fn window_stage(&mut self) -> StageKind {
        StageKind::Window {
            selectivity: self.spread(0.001, 1.0),
            rows_max: self.spread(1.0, 1_000.0),
            fire_per_row_ns: if self.one_in(2) { 0.0 } else { self.spread(10.0, 5_000.0) },
            state_row_bytes: self.between(0, 100) as u32,
        }
    }

    /// Sources, a stretch of operators, perhaps a second branch, and sinks.
    fn query(&mut self, seed: u64, index: u64) -> QueryModel {
        let target = Duration::from_micros(self.spread(1e3, 1e6) as u64);
        let target = LatencyTarget::new(target).unwrap_or(LatencyTarget::DEFAULT);
        let settings =
            QuerySettings { latency_target: target, ..QuerySettings::named(format!("query {index}")) };
        let mut flow = Dataflow::new(settings);
        let deployed = ProcessingTime(if self.one_in(3) { self.between(0, 300) * 1_000_000 } else { 0 });
        let mut feeds = Vec::new();
        let mut ends = Vec::new();
        for source in 0..self.between(1, 3) {
            let parallelism = self.between(1, 2) as usize;
            let node = self.push(&mut flow, parallelism, &[], StageKind::Source, None);
            for instance in 0..parallelism {
                let stream = self.stream(deployed);
                let salt = seed ^ (index << 8 | source << 4 | instance as u64).rotate_left(40);
                let arrivals = stream.arrivals(salt).expect("these delays are possible");
                feeds.push(Feed { node, instance, arrivals });
            }
            ends.push(node);
        }
        for _ in 0..self.between(0, 4) {
            let window = if self.one_in(3) { Some(self.window()) } else { None };
            let stage = match window {
                Some(_) => self.window_stage(),
                None => StageKind::Rows { selectivity: self.spread(0.05, 2.0) },
            };
            let parallelism = self.between(1, 3) as usize;
            // All open ends join here, or one of them goes on.
            let inputs = if self.one_in(3) {
                std::mem::take(&mut ends)
            } else {
                let last = ends.len() as u64 - 1;
                vec![ends.swap_remove(self.between(0, last) as usize)]
            };
            let node = self.push(&mut flow, parallelism, &inputs, stage, window);
            // Read twice now and then.
            ends.push(node);
            if self.one_in(4) {
                ends.push(node);
            }
        }
        for end in ends {
            let parallelism = self.between(1, 2) as usize;
            self.push(&mut flow, parallelism, &[end], StageKind::Sink, None);
        }
        QueryModel { dataflow: flow, feeds, deployed }
    }

    fn push(
        &mut self,
        flow: &mut Dataflow<Stage>,
        parallelism: usize,
        inputs: &[NodeId],
        kind: StageKind,
        window: Option<WindowShape>,
    ) -> NodeId {
        let inputs = inputs.iter().map(|&from| {
            let partitioning = match self.between(0, 2) {
                0 if flow.node(from).parallelism == parallelism => Partitioning::Forward,
                1 if parallelism == 1 => Partitioning::Gather,
                2 => Partitioning::RoundRobin,
                _ => Partitioning::Hash(vec![0]),
            };
            Input { from, partitioning }
        });
        let inputs = inputs.collect();
        let name = format!("node {}", flow.nodes().len());
        let stage = Stage::new(kind, self.cost(), self.between(1, 200) as u32);
        let stage = Stage { sleep: self.sleep(), ..stage };
        flow.push(Node { name, parallelism, inputs, window, stage }).expect("it is well formed")
    }

    fn sleep(&mut self) -> Option<Sleep> {
        std::mem::swap(&mut self.random, &mut self.sleeps);
        let length = Delay::Uniform { low_ns: 0, high_ns: self.between(1, 20_000_000) };
        let sleep = Sleep { chance_per_row: self.spread(1e-5, 1e-2), length };
        let sleeps = self.one_in(8).then_some(sleep);
        std::mem::swap(&mut self.random, &mut self.sleeps);
        sleeps
    }

    fn stream(&mut self, start: ProcessingTime) -> Stream {
        let watermarks = match self.between(0, 3) {
            0 => Watermarks::Sent {
                every_ms: self.between(5, 100),
                lag_ms: self.between(0, 50) as i64,
                delay: self.delay(),
            },
            1 => Watermarks::Behind {
                cadence: Cadence::Rows(self.between(1, 100)),
                lag_ms: self.between(0, 50) as i64,
            },
            _ => Watermarks::Behind { cadence: Cadence::Batch, lag_ms: self.between(0, 50) as i64 },
        };
        Stream {
            rate: Rate::constant(self.spread(10.0, 20_000.0)),
            spacing: if self.one_in(2) { Spacing::Even } else { Spacing::Poisson },
            batching: if self.one_in(2) {
                Batching::Rows(self.between(1, 300) as u32)
            } else {
                Batching::Every { ns: self.between(1, 50) * 1_000_000 }
            },
            row_bytes: self.between(1, 200) as u32,
            delay: self.delay(),
            watermarks,
            start,
            end: None,
            event_zero: ProcessingTime::ZERO,
        }
    }
}
