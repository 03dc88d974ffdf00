//! How queries end, and how what they were promised changes while they run.
//!
//! An end has three steps. *Ended*: nothing of the query is written any more, whoever said so. *Retired*: it is out of the
//! tables it read, its messages are dropped and its state is freed. *Gone*: nothing of it is on its way anywhere, so that
//! its name and the ids of its operators can be given again. What is left then is its account, for who asks.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use laxity_graph::{OperatorId, ProcessingTime, QueryId};
use laxity_runtime::{ArrowRows, InFlight, Instance, Outcome, Outlet, Promise, Query};

use crate::config::Ending;
use crate::shared::Shared;
use crate::snapshot::QuerySnapshot;
use crate::tables::Table;

/// A query, running or not.
pub(crate) struct Entry {
    pub query: Arc<Query>,
    pub instances: Vec<Arc<Instance<ArrowRows>>>,
    pub outlets: Vec<Arc<Outlet>>,
    /// Those that it reads.
    pub tables: Vec<Arc<Table>>,
    pub stage: Stage,
    /// Nobody will ask for its account.
    pub is_forgotten: bool,
}

/// How far a query has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// It may take rows in.
    Running,
    /// It takes no more in; what it has is worked off, until then.
    Draining(ProcessingTime),
    /// Its messages are dropped and its state is freed.
    Retired,
    /// Nothing of it is on its way.
    Gone,
}

impl Shared {
    /// Ends a query in this way. False if there is none, or it has ended.
    pub(crate) fn cancel(&self, id: QueryId, ending: Ending) -> bool {
        let mut queries = self.queries.write();
        let Some(entry) = queries.get_mut(&id) else { return false };
        let query = entry.query.clone();
        match ending {
            Ending::Drop => {
                drop(queries);
                let is_first = query.end(Outcome::Cancelled);
                self.retire(id);
                is_first
            }
            Ending::Drain => {
                if entry.stage != Stage::Running || query.stopped() {
                    return false;
                }
                entry.stage = Stage::Draining(self.clock.now().plus(self.config.drain_timeout));
                let tables = std::mem::take(&mut entry.tables);
                drop(queries);
                self.leave(&query, &tables);
                self.draining.lock().push(id);
                self.end_drained();
                true
            }
        }
    }

    /// Promises a query something else. False if there is none, or it has ended.
    pub(crate) fn alter(&self, id: QueryId, promise: Promise) -> bool {
        let (query, tables) = {
            let queries = self.queries.read();
            let Some(entry) = queries.get(&id).filter(|entry| !entry.query.stopped()) else { return false };
            (entry.query.clone(), entry.tables.clone())
        };
        query.alter(promise);
        let now = self.clock.now();
        self.dispatch.alter_query(query.spec(), now);
        for table in tables {
            self.retarget(&table);
        }
        true
    }

    /// Lets go of the account of a query that has ended: what it comes to. `None` if there is none, or it runs.
    pub(crate) fn forget(&self, id: QueryId) -> Option<QuerySnapshot> {
        let mut queries = self.queries.write();
        let entry = queries.get_mut(&id).filter(|entry| entry.query.stopped() && !entry.is_forgotten)?;
        entry.is_forgotten = true;
        let last = QuerySnapshot::of(&entry.query, &self.clock);
        if entry.stage == Stage::Gone {
            queries.remove(&id);
        }
        Some(last)
    }

    /// True if nothing of it is on its way any more, or there is none.
    pub(crate) fn is_gone(&self, id: QueryId) -> bool {
        self.queries.read().get(&id).is_none_or(|entry| entry.stage == Stage::Gone)
    }

    /// Ends queries that have worked off what they had, and those whose time for that is over.
    pub(crate) fn end_drained(&self) {
        let draining = self.draining.lock().clone();
        for id in draining {
            let ends = {
                let queries = self.queries.read();
                match queries.get(&id).map(|entry| (entry.stage, &entry.query)) {
                    Some((Stage::Draining(until), query)) => {
                        if self.clock.now() >= until {
                            self.count_dropped(query);
                        }
                        query.drained() || self.clock.now() >= until
                    }
                    _ => true,
                }
            };
            if ends {
                self.draining.lock().retain(|&other| other != id);
                if let Some(query) = self.queries.read().get(&id).map(|entry| entry.query.clone()) {
                    query.end(Outcome::Cancelled);
                }
                self.retire(id);
            }
        }
    }

    /// Says how many rows are lost as the time to drain is over.
    pub(crate) fn count_dropped(&self, query: &Query) {
        tracing::warn!(
            query = query.settings.name,
            rows = query.in_flight_rows.load(Ordering::Relaxed),
            "rows still queued when the time to drain was over are dropped"
        );
    }

    /// Clears up after a query that has ended.
    pub(crate) fn retire(&self, id: QueryId) {
        let mut queries = self.queries.write();
        let is_on = |entry: &&mut Entry| matches!(entry.stage, Stage::Running | Stage::Draining(_));
        let Some(entry) = queries.get_mut(&id).filter(is_on) else { return };
        entry.stage = Stage::Retired;
        let query = entry.query.clone();
        // The instances stay for those who ask what they have done.
        let instances = entry.instances.clone();
        let (outlets, tables) = (std::mem::take(&mut entry.outlets), std::mem::take(&mut entry.tables));
        drop(queries);
        // First: what is admitted from now on would be refused one by one.
        self.leave(&query, &tables);
        let ids: Vec<OperatorId> = instances.iter().map(|instance| instance.id).collect();
        for message in self.dispatch.remove_query(id, &ids, self.clock.now()) {
            self.release(&query, InFlight::one(message.rows, message.bytes));
        }
        for instance in &instances {
            if instance.clear() {
                self.wake(query.wake());
            }
        }
        outlets.iter().for_each(|outlet| self.sinks.close(outlet));
        self.running.fetch_sub(1, Ordering::AcqRel);
        self.departing.lock().push(id);
        self.depart();
    }

    /// Gives back names and ids of retired queries that nothing is left of.
    pub(crate) fn depart(&self) {
        let mut departing = self.departing.lock();
        if departing.is_empty() {
            return;
        }
        let mut queries = self.queries.write();
        departing.retain(|id| {
            let Some(entry) = queries.get_mut(id) else { return false };
            if !entry.query.drained() {
                return true;
            }
            entry.stage = Stage::Gone;
            if let Some(first) = entry.instances.first() {
                let (first, count) = (first.id.0, entry.instances.len() as u32);
                self.owners.write()[first as usize..][..count as usize].fill(None);
                self.ids.lock().give_back(first, count);
            }
            self.names.lock().remove(&entry.query.settings.name);
            if entry.is_forgotten {
                queries.remove(id);
            }
            false
        });
        drop((queries, departing));
        let _guard = self.ended_lock.lock();
        self.ended.notify_all();
    }

    /// Takes a query out of tables that it reads. Once this returns, none of them admits anything for it.
    fn leave(&self, query: &Query, tables: &[Arc<Table>]) {
        for table in tables {
            if table.leave(query, &self.process.memory) {
                self.remove_table(table);
            } else {
                self.retarget(table);
            }
        }
    }
}

#[cfg(test)]
mod tests;
