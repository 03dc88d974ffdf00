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
fn what_a_projection_computes_is_computed_of_the_rows_in_the_sample() {
    let plan = |sql: &str| approximate(sql).unwrap().explain;
    // The planner computes what two aggregates have in common in a projection of its own.
    let common = plan(&windowed("AVG(d * 2 + v), APPROX_ERROR(AVG(d * 2 + v))", "WHERE v > 3"));
    assert!(common.contains("for d * 2 + CAST(v AS DOUBLE)") && !common.contains("common_expr"), "{common}");
    let view = |aggregates: &str, keys: &str| {
        plan(&format!(
            "CREATE VIEW w AS SELECT ts, UPPER(s) AS place, d * d AS sq, v + 1 AS v1 FROM t WHERE k > 2;
             SELECT {aggregates} FROM TABLE(TUMBLE(TABLE w, DESCRIPTOR(ts), INTERVAL '1' SECOND))
             GROUP BY window_start, window_end{keys};"
        ))
    };
    let grouped = view("place, SUM(sq), AVG(v1 + sq)", ", place");
    assert!(grouped.contains("sample by __key0 within") && grouped.contains("for d * d, "), "{grouped}");
    assert!(grouped.contains("| select d, v, ts, upper(s) where k > 2"), "{grouped}");
    assert!(view("COUNT(v1)", "").contains("Sample"));
}

