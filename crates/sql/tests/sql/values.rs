//! Values at the edges, row by row. Expected texts are Flink 1.20's: from its documentation and its code, and from
//! issue reports of runs beside it.

use laxity_sql::{SqlFile, compile};

use crate::driver::run;

const TABLE: &str = "
CREATE TABLE n (
  id INT, d DOUBLE, f FLOAT, t TINYINT, i INT, l BIGINT, dc DECIMAL(10, 2), big DECIMAL(38, 10), s STRING
) WITH ('connector' = 'filesystem', 'path' = 'n.csv', 'format' = 'csv');
";

/// Row 1 is ordinary, 2 and 3 are at the ends, 4 and 5 are what no number is, 6 is NULL.
const ROWS: &[&str] = &[
    "1,0.25,0.25,7,-7,42,12.34,2.5,12.7",
    "2,1e15,3.4e38,127,2147483647,9223372036854775807,99999999.99,9999999999999999999999999999.9999999999,1e3",
    "3,-1e300,-3.4e38,-128,-2147483648,-9223372036854775808,-99999999.99,-9999999999999999999999999999.9999999999,-12.5",
    "4,NaN,NaN,0,0,0,0,0,NaN",
    "5,inf,-inf,0,0,0,0,0,abc",
    "6",
];

/// The expression as text for each row. `""` is NULL.
fn values(expr: &str, rows: &[&str]) -> Vec<String> {
    let text = format!("{TABLE} SELECT id, CAST({expr} AS STRING) FROM n;");
    let script =
        compile(&[SqlFile { path: "n.sql".into(), text }]).unwrap_or_else(|error| panic!("{expr}: {error}"));
    let (rows, _) = run(&script.queries[0], &[("n", rows)], 10);
    rows.iter().map(|row| row.split_once(',').unwrap().1.to_string()).collect()
}

fn check(cases: &[(&str, [&str; 6])]) {
    for (expr, expected) in cases {
        assert_eq!(values(expr, ROWS), expected, "{expr}");
    }
}

/// Over the first row alone.
fn check_one(cases: &[(&str, &str)]) {
    for (expr, expected) in cases {
        assert_eq!(values(expr, &ROWS[..1]), [*expected], "{expr}");
    }
}

#[test]
fn a_double_beside_a_decimal_literal_stays_one() {
    check(&[
        // Decimals are compared with Double.compare in Flink, where NaN is the largest.
        ("d > 0.25", ["FALSE", "TRUE", "FALSE", "TRUE", "TRUE", ""]),
        ("0.25 = d", ["TRUE", "FALSE", "FALSE", "FALSE", "FALSE", ""]),
        ("f <= 0.25", ["TRUE", "FALSE", "TRUE", "FALSE", "TRUE", ""]),
        ("d BETWEEN 0.1 AND 1", ["TRUE", "FALSE", "FALSE", "FALSE", "FALSE", ""]),
        ("d IN (0.25, 1e15)", ["TRUE", "TRUE", "FALSE", "FALSE", "FALSE", ""]),
        ("d IS DISTINCT FROM 0.25", ["FALSE", "TRUE", "TRUE", "TRUE", "TRUE", "TRUE"]),
        ("COALESCE(d, 0.5)", ["0.25", "1.0E15", "-1.0E300", "NaN", "Infinity", "0.5"]),
        ("IFNULL(d, 0.5)", ["0.25", "1.0E15", "-1.0E300", "NaN", "Infinity", "0.5"]),
        ("IF(id > 3, 0.5, d)", ["0.25", "1.0E15", "-1.0E300", "0.5", "0.5", "0.5"]),
        ("CASE WHEN id = 6 THEN 1.5 ELSE d END", ["0.25", "1.0E15", "-1.0E300", "NaN", "Infinity", "1.5"]),
        ("CASE d WHEN 0.25 THEN 'a' WHEN 1e15 THEN 'b' ELSE 'c' END", ["a", "b", "c", "c", "c", "c"]),
        ("NULLIF(d, 0.25)", ["", "1.0E15", "-1.0E300", "NaN", "Infinity", ""]),
        ("GREATEST(d, 0.5)", ["0.5", "1.0E15", "0.5", "NaN", "Infinity", ""]),
        ("LEAST(d, 0.5)", ["0.25", "0.5", "-1.0E300", "0.5", "0.5", ""]),
        ("d * 0.5", ["0.125", "5.0E14", "-5.0E299", "NaN", "Infinity", ""]),
        ("dc < d", ["FALSE", "TRUE", "FALSE", "TRUE", "TRUE", ""]),
    ]);
    check_one(&[
        ("1e-20 = 0.0", "FALSE"),
        ("COALESCE(CAST(1e-20 AS DOUBLE), 0.0)", "1.0E-20"),
        ("CASE WHEN TRUE THEN 1 ELSE 0.5 END", "1.0"),
        // FLOAT beside a decimal is a DOUBLE, beside a whole number a FLOAT.
        ("f + 0.1", "0.35"),
        ("CAST(0.1 AS FLOAT) + 0.0", "0.10000000149011612"),
        ("COALESCE(CAST(0.1 AS FLOAT), 1)", "0.1"),
        ("COALESCE(CAST(0.1 AS FLOAT), 1.0)", "0.10000000149011612"),
    ]);
}

