//! `laxity run`: compile, start, watch, stop, tell.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::io::IsTerminal;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use laxity_connect::{ConnectError, OutputClaim, ScanSpec, SinkSpec};
use laxity_engine::{
    Clock, Engine, EngineConfig, EngineFigures, LatePlan, Outcome, Policy, QueryPlan, QuerySnapshot,
    SubmitError,
};
use laxity_graph::{Dataflow, ProcessingTime};
use laxity_operators::Stage;
use laxity_sql::{LateSink, PathPlace, PlannedQuery};
use laxity_state::{Mirror, StateError};

use crate::args::RunArgs;
use crate::desk::{Admission, Clerk, Desk};
use crate::failure::{FILE_REFUSED, Failure, QUERY_FAILED, ROWS_DROPPED, SUCCESS};
use crate::pace::{Pace, Query};
use crate::policy::Switch;
use crate::quantity::short_duration;
use crate::report::Report;
use crate::screen::{self, Screen};
use crate::script::{Compilation, Files, with_sinks};
use crate::signals::StopRequest;
use crate::state::Plans;
use crate::table::cut;
use crate::view::{LiveView, RunView, most_troubled, progress, rest};
use crate::{host, live, outcome, pace, policy, state};

/// How often we look for a reason to stop.
pub(crate) const LOOK: Duration = Duration::from_millis(100);

/// Runs the files to their end and says what happened.
///
/// # Errors
/// If nothing could be run, or the report not be written. A query that fails while running is not an error
/// here but in the exit code.
pub fn run(args: &RunArgs, screen: &Screen) -> Result<ExitCode, Failure> {
    host::raise_open_files();
    let clock = Clock::start();
    let files = Files::read(&args.sql).verifying(args.verify_approx);
    let Compilation { script, refused: files_refused } = files.compile(clock.unix_start_ms(), screen)?;
    let paths: Vec<PathPlace> = script.queries.iter().flat_map(|query| query.paths.clone()).collect();
    let config = config(args, policy::of_run(args, script.policy.as_ref())?);
    let workers = config.workers;
    for text in &script.explanations {
        screen::print(&format!("{text}\n"));
    }
    if script.queries.is_empty() {
        return match script.explanations.is_empty() {
            true => Err(Failure::User("nothing to run: the files have no INSERT and no SELECT".into())),
            false => Ok(ExitCode::from(if files_refused > 0 { FILE_REFUSED } else { SUCCESS })),
        };
    }
    state::check_names(args, &script.queries)?;
    state::check_places(args, &script.queries)?;
    // Before the run, so that a mistyped path does not cost one.
    if let Some(folder) = &args.control {
        let made = std::fs::create_dir_all(folder);
        made.map_err(|error| Failure::User(format!("--control {}: {error}", folder.display())))?;
    }
    let report = args.report.as_deref().map(create).transpose()?;
    let stop_request = StopRequest::listen().context("cannot listen to signals")?;

    let mut start = Start { clock, queries: script.queries, pace: None, cpu_before_ns: 0 };
    if let Some(share) = args.pace {
        match start.paced(share.0, &files, &config, screen, &stop_request)? {
            Some(paced) => start = paced,
            None => return Ok(ExitCode::from(SUCCESS)),
        }
    }
    if let Some(speed) = args.speed {
        let pace = Pace::given(speed.0, &start.queries)?;
        let (queries, told) = pace.apply(start.queries);
        screen.say(&told);
        start = Start { queries, pace: Some(pace), ..start };
    }
    let Start { clock, queries, pace, cpu_before_ns } = start;
    let policy = config.policy.name().to_string();
    let show = Show::choose(args, queries.iter().any(prints));
    let mirror = state::mirror(args)?;
    state::check_sets(args, &queries)?;
    let plans = queries.into_iter().map(|query| plan_of(args, mirror.as_ref(), query));
    let plans = state::by_what_is_left(plans.collect(), screen);
    if plans.left.is_empty() {
        return Ok(ExitCode::from(if files_refused > 0 { FILE_REFUSED } else { SUCCESS }));
    }
    let mut folders: BTreeSet<PathBuf> =
        plans.left.iter().filter_map(|plan| plan.state.as_ref()).map(|state| state.folder.clone()).collect();
    folders.extend(args.control.clone());
    let begun = begin(plans, &config, clock, |error| refused_at(error, &paths), files.are_apart(), screen)?;
    let Begun { engine, refused: queries_refused } = begun;
    let engine = Arc::new(engine);
    let admission =
        Admission { args: args.clone(), mirror, pace, processing_origin_ms: clock.unix_start_ms() };
    let clerk = Arc::new(Clerk::new(Arc::downgrade(&engine), admission));
    let _desks = Desk::open_all(&folders, &clerk, screen);

    let mut watch = Watch::new(args, screen, workers, policy, show, cpu_before_ns);
    let mut switches = args.switches.clone();
    switches.sort_by_key(|switch| Reverse(switch.after));
    let started = clock.now();
    loop {
        let since_start = Duration::from_nanos(clock.now().since_ns(started));
        let until_switch = switches.last().map_or(LOOK, |next| next.after.saturating_sub(since_start));
        if engine.wait(LOOK.min(until_switch)) {
            clerk.wait_idle();
            if engine.wait(Duration::ZERO) {
                break;
            }
        }
        if until_switch < LOOK
            && let Some(next) = switches.pop()
        {
            watch.switch(&engine, &next);
            continue;
        }
        watch.look(&engine);
        let over = args.run_for.is_some_and(|run_for| clock.now().0 as u128 >= run_for.0.as_nanos());
        if stop_request.made() || over {
            if stop_request.made() {
                screen.say("stopping: what was read is finished first; Ctrl-C again leaves at once");
            }
            break;
        }
    }
    clerk.close();
    engine.stop_watched(|left| watch.drain(&engine, left));

    let mut last = engine.snapshot();
    last.cpu_ns = last.cpu_ns.saturating_sub(cpu_before_ns);
    let view = RunView { policy: watch.policy, workers, engine: last };
    tell(&view, screen);
    if let Some(report) = report {
        let mut text = serde_json::to_vec_pretty(&Report::from(&view)).context("cannot write the report")?;
        text.push(b'\n');
        report.write(&text).context("cannot write the report")?;
    }
    Ok(ExitCode::from(exit_code(&view.engine.queries, files_refused + queries_refused)))
}

