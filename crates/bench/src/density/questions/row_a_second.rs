//! Ten thousand queries, each with a table of its own and a row a second.

use super::{Setting, at_least_percent, at_most, urgent};
use crate::Findings;
use crate::density::cell::{Cell, Urgent};
use crate::density::outcome::{COLUMNS, Outcome};

const TARGET_MET_PERCENT: f64 = 99.0;
const TARGET_CORES: f64 = 0.5;
const TARGET_KB: f64 = 100.0;
const TARGET_START_S: f64 = 5.0;

pub(super) fn run(setting: &mut Setting<'_>) -> anyhow::Result<Findings> {
    let cell = urgent(setting.pick(10_000, 20), setting.pick(1, 20), setting.pick(1_000, 100));
    let cell = Cell { urgent: Urgent { target_ms: 100, ..cell.urgent }, ..cell };
    let mut findings =
        Findings { columns: ["round"].into_iter().chain(COLUMNS).collect(), ..Findings::default() };
    let mut outcomes: Vec<Outcome> = Vec::new();
    for round in 0..setting.rounds() {
        let (_, outcome) = setting.measure(&cell, setting.seconds(10))?;
        let mut row = vec![round.to_string()];
        row.extend(outcome.cells());
        findings.rows.push(row);
        outcomes.push(outcome);
    }
    let all = |figure: fn(&Outcome) -> f64| outcomes.iter().map(figure).collect::<Vec<f64>>();
    let queries = cell.urgent.queries;
    findings.summary = vec![
        at_least_percent(
            &format!("{queries} queries at a row a second, results within 100 ms"),
            &all(|outcome| outcome.met),
            TARGET_MET_PERCENT,
        ),
        at_most("cores they take", &all(|outcome| outcome.cores), TARGET_CORES, "cores"),
        at_most("resident size of each, all told", &all(|outcome| outcome.kb_per_query), TARGET_KB, "KB"),
        at_most("compiled and started", &all(|outcome| outcome.start_s), TARGET_START_S, "s"),
    ];
    Ok(findings)
}
