//! Do queries keep their targets beside another program that wants every core?
//!
//! The engine at a load of 0.4 beside as many spinning processes as there are cores, at the priority that any process
//! gets.

use std::process::{Command, Stdio};

use anyhow::Context;

use super::{Setting, at_least_percent};
use crate::Findings;
use crate::density::cell::{Point, Shape};
use crate::density::launch::{Killed, Launcher};
use crate::density::outcome::{COLUMNS, Outcome};

const LOAD: f64 = 0.4;
const TARGET_MET_PERCENT: f64 = 99.0;

pub(super) fn run(setting: &mut Setting<'_>) -> anyhow::Result<Findings> {
    let shape = Shape { queries: setting.pick(100, 5), is_shared: false, window_ms: 100, is_together: false };
    let (measured, launcher) = (setting.seconds(5), setting.launcher);
    setting.calibration.measure(shape, launcher, measured / 2)?;
    let (cell, rates) = setting.calibration.cell(&Point { shape, load: LOAD })?;
    let mut findings = Findings {
        columns: ["round", "neighbours", "load"].into_iter().chain(COLUMNS).collect(),
        ..Findings::default()
    };
    let cores = setting.calibration.cores as usize;
    let (mut alone, mut beside) = (Vec::new(), Vec::new());
    for round in 0..setting.rounds() {
        for neighbours in [0, cores] {
            let spinning =
                (0..neighbours).map(|_| start_spinning(launcher)).collect::<anyhow::Result<Vec<_>>>()?;
            let (_, outcome) = setting.measure(&cell, measured)?;
            drop(spinning);
            let mut row = vec![round.to_string(), neighbours.to_string(), format!("{:.3}", rates.load)];
            row.extend(outcome.cells());
            findings.rows.push(row);
            if neighbours == 0 { &mut alone } else { &mut beside }.push(outcome);
        }
    }
    let met = |outcomes: &[Outcome]| outcomes.iter().map(|outcome| outcome.met).collect::<Vec<f64>>();
    let p99_ms = |outcomes: &[Outcome]| Outcome::median(outcomes).p99_ms;
    findings.summary = vec![
        at_least_percent(
            &format!("{} at {LOAD}, beside {cores} spinning processes, results in time", shape),
            &met(&beside),
            TARGET_MET_PERCENT,
        ),
        format!("its p99 {:.1} ms, without them {:.1} ms", p99_ms(&beside), p99_ms(&alone)),
    ];
    Ok(findings)
}

fn start_spinning(launcher: &Launcher) -> anyhow::Result<Killed> {
    // Ends when its standard input does, so that it outlives nobody.
    let child = Command::new(&launcher.own).arg("spin").stdin(Stdio::piped()).spawn();
    Ok(Killed(child.context("cannot start a neighbour")?))
}

/// What a neighbour does until its standard input ends.
pub fn spin() -> ! {
    let watch = || {
        let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
        std::process::exit(0);
    };
    std::thread::spawn(watch);
    loop {
        std::hint::spin_loop();
    }
}
