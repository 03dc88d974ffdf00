//! Aion over rows whose event and arrival times, and values, were observed: departures of a year, and taxi trips, which are
//! drawn from those of the same hour of the week.

use std::io::Read;
use std::path::{Path, PathBuf};

use chrono::{Datelike, NaiveDateTime, Timelike};
use flate2::read::GzDecoder;
use laxity_operators::approximate::{Aggregate, Arrival, Grid, Span};

use super::configurations::{kept_of, missed_text, range};
use super::trial::{Query, Windows, on_all_cores};
use super::workload::{LESSONS, Stream, dice};
use super::{METHODS, PAPER, Place, TARGETS, chart, push, table};
use crate::{Axis, Data, ExperimentError, Figure, Marks, Run, Series, Verdict};

pub(super) const FIGURE: Figure = Figure {
    name: "aion-real",
    title: "delays and values that were observed",
    paper: PAPER,
    section: "§4.2",
    says: "Nothing: its delays are drawn from laws, independent of values and hours. Wanted is what is asked of aion-all.",
    notes: "Departures: every flight that left New York's airports in 2013, due at its scheduled time, known when it left; windows of \
            a day every four hours, which overlap, and so do their errors: the Wilson interval is of fewer than are counted. Trips: \
            by yellow taxi, begun at pickup, known at dropoff; windows of an hour through twelve weeks, each with four times the \
            240 000 observed in two years at that hour of the week, drawn with replacement; of those paid with 0 to 500 dollars, and \
            of all, wrong entries of up to 429 491 dollars among them. Long trips are late and dear: late rows do differ. Delays are \
            minutes and hours here: what a row costs to compute is nothing beside.",
    run,
    judge,
};

const HOUR_MS: i64 = 3_600_000;
const DAY_MS: i64 = 24 * HOUR_MS;
const WEEK_MS: i64 = 7 * DAY_MS;

/// Weeks of trips: two thousand windows.
const WEEKS: i64 = 12;

/// An hour of them has so many times those that were observed at it: 5 700, about half of what the city has.
const TIMES: usize = 4;

/// A file, and what is asked of it.
struct Input {
    name: &'static str,
    file: &'static str,
    read: fn(&str) -> Option<Arrival>,
    /// Rows that count.
    keeps: fn(f64) -> bool,
    grid: Grid,
    aggregate: Aggregate,
    /// Where its rows lie; a week of them is drawn from again and again.
    span_ms: (i64, i64),
    is_drawn: bool,
}

fn inputs() -> [Input; 5] {
    let days = Grid::new(DAY_MS / 6, 0, Span::Fixed(DAY_MS));
    let hours = Grid::new(HOUR_MS, 0, Span::Fixed(HOUR_MS));
    // 2013-01-01 and 2014-01-01.
    let year = (1_356_998_400_000, 1_388_534_400_000);
    let departures = |name, aggregate| Input {
        name,
        file: "departures.csv.gz",
        read: departure,
        keeps: |_| true,
        grid: days,
        aggregate,
        span_ms: year,
        is_drawn: false,
    };
    let trips = |name, aggregate, keeps| Input {
        name,
        file: "trips.csv.gz",
        read: trip,
        keeps,
        grid: hours,
        aggregate,
        span_ms: (0, WEEKS * WEEK_MS),
        is_drawn: true,
    };
    let is_fare = |usd: f64| usd > 0.0 && usd < 500.0;
    [
        departures("departures SUM", Aggregate::Sum(0)),
        departures("departures AVG", Aggregate::Average(0)),
        trips("trips SUM", Aggregate::Sum(0), is_fare),
        trips("trips AVG", Aggregate::Average(0), is_fare),
        trips("trips unfiltered SUM", Aggregate::Sum(0), |_| true),
    ]
}

/// `ingest_ts,event_ts,…,distance_mi`.
fn departure(line: &str) -> Option<Arrival> {
    let mut cells = line.split(',');
    let (at_ms, time_ms) = (unix_ms(cells.next()?)?, unix_ms(cells.next()?)?);
    Some(Arrival { at_ms, time_ms, group: 0, value: cells.next_back()?.parse().ok()? })
}

/// `pickup_ts,trip_s,total_usd`, laid onto one week.
fn trip(line: &str) -> Option<Arrival> {
    let mut cells = line.split(',');
    let pickup = time(cells.next()?)?;
    let days = i64::from(pickup.weekday().num_days_from_monday());
    let time_ms = days * DAY_MS + i64::from(pickup.num_seconds_from_midnight()) * 1_000;
    let at_ms = time_ms + cells.next()?.parse::<i64>().ok()? * 1_000;
    Some(Arrival { at_ms, time_ms, group: 0, value: cells.next()?.parse().ok()? })
}

