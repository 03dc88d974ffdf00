//! Queries with checkpoints that the world has ended are started again, each by itself, from their last one: with growing
//! pauses, and a bounded number of times unless a checkpoint shows that it helped.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use laxity_connect::Wait;
use laxity_graph::{EventTime, NodeId, ProcessingTime, QueryId};
use laxity_runtime::{Outcome, Query};
use parking_lot::Mutex;

use crate::clock::Clock;
use crate::config::JoinFrom;
use crate::place::Place;
use crate::plan::{QueryPlan, SubmitError};

/// The plans of queries that may be started again, and those that are about to be.
#[derive(Default)]
pub(crate) struct Restarts {
    /// After the registry's: nobody asks that while it is held.
    state: Mutex<State>,
    /// How a query is submitted.
    submit: OnceLock<Box<Submit>>,
}

type Submit = dyn Fn(&Arc<QueryPlan>, Beginning) -> Result<QueryId, SubmitError> + Send + Sync;

/// Where a query begins to read that has no checkpoint.
#[derive(Clone, Default)]
pub(crate) struct Beginning {
    /// What was asked for.
    pub from: JoinFrom,
    /// Of one that is started again: where its sources began. A pipe has no such place.
    pub began: HashMap<NodeId, Place>,
    /// How often it was started again since its last checkpoint.
    tries: u32,
}

impl From<JoinFrom> for Beginning {
    fn from(from: JoinFrom) -> Beginning {
        Beginning { from, ..Beginning::default() }
    }
}

#[derive(Default)]
struct State {
    /// Of queries that run.
    plans: HashMap<QueryId, Kept>,
    /// Those that have failed, by their old id.
    due: HashMap<QueryId, Due>,
    has_thread: bool,
}

struct Kept {
    plan: Arc<QueryPlan>,
    beginning: Beginning,
}

struct Due {
    plan: Arc<QueryPlan>,
    /// With the number of this start, from 1.
    beginning: Beginning,
    at: ProcessingTime,
    since: EventTime,
    why: String,
}

/// After so many that led to no checkpoint it stays as it is. With the pauses, that is three minutes.
const TRIES_MAX: u32 = 8;

/// What is to be done about those that are to be started again.
pub(crate) enum Next {
    /// None is due yet.
    Wait,
    /// One is, whose id was this.
    Start(QueryId),
    /// There is none any more, and this was the thread's last question.
    Over,
}

fn pause_s(attempt: u32) -> u64 {
    (1 << (attempt - 1).min(6)).min(60)
}

impl Restarts {
    /// How queries are submitted. Once, before the first.
    pub fn submits_by(
        &self,
        submit: impl Fn(&Arc<QueryPlan>, Beginning) -> Result<QueryId, SubmitError> + Send + Sync + 'static,
    ) {
        let _ = self.submit.set(Box::new(submit));
    }

    /// A query that is to go on should the world end it. Before anything of it runs.
    pub fn keep(&self, id: QueryId, plan: Arc<QueryPlan>, beginning: Beginning) {
        self.state.lock().plans.insert(id, Kept { plan, beginning });
    }

    /// A query is read for, from this place on, for the first time.
    pub fn note_beginning(&self, id: QueryId, source: NodeId, place: impl FnOnce() -> Place) {
        if let Some(kept) = self.state.lock().plans.get_mut(&id) {
            kept.beginning.began.entry(source).or_insert_with(place);
        }
    }

    /// Whether it is to go on should the world end it.
    pub fn keeps(&self, id: QueryId) -> bool {
        self.state.lock().plans.contains_key(&id)
    }

    /// The plan of one that is to go on should the world end it.
    pub fn plan_of(&self, id: QueryId) -> Option<Arc<QueryPlan>> {
        self.state.lock().plans.get(&id).map(|kept| kept.plan.clone())
    }

    /// True while one is to be started.
    pub fn is_pending(&self) -> bool {
        !self.state.lock().due.is_empty()
    }

    /// What a query that has failed waits for.
    pub fn wait_of(&self, id: QueryId) -> Option<Wait> {
        let state = self.state.lock();
        let Due { beginning, since, why, .. } = state.due.get(&id)?;
        let service = format!("its next start ({} of {TRIES_MAX})", beginning.tries);
        Some(Wait { service, why: why.clone(), since: *since })
    }

