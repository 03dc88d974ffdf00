//! Linear Road (Arasu et al., VLDB 2004): cars report their positions on expressways; tolls depend on speed, traffic
//! and accidents.
//!
//! [`Traffic`] drives the cars and [`Rules`] computes, report by report, what the benchmark wants to be answered.
//! As costs there are three: [`Correct`], the benchmark's own windows; [`Klink`], the "streaming variation" with short
//! windows of the Klink evaluation; and [`Lachesis`], the nine operators of the Lachesis evaluation, which as coded
//! forward a row per row.

mod rules;
mod traffic;

use std::time::Duration;

use laxity_graph::{Dataflow, LatencyTarget, NodeId, ProcessingTime, QuerySettings};

use crate::flow::{Firing, Flow, by_key, forward, gather, sliding, tumbling};
use crate::klink::Fleet;
use crate::lachesis::Testbed;
use crate::{
    Batching, Cadence, Cost, Delay, Feed, QueryModel, Rate, RatePoint, Stage, Stream, Watermarks, Workload,
    WorkloadError, load, seed,
};

pub use rules::{Answer, Rules};
pub use traffic::{Report, ReportKind, Traffic};

/// Share of records that are position reports.
const POSITION_REPORTS: f64 = 0.994;

/// The benchmark by its own rules, one query per expressway, as costs.
#[derive(Clone, Debug, PartialEq)]
pub struct Correct {
    /// Default 1.
    pub expressways: usize,
    /// Times the load of an expressway. Default 1.
    pub rate: f64,
    /// Times the pace: at 60, the three hours pass in three minutes and a minute's window in a second. Default 1.
    pub speed: f64,
    /// CPU time of a row on all its way, above. Default 20 µs, which is ours.
    pub row_ns: f64,
}

impl Default for Correct {
    fn default() -> Correct {
        Correct { expressways: 1, rate: 1.0, speed: 1.0, row_ns: 20_000.0 }
    }
}

impl Correct {
    /// The workload. Tolls and accidents are due within 5 s, as the benchmark has it, at any speed.
    ///
    /// # Errors
    /// If a parameter is out of its range.
    pub fn build(&self, seed: u64) -> Result<Workload, WorkloadError> {
        if !(self.speed > 0.0 && self.speed <= 1_000.0) {
            return Err(WorkloadError::Parameter {
                workload: "Linear Road",
                name: "speed",
                value: self.speed,
                expected: "above 0 and at most 1 000",
            });
        }
        let mut queries = Vec::with_capacity(self.expressways);
        for index in 0..self.expressways {
            let settings = QuerySettings {
                latency_target: LatencyTarget::new(Duration::from_secs(5)).unwrap_or(LatencyTarget::DEFAULT),
                ..QuerySettings::named(format!("expressway {index}"))
            };
            let (dataflow, node) = self.draft(settings)?;
            let dataflow = load::priced(dataflow, &[node], 1e9, self.row_ns)?;
            let stream = Stream {
                rate: self.reports(),
                batching: Batching::Every { ns: 100_000_000 },
                row_bytes: 60,
                delay: Delay::Uniform { low_ns: 0, high_ns: 10_000_000 },
                watermarks: Watermarks::Behind { cadence: Cadence::Batch, lag_ms: 10 },
                ..Stream::constant(1.0, 1)
            };
            let arrivals = stream.arrivals(seed::derived(seed, index as u64))?;
            let feeds = vec![Feed { node, instance: 0, arrivals }];
            queries.push(QueryModel { dataflow, feeds, deployed: ProcessingTime::ZERO });
        }
        Ok(Workload { name: "Linear Road".into(), queries })
    }

    /// Rows per second over three hours: cars enter at 20 · (sin(π t / 3 h) + 0.8 + ½) per second and stay for some
    /// 20 minutes on average, reporting every 30 s.
    fn reports(&self) -> Rate {
        let points = (0..=36).map(|i| {
            let t_s = f64::from(i) * 300.0;
            let entering = 20.0 * ((std::f64::consts::PI * t_s / 10_800.0).sin() + 1.3);
            let on_the_road = entering * t_s.min(1_200.0);
            RatePoint {
                at_ns: (t_s * 1e9 / self.speed) as u64,
                rows_per_s: on_the_road / 30.0 * self.rate * self.speed,
            }
        });
        Rate::Ramps(points.collect())
    }

