//! A run as text: the table that is redrawn, the line for a log, the last word. Pure: a view in, text out.

use std::time::Duration;

use laxity_engine::{EngineFigures, Outcome, QueryFigures, QuerySnapshot};

use laxity_graph::EventTime;

use crate::approx::Approx;
use crate::overload;
use crate::quantity::{grouped, plural, short_bytes, short_count, short_duration, short_share};
use crate::table::{Column, Table, cut};
use crate::view::{LiveView, Rest, RunView, Standing, most_troubled, rest};

/// How much room there is, and whether colours are welcome.
#[derive(Clone, Copy, Debug)]
pub struct Canvas {
    /// Characters in a line.
    pub width: usize,
    /// Lines on the screen.
    pub height: usize,
    /// ANSI colours may be used.
    pub colour: bool,
}

impl Canvas {
    /// How many queries the display has room for.
    pub fn queries(&self) -> usize {
        // A line for the heading, one for the table's, one for the bar, one for what is left out, one for the cursor.
        self.height.saturating_sub(5).max(1)
    }
}

/// How many queries a line for a log names.
pub const LOG_QUERIES: usize = 4;

/// How many queries the table at the end of a run shows.
const SUMMARY_QUERIES: usize = 50;

/// The whole display while a run goes on.
pub fn display(view: &LiveView, canvas: Canvas) -> String {
    let mut lines = vec![cut(&heading(view), canvas.width)];
    let shown: Vec<&QuerySnapshot> = view.shown.iter().collect();
    lines.extend(table(&shown, view.wall_ns, canvas));
    lines.extend(others(&view.rest).map(|others| cut(&(others + &rows(&view.rest)), canvas.width)));
    lines.extend(view.progress.map(|progress| bar(progress, view.wall_ns, canvas.width)));
    lines.join("\n") + "\n"
}

/// One line for a log: the queries in most trouble.
pub fn log_line(view: &LiveView) -> String {
    let mut line = heading(view);
    for query in &view.shown {
        line.push_str(&format!(
            " | {} p99 {} of {}, met {}",
            query.name,
            latency(query, query.latency.p99_ns),
            short_duration(query.target_ns),
            met(query),
        ));
        if let Some(age) = stuck(query) {
            line.push_str(&format!(", oldest unfinished {age}"));
        }
        if let Some(waiting) = waiting(query) {
            line.push_str(&format!(", waiting for {waiting}"));
        }
        if let Some(approximation) = &query.approximation {
            line.push_str(&format!(", {}", Approx::from(approximation).clause()));
        }
        if let Some(steps) = overload::cell(&query.overload) {
            line.push_str(&format!(", overload: {steps}"));
        }
    }
    if let Some(others) = others(&view.rest) {
        line.push_str(" | ");
        line.push_str(&others);
    }
    line
}

/// What is still to be worked off once nothing more is read, and for how long that is waited for.
pub fn draining(figures: &EngineFigures, left: Duration) -> String {
    let waiting = figures.queries.iter().filter(|query| query.rows_queued > 0);
    let (queries, rows) =
        waiting.fold((0, 0), |(queries, rows), query| (queries + 1, rows + query.rows_queued));
    let left_ns = u64::try_from(left.as_nanos()).unwrap_or(u64::MAX);
    format!(
        "finishing what was read: {} rows of {} left, to be dropped in {}",
        short_count(rows),
        plural(queries, "query"),
        short_duration(left_ns),
    )
}

/// The table at the end of a run: every query, or of many the worst and what the others come to.
pub fn summary(view: &RunView, canvas: Canvas) -> String {
    let queries = &view.engine.queries;
    let figures: Vec<QueryFigures> = queries.iter().map(QuerySnapshot::figures).collect();
    let places = most_troubled(&figures, SUMMARY_QUERIES);
    let shown: Vec<&QuerySnapshot> = places.iter().map(|&place| &queries[place]).collect();
    let mut text = table(&shown, view.engine.wall_ns, canvas).join("\n") + "\n";
    let others_rest = rest(&figures, &places);
    if let Some(others) = others(&others_rest) {
        text.push_str(&format!("{others}{}\n", rows(&others_rest)));
    }
    let wall_s = view.engine.wall_ns as f64 / 1e9;
    text.push_str(&format!(
        "{} rows in {}: policy {}, {} of {} used, {} at most\n",
        short_count(queries.iter().map(|query| query.rows_in).sum()),
        short_duration(view.engine.wall_ns),
        view.policy,
        format_args!("{:.2}", view.engine.cpu_ns as f64 / 1e9 / wall_s.max(1e-9)),
        plural(view.workers, "worker"),
        short_bytes(view.engine.peak_rss_bytes),
    ));
    text
}

