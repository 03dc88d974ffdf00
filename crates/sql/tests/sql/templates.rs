//! Which queries differ in the constants of their filters alone, so that one operator works for all of them.

use std::path::PathBuf;
use std::sync::Arc;

use laxity_operators::{Stage, Template};
use laxity_sql::{CompileOptions, SqlFile, compile_with};

const TABLES: &str = "
CREATE TABLE t (k INT, s STRING, d DOUBLE, v BIGINT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts) WITH ('connector' = 'datagen');
CREATE VIEW w AS SELECT k, s, v + 1 AS u, ts FROM t;
CREATE TABLE n (kind INT, r ROW<k INT, s STRING, v BIGINT>, ts TIMESTAMP(3), WATERMARK FOR ts AS ts) WITH ('connector' = 'filesystem', 'path' = 'n.json', 'format' = 'json');
CREATE VIEW f AS SELECT r.k AS k, r.s AS s, r.v AS v, ts FROM n WHERE kind = 2;
CREATE TABLE o (e TIMESTAMP(3), n BIGINT) WITH ('connector' = 'blackhole');
CREATE TABLE p (e TIMESTAMP(3), n BIGINT) WITH ('connector' = 'print');
CREATE TABLE q (e TIMESTAMP(3), name STRING, number INT, n BIGINT) WITH ('connector' = 'blackhole');
CREATE TABLE x (e TIMESTAMP(3), n DECIMAL(20, 0)) WITH ('connector' = 'blackhole');
";

/// The templates of these queries.
fn templates(queries: &[&str]) -> Vec<Option<Arc<Template>>> {
    let text = queries.iter().fold(TABLES.to_owned(), |text, query| text + query + ";\n");
    let file = SqlFile { path: PathBuf::from("t.sql"), text };
    let script =
        compile_with(&[file], CompileOptions { processing_origin_ms: 0, verify_approximate: false }).unwrap();
    let template = |stage: &Stage<_, _>| match stage {
        Stage::Source { shared, .. } => shared.as_ref().and_then(|shared| shared.spec.template.clone()),
        _ => None,
    };
    script.queries.iter().map(|query| template(&query.dataflow.nodes()[0].stage)).collect()
}

fn counted(filter: &str) -> String {
    format!(
        "INSERT INTO o SELECT window_end, COUNT(*) FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '1' SECOND)) \
         WHERE {filter} GROUP BY window_start, window_end"
    )
}

fn is_one(templates: &[Option<Arc<Template>>]) -> bool {
    templates.windows(2).all(|pair| match (&pair[0], &pair[1]) {
        (Some(one), Some(other)) => Arc::ptr_eq(one, other),
        _ => false,
    })
}

#[test]
fn queries_that_differ_in_constants_have_one_template() {
    let filters =
        ["k = 1", "k = 2", "7 = k", "k IN (3, 4)", "k >= 5 AND k < 9", "k = 1 OR k = 2", "k BETWEEN 2 AND 3"];
    let queries: Vec<String> = filters.iter().map(|filter| counted(filter)).collect();
    let mut queries: Vec<&str> = queries.iter().map(String::as_str).collect();
    // Into another table of the same columns, and with other targets.
    let elsewhere = counted("k = 3").replace("INTO o", "INTO p");
    queries.extend(["SET 'laxity.latency.target' = '5 s'", &elsewhere]);
    assert!(is_one(&templates(&queries)));

    for of in ["AVG(v)", "AVG(k)", "SUM(k)", "CAST(AVG(d) AS BIGINT)", "SUM(v) / COUNT(v)"] {
        let queries = [counted("k = 1"), counted("k = 2")].map(|query| query.replace("COUNT(*)", of));
        assert!(is_one(&templates(&queries.each_ref().map(String::as_str))), "{of}");
    }

    let by_text = [counted("s = 'a'"), counted("s LIKE 'b%'"), counted("s IN ('c', 'd')")];
    assert!(is_one(&templates(&by_text.each_ref().map(String::as_str))));

    let of_parts = [
        counted("k = 1 AND v > 3"),
        counted("v BETWEEN 2 AND 9 AND k IN (4, 5)"),
        counted("(v = 1 OR v > 5) AND k IS NULL"),
        counted("k < 9 AND v = 3"),
    ];
    assert!(is_one(&templates(&of_parts.each_ref().map(String::as_str))));

    // What is computed of a row has a value for each.
    for alike in [
        ["MOD(v, 7) = 3", "CAST(v AS INT) = 5"],
        ["k = 1 AND MOD(v, 7) = 4", "MOD(v, 300) = 4 AND k / 2 = 1"],
        ["LOWER(s) = 'a'", "UPPER(s) LIKE 'B%'"],
    ] {
        let queries = alike.map(counted);
        assert!(is_one(&templates(&queries.each_ref().map(String::as_str))), "{alike:?}");
    }
    // Behind a view with a filter of its own, over fields of a row.
    for alike in [["k = 1", "k IN (2, 3)"], ["MOD(v, 300) = 7 AND s = 'b'", "LOWER(s) = 'a' AND v = 2"]] {
        let queries = alike.map(|filter| counted(filter).replace("TABLE t,", "TABLE f,"));
        assert!(is_one(&templates(&queries.each_ref().map(String::as_str))), "{alike:?}");
    }

    // Constants that are selected.
    let named = |name: &str, number: i32| {
        let query = counted(&format!("k = {number}")).replace("INTO o", "INTO q");
        query.replace("window_end, COUNT", &format!("window_end, {name}, {number}, COUNT"))
    };
    let own = [named("'a'", 1), named("'bcd'", 2), named("CAST('e' AS STRING)", 3)];
    assert!(is_one(&templates(&own.each_ref().map(String::as_str))));
    // What is computed of them differs.
    let made = templates(&[&named("'a'", 1), &named("'a'", 1).replace("COUNT(*)", "COUNT(*) + 1")]);
    assert!(made.iter().all(Option::is_some) && !is_one(&made));

    let of_view = |user: u32| {
        format!(
            "INSERT INTO o SELECT window_end, SUM(u) FROM TABLE(HOP(TABLE w, DESCRIPTOR(ts), INTERVAL '1' SECOND, INTERVAL '5' \
             SECOND)) WHERE k = {user} GROUP BY window_start, window_end, s HAVING SUM(u) > 10"
        )
    };
    assert!(is_one(&templates(&[&of_view(1), &of_view(2)])));
    // What is compared behind the windows is no part of a filter over the table.
    let other = of_view(3).replace("> 10", "> 11");
    let made = templates(&[&of_view(1), &other]);
    assert!(made.iter().all(Option::is_some) && !is_one(&made));
}

