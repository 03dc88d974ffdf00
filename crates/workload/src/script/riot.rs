//! ETL and STATS of RIoTBench as SQL, over made-up sensors.

use rand_distr::{Distribution, StandardUniform};

use super::{InputFile, Pace, Written, queries, source, times, timestamp};
use crate::{Delay, WorkloadError, seed};

/// Range checks, annotation and printing of ETL. Left out: the Bloom filter (all sensors are known), the interpolation of
/// what was out of range, and the join of a message's six parts, which are columns here.
pub(super) fn etl(seed: u64, pace: Pace) -> Written {
    let mut sql = sensors(pace);
    // Bounds of the public configuration.
    let checked: Vec<String> = [
        ("temperature", "0.7", "35.1"),
        ("humidity", "20.3", "69.1"),
        ("light", "0", "5153"),
        ("dust", "83.36", "3322.67"),
        ("airquality", "12", "49"),
    ]
    .map(|(name, low, high)| format!("  CASE WHEN {name} BETWEEN {low} AND {high} THEN {name} END AS {name}"))
    .into();
    sql.push_str(&format!(
        "CREATE VIEW in_range AS\nSELECT event_ts, sensor,\n{}\nFROM sensors;\n\n",
        checked.join(",\n")
    ));
    queries(&mut sql, "annotated", "1 s", "event_ts TIMESTAMP(3), senml STRING", pace.queries, |_| {
        let field = |name: &str, label: &str| format!("IFNULL(CAST({name} AS STRING), 'null'), '{label}'");
        format!(
            "SELECT event_ts, CONCAT('{{\"bn\":\"', sensor, '\",\"city\":\"', CASE WHEN MOD(CHAR_LENGTH(sensor), 2) = 0 \
                 THEN 'north' ELSE 'south' END, '\",\"temperature\":', {}, {}, {}, {}, {})\nFROM in_range",
            field("temperature", ",\"humidity\":"),
            field("humidity", ",\"light\":"),
            field("light", ",\"dust\":"),
            field("dust", ",\"airquality\":"),
            field("airquality", "}"),
        )
    });
    Ok((sql, vec![rows(seed, pace)?]))
}

/// The statistics of STATS that are aggregates: mean, second moment and approximate distinct count per sensor and 10 s.
/// Left out: the Kalman filter with its regression.
pub(super) fn stats(seed: u64, pace: Pace) -> Written {
    let mut sql = sensors(pace);
    queries(
        &mut sql,
        "statistics",
        "1 s",
        "window_end TIMESTAMP(3), sensor STRING, mean_temperature DOUBLE, second_moment DOUBLE, lights BIGINT",
        pace.queries,
        |_| {
            "SELECT window_end, sensor, AVG(temperature), SUM(humidity * humidity), APPROX_COUNT_DISTINCT(CAST(light AS INT))\nFROM \
             TABLE(TUMBLE(TABLE sensors, DESCRIPTOR(event_ts), INTERVAL '10' SECOND))\nGROUP BY window_start, window_end, \
             sensor"
                .into()
        },
    );
    Ok((sql, vec![rows(seed, pace)?]))
}

fn sensors(pace: Pace) -> String {
    let columns = "event_ts TIMESTAMP(3), sensor STRING, longitude DOUBLE, latitude DOUBLE,\n  temperature DOUBLE, \
                   humidity DOUBLE, light DOUBLE, dust DOUBLE, airquality DOUBLE";
    source("sensors", columns, "event_ts AS event_ts - INTERVAL '0.1' SECOND", pace)
}

/// Made-up readings of 90 sensors, as many as the sample file of the benchmark has; about one in twenty is out of range.
fn rows(seed: u64, pace: Pace) -> Result<InputFile, WorkloadError> {
    let mut rng = seed::generator(seed, 1);
    let lines = times(seed, pace, Delay::KLINK_UNIFORM)?.map(move |(ingest, event)| {
        let mut unit = || -> f64 { StandardUniform.sample(&mut rng) };
        let sensor = (unit() * 90.0) as u32;
        // From a little below the lower bound to a little above the upper one.
        let mut reading = |low: f64, high: f64| low + (unit() * 1.05 - 0.025) * (high - low);
        let temperature = reading(0.7, 35.1);
        let (humidity, light) = (reading(20.3, 69.1), reading(0.0, 5_153.0));
        let (dust, airquality) = (reading(83.36, 3_322.67), reading(12.0, 49.0));
        format!(
            "{},{},sensor{sensor},{:.4},{:.4},{temperature:.1},{humidity:.1},{light:.0},{dust:.2},{airquality:.0}",
            timestamp(ingest),
            timestamp(event),
            -58.0 - f64::from(sensor) / 100.0,
            -34.0 - f64::from(sensor) / 50.0
        )
    });
    Ok(InputFile::new("sensors", lines))
}
