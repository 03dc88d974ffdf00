//! What can be said of a query without running it: the answer of EXPLAIN, and the text by which a checkpoint is known
//! to fit.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::fmt::Write;
use std::time::Duration;

use laxity_connect::{Delivery, FieldColumn, ScanSpec, SinkSpec, SplitColumn};
use laxity_graph::{CheckpointPlace, Checkpoints, Dataflow, NodeId, Partitioning, WindowShape};
use laxity_operators::{Access, Stage, WindowKind};

use crate::lower::plain;
use crate::settings::SessionSettings;

/// A query as a person reads it: its settings, then its operators from the sinks down, inputs indented.
pub(crate) fn explain(
    dataflow: &Dataflow<Stage<ScanSpec, SinkSpec>>,
    details: &[Vec<String>],
    settings: &SessionSettings,
    late: Option<(&str, NodeId)>,
) -> String {
    let mut text = String::new();
    let query = &dataflow.settings;
    // Writing to a String cannot fail.
    let _ = writeln!(text, "query {}", query.name);
    let _ = write!(text, "  target {}", laxity_text::duration_text(query.latency_target.duration()));
    if query.latency_target == laxity_graph::LatencyTarget::DEFAULT {
        text.push_str(" (default)");
    }
    let _ = write!(text, ", weight {}", query.weight);
    if let Some(qos) = &query.qos {
        text.push_str(", utility");
        for point in qos.points() {
            let latency = laxity_text::duration_text(Duration::from_nanos(point.latency_ns));
            let _ = write!(text, " ({latency},{})", point.utility);
        }
    }
    if query.shed {
        text.push_str(", may shed rows");
    }
    if let Some(timeout) = query.idle_timeout {
        let _ = write!(text, ", idle timeout {}", laxity_text::duration_text(timeout));
    }
    if let Some(bytes) = query.memory_limit_bytes {
        let _ = write!(text, ", memory limit {} bytes", bytes);
    }
    if let Some((table, node)) = late {
        let _ = write!(text, ", late rows of {} to {table}", dataflow.node(node).name);
    }
    text.push('\n');
    if let Some(checkpoints) = &query.checkpoints {
        let _ = writeln!(text, "  {}", checkpoints_text(dataflow, checkpoints));
    }
    if !settings.ignored.is_empty() {
        let keys: Vec<_> = settings.ignored.iter().map(|(key, _)| key.as_str()).collect();
        let _ = writeln!(text, "  ignored settings: {}", keys.join(", "));
    }
    for (index, node) in dataflow.nodes().iter().enumerate() {
        if matches!(node.stage, Stage::Sink(_)) {
            tree(dataflow, details, NodeId(index), 1, None, &mut text);
        }
    }
    text
}

/// How often what a query holds is saved, and what that promises of each table that it writes.
pub(crate) fn checkpoints_text(
    dataflow: &Dataflow<Stage<ScanSpec, SinkSpec>>,
    checkpoints: &Checkpoints,
) -> String {
    let mut text = format!("checkpoints every {}", laxity_text::duration_text(checkpoints.interval));
    match &checkpoints.place {
        Some(CheckpointPlace::Folder(folder)) => {
            let _ = write!(text, " in {}", folder.display());
        }
        Some(CheckpointPlace::Elsewhere(_)) | None => {
            text.push_str(" in the folder that --state names, or none")
        }
    }
    let begins_again = dataflow.nodes().iter().find_map(|node| match &node.stage {
        Stage::Source { scan, .. } if !laxity_connect::is_read_on(&scan.table) => Some(&scan.table.name),
        _ => None,
    });
    for node in dataflow.nodes() {
        let Stage::Sink(SinkSpec { table }) = &node.stage else { continue };
        let _ = match (laxity_connect::delivery(table), begins_again) {
            (Ok(Delivery::ExactlyOnce), None) => write!(text, ", {} exactly once", table.name),
            (Ok(Delivery::ExactlyOnce), Some(of)) => {
                write!(text, ", {} at least once: {of} cannot be read on in its midst", table.name)
            }
            (Ok(Delivery::AtLeastOnce) | Err(_), _) => write!(text, ", {} at least once", table.name),
        };
    }
    text
}

/// What a query is, as text: its operators with their expressions, and the columns of its tables. State fits where that
/// is the same.
pub(crate) fn shape(dataflow: &Dataflow<Stage<ScanSpec, SinkSpec>>, details: &[Vec<String>]) -> Vec<String> {
    let mut text = String::new();
    let whole: Vec<Vec<String>> = dataflow
        .nodes()
        .iter()
        .zip(details)
        .map(|(node, details)| match &node.stage {
            Stage::Source { scan, .. } => details.iter().map(|detail| by_rows(detail, scan)).collect(),
            _ => details.clone(),
        })
        .collect();
    for (index, node) in dataflow.nodes().iter().enumerate() {
        if matches!(node.stage, Stage::Sink(_)) {
            tree(dataflow, &whole, NodeId(index), 0, None, &mut text);
        }
    }
    // Whether a table is read with others is no matter of what it holds.
    let mut lines: Vec<String> = text
        .lines()
        .filter(|line| !line.trim_start().starts_with("| with others by "))
        .map(String::from)
        .collect();
    for node in dataflow.nodes() {
        let Stage::Source { scan, .. } = &node.stage else { continue };
        let columns = whole_columns(scan).into_iter().map(|column| {
            let field = scan.table.schema.field(column);
            format!("{} {}", field.name(), field.data_type())
        });
        lines.push(format!("{} ({})", scan.table.name, columns.collect::<Vec<_>>().join(", ")));
    }
    lines
}

