//! Rows of queries that window, rank and join, with a watermark behind every row.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

use laxity_operators::Stage;
use laxity_sql::{SqlFile, compile};

use super::{Differences, folder, kept_precision, same_value, told_by, type_name, unescaped};
use crate::driver::run_cells;

/// The types of a query's columns, and its rows.
#[derive(Debug)]
struct Rows {
    types: Vec<String>,
    rows: Vec<Vec<Option<String>>>,
}

#[test]
fn queries_have_flinks_rows() {
    let cases = cases("queries.tsv");
    let mut differences = Differences::listed("queries");
    let tables = tables();
    for (query, flink) in &cases {
        let ours = ask(&tables, query);
        let said = match (flink, &ours) {
            (None, Err(_)) => continue,
            (Some(flink), Ok(ours)) if same(flink, ours) => continue,
            (None, Ok(_)) => "  flink refuses or fails".to_string(),
            (Some(_), Err(reason)) => format!("  ours  ! {reason}"),
            (Some(flink), Ok(ours)) => difference(flink, ours),
        };
        differences.add(query, || said);
    }
    differences.assert_all_listed(cases.len());
}

fn ask(tables: &str, query: &str) -> Result<Rows, String> {
    let names = query.matches(" AS c").count();
    // A limit stands around everything, so that its columns are texts already.
    let is_limited = query.ends_with("ROWS ONLY");
    let items: Vec<String> = (0..names).map(|at| format!("c{at}, CAST(c{at} AS STRING) AS t{at}")).collect();
    let text = match is_limited {
        true => format!("{tables} {query};"),
        false => format!("{tables} SELECT {} FROM ({query});", items.join(", ")),
    };
    let file = SqlFile { path: folder().join("queries.sql"), text };
    told_by(catch_unwind(AssertUnwindSafe(|| {
        let script = compile(&[file]).map_err(|error| format!("{error}"))?;
        let query = &script.queries[0];
        let sink = query.dataflow.nodes().iter().find_map(|node| match &node.stage {
            Stage::Sink(sink) => Some(sink.table.schema.clone()),
            _ => None,
        });
        let sink = sink.expect("a query has a sink");
        let (first, step) = if is_limited { (0, 1) } else { (1, 2) };
        let types = (0..names).map(|at| type_name(sink.field(step * at).data_type())).collect();
        let texts = |row: Vec<Option<String>>| row.into_iter().skip(first).step_by(step).collect();
        Ok(Rows { types, rows: run_cells(query).into_iter().map(texts).collect() })
    })))
}

/// Rows in any order: those of Flink's are in that of their texts.
fn same(flink: &Rows, ours: &Rows) -> bool {
    if flink.types != ours.types || flink.rows.len() != ours.rows.len() {
        return false;
    }
    let mut left: Vec<&Vec<Option<String>>> = ours.rows.iter().collect();
    flink.rows.iter().all(|row| {
        let equal = |other: &Vec<Option<String>>| {
            let mut cells = flink.types.iter().zip(row).zip(other);
            cells.all(|((data_type, flink), ours)| same_value(data_type, flink.as_deref(), ours.as_deref()))
        };
        let at = left.iter().position(|other| equal(other));
        at.map(|at| left.swap_remove(at)).is_some()
    })
}

/// Rows that one has and the other has not.
fn difference(flink: &Rows, ours: &Rows) -> String {
    if flink.types != ours.types {
        return format!("  flink {:?}\n  ours  {:?}", flink.types, ours.types);
    }
    let mut counts: BTreeMap<String, i64> = BTreeMap::new();
    for (rows, by) in [(&flink.rows, 1), (&ours.rows, -1)] {
        for row in rows {
            let cells: Vec<&str> = row.iter().map(|cell| cell.as_deref().unwrap_or("\\N")).collect();
            *counts.entry(cells.join("|")).or_default() += by;
        }
    }
    let shown = counts.into_iter().filter(|(_, by)| *by != 0);
    shown
        .map(|(row, by)| format!("  {} {row}", if by > 0 { "flink" } else { "ours " }))
        .take(12)
        .collect::<Vec<_>>()
        .join("\n")
}

/// Each query with what Flink said. `None`: refused, or failed.
fn cases(file: &str) -> Vec<(String, Option<Rows>)> {
    let text = std::fs::read_to_string(folder().join(file)).unwrap();
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines
        .map(|line| {
            let mut cells = line.split('\t');
            let query = cells.next().unwrap().to_string();
            let flink = match cells.next().unwrap() {
                "!plan" | "!run" => None,
                types => Some(Rows {
                    types: split_types(types).map(|name| kept_precision(&name)).collect(),
                    rows: cells.map(|row| row.split('|').map(unescaped).collect()).collect(),
                }),
            };
            (query, flink)
        })
        .collect()
}

/// `INT, DECIMAL(10, 2)`: two.
fn split_types(types: &str) -> impl Iterator<Item = String> {
    let mut depth = 0;
    let parts = types.split(move |char| {
        depth += i32::from("(<".contains(char)) - i32::from(")>".contains(char));
        char == ',' && depth == 0
    });
    parts.map(|part| part.trim().to_string()).collect::<Vec<_>>().into_iter()
}

/// As `queries.py` declares them.
fn tables() -> String {
    std::fs::read_to_string(folder().join("streams.sql")).unwrap().replace("DATA/", "data/")
}
