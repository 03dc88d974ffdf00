//! What ranks go by while memory is short: when that begins, when it ends, and which query frees most.

use laxity_graph::ProcessingTime;

use crate::{Memory, OperatorSnapshot, QuerySnapshot, Snapshot, rank_queries};

/// Whether memory or slack decides: entered at b of the bound, left when half of what was in use is free, or when
/// as much time has passed as the least slack of all queries was (thesis §3.2.4), whichever is first.
///
/// It lasts a cycle at least, and after it a cycle by slack comes first, as in the thesis' main loop: with no
/// slack left anywhere, the two take turns.
#[derive(Clone, Copy, Debug, Default)]
pub struct MemoryMode {
    on: Option<Until>,
}

#[derive(Clone, Copy, Debug)]
struct Until {
    used_bytes: u64,
    time: ProcessingTime,
}

/// b, in percent of the bound (thesis §3.2.4).
const BOUND_PERCENT: u128 = 80;

impl MemoryMode {
    /// Asked once a cycle. `least_slack_ns` is that of all queries with work.
    pub fn is_on(&mut self, snapshot: &Snapshot, least_slack_ns: f64) -> bool {
        let Memory { used_bytes, bound_bytes } = snapshot.memory;
        if let Some(until) = self.on {
            if used_bytes > until.used_bytes && snapshot.now < until.time {
                return true;
            }
            self.on = None;
            return false;
        }
        let full = u128::from(used_bytes) * 100 >= u128::from(bound_bytes) * BOUND_PERCENT;
        if bound_bytes == 0 || !full {
            return false;
        }
        // Saturates: without any query at work, it lasts until memory is free.
        let time = snapshot.now.plus_ns(least_slack_ns.max(0.0) as u64);
        self.on = Some(Until { used_bytes: used_bytes / 2, time });
        true
    }
}

/// What each query would release if it were processed for a cycle. Keeps its memory from cycle to cycle.
///
/// Klink §3.4. For each query and each prefix of its pipeline that ends at an operator k with selectivity below
/// 1: released = queued(1..k) · (1 − Π s_i), where no more is counted as queued than can be processed in a
/// cycle. The largest counts.
///
/// | Symbol | Here | Unit |
/// | --- | --- | --- |
/// | queued(1..k), sz_k | rows that wait at k and above it, sources included | rows |
/// | s_i | [`OperatorSnapshot::selectivity`]: of a window that aggregates as rows come, near 0 | |
/// | r | the cycle | ns |
/// | released | rows times their mean size; a row of unknown size counts as one byte | bytes |
///
/// Deviates from the paper: queues of sources count, because here they occupy memory too; and a prefix of a graph that
/// branches is k and all above it, with the mean over branches in place of the product.
#[derive(Clone, Debug, Default)]
pub struct Releases {
    priorities: Vec<f64>,
    prefix: Prefix,
}

impl Releases {
    /// Priority of every unit: minus the bytes its query can release in a cycle, ties by slack.
    pub fn rank(&mut self, snapshot: &Snapshot, slacks_ns: &[f64], cycle_ns: u64, priorities: &mut [f64]) {
        self.priorities.clear();
        for (query, slack_ns) in snapshot.queries.iter().zip(slacks_ns) {
            let released = self.prefix.largest_bytes(snapshot, query, cycle_ns);
            // In (−¼, ¼), so that it decides among equals only. Beyond 2⁴⁰ bytes, twelve bits of it are left.
            let slack_s = slack_ns / 1e9;
            let tie = slack_s / (1.0 + slack_s.abs()) / 4.0;
            self.priorities.push(tie - released.ceil());
        }
        rank_queries(snapshot, priorities, |place| self.priorities[place]);
    }
}

/// An operator and all above it, and what becomes of a row on its way to behind that operator.
#[derive(Clone, Debug, Default)]
struct Prefix {
    /// By place in the query: `None` where it is not above.
    ways: Vec<Option<Way>>,
}

#[derive(Clone, Copy, Debug)]
struct Way {
    /// Share of a row that is left behind k: Π s_i.
    passes: f64,
    /// CPU time of a row up to and with k.
    cost_ns: f64,
}

impl Prefix {
    /// The most bytes that processing up to one operator of the query releases in a cycle.
    fn largest_bytes(&mut self, snapshot: &Snapshot, query: &QuerySnapshot, cycle_ns: u64) -> f64 {
        let ends = query.operators.iter().enumerate();
        let ends = ends.filter(|(_, id)| snapshot.operator(**id).is_some_and(|k| k.selectivity < 1.0));
        ends.map(|(end, _)| self.released_bytes(snapshot, query, end, cycle_ns)).fold(0.0, f64::max)
    }

    fn released_bytes(
        &mut self,
        snapshot: &Snapshot,
        query: &QuerySnapshot,
        end: usize,
        cycle_ns: u64,
    ) -> f64 {
        self.ways.clear();
        self.ways.resize(end + 1, None);
        let (mut rows, mut bytes) = (0u64, 0u64);
        let (mut entries, mut passes, mut cost_ns) = (0.0, 0.0, 0.0);
        // Consumers before producers.
        for place in (0..=end).rev() {
            let Some(operator) = snapshot.operator(query.operators[place]) else { continue };
            let Some(way) = self.way(query, operator, place == end) else { continue };
            self.ways[place] = Some(way);
            rows += operator.queued_rows;
            bytes += operator.queued_bytes;
            if operator.upstream.is_empty() {
                entries += 1.0;
                passes += way.passes;
                cost_ns += way.cost_ns;
            }
        }
        if rows == 0 || entries == 0.0 {
            return 0.0;
        }
        let in_time = cycle_ns as f64 * entries / cost_ns.max(f64::MIN_POSITIVE);
        let row_bytes = if bytes == 0 { 1.0 } else { bytes as f64 / rows as f64 };
        (rows as f64).min(in_time) * (1.0 - passes / entries).max(0.0) * row_bytes
    }

    fn way(&self, query: &QuerySnapshot, operator: &OperatorSnapshot, is_end: bool) -> Option<Way> {
        let (own, row_cost_ns) = (operator.selectivity, operator.row_cost_ns());
        if is_end {
            return Some(Way { passes: own, cost_ns: row_cost_ns });
        }
        let way = |id| query.operators.iter().position(|&at| at == id).and_then(|at| *self.ways.get(at)?);
        let below = || operator.downstream.iter().filter_map(|&id| way(id));
        let count = below().count() as f64;
        (count > 0.0).then(|| Way {
            passes: own * below().map(|way| way.passes).sum::<f64>() / count,
            cost_ns: row_cost_ns + own * below().map(|way| way.cost_ns).sum::<f64>() / count,
        })
    }
}
