//! Real operators in virtual time, held against results worked out without them: the same under every policy, on any
//! number of cores, with pauses, restarts, other seeds and rows cut anew. Cannot catch: what threads and real tables
//! do.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use arrow::array::RecordBatch;
use arrow::compute::concat_batches;
use laxity_connect::{ScanEnvironment, ScanEvent, ScanSpec, SinkEnvironment, SinkSpec, open_scan, open_sink};
use laxity_graph::{Dataflow, EventClock, EventTime, NodeId, ProcessingTime};
use laxity_operators::{OperatorFactory, Stage};
use laxity_sim::{
    Cluster, Driver, Fault, FaultKind, Keep, OsThreads, Placement, RowArrival, RowOutcome, RowQuery,
    RowSimulation, Setup,
};
use laxity_sql::{CompileOptions, SqlFile};
use laxity_workload::script::NamedScript;
use laxity_workload::{Cost, Delay};
use proptest::prelude::*;

use crate::{Written, carried, from_environment, golden_topics, pace, with_answers};

type Query = Dataflow<Stage<ScanSpec, SinkSpec>>;

/// Under which policy, on how many cores, and what else is done to a run.
#[derive(Clone, Debug)]
struct Way {
    policy: &'static str,
    nodes: usize,
    cores: usize,
    parallelism: usize,
    /// Instead of the scheduler, a thread per operator.
    threads: bool,
    /// Its events are kept as text.
    traced: bool,
    seed: u64,
}

const PLAIN: Way =
    Way { policy: "laxity", nodes: 1, cores: 2, parallelism: 1, threads: false, traced: false, seed: 1 };

/// A script, compiled, with all rows in memory.
struct Loaded {
    written: Written,
    queries: Vec<Query>,
    /// By query and source.
    rows: Vec<Vec<(NodeId, Vec<RowArrival>, EventClock)>>,
}

impl Loaded {
    fn new(named: &NamedScript, seed: u64, parallelism: usize) -> Loaded {
        let written = Written::new(named, seed, Some(1.0), &in_parallel(parallelism));
        // Some rows at once, most of the time.
        Loaded::of(written, (10e9 / pace(named.name).rows_per_s) as u64)
    }

    /// A topic of the golden folder; its rows come in pieces of some rows, ten pieces per second.
    fn golden(topic: &str, parallelism: usize) -> Loaded {
        let mut loaded = Loaded::of(Written::golden(topic, &in_parallel(parallelism)), 0);
        for (_, batches, _) in loaded.rows.iter_mut().flatten() {
            *batches = cut(batches, &[1, 7, 3, 20, 2]);
            for (batch, number) in batches.iter_mut().zip(0..) {
                batch.at = ProcessingTime(number * 100_000_000);
            }
        }
        loaded
    }

    fn of(written: Written, poll_ns: u64) -> Loaded {
        let text = std::fs::read_to_string(written.sql()).unwrap();
        let file = SqlFile { path: written.sql(), text };
        let script = laxity_sql::compile_with(
            &[file],
            CompileOptions { processing_origin_ms: 0, verify_approximate: false },
        )
        .unwrap();
        let queries: Vec<Query> = script.queries.into_iter().map(|query| query.dataflow).collect();
        let rows = queries.iter().map(|query| sources(query, poll_ns)).collect();
        Loaded { written, queries, rows }
    }

    /// The same, but every operator is saved, dropped and restored after some of its messages: see
    /// [`OperatorFactory::restarted`].
    fn restarted(self, after: u64) -> Loaded {
        self.with_operators(|operator, node| operator.restarted(after.rotate_left(node), carried))
    }

    /// Every operator is saved after some of its messages, and killed after others: see [`OperatorFactory::killed`]. `kills`
    /// counts those that had something to go on from.
    fn killed(self, saved_after: u64, killed_after: u64, kills: &Arc<AtomicU64>) -> Loaded {
        self.with_operators(|operator, node| {
            let kills = Arc::clone(kills);
            let (saved, killed) = (saved_after.rotate_left(node), killed_after.rotate_left(3 * node));
            operator.killed(saved, killed, move |state| {
                kills.fetch_add(1, Relaxed);
                carried(state)
            })
        })
    }

    fn with_operators(mut self, with: impl Fn(OperatorFactory, u32) -> OperatorFactory) -> Loaded {
        for query in &mut self.queries {
            for node in 0..query.nodes().len() {
                if let Stage::Source { operator, .. } | Stage::Operator(operator) =
                    query.stage_mut(NodeId(node))
                {
                    *operator = with(operator.clone(), node as u32);
                }
            }
        }
        self
    }

