//! What the workloads of Klink's evaluation have in common; the queries stand in files of their own.

use std::time::Duration;

use laxity_graph::{Dataflow, LatencyTarget, NodeId, ProcessingTime, QuerySettings};

use crate::{
    Batching, Delay, Feed, QueryModel, Rate, Stage, Stream, Watermarks, Workload, WorkloadError, load, seed,
};

/// The setting that YSB, Linear Road and NYT share in the evaluation of Klink (Farhat et al., SIGMOD 2021, section 6):
/// equal queries, deployed at random within the first 20 s, rows and watermarks delayed by the network.
///
/// The paper gives no CPU time. Ours: the shares of operators are picked, and their sum is such that 80 queries at the
/// paper's rate ask for nine tenths of its 24 cores, so that its sweep (1 to 80 queries) ends just below saturation.
#[derive(Clone, Debug, PartialEq)]
pub struct Fleet {
    /// Equal queries. Default 40; the paper goes from 1 to 80.
    pub queries: usize,
    /// Times the paper's rate. Default 1.
    pub rate: f64,
    /// Network delay of rows. Default [`Delay::KLINK_UNIFORM`].
    pub delay: Delay,
    /// Network delay of watermarks. Default the same law.
    pub watermark_delay: Delay,
    /// Distance of watermarks. Default 200 ms, that of the paper's latency markers; the authors' public generator
    /// sends one per 200 rows at 500 rows/s.
    pub watermark_every_ms: u64,
    /// How far a watermark is behind the time it is sent. Default 100 ms, no less than any delay of a row, so that
    /// none is late. (The authors' generator takes 5 s, which latencies then contain.)
    pub watermark_lag_ms: i64,
    /// Queries start within this. Default 20 s.
    pub deployed_within: Duration,
    /// Rows are sent together at every tick. Default 10 ms, which is ours.
    pub tick: Duration,
    /// Latency target of all queries; the paper has none. Default 1 s.
    pub target: Duration,
    /// CPU times are those of the type times this. Default 1.
    pub cost_factor: f64,
}

impl Default for Fleet {
    fn default() -> Fleet {
        Fleet {
            queries: 40,
            rate: 1.0,
            delay: Delay::KLINK_UNIFORM,
            watermark_delay: Delay::KLINK_UNIFORM,
            watermark_every_ms: 200,
            watermark_lag_ms: 100,
            deployed_within: Duration::from_secs(20),
            tick: Duration::from_millis(10),
            target: Duration::from_secs(1),
            cost_factor: 1.0,
        }
    }
}

impl Fleet {
    /// Rows and watermarks under Zipf(0.99) delays.
    pub fn zipf() -> Fleet {
        Fleet { delay: Delay::KLINK_ZIPF, watermark_delay: Delay::KLINK_ZIPF, ..Fleet::default() }
    }

    /// The workload. `draft` writes one query with relative costs and names its sources; each source gets
    /// `rows_per_s · self.rate` rows of `row_bytes` bytes.
    pub(crate) fn build(
        &self,
        name: &str,
        seed: u64,
        rows_per_s: f64,
        row_bytes: u32,
        draft: impl Fn(QuerySettings) -> Result<(Dataflow<Stage>, Vec<NodeId>), WorkloadError>,
    ) -> Result<Workload, WorkloadError> {
        let refuse = |name, value, expected| {
            Err(WorkloadError::Parameter { workload: "a Klink workload", name, value, expected })
        };
        let Some(target) = LatencyTarget::new(self.target) else {
            return refuse("target", 0.0, "a duration above 0");
        };
        if !(self.rate.is_finite() && self.rate >= 0.0) {
            return refuse("rate", self.rate, "0 or more");
        }
        let within_ns = u64::try_from(self.deployed_within.as_nanos()).unwrap_or(u64::MAX);
        let mut queries = Vec::with_capacity(self.queries);
        for index in 0..self.queries {
            let own_seed = seed::derived(seed, index as u64);
            let settings =
                QuerySettings { latency_target: target, ..QuerySettings::named(format!("{name} {index}")) };
            let (dataflow, sources) = draft(settings)?;
            let deployed = ProcessingTime(seed::below(own_seed, within_ns));
            let dataflow = load::priced(dataflow, &sources, rows_per_s, self.cost_factor * CORES_PER_QUERY)?;
            let mut feeds = Vec::with_capacity(sources.len());
            for (number, node) in sources.into_iter().enumerate() {
                let stream = Stream {
                    rate: Rate::constant(rows_per_s * self.rate),
                    batching: Batching::Every { ns: self.tick.as_nanos() as u64 },
                    row_bytes,
                    delay: self.delay.clone(),
                    watermarks: Watermarks::Sent {
                        every_ms: self.watermark_every_ms,
                        lag_ms: self.watermark_lag_ms,
                        delay: self.watermark_delay.clone(),
                    },
                    start: deployed,
                    // Each query's windows end at times of its own: "to randomize the uniform distribution of the
                    // window deadlines".
                    event_zero: deployed,
                    ..Stream::constant(rows_per_s, 1)
                };
                let arrivals = stream.arrivals(seed::derived(own_seed, 1 + number as u64))?;
                feeds.push(Feed { node, instance: 0, arrivals });
            }
            queries.push(QueryModel { dataflow, feeds, deployed });
        }
        Ok(Workload { name: name.into(), queries })
    }
}

