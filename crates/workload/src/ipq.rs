//! The evaluation workload of Cameo (Xu et al., NSDI 2021, section 6): the queries IPQ1 to IPQ4 and two groups of
//! tenants.
//!
//! The paper describes the queries in words. Four stages each, as there ("operators are triggered at each stage in
//! order (stage 0 to 3)"): parse, aggregate by parts, combine, report. What is ours: instances per stage, groups,
//! and costs. Costs per row sum to 8 µs for IPQ1: then eight bulk tenants of 64 sources at 30 000 rows/s each keep
//! 128 cores (32 nodes of 4) nearly busy, which is where Fig. 8(a) has its knee; how many bulk tenants that figure
//! had is not printed. Only ratios to capacity should be read out of them.

use std::time::Duration;

use laxity_graph::{LatencyTarget, NodeId, ProcessingTime, QuerySettings};

use crate::flow::{Firing, Flow, by_key, gather, in_turn, sliding, tumbling};
use crate::{
    Batching, Cadence, Cost, Delay, Feed, QueryModel, Rate, Stream, Watermarks, Workload, WorkloadError,
    seed, skewed_shares,
};

/// The queries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ipq {
    /// Revenue of advertisements: periodic sum by criteria.
    Revenue,
    /// The same over sliding windows.
    RevenueSliding,
    /// Events of jobs: periodic count by criteria.
    Events,
    /// Errors of two log streams joined in windows, then summarised.
    Errors,
}

impl Ipq {
    /// IPQ1 to IPQ4.
    pub const ALL: [Ipq; 4] = [Ipq::Revenue, Ipq::RevenueSliding, Ipq::Events, Ipq::Errors];

    /// As the paper calls it.
    pub fn name(self) -> &'static str {
        match self {
            Ipq::Revenue => "IPQ1",
            Ipq::RevenueSliding => "IPQ2",
            Ipq::Events => "IPQ3",
            Ipq::Errors => "IPQ4",
        }
    }
}

/// One job: a query and what it reads.
#[derive(Clone, Debug, PartialEq)]
pub struct Job {
    /// Unique among the jobs of a workload.
    pub name: String,
    /// Which query.
    pub ipq: Ipq,
    /// Client sources, half of them for each side of a join. Default 64.
    pub sources: usize,
    /// Rows per second of a source on average. Default 1 000.
    pub rows_per_s: f64,
    /// Rows in a message on average. Fewer where there would be less than one message per window. Default 1 000.
    pub message_rows: u32,
    /// Volume per second drawn from a Pareto law instead of constant. Default off.
    pub is_bursty: bool,
    /// The rate of the busiest source over that of the least busy. Default 1.
    pub skew: f64,
    /// The window; slides by half of it in IPQ2. Default 1 s.
    pub window_ms: i64,
    /// Default 800 ms.
    pub target: Duration,
    /// All sources send at the same instants, as the windows end, instead of spread over time. Default off.
    pub is_aligned: bool,
    /// From a client to a source. Default uniform up to 10 ms, which is ours.
    pub delay: Delay,
    /// Instances of the parsing, aggregating and combining stage. Default 16, 8, 4.
    pub instances: [usize; 3],
    /// Costs are those of the module times this. Default 1.
    pub cost_factor: f64,
}

impl Job {
    /// A job of the latency-sensitive group (§6): one message of 1 000 rows per second and source, windows of 1 s, due
    /// within 800 ms.
    pub fn latency_sensitive(name: impl Into<String>, ipq: Ipq) -> Job {
        Job {
            name: name.into(),
            ipq,
            sources: 64,
            rows_per_s: 1_000.0,
            message_rows: 1_000,
            is_bursty: false,
            skew: 1.0,
            window_ms: 1_000,
            target: Duration::from_millis(800),
            is_aligned: false,
            delay: Delay::Uniform { low_ns: 0, high_ns: 10_000_000 },
            instances: [16, 8, 4],
            cost_factor: 1.0,
        }
    }

