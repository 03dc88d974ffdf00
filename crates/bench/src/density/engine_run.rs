//! The process of one cell: the engine over one SQL text for some seconds, and what that took.
//!
//! A process of its own, so that resident size and CPU time are the cell's. It is started by [`super::launch`].

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow};
use clap::Args;
use laxity_engine::{Clock, Engine, EngineConfig, EngineSnapshot, Outcome, QuerySnapshot};
use laxity_operators::Stage;
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

use super::changing::{ChangeFigures, Changing};
use crate::memory_table::SilentScan;
use crate::queries::{compile, submit_all};
use crate::thread_cpu::cpu_ns_of;

/// What the process is told.
#[derive(Args, Debug)]
pub struct EngineRunArgs {
    /// The SQL.
    #[arg(long)]
    pub sql: PathBuf,
    /// Who decides what runs next.
    #[arg(long)]
    pub policy: String,
    /// How long it runs before it is measured, from the start of the sources.
    #[arg(long, default_value_t = 0)]
    pub warm_up_millis: u64,
    /// For how long it is measured.
    #[arg(long)]
    pub millis: u64,
    /// No row ever comes from any table.
    #[arg(long)]
    pub silent: bool,
    /// Nobody looks while it runs; else there is a look every second, as `laxity run --plain` has it.
    #[arg(long)]
    pub unwatched: bool,
    /// One query more comes and goes, in every other second.
    #[arg(long)]
    pub changed: bool,
    /// Where the figures go, as JSON.
    #[arg(long)]
    pub out: PathBuf,
}

/// What a run of the engine took and gave.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub struct EngineFigures {
    /// The wall clock when the sources started, Unix ms.
    pub origin_ms: i64,
    /// From then until it began to be measured, s.
    pub warm_up_s: f64,
    /// Results that came out in that time, later than their targets.
    pub late_before: u64,
    /// From its end until the last look, s. Everything below is of this time, but for the results of rows that were
    /// admitted by its end.
    pub measured_s: f64,
    /// From reading the SQL until the sources had started, s.
    pub start_s: f64,
    /// CPU time of the process, s.
    pub cpu_s: f64,
    /// Of that, of the threads that run operators.
    pub worker_cpu_s: f64,
    /// Of that, inside operators; 0 under `os`.
    pub operator_s: f64,
    /// Batches and watermarks that operators took in; 0 under `os`.
    pub activations: u64,
    /// Resident size before the SQL was read.
    pub bytes_before: u64,
    /// Largest resident size.
    pub peak_bytes: u64,
    /// What it took to have one more query come and go, where that was asked for.
    pub changes: ChangeFigures,
    /// In order of submission.
    pub queries: Vec<QueryFigures>,
}

/// What one query gave.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub struct QueryFigures {
    /// Its name.
    pub name: String,
    /// Rows admitted.
    pub rows_in: u64,
    /// Rows admitted before that.
    pub rows_before: u64,
    /// Results that left the sink.
    pub results: u64,
    /// Of those, within the target.
    pub met: u64,
    /// Median latency.
    pub p50_ns: u64,
    /// 90th percentile.
    pub p90_ns: u64,
    /// 99th percentile.
    pub p99_ns: u64,
    /// 99.9th percentile.
    pub p999_ns: u64,
    /// Longest.
    pub max_ns: u64,
    /// Why it was stopped, if an error stopped it.
    pub error: Option<String>,
}

/// How long admitted rows may take to come out after the end: longer than any urgent target, so that what is cut off
/// is late in any case.
const DRAIN: Duration = Duration::from_millis(250);

/// How long after the start an engine whose tables are silent has looked at all of them.
const AT_REST: Duration = Duration::from_secs(1);