/// What scripts are to know of the queries at the end. docs/run.md has the table.
fn exit_code(queries: &[QuerySnapshot], refused: usize) -> u8 {
    if refused > 0 {
        FILE_REFUSED
    } else if queries.iter().any(|query| matches!(query.outcome, Outcome::Failed(_))) {
        QUERY_FAILED
    } else if queries.iter().any(|query| query.rows_dropped > 0) {
        ROWS_DROPPED
    } else {
        SUCCESS
    }
}

/// An engine that runs.
struct Begun {
    engine: Engine,
    /// Queries that could not be started.
    refused: usize,
}

/// Starts the queries. Where their files are apart, one whose tables cannot be opened is told of and the others start.
fn begin(
    plans: Plans,
    config: &EngineConfig,
    clock: Clock,
    failure: impl Fn(SubmitError) -> Failure,
    are_apart: bool,
    screen: &Screen,
) -> Result<Begun, Failure> {
    let Plans { left: mut plans, complete } = plans;
    let mut refused = 0;
    loop {
        let engine = Engine::with_clock(config.clone(), clock);
        complete.iter().for_each(|plan| engine.note_complete(plan));
        let submitted = plans.iter().try_for_each(|plan| engine.submit(plan.clone()).map(drop));
        let error = match submitted.and_then(|()| engine.start()) {
            Ok(_) => return Ok(Begun { engine, refused }),
            Err(error) => error,
        };
        // The engine with its claims is gone before the next.
        drop(engine);
        let query = match &error {
            SubmitError::Connect { query, .. } if are_apart && plans.len() > 1 => query.clone(),
            _ => return Err(failure(error)),
        };
        plans.retain(|plan| plan.dataflow.settings.name != query);
        refused += 1;
        screen.say(&format!("laxity: {}; the others are started", failure(error).text()));
    }
}

/// What a run begins with.
struct Start {
    /// Reads zero when the run begins.
    clock: Clock,
    queries: Vec<PlannedQuery>,
    /// At which their tables are offered, if not at that of the files.
    pace: Option<Pace>,
    /// CPU time that the process had taken by then, ns.
    cpu_before_ns: u64,
}

