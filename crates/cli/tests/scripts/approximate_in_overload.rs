//! Rows are left out before any are dropped: real operators in virtual time, more work than there is time for. Cannot catch:
//! what operators really cost, and what measuring it on threads does.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use arrow::array::{AsArray, Float64Array, RecordBatch, TimestampMillisecondArray};
use arrow::datatypes::{DataType, Field, Float64Type, Int64Type, Schema, TimeUnit};
use laxity_graph::{EventClock, EventTime, NodeId, ProcessingTime};
use laxity_operators::Stage;
use laxity_sim::{Cluster, RowArrival, RowOutcome, RowQuery, RowSimulation, Setup};
use laxity_sql::{CompileOptions, SqlFile};
use laxity_workload::Cost;

use crate::Dice;

/// Seconds and rows per millisecond of each query: half of what one core can do, half as much again, half once more.
const STRETCHES: [(u64, u64); 3] = [(10, 1), (20, 3), (12, 1)];
const APPROXIMATE: usize = 4;
const BATCH_MS: u64 = 20;
/// Of five queries at three rows a millisecond: 1.5 cores.
const ROW_NS: f64 = 100_000.0;
/// Of a row that is left out.
const COUNTED_ROW_NS: f64 = 10_000.0;
const DELAY_MS: u64 = 90;

fn sql() -> String {
    let table = "CREATE TABLE numbers (ts TIMESTAMP(3), x DOUBLE, WATERMARK FOR ts AS ts - INTERVAL '0.1' SECOND) \
                 WITH ('connector' = 'filesystem', 'path' = 'nowhere', 'format' = 'csv');\n";
    let query = |name: &str, settings: &str| {
        format!(
            "CREATE TABLE {name} (window_end TIMESTAMP(3), taken BIGINT, seen BIGINT, average DOUBLE) \
             WITH ('connector' = 'blackhole');\n{settings}SET 'pipeline.name' = '{name}';\n\
             INSERT INTO {name} SELECT window_end, APPROX_ROWS(), APPROX_SEEN(), AVG(x) \
             FROM TABLE(TUMBLE(TABLE numbers, DESCRIPTOR(ts), INTERVAL '1' SECOND)) GROUP BY window_start, window_end;\n"
        )
    };
    let allows = "SET 'laxity.latency.target' = '1 s';\nSET 'laxity.shed' = 'true';\n\
                  SET 'laxity.approximate.error' = '5%';\nSET 'laxity.approximate.when' = 'overload';\n";
    let approximate = (0..APPROXIMATE).map(|number| query(&format!("approximate{number}"), allows));
    let exact = query("exact", "SET 'laxity.latency.target' = '200 ms';\n");
    [table.to_string(), exact].into_iter().chain(approximate).collect()
}

/// Rows of one query: their times lie up to [`DELAY_MS`] before they come.
fn arrivals(seed: u64) -> Vec<RowArrival> {
    let time = Field::new("ts", DataType::Timestamp(TimeUnit::Millisecond, None), true);
    let schema = Arc::new(Schema::new(vec![time, Field::new("x", DataType::Float64, true)]));
    let mut dice = Dice(seed);
    let mut arrivals = Vec::new();
    let mut now_ms = 1_000;
    for (seconds, rows_per_ms) in STRETCHES {
        for _ in 0..seconds * 1_000 / BATCH_MS {
            now_ms += BATCH_MS;
            let rows = rows_per_ms * BATCH_MS;
            let times = (0..rows).map(|row| now_ms - BATCH_MS + row / rows_per_ms - dice.roll(DELAY_MS));
            let times = TimestampMillisecondArray::from_iter_values(times.map(|time| time as i64));
            let values = Float64Array::from_iter_values((0..rows).map(|_| 500.0 + dice.roll(1_000) as f64));
            let rows = RecordBatch::try_new(Arc::clone(&schema), vec![Arc::new(times), Arc::new(values)]);
            arrivals.push(RowArrival { at: ProcessingTime(now_ms * 1_000_000), rows: rows.unwrap() });
        }
    }
    arrivals
}

