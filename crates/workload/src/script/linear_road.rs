//! Linear Road as SQL, as far as append-only queries can say it. The expected answers are those of [`Rules`].

use super::{Expected, InputFile, OutputFile, Pace, Written, queries, source, timestamp, written_timestamp};
use crate::linear_road::{Answer, Report, ReportKind, Rules, Traffic};
use crate::seed;

/// Tolls, accidents and what each car is told, by the benchmark's own windows. What cannot be said with append-only SQL
/// is left out: account balances and the history of expenditures ([`crate::linear_road::Rules`] has them).
///
/// `pace.rows_per_s` chooses how many cars there are: about so many reports per second after twenty minutes.
pub(super) fn correct(seed: u64, pace: Pace) -> Written {
    let mut sql = reports(pace);
    sql.push_str(
        "-- Minutes of a segment: distinct cars, and the average speed of the five minutes up to its end.
CREATE VIEW cars AS
SELECT window_start, window_end, window_time, xway, dir, seg, COUNT(DISTINCT vid) AS cars
FROM TABLE(TUMBLE(TABLE reports, DESCRIPTOR(event_ts), INTERVAL '1' MINUTE))
GROUP BY window_start, window_end, window_time, xway, dir, seg;

CREATE VIEW speeds_of_five AS
SELECT window_time AS speed_time, xway, dir, seg, FLOOR(AVG(CAST(speed AS DOUBLE)) + 0.5) AS lav
FROM TABLE(HOP(TABLE reports, DESCRIPTOR(event_ts), INTERVAL '1' MINUTE, INTERVAL '5' MINUTE))
GROUP BY window_start, window_end, window_time, xway, dir, seg;

CREATE VIEW speeds AS
SELECT window_start, window_end, xway, dir, seg, MAX(lav) AS lav
FROM TABLE(TUMBLE(TABLE speeds_of_five, DESCRIPTOR(speed_time), INTERVAL '1' MINUTE))
GROUP BY window_start, window_end, xway, dir, seg;

-- A car stands if its last four reports, of two minutes, name one place; two cars that do are an accident.
CREATE VIEW standing AS
SELECT window_start, window_end, window_time, xway, dir, seg, lane, pos, vid
FROM TABLE(HOP(TABLE reports, DESCRIPTOR(event_ts), INTERVAL '1' MINUTE, INTERVAL '2' MINUTE))
GROUP BY window_start, window_end, window_time, xway, dir, seg, lane, pos, vid
HAVING COUNT(*) >= 4;

CREATE VIEW accidents AS
SELECT window_end, window_time AS accident_time, xway, dir, seg, lane, pos
FROM standing
GROUP BY window_start, window_end, window_time, xway, dir, seg, lane, pos
HAVING COUNT(*) >= 2;

-- The segment of an accident and the four before it.
CREATE VIEW zones AS
SELECT accident_time, xway, dir, seg FROM accidents
UNION ALL SELECT accident_time, xway, dir, CASE WHEN dir = 0 THEN seg - 1 ELSE seg + 1 END FROM accidents
UNION ALL SELECT accident_time, xway, dir, CASE WHEN dir = 0 THEN seg - 2 ELSE seg + 2 END FROM accidents
UNION ALL SELECT accident_time, xway, dir, CASE WHEN dir = 0 THEN seg - 3 ELSE seg + 3 END FROM accidents
UNION ALL SELECT accident_time, xway, dir, CASE WHEN dir = 0 THEN seg - 4 ELSE seg + 4 END FROM accidents;

CREATE VIEW closed AS
SELECT window_start, window_end, xway, dir, seg, COUNT(*) AS accidents
FROM TABLE(TUMBLE(TABLE zones, DESCRIPTOR(accident_time), INTERVAL '1' MINUTE))
GROUP BY window_start, window_end, xway, dir, seg;

-- What a segment costs in the minute that begins at window_end.
CREATE VIEW segment_tolls AS
SELECT c.window_time AS toll_time, c.window_end AS window_end, c.xway AS xway, c.dir AS dir, c.seg AS seg, c.cars AS cars,
  s.lav AS lav,
  CASE WHEN c.cars > 50 AND s.lav < 40 AND z.accidents IS NULL THEN 2 * (c.cars - 50) * (c.cars - 50) ELSE 0 END AS toll
FROM cars c
JOIN speeds s ON c.window_start = s.window_start AND c.window_end = s.window_end
  AND c.xway = s.xway AND c.dir = s.dir AND c.seg = s.seg
LEFT JOIN closed z ON c.window_start = z.window_start AND c.window_end = z.window_end
  AND c.xway = z.xway AND c.dir = z.dir AND c.seg = z.seg;

-- A car enters a segment if its report of 30 s before was from another one, or if it is its first.
CREATE VIEW entering AS
SELECT b.event_ts AS event_ts, b.vid AS vid, b.xway AS xway, b.dir AS dir, b.seg AS seg
FROM reports a, reports b
WHERE a.vid = b.vid AND b.event_ts BETWEEN a.event_ts + INTERVAL '29' SECOND AND a.event_ts + INTERVAL '30' SECOND
  AND a.seg <> b.seg AND b.lane <> 4
UNION ALL
SELECT event_ts, vid, xway, dir, seg FROM reports WHERE lane = 0;

",
    );
    queries(
        &mut sql,
        "tolls",
        "5 s",
        "minute_begins TIMESTAMP(3), xway INT, dir INT, seg INT, cars BIGINT, lav INT, toll BIGINT",
        pace.queries,
        |_| "SELECT window_end, xway, dir, seg, cars, CAST(lav AS INT), toll FROM segment_tolls".into(),
    );
    queries(
        &mut sql,
        "accidents_seen",
        "5 s",
        "minute_begins TIMESTAMP(3), xway INT, dir INT, seg INT, lane INT, pos INT",
        pace.queries,
        |_| "SELECT window_end, xway, dir, seg, lane, pos FROM accidents".into(),
    );
    queries(
        &mut sql,
        "told",
        "5 s",
        "event_ts TIMESTAMP(3), vid INT, lav INT, toll BIGINT",
        pace.queries,
        |_| {
            "SELECT e.event_ts, e.vid, CAST(t.lav AS INT), t.toll\nFROM entering e, segment_tolls t\nWHERE e.xway = t.xway AND \
             e.dir = t.dir AND e.seg = t.seg\n  AND e.event_ts BETWEEN t.toll_time + INTERVAL '0.001' SECOND AND t.toll_time \
             + INTERVAL '60' SECOND"
                .into()
        },
    );
    Ok((sql, vec![rows(seed, pace)]))
}

