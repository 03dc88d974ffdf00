//! `--pace`: the tables of the files are offered as fast as this machine can bear, or a share of that.
//!
//! The queries run here for some seconds, a few times, nearer to the whole machine each time, under the default policy
//! whatever the run's own is: runs that are to be compared must be offered the same. What they keep busy of the cores
//! says how fast they could be fed. Start with [`measure`].

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use laxity_connect::{ScanSpec, SinkSpec, TableSpec};
use laxity_engine::{Clock, Engine, EngineConfig, EngineSnapshot, Outcome, Policy, QuerySnapshot};
use laxity_graph::Dataflow;
use laxity_operators::Stage;
use laxity_sql::PlannedQuery;

use crate::failure::Failure;
use crate::run::{LOOK, plan, refused};
use crate::signals::StopRequest;

/// The operators of a query, and how rows travel between them.
pub type Query = Dataflow<Stage<ScanSpec, SinkSpec>>;

/// By how much the speeds in the files are multiplied.
#[derive(Clone, Debug)]
pub struct Pace {
    factor: f64,
    /// What was measured, in a sentence.
    pub told: String,
    /// CPU time that measuring took, ns.
    pub cpu_ns: u64,
}

/// Where the search begins: a machine that is a tenth as fast as the writer's is not full then.
const FIRST_FACTOR: f64 = 1.0 / 16.0;
/// Shares of the cores busy between which what is missing to the whole may be inferred. Below, a row costs more than it
/// will, because batches are small; above, the sources may be waiting already.
const INFERABLE: std::ops::RangeInclusive<f64> = 0.5..=0.9;
/// The next trial aims at the middle of that.
const AIM: f64 = 0.7;
/// A trial is at most so many times as fast as the one before it.
const STEP_MAX: f64 = 16.0;
/// What is left of the speed, at least, after a trial that was too fast.
const STEP_BACK: f64 = 0.1;
/// A query that falls back by more than so many seconds in one was offered too much. Less may be a lull in what is
/// replayed, in which no watermark comes.
const BEHIND_MAX: f64 = 0.1;
/// Beside programs that come and go it is not found; then the last trial has to do.
const TRIALS_MAX: u32 = 8;
/// Of a trial: first windows fill, then it is measured. The last one takes three times as long.
const FILLING: Duration = Duration::from_millis(700);
const MEASURED: Duration = Duration::from_millis(1_000);
const LAST_TIMES: u32 = 3;

/// Finds out how fast the tables of the queries can be offered here; `share` of that is the pace. `None` if somebody
/// asked to stop meanwhile.
///
/// # Errors
/// If no table has a speed to set, or a query cannot be run.
pub fn measure(
    queries: &[PlannedQuery],
    share: f64,
    config: &EngineConfig,
    clock: Clock,
    stop_request: &StopRequest,
) -> Result<Option<Pace>, Failure> {
    let began = clock.now();
    let config = EngineConfig { policy: Policy::default(), ..config.clone() };
    let cores = std::thread::available_parallelism().map_or(config.workers, usize::from);
    let cores = cores.min(config.workers) as f64;
    check(queries)?;
    let mut search = Search::new(cores);
    loop {
        let factor = search.factor;
        let engine = Engine::with_clock(config.clone(), clock);
        let Some(trial) = Trial::run(engine, queries, factor, search.times, stop_request)? else {
            return Ok(None);
        };
        search.learn(factor, &trial);
        if search.is_over() {
            return Ok(Some(Pace::new(&search, share, factor, &trial, clock.now().since_ns(began))));
        }
    }
}

/// The search for the speed that takes all cores: trials below it, from which it is inferred.
#[derive(Debug)]
struct Search {
    /// Of the machine, or as many as the queries may use.
    cores: f64,
    /// Cores that the process gets: fewer where others want them too.
    gets: f64,
    /// Speed of the next trial.
    factor: f64,
    /// How many times as long as the others it takes.
    times: u32,
    /// The speed that takes all that the process gets, by the last trial.
    most: f64,
    is_found: bool,
    trials: u32,
}

