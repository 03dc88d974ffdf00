//! What a short run of the files here teaches: the time of each operator and what came when, kept as JSON so that many
//! questions can be asked of one run.

use std::collections::HashMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use laxity_connect::{SinkSpec, TableSpec};
use laxity_engine::{
    Clock, Engine, EngineConfig, OperatorMeasurement, Outcome, QueryPlan, RecordedArrival, RecordedFeed,
    WorkCosts,
};
use laxity_graph::{Dataflow, EventClock, EventTime, ProcessingTime};
use laxity_operators::Stage;
use laxity_sched::CostModel;
use laxity_sql::PlannedQuery;
use serde::{Deserialize, Serialize};

use crate::failure::Failure;
use crate::pace::Tables;
use crate::simulate::shared::SharedCosts;

/// What operators cost and what arrived, as a run here showed it.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Costs {
    /// How long the run was.
    pub measured_s: f64,
    /// How many workers it had.
    pub workers: usize,
    /// CPU time of a grant beside the operator's own, ns, as the scheduler sees it.
    pub call_ns: u64,
    /// CPU time of everything else; `None` in measurements of a version that did not look at it.
    #[serde(default)]
    pub sources: Option<SourceCosts>,
    /// Share of the workers' time that was spent in operators.
    pub busy: f64,
    /// Every query of the files.
    pub queries: Vec<QueryCosts>,
    /// What some of them had done for them as one; nothing in measurements of a version that did not look at it.
    #[serde(default)]
    pub shared: Vec<SharedCosts>,
}

/// What it takes to read tables and to hand messages on, ns.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, Serialize)]
pub struct SourceCosts {
    /// Of a look at a table.
    pub look_ns: f64,
    /// Of each row that it finds.
    pub row_ns: f64,
    /// Of a message, besides the look or the operator that it is for.
    pub message_ns: f64,
}

/// One query.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct QueryCosts {
    /// Its name.
    pub name: String,
    /// Result batches in that time.
    pub results: u64,
    /// By node of its dataflow; sinks too, which cost nothing here.
    pub nodes: Vec<NodeCosts>,
    /// What its sources read.
    pub feeds: Vec<FeedCosts>,
}

/// One operator, over all its instances.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
pub struct NodeCosts {
    /// As `explain` names it.
    pub name: String,
    /// a of a + b·n, ns.
    pub fixed_ns: f64,
    /// b, ns.
    pub per_row_ns: f64,
    /// Of a watermark that releases nothing, ns.
    pub watermark_ns: f64,
    /// What watermarks took beyond that, in all, ns.
    pub release_ns: f64,
    /// Rows taken in.
    pub rows_in: u64,
    /// Bytes of them.
    pub bytes_in: u64,
    /// Rows sent on.
    pub rows_out: u64,
    /// Windows that results were sent of.
    pub windows: u64,
}

/// What one source instance read.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct FeedCosts {
    /// The source.
    pub node: usize,
    /// Which copy.
    pub instance: usize,
    /// Event-time milliseconds in a millisecond, where the source has a pace of its own.
    pub speed: Option<f64>,
    /// Then: an event time, ms, and when it is due, since the first of all, ns. `None` in measurements of a version that did
    /// not look at it.
    #[serde(default)]
    pub due: Option<(i64, u64)>,
    /// In order of arrival.
    pub arrivals: Vec<ArrivalCosts>,
    /// It is what these read together, which stands there, by place.
    #[serde(default)]
    pub shared: Option<usize>,
}

/// One batch.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, Serialize)]
pub struct ArrivalCosts {
    /// Since the first of all, ns.
    pub at_ns: u64,
    /// Rows.
    pub rows: u32,
    /// Bytes of them.
    pub bytes: u64,
    /// Least and latest event time, ms.
    pub event_times: Option<(i64, i64)>,
    /// The watermark behind it, if there is one yet.
    pub watermark: Option<i64>,
}

