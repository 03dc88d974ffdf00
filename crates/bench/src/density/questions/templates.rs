//! Fifty templates of two hundred queries each over one stream, told apart by equality, lists, ranges and prefixes.

use std::fmt::Write as _;

use super::{Setting, alone_by_together, at_least};
use crate::Findings;

const TARGET_TIMES: f64 = 20.0;

/// Aggregates of a template; with each of five windows they make fifty.
const AGGREGATES: [&str; 10] = [
    "COUNT(*)",
    "SUM(v)",
    "MIN(v)",
    "MAX(v)",
    "AVG(v)",
    "COUNT(v)",
    "SUM(v + 1)",
    "MAX(v) - MIN(v)",
    "COUNT(DISTINCT v)",
    "SUM(v) FILTER (WHERE v > 10)",
];
const WINDOWS_S: [u64; 5] = [1, 2, 3, 4, 5];
/// Customers: a thousand overlapping ranges over them, among others.
const TENANTS: usize = 1_000;

pub(super) fn run(setting: &mut Setting<'_>) -> anyhow::Result<Findings> {
    let (each, rows_per_s) = (setting.pick(200, 4), setting.pick(2_000, 200));
    let measured = setting.seconds(10);
    let mut findings = Findings {
        columns: vec!["round", "share", "queries", "rows/s", "cores", "results", "results_per_query_least"],
        ..Findings::default()
    };
    let text = |share: &str| sql(each, rows_per_s, share);
    let times = alone_by_together(setting, &mut findings, measured, text, |figures, cores| {
        let results = || figures.queries.iter().map(|query| query.results);
        vec![
            figures.queries.len().to_string(),
            rows_per_s.to_string(),
            format!("{cores:.4}"),
            results().sum::<u64>().to_string(),
            results().min().unwrap_or(0).to_string(),
        ]
    })?;
    let what = format!(
        "{} templates of {each} queries: CPU alone by CPU together",
        AGGREGATES.len() * WINDOWS_S.len()
    );
    findings.summary = vec![at_least(&what, &times, TARGET_TIMES, "times")];
    Ok(findings)
}

fn sql(each: usize, rows_per_s: u64, share: &str) -> String {
    let mut sql = format!(
        "CREATE TABLE events (tenant BIGINT, name STRING, v BIGINT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts) \
         WITH ('connector' = 'datagen', 'rows-per-second' = '{rows_per_s}', 'fields.name.length' = '8', \
         'fields.tenant.min' = '0', 'fields.tenant.max' = '{}', 'fields.v.min' = '0', 'fields.v.max' = '99');\n\
         CREATE TABLE results (e TIMESTAMP(3), a BIGINT) WITH ('connector' = 'blackhole');\n\
         SET 'laxity.latency.target' = '1 s';\nSET 'laxity.share' = '{share}';\n",
        TENANTS - 1
    );
    for window_s in WINDOWS_S {
        for (number, aggregate) in AGGREGATES.into_iter().enumerate() {
            for query in 0..each {
                writeln!(
                    sql,
                    "INSERT INTO results SELECT window_end, CAST({aggregate} AS BIGINT) FROM TABLE(\
                     TUMBLE(TABLE events, DESCRIPTOR(ts), INTERVAL '{window_s}' SECOND)) WHERE {} \
                     GROUP BY window_start, window_end;",
                    filter(number, query * TENANTS / each)
                )
                .expect("a string takes all");
            }
        }
    }
    sql
}

/// What tells the queries of a template apart.
fn filter(template: usize, tenant: usize) -> String {
    match template % 4 {
        0 => format!("tenant = {tenant}"),
        1 => format!("tenant IN ({tenant}, {}, {})", tenant + 1, tenant + 2),
        2 => format!("tenant BETWEEN {tenant} AND {}", tenant + 10),
        _ => format!("name LIKE '{:02x}%'", tenant % 256),
    }
}
