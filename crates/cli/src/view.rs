//! What is shown of a run: at one instant while it goes on, and at its end.

use std::time::Duration;

use laxity_engine::{EngineFigures, EngineSnapshot, QueryFigures, QuerySnapshot, QueryState};

/// A run at one instant: the queries that are shown, and what the others come to.
#[derive(Clone, Debug)]
pub struct LiveView {
    /// Name of the policy, as given.
    pub policy: String,
    /// Worker threads.
    pub workers: usize,
    /// Time since the engine was made, ns.
    pub wall_ns: u64,
    /// Bytes of state and queued rows of all queries.
    pub memory_bytes: u64,
    /// CPU time per second of late.
    pub cores_busy: f64,
    /// How much of the run is over, 0 to 1. `None` where it has no end.
    pub progress: Option<f64>,
    /// The queries that need a look the most, in the order of the files.
    pub shown: Vec<QuerySnapshot>,
    /// All others.
    pub rest: Rest,
}

/// A run at its end.
#[derive(Clone, Debug)]
pub struct RunView {
    /// Name of the policy, as given.
    pub policy: String,
    /// Worker threads.
    pub workers: usize,
    /// How the engine and its queries stand.
    pub engine: EngineSnapshot,
}

/// Queries that are not shown one by one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rest {
    /// Those that keep their target.
    pub kept: u64,
    /// Those that do not.
    pub missed: u64,
    /// Those without a result so far.
    pub silent: u64,
    /// Those that an error has stopped.
    pub failed: u64,
    /// Rows admitted.
    pub rows_in: u64,
    /// Rows written.
    pub rows_out: u64,
    /// Rows too late for their window.
    pub rows_late: u64,
    /// Rows that could not be read.
    pub rows_dead: u64,
}

/// What is said of a query's target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// An error has stopped it.
    Failed,
    /// Nothing has come out, and nothing is known to be due.
    Silent,
    /// More than one result in a hundred has missed the target.
    Missed,
    /// It keeps its target.
    Kept,
}

impl Standing {
    /// Of a query. A result that is due and later than its target has missed it, whether it is out or not.
    pub fn of(query: &QueryFigures) -> Standing {
        match query.state {
            QueryState::Failed => Standing::Failed,
            _ if query.results + query.overdue == 0 => Standing::Silent,
            _ if keeps(query.met, query.results + query.overdue) => Standing::Kept,
            _ => Standing::Missed,
        }
    }
}

/// True while 99 % of the results are within the target, which is what we promise of it.
fn keeps(met: u64, results: u64) -> bool {
    met as f64 >= results as f64 * 0.99
}

/// Places of the `room` queries that need a look the most, in the order of the files. Takes time in proportion to
/// the number of queries, and no more.
pub fn most_troubled(queries: &[QueryFigures], room: usize) -> Vec<usize> {
    if queries.len() <= room {
        return (0..queries.len()).collect();
    }
    let mut order: Vec<(Trouble, usize)> =
        queries.iter().enumerate().map(|(place, query)| (Trouble::of(query), place)).collect();
    if let Some(last) = room.checked_sub(1) {
        // Among equals the first in the files.
        order.select_nth_unstable_by(last, |(a, first), (b, second)| b.order(a).then(first.cmp(second)));
    }
    let mut places: Vec<usize> = order[..room].iter().map(|&(_, place)| place).collect();
    places.sort_unstable();
    places
}

/// What the queries outside of `shown`, ascending, come to.
pub fn rest(queries: &[QueryFigures], shown: &[usize]) -> Rest {
    let mut rest = Rest::default();
    let mut shown = shown.iter().copied().peekable();
    for (place, query) in queries.iter().enumerate() {
        if shown.next_if_eq(&place).is_some() {
            continue;
        }
        match Standing::of(query) {
            Standing::Kept => rest.kept += 1,
            Standing::Missed => rest.missed += 1,
            Standing::Silent => rest.silent += 1,
            Standing::Failed => rest.failed += 1,
        }
        rest.rows_in += query.rows_in;
        rest.rows_out += query.rows_out;
        rest.rows_late += query.rows_late;
        rest.rows_dead += query.rows_dead;
    }
    rest
}

impl Rest {
    /// How many queries.
    pub fn count(&self) -> u64 {
        self.kept + self.missed + self.silent + self.failed
    }
}

