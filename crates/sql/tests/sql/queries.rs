//! Whole queries: rows in, rows out. Most run with batches of several sizes and with parallel copies, which must not
//! change a row.

use laxity_sql::{CompileOptions, SqlFile, compile, compile_with};

use crate::driver::{Tables, run, run_in_order};

const TABLES: &str = "
CREATE TABLE e (k STRING, v INT, t TIMESTAMP(3), WATERMARK FOR t AS t - INTERVAL '2' SECOND)
  WITH ('connector' = 'filesystem', 'path' = 'e.csv', 'format' = 'csv');
CREATE TABLE r (k STRING, w BIGINT, u TIMESTAMP(3), WATERMARK FOR u AS u)
  WITH ('connector' = 'filesystem', 'path' = 'r.csv', 'format' = 'csv');
CREATE TABLE late (k STRING, v INT, window_end TIMESTAMP(3)) WITH ('connector' = 'print');
";

const E: &[&str] = &[
    "a,1,1970-01-01 00:00:01",
    "b,2,1970-01-01 00:00:04",
    "a,4,1970-01-01 00:00:03",
    "a,,1970-01-01 00:00:09",
    "b,7,1970-01-01 00:00:11",
    "a,8,1970-01-01 00:00:12",
    // The watermark before this row is 10 s, so its window of 10 s has closed.
    "a,100,1970-01-01 00:00:05",
    "b,3,1970-01-01 00:00:21",
];
const R: &[&str] = &["a,10,1970-01-01 00:00:02", "c,20,1970-01-01 00:00:03", "b,30,1970-01-01 00:00:12"];

/// The rows must not depend on batches or parallel copies.
fn check(sql: &str, expected: &[&str]) {
    check_late(sql, expected, &[]);
}

fn check_late(sql: &str, expected: &[&str], expected_late: &[&str]) {
    let tables: Tables = &[("e", E), ("r", R)];
    for parallelism in [1, 3] {
        let text = format!("{TABLES} SET 'parallelism.default' = '{parallelism}'; {sql}");
        let file = SqlFile { path: "q.sql".into(), text };
        let script = compile(&[file]).unwrap_or_else(|error| panic!("{error}"));
        for batch_rows in [1, 3, 100] {
            let (rows, late) = run(&script.queries[0], tables, batch_rows);
            assert_eq!(rows, expected, "{parallelism} copies, batches of {batch_rows}: {sql}");
            assert_eq!(late, expected_late, "{parallelism} copies, batches of {batch_rows}: {sql}");
        }
    }
}

const TUMBLE: &str = "TABLE(TUMBLE(TABLE e, DESCRIPTOR(t), INTERVAL '10' SECOND))";

#[test]
fn filter_and_project() {
    check("SELECT k, v * 2 AS x FROM e WHERE v > 3", &["a,16", "a,200", "a,8", "b,14"]);
    check("SELECT k FROM e WHERE FALSE", &[]);
}

#[test]
fn tumbling_windows_count_rows_and_skip_nulls() {
    // AVG of 1 and 4 is 2: an INT, cut towards zero. The row of 100 comes too late.
    check(
        &format!(
            "SELECT k, COUNT(*), COUNT(v), SUM(v), AVG(v), MIN(v), MAX(v) FROM {TUMBLE} GROUP BY k, window_start, window_end"
        ),
        &["a,1,1,8,8,8,8", "a,3,2,5,2,1,4", "b,1,1,2,2,2,2", "b,1,1,3,3,3,3", "b,1,1,7,7,7,7"],
    );
    check(
        &format!(
            "SELECT window_start, window_end, window_time, COUNT(*) FROM {TUMBLE} GROUP BY window_start, window_end, window_time"
        ),
        &[
            "1970-01-01 00:00:00.000,1970-01-01 00:00:10.000,1970-01-01 00:00:09.999,4",
            "1970-01-01 00:00:10.000,1970-01-01 00:00:20.000,1970-01-01 00:00:19.999,2",
            "1970-01-01 00:00:20.000,1970-01-01 00:00:30.000,1970-01-01 00:00:29.999,1",
        ],
    );
}

