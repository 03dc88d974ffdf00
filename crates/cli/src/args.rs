//! The command line.

use std::ffi::OsString;
use std::path::PathBuf;
use std::str::FromStr;

use clap::{Args, Parser, Subcommand};

use crate::policy::Switch;
use crate::quantity::{Factor, HumaneBytes, HumaneDuration};

/// Runs many streaming SQL queries on few cores and keeps each inside its latency target.
#[derive(Debug, Parser)]
#[command(name = "laxity", version, after_help = AFTER_HELP, max_term_width = 120)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run every INSERT of the files until their inputs end, or until Ctrl-C.
    Run(RunArgs),
    /// Show how each query would run, without running it.
    Explain(ExplainArgs),
    /// List the scheduling policies.
    Policies,
    /// Tell which targets would be met on other cores, at other rates, with more tenants.
    Simulate(SimulateArgs),
    /// Make the figures of the papers in the simulator.
    Bench(BenchArgs),
    /// Run the files on a Flink cluster, through its SQL gateway.
    Submit(SubmitArgs),
    /// Look at what queries have saved.
    State(StateArgs),
    /// Have a run that goes on run the queries of these files too.
    Add(AddArgs),
    /// Promise a query of a run that goes on something else: target, weight, usefulness.
    Alter(AlterArgs),
    /// End a query of a run that goes on.
    Cancel(CancelArgs),
    /// Have a run that goes on save what its queries hold, now.
    Checkpoint(CheckpointArgs),
    /// Schedule the threads of an engine that runs already: Flink, Storm or any other.
    #[command(disable_help_flag = true)]
    Attach(AgentArgs),
    /// Put back what an agent that was killed has changed.
    #[command(disable_help_flag = true)]
    Restore(AgentArgs),
}

/// What the program `laxity-agent` takes: 'laxity attach --help' shows it.
#[derive(Debug, Args)]
pub struct AgentArgs {
    /// Passed on.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "OPTION")]
    pub args: Vec<OsString>,
}

/// What `run` takes.
#[derive(Clone, Debug, Args)]
#[command(after_help = RUN_AFTER_HELP)]
pub struct RunArgs {
    /// What to read.
    #[command(flatten)]
    pub sql: SqlArgs,

    /// Who decides what runs next; 'laxity policies' lists the choices. 'os' gives every operator a thread
    /// and leaves the choice to the operating system [default: what SET 'laxity.policy' in the files says, else
    /// laxity].
    #[arg(long, value_name = "POLICY")]
    pub policy: Option<String>,

    /// Change the policy after so long, without losing anything: '10s=klink'. May be given several times.
    #[arg(long = "switch", value_name = "DURATION=POLICY")]
    pub switches: Vec<Switch>,

    /// Threads that run operators [default: one per core, or as many as the CPU quota of the cgroup is worth].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub workers: Option<u16>,

    /// Stop after this long as Ctrl-C does: '20 s', '2 min'.
    #[arg(long = "for", value_name = "DURATION")]
    pub run_for: Option<HumaneDuration>,

    /// Offer replayed and generated tables as fast as this machine can bear, times this: '0.9' is nine tenths of it.
    /// How fast that is, the queries show first, in a few seconds under policy laxity [default: the speeds in the
    /// files].
    #[arg(long, value_name = "SHARE")]
    pub pace: Option<Factor>,

    /// Offer replayed and generated tables at so many times the speeds in the files: what '--pace' found, for another
    /// run to be compared with.
    #[arg(long, value_name = "FACTOR", conflicts_with = "pace")]
    pub speed: Option<Factor>,

    /// Save what queries hold into this folder every 10 s, or as often as 'execution.checkpointing.interval' says, and go
    /// on from there when they are run again [default: what 'execution.checkpointing.dir' in the files says, if the
    /// interval is set].
    #[arg(long, value_name = "FOLDER", conflicts_with = "pace")]
    pub state: Option<PathBuf>,

