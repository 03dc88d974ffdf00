//! What does the live table of `laxity run` cost while ten thousand queries run?
//!
//! The program believes that it writes to a terminal; its first thread does nothing but look and draw.

use std::fs::{self, File};
use std::io;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::Context;
use rustix::fs::{Mode, OFlags};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

use super::{Setting, at_most, urgent};
use crate::Findings;
use crate::density::cell::{Cell, Tables, Urgent};
use crate::density::launch::Killed;
use crate::density::sql;

const TARGET_PERCENT: f64 = 1.0;

pub(super) fn run(setting: &mut Setting<'_>) -> anyhow::Result<Findings> {
    let mut findings =
        Findings { columns: vec!["round", "queries", "percent_of_a_core"], ..Findings::default() };
    if !setting.launcher.laxity.exists() {
        findings.summary.push("not measured: the laxity program is not there; build it first".into());
        return Ok(findings);
    }
    // One table: what is drawn is the same, and the machine is not full.
    let cell = urgent(setting.pick(10_000, 20), setting.pick(1, 20), setting.pick(1_000, 100));
    let cell = Cell { urgent: Urgent { tables: Tables::Shared, ..cell.urgent }, ..cell };
    let path = setting.launcher.scratch.join("live.sql");
    fs::write(&path, sql::text(&cell, &setting.launcher.scratch)).context("cannot write the SQL")?;
    let mut percent = Vec::new();
    for round in 0..setting.rounds() {
        let terminal = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).context("no terminal to pretend")?;
        grantpt(&terminal)?;
        unlockpt(&terminal)?;
        let name = ptsname(&terminal, Vec::new())?;
        let flags = OFlags::RDWR | OFlags::NOCTTY;
        let screen =
            File::from(rustix::fs::open(&name, flags, Mode::empty()).context("no terminal to pretend")?);
        let mut command = Command::new(&setting.launcher.laxity);
        command.arg("run").arg(&path).env("TERM", "xterm");
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(screen);
        let process = Killed(command.spawn().context("cannot start the laxity program")?);
        drop(command);
        let mut seen = File::from(terminal);
        // Ends with an error when the program, the last one to hold the screen, does.
        let reader = std::thread::spawn(move || drop(io::copy(&mut seen, &mut io::sink())));
        let pid = process.0.id();
        // Long after the start, in which the first thread compiles and submits.
        std::thread::sleep(setting.pick(Duration::from_secs(15), Duration::from_millis(500)));
        let before_ns = first_thread_ns(pid)?;
        let measured = setting.seconds(5);
        std::thread::sleep(measured);
        let took_ns = first_thread_ns(pid)? - before_ns;
        drop(process);
        let _ = reader.join();
        percent.push(100.0 * took_ns as f64 / measured.as_nanos() as f64);
        findings.rows.push(vec![
            round.to_string(),
            cell.urgent.queries.to_string(),
            format!("{:.3}", percent[round]),
        ]);
    }
    findings.summary.push(at_most(
        &format!("the live table's refresh at {} queries, of a core", cell.urgent.queries),
        &percent,
        TARGET_PERCENT,
        "%",
    ));
    Ok(findings)
}

fn first_thread_ns(pid: u32) -> anyhow::Result<u64> {
    let text =
        fs::read_to_string(format!("/proc/{pid}/task/{pid}/schedstat")).context("the program has ended")?;
    let on_cpu = text.split_ascii_whitespace().next().context("empty schedstat")?;
    on_cpu.parse().context("schedstat is not numbers")
}
