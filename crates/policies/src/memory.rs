use laxity_sched::{Cycled, MessageContext, Needs, Rank, Reads, Releases, Scale, Snapshot};

use crate::klink::{CYCLE_NS, Klink};

/// `memory`: the query that frees the most bytes in one cycle goes first.
///
/// Klink §3.4: the largest of what processing any prefix of its pipeline releases ([`Releases`]); among equals the query
/// of least slack goes first. A query that frees nothing comes after all that do, by slack.
///
/// `klink` ranks so while memory is short; alone, this rank does so always.
///
/// Deviates from the paper in that inside a query the oldest message goes first, also behind the prefix, where little is
/// queued in this state.
///
/// Does badly for latency, which it ignores. Starves queries that free nothing, hence the ageing guard.
#[derive(Debug)]
pub struct ByMemory {
    klink: Klink,
    releases: Releases,
    period_ns: u64,
}

impl ByMemory {
    /// With this cycle.
    pub fn new(period_ns: u64) -> ByMemory {
        ByMemory { klink: Klink::new(period_ns), releases: Releases::default(), period_ns }
    }
}

impl Default for ByMemory {
    fn default() -> ByMemory {
        ByMemory::new(CYCLE_NS)
    }
}

impl Rank for ByMemory {
    fn needs(&self) -> Needs {
        let reads = Reads { queues: true, costs: true, ages: true, heads: true, ..Reads::NOTHING };
        Needs {
            inherits: true,
            holds_sources: true,
            scale: Scale::Linear,
            reads,
            ..Needs::by_cycle(self.period_ns)
        }
    }

    fn message(&mut self, context: &MessageContext) -> f64 {
        self.klink.message(context)
    }

    fn cycle<'a>(&'a mut self, snapshot: &Snapshot, priorities: &mut [f64]) -> Cycled<'a> {
        let slacks_ns = self.klink.slacks_ns(snapshot);
        self.releases.rank(snapshot, slacks_ns, self.period_ns, priorities);
        Cycled::ALL
    }
}

#[cfg(test)]
#[path = "memory/tests.rs"]
mod tests;
