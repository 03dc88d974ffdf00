//! The cells of a run, each under every policy in turn, round after round.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::Write as _;
use std::path::Path;
use std::time::Duration;

use anyhow::Context;

use super::DensityArgs;
use super::cell::{Cell, Point};
use super::launch::{Launch, Launcher};
use super::outcome::{COLUMNS, Outcome};
use super::verdict::{self, Standing};
use super::{ISSUE_SECONDS, matrix, sql};
use crate::Findings;

/// A cell with its rates.
#[derive(Clone, Debug)]
pub struct Planned {
    /// What runs.
    pub cell: Cell,
    /// Its place in the matrix, if it has one.
    pub point: Option<Point>,
    /// Share of the machine by the calibration; not a number for a cell with rates of its own.
    pub load: f64,
    /// How long it is measured.
    pub measured: Duration,
}

/// Cells, policies, rounds, and what came of them.
pub struct Rounds {
    cells: Vec<Planned>,
    policies: Vec<String>,
    warm_up: Duration,
    rounds: usize,
    rows: Vec<Vec<String>>,
    outcomes: HashMap<(usize, usize), Vec<Outcome>>,
    refusals: Vec<String>,
}

/// What would run.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    cells: usize,
    runs: usize,
    takes: Duration,
}

impl Plan {
    /// For people, before it begins.
    pub fn sentence(&self, questions: usize) -> String {
        let minutes = self.takes.as_secs_f64() / 60.0 + questions as f64 * QUESTION_MINUTES;
        format!(
            "{} cells in {} runs and {questions} questions: about {minutes:.0} min, calibration included",
            self.cells, self.runs
        )
    }
}

/// What a question takes, about.
const QUESTION_MINUTES: f64 = 0.6;

/// Columns of the raw file before those of an outcome.
const WHAT: [&str; 9] = [
    "round",
    "cell",
    "policy",
    "load",
    "urgent_queries",
    "urgent_rows_per_s",
    "heavy_queries",
    "heavy_rows_per_s",
    "error",
];

impl Rounds {
    /// How long these points and cells would take.
    pub fn plan(args: &DensityArgs, points: &[Point], cells: &[Cell]) -> Plan {
        let room = laxity_engine::thread_room();
        let mut plan = Plan { cells: points.len() + cells.len(), runs: 0, takes: Duration::ZERO };
        let of_points = points.iter().map(|point| (point.shape.queries, args.measured(point)));
        let issue = Duration::from_secs_f64(args.seconds.unwrap_or(ISSUE_SECONDS));
        let of_cells = cells.iter().map(|cell| (cell.urgent.queries + cell.heavy.queries, issue));
        for (queries, measured) in of_points.chain(of_cells) {
            let policies = args.policies.iter();
            let willing = policies.filter(|policy| matrix::refusal(policy, queries, room).is_none());
            let runs = willing.count() * args.rounds;
            plan.runs += runs;
            plan.takes += (args.warm_up() + measured + matrix::beside(queries)) * runs as u32;
        }
        let mut shapes: Vec<_> = points
            .iter()
            .map(|point| (point.shape.queries, point.shape.is_shared, point.shape.window_ms))
            .collect();
        shapes.sort_unstable();
        shapes.dedup();
        if args.calibration.is_none() {
            // Three runs each.
            let once = super::measured_at_first(args);
            plan.takes += shapes.iter().map(|shape| (once + matrix::beside(shape.0)) * 3).sum::<Duration>();
        }
        plan
    }

    /// Nothing has run yet.
    pub fn new(args: &DensityArgs, cells: Vec<Planned>) -> Rounds {
        Rounds {
            cells,
            policies: args.policies.clone(),
            warm_up: args.warm_up(),
            rounds: if args.small { 1 } else { args.rounds.max(1) },
            rows: Vec::new(),
            outcomes: HashMap::new(),
            refusals: Vec::new(),
        }
    }

