//! One scheduler among several: it translates ids, and leaves every decision to the [`Scheduler`] inside.

use std::collections::BTreeMap;

use laxity_graph::{EventTime, IdSpace, OperatorId, ProcessingTime, QueryId, WorkerId};

use super::Top;
use crate::{
    Composition, Config, Grant, Ladder, Message, OperatorSpec, QuerySpec, Recipe, RunReport, Scheduler, Work,
};

/// One scheduler of several, with ids of its own that keep its tables dense.
///
/// What a driver puts behind one lock. Operators are addressed by their id here
/// ([`super::Placement::locate`]); grants and messages handed back carry the ids of the process.
#[derive(Debug)]
pub struct Shard<T> {
    scheduler: Scheduler<T>,
    /// By local operator id: what the process calls it.
    operators: Vec<OperatorId>,
    /// By query id of the process.
    queries: BTreeMap<QueryId, Placed>,
    query_ids: IdSpace,
    operator_ids: IdSpace,
    /// Of queries that were removed while operators of theirs ran: their ids come free as those runs are reported.
    leaving: Vec<Leaving>,
}

/// A query by its ids here.
#[derive(Clone, Copy, Debug)]
struct Placed {
    query: QueryId,
    first: u32,
    operators: u32,
}

#[derive(Debug)]
struct Leaving {
    first: u32,
    operators: u32,
    running: usize,
}

impl<T> Shard<T> {
    /// A shard without queries.
    pub fn new(composition: Composition, config: Config) -> Shard<T> {
        Shard {
            scheduler: Scheduler::new(composition, config),
            operators: Vec::new(),
            queries: BTreeMap::new(),
            query_ids: IdSpace::default(),
            operator_ids: IdSpace::default(),
            leaving: Vec::new(),
        }
    }

    /// So many shards, but no more than workers; so few of them are used at first. Each has a seed of its own and its share
    /// of the workers.
    pub fn several(few: usize, many: usize, policy: &Recipe, config: &Config) -> Vec<Shard<T>> {
        let workers = config.workers.max(1);
        let (few, many) = (few.clamp(1, workers), many.max(few).clamp(1, workers));
        let of_shard =
            |shard: u64| Config { shards: few, seed: config.seed.wrapping_add(shard), ..config.clone() };
        (0..many as u64).map(|shard| Shard::new(policy.compose(), of_shard(shard))).collect()
    }

    /// The workers are shared by so many from now on.
    pub fn share_workers(&mut self, shards: usize) {
        self.scheduler.share_workers(shards);
    }

    /// A query with all its operators, from sources to sinks; what the first of them is called here, the
    /// others following in order.
    ///
    /// # Panics
    /// If an operator has an input that does not stand before it.
    pub fn add_query(&mut self, spec: QuerySpec, operators: &[OperatorSpec]) -> OperatorId {
        let count = operators.len() as u32;
        let first = self.operator_ids.take(count);
        let query = QueryId(self.query_ids.take(1));
        self.queries.insert(spec.id, Placed { query, first, operators: count });
        self.operators.resize(self.operator_ids.bound() as usize, OperatorId(u32::MAX));
        self.scheduler.add_query(QuerySpec { id: query, ..spec });
        for (place, operator) in operators.iter().enumerate() {
            let local = |above: &OperatorId| {
                let place = operators[..place].iter().position(|operator| operator.id == *above);
                let place = place.unwrap_or_else(|| panic!("operator {} comes before {above}", operator.id));
                OperatorId(first + place as u32)
            };
            self.scheduler.add_operator(OperatorSpec {
                id: OperatorId(first + place as u32),
                query,
                upstream: operator.upstream.iter().map(local).collect(),
                ..operator.clone()
            });
            self.operators[first as usize + place] = operator.id;
        }
        OperatorId(first)
    }

    /// A query ends; see [`Scheduler::remove_query`].
    pub fn remove_query(&mut self, id: QueryId) -> Vec<Message<T>> {
        let Some(Placed { query, first, operators }) = self.queries.remove(&id) else { return Vec::new() };
        let mut messages = self.scheduler.remove_query(query);
        messages.iter_mut().for_each(|message| message.to = self.operators[message.to.index()]);
        self.query_ids.give_back(query.0, 1);
        let running =
            self.scheduler.running().filter(|id| (first..first + operators).contains(&id.0)).count();
        if running == 0 {
            self.operator_ids.give_back(first, operators);
        } else {
            self.leaving.push(Leaving { first, operators, running });
        }
        messages
    }

    /// See [`Scheduler::alter_query`].
    pub fn alter_query(&mut self, spec: QuerySpec, now: ProcessingTime) {
        if let Some(&Placed { query, .. }) = self.queries.get(&spec.id) {
            self.scheduler.alter_query(QuerySpec { id: query, ..spec }, now);
        }
    }

    /// See [`Scheduler::ladder`].
    pub fn ladder(&self, id: QueryId) -> Ladder {
        self.queries.get(&id).map(|placed| self.scheduler.ladder(placed.query)).unwrap_or_default()
    }

    /// See [`Scheduler::on_message`].
    #[inline]
    pub fn on_message(&mut self, local: OperatorId, mut message: Message<T>, now: ProcessingTime) -> bool {
        message.to = local;
        self.scheduler.on_message(message, now)
    }

    /// See [`Scheduler::on_progress`].
    pub fn on_progress(&mut self, local: OperatorId, progress: EventTime, ingested: ProcessingTime) {
        self.scheduler.on_progress(local, progress, ingested);
    }