fn heading(view: &LiveView) -> String {
    format!(
        "{} · {} · {} · {:.2} cores busy · {} held",
        short_duration(view.wall_ns),
        view.policy,
        plural(view.workers, "worker"),
        view.cores_busy,
        short_bytes(view.memory_bytes),
    )
}

/// "and 9 980 more: 9 979 keep their target, 1 does not".
fn others(rest: &Rest) -> Option<String> {
    let parts = [
        (rest.kept, "keeps its target", "keep their target"),
        (rest.missed, "does not", "do not"),
        (rest.silent, "gave no result", "gave no result"),
        (rest.failed, "failed", "failed"),
    ];
    let said: Vec<String> = parts
        .iter()
        .filter(|(count, ..)| *count > 0)
        .map(|&(count, one, several)| {
            format!("{} {}", grouped(count), if count == 1 { one } else { several })
        })
        .collect();
    // "do not" is said of the target, which only those before it name.
    let said = match (rest.kept, rest.missed) {
        (0, 1..) => said.join(", ").replacen("does not", "misses its target", 1).replacen(
            "do not",
            "miss their target",
            1,
        ),
        _ => said.join(", "),
    };
    (rest.count() > 0).then(|| format!("and {} more: {said}", grouped(rest.count())))
}

fn rows(rest: &Rest) -> String {
    let mut text = format!("; rows: {} in, {} out", short_count(rest.rows_in), short_count(rest.rows_out));
    for (count, kind) in [(rest.rows_late, "late"), (rest.rows_dead, "dead")] {
        if count > 0 {
            text.push_str(&format!(", {} {kind}", short_count(count)));
        }
    }
    text
}

fn table(queries: &[&QuerySnapshot], wall_ns: u64, canvas: Canvas) -> Vec<String> {
    let columns = columns(queries, wall_ns);
    let titles: Vec<Column> = columns.iter().map(|(column, _)| *column).collect();
    let mut table = Table::new(&titles);
    for query in queries {
        table.push(columns.iter().map(|(_, cell)| cell(query)).collect());
    }
    let mut lines = table.lines(canvas.width);
    if canvas.colour {
        lines[0] = format!("\x1b[1m{}\x1b[0m", lines[0]);
        for (line, query) in lines[1..].iter_mut().zip(queries) {
            if matches!(Standing::of(&query.figures()), Standing::Failed | Standing::Missed) {
                *line = format!("\x1b[31m{line}\x1b[0m");
            }
        }
    }
    lines
}

type Cell = fn(&QuerySnapshot) -> String;

/// The columns with what stands in them. What went wrong is shown on any terminal.
fn columns(queries: &[&QuerySnapshot], wall_ns: u64) -> Vec<(Column, Cell)> {
    // Before that it is the same as that of the whole run.
    const MINUTE_NS: u64 = 60_000_000_000;
    let unless_zero = |is_zero: bool, else_lost: u8| if is_zero { else_lost } else { 0 };
    let late = unless_zero(queries.iter().all(|query| query.rows_late == 0), 8);
    let dead = unless_zero(queries.iter().all(|query| query.rows_dead == 0), 9);
    // The higher a number, the earlier a narrow terminal loses the column.
    let mut columns: Vec<(Column, Cell)> = vec![
        (Column { title: "query", right: false, dispensable: 0 }, |query| query.name.clone()),
        (number("target", 0), |query| short_duration(query.target_ns)),
        (number("p50", 3), |query| latency(query, query.latency.p50_ns)),
        (number("p99", 0), |query| latency(query, query.latency.p99_ns)),
    ];
    if wall_ns > MINUTE_NS {
        columns.push((number("last min", 1), |query| match query.last_minute.count {
            0 => "-".into(),
            _ => short_duration(query.last_minute.p99_ns),
        }));
    }
    columns.push((number("met", 0), met));
    if queries.iter().any(|query| query.approximation.is_some()) {
        columns.push((number("approx", 0), |query| {
            query.approximation.as_ref().map_or("-".into(), |done| Approx::from(done).cell())
        }));
    }
    if queries.iter().any(|query| overload::cell(&query.overload).is_some()) {
        columns.push((number("overload", 0), |query| overload::cell(&query.overload).unwrap_or("-".into())));
    }
    if queries.iter().any(|query| stuck(query).is_some()) {
        columns.push((number("stuck", 0), |query| stuck(query).unwrap_or("-".into())));
    }
    if queries.iter().any(|query| !query.waiting.is_empty()) {
        let column = Column { title: "waiting for", right: false, dispensable: 0 };
        columns.push((column, |query| waiting(query).unwrap_or("-".into())));
    }
    columns.extend([
        (number("in", 6), (|query| short_count(query.rows_in)) as Cell),
        (number("out", 5), |query| short_count(query.rows_out)),
        (number("lag", 2), |query| match query.outcome {
            Outcome::Running => query.watermark_lag_ns.map_or("-".into(), short_duration),
            _ => "-".into(),
        }),
        (number("late", late), |query| short_count(query.rows_late)),
        (number("dead", dead), |query| short_count(query.rows_dead)),
        (number("queue", 4), |query| short_count(query.rows_queued)),
    ]);
    columns
}