fn time(text: &str) -> Option<NaiveDateTime> {
    NaiveDateTime::parse_from_str(text, "%Y-%m-%d %H:%M:%S").ok()
}

fn unix_ms(text: &str) -> Option<i64> {
    Some(time(text)?.and_utc().timestamp_millis())
}

impl Input {
    fn path(&self, folder: &Path) -> PathBuf {
        folder.join(self.file)
    }

    /// Its rows by arrival, and its windows but the first, which teach, and the last, whose rows are not all there; at small
    /// scale the first twenty of them.
    fn stream(&self, run: &Run) -> Result<Stream, ExperimentError> {
        let path = self.path(&run.data);
        let failed = |detail: String| ExperimentError::Input { path: path.clone(), detail };
        let bytes = std::fs::read(&path).map_err(|error| failed(error.to_string()))?;
        let mut text = String::new();
        GzDecoder::new(&bytes[..]).read_to_string(&mut text).map_err(|error| failed(error.to_string()))?;
        let mut arrivals = Vec::new();
        for (line, number) in text.lines().zip(1..).skip(1) {
            let row = (self.read)(line).ok_or_else(|| failed(format!("line {number} is no row: {line}")))?;
            if (self.keeps)(row.value) {
                arrivals.push(row);
            }
        }
        let Span::Fixed(length_ms) = self.grid.span else { unreachable!("windows of one length") };
        let from = self.grid.end_after(self.span_ms.0) + length_ms + LESSONS * self.grid.step_ms;
        let windows = (self.span_ms.1 - from) / self.grid.step_ms;
        let to = from + run.pick(windows, 20.min(windows)) * self.grid.step_ms;
        let until = to + 2 * length_ms;
        if self.is_drawn {
            arrivals = drawn(&arrivals, until, run.seed)?;
        }
        arrivals.retain(|row| row.time_ms < until);
        arrivals.sort_by_key(|row| row.at_ms);
        Ok(Stream { arrivals, counted: (from, to) })
    }
}

/// Rows up to that time, of each hour drawn from those of the same hour of the week.
fn drawn(of_week: &[Arrival], until_ms: i64, seed: u64) -> Result<Vec<Arrival>, ExperimentError> {
    let mut hours = vec![Vec::new(); (WEEK_MS / HOUR_MS) as usize];
    for row in of_week {
        hours[(row.time_ms / HOUR_MS) as usize].push(*row);
    }
    let mut dice = dice(seed)?;
    let mut rows = Vec::new();
    for (hour, number) in hours.iter().cycle().zip(0..until_ms / HOUR_MS) {
        let since_ms = number * HOUR_MS / WEEK_MS * WEEK_MS;
        for _ in 0..TIMES * hour.len() {
            let row = hour[(dice() * hour.len() as f64) as usize];
            rows.push(Arrival { at_ms: row.at_ms + since_ms, time_ms: row.time_ms + since_ms, ..row });
        }
    }
    Ok(rows)
}

fn run(run: &Run) -> Result<Data, ExperimentError> {
    let inputs = inputs();
    let of_inputs = on_all_cores(inputs.len(), |number| {
        let input = &inputs[number];
        let stream = input.stream(run)?;
        let query =
            Query { grid: input.grid, aggregate: input.aggregate, row_ms: (0.0, false), seed: run.seed };
        let mut of_methods = query.answers(&METHODS, &stream);
        of_methods.iter_mut().for_each(Windows::sort);
        Ok(of_methods)
    });
    let of_inputs: Vec<Vec<Windows>> = of_inputs.into_iter().collect::<Result<_, ExperimentError>>()?;
    let mut table = table();
    let mut latencies: Vec<Series> = METHODS.map(|method| Series::new(method.name(), vec![])).to_vec();
    let names = ["within 5 %", "Wilson low", "sampling rate", "unbounded", "kept or disowned"];
    let mut kept: Vec<Series> = names.map(|name| Series::new(name, vec![])).to_vec();
    for (number, (input, of_methods)) in inputs.iter().zip(&of_inputs).enumerate() {
        let x = number as f64;
        for ((method, windows), series) in METHODS.into_iter().zip(of_methods).zip(&mut latencies) {
            // As they come.
            let place = Place { input: input.name, delays: "observed", rate: 0.0 };
            push(&mut table, place, method, windows);
            series.points.push((x, windows.mean_latency_ms() / 60e3));
        }
        let [.., aion] = &of_methods[..] else { unreachable!("there are methods") };
        let honest = 1.0 - aion.lies() as f64 / aion.count() as f64;
        for (series, y) in kept.iter_mut().zip(kept_of(aion).into_iter().chain([honest])) {
            series.points.push((x, y));
        }
    }
    let x = Axis::names("", inputs.map(|input| input.name));
    let latency = chart(x.clone(), "mean latency (min)", Marks::Bars, latencies);
    let kept = chart(x, "share of Aion's windows, of their rows", Marks::Bars, kept);
    Ok(Data { table, charts: vec![latency.named("latency"), kept.named("kept")] })
}