impl ArrivalCosts {
    /// Time that passes while its rows come, ns, as far as their event times tell: they are whole milliseconds.
    pub fn span_ns(&self, speed: f64) -> u64 {
        let span_ms = self.event_times.map_or(0, |(least, latest)| latest.saturating_sub(least));
        (span_ms as f64 * 1e6 / speed) as u64
    }
}

impl Costs {
    /// Runs the queries for so long, with their results thrown away.
    ///
    /// # Errors
    /// If they cannot be started, or one of them fails.
    pub fn measure(queries: &[PlannedQuery], for_: Duration, clock: Clock) -> Result<Costs, Failure> {
        // Batches as they come: merged ones would hide when each arrived.
        let config = EngineConfig { merge: false, record: true, ..EngineConfig::default() };
        let workers = config.workers;
        let engine = Engine::with_clock(config, clock);
        // Dead letters are output too. Queries that share a table go on sharing it.
        let mut tables = Tables::new(|table: &TableSpec| {
            let mut table = table.clone();
            table.options.remove("laxity.dead-letter.path");
            table
        });
        for query in queries {
            let plan =
                QueryPlan { dataflow: without_output(&query.dataflow, &mut tables), late: None, state: None };
            engine.submit(plan).map_err(crate::run::refused)?;
        }
        let started = clock.now();
        engine.start().map_err(crate::run::refused)?;
        engine.wait(for_);
        let measured_ns = clock.now().since_ns(started);
        let busy_ns = engine.snapshot().operator_ns;
        // The scheduler forgets what operators cost when their query ends.
        let (measurements, feeds, work) = (engine.measurements(), engine.recorded(), engine.work_costs());
        let shared = engine.shared_work();
        engine.stop();
        let snapshot = engine.snapshot();
        for query in &snapshot.queries {
            if let Outcome::Failed(error) = &query.outcome {
                return Err(Failure::World(anyhow::anyhow!("{} failed: {error}", query.name)));
            }
        }
        let of_groups = shared.iter().flat_map(|work| &work.arrivals);
        let arrivals = feeds.iter().flat_map(|feed| &feed.arrivals).chain(of_groups);
        let first_ns = arrivals.map(|arrival| arrival.at.0).min().unwrap_or(0);
        let shared: Vec<SharedCosts> = shared.iter().map(|work| SharedCosts::of(work, first_ns)).collect();
        let mut front_of = HashMap::new();
        for (place, of) in shared.iter().enumerate() {
            of.members.iter().for_each(|member| {
                front_of.entry(member.query.as_str()).or_insert(place);
            });
        }
        let of = |query: &PlannedQuery| {
            let name = &query.dataflow.settings.name;
            let results = snapshot.queries.iter().find(|q| q.name == *name).map_or(0, |q| q.lateness.results);
            let nodes = (0..query.dataflow.nodes().len()).map(|node| {
                let instances = measurements.iter().filter(|m| m.query == *name && m.node == node);
                NodeCosts::of(query.dataflow.nodes()[node].name.clone(), instances)
            });
            // Who reads with others reads nothing else.
            let source =
                query.dataflow.nodes().iter().position(|node| matches!(node.stage, Stage::Source { .. }));
            let feeds = match (front_of.get(name.as_str()), source) {
                (Some(&front), Some(node)) => vec![FeedCosts::of_front(node, front)],
                _ => {
                    let own = feeds.iter().filter(|feed| feed.query == *name);
                    own.map(|feed| FeedCosts::of(feed, first_ns)).collect()
                }
            };
            QueryCosts { name: name.clone(), results, nodes: nodes.collect(), feeds }
        };
        let queries = queries.iter().map(of).collect();
        Ok(Costs {
            measured_s: measured_ns as f64 / 1e9,
            workers,
            call_ns: engine.call_ns(),
            sources: work.map(|WorkCosts { look_ns, row_ns, message_ns }| SourceCosts {
                look_ns,
                row_ns,
                message_ns,
            }),
            busy: busy_ns as f64 / (measured_ns.max(1) as f64 * workers as f64),
            queries,
            shared,
        })
    }

