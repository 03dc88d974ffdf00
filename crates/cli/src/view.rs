//! What is shown of a run at one instant.

use std::time::Duration;

use laxity_engine::{EngineSnapshot, QuerySnapshot};

/// The engine's snapshot with what only the program knows.
#[derive(Clone, Debug)]
pub struct RunView {
    /// Name of the policy, as given.
    pub policy: String,
    /// Worker threads.
    pub workers: usize,
    /// How the engine and its queries stand.
    pub engine: EngineSnapshot,
    /// CPU time per second of late.
    pub cores_busy: f64,
    /// How much of the run is over, 0 to 1. `None` where it has no end.
    pub progress: Option<f64>,
}

/// True while 99 % of the results are within the target, which is what we promise of it.
pub fn keeps_target(query: &QuerySnapshot) -> bool {
    query.lateness.met as f64 >= query.lateness.results as f64 * 0.99
}

/// How much of a run is over: its time or its inputs, whichever ends it first. It lasts as long as the
/// longest input does, so the one least read counts.
pub fn progress(engine: &EngineSnapshot, run_for: Option<Duration>) -> Option<f64> {
    let inputs = engine.queries.iter().try_fold(1.0_f64, |least, query| Some(least.min(query.progress?)));
    let time = run_for.map(|run_for| (engine.wall_ns as f64 / 1e9 / run_for.as_secs_f64()).min(1.0));
    match (inputs, time) {
        (Some(inputs), Some(time)) => Some(inputs.max(time)),
        (inputs, time) => inputs.or(time),
    }
}

/// Made-up snapshots for the tests of what is shown.
#[cfg(test)]
pub mod sample {
    use laxity_engine::{LatencySummary, Outcome};
    use laxity_sched::Lateness;

    use super::*;

    pub const MS: u64 = 1_000_000;

    pub fn query(name: &str, target_ms: u64, p99_ms: u64, results: u64, met: u64) -> QuerySnapshot {
        QuerySnapshot {
            name: name.into(),
            target_ns: target_ms * MS,
            outcome: Outcome::Running,
            latency: LatencySummary {
                count: results,
                p50_ns: p99_ms * MS / 4,
                p90_ns: p99_ms * MS / 2,
                p99_ns: p99_ms * MS,
                p999_ns: p99_ms * MS * 3 / 2,
                max_ns: p99_ms * MS * 2,
                mean_ns: p99_ms * MS / 3,
            },
            event_time_latency: None,
            lateness: Lateness { results, met, ..Lateness::default() },
            utility: (results > 0).then(|| met as f64 / results as f64),
            rows_in: 1_234_567,
            rows_out: 42,
            rows_late: 7,
            late_windows: Vec::new(),
            rows_dead: 0,
            rows_shed: 0,
            rows_queued: 15_000,
            state_bytes: 0,
            watermark: None,
            watermark_lag_ns: Some(400 * MS),
            progress: None,
        }
    }

    pub fn run(queries: Vec<QuerySnapshot>) -> RunView {
        RunView {
            policy: "laxity".into(),
            workers: 2,
            engine: EngineSnapshot {
                wall_ns: 12_000 * MS,
                cpu_ns: 23_400 * MS,
                operator_ns: 20_000 * MS,
                peak_rss_bytes: 300 << 20,
                memory_bytes: 120 << 20,
                queries,
            },
            cores_busy: 1.5,
            progress: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::sample::{query, run};
    use super::*;

    #[test]
    fn a_run_is_over_when_its_time_or_its_inputs_are() {
        let at = |progresses: &[Option<f64>], run_for: Option<u64>| {
            let queries = progresses.iter().map(|&p| QuerySnapshot { progress: p, ..query("q", 1, 1, 1, 1) });
            progress(&run(queries.collect()).engine, run_for.map(Duration::from_secs))
        };
        // 12 s have passed.
        assert_eq!(at(&[Some(0.5), Some(0.2)], None), Some(0.2));
        assert_eq!(at(&[Some(0.5), None], None), None);
        assert_eq!(at(&[Some(0.5), None], Some(24)), Some(0.5));
        assert_eq!(at(&[Some(0.9)], Some(120)), Some(0.9));
        assert_eq!(at(&[None], Some(6)), Some(1.0));
    }

    #[test]
    fn one_result_in_a_hundred_may_be_late() {
        assert!(keeps_target(&query("q", 1, 1, 0, 0)));
        assert!(keeps_target(&query("q", 1, 1, 200, 198)));
        assert!(!keeps_target(&query("q", 1, 1, 200, 197)));
    }
}
