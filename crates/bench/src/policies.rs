//! How do the policies compare on threads, on the job that the program is shown with?
//!
//! What the simulator says of them at the papers' sizes, confirmed on two cores as far as they go: the main job,
//! every policy in turn, several rounds in one run.

use std::path::{Path, PathBuf};

use crate::main_job::rounds;
use crate::{Findings, Size, median};

/// The default, then the best known of each paper, then what they are compared with. Last a thread for each operator,
/// which is no policy and is not judged as one.
const POLICIES: [&str; 9] = ["laxity", "llf", "klink", "aurora", "fcfs", "rr", "hr", "fifo", "os"];

/// Behind the best by less than this, the default is as good.
const BEHIND_MAX: f64 = 0.05;

/// Runs `sql` with `program` under every policy.
///
/// # Errors
/// If the program is missing or fails.
pub fn run(size: Size, program: &Path, sql: &[PathBuf], scratch: &Path) -> anyhow::Result<Findings> {
    let (mut findings, mut series) = rounds(&POLICIES, size, program, sql, scratch)?;
    series.pop();
    let p99: Vec<f64> = series.iter().map(|series| median(&series.p99_ms)).collect();
    let best = (0..p99.len()).min_by(|&a, &b| p99[a].total_cmp(&p99[b])).expect("there are policies");
    findings.summary.push(format!(
        "least urgent p99: {}, {:.2} ms; laxity's is {:.2} times that, target at most {}: {}",
        POLICIES[best],
        p99[best],
        p99[0] / p99[best],
        1.0 + BEHIND_MAX,
        if p99[0] <= p99[best] * (1.0 + BEHIND_MAX) { "met" } else { "MISSED" }
    ));
    let met: Vec<f64> = series.iter().map(|series| median(&series.met)).collect();
    let most = met.iter().copied().fold(0.0, f64::max);
    findings.summary.push(format!(
        "most urgent results in time: {:.2} %; laxity {:.2} %: {}",
        100.0 * most,
        100.0 * met[0],
        if met[0] >= most * (1.0 - BEHIND_MAX) { "met" } else { "MISSED" }
    ));
    Ok(findings)
}
