//! What a cell came to under one policy.

use std::time::Duration;

use super::cell::{self, Cell};
use super::due::{Input, Windows};
use super::engine_run::{EngineFigures, QueryFigures};
use super::pooled::Pooled;
use super::sql::{HEAVY, URGENT, offset_ms};

/// The figures of one run of a cell, or the medians of several.
///
/// A result that is due and did not come out counts as missed, and as having taken the whole run. Results that were
/// due in the last instants count if they came out.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outcome {
    /// Results that were late before it was measured, in number.
    pub late_before: f64,
    /// Urgent results that were due, in number.
    pub due: f64,
    /// Share of them that came in time.
    pub met: f64,
    /// Share of them that never came.
    pub missing: f64,
    /// The worst p99 of an urgent query.
    pub worst_p99_ms: f64,
    /// Of all urgent results.
    pub p50_ms: f64,
    /// Of all urgent results.
    pub p99_ms: f64,
    /// Of all urgent results.
    pub p999_ms: f64,
    /// Of all urgent results.
    pub p9999_ms: f64,
    /// Of all urgent results.
    pub max_ms: f64,
    /// Of all heavy results that came out; 0 without any.
    pub heavy_p99_ms: f64,
    /// Rows that were due and rows that were admitted, urgent and heavy, of a second.
    pub rows_offered_per_s: f64,
    /// See above.
    pub rows_per_s: f64,
    /// Share of the rows of ended windows that the query got that got the least.
    pub least_admitted: f64,
    /// CPU seconds in a second.
    pub cores: f64,
    /// Of that, in threads that do not run operators.
    pub cores_outside: f64,
    /// Largest resident size.
    pub peak_mb: f64,
    /// That, less what the process took before it read the SQL, by query.
    pub kb_per_query: f64,
    /// From reading the SQL until the sources had started.
    pub start_s: f64,
    /// Queries stopped by an error.
    pub failed: f64,
}

/// Name and value of each figure, for the raw file.
pub const COLUMNS: [&str; 20] = [
    "late_in_warm_up",
    "results_due",
    "met",
    "missing",
    "worst_p99_ms",
    "p50_ms",
    "p99_ms",
    "p999_ms",
    "p9999_ms",
    "max_ms",
    "heavy_p99_ms",
    "rows_offered_per_s",
    "rows_admitted_per_s",
    "least_admitted",
    "cores",
    "cores_outside_workers",
    "peak_rss_mb",
    "rss_kb_per_query",
    "start_s",
    "failed",
];

/// Rows and results due later than this before the end may still be on their way, beside the target itself: a tick,
/// and being called late.
const ON_ITS_WAY_MS: u64 = 50;

/// One of these ends each time that a heavy query's do.
const HEAVY_WINDOWS: Windows = Windows { size_ms: 1_000, offset_ms: 0 };

impl Outcome {
    /// What a run of this cell came to.
    pub fn of(cell: &Cell, figures: &EngineFigures) -> Outcome {
        let warm_up_ms = (figures.warm_up_s * 1e3) as u64;
        let end_ms = ((figures.warm_up_s + figures.measured_s) * 1e3) as u64;
        let whole_run_ns = (figures.measured_s * 1e9) as u64;
        let due_within_ms = |target_ms: u64| end_ms.saturating_sub(target_ms + ON_ITS_WAY_MS);
        let origin_ms = |input| match input {
            cell::Input::Generated => figures.origin_ms,
            // A replayed file begins where all windows that are not shifted begin.
            cell::Input::Replayed { .. } => 0,
        };
        let mut outcome = Outcome { least_admitted: 1.0, ..Outcome::default() };
        let (mut urgent, mut heavy) = (Pooled::default(), Pooled::default());
        let (mut met, mut missing) = (0, 0);
        for (number, query) in named(figures, URGENT).enumerate() {
            let windows =
                Windows { size_ms: cell.urgent.window_ms, offset_ms: offset_ms(&cell.urgent, number) };
            let input = Input { rows_per_s: cell.urgent.rows_per_s, origin_ms: origin_ms(cell.urgent.input) };
            outcome.admit(query, input, figures.measured_s, input.rows_of_ended(windows, due_within_ms(0)));
            let within_ms = due_within_ms(cell.urgent.target_ms).max(warm_up_ms);
            let due = input.results(windows, within_ms) - input.results(windows, warm_up_ms);
            let due = due.max(query.results);
            urgent.add(query);
            urgent.add_equal(due - query.results, whole_run_ns);
            outcome.due += due as f64;
            met += query.met;
            missing += due - query.results;
            let missing_share = (due - query.results) as f64 / due.max(1) as f64;
            let p99_ns = if missing_share > 0.01 { whole_run_ns } else { query.p99_ns };
            outcome.worst_p99_ms = outcome.worst_p99_ms.max(p99_ns as f64 / 1e6);
        }
        for query in named(figures, HEAVY) {
            let input = Input { rows_per_s: cell.heavy.rows_per_s, origin_ms: origin_ms(cell.heavy.input) };
            let due = input.rows_of_ended(HEAVY_WINDOWS, due_within_ms(0));
            outcome.admit(query, input, figures.measured_s, due);
            heavy.add(query);
        }
        let ms = |pooled: &mut Pooled, quantile: f64| pooled.quantile_ns(quantile) as f64 / 1e6;
        Outcome {
            late_before: figures.late_before as f64,
            met: met as f64 / outcome.due.max(1.0),
            missing: missing as f64 / outcome.due.max(1.0),
            p50_ms: ms(&mut urgent, 0.5),
            p99_ms: ms(&mut urgent, 0.99),
            p999_ms: ms(&mut urgent, 0.999),
            p9999_ms: ms(&mut urgent, 0.9999),
            max_ms: ms(&mut urgent, 1.0),
            heavy_p99_ms: ms(&mut heavy, 0.99),
            cores: figures.cpu_s / figures.measured_s,
            cores_outside: (figures.cpu_s - figures.worker_cpu_s) / figures.measured_s,
            peak_mb: figures.peak_bytes as f64 / 1e6,
            kb_per_query: kb_per_query(figures),
            start_s: figures.start_s,
            ..outcome
        }
    }