/// How much a query needs a look: first whether it failed, misses its target now, or has missed it; then by how much.
#[derive(Clone, Copy, Debug)]
struct Trouble {
    class: u8,
    degree: f64,
}

impl Trouble {
    fn of(query: &QueryFigures) -> Trouble {
        let minute = &query.last_minute;
        let unfinished_ns = query.oldest_owed_ns.unwrap_or(0);
        let share_missed = |met: u64, results: u64| 1.0 - met as f64 / results.max(1) as f64;
        let times_target = |ns: u64| ns as f64 / query.target_ns.max(1) as f64;
        let (now, ever) = (minute.results + query.overdue, query.results + query.overdue);
        let worst_now = times_target(minute.worst_ns.max(unfinished_ns));
        if query.state == QueryState::Failed {
            Trouble { class: 3, degree: 0.0 }
        } else if !keeps(minute.met, now) {
            Trouble { class: 2, degree: worst_now * share_missed(minute.met, now) }
        } else if !keeps(query.met, ever) {
            Trouble { class: 1, degree: times_target(query.worst_ns) * share_missed(query.met, ever) }
        } else {
            // What comes next to missing its target.
            Trouble { class: 0, degree: worst_now }
        }
    }

    fn order(&self, other: &Trouble) -> std::cmp::Ordering {
        self.class.cmp(&other.class).then(self.degree.total_cmp(&other.degree))
    }
}

/// How much of a run is over: its time or its inputs, whichever ends it first. It lasts as long as the
/// longest input does, so the one least read counts.
pub fn progress(engine: &EngineFigures, run_for: Option<Duration>) -> Option<f64> {
    let inputs = engine.queries.iter().try_fold(1.0_f64, |least, query| Some(least.min(query.progress?)));
    let time = run_for.map(|run_for| (engine.wall_ns as f64 / 1e9 / run_for.as_secs_f64()).min(1.0));
    match (inputs, time) {
        (Some(inputs), Some(time)) => Some(inputs.max(time)),
        (inputs, time) => inputs.or(time),
    }
}

/// Made-up snapshots for the tests of what is shown.
#[cfg(test)]
pub mod sample {
    use laxity_engine::{LatencySummary, Outcome};
    use laxity_graph::QueryId;
    use laxity_sched::Lateness;

    use super::*;

    pub const MS: u64 = 1_000_000;

    pub fn query(name: &str, target_ms: u64, p99_ms: u64, results: u64, met: u64) -> QuerySnapshot {
        let latency = LatencySummary {
            count: results,
            p50_ns: p99_ms * MS / 4,
            p90_ns: p99_ms * MS / 2,
            p99_ns: p99_ms * MS,
            p999_ns: p99_ms * MS * 3 / 2,
            max_ns: p99_ms * MS * 2,
            mean_ns: p99_ms * MS / 3,
        };
        QuerySnapshot {
            id: QueryId(0),
            name: name.into(),
            target_ns: target_ms * MS,
            outcome: Outcome::Running,
            latency,
            event_time_latency: None,
            last_minute: latency,
            last_minute_met: met,
            lateness: Lateness { results, met, ..Lateness::default() },
            overdue: 0,
            oldest_owed_ns: None,
            utility: (results > 0).then(|| met as f64 / results as f64),
            rows_in: 1_234_567,
            rows_out: 42,
            rows_late: 0,
            late_windows: Vec::new(),
            rows_dead: 0,
            rows_shed: 0,
            approximation: None,
            overload: Default::default(),
            rows_dropped: 0,
            rows_queued: 15_000,
            state_bytes: 0,
            watermark: None,
            watermark_lag_ns: Some(400 * MS),
            next_window: None,
            progress: None,
            checkpoint: None,
            waiting: Vec::new(),
        }
    }

    /// At its end, after 12 s.
    pub fn run(queries: Vec<QuerySnapshot>) -> RunView {
        RunView {
            policy: "laxity".into(),
            workers: 2,
            engine: EngineSnapshot {
                wall_ns: 12_000 * MS,
                cpu_ns: 23_400 * MS,
                operator_ns: 20_000 * MS,
                peak_rss_bytes: 300 << 20,
                memory_bytes: 120 << 20,
                queries,
            },
        }
    }

