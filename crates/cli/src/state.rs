//! Checkpoints on the command line: what `run --state` asks for, and `laxity state show`.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use laxity_engine::{QueryPlan, StatePlan, complete};
use laxity_graph::CheckpointPlace;
use laxity_s3::S3;
use laxity_sql::PlannedQuery;
use laxity_state::{Checkpoint, Checkpoints, Manifest, Mirror, SourceEntry, StateError, StateFolder};

use crate::args::{RunArgs, StateArgs, StateCommand};
use crate::ask::written;
use crate::failure::Failure;
use crate::quantity::{short_bytes, short_duration};
use crate::screen::Screen;

/// From one checkpoint to the next, where nobody says.
const INTERVAL_DEFAULT: Duration = Duration::from_secs(10);

/// Where a query's checkpoints go, and how often; `None` if it has none.
pub fn plan(args: &RunArgs, mirror: Option<&Arc<Mirror>>, query: &PlannedQuery) -> Option<StatePlan> {
    let own = query.dataflow.settings.checkpoints.as_ref();
    Some(StatePlan {
        folder: folder(args, query)?,
        mirror: mirror.cloned(),
        interval: own.map_or(INTERVAL_DEFAULT, |own| own.interval),
        shape: query.shape.clone(),
        ignores: names(query).any(|name| args.state_ignore.contains(name)),
        at: at(args, &query.dataflow.settings.name),
    })
}

fn folder(args: &RunArgs, query: &PlannedQuery) -> Option<PathBuf> {
    let own = || match query.dataflow.settings.checkpoints.as_ref()?.place.clone()? {
        CheckpointPlace::Folder(folder) => Some(folder),
        CheckpointPlace::Elsewhere(_) => None,
    };
    args.state.clone().or_else(own)
}

/// A query's own, and that of the STATEMENT SET that it is a part of.
fn names(query: &PlannedQuery) -> impl Iterator<Item = &String> {
    [&query.dataflow.settings.name].into_iter().chain(&query.set)
}

/// Makes the state folder what is in the store that is to have a copy of it, if there is one.
///
/// # Errors
/// If the store cannot be used, or is not the folder's.
pub fn mirror(args: &RunArgs) -> Result<Option<Arc<Mirror>>, Failure> {
    let (Some(address), Some(folder)) = (&args.state_store, &args.state) else { return Ok(None) };
    let store = S3::new(address, |name| std::env::var(name).ok().filter(|value| !value.is_empty()));
    let store = store.map_err(|error| Failure::User(format!("--state-store: {error}")))?;
    match Mirror::begin(folder, Arc::new(store)) {
        Ok(mirror) => Ok(Some(mirror)),
        Err(error @ (StateError::InUse { .. } | StateError::Newer { .. } | StateError::Behind { .. })) => {
            Err(Failure::User(error.to_string()))
        }
        Err(error) => Err(Failure::World(error.into())),
    }
}

/// The checkpoint that a query is to go back to: what names it goes before what names none.
fn at(args: &RunArgs, query: &str) -> Option<u64> {
    let own = args.at.iter().find(|at| at.query.as_deref() == Some(query));
    own.or_else(|| args.at.iter().find(|at| at.query.is_none())).map(|at| at.number)
}

/// Names that are to begin anew, or to go back, must be there.
///
/// # Errors
/// Names the one that is not.
pub fn check_names(args: &RunArgs, queries: &[PlannedQuery]) -> Result<(), Failure> {
    let own = || queries.iter().map(|query| &query.dataflow.settings.name);
    let is_own = |wanted: &String| own().any(|name| name == wanted);
    let is_named = |wanted: &String| queries.iter().any(|query| names(query).any(|name| name == wanted));
    let ignored =
        args.state_ignore.iter().filter(|query| !is_named(query)).map(|query| ("--state-ignore", query));
    let gone_back = args.at.iter().filter_map(|at| Some(("--at", at.query.as_ref()?)));
    match ignored.chain(gone_back.filter(|(_, query)| !is_own(query))).next() {
        None => Ok(()),
        Some((option, unknown)) => {
            let known: Vec<&str> = own().map(String::as_str).collect();
            let message = format!("{option}: no query is named '{unknown}'; there are {}", known.join(", "));
            Err(Failure::User(message))
        }
    }
}

