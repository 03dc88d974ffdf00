//! Where each metric that a policy asks for comes from. One that cannot be had is an error when the policy asks, not a
//! gap later.

use std::collections::{BTreeMap, BTreeSet};

use super::age::HeadAges;
use super::rate::Rates;
use super::{Metric, Values};
use crate::Topology;

/// What one engine can tell.
pub trait Driver {
    /// What people call the engine.
    fn engine(&self) -> &str;

    /// Whether [`read`](Driver::read) answers for that metric. The same as long as the agent runs.
    fn provides(&self, metric: Metric) -> bool;

    /// The metric of every operator of `topology`, as of the last refresh of the adapter. Asked once per period.
    fn read(&mut self, metric: Metric, topology: &Topology) -> Values;
}

/// The metrics of one engine that policies asked for: each taken from the engine where it provides it, else
/// computed from others, once per period (Lachesis, Algorithm 3).
#[derive(Debug, Default)]
pub struct MetricGraph {
    /// All that is needed, dependencies included, each with where it is from.
    needed: BTreeMap<Metric, Origin>,
    values: BTreeMap<Metric, Values>,
    rates: BTreeMap<Metric, Rates>,
    ages: HeadAges,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Origin {
    Engine,
    Computed,
}

/// A policy needs something that the engine neither tells nor lets us compute. The user can fix it, by another
/// policy or by turning the metric on.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "policy {policy} needs metric {wanted}, but {engine} does not provide {missing}{}",
    if wanted == missing { String::new() } else { format!(", which {wanted} is computed from") }
)]
pub struct MissingMetric {
    /// Who needs it.
    pub policy: String,
    /// What it needs.
    pub wanted: Metric,
    /// What there is not.
    pub missing: Metric,
    /// Where there is not.
    pub engine: String,
}

impl MetricGraph {
    /// Asks for metrics, for a policy to use from the next update on.
    ///
    /// # Errors
    /// If one cannot be had of this engine.
    pub fn register(
        &mut self,
        policy: &str,
        metrics: &[Metric],
        driver: &dyn Driver,
    ) -> Result<(), MissingMetric> {
        for &wanted in metrics {
            let mut waiting = vec![wanted];
            while let Some(metric) = waiting.pop() {
                if self.needed.contains_key(&metric) {
                    continue;
                }
                if driver.provides(metric) {
                    self.needed.insert(metric, Origin::Engine);
                } else if metric.dependencies().is_empty() {
                    let engine = driver.engine().to_owned();
                    return Err(MissingMetric { policy: policy.to_owned(), wanted, missing: metric, engine });
                } else {
                    self.needed.insert(metric, Origin::Computed);
                    waiting.extend(metric.dependencies());
                }
            }
        }
        Ok(())
    }

    /// Reads and computes all that was asked for. `now_ms` is of any clock that runs on.
    pub fn update(&mut self, driver: &mut dyn Driver, topology: &Topology, now_ms: f64) {
        self.values.clear();
        for metric in self.needed.keys().copied().collect::<BTreeSet<_>>() {
            self.compute(metric, driver, topology, now_ms);
        }
        self.rates.values_mut().for_each(Rates::sweep);
        self.ages.sweep();
    }

    /// One value per operator, of the last update; empty for a metric that nobody asked for.
    pub fn values(&self, metric: Metric) -> &[Option<f64>] {
        self.values.get(&metric).map_or(&[], Vec::as_slice)
    }

    /// The value of one operator.
    pub fn value(&self, metric: Metric, operator: usize) -> Option<f64> {
        self.values(metric).get(operator).copied().flatten()
    }

    fn compute(&mut self, metric: Metric, driver: &mut dyn Driver, topology: &Topology, now_ms: f64) {
        if self.values.contains_key(&metric) {
            return;
        }
        let mut values = match self.needed.get(&metric) {
            Some(Origin::Engine) => driver.read(metric, topology),
            _ => {
                for &dependency in metric.dependencies() {
                    self.compute(dependency, driver, topology, now_ms);
                }
                self.derive(metric, topology, now_ms)
            }
        };
        values.resize(topology.operators.len(), None);
        // A driver's NaN is no data; it must not spread.
        for value in &mut values {
            *value = value.filter(|value| value.is_finite());
        }
        self.values.insert(metric, values);
    }

