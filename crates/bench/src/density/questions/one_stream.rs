//! A query per customer over one stream, alike but for a constant, shared and not.

use std::fmt::Write as _;
use std::time::Duration;

use super::{Setting, at_least_percent, at_most};
use crate::Findings;
use crate::density::engine_run::EngineFigures;
use crate::density::launch::Launch;
use crate::density::outcome::kb_per_query;

const TARGET_MET_PERCENT: f64 = 99.9;

/// Queries, rows per second of the table, whether they share it, and cores at most.
const CELLS: [(usize, u64, bool, Option<f64>); 7] = [
    (100, 10_000, true, None),
    (100, 10_000, false, None),
    (1_000, 10_000, true, None),
    (1_000, 10_000, false, None),
    (1_000, 100_000, true, Some(0.25)),
    (1_000, 100_000, false, None),
    (10_000, 100_000, true, Some(0.5)),
];
const SMALL: [(usize, u64, bool, Option<f64>); 2] = [(20, 2_000, true, None), (20, 2_000, false, None)];

pub(super) fn run(setting: &mut Setting<'_>) -> anyhow::Result<Findings> {
    let mut findings = Findings {
        columns: [
            "queries",
            "rows/s",
            "share",
            "round",
            "met",
            "worst p99 ms",
            "cores",
            "rows",
            "results",
            "KB/query",
        ]
        .to_vec(),
        ..Findings::default()
    };
    let cells: &[_] = if setting.small { &SMALL } else { &CELLS };
    let measured = setting.seconds(10);
    for &(queries, rows_per_s, is_shared, cores_max) in cells {
        let text = sql(queries, queries, rows_per_s, 50, is_shared);
        let mut figures = Vec::new();
        for round in 0..setting.rounds() {
            let run = setting.launcher.run(&Launch::new(&text, "laxity", measured))?;
            let answer = Answer::of(&run, queries, measured);
            let share = if is_shared { "on" } else { "off" };
            findings.rows.push(vec![
                queries.to_string(),
                rows_per_s.to_string(),
                share.into(),
                round.to_string(),
                format!("{:.4}", answer.met),
                format!("{:.1}", answer.worst_p99_ms),
                format!("{:.3}", answer.cores),
                answer.rows.to_string(),
                answer.results.to_string(),
                format!("{:.1}", answer.kb_per_query),
            ]);
            figures.push(answer);
        }
        let Some(cores_max) = cores_max else { continue };
        let what = format!("{queries} queries over one stream of {rows_per_s} rows/s");
        let all = |figure: fn(&Answer) -> f64| figures.iter().map(figure).collect::<Vec<f64>>();
        let met =
            at_least_percent(&format!("{what}, results within 50 ms"), &all(|of| of.met), TARGET_MET_PERCENT);
        let cores = at_most(&what, &all(|of| of.cores), cores_max, "cores");
        findings.summary.extend([met, cores]);
    }
    Ok(findings)
}

/// Counts of one customer each, every second; the first `busy` of them have rows.
pub(super) fn sql(queries: usize, busy: usize, rows_per_s: u64, target_ms: u64, is_shared: bool) -> String {
    let mut sql = format!(
        "CREATE TABLE events (tenant BIGINT, v BIGINT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts) \
         WITH ('connector' = 'datagen', 'rows-per-second' = '{rows_per_s}', 'fields.tenant.kind' = 'random', \
         'fields.tenant.min' = '0', 'fields.tenant.max' = '{}');\n\
         CREATE TABLE counts (e TIMESTAMP(3), n BIGINT) WITH ('connector' = 'blackhole');\n\
         SET 'laxity.latency.target' = '{target_ms} ms';\n",
        busy - 1
    );
    if !is_shared {
        sql += "SET 'laxity.share' = 'off';\n";
    }
    for tenant in 0..queries {
        write!(
            sql,
            "SET 'pipeline.name' = 'u{tenant}';\n\
             INSERT INTO counts SELECT window_end, COUNT(*) FROM TABLE(\
             TUMBLE(TABLE events, DESCRIPTOR(ts), INTERVAL '1' SECOND)) WHERE tenant = {tenant} \
             GROUP BY window_start, window_end;\n"
        )
        .expect("a string takes all");
    }
    sql
}

/// What such a run came to.
pub(super) struct Answer {
    /// Of the results that were due; those that did not come out are not met.
    pub met: f64,
    pub worst_p99_ms: f64,
    pub cores: f64,
    /// Of the query that took the most.
    rows: u64,
    results: u64,
    pub kb_per_query: f64,
}

impl Answer {
    /// Of a run in which so many queries have rows in every window of a second.
    pub fn of(run: &EngineFigures, busy: usize, measured: Duration) -> Answer {
        let results: u64 = run.queries.iter().map(|query| query.results).sum();
        let met: u64 = run.queries.iter().map(|query| query.met).sum();
        // A window that ends as the run does may come out or not.
        let due = results.max(busy as u64 * measured.as_secs().saturating_sub(1));
        Answer {
            met: met as f64 / due.max(1) as f64,
            worst_p99_ms: run.queries.iter().map(|query| query.p99_ns).max().unwrap_or(0) as f64 / 1e6,
            cores: run.cpu_s / run.measured_s,
            rows: run.queries.iter().map(|query| query.rows_in).max().unwrap_or(0),
            results,
            kb_per_query: kb_per_query(run),
        }
    }
}
