//! What does sharing cost those who have nothing to share?

use super::{Setting, alone_by_together, urgent};
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
    let text = |share: &str| if share == "on" { on.clone() } else { off.clone() };
    let measured = setting.seconds(5);
    let times = alone_by_together(setting, &mut findings, measured, text, |figures, cores| {
        let outcome = Outcome::of(&cell, figures);
        vec![format!("{cores:.4}"), format!("{:.4}", outcome.met), format!("{:.2}", outcome.p99_ms)]
    })?;
    let dearer = 100.0 * (1.0 / median(&times).max(1e-9) - 1.0);
    let verdict = if dearer <= TARGET_PERCENT { "met" } else { "MISSED" };
    findings.summary = vec![format!(
        "{} queries of as many tables, sharing on against off: {dearer:+.1} % CPU, target at most +{TARGET_PERCENT} %: {verdict}",
        cell.urgent.queries
    )];
    Ok(findings)
}
