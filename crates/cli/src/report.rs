//! The `--report` file: what a run did, for programs.

use serde::Serialize;

use crate::view::{LateBecause, Latency, QueryView, RunView, Status};

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
    /// Output batches of a window; output batches where there is no window.
    results: u64,
    /// The fraction of results within the target; `null` without results.
    met: Option<f64>,
    /// From the arrival of the last row that influenced a result to its leaving the sink.
    latency_ms: Percentiles,
    /// From the instant a window's end was due; `null` where the source has no pace of its own.
    event_time_latency_ms: Option<Percentiles>,
    rows_in: u64,
    rows_out: u64,
    rows_late: u64,
    rows_dead: u64,
    /// Shares of the time of the results that missed the target; all 0 if none did.
    late_because: Causes,
    /// Only where the query was stopped by an error.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
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
            wall_s: seconds(view.wall_ns),
            cpu_s: seconds(view.cpu_ns),
            peak_rss_bytes: view.peak_rss_bytes,
            queries: view.queries.iter().map(QueryReport::from).collect(),
        }
    }
}

impl From<&QueryView> for QueryReport {
    fn from(query: &QueryView) -> QueryReport {
        QueryReport {
            name: query.name.clone(),
            target_ms: milliseconds(query.target_ns),
            results: query.results,
            met: (query.results > 0).then(|| query.met as f64 / query.results as f64),
            latency_ms: Percentiles::from(&query.latency),
            event_time_latency_ms: query.event_time_latency.as_ref().map(Percentiles::from),
            rows_in: query.rows_in,
            rows_out: query.rows_out,
            rows_late: query.rows_late,
            rows_dead: query.rows_dead,
            late_because: Causes::from(&query.late_because),
            error: match &query.status {
                Status::Failed(error) => Some(error.clone()),
                Status::Running | Status::Finished => None,
            },
        }
    }
}

impl From<&Latency> for Percentiles {
    fn from(latency: &Latency) -> Percentiles {
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

impl From<&LateBecause> for Causes {
    fn from(because: &LateBecause) -> Causes {
        let [source, queue, execute, frontier, sink] = because.shares().map(|(_, share)| share);
        Causes { source, queue, execute, frontier, sink }
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
    use super::*;

    #[test]
    fn the_report_has_the_fields_programs_rely_on() {
        let latency = Latency {
            p50_ns: 3_100_000,
            p90_ns: 8_000_000,
            p99_ns: 12_000_000,
            p999_ns: 40_000_000,
            max_ns: 61_000_000,
            mean_ns: 4_200_000,
        };
        let urgent = QueryView {
            name: "urgent".into(),
            target_ns: 50_000_000,
            results: 800,
            met: 798,
            latency,
            event_time_latency: Some(Latency { p50_ns: 5_000_000, ..latency }),
            rows_in: 1_000,
            rows_out: 900,
            rows_late: 7,
            rows_dead: 1,
            late_because: LateBecause { source_ns: 1, queue_ns: 6, execute_ns: 1, ..LateBecause::default() },
            ..QueryView::default()
        };
        let broken = QueryView {
            name: "broken".into(),
            target_ns: 1_000_000_000,
            status: Status::Failed("disk full".into()),
            ..QueryView::default()
        };
        let view = RunView {
            policy: "laxity".into(),
            workers: 2,
            wall_ns: 30_500_000_000,
            cpu_ns: 60_000_000_000,
            peak_rss_bytes: 1 << 28,
            queries: vec![urgent, broken],
            ..RunView::default()
        };
        let expected = serde_json::json!({
            "policy": "laxity", "workers": 2, "wall_s": 30.5, "cpu_s": 60.0, "peak_rss_bytes": 268435456,
            "queries": [
                {
                    "name": "urgent", "target_ms": 50.0, "results": 800, "met": 0.9975,
                    "latency_ms": {"p50": 3.1, "p90": 8.0, "p99": 12.0, "p999": 40.0, "max": 61.0, "mean": 4.2},
                    "event_time_latency_ms": {"p50": 5.0, "p90": 8.0, "p99": 12.0, "p999": 40.0, "max": 61.0, "mean": 4.2},
                    "rows_in": 1000, "rows_out": 900, "rows_late": 7, "rows_dead": 1,
                    "late_because": {"source": 0.125, "queue": 0.75, "execute": 0.125, "frontier": 0.0, "sink": 0.0},
                },
                {
                    "name": "broken", "target_ms": 1000.0, "results": 0, "met": null,
                    "latency_ms": {"p50": 0.0, "p90": 0.0, "p99": 0.0, "p999": 0.0, "max": 0.0, "mean": 0.0},
                    "event_time_latency_ms": null,
                    "rows_in": 0, "rows_out": 0, "rows_late": 0, "rows_dead": 0,
                    "late_because": {"source": 0.0, "queue": 0.0, "execute": 0.0, "frontier": 0.0, "sink": 0.0},
                    "error": "disk full",
                },
            ],
        });
        assert_eq!(serde_json::to_value(Report::from(&view)).unwrap(), expected);
    }
}
