//! A report for monitoring: the names and the help texts of the agent's own metrics stand here.

use std::fmt::Write;

use super::{Report, Row};
use crate::exchange::Neighbour;

/// A round in Prometheus' text format.
pub fn exposition(report: &Report) -> String {
    let mut text = String::new();
    type Value = fn(&Row) -> Option<f64>;
    let by_task: [(&str, &str, Value); 10] = [
        ("queue_rows", "rows that wait for the operator, all instances together", |row| row.queue_rows),
        ("input_rows_per_second", "rows that the operator takes in", |row| row.rate),
        ("cores", "cores that the operator keeps busy", |row| row.cores),
        ("waiting_threads", "threads of the operator that wait for a core", |row| row.waiting),
        ("row_cost_seconds", "CPU time per row", |row| row.cost_ns.map(|ns| ns / 1e9)),
        ("watermark_lag_seconds", "how far the watermark is behind the clock", |row| {
            row.watermark_lag_ms.map(|ms| ms / 1e3)
        }),
        ("sample_age_seconds", "how old the engine's metrics are", |row| {
            row.sample_age_ms.map(|ms| ms / 1e3)
        }),
        ("priority", "of the policy, lower first", |row| row.priority),
        ("nice", "nice value of the task's thread", |row| row.setting.nice.map(f64::from)),
        ("weight", "CPU weight of the thread's group, 100 is usual", |row| row.weight.map(f64::from)),
    ];
    for (name, help, value) in by_task {
        let _ = writeln!(text, "# HELP laxity_agent_{name} {help}\n# TYPE laxity_agent_{name} gauge");
        for row in &report.rows {
            if let Some(value) = value(row) {
                let (job, operator) = (escaped(&row.job), escaped(&row.operator));
                let _ = writeln!(
                    text,
                    "laxity_agent_{name}{{job=\"{job}\",operator=\"{operator}\",instance=\"{}\",tid=\"{}\"}} {value}",
                    row.instance, row.thread.tid
                );
            }
        }
    }
    let of_round = [
        ("round_seconds", "how long the last round took", "gauge", report.took.as_secs_f64()),
        ("cpu_seconds_total", "CPU time that the agent has used", "counter", report.own_cpu.as_secs_f64()),
        ("rounds_total", "rounds so far", "counter", report.rounds as f64),
        ("changes", "writes of the last round", "gauge", report.changes.len() as f64),
        ("failures", "writes of the last round that the kernel refused", "gauge", report.failed.len() as f64),
        (
            "engine_threads",
            "threads of the engines that are no operators",
            "gauge",
            report.engine_threads as f64,
        ),
    ];
    for (name, help, kind, value) in of_round {
        let name = format!("laxity_agent_{name}");
        let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}\n{name} {value}");
    }
    type OfNeighbour = fn(&Neighbour) -> Option<f64>;
    let by_neighbour: [(&str, &str, OfNeighbour); 2] = [
        ("exchange_age_seconds", "how long ago the agent of another machine was heard", |neighbour| {
            neighbour.age.map(|age| age.as_secs_f64())
        }),
        ("exchange_used", "1 while what it said counts, 0 once it is too old", |neighbour| {
            Some(f64::from(u8::from(neighbour.is_used)))
        }),
    ];
    for (name, help, value) in by_neighbour {
        if report.neighbours.is_empty() {
            continue;
        }
        let _ = writeln!(text, "# HELP laxity_agent_{name} {help}\n# TYPE laxity_agent_{name} gauge");
        for neighbour in &report.neighbours {
            if let Some(value) = value(neighbour) {
                let (node, peer) =
                    (escaped(&neighbour.node), escaped(neighbour.address.as_deref().unwrap_or("")));
                let _ = writeln!(text, "laxity_agent_{name}{{node=\"{node}\",peer=\"{peer}\"}} {value}");
            }
        }
    }
    if let Some(busy) = report.busy {
        let name = "laxity_agent_machine_busy_ratio";
        let _ = writeln!(
            text,
            "# HELP {name} share of all cores that was busy\n# TYPE {name} gauge\n{name} {busy}"
        );
    }
    text
}

fn escaped(label: &str) -> String {
    label.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_escaped() {
        assert_eq!(escaped("a\"b\\c\nd"), "a\\\"b\\\\c\\nd");
    }
}
