//! What can be said of a query without running it: the answer of EXPLAIN, and the text by which a checkpoint is known
//! to fit.

use std::fmt::Write;
use std::time::Duration;

use laxity_connect::{Delivery, ScanSpec, SinkSpec};
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
    for node in dataflow.nodes() {
        let Stage::Sink(SinkSpec { table }) = &node.stage else { continue };
        let often = match laxity_connect::delivery(table) {
            Ok(Delivery::ExactlyOnce) => "exactly once",
            Ok(Delivery::AtLeastOnce) | Err(_) => "at least once",
        };
        let _ = write!(text, ", {} {often}", table.name);
    }
    text
}

/// What a query is, as text: its operators with their expressions, and the columns of its tables. State fits where that
/// is the same.
pub(crate) fn shape(dataflow: &Dataflow<Stage<ScanSpec, SinkSpec>>, details: &[Vec<String>]) -> Vec<String> {
    let mut text = String::new();
    for (index, node) in dataflow.nodes().iter().enumerate() {
        if matches!(node.stage, Stage::Sink(_)) {
            tree(dataflow, details, NodeId(index), 0, None, &mut text);
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
        let columns = scan.columns.iter().map(|&column| {
            let field = scan.table.schema.field(column);
            format!("{} {}", field.name(), field.data_type())
        });
        lines.push(format!("{} ({})", scan.table.name, columns.collect::<Vec<_>>().join(", ")));
    }
    lines
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
            (None, _) => "",
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
    let is_timed = |window: WindowShape| window.is_aligned;
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