#[test]
fn those_that_differ_in_their_windows_too_have_slices_in_common() {
    let every = |window: &str, what: &str, user: u32| {
        counted(&format!("k = {user}"))
            .replace("TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '1' SECOND)", window)
            .replace("COUNT(*)", what)
    };
    let second = "TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '1' SECOND)";
    let hop = "HOP(TABLE t, DESCRIPTOR(ts), INTERVAL '2' SECOND, INTERVAL '6' SECOND)";
    let grown = "CUMULATE(TABLE t, DESCRIPTOR(ts), INTERVAL '3' SECOND, INTERVAL '9' SECOND)";
    let queries =
        [every(second, "SUM(v + 1)", 1), every(hop, "SUM(v + 1)", 1), every(grown, "SUM(v + 1)", 2)];
    let made = templates(&queries.each_ref().map(String::as_str));
    let slices = |template: &Option<Arc<Template>>| {
        template.as_ref().unwrap().slices().map(|(spec, ms)| (Arc::as_ptr(spec), ms))
    };
    let of: Vec<_> = made.iter().map(|template| slices(template).unwrap()).collect();
    assert_eq!(of.iter().map(|(_, ms)| *ms).collect::<Vec<_>>(), [1_000, 2_000, 3_000]);
    assert!(of.iter().all(|(spec, _)| *spec == of[0].0) && !is_one(&made));
    // What is computed differs, or hangs on the order of rows.
    let others = [
        every(hop, "SUM(v + 2)", 1),
        every(hop, "CAST(SUM(d) AS BIGINT)", 1),
        every(hop, "COUNT(DISTINCT v)", 1),
    ];
    let others = templates(&others.each_ref().map(String::as_str));
    assert!(slices(&others[0]).is_some_and(|(spec, _)| spec != of[0].0));
    assert_eq!(others[1..].iter().map(slices).collect::<Vec<_>>(), [None, None]);
}

#[test]
fn those_without_a_filter_have_slices_or_no_template() {
    let without = |query: String| query.replace("WHERE k = 1 ", "");
    let every = |window: &str, what: &str| {
        let query = counted("k = 1").replace("TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '1' SECOND)", window);
        without(query.replace("COUNT(*)", what))
    };
    let second = "TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '1' SECOND)";
    let hop = "HOP(TABLE t, DESCRIPTOR(ts), INTERVAL '2' SECOND, INTERVAL '6' SECOND)";
    let queries = [
        every(second, "SUM(v + 1)"),
        every(second, "SUM(v + 1)"),
        every(hop, "SUM(v + 1)"),
        counted("k = 1").replace("COUNT(*)", "SUM(v + 1)"),
    ];
    let made = templates(&queries.each_ref().map(String::as_str));
    assert!(is_one(&made[..2]), "{made:?}");
    let slicer = |template: &Option<Arc<Template>>| {
        template.as_ref().unwrap().slices().map(|(spec, _)| Arc::as_ptr(spec))
    };
    assert!(slicer(&made[0]).is_some() && slicer(&made[0]) == slicer(&made[2]));
    // One that reads a column more is read otherwise.
    assert!(made[3].is_some() && !is_one(&[made[0].clone(), made[3].clone()]));
    // Of each of these every row would have to be given to the operator of all.
    for query in [
        every(second, "CAST(SUM(d) AS BIGINT)"),
        every(second, "COUNT(DISTINCT v)"),
        every(&second.replace("TUMBLE", "SESSION"), "COUNT(*)"),
        without(counted("k = 1").replace("COUNT(*)", "SUM(10 / v)")),
    ] {
        // Of one alone there is never any.
        assert!(templates(&[&query, &query]).iter().all(Option::is_none), "{query}");
    }
}

