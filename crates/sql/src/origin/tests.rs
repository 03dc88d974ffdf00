//! Places of failing expressions, found by what they compute and read. Cannot catch: a plan that calls these things by
//! other names; what failed is given by hand here.

use std::collections::BTreeMap;

use super::*;

/// The place and the text of what fails in the last statement of a file; every statement declares `v`, and reads
/// those before it that it names.
fn found(sql: &str, call: &str, leaves: &[&str]) -> (String, String) {
    let words = words_of(sql).unwrap();
    let mut declared = BTreeMap::new();
    let mut last = None;
    for (number, statement) in words.split(|word| word.token == Token::SemiColon).enumerate() {
        let span = Span::new(statement[0].span.start, statement.last().unwrap().span.end);
        let origin =
            Origin::new("q.sql".into(), sql.into(), span, statement, |name| declared.get(name).cloned());
        declared.insert(format!("v{number}"), Arc::clone(&origin));
        last = Some(origin);
    }
    let mut fault = ExpressionFault {
        operator: "Calc".into(),
        message: "Divide by zero".into(),
        expression: "as planned".into(),
        call: call.into(),
        leaves: leaves.iter().map(ToString::to_string).collect(),
        row: vec![],
        place: None,
    };
    last.unwrap().explain(&mut fault);
    (fault.place.unwrap(), fault.expression)
}

#[test]
fn an_expression_is_found_by_what_it_does_and_reads() {
    let sql = "SELECT a / b, a / c AS x,\n  CAST(s AS INT), CAST(CAST(t AS STRING) AS DECIMAL(10, 2)), a % 3 FROM t";
    let check = |call: &str, leaves: &[&str], place: &str, written: &str| {
        assert_eq!(found(sql, call, leaves), (format!("q.sql:{place}"), written.into()));
    };
    check("/", &["a", "b"], "1:8", "a / b");
    check("/", &["a", "c"], "1:15", "a / c");
    check("CAST_INT", &["s"], "2:3", "CAST(s AS INT)");
    check("%", &["a", "3"], "2:62", "a % 3");
    // Spelled otherwise than planned, with the same leaves.
    check("modulus", &["a", "3"], "2:62", "a % 3");
}

#[test]
fn the_sides_of_an_operator_are_whole() {
    let check = |sql: &str, call: &str, leaves: &[&str], written: &str| {
        assert_eq!(found(sql, call, leaves).1, written, "{sql}");
    };
    check("SELECT 1 + a * b / (c - 2) - 3 FROM t", "/", &["a", "b", "c", "2"], "a * b / (c - 2)");
    check("SELECT ABS(x.a) / -y.b[1] AS q FROM t", "/", &["a", "b", "1"], "ABS(x.a) / -y.b[1]");
    check(
        "SELECT CASE WHEN a > 1 THEN 2 ELSE 3 END\n / CASE WHEN b THEN 0 END FROM t",
        "/",
        &["a", "1", "2", "3", "b", "0"],
        "CASE WHEN a > 1 THEN 2 ELSE 3 END / CASE WHEN b THEN 0 END",
    );
    check("SELECT * FROM t WHERE a > 1 AND -b % c = 2", "%", &["b", "c"], "-b % c");
    check("SELECT COUNT(*), MOD(`a b`, 2) FROM t", "%", &["a b", "2"], "MOD(`a b`, 2)");
    check("SELECT ts - INTERVAL '1' DAY * n FROM t", "*", &["1", "n"], "INTERVAL '1' DAY * n");
}

#[test]
fn what_a_view_computes_stands_in_the_view_alone() {
    let sql = "CREATE VIEW v0 AS SELECT a / b AS q FROM t;\nCREATE VIEW v1 AS SELECT a / b AS q FROM t;\n\
               SELECT q FROM v1";
    assert_eq!(found(sql, "/", &["a", "b"]), ("q.sql:2:26".into(), "a / b".into()));
}

#[test]
fn all_places_are_named_that_it_may_have_been() {
    let sql = "SELECT a / b AS x, (a / b) + 1 AS y FROM t";
    assert_eq!(found(sql, "/", &["a", "b"]), ("q.sql:1:8 or q.sql:1:21".into(), "a / b".into()));
    // Nothing of the kind is written: the statement, and the expression as it is planned.
    assert_eq!(found(sql, "CAST_INT", &["s"]), ("q.sql:1:1".into(), "as planned".into()));
}

#[test]
fn rows_are_cut_and_tell_no_secret() {
    let cell = |name: &str, value: &str| (name.to_string(), value.to_string());
    let row = vec![
        cell("user", "ann"),
        cell("API_KEY", "k-1"),
        cell("url", "http://ann:pw@host/x"),
        cell("long", &"x".repeat(10_000)),
        cell("bell", "\u{7}"),
    ];
    let row = shown(row);
    assert_eq!(row[..2], [cell("user", "ann"), cell("API_KEY", "***")]);
    assert_eq!(row[2].1, "http://******@host/x");
    assert_eq!(row[3].1.chars().count(), VALUE_CHARS_MAX + 1);
    assert_eq!(row[4].1, "\\u{7}");
    let many: Vec<_> = (0..1_000).map(|n| cell(&format!("column{n}"), "1234567890")).collect();
    assert!(shown(many).len() < 30);
}
