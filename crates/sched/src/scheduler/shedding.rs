use laxity_graph::{OperatorId, ProcessingTime, QueryId};

use crate::{LeavesOut, Relief, Scheduler, ShedConfig, Shedder};

/// Less work where no order is good enough, off unless a query allows it. The driver does it, the core decides and counts.
impl<T> Scheduler<T> {
    /// Whether rows of this query may be dropped at its sources under overload.
    pub fn allow_shedding(&mut self, query: QueryId, allowed: bool) {
        if let Some(shedder) = self.shedder_for(allowed) {
            shedder.allow(query, allowed);
        }
    }

    /// Whether this query leaves rows out when it is told to, and answers within an error that it states.
    pub fn allow_leaving_out(&mut self, query: QueryId, allowed: bool) {
        if let Some(shedder) = self.shedder_for(allowed) {
            shedder.allow_leaving_out(query, allowed);
        }
    }

    fn shedder_for(&mut self, allowed: bool) -> Option<&mut Shedder> {
        if allowed && self.shedder.is_none() {
            self.set_shedding(ShedConfig::default());
        }
        self.shedder.as_deref_mut()
    }

    /// Another way to shed; what was counted so far is forgotten. Nothing is shed until a query allows it.
    pub fn set_shedding(&mut self, config: ShedConfig) {
        self.shedder = Some(Box::new(Shedder::new(config)));
    }

    /// Rows have come to a source and are about to be given by [`on_message`](Scheduler::on_message), of a query that is so far with
    /// leaving rows out: what is to be done with them. Those that must be dropped count as dropped against the query. Ask for every
    /// batch of rows of every query, once some query allows either: what comes to the others is part of the load.
    ///
    /// Watermarks are never dropped: give those of a batch that is dropped whole by a message of their own.
    pub fn relief(
        &mut self,
        source: OperatorId,
        rows: u32,
        leaves_out: LeavesOut,
        now: ProcessingTime,
    ) -> Relief {
        let Some(shedder) = self.shedder.as_deref().filter(|shedder| shedder.is_on()) else {
            return Relief::default();
        };
        if shedder.is_due(now) {
            self.refresh_view(now);
        }
        let Some(query) = self.operator(source).map(|operator| operator.query) else {
            return Relief::default();
        };
        let Some(shedder) = self.shedder.as_deref_mut() else { return Relief::default() };
        if shedder.is_due(now) {
            shedder.plan(&self.view.snapshot);
        }
        shedder.admit(query, rows, leaves_out, now)
    }

    /// Rows of the query that were dropped so far.
    pub fn rows_shed(&self, query: QueryId) -> u64 {
        self.shedder.as_deref().map_or(0, |shedder| shedder.dropped(query))
    }

    /// Share of the query's rows that is being dropped.
    pub fn shed_fraction(&self, query: QueryId) -> f64 {
        self.shedder.as_deref().map_or(0.0, |shedder| shedder.fraction(query))
    }
}
