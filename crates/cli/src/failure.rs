//! Why the program ends without having done what it was asked to, and the exit code that says so.

use std::process::ExitCode;

/// A reason to give up.
#[derive(Debug)]
pub enum Failure {
    /// The SQL or an option has to be corrected: exit code 2.
    User(String),
    /// A file, a disk, a permission; or our bug: exit code 1.
    World(anyhow::Error),
}

/// Everything was written.
pub const SUCCESS: u8 = 0;
/// At least one file was refused, and the others were taken.
pub const FILE_REFUSED: u8 = 1;
/// At least one query was stopped by an error.
pub const QUERY_FAILED: u8 = 1;
/// No query failed, but the run was stopped before all that was read had been worked off.
pub const ROWS_DROPPED: u8 = 3;

impl Failure {
    /// As the last line says it.
    pub fn text(&self) -> String {
        match self {
            Failure::User(text) => text.clone(),
            // Causes on one line: "cannot open "a.csv": No such file or directory".
            Failure::World(error) => format!("{error:#}"),
        }
    }

    /// See the variants.
    pub fn exit_code(&self) -> ExitCode {
        match self {
            Failure::User(_) => ExitCode::from(2),
            Failure::World(_) => ExitCode::from(1),
        }
    }
}

impl From<anyhow::Error> for Failure {
    fn from(error: anyhow::Error) -> Failure {
        Failure::World(error)
    }
}
