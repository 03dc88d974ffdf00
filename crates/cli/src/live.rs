//! A run as text: the table that is redrawn, the line for a log, the last word. Pure: a view in, text out.

use laxity_engine::{Outcome, QuerySnapshot};

use crate::quantity::{plural, short_bytes, short_count, short_duration, short_share};
use crate::table::{Column, Table, cut};
use crate::view::{RunView, keeps_target};

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

// The higher a number, the earlier a narrow terminal loses the column.
const COLUMNS: &[Column] = &[
    Column { title: "query", right: false, dispensable: 0 },
    number("target", 0),
    number("p50", 2),
    number("p99", 0),
    number("met", 0),
    number("in", 5),
    number("out", 4),
    number("lag", 1),
    number("late", 6),
    number("dead", 7),
    number("queue", 3),
];

const fn number(title: &'static str, dispensable: u8) -> Column {
    Column { title, right: true, dispensable }
}

/// The whole display while a run goes on.
pub fn display(view: &RunView, canvas: Canvas) -> String {
    let mut lines = vec![cut(&heading(view), canvas.width)];
    // One line for the heading, one for the table's, one for the bar, one for what is left out, one for the cursor.
    let room = canvas.height.saturating_sub(5).max(1);
    let shown = most_troubled(&view.engine.queries, room);
    lines.extend(table(&shown, canvas));
    if shown.len() < view.engine.queries.len() {
        lines.push(format!("and {} more with less trouble", view.engine.queries.len() - shown.len()));
    }
    lines.extend(view.progress.map(|progress| bar(progress, view.engine.wall_ns, canvas.width)));
    lines.join("\n") + "\n"
}

/// One line for a log: the queries in most trouble first.
pub fn log_line(view: &RunView) -> String {
    const QUERIES_SHOWN: usize = 4;
    let shown = most_troubled(&view.engine.queries, QUERIES_SHOWN);
    let mut line = heading(view);
    for query in &shown {
        line.push_str(&format!(
            " | {} p99 {} of {}, met {}",
            query.name,
            latency(query, query.latency.p99_ns),
            short_duration(query.target_ns),
            short_share(query.lateness.met, query.lateness.results),
        ));
    }
    if shown.len() < view.engine.queries.len() {
        line.push_str(&format!(" | and {} more", view.engine.queries.len() - shown.len()));
    }
    line
}

/// The table at the end of a run, with every query.
pub fn summary(view: &RunView, canvas: Canvas) -> String {
    let queries: Vec<&QuerySnapshot> = view.engine.queries.iter().collect();
    let mut text = table(&queries, canvas).join("\n") + "\n";
    let wall_s = view.engine.wall_ns as f64 / 1e9;
    text.push_str(&format!(
        "{} rows in {}: policy {}, {} of {} used, {} at most\n",
        short_count(view.engine.queries.iter().map(|query| query.rows_in).sum()),
        short_duration(view.engine.wall_ns),
        view.policy,
        format_args!("{:.2}", view.engine.cpu_ns as f64 / 1e9 / wall_s.max(1e-9)),
        plural(view.workers, "worker"),
        short_bytes(view.engine.peak_rss_bytes),
    ));
    text
}

fn heading(view: &RunView) -> String {
    format!(
        "{} · {} · {} · {:.2} cores busy · {} held",
        short_duration(view.engine.wall_ns),
        view.policy,
        plural(view.workers, "worker"),
        view.cores_busy,
        short_bytes(view.engine.memory_bytes),
    )
}

fn table(queries: &[&QuerySnapshot], canvas: Canvas) -> Vec<String> {
    let mut table = Table::new(COLUMNS);
    for query in queries {
        table.push(cells(query));
    }
    let mut lines = table.lines(canvas.width);
    if canvas.colour {
        lines[0] = format!("\x1b[1m{}\x1b[0m", lines[0]);
        for (line, query) in lines[1..].iter_mut().zip(queries) {
            if matches!(query.outcome, Outcome::Failed(_)) || !keeps_target(query) {
                *line = format!("\x1b[31m{line}\x1b[0m");
            }
        }
    }
    lines
}

fn cells(query: &QuerySnapshot) -> Vec<String> {
    vec![
        query.name.clone(),
        short_duration(query.target_ns),
        latency(query, query.latency.p50_ns),
        latency(query, query.latency.p99_ns),
        match query.outcome {
            Outcome::Failed(_) => "failed".into(),
            _ => short_share(query.lateness.met, query.lateness.results),
        },
        short_count(query.rows_in),
        short_count(query.rows_out),
        match query.outcome {
            Outcome::Running => query.watermark_lag_ns.map_or("-".into(), short_duration),
            _ => "-".into(),
        },
        short_count(query.rows_late),
        short_count(query.rows_dead),
        short_count(query.rows_queued),
    ]
}