    /// Have a copy of the folder in this store, under 's3://BUCKET/PREFIX': a checkpoint counts when it is there too, and who
    /// has lost the folder, or runs elsewhere, goes on from there. AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_REGION and
    /// AWS_ENDPOINT_URL say who asks, and where.
    #[arg(long, value_name = "URL", requires = "state")]
    pub state_store: Option<String>,

    /// Begin this query anew, or all of this STATEMENT SET, whatever was saved of it. May be given several times.
    #[arg(long, value_name = "QUERY")]
    pub state_ignore: Vec<String>,

    /// Go back to the checkpoint of this number, as 'laxity state show' lists them, and not to the last: of one query, or
    /// of all. Files are cut back to where they stood. May be given several times.
    #[arg(long, value_name = "[QUERY=]N")]
    pub at: Vec<At>,

    /// Be asked in this folder, which is made if need be: 'laxity add FOLDER FILE', 'alter', 'cancel' [default: in the state
    /// folder, if there is one].
    #[arg(long, value_name = "FOLDER")]
    pub control: Option<PathBuf>,

    /// Write what happened as JSON.
    #[arg(long, value_name = "FILE")]
    pub report: Option<PathBuf>,

    /// Hold the results of approximate queries against exact ones, once all rows have come: the report then says how many
    /// kept their bound. Every row is evaluated for that, so the run saves no work.
    #[arg(long)]
    pub verify_approx: bool,

    /// How long a worker stays with an operator before it asks whether another is more urgent. Shorter costs
    /// switches, longer costs latency.
    #[arg(long, default_value = "1 ms", value_name = "DURATION")]
    pub quantum: HumaneDuration,

    /// State and queued rows of all queries together. Near it sources wait; beyond it the largest query is
    /// stopped [default: half of the memory of the machine, or of the cgroup around the process if that has less].
    #[arg(long, value_name = "SIZE")]
    pub memory: Option<HumaneBytes>,

    /// Print the names of the columns before the first row of each SELECT.
    #[arg(long)]
    pub header: bool,

    /// One line per second instead of a table that is redrawn. The default where the standard error is not
    /// a terminal.
    #[arg(long)]
    pub plain: bool,
}

/// The SQL that a command reads.
#[derive(Clone, Debug, Args)]
pub struct SqlArgs {
    /// SQL files, Flink's dialect. Paths in a file are relative to the file. '-' is the standard input.
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<PathBuf>,

    /// All files are one script: settings and tables of a file hold for those after it. Without it each file has its
    /// own, and one that is wrong is reported while the others run.
    #[arg(long)]
    pub shared: bool,

    /// The files may name no file of data outside of this folder, links followed: for SQL that others wrote.
    #[arg(long, value_name = "DIR")]
    pub root: Option<PathBuf>,
}

/// What `state` takes.
#[derive(Debug, Args)]
pub struct StateArgs {
    /// What to do.
    #[command(subcommand)]
    pub command: StateCommand,
}

/// What to do with saved state.
#[derive(Debug, Subcommand)]
pub enum StateCommand {
    /// List the queries of a state folder with their checkpoints: ages, sizes, and how far each has read and written.
    Show {
        /// As given to 'run --state'.
        #[arg(value_name = "FOLDER")]
        folder: PathBuf,
    },
}

/// What `add` takes.
#[derive(Debug, Args)]
pub struct AddArgs {
    /// That of the run, as given to 'run --state' or 'run --control'.
    #[arg(value_name = "FOLDER")]
    pub folder: PathBuf,

    /// SQL files, each with settings and tables of its own. Tables that are declared as those of queries that run are
    /// read with them, from the next row on. '-' is the standard input.
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<PathBuf>,

    /// A query of the same name makes way: what it has read is worked off, and the new one goes on with the next row and
    /// a state that begins empty, in the files that the old one wrote.
    #[arg(long)]
    pub replace: bool,
}

/// What `alter` takes.
#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("promise").args(["target", "weight", "qos"]).required(true).multiple(true))]
pub struct AlterArgs {
    /// That of the run, as given to 'run --state' or 'run --control'.
    #[arg(value_name = "FOLDER")]
    pub folder: PathBuf,

    /// Which query.
    #[arg(value_name = "QUERY")]
    pub query: String,

