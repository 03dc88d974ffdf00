//! What do queries cost that have nothing to do?

use super::{Setting, at_most, urgent};
use crate::Findings;
use crate::density::launch::Launch;
use crate::density::outcome::kb_per_query;
use crate::density::sql;

const TARGET_PERCENT: f64 = 1.0;

pub(super) fn run(setting: &mut Setting<'_>) -> anyhow::Result<Findings> {
    let cell = urgent(setting.pick(10_000, 20), 1, 1_000);
    let text = sql::text(&cell, &setting.launcher.scratch);
    let mut findings = Findings {
        columns: vec!["round", "queries", "percent_of_a_core", "kb_per_query", "start_s"],
        ..Findings::default()
    };
    let mut percent = Vec::new();
    for round in 0..setting.rounds() {
        let measured = setting.seconds(5);
        let launch = Launch { is_silent: true, is_watched: false, ..Launch::new(&text, "laxity", measured) };
        let figures = setting.launcher.run(&launch)?;
        percent.push(100.0 * figures.cpu_s / figures.measured_s);
        findings.rows.push(vec![
            round.to_string(),
            figures.queries.len().to_string(),
            format!("{:.3}", percent[round]),
            format!("{:.1}", kb_per_query(&figures)),
            format!("{:.3}", figures.start_s),
        ]);
    }
    findings.summary = vec![at_most(
        &format!("{} queries without rows, of a core", cell.urgent.queries),
        &percent,
        TARGET_PERCENT,
        "%",
    )];
    Ok(findings)
}