/// The query of the Klink evaluation with the windows of its authors' public file: 3 s, tolls joined with accidents by
/// segment. Accidents are looked for in 6 s by 3 s: the paper's 5 s is no multiple of the slide, which Flink wants.
pub(super) fn klink(seed: u64, pace: Pace) -> Written {
    let mut sql = reports(pace);
    sql.push_str(
        "CREATE VIEW speeds AS
SELECT window_start, window_end, window_time, xway, seg, AVG(CAST(speed AS DOUBLE)) AS speed
FROM TABLE(TUMBLE(TABLE reports, DESCRIPTOR(event_ts), INTERVAL '3' SECOND))
GROUP BY window_start, window_end, window_time, xway, seg;

CREATE VIEW vehicles AS
SELECT window_start, window_end, xway, seg, COUNT(DISTINCT vid) AS cars
FROM TABLE(TUMBLE(TABLE reports, DESCRIPTOR(event_ts), INTERVAL '3' SECOND))
GROUP BY window_start, window_end, xway, seg;

CREATE VIEW standing AS
SELECT window_time AS standing_time, xway, seg
FROM TABLE(HOP(TABLE reports, DESCRIPTOR(event_ts), INTERVAL '3' SECOND, INTERVAL '6' SECOND))
WHERE speed = 0
GROUP BY window_start, window_end, window_time, xway, seg, pos
HAVING COUNT(*) >= 2;

CREATE VIEW accidents AS
SELECT window_start, window_end, xway, seg, COUNT(*) AS accidents
FROM TABLE(TUMBLE(TABLE standing, DESCRIPTOR(standing_time), INTERVAL '3' SECOND))
GROUP BY window_start, window_end, xway, seg;

",
    );
    queries(
        &mut sql,
        "short_tolls",
        "1 s",
        "window_end TIMESTAMP(3), xway INT, seg INT, toll BIGINT",
        pace.queries,
        |_| {
            "SELECT v.window_end, v.xway, v.seg,\n  CASE WHEN v.cars > 50 AND s.speed < 40 AND a.accidents IS NULL THEN 2 * \
             (v.cars - 50) * (v.cars - 50) ELSE 0 END\nFROM vehicles v\nJOIN speeds s ON v.window_start = s.window_start AND \
             v.window_end = s.window_end AND v.xway = s.xway AND v.seg = s.seg\nLEFT JOIN accidents a ON v.window_start = \
             a.window_start AND v.window_end = a.window_end AND v.xway = a.xway AND v.seg = a.seg"
                .into()
        },
    );
    Ok((sql, vec![rows(seed, pace)]))
}