    fn draft(&self, settings: QuerySettings) -> Result<(Dataflow<Stage>, NodeId), WorkloadError> {
        let window = |size_s: f64, slide_s: f64| {
            let ms = |s: f64| ((s * 1e3 / self.speed).round() as i64).max(1);
            sliding(ms(slide_s) * (size_s / slide_s) as i64, ms(slide_s))
        };
        let minute = window(60.0, 60.0);
        // 100 segments, two directions.
        let segments = 200.0;
        let mut flow = Flow::new(settings, 60);
        let source = flow.source("source", 1, Cost::per_row(2.0))?;
        let reports = flow.step("position reports", &[source], 1.0, POSITION_REPORTS)?;
        let keyed = || vec![by_key(reports)];
        let counting = Firing { state_row_bytes: 16, ..Firing::groups(minute, segments) };
        let cars = flow.window("cars", 1, keyed(), Cost::per_row(4.0), counting)?;
        let five = Firing::groups(window(300.0, 60.0), segments);
        let speed = flow.window("average speed", 1, keyed(), Cost::per_row(3.0), five)?;
        let stopped = Firing { state_row_bytes: 40, ..Firing::groups(window(120.0, 60.0), 20.0) };
        let stopped = flow.window("stopped cars", 1, keyed(), Cost::per_row(4.0), stopped)?;
        let accidents = flow.window(
            "accidents",
            1,
            vec![by_key(stopped)],
            Cost::per_row(1.0),
            Firing::groups(minute, 10.0),
        )?;
        let inputs = vec![by_key(cars), by_key(speed), by_key(accidents)];
        let tolls = flow.window("tolls", 1, inputs, Cost::per_row(2.0), Firing::groups(minute, segments))?;
        // A car enters a segment with every other report or so: at 40 mph, 1 760 ft in 30 s, with every third.
        let entering = flow.rows("entering", 1, keyed(), Cost::per_row(3.0), 1.0 / 3.0)?;
        let told = vec![by_key(entering), by_key(tolls)];
        let notify = flow.rows("notify", 1, told, Cost::per_row(2.0), 1.0)?;
        flow.sink("sink", vec![gather(notify)], Cost::per_row(1.0))?;
        Ok((flow.finish(), source))
    }
}

/// The variant of the Klink evaluation.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Klink {
    /// How many queries, and how they are fed.
    pub fleet: Fleet,
    /// "The deadline of the last window operator to be 1/3 of the earlier window deadlines": the last window is 1 s
    /// long instead of 3 s.
    pub is_stressed: bool,
    /// A source of its own, with delays of its own, for each of the three sub-streams, instead of one for all.
    pub is_split: bool,
}

/// Rows per second of a query of the Klink variant: "6.5K events produced every two seconds".
pub const KLINK_ROWS_PER_S: f64 = 3_250.0;

impl Klink {
    /// The workload. Sizes of the sliding window are the paper's, the others those of its authors' public query.
    ///
    /// # Errors
    /// If a parameter is out of its range.
    pub fn build(&self, seed: u64) -> Result<Workload, WorkloadError> {
        let rows_per_s = if self.is_split { KLINK_ROWS_PER_S / 3.0 } else { KLINK_ROWS_PER_S };
        self.fleet.build("LRB, Klink", seed, rows_per_s, 150, |settings| self.draft(settings))
    }

    fn draft(&self, settings: QuerySettings) -> Result<(Dataflow<Stage>, Vec<NodeId>), WorkloadError> {
        let mut flow = Flow::new(settings, 150);
        let mut sources = Vec::new();
        let mut parts = Vec::new();
        for part in ["speed", "vehicles", "accidents"] {
            if !parts.is_empty() && !self.is_split {
                parts.push(parts[0]);
                continue;
            }
            flow.row_bytes(150);
            let name = |what: &str| if self.is_split { format!("{what} of {part}") } else { what.into() };
            let source = flow.source(&name("source"), 1, Cost::per_row(2.0))?;
            let parse = flow.step(&name("parse"), &[source], 12.0, 1.0)?;
            flow.row_bytes(40);
            let reports = flow.step(&name("position reports"), &[parse], 1.0, POSITION_REPORTS)?;
            parts.push(flow.step(&name("project"), &[reports], 1.0, 1.0)?);
            sources.push(source);
        }
        let segments = 100.0;
        let three = Firing::groups(tumbling(3_000), segments);
        let speed = flow.window("speed", 1, vec![by_key(parts[0])], Cost::per_row(3.0), three)?;
        let distinct = Firing { state_row_bytes: 16, ..three };
        let vehicles = flow.window("vehicles", 1, vec![by_key(parts[1])], Cost::per_row(4.0), distinct)?;
        // Reports of a place are kept until the window ends and compared then.
        let kept = Firing {
            shape: sliding(5_000, 3_000),
            selectivity: 1.0,
            rows_max: 10.0,
            fire_per_row_ns: 2.0,
            state_row_bytes: 40,
        };
        let accidents = flow.window("accidents", 1, vec![by_key(parts[2])], Cost::per_row(2.0), kept)?;
        let inputs = vec![by_key(vehicles), by_key(speed)];
        let tolls = flow.window("tolls", 1, inputs, Cost::per_row(3.0), three)?;
        let last = tumbling(if self.is_stressed { 1_000 } else { 3_000 });
        let inputs = vec![by_key(tolls), by_key(accidents)];
        let last = flow.window("co-group", 1, inputs, Cost::per_row(3.0), Firing::groups(last, segments))?;
        flow.sink("sink", vec![forward(last)], Cost::per_row(1.0))?;
        Ok((flow.finish(), sources))
    }
}

