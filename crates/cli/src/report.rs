//! The `--report` file: what a run did, for programs. docs/report.md says it to their authors.

use laxity_connect::Wait;
use laxity_engine::{LatencySummary, Outcome, QuerySnapshot};
use laxity_sched::{Cause, Lateness};
use serde::Serialize;

use crate::approx::Approx;
use crate::overload::OverloadReport;
use crate::view::RunView;

/// The whole file.
#[derive(Debug, Serialize)]
pub struct Report {
    policy: String,
    workers: usize,
    wall_s: f64,
    cpu_s: f64,
    peak_rss_bytes: u64,
    queries: Vec<QueryReport>,
}

#[derive(Debug, Serialize)]
struct QueryReport {
    name: String,
    target_ms: f64,
    /// Batches that left a sink.
    results: u64,
    /// Results that were due, not out at the end, and later than the target already.
    unfinished: u64,
    /// How long the oldest result had been due that was not out, whether later than the target or not; `null` without.
    oldest_unfinished_ms: Option<f64>,
    /// The fraction of results within the target, unfinished ones among those that are not; `null` without any.
    met: Option<f64>,
    /// Mean utility of the results by the query's curve, 0 to 1; `null` without results.
    utility: Option<f64>,
    /// From the arrival of the last row that influenced a result to its leaving the sink.
    latency_ms: Percentiles,
    /// The same of about the last minute, to two digits; `null` if nothing came out in it.
    last_minute_latency_ms: Option<Percentiles>,
    /// From the instant a window's end was due; `null` where the source has no pace of its own.
    event_time_latency_ms: Option<Percentiles>,
    rows_in: u64,
    rows_out: u64,
    rows_late: u64,
    rows_dead: u64,
    /// Dropped at the sources to shed load.
    rows_shed: u64,
    /// The steps against too much work; only of a query for which some were taken.
    #[serde(skip_serializing_if = "Option::is_none")]
    overload: Option<OverloadReport>,
    /// Only of a query that leaves rows out.
    #[serde(skip_serializing_if = "Option::is_none")]
    approx: Option<Approx>,
    /// Admitted and never processed: they were still queued when the time to drain was over.
    rows_dropped: u64,
    /// The last that is safe; only of a query that has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    checkpoint: Option<CheckpointReport>,
    /// Whom it waits for outside; only of a query that waits.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    waiting: Vec<WaitReport>,
    /// Shares of the time of the results that missed the target; all 0 if none did.
    late_because: Causes,
    /// Only where the query was stopped by an error.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

#[derive(Debug, Serialize)]
struct WaitReport {
    service: String,
    /// Milliseconds since 1970.
    since_unix_ms: i64,
    /// What it said last.
    why: String,
}

#[derive(Debug, Serialize)]
struct CheckpointReport {
    number: u64,
    age_ms: f64,
    bytes: u64,
    written_bytes: u64,
    /// For how long the query took nothing in, in the longest of those of this run.
    longest_pause_ms: f64,
}

#[derive(Debug, Serialize)]
struct Percentiles {
    p50: f64,
    p90: f64,
    p99: f64,
    p999: f64,
    max: f64,
    mean: f64,
}

#[derive(Debug, Serialize)]
struct Causes {
    source: f64,
    queue: f64,
    execute: f64,
    frontier: f64,
    sink: f64,
}

impl From<&RunView> for Report {
    fn from(view: &RunView) -> Report {
        Report {
            policy: view.policy.clone(),
            workers: view.workers,
            wall_s: seconds(view.engine.wall_ns),
            cpu_s: seconds(view.engine.cpu_ns),
            peak_rss_bytes: view.engine.peak_rss_bytes,
            queries: view.engine.queries.iter().map(QueryReport::from).collect(),
        }
    }
}

impl From<&QuerySnapshot> for QueryReport {
    fn from(query: &QuerySnapshot) -> QueryReport {
        let due = query.lateness.results + query.overdue;
        let last_minute = Some(&query.last_minute).filter(|latency| latency.count > 0);
        QueryReport {
            name: query.name.clone(),
            target_ms: milliseconds(query.target_ns),
            results: query.lateness.results,
            unfinished: query.overdue,
            oldest_unfinished_ms: query.oldest_owed_ns.map(milliseconds),
            met: (due > 0).then(|| query.lateness.met as f64 / due as f64),
            utility: query.utility,
            latency_ms: Percentiles::from(&query.latency),
            last_minute_latency_ms: last_minute.map(Percentiles::from),
            event_time_latency_ms: query.event_time_latency.as_ref().map(Percentiles::from),
            rows_in: query.rows_in,
            rows_out: query.rows_out,
            rows_late: query.rows_late,
            rows_dead: query.rows_dead,
            rows_shed: query.rows_shed,
            checkpoint: query.checkpoint.map(|last| CheckpointReport {
                number: last.number,
                age_ms: milliseconds(last.age_ns),
                bytes: last.bytes,
                written_bytes: last.written_bytes,
                longest_pause_ms: milliseconds(last.longest_pause_ns),
            }),
            waiting: query.waiting.iter().map(WaitReport::from).collect(),
            overload: OverloadReport::of(&query.overload),
            approx: query.approximation.as_ref().map(Approx::from),
            rows_dropped: query.rows_dropped,
            late_because: Causes::from(&query.lateness),
            error: match &query.outcome {
                Outcome::Failed(error) => Some(error.clone()),
                Outcome::Running | Outcome::Finished | Outcome::Cancelled => None,
            },
        }
    }
}

impl From<&Wait> for WaitReport {
    fn from(wait: &Wait) -> WaitReport {
        let Wait { service, since, why } = wait;
        WaitReport { service: service.clone(), since_unix_ms: since.0, why: why.clone() }
    }
}

impl From<&LatencySummary> for Percentiles {
    fn from(latency: &LatencySummary) -> Percentiles {
        Percentiles {
            p50: milliseconds(latency.p50_ns),
            p90: milliseconds(latency.p90_ns),
            p99: milliseconds(latency.p99_ns),
            p999: milliseconds(latency.p999_ns),
            max: milliseconds(latency.max_ns),
            mean: milliseconds(latency.mean_ns),
        }
    }
}

impl From<&Lateness> for Causes {
    fn from(lateness: &Lateness) -> Causes {
        Causes {
            source: lateness.share(Cause::Source),
            queue: lateness.share(Cause::Queue),
            execute: lateness.share(Cause::Execute),
            frontier: lateness.share(Cause::Frontier),
            sink: lateness.share(Cause::Sink),
        }
    }
}

fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

fn milliseconds(ns: u64) -> f64 {
    ns as f64 / 1e6
}

#[cfg(test)]
mod tests {
    use laxity_graph::Approximation;
    use laxity_sched::Parts;

