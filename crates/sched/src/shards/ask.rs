use laxity_graph::{OperatorId, ProcessingTime, QueryId, WorkerId};

use super::{Address, Shards};
use crate::{LeavesOut, Message, Relief};

/// What a driver of one thread asks besides: the simulator. Ids are those of the process.
impl<T> Shards<T> {
    /// See [`crate::Scheduler::merge_if`].
    pub fn merge_if(
        &mut self,
        worker: WorkerId,
        rows_max: u32,
        now: ProcessingTime,
        fits: impl FnOnce(&Message<T>) -> bool,
    ) -> Option<Message<T>> {
        let at = self.at(worker);
        self.shards[at].merge_if(worker, rows_max, now, fits)
    }

    /// See [`crate::Scheduler::allow_shedding`].
    pub fn allow_shedding(&mut self, query: QueryId, allowed: bool) {
        if let Some(shard) = self.placement.shard_of(query) {
            self.shards[shard].allow_shedding(query, allowed);
        }
    }

    /// See [`crate::Scheduler::allow_leaving_out`].
    pub fn allow_leaving_out(&mut self, query: QueryId, allowed: bool) {
        if let Some(shard) = self.placement.shard_of(query) {
            self.shards[shard].allow_leaving_out(query, allowed);
        }
    }

    /// See [`crate::Scheduler::relief`].
    pub fn relief(
        &mut self,
        source: OperatorId,
        rows: u32,
        leaves_out: LeavesOut,
        now: ProcessingTime,
    ) -> Relief {
        let Some(Address { shard, local }) = self.placement.locate(source) else {
            return Relief::default();
        };
        self.shards[shard].scheduler_mut().relief(local, rows, leaves_out, now)
    }

    /// See [`crate::Scheduler::began_dispatch`].
    pub fn began_dispatch(&self, worker: WorkerId) -> bool {
        self.shards[self.shard_of_worker(worker)].scheduler().began_dispatch(worker)
    }

    /// See [`crate::Scheduler::cycle_work`]: of all of them.
    pub fn cycle_work(&self) -> u64 {
        self.shards.iter().map(|shard| shard.scheduler().cycle_work()).sum()
    }

    /// See [`crate::Scheduler::queued_messages`].
    pub fn queued_messages(&self, id: OperatorId) -> usize {
        let address = self.placement.locate(id);
        address.map_or(0, |Address { shard, local }| self.shards[shard].scheduler().queued_messages(local))
    }

    /// See [`crate::Scheduler::queued_rows`].
    pub fn queued_rows(&self, id: OperatorId) -> u64 {
        let address = self.placement.locate(id);
        address.map_or(0, |Address { shard, local }| self.shards[shard].scheduler().queued_rows(local))
    }
}
