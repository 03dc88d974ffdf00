//! How long does the program take to answer on a file of one row, and how large is it?

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, ensure};

use crate::{Findings, Size, median, spread};

const TARGET_MS: f64 = 200.0;
const TARGET_MB: f64 = 60.0;

/// Runs `program` on a one-row file below `scratch`.
///
/// # Errors
/// If the program is missing or fails.
pub fn run(size: Size, program: &Path, scratch: &Path) -> anyhow::Result<Findings> {
    fs::create_dir_all(scratch).context("cannot make the scratch folder")?;
    fs::write(scratch.join("one.csv"), "1,one\n")?;
    let sql = "CREATE TABLE input (id INT, name STRING) WITH (\
               'connector' = 'filesystem', 'format' = 'csv', 'path' = 'one.csv');\n\
               CREATE TABLE output (id INT, name STRING) WITH ('connector' = 'print');\n\
               INSERT INTO output SELECT id, UPPER(name) FROM input;";
    fs::write(scratch.join("one.sql"), sql)?;
    let report = scratch.join("report.json");
    let (mut wall_ms, mut peak_mb) = (Vec::new(), Vec::new());
    let mut findings = Findings { columns: vec!["round", "wall_ms", "peak_rss_mb"], ..Findings::default() };
    for round in 0..size.pick(11, 1) {
        let started = Instant::now();
        let output = Command::new(program)
            .arg("run")
            .arg(scratch.join("one.sql"))
            .arg("--report")
            .arg(&report)
            .output()
            .with_context(|| format!("cannot run {}: build it first", program.display()))?;
        let ms = started.elapsed().as_secs_f64() * 1e3;
        let text = String::from_utf8_lossy(&output.stdout);
        ensure!(output.status.success() && text.contains("+I[1, ONE]"), "{output:?}");
        let written: serde_json::Value = serde_json::from_slice(&fs::read(&report)?)?;
        let mb = written["peak_rss_bytes"].as_f64().context("no peak_rss_bytes in the report")? / 1e6;
        wall_ms.push(ms);
        peak_mb.push(mb);
        findings.rows.push(vec![round.to_string(), format!("{ms:.1}"), format!("{mb:.1}")]);
    }
    for (what, values, target, unit) in [
        ("answer on a one-row file", &wall_ms, TARGET_MS, "ms"),
        ("its peak memory", &peak_mb, TARGET_MB, "MB"),
    ] {
        findings.summary.push(format!(
            "{what}: {}, target at most {target}: {}",
            spread(values, unit),
            if median(values) <= target { "met" } else { "MISSED" }
        ));
    }
    fs::remove_dir_all(scratch).context("cannot remove the scratch folder")?;
    Ok(findings)
}
