//! Does what a run is asked for while it goes on.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use laxity_engine::{CheckpointSnapshot, Ending, Engine, Promise};
use laxity_graph::{LatencyTarget, QueryId};
use laxity_sql::{CompileOptions, PlannedQuery, SqlFile, qos_curve};
use laxity_state::Mirror;
use laxity_text::closest;

use super::PATIENCE;
use super::question::{Answer, Question, SentFile};
use crate::args::RunArgs;
use crate::failure::Failure;
use crate::pace::Pace;
use crate::quantity::{plural, short_duration};
use crate::{run, script};

/// Knows the run that it does things for.
pub struct Clerk {
    engine: Weak<Engine>,
    admission: Admission,
    /// Held while queries change. True once the run is about to end.
    closed: Mutex<bool>,
}

/// How queries that come later are taken: as those that the run began with.
pub struct Admission {
    /// What the run was asked for.
    pub args: RunArgs,
    /// The copy of its state folder.
    pub mirror: Option<Arc<Mirror>>,
    /// At which its tables are offered, if not at that of the files.
    pub pace: Option<Pace>,
    /// Unix time at which processing time is zero.
    pub processing_origin_ms: i64,
}

impl Clerk {
    /// It does not keep the engine from ending.
    pub fn new(engine: Weak<Engine>, admission: Admission) -> Clerk {
        Clerk { engine, admission, closed: Mutex::default() }
    }

    /// Waits until no query changes, so that one which makes way for another is not taken for the last.
    pub fn wait_idle(&self) {
        drop(self.lock());
    }

    /// No query changes any more.
    pub fn close(&self) {
        *self.lock() = true;
    }

    fn lock(&self) -> MutexGuard<'_, bool> {
        self.closed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What came of it.
    pub fn answer(&self, question: Question) -> Vec<Answer> {
        let closed = self.lock();
        let engine = self.engine.upgrade().filter(|_| !*closed);
        let Some(engine) = engine else { return vec![Answer::Refused("the run is about to end".into())] };
        match question {
            Question::Checkpoint { query } => {
                drop(closed);
                checkpoint(&engine, query.as_deref())
            }
            Question::Add { files, replace } => self.add(&engine, files, replace),
            Question::Alter { query, target_ns, weight, qos } => {
                vec![
                    alter(&engine, &query, target_ns, weight, qos.as_deref()).unwrap_or_else(Answer::Refused),
                ]
            }
            Question::Cancel { query, drop: at_once } => {
                let cancelled = cancel(&engine, &query, at_once);
                drop(closed);
                vec![cancelled.map_or_else(Answer::Refused, |id| ended(&engine, id, &query))]
            }
        }
    }

    /// Nothing runs of files with a mistake. Of those without, each query by itself.
    fn add(&self, engine: &Engine, files: Vec<SentFile>, replace: bool) -> Vec<Answer> {
        let Admission { args, processing_origin_ms, .. } = &self.admission;
        let files: Vec<SqlFile> =
            files.into_iter().map(|SentFile { path, text }| SqlFile { path, text }).collect();
        let options = CompileOptions {
            processing_origin_ms: *processing_origin_ms,
            verify_approximate: args.verify_approx,
        };
        let compiled = laxity_sql::compile_each(&files, options);
        if !compiled.errors.is_empty() {
            return compiled.errors.iter().map(|error| Answer::Refused(error.to_string())).collect();
        }
        let script = match &args.sql.root {
            Some(root) => script::kept_within(compiled.script, root),
            None => compiled.script,
        };
        let told = |text: &String| Answer::Told(text.clone());
        let mut answers: Vec<Answer> =
            script.warnings.iter().map(|warning| Answer::Told(format!("warning: {warning}"))).collect();
        answers.extend(script.explanations.iter().map(told));
        if script.policy.is_some() {
            answers.push(Answer::Told("warning: 'laxity.policy' is the run's, and stays".into()));
        }
        let queries = match &self.admission.pace {
            Some(pace) => pace.apply(script.queries).0,
            None => script.queries,
        };
        if queries.is_empty() && answers.is_empty() {
            return vec![Answer::Refused("nothing to run: the files have no INSERT and no SELECT".into())];
        }
        answers.extend(queries.into_iter().map(|query| self.admit(engine, query, replace)));
        answers
    }