    use super::*;
    use crate::view::sample::{query, run};

    #[test]
    fn the_report_has_the_fields_programs_rely_on() {
        let mut urgent = query("urgent", 50, 12, 800, 798);
        urgent.event_time_latency = Some(LatencySummary { p50_ns: 5_000_000, ..urgent.latency });
        let late =
            Parts { source_ns: 10_000_000, queue_ns: 60_000_000, execute_ns: 10_000_000, ..Parts::default() };
        urgent.lateness.missed = late;
        urgent.utility = Some(0.5);
        urgent.rows_shed = 3;
        urgent.rows_dropped = 15_000;
        urgent.rows_late = 7;
        urgent.outcome = Outcome::Finished;
        urgent.overdue = 200;
        urgent.oldest_owed_ns = Some(12_500_000_000);
        let sampled = QuerySnapshot {
            approximation: Some(Approximation {
                error: 0.05,
                confidence: 0.95,
                only_behind: true,
                is_engaged: true,
                steps: 1,
                rows_seen: 1_000,
                rows_taken: 250,
                windows: 10,
                complete: 2,
                waited_ms: 50.0,
                saved_ms: 20_000.0,
                checked: 8,
                within: 8,
                ..Approximation::default()
            }),
            ..query("sampled", 1_000, 0, 0, 0)
        };
        let broken = QuerySnapshot {
            outcome: Outcome::Failed("disk full".into()),
            rows_in: 0,
            rows_out: 0,
            rows_dead: 1,
            rows_queued: 0,
            ..query("broken", 1_000, 0, 0, 0)
        };
        let expected = serde_json::json!({
            "policy": "laxity", "workers": 2, "wall_s": 12.0, "cpu_s": 23.4, "peak_rss_bytes": 314572800,
            "queries": [
                {
                    "name": "urgent", "target_ms": 50.0, "results": 800, "unfinished": 200,
                    "oldest_unfinished_ms": 12500.0, "met": 0.798, "utility": 0.5,
                    "latency_ms": {"p50": 3.0, "p90": 6.0, "p99": 12.0, "p999": 18.0, "max": 24.0, "mean": 4.0},
                    "last_minute_latency_ms":
                        {"p50": 3.0, "p90": 6.0, "p99": 12.0, "p999": 18.0, "max": 24.0, "mean": 4.0},
                    "event_time_latency_ms":
                        {"p50": 5.0, "p90": 6.0, "p99": 12.0, "p999": 18.0, "max": 24.0, "mean": 4.0},
                    "rows_in": 1234567, "rows_out": 42, "rows_late": 7, "rows_dead": 0, "rows_shed": 3,
                    "rows_dropped": 15000,
                    "late_because": {"source": 0.125, "queue": 0.75, "execute": 0.125, "frontier": 0.0, "sink": 0.0},
                },
                {
                    "name": "broken", "target_ms": 1000.0, "results": 0, "unfinished": 0,
                    "oldest_unfinished_ms": null, "met": null, "utility": null,
                    "latency_ms": {"p50": 0.0, "p90": 0.0, "p99": 0.0, "p999": 0.0, "max": 0.0, "mean": 0.0},
                    "last_minute_latency_ms": null, "event_time_latency_ms": null,
                    "rows_in": 0, "rows_out": 0, "rows_late": 0, "rows_dead": 1, "rows_shed": 0,
                    "rows_dropped": 0,
                    "late_because": {"source": 0.0, "queue": 0.0, "execute": 0.0, "frontier": 0.0, "sink": 0.0},
                    "error": "disk full",
                },
            ],
        });
        let report = serde_json::to_value(Report::from(&run(vec![urgent, broken, sampled]))).unwrap();
        let (expected_queries, queries) = (&expected["queries"], &report["queries"]);
        assert_eq!((&queries[0], &queries[1]), (&expected_queries[0], &expected_queries[1]));
        assert_eq!((&report["policy"], &report["cpu_s"]), (&expected["policy"], &expected["cpu_s"]));
        assert_eq!(
            queries[2]["approx"],
            serde_json::json!({
                "bound": 0.05, "confidence": 0.95, "windows": 10, "within": 1.0, "sampling_rate": 0.25,
                "wait_ms": 5.0, "wait_saved_ms": 2000.0, "windows_unbounded": 0, "windows_complete": 2,
                "overload_steps": 1, "overload_now": true,
            })
        );
    }
}