const fn number(title: &'static str, dispensable: u8) -> Column {
    Column { title, right: true, dispensable }
}

/// The share of the results within the target, of those that are out and those that are overdue.
fn met(query: &QuerySnapshot) -> String {
    match query.outcome {
        Outcome::Failed(_) => "failed".into(),
        _ => short_share(query.lateness.met, query.lateness.results + query.overdue),
    }
}

/// How long the oldest result has been due, if it has missed its target by now.
fn stuck(query: &QuerySnapshot) -> Option<String> {
    query.oldest_owed_ns.filter(|_| query.overdue > 0).map(short_duration)
}

/// "Kafka at 127.0.0.1:9092 since 12:03:41Z".
pub(crate) fn waiting(query: &QuerySnapshot) -> Option<String> {
    let waits =
        query.waiting.iter().map(|wait| format!("{} since {}", wait.service, time_of_day(wait.since)));
    Some(waits.collect::<Vec<_>>().join(", ")).filter(|text| !text.is_empty())
}

/// UTC.
fn time_of_day(at: EventTime) -> String {
    let second = at.0.div_euclid(1_000).rem_euclid(86_400);
    format!("{:02}:{:02}:{:02}Z", second / 3_600, second / 60 % 60, second % 60)
}

fn latency(query: &QuerySnapshot, ns: u64) -> String {
    if query.lateness.results == 0 { "-".into() } else { short_duration(ns) }
}

fn bar(progress: f64, wall_ns: u64, width: usize) -> String {
    let progress = progress.clamp(0.0, 1.0);
    let left = match progress {
        // Before a few per cent the estimate jumps about.
        0.03.. => format!("{} left", short_duration((wall_ns as f64 * (1.0 - progress) / progress) as u64)),
        _ => String::new(),
    };
    let text = format!(" {:3.0} % done  {left}", progress * 100.0);
    let cells = width.saturating_sub(text.chars().count() + 8).clamp(1, 60);
    let full = (progress * cells as f64).round() as usize;
    format!("{}{}{text}", "━".repeat(full), "╌".repeat(cells - full))
}

#[cfg(test)]
mod tests {
    use laxity_engine::{Overload, OverloadStep};

    use super::*;
    use crate::view::sample::{MS, live, query, run};

    const PLAIN: Canvas = Canvas { width: 100, height: 40, colour: false };

    fn names(text: &str) -> Vec<&str> {
        text.lines().map(|line| line.split("  ").next().unwrap()).collect()
    }

    #[test]
    fn the_display_shows_every_query_and_how_far_the_input_is() {
        let queries =
            vec![query("urgent", 50, 12, 1_000, 1_000), query("top routes", 20_000, 31_000, 1_000, 980)];
        let view = LiveView { progress: Some(0.25), ..live(queries, 9) };
        assert_eq!(
            display(&view, Canvas { width: 80, ..PLAIN }),
            "\
12 s · laxity · 2 workers · 1.50 cores busy · 120 MB held
query       target    p50    p99     met     in  out     lag  late  dead  queue
urgent       50 ms   3 ms  12 ms   100 %  1.23M   42  400 ms     0     0  15.0k
top routes    20 s  7.8 s   31 s  98.0 %  1.23M   42  400 ms     0     0  15.0k
━━━━━━━━━━━━━╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌  25 % done  36 s left
"
        );
    }

    #[test]
    fn who_waits_says_for_whom_and_since_when() {
        let since = EventTime(1_700_000_000_000);
        let wait = laxity_connect::Wait { service: "Kafka at h:1".into(), why: "no answer".into(), since };
        let waits = QuerySnapshot { waiting: vec![wait], ..query("slow", 50, 1, 9, 9) };
        let view = live(vec![waits, query("other", 50, 1, 9, 9)], 9);
        let text = display(&view, PLAIN);
        assert!(text.contains("waiting for") && text.contains("Kafka at h:1 since 22:13:20Z"), "{text}");
        let line = log_line(&view);
        assert!(
            line.contains("slow p99 1 ms of 50 ms, met 100 %, waiting for Kafka at h:1 since 22:13:20Z"),
            "{line}"
        );
        assert!(!line.split(" | ").last().unwrap().contains("waiting"), "{line}");
    }

