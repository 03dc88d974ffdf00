//! How queries end, and how what they were promised changes while they run: what follows on threads from the steps of
//! [`laxity_runtime::Registry`].

use std::sync::Arc;
use std::sync::atomic::Ordering;

use laxity_graph::{OperatorId, QueryId};
use laxity_runtime::{InFlight, Outcome, Promise, Query, Retiring};

use crate::config::Ending;
use crate::shared::Shared;
use crate::snapshot::QuerySnapshot;
use crate::tables::Table;

impl Shared {
    /// Ends a query in this way. False if there is none, or it has ended.
    pub(crate) fn cancel(&self, id: QueryId, ending: Ending) -> bool {
        match ending {
            Ending::Drop => {
                let query = self.registry.read().get(id).map(|entry| entry.query.clone());
                let is_first = query.is_some_and(|query| query.end(Outcome::Cancelled));
                self.retire(id);
                is_first
            }
            Ending::Drain => {
                let until = self.clock.now().plus(self.config.drain_timeout);
                let Some((query, tables)) = self.registry.write().begin_to_drain(id) else {
                    return false;
                };
                self.leave(&query, &tables);
                self.registry.write().drain(id, until);
                self.end_drained();
                // Who clears up looks more often from now on.
                self.process.wake();
                true
            }
        }
    }

    /// Promises a query something else. False if there is none, or it has ended.
    pub(crate) fn alter(&self, id: QueryId, promise: Promise) -> bool {
        let (query, tables) = {
            let registry = self.registry.read();
            let Some(entry) = registry.get(id).filter(|entry| !entry.query.stopped()) else { return false };
            (entry.query.clone(), entry.tables().to_vec())
        };
        query.alter(promise);
        self.dispatch.alter_query(query.spec(), self.clock.now());
        for table in &tables {
            table.space();
            self.retarget(table);
        }
        true
    }

    /// Lets go of the account of a query that has ended: what it comes to. `None` if there is none, or it runs.
    pub(crate) fn forget(&self, id: QueryId) -> Option<QuerySnapshot> {
        let query = self.registry.write().forget(id)?;
        self.sinks.forget(id);
        Some(QuerySnapshot::of(&query, None, &self.clock))
    }

    /// Ends queries that have worked off what they had, and those whose time for that is over; gives back names and ids of
    /// those that nothing is left of.
    pub(crate) fn clear_up(&self) {
        if self.registry.read().is_waiting() {
            self.end_drained();
            self.depart();
        }
    }

    fn end_drained(&self) {
        let drained = self.registry.write().drained(self.clock.now());
        for query in drained {
            self.count_dropped(&query);
            query.end(Outcome::Cancelled);
            self.retire(query.id);
        }
    }

    /// Says how many rows are lost as the time to drain is over.
    pub(crate) fn count_dropped(&self, query: &Query) {
        if !query.drained() {
            tracing::warn!(
                query = query.settings.name,
                rows = query.in_flight_rows.load(Ordering::Relaxed),
                "rows still queued when the time to drain was over are dropped"
            );
        }
    }

    /// Clears up after a query that has ended.
    pub(crate) fn retire(&self, id: QueryId) {
        let Some(retiring) = self.registry.write().begin_to_retire(id) else { return };
        let Retiring { query, tables, instances, outlets } = retiring;
        // First: what is admitted from now on would be refused one by one.
        self.leave(&query, &tables);
        if let Some(ladder) = self.dispatch.ladder(id) {
            query.keep_ladder(ladder);
        }
        let ids: Vec<OperatorId> = instances.iter().map(|instance| instance.id).collect();
        for message in self.dispatch.remove_query(id, &ids, self.clock.now()) {
            if !query.failed() {
                query.rows_dropped.fetch_add(u64::from(message.rows), Ordering::Relaxed);
            }
            if !message.body.is_look() {
                self.release(&query, InFlight::one(message.rows, message.bytes));
            }
        }
        for instance in &instances {
            if instance.clear() {
                self.wake(query.wake());
            }
        }
        outlets.iter().for_each(|outlet| self.sinks.close(outlet));
        let mut registry = self.registry.write();
        registry.on_retired(id);
        registry.depart();
        drop(registry);
        let _guard = self.ended_lock.lock();
        self.ended.notify_all();
    }

    fn depart(&self) {
        if self.registry.write().depart() > 0 {
            let _guard = self.ended_lock.lock();
            self.ended.notify_all();
        }
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