impl Start {
    /// The same queries at the pace of this machine; `None` if somebody asked to stop while that was measured.
    fn paced(
        &self,
        share: f64,
        files: &Files,
        config: &EngineConfig,
        screen: &Screen,
        stop_request: &StopRequest,
    ) -> Result<Option<Start>, Failure> {
        screen.say("running the queries for some seconds to see how fast their tables can be offered here");
        let Some(pace) = pace::measure(&self.queries, share, config, self.clock, stop_request)? else {
            return Ok(None);
        };
        // Compiled anew, so that neither the run nor its processing time begins before.
        let clock = Clock::start();
        let script = files.compile(clock.unix_start_ms(), screen)?.script;
        let (queries, told) = pace.apply(script.queries);
        screen.say(&format!("{}\n{told}", pace.told));
        Ok(Some(Start { clock, queries, cpu_before_ns: pace.cpu_ns, pace: Some(pace) }))
    }
}

fn config(args: &RunArgs, policy: Policy) -> EngineConfig {
    let defaults = EngineConfig::default();
    EngineConfig {
        workers: args.workers.map_or(defaults.workers, usize::from),
        policy,
        quantum: args.quantum.0,
        memory_limit_bytes: match args.memory {
            Some(memory) => memory.0,
            None => host::queries_memory_bytes().unwrap_or(defaults.memory_limit_bytes),
        },
        ..defaults
    }
}

fn create(path: &std::path::Path) -> Result<OutputClaim, Failure> {
    OutputClaim::create(path).map_err(|error| Failure::User(format!("--report: {error}")))
}

/// A query as a run takes it.
pub(crate) fn plan_of(args: &RunArgs, mirror: Option<&Arc<Mirror>>, query: PlannedQuery) -> QueryPlan {
    let state = state::plan(args, mirror, &query);
    let dataflow = if args.header { with_header(&query.dataflow) } else { query.dataflow };
    QueryPlan { state, ..plan(dataflow, query.late) }
}

/// A query as the engine takes it, without checkpoints.
pub(crate) fn plan(dataflow: Dataflow<Stage<ScanSpec, SinkSpec>>, late: Option<LateSink>) -> QueryPlan {
    let late = late.map(|late| LatePlan { sink: late.sink, node: late.node, columns: late.columns });
    QueryPlan { dataflow, late, state: None }
}

/// Whose fault it is that a query cannot start.
pub(crate) fn refused(error: SubmitError) -> Failure {
    match error {
        SubmitError::Connect { source: ConnectError::Option(option), .. } => {
            Failure::User(option.to_string())
        }
        SubmitError::NameTaken { .. } | SubmitError::State { .. } | SubmitError::Complete { .. } => {
            Failure::User(error.to_string())
        }
        SubmitError::Store {
            source: source @ (StateError::InUse { .. } | StateError::Newer { .. }), ..
        } => Failure::User(source.to_string()),
        other => Failure::World(other.into()),
    }
}

/// The same, with the place where the SQL names the file that cannot be opened.
pub(crate) fn refused_at(error: SubmitError, paths: &[PathPlace]) -> Failure {
    let place = match &error {
        SubmitError::Connect { source: ConnectError::Io { path, .. }, .. } => {
            paths.iter().find(|known| known.path == *path).map(|known| known.place.clone())
        }
        _ => None,
    };
    match (refused(error), place) {
        (Failure::World(error), Some(place)) => Failure::World(error.context(place)),
        (other, _) => other,
    }
}

/// The query with the names of its columns before what it prints.
fn with_header(dataflow: &Query) -> Query {
    with_sinks(dataflow, |table| {
        let mut table = table.clone();
        if table.options.get("connector").is_some_and(|connector| connector == "print") {
            table.options.entry("laxity.print.header".into()).or_insert_with(|| "true".into());
        }
        table
    })
}

/// The last words: the table and what it comes to.
fn tell(view: &RunView, screen: &Screen) {
    let mut text = live::summary(view, Screen::canvas());
    for sentence in outcome::sentences(&view.engine.queries) {
        text.push_str(&sentence);
        text.push('\n');
    }
    screen.say(text.trim_end());
}

/// True if a sink of the query writes to the standard output.
fn prints(query: &PlannedQuery) -> bool {
    query.dataflow.nodes().iter().any(|node| match &node.stage {
        Stage::Sink(sink) => {
            sink.table.options.get("connector").is_some_and(|connector| connector == "print")
        }
        _ => false,
    })
}

/// How a run is shown while it goes on.
#[derive(Clone, Copy)]
enum Show {
    /// A table that is replaced.
    Display,
    /// A line now and then.
    Lines,
    /// Nothing but the rows themselves: they go to the same terminal.
    Rows,
}

impl Show {
    fn choose(args: &RunArgs, rows_are_printed: bool) -> Show {
        match Screen::is_terminal() && !args.plain {
            true if rows_are_printed && std::io::stdout().is_terminal() => Show::Rows,
            true => Show::Display,
            false => Show::Lines,
        }
    }