#[test]
fn filters_do_not_stop_at_doubles_out_of_a_decimals_range() {
    for (sql, expected) in [
        ("SELECT id FROM n WHERE d > 0.25", vec!["2", "4", "5"]),
        ("SELECT id FROM n WHERE NOT d <= 0.25 AND f < 1.5", vec!["5"]),
    ] {
        let text = format!("{TABLE} {sql};");
        let script = compile(&[SqlFile { path: "n.sql".into(), text }]).unwrap();
        assert_eq!(run(&script.queries[0], &[("n", ROWS)], 2).0, expected, "{sql}");
    }
}

#[test]
fn decimals_are_divided_with_flinks_scale() {
    check_one(&[
        ("dc / 3", "4.1133333333333"),
        ("dc / CAST(3 AS DECIMAL(10, 2))", "4.1133333333333"),
        ("1.0 / 3", "0.333333333333"),
        ("2.0 / 3.0", "0.666667"),
        ("-2.0 / 3.0", "-0.666667"),
        ("0.5 / 0.25", "2.000000"),
        ("l / dc", "3.40356564019"),
        ("CAST(1 AS DECIMAL(38, 0)) / CAST(3 AS DECIMAL(38, 0))", "0.333333"),
        ("dc / CAST(NULL AS DECIMAL(10, 2))", ""),
        ("CAST(NULL AS DECIMAL(10, 2)) / 0.0", ""),
        ("CAST('99999999999999999999999999999999999999' AS DECIMAL(38, 0)) + 1", ""),
    ]);
    check(&[
        // More digits than 38 are NULL.
        ("big * big", ["6.250000", "", "", "0.000000", "0.000000", ""]),
        (
            "big + big",
            [
                "5.000000000",
                "20000000000000000000000000000.000000000",
                "-20000000000000000000000000000.000000000",
                "0.000000000",
                "0.000000000",
                "",
            ],
        ),
        ("big - big", ["0.000000000", "0.000000000", "0.000000000", "0.000000000", "0.000000000", ""]),
    ]);
}

#[test]
fn whole_numbers_wrap_and_floats_saturate() {
    check(&[
        ("CAST(l AS INT)", ["42", "-1", "0", "0", "0", ""]),
        ("CAST(i AS TINYINT)", ["-7", "-1", "0", "0", "0", ""]),
        ("CAST(i AS SMALLINT)", ["-7", "-1", "0", "0", "0", ""]),
        ("CAST(d AS INT)", ["0", "2147483647", "-2147483648", "0", "2147483647", ""]),
        ("CAST(d AS TINYINT)", ["0", "-1", "0", "0", "-1", ""]),
        (
            "CAST(d AS BIGINT)",
            ["0", "1000000000000000", "-9223372036854775808", "0", "9223372036854775807", ""],
        ),
        (
            "CAST(f AS BIGINT)",
            ["0", "9223372036854775807", "-9223372036854775808", "0", "-9223372036854775808", ""],
        ),
        ("CAST(dc AS TINYINT)", ["12", "-1", "1", "0", "0", ""]),
        ("CAST(i AS DECIMAL(3, 1))", ["-7.0", "", "", "0.0", "0.0", ""]),
        ("CAST(dc AS DECIMAL(4, 1))", ["12.3", "", "", "0.0", "0.0", ""]),
        (
            "CAST(big AS DECIMAL(38, 20))",
            ["2.50000000000000000000", "", "", "0.00000000000000000000", "0.00000000000000000000", ""],
        ),
        ("TRY_CAST(l AS INT)", ["42", "-1", "0", "0", "0", ""]),
        ("TRY_CAST(d AS DECIMAL(20, 1))", ["0.3", "1000000000000000.0", "", "", "", ""]),
        ("TRY_CAST(s AS INT)", ["12", "", "-12", "", "", ""]),
        ("TRY_CAST(s AS DOUBLE)", ["12.7", "1000.0", "-12.5", "NaN", "", ""]),
        ("TRY_CAST(s AS DECIMAL(5, 0))", ["13", "1000", "-13", "", "", ""]),
    ]);
    check_one(&[
        ("CAST('12.7' AS INT)", "12"),
        ("CAST('1e3' AS DECIMAL(10, 1))", "1000.0"),
        ("CAST('1e30' AS DECIMAL(10, 1))", ""),
        ("CAST(' 1.25 ' AS DECIMAL(3, 1))", "1.3"),
        ("TRY_CAST('128' AS TINYINT)", ""),
        ("TRY_CAST('9223372036854775808' AS BIGINT)", ""),
        ("TRY_CAST(300 AS TINYINT)", "44"),
        ("CAST('y' AS BOOLEAN)", "TRUE"),
        ("TRY_CAST('maybe' AS BOOLEAN)", ""),
        ("CAST(1.005e0 AS DECIMAL(10, 2))", "1.01"),
        ("CAST(CAST(0.1 AS FLOAT) AS DECIMAL(20, 18))", "0.100000001490116120"),
    ]);
}

