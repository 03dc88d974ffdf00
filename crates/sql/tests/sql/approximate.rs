//! `laxity.approximate.…`: where rows are left out, what is refused, and what the functions of quality say of exact results.

use std::path::PathBuf;

use laxity_sql::{PlannedQuery, SqlFile, compile};

use crate::driver::run_cells;

const TABLES: &str = "
CREATE TABLE t (k INT, s STRING, d DOUBLE, v BIGINT, ts TIMESTAMP(3), p AS PROCTIME(), WATERMARK FOR ts AS ts)
  WITH ('connector' = 'datagen');
CREATE TABLE dim (k INT, name STRING) WITH ('connector' = 'filesystem', 'path' = 'dim.csv', 'format' = 'csv');
CREATE TABLE late (k INT) WITH ('connector' = 'blackhole');
";

fn compiled(sql: &str) -> Result<PlannedQuery, String> {
    let file = SqlFile { path: PathBuf::from("t.sql"), text: format!("{TABLES}{sql}") };
    compile(&[file]).map(|mut script| script.queries.remove(0)).map_err(|error| error.to_string())
}

fn approximate(sql: &str) -> Result<PlannedQuery, String> {
    compiled(&format!("SET 'laxity.approximate.error' = '5%';\n{sql}"))
}

fn windowed(select: &str, rest: &str) -> String {
    format!(
        "SELECT {select} FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '1' SECOND)) {rest} \
         GROUP BY window_start, window_end"
    )
}

#[test]
fn rows_are_left_out_behind_filters_and_before_what_is_computed() {
    let plan = approximate(&(windowed("k, SUM(d * d), COUNT(*)", "WHERE v > 3") + ", k")).unwrap().explain;
    assert!(plan.contains("Source: t -> Calc -> Sample -> Calc"), "{plan}");
    let sample = "sample by k within 5 % in 95 % of windows, for d * d";
    assert!(plan.contains(sample), "{plan}");
    // What is computed of rows is computed of those that are taken, there and nowhere else.
    let at = |text: &str| plan.find(text).unwrap_or_else(|| panic!("no {text} in {plan}"));
    assert!(at("where v") < at(sample) && plan.contains("| select k, ts, __sample"), "{plan}");
    let joined = approximate(
        "SELECT name, AVG(d) FROM (SELECT t.ts, t.d, dim.name FROM t JOIN dim FOR SYSTEM_TIME AS OF t.p AS dim
         ON t.k = dim.k), LATERAL TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '1' SECOND))",
    );
    assert!(joined.is_err(), "a table function of another table");
    let exact = compiled(&windowed("SUM(d)", "")).unwrap().explain;
    assert!(!exact.contains("Sample"), "{exact}");
}

#[test]
fn behind_a_lookup_join_the_groups_are_known() {
    let plan = approximate(
        "CREATE VIEW named AS SELECT t.ts, t.d, dim.name FROM t JOIN dim FOR SYSTEM_TIME AS OF t.p AS dim ON t.k = dim.k;
         SELECT name, AVG(d) FROM TABLE(TUMBLE(TABLE named, DESCRIPTOR(ts), INTERVAL '1' SECOND))
         GROUP BY window_start, window_end, name;",
    );
    let plan = plan.unwrap().explain;
    let at = |text: &str| plan.find(text).unwrap_or_else(|| panic!("no {text} in {plan}"));
    assert!(at("LookupJoin") < at("Sample"), "{plan}");
    assert!(plan.contains("sample by name within 5 %"), "{plan}");
}

