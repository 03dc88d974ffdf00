//! Whole engine, real threads and files, operators made for the test. What runs when is up to the machine, so
//! these tests compare results and counts, never times. Windows and SQL are tested where they live.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use arrow::array::{AsArray, Int64Array, RecordBatch};
use arrow::datatypes::{DataType, Field, Int64Type, Schema};
use laxity_connect::{ConnectError, Scan, ScanEvent, ScanSpec, ScannedBatch, SinkSpec, TableSpec};
use laxity_engine::{
    Engine, EngineConfig, EngineFigures, LatePlan, Outcome, Policy, QueryFigures, QueryPlan, QueryState,
};
use laxity_graph::{
    Dataflow, EventTime, Input, LatencyTarget, Node, NodeId, Partitioning, ProcessingTime, QuerySettings,
    WindowShape,
};
use laxity_operators::{
    Flow, LateColumn, LateRows, Operator, OperatorError, OperatorFactory, OperatorState, Outbox, Stage,
    StateError, StreamBatch,
};

#[path = "engine/positions.rs"]
mod positions;
#[path = "engine/restarts.rs"]
mod restarts;

const TIMEOUT: Duration = Duration::from_secs(60);

/// What the operator in the middle of a test query does.
#[derive(Clone, Copy)]
enum Middle {
    /// Passes rows on.
    Pass,
    /// Sums `v` per `k` and emits the sums at the end, one row per call.
    SumAtEnd,
    /// Fails at the row whose `v` is this.
    FailAt(i64),
    /// Panics at the row whose `v` is this.
    PanicAt(i64),
    /// Takes a while for every batch.
    Slow,
    /// Keeps every batch and says so.
    Hoard,
    /// Calls every tenth row late.
    Late,
    /// Closes windows of a second, and at the end of its input waits until it may go on.
    HoldAtEnd(&'static AtomicBool),
    /// Waits with its rows in hand until it may go on.
    Hold(&'static AtomicBool),
}

struct MiddleOperator {
    what: Middle,
    sums: BTreeMap<i64, i64>,
    firing: Vec<(i64, i64)>,
    ending: bool,
    kept: usize,
}

fn schema() -> Arc<Schema> {
    Arc::new(Schema::new(vec![
        Field::new("k", DataType::Int64, true),
        Field::new("v", DataType::Int64, true),
    ]))
}

impl Operator for MiddleOperator {
    fn on_batch(
        &mut self,
        _: usize,
        batch: StreamBatch,
        _: ProcessingTime,
        out: &mut Outbox,
    ) -> Result<Flow, OperatorError> {
        let keys = batch.rows.column(0).as_primitive::<Int64Type>().clone();
        let values = batch.rows.column(1).as_primitive::<Int64Type>().clone();
        match self.what {
            Middle::Pass => out.batch(batch),
            Middle::SumAtEnd => {
                for row in 0..values.len() {
                    *self.sums.entry(keys.value(row)).or_default() += values.value(row);
                }
            }
            Middle::FailAt(bad) if values.values().contains(&bad) => {
                return Err(OperatorError::Row {
                    operator: "middle".into(),
                    message: "division by zero".into(),
                });
            }
            Middle::PanicAt(bad) if values.values().contains(&bad) => panic!("no way on"),
            Middle::FailAt(_) | Middle::PanicAt(_) => out.batch(batch),
            Middle::Slow => {
                std::thread::sleep(Duration::from_millis(5));
                out.batch(batch);
            }
            Middle::HoldAtEnd(_) => {}
            Middle::Hold(may_go_on) => {
                while !may_go_on.load(Ordering::Acquire) {
                    std::thread::sleep(Duration::from_millis(1));
                }
                out.batch(batch);
            }
            Middle::Hoard => self.kept += batch.num_rows() * 1_000,
            Middle::Late => {
                let late: Vec<bool> = values.values().iter().map(|v| v % 10 == 0).collect();
                let on_time = late.iter().map(|late| !late).collect::<Vec<_>>();
                let pick = |mask: Vec<bool>| {
                    arrow::compute::filter_record_batch(&batch.rows, &mask.into()).expect("a mask per row")
                };
                out.batch(StreamBatch::on_time(pick(on_time)));
                let rows = pick(late);
                let window_end = Int64Array::from(vec![7_000; rows.num_rows()]);
                out.late.push(LateRows { rows, window_end });
            }
        }
        Ok(Flow::Done)
    }

    fn on_watermark(&mut self, watermark: EventTime, out: &mut Outbox) -> Result<Flow, OperatorError> {
        if watermark == EventTime::MAX {
            if let Middle::HoldAtEnd(may_go_on) = self.what {
                while !may_go_on.load(Ordering::Acquire) {
                    std::thread::sleep(Duration::from_millis(1));
                }
            }
            self.ending = true;
            self.firing = self.sums.iter().rev().map(|(&k, &v)| (k, v)).collect();
            return self.resume(out);
        }
        out.watermark(watermark);
        Ok(Flow::Done)
    }

    fn save(&mut self) -> Result<OperatorState, StateError> {
        Err(StateError::Unsupported { operator: "middle".into(), reason: "it is of a test".into() })
    }

    fn restore(&mut self, state: OperatorState) -> Result<(), StateError> {
        state.finish()
    }

    fn resume(&mut self, out: &mut Outbox) -> Result<Flow, OperatorError> {
        if let Some((key, sum)) = self.firing.pop() {
            let rows = RecordBatch::try_new(
                schema(),
                vec![Arc::new(Int64Array::from(vec![key])), Arc::new(Int64Array::from(vec![sum]))],
            )
            .expect("two columns");
            out.result(StreamBatch::on_time(rows), ProcessingTime::ZERO, Some(EventTime(1_000)));
            return Ok(Flow::More);
        }
        out.watermark(EventTime::MAX);
        Ok(Flow::Done)
    }

    fn state_bytes(&self) -> usize {
        self.kept
    }
}

/// Passes rows and the end of input.
struct Pass;

impl Operator for Pass {
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
        out.watermark(watermark);
        Ok(Flow::Done)
    }

    fn save(&mut self) -> Result<OperatorState, StateError> {
        Ok(OperatorState::default())
    }

    fn restore(&mut self, state: OperatorState) -> Result<(), StateError> {
        state.finish()
    }
}

fn table(folder: &Path, name: &str) -> Arc<TableSpec> {
    table_of(folder, name, schema())
}

fn table_of(folder: &Path, name: &str, schema: Arc<Schema>) -> Arc<TableSpec> {
    let options = [("connector", "filesystem"), ("format", "csv"), ("path", name)];
    Arc::new(TableSpec {
        name: name.into(),
        schema,
        options: options.iter().map(|&(key, value)| (key.into(), value.into())).collect(),
        base: folder.into(),
    })
}

/// `rows` rows with keys 0 to 9.
fn write_input(folder: &Path, rows: i64) {
    let mut text = String::new();
    for v in 0..rows {
        writeln!(text, "{},{v}", v % 10).expect("a string takes all");
    }
    fs::write(folder.join("in.csv"), text).expect("a temporary folder can be written");
}

fn plan(name: &str, folder: &Path, input: &Arc<TableSpec>, middle: Middle, parallelism: usize) -> QueryPlan {
    let mut flow = Dataflow::new(QuerySettings::named(name));
    let scan = ScanSpec { table: input.clone(), columns: vec![0, 1] };
    let second = WindowShape { size_ms: 1_000, slide_ms: 1_000, end_ms: Some(0) };
    let closes_windows = matches!(middle, Middle::HoldAtEnd(_));
    let node = |name: &str, parallelism, inputs, stage| Node {
        name: name.into(),
        parallelism,
        inputs,
        window: (name == "middle" && closes_windows).then_some(second),
        stage,
    };
    let source = flow
        .push(node(
            "source",
            1,
            vec![],
            Stage::Source {
                scan,
                operator: OperatorFactory::new(|_| Ok(Box::new(Pass))),
                shared: None,
                view: None,
            },
        ))
        .unwrap();
    let factory = OperatorFactory::new(move |_| {
        Ok(Box::new(MiddleOperator {
            what: middle,
            sums: BTreeMap::new(),
            firing: Vec::new(),
            ending: false,
            kept: 0,
        }))
    });
    let by_key = Input { from: source, partitioning: Partitioning::Hash(vec![0]) };
    let middle = flow.push(node("middle", parallelism, vec![by_key], Stage::Operator(factory))).unwrap();
    let all = Input { from: middle, partitioning: Partitioning::Gather };
    let sink = SinkSpec { table: table(folder, &format!("{name}.csv")) };
    flow.push(node("sink", 1, vec![all], Stage::Sink(sink))).unwrap();
    QueryPlan { dataflow: flow, late: None, state: None }
}

fn engine(policy: &str) -> Engine {
    sharded(policy, 1)
}

/// With one worker more than shards: one of them is at home beside another.
fn sharded(policy: &str, shards: usize) -> Engine {
    Engine::new(EngineConfig {
        workers: shards + 1,
        shards: Some(shards),
        policy: policy.parse().expect("a policy"),
        ..EngineConfig::default()
    })
}

fn output(folder: &Path, name: &str) -> Vec<String> {
    let text = fs::read_to_string(folder.join(format!("{name}.csv"))).expect("the sink wrote a file");
    let mut rows: Vec<String> = text.lines().map(String::from).collect();
    rows.sort();
    rows
}

fn outcome(engine: &Engine, name: &str) -> Outcome {
    let snapshot = engine.snapshot();
    snapshot.queries.into_iter().find(|query| query.name == name).expect("submitted").outcome
}

#[test]
fn results_do_not_depend_on_policy_parallelism_or_shards() {
    let folder = tempfile::tempdir().unwrap();
    write_input(folder.path(), 20_000);
    let input = table(folder.path(), "in.csv");
    // Key k gets v = k, k + 10, …: 2 000 values, so the sum is 2 000 k + 10 · (0 + … + 1 999).
    let mut expected: Vec<String> =
        (0..10).map(|k| format!("{k},{}", 2_000 * k + 10 * (1_999 * 2_000 / 2))).collect();
    expected.sort();
    let one = ["laxity", "fifo", "fcfs", "rr", "random", "sjf", "edf", "llf", "os"].map(|policy| (policy, 1));
    let several = [("laxity", 2), ("klink", 2), ("random", 3)];
    for (policy, shards) in one.into_iter().chain(several) {
        let engine = sharded(policy, shards);
        let name_of = |parallelism: usize| format!("{policy}-{shards}-{parallelism}");
        for parallelism in [1, 3] {
            let name = name_of(parallelism);
            engine.submit(plan(&name, folder.path(), &input, Middle::SumAtEnd, parallelism)).unwrap();
        }
        engine.start().unwrap();
        assert!(engine.wait(TIMEOUT), "{policy} did not finish");
        engine.stop();
        for parallelism in [1, 3] {
            let name = name_of(parallelism);
            assert_eq!(outcome(&engine, &name), Outcome::Finished);
            assert_eq!(output(folder.path(), &name), expected, "{name}");
        }
        let queries = engine.snapshot().queries;
        assert!(queries.iter().all(|query| query.rows_in == 20_000 && query.rows_out == 10));
        assert!(queries.iter().all(|query| query.rows_queued == 0 && query.lateness.results == 10));
    }
}

#[test]
fn an_error_or_panic_stops_one_query_only() {
    let folder = tempfile::tempdir().unwrap();
    write_input(folder.path(), 20_000);
    let input = table(folder.path(), "in.csv");
    for (policy, shards) in [("laxity", 1), ("laxity", 2), ("os", 1)] {
        let engine = sharded(policy, shards);
        for (name, middle) in [
            ("good", Middle::Pass),
            ("failing", Middle::FailAt(9_000)),
            ("panicking", Middle::PanicAt(9_000)),
        ] {
            engine.submit(plan(name, folder.path(), &input, middle, 2)).unwrap();
        }
        engine.start().unwrap();
        assert!(engine.wait(TIMEOUT));
        engine.stop();
        assert_eq!(outcome(&engine, "good"), Outcome::Finished);
        assert_eq!(output(folder.path(), "good").len(), 20_000);
        assert_eq!(outcome(&engine, "failing"), Outcome::Failed("middle: division by zero".into()));
        let Outcome::Failed(why) = outcome(&engine, "panicking") else { panic!("it went on") };
        assert!(why.contains("internal error: no way on"), "{why}");
        assert_eq!(engine.snapshot().memory_bytes, 0, "an ended query holds nothing");
    }
}

#[test]
fn a_slow_reader_of_a_shared_table_loses_nothing_and_holds_nobody_up() {
    let folder = tempfile::tempdir().unwrap();
    write_input(folder.path(), 200_000);
    let input = table(folder.path(), "in.csv");
    // So little credit and backlog that the slow query and its peer must get a scan of their own.
    let engine = Engine::new(EngineConfig {
        workers: 2,
        credit_bytes: 100_000,
        backlog_bytes: 200_000,
        ..EngineConfig::default()
    });
    engine.submit(plan("slow", folder.path(), &input, Middle::Slow, 1)).unwrap();
    let mut fast = plan("fast", folder.path(), &input, Middle::Pass, 1);
    fast.dataflow.settings.latency_target = LatencyTarget::new(Duration::from_millis(100)).unwrap();
    engine.submit(fast).unwrap();
    engine.submit(plan("peer", folder.path(), &input, Middle::Pass, 1)).unwrap();
    engine.start().unwrap();
    assert!(engine.wait(TIMEOUT));
    engine.stop();
    let every_row = |name: &str| {
        let mut values: Vec<i64> = output(folder.path(), name)
            .iter()
            .map(|row| row.split_once(',').expect("two columns").1.parse().expect("a number"))
            .collect();
        values.sort_unstable();
        values
    };
    let expected: Vec<i64> = (0..200_000).collect();
    assert_eq!(every_row("fast"), expected);
    assert_eq!(every_row("slow"), expected);
    assert_eq!(every_row("peer"), expected);
}

#[test]
fn a_query_over_its_memory_limit_is_stopped_alone() {
    let folder = tempfile::tempdir().unwrap();
    write_input(folder.path(), 100_000);
    let input = table(folder.path(), "in.csv");
    let engine = engine("laxity");
    let mut hoarding = plan("hoarding", folder.path(), &input, Middle::Hoard, 1);
    hoarding.dataflow.settings.memory_limit_bytes = Some(1 << 20);
    engine.submit(hoarding).unwrap();
    engine.submit(plan("good", folder.path(), &input, Middle::Pass, 1)).unwrap();
    engine.start().unwrap();
    assert!(engine.wait(TIMEOUT));
    engine.stop();
    let Outcome::Failed(why) = outcome(&engine, "hoarding") else { panic!("it went on") };
    assert!(why.contains("laxity.memory.limit of 1 MB"), "{why}");
    assert_eq!(outcome(&engine, "good"), Outcome::Finished);
    assert_eq!(output(folder.path(), "good").len(), 100_000);
}

#[test]
fn a_query_at_the_bound_of_the_process_does_not_harm_another() {
    let folder = tempfile::tempdir().unwrap();
    write_input(folder.path(), 100_000);
    let input = table(folder.path(), "in.csv");
    let engine =
        Engine::new(EngineConfig { workers: 2, memory_limit_bytes: 8 << 20, ..EngineConfig::default() });
    engine.submit(plan("hoarding", folder.path(), &input, Middle::Hoard, 1)).unwrap();
    engine.submit(plan("good", folder.path(), &input, Middle::Pass, 1)).unwrap();
    engine.start().unwrap();
    assert!(engine.wait(TIMEOUT));
    engine.stop();
    // Whether it is stopped before its input ends is a matter of time: `memory.rs` tests that without one.
    assert_eq!(outcome(&engine, "good"), Outcome::Finished);
    assert_eq!(output(folder.path(), "good").len(), 100_000);
}

#[test]
fn late_rows_are_counted_by_window_and_routed() {
    let folder = tempfile::tempdir().unwrap();
    write_input(folder.path(), 1_000);
    let input = table(folder.path(), "in.csv");
    let mut plan = plan("q", folder.path(), &input, Middle::Late, 1);
    plan.late = Some(LatePlan {
        sink: SinkSpec { table: table(folder.path(), "late.csv") },
        node: NodeId(1),
        columns: vec![LateColumn::Input(1), LateColumn::WindowEnd],
    });
    let engine = engine("laxity");
    engine.submit(plan).unwrap();
    engine.start().unwrap();
    assert!(engine.wait(TIMEOUT));
    engine.stop();
    let query = &engine.snapshot().queries[0];
    assert_eq!((query.rows_out, query.rows_late), (900, 100));
    assert_eq!(query.late_windows, [(EventTime(7_000), 100)]);
    let mut expected: Vec<String> = (0..100).map(|i| format!("{},7000", i * 10)).collect();
    expected.sort();
    assert_eq!(output(folder.path(), "late"), expected);
}

#[test]
fn a_stop_writes_what_was_admitted_and_ends_all_threads() {
    let folder = tempfile::tempdir().unwrap();
    write_input(folder.path(), 400_000);
    let input = table(folder.path(), "in.csv");
    for (policy, middle) in [("laxity", Middle::Pass), ("laxity", Middle::Slow), ("os", Middle::Pass)] {
        // So little credit that the slow operator has the scan waiting when the stop comes.
        let engine = Engine::new(EngineConfig {
            workers: 2,
            policy: policy.parse().unwrap(),
            credit_bytes: 200_000,
            ..EngineConfig::default()
        });
        engine.submit(plan("q", folder.path(), &input, middle, 2)).unwrap();
        engine.start().unwrap();
        while engine.snapshot().queries[0].rows_in == 0 {
            std::thread::yield_now();
        }
        engine.stop();
        let query = &engine.snapshot().queries[0];
        assert_eq!(query.outcome, Outcome::Finished);
        assert_eq!(query.rows_out, query.rows_in);
        assert_eq!(output(folder.path(), "q").len() as u64, query.rows_out);
    }
}

/// The figures of the one query, once they are as wanted.
fn figures_once(engine: &Engine, wanted: impl Fn(&QueryFigures) -> bool) -> QueryFigures {
    let mut figures = EngineFigures::default();
    let started = engine.clock().now();
    loop {
        engine.figures(&mut figures);
        let [query] = figures.queries[..] else { panic!("one query was submitted: {figures:?}") };
        if wanted(&query) {
            return query;
        }
        assert!(engine.clock().now().since_ns(started) < TIMEOUT.as_nanos() as u64, "{query:?}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn rows_that_are_not_worked_off_when_the_time_is_over_are_counted() {
    for (policy, shards) in [("laxity", 1), ("rr", 2), ("os", 1)] {
        let folder = tempfile::tempdir().unwrap();
        write_input(folder.path(), 400_000);
        let input = table(folder.path(), "in.csv");
        let engine = Engine::new(EngineConfig {
            workers: 2,
            shards: Some(shards),
            policy: policy.parse().unwrap(),
            batch_rows: 100,
            merge: false,
            drain_timeout: Duration::from_millis(250),
            ..EngineConfig::default()
        });
        let slow = engine.submit(plan("slow", folder.path(), &input, Middle::Slow, 1)).unwrap();
        engine.start().unwrap();
        figures_once(&engine, |query| query.rows_queued > 50_000);
        let mut waits = Vec::new();
        engine.stop_watched(|left| waits.push(left));
        assert!(
            !waits.is_empty() && waits.iter().all(|left| *left < Duration::from_millis(250)),
            "{waits:?}"
        );
        let query = engine.query(slow).unwrap();
        assert_eq!(query.outcome, Outcome::Finished);
        assert!(query.rows_dropped > 0, "{policy}: {query:?}");
        assert_eq!(query.rows_out + query.rows_dropped, query.rows_in, "{policy}");
        assert_eq!(output(folder.path(), "slow").len() as u64, query.rows_out, "{policy}");
    }
}

/// A target that nothing here meets by chance once it waits.
fn within_50_ms(mut plan: QueryPlan) -> QueryPlan {
    plan.dataflow.settings.latency_target = LatencyTarget::new(Duration::from_millis(50)).unwrap();
    plan
}

#[cfg(unix)]
#[test]
fn what_a_stalled_sink_holds_up_misses_its_target_before_it_is_out() {
    use std::io::Read;

    let folder = tempfile::tempdir().unwrap();
    write_input(folder.path(), 100_000);
    let input = table(folder.path(), "in.csv");
    let pipe = folder.path().join("q.csv");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let (read, may_read) = std::sync::mpsc::channel();
    let reader = std::thread::Builder::new().spawn(move || {
        let mut pipe = fs::File::open(pipe).unwrap();
        may_read.recv().unwrap();
        let mut text = String::new();
        pipe.read_to_string(&mut text).unwrap();
        text.lines().count()
    });
    let engine = engine("laxity");
    let id = engine.submit(within_50_ms(plan("q", folder.path(), &input, Middle::Pass, 1))).unwrap();
    engine.start().unwrap();
    let stalled = figures_once(&engine, |query| query.overdue > 0);
    assert!(stalled.oldest_owed_ns.unwrap() > 50_000_000, "{stalled:?}");
    assert_eq!(stalled.state, QueryState::Running);
    read.send(()).unwrap();
    assert!(engine.wait(TIMEOUT));
    engine.stop();
    assert_eq!(reader.unwrap().join().unwrap(), 100_000);
    let query = engine.query(id).unwrap();
    assert_eq!((query.overdue, query.oldest_owed_ns), (0, None));
    assert!(query.lateness.met < query.lateness.results, "{query:?}");
    assert_eq!(query.figures().results, query.latency.count);
}

#[test]
fn a_window_that_is_due_misses_its_target_before_it_is_out() {
    static MAY_GO_ON: AtomicBool = AtomicBool::new(false);
    let folder = tempfile::tempdir().unwrap();
    write_input(folder.path(), 100);
    let input = table(folder.path(), "in.csv");
    let engine = engine("laxity");
    let middle = Middle::HoldAtEnd(&MAY_GO_ON);
    engine.submit(within_50_ms(plan("q", folder.path(), &input, middle, 1))).unwrap();
    engine.start().unwrap();
    let held = figures_once(&engine, |query| query.overdue > 0);
    assert_eq!((held.overdue, held.results), (1, 0));
    MAY_GO_ON.store(true, Ordering::Release);
    assert!(engine.wait(TIMEOUT));
    engine.stop();
    let over = figures_once(&engine, |_| true);
    assert_eq!((over.overdue, over.oldest_owed_ns, over.state), (0, None, QueryState::Finished));
}

#[test]
fn a_row_between_operators_misses_its_target_before_it_is_out() {
    static MAY_GO_ON: AtomicBool = AtomicBool::new(false);
    let folder = tempfile::tempdir().unwrap();
    write_input(folder.path(), 100);
    let input = table(folder.path(), "in.csv");
    let engine = engine("laxity");
    engine.submit(within_50_ms(plan("q", folder.path(), &input, Middle::Hold(&MAY_GO_ON), 1))).unwrap();
    engine.start().unwrap();
    let held = figures_once(&engine, |query| query.overdue > 0);
    assert_eq!(held.results, 0);
    assert!(held.oldest_owed_ns.unwrap() > 50_000_000, "{held:?}");
    MAY_GO_ON.store(true, Ordering::Release);
    assert!(engine.wait(TIMEOUT));
    engine.stop();
    let over = figures_once(&engine, |_| true);
    assert_eq!((over.overdue, over.oldest_owed_ns, over.state), (0, None, QueryState::Finished));
}

#[test]
fn names_are_unique_and_missing_files_are_named() {
    let folder = tempfile::tempdir().unwrap();
    write_input(folder.path(), 1);
    let input = table(folder.path(), "in.csv");
    let engine = engine("laxity");
    engine.submit(plan("q", folder.path(), &input, Middle::Pass, 1)).unwrap();
    let taken = engine.submit(plan("q", folder.path(), &input, Middle::Pass, 1)).unwrap_err();
    assert!(taken.to_string().contains("already a query named \"q\""), "{taken}");
    let missing = table(folder.path(), "missing.csv");
    engine.submit(plan("other", folder.path(), &missing, Middle::Pass, 1)).unwrap();
    let refused = engine.start().unwrap_err();
    assert!(format!("{refused:?}").contains("missing.csv"), "{refused:?}");
}

#[test]
fn a_submit_that_fails_leaves_nothing_behind() {
    let folder = tempfile::tempdir().unwrap();
    let input = table(folder.path(), "in.csv");
    let engine = engine("laxity");
    engine.start().unwrap();
    let refused = engine.submit(plan("q", folder.path(), &input, Middle::Pass, 2)).unwrap_err();
    assert!(format!("{refused:?}").contains("in.csv"), "{refused:?}");
    assert!(engine.snapshot().queries.is_empty() && engine.wait(TIMEOUT), "nothing is waited for");
    // Its name and its output are free, and the output is not of a second writer.
    write_input(folder.path(), 100);
    engine.submit(plan("q", folder.path(), &input, Middle::Pass, 2)).unwrap();
    assert!(engine.wait(TIMEOUT));
    engine.stop();
    assert_eq!(outcome(&engine, "q"), Outcome::Finished);
    assert_eq!(output(folder.path(), "q").len(), 100);
}

#[test]
fn policies_are_found_by_name() {
    assert!(matches!("os".parse(), Ok(Policy::ThreadPerOperator)));
    let unknown = "quickest".parse::<Policy>().unwrap_err().to_string();
    assert!(unknown.contains("quickest") && unknown.contains("llf"), "{unknown}");
}

/// Batches of 100 rows (k, v), so many of them, as many a second as `per_s`.
struct Paced {
    start: ProcessingTime,
    sent: u64,
    batches: u64,
    gap_ns: u64,
}

impl Scan for Paced {
    fn poll(&mut self, now: ProcessingTime) -> Result<ScanEvent, ConnectError> {
        if self.sent == self.batches {
            return Ok(ScanEvent::End);
        }
        let arrival = self.start.plus_ns(self.sent * self.gap_ns);
        if arrival > now {
            return Ok(ScanEvent::NotBefore(arrival));
        }
        self.sent += 1;
        let column = || Arc::new(Int64Array::from_iter_values(0..100));
        let rows = RecordBatch::try_new(schema(), vec![column(), column()]).expect("two columns");
        Ok(ScanEvent::Batch(ScannedBatch { rows, arrival }))
    }
}

#[test]
fn an_overloaded_query_sheds_if_it_may_and_counts_every_row() {
    let folder = tempfile::tempdir().unwrap();
    let input = table(folder.path(), "paced");
    // A batch every millisecond, for an operator that takes five for each of them.
    let batches = 1_500;
    for shed in [false, true] {
        let engine = Engine::new(EngineConfig { workers: 1, merge: false, ..EngineConfig::default() });
        engine.provide("paced", move |_, environment| {
            Ok(Box::new(Paced { start: environment.start, sent: 0, batches, gap_ns: 1_000_000 }))
        });
        let mut overloaded = plan("overloaded", folder.path(), &input, Middle::Slow, 1);
        overloaded.dataflow.settings.shed = shed;
        overloaded.dataflow.settings.latency_target = LatencyTarget::new(Duration::from_millis(100)).unwrap();
        engine.submit(overloaded).unwrap();
        engine.start().unwrap();
        assert!(engine.wait(TIMEOUT));
        engine.stop();
        let query = engine.snapshot().queries.remove(0);
        assert_eq!(query.outcome, Outcome::Finished);
        assert_eq!(query.rows_in + query.rows_shed, 100 * batches, "shedding {shed}");
        assert_eq!(query.rows_out, query.rows_in);
        assert_eq!(query.rows_shed > 0, shed, "{} of {} rows", query.rows_shed, 100 * batches);
        assert_eq!(engine.snapshot().memory_bytes, 0);
    }
}

#[test]
fn a_policy_switched_under_load_loses_nothing() {
    let folder = tempfile::tempdir().unwrap();
    write_input(folder.path(), 400_000);
    let input = table(folder.path(), "in.csv");
    for shards in [1, 2] {
        let engine = sharded("laxity", shards);
        let (sums, rows) = (format!("sums-{shards}"), format!("rows-{shards}"));
        for (name, middle) in [(&sums, Middle::SumAtEnd), (&rows, Middle::Pass)] {
            engine.submit(plan(name, folder.path(), &input, middle, 3)).unwrap();
        }
        engine.start().unwrap();
        let mut switches = 0;
        let names = laxity_policies::names();
        while !engine.wait(Duration::from_micros(500)) {
            let policy = names[switches % names.len()];
            engine.set_policy(&policy.parse().unwrap()).unwrap();
            switches += 1;
        }
        engine.stop();
        assert!(switches > 1, "the run was over too soon to test anything");
        assert_eq!(output(folder.path(), &rows).len(), 400_000);
        let expected: Vec<String> =
            (0..10_i64).map(|k| format!("{k},{}", 40_000 * k + 10 * (39_999 * 40_000 / 2))).collect();
        assert_eq!(output(folder.path(), &sums), expected);
        assert_eq!(engine.snapshot().memory_bytes, 0);
        assert!(engine.set_policy(&Policy::ThreadPerOperator).is_err());
    }
}