    /// A job of the bulk group: windows of 10 s, due within 7 200 s, ten times the rows. The paper gives "higher
    /// and variable volume" without a number.
    pub fn bulk(name: impl Into<String>, ipq: Ipq) -> Job {
        Job {
            rows_per_s: 10_000.0,
            window_ms: 10_000,
            target: Duration::from_secs(7_200),
            ..Job::latency_sensitive(name, ipq)
        }
    }

    /// The job as costs.
    ///
    /// # Errors
    /// If a parameter is out of its range.
    pub fn build(&self, seed: u64) -> Result<QueryModel, WorkloadError> {
        let refuse =
            |name, value, expected| Err(WorkloadError::Parameter { workload: "IPQ", name, value, expected });
        if self.sources < 2 {
            return refuse("sources", self.sources as f64, "at least 2");
        }
        if self.window_ms < 2 {
            return refuse("window_ms", self.window_ms as f64, "at least 2");
        }
        if !(self.skew.is_finite() && self.skew >= 1.0) {
            return refuse("skew", self.skew, "1 or more");
        }
        let Some(target) = LatencyTarget::new(self.target) else {
            return refuse("target", 0.0, "a duration above 0");
        };
        let mut flow =
            Flow::new(QuerySettings { latency_target: target, ..QuerySettings::named(&self.name) }, 100);
        let source_nodes = match self.ipq {
            Ipq::Errors => self.join(&mut flow)?,
            _ => self.aggregation(&mut flow)?,
        };
        let feeds = self.feeds(&source_nodes, seed)?;
        Ok(QueryModel { dataflow: flow.finish(), feeds, deployed: ProcessingTime::ZERO })
    }

    fn cost(&self, fixed_ns: f64, per_row_ns: f64) -> Cost {
        // Every batch takes a watermark along to instances that get no row of it: these calls are short.
        Cost { fixed_ns, per_row_ns, watermark_ns: 1_000.0 }.times(self.cost_factor)
    }

    fn aggregation(&self, flow: &mut Flow) -> Result<Vec<(NodeId, usize)>, WorkloadError> {
        let [parse, aggregate, combine] = self.instances;
        let shape = match self.ipq {
            Ipq::RevenueSliding => sliding(self.window_ms / 2 * 2, self.window_ms / 2),
            _ => tumbling(self.window_ms),
        };
        // Counting takes half as long as summing decimals; groups are ours.
        let aggregate_row_ns = if self.ipq == Ipq::Events { 2_000.0 } else { 4_000.0 };
        let groups = 1_000.0;
        let source = flow.source("source", self.sources, self.cost(5_000.0, 500.0))?;
        let parsed = flow.rows("parse", parse, vec![in_turn(source)], self.cost(5_000.0, 3_500.0), 1.0)?;
        flow.row_bytes(32);
        let firing = Firing::groups(shape, groups / aggregate as f64);
        let parts = flow.window(
            "aggregate",
            aggregate,
            vec![by_key(parsed)],
            self.cost(5_000.0, aggregate_row_ns),
            firing,
        )?;
        let firing = Firing::groups(tumbling(shape.slide_ms), 50.0 / combine as f64);
        let combined =
            flow.window("combine", combine, vec![by_key(parts)], self.cost(5_000.0, 1_000.0), firing)?;
        flow.sink("report", vec![gather(combined)], self.cost(5_000.0, 1_000.0))?;
        Ok(vec![(source, self.sources)])
    }

