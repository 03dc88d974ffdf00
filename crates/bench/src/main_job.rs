//! Do the urgent queries keep their target beside heavy ones, and what does it cost them?
//!
//! The main job under each policy in turn, several rounds in one run, all at the same speed: nine tenths of what this
//! machine can do, which is measured first. Urgent are the queries with the least target. What is due is what the
//! round gave in which most came out: who gives less has missed the rest.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, ensure};
use serde_json::Value;

use crate::{Findings, Size, median, spread};

/// The default first, then what it is compared with.
const POLICIES: [&str; 3] = ["laxity", "fifo", "os"];

const ROUND: &str = "48 s";
const PACE: &str = "0.9";

const TARGET_P99_MS: f64 = 50.0;
const TARGET_MET: f64 = 0.99;
const THROUGHPUT_RATIO_LEAST: f64 = 0.95;

/// What the rounds under one policy gave.
#[derive(Clone, Debug, Default)]
pub(crate) struct Series {
    /// The worst of an urgent query.
    pub p99_ms: Vec<f64>,
    /// Share of the urgent results that were due.
    pub met: Vec<f64>,
    /// Of all queries together, in millions.
    pub rows_per_s: Vec<f64>,
}

/// Runs `sql` with `program` under every policy, in turn; raw data, and a series for each policy.
pub(crate) fn rounds(
    policies: &[&str],
    size: Size,
    program: &Path,
    sql: &[PathBuf],
    scratch: &Path,
) -> anyhow::Result<(Findings, Vec<Series>)> {
    fs::create_dir_all(scratch).context("cannot make the scratch folder")?;
    let report = scratch.join("report.json");
    let mut findings = Findings {
        columns: vec![
            "round",
            "policy",
            "speed",
            "query",
            "target_ms",
            "results",
            "met",
            "p50_ms",
            "p99_ms",
            "max_ms",
            "rows_in",
            "wall_s",
            "cpu_s",
        ],
        ..Findings::default()
    };
    let speed = speed(size, program, sql)?;
    let mut series = vec![Series::default(); policies.len()];
    let mut most_results = 0.0_f64;
    for round in 0..size.pick(3, 1) {
        for (policy, series) in policies.iter().zip(&mut series) {
            let mut command = Command::new(program);
            command
                .arg("run")
                .args(sql)
                .args(["--shared", "--plain", "--policy", policy])
                .arg("--report")
                .arg(&report);
            command.args(["--speed", &speed, "--for", size.pick(ROUND, "2 s")]);
            let output = command
                .output()
                .with_context(|| format!("cannot run {}: build it first", program.display()))?;
            ensure!(output.status.success(), "{policy}: {}", String::from_utf8_lossy(&output.stderr));
            let written: Value = serde_json::from_slice(&fs::read(&report)?)?;
            let number = |value: &Value| value.as_f64().unwrap_or(f64::NAN);
            let queries = written["queries"].as_array().context("no queries in the report")?;
            for query in queries {
                findings.rows.push(vec![
                    round.to_string(),
                    (*policy).to_string(),
                    speed.clone(),
                    query["name"].as_str().unwrap_or_default().to_string(),
                    query["target_ms"].to_string(),
                    query["results"].to_string(),
                    query["met"].to_string(),
                    query["latency_ms"]["p50"].to_string(),
                    query["latency_ms"]["p99"].to_string(),
                    query["latency_ms"]["max"].to_string(),
                    query["rows_in"].to_string(),
                    written["wall_s"].to_string(),
                    written["cpu_s"].to_string(),
                ]);
            }
            let targets = queries.iter().map(|query| number(&query["target_ms"]));
            let least = targets.fold(f64::INFINITY, f64::min);
            let urgent = || queries.iter().filter(|query| number(&query["target_ms"]) <= least);
            let results = |query: &Value| query["results"].as_f64().unwrap_or(0.0);
            let p99_ms = urgent().map(|query| number(&query["latency_ms"]["p99"])).fold(0.0, f64::max);
            // Without a result there is nothing that was met: null in the report.
            let met =
                urgent().map(|query| results(query) * query["met"].as_f64().unwrap_or(0.0)).sum::<f64>();
            most_results = most_results.max(urgent().map(results).sum());
            let rows: f64 = queries.iter().map(|query| number(&query["rows_in"])).sum();
            series.p99_ms.push(p99_ms);
            series.met.push(met);
            series.rows_per_s.push(rows / number(&written["wall_s"]) / 1e6);
        }
    }
    findings.summary.push(format!("offered at {speed} times the speeds in the files"));
    for (policy, series) in policies.iter().zip(&mut series) {
        series.met.iter_mut().for_each(|met| *met /= most_results.max(1.0));
        findings.summary.push(format!(
            "{policy}: urgent p99 {}, met {:.2} %, total {}",
            spread(&series.p99_ms, "ms"),
            100.0 * median(&series.met),
            spread(&series.rows_per_s, "million rows/s")
        ));
    }
    fs::remove_dir_all(scratch).context("cannot remove the scratch folder")?;
    Ok((findings, series))
}

/// What the program finds that this machine can do, as it says it.
fn speed(size: Size, program: &Path, sql: &[PathBuf]) -> anyhow::Result<String> {
    let mut command = Command::new(program);
    command.arg("run").args(sql).args([
        "--shared",
        "--plain",
        "--pace",
        size.pick(PACE, "0.1"),
        "--for",
        "1 s",
    ]);
    let output =
        command.output().with_context(|| format!("cannot run {}: build it first", program.display()))?;
    let told = String::from_utf8_lossy(&output.stderr);
    let speed = told.lines().find_map(|line| line.strip_prefix("offered at ")?.split(' ').next());
    speed.map(String::from).with_context(|| format!("the program found no speed: {told}"))
}

/// The main job under the default and what it is compared with first.
///
/// # Errors
/// If the program is missing or fails.
pub fn run(size: Size, program: &Path, sql: &[PathBuf], scratch: &Path) -> anyhow::Result<Findings> {
    let (mut findings, series) = rounds(&POLICIES, size, program, sql, scratch)?;
    let [laxity, fifo, _] = &series[..] else { unreachable!("a series for each policy") };
    let verdict = |met: bool| if met { "met" } else { "MISSED" };
    findings.summary.push(format!(
        "urgent p99 at most {TARGET_P99_MS} ms: {}; met at least {} %: {}",
        verdict(median(&laxity.p99_ms) <= TARGET_P99_MS),
        100.0 * TARGET_MET,
        verdict(median(&laxity.met) >= TARGET_MET)
    ));
    let ratio = median(&laxity.rows_per_s) / median(&fifo.rows_per_s);
    findings.summary.push(format!(
        "total throughput at least {THROUGHPUT_RATIO_LEAST} of fifo's: {ratio:.3}: {}",
        verdict(ratio >= THROUGHPUT_RATIO_LEAST)
    ));
    for (policy, series) in POLICIES.iter().zip(&series).skip(1) {
        findings.summary.push(format!(
            "{policy}'s urgent p99 is {:.1} times laxity's",
            median(&series.p99_ms) / median(&laxity.p99_ms)
        ));
    }
    Ok(findings)
}
