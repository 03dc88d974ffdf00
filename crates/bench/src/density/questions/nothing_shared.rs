//! What does sharing cost those who have nothing to share?

use super::{Setting, urgent};
use crate::density::launch::Launch;
use crate::density::outcome::Outcome;
use crate::density::sql;
use crate::{Findings, median};

const TARGET_PERCENT: f64 = 3.0;

pub(super) fn run(setting: &mut Setting<'_>) -> anyhow::Result<Findings> {
    let cell = urgent(setting.pick(400, 5), 500, 100);
    let on = sql::text(&cell, &setting.launcher.scratch);
    let off = format!("SET 'laxity.share' = 'off';\n{on}");
    let mut findings =
        Findings { columns: vec!["round", "share", "cores", "met", "p99_ms"], ..Findings::default() };
    let mut dearer_percent = Vec::new();
    for round in 0..setting.rounds() {
        let mut cores = [0.0; 2];
        for (place, (share, text)) in [("on", &on), ("off", &off)].into_iter().enumerate() {
            let figures = setting.launcher.run(&Launch::new(text, "laxity", setting.seconds(5)))?;
            let outcome = Outcome::of(&cell, &figures);
            cores[place] = figures.cpu_s / figures.measured_s;
            findings.rows.push(vec![
                round.to_string(),
                share.into(),
                format!("{:.4}", cores[place]),
                format!("{:.4}", outcome.met),
                format!("{:.2}", outcome.p99_ms),
            ]);
        }
        dearer_percent.push(100.0 * (cores[0] / cores[1].max(1e-9) - 1.0));
    }
    let dearer = median(&dearer_percent);
    let verdict = if dearer <= TARGET_PERCENT { "met" } else { "MISSED" };
    findings.summary = vec![format!(
        "{} queries of as many tables, sharing on against off: {dearer:+.1} % CPU, target at most +{TARGET_PERCENT} %: {verdict}",
        cell.urgent.queries
    )];
    Ok(findings)
}
