//! Queries that are cancelled, drained, retired and forgotten.

use super::*;

impl World {
    pub(super) fn cancel(&mut self, id: QueryId, drains: bool) {
        if drains {
            let until = self.now.now().plus_ns(50_000_000);
            if let Some((query, tables)) = self.registry.begin_to_drain(id) {
                self.draining.push((query, tables, until));
                self.seen.drained += 1;
            }
        } else {
            let query = self.registry.get(id).unwrap().query.clone();
            self.seen.dropped += u64::from(query.end(Outcome::Cancelled));
        }
    }

    pub(super) fn leave(&mut self, query: &Arc<Query>, tables: &[OperatorId]) {
        for &id in tables {
            // Another may have its id by now, which this query does not read.
            let Some(table) = self.tables.get_mut(&id) else { continue };
            if table.intake.leave(query, &self.process.memory) {
                self.close(id);
            } else {
                let now = self.now.now();
                self.retarget(id, now);
            }
        }
    }

    /// What a keeper does now and then; the parts of an end at different times.
    pub(super) fn retire_some(&mut self) {
        let now = self.now.now();
        if !self.draining.is_empty() && self.random.next_u32().is_multiple_of(2) {
            // As far as it has come by now: it may be retired.
            let (query, tables, until) = self.draining.remove(0);
            self.leave(&query, &tables);
            self.registry.drain(query.id, until);
        }
        for query in self.registry.drained(now) {
            query.end(Outcome::Cancelled);
        }
        for id in self.process.take_ended() {
            if let Some(retiring) = self.registry.begin_to_retire(id) {
                self.retiring.push((id, retiring));
            }
            if let Some(place) = self.living.iter().position(|&living| living == id) {
                self.living.swap_remove(place);
                self.ended.push(id);
            }
        }
        if !self.retiring.is_empty() && self.random.next_u32().is_multiple_of(2) {
            let (id, retiring) = self.retiring.remove(0);
            self.retire(id, retiring);
        }
        self.registry.depart();
    }

    pub(super) fn retire(&mut self, id: QueryId, retiring: Retiring<Numbers, OperatorId>) {
        let Retiring { query, tables, instances, outlets } = retiring;
        match query.outcome() {
            Outcome::Failed(_) => self.seen.failed += 1,
            Outcome::Finished => self.seen.finished += 1,
            _ => {}
        }
        let is_of = |running: &Running| running.of == Some(id);
        let running: Vec<&Running> =
            self.workers.iter().flatten().filter(|&running| is_of(running)).collect();
        self.seen.went_while_running += u64::from(!running.is_empty());
        self.seen.went_while_resuming += u64::from(running.iter().any(|running| running.report.more));
        self.leave(&query, &tables);
        for message in self.shards.remove_query(id) {
            let _ = query.release(InFlight::one(message.rows, message.bytes));
        }
        for instance in &instances {
            instance.clear();
            self.instances.remove(&instance.id);
        }
        for outlet in outlets {
            self.complete(outlet.number);
        }
        self.wake(query.wake());
        self.registry.on_retired(id);
    }

    /// No more comes to this output: what waits for it is written or, of a query that has failed, dropped.
    pub(super) fn complete(&mut self, number: usize) {
        let Some(output) = self.outputs.get_mut(&number) else { return };
        output.is_closed = true;
    }

    pub(super) fn forget_one(&mut self, pick: usize) {
        if self.ended.is_empty() {
            return;
        }
        let place = pick % self.ended.len();
        if self.registry.forget(self.ended[place]).is_some() {
            self.ended.swap_remove(place);
        }
    }
}