/// The columns of which a scan reads all or some fields, ascending. Which fields these are is no matter of what is held.
fn whole_columns(scan: &ScanSpec) -> BTreeSet<usize> {
    let whole =
        |&column: &usize| FieldColumn::way(scan.table.schema.field(column)).map_or(column, |(of, _)| of);
    scan.columns.iter().map(whole).collect()
}

/// What is said of a source, as it would be said if it read rows whole and took the fields out of them: so earlier versions did,
/// whose state is to fit.
fn by_rows(detail: &str, scan: &ScanSpec) -> String {
    let schema = &scan.table.schema;
    if detail.starts_with("read ") {
        let names = whole_columns(scan).into_iter().map(|column| schema.field(column).name().as_str());
        let names = names.filter(|name| *name != SplitColumn::NAME);
        return format!("read {}", names.collect::<Vec<_>>().join(", "));
    }
    let fields = scan.columns.iter().filter_map(|&column| {
        let field = schema.field(column);
        let (of, _) = FieldColumn::way(field)?;
        let of = schema.field(of).name();
        let way = field.name().strip_prefix(of)?.replace('.', ", ");
        Some((field.name(), format!("get_field({of}{way})")))
    });
    // A field of a field before that.
    let mut fields: Vec<_> = fields.collect();
    fields.sort_unstable_by_key(|(name, _)| Reverse(name.len()));
    fields.into_iter().fold(detail.to_owned(), |text, (name, by_row)| with_word(&text, name, &by_row))
}

/// The text with another word wherever one stands by itself.
fn with_word(text: &str, word: &str, other: &str) -> String {
    let mut left = text;
    let mut made = String::with_capacity(text.len());
    let is_inside =
        |letter: Option<char>| letter.is_some_and(|letter| letter.is_alphanumeric() || "_.".contains(letter));
    while let Some((before, behind)) = left.split_once(word) {
        let stands_alone = !is_inside(before.chars().next_back()) && !is_inside(behind.chars().next());
        made.push_str(before);
        made.push_str(if stands_alone { other } else { word });
        left = behind;
    }
    made + left
}

fn tree(
    dataflow: &Dataflow<Stage<ScanSpec, SinkSpec>>,
    details: &[Vec<String>],
    id: NodeId,
    depth: usize,
    partitioning: Option<&Partitioning>,
    text: &mut String,
) {
    let node = dataflow.node(id);
    let indent = "  ".repeat(depth);
    let _ = write!(text, "{indent}{}", node.name);
    if node.parallelism > 1 {
        let _ = write!(text, " x{}", node.parallelism);
    }
    if let Some(WindowShape { size_ms, slide_ms, .. }) = node.window {
        let _ = write!(text, " [{}", duration_text(size_ms));
        if slide_ms != size_ms {
            let _ = write!(text, " every {}", duration_text(slide_ms));
        }
        text.push(']');
    }
    match partitioning {
        Some(Partitioning::Hash(columns)) => {
            let _ = write!(text, " => hash of columns {columns:?}");
        }
        Some(Partitioning::Gather) => text.push_str(" => one instance"),
        Some(Partitioning::RoundRobin) => text.push_str(" => in turn"),
        Some(Partitioning::Forward) | None => {}
    }
    text.push('\n');
    for detail in details.get(id.0).into_iter().flatten() {
        let _ = writeln!(text, "{indent}  | {detail}");
    }
    if let Stage::Source { shared: Some(shared), .. } = &node.stage
        && can_be_shared(dataflow)
    {
        let by = shared.spec.access().into_iter().flat_map(Access::expressions);
        let mut by: Vec<String> = by.map(|expression| plain(&expression.to_string())).collect();
        by.dedup();
        let as_one = match (&shared.spec.template, shared.spec.gets_every_row()) {
            (None, false) => "",
            (None, true) => "all rows, held until its windows end",
            (Some(_), false) => ", as one where they differ in that alone",
            (Some(_), true) => "all rows, as one where they differ in windows alone",
        };
        let _ = writeln!(text, "{indent}  | with others by {}{as_one}", by.join(", "));
    }
    for input in &node.inputs {
        tree(dataflow, details, input.from, depth + 1, Some(&input.partitioning), text);
    }
}

/// Whether the query need not be told of everything that its table says: it reads one, and its windows end at known times.
pub(crate) fn can_be_shared(dataflow: &Dataflow<Stage<ScanSpec, SinkSpec>>) -> bool {
    let sources = dataflow.nodes().iter().filter(|node| node.inputs.is_empty()).count();
    let is_timed = |window: WindowShape| window.ends().is_some();
    sources == 1 && dataflow.nodes().iter().all(|node| node.window.is_none_or(is_timed))
}

/// A window function as text.
pub(crate) fn window_text(kind: WindowKind) -> String {
    let offset = |ms: i64| if ms == 0 { String::new() } else { format!(" offset {}", duration_text(ms)) };
    match kind {
        WindowKind::Tumble { size_ms, offset_ms } => {
            format!("TUMBLE {}{}", duration_text(size_ms), offset(offset_ms))
        }
        WindowKind::Hop { size_ms, slide_ms, offset_ms } => {
            format!("HOP {} every {}{}", duration_text(size_ms), duration_text(slide_ms), offset(offset_ms))
        }
        WindowKind::Cumulate { max_ms, step_ms, offset_ms } => {
            format!("CUMULATE {} by {}{}", duration_text(max_ms), duration_text(step_ms), offset(offset_ms))
        }
        WindowKind::Session { gap_ms } => format!("SESSION gap {}", duration_text(gap_ms)),
    }
}

/// Milliseconds, which may be before, in the largest unit that leaves a whole number.
pub(crate) fn duration_text(ms: i64) -> String {
    let sign = if ms < 0 { "-" } else { "" };
    format!("{sign}{}", laxity_text::duration_text(Duration::from_millis(ms.unsigned_abs())))
}