    fn join(&self, flow: &mut Flow) -> Result<Vec<(NodeId, usize)>, WorkloadError> {
        let [parse, join, summarise] = self.instances;
        let sides = [self.sources - self.sources / 2, self.sources / 2];
        let mut sources = Vec::new();
        let mut parsed = Vec::new();
        for (side, count) in ["requests", "errors"].into_iter().zip(sides) {
            let source = flow.source(side, count, self.cost(5_000.0, 500.0))?;
            sources.push((source, count));
            let copies = (parse / 2).max(1);
            // Of the second stream, a tenth are errors.
            let selectivity = if side == "errors" { 0.1 } else { 1.0 };
            let name = format!("parse {side}");
            let cost = self.cost(5_000.0, 3_500.0);
            parsed.push(by_key(flow.rows(&name, copies, vec![in_turn(source)], cost, selectivity)?));
        }
        // "A higher execution time with heavy memory access": the join keeps its rows and probes as the window ends.
        let firing = Firing {
            shape: tumbling(self.window_ms),
            selectivity: 0.1,
            rows_max: f64::MAX,
            fire_per_row_ns: 6_000.0 * self.cost_factor,
            state_row_bytes: 100,
        };
        let joined = flow.window("join", join, parsed, self.cost(5_000.0, 4_000.0), firing)?;
        flow.row_bytes(32);
        let firing = Firing::groups(tumbling(self.window_ms), 100.0 / summarise as f64);
        let cost = self.cost(5_000.0, 2_000.0);
        let summary = flow.window("summarise", summarise, vec![by_key(joined)], cost, firing)?;
        flow.sink("report", vec![gather(summary)], self.cost(5_000.0, 1_000.0))?;
        Ok(sources)
    }

    fn feeds(&self, nodes: &[(NodeId, usize)], seed: u64) -> Result<Vec<Feed>, WorkloadError> {
        let shares = skewed_shares(self.sources, self.skew);
        let mut feeds = Vec::with_capacity(self.sources);
        // All sources send equally often: under skew, and in bursts, it is the messages that differ in size. A source
        // that is slow still sends in every window, else its silence would hold the window open.
        let gap_s = f64::from(self.message_rows) / self.rows_per_s;
        let gap_ns = (gap_s.min(self.window_ms as f64 / 1e3) * 1e9).max(1.0) as u64;
        let places = nodes.iter().flat_map(|&(node, count)| (0..count).map(move |instance| (node, instance)));
        for (index, (node, instance)) in places.enumerate() {
            let rows_per_s = self.rows_per_s * self.sources as f64 * shares[index];
            let own_seed = seed::derived(seed, index as u64);
            // Sources of one job send one after another, the gaps between them equal.
            let start_ns =
                if self.is_aligned { 0 } else { gap_ns * index as u64 / self.sources.max(1) as u64 };
            let rate = if self.is_bursty { Rate::pareto(rows_per_s) } else { Rate::constant(rows_per_s) };
            let stream = Stream {
                rate,
                batching: Batching::Every { ns: gap_ns },
                delay: self.delay.clone(),
                watermarks: Watermarks::Behind {
                    cadence: Cadence::Batch,
                    lag_ms: lag_ms(&self.delay, gap_ns),
                },
                start: ProcessingTime(start_ns),
                ..Stream::constant(rows_per_s, self.message_rows)
            };
            feeds.push(Feed { node, instance, arrivals: stream.arrivals(own_seed)? });
        }
        Ok(feeds)
    }
}

/// Latency-sensitive tenants beside bulk ones.
#[derive(Clone, Debug, PartialEq)]
pub struct Tenants {
    /// Latency-sensitive jobs, in turn IPQ1 to IPQ3. Default 4.
    pub latency_sensitive: usize,
    /// Bulk jobs, in turn IPQ1 to IPQ3. Default 8.
    pub bulk: usize,
    /// Rows per second of every source of a latency-sensitive job. Default 1 000.
    pub latency_sensitive_rows_per_s: f64,
    /// Rows per second of every source of a bulk job. Default 10 000.
    pub bulk_rows_per_s: f64,
    /// Pareto volume of the bulk jobs (Fig. 9). Default off.
    pub is_bursty: bool,
    /// Skew across the sources of every job (Fig. 10). Default 1.
    pub skew: f64,
    /// Client sources per job. Default 64.
    pub sources: usize,
    /// Instances of the three inner stages. Default 16, 8, 4.
    pub instances: [usize; 3],
}

