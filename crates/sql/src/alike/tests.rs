//! Plans that were made for many against plans of a query by itself, over the queries of the golden files, the examples and
//! those below. Cannot catch: what no text of a plan shows, such as which function a call of the same name is.

use std::path::{Path, PathBuf};

use regex::Regex;

use super::*;
use crate::compile::{CompileOptions, SqlFile, compile_caught};
use crate::side_by_side::on_deep_stack;

const TABLES: &str = "
CREATE TABLE bids (k INT, s STRING, d DOUBLE, v BIGINT, r ROW<a INT, b STRING>, ts TIMESTAMP(3), p AS PROCTIME(), w AS v + 1,
  WATERMARK FOR ts AS ts - INTERVAL '2' SECOND) WITH ('connector' = 'filesystem', 'path' = 'b.json', 'format' = 'json');
CREATE VIEW large AS SELECT * FROM bids WHERE v > 1000;
CREATE TABLE tardy (k INT, ts TIMESTAMP(3), window_end TIMESTAMP(3)) WITH ('connector' = 'blackhole');
CREATE TABLE n (n BIGINT) WITH ('connector' = 'blackhole');
CREATE TABLE e (e TIMESTAMP(3), n BIGINT) WITH ('connector' = 'blackhole');
";

const QUERIES: &[&str] = &[
    "INSERT INTO n SELECT v FROM bids",
    "INSERT INTO n SELECT bids.v FROM bids",
    "INSERT INTO n SELECT x.v + w FROM bids AS x WHERE x.s LIKE 'b%' AND k IN (1, 2)",
    "INSERT INTO n SELECT v FROM default_catalog.default_database.bids WHERE r.a > 2",
    "INSERT INTO n SELECT `v` FROM `bids`",
    "INSERT INTO n WITH few AS (SELECT v, s FROM bids WHERE k = 1) SELECT v FROM few WHERE s IS NOT NULL",
    "INSERT INTO n SELECT SUM(v) FROM TABLE(TUMBLE(TABLE bids, DESCRIPTOR(ts), INTERVAL '1' MINUTE)) \
     GROUP BY window_start, window_end HAVING SUM(v) > 2 AND COUNT(DISTINCT k) > 1",
    "INSERT INTO e SELECT window_end, SUM(v) * 2 FROM (SELECT window_start, window_end, v, ABS(k) AS x FROM TABLE(HOP(TABLE bids, \
     DESCRIPTOR(ts), INTERVAL '1' SECOND, INTERVAL '5' SECOND)) WHERE k + 1 > 3) GROUP BY window_start, window_end, x",
    "INSERT INTO e SELECT window_end, MAX(v) - MIN(w) FROM TABLE(SESSION(TABLE bids PARTITION BY k, DESCRIPTOR(ts), \
     INTERVAL '5' SECOND)) GROUP BY window_start, window_end, k",
    "INSERT INTO e SELECT TUMBLE_END(ts, INTERVAL '1' SECOND), COUNT(*) FROM bids GROUP BY TUMBLE(ts, INTERVAL '1' SECOND), s",
    "INSERT INTO e SELECT window_end, COUNT(*) FROM TABLE(TUMBLE(TABLE bids, DESCRIPTOR(p), INTERVAL '1' SECOND)) \
     GROUP BY window_start, window_end",
    "INSERT INTO e SELECT ts, SUM(v) OVER (PARTITION BY k ORDER BY ts RANGE BETWEEN INTERVAL '5' SECOND PRECEDING AND CURRENT ROW) \
     FROM bids",
    "INSERT INTO n SELECT v FROM (SELECT v, PROCTIME() AS q FROM bids) WHERE q IS NOT NULL",
    "INSERT INTO n SELECT v FROM bids UNION ALL SELECT w FROM bids",
    "INSERT INTO n SELECT v FROM large",
    "INSERT INTO n SELECT a.v FROM bids a JOIN bids b ON a.k = b.k AND a.ts BETWEEN b.ts - INTERVAL '1' SECOND AND b.ts",
    "SET 'laxity.late.table' = 'tardy'; INSERT INTO e SELECT window_end, COUNT(*) FROM TABLE(TUMBLE(TABLE bids, DESCRIPTOR(ts), \
     INTERVAL '3' SECOND)) GROUP BY window_start, window_end",
    "INSERT INTO e SELECT window_end, CAST(AVG(CASE WHEN d > 1 THEN d ELSE 0 END) AS BIGINT) FROM TABLE(CUMULATE(TABLE bids, \
     DESCRIPTOR(ts), INTERVAL '1' SECOND, INTERVAL '5' SECOND)) WHERE UPPER(s) <> 'X' GROUP BY window_start, window_end",
];