    fn derive(&mut self, metric: Metric, topology: &Topology, now_ms: f64) -> Values {
        let operators = 0..topology.operators.len();
        match metric {
            Metric::QueueRows => operators.map(|o| self.queue(topology, o)).collect(),
            Metric::HeadAgeMs => operators
                .map(|o| {
                    let (arrived, taken) = self.passed(topology, o)?;
                    let key = topology.operators[o].key.clone();
                    Some(self.ages.age_ms(&key, now_ms, arrived, taken))
                })
                .collect(),
            Metric::IngestAgeMs => self.ingest_ages(topology),
            Metric::RateIn => self.rate(metric, Metric::RowsIn, 1.0, topology, now_ms),
            Metric::RateOut => self.rate(metric, Metric::RowsOut, 1.0, topology, now_ms),
            Metric::Cores => self.rate(metric, Metric::CpuNs, 1e-9, topology, now_ms),
            Metric::Waiting => self.rate(metric, Metric::RunDelayNs, 1e-9, topology, now_ms),
            Metric::Cost => {
                let here = topology.instances_here();
                operators
                    .map(|o| {
                        let rate = self.value(Metric::RateIn, o)?;
                        // Rows are counted on all machines, CPU time on this one: instances count as alike.
                        let all = f64::from(topology.operators[o].instances.max(here[o]))
                            / f64::from(here[o].max(1));
                        (rate > 0.0).then_some(self.value(Metric::Cores, o)? * all * 1e9 / rate)
                    })
                    .collect()
            }
            Metric::Selectivity => operators.map(|o| self.selectivity(o)).collect(),
            Metric::PathCost => {
                path_costs(topology, |o| self.value(Metric::Cost, o), |o| self.value(Metric::Selectivity, o))
            }
            Metric::SampleAgeMs => {
                operators.map(|o| Some(now_ms - self.value(Metric::SampledMs, o)?)).collect()
            }
            Metric::RowsIn
            | Metric::RowsOut
            | Metric::CpuNs
            | Metric::RunDelayNs
            | Metric::SampledMs
            | Metric::WatermarkMs => Vec::new(),
        }
    }

    fn rate(
        &mut self,
        metric: Metric,
        counter: Metric,
        unit: f64,
        topology: &Topology,
        now_ms: f64,
    ) -> Values {
        let rates = self.rates.entry(metric).or_default();
        let value = |metric: Metric, o: usize| self.values.get(&metric).and_then(|values| values[o]);
        topology
            .operators
            .iter()
            .enumerate()
            .map(|(o, operator)| {
                // The kernel's counters are of now, whatever the age of the engine's own counters.
                let is_kernels = matches!(counter, Metric::CpuNs | Metric::RunDelayNs);
                let sampled = if is_kernels { None } else { value(Metric::SampledMs, o) };
                rates
                    .rate(&operator.key, value(counter, o)?, sampled.unwrap_or(now_ms))
                    .map(|rate| rate * unit)
            })
            .collect()
    }

    /// Rows that its producers gave on, and those it took in.
    fn passed(&self, topology: &Topology, operator: usize) -> Option<(f64, f64)> {
        let upstream = &topology.operators[operator].upstream;
        let taken = self.value(Metric::RowsIn, operator)?;
        if upstream.is_empty() {
            return Some((taken, taken));
        }
        let mut arrived = 0.0;
        for &up in upstream {
            arrived += self.value(Metric::RowsOut, up)?;
        }
        Some((arrived.max(taken), taken))
    }

    /// Upstream out − own in. Never negative: the counters are not read at one instant. A source's is not known
    /// from counters; 0. Where a producer feeds several consumers its rows are taken to go to each.
    fn queue(&self, topology: &Topology, operator: usize) -> Option<f64> {
        self.passed(topology, operator).map(|(arrived, taken)| arrived - taken)
    }

    /// Own wait plus the longest that producers' rows wait now: what a row that comes out of them now has behind
    /// it, which is exact where the load is steady.
    fn ingest_ages(&self, topology: &Topology) -> Values {
        let mut ages = vec![None; topology.operators.len()];
        for operator in topology.sinks_first().into_iter().rev() {
            let above =
                topology.operators[operator].upstream.iter().filter_map(|&up| ages[up]).fold(0.0, f64::max);
            ages[operator] = self.value(Metric::HeadAgeMs, operator).map(|own| own + above);
        }
        ages
    }

    /// 1 where nothing came in yet, as for a sink, whose rows leave the engine.
    fn selectivity(&self, operator: usize) -> Option<f64> {
        let (rate_in, rate_out) =
            (self.value(Metric::RateIn, operator)?, self.value(Metric::RateOut, operator)?);
        Some(if rate_in > 0.0 && rate_out > 0.0 { rate_out / rate_in } else { 1.0 })
    }
}

