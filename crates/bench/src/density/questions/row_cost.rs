//! What does one row cost from scan to sink, and one activation of an operator?
//!
//! A hundred tables of a row every millisecond, each with a window of a second, so that windows seldom fire. CPU time of the
//! whole process: sources and scheduler included. Rows in the midst of a window are left to gather, so an activation is of
//! many; what one of a single row costs is `overhead`'s question.

use super::{Setting, at_most, urgent};
use crate::{Findings, median};

const TARGET_ROW_US: f64 = 2.0;
const TARGET_ACTIVATION_US: f64 = 0.7;

pub(super) fn run(setting: &mut Setting<'_>) -> anyhow::Result<Findings> {
    let cell = urgent(setting.pick(100, 5), 1_000, 1_000);
    let mut findings = Findings {
        columns: vec![
            "round",
            "rows",
            "activations",
            "cpu_us_per_row",
            "worker_us_per_activation",
            "outside_operators_us_per_activation",
            "p99_ms",
            "p999_ms",
            "p9999_ms",
        ],
        ..Findings::default()
    };
    let [mut row_us, mut activation_us, mut outside_us, mut rows_each] = [const { Vec::new() }; 4];
    let [mut p999_ms, mut p9999_ms] = [Vec::new(), Vec::new()];
    for round in 0..setting.rounds() {
        let (figures, outcome) = setting.measure(&cell, setting.seconds(5))?;
        let rows: u64 = figures.queries.iter().map(|query| query.rows_in).sum();
        let activations = figures.activations.max(1);
        row_us.push(figures.cpu_s * 1e6 / rows.max(1) as f64);
        rows_each.push(rows as f64 / activations as f64);
        activation_us.push(figures.worker_cpu_s * 1e6 / activations as f64);
        outside_us.push((figures.worker_cpu_s - figures.operator_s) * 1e6 / activations as f64);
        p999_ms.push(outcome.p999_ms);
        p9999_ms.push(outcome.p9999_ms);
        findings.rows.push(vec![
            round.to_string(),
            rows.to_string(),
            activations.to_string(),
            format!("{:.3}", row_us[round]),
            format!("{:.3}", activation_us[round]),
            format!("{:.3}", outside_us[round]),
            format!("{:.3}", outcome.p99_ms),
            format!("{:.3}", outcome.p999_ms),
            format!("{:.3}", outcome.p9999_ms),
        ]);
    }
    findings.summary = vec![
        at_most("a row from scan to sink through a window, all told", &row_us, TARGET_ROW_US, "µs"),
        at_most(
            &format!("an activation of {:.0} rows, the operator included", median(&rows_each)),
            &activation_us,
            TARGET_ACTIVATION_US,
            "µs",
        ),
        format!("of that outside of the operator: {:.2} µs", median(&outside_us)),
        format!("latency p99.9 {:.2} ms, p99.99 {:.2} ms", median(&p999_ms), median(&p9999_ms)),
    ];
    Ok(findings)
}
