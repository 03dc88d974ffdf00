//! A hundred thousand queries over one stream, of which a thousand get rows.

use std::time::Duration;

use super::{Setting, at_least_percent, at_most, one_stream};
use crate::Findings;
use crate::density::launch::Launch;
use crate::density::outcome::kb_per_query;

const TARGET_MET_PERCENT: f64 = 99.0;
const TARGET_CORES: f64 = 1.0;
const TARGET_KB: f64 = 20.0;

/// To compile and start so many may take that long.
const GRACE: Duration = Duration::from_secs(400);

pub(super) fn run(setting: &mut Setting<'_>) -> anyhow::Result<Findings> {
    let (queries, busy) = (setting.pick(100_000, 50), setting.pick(1_000, 10));
    let rows_per_s = setting.pick(10_000, 1_000);
    let measured = setting.seconds(10);
    let mut findings = Findings {
        columns: vec![
            "queries",
            "with_rows",
            "rows/s",
            "met",
            "worst_p99_ms",
            "cores",
            "kb_per_query",
            "start_s",
        ],
        ..Findings::default()
    };
    let text = one_stream::sql(queries, busy, rows_per_s, 100, true);
    let figures = setting.launcher.run_within(&Launch::new(&text, "laxity", measured), GRACE)?;
    let results: u64 = figures.queries.iter().map(|query| query.results).sum();
    let met: u64 = figures.queries.iter().map(|query| query.met).sum();
    let due = results.max(busy as u64 * measured.as_secs().saturating_sub(1));
    let met = met as f64 / due.max(1) as f64;
    let cores = figures.cpu_s / figures.measured_s;
    findings.rows.push(vec![
        queries.to_string(),
        busy.to_string(),
        rows_per_s.to_string(),
        format!("{met:.4}"),
        format!("{:.1}", figures.queries.iter().map(|query| query.p99_ns).max().unwrap_or(0) as f64 / 1e6),
        format!("{cores:.3}"),
        format!("{:.1}", kb_per_query(&figures)),
        format!("{:.1}", figures.start_s),
    ]);
    let what = format!("{queries} queries of one stream, {busy} of them with rows");
    findings.summary = vec![
        at_least_percent(&format!("{what}: results within 100 ms"), &[met], TARGET_MET_PERCENT),
        at_most("cores they take", &[cores], TARGET_CORES, "cores"),
        at_most("resident size of each, all told", &[kb_per_query(&figures)], TARGET_KB, "KB"),
    ];
    Ok(findings)
}