    /// After 12 s, with room for so many queries.
    pub fn live(queries: Vec<QuerySnapshot>, room: usize) -> LiveView {
        let figures: Vec<QueryFigures> = queries.iter().map(QuerySnapshot::figures).collect();
        let places = most_troubled(&figures, room);
        LiveView {
            policy: "laxity".into(),
            workers: 2,
            wall_ns: 12_000 * MS,
            memory_bytes: 120 << 20,
            cores_busy: 1.5,
            progress: None,
            rest: rest(&figures, &places),
            shown: places.into_iter().map(|place| queries[place].clone()).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use laxity_engine::Outcome;
    use proptest::prelude::*;

    use super::sample::{MS, query};
    use super::*;

    #[test]
    fn a_run_is_over_when_its_time_or_its_inputs_are() {
        let at = |progresses: &[Option<f64>], run_for: Option<u64>| {
            let queries =
                progresses.iter().map(|&p| QuerySnapshot { progress: p, ..query("q", 1, 1, 1, 1) }.figures());
            let engine = EngineFigures {
                wall_ns: 12_000 * MS,
                queries: queries.collect(),
                ..EngineFigures::default()
            };
            progress(&engine, run_for.map(Duration::from_secs))
        };
        // 12 s have passed.
        assert_eq!(at(&[Some(0.5), Some(0.2)], None), Some(0.2));
        assert_eq!(at(&[Some(0.5), None], None), None);
        assert_eq!(at(&[Some(0.5), None], Some(24)), Some(0.5));
        assert_eq!(at(&[Some(0.9)], Some(120)), Some(0.9));
        assert_eq!(at(&[None], Some(6)), Some(1.0));
    }

    #[test]
    fn one_result_in_a_hundred_may_be_late() {
        let standing = |results, met, overdue| {
            Standing::of(&QuerySnapshot { overdue, ..query("q", 1, 1, results, met) }.figures())
        };
        assert_eq!(standing(0, 0, 0), Standing::Silent);
        assert_eq!(standing(200, 198, 0), Standing::Kept);
        assert_eq!(standing(200, 197, 0), Standing::Missed);
        // What is due and not out counts, also where nothing is out.
        assert_eq!(standing(200, 200, 2), Standing::Kept);
        assert_eq!(standing(200, 200, 3), Standing::Missed);
        assert_eq!(standing(0, 0, 1), Standing::Missed);
    }

    #[test]
    fn trouble_is_failure_then_missing_now_then_having_missed_then_coming_near() {
        let failed = QuerySnapshot { outcome: Outcome::Failed("x".into()), ..query("", 50, 1, 9, 9) };
        let stuck =
            QuerySnapshot { overdue: 9, oldest_owed_ns: Some(5_000 * MS), ..query("", 50, 1, 100, 100) };
        let misses = query("", 50, 90, 100, 50);
        let recovered = QuerySnapshot {
            last_minute: query("", 50, 5, 100, 100).last_minute,
            last_minute_met: 100,
            ..query("", 50, 900, 1_000, 500)
        };
        let near = query("", 50, 24, 100, 100);
        let calm = query("", 50, 1, 100, 100);
        let queries = [calm, near, recovered, misses, stuck, failed].map(|query| query.figures());
        for room in 0..=queries.len() {
            let worst: Vec<usize> = (queries.len() - room..queries.len()).collect();
            assert_eq!(most_troubled(&queries, room), worst);
        }
    }

    proptest! {
        #[test]
        fn the_most_troubled_are_those_a_sort_would_name(
            queries in prop::collection::vec((1u64..200, 0u64..6, 0u64..6, 0u64..3), 0..60), room in 0usize..70,
        ) {
            let figures: Vec<QueryFigures> = queries
                .iter()
                .map(|&(p99, results, late, overdue)| {
                    let late = late.min(results);
                    QuerySnapshot { overdue, ..query("", 50, p99, results, results - late) }.figures()
                })
                .collect();
            let mut sorted: Vec<usize> = (0..figures.len()).collect();
            sorted.sort_by(|&a, &b| Trouble::of(&figures[b]).order(&Trouble::of(&figures[a])));
            sorted.truncate(room);
            sorted.sort_unstable();
            prop_assert_eq!(&most_troubled(&figures, room), &sorted);
            let rest = rest(&figures, &sorted);
            prop_assert_eq!(rest.count() as usize + sorted.len(), figures.len());
            prop_assert_eq!(rest.rows_in, rest.count() * 1_234_567);
        }
    }
}
