//! Whole engines on threads; results and counts are compared, never times.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::time::Duration;

use arrow::array::{Int64Array, RecordBatch};
use arrow::datatypes::{DataType, Field, Schema};
use laxity_connect::{ConnectError, Scan, ScanEvent, ScanSpec, ScannedBatch, SinkSpec, TableSpec};
use laxity_graph::{
    Dataflow, EventTime, Flow, Input, LatencyTarget, Node, Partitioning, ProcessingTime, QosCurve,
    QuerySettings,
};
use laxity_operators::{
    Operator, OperatorError, OperatorFactory, OperatorState, Outbox, Stage as Plan, StateError, StreamBatch,
};
use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg32;

use super::*;
use crate::{Engine, EngineConfig, JoinFrom, QueryPlan, StatePlan, SubmitError};

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
    /// Its file is declared as each query's own.
    each_own: bool,
    /// It has checkpoints, and this many lines of text.
    shape: usize,
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
        let path = match self.each_own {
            true => "${query}.csv".to_owned(),
            false => format!("{}.csv", self.name),
        };
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
        let state = (self.shape > 0).then(|| StatePlan {
            folder: self.folder.join("state"),
            mirror: None,
            interval: Duration::from_secs(3600),
            shape: vec!["line".into(); self.shape],
            ignores: false,
            at: None,
        });
        QueryPlan { dataflow: flow, late: None, state }
    }
}

fn asked<'a>(name: &'a str, folder: &'a Path) -> Asked<'a> {
    Asked { name, folder, columns: 2, takes: Duration::ZERO, writes: true, each_own: false, shape: 0 }
}

/// With two workers; how often `numbers` was opened.
fn engine(policy: &str, shards: usize) -> (Engine, Arc<AtomicU64>) {
    engine_of(policy, shards, EngineConfig::default().credit_bytes)
}

