//! Cameo's queries IPQ1 to IPQ4 and its tenants as SQL, with the answers expected of them.

use std::collections::{BTreeMap, BTreeSet};

use rand_distr::{Distribution, Uniform};

use super::{
    Expected, InputFile, OutputFile, Pace, Written, counted, queries, source, times, timestamp,
    written_timestamp,
};
use crate::{Delay, WorkloadError, seed};

/// The watermark lags by one more millisecond, because a row as old as the watermark is late.
const DELAY: Delay = Delay::Uniform { low_ns: 0, high_ns: 10_000_000 };

/// What latency-sensitive queries are promised in Cameo §6.2, and bulk ones.
const SENSITIVE: &str = "800 ms";
const BULK: &str = "7200 s";

/// IPQ1: revenue by criteria, in two stages as the job has them: per advertisement, then per advertiser.
pub(super) fn revenue(seed: u64, pace: Pace) -> Written {
    let mut sql = impressions(pace);
    revenue_queries(&mut sql, "revenue", SENSITIVE, "TUMBLE", "INTERVAL '1' SECOND", "1", pace.queries);
    Ok((sql, vec![impression_rows(seed, pace)?]))
}

/// IPQ2: the same over sliding windows.
pub(super) fn revenue_sliding(seed: u64, pace: Pace) -> Written {
    let mut sql = impressions(pace);
    let window = "INTERVAL '0.5' SECOND, INTERVAL '1' SECOND";
    revenue_queries(&mut sql, "revenue_sliding", SENSITIVE, "HOP", window, "0.5", pace.queries);
    Ok((sql, vec![impression_rows(seed, pace)?]))
}

/// IPQ3: events of jobs by criteria.
pub(super) fn events(seed: u64, pace: Pace) -> Written {
    let mut sql = logs("job_events", pace);
    event_queries(&mut sql, "events_by_cluster", SENSITIVE, "1", pace.queries);
    Ok((sql, vec![log_rows("job_events", seed, pace)?]))
}

/// IPQ4: requests joined with their errors by window, then a summary.
pub(super) fn errors(seed: u64, pace: Pace) -> Written {
    let mut sql = logs("requests", pace) + &logs("failures", pace);
    sql.push_str(
        "CREATE VIEW failed AS\nSELECT r.window_start, r.window_end, r.window_time, r.cluster, r.job\nFROM (SELECT * FROM \
         TABLE(TUMBLE(TABLE requests, DESCRIPTOR(event_ts), INTERVAL '1' SECOND))) r\nJOIN (SELECT * FROM \
         TABLE(TUMBLE(TABLE failures, DESCRIPTOR(event_ts), INTERVAL '1' SECOND)) WHERE severity = 0) e\nON \
         r.window_start = e.window_start AND r.window_end = e.window_end AND r.job = e.job;\n\n",
    );
    queries(
        &mut sql,
        "error_summary",
        SENSITIVE,
        "window_end TIMESTAMP(3), cluster INT, failures BIGINT, jobs BIGINT",
        pace.queries,
        |_| {
            "SELECT window_end, cluster, COUNT(*), COUNT(DISTINCT job)\nFROM failed\nGROUP BY window_start, \
             window_end, cluster"
                .into()
        },
    );
    let inputs = vec![
        log_rows("requests", seed::derived(seed, 0), pace)?,
        log_rows("failures", seed::derived(seed, 1), pace)?,
    ];
    Ok((sql, inputs))
}

/// Latency-sensitive tenants (IPQ1 and IPQ3 by turns, 1 s, 800 ms) and twice as many bulk ones (10 s, 7 200 s) that
/// read ten times the rows.
pub(super) fn tenants(seed: u64, pace: Pace) -> Written {
    let heavy = heavier(pace);
    let mut sql = logs("job_events", pace) + &impressions(heavy);
    event_queries(&mut sql, "ls_events", SENSITIVE, "1", pace.queries);
    revenue_queries(
        &mut sql,
        "ba_revenue",
        BULK,
        "TUMBLE",
        "INTERVAL '10' SECOND",
        "10",
        pace.queries.saturating_mul(2),
    );
    let inputs = vec![
        log_rows("job_events", seed::derived(seed, 0), pace)?,
        impression_rows(seed::derived(seed, 1), heavy)?,
    ];
    Ok((sql, inputs))
}

