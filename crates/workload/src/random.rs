//! Workloads drawn from a seed, for claims about policies that were tuned on others: what no paper has thought of.
//!
//! Seeds below [`JUDGING`] are for training: looked at, tuned on. Those from it on are for judging: run once, at the end.

use std::time::Duration;

use laxity_graph::{
    Dataflow, Input, LatencyTarget, Node, NodeId, Partitioning, ProcessingTime, QuerySettings, WindowShape,
};
use rand_distr::{Distribution, OpenClosed01};
use rand_pcg::Pcg64;

use crate::{
    Batching, Cadence, Cost, Delay, Feed, QueryModel, Rate, Spacing, Stage, StageKind, Stream, Watermarks,
    Workload, WorkloadError, offered_load, seed,
};

/// The first seed that nothing may be tuned on.
pub const JUDGING: u64 = 1_000_000;

/// A workload and the machine that it is meant for.
#[derive(Debug)]
pub struct Drawn {
    /// What arrives and what it costs.
    pub workload: Workload,
    /// Cores of the machine, 1 to 64.
    pub cores: usize,
    /// What is offered, as a share of what the cores can do: half to one and a half of it.
    pub load: f64,
    /// What a call costs beside its work, in ns.
    pub call_ns: u64,
    /// One of the cores is slower by this factor.
    pub straggler: Option<f64>,
}

/// The workload of a seed: 1 to 300 queries, most of them small; chains, trees and joins with windows of many sizes;
/// targets over four decades and weights over one; costs with a tail; steady, bursting and heavy-tailed arrivals with
/// delays; rates as skewed as tenants are.
///
/// # Errors
/// If what was drawn cannot be built: our bug.
pub fn drawn(seed: u64) -> Result<Drawn, WorkloadError> {
    let mut dice = Dice { random: seed::generator(seed, 0) };
    // With fewer queries than cores there is little to order: operators are the bottleneck.
    let cores = dice.spread(1.0, 64.0).round().min((queries(seed) as f64 / 2.0).ceil()) as usize;
    let load = dice.within(0.5, 1.5);
    let call_ns = dice.spread(200.0, 50_000.0) as u64;
    let straggler = dice.one_in(6).then(|| dice.within(1.5, 4.0));
    // Costs are in proportion: what all ask for together is known once it is built.
    let cost_factor = load * cores as f64 / offered_load(&build(seed, cores, 1.0)?)?.cores().max(1e-12);
    let workload = build(seed, cores, cost_factor)?;
    Ok(Drawn { workload, cores, load, call_ns, straggler })
}

/// Messages a second of all sources of one core's worth of queries; more cores get more, by their root: a run must end.
const MESSAGES_PER_S: f64 = 400.0;

fn queries(seed: u64) -> usize {
    Dice { random: seed::generator(seed, 2) }.spread(1.0, 300.0).round() as usize
}

fn build(seed: u64, cores: usize, cost_factor: f64) -> Result<Workload, WorkloadError> {
    let mut dice = Dice { random: seed::generator(seed, 1) };
    let count = queries(seed);
    // Skew: a few tenants send most.
    let skew = dice.within(0.0, 1.2);
    let shares: Vec<f64> = (1..=count).map(|rank| (rank as f64).powf(-skew)).collect();
    let all: f64 = shares.iter().sum();
    let messages_per_s = MESSAGES_PER_S * (cores as f64).sqrt();
    // Alike targets or not, alike weights or not.
    let targets = (dice.spread(5e-3, 5.0), dice.within(0.0, 2.0));
    let is_weighted = dice.one_in(3);
    let queries = shares.iter().enumerate().map(|(index, share)| {
        let (target_s, decades) = targets;
        let target_s = target_s * 10f64.powf(dice.within(-decades, decades));
        let target = Duration::from_secs_f64(target_s.clamp(1e-3, 60.0));
        let mut settings = QuerySettings::named(format!("query {index}"));
        settings.latency_target = LatencyTarget::new(target).unwrap_or(LatencyTarget::DEFAULT);
        if is_weighted {
            settings.weight = dice.spread(0.3, 3.0);
        }
        dice.query(settings, messages_per_s * share / all, cost_factor, seed ^ (index as u64) << 20)
    });
    let queries = queries.collect::<Result<_, _>>()?;
    Ok(Workload { name: format!("drawn {seed}"), queries })
}

struct Dice {
    random: Pcg64,
}

impl Dice {
    fn unit(&mut self) -> f64 {
        OpenClosed01.sample(&mut self.random)
    }

    fn within(&mut self, low: f64, high: f64) -> f64 {
        low + self.unit() * (high - low)
    }

    /// Orders of magnitude are as likely.
    fn spread(&mut self, low: f64, high: f64) -> f64 {
        low * (high / low).powf(self.unit())
    }

    fn one_in(&mut self, n: u32) -> bool {
        self.unit() * f64::from(n) <= 1.0
    }