impl Search {
    fn new(cores: f64) -> Search {
        Search { cores, gets: cores, factor: FIRST_FACTOR, times: 1, most: 0.0, is_found: false, trials: 0 }
    }

    fn is_over(&self) -> bool {
        self.is_found || self.trials == TRIALS_MAX
    }

    /// What a trial at `factor` showed.
    fn learn(&mut self, factor: f64, trial: &Trial) {
        self.trials += 1;
        if trial.behind > BEHIND_MAX {
            // The sources waited: these are the cores that we get, and so much of the rows is what they can do.
            self.gets = trial.cores_busy.min(self.cores);
            self.most = factor * (1.0 - trial.behind).clamp(STEP_BACK, 1.0);
            self.times = 1;
            self.factor = self.most * AIM;
            return;
        }
        // Who got more just now may get more.
        self.gets = self.gets.max(trial.cores_busy).min(self.cores);
        let busy = (trial.cores_busy / self.gets).max(1e-6);
        self.most = factor / busy;
        let is_near = INFERABLE.contains(&busy);
        self.is_found = is_near && self.times == LAST_TIMES;
        // Once more and longer where it may be the last.
        self.times = if is_near { LAST_TIMES } else { 1 };
        self.factor = factor * (AIM / busy).min(STEP_MAX);
    }
}

/// Refuses queries without a table that has a speed to set.
fn check(queries: &[PlannedQuery]) -> Result<(), Failure> {
    match queries.iter().flat_map(|query| tables(&query.dataflow)).any(has_pace) {
        true => Ok(()),
        false => Err(Failure::User(
            "no table has a speed that --pace or --speed could set; give one 'laxity.replay.time-column', or read from \
             'datagen'"
                .into(),
        )),
    }
}

/// One run of the queries.
struct Trial {
    cores_busy: f64,
    /// Seconds by which the query that lags most fell back in a second.
    behind: f64,
    rows_per_s: f64,
    /// Of the process until its end.
    cpu_ns: u64,
}

impl Trial {
    fn run(
        engine: Engine,
        queries: &[PlannedQuery],
        factor: f64,
        times: u32,
        stop_request: &StopRequest,
    ) -> Result<Option<Trial>, Failure> {
        let mut tables = Tables::new(|table| endless(scaled(table, factor)));
        for query in queries {
            let dataflow = silent(&tables.replace(&query.dataflow));
            engine.submit(plan(dataflow, query.late.clone())).map_err(refused)?;
        }
        engine.start().map_err(refused)?;
        let before = watch(&engine, FILLING * times, stop_request)?;
        let after = watch(&engine, MEASURED * times, stop_request)?;
        engine.stop();
        let (Some(before), Some(after)) = (before, after) else { return Ok(None) };
        let wall_s = (after.wall_ns - before.wall_ns) as f64 / 1e9;
        let rows =
            |snapshot: &EngineSnapshot| snapshot.queries.iter().map(|query| query.rows_in).sum::<u64>();
        Ok(Some(Trial {
            behind: behind(&before, &after) / wall_s,
            cores_busy: (after.cpu_ns - before.cpu_ns) as f64 / 1e9 / wall_s,
            rows_per_s: (rows(&after) - rows(&before)) as f64 / wall_s,
            cpu_ns: engine.snapshot().cpu_ns,
        }))
    }
}

/// Seconds by which the query that lags most fell back from one look to the next.
fn behind(before: &EngineSnapshot, after: &EngineSnapshot) -> f64 {
    let lags = |query: &QuerySnapshot| query.watermark_lag_ns.map(|ns| ns as f64 / 1e9);
    let pairs = before.queries.iter().zip(&after.queries);
    pairs.filter_map(|(before, after)| Some(lags(after)? - lags(before)?)).fold(0.0, f64::max)
}