    /// What a run comes to that gave no figures: nothing was in time.
    pub fn nothing(measured: Duration) -> Outcome {
        let whole_run_ms = measured.as_secs_f64() * 1e3;
        Outcome {
            missing: 1.0,
            worst_p99_ms: whole_run_ms,
            p50_ms: whole_run_ms,
            p99_ms: whole_run_ms,
            p999_ms: whole_run_ms,
            p9999_ms: whole_run_ms,
            max_ms: whole_run_ms,
            ..Outcome::default()
        }
    }

    fn admit(&mut self, query: &QueryFigures, input: Input, measured_s: f64, due: u64) {
        self.least_admitted =
            self.least_admitted.min((query.rows_before + query.rows_in) as f64 / due.max(1) as f64);
        self.rows_offered_per_s += input.rows_per_s as f64;
        self.rows_per_s += query.rows_in as f64 / measured_s;
        self.failed += f64::from(u8::from(query.error.is_some()));
    }

    /// The median of each figure.
    ///
    /// # Panics
    /// If there are none.
    pub fn median(outcomes: &[Outcome]) -> Outcome {
        let rows: Vec<[f64; 20]> = outcomes.iter().map(Outcome::values).collect();
        Outcome::from_values(std::array::from_fn(|column| {
            crate::median(&rows.iter().map(|row| row[column]).collect::<Vec<f64>>())
        }))
    }

    /// The figures as the raw file has them.
    pub fn cells(&self) -> Vec<String> {
        self.values().iter().map(|value| format!("{value:.5}")).collect()
    }

    /// CPU time of a million rows, s.
    pub fn cpu_s_per_million_rows(&self) -> f64 {
        self.cores / self.rows_per_s.max(1.0) * 1e6
    }

    fn values(&self) -> [f64; 20] {
        [
            self.late_before,
            self.due,
            self.met,
            self.missing,
            self.worst_p99_ms,
            self.p50_ms,
            self.p99_ms,
            self.p999_ms,
            self.p9999_ms,
            self.max_ms,
            self.heavy_p99_ms,
            self.rows_offered_per_s,
            self.rows_per_s,
            self.least_admitted,
            self.cores,
            self.cores_outside,
            self.peak_mb,
            self.kb_per_query,
            self.start_s,
            self.failed,
        ]
    }

    fn from_values(values: [f64; 20]) -> Outcome {
        let [
            late_before,
            due,
            met,
            missing,
            worst_p99_ms,
            p50_ms,
            p99_ms,
            p999_ms,
            p9999_ms,
            max_ms,
            heavy_p99_ms,
            rows_offered_per_s,
            rows_per_s,
            least_admitted,
            cores,
            cores_outside,
            peak_mb,
            kb_per_query,
            start_s,
            failed,
        ] = values;
        Outcome {
            late_before,
            due,
            met,
            missing,
            worst_p99_ms,
            p50_ms,
            p99_ms,
            p999_ms,
            p9999_ms,
            max_ms,
            heavy_p99_ms,
            rows_offered_per_s,
            rows_per_s,
            least_admitted,
            cores,
            cores_outside,
            peak_mb,
            kb_per_query,
            start_s,
            failed,
        }
    }
}

