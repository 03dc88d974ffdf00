//! What happened, in sentences.

use laxity_engine::{Outcome, QueryFigures, QuerySnapshot};
use laxity_graph::{Approximation, EventTime};
use laxity_sched::Cause;

use crate::approx::Approx;
use crate::live::waiting;
use crate::overload;
use crate::quantity::{grouped, plural, short_count, short_duration, short_share};
use crate::view::{Standing, most_troubled};

/// How many queries of a kind have a sentence each.
const NAMED: usize = 10;

/// A sentence for each query that failed, missed its target or gave nothing, as far as they are few; one for those
/// that kept it; and last, if there is any, what is not in the results.
pub fn sentences(queries: &[QuerySnapshot]) -> Vec<String> {
    let standing = |wanted: Standing| -> Vec<&QuerySnapshot> {
        queries.iter().filter(|query| Standing::of(&query.figures()) == wanted).collect()
    };
    let mut sentences = each(&standing(Standing::Failed), failed, "failed");
    sentences.extend(each(&standing(Standing::Silent), silent, "gave no result"));
    sentences.extend(each(&standing(Standing::Missed), missed, "missed their targets"));
    sentences.extend(kept(standing(Standing::Kept)));
    let waiting: Vec<&QuerySnapshot> = queries.iter().filter(|query| !query.waiting.is_empty()).collect();
    sentences.extend(each(&waiting, waited, "were waiting"));
    sentences.extend(approximate(queries));
    let dropped: Vec<&QuerySnapshot> = queries.iter().filter(|query| query.rows_dropped > 0).collect();
    sentences.extend(each(&dropped, dropped_rows, "dropped rows that they had read"));
    sentences.extend(overload::sentence(queries));
    sentences.extend(losses(queries));
    sentences
}

/// What those saved that leave rows out, the first in a sentence each.
fn approximate(queries: &[QuerySnapshot]) -> Vec<String> {
    let answered = queries.iter().filter_map(|query| Some((query, query.approximation?)));
    let mut answered = answered.filter(|(_, done)| done.windows > 0);
    let sentence = |(query, done): (&QuerySnapshot, Approximation)| Approx::from(&done).sentence(&query.name);
    let mut sentences: Vec<String> = answered.by_ref().take(NAMED).map(sentence).collect();
    match answered.count() {
        0 => {}
        more => sentences.push(format!("{} more were approximate.", plural(more, "query"))),
    }
    sentences
}

/// The worst in a sentence each, the others counted.
fn each(queries: &[&QuerySnapshot], sentence: fn(&QuerySnapshot) -> String, did: &str) -> Vec<String> {
    let figures: Vec<QueryFigures> = queries.iter().map(|query| query.figures()).collect();
    let named = most_troubled(&figures, NAMED);
    let mut sentences: Vec<String> = named.iter().map(|&place| sentence(queries[place])).collect();
    match queries.len() - named.len() {
        0 => {}
        1 => sentences.push(format!("1 more query {}.", did.replace("their targets", "its target"))),
        more => sentences.push(format!("{} more queries {did}.", grouped(more as u64))),
    }
    sentences
}

fn failed(query: &QuerySnapshot) -> String {
    let Outcome::Failed(error) = &query.outcome else { unreachable!("only those that failed are asked") };
    format!("{} failed: {error}.", query.name)
}

/// Why nothing came out, as far as the counts tell.
fn silent(query: &QuerySnapshot) -> String {
    let (all, dead) = (query.rows_in, query.rows_dead);
    let read_to_the_end = query.progress == Some(1.0);
    let because = if all == 0 && dead > 0 {
        format!("none of its {} could be read, see the warnings and dead letters", rows(dead))
    } else if all == 0 && query.rows_shed > 0 {
        "all its rows were shed".into()
    } else if all == 0 && read_to_the_end {
        "its inputs have no rows".into()
    } else if all == 0 {
        "no row came".into()
    } else if query.rows_late >= all {
        format!("all of its {} came too late for their windows", rows(all))
    } else if read_to_the_end {
        // The end of the inputs closes every window.
        format!("none of its {} passed its conditions or found a match", rows(all))
    } else if let (Some(watermark), Some(end)) = (query.watermark, query.next_window) {
        let [watermark, end] = [watermark, end].map(event_time);
        format!("its watermark stands at {watermark} while its next window ends at {end}")
    } else {
        let all = rows(all);
        format!("none of its {all} has passed its conditions, found a match or seen its window close")
    };
    format!("{} gave no result: {because}.", query.name)
}

fn waited(query: &QuerySnapshot) -> String {
    format!("{} was waiting for {}.", query.name, waiting(query).unwrap_or_default())
}

