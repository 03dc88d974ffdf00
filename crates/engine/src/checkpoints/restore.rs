//! Which checkpoint a query goes on from.

use std::collections::HashMap;

use arrow::array::RecordBatch;
use laxity_connect::{
    OutputPosition, SinkEnvironment, SinkSpec, committed_checkpoint, keeps_record, open_sink,
};
use laxity_state::{Checkpoint, Checkpoints as Stored, Manifest, QueryFolder, StateFolder};

use super::{Checkpoints, Store};
use crate::chain_of_causes;
use crate::plan::{QueryPlan, StatePlan, SubmitError};

/// A checkpoint that a query goes on from.
pub(crate) struct Restored {
    pub manifest: Manifest,
    /// By instance of the manifest: what its operator held.
    pub tables: Vec<Vec<(String, RecordBatch)>>,
}

/// Where the checkpoints of a query are to go, and what is there.
pub(crate) struct Found {
    pub store: Store,
    /// The number of the next.
    pub next: u64,
    /// `None` where it begins.
    pub restored: Option<Restored>,
}

impl Restored {
    /// Where an output stood.
    pub fn output(&self, number: usize) -> Option<OutputPosition> {
        output(&self.manifest, number)
    }
}

/// Looks for what a query of that name and shape goes on from. `outputs`: what it writes, and which part of it.
///
/// # Errors
/// If the folder cannot be used, what is in it is of another query, or no checkpoint can be used.
pub(crate) fn find(
    checkpoints: &Checkpoints,
    query: &str,
    plan: &StatePlan,
    outputs: &[(SinkSpec, usize)],
) -> Result<Found, SubmitError> {
    let refused = |message: String| SubmitError::State { query: query.into(), message };
    one_keeps_record(outputs).map_err(&refused)?;
    let failed = |source| SubmitError::Store { query: query.into(), source };
    let open = checkpoints.folder(&plan.folder, plan.mirror.as_ref()).map_err(failed)?;
    let folder = open.query(query);
    let stored = folder.checkpoints().map_err(failed)?;
    let store = Store { open, folder, shape: plan.shape.clone() };
    let next = stored.last + 1;
    if plan.ignores {
        return Ok(Found { store, next, restored: None });
    }
    for damaged in &stored.damaged {
        tracing::warn!(query, file = %damaged.path.display(), reason = damaged.reason, "the checkpoint cannot be used");
    }
    let anew =
        format!("begin anew with --state-ignore '{query}', or remove {}", store.folder.path().display());
    let mut candidates: Vec<&Checkpoint> =
        stored.whole.iter().filter(|one| one.manifest.query == query).collect();
    if let Some(foreign) = stored.whole.iter().find(|one| one.manifest.query != query) {
        let (of, path) = (&foreign.manifest.query, foreign.path().display().to_string());
        tracing::warn!(query, of, path, "the checkpoint is of another query");
    }
    let all = candidates.clone();
    if let Some(at) = plan.at {
        candidates.retain(|one| one.manifest.checkpoint == at);
        if candidates.is_empty() {
            let numbers: Vec<String> = all.iter().map(|one| one.manifest.checkpoint.to_string()).collect();
            let there = if numbers.is_empty() { "none".to_owned() } else { numbers.join(", ") };
            return Err(refused(format!(
                "it has no checkpoint {at} in {}; there are: {there}",
                store.folder.path().display()
            )));
        }
    }
    let committed = committed(query, outputs, all.first().map(|one| &one.manifest))?;
    if let (Some(at), Some(number)) = (plan.at, committed)
        && at != number
    {
        return Err(refused(format!(
            "its output has committed checkpoint {number} and lets nothing be taken back, so what followed checkpoint {at} \
             would be there twice: go on without --at, or write into another table"
        )));
    }
    let Some(last) = candidates.first() else {
        if let Some(number) = committed.filter(|number| *number > 0) {
            return Err(refused(format!(
                "its output has committed checkpoint {number}, which is not in the state folder: go on with the folder \
                 that has it, or {anew}"
            )));
        }
        return match (stored.last, stored.damaged.is_empty()) {
            (0, true) => Ok(Found { store, next, restored: None }),
            _ => Err(refused(format!("none of its checkpoints can be used; {anew}"))),
        };
    };
    if last.manifest.is_finished && committed.is_none_or(|number| number == last.manifest.checkpoint) {
        let folder = store.folder.path().to_owned();
        return Err(SubmitError::Complete { query: query.into(), folder });
    }
    if committed == Some(0) {
        return Ok(Found { store, next, restored: None });
    }
    if let Some(difference) = difference(&last.manifest.shape, &plan.shape) {
        return Err(refused(format!("its state is of another query: {difference}; {anew}")));
    }
    let restored = usable(query, &candidates, committed);
    let restored = restored.ok_or_else(|| match committed {
        Some(number) => refused(format!(
            "its output has committed checkpoint {number}, which is not there or damaged; {anew}"
        )),
        None => refused(format!("none of its checkpoints can be used; {anew}")),
    })?;
    Ok(Found { store, next, restored: Some(restored) })
}

/// Of two outputs that commit by themselves, one may have committed a checkpoint when the process ends that the other never
/// can: what that had written is gone with its transaction.
fn one_keeps_record(outputs: &[(SinkSpec, usize)]) -> Result<(), String> {
    let names = outputs.iter().map(|(spec, _)| &spec.table);
    let kept: Vec<&str> =
        names.filter(|table| keeps_record(table)).map(|table| table.name.as_str()).collect();
    match kept[..] {
        [one, other, ..] => Err(format!(
            "{one:?} and {other:?} are both written exactly once, each in transactions of its own, which do not commit as one: \
             write one of them at least once, or into files"
        )),
        _ => Ok(()),
    }
}