#[test]
fn who_is_alone_with_a_table_has_a_template_once_another_comes() {
    let all = counted("k = 1").replace("WHERE k = 1 ", "");
    let of_filter = counted("k = 1");
    assert!(templates(&[&all])[0].is_none());
    assert!(is_one(&templates(&[&all, &all])));
    // One with a filter gets other rows; EXPLAIN runs nothing.
    let made = templates(&[&all, &of_filter, &format!("EXPLAIN {all}")]);
    assert!(made[0].is_none() && made[1].is_some());

    // Far behind, where what was planned side by side with the first is planned.
    let other = "CREATE TABLE own (ts TIMESTAMP(3), WATERMARK FOR ts AS ts) WITH ('connector' = 'datagen')";
    let of_other = all.replace("TABLE t,", "TABLE own,");
    let mut queries = vec![other, &of_other, &all];
    queries.extend([&*of_filter; 300]);
    queries.push(&all);
    let made = templates(&queries);
    assert!(made[0].is_none());
    assert!(is_one(&[made[1].clone(), made.last().unwrap().clone()]));

    // What the first needs is gone when the second comes.
    let view = "CREATE VIEW times AS SELECT ts FROM t";
    let of_view = all.replace("TABLE t,", "TABLE times,");
    let made = templates(&[view, &of_view, "DROP VIEW times", &all]);
    assert!(made.iter().all(Option::is_some), "{made:?}");
    // And none can come any more.
    assert!(templates(&[other, &of_other, "DROP TABLE own", other, &of_other]).iter().all(Option::is_none));
}

#[test]
fn what_may_differ_otherwise_or_fail_has_none() {
    let alone = [
        counted("d = 1.5"),
        counted("k = 1 AND d > 1.5"),
        counted("k = 1 AND MOD(v, k) = 3"),
        counted("k = 1 AND (s = 'a' AND v = 3 OR s = 'b')"),
        counted("s LIKE 'a%b'"),
        counted("CAST(s AS INT) = 3"),
        counted("7 / v = 3"),
        counted("k IS NULL"),
        counted("k = 1").replace("COUNT(*)", "SUM(10 / v)"),
        counted("k = 1").replace("COUNT(*)", "SUM(v) / COUNT(k)"),
        counted("k = 1").replace("COUNT(*)", "SUM(v) / MAX(v)"),
        counted("k = 1").replace("COUNT(*)", "SUM(v) FILTER (WHERE v > 1) / COUNT(v) FILTER (WHERE v > 2)"),
        counted("k = 1").replace("COUNT(*)", "SUM(CAST(s AS BIGINT))"),
        counted("k = 1").replace("COUNT(*)", "CAST(SUM(CAST(v AS DECIMAL(10, 2))) AS BIGINT)"),
        String::from("INSERT INTO o SELECT ts, v FROM t WHERE k = 1"),
        counted("k = 1").replace("TUMBLE(TABLE t,", "SESSION(TABLE t,"),
    ];
    for query in &alone {
        assert!(templates(&[query])[0].is_none(), "{query}");
    }
    let set = |key: &str, value: &str| {
        let set = format!("SET '{key}' = '{value}'");
        templates(&[&set, &counted("k = 1")])[0].is_none()
    };
    for (key, value) in [
        ("laxity.share", "off"),
        ("laxity.shed", "true"),
        ("laxity.memory.limit", "10 mb"),
        ("laxity.row.error", "dead-letter"),
        ("laxity.allowed.lateness", "1 s"),
        ("table.exec.source.idle-timeout", "1 s"),
        ("parallelism.default", "2"),
    ] {
        assert!(set(key, value), "{key}");
    }
    assert!(!set("laxity.weight", "2"));
    assert!(!set("execution.checkpointing.interval", "10 s"));
    // Those are saved together that are done as one.
    let every = |seconds: u32| format!("SET 'execution.checkpointing.interval' = '{seconds} s'");
    let saved = |first: u32, second: u32| {
        templates(&[&every(first), &counted("k = 1"), &every(second), &counted("k = 2")])
    };
    assert!(is_one(&saved(10, 10)) && !is_one(&saved(10, 20)));
    // Written to other columns, or grouped otherwise.
    let made = templates(&[
        &counted("k = 1"),
        &counted("k = 1").replace("INTO o", "INTO x"),
        &counted("k = 1").replace("window_start, window_end", "window_start, window_end, s"),
        &counted("k = 1").replace("'1' SECOND", "'2' SECOND"),
    ]);
    for (place, one) in made.iter().enumerate() {
        let others = made.iter().skip(place + 1).flatten();
        assert!(
            one.as_ref().is_some_and(|one| others.into_iter().all(|other| !Arc::ptr_eq(one, other))),
            "{place}"
        );
    }
}
