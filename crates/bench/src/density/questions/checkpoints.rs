//! What do checkpoints cost, and how soon is one back to work after them: of a thousand small queries over one stream, of one of
//! millions of groups, of one that holds a hundred megabytes and of one that holds a gigabyte, and of each kind of operator that holds
//! something for each key, each beside a near target.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use serde::Deserialize;

use super::{Setting, at_most, one_stream};
use crate::Findings;
use crate::density::launch::{Killed, wait};

/// 2 % of a machine of two cores, of 25 s.
const TARGET_CPU_S: f64 = 1.0;
const TARGET_PAUSE_MS: f64 = 5.0;
const TARGET_P99_TIMES: f64 = 1.2;
const TARGET_KB_A_QUERY: f64 = 10.0;

/// USER_HZ, as every program of Linux sees it.
const TICKS_PER_S: f64 = 100.0;

/// Stopping may take so long, the last checkpoint included.
const PATIENCE: Duration = Duration::from_secs(60);

/// Queries, beside the near one, and what is asked of them: of a gigabyte, nothing but that the near one does not notice.
struct Cell {
    name: String,
    sql: String,
    queries: usize,
    pause_ms: Option<f64>,
    ready_s: Option<f64>,
}

pub(super) fn run(setting: &mut Setting<'_>) -> anyhow::Result<Findings> {
    let columns = [
        "cell",
        "checkpoints",
        "round",
        "cpu_s",
        "peak_mb",
        "state_mb",
        "worst_pause_ms",
        "near_p99_ms",
        "near_max_ms",
        "ready_s",
        "disk_kb_a_query",
    ];
    let mut findings = Findings { columns: columns.to_vec(), ..Findings::default() };
    if !setting.launcher.laxity.exists() {
        findings.summary.push("not measured: the laxity program is not there; build it first".into());
        return Ok(findings);
    }
    let many = setting.pick(1_000, 20);
    let groups = large(setting.pick(100_000, 2_000));
    let keyed_cell = |name: &str, select: &str| Cell {
        name: name.into(),
        sql: keyed(setting.pick(100_000, 2_000), select),
        queries: 1,
        pause_ms: Some(TARGET_PAUSE_MS),
        ready_s: Some(1.0),
    };
    let cells = [
        Cell {
            name: format!("{many} queries over one stream"),
            sql: one_stream::sql(many, many, 10_000, 100, true),
            queries: many,
            pause_ms: Some(TARGET_PAUSE_MS),
            ready_s: Some(5.0),
        },
        Cell {
            name: "millions of groups".into(),
            sql: groups,
            queries: 1,
            pause_ms: Some(TARGET_PAUSE_MS),
            ready_s: Some(1.0),
        },
        Cell {
            name: "rows that wait for a join".into(),
            sql: waiting_rows(setting.pick(4_000, 1_000)),
            queries: 1,
            pause_ms: Some(TARGET_PAUSE_MS),
            ready_s: Some(1.0),
        },
        Cell {
            name: "many rows that wait for a join".into(),
            sql: waiting_rows(setting.pick(40_000, 2_000)),
            queries: 1,
            pause_ms: None,
            ready_s: None,
        },
        keyed_cell("sessions", SESSIONS),
        keyed_cell("frames of OVER", FRAMES),
        keyed_cell("distinct values", DISTINCT),
        keyed_cell("the best row of each key", BEST),
    ];
    for cell in &cells {
        let sql = near() + &cell.sql;
        let (mut off, mut on) = (Vec::new(), Vec::new());
        for _ in 0..setting.rounds() {
            off.push(measure(setting, &sql, false)?);
            on.push(measure(setting, &sql, true)?);
        }
        for (name, runs) in [("off", &off), ("on", &on)] {
            for (round, run) in runs.iter().enumerate() {
                findings.rows.push(vec![
                    cell.name.clone(),
                    name.into(),
                    round.to_string(),
                    format!("{:.2}", run.cpu_s),
                    format!("{:.0}", run.peak_mb),
                    format!("{:.1}", run.state_mb),
                    format!("{:.1}", run.worst_pause_ms),
                    format!("{:.2}", run.near_ms.p99),
                    format!("{:.2}", run.near_ms.max),
                    format!("{:.2}", run.ready_s),
                    format!("{:.1}", run.disk_bytes as f64 / 1e3 / cell.queries as f64),
                ]);
            }
        }
        let of =
            |runs: &[Measured], figure: fn(&Measured) -> f64| runs.iter().map(figure).collect::<Vec<f64>>();
        let pairs = |figure: fn(&Measured, &Measured) -> f64| {
            on.iter().zip(&off).map(|(on, off)| figure(on, off)).collect::<Vec<f64>>()
        };
        let what = |what: &str| {
            format!(
                "{}, checkpoints each 10 s of {:.0} MB: {what}",
                cell.name,
                crate::median(&of(&on, |run| run.state_mb))
            )
        };
        let more_cpu_s = pairs(|on, off| on.cpu_s - off.cpu_s);
        let times = pairs(|on, off| on.near_ms.p99 / off.near_ms.p99.max(1e-3));
        findings.summary.extend([
            at_most(&what("CPU more than without, of 25 s"), &more_cpu_s, TARGET_CPU_S, "s"),
            figure(&what("the longest pause"), &of(&on, |run| run.worst_pause_ms), cell.pause_ms, "ms"),
            at_most(&what("p99 of the near one by that without"), &times, TARGET_P99_TIMES, "times"),
            figure(
                &what("start to first result of the near one"),
                &of(&on, |run| run.ready_s),
                cell.ready_s,
                "s",
            ),
        ]);
        if cell.queries > 1 {
            let kb = |run: &Measured| run.disk_bytes as f64 / 1e3;
            let each: Vec<f64> = on.iter().map(|run| kb(run) / cell.queries as f64).collect();
            findings.summary.push(at_most(&what("disk for each query"), &each, TARGET_KB_A_QUERY, "KB"));
        }
    }
    Ok(findings)
}

