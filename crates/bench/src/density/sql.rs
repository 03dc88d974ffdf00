//! A cell as the text that a user would write: `laxity run` can run it too.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{BufWriter, Write as _};
use std::path::Path;

use anyhow::Context;

use super::cell::{Cell, Ends, Input, Tables, Urgent};

/// Target of the heavy queries.
pub const HEAVY_TARGET_MS: u64 = 10_000;

/// Keys of the heavy queries.
const KEYS: u64 = 10_000;

/// Names of urgent queries begin so.
pub const URGENT: &str = "urgent";

/// Names of heavy queries begin so.
pub const HEAVY: &str = "heavy";

/// The SQL of a cell. Replayed tables name `urgent.csv` and `heavy.csv` in `folder`.
pub fn text(cell: &Cell, folder: &Path) -> String {
    let mut sql = format!("-- Cell {} of laxity-bench density.\n\n", cell.name);
    let input = |input: Input, rows_per_s: u64, file: &str| match input {
        Input::Generated => format!("'connector' = 'datagen', 'rows-per-second' = '{rows_per_s}'"),
        Input::Replayed { tick_ms } => format!(
            "'connector' = 'filesystem', 'path' = '{}', 'format' = 'csv', \
             'laxity.replay.time-column' = 'ts', 'laxity.replay.tick' = '{tick_ms} ms'",
            folder.join(file).display()
        ),
    };
    let urgent = &cell.urgent;
    let of = |query: usize, tables: Tables| if tables == Tables::Own { query } else { 0 };
    sql.push_str(
        "CREATE TABLE counts (window_end TIMESTAMP(3), n BIGINT) WITH ('connector' = 'blackhole');\n\n",
    );
    let _ = writeln!(sql, "SET 'laxity.latency.target' = '{} ms';\n", urgent.target_ms);
    for query in 0..urgent.queries {
        let table = of(query, urgent.tables);
        if table == query {
            let with = input(urgent.input, urgent.rows_per_s, "urgent.csv");
            create(&mut sql, &format!("{URGENT}_{table}"), "v", &with);
        }
        let _ = writeln!(
            sql,
            "SET 'pipeline.name' = '{URGENT} {query}';\n\
             INSERT INTO counts SELECT window_end, COUNT(*)\n\
             FROM TABLE(TUMBLE(TABLE {URGENT}_{table}, DESCRIPTOR(ts), {}{}))\n\
             GROUP BY window_start, window_end;\n",
            interval(urgent.window_ms),
            match offset_ms(urgent, query) {
                0 => String::new(),
                offset_ms => format!(", {}", interval(offset_ms)),
            }
        );
    }
    let heavy = &cell.heavy;
    if heavy.queries > 0 {
        let _ = writeln!(sql, "SET 'laxity.latency.target' = '{HEAVY_TARGET_MS} ms';\n");
    }
    for query in 0..heavy.queries {
        let table = of(query, heavy.tables);
        if table == query {
            let mut with = input(heavy.input, heavy.rows_per_s, "heavy.csv");
            if heavy.input == Input::Generated {
                let _ = write!(with, ", 'fields.k.min' = '0', 'fields.k.max' = '{}'", KEYS - 1);
            }
            create(&mut sql, &format!("{HEAVY}_{table}"), "k", &with);
        }
        let _ = writeln!(
            sql,
            "SET 'pipeline.name' = '{HEAVY} {query}';\n\
             INSERT INTO counts SELECT window_end, COUNT(DISTINCT k)\n\
             FROM TABLE(HOP(TABLE {HEAVY}_{table}, DESCRIPTOR(ts), INTERVAL '1' SECOND, INTERVAL '5' SECOND))\n\
             GROUP BY window_start, window_end;\n"
        );
    }
    sql
}

