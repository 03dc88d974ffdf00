//! What does a window cost in CPU, of a query that allows 5 %, against the same query when it is exact?
//!
//! All a worker does is counted: looks at the table, messages, operators, results. The first windows, of which nothing is
//! left out, are not. The share saved is what is left out, less what it takes to count and choose.

use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use laxity_engine::{Engine, EngineConfig};

use super::delayed_table::{DelayedTable, Pace};
use super::{DDL, DISTANCE, nearest};
use crate::queries::submit;
use crate::thread_cpu::cpu_ns_of;
use crate::{Findings, Size, median, spread};

/// By how much CPU may exceed its proportion to the rows taken, of the exact query's.
const OVER_PROPORTION_MAX: f64 = 0.05;

/// Counting from there: windows have begun to be sampled.
const WARM: f64 = 0.3;

/// Per window and once.
struct Cost {
    ns_per_window: f64,
    /// Of the rows in time.
    rate: f64,
}

struct Case {
    name: &'static str,
    aggregate: String,
    /// Groups, `None` for none.
    key: Option<&'static str>,
}

fn cases() -> Vec<Case> {
    let case = |name, aggregate, key| Case { name, aggregate, key };
    vec![
        case("k-means, 40 centres", format!("AVG({})", nearest(40)), None),
        case("k-means, 10 centres", format!("AVG({})", nearest(10)), None),
        case("distance on the sphere", format!("AVG({DISTANCE})"), None),
        case("distance on the sphere, 10 groups", format!("AVG({DISTANCE})"), Some("MOD(k, 10)")),
        case("sum of a column", "SUM(u)".into(), None),
    ]
}

fn sql(case: &Case, approximate: bool) -> String {
    let set = if approximate { "SET 'laxity.approximate.error' = '5%';\n" } else { "" };
    let (key, by) =
        case.key.map_or((String::new(), String::new()), |key| (format!("{key}, "), format!(", {key}")));
    let column = if case.key.is_some() { "k BIGINT, " } else { "" };
    format!(
        "{DDL}CREATE TABLE output ({column}r DOUBLE) WITH ('connector' = 'blackhole');\n{set}\
         INSERT INTO output SELECT {key}{} FROM TABLE(TUMBLE(TABLE trips, DESCRIPTOR(ts), INTERVAL '3' SECOND)) \
         GROUP BY window_start, window_end{by};",
        case.aggregate
    )
}

/// Runs every case exact and approximate in turn.
///
/// # Errors
/// If a query does not run to its end, or the system does not account CPU time.
pub fn run(size: Size) -> anyhow::Result<Findings> {
    let mut findings = Findings {
        columns: vec!["case", "round", "exact_us_per_window", "us_per_window", "sampling_rate", "cpu_ratio"],
        ..Findings::default()
    };
    let pace = Pace {
        stretches: vec![(size.pick(50_000.0, 2_000.0), size.pick(60.0, 9.0))],
        delay_ms: 240.0,
        speed: size.pick(6.0, 9.0),
        seed: 1,
    };
    let table = DelayedTable::new(&pace);
    let cases = cases();
    let mut over = vec![Vec::new(); cases.len()];
    let mut ratios = over.clone();
    let mut rates = over.clone();
    for round in 0..size.pick(3, 1) {
        for (place, case) in cases.iter().enumerate() {
            let exact = measure(case, false, &table, &pace)?;
            let approximate = measure(case, true, &table, &pace)?;
            let ratio = approximate.ns_per_window / exact.ns_per_window;
            over[place].push(100.0 * (ratio - approximate.rate));
            ratios[place].push(100.0 * ratio);
            rates[place].push(100.0 * approximate.rate);
            findings.rows.push(vec![
                case.name.replace(',', ";"),
                round.to_string(),
                format!("{:.1}", exact.ns_per_window / 1e3),
                format!("{:.1}", approximate.ns_per_window / 1e3),
                format!("{:.4}", approximate.rate),
                format!("{ratio:.4}"),
            ]);
        }
    }
    for (place, case) in cases.iter().enumerate() {
        let verdict = if median(&over[place]) <= 100.0 * OVER_PROPORTION_MAX { "met" } else { "MISSED" };
        findings.summary.push(format!(
            "{}: {} of the rows taken for {} of the CPU, {:.1} points more, target at most {}: {verdict}",
            case.name,
            spread(&rates[place], "%"),
            spread(&ratios[place], "%"),
            median(&over[place]),
            100.0 * OVER_PROPORTION_MAX,
        ));
    }
    Ok(findings)
}

fn measure(case: &Case, approximate: bool, table: &DelayedTable, pace: &Pace) -> anyhow::Result<Cost> {
    let engine = Engine::new(EngineConfig { workers: 1, ..EngineConfig::default() });
    engine.provide("trips", table.opener());
    submit(&engine, &sql(case, approximate))?;
    let event_s: f64 = pace.stretches.iter().map(|(_, seconds)| seconds).sum();
    let started = Instant::now();
    engine.start()?;
    let warm = Duration::from_secs_f64(event_s * WARM / pace.speed);
    std::thread::sleep(warm.saturating_sub(started.elapsed()));
    let before = (cpu_ns_of("laxity-worker")?, taken(&engine));
    let last = Duration::from_secs_f64(event_s * 0.98 / pace.speed);
    std::thread::sleep(last.saturating_sub(started.elapsed()));
    let after = (cpu_ns_of("laxity-worker")?, taken(&engine));
    ensure!(engine.wait(Duration::from_secs(120)), "{} did not end in 120 s", case.name);
    let query = &engine.snapshot().queries[0];
    ensure!(query.rows_out > 0 && query.rows_dropped == 0, "{}: no results", case.name);
    let windows = event_s * (0.98 - WARM) / 3.0;
    let rate = match approximate {
        false => 1.0,
        true => {
            let (before, after) =
                (before.1.context("nothing is approximate")?, after.1.context("nothing is")?);
            (after.0 - before.0) as f64 / (after.1 - before.1).max(1) as f64
        }
    };
    // Threads of engines beside this one, as tests have them, may have ended meanwhile.
    Ok(Cost { ns_per_window: after.0.saturating_sub(before.0) as f64 / windows, rate })
}

/// Rows taken so far, and rows in time.
fn taken(engine: &Engine) -> Option<(u64, u64)> {
    let done = engine.snapshot().queries[0].approximation?;
    Some((done.rows_taken, done.rows_seen - done.rows_late))
}
