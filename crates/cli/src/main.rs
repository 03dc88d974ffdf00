//! The `laxity` program: wiring only. Start with [`run::run`].

mod agent;
mod approx;
mod args;
mod ask;
mod bench;
mod desk;
mod explain;
mod failure;
mod host;
mod live;
mod outcome;
mod overload;
mod pace;
mod policies;
mod policy;
mod quantity;
mod report;
mod run;
mod screen;
mod script;
mod signals;
mod simulate;
mod state;
mod submit;
mod table;
mod view;

use std::process::ExitCode;

use clap::Parser;
use laxity_allocator::MiMalloc;
use tracing_subscriber::EnvFilter;

use crate::args::{Cli, Command};
use crate::failure::Failure;
use crate::screen::Screen;

// Batches of a few rows are allocated by one worker and often freed by another, which the system's allocator is slow at.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

fn main() -> ExitCode {
    laxity_allocator::keep_freed();
    let cli = Cli::parse();
    laxity_kafka::register();
    laxity_postgres::register();
    let screen = Screen::default();
    tracing_subscriber::fmt()
        .with_env_filter(EnvFilter::try_from_env("LAXITY_LOG").unwrap_or_else(|_| EnvFilter::new("warn")))
        .with_writer(screen.clone())
        .with_ansi(false)
        .with_target(false)
        .without_time()
        .init();
    dispatch(&cli.command, &screen).unwrap_or_else(|failure| {
        screen.say(&format!("laxity: {}", failure.text()));
        failure.exit_code()
    })
}

fn dispatch(command: &Command, screen: &Screen) -> Result<ExitCode, Failure> {
    let (text, refused) = match command {
        Command::Run(args) => return run::run(args, screen),
        Command::Explain(args) => explain::explain(args, screen)?,
        Command::Policies => (policies::list(), 0),
        Command::Simulate(args) => simulate::simulate(args, screen)?,
        Command::Bench(args) => (bench::bench(args, screen)?, 0),
        Command::State(args) => (state::state(args)?, 0),
        Command::Checkpoint(args) => (ask::checkpoint(args)?, 0),
        Command::Add(args) => (ask::add(args)?, 0),
        Command::Alter(args) => (ask::alter(args)?, 0),
        Command::Cancel(args) => (ask::cancel(args)?, 0),
        Command::Submit(args) => return submit::submit(args).map(|()| ExitCode::SUCCESS),
        Command::Attach(args) => return Err(agent::become_agent("attach", args.args.clone())),
        Command::Restore(args) => return Err(agent::become_agent("restore", args.args.clone())),
    };
    screen::print(&text);
    Ok(ExitCode::from(if refused > 0 { failure::FILE_REFUSED } else { failure::SUCCESS }))
}
