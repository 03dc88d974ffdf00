use laxity_graph::{OperatorId, ProcessingTime, QueryId};

use super::parts::format_duration;
use super::{Rank, Scale, Ties, WaitBound};
use crate::{MessageContext, Snapshot};

/// `RANK@PERIOD`: any rank, but taken anew every period only, from a snapshot.
///
/// Haren's shape (Palyvos-Giannas et al., "Haren: A Framework for Ad-Hoc Thread Scheduling Policies for Data
/// Streaming Applications", IEEE CLOUD 2019): at the period's start all priorities are computed; until its
/// end every worker takes the first operator in that order that has work, for a batch of at most 10 rows. The
/// preset `haren` is that; the order between periods costs nothing, and what has happened since the last is
/// not seen.
///
/// Deviates from Haren in that a worker may run any operator (Haren deals operators out to threads anew each
/// period), and in that work that waited too long is served by the core's guard (Haren: once after two
/// periods).
///
/// Does badly where the order changes faster than the period: a unit that had nothing when it was ranked
/// stands where its rank puts an empty one.
#[derive(Debug)]
pub struct Periodic {
    /// The rank.
    pub rank: Box<dyn Rank>,
    /// How often.
    pub period_ns: u64,
}

impl Rank for Periodic {
    fn name(&self) -> &'static str {
        self.rank.name()
    }

    fn label(&self) -> String {
        format!("{}@{}", self.rank.label(), format_duration(self.period_ns))
    }

    /// A snapshot's order is no promise: what comes between two may wait for all of them.
    fn wait_bound(&self) -> WaitBound {
        WaitBound::Ageing
    }

    fn scale(&self) -> Scale {
        self.rank.scale()
    }

    fn message(&mut self, context: &MessageContext) -> f64 {
        self.rank.message(context)
    }

    fn inherits(&self) -> bool {
        self.rank.inherits()
    }

    fn awaits_watermarks(&self) -> bool {
        self.rank.awaits_watermarks()
    }

    fn by_queue(&self) -> bool {
        self.rank.by_queue()
    }

    fn watches(&self) -> bool {
        self.rank.watches()
    }

    fn starts(&mut self, query: QueryId, source: Option<OperatorId>, ingested: ProcessingTime) {
        self.rank.starts(query, source, ingested);
    }

    fn accounts(&self) -> bool {
        self.rank.accounts()
    }

    fn ran(&mut self, query: QueryId, source_rows: u32, cpu_ns: u64) {
        self.rank.ran(query, source_rows, cpu_ns);
    }

    fn forget(&mut self, query: QueryId) {
        self.rank.forget(query);
    }

    fn granted(&mut self, unit: u32, priority: f64) {
        self.rank.granted(unit, priority);
    }

    fn ties(&self) -> Ties {
        self.rank.ties()
    }

    fn period_ns(&self) -> Option<u64> {
        Some(self.period_ns)
    }

    fn cycle(&mut self, snapshot: &Snapshot, priorities: &mut [f64]) {
        let reviews = self.rank.review_period_ns().is_some();
        if reviews {
            self.rank.review(snapshot);
        }
        self.rank.cycle(snapshot, priorities);
        if reviews {
            // What a review found speaks as a unit joins.
            for (unit, priority) in (0..).zip(priorities) {
                *priority = self.rank.join(unit, *priority);
            }
        }
    }

    fn moved(&self) -> Option<&[u32]> {
        self.rank.moved()
    }

    fn cycle_work(&self) -> Option<u64> {
        self.rank.cycle_work()
    }

    fn seed(&mut self, seed: u64) {
        self.rank.seed(seed);
    }
}