fn missed(query: &QuerySnapshot) -> String {
    let lateness = &query.lateness;
    let met = short_share(lateness.met, lateness.results + query.overdue);
    let target = short_duration(query.target_ns);
    if lateness.results == 0 {
        return format!(
            "{} missed its {target} target: {}, and none came out.",
            query.name,
            unfinished(query)
        );
    }
    let mut sentence = format!(
        "{} missed its {target} target: p99 {}, {met} of {} met it, the worst took {}",
        query.name,
        short_duration(query.latency.p99_ns),
        results(lateness.results + query.overdue),
        short_duration(query.latency.max_ns),
    );
    if lateness.met < lateness.results {
        let cause = lateness.missed.cause();
        let share = lateness.share(cause) * 100.0;
        sentence.push_str(&format!("; the late ones spent {share:.0} % of their time {}", doing(cause)));
    }
    if query.overdue > 0 {
        sentence.push_str(&format!("; {}", unfinished(query)));
    }
    sentence + "."
}

fn dropped_rows(query: &QuerySnapshot) -> String {
    format!(
        "{} dropped {} that it had read: they were not worked off when the run was stopped.",
        query.name,
        rows(query.rows_dropped)
    )
}

/// "12 results are due and not out, the oldest for 12 s".
fn unfinished(query: &QuerySnapshot) -> String {
    let are = if query.overdue == 1 { "is" } else { "are" };
    let age = short_duration(query.oldest_owed_ns.unwrap_or(0));
    format!("{} {are} due and not out, the oldest for {age}", results(query.overdue))
}

fn kept(mut kept: Vec<&QuerySnapshot>) -> Option<String> {
    // The tightest promise is the one a reader doubts.
    kept.sort_by_key(|query| query.target_ns);
    match *kept {
        [] => None,
        [query] => Some(format!("{}.", kept_by(query))),
        [tightest, ref others @ ..] => Some(format!(
            "{}; {} kept {} too.",
            kept_by(tightest),
            match others {
                [other] => other.name.clone(),
                _ => format!("the {} with longer targets", plural(others.len(), "query")),
            },
            if others.len() == 1 { "its own" } else { "theirs" },
        )),
    }
}

fn kept_by(query: &QuerySnapshot) -> String {
    format!(
        "{} kept its {} target: p99 {}, {} of {} met it",
        query.name,
        short_duration(query.target_ns),
        short_duration(query.latency.p99_ns),
        short_share(query.lateness.met, query.lateness.results + query.overdue),
        results(query.lateness.results + query.overdue),
    )
}

/// What the shares above do not tell: rows that are in no result, and results that are stuck.
fn losses(queries: &[QuerySnapshot]) -> Option<String> {
    let losses = [
        loss(queries, "late", |query| (query.rows_late, query.rows_in)),
        loss(queries, "dead", |query| (query.rows_dead, query.rows_in + query.rows_dead)),
        loss(queries, "dropped at the end", |query| (query.rows_dropped, query.rows_in)),
        loss(queries, "shed as laxity.shed allows", |query| {
            (query.rows_shed, query.rows_in + query.rows_shed)
        }),
    ];
    let mut said: Vec<String> = losses.into_iter().flatten().collect();
    let overdue: u64 = queries.iter().map(|query| query.overdue).sum();
    let oldest = queries.iter().filter(|query| query.overdue > 0).max_by_key(|query| query.oldest_owed_ns);
    if let Some(oldest) = oldest {
        said.push(format!(
            "{} stuck, the oldest for {} ({})",
            results(overdue),
            short_duration(oldest.oldest_owed_ns.unwrap_or(0)),
            oldest.name
        ));
    }
    (!said.is_empty()).then(|| format!("Not in the results: {}.", said.join(", ")))
}

/// "1234 rows late (delays, 16.0 % of its rows, and 2 more queries)": the query that lost the largest share is named.
fn loss(
    queries: &[QuerySnapshot],
    how: &str,
    lost_of: impl Fn(&QuerySnapshot) -> (u64, u64),
) -> Option<String> {
    let share = |query: &&QuerySnapshot| {
        let (lost, of) = lost_of(query);
        lost as f64 / of.max(1) as f64
    };
    let losing: Vec<&QuerySnapshot> = queries.iter().filter(|query| lost_of(query).0 > 0).collect();
    let worst = losing.iter().copied().max_by(|a, b| share(a).total_cmp(&share(b)))?;
    let (lost, of) = lost_of(worst);
    let others = match losing.len() - 1 {
        0 => String::new(),
        more => format!(", and {}", plural(more, "more query")),
    };
    let all: u64 = losing.iter().map(|query| lost_of(query).0).sum();
    let share = short_share(lost, of);
    Some(format!("{} {how} ({}, {share} of its rows{others})", rows(all), worst.name))
}

fn rows(count: u64) -> String {
    format!("{} {}", short_count(count), if count == 1 { "row" } else { "rows" })
}

fn results(count: u64) -> String {
    plural(usize::try_from(count).unwrap_or(usize::MAX), "result")
}

