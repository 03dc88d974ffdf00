//! Whole engines on threads; results and counts are compared, never times.

use std::path::Path;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use arrow::array::{Int64Array, RecordBatch};
use arrow::datatypes::{DataType, Field, Schema};
use laxity_connect::{ConnectError, Scan, ScanEvent, ScanSpec, ScannedBatch, SinkSpec, TableSpec};
use laxity_graph::{
    Dataflow, EventTime, Flow, Input, LatencyTarget, Node, Partitioning, ProcessingTime, QuerySettings,
};
use laxity_operators::{
    Operator, OperatorError, OperatorFactory, OperatorState, Outbox, Stage as Plan, StateError, StreamBatch,
};
use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg32;

use super::*;
use crate::{Engine, EngineConfig, JoinFrom, QueryPlan, SubmitError};

const TIMEOUT: Duration = Duration::from_secs(60);
const ROWS: u64 = 10;

/// Rows (n, n) for n from 0 on, ten each millisecond.
struct Numbered {
    start: ProcessingTime,
    next: u64,
    columns: usize,
}

impl Scan for Numbered {
    fn poll(&mut self, now: ProcessingTime) -> Result<ScanEvent, ConnectError> {
        let arrival = self.start.plus_ns(self.next / ROWS * 1_000_000);
        if arrival > now {
            return Ok(ScanEvent::NotBefore(arrival));
        }
        let numbers = self.next as i64..(self.next + ROWS) as i64;
        self.next += ROWS;
        let columns = (0..self.columns).map(|_| Arc::new(Int64Array::from_iter_values(numbers.clone())) as _);
        let rows = RecordBatch::try_new(schema(self.columns), columns.collect()).expect("as declared");
        Ok(ScanEvent::Batch(ScannedBatch { rows, arrival }))
    }

    fn is_repeatable(&self) -> bool {
        true
    }
}

fn schema(columns: usize) -> Arc<Schema> {
    let field = |name: &&str| Field::new(*name, DataType::Int64, true);
    Arc::new(Schema::new(["a", "b"][..columns].iter().map(field).collect::<Vec<_>>()))
}

/// Passes rows on, after so long for each batch.
struct Pass(Duration);

impl Operator for Pass {
    fn on_batch(
        &mut self,
        _: usize,
        batch: StreamBatch,
        _: ProcessingTime,
        out: &mut Outbox,
    ) -> Result<Flow, OperatorError> {
        if !self.0.is_zero() {
            std::thread::sleep(self.0);
        }
        out.batch(batch);
        Ok(Flow::Done)
    }

    fn on_watermark(&mut self, watermark: EventTime, out: &mut Outbox) -> Result<Flow, OperatorError> {
        out.watermark(watermark);
        Ok(Flow::Done)
    }

    fn save(&mut self) -> Result<OperatorState, StateError> {
        Ok(OperatorState::default())
    }

    fn restore(&mut self, state: OperatorState) -> Result<(), StateError> {
        state.finish()
    }

    fn resume(&mut self, _: &mut Outbox) -> Result<Flow, OperatorError> {
        Ok(Flow::Done)
    }

    fn state_bytes(&self) -> usize {
        100
    }
}

fn table(folder: &Path, name: &str, columns: usize, options: &[(&str, &str)]) -> Arc<TableSpec> {
    let options = options.iter().map(|&(key, value)| (key.into(), value.into())).collect();
    Arc::new(TableSpec { name: name.into(), schema: schema(columns), options, base: folder.into() })
}

/// A query over the table `numbers` into a file of its own, or nowhere.
struct Asked<'a> {
    name: &'a str,
    folder: &'a Path,
    columns: usize,
    takes: Duration,
    writes: bool,
}

