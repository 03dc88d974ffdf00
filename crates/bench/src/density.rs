//! How many queries do two cores carry, each inside its target? `laxity-bench density`.
//!
//! A matrix of cells ([`cell`]), each under several policies in turn, in a process of its own, several rounds; then
//! single questions ([`questions`]) about small messages, idle queries, neighbours and stalled files. Rates follow from
//! what rows cost here ([`calibrate`]). Latency is from the intended arrival, and a result that is due and does not
//! come out is late ([`due`]). Non-goals: what a policy does in theory, which the simulator says.

pub mod calibrate;
pub mod cell;
pub mod changing;
pub mod due;
pub mod engine_run;
pub mod issue;
pub mod launch;
pub mod matrix;
pub mod outcome;
pub mod pooled;
pub mod questions;
pub mod rounds;
pub mod simulated;
pub mod sql;
pub mod verdict;

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, bail};
use clap::Args;

use self::calibrate::Calibration;
use self::cell::{Cell, Point};
use self::launch::Launcher;
use self::matrix::Matrix;
use self::rounds::{Planned, Rounds};
use crate::run_folder::RunFolder;

/// What `laxity-bench density` takes.
#[derive(Args, Clone, Debug)]
pub struct DensityArgs {
    /// What to run: 'matrix', 'issue', 'questions', cells and questions by name. Several with commas.
    #[arg(long, value_delimiter = ',', default_value = "matrix,questions")]
    pub cells: Vec<String>,
    /// Only these numbers of urgent queries.
    #[arg(long, value_delimiter = ',')]
    pub queries: Option<Vec<usize>>,
    /// Only these shares of the machine, half of each heavy.
    #[arg(long, value_delimiter = ',')]
    pub loads: Option<Vec<f64>>,
    /// Under these policies, in turn.
    #[arg(long, value_delimiter = ',', default_value = "laxity,llf,os,fifo")]
    pub policies: Vec<String>,
    /// How often each cell runs; medians are reported.
    #[arg(long, default_value = "3")]
    pub rounds: usize,
    /// How long each cell is measured [default: 2.5 with windows of 100 ms, 4 with 1 s, 10 for 'issue'].
    #[arg(long)]
    pub seconds: Option<f64>,
    /// Rates from this file, the calibration.json of another run, instead of measuring anew what rows cost.
    #[arg(long)]
    pub calibration: Option<PathBuf>,
    /// Ask `laxity simulate` about the same cells, and compare.
    #[arg(long)]
    pub simulate: bool,
    /// Print the SQL of one cell for `laxity run`, and do nothing else.
    #[arg(long, value_name = "CELL")]
    pub print_sql: Option<String>,
    /// Say what would run and how long it would take, and do nothing else.
    #[arg(long)]
    pub plan: bool,
    /// Do little, to see that everything still runs.
    #[arg(long)]
    pub small: bool,
    /// Where run folders go.
    #[arg(long, default_value = "benchmarks/runs")]
    pub runs: PathBuf,
}

/// How long a row of the issue's table is measured.
const ISSUE_SECONDS: f64 = 10.0;

/// What is to be run, before rates are known.
struct Selection {
    points: Vec<Point>,
    issue: Vec<Cell>,
    questions: Vec<&'static questions::Question>,
}

/// Runs what the arguments ask for.
///
/// # Errors
/// If there is no such cell, or the engine cannot be run. A cell that fails is reported and does not end the run.
pub fn run(args: &DensityArgs, own: &Path, scratch: &Path) -> anyhow::Result<()> {
    let selection = Selection::of(args)?;
    let launcher = Launcher::new(own.to_path_buf(), scratch)?;
    if let Some(name) = &args.print_sql {
        return print_sql(args, name, &launcher, scratch);
    }
    let plan = Rounds::plan(args, &selection.points, &selection.issue);
    println!("{}", plan.sentence(selection.questions.len()));
    if args.plan {
        return Ok(());
    }
    let mut folder = RunFolder::create(&args.runs, "density")?;
    let mut calibration = calibration(args)?;
    let mut cells = Vec::new();
    let mut not_run = Vec::new();
    for point in selection.points {
        match calibration.measure(point.shape, &launcher, measured_at_first(args)) {
            Ok(None) => {}
            Ok(Some(line)) => {
                println!("  {line}");
                calibration.write(&folder.path().join("calibration.json"))?;
            }
            Err(error) => {
                not_run.push(format!("{point} was NOT RUN, its rates are not known: {error:#}"));
                continue;
            }
        }
        let (cell, rates) = calibration.cell(&point)?;
        cells.push(Planned { cell, point: Some(point), load: rates.load, measured: args.measured(&point) });
    }
    for cell in selection.issue {
        let measured = Duration::from_secs_f64(args.seconds.unwrap_or(ISSUE_SECONDS));
        cells.push(Planned { cell, point: None, load: f64::NAN, measured });
    }
    if !cells.is_empty() {
        let mut rounds = Rounds::new(args, cells);
        rounds.run(&launcher, folder.path())?;
        let mut findings = rounds.findings();
        findings.summary.splice(0..0, not_run);
        findings.summary.iter().for_each(|line| println!("  {line}"));
        folder.add("density", &findings)?;
        if args.simulate {
            let findings = simulated::run(args, &rounds, &launcher)?;
            findings.summary.iter().for_each(|line| println!("  {line}"));
            folder.add("density-simulated", &findings)?;
        }
    }
    for question in selection.questions {
        println!("{}", question.name);
        let findings = (question.run)(&mut questions::Setting {
            launcher: &launcher,
            calibration: &mut calibration,
            small: args.small,
        })
        .with_context(|| question.name)?;
        findings.summary.iter().for_each(|line| println!("  {line}"));
        folder.add(question.name, &findings)?;
    }
    if args.small {
        println!("small runs: the figures say nothing but that everything still runs");
    }
    println!("kept in {}", folder.path().display());
    Ok(())
}

