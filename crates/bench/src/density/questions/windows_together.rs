//! A thousand windows end at the same instant: when is the last result out?

use super::{Setting, at_most, urgent};
use crate::Findings;
use crate::density::cell::{Cell, Tables, Urgent};

const TARGET_MS: f64 = 15.0;

pub(super) fn run(setting: &mut Setting<'_>) -> anyhow::Result<Findings> {
    let own = urgent(setting.pick(1_000, 10), 20, setting.pick(1_000, 100));
    let shared = Cell { urgent: Urgent { tables: Tables::Shared, ..own.urgent }, ..own.clone() };
    let mut findings = Findings {
        columns: vec!["round", "tables", "results", "p50_ms", "p99_ms", "last_ms"],
        ..Findings::default()
    };
    let mut last_ms = [Vec::new(), Vec::new()];
    for round in 0..setting.rounds() {
        for (place, (tables, cell)) in [("own", &own), ("shared", &shared)].into_iter().enumerate() {
            let (_, outcome) = setting.measure(cell, setting.seconds(6))?;
            last_ms[place].push(outcome.max_ms);
            findings.rows.push(vec![
                round.to_string(),
                tables.to_string(),
                outcome.due.to_string(),
                format!("{:.3}", outcome.p50_ms),
                format!("{:.3}", outcome.p99_ms),
                format!("{:.3}", outcome.max_ms),
            ]);
        }
    }
    let queries = own.urgent.queries;
    findings.summary = vec![
        at_most(
            &format!("{queries} windows of as many tables end together: the last result of all"),
            &last_ms[0],
            TARGET_MS,
            "ms",
        ),
        at_most(
            &format!("{queries} windows of one table end together: the last result of all"),
            &last_ms[1],
            TARGET_MS,
            "ms",
        ),
    ];
    Ok(findings)
}