    /// A query has ended, and `query` tells its account, where it is to go on. To be called before it is counted as such.
    /// True where nobody asks for the [`next`](Restarts::next) yet: a thread is to do so from now on.
    pub fn on_ended(&self, id: QueryId, clock: &Clock, query: impl FnOnce() -> Option<Arc<Query>>) -> bool {
        let Some(Kept { plan, mut beginning }) = self.state.lock().plans.remove(&id) else { return false };
        let Some(query) = query().filter(|query| query.ended_for_now()) else { return false };
        // What it has saved it need not do again.
        if query.last_checkpoint().is_some() {
            beginning.tries = 0;
        }
        let Outcome::Failed(why) = query.outcome() else { return false };
        let mut state = self.state.lock();
        self.defer(&mut state, clock, id, plan, beginning, why);
        !std::mem::replace(&mut state.has_thread, true)
    }

    /// There is no thread to ask for the next.
    pub fn give_up(&self) {
        let mut state = self.state.lock();
        state.due.clear();
        state.has_thread = false;
    }

    fn defer(
        &self,
        state: &mut State,
        clock: &Clock,
        id: QueryId,
        plan: Arc<QueryPlan>,
        mut beginning: Beginning,
        why: String,
    ) {
        let query = &plan.dataflow.settings.name;
        beginning.tries += 1;
        let attempt = beginning.tries;
        if attempt > TRIES_MAX {
            tracing::error!(
                query,
                why,
                "it was started again {TRIES_MAX} times and saved nothing: it stays stopped"
            );
            return;
        }
        let pause_s = pause_s(attempt);
        tracing::warn!(
            query,
            "goes on from its last checkpoint in {pause_s} s (start {attempt} of {TRIES_MAX}): {why}"
        );
        let now = clock.now();
        let since = EventTime(clock.unix_start_ms() + (now.0 / 1_000_000) as i64);
        let at = now.plus(Duration::from_secs(pause_s));
        state.due.insert(id, Due { plan, beginning, at, since, why });
    }

    /// Which is to be started now, of those that are gone.
    pub fn next(&self, now: ProcessingTime, is_stopping: bool, is_gone: impl Fn(QueryId) -> bool) -> Next {
        let mut state = self.state.lock();
        if is_stopping {
            state.due.clear();
        }
        if state.due.is_empty() {
            state.has_thread = false;
            return Next::Over;
        }
        let due = state.due.iter().filter(|(_, due)| due.at <= now);
        let mut due: Vec<(ProcessingTime, QueryId)> = due.map(|(id, due)| (due.at, *id)).collect();
        drop(state);
        due.sort_unstable();
        due.into_iter().map(|(_, id)| id).find(|id| is_gone(*id)).map_or(Next::Wait, Next::Start)
    }

    /// Starts it. Until that is done it counts as one that is to be started. True where it runs: its account goes on in the
    /// new one's.
    pub fn start(&self, old: QueryId, clock: &Clock) -> bool {
        let due = self.state.lock().due.get(&old).map(|due| (due.plan.clone(), due.beginning.clone()));
        let (Some(submit), Some((plan, beginning))) = (self.submit.get(), due) else { return false };
        let submitted = submit(&plan, beginning.clone());
        let mut state = self.state.lock();
        let error = match submitted {
            Ok(_) => {
                // Not before: in between, nothing would seem to run.
                state.due.remove(&old);
                return true;
            }
            Err(error) => error,
        };
        let why = crate::chain_of_causes(&error);
        state.due.remove(&old);
        match error {
            SubmitError::Connect { .. } | SubmitError::Store { .. } | SubmitError::NameTaken { .. } => {
                self.defer(&mut state, clock, old, plan, beginning, why);
            }
            _ => tracing::error!(query = plan.dataflow.settings.name, why, "it cannot be started again"),
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_up_to_a_minute() {
        let pauses: Vec<u64> = (1..=TRIES_MAX).map(pause_s).collect();
        assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 60, 60]);
    }
}