#[test]
fn filters_distinct_and_having() {
    check(
        &format!(
            "SELECT window_end, COUNT(DISTINCT k), COUNT(*) FILTER (WHERE v > 1), SUM(v) FROM {TUMBLE} \
             WHERE k <> 'z' GROUP BY window_start, window_end HAVING COUNT(*) > 1"
        ),
        &["1970-01-01 00:00:10.000,2,2,7", "1970-01-01 00:00:20.000,2,2,15"],
    );
    check(
        &format!("SELECT DISTINCT k, window_start, window_end FROM {TUMBLE} WHERE v < 5"),
        &[
            "a,1970-01-01 00:00:00.000,1970-01-01 00:00:10.000",
            "b,1970-01-01 00:00:00.000,1970-01-01 00:00:10.000",
            "b,1970-01-01 00:00:20.000,1970-01-01 00:00:30.000",
        ],
    );
}

#[test]
fn hop_and_cumulate() {
    // [-10, 10): 4 rows; [0, 20): 4 + 2 + the row of 100, late for the first window alone; [10, 30): 3; [20, 40): 1.
    check(
        "SELECT window_end, COUNT(*) FROM TABLE(HOP(TABLE e, DESCRIPTOR(t), INTERVAL '10' SECOND, INTERVAL '20' SECOND)) \
         GROUP BY window_start, window_end",
        &[
            "1970-01-01 00:00:10.000,4",
            "1970-01-01 00:00:20.000,7",
            "1970-01-01 00:00:30.000,3",
            "1970-01-01 00:00:40.000,1",
        ],
    );
    check(
        "SELECT window_end, SUM(v) FROM TABLE(CUMULATE(DATA => TABLE e, TIMECOL => DESCRIPTOR(t), \
         STEP => INTERVAL '5' SECOND, SIZE => INTERVAL '10' SECOND)) WHERE v < 50 GROUP BY window_start, window_end",
        &[
            "1970-01-01 00:00:05.000,7",
            "1970-01-01 00:00:10.000,7",
            "1970-01-01 00:00:15.000,15",
            "1970-01-01 00:00:20.000,15",
            "1970-01-01 00:00:25.000,3",
            "1970-01-01 00:00:30.000,3",
        ],
    );
}

#[test]
fn sessions() {
    check(
        "SELECT k, window_start, COUNT(*) FROM TABLE(SESSION(TABLE e PARTITION BY k, DESCRIPTOR(t), INTERVAL '3' SECOND)) \
         WHERE k = 'b' GROUP BY k, window_start, window_end",
        &["b,1970-01-01 00:00:04.000,1", "b,1970-01-01 00:00:11.000,1", "b,1970-01-01 00:00:21.000,1"],
    );
}

#[test]
fn late_rows_go_to_the_side() {
    check_late(
        &format!(
            "SET 'laxity.late.table' = 'late'; SELECT COUNT(*) FROM {TUMBLE} GROUP BY window_start, window_end"
        ),
        &["1", "2", "4"],
        &["1970-01-01 00:00:05.000,a,100"],
    );
}

#[test]
fn joins() {
    let windows = |kind: &str| {
        format!(
            "SELECT l.k, n, w FROM (SELECT k, window_start, window_end, COUNT(*) AS n FROM {TUMBLE} \
             GROUP BY k, window_start, window_end) l {kind} JOIN TABLE(TUMBLE(TABLE r, DESCRIPTOR(u), INTERVAL '10' \
             SECOND)) r ON l.k = r.k AND l.window_start = r.window_start AND l.window_end = r.window_end"
        )
    };
    check(&windows(""), &["a,3,10", "b,1,30"]);
    check(&windows("LEFT"), &["a,1,", "a,3,10", "b,1,", "b,1,", "b,1,30"]);
    check(&windows("FULL"), &[",,20", "a,1,", "a,3,10", "b,1,", "b,1,", "b,1,30"]);
    check(
        "SELECT e.k, v, w FROM e, r WHERE e.k = r.k AND t BETWEEN u - INTERVAL '1' SECOND AND u + INTERVAL '1' SECOND",
        &["a,1,10", "a,4,10", "b,7,30"],
    );
}

#[test]
fn top_n_and_deduplication() {
    check(
        &format!(
            "SELECT k, v, rn FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end ORDER BY v DESC) AS rn \
             FROM {TUMBLE}) WHERE rn <= 2"
        ),
        &["a,4,1", "a,8,1", "b,2,2", "b,3,1", "b,7,2"],
    );
    check(
        &format!(
            "SELECT k, v FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end, k ORDER BY t ASC) AS rn \
             FROM {TUMBLE}) WHERE rn = 1"
        ),
        &["a,1", "a,8", "b,2", "b,3", "b,7"],
    );
}

