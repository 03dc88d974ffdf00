//! The program `laxity-agent`, which `laxity attach` and `laxity restore` become.

use std::process::ExitCode;

use clap::Parser;
use laxity_agent::{AttachArgs, RestoreArgs, attach};

/// Schedules the threads of engines that run already.
#[derive(Parser)]
#[command(name = "laxity-agent", version, max_term_width = 120)]
enum Command {
    /// Schedule the threads of an engine that runs already: Flink, Storm or any other.
    Attach(Box<AttachArgs>),
    /// Put back what an agent that was killed has changed.
    Restore(RestoreArgs),
}

fn main() -> ExitCode {
    let outcome = match Command::parse() {
        Command::Attach(args) => attach::attach(&args),
        Command::Restore(args) => attach::restore(&args),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("laxity: {}", error.text());
            ExitCode::from(if error.is_users() { 2 } else { 1 })
        }
    }
}