fn latency(query: &QuerySnapshot, ns: u64) -> String {
    if query.lateness.results == 0 { "-".into() } else { short_duration(ns) }
}

/// The `room` queries that need a look the most, in the order of the files.
fn most_troubled(queries: &[QuerySnapshot], room: usize) -> Vec<&QuerySnapshot> {
    let mut order: Vec<usize> = (0..queries.len()).collect();
    order.sort_by(|&a, &b| trouble(&queries[b]).total_cmp(&trouble(&queries[a])));
    order.truncate(room);
    order.sort_unstable();
    order.into_iter().map(|index| &queries[index]).collect()
}

/// p99 as a multiple of the target: what comes next to missing it matters as much as what just missed.
fn trouble(query: &QuerySnapshot) -> f64 {
    match query.outcome {
        Outcome::Failed(_) => f64::INFINITY,
        _ => query.latency.p99_ns as f64 / query.target_ns.max(1) as f64,
    }
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
    use super::*;
    use crate::view::sample::{query, run};

    const PLAIN: Canvas = Canvas { width: 100, height: 40, colour: false };

    #[test]
    fn the_display_shows_every_query_and_how_far_the_input_is() {
        let queries =
            vec![query("urgent", 50, 12, 1_000, 1_000), query("top routes", 20_000, 31_000, 1_000, 980)];
        let view = RunView { progress: Some(0.25), ..run(queries) };
        assert_eq!(
            display(&view, Canvas { width: 80, ..PLAIN }),
            "\
12 s · laxity · 2 workers · 1.50 cores busy · 120 MB held
query       target    p50    p99     met     in  out     lag  late  dead  queue
urgent       50 ms   3 ms  12 ms   100 %  1.23M   42  400 ms     7     0  15.0k
top routes    20 s  7.8 s   31 s  98.0 %  1.23M   42  400 ms     7     0  15.0k
━━━━━━━━━━━━━╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌  25 % done  36 s left
"
        );
    }

    #[test]
    fn a_query_without_results_has_no_latency() {
        let idle = QuerySnapshot { watermark_lag_ns: None, ..query("idle", 60_000, 0, 0, 0) };
        let text = display(&run(vec![idle]), PLAIN);
        assert!(text.contains("idle    1 min    -    -    -  1.23M   42    -     7     0  15.0k"), "{text}");
    }

    #[test]
    fn a_small_screen_keeps_the_queries_in_trouble_in_file_order() {
        let mut queries: Vec<_> = (0..20).map(|n| query(&format!("calm {n}"), 1_000, 1, 9, 9)).collect();
        queries[17] = query("late", 50, 900, 9, 1);
        queries[3] =
            QuerySnapshot { outcome: Outcome::Failed("disk full".into()), ..query("broken", 50, 1, 9, 9) };
        let text = display(&run(queries), Canvas { height: 7, ..PLAIN });
        let names: Vec<&str> = text.lines().map(|line| line.split("  ").next().unwrap()).collect();
        assert_eq!(names[2..], ["broken", "late", "and 18 more with less trouble"]);
        assert!(text.lines().nth(2).unwrap().contains("failed"), "{text}");
    }

    #[test]
    fn colours_mark_what_misses_its_target() {
        let view = run(vec![query("a", 50, 12, 9, 9), query("b", 50, 99, 9, 8)]);
        let text = display(&view, Canvas { colour: true, ..PLAIN });
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[1].starts_with("\x1b[1mquery"), "{text}");
        assert!(lines[2].starts_with("a ") && lines[3].starts_with("\x1b[31mb "), "{text}");
    }

    #[test]
    fn a_log_line_names_the_few_in_trouble() {
        let mut queries: Vec<_> = (0..6).map(|n| query(&format!("q{n}"), 1_000, n, 9, 9)).collect();
        queries.push(query("late", 50, 900, 1_000, 10));
        assert_eq!(
            log_line(&run(queries)),
            "12 s · laxity · 2 workers · 1.50 cores busy · 120 MB held \
             | q3 p99 3 ms of 1 s, met 100 % | q4 p99 4 ms of 1 s, met 100 % | q5 p99 5 ms of 1 s, met 100 % \
             | late p99 900 ms of 50 ms, met 1.0 % | and 3 more"
        );
    }

    #[test]
    fn the_summary_adds_up_the_run() {
        let text = summary(&run(vec![query("a", 50, 12, 9, 9), query("b", 50, 12, 9, 9)]), PLAIN);
        let last = "2.47M rows in 12 s: policy laxity, 1.95 of 2 workers used, 300 MB at most\n";
        assert!(text.ends_with(last), "{text}");
    }
}
