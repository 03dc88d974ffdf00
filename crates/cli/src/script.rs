//! SQL files, read and compiled: each with settings and tables of its own, or with `--shared` all as one script.

use std::io::Read;
use std::path::{Path, PathBuf};

use anyhow::Context;
use laxity_connect::InputClaim;
use laxity_sql::{CompileOptions, Compiled, Script, SqlFile};

use crate::failure::Failure;
use crate::screen::Screen;

/// Files as they were read. While this lives no sink, report or dead letter can be written over them.
#[derive(Debug)]
pub struct Files {
    files: Vec<SqlFile>,
    /// Whether they are one script.
    shared: bool,
    /// Why others could not be read.
    unread: Vec<String>,
    _claims: Vec<InputClaim>,
}

/// What the files come to.
#[derive(Debug)]
pub struct Compilation {
    /// The queries of the files that could be read and compiled.
    pub script: Script,
    /// How many files could not.
    pub refused: usize,
}

impl Files {
    /// Reads the files. `-` is the standard input.
    pub fn read(paths: &[PathBuf], shared: bool) -> Files {
        let mut files = Files { files: vec![], shared, unread: vec![], _claims: vec![] };
        for path in paths {
            match read_one(path) {
                Ok((file, claim)) => {
                    files.files.push(file);
                    files._claims.extend(claim);
                }
                Err(error) => files.unread.push(format!("{error:#}")),
            }
        }
        files
    }

    /// Compiles them. `processing_origin_ms` is the Unix time of the engine's start. What is wrong with a file is said
    /// on the screen, and the others are taken.
    ///
    /// # Errors
    /// [`Failure::User`] if no file can be taken, or if the files are one script and it is wrong.
    pub fn compile(&self, processing_origin_ms: i64, screen: &Screen) -> Result<Compilation, Failure> {
        let options = CompileOptions { processing_origin_ms };
        let Compiled { script, errors } = if self.shared {
            if let Some(first) = self.unread.first() {
                return Err(Failure::User(first.clone()));
            }
            let script = laxity_sql::compile_with(&self.files, options);
            script
                .map(|script| Compiled { script, errors: vec![] })
                .map_err(|error| Failure::User(error.to_string()))?
        } else {
            laxity_sql::compile_each(&self.files, options)
        };
        let mut refused = self.unread.clone();
        refused.extend(errors.iter().map(ToString::to_string));
        if refused.len() == self.files.len() + self.unread.len() {
            return Err(Failure::User(refused.join("\n")));
        }
        refused.iter().for_each(|error| screen.say(error));
        if !refused.is_empty() {
            let all = self.files.len() + self.unread.len();
            screen.say(&format!("laxity: {} of {all} files refused; the others are taken", refused.len()));
        }
        Ok(Compilation { script, refused: refused.len() })
    }
}

fn read_one(path: &Path) -> anyhow::Result<(SqlFile, Option<InputClaim>)> {
    let (text, claim) = if path == Path::new("-") {
        let mut text = String::new();
        std::io::stdin().read_to_string(&mut text).context("cannot read the standard input")?;
        (text, InputClaim::of_standard_input())
    } else {
        let text =
            std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
        (text, InputClaim::of(path))
    };
    Ok((SqlFile { path: path.to_path_buf(), text }, claim))
}
