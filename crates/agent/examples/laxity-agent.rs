//! The agent alone, as `laxity attach` and `laxity restore` have it, without building the SQL engine:
//! `cargo run -p laxity-agent --example laxity-agent -- attach --flink http://127.0.0.1:8081 --dry-run --once`.

use std::process::ExitCode;

use clap::Parser;
use laxity_agent::{AttachArgs, RestoreArgs, attach};

#[derive(Parser)]
enum Command {
    Attach(Box<AttachArgs>),
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
