//! The scheduler core on many cores: several schedulers, each behind a lock of its own, and workers that look
//! at a few of them.
//!
//! Each query lives on one shard ([`Placement`]), and with it what works for it alone. Most shards are used only once
//! there is a [`CROWD`] of operators on each of the first. Each worker has a home shard. Where its train ends, it goes
//! on with the most urgent of: what it holds, its home's top, and the tops of `sampled` other shards drawn at
//! random ([`Outlook::choose`]); where these have nothing, it takes from any shard that has. A worker holds
//! one lock at a time.
//!
//! # The relaxation
//! With one shard this is [`crate::Scheduler`], pick for pick. With n shards a pick may pass over more urgent
//! units:
//! - It is never less urgent than the home's top, and within the chosen shard it is exact. Where priorities are
//!   instants, what is elsewhere and more urgent by less than a quantum is passed over for the home ([`Shard::lead`]).
//! - With d sampled shards, its shard stands among the n ordered by top at place 1 + (n − d' − 1) / (d' + 2),
//!   where d' ≤ d are distinct and any order of the tops is as likely as another: 1 + d' of n are looked at,
//!   and the least of them is taken.
//! - Among all waiting units, its place is O(n) on average and does not grow with their number, as long as
//!   queries are spread without regard to urgency: it is a MultiQueue (Rihani, Sanders and Dementiev, SPAA
//!   2015) with the home for one of its two choices; the bound is proved for two random ones (Alistarh et
//!   al., PODC 2017) and measured here for the home.
//! - Nobody idles while a unit waits that was published when the worker looked.
//! - Starvation: each shard is some worker's home, and a waiting unit is passed over by that worker only for
//!   more urgent ones. So the bounds of [`crate::WaitBound`] hold with one worker in the place of W; where the
//!   ageing guard counts turns, those that this worker gives elsewhere count too. [`Shard::several`] makes no
//!   more shards than workers for that reason. Priorities by turn (fifo, rr, random) mean nothing across
//!   shards and are not compared: the home comes first.
//! - Cycles, the bounds of mailboxes and the ageing guard are each shard's own. A shard's cycle is begun by
//!   whoever takes work there and by the workers at home there, wherever they work ([`Shard::due`]).
//! - What is weighed against what the workers can do (late work given up, rows shed, shares of tokens) is
//!   weighed shard by shard against its share of them, W / n rounded up, though workers go where work is.
//!
//! [`Shards`] is the whole for one thread: the definition that a driver with locks must keep to.

mod ask;
mod choice;
mod placement;
mod shard;

use laxity_graph::{EventTime, OperatorId, ProcessingTime, QueryId, WorkerId};
use rand_core::SeedableRng;
use rand_pcg::Pcg32;

pub use choice::{Outlook, Top};
pub use placement::{Address, CROWD, Placement};
pub use shard::Shard;

use crate::{Config, Grant, Message, OperatorSpec, QuerySpec, Recipe, RunReport};

/// Several schedulers that act as one. Its verbs are those of [`crate::Scheduler`].
#[derive(Debug)]
pub struct Shards<T> {
    shards: Vec<Shard<T>>,
    placement: Placement,
    /// By worker: the shard whose unit it holds or held last.
    at: Vec<usize>,
    sampled: usize,
    random: Pcg32,
}

impl<T> Shards<T> {
    /// So few shards and so many where queries crowd ([`CROWD`]), but no more than workers; each worker looks at its home
    /// and at `sampled` others.
    pub fn new(few: usize, many: usize, sampled: usize, policy: &Recipe, config: &Config) -> Shards<T> {
        let shards = Shard::several(few, many, policy, config);
        let placement = Placement::new(few.min(shards.len()), shards.len());
        Shards {
            at: (0..config.workers).map(|worker| worker % placement.used()).collect(),
            placement,
            shards,
            sampled,
            random: Pcg32::seed_from_u64(config.seed),
        }
    }

    /// A query with all its operators, from sources to sinks. Its shard.
    ///
    /// # Panics
    /// If an operator has an input that does not stand before it.
    pub fn add_query(&mut self, spec: QuerySpec, operators: &[OperatorSpec]) -> usize {
        self.add_beside(None, spec, operators)
    }

    /// The same of what works for that query alone, on its shard: a table with one reader.
    ///
    /// # Panics
    /// As [`add_query`](Shards::add_query).
    pub fn add_beside(
        &mut self,
        beside: Option<QueryId>,
        spec: QuerySpec,
        operators: &[OperatorSpec],
    ) -> usize {
        let shard = self.placement.beside(beside);
        let query = spec.id;
        let first = self.shards[shard].add_query(spec, operators);
        let ids: Vec<OperatorId> = operators.iter().map(|operator| operator.id).collect();
        let used = self.placement.used();
        self.placement.place(query, &ids, shard, first);
        if self.placement.used() > used {
            let used = self.placement.used();
            self.shards.iter_mut().for_each(|shard| shard.share_workers(used));
        }
        shard
    }

