//! The queries of `examples/nexmark`, over 250 events of the connector: those that Flink was given in a file.

use std::path::PathBuf;

use laxity_sql::{SqlFile, compile};
use regex::Regex;

use super::{folder, unescaped};
use crate::driver::run_cells;

/// Ten events in a second, so that there are several windows, and small.
const EVENTS: &str = "WITH ('connector' = 'nexmark', 'events.num' = '250', 'first-event.rate' = '10', 'person.avg-size' = '90b', \
                      'auction.avg-size' = '60b', 'bid.avg-size' = '50b', 'laxity.nexmark.base-time' = '2024-01-01 17:59:50')";

fn examples() -> PathBuf {
    folder().join("../../examples/nexmark")
}

fn tables(with: &str) -> String {
    example("tables", with)
}

/// A file of the examples, its generator's options replaced.
fn example(name: &str, with: &str) -> String {
    let text = std::fs::read_to_string(examples().join(format!("{name}.sql"))).unwrap();
    let options = Regex::new(r"WITH \('connector' = 'nexmark'.*?\)").unwrap();
    options.replace_all(&text, with).into_owned()
}

fn rows(tables: &str, query: &str) -> Vec<Vec<Option<String>>> {
    let text = format!("{tables}{query}");
    let script = compile(&[SqlFile { path: examples().join("nexmark.sql"), text }]);
    let script = script.unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(script.queries.len(), 1);
    let mut rows = run_cells(&script.queries[0]);
    rows.sort();
    rows
}

#[test]
fn nexmark_has_flinks_rows() {
    let text = std::fs::read_to_string(folder().join("nexmark.tsv")).unwrap();
    let mut count = 0;
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let mut cells = line.split('\t');
        let name = cells.next().unwrap();
        let mut flink: Vec<Vec<Option<String>>> =
            cells.map(|row| row.split('|').map(unescaped).collect()).collect();
        flink.sort();
        // Few auctions are divisible by 123.
        assert!(!flink.is_empty() || name == "q2", "{name} says nothing");
        assert_eq!(rows(&tables(EVENTS), &example(name, EVENTS)), flink, "{name}");
        count += 1;
    }
    assert!(count >= 12, "{count} queries of Nexmark");
}

#[test]
fn every_example_of_nexmark_runs() {
    for entry in std::fs::read_dir(examples()).unwrap() {
        let path = entry.unwrap().path();
        let is_query = path.extension().is_some_and(|extension| extension == "sql");
        if is_query && path.file_name().unwrap() != "tables.sql" {
            let name = path.file_stem().unwrap().to_str().unwrap();
            let events = if name == "q2" { EVENTS.replace("'250'", "'2000'") } else { EVENTS.to_owned() };
            let rows = rows(&tables(&events), &example(name, &events));
            assert!(!rows.is_empty(), "{}", path.display());
        }
    }
}

/// The generator's events are the same in every version: those in the file that Flink read.
#[test]
fn events_are_those_of_the_file() {
    const SINK: &str = "INSERT INTO o SELECT event_type, person, auction, bid FROM datagen;";
    let with = "WITH ('connector' = 'filesystem', 'path' = '../../tests/flink/data/nexmark.jsonl', 'format' = 'json')";
    let sink = |tables: &str| {
        let columns = &tables[tables.find("event_type").unwrap()..tables.find("`dateTime` AS").unwrap()];
        let columns = columns.trim().trim_end_matches(',');
        format!("CREATE TABLE o ({columns}) WITH ('connector' = 'blackhole'); {SINK}")
    };
    let (made, read) = (tables(EVENTS), tables(with));
    assert_eq!(rows(&made, &sink(&made)), rows(&read, &sink(&read)));
}