/// Which of these queries nothing is left to be done for: the last checkpoint says so, and the outputs do not say otherwise.
/// Where that cannot be told it is false, and [`submit`](crate::Engine::submit) tells why. What outputs have prepared and
/// the process did not live to let be seen, is seen after that.
pub fn complete(plans: &[QueryPlan]) -> Vec<bool> {
    // What is in a folder is looked for once.
    let mut folders = HashMap::new();
    let mut is_complete = |plan: &QueryPlan| {
        let state = plan.state.as_ref().filter(|state| !state.ignores && state.at.is_none())?;
        let folder =
            folders.entry(state.folder.clone()).or_insert_with_key(|path| StateFolder::look(path).ok());
        Some(is_one_complete(plan, state, &folder.as_ref()?.query(&plan.dataflow.settings.name)))
    };
    plans.iter().map(|plan| is_complete(plan).unwrap_or(false)).collect()
}

fn is_one_complete(plan: &QueryPlan, state: &StatePlan, folder: &QueryFolder) -> bool {
    let query = &plan.dataflow.settings.name;
    let Ok(Stored { whole, .. }) = folder.checkpoints() else { return false };
    let last = whole.iter().map(|one| &one.manifest).find(|manifest| manifest.query == *query);
    let Some(last) = last.filter(|last| last.is_finished) else { return false };
    let outputs = plan.outputs();
    let committed = committed(query, &outputs, Some(last));
    let is_complete = committed.is_ok_and(|number| number.is_none_or(|number| number == last.checkpoint));
    // Nobody else works with it just now.
    if is_complete && StateFolder::open(&state.folder).is_ok() {
        finish_commits(query, &outputs, last);
    }
    is_complete
}

/// The process may have ended between its last checkpoint and telling its outputs of that: who goes on from there lets them
/// be seen.
fn finish_commits(query: &str, outputs: &[(SinkSpec, usize)], last: &Manifest) {
    for (number, (spec, part)) in outputs.iter().enumerate() {
        let resume = output(last, number).filter(|position| matches!(position, OutputPosition::Named(_)));
        if resume.is_none() {
            continue;
        }
        let environment = SinkEnvironment {
            query: query.into(),
            part: *part,
            is_checkpointed: true,
            resume,
            ..SinkEnvironment::default()
        };
        if let Err(error) = open_sink(spec, &environment) {
            let why = chain_of_causes(&error);
            tracing::warn!(
                query,
                table = spec.table.name,
                why,
                "the output of a complete query is not what it was"
            );
        }
    }
}

fn output(manifest: &Manifest, number: usize) -> Option<OutputPosition> {
    let entry = manifest.outputs.iter().find(|entry| entry.number == number)?;
    serde_json::from_value(entry.position.clone()).ok()
}

/// The last one that can be read, of that number if one is asked for.
fn usable(query: &str, candidates: &[&Checkpoint], number: Option<u64>) -> Option<Restored> {
    let asked = candidates.iter().filter(|one| number.is_none_or(|number| one.manifest.checkpoint == number));
    for checkpoint in asked {
        match checkpoint.tables() {
            Ok(tables) => return Some(Restored { manifest: checkpoint.manifest.clone(), tables }),
            Err(damaged) => tracing::warn!(
                query,
                file = %damaged.path.display(),
                reason = damaged.reason,
                "the checkpoint cannot be used; the one before is looked at"
            ),
        }
    }
    None
}

/// What the outputs themselves say was committed last, if any of them does.
fn committed(
    query: &str,
    outputs: &[(SinkSpec, usize)],
    last: Option<&Manifest>,
) -> Result<Option<u64>, SubmitError> {
    let mut said: Option<(u64, &str)> = None;
    for (number, (spec, part)) in outputs.iter().enumerate() {
        let environment = SinkEnvironment {
            query: query.into(),
            part: *part,
            is_checkpointed: true,
            resume: last.and_then(|last| output(last, number)),
            ..SinkEnvironment::default()
        };
        let committed = committed_checkpoint(spec, &environment)
            .map_err(|source| SubmitError::Connect { query: query.into(), source })?;
        let Some(committed) = committed else { continue };
        let table = spec.table.name.as_str();
        match said {
            Some((other, of)) if other != committed => {
                let message = format!(
                    "its outputs have not come equally far: {of:?} has committed checkpoint {other} and {table:?} \
                     checkpoint {committed}; write one exactly once, or begin anew with --state-ignore '{query}'"
                );
                return Err(SubmitError::State { query: query.into(), message });
            }
            _ => said = Some((committed, table)),
        }
    }
    Ok(said.map(|(number, _)| number))
}

/// The first line in which two queries differ.
pub(crate) fn difference(was: &[String], is: &[String]) -> Option<String> {
    let line = |lines: &[String], place: usize| match lines.get(place) {
        Some(line) => format!("'{}'", line.trim()),
        None => "nothing".to_owned(),
    };
    let place = (0..was.len().max(is.len())).find(|&place| was.get(place) != is.get(place))?;
    Some(format!("it had {} where the file has {}", line(was, place), line(is, place)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_changed_query_is_told_by_its_first_line_that_differs() {
        let lines = |lines: &[&str]| -> Vec<String> { lines.iter().map(|line| (*line).to_owned()).collect() };
        let was = lines(&["Sink", "  Calc x2", "    | a + 1"]);
        assert_eq!(difference(&was, &was), None);
        let is = lines(&["Sink", "  Calc x2", "    | a + 2"]);
        assert_eq!(difference(&was, &is).unwrap(), "it had '| a + 1' where the file has '| a + 2'");
        assert_eq!(difference(&was, &was[..2]).unwrap(), "it had '| a + 1' where the file has nothing");
    }
}
