//! What happened, in sentences.

use crate::live::plural;
use crate::quantity::{short_duration, short_share};
use crate::view::{QueryView, RunView, Status};

/// One sentence for each query that failed, missed its target or gave nothing, and one for those that kept it.
pub fn sentences(view: &RunView) -> Vec<String> {
    let mut sentences = Vec::new();
    let mut kept: Vec<&QueryView> = Vec::new();
    for query in &view.queries {
        if let Status::Failed(error) = &query.status {
            sentences.push(format!("{} failed: {error}.", query.name));
        } else if query.results == 0 {
            sentences.push(format!("{} gave no result.", query.name));
        } else if query.keeps_target() {
            kept.push(query);
        } else {
            sentences.push(missed(query));
        }
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
            if others.len() == 1 { "its" } else { "theirs" },
        )),
    }
    sentences
}

fn kept_by(query: &QueryView) -> String {
    format!(
        "{} kept its {} target: p99 {}, {} of {} met it",
        query.name,
        short_duration(query.target_ns),
        short_duration(query.latency.p99_ns),
        short_share(query.met, query.results),
        results(query),
    )
}

fn missed(query: &QueryView) -> String {
    let because = match query.late_because.main_cause() {
        Some((cause, share)) => {
            format!(": the late ones spent {:.0} % of their time {}", share * 100.0, doing(cause))
        }
        None => String::new(),
    };
    format!(
        "{} missed its {} target: p99 {}, {} of {} met it, the worst took {}{because}.",
        query.name,
        short_duration(query.target_ns),
        short_duration(query.latency.p99_ns),
        short_share(query.met, query.results),
        results(query),
        short_duration(query.latency.max_ns),
    )
}

fn results(query: &QueryView) -> String {
    plural(usize::try_from(query.results).unwrap_or(usize::MAX), "result")
}

fn doing(cause: &str) -> &'static str {
    match cause {
        "source" => "held back at the source",
        "queue" => "waiting for a worker",
        "execute" => "being computed",
        "frontier" => "waiting for a slower input's watermark",
        _ => "being written",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::{LateBecause, Latency};

    const MS: u64 = 1_000_000;

    fn query(name: &str, target_ms: u64, p99_ms: u64, met: u64) -> QueryView {
        QueryView {
            name: name.into(),
            target_ns: target_ms * MS,
            results: 800,
            met,
            latency: Latency { p99_ns: p99_ms * MS, max_ns: 2 * p99_ms * MS, ..Latency::default() },
            late_because: LateBecause { queue_ns: 81, execute_ns: 19, ..LateBecause::default() },
            ..QueryView::default()
        }
    }

    fn told(queries: Vec<QueryView>) -> Vec<String> {
        sentences(&RunView { queries, ..RunView::default() })
    }

    #[test]
    fn all_kept_is_one_sentence_about_the_tightest() {
        let queries = vec![
            query("heavy", 20_000, 900, 800),
            query("urgent", 50, 12, 799),
            query("slow", 60_000, 1, 800),
        ];
        assert_eq!(
            told(queries),
            [
                "urgent kept its 50 ms target: p99 12 ms, 99.8 % of 800 results met it; the 2 queries with longer targets kept theirs too."
            ]
        );
        assert_eq!(
            told(vec![query("urgent", 50, 12, 800), query("heavy", 20_000, 900, 800)]),
            ["urgent kept its 50 ms target: p99 12 ms, 100 % of 800 results met it; heavy kept its too."]
        );
    }

    #[test]
    fn a_miss_says_by_how_much_and_why() {
        assert_eq!(
            told(vec![query("urgent", 50, 1_200, 344), query("heavy", 20_000, 900, 800)]),
            [
                "urgent missed its 50 ms target: p99 1.2 s, 43.0 % of 800 results met it, the worst took 2.4 s: \
                 the late ones spent 81 % of their time waiting for a worker.",
                "heavy kept its 20 s target: p99 900 ms, 100 % of 800 results met it.",
            ]
        );
    }

    #[test]
    fn failures_and_silence_are_told_apart() {
        let failed = QueryView {
            status: Status::Failed("cannot write \"/dev/full\"".into()),
            ..query("a", 50, 1, 800)
        };
        let silent = QueryView { results: 0, met: 0, ..query("b", 50, 0, 0) };
        assert_eq!(
            told(vec![failed, silent]),
            ["a failed: cannot write \"/dev/full\".", "b gave no result."]
        );
    }
}
