//! UNNEST. Names and rows are those of Flink's documentation (Joins, "Array, Multiset and Map Expansion") and of its own
//! tests (UnnestITCase, UnnestTest): one row per element, in order; fields of a ROW and entries of a MAP as columns.

use laxity_sql::{SqlFile, compile};

use crate::driver::run;

const TABLES: &str = "
CREATE TABLE e (k STRING, v INT, s STRING, t TIMESTAMP(3), p AS PROCTIME(), WATERMARK FOR t AS t - INTERVAL '2' SECOND)
  WITH ('connector' = 'filesystem', 'path' = 'e.csv', 'format' = 'csv');
CREATE VIEW lists AS SELECT k, v, SPLIT(s, '+') AS tags, ARRAY[v, v * 10] AS pair, t FROM e;
";

const E: &[&str] = &[
    "a,1,x+y,1970-01-01 00:00:01",
    "b,2,,1970-01-01 00:00:02",
    "c,3,z,1970-01-01 00:00:13",
    "d,4,x,1970-01-01 00:00:25",
];

/// The rows, whatever the batches and the parallel copies.
fn check(sql: &str, expected: &[&str]) {
    for parallelism in [1, 3] {
        let text = format!("{TABLES} SET 'parallelism.default' = '{parallelism}'; {sql};");
        let script = compile(&[SqlFile { path: "q.sql".into(), text }])
            .unwrap_or_else(|error| panic!("{error}\n{sql}"));
        for batch_rows in [1, 3, 100] {
            let (rows, late) = run(&script.queries[0], &[("e", E)], batch_rows);
            assert_eq!(rows, expected, "{parallelism} copies, batches of {batch_rows}: {sql}");
            assert!(late.is_empty());
        }
    }
}

#[test]
fn a_row_comes_out_once_for_each_element() {
    for join in [
        "lists CROSS JOIN UNNEST(tags) AS u (tag)",
        "lists, UNNEST(lists.tags) AS u (tag)",
        "lists, LATERAL UNNEST(tags) AS u (tag)",
        "lists JOIN UNNEST(lists.tags) u (tag) ON TRUE",
        "lists, LATERAL (SELECT x AS tag FROM UNNEST(lists.tags) AS i (x)) AS u",
    ] {
        check(&format!("SELECT k, u.tag FROM {join} WHERE tag <> ''"), &["a,x", "a,y", "c,z", "d,x"]);
    }
    check(
        "SELECT * FROM (VALUES ('order_1')) AS o (id), UNNEST(ARRAY['shirt', 'pants', 'hat'])",
        &["order_1,hat", "order_1,pants", "order_1,shirt"],
    );
}

#[test]
fn left_join_keeps_rows_without_elements() {
    let none =
        "(SELECT k, IF(v = 3, CAST(NULL AS ARRAY<INT>), ARRAY_REMOVE(ARRAY[v, 2], 2)) AS l FROM e) AS n";
    check(&format!("SELECT k, x FROM {none} CROSS JOIN UNNEST(l) AS u (x)"), &["a,1", "d,4"]);
    check(
        &format!("SELECT k, x FROM {none} LEFT JOIN UNNEST(l) AS u (x) ON TRUE"),
        &["a,1", "b,", "c,", "d,4"],
    );
    check(&format!("SELECT k FROM {none} LEFT JOIN UNNEST(l) AS u (x) ON TRUE WHERE x IS NULL"), &["b", "c"]);
}

#[test]
fn maps_rows_and_nested_arrays() {
    check(
        "SELECT v, key, `value` FROM e CROSS JOIN UNNEST(MAP[k, v, 'n', v + 1]) AS m (key, `value`) WHERE v < 3",
        &["1,a,1", "1,n,2", "2,b,2", "2,n,3"],
    );
    check("SELECT `KEY`, `VALUE` FROM e, UNNEST(MAP[k, v]) WHERE v = 1", &["a,1"]);
    check(
        "SELECT k, n, r FROM e, UNNEST(ARRAY[ROW(v, 'one'), ROW(v + 1, 'two')]) AS u (n, r) WHERE u.n > 4",
        &["d,5,two"],
    );
    check(
        "SELECT k, x FROM lists, UNNEST(ARRAY[pair, pair]) AS o (l), UNNEST(o.l) AS i (x) WHERE v = 2",
        &["b,2", "b,2", "b,20", "b,20"],
    );
}

