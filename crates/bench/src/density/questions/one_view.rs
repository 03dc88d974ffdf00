//! Queries of several shapes over one view that takes its rows apart, with what they have in common done once and not.

use std::fmt::Write as _;

use super::{Setting, alone_by_together, at_least};
use crate::Findings;

/// Less would say that something is done more than once: of these queries the view is most of the work.
const TARGET_TIMES: f64 = 4.0;

/// What a query asks of a window of the view, and by which of its columns.
const SHAPES: [(&str, &str); 5] = [
    ("COUNT(*)", "kind"),
    ("SUM(cents)", "kind"),
    ("MAX(cents)", "page"),
    ("COUNT(DISTINCT page)", "kind"),
    ("AVG(cents)", "page"),
];

pub(super) fn run(setting: &mut Setting<'_>) -> anyhow::Result<Findings> {
    let (queries, rows_per_s) = (setting.pick(30, 6), setting.pick(5_000, 200));
    let measured = setting.seconds(10);
    let mut findings = Findings {
        columns: vec!["round", "share", "queries", "rows/s", "cores", "results"],
        ..Findings::default()
    };
    let text = |share: &str| sql(queries, rows_per_s, share);
    let times = alone_by_together(setting, &mut findings, measured, text, |figures, cores| {
        let results: u64 = figures.queries.iter().map(|query| query.results).sum();
        vec![
            figures.queries.len().to_string(),
            rows_per_s.to_string(),
            format!("{cores:.4}"),
            results.to_string(),
        ]
    })?;
    let what = format!("{queries} queries over one view: CPU alone by CPU together");
    findings.summary = vec![at_least(&what, &times, TARGET_TIMES, "times")];
    Ok(findings)
}

fn sql(queries: usize, rows_per_s: u64, share: &str) -> String {
    let mut sql = format!(
        "CREATE TABLE events (name STRING, v BIGINT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts) \
         WITH ('connector' = 'datagen', 'rows-per-second' = '{rows_per_s}', 'fields.name.length' = '8', \
         'fields.v.min' = '0', 'fields.v.max' = '99');\n\
         CREATE VIEW bodies AS SELECT ts, '{{\"user\": {{\"name\": \"' || name || '\"}}, \"cents\": ' || CAST(v AS STRING) || '}}' AS body \
         FROM events;\n\
         CREATE VIEW clicks AS SELECT ts, SUBSTRING(JSON_VALUE(body, '$.user.name') FROM 1 FOR 1) AS kind, \
         CAST(JSON_VALUE(body, '$.cents') AS BIGINT) AS cents, \
         REGEXP_EXTRACT(JSON_VALUE(body, '$.user.name'), '^(..)', 1) AS page FROM bodies \
         WHERE JSON_VALUE(body, '$.user.name') NOT LIKE 'f%';\n\
         CREATE TABLE results (e TIMESTAMP(3), a BIGINT) WITH ('connector' = 'blackhole');\n\
         SET 'laxity.latency.target' = '100 ms';\nSET 'laxity.share' = '{share}';\n"
    );
    for query in 0..queries {
        let (what, by) = SHAPES[query % SHAPES.len()];
        let window_s = 1 + query / SHAPES.len() % 3;
        writeln!(
            sql,
            "INSERT INTO results SELECT window_end, CAST({what} AS BIGINT) FROM TABLE(\
             TUMBLE(TABLE clicks, DESCRIPTOR(ts), INTERVAL '{window_s}' SECOND)) \
             GROUP BY window_start, window_end, {by};"
        )
        .expect("a string takes all");
    }
    sql
}