    #[test]
    fn after_a_minute_the_last_one_stands_beside_the_whole_run() {
        let calmed = QuerySnapshot {
            last_minute: query("", 50, 8, 100, 100).latency,
            ..query("urgent", 50, 900, 1_000, 900)
        };
        let silent = QuerySnapshot { last_minute: Default::default(), ..query("old", 50, 12, 9, 9) };
        let view = LiveView { wall_ns: 90_000 * MS, ..live(vec![calmed, silent], 9) };
        let text = display(&view, PLAIN);
        assert!(text.contains("   p99  last min "), "{text}");
        assert!(
            text.contains("900 ms      8 ms  90.0 %") && text.contains(" 12 ms         -   100 %"),
            "{text}"
        );
        assert!(!display(&live(vec![query("q", 50, 1, 9, 9)], 9), PLAIN).contains("last min"));
    }

    #[test]
    fn what_went_wrong_is_shown_at_80_columns_whatever_the_name() {
        let name = "departures of the last hour by carrier, airport and destination";
        let lossy = QuerySnapshot { rows_late: 12, rows_dead: 3, ..query(name, 50, 12, 1_000, 1_000) };
        let stuck = QuerySnapshot { overdue: 1_000, oldest_owed_ns: Some(12_000 * MS), ..lossy };
        let canvas = Canvas { width: 80, ..PLAIN };
        let expected = "\
query                                   target    p99     met  stuck  late  dead
departures of the last hour by carrie…   50 ms  12 ms  50.0 %   12 s    12     3";
        let live_text = display(&live(vec![stuck.clone()], 9), canvas);
        assert_eq!(live_text.lines().skip(1).collect::<Vec<_>>().join("\n"), expected);
        let final_text = summary(&run(vec![stuck]), canvas);
        assert_eq!(final_text.lines().take(2).collect::<Vec<_>>().join("\n"), expected);
        // What is zero goes first.
        let text = display(&live(vec![query("q", 50, 12, 9, 9)], 9), Canvas { width: 60, ..PLAIN });
        assert!(!text.contains("late") && text.contains("queue"), "{text}");
    }

    #[test]
    fn a_query_that_leaves_rows_out_says_so_in_every_line() {
        let approximation = Some(laxity_graph::Approximation {
            error: 0.05,
            confidence: 0.95,
            rows_seen: 1_000,
            rows_taken: 250,
            windows: 10,
            ..Default::default()
        });
        let sampled = QuerySnapshot { approximation, ..query("sampled", 50, 12, 9, 9) };
        let view = live(vec![query("exact", 50, 12, 9, 9), sampled], 9);
        let text = display(&view, PLAIN);
        assert!(text.contains("     approx  "), "{text}");
        assert!(text.contains("100 %             -  ") && text.contains("100 %  ±5 % of 25 %"), "{text}");
        let line = log_line(&view);
        assert!(line.contains("met 100 %, ±5 % at 95 % in 10 windows, 25 % of rows"), "{line}");
        assert!(!display(&live(vec![query("exact", 50, 12, 9, 9)], 9), PLAIN).contains("approx"));
    }

    #[test]
    fn steps_against_overload_and_their_end_are_in_every_line() {
        let step = |is_on| OverloadStep { times: 1, total_ns: Some(9), is_on };
        let overload = Overload { stood_back: step(true), shed: step(true), ..Default::default() };
        let back = QuerySnapshot { overload, ..query("back", 50, 900, 9, 1) };
        let over = Overload { stood_back: step(false), ..Default::default() };
        let over = QuerySnapshot { overload: over, ..query("calm again", 50, 12, 9, 9) };
        let view = live(vec![back, over, query("never", 50, 12, 9, 9)], 9);
        let text = display(&view, PLAIN);
        let column: Vec<&str> = text.lines().skip(1).map(|line| line[43..55].trim()).collect();
        assert_eq!(column, ["overload", "back, shed", "over", "-"], "{text}");
        let line = log_line(&view);
        assert!(line.contains("met 11.1 %, overload: back, shed |"), "{line}");
        assert!(line.contains("met 100 %, overload: over |") && line.ends_with("met 100 %"), "{line}");
    }

