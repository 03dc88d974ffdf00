//! `laxity attach` and `laxity restore`: the agent is a program of its own, so that this one is without its dependencies.

use std::ffi::OsString;
use std::io::ErrorKind;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

use crate::failure::Failure;

const PROGRAM: &str = "laxity-agent";

/// Becomes the agent, with these arguments: its signals, its exit code and its place in a process tree are ours.
/// Answers why it could not.
pub fn become_agent(command: &str, args: impl IntoIterator<Item = OsString>) -> Failure {
    let beside = std::env::current_exe().ok().map(|own| own.with_file_name(PROGRAM));
    let program = beside.filter(|path| path.is_file()).unwrap_or_else(|| PathBuf::from(PROGRAM));
    let error = Command::new(&program).arg(command).args(args).exec();
    if error.kind() == ErrorKind::NotFound {
        return Failure::User(format!(
            "'laxity {command}' is done by the program {PROGRAM}, which is neither beside this one nor in the PATH; \
             'cargo build --release -p {PROGRAM}' makes it"
        ));
    }
    Failure::World(anyhow::anyhow!("cannot start {}: {error}", program.display()))
}
