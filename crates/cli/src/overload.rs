//! What is said of a query's steps against too much work: in the report, in the live table, in a log and at the end.

use laxity_engine::{Overload, OverloadStep, QuerySnapshot};
use serde::Serialize;

use crate::quantity::{grouped, plural, short_duration};

/// The steps, the gentlest first, each where it was taken.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct OverloadReport {
    #[serde(skip_serializing_if = "Option::is_none")]
    stood_back: Option<StepReport>,
    #[serde(skip_serializing_if = "Option::is_none")]
    larger_batches: Option<StepReport>,
    #[serde(skip_serializing_if = "Option::is_none")]
    approximate: Option<StepReport>,
    #[serde(skip_serializing_if = "Option::is_none")]
    shed: Option<StepReport>,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
struct StepReport {
    /// How often it began.
    times: u64,
    /// For how long in all; absent where that is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    total_ms: Option<f64>,
    /// Whether it goes on.
    now: bool,
}

impl StepReport {
    fn of(step: OverloadStep) -> Option<StepReport> {
        let OverloadStep { times, total_ns, is_on } = step;
        (times > 0).then(|| StepReport { times, total_ms: total_ns.map(|ns| ns as f64 / 1e6), now: is_on })
    }
}

impl OverloadReport {
    /// `None` if no step was ever taken.
    pub fn of(overload: &Overload) -> Option<OverloadReport> {
        let report = OverloadReport {
            stood_back: StepReport::of(overload.stood_back),
            larger_batches: StepReport::of(overload.larger_batches),
            approximate: StepReport::of(overload.approximate),
            shed: StepReport::of(overload.shed),
        };
        named(overload).iter().any(|(_, step)| step.times > 0).then_some(report)
    }
}

fn named(overload: &Overload) -> [(&'static str, OverloadStep); 4] {
    [
        ("back", overload.stood_back),
        ("batches", overload.larger_batches),
        ("approx", overload.approximate),
        ("shed", overload.shed),
    ]
}

/// For the live table and a log: the steps that are being taken, "over" after the last; `None` if there was none.
pub fn cell(overload: &Overload) -> Option<String> {
    let steps = named(overload);
    let now: Vec<&str> = steps.iter().filter(|(_, step)| step.is_on).map(|&(name, _)| name).collect();
    match now[..] {
        [] => steps.iter().any(|(_, step)| step.times > 0).then(|| "over".into()),
        _ => Some(now.join(", ")),
    }
}

/// How many queries are named at the end.
const NAMED: usize = 3;

/// At the end: who took which steps. Larger batches alone are no word worth, for they cost nobody anything.
pub fn sentence(queries: &[QuerySnapshot]) -> Option<String> {
    let costly_ns = |query: &QuerySnapshot| {
        let Overload { stood_back, approximate, shed, .. } = query.overload;
        let steps = [stood_back, approximate, shed];
        let ns: u64 = steps.iter().filter_map(|step| step.total_ns).sum();
        (steps.iter().any(|step| step.times > 0)).then_some(ns)
    };
    let mut stepped: Vec<(u64, &QuerySnapshot)> =
        queries.iter().filter_map(|query| Some((costly_ns(query)?, query))).collect();
    // Among equals the first in the files.
    stepped.sort_by_key(|&(ns, _)| std::cmp::Reverse(ns));
    let told: Vec<String> = stepped.iter().take(NAMED).map(|(_, query)| steps_of(query)).collect();
    let more = match stepped.len().saturating_sub(NAMED) {
        0 => String::new(),
        more => format!("; so did {}", plural(more, "more query")),
    };
    (!told.is_empty()).then(|| format!("Under overload {}{more}.", told.join("; ")))
}

fn steps_of(query: &QuerySnapshot) -> String {
    let Overload { stood_back, larger_batches, approximate, shed } = query.overload;
    let steps = [
        ("stood back", stood_back),
        ("took larger batches", larger_batches),
        ("answered approximately", approximate),
        ("shed rows", shed),
    ];
    let taken = steps.iter().filter(|(_, step)| step.times > 0).map(|&(did, step)| {
        let often = match step.times {
            1 => "once".into(),
            times => format!("{} times", grouped(times)),
        };
        let lasted = step.total_ns.map_or(String::new(), |ns| format!(", {} in all", short_duration(ns)));
        let goes_on = if step.is_on { ", to the end" } else { "" };
        format!("{did} {often}{lasted}{goes_on}")
    });
    let taken: Vec<String> = taken.collect();
    format!("{} {}", query.name, taken.join("; it "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::sample::{MS, query};

    const fn step(times: u64, total_ms: u64, is_on: bool) -> OverloadStep {
        OverloadStep { times, total_ns: Some(total_ms * MS), is_on }
    }

    fn overloaded(name: &str, overload: Overload) -> QuerySnapshot {
        QuerySnapshot { overload, ..query(name, 50, 900, 9, 1) }
    }

    #[test]
    fn each_step_and_its_end_is_told() {
        let calm = Overload::default();
        assert_eq!((cell(&calm), OverloadReport::of(&calm)), (None, None));
        let first = Overload { stood_back: step(1, 200, true), ..calm };
        assert_eq!(cell(&first).unwrap(), "back");
        let all = Overload {
            larger_batches: step(4, 900, true),
            approximate: OverloadStep { times: 1, total_ns: None, is_on: true },
            shed: step(2, 1_500, true),
            ..first
        };
        assert_eq!(cell(&all).unwrap(), "back, batches, approx, shed");
        let over = Overload { stood_back: step(3, 4_200, false), ..calm };
        assert_eq!(cell(&over).unwrap(), "over");
        let report = serde_json::to_value(OverloadReport::of(&all)).unwrap();
        let expected = serde_json::json!({
            "stood_back": {"times": 1, "total_ms": 200.0, "now": true},
            "larger_batches": {"times": 4, "total_ms": 900.0, "now": true},
            "approximate": {"times": 1, "now": true},
            "shed": {"times": 2, "total_ms": 1_500.0, "now": true},
        });
        assert_eq!(report, expected);
        let report = serde_json::to_value(OverloadReport::of(&over)).unwrap();
        assert_eq!(
            report,
            serde_json::json!({"stood_back": {"times": 3, "total_ms": 4_200.0, "now": false}})
        );
    }

    #[test]
    fn the_end_names_those_that_it_cost_most() {
        let back =
            |name, ms| overloaded(name, Overload { stood_back: step(3, ms, false), ..Default::default() });
        let batched = Overload { larger_batches: step(9, 9_000, false), ..Default::default() };
        assert_eq!(sentence(&[query("calm", 50, 1, 9, 9), overloaded("batched", batched)]), None);
        let shed = Overload {
            stood_back: step(1, 7_000, true),
            larger_batches: step(1, 100, false),
            shed: step(2, 2_000, true),
            ..Default::default()
        };
        let queries = [back("a", 4_200), back("b", 1), back("c", 2), back("d", 3), overloaded("e", shed)];
        assert_eq!(
            sentence(&queries).unwrap(),
            "Under overload e stood back once, 7 s in all, to the end; it took larger batches once, 100 ms in all; \
             it shed rows 2 times, 2 s in all, to the end; a stood back 3 times, 4.2 s in all; \
             d stood back 3 times, 3 ms in all; so did 2 more queries."
        );
    }
}