/// The INSERTs of a STATEMENT SET were one query once. They cannot go on from a checkpoint of that, and what it has written they
/// must not write again unasked.
///
/// # Errors
/// Names a set of which there is one, if none of its queries has a checkpoint of its own.
pub fn check_sets(args: &RunArgs, queries: &[PlannedQuery]) -> Result<(), Failure> {
    let mut sets: BTreeMap<(PathBuf, &String), Vec<&PlannedQuery>> = BTreeMap::new();
    for query in queries {
        if let (Some(set), Some(folder)) = (&query.set, folder(args, query)) {
            sets.entry((folder, set)).or_default().push(query);
        }
    }
    for ((folder, set), parts) in sets {
        let is_query = queries.iter().any(|query| query.dataflow.settings.name == *set);
        if is_query || args.state_ignore.contains(set) || !folder.is_dir() {
            continue;
        }
        let failed = |error: StateError| Failure::User(chain(&error));
        let look = StateFolder::look(&folder).map_err(failed)?;
        let is_kept =
            |name: &String| look.query(name).checkpoints().map(|of| !of.whole.is_empty()).map_err(failed);
        let names = || parts.iter().map(|query| &query.dataflow.settings.name);
        if is_kept(set)? && !names().map(is_kept).collect::<Result<Vec<_>, _>>()?.contains(&true) {
            let names: Vec<&str> = names().map(String::as_str).collect();
            return Err(Failure::User(format!(
                "{} has checkpoints of the STATEMENT SET '{set}' as one query, from an earlier version: now each INSERT is a query \
                 of its own ({}), which cannot go on from them; --state-ignore '{set}' begins them anew, and writes again what \
                 was written",
                folder.display(),
                names.join(", "),
            )));
        }
    }
    Ok(())
}

/// A store that a file names is worked with where the command says so too: whoever begins with it takes it from the run that
/// has it, and a file is also run to be tried out.
///
/// # Errors
/// Says how to name it.
pub fn check_places(args: &RunArgs, queries: &[PlannedQuery]) -> Result<(), Failure> {
    if args.state.is_some() {
        return Ok(());
    }
    for query in queries {
        let settings = &query.dataflow.settings;
        let place = settings.checkpoints.as_ref().and_then(|checkpoints| checkpoints.place.as_ref());
        if let Some(CheckpointPlace::Elsewhere(uri)) = place {
            let store = if uri.starts_with("s3://") { uri } else { "s3://BUCKET/PREFIX" };
            return Err(Failure::User(format!(
                "query {}: 'execution.checkpointing.dir' is '{uri}', which is no folder of this machine: give --state FOLDER, \
                 and --state-store '{store}' to have a copy of it there and go on from that",
                settings.name
            )));
        }
    }
    Ok(())
}

/// Queries of a run.
pub struct Plans {
    /// Something is left to be done.
    pub left: Vec<QueryPlan>,
    /// Nothing is.
    pub complete: Vec<QueryPlan>,
}

/// Tells those that are complete, and names them.
pub fn by_what_is_left(plans: Vec<QueryPlan>, screen: &Screen) -> Plans {
    let (mut left, mut done) = (Vec::new(), Vec::new());
    let complete = complete(&plans);
    for (plan, is_complete) in plans.into_iter().zip(complete) {
        let settings = &plan.dataflow.settings;
        let name = &settings.name;
        if plan.state.is_none() && settings.checkpoints.is_some() {
            screen.say(&format!(
                "warning: query {name} has no checkpoints: no folder is named for them; SET 'execution.checkpointing.dir' \
                 or give --state FOLDER"
            ));
        }
        match plan.state.as_ref().filter(|_| is_complete) {
            None => left.push(plan),
            Some(state) => {
                screen.say(&format!(
                    "query {name} is complete, as {} says: nothing is left to be done; --state-ignore '{name}' runs it anew",
                    state.folder.display()
                ));
                done.push(plan);
            }
        }
    }
    Plans { left, complete: done }
}