#[test]
fn values_are_gathered_in_windows() {
    let per_window =
        |select: &str| format!("SELECT k, {select} FROM {TUMBLE} GROUP BY window_start, window_end, k");
    check(
        &per_window("FIRST_VALUE(v), LAST_VALUE(v), LISTAGG(CAST(v AS STRING), '-'), PERCENTILE(v, 0.5)"),
        &["a,1,4,1-4,2.5", "a,8,8,8,8.0", "b,2,2,2,2.0", "b,3,3,3,3.0", "b,7,7,7,7.0"],
    );
    check(
        &per_window("CARDINALITY(ARRAY_AGG(v)), COLLECT(v)[4], CARDINALITY(COLLECT(v)), LISTAGG(DISTINCT k)"),
        &["a,1,,1,a", "a,3,1,2,a", "b,1,,1,b", "b,1,,1,b", "b,1,,1,b"],
    );
    check(
        &per_window(
            "PERCENTILE(v, ARRAY[0, 0.25, 1])[2], LISTAGG(k) FILTER (WHERE v > 3), ARRAY_AGG(v)[3] IS NULL",
        ),
        &["a,1.75,a,true", "a,8.0,a,true", "b,2.0,,true", "b,3.0,,true", "b,7.0,b,true"],
    );
    // Slices are put together.
    check(
        "SELECT window_end, LISTAGG(k), FIRST_VALUE(v) FROM TABLE(CUMULATE(TABLE e, DESCRIPTOR(t), INTERVAL '10' SECOND, \
         INTERVAL '20' SECOND)) WHERE v < 100 GROUP BY window_start, window_end",
        &[
            "1970-01-01 00:00:10.000,a,b,a,1",
            "1970-01-01 00:00:20.000,a,b,a,b,a,1",
            "1970-01-01 00:00:30.000,b,3",
            "1970-01-01 00:00:40.000,b,3",
        ],
    );
}

#[test]
fn over_aggregates_look_back() {
    let range = "PARTITION BY k ORDER BY t RANGE BETWEEN INTERVAL '5' SECOND PRECEDING AND CURRENT ROW";
    check(
        &format!(
            "SELECT k, COUNT(*) OVER w AS n, SUM(v) OVER w, AVG(v) OVER w AS m FROM e WINDOW w AS ({range})"
        ),
        &["a,1,,", "a,1,1,1", "a,2,5,2", "a,2,8,8", "b,1,2,2", "b,1,3,3", "b,1,7,7"],
    );
    check(
        "SELECT v, SUM(v + 0) OVER (ORDER BY t ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) FROM e",
        &[",2", "1,1", "2,6", "3,11", "4,5", "7,7", "8,15"],
    );
    check(
        "SELECT v, MAX(v) OVER w, COUNT(DISTINCT k) OVER w FROM e WINDOW w AS (ORDER BY t)",
        &[",4,2", "1,1,1", "2,4,2", "3,8,2", "4,4,1", "7,7,2", "8,8,2"],
    );
    let numbers = ["a,1", "a,2", "a,3", "a,4", "b,1", "b,2", "b,3"];
    check("SELECT k, ROW_NUMBER() OVER (PARTITION BY k ORDER BY t) FROM e", &numbers);
    let view = "CREATE VIEW c AS SELECT k, t, COUNT(1) OVER (PARTITION BY k ORDER BY t) AS n FROM e;";
    check(&format!("{view} SELECT k, n FROM c"), &numbers);
    check(&format!("{view} SELECT k, n FROM c WHERE n > 2 AND k <> 'x'"), &["a,3", "a,4", "b,3"]);
    // The time attribute goes through.
    check(
        &format!(
            "{view} SELECT k, MAX(n) FROM TABLE(TUMBLE(TABLE c, DESCRIPTOR(t), INTERVAL '10' SECOND))
             GROUP BY window_start, window_end, k"
        ),
        &["a,3", "a,4", "b,1", "b,2", "b,3"],
    );
}

