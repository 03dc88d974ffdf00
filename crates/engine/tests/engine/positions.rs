//! Where queries with checkpoints go on after a crash that read other columns of a table than those beside them, and so other
//! rows of it: a row is refused for a value that somebody reads. Whole engines on threads, over a real file.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use arrow::datatypes::{DataType, Field, Schema};
use laxity_connect::{
    ConnectError, Preparation, Scan, ScanEvent, ScanPosition, ScanSpec, SinkSpec, TableSpec, open_scan,
};
use laxity_engine::{Ending, Engine, EngineConfig, JoinFrom, Outcome, QueryPlan, StatePlan};
use laxity_graph::{
    Dataflow, EventClock, EventTime, Input, Node, Partitioning, ProcessingTime, QueryId, QuerySettings,
};
use laxity_operators::{
    DeadReason, DeadRows, Flow, Operator, OperatorError, OperatorFactory, OperatorState, Outbox, Stage,
    StateError, StreamBatch,
};

use super::{Pass, table_of};

pub(super) const TIMEOUT: Duration = Duration::from_secs(60);
pub(super) const RECORDS: u64 = 20_000;

/// Gives no more than so many batches.
struct Gate {
    scan: Box<dyn Scan>,
    given: u64,
    input: Arc<GatedInput>,
}

/// What all scans of the input have in common.
#[derive(Default)]
pub(super) struct GatedInput {
    /// Batches that each may give.
    pub open_for: AtomicU64,
    /// It gives nothing twice.
    pub is_pipe: AtomicBool,
    pub scans: AtomicU64,
}

impl Scan for Gate {
    fn poll(&mut self, now: ProcessingTime) -> Result<ScanEvent, ConnectError> {
        if self.given >= self.input.open_for.load(Ordering::Relaxed) {
            return Ok(ScanEvent::NotBefore(now.plus_ns(1_000_000)));
        }
        self.given += 1;
        self.scan.poll(now)
    }

    fn prepare(&mut self) -> Result<Preparation, ConnectError> {
        self.scan.prepare()
    }

    fn is_repeatable(&self) -> bool {
        self.scan.is_repeatable() && !self.input.is_pipe.load(Ordering::Relaxed)
    }

    fn position(&self) -> Option<ScanPosition> {
        self.scan.position()
    }

    fn records(&mut self) -> Option<u64> {
        self.scan.records()
    }

    fn event_clock(&self) -> Option<EventClock> {
        self.scan.event_clock()
    }

    fn dead_rows(&self) -> u64 {
        self.scan.dead_rows()
    }
}

struct RefuseFirst(Pass);

impl Operator for RefuseFirst {
    fn on_batch(
        &mut self,
        input: usize,
        batch: StreamBatch,
        ingested: ProcessingTime,
        out: &mut Outbox,
    ) -> Result<Flow, OperatorError> {
        out.dead.push(DeadRows { rows: batch.rows.slice(0, 1), reason: DeadReason::NullTime });
        let rest = batch.rows.slice(1, batch.rows.num_rows() - 1);
        self.0.on_batch(input, StreamBatch::on_time(rest), ingested, out)
    }

    fn on_watermark(&mut self, watermark: EventTime, out: &mut Outbox) -> Result<Flow, OperatorError> {
        self.0.on_watermark(watermark, out)
    }

    fn save(&mut self) -> Result<OperatorState, StateError> {
        self.0.save()
    }

    fn restore(&mut self, state: OperatorState) -> Result<(), StateError> {
        self.0.restore(state)
    }
}

fn table(folder: &Path, path: &str, columns: &[&str]) -> Arc<TableSpec> {
    let field = |name: &&str| Field::new(*name, DataType::Int64, true);
    table_of(folder, path, Arc::new(Schema::new(columns.iter().map(field).collect::<Vec<_>>())))
}

const COLUMNS: [&str; 4] = ["a", "b", "c", "i"];

/// Whether the record has a number in that column.
pub(super) fn has(column: usize, record: u64) -> bool {
    let each = [7, 5, 3][column];
    record % each != each - 1
}

pub(super) fn write_input(folder: &Path) {
    let mut text = String::new();
    for i in 0..RECORDS {
        let [a, b, c] = [0, 1, 2].map(|column| if has(column, i) { "1" } else { "none" });
        writeln!(text, "{a},{b},{c},{i}").unwrap();
    }
    fs::write(folder.join("in.csv"), text).unwrap();
}

/// An engine over the files of a folder, and queries, each of which reads the column whose letter it begins with and `i`, which is
/// in all records.
pub(super) struct Run<'a> {
    folder: &'a Path,
    pub engine: Engine,
    table: Arc<TableSpec>,
    pub input: Arc<GatedInput>,
    /// Operators refuse the first row of each batch.
    pub refuses: bool,
    ids: HashMap<&'static str, QueryId>,
}

