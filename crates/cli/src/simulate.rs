//! `laxity simulate`: which targets would be met on other cores, at other rates, with more tenants.
//!
//! The file is run here for a few seconds to see what its operators cost and what arrives; the rest is the
//! simulator's. Start with [`simulate`], then [`costs`] and [`model`].

mod answer;
mod costs;
mod cycle;
mod model;
mod paced;
mod replay;
mod shared;

use std::path::Path;

use laxity_engine::{Clock, EngineConfig, Policy};
use laxity_sql::PlannedQuery;

use crate::args::SimulateArgs;
use crate::failure::Failure;
use crate::pace::Pace;
use crate::screen::Screen;
use crate::script::{Compilation, Files};
use crate::signals::StopRequest;
use crate::simulate::answer::Question;
use crate::simulate::costs::Costs;
use crate::{pace, policy};

/// The answer as text, and how many files were refused.
///
/// # Errors
/// If the SQL is wrong, it cannot be run here, or the measurements are of other SQL.
pub fn simulate(args: &SimulateArgs, screen: &Screen) -> Result<(String, usize), Failure> {
    let clock = Clock::start();
    let files = Files::read(&args.sql);
    let Compilation { mut script, refused } = files.compile(clock.unix_start_ms(), screen)?;
    if script.queries.is_empty() {
        return Err(Failure::User("nothing to simulate: the files have no INSERT and no SELECT".into()));
    }
    let policy = policy::of(args.policy.as_deref(), script.policy.as_ref())?;
    let known = args.costs.as_deref().filter(|path| path.exists());
    let (costs, origin) = match known {
        Some(path) => (Costs::read(path)?, format!("taken from {}", path.display())),
        None => {
            if let Some(pace) = asked_pace(args, &script.queries, clock, screen)? {
                let (queries, told) = pace.apply(script.queries);
                screen.say(format!("{}\n{told}", pace.told).trim_start());
                script.queries = queries;
            }
            screen.say(&format!(
                "running the files for {:?} to see what their operators cost; results are thrown away",
                args.measure.0
            ));
            let costs = Costs::measure(&script.queries, args.measure.0, clock)?;
            if let Some(path) = &args.costs {
                costs.write(path)?;
            }
            let origin =
                format!("measured here for {:.1} s with {} workers", costs.measured_s, costs.workers);
            (costs, origin)
        }
    };
    let models = model::models(&script.queries, &costs).map_err(|error| mismatch(&error, known))?;
    let question = Question {
        models: &models,
        costs: &costs,
        policy: &policy,
        cores: usize::from(args.cores),
        rate: args.rate.0,
        tenants: args.tenants as usize,
        up_to: args.up_to.unwrap_or((4 * args.tenants).max(UP_TO_LEAST)) as usize,
        duration: args.run_for.0,
        seed: args.seed,
    };
    screen.say("simulating");
    let mut text = String::new();
    text.push_str(&question.heading(&origin));
    for warning in costs.warnings() {
        text.push_str(&format!("note: {warning}\n"));
    }
    text.push_str(&question.answer()?);
    if matches!(policy, Policy::ThreadPerOperator) {
        text.push_str("Policy os is simulated as a thread per operator under a fair operating system.\n");
    }
    Ok((text, refused))
}

/// At how many times the speeds in the files they are measured, where that is asked for.
fn asked_pace(
    args: &SimulateArgs,
    queries: &[PlannedQuery],
    clock: Clock,
    screen: &Screen,
) -> Result<Option<Pace>, Failure> {
    if let Some(speed) = args.speed {
        return Pace::given(speed.0, queries).map(Some);
    }
    let Some(share) = args.pace else { return Ok(None) };
    screen.say("running the queries for some seconds to see how fast their tables can be offered here");
    // Nothing is written that a signal could leave half done.
    pace::measure(queries, share.0, &EngineConfig::default(), clock, &StopRequest::never())
}

/// Where `--up-to` is not given, some times as many tenants are looked for, or at least these.
const UP_TO_LEAST: u32 = 20;

fn mismatch(error: &str, known: Option<&Path>) -> Failure {
    match known {
        Some(path) => Failure::User(format!(
            "--costs: {} is of other SQL: {error}; delete it to measure again",
            path.display()
        )),
        None => Failure::World(anyhow::anyhow!("internal error: {error} (please report this)")),
    }
}
