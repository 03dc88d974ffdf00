//! Workloads for the engine: a SQL file in Laxity's dialect of Flink SQL, and the lines of the files it reads.
//!
//! Nothing is written here; whoever runs a script puts its text and its inputs into one folder. What is no SQL has no
//! script, only costs: the generic boxes of Aurora, the time-decaying Bloom filters of VoipStream, and of RIoTBench the
//! Kalman filter, the interpolation and the regression.

mod advertising;
mod ipq;
mod linear_road;
mod riot;
mod syn;
mod taxi;

use std::collections::BTreeMap;
use std::fmt;
use std::fmt::Write;

use laxity_graph::ProcessingTime;

use crate::{Arrivals, Delay, Stream, Watermarks, WorkloadError, seed};

/// A SQL file with its inputs.
pub struct Script {
    /// As it is asked for.
    pub name: &'static str,
    /// The text of the SQL file. Paths in it are relative to it: inputs in `data/`, results in `out/`.
    pub sql: String,
    /// The files to be put beside it.
    pub inputs: Vec<InputFile>,
}

/// A file that a script reads.
pub struct InputFile {
    /// Relative to the SQL file.
    pub path: String,
    /// Its lines, made as they are taken.
    pub lines: Box<dyn Iterator<Item = String> + Send>,
}

/// How much a script reads, and how fast.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pace {
    /// Rows per second of event time, in each input.
    pub rows_per_s: f64,
    /// Seconds of event time.
    pub seconds: u32,
    /// Rows are offered when they are due, this many times as fast as they were made; `None`: as fast as they can be
    /// read.
    pub replay: Option<f64>,
    /// Queries like it, each with a result of its own.
    pub queries: u32,
}

impl Default for Pace {
    fn default() -> Pace {
        Pace { rows_per_s: 1_000.0, seconds: 60, replay: Some(1.0), queries: 1 }
    }
}

/// A script that can be asked for by name.
#[derive(Clone, Copy, Debug)]
pub struct NamedScript {
    /// The name: that of the workload in the [catalogue](crate::catalogue) where there is one.
    pub name: &'static str,
    /// One line for a list.
    pub about: &'static str,
    write: fn(u64, Pace) -> Written,
    expect: Option<fn(u64, Pace) -> Expected>,
}

/// What a query must have written in the end, in any order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutputFile {
    /// Relative to the SQL file; of one of several equal queries, the first.
    pub path: String,
    /// Its lines.
    pub lines: Vec<String>,
}

impl NamedScript {
    /// The script. The same seed and pace give the same text and lines.
    ///
    /// # Errors
    /// If the pace is impossible.
    pub fn build(&self, seed: u64, pace: Pace) -> Result<Script, WorkloadError> {
        let (sql, inputs) = (self.write)(seed, pace)?;
        Ok(Script { name: self.name, sql, inputs })
    }

    /// What the script must write, worked out without SQL from the same rows; `None` where nobody has written that down.
    ///
    /// # Errors
    /// If the pace is impossible.
    pub fn expected(&self, seed: u64, pace: Pace) -> Result<Option<Vec<OutputFile>>, WorkloadError> {
        self.expect.map(|expect| expect(seed, pace)).transpose()
    }
}

/// The SQL text and the files it reads.
type Written = Result<(String, Vec<InputFile>), WorkloadError>;

type Expected = Result<Vec<OutputFile>, WorkloadError>;

/// All scripts.
pub fn all() -> &'static [NamedScript] {
    &ALL
}