    /// Runs everything. What came of each run is in `folder` at once, so that a run that is stopped is not lost.
    ///
    /// # Errors
    /// If a file cannot be written. A run that fails is a row with an error.
    pub fn run(&mut self, launcher: &Launcher, folder: &Path) -> anyhow::Result<()> {
        let path = folder.join("density.csv");
        let mut raw = File::create(&path).with_context(|| format!("cannot write {}", path.display()))?;
        writeln!(raw, "{}", columns().join(","))?;
        let room = laxity_engine::thread_room();
        // A thread for each operator ends somewhere, limits or not: where it gave nothing, more of them would not.
        let mut os_fits_below = usize::MAX;
        for round in 0..self.rounds {
            for (index, planned) in self.cells.iter().enumerate() {
                let text = sql::text(&planned.cell, &launcher.scratch);
                // A little longer than the run, so that the input does not end before.
                sql::write_input(
                    &planned.cell,
                    &launcher.scratch,
                    (self.warm_up + planned.measured).as_secs_f64() + 2.0,
                )?;
                for turn in 0..self.policies.len() {
                    // Nobody is always the first, who finds memory that a virtual machine's host has had back.
                    let place = (turn + round + index) % self.policies.len();
                    let policy = &self.policies[place];
                    let queries = planned.cell.urgent.queries + planned.cell.heavy.queries;
                    let is_os = policy == "os";
                    let refusal = matrix::refusal(policy, queries, room);
                    if refusal.is_some() || is_os && queries >= os_fits_below {
                        let refused = refusal.filter(|_| round == 0);
                        self.refusals.extend(
                            refused.map(|why| format!("{policy} is not in {}: {why}", planned.cell.name)),
                        );
                        continue;
                    }
                    let launch =
                        Launch { warm_up: self.warm_up, ..Launch::new(&text, policy, planned.measured) };
                    let run = launcher.run(&launch);
                    let (outcome, error) = match run {
                        Ok(figures) => {
                            let failed = figures.queries.iter().find_map(|query| query.error.clone());
                            (Outcome::of(&planned.cell, &figures), failed)
                        }
                        Err(error) if is_os => {
                            os_fits_below = queries;
                            let refusal =
                                format!("os is not in cells of {queries} queries and more: {error:#}");
                            println!("  {refusal}");
                            self.refusals.push(refusal);
                            continue;
                        }
                        // Nothing came out, so nothing was in time.
                        Err(error) => (Outcome::nothing(planned.measured), Some(format!("{error:#}"))),
                    };
                    let told = error.clone().unwrap_or_else(|| short(&outcome));
                    println!("  {round} {} {policy}: {told}", planned.cell.name);
                    let row = row(round, planned, policy, &outcome, error.as_deref());
                    writeln!(raw, "{}", row.join(","))?;
                    self.rows.push(row);
                    self.outcomes.entry((index, place)).or_default().push(outcome);
                }
                for name in ["urgent.csv", "heavy.csv"] {
                    let _ = fs::remove_file(launcher.scratch.join(name));
                }
            }
        }
        Ok(())
    }

    /// The cells.
    pub fn cells(&self) -> &[Planned] {
        &self.cells
    }

    /// Medians of a cell under a policy, by their places; `None` if it did not run.
    pub fn median(&self, cell: usize, policy: usize) -> Option<Outcome> {
        self.outcomes.get(&(cell, policy)).map(|outcomes| Outcome::median(outcomes))
    }

    /// The raw rows, the verdicts, and a line for each cell and policy.
    pub fn findings(&self) -> Findings {
        let (mut lines, mut standings) = (Vec::new(), Vec::new());
        for (index, planned) in self.cells.iter().enumerate() {
            for (place, policy) in self.policies.iter().enumerate() {
                let Some(outcome) = self.median(index, place) else { continue };
                let load = if planned.load.is_nan() {
                    String::new()
                } else {
                    format!(" (load {:.2})", planned.load)
                };
                lines.push(format!("{}{load}, {policy}: {}", planned.cell.name, short(&outcome)));
                if let Some(point) = planned.point {
                    standings.push(Standing { point, policy: policy.clone(), outcome });
                }
            }
        }
        let mut summary = Vec::new();
        if !standings.is_empty() {
            summary.extend(verdict::lines(&standings));
            summary.extend(self.too_much());
        }
        summary.extend(self.refusals.iter().cloned());
        summary.extend(lines);
        Findings { columns: columns(), rows: self.rows.clone(), summary }
    }

    /// Says where even the least rate is more than the load that was asked for.
    fn too_much(&self) -> Option<String> {
        let more = |planned: &&Planned| planned.point.is_some_and(|p| planned.load > p.load * 1.1);
        let named: Vec<String> = self
            .cells
            .iter()
            .filter(more)
            .map(|planned| format!("{} {:.2}", planned.cell.name, planned.load))
            .collect();
        (!named.is_empty())
            .then(|| format!("a row a second is already more than the load named: {}", named.join(", ")))
    }
}

fn columns() -> Vec<&'static str> {
    WHAT.iter().chain(&COLUMNS).copied().collect()
}

fn row(round: usize, planned: &Planned, policy: &str, outcome: &Outcome, error: Option<&str>) -> Vec<String> {
    let cell = &planned.cell;
    let mut row = vec![
        round.to_string(),
        cell.name.clone(),
        policy.to_string(),
        format!("{:.3}", planned.load),
        cell.urgent.queries.to_string(),
        cell.urgent.rows_per_s.to_string(),
        cell.heavy.queries.to_string(),
        cell.heavy.rows_per_s.to_string(),
        error.unwrap_or_default().replace([',', '\n', '\r'], ";"),
    ];
    row.extend(outcome.cells());
    row
}

/// A line for people.
fn short(outcome: &Outcome) -> String {
    let failed = match outcome.failed as u64 {
        0 => String::new(),
        failed => format!(", {failed} QUERIES FAILED"),
    };
    format!(
        "met {:.1} %, p99 {:.1} ms, p99.9 {:.1} ms, p99.99 {:.1} ms, worst p99 {:.1} ms; heavy p99 {:.0} ms; \
         rows {:.1} % of {:.0}/s, least {:.1} %; {:.2} cores, {:.2} outside workers; {:.0} MB, {:.0} KB a query; \
         started in {:.2} s, {:.0} results late before{failed}",
        100.0 * outcome.met,
        outcome.p99_ms,
        outcome.p999_ms,
        outcome.p9999_ms,
        outcome.worst_p99_ms,
        outcome.heavy_p99_ms,
        100.0 * outcome.rows_per_s / outcome.rows_offered_per_s.max(1.0),
        outcome.rows_offered_per_s,
        100.0 * outcome.least_admitted,
        outcome.cores,
        outcome.cores_outside,
        outcome.peak_mb,
        outcome.kb_per_query,
        outcome.start_s,
        outcome.late_before,
    )
}