    /// Looks from one showing to the next. A display that changes more than five times a second is not read.
    fn period_looks(self) -> u32 {
        match self {
            Show::Display => 2,
            Show::Lines | Show::Rows => 10,
        }
    }
}

/// The run as it is watched while it goes on.
struct Watch<'a> {
    args: &'a RunArgs,
    screen: &'a Screen,
    workers: usize,
    /// In force, after those before it: "laxity", "laxity, klink from 10 s".
    policy: String,
    show: Show,
    /// CPU time that the process had taken before the run, ns.
    cpu_before_ns: u64,
    /// Wall and CPU time at the last look, ns.
    last: (u64, u64),
    looks: u32,
    /// The next look is not before that.
    rests_until: ProcessingTime,
    figures: EngineFigures,
}

impl<'a> Watch<'a> {
    fn new(
        args: &'a RunArgs,
        screen: &'a Screen,
        workers: usize,
        policy: String,
        show: Show,
        cpu_before_ns: u64,
    ) -> Watch<'a> {
        let (last, looks) = ((0, 0), 0);
        let (rests_until, figures) = (ProcessingTime::ZERO, EngineFigures::default());
        Watch { args, screen, workers, policy, show, cpu_before_ns, last, looks, rests_until, figures }
    }

    fn switch(&mut self, engine: &Engine, next: &Switch) {
        let after = short_duration(u64::try_from(next.after.as_nanos()).unwrap_or(u64::MAX));
        match engine.set_policy(&next.policy) {
            Ok(()) => self.policy.push_str(&format!(", {} from {after}", next.policy.name())),
            // Refused before the run; said all the same, should it ever come to that.
            Err(error) => self.screen.say(&format!("after {after}: {error}")),
        }
    }

    fn look(&mut self, engine: &Engine) {
        // Whatever a look takes, with however many queries and on whatever machine: no more than a hundredth of a core,
        // but for one every few seconds.
        const REST_FACTOR: u64 = 100;
        const REST_NS_MAX: u64 = 5_000_000_000;
        self.looks += 1;
        let began = engine.clock().now();
        if !self.looks.is_multiple_of(self.show.period_looks()) || began < self.rests_until {
            return;
        }
        match self.show {
            Show::Display => {
                let canvas = Screen::canvas();
                let view = self.view(engine, canvas.queries());
                self.screen.draw(&live::display(&view, canvas));
            }
            Show::Lines => self.screen.say(&live::log_line(&self.view(engine, live::LOG_QUERIES))),
            Show::Rows => {}
        }
        let took_ns = engine.clock().now().since_ns(began);
        self.rests_until = began.plus_ns((took_ns * REST_FACTOR).min(REST_NS_MAX));
    }

    /// Rows are worked off after the sources were stopped, for so long at most.
    fn drain(&mut self, engine: &Engine, left: Duration) {
        self.looks += 1;
        if !self.looks.is_multiple_of(self.show.period_looks()) {
            return;
        }
        match self.show {
            Show::Display => {
                let canvas = Screen::canvas();
                let view = self.view(engine, canvas.queries());
                let waiting = live::draining(&self.figures, left);
                self.screen.draw(&format!(
                    "{}{}\n",
                    live::display(&view, canvas),
                    cut(&waiting, canvas.width)
                ));
            }
            Show::Lines | Show::Rows => {
                engine.figures(&mut self.figures);
                self.screen.say(&live::draining(&self.figures, left));
            }
        }
    }

    /// The run as it is now, with the `room` queries that need a look the most.
    fn view(&mut self, engine: &Engine, room: usize) -> LiveView {
        engine.figures(&mut self.figures);
        let figures = &self.figures;
        let now = (figures.wall_ns, figures.cpu_ns.saturating_sub(self.cpu_before_ns));
        let (wall_ns, cpu_ns) = std::mem::replace(&mut self.last, now);
        let cores_busy = now.1.saturating_sub(cpu_ns) as f64 / now.0.saturating_sub(wall_ns).max(1) as f64;
        let places = most_troubled(&figures.queries, room);
        LiveView {
            policy: self.policy.clone(),
            workers: self.workers,
            wall_ns: figures.wall_ns,
            memory_bytes: figures.memory_bytes,
            cores_busy,
            progress: progress(figures, self.args.run_for.map(|run_for| run_for.0)),
            rest: rest(&figures.queries, &places),
            shown: places.iter().filter_map(|&place| engine.query(figures.queries[place].id)).collect(),
        }
    }
}
