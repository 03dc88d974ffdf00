//! SYN, the synthetic workload of the Haren and Lachesis evaluations (Palyvos-Giannas et al., ICDE 2021, §6.1, after
//! Haren, DEBS 2019): 20 queries of a source, three filters and a sink, their costs and selectivities drawn from
//! `java.util.Random(0)`, so that everyone has the same queries.
//!
//! "Cost" is a number of multiplications per tuple there; [`Syn::multiplication_ns`] makes time of it. Every tuple goes
//! to all queries. Selectivities above 1 occur and let every tuple pass.

use laxity_graph::{Dataflow, LatencyTarget, NodeId, ProcessingTime, QuerySettings};

use crate::flow::{Flow, forward};
use crate::java_random::JavaRandom;
use crate::{
    Batching, Cost, Delay, Feed, QueryModel, Rate, Sleep, Stage, Stream, Watermarks, Workload, WorkloadError,
    seed,
};

/// The workload, with the parameters of the evaluation as defaults.
#[derive(Clone, Debug, PartialEq)]
pub struct Syn {
    /// `--nqueries`. Default 20.
    pub queries: usize,
    /// `--cost`: multiplications per tuple of the cheapest queries. Default 400.
    pub cost: i32,
    /// `--varianceFactor`: costs of queries are up to 2 to this power times as high. Default 5.
    pub variance_factor: i32,
    /// `--chainLength`: filters per query. Default 3.
    pub chain_length: usize,
    /// `--selectivity` as a fraction: the least share of tuples that pass all filters. Default 0.01.
    pub selectivity: f64,
    /// `--operatorVariance` in per cent. Default 10.
    pub operator_variance: i32,
    /// `--randomSeed`. Default 0.
    pub java_seed: i64,
    /// The blocking variant: a filter in ten sleeps now and then. Default off.
    pub is_blocking: bool,
    /// CPU time of one multiplication. Default 1.3 ns: four cycles, its latency, at 3 GHz.
    pub multiplication_ns: f64,
    /// Tuples per second, each to all queries. Default 1 000; the evaluation goes to 2 000.
    pub rows_per_s: f64,
    /// Tuples are sent together at every tick. Default 100 ms, the timer of the original sender.
    pub tick_ns: u64,
    /// Latency target of all queries; the evaluation has none. Default 1 s.
    pub target: LatencyTarget,
}

/// A query of the table.
#[derive(Clone, Debug, PartialEq)]
pub struct SynQuery {
    /// C: multiplications per tuple before operators vary.
    pub cost: i32,
    /// S: selectivity before operators vary.
    pub selectivity: f64,
    /// OP-0, OP-1 …
    pub filters: Vec<SynFilter>,
    /// Multiplications per tuple of the sink.
    pub sink_cost: i32,
}

/// A filter of a query.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SynFilter {
    /// Multiplications per tuple.
    pub cost: i32,
    /// Share of tuples that pass; all of them from 1 on.
    pub selectivity: f64,
    /// Sleeps U{0 … 199} ms at one tuple in a thousand, in the blocking variant.
    pub is_blocking: bool,
}

impl Default for Syn {
    fn default() -> Syn {
        Syn {
            queries: 20,
            cost: 400,
            variance_factor: 5,
            chain_length: 3,
            selectivity: 0.01,
            operator_variance: 10,
            java_seed: 0,
            is_blocking: false,
            multiplication_ns: 1.3,
            rows_per_s: 1_000.0,
            tick_ns: 100_000_000,
            target: LatencyTarget::new(std::time::Duration::from_secs(1)).unwrap_or(LatencyTarget::DEFAULT),
        }
    }
}