#[test]
fn numeric_functions_have_values_at_the_ends() {
    check(&[
        ("SQRT(d)", ["0.5", "3.162277660168379E7", "NaN", "NaN", "Infinity", ""]),
        ("SQRT(-1)", ["NaN"; 6]),
        ("ABS(i)", ["7", "2147483647", "-2147483648", "0", "0", ""]),
        ("ABS(l)", ["42", "9223372036854775807", "-9223372036854775808", "0", "0", ""]),
        ("ABS(dc)", ["12.34", "99999999.99", "99999999.99", "0.00", "0.00", ""]),
        ("CEIL(l)", ["42", "9223372036854775807", "-9223372036854775808", "0", "0", ""]),
        ("CEIL(dc)", ["13", "100000000", "-99999999", "0", "0", ""]),
        ("FLOOR(dc)", ["12", "99999999", "-100000000", "0", "0", ""]),
        ("FLOOR(d)", ["0.0", "1.0E15", "-1.0E300", "NaN", "Infinity", ""]),
        ("ROUND(l, -1)", ["40", "-9223372036854775806", "9223372036854775806", "0", "0", ""]),
        ("ROUND(dc, -1)", ["10", "100000000", "-100000000", "0", "0", ""]),
        ("ROUND(dc, 1)", ["12.3", "100000000.0", "-100000000.0", "0.0", "0.0", ""]),
        ("ROUND(d, 1)", ["0.3", "1.0E15", "-1.0E300", "NaN", "Infinity", ""]),
        ("CHR(i)", ["", "ÿ", "", "\0", "\0", ""]),
    ]);
    check_one(&[
        ("ROUND(CAST(1.005 AS DOUBLE), 2)", "1.01"),
        ("ROUND(2.5)", "3"),
        ("ROUND(-2.5)", "-3"),
        ("ROUND(i, NULL)", ""),
        ("CHR(97)", "a"),
        ("CHR(353)", "a"),
        ("CHR(-7)", ""),
    ]);
}

#[test]
fn texts_have_the_length_of_their_type() {
    check_one(&[
        ("'[' || CAST('abcdef' AS VARCHAR(3)) || ']'", "[abc]"),
        ("'[' || CAST('ab' AS VARCHAR(3)) || ']'", "[ab]"),
        ("'[' || CAST('ab' AS CHAR(4)) || ']'", "[ab  ]"),
        ("'[' || CAST('abcdef' AS CHAR(4)) || ']'", "[abcd]"),
        ("'[' || CAST('äöü' AS CHAR(2)) || ']'", "[äö]"),
        ("'[' || CAST('ä' AS CHAR(3)) || ']'", "[ä  ]"),
        ("'[' || CAST(12345 AS VARCHAR(3)) || ']'", "[123]"),
        ("CAST('abc' AS CHAR)", "a"),
        // Without a length it is a STRING.
        ("CAST('abcdef' AS VARCHAR)", "abcdef"),
        ("CAST(NULL AS CHAR(3))", ""),
        ("CHAR_LENGTH(TRY_CAST('ab' AS CHAR(5)))", "5"),
    ]);
}