const ALL: [NamedScript; 13] = [
    NamedScript {
        name: "ysb",
        about: "views per campaign in 10 s",
        write: advertising::original,
        expect: Some(advertising::expected_original),
    },
    NamedScript {
        name: "ysb-klink",
        about: "all events in 3 s",
        write: advertising::klink,
        expect: Some(advertising::expected_klink),
    },
    NamedScript {
        name: "nyt",
        about: "mean distance per pickup cell, 2 s by 1 s",
        write: taxi::script,
        expect: None,
    },
    NamedScript {
        name: "linear-road",
        about: "tolls, accidents and what each car is told",
        write: linear_road::correct,
        expect: Some(linear_road::expected),
    },
    NamedScript {
        name: "lrb-klink",
        about: "tolls from windows of 3 s and accidents from 6 s by 3 s",
        write: linear_road::klink,
        expect: None,
    },
    NamedScript {
        name: "ipq1",
        about: "revenue per 1 s",
        write: ipq::revenue,
        expect: Some(ipq::expected_revenue),
    },
    NamedScript {
        name: "ipq2",
        about: "revenue per 1 s, every half",
        write: ipq::revenue_sliding,
        expect: Some(ipq::expected_revenue_sliding),
    },
    NamedScript {
        name: "ipq3",
        about: "events per 1 s",
        write: ipq::events,
        expect: Some(ipq::expected_events),
    },
    NamedScript {
        name: "ipq4",
        about: "two logs joined by 1 s, then summarised",
        write: ipq::errors,
        expect: Some(ipq::expected_errors),
    },
    NamedScript {
        name: "cameo-tenants",
        about: "latency-sensitive queries of 1 s beside bulk ones of 10 s",
        write: ipq::tenants,
        expect: Some(ipq::expected_tenants),
    },
    NamedScript { name: "syn", about: "twenty chains of three filters", write: syn::script, expect: None },
    NamedScript { name: "etl", about: "sensor rows cleaned and annotated", write: riot::etl, expect: None },
    NamedScript { name: "stats", about: "three statistics of sensors", write: riot::stats, expect: None },
];

impl fmt::Debug for Script {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Script").field("name", &self.name).finish_non_exhaustive()
    }
}

impl fmt::Debug for InputFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InputFile").field("path", &self.path).finish_non_exhaustive()
    }
}

impl OutputFile {
    /// Of the first of the queries that [`queries`] writes.
    fn new(name: &str, count: u32, lines: Vec<String>) -> OutputFile {
        OutputFile { path: format!("out/{}.csv", numbered(name, 0, count)), lines }
    }
}

impl InputFile {
    fn new(name: &str, lines: impl Iterator<Item = String> + Send + 'static) -> InputFile {
        InputFile { path: format!("data/{name}.csv"), lines: Box::new(lines) }
    }
}

/// A table that reads `data/NAME.csv` at the pace of its first column, the ingestion time, which is added.
fn source(name: &str, columns: &str, watermark: &str, pace: Pace) -> String {
    let replay = pace.replay.map_or(String::new(), |speed| {
        format!(",\n  'laxity.replay.time-column' = 'ingest_ts', 'laxity.replay.speed' = '{speed}'")
    });
    format!(
        "CREATE TABLE {name} (\n  ingest_ts TIMESTAMP(3), {columns},\n  WATERMARK FOR {watermark}\n) WITH (\n  \
         'connector' = 'filesystem', 'path' = 'data/{name}.csv', 'format' = 'csv'{replay}\n);\n\n"
    )
}

/// The same query so many times, each with a name, a target and a sink `out/NAME.csv` of its own. `select` may be
/// written for the number of the query.
fn queries(
    sql: &mut String,
    name: &str,
    target: &str,
    columns: &str,
    count: u32,
    select: impl Fn(u32) -> String,
) {
    for number in 0..count {
        let own = numbered(name, number, count);
        // Writing to a String cannot fail.
        let _ = write!(
            sql,
            "CREATE TABLE {own} ({columns})\nWITH ('connector' = 'filesystem', 'path' = 'out/{own}.csv', \
             'format' = 'csv');\n\nSET 'pipeline.name' = '{own}';\nSET 'laxity.latency.target' = '{target}';\n\n\
             INSERT INTO {own}\n{};\n\n",
            select(number)
        );
    }
}

fn numbered(name: &str, number: u32, count: u32) -> String {
    if count == 1 { name.to_owned() } else { format!("{name}_{number}") }
}

/// When the rows of an input came in and when they happened, in milliseconds since `DAY_0`; in order of ingestion.
fn times(
    seed: u64,
    pace: Pace,
    delay: Delay,
) -> Result<impl Iterator<Item = (u64, u64)> + Send, WorkloadError> {
    let end_ns = u64::from(pace.seconds) * 1_000_000_000;
    let stream = Stream {
        delay,
        watermarks: Watermarks::None,
        end: Some(ProcessingTime(end_ns)),
        ..Stream::constant(pace.rows_per_s, 1)
    };
    let mut arrivals: Box<dyn Arrivals> = stream.arrivals(seed::derived(seed, 0))?;
    Ok(std::iter::from_fn(move || arrivals.next())
        .map(|arrival| (arrival.at.0 / 1_000_000, arrival.event_time.0.max(0) as u64)))
}