impl Syn {
    /// The queries as the original factory draws them. One generator for all of them, in this order: exponent of the
    /// cost, selectivity, then for each filter (whether it blocks,) its cost and its selectivity, then the sink.
    pub fn table(&self) -> Vec<SynQuery> {
        let mut random = JavaRandom::new(self.java_seed);
        let least = (self.selectivity.ln() / self.chain_length.max(1) as f64).exp();
        let mut table = Vec::with_capacity(self.queries);
        for _ in 0..self.queries {
            let cost = self.cost.saturating_mul(1 << random.int(self.variance_factor + 1).min(20));
            let selectivity = least + random.double() * (1.0 - least);
            let variance = (f64::from(cost) * f64::from(self.operator_variance) / 100.0) as i32;
            let filters = (0..self.chain_length)
                .map(|_| {
                    if self.is_blocking && random.double() < 0.1 {
                        return SynFilter { cost, selectivity, is_blocking: true };
                    }
                    let own = cost - variance + random.int(2 * variance + 1);
                    let vary = selectivity * f64::from(self.operator_variance) / 100.0;
                    let selectivity = selectivity + (random.double() * 2.0 * vary - vary);
                    SynFilter { cost: own, selectivity, is_blocking: false }
                })
                .collect();
            let sink_cost = cost - variance + random.int(2 * variance + 1);
            table.push(SynQuery { cost, selectivity, filters, sink_cost });
        }
        table
    }

    /// The workload.
    ///
    /// # Errors
    /// If a parameter is out of its range.
    pub fn build(&self, seed: u64) -> Result<Workload, WorkloadError> {
        if !(self.selectivity > 0.0 && self.selectivity <= 1.0) {
            return Err(WorkloadError::Parameter {
                workload: "SYN",
                name: "selectivity",
                value: self.selectivity,
                expected: "above 0 and at most 1",
            });
        }
        let stream = Stream {
            // The timer started at any time.
            start: ProcessingTime(seed::below(seed, self.tick_ns)),
            rate: Rate::constant(self.rows_per_s),
            batching: Batching::Every { ns: self.tick_ns },
            row_bytes: 112,
            watermarks: Watermarks::None,
            ..Stream::constant(self.rows_per_s, 1)
        };
        let mut queries = Vec::with_capacity(self.queries);
        for (index, query) in self.table().iter().enumerate() {
            let (dataflow, source) = self.flow(index, query)?;
            // The same tuples for every query.
            let arrivals = stream.arrivals(seed::derived(seed, 0))?;
            let feeds = vec![Feed { node: source, instance: 0, arrivals }];
            queries.push(QueryModel { dataflow, feeds, deployed: ProcessingTime::ZERO });
        }
        let name = if self.is_blocking { "SYN, blocking" } else { "SYN" };
        Ok(Workload { name: name.into(), queries })
    }

    fn flow(&self, index: usize, query: &SynQuery) -> Result<(Dataflow<Stage>, NodeId), WorkloadError> {
        let settings =
            QuerySettings { latency_target: self.target, ..QuerySettings::named(format!("SYN {index}")) };
        let time = |multiplications: i32| f64::from(multiplications) * self.multiplication_ns;
        // A timestamp, two numbers and ten longs.
        let mut flow = Flow::new(settings, 112);
        let source = flow.source("source", 1, Cost::NONE)?;
        let mut last = source;
        for (number, filter) in query.filters.iter().enumerate() {
            let (name, cost) = (format!("OP-{number}"), Cost::per_row(time(filter.cost)));
            let selectivity = filter.selectivity.min(1.0);
            last = if filter.is_blocking {
                flow.sleeper(&name, last, cost, selectivity, SLEEP)?
            } else {
                flow.rows(&name, 1, vec![forward(last)], cost, selectivity)?
            };
        }
        flow.sink("sink", vec![forward(last)], Cost::per_row(time(query.sink_cost)))?;
        Ok((flow.finish(), source))
    }
}

/// `nextInt(200)` ms at one tuple in a thousand: every whole number from 0 to 199 is as likely.
const SLEEP: Sleep =
    Sleep { chance_per_row: 0.001, length: Delay::Zipf { exponent: 0.0, ranks: 200, step_ns: 1_000_000 } };

#[cfg(test)]
mod tests;