fn event_time(at: EventTime) -> String {
    match chrono::DateTime::from_timestamp_millis(at.0) {
        Some(time) => time.naive_utc().to_string(),
        None => at.to_string(),
    }
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
    use crate::view::sample::{MS, query};

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
    fn what_is_due_and_not_out_is_missed() {
        let stalled = |results| QuerySnapshot {
            overdue: 200,
            oldest_owed_ns: Some(20_000 * MS),
            ..query("board", 50, 12, results, results)
        };
        assert_eq!(
            sentences(&[stalled(800)]),
            [
                "board missed its 50 ms target: p99 12 ms, 80.0 % of 1000 results met it, the worst took 24 ms; \
                 200 results are due and not out, the oldest for 20 s.",
                "Not in the results: 200 results stuck, the oldest for 20 s (board).",
            ]
        );
        assert_eq!(
            sentences(&[QuerySnapshot { overdue: 1, ..stalled(0) }])[0],
            "board missed its 50 ms target: 1 result is due and not out, the oldest for 20 s, and none came out."
        );
    }

    #[test]
    fn the_last_sentence_says_what_is_not_in_the_results() {
        let late = QuerySnapshot { rows_in: 10_000, rows_late: 1_600, ..query("delays", 50, 1, 9, 9) };
        let dead = QuerySnapshot { rows_in: 2, rows_dead: 7, ..query("import", 50, 1, 9, 9) };
        let few_dead = QuerySnapshot { rows_in: 1_000, rows_dead: 1, ..query("other", 50, 1, 9, 9) };
        let dropped = QuerySnapshot { rows_in: 200, rows_dropped: 50, ..query("board", 50, 1, 9, 9) };
        let shed = QuerySnapshot { rows_in: 30_000, rows_shed: 10_000, ..query("a", 50, 1, 9, 9) };
        let told = sentences(&[late, few_dead, dead, dropped, shed]);
        assert_eq!(told.len(), 3);
        assert_eq!(
            told[1],
            "board dropped 50 rows that it had read: they were not worked off when the run was stopped."
        );
        assert_eq!(
            told[2],
            "Not in the results: 1600 rows late (delays, 16.0 % of its rows), \
             8 rows dead (import, 77.7 % of its rows, and 1 more query), \
             50 rows dropped at the end (board, 25.0 % of its rows), \
             10.0k rows shed as laxity.shed allows (a, 25.0 % of its rows)."
        );
    }

    #[test]
    fn failures_and_silence_are_told_apart() {
        let error = Outcome::Failed("cannot write \"/dev/full\": no space left".into());
        let failed = QuerySnapshot { outcome: error, ..query("a", 50, 1, 800, 800) };
        let silent = QuerySnapshot { rows_in: 0, ..query("b", 50, 0, 0, 0) };
        assert_eq!(
            sentences(&[failed, silent]),
            ["a failed: cannot write \"/dev/full\": no space left.", "b gave no result: no row came."]
        );
    }

    #[test]
    fn silence_is_explained_as_far_as_the_counts_tell() {
        let base = QuerySnapshot { rows_in: 40, ..query("q", 50, 0, 0, 0) };
        let read = QuerySnapshot { progress: Some(1.0), outcome: Outcome::Finished, ..base.clone() };
        let why = |query: QuerySnapshot| {
            let told = sentences(&[query]).swap_remove(0);
            told.strip_prefix("q gave no result: ").expect(&told).to_string()
        };
        assert_eq!(why(QuerySnapshot { rows_in: 0, ..read.clone() }), "its inputs have no rows.");
        assert_eq!(
            why(QuerySnapshot { rows_in: 0, rows_dead: 9, ..read.clone() }),
            "none of its 9 rows could be read, see the warnings and dead letters."
        );
        assert_eq!(
            why(QuerySnapshot { rows_late: 40, ..read.clone() }),
            "all of its 40 rows came too late for their windows."
        );
        assert_eq!(why(read), "none of its 40 rows passed its conditions or found a match.");
        let open = QuerySnapshot {
            watermark: Some(EventTime(1_371_168_003_500)),
            next_window: Some(EventTime(1_371_168_060_000)),
            ..base.clone()
        };
        assert_eq!(
            why(open),
            "its watermark stands at 2013-06-14 00:00:03.500 while its next window ends at 2013-06-14 00:01:00."
        );
        assert_eq!(
            why(base),
            "none of its 40 rows has passed its conditions, found a match or seen its window close."
        );
    }

    #[test]
    fn of_many_the_worst_are_named_and_the_others_counted() {
        let queries: Vec<_> = (0..1_200).map(|n| query(&format!("q{n}"), 50, 60 + n, 800, 344)).collect();
        let told = sentences(&queries);
        assert_eq!(told.len(), NAMED + 1);
        assert!(told[0].starts_with("q1190 missed") && told[9].starts_with("q1199 missed"), "{told:?}");
        assert_eq!(told[10], "1 190 more queries missed their targets.");
        assert_eq!(sentences(&queries[..11])[10], "1 more query missed its target.");
    }
}