fn figure(what: &str, values: &[f64], most: Option<f64>, unit: &str) -> String {
    match most {
        Some(most) => at_most(what, values, most, unit),
        None => format!("{what}: {}", crate::spread(values, unit)),
    }
}

fn table(name: &str, columns: &str, rows_per_s: u64, options: &str) -> String {
    format!(
        "CREATE TABLE {name} ({columns}, ts TIMESTAMP(3), WATERMARK FOR ts AS ts) \
         WITH ('connector' = 'datagen', 'rows-per-second' = '{rows_per_s}'{options});\n"
    )
}

fn settings(name: &str, target: &str) -> String {
    format!("SET 'pipeline.name' = '{name}';\nSET 'laxity.latency.target' = '{target}';\n")
}

/// Counts each 100 ms of a table of its own, printed.
fn near() -> String {
    table("few", "v BIGINT", 1_000, "")
        + "CREATE TABLE shown (e TIMESTAMP(3), n BIGINT) WITH ('connector' = 'print');\n"
        + &settings("near", "50 ms")
        + "INSERT INTO shown SELECT window_end, COUNT(*) FROM TABLE(\
           TUMBLE(TABLE few, DESCRIPTOR(ts), INTERVAL '0.1' SECOND)) GROUP BY window_start, window_end;\n"
}

/// Keys that come again now and then, of a hundred seconds.
fn many(rows_per_s: u64) -> String {
    let keys = format!(
        ", 'fields.k.kind' = 'random', 'fields.k.min' = '0', 'fields.k.max' = '{}'",
        100 * rows_per_s
    );
    table("many", "k BIGINT, v BIGINT", rows_per_s, &keys)
}

/// What is held for each key for an hour.
const SESSIONS: &str = "SELECT window_end, COUNT(*) FROM TABLE(SESSION(TABLE many PARTITION BY k, DESCRIPTOR(ts), \
    INTERVAL '1' HOUR)) GROUP BY window_start, window_end, k";
const FRAMES: &str = "SELECT ts, SUM(v) OVER (PARTITION BY k ORDER BY ts \
    RANGE BETWEEN INTERVAL '1' HOUR PRECEDING AND CURRENT ROW) FROM many";
const DISTINCT: &str = "SELECT window_end, COUNT(DISTINCT v) FROM TABLE(TUMBLE(TABLE many, DESCRIPTOR(ts), \
    INTERVAL '1' HOUR)) GROUP BY window_start, window_end, MOD(k, 1000)";
const BEST: &str = "SELECT window_end, k FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end, k \
    ORDER BY ts DESC) AS place FROM TABLE(TUMBLE(TABLE many, DESCRIPTOR(ts), INTERVAL '1' HOUR))) WHERE place = 1";

fn keyed(rows_per_s: u64, select: &str) -> String {
    many(rows_per_s)
        + "CREATE TABLE held (e TIMESTAMP(3), n BIGINT) WITH ('connector' = 'blackhole');\n"
        + &settings("large", "10 s")
        + &format!("INSERT INTO held {select};\n")
}

/// Groups that only become more.
fn large(rows_per_s: u64) -> String {
    many(rows_per_s)
        + "CREATE TABLE counts (e TIMESTAMP(3), n BIGINT) WITH ('connector' = 'blackhole');\n"
        + &settings("large", "10 s")
        + "INSERT INTO counts SELECT window_end, COUNT(*) FROM TABLE(\
           TUMBLE(TABLE many, DESCRIPTOR(ts), INTERVAL '1' HOUR)) GROUP BY window_start, window_end, k;\n"
}

/// A kilobyte each, for as long as their others may come: an hour.
fn waiting_rows(rows_per_s: u64) -> String {
    let keys = ", 'fields.k.kind' = 'random', 'fields.k.min' = '0', 'fields.k.max' = '1000000000'";
    let wide = format!("{keys}, 'fields.v.length' = '1000'");
    table("wide", "k BIGINT, v STRING", rows_per_s, &wide)
        + &table("asked", "k BIGINT", 100, keys)
        + "CREATE TABLE found (k BIGINT, v STRING) WITH ('connector' = 'blackhole');\n"
        + &settings("large", "10 s")
        + "INSERT INTO found SELECT wide.k, wide.v FROM wide JOIN asked ON wide.k = asked.k \
           AND asked.ts BETWEEN wide.ts - INTERVAL '1' HOUR AND wide.ts + INTERVAL '1' HOUR;\n"
}