    #[test]
    fn a_query_without_results_has_no_latency() {
        let idle = QuerySnapshot { watermark_lag_ns: None, ..query("idle", 60_000, 0, 0, 0) };
        let text = display(&live(vec![idle], 9), PLAIN);
        assert!(text.contains("idle    1 min    -    -    -  1.23M   42    -     0     0  15.0k"), "{text}");
    }

    #[test]
    fn a_small_screen_keeps_the_queries_in_trouble_in_file_order() {
        let mut queries: Vec<_> = (0..20).map(|n| query(&format!("calm {n}"), 1_000, 1, 9, 9)).collect();
        queries[17] = query("late", 50, 900, 9, 1);
        queries[3] =
            QuerySnapshot { outcome: Outcome::Failed("disk full".into()), ..query("broken", 50, 1, 9, 9) };
        let canvas = Canvas { height: 7, ..PLAIN };
        let text = display(&live(queries, canvas.queries()), canvas);
        assert_eq!(
            names(&text)[2..],
            ["broken", "late", "and 18 more: 18 keep their target; rows: 22.2M in, 756 out"]
        );
        assert!(text.lines().nth(2).unwrap().contains("failed"), "{text}");
    }

    #[test]
    fn the_rest_is_one_line() {
        let rest = Rest { kept: 9_979, missed: 1, rows_in: 5, rows_out: 4, rows_late: 12, ..Rest::default() };
        assert_eq!(
            others(&rest).unwrap() + &rows(&rest),
            "and 9 980 more: 9 979 keep their target, 1 does not; rows: 5 in, 4 out, 12 late"
        );
        let said = |kept, missed, silent, failed| {
            others(&Rest { kept, missed, silent, failed, ..Rest::default() }).unwrap()
        };
        assert_eq!(said(0, 2, 1, 0), "and 3 more: 2 miss their target, 1 gave no result");
        assert_eq!(said(0, 1, 0, 2), "and 3 more: 1 misses its target, 2 failed");
        assert_eq!(said(1, 0, 0, 0), "and 1 more: 1 keeps its target");
        assert_eq!(others(&Rest::default()), None);
    }

    #[test]
    fn colours_mark_what_misses_its_target() {
        let stuck = QuerySnapshot { overdue: 1, oldest_owed_ns: Some(99 * MS), ..query("c", 50, 12, 9, 9) };
        let view = live(vec![query("a", 50, 12, 9, 9), query("b", 50, 99, 9, 8), stuck], 9);
        let text = display(&view, Canvas { colour: true, ..PLAIN });
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[1].starts_with("\x1b[1mquery"), "{text}");
        assert!(lines[2].starts_with("a ") && lines[3].starts_with("\x1b[31mb "), "{text}");
        assert!(lines[4].starts_with("\x1b[31mc "), "{text}");
    }

    #[test]
    fn a_log_line_names_the_few_in_trouble() {
        let mut queries: Vec<_> = (0..6).map(|n| query(&format!("q{n}"), 1_000, n, 9, 9)).collect();
        queries.push(query("late", 50, 900, 1_000, 10));
        queries.push(QuerySnapshot {
            overdue: 991,
            oldest_owed_ns: Some(12_000 * MS),
            ..query("stuck", 50, 12, 9, 9)
        });
        assert_eq!(
            log_line(&live(queries, LOG_QUERIES)),
            "12 s · laxity · 2 workers · 1.50 cores busy · 120 MB held \
             | q4 p99 4 ms of 1 s, met 100 % | q5 p99 5 ms of 1 s, met 100 % \
             | late p99 900 ms of 50 ms, met 1.0 % | stuck p99 12 ms of 50 ms, met 0.9 %, oldest unfinished 12 s \
             | and 4 more: 4 keep their target"
        );
    }

    #[test]
    fn the_summary_adds_up_the_run() {
        let text = summary(&run(vec![query("a", 50, 12, 9, 9), query("b", 50, 12, 9, 9)]), PLAIN);
        let last = "2.47M rows in 12 s: policy laxity, 1.95 of 2 workers used, 300 MB at most\n";
        assert!(text.ends_with(last), "{text}");
    }

    #[test]
    fn the_summary_of_many_shows_the_worst_and_what_the_others_come_to() {
        let mut queries: Vec<_> = (0..200).map(|n| query(&format!("calm {n}"), 1_000, 1, 9, 9)).collect();
        queries[150] = query("late", 50, 900, 9, 1);
        let text = summary(&run(queries), PLAIN);
        let names = names(&text);
        assert_eq!((names.len(), names[50]), (1 + 50 + 2, "late"));
        assert_eq!(names[51], "and 150 more: 150 keep their target; rows: 185M in, 6300 out");
    }
}