#[test]
fn text_functions_at_their_edges() {
    check_one(&[
        ("'[' || LEFT('abc', -1) || RIGHT('abc', -1) || LEFT('abc', 0) || ']'", "[]"),
        ("LEFT('äbc', 2) || RIGHT('abö', 2) || RIGHT('abc', 9)", "äbböabc"),
        ("LEFT('abc', CAST(NULL AS INT))", ""),
        ("LPAD('hi', -1, '?')", ""),
        ("LPAD('hi', 1, '?')", "h"),
        ("LPAD('hi', 4, '')", ""),
        ("RPAD('hi', 5, 'ab')", "hiaba"),
        ("REPLACE('abc', '', 'x')", "xaxbxcx"),
        ("SPLIT_INDEX('a,b,c', 44, 1)", "b"),
        ("SPLIT_INDEX('a,b,c', 300, 0)", ""),
        ("SPLIT_INDEX('a b', '', 1)", "b"),
        ("SPLIT_INDEX('', ',', 0)", ""),
        ("REGEXP_REPLACE('ab', '(a)', '$1-')", "$1-b"),
        ("IS_ALPHA(CAST(NULL AS STRING))", "FALSE"),
        ("IS_ALPHA('abC')", "TRUE"),
        ("IS_ALPHA('')", "FALSE"),
        ("IS_DIGIT(CAST(NULL AS STRING))", "FALSE"),
        ("IS_DIGIT(12)", "TRUE"),
        ("IS_DIGIT(1.5)", "FALSE"),
        ("IS_DECIMAL('1.5e3')", "TRUE"),
        ("IS_DECIMAL('x')", "FALSE"),
        ("TO_BASE64('a')", "YQ=="),
        ("FROM_BASE64('YQ==') || 'b'", "ab"),
        ("'a%b' LIKE 'a!%b' ESCAPE '!'", "TRUE"),
        ("'axb' LIKE 'a!%b' ESCAPE '!'", "FALSE"),
        ("'axb' NOT LIKE 'a!%b' ESCAPE '!'", "TRUE"),
        // The backslash is a character like others.
        ("'a\\b' LIKE 'a\\b'", "TRUE"),
        ("'a\\' LIKE 'a\\%'", "TRUE"),
        ("'xabc' SIMILAR TO 'abc'", "FALSE"),
        ("'abc' SIMILAR TO '(a|x)b_'", "TRUE"),
        ("'abcd' SIMILAR TO 'ab%'", "TRUE"),
        ("'a1' SIMILAR TO '[[:ALPHA:]][0-9]+'", "TRUE"),
        ("'a$' SIMILAR TO 'a$'", "TRUE"),
        ("'b' NOT SIMILAR TO 'a|b'", "FALSE"),
        ("CAST(NULL AS STRING) SIMILAR TO 'a'", ""),
        ("(1, 2) = (1, CAST(NULL AS INT))", ""),
        ("(1, 2) = (2, CAST(NULL AS INT))", "FALSE"),
        ("(1, 2) <> (2, CAST(NULL AS INT))", "TRUE"),
    ]);
}

#[test]
fn dates_times_and_timestamps_keep_their_types() {
    check_one(&[
        ("FLOOR(DATE '2020-05-17' TO MONTH)", "2020-05-01"),
        ("CEIL(DATE '2020-05-17' TO YEAR)", "2021-01-01"),
        ("TIMESTAMPADD(MONTH, 1, DATE '2020-01-31')", "2020-02-29"),
        ("TIMESTAMPADD(HOUR, 1, DATE '2020-01-31')", "2020-01-31 01:00:00.000000"),
        ("TIMESTAMPADD(DAY, 1, TIMESTAMP '2020-02-28 10:00:00')", "2020-02-29 10:00:00"),
        ("HOUR(TIME '10:20:30')", "10"),
        ("EXTRACT(SECOND FROM TIME '10:20:30')", "30"),
        ("FLOOR(TIME '10:20:30' TO HOUR)", "10:00:00"),
        ("EXTRACT(DAY FROM DATE '2020-05-17')", "17"),
        ("TIMESTAMP '2020-01-01 00:00:00.123456'", "2020-01-01 00:00:00.123456"),
        ("TIMESTAMP '2020-01-01 00:00:00.123456789'", "2020-01-01 00:00:00.123456789"),
        ("TO_TIMESTAMP('2020-01-02T03:04:05')", ""),
        ("TO_TIMESTAMP('2020-02-30 00:00:00')", "2020-02-29 00:00:00.000"),
        ("TO_TIMESTAMP('2020-04-31')", "2020-04-30 00:00:00.000"),
        ("TO_TIMESTAMP('2020-02-32')", ""),
        ("TO_TIMESTAMP('2020-1-2 3:4:5.6')", "2020-01-02 03:04:05.600"),
        ("TO_TIMESTAMP('30.02.2021', 'dd.MM.yyyy')", "2021-02-28 00:00:00.000"),
        ("TO_DATE('2020-02-30')", "2020-03-01"),
        ("TIMESTAMP '2020-01-01 00:00:00' + INTERVAL '1 02:03:04' DAY TO SECOND", "2020-01-02 02:03:04"),
        ("TIMESTAMP '2020-01-01 00:00:00' - INTERVAL '1-2' YEAR TO MONTH", "2018-11-01 00:00:00"),
        ("TIMESTAMP '2020-01-01 00:00:00' + INTERVAL '-1:30' HOUR TO MINUTE", "2019-12-31 22:30:00"),
    ]);
}

