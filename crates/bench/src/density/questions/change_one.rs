//! One of ten thousand queries over one stream comes and goes: what does that take, and who notices?

use super::one_stream::{self, Answer};
use super::{Setting, at_most};
use crate::density::launch::Launch;
use crate::{Findings, median};

const TARGET_MS: f64 = 2.0;
const TARGET_LATER_MS: f64 = 5.0;

pub(super) fn run(setting: &mut Setting<'_>) -> anyhow::Result<Findings> {
    let (queries, rows_per_s) = (setting.pick(10_000, 20), setting.pick(100_000, 2_000));
    let measured = setting.seconds(10);
    let text = one_stream::sql(queries, queries, rows_per_s, 50, true);
    let mut findings = Findings {
        columns: vec![
            "round",
            "changes",
            "add_ms_median",
            "add_ms_most",
            "remove_ms_median",
            "remove_ms_most",
            "p99_ms",
            "max_ms",
        ],
        ..Findings::default()
    };
    let (mut adds, mut removes) = (Vec::new(), Vec::new());
    let (mut later, mut latest_later) = (Vec::new(), Vec::new());
    for round in 0..setting.rounds() {
        let (mut worst_ms, mut latest_ms) = ([0.0; 2], [0.0; 2]);
        for (place, is_changed) in [false, true].into_iter().enumerate() {
            let launch = Launch { is_changed, ..Launch::new(&text, "laxity", measured) };
            let figures = setting.launcher.run(&launch)?;
            worst_ms[place] = Answer::of(&figures, queries, measured).worst_p99_ms;
            let ([add, add_most], [remove, remove_most]) =
                (median_and_most(&figures.adds_ms), median_and_most(&figures.removes_ms));
            let max_ns = figures.queries.iter().map(|query| query.max_ns).max().unwrap_or(0);
            latest_ms[place] = max_ns as f64 / 1e6;
            findings.rows.push(vec![
                round.to_string(),
                figures.adds_ms.len().to_string(),
                add,
                add_most,
                remove,
                remove_most,
                format!("{:.2}", worst_ms[place]),
                format!("{:.2}", latest_ms[place]),
            ]);
            adds.extend(figures.adds_ms);
            removes.extend(figures.removes_ms);
        }
        later.push((worst_ms[1] - worst_ms[0]).max(0.0));
        latest_later.push((latest_ms[1] - latest_ms[0]).max(0.0));
    }
    findings.summary = vec![
        at_most(&format!("one more query beside {queries}, ready to run"), &adds, TARGET_MS, "ms"),
        at_most("one of them taken away", &removes, TARGET_MS, "ms"),
        at_most("nine in ten of those, at most", &[percentile(&removes, 0.9)], TARGET_MS, "ms"),
        at_most("the worst p99 of the others, later by", &later, TARGET_LATER_MS, "ms"),
        at_most("the latest result of all others, later by", &latest_later, TARGET_LATER_MS, "ms"),
    ];
    Ok(findings)
}

fn percentile(values: &[f64], share: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let place = (sorted.len() as f64 * share) as usize;
    sorted.get(place.min(sorted.len().saturating_sub(1))).copied().unwrap_or(0.0)
}

/// As cells; "-" where nothing was changed.
fn median_and_most(values_ms: &[f64]) -> [String; 2] {
    let Some(most) = values_ms.iter().copied().max_by(f64::total_cmp) else {
        return ["-".into(), "-".into()];
    };
    [median(values_ms), most].map(|ms| format!("{ms:.3}"))
}
