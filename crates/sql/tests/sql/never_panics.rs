//! Random words, random text and very deep or long statements: whatever they are answered, it is no internal error.
//! Cannot catch: a wrong statement that is taken for a right one.

use laxity_sql::{SqlErrorKind, compile};
use proptest::prelude::*;

use crate::errors::files;

/// Words that get random text past the first few checks.
const WORDS: &[&str] = &[
    "SELECT",
    "FROM",
    "WHERE",
    "GROUP BY",
    "TABLE",
    "TABLE(",
    "TUMBLE(",
    "HOP(",
    "DESCRIPTOR(ts)",
    "flights",
    "bids",
    "hourly",
    "carrier",
    "delay",
    "window_start",
    "window_end",
    "ts",
    "t",
    "k",
    ",",
    ",",
    "(",
    ")",
    "(",
    ")",
    "=",
    "<=",
    "*",
    "+",
    "-",
    "'x'",
    "1",
    "0",
    "INTERVAL '1' HOUR",
    "INTERVAL '-1' SECOND",
    "COUNT(*)",
    "SUM(delay)",
    "AND",
    "JOIN",
    "ON",
    "UNION ALL",
    "CASE",
    "WHEN",
    "END",
    "CAST(",
    "AS",
    "BIGINT)",
    "ROW_NUMBER() OVER (",
    "PARTITION BY",
    "ORDER BY",
    ";",
    "INSERT INTO sink",
    "CREATE TABLE q (",
    "CREATE VIEW q AS",
    "WATERMARK FOR",
    "SET",
    "NOT",
    "NULL",
    "IN",
    "EXISTS",
    "BETWEEN",
    "LIKE",
    "DISTINCT",
    "HAVING",
    "VALUES",
    "EXECUTE STATEMENT SET BEGIN",
    "ROW<",
    ">>",
    "`",
    "'",
    "/*",
    "--\n",
    "é",
    "\u{0}",
    "9223372036854775808",
    "1e400",
    "MAP<",
    "ARRAY[",
    "EXPLAIN",
    "FILTER (WHERE ok)",
];

/// A panic is answered as an internal error.
fn survives(sql: &str) {
    if let Err(error) = compile(&files(sql)) {
        assert_ne!(error.kind, SqlErrorKind::Internal, "{sql}\n{error}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn on_words(words in prop::collection::vec(prop::sample::select(WORDS), 0..40)) {
        survives(&words.join(" "));
    }

    #[test]
    fn on_queries_with_one_word_changed(at in 0_usize..60, word in prop::sample::select(WORDS)) {
        let sql = "SELECT carrier , window_start , COUNT(*) AS n , SUM(delay) FILTER (WHERE ok) FROM TABLE ( TUMBLE ( \
                   TABLE flights , DESCRIPTOR ( ts ) , INTERVAL '1' HOUR ) ) WHERE delay > 3 GROUP BY carrier , \
                   window_start , window_end HAVING COUNT(*) > 1";
        let mut words: Vec<&str> = sql.split(' ').collect();
        let at = at % words.len();
        words[at] = word;
        survives(&words.join(" "));
    }

    #[test]
    fn on_any_text(text in "\\PC{0,80}") {
        survives(&text);
    }
}

#[test]
fn on_deep_and_long_expressions() {
    for sql in [
        format!("SELECT {}1{} FROM flights", "(".repeat(3_000), ")".repeat(3_000)),
        format!("SELECT {}delay FROM flights", "- ".repeat(3_000)),
        format!("SELECT delay{} FROM flights", " + 1".repeat(3_000)),
        format!("SELECT * FROM flights WHERE delay IN ({}1)", "1, ".repeat(5_000)),
        format!("SELECT CAST(delay AS {}INT{}) FROM flights", "ARRAY<".repeat(3_000), ">".repeat(3_000)),
        format!("SELECT {} FROM flights", "CASE WHEN ok THEN 1 ELSE ".repeat(2_000)),
        // Each is read again where the next has no unit.
        format!("SELECT ts{} FROM flights", " - INTERVAL '1'".repeat(400)),
        format!("SELECT ts{} FROM flights", "- INTERVAL '1'- INTERVAL '1'-1'".repeat(60)),
        "SELECT carrier FROM flights UNION ALL ".repeat(1_000) + "SELECT k FROM bids",
    ] {
        survives(&sql);
    }
}

#[test]
fn on_types_that_nothing_brings_together() {
    let error = compile(&files("SELECT carrier FROM flights WHERE ok BETWEEN ts AND ts")).unwrap_err();
    assert_eq!(error.kind, SqlErrorKind::Type, "{error}");
    assert!(
        error.to_string().contains(":38: BOOLEAN and TIMESTAMP(3) cannot be compared by BETWEEN"),
        "{error}"
    );
}
