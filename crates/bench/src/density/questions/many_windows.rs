//! Windows of many lengths over the same rows of one stream, by the same key: the work per row done once, and by each.

use std::fmt::Write as _;

use super::{Setting, alone_by_together, at_least};
use crate::Findings;

/// It must not be dearer: most of the rest is to make the rows, and to look at their filter where they have one.
const TARGET_TIMES: f64 = 1.0;

/// Size and slide, s.
const WINDOWS_S: [(u64, u64); 12] =
    [(1, 1), (2, 2), (3, 3), (4, 4), (5, 5), (6, 6), (2, 1), (3, 1), (4, 2), (5, 1), (6, 3), (10, 2)];
const TENANTS: u64 = 100;

pub(super) fn run(setting: &mut Setting<'_>) -> anyhow::Result<Findings> {
    let (windows, rows_per_s) = (setting.pick(WINDOWS_S.len(), 5), setting.pick(500_000, 2_000));
    let measured = setting.seconds(10);
    let mut findings = Findings {
        columns: vec!["round", "share", "filter", "queries", "rows/s", "cores", "results", "worst p99 ms"],
        ..Findings::default()
    };
    for (filter, clause) in [("some", "WHERE v < 90"), ("none", "")] {
        let text = |share: &str| sql(windows, rows_per_s, share, clause);
        let times = alone_by_together(setting, &mut findings, measured, text, |figures, cores| {
            let worst_ns = figures.queries.iter().map(|query| query.p99_ns).max().unwrap_or(0);
            vec![
                filter.to_string(),
                figures.queries.len().to_string(),
                rows_per_s.to_string(),
                format!("{cores:.4}"),
                figures.queries.iter().map(|query| query.results).sum::<u64>().to_string(),
                format!("{:.1}", worst_ns as f64 / 1e6),
            ]
        })?;
        let what = format!(
            "{windows} kinds of windows over the same rows, {filter} of these filtered: CPU alone by CPU together"
        );
        findings.summary.push(at_least(&what, &times, TARGET_TIMES, "times"));
    }
    Ok(findings)
}

fn sql(windows: usize, rows_per_s: u64, share: &str, clause: &str) -> String {
    let mut sql = format!(
        "CREATE TABLE events (tenant BIGINT, v BIGINT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts) \
         WITH ('connector' = 'datagen', 'rows-per-second' = '{rows_per_s}', \
         'fields.tenant.min' = '0', 'fields.tenant.max' = '{}', 'fields.v.min' = '0', 'fields.v.max' = '99');\n\
         CREATE TABLE results (e TIMESTAMP(3), tenant BIGINT, n BIGINT, s BIGINT) WITH ('connector' = 'blackhole');\n\
         SET 'laxity.latency.target' = '100 ms';\nSET 'laxity.share' = '{share}';\n",
        TENANTS - 1
    );
    for (size_s, slide_s) in &WINDOWS_S[..windows] {
        let window = match size_s == slide_s {
            true => format!("TUMBLE(TABLE events, DESCRIPTOR(ts), INTERVAL '{size_s}' SECOND)"),
            false => format!(
                "HOP(TABLE events, DESCRIPTOR(ts), INTERVAL '{slide_s}' SECOND, INTERVAL '{size_s}' SECOND)"
            ),
        };
        writeln!(
            sql,
            "INSERT INTO results SELECT window_end, tenant, COUNT(*), SUM(v) FROM TABLE({window}) {clause} \
             GROUP BY window_start, window_end, tenant;"
        )
        .expect("a string takes all");
    }
    sql
}
