//! How many rows a second are read from disk, decoded, filtered and thrown away?

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};

use crate::queries::{one_worker, submit};
use crate::{Findings, Size, median, spread};

const FORMATS: [(&str, &str, f64); 2] =
    [("json", "JSON lines, about 90 bytes", 2.5), ("csv", "CSV, about 54 bytes", 4.0)];

/// Writes the files into a folder of its own below `target`, reads them several times, interleaved.
///
/// # Errors
/// If the folder cannot be written or a query does not run to its end.
pub fn run(size: Size, scratch: &Path) -> anyhow::Result<Findings> {
    let count = size.pick(4_000_000, 5_000);
    fs::create_dir_all(scratch).context("cannot make the scratch folder")?;
    let mut findings =
        Findings { columns: vec!["format", "round", "rows", "rows_per_s"], ..Findings::default() };
    for (format, ..) in FORMATS {
        fs::write(scratch.join(format!("rows.{format}")), text(format, count))?;
    }
    let mut rates = [Vec::new(), Vec::new()];
    for round in 0..size.pick(5, 1) {
        for ((format, ..), rates) in FORMATS.iter().zip(&mut rates) {
            let path = scratch.join(format!("rows.{format}"));
            let rate = measure(format, &path, count)?;
            rates.push(rate / 1e6);
            findings.rows.push(vec![
                (*format).to_string(),
                round.to_string(),
                count.to_string(),
                format!("{rate:.0}"),
            ]);
        }
    }
    for ((_, name, target), rates) in FORMATS.iter().zip(&rates) {
        findings.summary.push(format!(
            "{name}: {}, target at least {target}: {}",
            spread(rates, "million rows/s"),
            if median(rates) >= *target { "met" } else { "MISSED" }
        ));
    }
    fs::remove_dir_all(scratch).context("cannot remove the scratch folder")?;
    Ok(findings)
}

fn text(format: &str, rows: usize) -> String {
    let mut text = String::new();
    for i in 0..rows {
        let (user, amount) = (i * 7_919 % 100_000, i * 31 % 1_000);
        let (second, ms) = (i / 1_000 % 60, i % 1_000);
        let time = format!("2026-01-01 00:{:02}:{second:02}.{ms:03}", i / 60_000 % 60);
        match format {
            "json" => writeln!(
                text,
                r#"{{"id":{i},"user_id":{user},"kind":"view","amount":{amount},"ts":"{time}"}}"#
            ),
            _ => writeln!(text, "{i},{user},view,{amount},{time}"),
        }
        .expect("a string takes all");
    }
    text
}

fn measure(format: &str, path: &Path, count: usize) -> anyhow::Result<f64> {
    let sql = format!(
        "CREATE TABLE input (id BIGINT, user_id BIGINT, kind STRING, amount BIGINT, ts TIMESTAMP(3)) WITH (\
         'connector' = 'filesystem', 'format' = '{format}', 'path' = '{}');\n\
         CREATE TABLE output (id BIGINT, user_id BIGINT, kind STRING, amount BIGINT, ts TIMESTAMP(3)) \
         WITH ('connector' = 'blackhole');\n\
         INSERT INTO output SELECT * FROM input WHERE amount >= 500;",
        path.display()
    );
    let engine = one_worker();
    submit(&engine, &sql)?;
    let started = Instant::now();
    engine.start()?;
    ensure!(engine.wait(Duration::from_secs(120)), "{format} did not end in 120 s");
    let seconds = started.elapsed().as_secs_f64();
    let query = &engine.snapshot().queries[0];
    ensure!(query.rows_in == count as u64 && query.rows_dead == 0, "{format}: {query:?}");
    Ok(count as f64 / seconds)
}
