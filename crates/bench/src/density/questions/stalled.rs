//! Do two silent pipes as sources and two stalled files as sinks hold up anybody else, and does Ctrl-C still end the
//! program?
//!
//! Every one of the four is a named pipe that this process holds open: nothing is ever written to the first two, and
//! nothing is read from the others.

use std::fs::{self, File, OpenOptions};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::Context;
use rustix::fs::{CWD, Mode, mkfifoat};
use rustix::process::{Pid, Signal, kill_process};

use super::{Setting, at_most, urgent};
use crate::density::cell::Cell;
use crate::density::engine_run::{EngineFigures, QueryFigures};
use crate::density::launch::{Killed, Launch, wait};
use crate::density::outcome::Outcome;
use crate::density::sql;
use crate::{Findings, median};

const TARGET_TIMES: f64 = 1.2;
const TARGET_STOP_S: f64 = 1.0;

/// A process that has not ended by then is killed.
const PATIENCE: Duration = Duration::from_secs(5);

pub(super) fn run(setting: &mut Setting<'_>) -> anyhow::Result<Findings> {
    let cell = urgent(setting.pick(20, 3), 1_000, 100);
    let without = sql::text(&cell, &setting.launcher.scratch);
    let pipes = Pipes::make(&setting.launcher.scratch)?;
    let with = without.clone() + &pipes.sql();
    let mut findings = Findings {
        columns: vec!["round", "stalled_files", "met", "p99_ms", "stop_s"],
        ..Findings::default()
    };
    let (mut alone_ms, mut beside_ms, mut stop_s) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..setting.rounds() {
        for stalled in [false, true] {
            let text = if stalled { &with } else { &without };
            let launch = Launch::new(text, "laxity", setting.seconds(4));
            let outcome = match setting.launcher.run_within(&launch, PATIENCE) {
                Ok(figures) => Outcome::of(&cell, &figures),
                // Nothing came out at all.
                Err(_) if stalled => Outcome::of(&cell, &nothing(&cell, launch.measured)),
                Err(error) => return Err(error),
            };
            if stalled { &mut beside_ms } else { &mut alone_ms }.push(outcome.p99_ms);
            let stopped_s = match stalled && setting.launcher.laxity.exists() {
                true => Some(interrupted(setting, text)?),
                false => None,
            };
            stop_s.extend(stopped_s);
            findings.rows.push(vec![
                round.to_string(),
                if stalled { "4" } else { "0" }.to_string(),
                format!("{:.4}", outcome.met),
                format!("{:.3}", outcome.p99_ms),
                stopped_s.map_or(String::new(), |s| format!("{s:.3}")),
            ]);
        }
    }
    let alone = median(&alone_ms);
    let times: Vec<f64> = beside_ms.iter().map(|ms| ms / alone.max(1e-3)).collect();
    findings.summary.push(at_most(
        &format!("urgent p99 beside two silent pipes and two stalled sinks, without {alone:.2} ms"),
        &times,
        TARGET_TIMES,
        "times",
    ));
    findings.summary.push(match stop_s.is_empty() {
        true => "Ctrl-C was not tried: the laxity program is not there; build it first".to_string(),
        false => at_most("Ctrl-C to the end of the program", &stop_s, TARGET_STOP_S, "s"),
    });
    Ok(findings)
}

/// Figures of a process that gave none.
fn nothing(cell: &Cell, measured: Duration) -> EngineFigures {
    let query =
        |number| QueryFigures { name: format!("{} {number}", sql::URGENT), ..QueryFigures::default() };
    EngineFigures {
        measured_s: measured.as_secs_f64(),
        queries: (0..cell.urgent.queries).map(query).collect(),
        ..EngineFigures::default()
    }
}

/// Time from Ctrl-C to the end of `laxity run`, s; [`PATIENCE`] where it had to be killed.
fn interrupted(setting: &Setting<'_>, text: &str) -> anyhow::Result<f64> {
    let path = setting.launcher.scratch.join("stalled.sql");
    fs::write(&path, text).context("cannot write the SQL")?;
    let mut command = Command::new(&setting.launcher.laxity);
    command.arg("run").arg(&path).arg("--plain");
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut process = Killed(command.spawn().context("cannot start the laxity program")?);
    std::thread::sleep(setting.pick(Duration::from_secs(2), Duration::from_millis(500)));
    let began = Instant::now();
    let pid = Pid::from_child(&process.0);
    kill_process(pid, Signal::INT).context("cannot interrupt the program")?;
    wait(&mut process, PATIENCE)?;
    Ok(began.elapsed().as_secs_f64())
}

struct Pipes {
    paths: [PathBuf; 4],
    /// Open for reading and writing, so that nobody waits for the other end to be opened.
    _held: Vec<File>,
}

impl Pipes {
    fn make(folder: &Path) -> anyhow::Result<Pipes> {
        let paths = ["silent-0", "silent-1", "stalled-0", "stalled-1"];
        let paths = paths.map(|name| folder.join(format!("{name}.csv")));
        let mut held = Vec::new();
        for path in &paths {
            mkfifoat(CWD, path, Mode::RUSR | Mode::WUSR).context("cannot make a named pipe")?;
            held.push(
                OpenOptions::new().read(true).write(true).open(path).context("cannot open a named pipe")?,
            );
        }
        Ok(Pipes { paths, _held: held })
    }

    fn sql(&self) -> String {
        let csv = |path: &Path| {
            format!("'connector' = 'filesystem', 'format' = 'csv', 'path' = '{}'", path.display())
        };
        let [silent_0, silent_1, stalled_0, stalled_1] = &self.paths;
        let mut text = String::from("SET 'laxity.latency.target' = '10 s';\n");
        for (number, path) in [silent_0, silent_1].into_iter().enumerate() {
            text += &format!(
                "CREATE TABLE silent_{number} (v BIGINT) WITH ({});\n\
                 CREATE TABLE nowhere_{number} (v BIGINT) WITH ('connector' = 'blackhole');\n\
                 SET 'pipeline.name' = 'silent {number}';\n\
                 INSERT INTO nowhere_{number} SELECT v FROM silent_{number};\n",
                csv(path)
            );
        }
        for (number, path) in [stalled_0, stalled_1].into_iter().enumerate() {
            text += &format!(
                "CREATE TABLE flood_{number} (v BIGINT) WITH ('connector' = 'datagen', 'rows-per-second' = '20000');\n\
                 CREATE TABLE stalled_{number} (v BIGINT) WITH ({});\n\
                 SET 'pipeline.name' = 'stalled {number}';\n\
                 INSERT INTO stalled_{number} SELECT v FROM flood_{number};\n",
                csv(path)
            );
        }
        text
    }
}
