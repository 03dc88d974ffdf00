//! Why a query puts its windows together alone over a table that others read, as EXPLAIN tells it.

use laxity_sql::{SqlFile, compile, shared_with};

const TABLES: &str = "
CREATE TABLE t (k INT, d DOUBLE, v BIGINT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts) WITH ('connector' = 'datagen');
CREATE TABLE o (e TIMESTAMP(3), n BIGINT) WITH ('connector' = 'blackhole');
CREATE TABLE late (ts TIMESTAMP(3)) WITH ('connector' = 'blackhole');
";

const SECOND: &str = "TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '1' SECOND)";

fn query(what: &str, window: &str, filter: &str) -> String {
    format!(
        "INSERT INTO o SELECT window_end, {what} FROM TABLE({window}) {filter} GROUP BY window_start, window_end;\n"
    )
}

/// What is told of a query with that setting beside another one over the table.
fn told(setting: &str, query: &str) -> String {
    let other = "INSERT INTO late SELECT ts FROM t WHERE v > d;\n";
    let text = format!("{TABLES}{other}{setting}{query}");
    let script = compile(&[SqlFile { path: "q.sql".into(), text }]).unwrap_or_else(|error| panic!("{error}"));
    shared_with(&script.queries, 4)[1].clone().unwrap_or_default()
}

#[test]
fn what_keeps_a_query_apart_is_told() {
    for (what, why) in [
        ("COUNT(*)", "fewer than 4 aggregate the same rows in the same way"),
        ("COUNT(DISTINCT v)", "COUNT(DISTINCT …) needs all values of a window"),
        ("CAST(SUM(d) AS BIGINT)", "SUM of floats depends on the order of rows"),
    ] {
        let of_all = told("", &query(what, SECOND, ""));
        assert!(of_all.ends_with(&format!("as {why}")), "{what}: {of_all}");
        let of_some = told("", &query(what, SECOND, "WHERE k = 1"));
        assert_eq!(of_some, format!("shares no windows, as {why}"), "{what}");
    }
    let failing = told("", &query("SUM(v / k)", SECOND, "WHERE k = 1"));
    assert!(
        failing.starts_with("shares no windows, as ") && failing.ends_with(" may fail for a row"),
        "{failing}"
    );
    for (window, why) in [
        (
            "SESSION(TABLE t, DESCRIPTOR(ts), INTERVAL '1' SECOND)",
            "reads t alone, as sessions end by their own rows",
        ),
        (
            "TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '2' SECOND, INTERVAL '1' SECOND)",
            "shares no windows, as its windows have an offset",
        ),
    ] {
        assert_eq!(told("", &query("COUNT(*)", window, "WHERE k = 1")), why);
    }
    for (key, value, why) in [
        ("laxity.share", "off", "'laxity.share' is off"),
        ("laxity.late.table", "late", "its late rows go to a table"),
        ("laxity.memory.limit", "1 mb", "it has a memory limit of its own"),
        ("table.exec.source.idle-timeout", "1 s", "it has an idle timeout of its own"),
        ("laxity.shed", "true", "it may shed rows"),
        ("parallelism.default", "2", "it is spread over several instances"),
        ("laxity.allowed.lateness", "1 s", "its windows take late rows"),
    ] {
        let told = told(&format!("SET '{key}' = '{value}';\n"), &query("COUNT(*)", SECOND, "WHERE k = 1"));
        assert!(told.ends_with(&format!("as {why}")), "{key}: {told}");
    }
    // Nothing is said of what has no windows.
    assert_eq!(told("", "INSERT INTO late SELECT ts FROM t WHERE k = 1;\n"), "writes late as 1 other does");
}

#[test]
fn who_aggregates_every_row_alone_reads_them_with_others() {
    let windows = (1..=5)
        .map(|at| format!("TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '10' SECOND, INTERVAL '{at}' SECOND)"));
    let queries: String = windows.map(|window| query("COUNT(*)", &window, "")).collect();
    let script = compile(&[SqlFile { path: "q.sql".into(), text: TABLES.to_owned() + &queries }]).unwrap();
    for told in shared_with(&script.queries, 4) {
        let told = told.unwrap_or_default();
        let wanted = "reads t with 4 others, shares no windows, as its windows have an offset";
        assert!(told.starts_with(wanted), "{told}");
    }
}