fn revenue_queries(
    sql: &mut String,
    name: &str,
    target: &str,
    window: &str,
    lengths: &str,
    slide_s: &str,
    count: u32,
) {
    sql.push_str(&format!(
        "CREATE VIEW {name}_by_ad AS\nSELECT window_time, advertiser, ad, SUM(price) AS price\nFROM \
         TABLE({window}(TABLE impressions, DESCRIPTOR(event_ts), {lengths}))\nGROUP BY window_start, window_end, \
         window_time, advertiser, ad;\n\n"
    ));
    queries(
        sql,
        name,
        target,
        "window_end TIMESTAMP(3), advertiser INT, price DECIMAL(38, 4)",
        count,
        |_| {
            format!(
                "SELECT window_end, advertiser, SUM(price)\nFROM TABLE(TUMBLE(TABLE {name}_by_ad, \
                 DESCRIPTOR(window_time), INTERVAL '{slide_s}' SECOND))\nGROUP BY window_start, window_end, advertiser"
            )
        },
    );
}

fn event_queries(sql: &mut String, name: &str, target: &str, seconds: &str, count: u32) {
    queries(
        sql,
        name,
        target,
        "window_end TIMESTAMP(3), cluster INT, severity INT, events BIGINT",
        count,
        |_| {
            format!(
                "SELECT window_end, cluster, severity, COUNT(*)\nFROM TABLE(TUMBLE(TABLE job_events, \
                 DESCRIPTOR(event_ts), INTERVAL '{seconds}' SECOND))\nGROUP BY window_start, window_end, cluster, \
                 severity"
            )
        },
    );
}

fn impressions(pace: Pace) -> String {
    let columns = "event_ts TIMESTAMP(3), advertiser INT, ad INT, price DECIMAL(10, 4)";
    source("impressions", columns, "event_ts AS event_ts - INTERVAL '0.011' SECOND", pace)
}

fn logs(name: &str, pace: Pace) -> String {
    let columns = "event_ts TIMESTAMP(3), cluster INT, job INT, severity INT";
    source(name, columns, "event_ts AS event_ts - INTERVAL '0.011' SECOND", pace)
}

/// Sums of prices by advertiser and end of the window.
pub(super) fn expected_revenue(seed: u64, pace: Pace) -> Expected {
    let lines = sums(impression_events(seed, pace)?, 2, 2);
    Ok(vec![OutputFile::new("revenue", pace.queries, lines)])
}

/// The same for windows of 1 s that begin every half.
pub(super) fn expected_revenue_sliding(seed: u64, pace: Pace) -> Expected {
    let lines = sums(impression_events(seed, pace)?, 2, 1);
    Ok(vec![OutputFile::new("revenue_sliding", pace.queries, lines)])
}

/// Events by cluster, severity and end of the window.
pub(super) fn expected_events(seed: u64, pace: Pace) -> Expected {
    Ok(vec![OutputFile::new("events_by_cluster", pace.queries, event_counts(seed, pace)?)])
}

/// Both groups of tenants.
pub(super) fn expected_tenants(seed: u64, pace: Pace) -> Expected {
    let heavy = heavier(pace);
    let events = event_counts(seed::derived(seed, 0), pace)?;
    let revenue = sums(impression_events(seed::derived(seed, 1), heavy)?, 20, 20);
    Ok(vec![
        OutputFile::new("ls_events", pace.queries, events),
        OutputFile::new("ba_revenue", pace.queries.saturating_mul(2), revenue),
    ])
}

/// Sums of prices by advertiser and end of the window; windows in half seconds.
fn sums(impressions: impl Iterator<Item = Impression>, size: u64, slide: u64) -> Vec<String> {
    let mut sums: BTreeMap<(u64, u32), u64> = BTreeMap::new();
    for impression in impressions {
        let half = impression.event_ms / 500;
        let mut end = half / slide * slide + slide;
        while end <= half + size {
            *sums.entry((end, impression.ad / 20)).or_default() += impression.price;
            end += slide;
        }
    }
    let line = |((end, advertiser), price): ((u64, u32), u64)| {
        let half = if end.is_multiple_of(2) { "" } else { ".500" };
        let end = written_timestamp(end / 2);
        format!("{end}{half},{advertiser},{}.{:04}", price / 10_000, price % 10_000)
    };
    sums.into_iter().map(line).collect()
}

