//! Do exact queries keep their deadlines while queries that allow an error take in an overload?
//!
//! Queries that are alike ask for half of what the workers have, then for half as much again as they have, then for half of it once
//! more: some are exact and urgent, the others allow 5 % when they are behind (`'laxity.approximate.when' = 'overload'`), and would allow shedding. Their
//! results are held against exact ones, which are computed here from all rows.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use arrow::array::AsArray;
use arrow::datatypes::{Float64Type, TimestampMillisecondType};
use laxity_engine::{Engine, EngineConfig, QuerySnapshot};

use super::delayed_table::{DelayedTable, Pace};
use super::{DDL, centre};
use crate::queries::submit;
use crate::thread_cpu::cpu_ns_of;
use crate::{Findings, Size};

const LOAD: f64 = 1.5;
const CALM: f64 = 0.5;
/// Load and seconds, in turn. What may be left out is only known once some windows have passed.
const STRETCHES: [(f64, f64); 3] = [(CALM, 10.0), (LOAD, 40.0), (CALM, 15.0)];
/// Rows a second instead.
const STRETCHES_SMALL: [(f64, f64); 3] = [(700.0, 2.0), (2_000.0, 3.0), (700.0, 2.0)];
const WORKERS: usize = 2;
const EXACT: usize = 4;
const APPROXIMATE: usize = 12;
const STATIONS: usize = 16;
const WINDOW_MS: i64 = 1_000;
const ERROR: f64 = 0.05;

const TARGET_MET: f64 = 0.95;
const CONFIDENCE: f64 = 0.95;

/// Runs it once.
///
/// # Errors
/// If a query does not run to its end, or results cannot be written or read.
pub fn run(size: Size, scratch: &Path) -> anyhow::Result<Findings> {
    let scratch = scratch.join(format!("approximate-{}", std::process::id()));
    fs::create_dir_all(&scratch).context("cannot make the scratch folder")?;
    let findings = measure(size, &scratch);
    fs::remove_dir_all(&scratch).context("cannot remove the scratch folder")?;
    findings
}

fn measure(size: Size, scratch: &Path) -> anyhow::Result<Findings> {
    let row_ns = row_ns(size)?;
    let rows_per_s = |load: f64| load * WORKERS as f64 * 1e9 / row_ns / (EXACT + APPROXIMATE) as f64;
    let stretches = size.pick(STRETCHES.map(|(load, seconds)| (rows_per_s(load), seconds)), STRETCHES_SMALL);
    let rates = [stretches[1].0, stretches[0].0];
    let stretches = stretches.to_vec();
    let table = DelayedTable::new(&Pace { stretches, delay_ms: 100.0, speed: 1.0, seed: 3 });
    let exact = averages(&table);

    let engine = Engine::new(EngineConfig { workers: WORKERS, ..EngineConfig::default() });
    for number in 0..EXACT + APPROXIMATE {
        engine.provide(&format!("trips{number}"), table.opener());
        submit(&engine, &sql(number, scratch))?;
    }
    let mut findings = Findings {
        columns: vec![
            "second",
            "query",
            "engaged",
            "steps",
            "sampling_rate",
            "results",
            "met",
            "p99_ms",
            "shed",
        ],
        ..Findings::default()
    };
    let started = Instant::now();
    engine.start()?;
    let (mut most_engaged, mut ended) = (0, false);
    while !ended {
        ended = engine.wait(Duration::from_millis(500));
        let second = started.elapsed().as_secs_f64();
        ensure!(second < 300.0, "it did not end in five minutes");
        let queries = engine.snapshot().queries;
        findings.rows.extend(queries.iter().map(|query| row(second, query)));
        let engaged = queries.iter().filter_map(|query| query.approximation).filter(|done| done.is_engaged);
        most_engaged = most_engaged.max(engaged.count());
    }
    let queries = engine.snapshot().queries;
    drop(engine);
    findings.summary = summary(&queries, row_ns, rates, most_engaged);
    findings.summary.extend(bounds(&queries, &exact, scratch)?);
    Ok(findings)
}

/// A row exact, all told: what one costs where there is time.
fn row_ns(size: Size) -> anyhow::Result<f64> {
    let (rate, seconds) = size.pick((50_000.0, 6.0), (1_000.0, 3.0));
    let stretches = vec![(rate, seconds)];
    let table = DelayedTable::new(&Pace { stretches, delay_ms: 100.0, speed: 1.0, seed: 4 });
    let engine = Engine::new(EngineConfig { workers: 1, ..EngineConfig::default() });
    engine.provide("trips", table.opener());
    let sql = format!(
        "{DDL}CREATE TABLE output (r DOUBLE) WITH ('connector' = 'blackhole');\nINSERT INTO output SELECT AVG({}) \
         FROM TABLE(TUMBLE(TABLE trips, DESCRIPTOR(ts), INTERVAL '1' SECOND)) GROUP BY window_start, window_end;",
        to_nearest()
    );
    submit(&engine, &sql)?;
    engine.start()?;
    ensure!(engine.wait(Duration::from_secs(60)), "the first rows did not end in a minute");
    Ok(cpu_ns_of("laxity-worker")? as f64 / (rate * seconds))
}