impl Asked<'_> {
    fn plan(&self) -> QueryPlan {
        let mut flow = Dataflow::new(QuerySettings::named(self.name));
        let node = |name: &str, inputs, stage| Node {
            name: name.into(),
            parallelism: 1,
            inputs,
            window: None,
            stage,
        };
        let takes = self.takes;
        let pass = move |takes| OperatorFactory::new(move |_| Ok(Box::new(Pass(takes))));
        // Declared anew by each, as several files would.
        let numbers = table(self.folder, "numbers", 2, &[("connector", "datagen")]);
        let scan = ScanSpec { table: numbers, columns: (0..self.columns).collect() };
        let source = Plan::Source { scan, operator: pass(Duration::ZERO), shared: None, view: None };
        let source = flow.push(node("source", vec![], source)).unwrap();
        let forward = |from| vec![Input { from, partitioning: Partitioning::Forward }];
        let middle = flow.push(node("middle", forward(source), Plan::Operator(pass(takes)))).unwrap();
        let path = format!("{}.csv", self.name);
        let sink = match self.writes {
            true => table(
                self.folder,
                &path,
                self.columns,
                &[("connector", "filesystem"), ("format", "csv"), ("path", &path)],
            ),
            false => table(self.folder, "nowhere", self.columns, &[("connector", "blackhole")]),
        };
        flow.push(node("sink", forward(middle), Plan::Sink(SinkSpec { table: sink }))).unwrap();
        QueryPlan { dataflow: flow, late: None, state: None }
    }
}

fn asked<'a>(name: &'a str, folder: &'a Path) -> Asked<'a> {
    Asked { name, folder, columns: 2, takes: Duration::ZERO, writes: true }
}

/// With two workers; how often `numbers` was opened.
fn engine(policy: &str, shards: usize) -> (Engine, Arc<AtomicU64>) {
    let engine = Engine::new(EngineConfig {
        workers: 2,
        shards: Some(shards),
        policy: policy.parse().unwrap(),
        // A slow operator then takes its time for every batch, and falls behind.
        merge: false,
        ..EngineConfig::default()
    });
    let opened = Arc::new(AtomicU64::new(0));
    let count = opened.clone();
    engine.provide("numbers", move |spec, environment| {
        count.fetch_add(1, Ordering::Relaxed);
        let (start, next) = (environment.start, environment.skip_rows);
        Ok(Box::new(Numbered { start, next, columns: spec.columns.len() }))
    });
    engine.start().unwrap();
    (engine, opened)
}