#[test]
fn what_has_no_bound_is_refused_with_a_way_out() {
    let check = |sql: &str, says: &[&str]| {
        let error = approximate(sql).unwrap_err();
        says.iter().for_each(|part| assert!(error.contains(part), "{sql}: {error}"));
    };
    check(&windowed("MAX(d)", ""), &["MAX of a sample has no bound", "PERCENTILE(x, 0.99)"]);
    check(&windowed("COUNT(DISTINCT k)", ""), &["COUNT(DISTINCT …) of a sample", "APPROX_COUNT_DISTINCT"]);
    check(
        &windowed("LISTAGG(s)", ""),
        &["LISTAGG of a sample has no bound", "RESET 'laxity.approximate.error'"],
    );
    for of in ["VAR_POP", "VAR_SAMP", "STDDEV_POP", "STDDEV"] {
        let of_decimal = format!("{of}(CAST(d AS DECIMAL(10, 2)))");
        check(&windowed(&of_decimal, ""), &["of a DECIMAL are differences of sums", "CAST", "DOUBLE"]);
        assert!(approximate(&windowed(&format!("{of}(d)"), "")).is_ok());
    }
    assert!(approximate(&windowed("AVG(CAST(d AS DECIMAL(10, 2)))", "")).is_ok());
    check(&windowed("APPROX_ERROR(d)", ""), &["APPROX_ERROR takes one COUNT, SUM, AVG"]);
    check(&windowed("APPROX_ERROR(SUM(d) - COUNT(*))", ""), &["ask for the error of each"]);
    check(&windowed("APPROX_ERROR(AVG(d) / SUM(v))", ""), &["ask for the error of each"]);
    check(&windowed("APPROX_ERROR(SUM(d) / COUNT(DISTINCT v))", ""), &["ask for the error of each"]);
    check(&windowed("APPROX_ROWS() FILTER (WHERE v > 3)", ""), &["takes no FILTER", "COUNT(*) FILTER"]);
    check(
        "SELECT k, SUM(d) FROM TABLE(SESSION(TABLE t PARTITION BY k, DESCRIPTOR(ts), INTERVAL '1' SECOND))
         GROUP BY window_start, window_end, k",
        &["has sessions", "use TUMBLE, HOP or CUMULATE"],
    );
    check(
        "SELECT SUM(d) FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(p), INTERVAL '1' SECOND)) GROUP BY window_start, window_end",
        &["windows on processing time", "declare a WATERMARK"],
    );
    let late = format!("SET 'laxity.late.table' = 'late';\n{}", windowed("SUM(d)", ""));
    check(&late, &["counts late rows in"]);
    let lateness = format!("SET 'laxity.allowed.lateness' = '1 s';\n{}", windowed("SUM(d)", ""));
    check(&lateness, &["does not wait for late rows"]);
    check("SET 'laxity.approximate.when' = 'sometimes';\nSELECT k FROM t", &["'always' or 'overload'"]);
    assert!(
        approximate(
            "RESET 'laxity.approximate.error';\nSELECT window_end, MAX(d) FROM TABLE(TUMBLE(TABLE t, \
                         DESCRIPTOR(ts), INTERVAL '1' SECOND)) GROUP BY window_start, window_end"
        )
        .is_ok()
    );
}

#[test]
fn quotients_of_aggregates_halve_the_error_that_is_aimed_at() {
    // The text shows what was asked for; the sampler's own aim is inside.
    let quotient = approximate(&windowed("SUM(d) / SUM(v)", "")).unwrap();
    assert!(quotient.explain.contains("within 5 % in 95 %"), "{}", quotient.explain);
}

fn small(set: &str) -> Vec<Vec<Option<String>>> {
    let folder = tempfile::tempdir().unwrap();
    let rows: String = (0..40).map(|i| format!("1970-01-01 00:00:{:02},{},{}\n", i, i % 2, i)).collect();
    std::fs::write(folder.path().join("in.csv"), rows).unwrap();
    let text = format!(
        "CREATE TABLE s (ts TIMESTAMP(3), k INT, d DOUBLE, WATERMARK FOR ts AS ts - INTERVAL '2' SECOND)
         WITH ('connector' = 'filesystem', 'path' = 'in.csv', 'format' = 'csv');
         {set}
         SELECT k, SUM(d), COUNT(*), AVG(d), APPROX_ERROR(SUM(d)), APPROX_ERROR(SUM(d) / COUNT(*)), APPROX_ROWS(), APPROX_SEEN()
         FROM TABLE(TUMBLE(TABLE s, DESCRIPTOR(ts), INTERVAL '20' SECOND)) GROUP BY window_start, window_end, k"
    );
    let file = SqlFile { path: folder.path().join("q.sql"), text };
    let query = compile(&[file]).unwrap_or_else(|error| panic!("{error}")).queries.remove(0);
    let mut rows = run_cells(&query);
    rows.sort();
    rows
}

#[test]
fn of_exact_results_the_error_is_nothing_and_small_groups_are_exact_anyway() {
    let exact = small("");
    let row = |cells: [&str; 8]| cells.map(|cell| Some(cell.to_string())).to_vec();
    assert_eq!(exact[0], row(["0", "290.0", "10", "29.0", "0.0", "0.0", "10", "10"]));
    assert_eq!(exact[2], row(["1", "100.0", "10", "10.0", "0.0", "0.0", "10", "10"]));
    assert_eq!(small("SET 'laxity.approximate.error' = '5%';"), exact);
}

#[test]
fn the_error_of_a_quotient_is_its_own() {
    let plan = approximate(&windowed("SUM(d) / SUM(v), APPROX_ERROR(SUM(d) / SUM(v))", "")).unwrap().explain;
    // Among the values is the product of both.
    let for_these = &plan[plan.find(", for ").unwrap_or_else(|| panic!("{plan}"))..];
    assert!(for_these.contains(" * "), "{plan}");
    for quotient in ["SUM(d) / COUNT(*)", "(SUM(v) / COUNT(d))", "COUNT(k) / SUM(d)"] {
        approximate(&windowed(&format!("APPROX_ERROR({quotient})"), ""))
            .unwrap_or_else(|error| panic!("{error}"));
    }
}