fn sql(number: usize, scratch: &Path) -> String {
    let is_exact = number < EXACT;
    let settings = match is_exact {
        true => "SET 'laxity.latency.target' = '200 ms';\n".to_string(),
        false => format!(
            "SET 'laxity.latency.target' = '1 s';\nSET 'laxity.shed' = 'true';\nSET 'laxity.approximate.error' = '{ERROR}';\n\
             SET 'laxity.approximate.when' = 'overload';\n"
        ),
    };
    let value = to_nearest();
    format!(
        "{}CREATE TABLE output{number} (window_end TIMESTAMP(3), n BIGINT, r DOUBLE, e DOUBLE) \
         WITH ('connector' = 'filesystem', 'path' = '{}', 'format' = 'csv');\n\
         SET 'pipeline.name' = '{} {number}';\n{settings}\
         INSERT INTO output{number} SELECT window_end, APPROX_ROWS(), AVG({value}), APPROX_ERROR(AVG({value})) \
         FROM TABLE(TUMBLE(TABLE trips{number}, DESCRIPTOR(ts), INTERVAL '1' SECOND)) GROUP BY window_start, window_end;",
        DDL.replace("trips", &format!("trips{number}")),
        file(number, scratch),
        if is_exact { "exact" } else { "approximate" },
    )
}

fn file(number: usize, scratch: &Path) -> String {
    scratch.join(format!("{number}.csv")).display().to_string()
}

/// The distance to the nearest station on the sphere, km.
fn to_nearest() -> String {
    let station = |number: usize| {
        let (x, y) = centre(number);
        format!(
            "12742 * ASIN(SQRT(POWER(SIN(RADIANS(y - {y}) / 2), 2) + \
             COS(RADIANS({y})) * COS(RADIANS(y)) * POWER(SIN(RADIANS(x - ({x})) / 2), 2)))"
        )
    };
    format!("LEAST({})", (0..STATIONS).map(station).collect::<Vec<_>>().join(", "))
}

/// The same here.
fn kilometres(x: f64, y: f64) -> f64 {
    let to = |number: usize| {
        let (u, v) = centre(number);
        let (half_x, half_y) = (((x - u).to_radians() / 2.0).sin(), ((y - v).to_radians() / 2.0).sin());
        let square = half_y.powi(2) + v.to_radians().cos() * y.to_radians().cos() * half_x.powi(2);
        12_742.0 * square.sqrt().asin()
    };
    (0..STATIONS).map(to).fold(f64::INFINITY, f64::min)
}

/// By window's end, ms.
fn averages(table: &DelayedTable) -> BTreeMap<i64, f64> {
    let mut sums: BTreeMap<i64, (f64, f64)> = BTreeMap::new();
    for (_, rows) in table.batches() {
        let number = |column: usize| rows.column(column).as_primitive::<Float64Type>().values();
        let times = rows.column(5).as_primitive::<TimestampMillisecondType>().values();
        for ((x, y), time) in number(1).iter().zip(number(2)).zip(times) {
            let (count, sum) = sums.entry((time.div_euclid(WINDOW_MS) + 1) * WINDOW_MS).or_default();
            *count += 1.0;
            *sum += kilometres(*x, *y);
        }
    }
    sums.into_iter().map(|(end, (count, sum))| (end, sum / count)).collect()
}

fn row(second: f64, query: &QuerySnapshot) -> Vec<String> {
    let done = query.approximation.unwrap_or_default();
    let in_time = done.rows_seen - done.rows_late;
    vec![
        format!("{second:.1}"),
        query.name.clone(),
        done.is_engaged.to_string(),
        done.steps.to_string(),
        format!("{:.4}", if in_time > 0 { done.rows_taken as f64 / in_time as f64 } else { 1.0 }),
        (query.lateness.results + query.overdue).to_string(),
        query.lateness.met.to_string(),
        format!("{:.1}", query.latency.p99_ns as f64 / 1e6),
        query.rows_shed.to_string(),
    ]
}

