//! `laxity submit`: the same files on a Flink cluster, through its SQL gateway.

use std::ffi::OsString;
use std::fmt::Write as _;

use laxity_gateway::{Gateway, GatewayError, GatewaySession};
use laxity_http::Tls;
use laxity_sql::{FlinkScript, FlinkStatement};

use crate::agent::become_agent;
use crate::args::SubmitArgs;
use crate::failure::Failure;
use crate::screen;
use crate::script::Files;

/// A job that Flink has started.
struct Started {
    name: String,
    target_ms: f64,
    id: String,
    job_manager: String,
}

/// Submits every INSERT of the files as a job; with `--attach` then stays, and schedules their threads.
///
/// # Errors
/// [`Failure::User`] if a file is wrong, or Flink cannot run a statement: then nothing has been started.
pub fn submit(args: &SubmitArgs) -> Result<(), Failure> {
    let scripts = Files::read(&args.sql).for_flink()?;
    let tls = Tls::read(args.ca.as_deref(), None).map_err(|(_, why)| Failure::User(why))?;
    let gateway = Gateway::find(&args.flink, &tls).map_err(|error| failure(&error))?;
    screen::print(&format!("Flink {} at {}\n", gateway.version(), gateway.shown()));
    for left_out in scripts.iter().flat_map(|script| &script.left_out) {
        screen::print(&format!("left out: {left_out}\n"));
    }
    let sessions = checked(&gateway, &scripts)?;
    let jobs = scripts.iter().flat_map(|script| &script.statements).filter(|one| one.job.is_some()).count();
    if jobs == 0 {
        return Err(Failure::User("the files have no INSERT: there is nothing to submit".into()));
    }
    if args.check {
        screen::print(&format!(
            "{jobs} {} there\n",
            if jobs == 1 { "query can run" } else { "queries can run" }
        ));
        return Ok(());
    }
    let started = start(&sessions, &scripts)?;
    drop(sessions);
    if !args.attach {
        return Ok(());
    }
    let mut addresses: Vec<String> = started.iter().map(|job| job.job_manager.clone()).collect();
    addresses.dedup();
    let wish = |job: &Started| OsString::from(format!("{}={} ms", job.name, job.target_ms));
    let mut options: Vec<OsString> = Vec::new();
    let mut option = |name: &str, value: OsString| options.extend([name.into(), value]);
    addresses.into_iter().for_each(|address| option("--flink", address.into()));
    started.iter().for_each(|job| option("--job", wish(job)));
    if let Some(ca) = &args.ca {
        option("--ca", ca.into());
    }
    if args.plain {
        options.push("--plain".into());
    }
    screen::print("the jobs run; now the agent, which they do not need\n");
    Err(become_agent("attach", options))
}

/// A session for each script, with its tables and views, in which every query can be planned.
fn checked<'a>(gateway: &'a Gateway, scripts: &[FlinkScript]) -> Result<Vec<GatewaySession<'a>>, Failure> {
    let mut sessions = Vec::new();
    let mut missing = String::new();
    for script in scripts {
        let session = gateway.session().map_err(|error| failure(&error))?;
        for statement in &script.statements {
            let outcome = match &statement.job {
                None => session.run(&statement.text),
                Some(_) => session.run(&explained(&statement.text)),
            };
            match outcome {
                Ok(_) => {}
                Err(GatewayError::Refused { said }) => {
                    let _ = write!(missing, "\n{}", refused(statement, &said, gateway.version()));
                }
                Err(error) => return Err(failure(&error)),
            }
        }
        sessions.push(session);
    }
    if missing.is_empty() {
        return Ok(sessions);
    }
    Err(Failure::User(format!("Flink {} cannot run this; nothing was started{missing}", gateway.version())))
}

fn explained(text: &str) -> String {
    // Of a set, EXPLAIN takes what stands behind EXECUTE.
    format!("EXPLAIN {}", text.strip_prefix("EXECUTE ").unwrap_or(text))
}

/// Flink's words, with what they mean for whoever runs it.
fn refused(statement: &FlinkStatement, said: &str, version: &str) -> String {
    let query = statement.job.as_ref().map_or(String::new(), |job| format!("{:?}: ", job.name));
    let hint = if let Some(identifier) = between(said, "any factory for identifier '", "'") {
        format!(
            "\n  hint: the jar of the connector or format '{identifier}' is to be in the lib folder of the cluster and of the gateway"
        )
    } else if said.contains("No match found for function signature") {
        format!("\n  hint: Flink {version} has no such function, or not for these types; newer ones may")
    } else {
        String::new()
    };
    format!("{}: {query}{said}{hint}", statement.place)
}

fn between<'t>(text: &'t str, before: &str, after: &str) -> Option<&'t str> {
    text.split_once(before)?.1.split_once(after).map(|(found, _)| found)
}

/// Starts the jobs, in the order of the files, and tells each.
fn start(sessions: &[GatewaySession<'_>], scripts: &[FlinkScript]) -> Result<Vec<Started>, Failure> {
    let mut started: Vec<Started> = Vec::new();
    for (session, script) in sessions.iter().zip(scripts) {
        let run = |statement: &str, started: &[Started]| {
            session.run(statement).map_err(|error| match failure(&error) {
                Failure::User(text) => Failure::User(text + &running(started)),
                Failure::World(error) => Failure::World(anyhow::anyhow!("{error:#}{}", running(started))),
            })
        };
        let job_manager = session.job_manager().map_err(|error| failure(&error))?;
        for statement in &script.statements {
            let Some(job) = &statement.job else { continue };
            run(&format!("SET 'pipeline.name' = '{}'", job.name.replace('\'', "''")), &started)?;
            let id = run(&statement.text, &started)?.unwrap_or_else(|| "?".into());
            screen::print(&format!("{}: job {id}, {job_manager}/#/job/running/{id}/overview\n", job.name));
            started.push(Started {
                name: job.name.clone(),
                target_ms: job.latency_target.ns() as f64 / 1e6,
                id,
                job_manager: job_manager.clone(),
            });
        }
    }
    Ok(started)
}

fn running(started: &[Started]) -> String {
    match started {
        [] => "\nno job was started".into(),
        some => some.iter().fold("\nstarted before, and running: ".into(), |text: String, job| {
            let comma = if text.ends_with(' ') { "" } else { ", " };
            format!("{text}{comma}{} ({})", job.name, job.id)
        }),
    }
}

/// What the user can do something about, and what not.
fn failure(error: &GatewayError) -> Failure {
    match error {
        GatewayError::SessionLost { .. } => Failure::World(anyhow::anyhow!("{error}")),
        _ => Failure::User(error.to_string()),
    }
}
