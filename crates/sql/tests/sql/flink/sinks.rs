//! What becomes of a value on its way into a table of another type.

use std::panic::{AssertUnwindSafe, catch_unwind};

use laxity_sql::{SqlFile, compile};

use super::{Differences, folder, same_value, tables, told_by, unescaped};
use crate::driver::run_cells;

#[test]
fn sinks_take_what_flinks_take() {
    let text = std::fs::read_to_string(folder().join("sinks.tsv")).unwrap();
    let lines: Vec<Vec<&str>> =
        text.lines().filter(|line| !line.starts_with('#')).map(|line| line.split('\t').collect()).collect();
    let mut differences = Differences::listed("sinks");
    for cells in &lines {
        let (column, data_type) = (cells[0], cells[1]);
        let flink = match cells[2] {
            "!plan" | "!run" => None,
            _ => Some(cells[2..].iter().map(|cell| unescaped(cell)).collect::<Vec<_>>()),
        };
        let ours = stored(column, data_type);
        let is_same = match (&flink, &ours) {
            (None, Err(_)) => true,
            (Some(flink), Ok(ours)) => {
                flink.len() == ours.len()
                    && flink.iter().zip(ours).all(|(flink, ours)| {
                        let (flink, ours) = (flink.as_deref().map(plain), ours.as_deref().map(plain));
                        same_value(data_type, flink.as_deref(), ours.as_deref())
                    })
            }
            _ => false,
        };
        if !is_same {
            differences.add(&format!("{column} into {data_type}"), || {
                format!("  flink {flink:?}\n  ours  {ours:?}")
            });
        }
    }
    differences.assert_all_listed(lines.len());
}

/// The column of v in a sink of that type, row by row.
fn stored(column: &str, data_type: &str) -> Result<Vec<Option<String>>, String> {
    let text = format!(
        "{} CREATE TABLE o (id INT, x {data_type}) WITH ('connector' = 'blackhole'); INSERT INTO o SELECT id, {column} FROM v;",
        tables()
    );
    let file = SqlFile { path: folder().join("sinks.sql"), text };
    told_by(catch_unwind(AssertUnwindSafe(|| {
        let script = compile(&[file]).map_err(|error| format!("{error}"))?;
        let mut rows = run_cells(&script.queries[0]);
        rows.sort_by_key(|row| row[0].as_ref().and_then(|id| id.parse::<i64>().ok()));
        Ok(rows.into_iter().map(|mut row| row.remove(1)).collect())
    })))
}

/// Bytes of `2024-01-01 00:00:00.000`.
const SHOWN: usize = 23;

/// Without what JSON and Arrow write differently: digits of a fraction that say nothing, `T`, the case of words.
fn plain(text: &str) -> String {
    // The driver shows times in milliseconds.
    let is_time =
        text.len() > SHOWN && text.as_bytes()[10..].starts_with(b" ") && text.as_bytes()[SHOWN - 4] == b'.';
    let text = if is_time { &text[..SHOWN] } else { text };
    let text = match text {
        "True" | "False" => text.to_lowercase(),
        _ => text.replace('T', " "),
    };
    match text.rsplit_once('.') {
        Some((whole, fraction))
            if !fraction.is_empty() && fraction.bytes().all(|byte| byte.is_ascii_digit()) =>
        {
            let fraction = fraction.trim_end_matches('0');
            if fraction.is_empty() { whole.to_owned() } else { format!("{whole}.{fraction}") }
        }
        _ => text,
    }
}