    fn run(&self, way: &Way) -> RowOutcome {
        let queries = self.queries.iter().zip(&self.rows).map(|(query, rows)| {
            // Some tenths of a core, and bursts that queue.
            let cost = Cost { fixed_ns: 200_000.0, per_row_ns: 300_000.0, watermark_ns: 50_000.0 };
            let mut model = RowQuery::new(query, |_| cost).unwrap();
            for (source, batches, clock) in rows {
                model = model.feed(*source, batches.clone(), *clock);
            }
            model
        });
        let arrivals = self.rows.iter().flatten().flat_map(|(_, batches, _)| batches);
        let ends = arrivals.map(|batch| batch.at).max().unwrap_or_default();
        let pause = |from_s: u64, to_s: u64| Fault {
            kind: FaultKind::Pause { node: 0 },
            from: Duration::from_secs(from_s),
            to: Duration::from_secs(to_s),
        };
        let cluster = Cluster {
            nodes: way.nodes,
            cores_per_node: way.cores,
            network: Delay::Exponential { mean_ns: 30e6 },
            placement: Placement::Operators,
        };
        let setup = Setup {
            cluster: if way.nodes == 1 { Cluster::one(way.cores) } else { cluster },
            faults: vec![pause(3, 5), pause(8, 9)],
            // Time for what was held back: nothing is read after it.
            duration: Duration::from_nanos(ends.0) + Duration::from_secs(120),
            drain: true,
            seed: way.seed,
            driver: if way.threads { Driver::OsThreads(OsThreads::default()) } else { Driver::Scheduler },
            // Now and then sources are held back: 500 rows in flight.
            credit_bytes: if way.seed.is_multiple_of(3) { 500 * 64 } else { 64 << 20 },
            merge_rows_max: way.seed.is_multiple_of(2).then_some(1_000),
            exchange: Duration::from_secs(1),
            keep: Keep { timeline: false, results: false, trace: way.traced, checks: true },
            ..Setup::default()
        };
        let policy = way.policy;
        let mut simulation =
            RowSimulation::new(queries.collect(), laxity_policies::recipe(policy).unwrap(), setup);
        // Answers of several batches.
        simulation.batch_rows = 16;
        let outcome = simulation.run().unwrap();
        assert_eq!(outcome.outcome.violations, [], "{} {way:?}", self.written.name);
        outcome
    }

    /// Writes what came out as the sinks would, and compares.
    fn check(&self, outcome: &RowOutcome, how: &str) {
        for (index, query) in self.queries.iter().enumerate() {
            for (node, sink) in query.nodes().iter().enumerate() {
                let Stage::Sink(spec) = &sink.stage else { continue };
                let mut sink = open_sink(spec, &SinkEnvironment::default()).unwrap();
                for result in &outcome.results {
                    if result.query.index() == index && result.sink == NodeId(node) {
                        sink.write(&result.rows).unwrap();
                    }
                }
                sink.close().unwrap();
            }
        }
        self.written.check(how);
        for (query, counted) in outcome.outcome.queries.iter().zip(&self.written.late_rows) {
            assert_eq!(query.rows_late, *counted, "{} {how}: late rows of {}", self.written.name, query.name);
        }
    }
}

fn in_parallel(instances: usize) -> String {
    format!("SET 'parallelism.default' = '{instances}';\n")
}

/// The rows of every source of a query, and when they are due.
fn sources(query: &Query, poll_ns: u64) -> Vec<(NodeId, Vec<RowArrival>, EventClock)> {
    let mut sources = Vec::new();
    for (node, source) in query.nodes().iter().enumerate() {
        let Stage::Source { scan, .. } = &source.stage else { continue };
        let mut scan = open_scan(scan, &ScanEnvironment::new(ProcessingTime::ZERO, EventTime(0))).unwrap();
        let mut batches = Vec::new();
        let mut now = ProcessingTime::ZERO;
        loop {
            match scan.poll(now).unwrap() {
                ScanEvent::Batch(batch) => batches.push(RowArrival { at: batch.arrival, rows: batch.rows }),
                ScanEvent::NotBefore(at) => now = at.max(now.plus_ns(poll_ns)),
                ScanEvent::Waiting => unreachable!("the tables are files"),
                ScanEvent::End => break,
            }
        }
        let unpaced =
            EventClock { event_origin: EventTime(0), processing_origin: ProcessingTime::ZERO, speed: 1.0 };
        sources.push((NodeId(node), batches, scan.event_clock().unwrap_or(unpaced)));
    }
    sources
}

fn named(name: &str) -> &'static NamedScript {
    with_answers().into_iter().find(|named| named.name == name).unwrap()
}

fn ways() -> Vec<Way> {
    vec![
        PLAIN,
        Way { policy: "fifo", cores: 1, ..PLAIN },
        Way { policy: "llf", cores: 3, parallelism: 3, seed: 2, ..PLAIN },
        Way { policy: "klink", nodes: 2, cores: 1, seed: 3, ..PLAIN },
        Way { policy: "aurora", cores: 1, parallelism: 2, seed: 4, ..PLAIN },
        Way { policy: "random", cores: 4, parallelism: 4, seed: 5, ..PLAIN },
        Way { policy: "haren", nodes: 3, cores: 2, parallelism: 2, seed: 6, ..PLAIN },
        Way { policy: "hr", cores: 2, parallelism: 3, threads: true, seed: 7, ..PLAIN },
    ]
}

