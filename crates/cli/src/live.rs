//! A run as text: the table that is redrawn, the line for a log, the last word. Pure: a view in, text out.

use crate::quantity::{short_bytes, short_count, short_duration, short_share};
use crate::table::{Column, Table, cut};
use crate::view::{QueryView, RunView, Status};

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

const COLUMNS: &[Column] = &[
    column("query", 0),
    column("target", 0),
    column("p50", 2),
    column("p99", 0),
    column("met", 0),
    column("in", 5),
    column("out", 4),
    column("lag", 1),
    column("late", 6),
    column("dead", 7),
    column("queue", 3),
];

const fn column(title: &'static str, dispensable: u8) -> Column {
    // The name is the one column that is not a number, and the one that never goes.
    Column { title, right: dispensable > 0 || !matches!(title.as_bytes(), b"query"), dispensable }
}

/// The whole display while a run goes on. `cores_busy` is the CPU time per second of late.
pub fn display(view: &RunView, cores_busy: f64, canvas: Canvas) -> String {
    let mut lines = vec![cut(&heading(view, cores_busy), canvas.width)];
    // One line for the heading, one for the table's, one for the bar, one for what is left out, one for the cursor.
    let room = canvas.height.saturating_sub(5).max(1);
    let shown = most_troubled(&view.queries, room);
    lines.extend(table(&shown, canvas));
    if shown.len() < view.queries.len() {
        lines.push(format!("and {} more with less trouble", view.queries.len() - shown.len()));
    }
    lines.extend(view.progress.map(|progress| bar(progress, view.wall_ns, canvas.width)));
    lines.join("\n") + "\n"
}

/// One line for a log: the queries in most trouble first.
pub fn log_line(view: &RunView, cores_busy: f64) -> String {
    const QUERIES_SHOWN: usize = 4;
    let shown = most_troubled(&view.queries, QUERIES_SHOWN);
    let mut line = heading(view, cores_busy);
    for query in &shown {
        line.push_str(&format!(
            " | {} p99 {} of {}, met {}",
            query.name,
            latency(query, query.latency.p99_ns),
            short_duration(query.target_ns),
            short_share(query.met, query.results),
        ));
    }
    if shown.len() < view.queries.len() {
        line.push_str(&format!(" | and {} more", view.queries.len() - shown.len()));
    }
    line
}

/// The table at the end of a run, with every query.
pub fn summary(view: &RunView, canvas: Canvas) -> String {
    let queries: Vec<&QueryView> = view.queries.iter().collect();
    let mut text = table(&queries, canvas).join("\n") + "\n";
    let wall_s = view.wall_ns as f64 / 1e9;
    text.push_str(&format!(
        "{} rows in {}: policy {}, {} of {} used, {} at most\n",
        short_count(view.queries.iter().map(|query| query.rows_in).sum()),
        short_duration(view.wall_ns),
        view.policy,
        format_args!("{:.2}", view.cpu_ns as f64 / 1e9 / wall_s.max(1e-9)),
        plural(view.workers, "worker"),
        short_bytes(view.peak_rss_bytes),
    ));
    text
}

fn heading(view: &RunView, cores_busy: f64) -> String {
    format!(
        "{} · {} · {} · {cores_busy:.2} cores busy · {} held",
        short_duration(view.wall_ns),
        view.policy,
        plural(view.workers, "worker"),
        short_bytes(view.held_bytes),
    )
}

pub fn plural(count: usize, noun: &str) -> String {
    match (count, noun.strip_suffix('y')) {
        (1, _) => format!("1 {noun}"),
        (_, Some(stem)) => format!("{count} {stem}ies"),
        (_, None) => format!("{count} {noun}s"),
    }
}

fn table(queries: &[&QueryView], canvas: Canvas) -> Vec<String> {
    let mut table = Table::new(COLUMNS);
    for query in queries {
        table.push(cells(query));
    }
    let mut lines = table.lines(canvas.width);
    if canvas.colour {
        lines[0] = format!("\x1b[1m{}\x1b[0m", lines[0]);
        for (line, query) in lines[1..].iter_mut().zip(queries) {
            if matches!(query.status, Status::Failed(_)) || !query.keeps_target() {
                *line = format!("\x1b[31m{line}\x1b[0m");
            }
        }
    }
    lines
}

fn cells(query: &QueryView) -> Vec<String> {
    vec![
        query.name.clone(),
        short_duration(query.target_ns),
        latency(query, query.latency.p50_ns),
        latency(query, query.latency.p99_ns),
        match query.status {
            Status::Failed(_) => "failed".into(),
            _ => short_share(query.met, query.results),
        },
        short_count(query.rows_in),
        short_count(query.rows_out),
        query.lag_ns.map_or("-".into(), short_duration),
        short_count(query.rows_late),
        short_count(query.rows_dead),
        short_count(query.queue_rows),
    ]
}

fn latency(query: &QueryView, ns: u64) -> String {
    if query.results == 0 { "-".into() } else { short_duration(ns) }
}

/// The `room` queries that need a look the most, in the order of the files.
fn most_troubled(queries: &[QueryView], room: usize) -> Vec<&QueryView> {
    let mut order: Vec<usize> = (0..queries.len()).collect();
    order.sort_by(|&a, &b| trouble(&queries[b]).total_cmp(&trouble(&queries[a])));
    order.truncate(room);
    order.sort_unstable();
    order.into_iter().map(|index| &queries[index]).collect()
}