#[test]
fn ordinality_counts_from_one() {
    // Of the documentation.
    check(
        "SELECT * FROM (VALUES ('order_1'), ('order_2')) AS o (id) CROSS JOIN \
         UNNEST(ARRAY['shirt', 'pants', 'hat']) WITH ORDINALITY AS t (product_name, `index`)",
        &[
            "order_1,hat,3",
            "order_1,pants,2",
            "order_1,shirt,1",
            "order_2,hat,3",
            "order_2,pants,2",
            "order_2,shirt,1",
        ],
    );
    check("SELECT `EXPR$0`, ORDINALITY FROM UNNEST(ARRAY[7, 8]) WITH ORDINALITY", &["7,1", "8,2"]);
    check("SELECT * FROM UNNEST(MAP['a', 1]) WITH ORDINALITY", &["a,1,1"]);
}

#[test]
fn conditions_and_lateral_queries_filter_the_elements() {
    check("SELECT k, x FROM lists JOIN UNNEST(pair) AS u (x) ON x > v * 5 AND v < 3", &["a,10", "b,20"]);
    check(
        "SELECT k, y, z FROM lists, LATERAL (SELECT x + 1, 'c' FROM UNNEST(pair) AS u (x) WHERE x > lists.v) AS w (y, z) \
         WHERE y <> 21",
        &["a,11,c", "c,31,c", "d,41,c"],
    );
    // A name that both sides have.
    check("SELECT u.k, lists.k FROM lists CROSS JOIN UNNEST(pair) AS u (k) WHERE u.k < 3", &["1,a", "2,b"]);
}

#[test]
fn times_and_windows_go_through() {
    check(
        "CREATE VIEW u AS SELECT x, t FROM lists CROSS JOIN UNNEST(tags) AS u (x);
         SELECT x, window_end, COUNT(*) FROM TABLE(TUMBLE(TABLE u, DESCRIPTOR(t), INTERVAL '20' SECOND))
         GROUP BY x, window_start, window_end",
        &[
            "x,1970-01-01 00:00:20.000,1",
            "x,1970-01-01 00:00:40.000,1",
            "y,1970-01-01 00:00:20.000,1",
            "z,1970-01-01 00:00:20.000,1",
        ],
    );
    check(
        "SELECT x, window_end, SUM(v) FROM TABLE(HOP(TABLE lists, DESCRIPTOR(t), INTERVAL '10' SECOND, INTERVAL '20' SECOND))
         CROSS JOIN UNNEST(tags) AS u (x) WHERE x = 'x' GROUP BY x, window_start, window_end",
        &[
            "x,1970-01-01 00:00:10.000,1",
            "x,1970-01-01 00:00:20.000,1",
            "x,1970-01-01 00:00:30.000,4",
            "x,1970-01-01 00:00:40.000,4",
        ],
    );
    // The row of c, of which nothing is left, holds the session open for that of d.
    check(
        "SELECT window_start, COUNT(*) FROM TABLE(SESSION(TABLE lists, DESCRIPTOR(t), INTERVAL '13' SECOND))
         CROSS JOIN UNNEST(ARRAY_REMOVE(pair, 3)) AS u (x) WHERE x < 5 GROUP BY window_start, window_end",
        &["1970-01-01 00:00:01.000,3"],
    );
    check("SELECT k, x FROM e CROSS JOIN UNNEST(ARRAY[p]) AS u (x) WHERE x IS NULL", &[]);
}

#[test]
fn what_is_not_read_is_not_repeated() {
    let text =
        format!("{TABLES} EXPLAIN SELECT k, x FROM lists CROSS JOIN UNNEST(tags) AS u (x) WHERE v > 1;");
    let script = compile(&[SqlFile { path: "q.sql".into(), text }]).unwrap();
    assert!(script.explanations[0].contains("unnest tags"), "{}", script.explanations[0]);
    assert!(script.explanations[0].contains("where v > 1"), "{}", script.explanations[0]);
}
