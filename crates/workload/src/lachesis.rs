//! What the workloads of Lachesis' evaluation have in common; the queries stand in files of their own.

use std::time::Duration;

use laxity_graph::{Dataflow, LatencyTarget, NodeId, ProcessingTime, QuerySettings};

use crate::{
    Batching, Feed, QueryModel, Rate, Stage, Stream, Watermarks, Workload, WorkloadError, load, seed,
};

/// The setting that ETL, STATS, Linear Road and VoipStream share in the evaluation of Lachesis (Palyvos-Giannas et
/// al., ICDE 2021, section 6): one query, an open-loop source that sends at every 100 ms.
///
/// The paper gives no CPU time per tuple. Ours: the shares of operators are picked, and their sum is such that the
/// highest rate that Lachesis is shown to sustain fills its four big cores.
#[derive(Clone, Debug, PartialEq)]
pub struct Testbed {
    /// Equal queries. Default 1.
    pub queries: usize,
    /// Share of the rate that fills four cores. Default 0.9.
    pub rate: f64,
    /// Distance of two sendings. Default 100 ms, the timer of the original sender.
    pub tick: Duration,
    /// Latency target; the paper has none. Default 1 s.
    pub target: Duration,
    /// CPU times are those of the type times this. Default 1.
    pub cost_factor: f64,
}

impl Default for Testbed {
    fn default() -> Testbed {
        Testbed {
            queries: 1,
            rate: 0.9,
            tick: Duration::from_millis(100),
            target: Duration::from_secs(1),
            cost_factor: 1.0,
        }
    }
}

impl Testbed {
    /// The workload. `draft` writes one query with relative costs and names its source; `full_rows_per_s` fills four
    /// cores.
    pub(crate) fn build(
        &self,
        name: &str,
        seed: u64,
        full_rows_per_s: f64,
        row_bytes: u32,
        draft: impl Fn(QuerySettings) -> Result<(Dataflow<Stage>, NodeId), WorkloadError>,
    ) -> Result<Workload, WorkloadError> {
        let refuse = |name, value, expected| {
            Err(WorkloadError::Parameter { workload: "a Lachesis workload", name, value, expected })
        };
        let Some(target) = LatencyTarget::new(self.target) else {
            return refuse("target", 0.0, "a duration above 0");
        };
        if !(self.rate.is_finite() && self.rate >= 0.0) {
            return refuse("rate", self.rate, "0 or more");
        }
        let mut queries = Vec::with_capacity(self.queries);
        for index in 0..self.queries {
            let settings =
                QuerySettings { latency_target: target, ..QuerySettings::named(format!("{name} {index}")) };
            let (dataflow, node) = draft(settings)?;
            let dataflow = load::priced(dataflow, &[node], full_rows_per_s, self.cost_factor * CORES)?;
            let own_seed = seed::derived(seed, index as u64);
            let tick_ns = self.tick.as_nanos() as u64;
            let stream = Stream {
                // The timer started at any time.
                start: ProcessingTime(seed::below(own_seed, tick_ns)),
                rate: Rate::constant(self.rate * full_rows_per_s),
                batching: Batching::Every { ns: tick_ns },
                row_bytes,
                watermarks: Watermarks::None,
                ..Stream::constant(full_rows_per_s, 1)
            };
            let arrivals = stream.arrivals(own_seed)?;
            let feeds = vec![Feed { node, instance: 0, arrivals }];
            queries.push(QueryModel { dataflow, feeds, deployed: ProcessingTime::ZERO });
        }
        Ok(Workload { name: name.into(), queries })
    }
}

/// The big cores of an Odroid-XU4.
const CORES: f64 = 4.0;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::riot::{Etl, Stats};
    use crate::voip::VoipStream;
    use crate::{linear_road, offered_load};

    fn all(testbed: Testbed) -> Vec<Workload> {
        vec![
            Etl { testbed: testbed.clone() }.build(0).unwrap(),
            Stats { testbed: testbed.clone() }.build(0).unwrap(),
            VoipStream { testbed: testbed.clone() }.build(0).unwrap(),
            linear_road::Lachesis { testbed }.build(0).unwrap(),
        ]
    }

    #[test]
    fn the_highest_rate_fills_four_cores() {
        for workload in all(Testbed { rate: 1.0, ..Testbed::default() }) {
            let cores = offered_load(&workload).unwrap().cores();
            assert!((cores - 4.0).abs() < 1e-9, "{}: {cores}", workload.name);
        }
    }

    #[test]
    fn operators_are_as_many_as_in_the_paper() {
        // Section 6.1: 10, 10, 15 and 9 operators. Instances count; the paper leaves ETL's second publisher out.
        let counts: Vec<usize> = all(Testbed::default())
            .iter()
            .map(|workload| workload.queries[0].dataflow.nodes().iter().map(|node| node.parallelism).sum())
            .collect();
        assert_eq!(counts, [11, 10, 15, 9]);
    }

    #[test]
    fn rows_per_row_are_those_of_the_reference() {
        let workloads = all(Testbed::default());
        let reaching_sinks = |workload: &Workload| {
            let flow = &workload.queries[0].dataflow;
            let mut rows = vec![0.0; flow.nodes().len()];
            let mut out = 0.0;
            for (index, node) in flow.nodes().iter().enumerate() {
                let taken: f64 = node.inputs.iter().map(|input| rows[input.from.0]).sum();
                rows[index] = match node.stage.kind {
                    crate::StageKind::Source => 1.0,
                    crate::StageKind::Rows { selectivity } => taken * selectivity,
                    _ => {
                        out += taken;
                        0.0
                    }
                };
            }
            out
        };
        // ETL egress 1.95 per ingress; STATS 15 without warm-up; Linear Road 3 per position report.
        assert!((reaching_sinks(&workloads[0]) - 1.95).abs() < 1e-9);
        assert!((reaching_sinks(&workloads[1]) - 15.0).abs() < 1e-9);
        assert!((reaching_sinks(&workloads[3]) - 3.0 * 0.994).abs() < 1e-9);
        // VoipStream: one score per result of acd, fofir and url: 0.95², 0.95 and 0.95².
        assert!((reaching_sinks(&workloads[2]) - (2.0 * 0.9025 + 0.95)).abs() < 1e-9);
    }
}
