//! A report for a terminal, cut to its width and height.

use super::{Report, Row};
use crate::SERVICE_GROUP;
use crate::exchange::Neighbour;
use crate::plan::Change;

/// The table that people see, at most so wide and, if given, so many lines high.
pub fn table(report: &Report, width: usize, height: Option<usize>) -> String {
    let mut lines = vec![headline(report)];
    let mut rows: Vec<&Row> = report.rows.iter().collect();
    rows.sort_by(|a, b| {
        order(a).total_cmp(&order(b)).then_with(|| (&a.job, a.thread).cmp(&(&b.job, b.thread)))
    });
    let mut cells = vec![HEADINGS.map(str::to_owned)];
    cells.extend(rows.iter().map(|row| cells_of(row)));
    let below = 6 + report.failed.len() + report.neighbours.len();
    let room = height.map_or(usize::MAX, |height| height.saturating_sub(below).max(4));
    let hidden = cells.len().saturating_sub(room);
    cells.truncate(room);
    lines.extend(aligned(&cells, width));
    if hidden > 0 {
        lines.push(format!("… and {hidden} tasks that are less urgent"));
    }
    if report.rows.is_empty() {
        lines.push("no task of any job runs on this machine".to_owned());
    }
    lines.extend(report.neighbours.iter().map(neighbour));
    lines.push(footline(report));
    lines.extend(report.failed.iter().take(3).map(|failed| format!("failed: {failed}")));
    if report.failed.len() > 3 {
        lines.push(format!("failed: {} more", report.failed.len() - 3));
    }
    lines.join("\n") + "\n"
}

const HEADINGS: [&str; 12] = [
    "job", "operator", "thread", "rows/s", "queue", "lag", "cores", "waiting", "priority", "nice", "share",
    "changed",
];

fn headline(report: &Report) -> String {
    let busy = report.busy.map_or(String::new(), |busy| format!(" · CPU {:.0} % busy", busy * 100.0));
    let dry = if report.is_dry { " · dry run, nothing is written" } else { "" };
    format!("policy {} · translator {}{busy}{dry}", report.policies.join(", "), report.translator)
}

fn footline(report: &Report) -> String {
    let would = if report.is_dry { "would be " } else { "" };
    let operators = report.changes.iter().filter(|change| !is_service(change)).count();
    format!(
        "{} tasks; {} threads of the engine itself in the group {SERVICE_GROUP}; {} writes {would}made, {} of them for \
         operators; round {} took {:.1} ms",
        report.rows.len(),
        report.engine_threads,
        report.changes.len(),
        operators,
        report.rounds,
        report.took.as_secs_f64() * 1e3
    )
}

fn neighbour(neighbour: &Neighbour) -> String {
    let mut line = match (neighbour.node.as_str(), &neighbour.address) {
        ("", address) => format!("agent at {}", address.as_deref().unwrap_or("?")),
        (node, Some(address)) => format!("agent {node} at {address}"),
        (node, None) => format!("agent {node}"),
    };
    line += &match neighbour.age {
        None => ": not heard yet".to_owned(),
        Some(age) => format!(": heard {:.1} s ago", age.as_secs_f64()),
    };
    line += match (neighbour.is_used, neighbour.jobs) {
        (false, _) => ", local information only".to_owned(),
        (true, 0) => ", no job in common".to_owned(),
        (true, jobs) => format!(", jobs in common: {jobs}"),
    }
    .as_str();
    if let Some(problem) = &neighbour.problem {
        line += &format!("; cannot be told: {problem}");
    }
    line
}

fn is_service(change: &Change) -> bool {
    match change {
        Change::Move { group, .. } => group == SERVICE_GROUP,
        Change::Group { name, .. } => name == SERVICE_GROUP,
        _ => false,
    }
}

fn order(row: &Row) -> f64 {
    row.priority.unwrap_or(f64::INFINITY)
}

