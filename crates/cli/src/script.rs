//! SQL files, read and compiled: each with settings and tables of its own, or with `--shared` all as one script.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context;
use laxity_connect::{InputClaim, ROOT_OPTION, TableSpec};
use laxity_graph::Dataflow;
use laxity_operators::Stage;
use laxity_sql::{CompileOptions, Compiled, FlinkScript, Script, SqlFile};

use crate::args::SqlArgs;
use crate::failure::Failure;
use crate::pace::{Query, Tables};
use crate::screen::Screen;

/// Files as they were read. While this lives no sink, report or dead letter can be written over them.
#[derive(Debug)]
pub struct Files {
    files: Vec<SqlFile>,
    /// Whether they are one script.
    shared: bool,
    /// The only folder whose files they may name.
    root: Option<PathBuf>,
    /// Approximate results are held against exact ones.
    verify_approximate: bool,
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
    pub fn read(args: &SqlArgs) -> Files {
        let (shared, root) = (args.shared, args.root.clone());
        let verify_approximate = false;
        let mut files =
            Files { files: vec![], shared, root, verify_approximate, unread: vec![], _claims: vec![] };
        for path in &args.files {
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

    /// The same, with approximate results held against exact ones.
    #[must_use]
    pub fn verifying(self, verify_approximate: bool) -> Files {
        Files { verify_approximate, ..self }
    }

    /// True if they are several that have nothing to do with each other.
    pub fn are_apart(&self) -> bool {
        !self.shared && self.files.len() + self.unread.len() > 1
    }

    /// Compiles them. `processing_origin_ms` is the Unix time of the engine's start. What is wrong with a file is said
    /// on the screen, and the others are taken.
    ///
    /// # Errors
    /// [`Failure::User`] if no file can be taken, or if the files are one script and it is wrong.
    pub fn compile(&self, processing_origin_ms: i64, screen: &Screen) -> Result<Compilation, Failure> {
        let options = CompileOptions { processing_origin_ms, verify_approximate: self.verify_approximate };
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
        script.warnings.iter().for_each(|warning| screen.say(&format!("warning: {warning}")));
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
        let script = match &self.root {
            Some(root) => kept_within(script, root),
            None => script,
        };
        Ok(Compilation { script, refused: refused.len() })
    }
}

impl Files {
    /// What Flink is told instead: one script for each file, or one for all.
    ///
    /// # Errors
    /// [`Failure::User`] with all that is wrong: nothing is submitted by halves.
    pub fn for_flink(&self) -> Result<Vec<FlinkScript>, Failure> {
        let scripts: Vec<&[SqlFile]> = match self.shared {
            true => vec![&self.files],
            false => self.files.chunks(1).collect(),
        };
        let mut wrong = self.unread.clone();
        let mut taken = Vec::new();
        for files in scripts {
            match laxity_sql::flink_script(files) {
                Ok(script) => taken.push(script),
                Err(error) => wrong.push(error.to_string()),
            }
        }
        if wrong.is_empty() { Ok(taken) } else { Err(Failure::User(wrong.join("\n"))) }
    }
}

/// The script with every file of its tables kept below the folder.
pub fn kept_within(mut script: Script, root: &Path) -> Script {
    let keep = |table: &TableSpec| {
        let mut table = table.clone();
        if table.options.get("connector").is_some_and(|connector| connector == "filesystem") {
            table.options.insert(ROOT_OPTION.into(), root.display().to_string());
        }
        table
    };
    let mut tables = Tables::new(keep);
    for query in &mut script.queries {
        query.dataflow = with_sinks(&tables.replace(&query.dataflow), keep);
        if let Some(late) = &mut query.late {
            late.sink.table = Arc::new(keep(&late.sink.table));
        }
        query.lookups.iter().for_each(|lookup| lookup.change(keep));
    }
    script
}

/// The dataflow with every table that it writes exchanged.
pub fn with_sinks(dataflow: &Query, change: impl Fn(&TableSpec) -> TableSpec) -> Query {
    let mut changed = Dataflow::new(dataflow.settings.clone());
    for node in dataflow.nodes() {
        let mut node = node.clone();
        if let Stage::Sink(sink) = &mut node.stage {
            sink.table = Arc::new(change(&sink.table));
        }
        changed.push(node).expect("it was a dataflow before");
    }
    changed
}

/// A file, and that nothing may be written over it meanwhile. `-` is the standard input.
pub fn read_one(path: &Path) -> anyhow::Result<(SqlFile, Option<InputClaim>)> {
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
