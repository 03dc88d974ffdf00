//! SQL files, read and compiled.

use std::io::Read;
use std::path::{Path, PathBuf};

use anyhow::Context;
use laxity_sql::{CompileOptions, Script, SqlFile};

use crate::failure::Failure;

/// Reads the files. `-` is the standard input.
///
/// # Errors
/// [`Failure::User`] if one cannot be read.
pub fn read(files: &[PathBuf]) -> Result<Vec<SqlFile>, Failure> {
    let files = files.iter().map(|path| read_one(path)).collect::<anyhow::Result<Vec<SqlFile>>>();
    files.map_err(|error| Failure::User(format!("{error:#}")))
}

/// Compiles the files in their order, as one script. `processing_origin_ms` is the Unix time of the engine's start.
///
/// # Errors
/// [`Failure::User`] if the SQL is wrong.
pub fn compile(files: &[SqlFile], processing_origin_ms: i64) -> Result<Script, Failure> {
    laxity_sql::compile_with(files, CompileOptions { processing_origin_ms })
        .map_err(|error| Failure::User(error.to_string()))
}

fn read_one(path: &Path) -> anyhow::Result<SqlFile> {
    let mut text = String::new();
    if path == Path::new("-") {
        std::io::stdin().read_to_string(&mut text).context("cannot read the standard input")?;
    } else {
        text = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    }
    Ok(SqlFile { path: path.to_path_buf(), text })
}