    /// Its latency target, from what waits now on: '50 ms'.
    #[arg(long, value_name = "DURATION")]
    pub target: Option<HumaneDuration>,

    /// Its importance, 1 if nobody says.
    #[arg(long, value_name = "NUMBER")]
    pub weight: Option<f64>,

    /// How useful a result is by its latency, as 'laxity.qos' has it: '(0 ms,1) (50 ms,1) (1 s,0)'; '' for what the target
    /// says.
    #[arg(long, value_name = "POINTS")]
    pub qos: Option<String>,
}

/// What `cancel` takes.
#[derive(Debug, Args)]
pub struct CancelArgs {
    /// That of the run, as given to 'run --state' or 'run --control'.
    #[arg(value_name = "FOLDER")]
    pub folder: PathBuf,

    /// Which query.
    #[arg(value_name = "QUERY")]
    pub query: String,

    /// Drop what it has read and not written, instead of working that off.
    #[arg(long)]
    pub drop: bool,
}

/// What `checkpoint` takes.
#[derive(Debug, Args)]
pub struct CheckpointArgs {
    /// That of the run, as given to 'run --state'.
    #[arg(value_name = "FOLDER")]
    pub folder: PathBuf,

    /// This query alone [default: all that have checkpoints].
    #[arg(long, value_name = "QUERY")]
    pub query: Option<String>,
}

/// A checkpoint to go back to: '7', or 'QUERY=7'.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct At {
    /// `None`: all queries.
    pub query: Option<String>,
    /// Its number.
    pub number: u64,
}

impl FromStr for At {
    type Err = String;

    fn from_str(text: &str) -> Result<At, String> {
        let (query, number) = match text.rsplit_once('=') {
            Some((query, number)) => (Some(query.to_owned()), number),
            None => (None, text),
        };
        match number.trim().parse() {
            Ok(number) if number > 0 => Ok(At { query, number }),
            _ => Err(format!("'{number}' is no number of a checkpoint: give 7, or QUERY=7")),
        }
    }
}

/// What `explain` takes.
#[derive(Debug, Args)]
pub struct ExplainArgs {
    /// What to read.
    #[command(flatten)]
    pub sql: SqlArgs,
}

/// What `submit` takes.
#[derive(Debug, Args)]
#[command(after_help = SUBMIT_AFTER_HELP)]
pub struct SubmitArgs {
    /// What to submit.
    #[command(flatten)]
    pub sql: SqlArgs,

    /// The SQL gateway of the cluster, as http://127.0.0.1:8083 or https://…
    #[arg(long, value_name = "GATEWAY")]
    pub flink: String,

    /// Certificates by which gateway and JobManager are known over https, PEM [default: those that browsers know].
    #[arg(long, value_name = "FILE")]
    pub ca: Option<PathBuf>,

    /// See that every query can run there, say what is missing, and start nothing.
    #[arg(long)]
    pub check: bool,

    /// Then schedule the threads of the jobs on this host, by the targets in the files, until Ctrl-C: 'laxity attach'.
    #[arg(long, conflicts_with = "check")]
    pub attach: bool,

    /// With --attach: print lines instead of redrawing a table.
    #[arg(long, requires = "attach")]
    pub plain: bool,
}

/// What `simulate` takes.
#[derive(Debug, Args)]
#[command(after_help = SIMULATE_AFTER_HELP)]
pub struct SimulateArgs {
    /// What to read.
    #[command(flatten)]
    pub sql: SqlArgs,

    /// Cores of the machine to simulate.
    #[arg(long, default_value = "16", value_name = "N", value_parser = clap::value_parser!(u16).range(1..=4096))]
    pub cores: u16,

    /// How many times the input that was measured: '2x', '0.5x'.
    #[arg(long, default_value = "1x", value_name = "FACTOR")]
    pub rate: Factor,

    /// How many tenants, each with everything in the files to itself.
    #[arg(long, default_value = "1", value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub tenants: u32,

    /// How many tenants to look for at most when asking how many fit [default: four times --tenants].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub up_to: Option<u32>,