struct Measured {
    cpu_s: f64,
    peak_mb: f64,
    /// Held by its last checkpoints.
    state_mb: f64,
    worst_pause_ms: f64,
    near_ms: Latency,
    /// With checkpoints: from the start of the program, which goes on from them, to the first result of the near one.
    ready_s: f64,
    /// Of all that is kept.
    disk_bytes: u64,
}

#[derive(Deserialize)]
struct Report {
    queries: Vec<QueryReport>,
}

#[derive(Deserialize)]
struct QueryReport {
    name: String,
    latency_ms: Option<Latency>,
    checkpoint: Option<Checkpoint>,
}

#[derive(Deserialize)]
struct Latency {
    p99: f64,
    max: f64,
}

#[derive(Deserialize)]
struct Checkpoint {
    bytes: f64,
    longest_pause_ms: f64,
}

struct Files {
    sql: PathBuf,
    report: PathBuf,
    state: PathBuf,
}

impl Files {
    /// The program on the file, for so long.
    fn command(&self, laxity: &Path, measured: Duration, has_checkpoints: bool) -> Command {
        let mut command = Command::new(laxity);
        command.arg("run").arg(&self.sql).arg("--plain").arg("--report").arg(&self.report);
        command.args(["--for", &format!("{} ms", measured.as_millis())]);
        if has_checkpoints {
            command.arg("--state").arg(&self.state);
        }
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command
    }
}

fn measure(setting: &Setting<'_>, text: &str, has_checkpoints: bool) -> anyhow::Result<Measured> {
    let folder = &setting.launcher.scratch;
    let files = Files {
        sql: folder.join("checkpoints.sql"),
        report: folder.join("report.json"),
        state: folder.join("state"),
    };
    fs::write(&files.sql, text).context("cannot write the SQL")?;
    if files.state.exists() {
        fs::remove_dir_all(&files.state).context("cannot remove the state")?;
    }
    let measured = setting.seconds(25);
    let before = children_cpu_s()?;
    let mut command = files.command(&setting.launcher.laxity, measured, has_checkpoints);
    let mut process = Killed(command.spawn().context("cannot start the laxity program")?);
    let mut peak_mb: f64 = 0.0;
    let began = Instant::now();
    while !wait(&mut process, Duration::from_millis(200))? {
        peak_mb = peak_mb.max(resident_mb(process.0.id()).unwrap_or(0.0));
        ensure!(began.elapsed() < measured + PATIENCE, "the program did not stop");
    }
    let cpu_s = children_cpu_s()? - before;
    let written = fs::read(&files.report).context("the program left no report")?;
    let mut report: Report = serde_json::from_slice(&written)?;
    let near = report.queries.iter_mut().find(|query| query.name == "near");
    let near_ms = near.and_then(|near| near.latency_ms.take()).context("nothing came of the near query")?;
    let kept: Vec<&Checkpoint> =
        report.queries.iter().filter_map(|query| query.checkpoint.as_ref()).collect();
    let disk_bytes = if has_checkpoints { disk_bytes(&files.state)? } else { 0 };
    Ok(Measured {
        cpu_s,
        peak_mb,
        state_mb: kept.iter().map(|checkpoint| checkpoint.bytes / 1e6).fold(0.0, |sum, mb| sum + mb),
        worst_pause_ms: kept.iter().map(|checkpoint| checkpoint.longest_pause_ms).fold(0.0, f64::max),
        near_ms,
        ready_s: if has_checkpoints { ready_s(setting, &files)? } else { 0.0 },
        disk_bytes,
    })
}

/// Goes on from the checkpoints until the near one prints.
fn ready_s(setting: &Setting<'_>, files: &Files) -> anyhow::Result<f64> {
    let mut command = files.command(&setting.launcher.laxity, PATIENCE, true);
    command.stdout(Stdio::piped());
    let began = Instant::now();
    let mut process = Killed(command.spawn().context("cannot start the laxity program")?);
    let lines = BufReader::new(process.0.stdout.take().context("it has no output")?).lines();
    for line in lines {
        if line?.starts_with("+I[") {
            return Ok(began.elapsed().as_secs_f64());
        }
    }
    anyhow::bail!("it ended without a result")
}

/// What a folder takes on the disk: files that are linked twice, once.
fn disk_bytes(folder: &Path) -> anyhow::Result<u64> {
    use std::os::unix::fs::MetadataExt;

    let (mut folders, mut seen, mut blocks) = (vec![folder.to_owned()], std::collections::HashSet::new(), 0);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder)? {
            let entry = entry?;
            let metadata = entry.metadata()?;
            if metadata.is_dir() {
                folders.push(entry.path());
            }
            if seen.insert(metadata.ino()) {
                blocks += metadata.blocks();
            }
        }
    }
    Ok(blocks * 512)
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
