//! Every benchmark, small: sees that it runs and finds something, never how fast. Those that start
//! the `laxity` program are run small by the gate (`make bench-small`), which has built it.

use laxity_bench::{
    Findings, Size, approximate, files, idle, memory_gate, message_cost, overhead, scheduler_cost, throughput,
};

fn found_something(findings: anyhow::Result<Findings>) {
    let findings = findings.expect("it runs");
    assert!(!findings.rows.is_empty() && !findings.summary.is_empty());
    for row in &findings.rows {
        assert_eq!(row.len(), findings.columns.len(), "{row:?}");
    }
}

#[test]
fn throughput_runs() {
    found_something(throughput::run(Size::Small));
}

#[test]
fn memory_gate_runs() {
    found_something(memory_gate::run(Size::Small));
}

#[test]
fn message_cost_runs() {
    found_something(message_cost::run(Size::Small));
}

#[test]
fn overhead_runs() {
    found_something(overhead::run(Size::Small));
}

#[test]
fn files_runs() {
    let folder = std::env::temp_dir().join(format!("laxity-bench-{}", std::process::id()));
    found_something(files::run(Size::Small, &folder));
}

#[test]
fn idle_runs() {
    found_something(idle::run(Size::Small));
}

#[test]
fn scheduler_cost_runs() {
    found_something(scheduler_cost::run(Size::Small));
}

#[test]
fn approximate_runs() {
    let folder = std::env::temp_dir().join(format!("laxity-bench-approximate-{}", std::process::id()));
    for question in approximate::ALL {
        found_something(approximate::run(question, Size::Small, &folder));
    }
}