    /// See [`Scheduler::on_finished`].
    #[inline]
    pub fn on_finished(&mut self, worker: WorkerId, report: RunReport, now: ProcessingTime) {
        if !self.leaving.is_empty() {
            self.on_left(worker);
        }
        self.scheduler.on_finished(worker, report, now);
    }

    /// What this worker ran may be the last that an ended query was waited for.
    fn on_left(&mut self, worker: WorkerId) {
        let Some(id) = self.scheduler.runs(worker) else { return };
        let of = |query: &Leaving| (query.first..query.first + query.operators).contains(&id.0);
        let Some(place) = self.leaving.iter().position(of) else { return };
        self.leaving[place].running -= 1;
        if self.leaving[place].running == 0 {
            let Leaving { first, operators, .. } = self.leaving.swap_remove(place);
            self.operator_ids.give_back(first, operators);
        }
    }

    /// See [`Scheduler::next`].
    #[inline]
    pub fn next(&mut self, worker: WorkerId, now: ProcessingTime) -> Option<Grant<T>> {
        // Changed in place: a grant is a few hundred bytes with what its message carries.
        let mut granted = self.scheduler.next(worker, now);
        if let Some(grant) = &mut granted {
            grant.operator = self.operators[grant.operator.index()];
            if let Work::Message { message, .. } = &mut grant.work {
                message.to = grant.operator;
            }
        }
        granted
    }

    /// See [`Scheduler::merge`].
    pub fn merge(&mut self, worker: WorkerId, rows_max: u32, now: ProcessingTime) -> Option<Message<T>> {
        self.merge_if(worker, rows_max, now, |_| true)
    }

    /// See [`Scheduler::merge_if`]; the message that `fits` sees has a local id.
    #[inline]
    pub fn merge_if(
        &mut self,
        worker: WorkerId,
        rows_max: u32,
        now: ProcessingTime,
        fits: impl FnOnce(&Message<T>) -> bool,
    ) -> Option<Message<T>> {
        let mut merged = self.scheduler.merge_if(worker, rows_max, now, fits);
        if let Some(message) = &mut merged {
            message.to = self.operators[message.to.index()];
        }
        merged
    }

    /// See [`Scheduler::allow_shedding`].
    pub fn allow_shedding(&mut self, id: QueryId, allowed: bool) {
        if let Some(&Placed { query, .. }) = self.queries.get(&id) {
            self.scheduler.allow_shedding(query, allowed);
        }
    }

    /// See [`Scheduler::allow_leaving_out`].
    pub fn allow_leaving_out(&mut self, id: QueryId, allowed: bool) {
        if let Some(&Placed { query, .. }) = self.queries.get(&id) {
            self.scheduler.allow_leaving_out(query, allowed);
        }
    }

    /// See [`Scheduler::on_time`].
    #[inline]
    pub fn on_time(&mut self, now: ProcessingTime) {
        self.scheduler.on_time(now);
    }

    /// See [`Scheduler::goes_on`].
    #[inline]
    pub fn goes_on(&mut self, worker: WorkerId, now: ProcessingTime) -> bool {
        self.scheduler.goes_on(worker, now)
    }

    /// See [`Scheduler::follow`].
    #[inline]
    pub fn follow(&mut self, worker: WorkerId, local: OperatorId, now: ProcessingTime) -> bool {
        self.scheduler.follow(worker, local, now)
    }

    /// See [`Scheduler::release`].
    pub fn release(&mut self, worker: WorkerId, now: ProcessingTime) -> bool {
        self.scheduler.release(worker, now)
    }

    /// See [`Scheduler::passed_over`].
    pub fn passed_over(&mut self, turns: u32) {
        self.scheduler.passed_over(turns);
    }

    /// When a worker at home here looks in although it works elsewhere and nothing changed: a cycle begins, or
    /// the top is another because a unit has waited too long.
    #[inline]
    pub fn due(&self) -> Option<ProcessingTime> {
        let scheduler = &self.scheduler;
        scheduler.next_timeout().into_iter().chain(scheduler.next_ageing()).min()
    }

    /// By how much a unit elsewhere must be more urgent than one at home, for a worker to go there: what a train
    /// may keep a worker where it is, where priorities are instants. Else two workers that find much due at the same
    /// instant on both shards go to and fro between them.
    #[inline]
    pub fn lead(&self) -> f64 {
        if self.scheduler.needs().instants { self.scheduler.config().quantum_ns as f64 } else { 0.0 }
    }

    /// What to publish: the most urgent unit that waits. Under a rank by turn only whether one waits.
    #[inline]
    pub fn top(&self, now: ProcessingTime) -> Top {
        self.publish(self.scheduler.top(now))
    }

    /// What this worker would be given here.
    #[inline]
    pub fn top_for(&self, worker: WorkerId, now: ProcessingTime) -> Top {
        self.publish(self.scheduler.top_for(worker, now))
    }

    /// One more than the largest local id of an operator so far: how long tables by it are.
    pub fn ids_bound(&self) -> u32 {
        self.operator_ids.bound()
    }

    /// The scheduler, to ask it questions; ids are local.
    pub fn scheduler(&self) -> &Scheduler<T> {
        &self.scheduler
    }

    /// The scheduler, to change what does not concern single queries.
    pub fn scheduler_mut(&mut self) -> &mut Scheduler<T> {
        &mut self.scheduler
    }

    fn publish(&self, priority: Option<f64>) -> Top {
        // An aged unit comes first whatever the rank.
        let by_turn = self.scheduler.needs().is_by_turn();
        let means_the_same = |priority: f64| !by_turn || priority == f64::NEG_INFINITY;
        Top::new(priority.map(|priority| if means_the_same(priority) { priority } else { 0.0 }))
    }
}