fn judge(data: &Data) -> Verdict {
    let (latency, kept) = (data.chart("latency"), data.chart("kept"));
    let names = &latency.x.categories;
    let at = |name: &str, place: usize| kept.series(name).at(place as f64).unwrap_or(f64::NAN);
    let minutes = |name: &str, place: usize| latency.series(name).at(place as f64).unwrap_or(f64::NAN);
    let (mut sees, mut missed, mut direction) = (Vec::new(), Vec::new(), Vec::new());
    for (place, name) in names.iter().enumerate() {
        let lower = |than: &str| 1.0 - minutes("Aion", place) / minutes(than, place);
        sees.push(format!(
            "{name}: {:.1} min after a window's end (Default {:.0}, AQ-K-Slack {:.1}), within 5 % in {:.1} %, {:.1} % of rows, \
             {:.1} % own to more",
            minutes("Aion", place),
            minutes("Default", place),
            minutes("AQ-K-Slack", place),
            100.0 * at("within 5 %", place),
            100.0 * at("sampling rate", place),
            100.0 * at("unbounded", place),
        ));
        direction.push(lower("Default") > 0.0);
        for (than, target) in TARGETS {
            if lower(than) < target {
                missed.push(format!("{name} {:.1} % below {than}", 100.0 * lower(than)));
            }
        }
        if at("Wilson low", place) < 0.95 {
            let kept = 100.0 * at("kept or disowned", place);
            missed.push(format!("{name} within 5 % (kept or disowned {kept:.1} %)"));
        }
    }
    let honest = range((0..names.len()).map(|place| at("kept or disowned", place)));
    let sees = format!("{}; kept or disowned {honest}{}", sees.join("; "), missed_text(&missed));
    Verdict::sized(sees, &direction, &[missed.is_empty()])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_both_files_are_read() {
        let line = "2013-01-01 10:17:00,2013-01-01 10:15:00,UA,1545,N14228,EWR,IAH,2,11,227,1400";
        let row = departure(line).unwrap();
        assert_eq!((row.at_ms - row.time_ms, row.value), (120_000, 1400.0));
        assert_eq!(row.time_ms, 1_356_998_400_000 + 615 * 60_000);
        // A Monday.
        let row = trip("2018-01-01 00:05:12,125,5.8").unwrap();
        assert_eq!((row.time_ms, row.at_ms, row.value), (312_000, 437_000, 5.8));
        let row = trip("2019-12-31 23:59:59,1,-3").unwrap();
        assert_eq!((row.time_ms, row.value), (2 * DAY_MS - 1_000, -3.0));
        assert!(departure("ingest_ts,event_ts").is_none() && trip("2018-01-01 00:05:12,x,5").is_none());
    }

    #[test]
    fn an_hour_is_drawn_from_the_same_hour_of_the_week() {
        let row = |hour: i64| Arrival {
            at_ms: hour * HOUR_MS + 9,
            time_ms: hour * HOUR_MS,
            group: 0,
            value: hour as f64,
        };
        let rows = drawn(&[row(0), row(0), row(5), row(167)], WEEK_MS + 6 * HOUR_MS, 1).unwrap();
        let hours: Vec<i64> = rows.iter().map(|row| row.time_ms / HOUR_MS).collect();
        let repeated = |hour, times| std::iter::repeat_n(hour, times);
        let expected = [(0, 8), (5, 4), (167, 4), (168, 8), (173, 4)];
        assert_eq!(
            hours,
            expected.into_iter().flat_map(|(hour, times)| repeated(hour, times)).collect::<Vec<_>>()
        );
        assert!(
            rows.iter()
                .all(|row| row.at_ms - row.time_ms == 9 && row.value as i64 == row.time_ms / HOUR_MS % 168)
        );
    }

    #[test]
    fn a_file_that_is_not_there_is_said_with_where_it_should_be() {
        let run = Run { data: "nowhere".into(), scale: crate::Scale::Small, seed: 1 };
        let error = inputs()[0].stream(&run).map(|_| ()).unwrap_err().to_string();
        assert!(error.contains("nowhere/departures.csv.gz") && error.contains("--data"), "{error}");
    }
}