/// C_path: max over consumers d of s_o · (C_d + C_path(d)). Operators without data add nothing.
pub(crate) fn path_costs(
    topology: &Topology,
    cost: impl Fn(usize) -> Option<f64>,
    selectivity: impl Fn(usize) -> Option<f64>,
) -> Values {
    let downstream = topology.downstream();
    let mut costs = vec![0.0; topology.operators.len()];
    for operator in topology.sinks_first() {
        let below = downstream[operator].iter().map(|&down| cost(down).unwrap_or(0.0) + costs[down]);
        costs[operator] = selectivity(operator).unwrap_or(1.0) * below.fold(0.0, f64::max);
    }
    costs.into_iter().map(Some).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::tests::chains;

    struct Fixed(Vec<(Metric, Values)>, usize);

    impl Driver for Fixed {
        fn engine(&self) -> &str {
            "fixed"
        }

        fn provides(&self, metric: Metric) -> bool {
            self.0.iter().any(|(known, _)| *known == metric)
        }

        fn read(&mut self, metric: Metric, _: &Topology) -> Values {
            self.1 += 1;
            self.0.iter().find(|(known, _)| *known == metric).unwrap().1.clone()
        }
    }

    fn some(values: &[f64]) -> Values {
        values.iter().copied().map(Some).collect()
    }

    #[test]
    fn a_queue_is_taken_from_the_engine_or_else_computed() {
        let topology = chains(&[3]);
        let counters =
            vec![(Metric::RowsIn, some(&[100.0, 90.0, 45.0])), (Metric::RowsOut, some(&[100.0, 45.0, 45.0]))];
        let mut driver = Fixed(counters.clone(), 0);
        let mut graph = MetricGraph::default();
        graph.register("qs", &[Metric::QueueRows], &driver).unwrap();
        graph.update(&mut driver, &topology, 0.0);
        assert_eq!(graph.values(Metric::QueueRows), some(&[0.0, 10.0, 0.0]));
        assert_eq!(driver.1, 2, "each metric is read once");

        let mut telling = counters;
        telling.push((Metric::QueueRows, some(&[7.0, 8.0, 9.0])));
        let mut driver = Fixed(telling, 0);
        let mut graph = MetricGraph::default();
        graph.register("qs", &[Metric::QueueRows], &driver).unwrap();
        graph.update(&mut driver, &topology, 0.0);
        assert_eq!(graph.values(Metric::QueueRows), some(&[7.0, 8.0, 9.0]));
        assert_eq!(driver.1, 1, "what it is computed from is not read");
    }

    #[test]
    fn what_is_missing_is_named() {
        let driver = Fixed(vec![(Metric::RowsIn, Vec::new())], 0);
        let error = MetricGraph::default().register("hr", &[Metric::Cost], &driver).unwrap_err();
        assert_eq!(
            error.to_string(),
            "policy hr needs metric cost, but fixed does not provide sampled-at, which cost is computed from"
        );
    }

    #[test]
    fn costs_and_selectivities_follow_the_path() {
        let topology = chains(&[3]);
        let mut graph = MetricGraph::default();
        let at = |k: f64| {
            Fixed(
                vec![
                    (Metric::RowsIn, some(&[1_000.0 * k, 1_000.0 * k, 500.0 * k])),
                    (Metric::RowsOut, some(&[1_000.0 * k, 500.0 * k, 0.0])),
                    (Metric::CpuNs, some(&[1e7 * k, 2e7 * k, 2e7 * k])),
                    (Metric::SampledMs, some(&[1_000.0 * k; 3])),
                ],
                0,
            )
        };
        graph.register("hr", &[Metric::PathCost, Metric::SampleAgeMs], &at(0.0)).unwrap();
        for k in [1.0, 2.0] {
            graph.update(&mut at(k), &topology, 1_000.0 * k + 40.0);
        }
        assert_eq!(graph.values(Metric::Cost), some(&[10_000.0, 20_000.0, 40_000.0]));
        assert_eq!(graph.values(Metric::Selectivity), some(&[1.0, 0.5, 1.0]));
        // 0.5 · 40 µs behind the second; 1 · (20 µs + 20 µs) behind the first.
        assert_eq!(graph.values(Metric::PathCost), some(&[40_000.0, 20_000.0, 0.0]));
        assert_eq!(graph.values(Metric::SampleAgeMs), some(&[40.0; 3]));
    }

    #[test]
    fn instances_elsewhere_cost_what_those_here_do() {
        let mut topology = chains(&[1]);
        topology.operators[0].instances = 4;
        let at = |k: f64| {
            let values = [(Metric::RowsIn, 1_000.0), (Metric::CpuNs, 1e7), (Metric::SampledMs, 1_000.0)];
            Fixed(values.map(|(metric, value)| (metric, some(&[value * k]))).to_vec(), 0)
        };
        let mut graph = MetricGraph::default();
        graph.register("hr", &[Metric::Cost], &at(0.0)).unwrap();
        for k in [1.0, 2.0] {
            graph.update(&mut at(k), &topology, 1_000.0 * k);
        }
        // 10 ms here for 250 of the 1 000 rows.
        assert_eq!(graph.values(Metric::Cost), some(&[40_000.0]));
    }

    #[test]
    fn an_operator_without_data_spoils_no_other() {
        let topology = chains(&[1, 1]);
        let mut driver = Fixed(
            vec![(Metric::RowsIn, vec![Some(f64::NAN), Some(5.0)]), (Metric::RowsOut, vec![None, Some(5.0)])],
            0,
        );
        let mut graph = MetricGraph::default();
        graph.register("qs", &[Metric::QueueRows], &driver).unwrap();
        graph.update(&mut driver, &topology, 0.0);
        assert_eq!(graph.values(Metric::QueueRows), [None, Some(0.0)]);
    }
}