#[test]
fn unions_views_and_cascades() {
    check("SELECT k FROM e WHERE v = 1 UNION ALL SELECT k FROM r WHERE w > 10", &["a", "b", "c"]);
    check(
        &format!(
            "CREATE VIEW small AS SELECT window_time AS rt, COUNT(*) AS n FROM {TUMBLE} GROUP BY k, window_start, window_end, window_time; \
             SELECT window_end, SUM(n), COUNT(*) FROM TABLE(TUMBLE(TABLE small, DESCRIPTOR(rt), INTERVAL '20' SECOND)) \
             GROUP BY window_start, window_end"
        ),
        &["1970-01-01 00:00:20.000,6,4", "1970-01-01 00:00:40.000,1,1"],
    );
    check(
        &format!(
            "SELECT window_end, MAX(n) FROM (SELECT k, window_start, window_end, COUNT(*) AS n FROM {TUMBLE} \
             GROUP BY k, window_start, window_end) GROUP BY window_start, window_end"
        ),
        &["1970-01-01 00:00:10.000,3", "1970-01-01 00:00:20.000,1", "1970-01-01 00:00:30.000,1"],
    );
}

#[test]
fn constants() {
    check("SELECT 1 + 1, 'x' || 'y'", &["2,xy"]);
    check("VALUES (1, 'a'), (2, CAST(NULL AS STRING))", &["1,a", "2,"]);
}

#[test]
fn inserts_cast_to_the_table() {
    let sql = "CREATE TABLE written (x DOUBLE, y STRING, z BIGINT) WITH ('connector' = 'print'); \
               INSERT INTO written (z, x) SELECT v, v FROM e WHERE v = 7";
    check(sql, &["7.0,,7"]);
    let sql = "CREATE TABLE small (x INT, y INT) WITH ('connector' = 'print'); \
               INSERT INTO small SELECT v + 1, SUM(CASE WHEN v > 3 THEN 1 ELSE 0 END) FROM TABLE(TUMBLE(TABLE e, \
               DESCRIPTOR(t), INTERVAL '1' DAY)) WHERE v = 7 GROUP BY v, window_start, window_end";
    check(sql, &["8,1"]);
    check("SELECT v, v, 1, 1 FROM e WHERE v = 7", &["7,7,1,1"]);
}

const NESTED: &str = "CREATE TABLE n (p ROW<id INT, inside ROW<name STRING>>, id INT) WITH ('connector' = 'filesystem', 'path' = 'n.json', 'format' = 'json');";

#[test]
fn columns_have_flinks_names() {
    let named = |select: &str, query: &str, expected: &[&str]| {
        check(&format!("CREATE VIEW v AS {select}; {query}"), expected);
    };
    named(
        "SELECT k, CAST(v AS STRING), v + 1 FROM e WHERE v = 7",
        "SELECT k, EXPR$1, EXPR$2 FROM v",
        &["b,7,8"],
    );
    named("SELECT v, CAST(v AS BIGINT), v FROM e WHERE v = 7", "SELECT v, EXPR$1, v0 FROM v", &["7,7,7"]);
    named("SELECT (v), e.k FROM e WHERE v = 7", "SELECT v, k FROM v", &["7,b"]);
    named(
        &format!(
            "SELECT k, COUNT(*), SUM(v) AS s FROM {TUMBLE} WHERE v = 7 GROUP BY k, window_start, window_end"
        ),
        "SELECT k, EXPR$1, s FROM v",
        &["b,1,7"],
    );
    named(
        &format!(
            "SELECT SUM(v), AVG(v), SUM(CAST(v AS DOUBLE)) FROM {TUMBLE} WHERE v > 6 GROUP BY window_start, window_end"
        ),
        "SELECT EXPR$0, EXPR$1, EXPR$2 FROM v",
        &["15,7,15.0"],
    );
}

#[test]
fn fields_of_rows_are_named_after_themselves() {
    for (query, names) in [
        ("SELECT p.id FROM n", vec!["id"]),
        ("SELECT n.p.id, p.inside.name FROM n", vec!["id", "name"]),
        ("SELECT id, p.id FROM n", vec!["id", "id0"]),
        ("SELECT x.id, x.p.id FROM n AS x", vec!["id", "id0"]),
        ("SELECT name FROM (SELECT p.inside.name FROM n)", vec!["name"]),
    ] {
        let text = format!("{NESTED} CREATE VIEW v AS {query}; SELECT {} FROM v;", names.join(", "));
        let script = compile(&[SqlFile { path: "q.sql".into(), text }]);
        script.unwrap_or_else(|error| panic!("{query}: {error}"));
    }
}

