//! What share of the CPU time goes to threads that do not run operators, at a thousand rows a batch?

use super::{Setting, at_most, urgent};
use crate::{Findings, median};

const TARGET_PERCENT: f64 = 3.0;

pub(super) fn run(setting: &mut Setting<'_>) -> anyhow::Result<Findings> {
    // A thousand rows in a tick.
    let cell = urgent(setting.pick(4, 1), 1_000_000, 1_000);
    let mut findings = Findings {
        columns: vec!["round", "cpu_s", "other_threads_s", "operators_s", "percent", "outside_calls_percent"],
        ..Findings::default()
    };
    let [mut percent, mut outside_calls] = [Vec::new(), Vec::new()];
    for round in 0..setting.rounds() {
        let (figures, _) = setting.measure(&cell, setting.seconds(4))?;
        let other_s = figures.cpu_s - figures.worker_cpu_s;
        percent.push(100.0 * other_s / figures.cpu_s);
        outside_calls.push(100.0 * (1.0 - figures.operator_s / figures.cpu_s));
        findings.rows.push(vec![
            round.to_string(),
            format!("{:.3}", figures.cpu_s),
            format!("{other_s:.3}"),
            format!("{:.3}", figures.operator_s),
            format!("{:.2}", percent[round]),
            format!("{:.2}", outside_calls[round]),
        ]);
    }
    findings.summary = vec![
        at_most(
            "threads that do not run operators, of all CPU time at 1 000-row batches",
            &percent,
            TARGET_PERCENT,
            "%",
        ),
        match median(&outside_calls) {
            share if share >= 0.0 => format!("everything but calls of operators: {share:.1} %"),
            // Time inside operators is by the wall.
            _ => "everything but calls of operators: not known, others took the cores meanwhile".to_string(),
        },
    ];
    Ok(findings)
}
