use laxity_graph::{OperatorId, ProcessingTime, QueryId};

use crate::{Scheduler, ShedConfig, Shedder};

/// Load shedding, off unless a query allows it. The driver drops, the core decides and counts.
impl<T> Scheduler<T> {
    /// Whether rows of this query may be dropped at its sources under overload.
    pub fn allow_shedding(&mut self, query: QueryId, allowed: bool) {
        if allowed || self.shedder.is_some() {
            self.shedder
                .get_or_insert_with(|| Box::new(Shedder::new(ShedConfig::default())))
                .allow(query, allowed);
        }
    }

    /// Another way to shed; what was counted so far is forgotten. Nothing is shed until a query allows it.
    pub fn set_shedding(&mut self, config: ShedConfig) {
        self.shedder = Some(Box::new(Shedder::new(config)));
    }

    /// Rows have come to a source and are about to be given by [`on_message`](Scheduler::on_message): so many of
    /// them must be dropped, and count as dropped against the query. Ask for every batch of rows of every
    /// query, once some query allows shedding: what comes to the others is part of the load.
    ///
    /// Watermarks are never dropped: give those of a batch that is dropped whole by a message of their own.
    pub fn rows_to_shed(&mut self, source: OperatorId, rows: u32, now: ProcessingTime) -> u32 {
        let Some(shedder) = self.shedder.as_deref().filter(|shedder| shedder.is_on()) else { return 0 };
        if shedder.is_due(now) {
            self.refresh_view(now);
        }
        let Some(query) = self.operator(source).map(|operator| operator.query) else { return 0 };
        let Some(shedder) = self.shedder.as_deref_mut() else { return 0 };
        if shedder.is_due(now) {
            shedder.plan(&self.view.snapshot);
        }
        shedder.admit(query, rows, now)
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