#[test]
fn results_do_not_depend_on_policy_cores_delays_or_pauses() {
    for named in with_answers() {
        for way in ways() {
            let loaded = Loaded::new(named, way.seed % 2, way.parallelism);
            let outcome = loaded.run(&way);
            loaded.check(&outcome, &format!("{way:?}"));
        }
    }
}

#[test]
fn golden_results_do_not_depend_on_them_either() {
    for topic in golden_topics() {
        for way in ways() {
            let loaded = Loaded::golden(&topic, way.parallelism);
            let outcome = loaded.run(&way);
            loaded.check(&outcome, &format!("{way:?}"));
        }
    }
}

#[test]
fn golden_results_do_not_depend_on_restarts() {
    for (topic, number) in golden_topics().into_iter().zip(0..) {
        // After most messages, and after few.
        for (after, parallelism) in [(0xf7ff_dfbb_7fef_ffdd_u64, 1), (0x0100_2000_0801_0040, 3)] {
            let loaded = Loaded::golden(&topic, parallelism).restarted(after.rotate_left(number));
            let outcome = loaded.run(&Way { cores: 2, parallelism, ..PLAIN });
            loaded.check(&outcome, &format!("restarted after {after:x}"));
        }
    }
}

/// What operators make of the same messages twice, in whole plans and on several instances. `CRASHES=10000` for more.
#[test]
fn golden_results_do_not_depend_on_crashes() {
    let wanted = from_environment("CRASHES", 1_000);
    let (kills, topics) = (Arc::new(AtomicU64::new(0)), golden_topics());
    for round in 0.. {
        for (topic, number) in topics.iter().zip(0..) {
            let parallelism = if (number + round) % 2 == 0 { 1 } else { 3 };
            let (saved, killed) = (0x0101_0020_1008_4004_u64, 0x0810_0201_0040_8010_u64);
            let (saved, killed) =
                (saved.rotate_left(7 * round + number), killed.rotate_left(11 * round + number));
            let loaded = Loaded::golden(topic, parallelism).killed(saved, killed, &kills);
            let outcome = loaded.run(&Way { cores: 2, parallelism, ..PLAIN });
            loaded.check(&outcome, &format!("saved after {saved:x}, killed after {killed:x}"));
        }
        if kills.load(Relaxed) >= wanted {
            break;
        }
    }
    println!("{} crashes of operators in {} topics: 0 lost, 0 doubled", kills.load(Relaxed), topics.len());
}

#[test]
fn results_are_the_same_under_every_policy_and_times_are_not() {
    let loaded = Loaded::new(named("cameo-tenants"), 3, 2);
    let mut means = Vec::new();
    for policy in laxity_policies::names() {
        let outcome = loaded.run(&Way { policy, cores: 1, ..PLAIN });
        loaded.check(&outcome, policy);
        means.push(outcome.outcome.queries[0].latency_mean_ns as u64);
    }
    means.sort_unstable();
    means.dedup();
    assert!(means.len() >= 6, "{means:?}");
}

#[test]
fn the_same_seed_gives_the_same_trace_and_results_byte_for_byte() {
    let run = |seed| {
        let loaded = Loaded::new(named("ysb"), 1, 3);
        let outcome =
            loaded.run(&Way { policy: "random", nodes: 2, parallelism: 3, traced: true, seed, ..PLAIN });
        let results: Vec<String> = outcome.results.iter().map(|result| format!("{result:?}")).collect();
        (outcome.outcome.trace.unwrap(), results)
    };
    let (first, second, other) = (run(4), run(4), run(6));
    assert!(first == second);
    assert!(first.0.lines().count() > 1_000 && first.1.len() > 1);
    assert!(first.0 != other.0, "another seed is another trace");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    /// Rows cut anew, each piece due with its last row.
    #[test]
    fn results_do_not_depend_on_how_rows_are_cut(
        script in 0usize..3,
        lengths in prop::collection::vec(1usize..90, 1..12),
        way in 0usize..8,
    ) {
        let way = &ways()[way];
        let mut loaded = Loaded::new(named(["ysb", "ipq2", "ipq4"][script]), 5, way.parallelism);
        for (_, batches, _) in loaded.rows.iter_mut().flatten() {
            *batches = cut(batches, &lengths);
        }
        let outcome = loaded.run(way);
        loaded.check(&outcome, &format!("{way:?} {lengths:?}"));
    }
}

fn cut(batches: &[RowArrival], lengths: &[usize]) -> Vec<RowArrival> {
    let due: Vec<ProcessingTime> =
        batches.iter().flat_map(|batch| vec![batch.at; batch.rows.num_rows()]).collect();
    let whole = batches.iter().map(|batch| &batch.rows);
    let whole: RecordBatch = concat_batches(&batches[0].rows.schema(), whole).unwrap();
    let mut pieces = Vec::new();
    let mut lengths = lengths.iter().copied().cycle();
    let mut first = 0;
    while first < whole.num_rows() {
        let length = lengths.next().unwrap_or(1).min(whole.num_rows() - first);
        pieces.push(RowArrival { at: due[first + length - 1], rows: whole.slice(first, length) });
        first += length;
    }
    pieces
}