#[test]
fn sinks_cut_pad_and_take_what_fits() {
    let sql = "CREATE TABLE written (a CHAR(3), b VARCHAR(2), c STRING, d DECIMAL(3, 1)) WITH ('connector' = 'print'); \
               INSERT INTO written SELECT k, 'abc' || k, 'abc' || k, v * 1.04 FROM e WHERE v IN (7, 100)";
    check(sql, &["a  ,ab,abca,", "b  ,ab,abcb,7.3"]);
    let sql = "CREATE TABLE written (a CHAR(3), b DECIMAL(2, 0)) WITH ('connector' = 'print'); \
               INSERT INTO written VALUES ('wxyz', 12), ('w', 123)";
    check(sql, &["w  ,", "wxy,12"]);
}

#[test]
fn what_is_printed_has_types_of_flink() {
    let sql = format!(
        "SELECT window_start, APPROX_COUNT_DISTINCT(k), COUNT(*) FROM {TUMBLE} WHERE v = 7 GROUP BY window_start, window_end"
    );
    check(&sql, &["1970-01-01 00:00:10.000,1,1"]);
    let text = format!(
        "{TABLES} SELECT APPROX_COUNT_DISTINCT(k), UPPER(MAX(k)), NULL, SHA256('') FROM {TUMBLE} GROUP BY window_start, window_end;"
    );
    let script = compile(&[SqlFile { path: "q.sql".into(), text }]).unwrap();
    let printed = script.queries[0].dataflow.nodes().iter().find_map(|node| match &node.stage {
        laxity_operators::Stage::Sink(sink) => Some(sink.table.schema.clone()),
        _ => None,
    });
    let types: Vec<_> = printed.unwrap().fields().iter().map(|field| field.data_type().to_string()).collect();
    assert_eq!(types, ["Int64", "Utf8", "Utf8", "Utf8"]);
}

/// Rows a and b tie; what else is selected must not change which of them is first.
#[test]
fn ties_are_told_apart_by_arrival() {
    let tables: Tables = &[(
        "e",
        &[
            "z,5,1970-01-01 00:00:01",
            "a,5,1970-01-01 00:00:01",
            "m,4,1970-01-01 00:00:01",
            "b,3,1970-01-01 00:00:00",
        ],
    )];
    for (order, columns, rows, expected) in [
        ("v DESC", "k", 2, vec!["a", "z"]),
        ("v DESC", "v, k", 1, vec!["5,z"]),
        ("v DESC", "k, v, t", 1, vec!["z,5,1970-01-01 00:00:01.000"]),
        // Flink's deduplication: of equal times the first row is kept, or the last if the newest is asked for.
        ("t ASC", "k", 1, vec!["b"]),
        ("t DESC", "k", 1, vec!["m"]),
        ("t DESC", "v, k", 1, vec!["4,m"]),
        ("t DESC", "k", 2, vec!["a", "z"]),
    ] {
        for parallelism in [1, 3] {
            let text = format!(
                "{TABLES} SET 'parallelism.default' = '{parallelism}'; SELECT {columns} FROM (SELECT *, ROW_NUMBER() \
                 OVER (PARTITION BY window_start, window_end ORDER BY {order}) AS rn FROM {TUMBLE}) WHERE rn <= {rows}"
            );
            let script = compile(&[SqlFile { path: "q.sql".into(), text }]).unwrap();
            for batch_rows in [1, 3, 100] {
                assert_eq!(run(&script.queries[0], tables, batch_rows).0, expected, "{columns} by {order}");
            }
        }
    }
}