/// Writes the files that [`text`] names, long enough for `seconds`; none if nothing is replayed.
///
/// # Errors
/// If the folder cannot be written.
pub fn write_input(cell: &Cell, folder: &Path, seconds: f64) -> anyhow::Result<()> {
    for (input, rows_per_s, name) in [
        (cell.urgent.input, cell.urgent.rows_per_s, "urgent.csv"),
        (cell.heavy.input, cell.heavy.rows_per_s, "heavy.csv"),
    ] {
        if input == Input::Generated {
            continue;
        }
        fs::create_dir_all(folder).context("cannot make the scratch folder")?;
        let path = folder.join(name);
        let mut file =
            BufWriter::new(File::create(&path).with_context(|| format!("cannot write {}", path.display()))?);
        for row in 0..(seconds * rows_per_s as f64) as u64 {
            let ms = row * 1_000 / rows_per_s;
            // Multiplied by a prime, so that neighbours are not neighbours in a hash table.
            let key = row * 7_919 % KEYS;
            let (minute, second, ms) = (ms / 60_000, ms / 1_000 % 60, ms % 1_000);
            writeln!(file, "{key},2026-01-01 00:{minute:02}:{second:02}.{ms:03}")?;
        }
        file.flush()?;
    }
    Ok(())
}

/// By how much the windows of a query are shifted.
pub fn offset_ms(urgent: &Urgent, query: usize) -> u64 {
    match urgent.ends {
        Ends::Together => 0,
        Ends::Staggered => query as u64 * urgent.window_ms / urgent.queries as u64,
    }
}

/// The watermark is Flink's for rows in order: a row with the same millisecond as the last one is not late.
fn create(sql: &mut String, table: &str, column: &str, with: &str) {
    let _ = writeln!(
        sql,
        "CREATE TABLE {table} ({column} BIGINT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '0.001' SECOND)\n\
         WITH ({with});"
    );
}

fn interval(ms: u64) -> String {
    format!("INTERVAL '{}.{:03}' SECOND", ms / 1_000, ms % 1_000)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::density::cell::Heavy;
    use crate::queries::compile;

    fn cell(tables: Tables, ends: Ends, input: Input) -> Cell {
        Cell {
            name: "test".into(),
            urgent: Urgent { queries: 4, tables, window_ms: 100, ends, target_ms: 50, rows_per_s: 20, input },
            heavy: Heavy { queries: 2, tables, rows_per_s: 1_000, input },
        }
    }

    #[test]
    fn every_cell_is_flink_sql_that_compiles() {
        for tables in [Tables::Own, Tables::Shared] {
            for ends in [Ends::Staggered, Ends::Together] {
                for input in [Input::Generated, Input::Replayed { tick_ms: 10 }] {
                    let sql = text(&cell(tables, ends, input), Path::new("/nowhere"));
                    let script = compile(&sql).unwrap();
                    let seen: Vec<(&str, u64)> = script
                        .queries
                        .iter()
                        .map(|query| &query.dataflow.settings)
                        .map(|settings| (settings.name.as_str(), settings.latency_target.ns() / 1_000_000))
                        .collect();
                    let expected = [
                        ("urgent 0", 50),
                        ("urgent 1", 50),
                        ("urgent 2", 50),
                        ("urgent 3", 50),
                        ("heavy 0", 10_000),
                        ("heavy 1", 10_000),
                    ];
                    assert_eq!(seen, expected);
                    let tables_made = sql.matches("CREATE TABLE").count() - 1;
                    assert_eq!(tables_made, if tables == Tables::Own { 6 } else { 2 });
                    assert_eq!(sql.contains("INTERVAL '0.075' SECOND"), ends == Ends::Staggered, "{sql}");
                }
            }
        }
    }

    #[test]
    fn replayed_rows_come_at_their_rate() {
        let folder = std::env::temp_dir().join(format!("laxity-density-sql-{}", std::process::id()));
        let cell = cell(Tables::Own, Ends::Together, Input::Replayed { tick_ms: 10 });
        write_input(&cell, &folder, 2.0).unwrap();
        let rows = fs::read_to_string(folder.join("urgent.csv")).unwrap();
        fs::remove_dir_all(&folder).unwrap();
        // 20 rows/s: one every 50 ms.
        assert_eq!(rows.lines().count(), 40);
        assert_eq!(rows.lines().nth(21), Some("6299,2026-01-01 00:00:01.050"));
    }
}