#[test]
fn below_a_projection_results_are_what_they_are_behind_it() {
    let folder = tempfile::tempdir().unwrap();
    let rows: String =
        (0..40).map(|i| format!("1970-01-01 00:00:{:02},{},{},{}\n", i, i % 2, i % 5, i)).collect();
    std::fs::write(folder.path().join("in.csv"), rows).unwrap();
    let run = |set: &str, filter: &str| {
        let text = format!(
            "CREATE TABLE s (ts TIMESTAMP(3), k INT, c INT, d DOUBLE, WATERMARK FOR ts AS ts - INTERVAL '2' SECOND)
             WITH ('connector' = 'filesystem', 'path' = 'in.csv', 'format' = 'csv');
             CREATE VIEW w AS SELECT ts, k * 2 AS k2, c + 1 AS c1, d * d AS sq, NULLIF(c, 3) AS n FROM s {filter};
             {set}
             SELECT k2, SUM(sq), COUNT(*), COUNT(n), AVG(sq), APPROX_ROWS(), SUM(sq) / SUM(c1), APPROX_ERROR(AVG(sq)),
                    COUNT(*) FILTER (WHERE sq > 30), PERCENTILE(sq, 0.5), APPROX_COUNT_DISTINCT(c1)
             FROM TABLE(TUMBLE(TABLE w, DESCRIPTOR(ts), INTERVAL '20' SECOND))
             GROUP BY window_start, window_end, k2"
        );
        let file = SqlFile { path: folder.path().join("q.sql"), text };
        let query = compile(&[file]).unwrap_or_else(|error| panic!("{error}")).queries.remove(0);
        assert_eq!(query.explain.contains("for d * d"), !set.is_empty(), "{}", query.explain);
        let mut rows = run_cells(&query);
        rows.sort();
        rows
    };
    for filter in ["", "WHERE c > 2", "WHERE k = 0 AND d > 20"] {
        let exact = run("", filter);
        assert!(!exact.is_empty(), "{filter}");
        assert_eq!(run("SET 'laxity.approximate.error' = '5%';", filter), exact, "{filter}");
    }
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

/// Over `named`, whose rows were looked up.
fn looked_up(join: &str, key: &str, select: &str, group: &str) -> String {
    format!(
        "CREATE TABLE rates (c INT, rate DOUBLE, note STRING{key})
           WITH ('connector' = 'filesystem', 'path' = 'rates.csv', 'format' = 'csv');
         CREATE VIEW rated AS SELECT t.ts, UPPER(t.s) AS place, t.d, r.rate, t.d * r.rate AS usd, r.note
           FROM t {join} JOIN rates FOR SYSTEM_TIME AS OF t.p AS r ON t.k = r.c;
         SELECT {select} FROM TABLE(TUMBLE(TABLE rated, DESCRIPTOR(ts), INTERVAL '1' SECOND))
         GROUP BY window_start, window_end{group};"
    )
}

const KEY: &str = ", PRIMARY KEY (c) NOT ENFORCED";

#[test]
fn rows_are_left_out_below_a_lookup_by_a_declared_key() {
    let plan = |join, key, select, group| approximate(&looked_up(join, key, select, group)).unwrap().explain;
    let below = |plan: &str| {
        let beside = plan.contains("for rows in the sample alone: ");
        assert_eq!(beside, !plan.contains("LookupJoin"), "{plan}");
        beside
    };
    for join in ["LEFT", "INNER"] {
        let plan = plan(join, KEY, "place, SUM(usd), COUNT(*), APPROX_ERROR(AVG(usd))", ", place");
        assert!(below(&plan), "{plan}");
        assert!(
            plan.contains("join with rates on left.k = right.c") && plan.contains("sample by __key0"),
            "{plan}"
        );
    }
    // Without a key that is declared there may be several partners; a group that is looked up has to be counted; what sees every
    // row looks every row up.
    assert!(!below(&plan("LEFT", "", "place, SUM(usd)", ", place")));
    assert!(!below(&plan("LEFT", ", PRIMARY KEY (c, note) NOT ENFORCED", "place, SUM(usd)", ", place")));
    assert!(!below(&plan("LEFT", KEY, "note, SUM(usd)", ", note")));
    assert!(!below(&plan("LEFT", KEY, "APPROX_COUNT_DISTINCT(note), SUM(usd)", "")));
    assert!(below(&plan("LEFT", KEY, "SUM(usd), COUNT(note), SUM(d) / SUM(rate)", "")));
    let exact = compiled(&looked_up("LEFT", KEY, "SUM(usd)", "")).unwrap().explain;
    assert!(exact.contains("LookupJoin") && !exact.contains("alone"), "{exact}");
}

#[test]
fn below_a_lookup_results_are_what_they_are_behind_it() {
    let folder = tempfile::tempdir().unwrap();
    let rows: String =
        (0..40).map(|i| format!("1970-01-01 00:00:{:02},{},{},{}\n", i, i % 2, i % 5, i)).collect();
    std::fs::write(folder.path().join("in.csv"), rows).unwrap();
    std::fs::write(folder.path().join("rates.csv"), "0,1.5\n1,2\n2,\n3,4\n").unwrap();
    let run = |set: &str, join: &str, filter: &str| {
        let text = format!(
            "CREATE TABLE s (ts TIMESTAMP(3), k INT, c INT, d DOUBLE, p AS PROCTIME(), WATERMARK FOR ts AS ts - INTERVAL '2' SECOND)
             WITH ('connector' = 'filesystem', 'path' = 'in.csv', 'format' = 'csv');
             CREATE TABLE rates (c INT PRIMARY KEY NOT ENFORCED, rate DOUBLE)
             WITH ('connector' = 'filesystem', 'path' = 'rates.csv', 'format' = 'csv');
             CREATE VIEW rated AS SELECT ts, k, d, s.c, rate, d * rate AS usd
             FROM s {join} JOIN rates FOR SYSTEM_TIME AS OF s.p AS r ON s.c = r.c {filter};
             {set}
             SELECT k, SUM(usd), COUNT(*), COUNT(rate), AVG(usd), APPROX_ROWS(), SUM(usd) / SUM(rate), APPROX_ERROR(SUM(usd) / SUM(rate)),
                    COUNT(*) FILTER (WHERE rate > 1.7), PERCENTILE(usd, 0.5), MOD(k, 7)
             FROM TABLE(TUMBLE(TABLE rated, DESCRIPTOR(ts), INTERVAL '20' SECOND))
             GROUP BY window_start, window_end, k, MOD(k, 7)"
        );
        let file = SqlFile { path: folder.path().join("q.sql"), text };
        let query = compile(&[file]).unwrap_or_else(|error| panic!("{error}")).queries.remove(0);
        assert_eq!(query.explain.contains("alone"), !set.is_empty(), "{}", query.explain);
        let mut rows = run_cells(&query);
        rows.sort();
        rows
    };
    for join in ["LEFT", "INNER"] {
        for filter in ["", "WHERE rate > 1.7", "WHERE s.c > 2", "WHERE k = 0 AND rate + d > 20"] {
            let exact = run("", join, filter);
            assert!(!exact.is_empty(), "{join} {filter}");
            assert_eq!(run("SET 'laxity.approximate.error' = '5%';", join, filter), exact, "{join} {filter}");
        }
    }
}

const OTHER: &str = "CREATE TABLE u (k INT, d DOUBLE, ts TIMESTAMP(3), WATERMARK FOR ts AS ts) WITH ('connector' = 'datagen');";

/// Over two tables.
fn of_both(view: &str) -> String {
    format!(
        "{OTHER}\nCREATE VIEW w AS {view};\nSELECT k, SUM(d), COUNT(*) FROM TABLE(TUMBLE(TABLE w, DESCRIPTOR(ts), INTERVAL '1' SECOND))
         GROUP BY window_start, window_end, k;"
    )
}

fn joined(kind: &str) -> String {
    of_both(&format!(
        "SELECT t.ts, t.k, t.d * u.d AS d FROM t {kind} JOIN u ON t.k = u.k
         AND t.ts BETWEEN u.ts - INTERVAL '1' SECOND AND u.ts WHERE t.v > 2"
    ))
}

#[test]
fn what_is_made_of_several_tables_is_sampled_behind_that() {
    let join = approximate(&joined("INNER")).unwrap().explain;
    assert!(join.contains("IntervalJoin -> Calc -> Sample -> Calc"), "{join}");
    assert!(join.contains("sample by k within 5 % in 95 % of windows, for d * d"), "{join}");
    let union =
        approximate(&of_both("SELECT ts, k, d FROM t WHERE v > 2 UNION ALL SELECT ts, k, d FROM u")).unwrap();
    assert!(union.explain.contains("Union -> Calc -> Sample"), "{}", union.explain);
    // Below a sampler nobody reads with others, who are given rows when a window ends.
    for query in [approximate(&joined("INNER")).unwrap(), union] {
        for node in query.dataflow.nodes() {
            if let laxity_operators::Stage::Source { shared, view, .. } = &node.stage {
                assert!(shared.is_none() && view.is_none(), "{}", query.explain);
            }
        }
    }
}

#[test]
fn rows_that_are_put_aside_are_in_no_aggregate() {
    let folder = tempfile::tempdir().unwrap();
    let rows: String = (0..40).map(|i| format!("1970-01-01 00:00:{i:02},{},{i}\n", i % 5)).collect();
    std::fs::write(folder.path().join("in.csv"), rows).unwrap();
    let run = |set: &str| {
        let text = format!(
            "CREATE TABLE s (ts TIMESTAMP(3), c INT, d INT, WATERMARK FOR ts AS ts - INTERVAL '2' SECOND)
             WITH ('connector' = 'filesystem', 'path' = 'in.csv', 'format' = 'csv');
             SET 'laxity.row.error' = 'dead-letter';
             {set}
             SELECT COUNT(*), SUM(d / c), COUNT(*) FILTER (WHERE d > 10), AVG(d), APPROX_SEEN()
             FROM TABLE(TUMBLE(TABLE s, DESCRIPTOR(ts), INTERVAL '20' SECOND)) GROUP BY window_start, window_end"
        );
        let file = SqlFile { path: folder.path().join("q.sql"), text };
        run_cells(&compile(&[file]).unwrap_or_else(|error| panic!("{error}")).queries.remove(0))
    };
    let (exact, approximate) = (run(""), run("SET 'laxity.approximate.error' = '5%';"));
    // A fifth divides by zero. All have been seen, those put aside too.
    let cells = |rows: &[Vec<Option<String>>]| rows.iter().map(|row| row[..4].to_vec()).collect::<Vec<_>>();
    assert_eq!(cells(&approximate), cells(&exact));
    assert_eq!(exact[0][0].as_deref(), Some("16"), "{exact:?}");
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
    check(&windowed("MIN(d)", ""), &["PERCENTILE(x, 0.99) or (x, 0.01), which has a bound"]);
    for share in ["0", "1.0", "1.5", "-0.5", "CAST(NULL AS DOUBLE)"] {
        let percentile = windowed(&format!("PERCENTILE(d, {share})"), "");
        check(&percentile, &["has a bound above 0 and below 1", "PERCENTILE(x, 0.99)"]);
    }
    for several in ["PERCENTILE(d, ARRAY[0.1, 0.9])", "PERCENTILE(d, 0.5, v)"] {
        approximate(&windowed(several, "")).unwrap_or_else(|error| panic!("{error}"));
        check(&windowed(&format!("APPROX_ERROR({several})"), ""), &["of one share that is written out"]);
    }
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
    for kind in ["LEFT", "FULL"] {
        check(&joined(kind), &["outer joins comes with the watermark", "aggregate the table before that"]);
    }
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
    for quotient in [
        "SUM(d) / COUNT(*)",
        "(SUM(v) / COUNT(d))",
        "COUNT(k) / SUM(d)",
        "CAST(SUM(v) AS DOUBLE) / COUNT(*)",
        "SUM(v) / CAST(COUNT(*) AS DOUBLE)",
        "CAST(COUNT(k) AS DECIMAL(20, 4)) / CAST(COUNT(*) AS BIGINT)",
        "CAST(SUM(v) / SUM(k) AS DOUBLE)",
    ] {
        approximate(&windowed(&format!("APPROX_ERROR({quotient})"), ""))
            .unwrap_or_else(|error| panic!("{error}"));
    }
}

#[test]
fn casts_that_round_have_another_error() {
    for quotient in [
        "CAST(SUM(d) AS INT) / COUNT(*)",
        "CAST(SUM(d) AS DECIMAL(10, 0)) / SUM(v)",
        "CAST(SUM(d) / SUM(v) AS INT)",
    ] {
        let error = approximate(&windowed(&format!("APPROX_ERROR({quotient})"), "")).unwrap_err();
        assert!(error.contains("with a CAST to DOUBLE if any, since others round"), "{error}");
    }
}

#[test]
fn percentiles_are_sampled_and_distinct_values_are_of_every_row() {
    let quality = "PERCENTILE(d, 0.5), APPROX_ERROR(PERCENTILE(d, 0.5)), APPROX_COUNT_DISTINCT(s) FILTER (WHERE v > 3), \
                   APPROX_ERROR(APPROX_COUNT_DISTINCT(d)), AVG(v)";
    let plan = approximate(&windowed(quality, "")).unwrap().explain;
    assert!(plan.contains("windows, for d, v, "), "{plan}");
    assert!(plan.contains(", distinct CASE WHEN v > 3 THEN s END, "), "{plan}");
    assert!(plan.contains(" of every row\n"), "{plan}");
    // All that is computed is of the sample's column: nothing else of a row is sent on.
    assert!(plan.contains("| select ts, __sample"), "{plan}");
}

#[test]
fn what_has_few_values_is_counted_and_not_sketched() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("in.csv"), "1970-01-01 00:00:01,7,true\n1970-01-01 00:00:02,8,false\n")
        .unwrap();
    let text = "CREATE TABLE s (ts TIMESTAMP(3), k SMALLINT, b BOOLEAN, WATERMARK FOR ts AS ts)
         WITH ('connector' = 'filesystem', 'path' = 'in.csv', 'format' = 'csv');
         SELECT APPROX_ERROR(APPROX_COUNT_DISTINCT(k)), APPROX_ERROR(APPROX_COUNT_DISTINCT(b)),
                APPROX_ERROR(APPROX_COUNT_DISTINCT(ts)) > 0, APPROX_COUNT_DISTINCT(k)
         FROM TABLE(TUMBLE(TABLE s, DESCRIPTOR(ts), INTERVAL '20' SECOND)) GROUP BY window_start, window_end";
    let file = SqlFile { path: folder.path().join("q.sql"), text: text.into() };
    let query = compile(&[file]).unwrap_or_else(|error| panic!("{error}")).queries.remove(0);
    let row = ["0.0", "0.0", "true", "2"].map(|cell| Some(cell.to_string()));
    assert_eq!(run_cells(&query), [row]);
}