fn summary(queries: &[QuerySnapshot], row_ns: f64, rates: [f64; 2], most_engaged: usize) -> Vec<String> {
    let met = |queries: &[QuerySnapshot]| {
        let due: u64 = queries.iter().map(|query| query.lateness.results + query.overdue).sum();
        queries.iter().map(|query| query.lateness.met).sum::<u64>() as f64 / due.max(1) as f64
    };
    let p99_ms = |queries: &[QuerySnapshot]| {
        queries.iter().map(|query| query.latency.p99_ns as f64 / 1e6).fold(0.0, f64::max)
    };
    let verdict = |is_met: bool| if is_met { "met" } else { "MISSED" };
    let (exact, approximate) = queries.split_at(EXACT);
    let shed: u64 = queries.iter().map(|query| query.rows_shed).sum();
    let done = || approximate.iter().filter_map(|query| query.approximation);
    let taken: u64 = done().map(|done| done.rows_taken).sum();
    let seen: u64 = done().map(|done| done.rows_seen - done.rows_late).sum();
    let still = done().filter(|done| done.is_engaged).count();
    vec![
        format!(
            "{} queries at {:.0} rows/s each, {row_ns:.0} ns a row: {LOAD} times the {WORKERS} workers; before and then {:.0} rows/s, {CALM}",
            queries.len(),
            rates[0],
            rates[1]
        ),
        format!(
            "{EXACT} exact ones, 200 ms: {:.1} % of results in time, p99 {:.0} ms, target at least {:.0} %: {}",
            100.0 * met(exact),
            p99_ms(exact),
            100.0 * TARGET_MET,
            verdict(met(exact) >= TARGET_MET)
        ),
        format!(
            "{APPROXIMATE} that allow 5 % when behind, 1 s: {:.1} % of results in time, p99 {:.0} ms, {:.1} % of their rows \
             taken",
            100.0 * met(approximate),
            p99_ms(approximate),
            100.0 * taken as f64 / seen.max(1) as f64
        ),
        format!("rows shed: {shed}, target 0: {}", verdict(shed == 0)),
        format!(
            "{} steps to approximation, at most {most_engaged} queries at once; {still} of them still so at the end",
            done().map(|done| done.steps).sum::<u64>()
        ),
    ]
}

/// Results against what is so.
fn bounds(
    queries: &[QuerySnapshot],
    exact: &BTreeMap<i64, f64>,
    scratch: &Path,
) -> anyhow::Result<Vec<String>> {
    let (mut results, mut kept, mut owned, mut wrong) = (0_u64, 0_u64, 0_u64, 0_u64);
    for number in 0..queries.len() {
        let path = file(number, scratch);
        let text = fs::read_to_string(&path).with_context(|| format!("cannot read {path}"))?;
        for line in text.lines() {
            let cells: Vec<&str> = line.split(',').collect();
            let [end, _, value, error] = cells[..] else { anyhow::bail!("{path} has a line {line:?}") };
            if value.is_empty() && number >= EXACT {
                // Nothing was taken of what was not shed, and it says so.
                results += 1;
                owned += 1;
                continue;
            }
            let value: f64 = value.parse().with_context(|| format!("{path}: {line}"))?;
            let so = *exact.get(&end_ms(end)?).with_context(|| format!("no window ends at {end}"))?;
            let off = (value / so - 1.0).abs();
            if number < EXACT {
                wrong += u64::from(off > 1e-9);
                continue;
            }
            // Nothing is said where no bound can be given.
            let said: f64 = error.parse().unwrap_or(f64::INFINITY);
            results += 1;
            kept += u64::from(off <= ERROR);
            owned += u64::from(said > ERROR);
        }
    }
    let share = kept as f64 / results.max(1) as f64;
    Ok(vec![
        format!(
            "{kept} of {results} results of those that allow it are within 5 %, {:.2} %, target at least {:.0} %: {}; {owned} \
             say that no such bound can be given",
            100.0 * share,
            100.0 * CONFIDENCE,
            if share >= CONFIDENCE { "met" } else { "MISSED" }
        ),
        format!("results of exact queries that are not: {wrong}"),
    ])
}

/// '1970-01-01 00:00:41.000' as milliseconds.
fn end_ms(text: &str) -> anyhow::Result<i64> {
    let clock =
        text.trim_matches('"').split([' ', 'T']).nth(1).with_context(|| format!("{text:?} is no time"))?;
    let mut parts = clock.split(':');
    let mut part = || -> anyhow::Result<f64> { Ok(parts.next().context("too short")?.parse()?) };
    let (hours, minutes, seconds) = (part()?, part()?, part()?);
    Ok(((hours * 60.0 + minutes) * 60e3 + seconds * 1e3).round() as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_read() {
        assert_eq!(end_ms("1970-01-01 00:00:41.000").unwrap(), 41_000);
        assert_eq!(end_ms("1970-01-01 01:02:03.5").unwrap(), 3_723_500);
        assert!(end_ms("41").is_err());
    }
}