    fn admit(&self, engine: &Engine, query: PlannedQuery, replace: bool) -> Answer {
        let Admission { args, mirror, .. } = &self.admission;
        let (name, paths) = (query.dataflow.settings.name.clone(), query.paths.clone());
        let plan = run::plan_of(args, mirror.as_ref(), query);
        let old = engine.named(&name).filter(|_| replace);
        let admitted = match &old {
            Some((old, _)) => engine.replace(*old, plan),
            None => engine.submit(plan),
        };
        match (admitted, old) {
            (Ok(_), None) => Answer::Told(format!("query {name} runs")),
            (Ok(_), Some(_)) => Answer::Told(format!("query {name} runs in the place of the one before")),
            (Err(error), _) => refusal(&name, run::refused_at(error, &paths)),
        }
    }
}

fn refusal(name: &str, failure: Failure) -> Answer {
    let text = format!("query {name} does not run: {}", failure.text());
    match failure {
        Failure::User(_) => Answer::Refused(text),
        Failure::World(_) => Answer::Failed(text),
    }
}

fn checkpoint(engine: &Engine, query: Option<&str>) -> Vec<Answer> {
    let taken = engine.checkpoint(query, PATIENCE);
    if taken.is_empty() {
        let which = query.map(|query| format!(" '{query}'")).unwrap_or_default();
        return vec![Answer::Refused(format!("no query{which} with checkpoints runs there"))];
    }
    let answer = |(query, taken): (String, _)| match taken {
        Ok(CheckpointSnapshot { number, bytes, written_bytes, longest_pause_ns, .. }) => {
            Answer::Saved { query, number, bytes, written_bytes, longest_pause_ns }
        }
        Err(error) => Answer::Failed(format!("query {query}: no checkpoint: {error}")),
    };
    taken.into_iter().map(answer).collect()
}

fn alter(
    engine: &Engine,
    name: &str,
    target_ns: Option<u64>,
    weight: Option<f64>,
    qos: Option<&str>,
) -> Result<Answer, String> {
    let (id, mut promise) = find(engine, name)?;
    if let Some(target_ns) = target_ns {
        let target = LatencyTarget::new(Duration::from_nanos(target_ns));
        promise.latency_target = target.ok_or("a target is more than zero")?;
    }
    if let Some(weight) = weight {
        let is_weight = weight.is_finite() && weight > 0.0;
        promise.weight = Some(weight).filter(|_| is_weight).ok_or("a weight is a number above zero")?;
    }
    match qos {
        Some("") => promise.qos = None,
        Some(points) => promise.qos = Some(qos_curve(points)?),
        None => {}
    }
    let Promise { latency_target, weight, qos } = promise.clone();
    if !engine.alter(id, promise) {
        return Err(format!("query '{name}' has just ended"));
    }
    let curve = if qos.is_some() { ", a curve of its own" } else { "" };
    let target = short_duration(latency_target.ns());
    Ok(Answer::Told(format!("query {name}: target {target}, weight {weight}{curve}")))
}

fn cancel(engine: &Engine, name: &str, at_once: bool) -> Result<QueryId, String> {
    let (id, _) = find(engine, name)?;
    let ending = if at_once { Ending::Drop } else { Ending::Drain };
    match engine.cancel(id, ending) {
        true => Ok(id),
        false => Err(format!("query '{name}' has just ended")),
    }
}

/// Waits until a query that was cancelled is gone, and says what it came to.
fn ended(engine: &Engine, id: QueryId, name: &str) -> Answer {
    let is_gone = engine.wait_gone(id, PATIENCE);
    let mut text = format!("query {name} has ended");
    match engine.query(id).map_or(0, |query| query.rows_dropped) {
        0 => {}
        rows => text.push_str(&format!("; {} of what it had read dropped", plural(rows as usize, "row"))),
    }
    if !is_gone {
        text.push_str("; its outputs are not closed yet");
    }
    Answer::Told(text)
}

fn find(engine: &Engine, name: &str) -> Result<(QueryId, Promise), String> {
    engine.named(name).ok_or_else(|| {
        let running = engine.running();
        let near = closest(name, running.iter().map(String::as_str));
        let near = near.map(|near| format!("; there is '{near}'")).unwrap_or_default();
        format!("no query '{name}' runs there{near}")
    })
}