fn until_out(engine: &Engine, id: QueryId, rows: u64) {
    let started = engine.clock().now();
    while engine.query(id).is_none_or(|query| query.rows_out < rows) {
        let waited = engine.clock().now().since_ns(started);
        assert!(waited < TIMEOUT.as_nanos() as u64, "{:?}", engine.query(id));
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// The first column of what a query wrote, which is without gaps.
fn written(folder: &Path, name: &str) -> std::ops::Range<u64> {
    let text = std::fs::read_to_string(folder.join(format!("{name}.csv"))).unwrap();
    let first = |line: &str| line.split(',').next().unwrap().parse::<u64>().unwrap();
    let numbers: Vec<u64> = text.lines().map(first).collect();
    assert!(numbers.windows(2).all(|pair| pair[1] == pair[0] + 1), "rows are missing, twice or in disorder");
    numbers[0]..numbers[numbers.len() - 1] + 1
}

#[test]
fn what_is_drained_writes_all_that_it_took_in_and_its_name_comes_free() {
    let folder = tempfile::tempdir().unwrap();
    for policy in ["laxity", "os"] {
        let (engine, _) = engine(policy, 1);
        let going = engine.submit(asked("going", folder.path()).plan()).unwrap();
        let staying = engine.submit(asked("staying", folder.path()).plan()).unwrap();
        until_out(&engine, going, 100);
        assert!(matches!(
            engine.submit(asked("going", folder.path()).plan()),
            Err(SubmitError::NameTaken { .. })
        ));
        assert_eq!(engine.forget(going).map(|query| query.id), None, "it runs");
        assert!(engine.cancel(going, Ending::Drain));
        assert!(engine.wait_gone(going, TIMEOUT));
        assert!(!engine.cancel(going, Ending::Drop), "it has ended");
        let last = engine.forget(going).unwrap();
        assert_eq!((last.outcome, last.rows_in), (Outcome::Cancelled, last.rows_out));
        assert_eq!(written(folder.path(), "going"), 0..last.rows_out);
        assert_eq!(engine.query(going).map(|query| query.id), None);
        let again = engine.submit(Asked { writes: false, ..asked("going", folder.path()) }.plan()).unwrap();
        until_out(&engine, again, 100);
        until_out(&engine, staying, 300);
        engine.stop();
        assert_eq!(engine.query(staying).unwrap().outcome, Outcome::Finished);
        assert_eq!(engine.snapshot().memory_bytes, 0);
    }
}

#[test]
fn what_is_dropped_holds_nothing_and_harms_nobody() {
    let folder = tempfile::tempdir().unwrap();
    for (policy, shards) in [("laxity", 1), ("laxity", 2), ("os", 1)] {
        let (engine, _) = engine(policy, shards);
        let staying = engine.submit(asked("staying", folder.path()).plan()).unwrap();
        // It falls ever further behind, so that messages of it wait and one runs when it goes.
        let slow = Asked { takes: Duration::from_millis(5), ..asked("slow", folder.path()) };
        let slow = engine.submit(slow.plan()).unwrap();
        until_out(&engine, slow, 100);
        assert!(engine.cancel(slow, Ending::Drop));
        assert!(engine.wait_gone(slow, TIMEOUT));
        let out = engine.query(staying).unwrap().rows_out;
        until_out(&engine, staying, out + 200);
        engine.stop();
        let last = engine.query(slow).unwrap();
        assert_eq!((last.outcome, last.rows_queued, last.state_bytes), (Outcome::Cancelled, 0, 0));
        assert!(last.rows_out < last.rows_in, "{policy}: it was not behind");
        assert_eq!(written(folder.path(), "slow").count() as u64, last.rows_out);
        assert_eq!(written(folder.path(), "staying"), 0..engine.query(staying).unwrap().rows_out);
        assert_eq!(engine.snapshot().memory_bytes, 0);
    }
}

#[test]
fn who_comes_later_joins_a_table_from_its_next_row_on() {
    let folder = tempfile::tempdir().unwrap();
    let (engine, opened) = engine("laxity", 1);
    let first = engine.submit(asked("first", folder.path()).plan()).unwrap();
    until_out(&engine, first, 200);
    let before = engine.query(first).unwrap().rows_in;
    let joined = engine.submit(asked("joined", folder.path()).plan()).unwrap();
    // Fewer columns are among those that are read; all of them are not among fewer.
    let fewer = engine.submit(Asked { columns: 1, ..asked("fewer", folder.path()) }.plan()).unwrap();
    assert_eq!(opened.load(Ordering::Relaxed), 1);
    let anew = engine.submit_from(asked("anew", folder.path()).plan(), JoinFrom::Start).unwrap();
    assert_eq!(opened.load(Ordering::Relaxed), 2);
    for query in [first, joined, fewer, anew] {
        until_out(&engine, query, 300);
    }
    engine.stop();
    assert_eq!(written(folder.path(), "first").start, 0);
    assert_eq!(written(folder.path(), "anew").start, 0);
    for name in ["joined", "fewer"] {
        let rows = written(folder.path(), name);
        assert!(rows.start >= before, "{name} began at {}, behind {before}", rows.start);
        assert_eq!(rows.end, written(folder.path(), "first").end, "{name}");
    }
    let line = std::fs::read_to_string(folder.path().join("fewer.csv")).unwrap();
    assert!(!line.lines().next().unwrap().contains(','), "it has one column: {line:.20}");
}

#[test]
fn who_joins_with_other_columns_gets_a_copy_from_there_on() {
    let folder = tempfile::tempdir().unwrap();
    let (engine, opened) = engine("laxity", 1);
    let narrow = engine.submit(Asked { columns: 1, ..asked("narrow", folder.path()) }.plan()).unwrap();
    until_out(&engine, narrow, 200);
    let before = engine.query(narrow).unwrap().rows_in;
    let wide = engine.submit(asked("wide", folder.path()).plan()).unwrap();
    assert_eq!(opened.load(Ordering::Relaxed), 2);
    until_out(&engine, wide, 200);
    engine.stop();
    assert_eq!(written(folder.path(), "narrow").start, 0);
    let first = written(folder.path(), "wide").start;
    assert!(first >= before && first <= engine.query(narrow).unwrap().rows_in, "{first} after {before}");
}

#[test]
fn results_are_judged_by_what_is_promised_when_they_come_out() {
    let folder = tempfile::tempdir().unwrap();
    let (engine, _) = engine("laxity", 2);
    let takes = Duration::from_millis(3);
    let query = engine.submit(Asked { takes, writes: false, ..asked("q", folder.path()) }.plan()).unwrap();
    until_out(&engine, query, 100);
    let before = engine.query(query).unwrap();
    assert_eq!(before.lateness.met, before.lateness.results, "within a minute");
    let latency_target = LatencyTarget::new(Duration::from_micros(1)).unwrap();
    assert!(engine.alter(query, Promise { latency_target, qos: None, weight: 2.0 }));
    until_out(&engine, query, before.rows_out + 100);
    let after = engine.query(query).unwrap();
    assert_eq!(after.target_ns, 1_000);
    // One may have been on its way out as the promise changed.
    let unmet = after.lateness.results - after.lateness.met;
    assert!(unmet > 0 && after.lateness.met <= before.lateness.met + 20, "{:?}", after.lateness);
    engine.cancel(query, Ending::Drop);
    assert!(!engine.alter(query, Promise { latency_target, qos: None, weight: 2.0 }));
    assert!(!engine.alter(QueryId(99), Promise { latency_target, qos: None, weight: 2.0 }));
    engine.stop();
}

#[test]
fn a_query_is_replaced_under_its_name_unless_its_successor_cannot_be_made() {
    let folder = tempfile::tempdir().unwrap();
    let (engine, _) = engine("laxity", 1);
    let keeps_reading = engine.submit(asked("other", folder.path()).plan()).unwrap();
    let old = engine.submit(asked("q", folder.path()).plan()).unwrap();
    until_out(&engine, old, 100);
    let mut broken = asked("q", folder.path()).plan();
    let cannot = |_: &_| Err(OperatorError::Row { operator: "middle".into(), message: "cannot be".into() });
    let node = broken.dataflow.push(Node {
        name: "broken".into(),
        parallelism: 1,
        inputs: vec![Input { from: laxity_graph::NodeId(0), partitioning: Partitioning::Forward }],
        window: None,
        stage: Plan::Operator(OperatorFactory::new(cannot)),
    });
    node.unwrap();
    assert!(matches!(engine.replace(old, broken), Err(SubmitError::Operator { .. })));
    assert_eq!(engine.query(old).unwrap().outcome, Outcome::Running);
    let new = Asked { writes: false, ..asked("q", folder.path()) };
    let new = engine.replace(old, new.plan()).unwrap();
    until_out(&engine, new, 100);
    let last = engine.forget(old).unwrap();
    assert_eq!((last.outcome, last.rows_in), (Outcome::Cancelled, last.rows_out));
    until_out(&engine, keeps_reading, 300);
    engine.stop();
    assert_eq!(written(folder.path(), "q").count() as u64, last.rows_out);
}

#[test]
fn a_query_that_is_cancelled_before_the_start_never_reads() {
    let folder = tempfile::tempdir().unwrap();
    let engine = Engine::new(EngineConfig { workers: 1, ..EngineConfig::default() });
    engine.provide("numbers", |_, _| panic!("nobody reads it"));
    let query = engine.submit(asked("q", folder.path()).plan()).unwrap();
    assert!(engine.cancel(query, Ending::Drain));
    engine.start().unwrap();
    assert!(engine.wait(TIMEOUT));
    engine.stop();
}

/// Ids, names, tables, threads and bytes after so many random steps of a few queries at a time.
fn lives(policy: &str, shards: usize, steps: u32) {
    const AT_ONCE: usize = 12;
    let folder = tempfile::tempdir().unwrap();
    let (engine, _) = engine(policy, shards);
    let mut random = Pcg32::seed_from_u64(u64::from(steps));
    let mut living: Vec<QueryId> = Vec::new();
    let mut ending: Vec<QueryId> = Vec::new();
    let (mut submitted, mut failed) = (0, 0);
    for step in 0..steps {
        let place = random.next_u32() as usize % living.len().max(1);
        match random.next_u32() % 8 {
            0..=2 if living.len() < AT_ONCE => {
                // Who clears up may get no core for a while, and this goes on at its own pace.
                let few_are_left = || engine.shared().registry.read().held().owned < 10 * AT_ONCE;
                assert!(engine.wait_until(TIMEOUT, few_are_left), "nobody clears up");
                let name = format!("q{step}");
                let columns = 1 + random.next_u32() as usize % 2;
                let plan = Asked { columns, writes: false, ..asked(&name, folder.path()) }.plan();
                let from = if random.next_u32() % 4 == 0 { JoinFrom::Start } else { JoinFrom::Now };
                living.push(engine.submit_from(plan, from).unwrap());
                submitted += 1;
            }
            3 | 4 if !living.is_empty() => {
                let query = living.swap_remove(place);
                let how = if random.next_u32() % 2 == 0 { Ending::Drain } else { Ending::Drop };
                assert!(engine.cancel(query, how));
                ending.push(query);
            }
            5 if !living.is_empty() => {
                let ns = 1 + u64::from(random.next_u32() % 100_000_000);
                let latency_target = LatencyTarget::new(Duration::from_nanos(ns)).unwrap();
                assert!(engine.alter(living[place], Promise { latency_target, qos: None, weight: 1.0 }));
            }
            6 if !living.is_empty() => {
                // An error inside it, as an operator would have.
                let query = living.swap_remove(place);
                let entry = engine.shared().registry.read().get(query).map(|entry| entry.query.clone());
                entry.unwrap().end(Outcome::Failed("as if".into()));
                ending.push(query);
                failed += 1;
            }
            _ => {
                // What is drained is an account until then.
                ending.retain(|&query| engine.forget(query).is_none());
            }
        }
    }
    assert!(submitted > steps / 8 && failed > steps / 40, "{submitted} and {failed} of {steps}");
    for query in living {
        engine.cancel(query, Ending::Drop);
        ending.push(query);
    }
    for &query in &ending {
        let is_gone = engine.wait_gone(query, TIMEOUT);
        let registry = engine.shared().registry.read();
        let left = registry.get(query).map(|entry| (entry.stage(), &entry.query));
        assert!(is_gone, "{query} is not gone: {left:?}");
        drop(registry);
        engine.forget(query);
    }
    let shared = engine.shared();
    // Those that were forgotten before they were gone.
    assert!(engine.wait_until(TIMEOUT, || shared.registry.read().held().entries == 0));
    let held = shared.registry.read().held();
    // Two operators each and a table each at most, of those that live and of those that were not quite gone; the rest is
    // room for gaps.
    assert!(held.ids_bound < 20 * AT_ONCE as u32 * 3, "{held:?}");
    assert_eq!((held.names, held.owned, shared.open_tables.count()), (0, 0, 0));
    assert_eq!(shared.process.memory.used_bytes(), 0);
    engine.stop();
}

#[test]
fn ten_thousand_steps_of_life_leave_nothing_behind() {
    lives("laxity", 1, 6_000);
    lives("llf", 2, 4_000);
}

#[test]
fn nor_do_those_of_a_thread_per_operator() {
    lives("os", 1, 400);
}