impl Default for Tenants {
    fn default() -> Tenants {
        Tenants {
            latency_sensitive: 4,
            bulk: 8,
            latency_sensitive_rows_per_s: 1_000.0,
            bulk_rows_per_s: 10_000.0,
            is_bursty: false,
            skew: 1.0,
            sources: 64,
            instances: [16, 8, 4],
        }
    }
}

impl Tenants {
    /// Fig. 9: four and eight jobs, bulk volume drawn from a Pareto law.
    pub fn bursty() -> Tenants {
        Tenants { is_bursty: true, ..Tenants::default() }
    }

    /// Fig. 10, Type 1: twice the events of Type 2, evenly from all sources.
    pub fn type_1() -> Tenants {
        let even = Tenants::default();
        Tenants {
            latency_sensitive_rows_per_s: 2.0 * even.latency_sensitive_rows_per_s,
            bulk_rows_per_s: 2.0 * even.bulk_rows_per_s,
            ..even
        }
    }

    /// Fig. 10, Type 2: "its ingestion rate varies by 200× across sources".
    pub fn type_2() -> Tenants {
        Tenants { skew: 200.0, ..Tenants::default() }
    }

    /// The jobs, latency-sensitive ones first.
    pub fn jobs(&self) -> Vec<Job> {
        let sensitive = (0..self.latency_sensitive).map(|i| Job {
            rows_per_s: self.latency_sensitive_rows_per_s,
            ..Job::latency_sensitive(format!("LS {i}"), Ipq::ALL[i % 3])
        });
        let bulk = (0..self.bulk).map(|i| Job {
            rows_per_s: self.bulk_rows_per_s,
            is_bursty: self.is_bursty,
            ..Job::bulk(format!("BA {i}"), Ipq::ALL[i % 3])
        });
        sensitive
            .chain(bulk)
            .map(|job| Job { skew: self.skew, sources: self.sources, instances: self.instances, ..job })
            .collect()
    }

    /// The workload.
    ///
    /// # Errors
    /// If a parameter is out of its range.
    pub fn build(&self, seed: u64) -> Result<Workload, WorkloadError> {
        jobs("cameo tenants", &self.jobs(), seed)
    }
}

/// Any jobs together: one of each query for the single-tenant experiments.
///
/// # Errors
/// If a parameter is out of its range.
pub fn jobs(name: &str, jobs: &[Job], seed: u64) -> Result<Workload, WorkloadError> {
    let queries = jobs.iter().enumerate().map(|(index, job)| job.build(seed::derived(seed, index as u64)));
    Ok(Workload { name: name.into(), queries: queries.collect::<Result<_, _>>()? })
}