/// 80 queries on nine tenths of 24 cores.
const CORES_PER_QUERY: f64 = 0.9 * 24.0 / 80.0;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nyt::Nyt;
    use crate::ysb::Ysb;
    use crate::{linear_road, offered_load};

    fn all(fleet: &Fleet, seed: u64) -> Vec<Workload> {
        vec![
            Ysb { fleet: fleet.clone(), ..Ysb::klink() }.build(seed).unwrap(),
            Nyt { fleet: fleet.clone() }.build(seed).unwrap(),
            linear_road::Klink { fleet: fleet.clone(), ..Default::default() }.build(seed).unwrap(),
        ]
    }

    #[test]
    fn eighty_queries_ask_for_nine_tenths_of_24_cores() {
        for workload in all(&Fleet { queries: 80, ..Fleet::default() }, 1) {
            let cores = offered_load(&workload).unwrap().cores();
            assert!((cores / 21.6 - 1.0).abs() < 0.01, "{}: {cores}", workload.name);
        }
    }

    #[test]
    fn queries_start_at_random_within_20_s_and_count_time_from_there() {
        for workload in all(&Fleet::default(), 2) {
            let starts: Vec<u64> = workload.queries.iter().map(|query| query.deployed.0).collect();
            assert!(starts.iter().all(|&start| start < 20_000_000_000));
            let mean = starts.iter().sum::<u64>() as f64 / 40.0;
            // Uniform: deviation 20 s / √12 of each.
            assert!((mean - 10e9).abs() < 6.0 * 20e9 / 480.0_f64.sqrt(), "{mean}");
            for mut query in workload.queries {
                for feed in &mut query.feeds {
                    let first = feed.arrivals.next().unwrap();
                    assert!(first.at >= query.deployed && first.event_time.0 < 200);
                    assert_eq!(feed.arrivals.clock().processing_origin, query.deployed);
                }
            }
        }
    }

    #[test]
    fn watermarks_never_pass_rows() {
        for workload in all(&Fleet::zipf(), 3) {
            let feed = &mut { workload }.queries[0].feeds[0];
            let mut watermark = i64::MIN;
            let mut marks = 0;
            for _ in 0..20_000 {
                let Some(arrival) = feed.arrivals.next() else { break };
                assert!(
                    arrival.rows == 0 || arrival.event_time.0 > watermark,
                    "late by the sender's own watermark"
                );
                if let Some(new) = arrival.watermark {
                    assert!(new.0 > watermark);
                    watermark = new.0;
                    marks += 1;
                }
            }
            assert!(marks > 100);
        }
    }

    #[test]
    fn seeds_repeat_and_differ() {
        let first = |seed| -> Vec<crate::Arrival> {
            let workloads = all(&Fleet { queries: 3, ..Fleet::default() }, seed);
            workloads
                .into_iter()
                .flat_map(|workload| workload.queries)
                .flat_map(|query| query.feeds)
                .flat_map(|mut feed| std::iter::from_fn(move || feed.arrivals.next()).take(50))
                .collect()
        };
        assert_eq!(first(1), first(1));
        assert_ne!(first(1), first(2));
    }
}