/// Largest resident size, less that of the process without SQL, by query.
pub fn kb_per_query(figures: &EngineFigures) -> f64 {
    let bytes = figures.peak_bytes.saturating_sub(figures.bytes_before);
    bytes as f64 / 1e3 / figures.queries.len().max(1) as f64
}

fn named<'a>(figures: &'a EngineFigures, prefix: &'a str) -> impl Iterator<Item = &'a QueryFigures> {
    figures.queries.iter().filter(move |query| query.name.starts_with(prefix))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::density::cell::{Ends, Heavy, Tables, Urgent};

    const MS: u64 = 1_000_000;

    fn cell() -> Cell {
        let input = cell::Input::Generated;
        Cell {
            name: "test".into(),
            urgent: Urgent {
                queries: 2,
                tables: Tables::Own,
                window_ms: 100,
                ends: Ends::Together,
                target_ms: 50,
                rows_per_s: 100,
                input,
            },
            heavy: Heavy { queries: 1, tables: Tables::Own, rows_per_s: 1_000, input },
        }
    }

    fn query(name: &str, rows_in: u64, results: u64, met: u64, ms: u64) -> QueryFigures {
        let ns = ms * MS;
        QueryFigures {
            name: name.into(),
            rows_in,
            rows_before: 0,
            results,
            met,
            p50_ns: ns,
            p90_ns: ns,
            p99_ns: ns,
            p999_ns: ns,
            max_ns: ns,
            error: None,
        }
    }

    fn figures(queries: Vec<QueryFigures>) -> EngineFigures {
        EngineFigures {
            origin_ms: 1_000,
            measured_s: 2.0,
            cpu_s: 3.0,
            worker_cpu_s: 2.5,
            bytes_before: 1_000_000,
            peak_bytes: 4_000_000,
            queries,
            ..EngineFigures::default()
        }
    }

    #[test]
    fn what_did_not_come_out_is_missed() {
        // Rows every 10 ms and windows of 100 ms from the origin on: 19 are complete by 1 900 ms.
        let outcome = Outcome::of(
            &cell(),
            &figures(vec![
                query("urgent 0", 200, 19, 19, 3),
                query("urgent 1", 98, 9, 8, 20),
                query("heavy 0", 2_000, 2, 2, 700),
            ]),
        );
        assert_eq!((outcome.due, outcome.met, outcome.missing), (38.0, 27.0 / 38.0, 10.0 / 38.0));
        assert_eq!((outcome.p50_ms, outcome.p99_ms, outcome.worst_p99_ms), (3.0, 2_000.0, 2_000.0));
        assert_eq!(outcome.heavy_p99_ms, 700.0);
        // Of the windows of 1 950 ms: 190 rows.
        assert_eq!(outcome.least_admitted, 98.0 / 190.0);
        assert_eq!((outcome.rows_offered_per_s, outcome.rows_per_s), (1_200.0, 1_149.0));
        assert_eq!((outcome.cores, outcome.cores_outside, outcome.kb_per_query), (1.5, 0.25, 1_000.0));
    }

    #[test]
    fn what_came_before_it_was_measured_does_not_count() {
        // Of the 19 windows that are complete by 1 900 ms, 5 were by 500 ms.
        let queries = (0..2).map(|_| QueryFigures { rows_before: 50, ..query("urgent", 120, 14, 14, 3) });
        let figures =
            EngineFigures { warm_up_s: 0.5, late_before: 7, measured_s: 1.5, ..figures(queries.collect()) };
        let outcome = Outcome::of(&cell(), &figures);
        assert_eq!((outcome.due, outcome.met, outcome.missing, outcome.late_before), (28.0, 1.0, 0.0, 7.0));
        assert_eq!((outcome.rows_per_s, outcome.least_admitted, outcome.cores), (160.0, 170.0 / 190.0, 2.0));
    }

    #[test]
    fn what_came_early_counts_as_due() {
        let all = vec![query("urgent 0", 200, 20, 20, 3), query("urgent 1", 200, 20, 19, 3)];
        let outcome = Outcome::of(&cell(), &figures(all));
        assert_eq!((outcome.due, outcome.met, outcome.missing), (40.0, 39.0 / 40.0, 0.0));
        assert_eq!((outcome.worst_p99_ms, outcome.least_admitted), (3.0, 1.0));
    }

    #[test]
    fn medians_are_of_each_figure() {
        let of = |met, cores| Outcome { met, cores, ..Outcome::default() };
        let median = Outcome::median(&[of(0.9, 1.0), of(0.5, 3.0), of(0.7, 2.0)]);
        assert_eq!(median, of(0.7, 2.0));
        assert_eq!(median.cells().len(), COLUMNS.len());
    }
}