impl Run<'_> {
    pub fn new(folder: &Path, batches: u64) -> Run<'_> {
        let engine = Engine::new(EngineConfig { workers: 2, ..EngineConfig::default() });
        let input = Arc::new(GatedInput { open_for: AtomicU64::new(batches), ..GatedInput::default() });
        let of_scans = input.clone();
        engine.provide("in.csv", move |spec, environment| {
            let scan = open_scan(spec, environment)?;
            of_scans.scans.fetch_add(1, Ordering::Relaxed);
            Ok(Box::new(Gate { scan, given: 0, input: of_scans.clone() }))
        });
        let table = table(folder, "in.csv", &COLUMNS);
        Run { folder, engine, table, input, refuses: false, ids: HashMap::new() }
    }

    /// Rows that cannot be read are put aside there.
    pub fn puts_aside(&mut self, path: &str) {
        let table = Arc::make_mut(&mut self.table);
        table.options.insert("laxity.dead-letter.path".into(), path.into());
    }

    /// One in which `a` has had three pieces.
    pub fn of_first(folder: &Path) -> Run<'_> {
        let mut run = Run::new(folder, 3);
        run.submit("a", JoinFrom::Now);
        run.engine.start().unwrap();
        run.until_out("a", good_of_pieces(0, 3));
        run
    }

    fn plan(&self, name: &str) -> QueryPlan {
        let mut flow = Dataflow::new(QuerySettings::named(name));
        let node = |name: &str, inputs, stage| Node {
            name: name.into(),
            parallelism: 1,
            inputs,
            window: None,
            stage,
        };
        let column = COLUMNS.iter().position(|column| name.starts_with(column)).unwrap();
        let scan = ScanSpec { table: self.table.clone(), columns: vec![column, 3] };
        let operator = match self.refuses {
            true => OperatorFactory::new(|_| Ok(Box::new(RefuseFirst(Pass)))),
            false => OperatorFactory::new(|_| Ok(Box::new(Pass))),
        };
        let source = Stage::Source { scan, operator, shared: None, view: None };
        let source = flow.push(node("source", vec![], source)).unwrap();
        let forward = vec![Input { from: source, partitioning: Partitioning::Forward }];
        let sink = SinkSpec { table: table(self.folder, &format!("{name}.csv"), &[COLUMNS[column], "i"]) };
        flow.push(node("sink", forward, Stage::Sink(sink))).unwrap();
        let state = StatePlan {
            folder: self.folder.join("state"),
            mirror: None,
            interval: Duration::from_secs(3_600),
            shape: vec![name.into()],
            ignores: false,
            at: None,
        };
        QueryPlan { dataflow: flow, late: None, state: Some(state) }
    }

    pub fn submit(&mut self, name: &'static str, from: JoinFrom) {
        let id = self.engine.submit_from(self.plan(name), from).unwrap();
        self.ids.insert(name, id);
    }

    pub fn until_out(&self, name: &str, rows: u64) {
        let clock = self.engine.clock();
        let deadline = clock.now().plus(TIMEOUT);
        let out = || self.engine.query(self.ids[name]).unwrap().rows_out;
        while out() < rows {
            assert!(clock.now() < deadline, "{name}: {} of {rows}", out());
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    pub fn open_for(&self, batches: u64) {
        self.input.open_for.store(batches, Ordering::Relaxed);
    }

    fn checkpoint(&self) {
        for (name, taken) in self.engine.checkpoint(None, TIMEOUT) {
            assert!(taken.is_ok(), "{name}: {taken:?}");
        }
    }

    /// To its end.
    pub fn finish(self) {
        self.open_for(u64::MAX);
        assert!(self.engine.wait(TIMEOUT));
        self.engine.stop();
        for query in self.engine.snapshot().queries {
            assert_eq!(query.outcome, Outcome::Finished, "{}", query.name);
        }
    }
}

/// The numbers of the records that a query wrote.
pub(super) fn written(folder: &Path, name: &str) -> Vec<u64> {
    let text = fs::read_to_string(folder.join(format!("{name}.csv"))).unwrap();
    text.lines().map(|line| line.split_once(',').unwrap().1.parse().unwrap()).collect()
}

pub(super) fn good(column: usize, from: u64) -> Vec<u64> {
    (from..RECORDS).filter(|i| has(column, *i)).collect()
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let (path, to) = {
            let entry = entry.unwrap();
            (entry.path(), to.join(entry.file_name()))
        };
        match path.is_dir() {
            true => copy(&path, &to),
            // A socket is none.
            false if path.is_file() => drop(fs::copy(&path, to).unwrap()),
            false => {}
        }
    }
}