/// Whole seconds as a CSV sink writes them.
fn written_timestamp(s: u64) -> String {
    let mut text = timestamp(s * 1_000);
    text.truncate("2024-01-01 00:00:00".len());
    text
}

/// Counts rows by key in tumbling windows; the key is given as the fields between the times and the count.
fn counted(
    rows: impl Iterator<Item = (u64, String)>,
    window_s: u64,
    line: impl Fn(u64, &str, u64) -> String,
) -> Vec<String> {
    let mut counts: BTreeMap<(u64, String), u64> = BTreeMap::new();
    for (event_ms, key) in rows {
        *counts.entry((event_ms / 1_000 / window_s * window_s, key)).or_default() += 1;
    }
    counts.into_iter().map(|((start_s, key), count)| line(start_s, &key, count)).collect()
}

/// A time as a CSV field: so many milliseconds after the beginning of 2024.
fn timestamp(ms: u64) -> String {
    let (s, ms) = (ms / 1_000, ms % 1_000);
    let (minutes, s) = (s / 60, s % 60);
    let (hours, minutes) = (minutes / 60, minutes % 60);
    let (mut days, hours) = (hours / 24, hours % 24);
    // 2024 is a leap year; longer inputs run into December.
    let mut month = 1;
    for length in [31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30] {
        if days < length {
            break;
        }
        days -= length;
        month += 1;
    }
    format!("2024-{month:02}-{:02} {hours:02}:{minutes:02}:{s:02}.{ms:03}", days + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timestamps_are_those_of_2024() {
        assert_eq!(timestamp(0), "2024-01-01 00:00:00.000");
        assert_eq!(timestamp(3_723_004), "2024-01-01 01:02:03.004");
        assert_eq!(timestamp(59 * 86_400_000), "2024-02-29 00:00:00.000");
        assert_eq!(timestamp(60 * 86_400_000), "2024-03-01 00:00:00.000");
        assert_eq!(timestamp(366 * 86_400_000 - 1), "2024-12-31 23:59:59.999");
    }

    #[test]
    fn times_come_in_order_and_late_by_their_delay() {
        let pace = Pace { rows_per_s: 1_000.0, seconds: 2, ..Pace::default() };
        let rows: Vec<(u64, u64)> = times(1, pace, Delay::KLINK_UNIFORM).unwrap().collect();
        assert_eq!(rows.len(), 2_000);
        assert!(rows.is_sorted_by_key(|row| row.0));
        assert!(rows.iter().all(|&(ingest, event)| (1..=100).contains(&(ingest - event))));
        assert!(!rows.is_sorted_by_key(|row| row.1), "disorder");
    }

    #[test]
    fn every_script_is_whole_and_repeats() {
        let pace = Pace { rows_per_s: 60.0, seconds: 90, replay: Some(2.0), queries: 2 };
        for named in all() {
            let text = |seed| {
                let script = named.build(seed, pace).unwrap();
                let inputs =
                    script.inputs.into_iter().map(|input| (input.path, input.lines.collect::<Vec<_>>()));
                (script.sql, inputs.collect::<Vec<_>>())
            };
            let (sql, inputs) = text(1);
            assert!(
                sql.contains("INSERT INTO") && sql.contains("'laxity.replay.speed' = '2'"),
                "{}",
                named.name
            );
            for (path, lines) in &inputs {
                assert!(sql.contains(path.as_str()), "{}: {path} is read", named.name);
                assert!(lines.len() > 10, "{}: {path}", named.name);
                let fields = |line: &String| line.split(',').count();
                assert!(lines.iter().all(|line| fields(line) == fields(&lines[0])), "{}", named.name);
            }
            assert_eq!((sql, inputs), text(1), "{}", named.name);
            assert_ne!(text(1).1, text(2).1, "{}", named.name);
            for file in named.expected(1, pace).unwrap().into_iter().flatten() {
                let first = file.path.replace("out/", "").replace(".csv", "");
                assert!(text(1).0.contains(&format!("INSERT INTO {first}\n")), "{}: {first}", named.name);
                assert!(!file.lines.is_empty() || first.starts_with("accidents"), "{}: {first}", named.name);
            }
        }
    }
}
