use rand_distr::{Distribution, Exp, LogNormal, StandardUniform};

use super::{InputFile, Pace, Written, queries, source, times, timestamp};
use crate::{Delay, WorkloadError, seed};

/// Mean trip distance per pickup cell over 2 s, every second, after the stateless steps of the workload. The grid is
/// that of DEBS 2015, at 250 m: 0.0022457 degrees of latitude, 0.0029930 of longitude at New York.
pub(super) fn script(seed: u64, pace: Pace) -> Written {
    let columns = "dropoff_ts TIMESTAMP(3), medallion STRING, trip_time_s INT, trip_distance_mi DOUBLE,\n  \
                   pickup_lon DOUBLE, pickup_lat DOUBLE, dropoff_lon DOUBLE, dropoff_lat DOUBLE,\n  \
                   payment_type STRING, fare DOUBLE, tip DOUBLE, tolls DOUBLE, total DOUBLE";
    let mut sql = source("trips", columns, "dropoff_ts AS dropoff_ts - INTERVAL '0.1' SECOND", pace);
    sql.push_str(
        "CREATE VIEW cells AS\nSELECT dropoff_ts, trip_distance_mi, total,\n  \
         CAST(FLOOR((41.474937 - pickup_lat) / 0.0022457) AS INT) AS pickup_y,\n  \
         CAST(FLOOR((pickup_lon + 74.913583) / 0.0029930) AS INT) AS pickup_x,\n  \
         CAST(FLOOR((41.474937 - dropoff_lat) / 0.0022457) AS INT) AS dropoff_y,\n  \
         CAST(FLOOR((dropoff_lon + 74.913583) / 0.0029930) AS INT) AS dropoff_x\nFROM trips;\n\n\
         CREATE VIEW on_the_grid AS\nSELECT dropoff_ts, pickup_x, pickup_y, trip_distance_mi\nFROM cells\nWHERE \
         pickup_x BETWEEN 0 AND 599 AND pickup_y BETWEEN 0 AND 599\n  AND dropoff_x BETWEEN 0 AND 599 AND dropoff_y \
         BETWEEN 0 AND 599 AND total > 0;\n\n",
    );
    queries(
        &mut sql,
        "mean_distances",
        "1 s",
        "window_end TIMESTAMP(3), pickup_x INT, pickup_y INT, trips BIGINT, mean_distance_mi DOUBLE",
        pace.queries,
        |_| {
            "SELECT window_end, pickup_x, pickup_y, COUNT(*), AVG(trip_distance_mi)\nFROM TABLE(HOP(TABLE on_the_grid, \
             DESCRIPTOR(dropoff_ts), INTERVAL '1' SECOND, INTERVAL '2' SECOND))\nGROUP BY window_start, window_end, \
             pickup_x, pickup_y"
                .into()
        },
    );
    Ok((sql, vec![rows(seed, pace)?]))
}

/// Made-up trips: around Manhattan, most of them short; one in fifty without coordinates, as in the real data.
fn rows(seed: u64, pace: Pace) -> Result<InputFile, WorkloadError> {
    let mut rng = seed::generator(seed, 1);
    // Median 1.7 miles, as yellow cabs have it; the spread is ours.
    let distance = LogNormal::new(0.53, 0.75).ok();
    let spread = Exp::new(40.0).ok();
    let times = times(seed, pace, Delay::KLINK_UNIFORM)?;
    let lines = times.map(move |(ingest, event)| {
        let mut unit = || -> f64 { StandardUniform.sample(&mut rng) };
        let (is_lost, cab, tip) = (unit() < 0.02, (unit() * 13_000.0) as u32, unit() * 0.3);
        let (is_west, is_south, pays_card) = (unit() < 0.5, unit() < 0.5, unit() < 0.6);
        let mut off = || spread.map_or(0.0, |spread| spread.sample(&mut rng));
        let mut point = || {
            let (dx, dy) = (off(), off());
            let lon = -73.98 + if is_west { -dx } else { dx };
            let lat = 40.75 + if is_south { -dy } else { dy };
            if is_lost { (0.0, 0.0) } else { (lon, lat) }
        };
        let (from, to) = (point(), point());
        let miles: f64 = distance.map_or(1.7, |distance| distance.sample(&mut rng));
        let fare = 2.5 + 2.5 * miles;
        let tip = if pays_card { fare * tip } else { 0.0 };
        format!(
            "{},{},cab{cab},{},{miles:.2},{:.6},{:.6},{:.6},{:.6},{},{fare:.2},{tip:.2},0.00,{:.2}",
            timestamp(ingest),
            timestamp(event),
            // 12 mph.
            (miles * 300.0) as u32,
            from.0,
            from.1,
            to.0,
            to.1,
            if pays_card { "CRD" } else { "CSH" },
            fare + tip
        )
    });
    Ok(InputFile::new("trips", lines))
}