#[test]
fn small_groups_have_exact_percentiles_and_counts() {
    let folder = tempfile::tempdir().unwrap();
    let rows: String = (0..40).map(|i| format!("1970-01-01 00:00:{:02},{},{}\n", i, i % 2, i % 7)).collect();
    std::fs::write(folder.path().join("in.csv"), rows).unwrap();
    let run = |set: &str| {
        let text = format!(
            "CREATE TABLE s (ts TIMESTAMP(3), k INT, d DOUBLE, WATERMARK FOR ts AS ts - INTERVAL '2' SECOND)
             WITH ('connector' = 'filesystem', 'path' = 'in.csv', 'format' = 'csv');
             {set}
             SELECT k, PERCENTILE(d, 0.5), APPROX_ERROR(PERCENTILE(d, 0.5)), PERCENTILE(d, 0.9), APPROX_COUNT_DISTINCT(d),
                    APPROX_ERROR(APPROX_COUNT_DISTINCT(d)), APPROX_COUNT_DISTINCT(k), PERCENTILE(d, 0.5) FILTER (WHERE d > 9)
             FROM TABLE(TUMBLE(TABLE s, DESCRIPTOR(ts), INTERVAL '20' SECOND)) GROUP BY window_start, window_end, k"
        );
        let file = SqlFile { path: folder.path().join("q.sql"), text };
        let query = compile(&[file]).unwrap_or_else(|error| panic!("{error}")).queries.remove(0);
        let mut rows = run_cells(&query);
        rows.sort();
        rows
    };
    // Of key 0 in the first window 0, 2, 4, 6, 1, 3, 5, 0, 2, 4: position 4.5 lies between 2 and 3, position 8.1 a tenth
    // from 5 to 6.
    let sampled = run("SET 'laxity.approximate.error' = '5%';");
    let cells: Vec<Option<&str>> = sampled[0].iter().map(Option::as_deref).collect();
    let expected = ["0", "2.5", "0.0", "5.1", "7", "0.0", "1"].map(Some);
    assert_eq!(cells[..7], expected);
    assert_eq!(cells[7], None);
    let exact = run("");
    let number = |cell: &Option<String>| cell.as_deref().map(|cell| cell.parse::<f64>().unwrap());
    // DataFusion's sketch of 2¹⁴ registers has an error whoever looks at it: 1.96 · 1.04/128.
    assert!((number(&exact[0][5]).unwrap() - 0.015_925).abs() < 1e-5, "{exact:?}");
    for (a, b) in exact.iter().flatten().zip(sampled.iter().flatten()) {
        let (a, b) = (number(a), number(b));
        assert!(a == b || a.zip(b).is_some_and(|(a, b)| (a - b).abs() < 0.02), "{a:?} and {b:?}");
    }
}