#[test]
fn arrays_and_maps_have_items() {
    check_one(&[
        ("ARRAY[1, 2, 3][2]", "2"),
        ("ARRAY[1, 2, 3][4]", ""),
        ("ARRAY[1, 2.5][1]", "1.0"),
        ("ARRAY['a', s][2]", "12.7"),
        ("ARRAY[1, 2][CAST(NULL AS INT)]", ""),
        ("CARDINALITY(ARRAY[1, CAST(NULL AS INT)])", "2"),
        ("MAP['a', 1, 'b', 2]['b']", "2"),
        ("MAP['a', 1, 'b', 2]['c']", ""),
        ("MAP['a', 1, s, 2]['12.7']", "2"),
        ("MAP[1, 'x', 2, 'y'][i + 9]", "y"),
        ("CARDINALITY(MAP['a', 1])", "1"),
        ("TIMESTAMP '2020-01-01 00:00:00' + 2 * INTERVAL '1' DAY", "2020-01-03 00:00:00"),
        ("TIMESTAMP '2020-01-01 00:00:00' + INTERVAL '1' SECOND * id", "2020-01-01 00:00:01"),
        ("TIMESTAMP '2020-01-01 00:00:00' + CAST(NULL AS INT) * INTERVAL '1' SECOND", ""),
    ]);
}

#[test]
fn json_is_made() {
    check_one(&[
        ("JSON_OBJECT()", "{}"),
        (
            "JSON_OBJECT('a' VALUE 1, KEY 'b' VALUE 'x\"', 'c' VALUE CAST(NULL AS INT))",
            "{\"a\":1,\"b\":\"x\\\"\",\"c\":null}",
        ),
        ("JSON_OBJECT('a' VALUE CAST(NULL AS INT), 'b' VALUE TRUE ABSENT ON NULL)", "{\"b\":true}"),
        (
            "JSON_OBJECT('a' VALUE JSON_ARRAY(1, 'x'), 'b' VALUE JSON_OBJECT('c' VALUE 1.5))",
            "{\"a\":[1,\"x\"],\"b\":{\"c\":1.5}}",
        ),
        ("JSON_ARRAY()", "[]"),
        ("JSON_ARRAY(1, CAST(NULL AS INT), 'x')", "[1,\"x\"]"),
        ("JSON_ARRAY(1, CAST(NULL AS INT) NULL ON NULL)", "[1,null]"),
        ("JSON_QUERY(JSON_OBJECT('a' VALUE JSON_ARRAY(1)), '$.a')", "[1]"),
    ]);
}

#[test]
fn json_is_looked_into() {
    check_one(&[
        (r#"JSON_VALUE('{"a": {"b": [1, "x", true, 1e3, null]}}', '$.a.b[1]')"#, "x"),
        (r#"JSON_VALUE('{"a": {"b": [1, "x", true, 1e3, null]}}', 'lax $.a.b[2]')"#, "true"),
        (r#"JSON_VALUE('{"a": {"b": [1, "x", true, 1e3, null]}}', '$.a.b[3]')"#, "1000.0"),
        (r#"JSON_VALUE('{"a": {"b": [1, "x", true, 1e3, null]}}', '$.a.b[4]')"#, ""),
        (r#"JSON_VALUE('{"a": {"b": 9223372036854775807}}', '$.a[''b'']')"#, "9223372036854775807"),
        (r#"JSON_VALUE('{"a": {}}', '$.a')"#, ""),
        (r#"JSON_VALUE('{"a": {}}', '$.b')"#, ""),
        ("JSON_VALUE('nonsense', '$.b')", ""),
        ("JSON_VALUE(CAST(NULL AS STRING), '$.b')", ""),
        (r#"JSON_EXISTS('{"a": null}', '$.a')"#, "TRUE"),
        (r#"JSON_EXISTS('{"a": null}', '$.b')"#, "FALSE"),
        ("JSON_EXISTS('nonsense', '$')", "FALSE"),
        ("JSON_EXISTS(CAST(NULL AS STRING), '$')", ""),
    ]);
}