/// With so much that a query may have on its way.
fn engine_of(policy: &str, shards: usize, credit_bytes: u64) -> (Engine, Arc<AtomicU64>) {
    let engine = Engine::new(EngineConfig {
        credit_bytes,
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

/// The first column of a file.
fn numbers_in(folder: &Path, name: &str) -> Vec<u64> {
    let text = std::fs::read_to_string(folder.join(format!("{name}.csv"))).unwrap();
    let first = |line: &str| line.split(',').next().unwrap().parse::<u64>().unwrap();
    text.lines().map(first).collect()
}

/// The first column of what a query wrote, which is without gaps.
fn written(folder: &Path, name: &str) -> std::ops::Range<u64> {
    let numbers = numbers_in(folder, name);
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
        let slow = Asked { takes: Duration::from_millis(50), ..asked("slow", folder.path()) };
        let slow = engine.submit(slow.plan()).unwrap();
        until_out(&engine, slow, 100);
        while engine.query(slow).unwrap().rows_queued == 0 {
            std::thread::sleep(Duration::from_millis(1));
        }
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

/// Passes on what comes and counts watermarks; a source of it is moved by the clock alone.
struct Told {
    waits: bool,
    watermarks: Arc<AtomicU64>,
}

impl Operator for Told {
    fn on_batch(
        &mut self,
        _: usize,
        batch: StreamBatch,
        _: ProcessingTime,
        out: &mut Outbox,
    ) -> Result<Flow, OperatorError> {
        out.batch(batch);
        Ok(Flow::Done)
    }

    fn on_watermark(&mut self, watermark: EventTime, out: &mut Outbox) -> Result<Flow, OperatorError> {
        self.watermarks.fetch_add(1, Ordering::Relaxed);
        out.watermark(watermark);
        Ok(Flow::Done)
    }

    fn follows_processing_time(&self) -> bool {
        true
    }

    fn waits_for_time(&self) -> bool {
        self.waits
    }

    fn save(&mut self) -> Result<OperatorState, StateError> {
        Ok(OperatorState::default())
    }

    fn restore(&mut self, state: OperatorState) -> Result<(), StateError> {
        state.finish()
    }
}

/// Nothing ever comes.
struct Silent;

impl Scan for Silent {
    fn poll(&mut self, _: ProcessingTime) -> Result<ScanEvent, ConnectError> {
        Ok(ScanEvent::Waiting)
    }

    fn is_repeatable(&self) -> bool {
        true
    }
}

#[test]
fn the_clock_is_told_only_where_an_operator_waits_for_it() {
    let folder = tempfile::tempdir().unwrap();
    let (engine, _) = engine("laxity", 1);
    engine.provide("silent", |_, _| Ok(Box::new(Silent)));
    let submit = |name: &str, waits: bool| {
        let watermarks = Arc::new(AtomicU64::new(0));
        let told = |waits| {
            let watermarks = watermarks.clone();
            OperatorFactory::new(move |_| Ok(Box::new(Told { waits, watermarks: watermarks.clone() })))
        };
        let mut flow = Dataflow::new(QuerySettings::named(name));
        let node = |inputs, stage| Node { name: "n".into(), parallelism: 1, inputs, window: None, stage };
        let forward = |from| vec![Input { from, partitioning: Partitioning::Forward }];
        // Each reads it by itself.
        let scan =
            ScanSpec { table: table(folder.path(), "silent", 2, &[("for", name)]), columns: vec![0, 1] };
        let source = Plan::Source { scan, operator: told(false), shared: None, view: None };
        let source = flow.push(node(vec![], source)).unwrap();
        let middle = flow.push(node(forward(source), Plan::Operator(told(waits)))).unwrap();
        let sink = table(folder.path(), "nowhere", 2, &[("connector", "blackhole")]);
        flow.push(node(forward(middle), Plan::Sink(SinkSpec { table: sink }))).unwrap();
        engine.submit(QueryPlan { dataflow: flow, late: None, state: None }).unwrap();
        watermarks
    };
    let (stamped, windowed) = (submit("stamped", false), submit("windowed", true));
    let is_told = || windowed.load(Ordering::Relaxed) >= 20;
    for _ in 0..TIMEOUT.as_millis() {
        if is_told() {
            break;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    assert!(is_told(), "who waits for the clock hears of it");
    assert_eq!(stamped.load(Ordering::Relaxed), 0, "a message without a row");
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
    let new = engine.replace(old, asked("q", folder.path()).plan()).unwrap();
    until_out(&engine, new, 100);
    let last = engine.forget(old).unwrap();
    assert_eq!((last.outcome, last.rows_in), (Outcome::Cancelled, last.rows_out));
    until_out(&engine, keeps_reading, 300);
    engine.stop();
    let new = engine.query(new).unwrap();
    assert_eq!((new.outcome, new.rows_in), (Outcome::Finished, new.rows_out));
    assert_eq!(replaced(folder.path(), "q"), last.rows_out + new.rows_out);
}

/// How many rows two queries wrote to one file, each once; those that the first had on its way may be among the other's.
fn replaced(folder: &Path, name: &str) -> u64 {
    let mut numbers = numbers_in(folder, name);
    numbers.sort_unstable();
    let (first, rows) = (numbers[0], numbers.len() as u64);
    assert!(numbers.into_iter().eq(first..first + rows), "rows are lost or twice");
    rows
}

#[test]
fn its_successor_reads_and_writes_on_where_it_was_whatever_it_was_behind() {
    for (policy, shards) in [("laxity", 1), ("laxity", 2), ("os", 1)] {
        for each_own in [false, true] {
            let folder = tempfile::tempdir().unwrap();
            // Nobody else reads the table, and who is slow has no credit for what waits.
            let (engine, opened) = engine_of(policy, shards, 2_000);
            let slow = Duration::from_millis(2);
            let asked = || Asked { each_own, ..asked("q", folder.path()) };
            let mut query = engine.submit(Asked { takes: slow, ..asked() }.plan()).unwrap();
            let mut rows = 0;
            for _ in 0..3 {
                until_out(&engine, query, 100);
                let new = engine.replace(query, Asked { takes: slow, ..asked() }.plan()).unwrap();
                let last = engine.forget(query).unwrap();
                assert_eq!((last.outcome, last.rows_in), (Outcome::Cancelled, last.rows_out));
                rows += last.rows_out;
                query = new;
            }
            let last = engine.replace(query, asked().plan()).unwrap();
            until_out(&engine, last, 100);
            rows += engine.forget(query).unwrap().rows_out;
            assert!(engine.cancel(last, Ending::Drain) && engine.wait_gone(last, TIMEOUT));
            let last = engine.forget(last).unwrap();
            assert_eq!(replaced(folder.path(), "q"), rows + last.rows_out, "{policy}");
            assert_eq!(opened.load(Ordering::Relaxed), 1, "the table was read on");
            assert_eq!(engine.snapshot().memory_bytes, 0);
        }
    }
}

#[test]
fn what_it_writes_is_not_given_to_who_writes_something_else() {
    let folder = tempfile::tempdir().unwrap();
    let (engine, _) = engine("laxity", 1);
    let old = engine.submit(asked("q", folder.path()).plan()).unwrap();
    until_out(&engine, old, 100);
    // The file has two columns.
    let other = Asked { columns: 1, ..asked("q", folder.path()) };
    assert!(matches!(engine.replace(old, other.plan()), Err(SubmitError::Connect { .. })));
    let kept = Asked { shape: 1, each_own: true, ..asked("q", folder.path()) };
    assert!(matches!(engine.replace(old, kept.plan()), Err(SubmitError::TakenOver { .. })));
    let out = engine.query(old).unwrap().rows_out;
    until_out(&engine, old, out + 100);
    // Its name is still its own.
    assert!(matches!(engine.submit(asked("q", folder.path()).plan()), Err(SubmitError::NameTaken { .. })));
    engine.stop();
    assert_eq!(engine.query(old).unwrap().outcome, Outcome::Finished);
    assert_eq!(written(folder.path(), "q"), 0..engine.query(old).unwrap().rows_out);
}

#[test]
fn one_with_checkpoints_goes_on_from_where_the_one_before_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let (engine, _) = engine("laxity", 1);
    let kept = |shape| Asked { shape, ..asked("q", folder.path()) }.plan();
    let old = engine.submit(kept(1)).unwrap();
    until_out(&engine, old, 100);
    assert!(matches!(engine.replace(old, kept(2)), Err(SubmitError::State { .. })));
    assert!(matches!(
        engine.replace(old, asked("q", folder.path()).plan()),
        Err(SubmitError::TakenOver { .. })
    ));
    assert_eq!(engine.query(old).unwrap().outcome, Outcome::Running);
    let new = engine.replace(old, kept(1)).unwrap();
    assert!(engine.query(new).unwrap().rows_out >= 100, "its account goes on");
    let out = engine.query(new).unwrap().rows_out;
    until_out(&engine, new, out + 100);
    engine.stop();
    assert_eq!(written(folder.path(), "q"), 0..engine.query(new).unwrap().rows_out);
}

#[test]
fn a_file_is_free_again_once_who_wrote_it_has_ended() {
    let folder = tempfile::tempdir().unwrap();
    let (engine, _) = engine("laxity", 1);
    for _ in 0..3 {
        let query = engine.submit(asked("q", folder.path()).plan()).unwrap();
        until_out(&engine, query, 100);
        assert!(engine.cancel(query, Ending::Drop));
        assert!(engine.wait_gone(query, TIMEOUT));
        assert_eq!(written(folder.path(), "q").count() as u64, engine.forget(query).unwrap().rows_out);
    }
    engine.stop();
}

#[test]
fn nobody_waits_for_a_table_that_is_slow_to_open_to_end_a_query() {
    let thread = std::thread::Builder::new;
    for has_started in [true, false] {
        let folder = tempfile::tempdir().unwrap();
        let engine = Arc::new(Engine::new(EngineConfig { workers: 1, ..EngineConfig::default() }));
        let (opens, opened) = std::sync::mpsc::channel();
        let (go, gone_on) = std::sync::mpsc::channel::<()>();
        let gone_on = std::sync::Mutex::new(gone_on);
        let is_slow = Arc::new(AtomicBool::new(!has_started));
        let slow = is_slow.clone();
        engine.provide("numbers", move |spec, environment| {
            if slow.swap(false, Ordering::Relaxed) {
                opens.send(()).unwrap();
                gone_on.lock().unwrap().recv().unwrap();
            }
            let (start, next) = (environment.start, environment.skip_rows);
            Ok(Box::new(Numbered { start, next, columns: spec.columns.len() }))
        });
        let query = engine.submit(asked("q", folder.path()).plan()).unwrap();
        let opening = if has_started {
            engine.start().unwrap();
            is_slow.store(true, Ordering::Relaxed);
            let plan = asked("slow", folder.path()).plan();
            let submitting = engine.clone();
            thread().spawn(move || submitting.submit_from(plan, JoinFrom::Start).map(|_| ()))
        } else {
            engine.submit(asked("slow", folder.path()).plan()).unwrap();
            let starting = engine.clone();
            thread().spawn(move || starting.start().map(|_| ()))
        };
        let opening = opening.unwrap();
        opened.recv_timeout(TIMEOUT).unwrap();
        let (ends, ended) = std::sync::mpsc::channel();
        let ending = engine.clone();
        let canceller = thread().spawn(move || ends.send(ending.cancel(query, Ending::Drop))).unwrap();
        let is_cancelled = ended.recv_timeout(TIMEOUT);
        go.send(()).unwrap();
        opening.join().unwrap().unwrap();
        canceller.join().unwrap().unwrap();
        assert_eq!(is_cancelled, Ok(true), "it waited for the table");
        assert!(engine.wait_gone(query, TIMEOUT));
        engine.stop();
        assert_eq!(engine.snapshot().memory_bytes, 0);
    }
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

/// What the system says that this process has: threads and open files. Nothing where it does not say (not Linux).
fn held_of_system() -> Option<(usize, usize)> {
    let count = |of: &str| std::fs::read_dir(format!("/proc/self/{of}")).ok().map(Iterator::count);
    count("task").zip(count("fd"))
}

/// Whether this process runs this test alone, whose threads and files are then the test's. Otherwise it is run so by
/// another process.
fn is_alone(test: &str) -> bool {
    const ALONE: &str = "LAXITY_TEST_ALONE";
    if std::env::var_os(ALONE).is_some() {
        return true;
    }
    let tests = std::env::current_exe().unwrap();
    let test = format!("life::tests::{test}");
    let mut alone = std::process::Command::new(tests);
    alone.args(["--exact", &test, "--test-threads=1"]).env(ALONE, "1");
    let run = alone.output().unwrap();
    let said = String::from_utf8_lossy(&run.stdout);
    assert!(
        run.status.success() && said.contains("1 passed"),
        "{said}{}",
        String::from_utf8_lossy(&run.stderr)
    );
    false
}

/// A query of a random life.
struct Life {
    id: QueryId,
    name: String,
    columns: usize,
    writes: bool,
    each_own: bool,
}

impl Life {
    fn plan(&self, folder: &Path) -> QueryPlan {
        let Life { columns, writes, each_own, .. } = *self;
        Asked { columns, writes, each_own, ..asked(&self.name, folder) }.plan()
    }
}

/// Ids, names, tables, threads, files and bytes after so many random steps of a few queries at a time.
fn lives(policy: &str, shards: usize, steps: u32) {
    const AT_ONCE: usize = 12;
    const POLICIES: [&str; 4] = ["laxity", "llf", "fifo", "edf"];
    let folder = tempfile::tempdir().unwrap();
    let before = held_of_system();
    let (engine, _) = engine(policy, shards);
    // With what the first query makes for all.
    let first = engine.submit(asked("first", folder.path()).plan()).unwrap();
    until_out(&engine, first, 100);
    engine.cancel(first, Ending::Drain);
    assert!(engine.wait_gone(first, TIMEOUT));
    engine.forget(first);
    let idle = held_of_system();
    let mut random = Pcg32::seed_from_u64(u64::from(steps));
    let mut living: Vec<Life> = Vec::new();
    let mut ending: Vec<QueryId> = Vec::new();
    let (mut submitted, mut failed, mut replaced, mut written) = (0, 0, 0, 0);
    for step in 0..steps {
        let place = random.next_u32() as usize % living.len().max(1);
        match random.next_u32() % 16 {
            0..=5 if living.len() < AT_ONCE => {
                // Who clears up may get no core for a while, and this goes on at its own pace.
                let few_are_left = || engine.shared().registry.read().held().owned < 10 * AT_ONCE;
                assert!(engine.wait_until(TIMEOUT, few_are_left), "nobody clears up");
                let mut life = Life {
                    id: QueryId(0),
                    name: format!("q{step}"),
                    columns: 1 + random.next_u32() as usize % 2,
                    writes: random.next_u32() % 4 == 0,
                    each_own: random.next_u32() % 2 == 0,
                };
                let from = if random.next_u32() % 4 == 0 { JoinFrom::Start } else { JoinFrom::Now };
                life.id = engine.submit_from(life.plan(folder.path()), from).unwrap();
                written += u32::from(life.writes);
                living.push(life);
                submitted += 1;
            }
            6..=8 if !living.is_empty() => {
                let query = living.swap_remove(place).id;
                let how = if random.next_u32() % 2 == 0 { Ending::Drain } else { Ending::Drop };
                assert!(engine.cancel(query, how));
                ending.push(query);
            }
            9 | 10 if !living.is_empty() => {
                let ns = 1 + u64::from(random.next_u32() % 100_000_000);
                let latency_target = LatencyTarget::new(Duration::from_nanos(ns)).unwrap();
                let worthless = Duration::from_nanos(2 * ns);
                let qos = QosCurve::new([(Duration::from_nanos(ns), 1.0), (worthless, 0.0)]).unwrap();
                let qos = Some(qos).filter(|_| random.next_u32() % 2 == 0);
                let weight = f64::from(1 + random.next_u32() % 8) / 2.0;
                assert!(engine.alter(living[place].id, Promise { latency_target, qos, weight }));
            }
            11 => {
                let policy = POLICIES[random.next_u32() as usize % POLICIES.len()];
                let is_switched = engine.set_policy(&policy.parse().unwrap()).is_ok();
                assert_eq!(is_switched, engine.shared().config.policy.recipe().is_some());
            }
            12 if !living.is_empty() => {
                let old = &mut living[place];
                let new = engine.replace(old.id, old.plan(folder.path())).unwrap();
                assert!(engine.query(old.id).unwrap().outcome == Outcome::Cancelled);
                ending.push(std::mem::replace(&mut old.id, new));
                replaced += 1;
            }
            13 | 14 if !living.is_empty() => {
                // An error inside it, as an operator would have.
                let query = living.swap_remove(place).id;
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
    assert!(replaced > steps / 40 && written > steps / 40, "{replaced} and {written} of {steps}");
    for Life { id, .. } in living {
        engine.cancel(id, Ending::Drop);
        ending.push(id);
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
    // Threads of operators end a little after they have let go of them.
    until_held(idle);
    engine.stop();
    drop(engine);
    until_held(before);
}

/// No more than that is held, soon.
fn until_held(expected: Option<(usize, usize)>) {
    let is_held_more =
        || held_of_system().zip(expected).is_some_and(|(now, before)| now.0 > before.0 || now.1 > before.1);
    for _ in 0..TIMEOUT.as_millis() {
        if !is_held_more() {
            return;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    panic!("threads and files: {:?}, and {expected:?} before", held_of_system());
}

#[test]
fn ten_thousand_steps_of_life_leave_nothing_behind() {
    if is_alone("ten_thousand_steps_of_life_leave_nothing_behind") {
        lives("laxity", 1, 6_000);
        lives("llf", 2, 4_000);
    }
}

#[test]
fn nor_do_those_of_a_thread_per_operator() {
    if is_alone("nor_do_those_of_a_thread_per_operator") {
        lives("os", 1, 400);
    }
}
