//! One of ten thousand queries over one stream comes and goes: what does that take, and who notices?

use std::time::Duration;

use super::{Setting, at_most, one_stream};
use crate::density::changing::{ChangeFigures, SecondFigures};
use crate::density::launch::Launch;
use crate::{Findings, median, percentile, spread};

const TARGET_MS: f64 = 2.0;
const TARGET_LATER_MS: f64 = 5.0;

pub(super) fn run(setting: &mut Setting<'_>) -> anyhow::Result<Findings> {
    let (queries, rows_per_s) = (setting.pick(10_000, 20), setting.pick(100_000, 2_000));
    // As many seconds with changes as without.
    let measured = setting.pick(Duration::from_secs(20), Duration::from_millis(3_500));
    let text = one_stream::sql(queries, queries, rows_per_s, 50, true);
    let mut findings = Findings {
        columns: vec!["round", "second", "changed", "queries", "p99_ms", "latest_ms"],
        ..Findings::default()
    };
    let mut all = ChangeFigures::default();
    // By round: how much later in the middle, and at the most.
    let (mut later, mut latest_later) = (Vec::new(), Vec::new());
    for round in 0..setting.rounds() {
        let launch = Launch { is_changed: true, ..Launch::new(&text, "laxity", measured) };
        let changes = setting.launcher.run(&launch)?.changes;
        for (number, second) in changes.seconds.iter().enumerate() {
            findings.rows.push(vec![
                round.to_string(),
                number.to_string(),
                if second.is_changed { "yes" } else { "no" }.into(),
                second.queries.to_string(),
                format!("{:.2}", second.p99_ms),
                format!("{:.2}", second.latest_ms),
            ]);
        }
        let [quiet, changed] = [false, true].map(|is_changed| latest(&changes.seconds, is_changed));
        later.push((median(&changed) - median(&quiet)).max(0.0));
        let most = |latest: &[f64]| latest.iter().copied().fold(0.0, f64::max);
        latest_later.push((most(&changed) - most(&quiet)).max(0.0));
        all.adds_ms.extend(changes.adds_ms);
        all.removes_ms.extend(changes.removes_ms);
        all.seconds.extend(changes.seconds);
    }
    let nine_in_ten = |values: &[f64]| [percentile(values, 0.9)];
    let latest_of = |is_changed| spread(&latest(&all.seconds, is_changed), "ms");
    findings.summary = vec![
        at_most(&format!("one more query beside {queries}, ready to run"), &all.adds_ms, TARGET_MS, "ms"),
        at_most("nine in ten of those, at most", &nine_in_ten(&all.adds_ms), TARGET_MS, "ms"),
        at_most("one of them taken away", &all.removes_ms, TARGET_MS, "ms"),
        at_most("nine in ten of those, at most", &nine_in_ten(&all.removes_ms), TARGET_MS, "ms"),
        format!(
            "the latest result of a second: {} where nothing changes, {} beside changes",
            latest_of(false),
            latest_of(true)
        ),
        at_most("that is later beside changes, by round, by", &later, TARGET_LATER_MS, "ms"),
        at_most("and the latest of all seconds, by", &latest_later, TARGET_LATER_MS, "ms"),
    ];
    Ok(findings)
}

/// The latest result of each second of that kind, ms.
fn latest(seconds: &[SecondFigures], is_changed: bool) -> Vec<f64> {
    seconds.iter().filter(|second| second.is_changed == is_changed).map(|second| second.latest_ms).collect()
}