impl DensityArgs {
    /// How long a cell runs before it is measured: memory of a process that has just started is new, and its pages are cleared
    /// one by one. `laxity simulate` leaves out as much.
    fn warm_up(&self) -> Duration {
        if self.small { Duration::from_millis(100) } else { Duration::from_secs(1) }
    }

    /// How long a cell of the matrix is measured.
    fn measured(&self, point: &Point) -> Duration {
        match self.seconds {
            Some(seconds) => Duration::from_secs_f64(seconds),
            None if self.small => Duration::from_millis(600),
            None => matrix::measured(point.shape.window_ms),
        }
    }

    fn matrix(&self) -> Matrix {
        let base = if self.small { Matrix::small() } else { Matrix::whole() };
        Matrix {
            queries: self.queries.clone().unwrap_or(base.queries),
            loads: self.loads.clone().unwrap_or(base.loads),
            ..base
        }
    }
}

impl Selection {
    fn of(args: &DensityArgs) -> anyhow::Result<Selection> {
        let mut selection = Selection { points: Vec::new(), issue: Vec::new(), questions: Vec::new() };
        for name in &args.cells {
            let name = name.trim();
            match name {
                "matrix" => selection.points.extend(args.matrix().points()),
                "issue" => selection.issue.extend(issue::cells()),
                "questions" => selection.questions.extend(questions::ALL),
                _ => {
                    if let Some(question) = questions::ALL.iter().find(|question| question.name == name) {
                        selection.questions.push(question);
                    } else if let Some(cell) = issue::cells().into_iter().find(|cell| cell.name == name) {
                        selection.issue.push(cell);
                    } else {
                        selection.points.push(name.parse().map_err(|error| unknown(&error))?);
                    }
                }
            }
        }
        Ok(selection)
    }
}

fn unknown(error: &String) -> anyhow::Error {
    let issue = issue::cells().into_iter().map(|cell| cell.name);
    let questions = questions::ALL.iter().map(|question| question.name.to_string());
    let named: Vec<String> = issue.chain(questions).collect();
    anyhow::anyhow!("{error}; or 'matrix', 'issue', 'questions', or one of {}", named.join(", "))
}

fn calibration(args: &DensityArgs) -> anyhow::Result<Calibration> {
    match &args.calibration {
        Some(path) => Calibration::read(path),
        None => {
            let cores = std::thread::available_parallelism().context("the number of cores is not known")?;
            Ok(Calibration::new(cores.get()))
        }
    }
}

/// Long enough for two results of a heavy query.
fn measured_at_first(args: &DensityArgs) -> Duration {
    Duration::from_millis(if args.small { 400 } else { 2_500 })
}

fn print_sql(args: &DensityArgs, name: &str, launcher: &Launcher, scratch: &Path) -> anyhow::Result<()> {
    let cell = match issue::cells().into_iter().find(|cell| cell.name == name) {
        Some(cell) => cell,
        None => {
            let point: Point = name.parse().map_err(|error| unknown(&error))?;
            let mut calibration = calibration(args)?;
            if let Some(line) = calibration.measure(point.shape, launcher, measured_at_first(args))? {
                eprintln!("{line}");
            }
            calibration.cell(&point)?.0
        }
    };
    // Beside this run's own files, which go when it ends.
    let seconds = args.seconds.unwrap_or(60.0);
    sql::write_input(&cell, scratch, seconds)?;
    let text = sql::text(&cell, scratch);
    use std::io::Write as _;
    match std::io::stdout().write_all(text.as_bytes()) {
        // A reader that has seen enough (`| head`) is no failure.
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => bail!(error),
        _ => Ok(()),
    }
}