/// What [`Rules`] finds in the same reports. Right where the input is a whole number of minutes: the windows of a minute
/// that was cut off do not see what stands.
pub(super) fn expected(seed: u64, pace: Pace) -> Expected {
    let mut rules = Rules::new(0);
    let mut told = Vec::new();
    for report in positions(seed, pace) {
        let minute = report.time_s / 60 + 1;
        for answer in rules.answer(&report) {
            let Answer::Toll { vid, time_s, lav, toll } = answer else { continue };
            // The queries know only segments in which somebody was in the minute before.
            if rules.cars_in(report.xway, report.direction, report.segment, minute - 1) > 0 {
                told.push(format!("{},{vid},{lav},{toll}", written_timestamp(u64::from(time_s))));
            }
        }
    }
    let minutes = pace.seconds.div_ceil(60);
    let mut tolls = Vec::new();
    let mut accidents = Vec::new();
    for minute in 1..=minutes {
        let begins = written_timestamp(u64::from(minute) * 60);
        for (xway, dir, seg) in segments(&traffic(pace)) {
            let cars = rules.cars_in(xway, dir, seg, minute);
            if cars > 0 {
                let lav = rules.average_speed(xway, dir, seg, minute + 1);
                let toll = rules.toll(xway, dir, seg, minute + 1);
                tolls.push(format!("{begins},{xway},{dir},{seg},{cars},{lav},{toll}"));
            }
        }
        for (xway, dir, lane, seg, pos) in rules.accidents_at_end_of(minute) {
            accidents.push(format!("{begins},{xway},{dir},{seg},{lane},{pos}"));
        }
    }
    let file = |name: &str, lines| OutputFile::new(name, pace.queries, lines);
    Ok(vec![file("tolls", tolls), file("accidents_seen", accidents), file("told", told)])
}

fn segments(traffic: &Traffic) -> impl Iterator<Item = (u32, u32, u32)> + use<> {
    let ways = (0..traffic.expressways).flat_map(|xway| [(xway, 0), (xway, 1)]);
    ways.flat_map(|(xway, dir)| (0..100).map(move |seg| (xway, dir, seg)))
}

fn positions(seed: u64, pace: Pace) -> impl Iterator<Item = Report> + use<> {
    let reports = traffic(pace).reports(seed::derived(seed, 0));
    reports.filter(|report| report.kind == ReportKind::Position)
}

fn reports(pace: Pace) -> String {
    let columns = "event_ts TIMESTAMP(3), vid INT, speed INT, xway INT, lane INT, dir INT, seg INT, pos INT";
    // Many reports share a second, and a row as old as the watermark is late.
    source("reports", columns, "event_ts AS event_ts - INTERVAL '0.001' SECOND", pace)
}

/// Position reports as they are made: this benchmark has no delays. At full traffic there are about 1 200 per second.
fn rows(seed: u64, pace: Pace) -> InputFile {
    let lines = positions(seed, pace).map(|r| {
        let time = timestamp(u64::from(r.time_s) * 1_000);
        format!(
            "{time},{time},{},{},{},{},{},{},{}",
            r.vid, r.speed, r.xway, r.lane, r.direction, r.segment, r.position
        )
    });
    InputFile::new("reports", lines)
}

fn traffic(pace: Pace) -> Traffic {
    Traffic { seconds: pace.seconds, cars: pace.rows_per_s / 1_200.0, ..Traffic::default() }
}