    /// Who decides what runs next, as for 'run'.
    #[arg(long, value_name = "POLICY")]
    pub policy: Option<String>,

    /// Offer replayed and generated tables as fast as this machine can bear, times this, while measuring: with the
    /// SHARE of a 'run', what is simulated is that run. Of measurements that are taken from a file it changes nothing.
    #[arg(long, value_name = "SHARE")]
    pub pace: Option<Factor>,

    /// Offer replayed and generated tables at so many times the speeds in the files while measuring.
    #[arg(long, value_name = "FACTOR", conflicts_with = "pace")]
    pub speed: Option<Factor>,

    /// How long to run the files here first, to see what their operators cost.
    #[arg(long, default_value = "5 s", value_name = "DURATION")]
    pub measure: HumaneDuration,

    /// Take the measurements from this file; where there is none, measure and keep them there.
    #[arg(long, value_name = "FILE")]
    pub costs: Option<PathBuf>,

    /// Virtual time to simulate. The first fifth is not counted.
    #[arg(long = "for", default_value = "20 s", value_name = "DURATION")]
    pub run_for: HumaneDuration,

    /// Seed of everything random.
    #[arg(long, default_value = "0", value_name = "N")]
    pub seed: u64,
}

/// What `bench` takes.
#[derive(Debug, Args)]
#[command(after_help = BENCH_AFTER_HELP)]
pub struct BenchArgs {
    /// 'list' says which figures there are, 'all' makes every one.
    #[arg(value_name = "FIGURE", default_value = "list")]
    pub names: Vec<String>,

    /// Where the figures go: a folder for each, and RESULTS.md with a row for each.
    #[arg(long, default_value = "benchmarks/figures", value_name = "DIR")]
    pub out: PathBuf,

    /// The folder with rows that were observed, which aion-real wants.
    #[arg(long, default_value = "examples/data", value_name = "DIR")]
    pub data: PathBuf,

    /// 'paper' is as large as in the paper and takes minutes a figure; 'small' takes seconds.
    #[arg(long, default_value = "paper", value_name = "SCALE")]
    pub scale: laxity_figures::Scale,

    /// The first seed.
    #[arg(long, default_value = "1", value_name = "N")]
    pub seed: u64,
}

const SUBMIT_AFTER_HELP: &str = "\
Examples:
  laxity submit pipeline.sql --flink http://127.0.0.1:8083 --check   could it run there?
  laxity submit pipeline.sql --flink http://127.0.0.1:8083           run it
  laxity submit pipeline.sql --flink http://127.0.0.1:8083 --attach  and keep the targets there

Each INSERT becomes a job under its 'pipeline.name'; job and page are printed. Options that begin with laxity. are left \
out, which is said; a path that is relative becomes one below the folder of its SQL file. Every query is planned by \
Flink before the first is started: what is missing, a jar or a function, is said, and then nothing runs.";

const SIMULATE_AFTER_HELP: &str = "\
Examples:
  laxity simulate pipeline.sql --cores 4                     would four cores do?
  laxity simulate tenant.sql --cores 16 --tenants 500        and how many more tenants would fit?
  laxity simulate pipeline.sql --rate 2x --costs costs.json  twice the input, measured once

The files are run here for a few seconds with their results thrown away; their sources are read for real. What they \
cost and what arrived then goes through the scheduler in virtual time: the answer is a prediction. Windows longer \
than the measurement give no results to learn from. Costs are those of this machine's cores.";

const BENCH_AFTER_HELP: &str = "\
Examples:
  laxity bench list                     every figure with its paper
  laxity bench cameo-8a                 one of them
  laxity bench all --scale small        all of them, in seconds

Everything here is simulated; numbers measured on threads are laxity-bench's.";

const AFTER_HELP: &str = "\
A first query, without any file of your own (Ctrl-C ends it):

  echo \"CREATE TABLE ticks (n BIGINT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts)
          WITH ('connector' = 'datagen', 'rows-per-second' = '1000');
        SET 'laxity.latency.target' = '50 ms';
        SELECT window_end, COUNT(*) AS ticks
          FROM TABLE(TUMBLE(TABLE ticks, DESCRIPTOR(ts), INTERVAL '1' SECOND))
         GROUP BY window_start, window_end;\" | laxity run -