#[test]
fn group_windows_are_table_functions() {
    check(
        "SELECT k, TUMBLE_START(t, INTERVAL '10' SECOND), TUMBLE_END(t, INTERVAL '10' SECOND) AS e, COUNT(*), \
         TUMBLE_ROWTIME(t, INTERVAL '10' SECOND) FROM e WHERE v < 50 GROUP BY TUMBLE(t, INTERVAL '10' SECOND), k \
         HAVING COUNT(*) > 1 OR TUMBLE_START(t, INTERVAL '10' SECOND) > TIMESTAMP '1970-01-01 00:00:15'",
        &[
            "a,1970-01-01 00:00:00.000,1970-01-01 00:00:10.000,2,1970-01-01 00:00:09.999",
            "b,1970-01-01 00:00:20.000,1970-01-01 00:00:30.000,1,1970-01-01 00:00:29.999",
        ],
    );
    check(
        "SELECT HOP_END(x.t, INTERVAL '10' SECOND, INTERVAL '20' SECOND), SUM(x.v) FROM e AS x WHERE x.v < 50 \
         GROUP BY HOP(x.t, INTERVAL '10' SECOND, INTERVAL '20' SECOND)",
        &[
            "1970-01-01 00:00:10.000,7",
            "1970-01-01 00:00:20.000,22",
            "1970-01-01 00:00:30.000,18",
            "1970-01-01 00:00:40.000,3",
        ],
    );
    // Rows that WHERE drops do not keep a session open: with the row of 00:12 b's would go on for longer.
    check(
        "SELECT k, SESSION_START(t, INTERVAL '3' SECOND), COUNT(*) FROM e WHERE k = 'a' AND v < 5 \
         GROUP BY k, SESSION(t, INTERVAL '3' SECOND)",
        &["a,1970-01-01 00:00:01.000,2"],
    );
    // In a view, over a subquery, and windowed again.
    check(
        "CREATE VIEW small AS SELECT TUMBLE_ROWTIME(t, INTERVAL '10' SECOND) AS rt, COUNT(*) AS n \
         FROM (SELECT t FROM e WHERE v < 50) GROUP BY TUMBLE(t, INTERVAL '10' SECOND); \
         SELECT SUM(n) FROM small GROUP BY TUMBLE(rt, INTERVAL '20' SECOND)",
        &["1", "5"],
    );
}

#[test]
fn variances_of_decimals_are_decimals() {
    let sql = format!(
        "SELECT VAR_POP(d), VAR_SAMP(d), STDDEV_POP(d), AVG(d), SUM(d) / COUNT(*) FROM (SELECT CAST(v AS DECIMAL(5, 1)) AS d, \
         window_start, window_end FROM {TUMBLE} WHERE v < 50) GROUP BY window_start, window_end"
    );
    // 1, 2, 4; 7, 8; 3. Flink rounds on the way: 21 - 16.333333 = 4.666667, of which the half is 2.333334.
    check(
        &sql,
        &[
            "0.000000,,0.000000,3.000000,3.000000",
            "0.250000,0.500000,0.500000,7.500000,7.500000",
            "1.555556,2.333334,1.247219,2.333333,2.333333",
        ],
    );
}

#[test]
fn variances_of_large_ints_do_not_stop_the_query() {
    let tables: Tables = &[("e", &["a,2147483647,1970-01-01 00:00:01", "a,-2147483648,1970-01-01 00:00:02"])];
    let text =
        format!("{TABLES} SELECT VAR_POP(v), SUM(v), AVG(v) FROM {TUMBLE} GROUP BY window_start, window_end");
    let script = compile(&[SqlFile { path: "q.sql".into(), text }]).unwrap();
    assert_eq!(run(&script.queries[0], tables, 10).0, ["2147483647,-1,0"]);
}

#[test]
fn interval_joins_need_no_key_and_may_have_an_empty_interval() {
    check(
        "SELECT v, w FROM e, r WHERE t BETWEEN u - INTERVAL '1' SECOND AND u + INTERVAL '1' SECOND",
        &["1,10", "2,20", "4,10", "4,20", "7,30", "8,30"],
    );
    check(
        "SELECT v, w FROM e LEFT JOIN r ON e.k = r.k AND t BETWEEN u + INTERVAL '1' SECOND AND u - INTERVAL '1' SECOND \
         WHERE v < 5",
        &["1,", "2,", "3,", "4,"],
    );
    check("SELECT v, w FROM e JOIN r ON e.k = r.k AND t > u AND t < u", &[]);
}

/// `agg(x) FILTER (WHERE c)` is `agg` of the rows of the frame for which c is true, as without OVER.
#[test]
fn over_aggregates_filter_the_rows_of_their_frames() {
    check(
        "SELECT k, v, COUNT(*) FILTER (WHERE v > 3) OVER w, SUM(v) FILTER (WHERE v > 1) OVER w,
           AVG(v) FILTER (WHERE v > 1) OVER w, COUNT(DISTINCT k) FILTER (WHERE v < 5) OVER w, MAX(v) OVER w
         FROM e WINDOW w AS (PARTITION BY k ORDER BY t ROWS BETWEEN 1 PRECEDING AND CURRENT ROW)",
        &[
            "a,,1,4,4,1,4",
            "a,1,0,,,1,1",
            "a,4,1,4,4,1,4",
            "a,8,1,8,8,0,8",
            "b,2,0,2,2,1,2",
            "b,3,1,10,5,1,7",
            "b,7,1,9,4,1,7",
        ],
    );
}