/// Good rows of the first records of so many pieces.
pub(super) fn good_of_pieces(column: usize, pieces: u64) -> u64 {
    (0..pieces * 1_024).filter(|i| has(column, *i)).count() as u64
}

#[test]
fn a_query_that_came_later_for_another_column_goes_on_where_it_was_whoever_goes_on_beside_it() {
    let folder = tempfile::tempdir().unwrap();
    let first = folder.path().join("first");
    fs::create_dir(&first).unwrap();
    write_input(&first);
    let mut run = Run::of_first(&first);
    run.submit("b", JoinFrom::Now);
    run.until_out("b", 2_000);
    run.checkpoint();
    run.open_for(5);
    run.until_out("a", good_of_pieces(0, 5));
    run.until_out("b", 3_500);
    // As it would be found after a crash.
    let crashed = folder.path().join("crashed");
    copy(&first, &crashed);
    run.finish();
    let undisturbed = ["a", "b"].map(|name| written(&first, name));
    assert_eq!(undisturbed[0], good(0, 0));
    // The first row that had not been read when it came, and all behind it.
    assert_eq!(undisturbed[1], good(1, 3 * 1_024));

    for (before, later) in
        [(&["a", "b"][..], &[][..]), (&["b", "a"], &[]), (&["a"], &["b"]), (&["b"], &["a"])]
    {
        let again = folder.path().join(format!("again-{before:?}"));
        copy(&crashed, &again);
        let mut run = Run::new(&again, 4);
        before.iter().for_each(|name| run.submit(name, JoinFrom::Now));
        run.engine.start().unwrap();
        // Once more, from where they are by then.
        before.iter().for_each(|name| run.until_out(name, 4_000));
        run.checkpoint();
        later.iter().for_each(|name| run.submit(name, JoinFrom::Now));
        run.finish();
        for (name, undisturbed) in ["a", "b"].iter().zip(&undisturbed) {
            assert!(written(&again, name) == *undisturbed, "{name} of {before:?}, then {later:?}");
        }
    }

    // Of one alone, which is again the only one that reads.
    for (place, name) in ["a", "b"].into_iter().enumerate() {
        let again = folder.path().join(format!("alone-{name}"));
        copy(&crashed, &again);
        let mut run = Run::new(&again, u64::MAX);
        run.submit(name, JoinFrom::Now);
        run.engine.start().unwrap();
        run.finish();
        assert!(written(&again, name) == undisturbed[place], "{name} alone");
    }
}

#[test]
fn a_query_that_is_added_changes_nothing_for_those_that_go_on() {
    let folder = tempfile::tempdir().unwrap();
    write_input(folder.path());
    let run = Run::of_first(folder.path());
    run.checkpoint();
    run.engine.stop();
    drop(run);

    let mut run = Run::new(folder.path(), 3);
    run.submit("a", JoinFrom::Now);
    run.submit("b", JoinFrom::Now);
    run.engine.start().unwrap();
    run.until_out("b", 1_500);
    run.checkpoint();
    run.engine.stop();
    drop(run);

    let mut run = Run::new(folder.path(), u64::MAX);
    ["c", "b", "a"].into_iter().for_each(|name| run.submit(name, JoinFrom::Now));
    run.engine.start().unwrap();
    run.finish();
    assert!(written(folder.path(), "a") == good(0, 0), "it began alone");
    let both: Vec<u64> = good(0, 0).into_iter().filter(|i| has(1, *i)).collect();
    assert!(written(folder.path(), "b") == both, "it began beside the first");
    let all: Vec<u64> = both.into_iter().filter(|i| has(2, *i)).collect();
    assert!(written(folder.path(), "c") == all, "it began beside both");
}

#[test]
fn a_query_that_came_later_goes_on_alone_once_the_first_is_complete() {
    let folder = tempfile::tempdir().unwrap();
    write_input(folder.path());
    let mut run = Run::of_first(folder.path());
    run.submit("b", JoinFrom::Now);
    run.until_out("b", 2_000);
    run.checkpoint();
    // As if it had crashed: the first comes to its end without it.
    run.engine.cancel(run.ids["b"], Ending::Drop);
    assert!(run.engine.wait_gone(run.ids["b"], TIMEOUT));
    run.engine.forget(run.ids["b"]);
    run.finish();

    let mut run = Run::new(folder.path(), u64::MAX);
    let plans = ["a", "b"].map(|name| run.plan(name));
    assert_eq!(laxity_engine::complete(&plans), [true, false]);
    run.engine.note_complete(&plans[0]);
    run.submit("b", JoinFrom::Now);
    run.engine.start().unwrap();
    run.finish();
    assert!(written(folder.path(), "a") == good(0, 0));
    assert!(written(folder.path(), "b") == good(1, 3 * 1_024));
}