Results go to the sinks that the SQL names, or to the standard output. What Laxity itself has to say goes to \
the standard error; LAXITY_LOG=debug makes it say more.

Exit code: 0 all went well; 1 a query failed, or one of several files could not be compiled; 2 the SQL or an option has \
to be corrected, nothing ran; 3 the run was stopped before all rows that it had read were worked off, and they were \
dropped; 128 and more: a signal ended it at once. docs/run.md has the table.";

const RUN_AFTER_HELP: &str = "\
Examples:
  laxity run pipeline.sql                            run it
  laxity run tenants/*.sql --for '10 min'            many files, one process, nothing in common
  laxity run tables.sql queries.sql --shared         many files, one script
  laxity run pipeline.sql --policy fifo              the same without deadlines
  laxity run pipeline.sql --switch '10 s=klink'      another policy from the tenth second on
  laxity run pipeline.sql --pace 0.9                 as fast as this machine nearly bears
  laxity run pipeline.sql --report run.json --plain  for scripts

A query's own settings are SET statements before its INSERT:
  SET 'pipeline.name' = 'alerts';
  SET 'laxity.latency.target' = '50 ms';

A result is a batch of rows that a sink has written: what a window gives when it closes, in pieces if it is large; \
without a window, what comes through of a batch that was read. Its latency runs from the arrival of the last row that \
mattered to it, when that was due, to its leaving the sink. A result that is due and not out has missed its target as \
soon as the target is over.

The columns of the table: p50 and p99 of the latency; last min, the p99 of the last minute; met, the share of results \
within the target; stuck, for how long the oldest result has been due, where it has missed its target; rows in and \
out; lag, how far behind the watermark is; late, rows too late for their window; dead, rows that could not be read; \
queue, rows waiting. A narrow terminal shows fewer. With more queries than lines, those in most trouble are shown. \
docs/report.md describes the file that --report writes.

Ctrl-C stops reading, finishes what was read, for 10 s at most, and prints the summary. The exit code is 3 if rows had \
to be dropped. A second Ctrl-C exits at once.";

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_well_formed() {
        Cli::command().debug_assert();
    }

    #[test]
    fn paragraphs_of_the_help_are_wrapped_by_the_terminal_alone() {
        for text in [AFTER_HELP, RUN_AFTER_HELP, SUBMIT_AFTER_HELP, SIMULATE_AFTER_HELP, BENCH_AFTER_HELP] {
            let is_prose = |line: &str| !line.is_empty() && !line.starts_with(' ') && !line.ends_with(':');
            let lines: Vec<&str> = text.lines().collect();
            for pair in lines.windows(2) {
                assert!(!(is_prose(pair[0]) && is_prose(pair[1])), "{pair:?}");
            }
        }
    }

    #[test]
    fn run_takes_humane_quantities() {
        let cli = Cli::parse_from([
            "laxity",
            "run",
            "a.sql",
            "b.sql",
            "--for",
            "20 s",
            "--quantum",
            "500us",
            "--memory",
            "512mb",
            "--workers",
            "3",
        ]);
        let Command::Run(run) = cli.command else { panic!("{cli:?}") };
        assert_eq!(run.sql.files, [PathBuf::from("a.sql"), PathBuf::from("b.sql")]);
        assert_eq!(run.run_for.unwrap().0, Duration::from_secs(20));
        assert_eq!(run.quantum.0, Duration::from_micros(500));
        assert_eq!(run.memory.unwrap().0, 512 << 20);
        assert_eq!(run.workers, Some(3));
        assert_eq!(run.policy, None);
    }

    #[test]
    fn wrong_options_are_refused() {
        for wrong in
            [&["run"][..], &["run", "a.sql", "--for", "20"], &["run", "a.sql", "--workers", "0"], &["walk"]]
        {
            let args = ["laxity"].iter().chain(wrong);
            let refused = Cli::try_parse_from(args).unwrap_err();
            assert_eq!(refused.exit_code(), 2, "{wrong:?}");
        }
    }
}