/// Flink's documentation (System Functions, PERCENTILE): frequency says how many times a value counts; a row whose
/// frequency is NULL or not positive is ignored.
#[test]
fn percentiles_count_values_as_often_as_they_say() {
    // 1, 2, 2, 4, 4, 4, 4; then 7 seven times and 8 eight times; then 3, and, three less, never.
    check(
        &format!(
            "SELECT window_end, PERCENTILE(v, 0.5, v), PERCENTILE(v, ARRAY[0, 0.25, 1], CAST(v AS BIGINT))[2], \
             PERCENTILE(v, 0.5, v - 3), PERCENTILE(v, 0.5, CAST(NULL AS INT)) \
             FROM {TUMBLE} WHERE v < 50 GROUP BY window_start, window_end"
        ),
        &[
            "1970-01-01 00:00:10.000,4.0,2.0,4.0,",
            "1970-01-01 00:00:20.000,8.0,7.0,8.0,",
            "1970-01-01 00:00:30.000,3.0,3.0,,",
        ],
    );
    // Slices are put together.
    check(
        "SELECT window_end, PERCENTILE(v, 0.5, v) FROM TABLE(CUMULATE(TABLE e, DESCRIPTOR(t), INTERVAL '10' SECOND, \
         INTERVAL '20' SECOND)) WHERE v < 50 GROUP BY window_start, window_end",
        &[
            "1970-01-01 00:00:10.000,4.0",
            "1970-01-01 00:00:20.000,7.0",
            "1970-01-01 00:00:30.000,3.0",
            "1970-01-01 00:00:40.000,3.0",
        ],
    );
}

/// Flink's documentation (System Functions): the watermark where the row is, NULL before there is one, of the type of the
/// time attribute. It is that before the row, as in Flink with `pipeline.auto-watermark-interval` = 0.
#[test]
fn the_current_watermark_is_that_before_the_row() {
    let times = "1970-01-01 00:00:";
    check(
        "SELECT v, CURRENT_WATERMARK(t) FROM e WHERE k = 'a' AND v IS NOT NULL",
        &["1,", &format!("100,{times}10.000"), &format!("4,{times}02.000"), &format!("8,{times}09.000")],
    );
    // As the documentation drops late rows: of what is before the watermark.
    check(
        "SELECT k, v FROM e WHERE CURRENT_WATERMARK(t) IS NULL OR t > CURRENT_WATERMARK(t)",
        &["a,", "a,1", "a,4", "a,8", "b,2", "b,3", "b,7"],
    );
    check("SELECT k, v FROM e WHERE t <= CURRENT_WATERMARK(t)", &["a,100"]);
    // Through a view and the elements of an array, and counted in windows.
    check(
        "CREATE VIEW w AS SELECT x, t, CURRENT_WATERMARK(t) AS seen FROM e CROSS JOIN UNNEST(ARRAY[v, v]) AS u (x);
         SELECT window_end, COUNT(seen), MAX(seen) FROM TABLE(TUMBLE(TABLE w, DESCRIPTOR(t), INTERVAL '10' SECOND))
         GROUP BY window_start, window_end",
        &[
            &format!("{times}10.000,6,{times}02.000"),
            &format!("{times}20.000,4,{times}09.000"),
            &format!("{times}30.000,2,{times}10.000"),
        ],
    );
}