/// How the engine stands after so long; `None` if somebody asked to stop.
fn watch(
    engine: &Engine,
    for_: Duration,
    stop_request: &StopRequest,
) -> Result<Option<EngineSnapshot>, Failure> {
    let clock = engine.clock();
    let end = clock.now().plus(for_);
    while clock.now() < end {
        if stop_request.made() {
            return Ok(None);
        }
        let left = Duration::from_nanos(end.since_ns(clock.now()));
        if engine.wait(left.min(LOOK)) {
            break;
        }
    }
    let snapshot = engine.snapshot();
    for query in &snapshot.queries {
        if let Outcome::Failed(error) = &query.outcome {
            return Err(Failure::World(anyhow::anyhow!("{} failed: {error}", query.name)));
        }
    }
    Ok(Some(snapshot))
}

impl Pace {
    fn new(search: &Search, share: f64, factor: f64, trial: &Trial, took_ns: u64) -> Pace {
        Pace {
            // What is shown is what is done: --speed with it does the same again.
            factor: three_digits(search.most * share),
            told: format!(
                "measured for {:.0} s under policy laxity: at {} times the speeds in the files the queries take {:.2} of \
                 {:.3} cores for {:.2} million rows/s, so the most this machine can do is {} times{}",
                took_ns as f64 / 1e9,
                three_digits(factor),
                trial.cores_busy,
                search.gets,
                trial.rows_per_s / 1e6,
                three_digits(search.most),
                if search.is_found { "" } else { ", a guess: others keep it busy" },
            ),
            cpu_ns: trial.cpu_ns,
        }
    }

    /// So many times the speeds in the files, whatever this machine can do.
    ///
    /// # Errors
    /// If no table has a speed to set.
    pub fn given(factor: f64, queries: &[PlannedQuery]) -> Result<Pace, Failure> {
        check(queries).map(|()| Pace { factor, told: String::new(), cpu_ns: 0 })
    }

    /// The queries with their tables at this pace, and a sentence that says which.
    pub fn apply(&self, queries: Vec<PlannedQuery>) -> (Vec<PlannedQuery>, String) {
        let mut tables = Tables::new(|table| scaled(table, self.factor));
        let queries: Vec<PlannedQuery> = queries
            .into_iter()
            .map(|mut query| {
                query.dataflow = tables.replace(&query.dataflow);
                query
            })
            .collect();
        let mut speeds: Vec<String> = tables.by_address.values().filter_map(|table| speed(table)).collect();
        speeds.sort();
        (queries, format!("offered at {} times those in the files: {}", self.factor, speeds.join(", ")))
    }
}

/// Exchanges tables, each for one other: queries that share a table share its successor.
pub struct Tables<F> {
    change: F,
    by_address: HashMap<*const TableSpec, Arc<TableSpec>>,
}

impl<F: Fn(&TableSpec) -> TableSpec> Tables<F> {
    /// Each table is exchanged for what `change` makes of it.
    pub fn new(change: F) -> Tables<F> {
        Tables { change, by_address: HashMap::new() }
    }

    /// The dataflow with the other tables.
    pub fn replace(&mut self, dataflow: &Query) -> Query {
        let mut replaced = Dataflow::new(dataflow.settings.clone());
        for node in dataflow.nodes() {
            let mut node = node.clone();
            if let Stage::Source { scan, .. } = &mut node.stage {
                let successor = self
                    .by_address
                    .entry(Arc::as_ptr(&scan.table))
                    .or_insert_with(|| Arc::new((self.change)(&scan.table)));
                scan.table = successor.clone();
            }
            replaced.push(node).expect("it was a dataflow before");
        }
        replaced
    }
}

const REPLAYED_BY: &str = "laxity.replay.time-column";
const SPEED: &str = "laxity.replay.speed";
const RATE: &str = "rows-per-second";
const RATE_DEFAULT: f64 = 10_000.0;

fn tables(dataflow: &Query) -> impl Iterator<Item = &TableSpec> {
    dataflow.nodes().iter().filter_map(|node| match &node.stage {
        Stage::Source { scan, .. } => Some(&*scan.table),
        Stage::Operator(_) | Stage::Sink(_) => None,
    })
}

