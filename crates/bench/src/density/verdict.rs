//! What was promised, and whether the medians of the matrix keep it.

use super::cell::Point;
use super::outcome::Outcome;

/// A cell under one policy: the medians of its rounds.
#[derive(Clone, Debug)]
pub struct Standing {
    /// The cell.
    pub point: Point,
    /// The policy.
    pub policy: String,
    /// Medians.
    pub outcome: Outcome,
}

/// Up to this load every query is promised its target.
const CALM_LOAD: f64 = 0.8;
const CALM_MET: f64 = 0.99;
const FULL_MET: f64 = 0.95;
/// "Its rows": the query that got the least of them got so much.
const ADMITTED: f64 = 0.99;
/// Behind `os` in met by at most this.
const BEHIND_OS: f64 = 0.01;
/// CPU of a row against `os`: what three runs of the same cell differ by.
const CPU_NOISE: f64 = 0.02;
/// From so many queries on, at loads above [`CALM_LOAD`].
const MANY: usize = 100;
const P99_TIMES: f64 = 5.0;
const THROUGHPUT_BEHIND: f64 = 0.02;

/// Names of cells in one line at most.
const NAMED: usize = 4;

/// A line for each promise: met, or by how much and where it is missed.
pub fn lines(standings: &[Standing]) -> Vec<String> {
    let laxity = |keep: &dyn Fn(&Point) -> bool| -> Vec<&Standing> {
        standings.iter().filter(|s| s.policy == "laxity" && keep(&s.point)).collect()
    };
    let calm = laxity(&|point| point.load <= CALM_LOAD);
    let full = laxity(&|point| point.load > CALM_LOAD);
    let all = laxity(&|_| true);
    let crowded = laxity(&|point| point.load > CALM_LOAD && point.shape.queries >= MANY);
    let mut lines = vec![
        line("load at most 0.8: laxity meets at least 99 % of the targets", &calm, |s| {
            Some(Gap::of(CALM_MET - s.outcome.met, percent(s.outcome.met)))
        }),
        line("load at most 0.8: laxity gives every query its rows", &calm, |s| {
            Some(Gap::of(ADMITTED - s.outcome.least_admitted, percent(s.outcome.least_admitted)))
        }),
        line("load above 0.8: laxity meets at least 95 %", &full, |s| {
            Some(Gap::of(FULL_MET - s.outcome.met, percent(s.outcome.met)))
        }),
    ];
    let beside = |laxity: &Standing, policy: &str| {
        standings.iter().find(|s| s.policy == policy && s.point == laxity.point).map(|s| &s.outcome)
    };
    lines.push(line("nowhere behind os by more than 1 % in met", &all, |s| {
        let os = beside(s, "os")?;
        let text = format!("{} against {}", percent(s.outcome.met), percent(os.met));
        Some(Gap::of(os.met - s.outcome.met - BEHIND_OS, text))
    }));
    lines.push(line("never more CPU than os for the same rows", &all, |s| {
        let os = beside(s, "os")?.cpu_s_per_million_rows();
        let own = s.outcome.cpu_s_per_million_rows();
        Some(Gap::of(own / os - 1.0 - CPU_NOISE, format!("{:.2} times os's", own / os)))
    }));
    for policy in ["os", "fifo"] {
        let promise =
            format!("100 queries or more, load above 0.8: urgent p99 at most a fifth of {policy}'s");
        lines.push(line(&promise, &crowded, |s| {
            let other = beside(s, policy)?;
            let text = format!("{:.1} ms against {:.1} ms", s.outcome.p99_ms, other.p99_ms);
            Some(Gap::of(P99_TIMES * s.outcome.p99_ms / other.p99_ms.max(1e-3) - 1.0, text))
        }));
        let promise = format!("100 queries or more, load above 0.8: as many rows as {policy}, within 2 %");
        lines.push(line(&promise, &crowded, |s| {
            // What is over from the warm-up is not the load's: who was behind then has more rows now than are offered.
            let rows_per_s = |outcome: &Outcome| outcome.rows_per_s.min(outcome.rows_offered_per_s);
            let ratio = rows_per_s(&s.outcome) / rows_per_s(beside(s, policy)?).max(1.0);
            Some(Gap::of(1.0 - THROUGHPUT_BEHIND - ratio, format!("{ratio:.3} of {policy}'s")))
        }));
    }
    lines
}

/// By how much a promise is missed in one cell; not missed at zero and below.
struct Gap {
    by: f64,
    text: String,
}

impl Gap {
    fn of(by: f64, text: String) -> Gap {
        Gap { by, text }
    }
}