    /// One to three sources, a stretch of operators on each, a join of them all, perhaps a window, a sink.
    fn query(
        &mut self,
        settings: QuerySettings,
        messages_per_s: f64,
        cost_factor: f64,
        seed: u64,
    ) -> Result<QueryModel, WorkloadError> {
        let mut flow = Dataflow::new(settings);
        let mut feeds = Vec::new();
        let mut ends = Vec::new();
        // A tail: a few queries cost many times as much as most.
        let dearness = cost_factor * self.unit().powf(-0.7).min(100.0);
        let rows = self.spread(1.0, 300.0).round();
        let sources = if self.one_in(4) { self.within(1.5, 3.5) as usize } else { 1 };
        for source in 0..sources {
            let node = self.push(&mut flow, &[], StageKind::Source, None, dearness)?;
            let stream = self.stream(messages_per_s / sources as f64, rows);
            let arrivals = stream.arrivals(seed ^ (source as u64) << 8)?;
            feeds.push(Feed { node, instance: 0, arrivals });
            let mut end = node;
            for _ in 0..self.within(0.0, 3.0) as usize {
                let kind = StageKind::Rows { selectivity: self.spread(0.1, 1.5) };
                end = self.push(&mut flow, &[end], kind, None, dearness)?;
            }
            ends.push(end);
        }
        let is_windowed = self.one_in(2);
        let mut end = ends[0];
        if is_windowed || ends.len() > 1 {
            let slide_ms = self.spread(50.0, 5_000.0) as i64;
            let size_ms = slide_ms * self.within(1.0, 4.9) as i64;
            let window = is_windowed.then_some(WindowShape { size_ms, slide_ms, end_ms: Some(0) });
            let kind = match window {
                Some(_) => StageKind::Window {
                    selectivity: self.spread(0.001, 0.5),
                    rows_max: self.spread(1.0, 300.0),
                    fire_per_row_ns: 0.0,
                    state_row_bytes: 50,
                },
                None => StageKind::Rows { selectivity: self.spread(0.1, 1.0) },
            };
            end = self.push(&mut flow, &ends, kind, window, dearness)?;
        }
        // A tree: two outputs now and then.
        for _ in 0..if self.one_in(5) { 2 } else { 1 } {
            self.push(&mut flow, &[end], StageKind::Sink, None, dearness)?;
        }
        Ok(QueryModel { dataflow: flow, feeds, deployed: ProcessingTime::ZERO })
    }

    fn push(
        &mut self,
        flow: &mut Dataflow<Stage>,
        inputs: &[NodeId],
        kind: StageKind,
        window: Option<WindowShape>,
        dearness: f64,
    ) -> Result<NodeId, WorkloadError> {
        let inputs = inputs.iter().map(|&from| Input { from, partitioning: Partitioning::Forward }).collect();
        let cost = Cost {
            fixed_ns: self.spread(1_000.0, 20_000.0),
            per_row_ns: self.spread(30.0, 3_000.0),
            watermark_ns: self.spread(500.0, 10_000.0),
        };
        let stage = Stage::new(kind, cost.times(dearness), 100);
        let name = format!("node {}", flow.nodes().len());
        Ok(flow.push(Node { name, parallelism: 1, inputs, window, stage })?)
    }

    fn stream(&mut self, messages_per_s: f64, rows: f64) -> Stream {
        let rows_per_s = (messages_per_s * rows).max(0.05);
        let rate = match self.unit() {
            u if u < 0.5 => Rate::constant(rows_per_s),
            u if u < 0.75 => {
                // A tenth of the time at so many times the rate of the rest.
                let (factor, period_ns) = (self.within(2.0, 20.0), self.spread(2e8, 5e9) as u64);
                let base_rows_per_s = rows_per_s / (0.9 + 0.1 * factor);
                Rate::Bursts {
                    base_rows_per_s,
                    burst_rows_per_s: base_rows_per_s * factor,
                    duration_ns: period_ns / 10,
                    period_ns,
                }
            }
            _ => Rate::pareto(rows_per_s),
        };
        let delay = match self.unit() {
            u if u < 0.6 => Delay::NONE,
            u if u < 0.8 => Delay::Uniform { low_ns: 0, high_ns: self.spread(1e6, 2e8) as u64 },
            _ => Delay::Exponential { mean_ns: self.spread(1e6, 1e8) },
        };
        Stream {
            rate,
            spacing: if self.one_in(3) { Spacing::Even } else { Spacing::Poisson },
            batching: Batching::Rows(rows as u32),
            row_bytes: 100,
            delay,
            watermarks: Watermarks::Behind {
                cadence: Cadence::Batch,
                lag_ms: if self.one_in(2) { 0 } else { self.spread(1.0, 500.0) as i64 },
            },
            ..Stream::constant(1.0, 1)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_is_a_workload_and_offers_what_it_says() {
        for seed in (0..20).chain(JUDGING..JUDGING + 5) {
            let one = drawn(seed).unwrap();
            let load = offered_load(&one.workload).unwrap().cores() / one.cores as f64;
            assert!(
                (load / one.load - 1.0).abs() < 1e-6 && (0.5..=1.5).contains(&one.load),
                "{seed}: {load}"
            );
            assert!((1..=64).contains(&one.cores) && !one.workload.queries.is_empty());
            assert_eq!(drawn(seed).unwrap().workload.queries.len(), one.workload.queries.len());
        }
    }
}
