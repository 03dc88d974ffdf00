//! What do checkpoints cost: of a thousand small queries over one stream, and of a large one beside a near target?

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, ensure};
use serde::Deserialize;

use super::{Setting, at_most, one_stream};
use crate::Findings;
use crate::density::launch::{Killed, wait};

const TARGET_TIMES: f64 = 1.02;
const TARGET_PAUSE_MS: f64 = 5.0;
const TARGET_P99_MS: f64 = 50.0;

/// USER_HZ, as every program of Linux sees it.
const TICKS_PER_S: f64 = 100.0;

/// Stopping may take so long, the last checkpoint included.
const PATIENCE: Duration = Duration::from_secs(60);

pub(super) fn run(setting: &mut Setting<'_>) -> anyhow::Result<Findings> {
    let columns =
        vec!["cell", "checkpoints", "round", "cpu_s", "peak_mb", "worst_pause_ms", "nearest_p99_ms"];
    let mut findings = Findings { columns, ..Findings::default() };
    if !setting.launcher.laxity.exists() {
        findings.summary.push("not measured: the laxity program is not there; build it first".into());
        return Ok(findings);
    }
    let many = setting.pick(1_000, 20);
    let cells = [
        (format!("{many} queries over one stream"), one_stream::sql(many, many, 10_000, 100, true)),
        ("a million groups beside a near target".into(), large(setting.pick(100_000, 2_000))),
    ];
    for (place, (cell, text)) in cells.iter().enumerate() {
        let (mut times, mut pauses, mut p99s) = (Vec::new(), Vec::new(), Vec::new());
        for round in 0..setting.rounds() {
            let [without, with] =
                [false, true].map(|has_checkpoints| measure(setting, text, has_checkpoints));
            let (without, with) = (without?, with?);
            times.push(with.cpu_s / without.cpu_s.max(1e-3));
            pauses.push(with.worst_pause_ms);
            p99s.push(with.nearest_p99_ms);
            for (name, run) in [("off", &without), ("on", &with)] {
                findings.rows.push(vec![
                    cell.clone(),
                    name.into(),
                    round.to_string(),
                    format!("{:.2}", run.cpu_s),
                    format!("{:.0}", run.peak_mb),
                    format!("{:.1}", run.worst_pause_ms),
                    format!("{:.1}", run.nearest_p99_ms),
                ]);
            }
        }
        let with = |what: &str| format!("{cell}, checkpoints each 10 s: {what}");
        findings.summary.push(at_most(&with("CPU by that without"), &times, TARGET_TIMES, "times"));
        findings.summary.push(at_most(&with("the longest pause"), &pauses, TARGET_PAUSE_MS, "ms"));
        if place == 1 {
            findings.summary.push(at_most(&with("p99 of the near one"), &p99s, TARGET_P99_MS, "ms"));
        }
    }
    Ok(findings)
}

/// Groups that only become more, and counts each 100 ms of a table of their own.
fn large(rows_per_s: u64) -> String {
    let table = |name: &str, rows_per_s: u64, keys: u64| {
        format!(
            "CREATE TABLE {name} (k BIGINT, v BIGINT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts) \
             WITH ('connector' = 'datagen', 'rows-per-second' = '{rows_per_s}', 'fields.k.kind' = 'random', \
             'fields.k.min' = '0', 'fields.k.max' = '{}');\n",
            keys - 1
        )
    };
    let query = |name: &str, target: &str, table: &str, key: &str, length: &str| {
        format!(
            "SET 'pipeline.name' = '{name}';\nSET 'laxity.latency.target' = '{target}';\n\
             INSERT INTO counts SELECT window_end, COUNT(*) FROM TABLE(\
             TUMBLE(TABLE {table}, DESCRIPTOR(ts), INTERVAL {length})) GROUP BY window_start, window_end{key};\n"
        )
    };
    table("many", rows_per_s, 100 * rows_per_s)
        + &table("few", 1_000, 10)
        + "CREATE TABLE counts (e TIMESTAMP(3), n BIGINT) WITH ('connector' = 'blackhole');\n"
        + &query("large", "10 s", "many", ", k", "'1' HOUR")
        + &query("near", "50 ms", "few", "", "'0.1' SECOND")
}