/// Runs the engine and writes the figures.
///
/// # Errors
/// If the SQL is wrong, a table cannot be opened, or the system does not say what the process took.
pub fn run(args: &EngineRunArgs) -> anyhow::Result<()> {
    let bytes_before = status_bytes("VmRSS:")?;
    let began = Instant::now();
    let sql = fs::read_to_string(&args.sql).context("cannot read the SQL")?;
    let policy = args.policy.parse().map_err(|error| anyhow!("{error}"))?;
    let config = EngineConfig { policy, drain_timeout: DRAIN, ..EngineConfig::default() };
    let clock = Clock::start();
    let engine = Engine::with_clock(config, clock);
    let script = compile(&sql)?;
    drop(sql);
    if args.silent {
        let nodes = script.queries.iter().flat_map(|query| query.dataflow.nodes());
        for node in nodes {
            if let Stage::Source { scan, .. } = &node.stage {
                engine.provide(&scan.table.name, |_, _| Ok(Box::new(SilentScan)));
            }
        }
    }
    let mut changing = args.changed.then(|| Changing::of(&script)).flatten();
    submit_all(&engine, script)?;
    // Many tables take their time to be opened, and no row is due before they are.
    let mut origin = engine.start().context("cannot start")?;
    if args.silent {
        // The first look at each table belongs to the start.
        engine.wait(AT_REST);
        origin = clock.now();
    }
    let start_s = began.elapsed().as_secs_f64();
    let warm_up_end = origin.plus(Duration::from_millis(args.warm_up_millis));
    let _ends_later = engine.wait(Duration::from_nanos(warm_up_end.since_ns(clock.now())));
    let before = Before::now(&engine)?;
    // Results that came while it was looked at were forgotten: what is due counts from here.
    let warm = clock.now();

    let end = warm.plus(Duration::from_millis(args.millis));
    const LOOK: Duration = Duration::from_secs(1);
    let mut next_look = clock.now().plus(LOOK);
    let mut seen = laxity_engine::EngineFigures::default();
    loop {
        let left = Duration::from_nanos(end.since_ns(clock.now()));
        let now_ms = clock.unix_start_ms() + (clock.now().0 / 1_000_000) as i64;
        let pause = changing.as_mut().map_or(LOOK, |changing| {
            Duration::from_millis(u64::try_from(changing.next_ms(now_ms) - now_ms).unwrap_or(0))
        });
        if engine.wait(left.min(pause)) || clock.now() >= end {
            break;
        }
        if let Some(changing) = &mut changing {
            changing.step(&engine)?;
        }
        if !args.unwatched && clock.now() >= next_look {
            next_look = clock.now().plus(LOOK);
            engine.figures(&mut seen);
        }
    }
    let measured_s = clock.now().since_ns(warm) as f64 / 1e9;
    let cpu = Cpu::now()?;
    let mut figures = EngineFigures {
        origin_ms: clock.unix_start_ms() + (origin.0 / 1_000_000) as i64,
        warm_up_s: warm.since_ns(origin) as f64 / 1e9,
        late_before: before.late,
        measured_s,
        start_s,
        cpu_s: (cpu.process_ns - before.cpu.process_ns) as f64 / 1e9,
        worker_cpu_s: (cpu.workers_ns - before.cpu.workers_ns) as f64 / 1e9,
        activations: activations(&engine) - before.activations,
        bytes_before,
        changes: changing.map(Changing::figures).unwrap_or_default(),
        ..EngineFigures::default()
    };
    // Written before the stop too: where a stalled file holds that up, the process is killed.
    figures.take(&engine.snapshot(), &before);
    let rows_in: Vec<u64> = figures.queries.iter().map(|query| query.rows_in).collect();
    figures.write(&args.out)?;
    engine.stop();
    figures.take(&engine.snapshot(), &before);
    figures.queries.iter_mut().zip(rows_in).for_each(|(query, rows_in)| query.rows_in = rows_in);
    figures.write(&args.out)
}

/// How things stood when the measurement began.
struct Before {
    cpu: Cpu,
    operator_ns: u64,
    activations: u64,
    late: u64,
    rows_by_query: Vec<u64>,
}

impl Before {
    /// Results are counted anew.
    fn now(engine: &Engine) -> anyhow::Result<Before> {
        let snapshot = engine.snapshot();
        engine.forget_results();
        let queries = &snapshot.queries;
        Ok(Before {
            operator_ns: snapshot.operator_ns,
            activations: activations(engine),
            late: queries.iter().map(|query| query.lateness.results - query.lateness.met).sum(),
            rows_by_query: queries.iter().map(|query| query.rows_in).collect(),
            cpu: Cpu::now()?,
        })
    }
}

impl EngineFigures {
    fn take(&mut self, snapshot: &EngineSnapshot, before: &Before) {
        if self.queries.is_empty() {
            self.operator_s = (snapshot.operator_ns - before.operator_ns) as f64 / 1e9;
        }
        self.peak_bytes = snapshot.peak_rss_bytes;
        self.queries = snapshot.queries.iter().map(QueryFigures::from).collect();
        for (query, rows) in self.queries.iter_mut().zip(&before.rows_by_query) {
            (query.rows_in, query.rows_before) = (query.rows_in - rows, *rows);
        }
    }

    fn write(&self, path: &Path) -> anyhow::Result<()> {
        // Renamed, so that whoever reads it never sees half of it.
        let part = path.with_extension("part");
        fs::write(&part, serde_json::to_vec(self)?).context("cannot write the figures")?;
        fs::rename(&part, path).context("cannot write the figures")
    }
}

impl From<&QuerySnapshot> for QueryFigures {
    fn from(query: &QuerySnapshot) -> QueryFigures {
        QueryFigures {
            name: query.name.clone(),
            rows_in: query.rows_in,
            rows_before: 0,
            results: query.lateness.results,
            met: query.lateness.met,
            p50_ns: query.latency.p50_ns,
            p90_ns: query.latency.p90_ns,
            p99_ns: query.latency.p99_ns,
            p999_ns: query.latency.p999_ns,
            max_ns: query.latency.max_ns,
            error: match &query.outcome {
                Outcome::Failed(error) => Some(error.clone()),
                Outcome::Running | Outcome::Finished | Outcome::Cancelled => None,
            },
        }
    }
}

/// CPU time so far.
struct Cpu {
    process_ns: u64,
    workers_ns: u64,
}

impl Cpu {
    fn now() -> anyhow::Result<Cpu> {
        let process = clock_gettime(ClockId::ProcessCPUTime);
        Ok(Cpu {
            process_ns: process.tv_sec as u64 * 1_000_000_000 + process.tv_nsec as u64,
            // The engine's workers, or under `os` the threads of operators.
            workers_ns: cpu_ns_of("laxity-worker")? + cpu_ns_of("op-")?,
        })
    }
}

fn activations(engine: &Engine) -> u64 {
    engine.measurements().iter().map(|operator| operator.totals.batches + operator.totals.watermarks).sum()
}

fn status_bytes(field: &str) -> anyhow::Result<u64> {
    let status = fs::read_to_string("/proc/self/status").context("needs Linux")?;
    let line = status.lines().find_map(|line| line.strip_prefix(field)).context("no such field")?;
    Ok(line.trim().trim_end_matches("kB").trim().parse::<u64>()? * 1_024)
}