fn line(promise: &str, judged: &[&Standing], gap: impl Fn(&Standing) -> Option<Gap>) -> String {
    let gaps: Vec<(&Standing, Gap)> = judged.iter().filter_map(|&s| Some((s, gap(s)?))).collect();
    if gaps.is_empty() {
        return format!("{promise}: not measured");
    }
    let total = gaps.len();
    let mut missed: Vec<(&Standing, Gap)> = gaps.into_iter().filter(|(_, gap)| gap.by > 0.0).collect();
    if missed.is_empty() {
        return format!("{promise}: met in all of {total} cells");
    }
    missed.sort_by(|(_, a), (_, b)| b.by.total_cmp(&a.by));
    let named: Vec<String> =
        missed.iter().take(NAMED).map(|(s, gap)| format!("{} {}", s.point, gap.text)).collect();
    let more = match missed.len().saturating_sub(NAMED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    format!("{promise}: MISSED in {} of {total} cells: {}{more}", missed.len(), named.join(", "))
}

fn percent(share: f64) -> String {
    format!("{:.1} %", 100.0 * share)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn standing(point: &str, policy: &str, met: f64, p99_ms: f64, cores: f64) -> Standing {
        let outcome = Outcome {
            met,
            p99_ms,
            cores,
            rows_per_s: 1e6,
            rows_offered_per_s: 1e6,
            least_admitted: 1.0,
            ..Outcome::default()
        };
        Standing { point: point.parse().unwrap(), policy: policy.into(), outcome }
    }

    #[test]
    fn every_promise_names_where_it_is_missed() {
        let (calm, full) = ("400-own-100ms-staggered-0.8", "400-own-100ms-staggered-0.95");
        let told = lines(&[
            standing(calm, "laxity", 0.98, 40.0, 1.0),
            standing(calm, "os", 1.0, 20.0, 1.0),
            standing(full, "laxity", 0.97, 10.0, 1.5),
            standing(full, "os", 0.5, 80.0, 1.0),
            standing(full, "fifo", 0.5, 20.0, 1.0),
        ]);
        assert_eq!(
            told,
            [
                "load at most 0.8: laxity meets at least 99 % of the targets: MISSED in 1 of 1 cells: \
                 400-own-100ms-staggered-0.8 98.0 %",
                "load at most 0.8: laxity gives every query its rows: met in all of 1 cells",
                "load above 0.8: laxity meets at least 95 %: met in all of 1 cells",
                "nowhere behind os by more than 1 % in met: MISSED in 1 of 2 cells: \
                 400-own-100ms-staggered-0.8 98.0 % against 100.0 %",
                "never more CPU than os for the same rows: MISSED in 1 of 2 cells: \
                 400-own-100ms-staggered-0.95 1.50 times os's",
                "100 queries or more, load above 0.8: urgent p99 at most a fifth of os's: met in all of 1 cells",
                "100 queries or more, load above 0.8: as many rows as os, within 2 %: met in all of 1 cells",
                "100 queries or more, load above 0.8: urgent p99 at most a fifth of fifo's: \
                 MISSED in 1 of 1 cells: 400-own-100ms-staggered-0.95 10.0 ms against 20.0 ms",
                "100 queries or more, load above 0.8: as many rows as fifo, within 2 %: met in all of 1 cells",
            ]
        );
    }

    #[test]
    fn who_works_off_a_backlog_has_no_more_rows_than_are_offered() {
        let full = "400-own-100ms-staggered-0.95";
        let rows = |own: f64, other: f64| {
            let mut standings =
                [standing(full, "laxity", 1.0, 1.0, 1.0), standing(full, "os", 1.0, 1.0, 1.0)];
            (standings[0].outcome.rows_per_s, standings[1].outcome.rows_per_s) = (own, other);
            lines(&standings).into_iter().find(|line| line.contains("as many rows as os")).unwrap()
        };
        assert!(rows(0.99e6, 1.2e6).ends_with("met in all of 1 cells"));
        assert!(rows(0.9e6, 1.2e6).ends_with("400-own-100ms-staggered-0.95 0.900 of os's"));
    }

    #[test]
    fn what_was_not_measured_is_not_met() {
        assert!(lines(&[]).iter().all(|line| line.ends_with("not measured")));
    }

    #[test]
    fn a_row_that_is_lost_is_a_promise_broken() {
        let mut one = standing("10-own-100ms-together-0.5", "laxity", 1.0, 1.0, 1.0);
        one.outcome.least_admitted = 0.5;
        assert!(lines(&[one])[1].contains("MISSED in 1 of 1 cells: 10-own-100ms-together-0.5 50.0 %"));
    }
}