    /// Reads what [`write`](Costs::write) wrote.
    ///
    /// # Errors
    /// If the file cannot be read or is something else.
    pub fn read(path: &Path) -> Result<Costs, Failure> {
        let text = fs::read_to_string(path)
            .map_err(|error| Failure::User(format!("--costs: cannot read {}: {error}", path.display())))?;
        serde_json::from_str(&text).map_err(|error| {
            Failure::User(format!("--costs: {} holds no measurements: {error}", path.display()))
        })
    }

    /// Keeps the measurements.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn write(&self, path: &Path) -> Result<(), Failure> {
        let text = serde_json::to_string(self).context("cannot write the measurements")?;
        fs::write(path, text)
            .map_err(|error| Failure::User(format!("--costs: cannot write {}: {error}", path.display())))
    }

    /// What a reader of the answer should know of the measurements.
    pub fn warnings(&self) -> Vec<String> {
        // Above this the workers were what set the pace, not the sources.
        const SATURATED: f64 = 0.9;
        let mut warnings = Vec::new();
        if self.busy > SATURATED {
            warnings.push(
                "the workers were busy all the time while measuring: a source without a pace of its own was read as \
                 fast as they could, and what is simulated arrives at that rate"
                    .to_string(),
            );
        }
        for query in self.queries.iter().filter(|query| query.results == 0) {
            warnings.push(format!(
                "{} gave no result while it was measured, so what its results cost is not known: measure longer",
                query.name
            ));
        }
        warnings
    }
}

impl NodeCosts {
    fn of<'a>(name: String, instances: impl Iterator<Item = &'a OperatorMeasurement>) -> NodeCosts {
        let mut sum = NodeCosts { name, ..NodeCosts::default() };
        let (mut batches, mut predicted_ns, mut batch_ns, mut count) = (0, 0.0, 0.0, 0.0);
        for one in instances {
            let totals = &one.totals;
            let weight = totals.batches as f64;
            // Nobody knows it of a query that has ended: then the shape is that of an operator never seen.
            let (fixed_ns, per_row_ns) = match (one.fixed_ns, one.per_row_ns) {
                (0.0, 0.0) => CostModel::default().line(),
                line => line,
            };
            batches += totals.batches;
            sum.fixed_ns += fixed_ns * weight;
            sum.per_row_ns += per_row_ns * weight;
            predicted_ns += fixed_ns * weight + per_row_ns * totals.rows_in as f64;
            batch_ns += totals.batch_ns as f64;
            sum.watermark_ns += totals.watermark_least_ns as f64;
            let least_ns = totals.watermark_least_ns * totals.watermarks;
            sum.release_ns += totals.watermark_ns.saturating_sub(least_ns) as f64;
            sum.rows_in += totals.rows_in;
            sum.bytes_in += totals.bytes_in;
            sum.rows_out += totals.rows_out;
            sum.windows += totals.windows;
            count += 1.0;
        }
        // The fit knows the shape and forgets; the totals know the sum.
        let factor = if predicted_ns > 0.0 { batch_ns / predicted_ns } else { 0.0 };
        let share = factor / (batches as f64).max(1.0);
        sum.fixed_ns *= share;
        sum.per_row_ns *= share;
        sum.watermark_ns /= f64::max(count, 1.0);
        sum
    }
}

impl FeedCosts {
    fn of(feed: &RecordedFeed, first_ns: u64) -> FeedCosts {
        let (node, instance) = (feed.node, feed.instance);
        FeedCosts { node, instance, ..FeedCosts::of_arrivals(&feed.arrivals, feed.clock.as_ref(), first_ns) }
    }

    /// Of a source that reads with others.
    fn of_front(node: usize, front: usize) -> FeedCosts {
        FeedCosts { node, instance: 0, speed: None, due: None, arrivals: vec![], shared: Some(front) }
    }