fn is_generated(table: &TableSpec) -> bool {
    table.options.get("connector").is_some_and(|connector| connector == "datagen")
}

/// True if rows of the table come at a pace of its own; else it is read as fast as it can be.
fn has_pace(table: &TableSpec) -> bool {
    is_generated(table) || table.options.contains_key(REPLAYED_BY)
}

/// The table at so many times its speed, to three digits.
fn scaled(table: &TableSpec, factor: f64) -> TableSpec {
    let mut table = table.clone();
    if is_generated(&table) {
        let rows_per_s = three_digits(rate(&table) * factor).max(1.0).round();
        table.options.insert(RATE.into(), rows_per_s.to_string());
    } else if table.options.contains_key(REPLAYED_BY) {
        let speed = three_digits(number(&table, SPEED, 1.0) * factor);
        table.options.insert(SPEED.into(), speed.to_string());
    }
    table
}

fn rate(table: &TableSpec) -> f64 {
    number(table, RATE, RATE_DEFAULT)
}

fn number(table: &TableSpec, key: &str, default: f64) -> f64 {
    table.options.get(key).and_then(|text| text.trim().parse().ok()).unwrap_or(default)
}

/// The table without an end, so that a trial is not over before it is measured.
fn endless(mut table: TableSpec) -> TableSpec {
    if is_generated(&table) {
        table.options.remove("number-of-rows");
    } else if table.options.contains_key(REPLAYED_BY) {
        table.options.insert("laxity.replay.loop".into(), "forever".into());
    }
    table
}

/// The speed of a table, for people.
fn speed(table: &TableSpec) -> Option<String> {
    let option = |key: &str| table.options.get(key).cloned();
    match is_generated(table) {
        true => Some(format!("{} {} rows/s", table.name, option(RATE)?)),
        false if has_pace(table) => Some(format!("{} {}x", table.name, option(SPEED)?)),
        false => None,
    }
}

/// The same query without a word on the standard output; files are written as they will be.
fn silent(dataflow: &Query) -> Query {
    let mut silenced = Dataflow::new(dataflow.settings.clone());
    for node in dataflow.nodes() {
        let mut node = node.clone();
        if let Stage::Sink(sink) = &node.stage
            && sink.table.options.get("connector").is_some_and(|connector| connector == "print")
        {
            let options = [("connector".to_string(), "blackhole".to_string())].into();
            node.stage =
                Stage::Sink(SinkSpec { table: Arc::new(TableSpec { options, ..(*sink.table).clone() }) });
        }
        silenced.push(node).expect("it was a dataflow before");
    }
    silenced
}