/// p99 as a multiple of the target: what comes next to missing it matters as much as what just missed.
fn trouble(query: &QueryView) -> f64 {
    match query.status {
        Status::Failed(_) => f64::INFINITY,
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
    let text = format!(" {:3.0} % read  {left}", progress * 100.0);
    let cells = width.saturating_sub(text.chars().count() + 8).clamp(1, 60);
    let full = (progress * cells as f64).round() as usize;
    format!("{}{}{text}", "━".repeat(full), "╌".repeat(cells - full))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::Latency;

    const MS: u64 = 1_000_000;

    fn query(name: &str, target_ms: u64, p99_ms: u64, met: u64) -> QueryView {
        QueryView {
            name: name.into(),
            target_ns: target_ms * MS,
            results: 1_000,
            met,
            latency: Latency { p50_ns: p99_ms * MS / 4, p99_ns: p99_ms * MS, ..Latency::default() },
            rows_in: 1_234_567,
            rows_out: 42,
            rows_late: 7,
            queue_rows: 15_000,
            lag_ns: Some(400 * MS),
            ..QueryView::default()
        }
    }

    fn view(queries: Vec<QueryView>) -> RunView {
        RunView {
            policy: "laxity".into(),
            workers: 2,
            wall_ns: 12_000 * MS,
            cpu_ns: 23_400 * MS,
            peak_rss_bytes: 300 << 20,
            held_bytes: 120 << 20,
            progress: None,
            queries,
        }
    }

    const PLAIN: Canvas = Canvas { width: 100, height: 40, colour: false };

    #[test]
    fn the_display_shows_every_query_and_how_far_the_input_is() {
        let mut view = view(vec![query("urgent", 50, 12, 1_000), query("top routes", 20_000, 31_000, 980)]);
        view.progress = Some(0.25);
        assert_eq!(
            display(&view, 1.984, Canvas { width: 80, ..PLAIN }),
            "\
12 s · laxity · 2 workers · 1.98 cores busy · 120 MB held
query       target    p50    p99     met     in  out     lag  late  dead  queue
urgent       50 ms   3 ms  12 ms   100 %  1.23M   42  400 ms     7     0  15.0k
top routes    20 s  7.8 s   31 s  98.0 %  1.23M   42  400 ms     7     0  15.0k
━━━━━━━━━━━━━╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌  25 % read  36 s left
"
        );
    }

    #[test]
    fn a_query_without_results_has_no_latency() {
        let line = display(
            &view(vec![QueryView { name: "idle".into(), target_ns: 60_000 * MS, ..QueryView::default() }]),
            0.0,
            PLAIN,
        );
        assert!(line.contains("idle    1 min    -    -    -   0    0    -     0     0      0"), "{line}");
    }

    #[test]
    fn a_small_screen_keeps_the_queries_in_trouble_in_file_order() {
        let mut queries: Vec<QueryView> =
            (0..20).map(|n| query(&format!("calm {n}"), 1_000, 1, 1_000)).collect();
        queries[17] = query("late", 50, 900, 10);
        queries[3] =
            QueryView { status: Status::Failed("disk full".into()), ..query("broken", 50, 1, 1_000) };
        let text = display(&view(queries), 1.0, Canvas { height: 7, ..PLAIN });
        let names: Vec<&str> = text.lines().map(|line| line.split("  ").next().unwrap()).collect();
        assert_eq!(names[2..], ["broken", "late", "and 18 more with less trouble"]);
        assert!(text.lines().nth(2).unwrap().contains("failed"), "{text}");
    }

    #[test]
    fn colours_mark_what_misses_its_target() {
        let text = display(
            &view(vec![query("a", 50, 12, 1_000), query("b", 50, 99, 900)]),
            1.0,
            Canvas { colour: true, ..PLAIN },
        );
        let lines: Vec<&str> = text.lines().collect();
        assert!(
            lines[1].starts_with("\x1b[1m")
                && lines[2].starts_with("a ")
                && lines[3].starts_with("\x1b[31mb ")
        );
    }

    #[test]
    fn a_log_line_names_the_few_in_trouble() {
        let mut queries: Vec<QueryView> = (0..6).map(|n| query(&format!("q{n}"), 1_000, n, 1_000)).collect();
        queries.push(query("late", 50, 900, 10));
        assert_eq!(
            log_line(&view(queries), 1.5),
            "12 s · laxity · 2 workers · 1.50 cores busy · 120 MB held \
             | q3 p99 3 ms of 1 s, met 100 % | q4 p99 4 ms of 1 s, met 100 % | q5 p99 5 ms of 1 s, met 100 % \
             | late p99 900 ms of 50 ms, met 1.0 % | and 3 more"
        );
    }

    #[test]
    fn the_summary_adds_up_the_run() {
        let text = summary(&view(vec![query("a", 50, 12, 1_000), query("b", 50, 12, 1_000)]), PLAIN);
        assert!(
            text.ends_with("2.47M rows in 12 s: policy laxity, 1.95 of 2 workers used, 300 MB at most\n"),
            "{text}"
        );
    }

    #[test]
    fn plurals() {
        assert_eq!(
            [plural(1, "query"), plural(2, "query"), plural(0, "worker")],
            ["1 query", "2 queries", "0 workers"]
        );
    }
}