fn compiled(sql: &str, alike: &Alike) -> std::result::Result<Vec<String>, String> {
    let file = SqlFile { path: PathBuf::from("q.sql"), text: sql.to_owned() };
    let options = CompileOptions { processing_origin_ms: 0, verify_approximate: false };
    let script =
        on_deep_stack(|| compile_caught(&[file], options, 2, alike)).map_err(|error| error.to_string())?;
    let text = |query: crate::PlannedQuery| {
        let columns = query.dataflow.nodes().iter().map(|node| match &node.stage {
            laxity_operators::Stage::Source { scan, .. } => format!("{scan:?}"),
            _ => node.name.clone(),
        });
        let columns: Vec<String> = columns.collect();
        format!(
            "{}\n{:#?}\n{columns:#?}\n{:#?}\n{:#?}",
            query.explain, query.shape, query.late, query.windows
        )
    };
    Ok(script.queries.into_iter().map(text).collect())
}

/// Under which each plans by itself: nothing more is kept.
fn full() -> Alike {
    let alike = Alike::default();
    alike.forms.lock().known = (0..KEPT_MAX as u64).map(|hash| (hash, None)).collect();
    let columns = Arc::new(Schema::empty());
    let unknown = |number| (SqlExpr::Identifier(format!("{number}").as_str().into()), Arc::clone(&columns));
    *alike.expressions.lock() = (0..KEPT_MAX).map(|number| (unknown(number), Expr::default())).collect();
    alike
}

/// With a suffix to all tables and views.
fn renamed(sql: &str, suffix: &str) -> String {
    let declared = Regex::new(r"CREATE (?:TEMPORARY )?(?:TABLE|VIEW) (?:IF NOT EXISTS )?`?(\w+)").unwrap();
    let names: HashSet<&str> =
        declared.captures_iter(sql).map(|found| found.get(1).unwrap().as_str()).collect();
    names.into_iter().fold(sql.to_owned(), |sql, name| {
        let word = Regex::new(&format!(r"\b{name}\b")).unwrap();
        word.replace_all(&sql, format!("{name}{suffix}")).into_owned()
    })
}

/// Checks the third of three scripts that differ in names of tables alone; how many forms its queries have.
fn check(sql: &str) -> usize {
    let alike = Alike::default();
    let [first, second, third] = ["_a", "_b", "_c"].map(|suffix| renamed(sql, suffix));
    let before = compiled(&first, &alike).and_then(|_| compiled(&second, &alike));
    assert!(before.is_ok(), "{before:?}\n{second}");
    assert_eq!(compiled(&third, &alike), compiled(&third, &full()), "{third}");
    alike.forms.lock().known.values().flatten().count()
}

#[test]
fn a_plan_made_for_many_is_that_of_each_alone() {
    let forms: Vec<usize> = QUERIES.iter().map(|query| check(&format!("{TABLES}{query};"))).collect();
    // Not those that name it twice or in quotes, a view of it, or operators that no table is put in below.
    let expected = [1, 0, 1, 1, 0, 1, 1, 1, 1, 1, 1, 0, 1, 0, 0, 0, 1, 1];
    assert_eq!(forms, expected);

    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut of_files = 0;
    for folder in ["tests/golden", "examples", "examples/nexmark"] {
        for file in root.join(folder).read_dir().unwrap() {
            let path = file.unwrap().path();
            if path.extension().is_none_or(|extension| extension != "sql") {
                continue;
            }
            let sql = std::fs::read_to_string(&path).unwrap();
            // Some need another file, or a connector that is not known here.
            if compiled(&sql, &full()).is_ok() {
                of_files += check(&sql);
            }
        }
    }
    assert!(of_files > 20, "{of_files}");
}

/// What queries of one script come to, the last of which is the one that matters.
fn last(sql: &str) -> std::result::Result<String, String> {
    let alone = compiled(sql, &full());
    assert_eq!(compiled(sql, &Alike::default()), alone, "{sql}");
    Ok(alone?.pop().unwrap())
}

const ROWS: &str =
    "(a INT, v BIGINT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts) WITH ('connector' = 'datagen');\n";
const SINK: &str = "CREATE TABLE n (n BIGINT) WITH ('connector' = 'blackhole');\n";

fn tables(names: &[&str]) -> String {
    let tables = names.iter().map(|name| format!("CREATE TABLE {name} {ROWS}"));
    tables.fold(SINK.to_owned(), |sql, table| sql + &table)
}