/// A lag behind which no row comes late: none where messages are too far apart to overtake one another, so that a
/// message sent as a window ends closes it.
fn lag_ms(delay: &Delay, gap_ns: u64) -> i64 {
    let spread_ns = delay.max_ns().unwrap_or(0).saturating_sub(delay.min_ns());
    if gap_ns > spread_ns { 0 } else { spread_ns.div_ceil(1_000_000) as i64 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Arrival, offered_load};

    fn first_second(job: &Job) -> Vec<Vec<Arrival>> {
        let query = job.build(0).unwrap();
        let feeds = query.feeds.into_iter().map(|mut feed| {
            std::iter::from_fn(move || feed.arrivals.next())
                .take_while(|arrival| arrival.event_time.0 < 1_000)
                .collect()
        });
        feeds.collect()
    }

    #[test]
    fn latency_sensitive_sources_send_a_message_a_second() {
        let job = Job { is_aligned: true, ..Job::latency_sensitive("a", Ipq::Revenue) };
        let feeds = first_second(&job);
        assert_eq!(feeds.len(), 64);
        for feed in feeds {
            assert_eq!(feed.len(), 1);
            assert_eq!((feed[0].rows, feed[0].event_time.0), (1_000, 999), "the window's own message");
            assert_eq!(feed[0].watermark.map(|w| w.0), Some(999), "which closes it");
        }
    }

    #[test]
    fn skew_makes_one_source_200_times_as_busy() {
        let job = Job { skew: 200.0, ..Job::bulk("b", Ipq::Events) };
        let mut workload = jobs("w", std::slice::from_ref(&job), 0).unwrap();
        let rates: Vec<f64> = workload.queries[0]
            .feeds
            .iter()
            .map(|feed| feed.arrivals.offered().unwrap().rows_per_s)
            .collect();
        assert!((rates[0] / rates[63] - 200.0).abs() < 1e-6);
        assert!((rates.iter().sum::<f64>() - 640_000.0).abs() < 1e-3);
        // Ten messages a second from each, and never silent for a window.
        for feed in &mut workload.queries[0].feeds {
            let messages = std::iter::from_fn(|| feed.arrivals.next());
            let count = messages.take_while(|message| message.event_time.0 < 10_000).count();
            assert!((99..=100).contains(&count), "{count}");
        }
    }

    #[test]
    fn types_differ_in_volume_and_skew() {
        let rows = |tenants: Tenants| offered_load(&tenants.build(0).unwrap()).unwrap().rows_per_s;
        let (one, two) = (rows(Tenants::type_1()), rows(Tenants::type_2()));
        assert!((one / two - 2.0).abs() < 1e-9);
        // (4 · 1 000 + 8 · 10 000) · 64.
        assert!((two - 5_376_000.0).abs() < 1e-3);
    }

    #[test]
    fn the_knee_of_figure_8_is_near_128_cores() {
        let tenants = Tenants { bulk_rows_per_s: 30_000.0, ..Tenants::default() };
        let cores = offered_load(&tenants.build(0).unwrap()).unwrap().cores();
        assert!((100.0..128.0).contains(&cores), "{cores}");
    }

    #[test]
    fn every_query_has_four_stages_behind_its_sources() {
        for ipq in Ipq::ALL {
            let query = Job::latency_sensitive("q", ipq).build(0).unwrap();
            let depth = |ipq: &QueryModel| {
                let mut depth = vec![0; ipq.dataflow.nodes().len()];
                for (index, node) in ipq.dataflow.nodes().iter().enumerate() {
                    depth[index] = node.inputs.iter().map(|input| depth[input.from.0] + 1).max().unwrap_or(0);
                }
                depth.into_iter().max().unwrap()
            };
            assert_eq!(depth(&query), 4, "{}", ipq.name());
            assert_eq!(query.feeds.len(), 64);
        }
    }

    #[test]
    fn bursty_tenants_keep_the_mean() {
        let mut query = Job { is_bursty: true, ..Job::bulk("b", Ipq::Revenue) }.build(1).unwrap();
        let seconds = 2_000;
        let feed = &mut query.feeds[0].arrivals;
        let mut volumes = vec![0.0; seconds];
        while let Some(arrival) = feed.next() {
            let second = (arrival.event_time.0 / 1_000) as usize;
            if second >= seconds {
                break;
            }
            volumes[second] += f64::from(arrival.rows);
        }
        let mean = volumes.iter().sum::<f64>() / seconds as f64;
        let variance = volumes.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / seconds as f64;
        assert!((mean - 10_000.0).abs() < 6.0 * (variance / seconds as f64).sqrt(), "{mean}");
        assert!(variance.sqrt() > 0.5 * mean, "bursts: {}", variance.sqrt());
    }

    #[test]
    fn impossible_jobs_are_refused() {
        let job = Job { sources: 0, ..Job::bulk("b", Ipq::Errors) };
        assert_eq!(job.build(0).unwrap_err().to_string(), "sources = 0 of IPQ: expected at least 2");
        let job = Job { instances: [0, 8, 4], ..Job::bulk("b", Ipq::Revenue) };
        assert!(matches!(job.build(0), Err(WorkloadError::Dataflow(_))));
    }
}