fn cells_of(row: &Row) -> [String; 12] {
    let setting = &row.setting;
    let nice = match (setting.round_robin, setting.nice) {
        (Some(priority), _) if priority > 0 => format!("rr {priority}"),
        (_, Some(nice)) => nice.to_string(),
        _ => "-".to_owned(),
    };
    let changed = match &row.before {
        None => "new".to_owned(),
        Some(before) if before == setting => String::new(),
        Some(before) if before.nice != setting.nice => {
            before.nice.map_or("new".to_owned(), |nice| format!("nice was {nice}"))
        }
        Some(_) => "moved".to_owned(),
    };
    [
        row.job.clone(),
        format!("{} ({})", row.operator, row.instance + 1),
        row.thread.tid.to_string(),
        row.rate.map_or("-".to_owned(), short),
        row.queue_rows.map_or("-".to_owned(), short),
        row.watermark_lag_ms.map_or("-".to_owned(), lag),
        row.cores.map_or("-".to_owned(), |cores| format!("{cores:.2}")),
        row.waiting.map_or("-".to_owned(), |threads| format!("{threads:.2}")),
        row.priority.map_or("no data".to_owned(), priority),
        nice,
        row.weight.map_or("-".to_owned(), |weight| weight.to_string()),
        changed,
    ]
}

fn priority(value: f64) -> String {
    if value.abs() < 1e5 { format!("{value:.3}") } else { format!("{value:.3e}") }
}

/// Three digits that matter.
fn short(value: f64) -> String {
    match value {
        v if v >= 1e9 => format!("{:.1} G", v / 1e9),
        v if v >= 1e6 => format!("{:.1} M", v / 1e6),
        v if v >= 1e4 => format!("{:.1} k", v / 1e3),
        v => format!("{v:.0}"),
    }
}

fn lag(ms: f64) -> String {
    if ms.abs() < 10_000.0 { format!("{ms:.0} ms") } else { format!("{:.0} s", ms / 1e3) }
}

/// Columns as wide as their widest cell; what does not fit in `width` is taken from the operator's name.
fn aligned(rows: &[[String; 12]], width: usize) -> Vec<String> {
    const OPERATOR: usize = 1;
    let mut widths = [0; 12];
    for row in rows {
        for (place, cell) in row.iter().enumerate() {
            widths[place] = widths[place].max(cell.chars().count());
        }
    }
    let all: usize = widths.iter().sum::<usize>() + 2 * (widths.len() - 1);
    widths[OPERATOR] = widths[OPERATOR].saturating_sub(all.saturating_sub(width)).max(12);
    let line = |row: &[String; 12]| {
        let mut line = String::new();
        for (place, cell) in row.iter().enumerate() {
            let room = widths[place];
            let cell = if cell.chars().count() > room {
                cell.chars().take(room - 1).chain(['…']).collect()
            } else {
                cell.clone()
            };
            let is_text = place < 2 || place == 11;
            line += &if is_text { format!("{cell:<room$}  ") } else { format!("{cell:>room$}  ") };
        }
        line.trim_end().to_owned()
    };
    rows.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short() {
        assert_eq!(
            [0.0, 9_999.4, 12_345.0, 3.2e6, 7e9].map(short),
            ["0", "9999", "12.3 k", "3.2 M", "7.0 G"]
        );
        assert_eq!([12.3, -5.0, 61_000.0].map(lag), ["12 ms", "-5 ms", "61 s"]);
    }

    #[test]
    fn an_agent_says_how_old_its_word_is() {
        let mut known =
            Neighbour { node: "b".into(), address: Some("b:9465".into()), ..Neighbour::default() };
        assert_eq!(neighbour(&known), "agent b at b:9465: not heard yet, local information only");
        (known.age, known.is_used, known.jobs) = (Some(std::time::Duration::from_millis(340)), true, 2);
        assert_eq!(neighbour(&known), "agent b at b:9465: heard 0.3 s ago, jobs in common: 2");
        known.problem = Some("no answer within 2 s".into());
        assert!(neighbour(&known).ends_with("; cannot be told: no answer within 2 s"));
    }

    #[test]
    fn a_long_name_gives_way() {
        let row = |operator: &str| {
            let mut cells = HEADINGS.map(str::to_owned);
            cells[1] = operator.to_owned();
            cells
        };
        let lines = aligned(&[row("operator"), row(&"x".repeat(90))], 100);
        assert!(lines.iter().all(|line| line.chars().count() <= 100), "{lines:?}");
        assert!(lines[1].contains("x…"));
    }
}
