//! A hundred thousand queries over one stream, of which a thousand get rows.

use std::time::Duration;

use super::one_stream::{self, Answer};
use super::{Setting, at_least_percent, at_most};
use crate::Findings;
use crate::density::launch::Launch;

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
    let Answer { met, worst_p99_ms, cores, kb_per_query, .. } = Answer::of(&figures, busy, measured);
    findings.rows.push(vec![
        queries.to_string(),
        busy.to_string(),
        rows_per_s.to_string(),
        format!("{met:.4}"),
        format!("{worst_p99_ms:.1}"),
        format!("{cores:.3}"),
        format!("{kb_per_query:.1}"),
        format!("{:.1}", figures.start_s),
    ]);
    let what = format!("{queries} queries of one stream, {busy} of them with rows");
    findings.summary = vec![
        at_least_percent(&format!("{what}: results within 100 ms"), &[met], TARGET_MET_PERCENT),
        at_most("cores they take", &[cores], TARGET_CORES, "cores"),
        at_most("resident size of each, all told", &[kb_per_query], TARGET_KB, "KB"),
    ];
    Ok(findings)
}