fn event_counts(seed: u64, pace: Pace) -> Result<Vec<String>, WorkloadError> {
    let events = log_events(seed, pace)?
        .map(|event| (event.event_ms, format!("{},{}", event.job % CLUSTERS, event.severity)));
    Ok(counted(events, 1, |start_s, key, count| format!("{},{key},{count}", written_timestamp(start_s + 1))))
}

/// Pairs of a request and a failure of severity 0 of one job and window: by cluster, pairs and jobs.
pub(super) fn expected_errors(seed: u64, pace: Pace) -> Expected {
    let mut failures: BTreeMap<(u64, u32), u64> = BTreeMap::new();
    for event in log_events(seed::derived(seed, 1), pace)?.filter(|event| event.severity == 0) {
        *failures.entry((event.event_ms / 1_000, event.job)).or_default() += 1;
    }
    let mut summary: BTreeMap<(u64, u32), (u64, BTreeSet<u32>)> = BTreeMap::new();
    for event in log_events(seed::derived(seed, 0), pace)? {
        let window = event.event_ms / 1_000;
        if let Some(count) = failures.get(&(window, event.job)) {
            let entry = summary.entry((window, event.job % CLUSTERS)).or_default();
            entry.0 += count;
            entry.1.insert(event.job);
        }
    }
    let line = |((start_s, cluster), (pairs, jobs)): ((u64, u32), (u64, BTreeSet<u32>))| {
        format!("{},{cluster},{pairs},{}", written_timestamp(start_s + 1), jobs.len())
    };
    let lines = summary.into_iter().map(line).collect();
    Ok(vec![OutputFile::new("error_summary", pace.queries, lines)])
}

/// What bulk tenants read.
fn heavier(pace: Pace) -> Pace {
    Pace { rows_per_s: pace.rows_per_s * 10.0, ..pace }
}

const CLUSTERS: u32 = 16;

struct Impression {
    ingest_ms: u64,
    event_ms: u64,
    ad: u32,
    /// In ten thousandths.
    price: u64,
}

fn impression_events(
    seed: u64,
    pace: Pace,
) -> Result<impl Iterator<Item = Impression> + Send, WorkloadError> {
    let mut rng = seed::generator(seed, 1);
    Ok(times(seed, pace, DELAY)?.map(move |(ingest_ms, event_ms)| {
        let mut below = |bound: u32| Uniform::new(0, bound).map_or(0, |uniform| uniform.sample(&mut rng));
        Impression { ingest_ms, event_ms, ad: below(1_000), price: u64::from(below(20_000)) }
    }))
}

fn impression_rows(seed: u64, pace: Pace) -> Result<InputFile, WorkloadError> {
    let lines = impression_events(seed, pace)?.map(|row| {
        let (whole, fraction) = (row.price / 10_000, row.price % 10_000);
        format!(
            "{},{},{},{},{whole}.{fraction:04}",
            timestamp(row.ingest_ms),
            timestamp(row.event_ms),
            row.ad / 20,
            row.ad
        )
    });
    Ok(InputFile::new("impressions", lines))
}

struct LogEvent {
    ingest_ms: u64,
    event_ms: u64,
    job: u32,
    severity: u32,
}

fn log_events(seed: u64, pace: Pace) -> Result<impl Iterator<Item = LogEvent> + Send, WorkloadError> {
    let mut rng = seed::generator(seed, 1);
    Ok(times(seed, pace, DELAY)?.map(move |(ingest_ms, event_ms)| {
        let mut below = |bound: u32| Uniform::new(0, bound).map_or(0, |uniform| uniform.sample(&mut rng));
        LogEvent { ingest_ms, event_ms, job: below(10_000), severity: below(10) }
    }))
}

fn log_rows(name: &str, seed: u64, pace: Pace) -> Result<InputFile, WorkloadError> {
    let lines = log_events(seed, pace)?.map(|row| {
        format!(
            "{},{},{},{},{}",
            timestamp(row.ingest_ms),
            timestamp(row.event_ms),
            row.job % CLUSTERS,
            row.job,
            row.severity
        )
    });
    Ok(InputFile::new(name, lines))
}