fn run() -> RowOutcome {
    let file = SqlFile { path: PathBuf::from("overload.sql"), text: sql() };
    let options = CompileOptions { processing_origin_ms: 0, verify_approximate: false };
    let script = laxity_sql::compile_with(&[file], options).unwrap();
    let clock =
        EventClock { event_origin: EventTime(0), processing_origin: ProcessingTime::ZERO, speed: 1.0 };
    let queries = (0..).zip(script.queries).map(|(seed, query)| {
        let nodes = query.dataflow.nodes().iter();
        let source = nodes.clone().position(|node| matches!(node.stage, Stage::Source { .. })).unwrap();
        let source = NodeId(source);
        let leaves_out = query.dataflow.settings.leaves_out;
        let cost = |node: NodeId| match (node == source, leaves_out) {
            (false, _) => Cost::per_call(10_000.0, 100.0),
            (true, false) => Cost::per_call(10_000.0, ROW_NS),
            (true, true) => Cost::per_call(10_000.0, COUNTED_ROW_NS),
        };
        let model = RowQuery::new(&query.dataflow, cost).unwrap();
        model.with_taken_row_ns(ROW_NS - COUNTED_ROW_NS).feed(source, arrivals(seed), clock)
    });
    let seconds = STRETCHES.iter().map(|(seconds, _)| seconds).sum::<u64>();
    let setup = Setup {
        cluster: Cluster::one(1),
        duration: Duration::from_secs(seconds + 60),
        drain: true,
        ..Setup::default()
    };
    let policy = laxity_policies::recipe("laxity").unwrap();
    RowSimulation::new(queries.collect(), policy, setup).run().unwrap()
}

#[test]
fn rows_are_left_out_within_the_bound_before_any_are_dropped() {
    let RowOutcome { outcome, results } = run();
    let windows = STRETCHES.iter().map(|(seconds, _)| seconds).sum::<u64>() as usize;
    for query in &outcome.queries {
        let lateness = &query.lateness;
        let met = lateness.met as f64 / (lateness.results as usize + query.owed_ns.len()) as f64;
        assert_eq!(query.rows_shed, 0, "{}", query.name);
        assert!(lateness.results as usize >= windows - 1 && met >= 0.95, "{}: {met}", query.name);
    }
    let (mut thinned, mut within, mut checked) = (0, 0, 0);
    for (number, query) in outcome.queries.iter().enumerate() {
        let rows = arrivals(number as u64);
        for result in results.iter().filter(|result| result.query.index() == number) {
            for row in 0..result.rows.num_rows() {
                let column = |column: usize| result.rows.column(column);
                let end_ms =
                    column(0).as_primitive::<arrow::datatypes::TimestampMillisecondType>().value(row);
                let whole = |at: usize| column(at).as_primitive::<Int64Type>().value(row);
                let (taken, seen) = (whole(1), whole(2));
                if query.name == "exact" {
                    continue;
                }
                let is_calm = end_ms <= 11_000 || end_ms > (windows as i64 - 3) * 1_000;
                assert!(!is_calm || taken == seen, "{} at {end_ms}: {taken} of {seen}", query.name);
                thinned += i64::from(taken * 2 < seen);
                let average = column(3).as_primitive::<Float64Type>().value(row);
                checked += 1;
                within += u32::from((average / exact_average(&rows, end_ms) - 1.0).abs() <= 0.05);
            }
        }
    }
    assert!(thinned >= 10 * APPROXIMATE as i64, "of {checked} windows {thinned}");
    assert!(f64::from(within) >= 0.95 * f64::from(checked), "{within} of {checked}");
}

fn exact_average(arrivals: &[RowArrival], end_ms: i64) -> f64 {
    let (mut sum, mut count) = (0.0, 0.0);
    for RowArrival { rows, .. } in arrivals {
        let times = rows.column(0).as_primitive::<arrow::datatypes::TimestampMillisecondType>().values();
        let values = rows.column(1).as_primitive::<Float64Type>().values();
        for (_, value) in
            times.iter().zip(values).filter(|(time, _)| (end_ms - 1_000..end_ms).contains(*time))
        {
            (sum, count) = (sum + value, count + 1.0);
        }
    }
    sum / count
}
