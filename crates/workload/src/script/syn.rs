use rand_distr::{Distribution, Uniform};

use super::{InputFile, Pace, Written, source, times, timestamp};
use crate::syn::Syn;
use crate::{Delay, seed};

/// The queries of SYN with the selectivities of its seed-0 table: each filter compares a number that is drawn anew for
/// it. Costs are not kept: a thousand multiplications per row are no SQL. `pace.queries` is not used; there are twenty.
pub(super) fn script(seed: u64, pace: Pace) -> Written {
    let columns = "event_ts TIMESTAMP(3), a INT, b INT, c INT, payload STRING";
    let mut sql = source("tuples", columns, "event_ts AS event_ts - INTERVAL '0.001' SECOND", pace);
    for (number, query) in Syn::default().table().iter().enumerate() {
        let thresholds: Vec<u32> = query
            .filters
            .iter()
            .map(|filter| (filter.selectivity.min(1.0) * f64::from(RANGE)) as u32)
            .collect();
        // Numbers are moved on by the query's own step, so that queries let different rows pass.
        let passes = |column: &str, threshold: u32| {
            format!("MOD({column} + {}, {RANGE}) < {threshold}", number as u32 * 7_919 % RANGE)
        };
        let [a, b, c] = ["a", "b", "c"].map(|column| {
            let index = usize::from(column.as_bytes()[0] - b'a');
            passes(column, thresholds.get(index).copied().unwrap_or(RANGE))
        });
        sql.push_str(&format!(
            "CREATE TABLE syn_{number} (event_ts TIMESTAMP(3), a INT, b INT, c INT, payload STRING)\nWITH ('connector' = \
             'blackhole');\n\nSET 'pipeline.name' = 'syn_{number}';\nSET 'laxity.latency.target' = '1 s';\n\nINSERT INTO \
             syn_{number}\nSELECT event_ts, a, b, c, payload\nFROM (SELECT * FROM (SELECT * FROM tuples WHERE {a}) WHERE \
             {b})\nWHERE {c};\n\n"
        ));
    }
    let mut rng = seed::generator(seed, 1);
    let lines = times(seed, pace, Delay::NONE)?.map(move |(ingest, event)| {
        let mut drawn = || Uniform::new(0, RANGE).map_or(0, |uniform| uniform.sample(&mut rng));
        let (a, b, c) = (drawn(), drawn(), drawn());
        // Ten longs.
        format!("{},{},{a},{b},{c},{}", timestamp(ingest), timestamp(event), "x".repeat(80))
    });
    Ok((sql, vec![InputFile::new("tuples", lines)]))
}

/// Fine enough for the four digits of the table.
const RANGE: u32 = 100_000;