struct Measured {
    cpu_s: f64,
    peak_mb: f64,
    worst_pause_ms: f64,
    /// Of the query of the nearest target; the worst of them.
    nearest_p99_ms: f64,
}

#[derive(Deserialize)]
struct Report {
    queries: Vec<QueryReport>,
}

#[derive(Deserialize)]
struct QueryReport {
    target_ms: f64,
    latency_ms: Option<Latency>,
    checkpoint: Option<Checkpoint>,
}

#[derive(Deserialize)]
struct Latency {
    p99: f64,
}

#[derive(Deserialize)]
struct Checkpoint {
    longest_pause_ms: f64,
}

fn measure(setting: &Setting<'_>, text: &str, has_checkpoints: bool) -> anyhow::Result<Measured> {
    let folder = &setting.launcher.scratch;
    let (sql, report, state) =
        (folder.join("checkpoints.sql"), folder.join("report.json"), folder.join("state"));
    fs::write(&sql, text).context("cannot write the SQL")?;
    if state.exists() {
        fs::remove_dir_all(&state).context("cannot remove the state")?;
    }
    let measured = setting.seconds(25);
    let mut command = Command::new(&setting.launcher.laxity);
    command.arg("run").arg(&sql).arg("--plain").arg("--report").arg(&report);
    command.args(["--for", &format!("{} ms", measured.as_millis())]);
    if has_checkpoints {
        command.arg("--state").arg(&state);
    }
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let before = children_cpu_s()?;
    let mut process = Killed(command.spawn().context("cannot start the laxity program")?);
    let mut peak_mb: f64 = 0.0;
    let began = std::time::Instant::now();
    while !wait(&mut process, Duration::from_millis(200))? {
        peak_mb = peak_mb.max(resident_mb(process.0.id()).unwrap_or(0.0));
        ensure!(began.elapsed() < measured + PATIENCE, "the program did not stop");
    }
    let cpu_s = children_cpu_s()? - before;
    let report: Report = serde_json::from_slice(&fs::read(&report).context("the program left no report")?)?;
    let nearest_ms = report.queries.iter().map(|query| query.target_ms).fold(f64::INFINITY, f64::min);
    let nearest = report.queries.iter().filter(|query| query.target_ms <= nearest_ms);
    let p99_ms = nearest.filter_map(|query| query.latency_ms.as_ref()).map(|latency| latency.p99);
    let pauses_ms = report.queries.iter().filter_map(|query| query.checkpoint.as_ref());
    Ok(Measured {
        cpu_s,
        peak_mb,
        worst_pause_ms: pauses_ms.map(|checkpoint| checkpoint.longest_pause_ms).fold(0.0, f64::max),
        nearest_p99_ms: p99_ms.fold(0.0, f64::max),
    })
}

/// Of all processes of ours that have ended.
fn children_cpu_s() -> anyhow::Result<f64> {
    let stat = fs::read_to_string("/proc/self/stat").context("cannot read /proc/self/stat")?;
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let ticks = |field: usize| fields.get(field).and_then(|field| field.parse::<f64>().ok());
    // cutime and cstime; the first field behind the name is the third of all.
    let (user, system) = (ticks(13), ticks(14));
    let ticks = user.zip(system).map(|(user, system)| user + system).context("/proc/self/stat is cut")?;
    Ok(ticks / TICKS_PER_S)
}

fn resident_mb(pid: u32) -> Option<f64> {
    let status = fs::read_to_string(Path::new("/proc").join(pid.to_string()).join("status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    Some(line.split_whitespace().next()?.parse::<f64>().ok()? / 1024.0)
}
