//! What happened, in sentences.

use laxity_engine::{Outcome, QuerySnapshot};
use laxity_sched::Cause;

use crate::quantity::{plural, short_count, short_duration, short_share};
use crate::view::keeps_target;

/// One sentence for each query that failed, missed its target or gave nothing, and one for those that kept it.
pub fn sentences(queries: &[QuerySnapshot]) -> Vec<String> {
    let mut sentences = Vec::new();
    let mut kept: Vec<&QuerySnapshot> = Vec::new();
    for query in queries {
        if let Outcome::Failed(error) = &query.outcome {
            sentences.push(format!("{} failed: {error}.", query.name));
        } else if query.lateness.results == 0 {
            sentences.push(format!("{} gave no result.", query.name));
        } else if keeps_target(query) {
            kept.push(query);
        } else {
            sentences.push(missed(query));
        }
    }
    for query in queries.iter().filter(|query| query.rows_shed > 0) {
        let arrived = query.rows_in + query.rows_shed;
        sentences.push(format!(
            "{} shed {} of its {} rows, as its laxity.shed allows.",
            query.name,
            short_share(query.rows_shed, arrived),
            short_count(arrived),
        ));
    }
    // The tightest promise is the one a reader doubts.
    kept.sort_by_key(|query| query.target_ns);
    match *kept {
        [] => {}
        [query] => sentences.push(format!("{}.", kept_by(query))),
        [tightest, ref others @ ..] => sentences.push(format!(
            "{}; {} kept {} too.",
            kept_by(tightest),
            match others {
                [other] => other.name.clone(),
                _ => format!("the {} with longer targets", plural(others.len(), "query")),
            },
            if others.len() == 1 { "its own" } else { "theirs" },
        )),
    }
    sentences
}

fn kept_by(query: &QuerySnapshot) -> String {
    format!(
        "{} kept its {} target: p99 {}, {} of {} met it",
        query.name,
        short_duration(query.target_ns),
        short_duration(query.latency.p99_ns),
        short_share(query.lateness.met, query.lateness.results),
        results(query),
    )
}

fn missed(query: &QuerySnapshot) -> String {
    let cause = query.lateness.missed.cause();
    let share = query.lateness.share(cause);
    format!(
        "{} missed its {} target: p99 {}, {} of {} met it, the worst took {}; the late ones spent {:.0} % of their time {}.",
        query.name,
        short_duration(query.target_ns),
        short_duration(query.latency.p99_ns),
        short_share(query.lateness.met, query.lateness.results),
        results(query),
        short_duration(query.latency.max_ns),
        share * 100.0,
        doing(cause),
    )
}

fn results(query: &QuerySnapshot) -> String {
    plural(usize::try_from(query.lateness.results).unwrap_or(usize::MAX), "result")
}

pub(crate) fn doing(cause: Cause) -> &'static str {
    match cause {
        Cause::Source => "held back at the source",
        Cause::Queue => "waiting for a worker",
        Cause::Execute => "being computed",
        Cause::Frontier => "waiting for the watermark",
        Cause::Sink => "being written",
    }
}

#[cfg(test)]
mod tests {
    use laxity_sched::Parts;

    use super::*;
    use crate::view::sample::query;

    #[test]
    fn all_kept_is_one_sentence_about_the_tightest() {
        let heavy = query("heavy", 20_000, 900, 800, 800);
        assert_eq!(
            sentences(&[
                heavy.clone(),
                query("urgent", 50, 12, 800, 799),
                query("slow", 60_000, 1, 800, 800)
            ]),
            ["urgent kept its 50 ms target: p99 12 ms, 99.8 % of 800 results met it; \
              the 2 queries with longer targets kept theirs too."]
        );
        assert_eq!(
            sentences(&[query("urgent", 50, 12, 800, 800), heavy]),
            ["urgent kept its 50 ms target: p99 12 ms, 100 % of 800 results met it; heavy kept its own too."]
        );
    }

    #[test]
    fn a_miss_says_by_how_much_and_why() {
        let mut urgent = query("urgent", 50, 1_200, 800, 344);
        let late = Parts { queue_ns: 81_000_000, execute_ns: 19_000_000, ..Parts::default() };
        urgent.lateness.missed = late;
        assert_eq!(
            sentences(&[urgent, query("heavy", 20_000, 900, 800, 800)]),
            [
                "urgent missed its 50 ms target: p99 1.2 s, 43.0 % of 800 results met it, the worst took 2.4 s; \
                 the late ones spent 81 % of their time waiting for a worker.",
                "heavy kept its 20 s target: p99 900 ms, 100 % of 800 results met it.",
            ]
        );
    }

    #[test]
    fn what_was_shed_is_said() {
        let shedding = QuerySnapshot { rows_in: 30_000, rows_shed: 10_000, ..query("a", 50, 1, 800, 800) };
        assert_eq!(sentences(&[shedding])[0], "a shed 25.0 % of its 40.0k rows, as its laxity.shed allows.");
    }

    #[test]
    fn failures_and_silence_are_told_apart() {
        let error = Outcome::Failed("cannot write \"/dev/full\": no space left".into());
        let failed = QuerySnapshot { outcome: error, ..query("a", 50, 1, 800, 800) };
        let silent = query("b", 50, 0, 0, 0);
        assert_eq!(
            sentences(&[failed, silent]),
            ["a failed: cannot write \"/dev/full\": no space left.", "b gave no result."]
        );
    }
}