    /// What came to no source in particular.
    pub fn of_arrivals(arrivals: &[RecordedArrival], clock: Option<&EventClock>, first_ns: u64) -> FeedCosts {
        let arrivals = arrivals.iter().map(|arrival| ArrivalCosts {
            at_ns: arrival.at.0.saturating_sub(first_ns),
            rows: arrival.rows,
            bytes: arrival.bytes,
            event_times: arrival.event_times.map(|(least, latest)| (least.0, latest.0)),
            watermark: Some(arrival.watermark)
                .filter(|&watermark| watermark != EventTime::MIN && watermark != EventTime::MAX)
                .map(|watermark| watermark.0),
        });
        FeedCosts {
            node: 0,
            instance: 0,
            speed: clock.map(|clock| clock.speed),
            due: clock.map(|clock| {
                let since = since(clock, first_ns);
                (since.event_origin.0, since.processing_origin.0)
            }),
            arrivals: arrivals.collect(),
            shared: None,
        }
    }

    /// When event times are due, where the source has a pace of its own.
    pub fn clock(&self) -> Option<EventClock> {
        let speed = self.speed.filter(|&speed| speed > 0.0)?;
        // What a version measured that did not say: the last row of a batch is due when it arrives.
        let (event_ms, due_ns) = self.due.or_else(|| {
            let of_batch = |arrival: &ArrivalCosts| Some((arrival.event_times?.1, arrival.at_ns));
            self.arrivals.iter().find_map(of_batch)
        })?;
        Some(EventClock {
            event_origin: EventTime(event_ms),
            processing_origin: ProcessingTime(due_ns),
            speed,
        })
    }
}

/// The same clock where time begins then, from the first whole event time that is due behind that.
pub fn since(clock: &EventClock, begin_ns: u64) -> EventClock {
    let passed_ms = begin_ns.saturating_sub(clock.processing_origin.0) as f64 / 1e6 * clock.speed;
    let event_origin = EventTime(clock.event_origin.0 + passed_ms.ceil() as i64);
    let processing_origin = ProcessingTime(clock.due(event_origin).since_ns(ProcessingTime(begin_ns)));
    EventClock { event_origin, processing_origin, ..*clock }
}

/// The same query, its results thrown away.
fn without_output<F: Fn(&TableSpec) -> TableSpec>(
    dataflow: &Dataflow<Stage<laxity_connect::ScanSpec, SinkSpec>>,
    tables: &mut Tables<F>,
) -> Dataflow<Stage<laxity_connect::ScanSpec, SinkSpec>> {
    let dataflow = tables.replace(dataflow);
    let mut silent = Dataflow::new(dataflow.settings.clone());
    for node in dataflow.nodes() {
        let mut node = node.clone();
        if let Stage::Sink(sink) = &node.stage {
            let table = TableSpec {
                options: [("connector".to_string(), "blackhole".to_string())].into_iter().collect(),
                ..(*sink.table).clone()
            };
            node.stage = Stage::Sink(SinkSpec { table: Arc::new(table) });
        }
        silent.push(node).expect("it was a dataflow before");
    }
    silent
}

#[cfg(test)]
mod tests {
    use laxity_engine::Totals;

    use super::*;

    #[test]
    fn what_an_operator_took_is_what_it_costs_whether_or_not_its_shape_is_known() {
        let measured = |fixed_ns, per_row_ns| {
            let totals = Totals { batches: 10, rows_in: 500, batch_ns: 60_000, ..Totals::default() };
            let name = "filter".to_string();
            let query = "q".to_string();
            let one = OperatorMeasurement {
                query,
                node: 0,
                instance: 0,
                name: name.clone(),
                fixed_ns,
                per_row_ns,
                watermark_ns: 0,
                totals,
            };
            let costs = NodeCosts::of(name, [one].iter());
            10.0 * costs.fixed_ns + 500.0 * costs.per_row_ns
        };
        // 10 batches of 50 rows took 60 us, whatever the scheduler believes at the end.
        assert!((measured(1_000.0, 40.0) - 60_000.0).abs() < 1e-6);
        assert!((measured(0.0, 0.0) - 60_000.0).abs() < 1e-6, "{}", measured(0.0, 0.0));
    }
}