/// Does what is asked; the answer as text.
///
/// # Errors
/// If the folder cannot be read.
pub fn state(args: &StateArgs) -> Result<String, Failure> {
    let StateCommand::Show { folder } = &args.command;
    show(folder, unix_ms())
}

#[expect(clippy::disallowed_methods, reason = "a person asks how old something is")]
fn unix_ms() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(now.as_millis()).unwrap_or(i64::MAX)
}

fn show(folder: &Path, now_ms: i64) -> Result<String, Failure> {
    let failed = |error: laxity_state::StateError| Failure::User(chain(&error));
    let mut text = String::new();
    let look = StateFolder::look(folder).map_err(failed)?;
    for query in look.queries().map_err(failed)? {
        let Checkpoints { whole, damaged, .. } = query.checkpoints().map_err(failed)?;
        let name = whole.first().map_or_else(
            || query.path().file_name().unwrap_or_default().to_string_lossy().into_owned(),
            |last| last.manifest.query.clone(),
        );
        if whole.is_empty() && damaged.is_empty() {
            continue;
        }
        // Writing to a String cannot fail.
        let _ = writeln!(text, "query {name}");
        whole.iter().for_each(|checkpoint| show_one(checkpoint, now_ms, &mut text));
        for damaged in damaged {
            let _ = writeln!(text, "  {}: {}", damaged.path.display(), damaged.reason);
        }
    }
    if text.is_empty() {
        text = format!("no checkpoints in {}\n", folder.display());
    }
    Ok(text)
}

fn show_one(checkpoint: &Checkpoint, now_ms: i64, text: &mut String) {
    let Manifest { checkpoint: number, taken_unix_ms, is_finished, sources, outputs, counts, .. } =
        &checkpoint.manifest;
    let age_ms = u64::try_from(now_ms.saturating_sub(*taken_unix_ms)).unwrap_or(0);
    let age = short_duration(age_ms.saturating_mul(1_000_000));
    let manifest = &checkpoint.manifest;
    let (size, files) = (short_bytes(manifest.bytes()), manifest.files.len());
    let new = written(manifest.bytes(), manifest.written_bytes());
    let complete = if *is_finished { ", complete" } else { "" };
    let _ = writeln!(text, "  checkpoint {number}: {age} ago, {size} in {files} tables{new}{complete}");
    for source in sources {
        let _ = writeln!(text, "    {} {}", source.table, place(source));
    }
    for output in outputs {
        let _ = writeln!(text, "    {} {}", output.table, position(&output.position));
    }
    let counts = counts.iter().filter(|(_, rows)| **rows > 0);
    let counts: Vec<String> =
        counts.map(|(name, rows)| format!("{} {rows}", name.replace('-', " "))).collect();
    if !counts.is_empty() {
        let _ = writeln!(text, "    {}", counts.join(", "));
    }
}

fn place(source: &SourceEntry) -> String {
    match &source.offsets {
        _ if source.has_ended => "read to its end".into(),
        None if source.after_records > 0 => {
            format!("read up to row {} behind record {}", source.rows, source.after_records)
        }
        None => format!("read up to row {}", source.rows),
        Some(offsets) => {
            let parts = offsets.next.iter().map(|(topic, part, next)| format!("{topic}/{part} {next}"));
            let amid = offsets.files.iter().filter(|file| !file.is_whole).map(|file| match file.records {
                0 => format!("{} line {}", file.path, file.lines),
                records => format!("{} record {records}", file.path),
            });
            let mut places: Vec<String> = parts.chain(amid).collect();
            let whole = offsets.files.iter().filter(|file| file.is_whole).count();
            if whole > 0 {
                places.push(format!("the end of {whole} files"));
            }
            if places.is_empty() {
                "nothing read yet".into()
            } else {
                format!("read up to {}", places.join(", "))
            }
        }
    }
}

fn position(position: &serde_json::Value) -> String {
    match position.pointer("/length/bytes").and_then(serde_json::Value::as_u64) {
        Some(length) => format!("written up to byte {length}"),
        None if position.as_str() == Some("none") => "written at least once".into(),
        None => format!("written up to {position}"),
    }
}

fn chain(error: &dyn std::error::Error) -> String {
    match error.source() {
        Some(cause) => format!("{error}: {cause}"),
        None => error.to_string(),
    }
}