#[test]
fn columns_are_part_of_what_is_alike() {
    let other = "CREATE TABLE c (v INT, a BIGINT, ts TIMESTAMP(3)) WITH ('connector' = 'datagen');\n";
    let reads = |table: &str| format!("INSERT INTO n SELECT v * 2 FROM {table};\n");
    let sql = tables(&["a", "b"]) + other + &reads("a") + &reads("b") + &reads("c");
    assert!(last(&sql).unwrap().contains("AS BIGINT"), "{}", last(&sql).unwrap());
    // The same of computed columns: one that is not declared so has no processing time.
    let stamped = |name: &str, p: &str| {
        format!("CREATE TABLE {name} (v BIGINT, p {p}) WITH ('connector' = 'datagen');\n")
    };
    let counts = |table: &str| {
        format!(
            "INSERT INTO n SELECT COUNT(*) FROM TABLE(TUMBLE(TABLE {table}, DESCRIPTOR(p), INTERVAL '1' SECOND)) \
             GROUP BY window_start, window_end;\n"
        )
    };
    let of = |third: &str| {
        let declared = stamped("a", "AS PROCTIME()") + &stamped("b", "AS PROCTIME()") + &stamped("c", third);
        last(&(SINK.to_owned() + &declared + &counts("a") + &counts("b") + &counts("c")))
    };
    assert!(of("AS PROCTIME()").is_ok());
    assert!(of("TIMESTAMP_LTZ(3)").unwrap_err().contains("not a time attribute"));
    // And an expression over columns of other types is another.
    let doubled = |name: &str, v: &str| {
        format!("CREATE TABLE {name} (v {v}, w AS v * 2) WITH ('connector' = 'datagen');\n")
    };
    let reads = |table: &str| format!("INSERT INTO n SELECT w FROM {table};\n");
    let sql = SINK.to_owned() + &doubled("a", "INT") + &doubled("b", "DOUBLE") + &reads("a") + &reads("b");
    assert!(last(&sql).unwrap_err().contains("DOUBLE"));
}

#[test]
fn a_name_that_stands_for_something_else_too_is_not_put_in() {
    // A column that is called as a table is, before that is declared and behind it.
    let reads = |table: &str| format!("INSERT INTO n SELECT v FROM {table} WHERE a > 1;\n");
    let sql = tables(&["t1", "t2"]) + &reads("t1") + &reads("t2");
    assert!(last(&(sql + "CREATE TABLE a " + ROWS + &reads("t2") + &reads("a"))).is_ok());
    // An alias that is called as the next table is.
    let aliased = |table: &str| format!("INSERT INTO n SELECT t2.v FROM {table} AS t2;\n");
    let sql = tables(&["t1", "t2", "t3"]) + &aliased("t1") + &aliased("t3") + &aliased("t2");
    assert!(last(&sql).is_ok());
    // Nor is a table that was dropped, and one of its name that came after it.
    let again = "DROP TABLE t1;\nCREATE TABLE t1 (v STRING, a INT) WITH ('connector' = 'datagen');\n";
    let sql = tables(&["t1", "t2"]) + &reads("t1") + &reads("t2") + again + &reads("t1");
    assert!(last(&sql).unwrap_err().contains("STRING"));
}

#[test]
fn errors_are_told_at_their_own_place() {
    let reads = |into: &str, table: &str| format!("INSERT INTO {into} SELECT v FROM {table} WHERE a > 1;\n");
    let small = "CREATE TABLE small (n INT) WITH ('connector' = 'blackhole');\n";
    let sql =
        tables(&["t1", "t2", "t3"]) + small + &reads("n", "t1") + &reads("n", "t2") + &reads("small", "t3");
    let told = last(&sql).unwrap_err();
    assert!(told.starts_with("q.sql:8:1: ") && told.contains("'small'"), "{told}");
    // Who has not to be refused for what another is refused for: an option is each table's own.
    let wrong = ROWS.replace("'datagen'", "'datagen', 'rows-per-second' = 'many'");
    let sql = tables(&["t1", "t2"])
        + "CREATE TABLE t3 "
        + &wrong
        + &reads("n", "t1")
        + &reads("n", "t2")
        + &reads("n", "t3");
    let told = last(&sql).unwrap_err();
    assert!(told.starts_with("q.sql:4:") && told.contains("rows-per-second"), "{told}");
    // What is wrong is wrong each time, and told the first.
    let unknown = |table: &str| format!("INSERT INTO n SELECT nothing FROM {table};\n");
    let sql = tables(&["t1", "t2", "t3"]) + &unknown("t1") + &unknown("t2") + &unknown("t3");
    assert!(last(&sql).unwrap_err().starts_with("q.sql:5:"));
}
