//! Single questions beside the matrix, each with its target: what a row costs, what an idle query costs, who disturbs
//! whom.

mod busy_neighbour;
mod change_one;
mod checkpoints;
mod live_table;
mod many_windows;
mod no_rows;
mod nothing_shared;
mod one_stream;
mod one_view;
mod outside_operators;
mod registered;
mod row_a_second;
mod row_cost;
mod stalled;
mod templates;
mod windows_together;

use std::time::Duration;

use super::calibrate::Calibration;
use super::cell::{Cell, Ends, Heavy, Input, Tables, Urgent};
use super::engine_run::EngineFigures;
use super::launch::{Launch, Launcher};
use super::outcome::Outcome;
use super::sql;
use crate::{Findings, median};

pub use busy_neighbour::spin;

/// A question and how it is answered.
pub struct Question {
    /// As `--cells` takes it.
    pub name: &'static str,
    /// The answer.
    pub run: fn(&mut Setting<'_>) -> anyhow::Result<Findings>,
}

/// What answers a question.
pub struct Setting<'a> {
    /// Starts engines.
    pub launcher: &'a Launcher,
    /// What rows cost here, as far as it is known.
    pub calibration: &'a mut Calibration,
    /// Only see that it still runs.
    pub small: bool,
}

/// Every question, cheap ones first.
pub const ALL: &[Question] = &[
    Question { name: "row-cost", run: row_cost::run },
    Question { name: "windows-together", run: windows_together::run },
    Question { name: "outside-operators", run: outside_operators::run },
    Question { name: "busy-neighbour", run: busy_neighbour::run },
    Question { name: "stalled", run: stalled::run },
    Question { name: "no-rows", run: no_rows::run },
    Question { name: "row-a-second", run: row_a_second::run },
    Question { name: "live-table", run: live_table::run },
    Question { name: "one-stream", run: one_stream::run },
    Question { name: "one-view", run: one_view::run },
    Question { name: "nothing-shared", run: nothing_shared::run },
    Question { name: "templates", run: templates::run },
    Question { name: "many-windows", run: many_windows::run },
    Question { name: "change-one", run: change_one::run },
    Question { name: "registered", run: registered::run },
    Question { name: "checkpoints", run: checkpoints::run },
];

impl Setting<'_> {
    /// One of two values by size.
    fn pick<T>(&self, full: T, small: T) -> T {
        if self.small { small } else { full }
    }

    fn rounds(&self) -> usize {
        self.pick(3, 1)
    }

    fn seconds(&self, full: u64) -> Duration {
        self.pick(Duration::from_secs(full), Duration::from_millis(500))
    }

    /// Runs a cell under `laxity`.
    fn measure(&self, cell: &Cell, measured: Duration) -> anyhow::Result<(EngineFigures, Outcome)> {
        let text = sql::text(cell, &self.launcher.scratch);
        let figures = self.launcher.run(&Launch::new(&text, "laxity", measured))?;
        let outcome = Outcome::of(cell, &figures);
        Ok((figures, outcome))
    }
}

/// Runs SQL that shares and SQL that does not ('on' and 'off'), in turn, round after round: how many times as much CPU
/// the second takes, by round. What `told` says of a run and its cores is kept behind round and sharing.
fn alone_by_together(
    setting: &mut Setting<'_>,
    findings: &mut Findings,
    measured: Duration,
    sql: impl Fn(&str) -> String,
    told: impl Fn(&EngineFigures, f64) -> Vec<String>,
) -> anyhow::Result<Vec<f64>> {
    let mut times = Vec::new();
    for round in 0..setting.rounds() {
        let mut cores = [0.0; 2];
        for (cores, share) in cores.iter_mut().zip(["on", "off"]) {
            let figures = setting.launcher.run(&Launch::new(&sql(share), "laxity", measured))?;
            *cores = figures.cpu_s / figures.measured_s;
            let mut row = vec![round.to_string(), share.to_string()];
            row.extend(told(&figures, *cores));
            findings.rows.push(row);
        }
        times.push(cores[1] / cores[0].max(1e-9));
    }
    Ok(times)
}

/// Urgent queries alone, each with a table of its own unless that is changed.
fn urgent(queries: usize, rows_per_s: u64, window_ms: u64) -> Cell {
    let urgent = Urgent {
        queries,
        tables: Tables::Own,
        window_ms,
        ends: Ends::Together,
        target_ms: 50,
        rows_per_s,
        input: Input::Generated,
    };
    Cell { name: "question".into(), urgent, heavy: Heavy::NONE }
}

/// One figure against its target: "what: median (least to most), target at most 2 µs: met".
fn at_most(what: &str, values: &[f64], most: f64, unit: &str) -> String {
    let verdict = match median(values) {
        value if value <= most => "met".to_string(),
        value => format!("MISSED, {:.1} times that", value / most),
    };
    format!("{what}: {}, target at most {most} {unit}: {verdict}", crate::spread(values, unit))
}

/// One figure against its target: "what: median (least to most), target at least 20 times: met".
fn at_least(what: &str, values: &[f64], least: f64, unit: &str) -> String {
    let verdict = match median(values) {
        value if value >= least => "met".to_string(),
        value => format!("MISSED, {:.2} of that", value / least),
    };
    format!("{what}: {}, target at least {least} {unit}: {verdict}", crate::spread(values, unit))
}

/// A share in per cent against its target.
fn at_least_percent(what: &str, shares: &[f64], least: f64) -> String {
    let percent: Vec<f64> = shares.iter().map(|share| 100.0 * share).collect();
    let verdict = match median(&percent) {
        value if value >= least => "met".to_string(),
        value => format!("MISSED by {:.1} points", least - value),
    };
    format!("{what}: {}, target at least {least} %: {verdict}", crate::spread(&percent, "%"))
}
