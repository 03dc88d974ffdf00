//! Lookup joins over real files: rows that meet the table, a table that changes while the query runs, and one that is
//! gone.

use std::path::Path;
use std::time::Duration;

use laxity_graph::ProcessingTime;
use laxity_operators::{Emitted, Flow, InstanceContext, Operator, Outbox, Stage, StreamBatch};
use laxity_sql::{PlannedQuery, SqlFile, compile};

use crate::driver::run_cells;

/// A query over orders.csv and dim.csv of a folder.
fn query(folder: &Path, sql: &str) -> PlannedQuery {
    let text = format!(
        "CREATE TABLE orders (k INT, v INT, p AS PROCTIME())
         WITH ('connector' = 'filesystem', 'path' = 'orders.csv', 'format' = 'csv');
         CREATE TABLE dim (k BIGINT, name STRING, twice AS k * 2, since AS PROCTIME())
         WITH ('connector' = 'filesystem', 'path' = 'dim.csv', 'format' = 'csv',
               'lookup.full-cache.periodic-reload.interval' = '10 ms');
         {sql}"
    );
    let file = SqlFile { path: folder.join("q.sql"), text };
    compile(&[file]).unwrap_or_else(|error| panic!("{error}")).queries.remove(0)
}

fn folder(orders: &str, dim: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("orders.csv"), orders).unwrap();
    std::fs::write(folder.path().join("dim.csv"), dim).unwrap();
    folder
}

fn rows(query: &PlannedQuery) -> Vec<String> {
    let text =
        |row: Vec<Option<String>>| row.into_iter().map(|c| c.unwrap_or("-".into())).collect::<Vec<_>>();
    run_cells(query).into_iter().map(|row| text(row).join(",")).collect()
}

#[test]
fn rows_meet_the_table() {
    let folder = folder("1,10\n2,20\n,30\n4,40\n", "1,one\n4,four\n4,vier\n,none\n");
    let check =
        |sql: &str, expected: &[&str]| assert_eq!(rows(&query(folder.path(), sql)), expected, "{sql}");
    check(
        "SELECT o.v, d.name FROM orders AS o JOIN dim FOR SYSTEM_TIME AS OF o.p AS d ON o.k = d.k;",
        &["10,one", "40,four", "40,vier"],
    );
    check(
        "SELECT o.v, d.twice FROM orders AS o LEFT JOIN dim FOR SYSTEM_TIME AS OF o.p AS d
         ON o.k = d.k AND d.name <> 'one';",
        &["10,-", "20,-", "30,-", "40,8", "40,8"],
    );
    check(
        "SELECT o.v, d.name FROM orders AS o, dim FOR SYSTEM_TIME AS OF o.p AS d
         WHERE o.k = d.k AND o.v > d.twice + 30;",
        &["40,four", "40,vier"],
    );
    // Without an alias, through a view, and a table beside another.
    check(
        "CREATE VIEW w AS SELECT v AS x, k AS y, p AS q FROM orders WHERE v < 40;
         SELECT x, dim.name, e.name FROM w JOIN dim FOR SYSTEM_TIME AS OF q ON y = dim.k
         LEFT JOIN dim FOR SYSTEM_TIME AS OF w.q AS e ON e.k = w.x - 6;",
        &["10,one,four", "10,one,vier"],
    );
    check(
        "SELECT v, name FROM orders JOIN dim FOR SYSTEM_TIME AS OF orders.p ON v < 20 AND twice > 2;",
        &["10,four", "10,vier"],
    );
}

#[test]
fn a_changed_file_is_taken_while_the_query_runs() {
    let folder = folder("1,10\n", "1,one\n");
    let query = query(
        folder.path(),
        "SELECT o.v, d.name FROM orders AS o JOIN dim FOR SYSTEM_TIME AS OF o.p AS d ON o.k = d.k;",
    );
    let Stage::Source { operator, scan, .. } = &query.dataflow.nodes()[0].stage else { panic!() };
    let context = InstanceContext { instance: 0, parallelism: 1, batch_rows: 8 };
    let mut operator = operator.make(&context).unwrap();
    let schema = scan.table.schema.project(&scan.columns).unwrap();
    let mut joined = || {
        let column = || std::sync::Arc::new(arrow::array::Int32Array::from(vec![1])) as _;
        let columns = schema.fields().iter().map(|_| column()).collect();
        let rows = arrow::array::RecordBatch::try_new(std::sync::Arc::new(schema.clone()), columns).unwrap();
        names(operator.as_mut(), StreamBatch::on_time(rows))
    };
    assert_eq!(joined(), ["one"]);
    std::fs::write(folder.path().join("next"), "1,eins\n1,uno\n").unwrap();
    std::fs::rename(folder.path().join("next"), folder.path().join("dim.csv")).unwrap();
    for tries in 0.. {
        if joined() != ["one"] {
            break;
        }
        assert!(tries < 4_000, "the new file was never read");
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(joined(), ["eins", "uno"]);
}

fn names(operator: &mut dyn Operator, batch: StreamBatch) -> Vec<String> {
    let mut out = Outbox::default();
    assert_eq!(operator.on_batch(0, batch, ProcessingTime::ZERO, &mut out).unwrap(), Flow::Done);
    let mut names = vec![];
    for emitted in out.emitted {
        let Emitted::Batch { batch, .. } = emitted else { continue };
        let column = batch.rows.column(1).clone();
        names.extend(arrow::array::AsArray::as_string::<i32>(&column).iter().flatten().map(String::from));
    }
    names
}

#[test]
fn what_cannot_be_read_is_said_when_the_query_starts() {
    let folder = folder("1,10\n", "1,one\n");
    let sql = "SELECT name FROM orders JOIN dim FOR SYSTEM_TIME AS OF orders.p ON orders.k = dim.k;";
    let query = query(folder.path(), sql);
    assert_eq!(query.lookups.len(), 1);
    assert!(query.paths.iter().any(|place| place.path.ends_with("dim.csv")));
    std::fs::remove_file(folder.path().join("dim.csv")).unwrap();
    let Stage::Source { operator, .. } = &query.dataflow.nodes()[0].stage else { panic!() };
    let made = operator.make(&InstanceContext { instance: 0, parallelism: 1, batch_rows: 8 });
    let error = made.err().unwrap().to_string();
    assert!(error.starts_with("LookupJoin: cannot open"), "{error}");
}