/// The nine operators of the Lachesis evaluation.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Lachesis {
    /// How many queries, and how they are fed.
    pub testbed: Testbed,
}

/// Rows per second of the Lachesis variant that Lachesis sustains (on Storm).
pub const LACHESIS_ROWS_PER_S: f64 = 6_500.0;

impl Lachesis {
    /// The workload. Each branch sends a row per position report, as the public code does; it has no windows.
    ///
    /// # Errors
    /// If a parameter is out of its range.
    pub fn build(&self, seed: u64) -> Result<Workload, WorkloadError> {
        self.testbed.build("Linear Road, Lachesis", seed, LACHESIS_ROWS_PER_S, 60, |settings| {
            let mut flow = Flow::new(settings, 60);
            let source = flow.source("source", 1, Cost::per_row(1.0))?;
            let dispatcher = flow.step("dispatcher", &[source], 4.0, POSITION_REPORTS)?;
            let speed = flow.step("average_speed", &[dispatcher], 2.0, 1.0)?;
            let last = flow.step("last_average_speed", &[speed], 2.0, 1.0)?;
            let las = flow.step("toll_las", &[last], 2.0, 1.0)?;
            let count = flow.step("count_vehicles", &[dispatcher], 2.0, 1.0)?;
            let cv = flow.step("toll_cv", &[count], 2.0, 1.0)?;
            let pos = flow.step("toll_pos", &[dispatcher], 2.0, 1.0)?;
            flow.sink("sink", vec![forward(las), forward(cv), forward(pos)], Cost::per_row(0.5))?;
            Ok((flow.finish(), source))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::offered_load;

    #[test]
    fn a_correct_row_costs_what_was_asked() {
        let workload = Correct::default().build(0).unwrap();
        let load = offered_load(&workload).unwrap();
        // The last rate: 20 · 1.3 cars per second for 1 200 s, reporting every 30 s.
        assert!((load.rows_per_s - 1_040.0).abs() < 1e-6);
        assert!((load.cores() / (1_040.0 * 20e-6) - 1.0).abs() < 0.2, "{load:?}");
    }

    #[test]
    fn speed_shortens_windows_and_raises_rates() {
        let slow = Correct::default().build(0).unwrap();
        let fast = Correct { speed: 60.0, ..Correct::default() }.build(0).unwrap();
        let sizes = |workload: &Workload| -> Vec<i64> {
            let nodes = workload.queries[0].dataflow.nodes();
            nodes.iter().filter_map(|node| node.window).map(|window| window.size_ms).collect()
        };
        assert_eq!(sizes(&slow), [60_000, 300_000, 120_000, 60_000, 60_000]);
        assert_eq!(sizes(&fast), [1_000, 5_000, 2_000, 1_000, 1_000]);
        let rows = |workload| offered_load(workload).unwrap().rows_per_s;
        assert!((rows(&fast) / rows(&slow) - 60.0).abs() < 1e-9);
    }

    #[test]
    fn klink_variants_differ_where_they_say() {
        let last_window = |klink: Klink| {
            let workload = klink.build(0).unwrap();
            let nodes = workload.queries[0].dataflow.nodes();
            (nodes[nodes.len() - 2].window.unwrap().size_ms, workload.queries[0].feeds.len())
        };
        assert_eq!(last_window(Klink::default()), (3_000, 1));
        assert_eq!(last_window(Klink { is_stressed: true, ..Klink::default() }), (1_000, 1));
        assert_eq!(last_window(Klink { is_split: true, ..Klink::default() }), (3_000, 3));
    }
}