/// All rows come at one instant, five seconds after 1970 began: windows hold them by that, as in Flink, whose
/// processing-time windows are cut like those of event time.
#[test]
fn windows_on_processing_time_are_cut_by_the_clock() {
    let table = "CREATE TABLE e (k STRING, v INT, p AS PROCTIME())
                 WITH ('connector' = 'filesystem', 'path' = 'e.csv', 'format' = 'csv');";
    let rows = ["a,1", "b,2", "a,4"];
    let count = |select: &str| {
        let file = SqlFile { path: "q.sql".into(), text: format!("{table} {select};") };
        let options = CompileOptions { processing_origin_ms: 5_000, verify_approximate: false };
        let script = compile_with(&[file], options).unwrap_or_else(|error| panic!("{error}\n{select}"));
        run(&script.queries[0], &[("e", &rows)], 2).0
    };
    let windows = |function: &str| {
        count(&format!(
            "SELECT EXTRACT(SECOND FROM window_start), EXTRACT(SECOND FROM window_end), COUNT(*)
             FROM TABLE({function}) GROUP BY window_start, window_end"
        ))
    };
    assert_eq!(windows("TUMBLE(TABLE e, DESCRIPTOR(p), INTERVAL '10' SECOND)"), ["0,10,3"]);
    assert_eq!(
        windows("HOP(TABLE e, DESCRIPTOR(p), INTERVAL '3' SECOND, INTERVAL '6' SECOND)"),
        ["0,6,3", "3,9,3"]
    );
    assert_eq!(
        windows("CUMULATE(TABLE e, DESCRIPTOR(p), INTERVAL '3' SECOND, INTERVAL '9' SECOND)"),
        ["0,6,3", "0,9,3"]
    );
    assert_eq!(windows("SESSION(TABLE e, DESCRIPTOR(p), INTERVAL '7' SECOND)"), ["5,12,3"]);
    // By keys, as a group window, and without an aggregate.
    let group = "SELECT k, EXTRACT(SECOND FROM SESSION_END(p, INTERVAL '7' SECOND)), SUM(v) FROM e
                 GROUP BY k, SESSION(p, INTERVAL '7' SECOND)";
    assert_eq!(count(group), ["a,12,5", "b,12,2"]);
    let rows = "SELECT v, EXTRACT(SECOND FROM window_end) FROM
                TABLE(SESSION(TABLE e PARTITION BY k, DESCRIPTOR(p), INTERVAL '7' SECOND))";
    assert_eq!(count(rows), ["1,12", "2,12", "4,12"]);
}

/// As in Flink's batch mode: NULL is the lowest value, and OFFSET comes before LIMIT.
#[test]
fn a_select_on_its_own_is_ordered_and_limited() {
    let rows = |sql: &str| {
        let file = SqlFile {
            path: "q.sql".into(),
            text: format!("{TABLES} SET 'parallelism.default' = '3'; {sql};"),
        };
        let script = compile(&[file]).unwrap_or_else(|error| panic!("{error}\n{sql}"));
        run_in_order(&script.queries[0], &[("e", E), ("r", R)], 3)
    };
    assert_eq!(rows("SELECT k, v FROM e ORDER BY v LIMIT 3"), ["a,", "a,1", "b,2"]);
    assert_eq!(rows("SELECT v FROM e ORDER BY k DESC, t DESC LIMIT 4"), ["3", "7", "2", "8"]);
    assert_eq!(
        rows("SELECT v, k FROM e WHERE v < 50 ORDER BY 1 DESC OFFSET 2 ROWS"),
        ["4,a", "3,b", "2,b", "1,a"]
    );
    assert_eq!(rows("SELECT v AS x FROM e ORDER BY x + 1 DESC NULLS LAST LIMIT 2 OFFSET 1"), ["8", "7"]);
    assert_eq!(rows("SELECT k FROM e LIMIT 2"), ["a", "b"]);
    assert_eq!(rows("SELECT k FROM e LIMIT 0"), [""; 0]);
    assert_eq!(
        rows(&format!(
            "SELECT k, SUM(v) AS s FROM {TUMBLE} GROUP BY k, window_start, window_end ORDER BY s DESC, k LIMIT 2"
        )),
        ["a,8", "b,7"]
    );
    assert_eq!(
        rows("SELECT k FROM e WHERE v = 1 UNION ALL SELECT k FROM r ORDER BY k DESC LIMIT 2"),
        ["c", "b"]
    );
}

#[test]
fn queries_of_one_name_are_numbered() {
    let sql = format!(
        "{TABLES} CREATE TABLE s (k STRING) WITH ('connector' = 'print');
         SET 'pipeline.name' = 'insert-into_s-3'; INSERT INTO s SELECT k FROM e; RESET 'pipeline.name';
         INSERT INTO s SELECT k FROM e; EXPLAIN INSERT INTO s SELECT k FROM e; INSERT INTO s SELECT k FROM e;
         CREATE TABLE f (k STRING) WITH ('connector' = 'print');
         INSERT INTO s SELECT k FROM e; INSERT INTO f SELECT k FROM e;"
    );
    let script = compile(&[SqlFile { path: "q.sql".into(), text: sql }]).unwrap();
    let names: Vec<&str> = script.queries.iter().map(|query| query.dataflow.settings.name.as_str()).collect();
    assert_eq!(
        names,
        ["insert-into_s-3", "insert-into_s", "insert-into_s-2", "insert-into_s-4", "insert-into_f"]
    );
}