fn three_digits(value: f64) -> f64 {
    let size = 10_f64.powf(value.abs().log10().floor() - 2.0);
    if value == 0.0 || !size.is_finite() { value } else { (value / size).round() * size }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use laxity_sql::SqlFile;

    use super::*;

    const SQL: &str = "
CREATE TABLE flights (t TIMESTAMP(3), WATERMARK FOR t AS t) WITH ('connector' = 'filesystem', 'path' = 'a.csv',
  'format' = 'csv', 'laxity.replay.time-column' = 't', 'laxity.replay.speed' = '2000', 'laxity.replay.loop' = '3');
CREATE TABLE days (t TIMESTAMP(3)) WITH ('connector' = 'filesystem', 'path' = 'a.csv', 'format' = 'csv',
  'laxity.replay.time-column' = 't');
CREATE TABLE ticks (n BIGINT) WITH ('connector' = 'datagen', 'rows-per-second' = '30', 'number-of-rows' = '9');
CREATE TABLE plain (n BIGINT) WITH ('connector' = 'filesystem', 'path' = 'a.csv', 'format' = 'csv');
SELECT t FROM flights; SELECT t FROM flights WHERE t IS NOT NULL; SELECT t FROM days; SELECT n FROM ticks;
SELECT n FROM plain;";

    fn queries() -> Vec<PlannedQuery> {
        let file = SqlFile { path: PathBuf::from("a.sql"), text: SQL.into() };
        laxity_sql::compile_with(
            &[file],
            laxity_sql::CompileOptions { processing_origin_ms: 0, verify_approximate: false },
        )
        .unwrap()
        .queries
    }

    fn option(query: &PlannedQuery, key: &str) -> Option<String> {
        tables(&query.dataflow).next().unwrap().options.get(key).cloned()
    }

    #[test]
    fn every_table_with_a_pace_goes_at_the_same_multiple_of_it() {
        let pace = Pace { factor: 0.123456, told: String::new(), cpu_ns: 0 };
        let (queries, told) = pace.apply(queries());
        assert_eq!(option(&queries[0], SPEED).as_deref(), Some("247"));
        assert_eq!(option(&queries[0], "laxity.replay.loop").as_deref(), Some("3"));
        assert_eq!(option(&queries[2], SPEED).as_deref(), Some("0.123"));
        assert_eq!(option(&queries[3], RATE).as_deref(), Some("4"));
        assert_eq!(option(&queries[4], SPEED), None);
        assert_eq!(
            told,
            "offered at 0.123456 times those in the files: days 0.123x, flights 247x, ticks 4 rows/s"
        );
        let table = |query: &PlannedQuery| tables(&query.dataflow).next().unwrap() as *const TableSpec;
        assert_eq!(table(&queries[0]), table(&queries[1]), "one scan still serves both");
    }

    #[test]
    fn a_trial_does_not_end_and_does_not_print() {
        let mut tables = Tables::new(|table| endless(scaled(table, 1.0)));
        let seen: Vec<Query> =
            queries().iter().map(|query| silent(&tables.replace(&query.dataflow))).collect();
        let of = |query: &Query, key: &str| super::tables(query).next().unwrap().options.get(key).cloned();
        assert_eq!(of(&seen[0], "laxity.replay.loop").as_deref(), Some("forever"));
        assert_eq!(of(&seen[3], "number-of-rows"), None);
        for query in &seen {
            let sinks = query.nodes().iter().filter_map(|node| match &node.stage {
                Stage::Sink(sink) => sink.table.options.get("connector"),
                _ => None,
            });
            assert!(sinks.eq(["blackhole"]));
        }
    }

    /// Searches on a machine of two cores where speed 1 wants so many; what the process gets, by trial.
    fn searched(wants_cores: f64, gets: impl Fn(u32) -> f64) -> Search {
        let mut search = Search::new(2.0);
        while !search.is_over() {
            let wanted = wants_cores * search.factor;
            let cores_busy = wanted.min(gets(search.trials));
            let trial = Trial { cores_busy, behind: 1.0 - cores_busy / wanted, rows_per_s: 1.0, cpu_ns: 0 };
            search.learn(search.factor, &trial);
        }
        search
    }

    #[test]
    fn what_the_machine_can_do_is_found_whatever_it_is() {
        for wants_cores in [0.001, 0.5, 2.0, 40.0, 300.0] {
            let search = searched(wants_cores, |_| 2.0);
            assert!(search.is_found && (search.most * wants_cores / 2.0 - 1.0).abs() < 1e-6, "{search:?}");
        }
    }

    #[test]
    fn cores_that_others_take_are_not_counted_on() {
        for gets in [0.3, 0.6, 0.9, 1.2] {
            let search = searched(2.0, |_| gets);
            assert!(search.is_found && (search.most - gets / 2.0).abs() < 1e-6, "{gets}: {search:?}");
        }
    }

    #[test]
    fn a_machine_that_changes_gives_a_guess() {
        let search = searched(2.0, |trial| if trial % 2 == 0 { 0.05 } else { 0.8 });
        assert!(search.trials <= TRIALS_MAX && (0.02..=1.0).contains(&search.most), "{search:?}");
    }

    #[test]
    fn three_digits_are_kept() {
        let shown: Vec<f64> = [1_234_567.0, 0.123_45, 999.9, 5.0, 0.0].map(three_digits).to_vec();
        assert_eq!(shown, [1_230_000.0, 0.123, 1_000.0, 5.0, 0.0]);
    }
}