    /// A query ends; see [`crate::Scheduler::remove_query`].
    pub fn remove_query(&mut self, id: QueryId) -> Vec<Message<T>> {
        self.placement.remove(id).map_or_else(Vec::new, |(shard, _)| self.shards[shard].remove_query(id))
    }

    /// See [`crate::Scheduler::alter_query`].
    pub fn alter_query(&mut self, spec: QuerySpec, now: ProcessingTime) {
        if let Some(shard) = self.placement.shard_of(spec.id) {
            self.shards[shard].alter_query(spec, now);
        }
    }

    /// See [`crate::Scheduler::on_message`].
    pub fn on_message(&mut self, message: Message<T>, now: ProcessingTime) -> bool {
        let Some(Address { shard, local }) = self.placement.locate(message.to) else { return false };
        self.shards[shard].on_message(local, message, now)
    }

    /// See [`crate::Scheduler::follow`].
    pub fn follow(&mut self, worker: WorkerId, operator: OperatorId, now: ProcessingTime) -> bool {
        let at = self.at(worker);
        let here = self.placement.locate(operator).filter(|address| address.shard == at);
        here.is_some_and(|address| self.shards[at].follow(worker, address.local, now))
    }

    /// See [`crate::Scheduler::on_progress`].
    pub fn on_progress(&mut self, source: OperatorId, progress: EventTime, ingested: ProcessingTime) {
        if let Some(Address { shard, local }) = self.placement.locate(source) {
            self.shards[shard].on_progress(local, progress, ingested);
        }
    }

    /// See [`crate::Scheduler::on_finished`].
    pub fn on_finished(&mut self, worker: WorkerId, report: RunReport, now: ProcessingTime) {
        let at = self.at(worker);
        self.shards[at].on_finished(worker, report, now);
    }

    /// See [`crate::Scheduler::next`].
    pub fn next(&mut self, worker: WorkerId, now: ProcessingTime) -> Option<Grant<T>> {
        let (at, home) = (self.at(worker), self.home(worker));
        self.shards[home].on_time(now);
        if !self.shards[at].goes_on(worker, now) {
            let top = self.shards[at].top_for(worker, now);
            let outlook = Outlook { at, top, home, sampled: self.sampled, lead: self.shards[at].lead() };
            let shards = &self.shards;
            let chosen =
                outlook.choose(self.placement.used(), |shard| shards[shard].top(now), &mut self.random);
            if let Some(chosen) = chosen {
                if chosen != home {
                    self.shards[home].passed_over(1);
                }
                if chosen != at {
                    self.shards[at].release(worker, now);
                    self.at[worker.index()] = chosen;
                }
            }
        }
        self.shards[self.at[worker.index()]].next(worker, now)
    }

    /// See [`crate::Scheduler::merge`].
    pub fn merge(&mut self, worker: WorkerId, rows_max: u32, now: ProcessingTime) -> Option<Message<T>> {
        let at = self.at(worker);
        self.shards[at].merge(worker, rows_max, now)
    }

    /// See [`crate::Scheduler::release`].
    pub fn release(&mut self, worker: WorkerId, now: ProcessingTime) -> bool {
        let at = self.at(worker);
        self.shards[at].release(worker, now)
    }

    /// See [`crate::Scheduler::set_policy`].
    pub fn set_policy(&mut self, policy: &Recipe, now: ProcessingTime) {
        self.shards.iter_mut().for_each(|shard| shard.scheduler_mut().set_policy(policy.compose(), now));
    }

    /// See [`crate::Scheduler::on_memory`].
    pub fn on_memory(&mut self, used_bytes: u64, bound_bytes: u64) {
        self.shards.iter_mut().for_each(|shard| shard.scheduler_mut().on_memory(used_bytes, bound_bytes));
    }

    /// See [`crate::Scheduler::next_timeout`]: the earliest of the shards'.
    pub fn next_timeout(&self) -> Option<ProcessingTime> {
        self.shards.iter().filter_map(|shard| shard.scheduler().next_timeout()).min()
    }

    /// Units that wait, on all shards.
    pub fn waiting_units(&self) -> usize {
        self.shards.iter().map(|shard| shard.scheduler().waiting_units()).sum()
    }

    /// The shards, to ask them questions.
    pub fn shards(&self) -> &[Shard<T>] {
        &self.shards
    }

    /// Where queries and operators are.
    pub fn placement(&self) -> &Placement {
        &self.placement
    }

    /// The shard that a worker always looks at.
    pub fn home(&self, worker: WorkerId) -> usize {
        worker.index() % self.placement.used()
    }

    /// The shard whose unit a worker holds or held last.
    pub fn shard_of_worker(&self, worker: WorkerId) -> usize {
        self.at.get(worker.index()).copied().unwrap_or_else(|| self.home(worker))
    }

    fn at(&mut self, worker: WorkerId) -> usize {
        for worker in self.at.len()..=worker.index() {
            self.at.push(worker % self.placement.used());
        }
        self.at[worker.index()]
    }
}
