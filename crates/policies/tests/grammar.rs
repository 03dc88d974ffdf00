//! What is written is what is read, and what is wrong is named.

use std::collections::BTreeSet;

use laxity_policies::{CATALOGUE, recipe};
use laxity_sched::{By, PolicyDescription, WaitBound};

#[test]
fn every_listed_name_is_read_as_itself_or_an_equal() {
    for name in CATALOGUE.names() {
        let known = recipe(name).unwrap();
        assert_eq!(recipe(known.name()).unwrap(), known, "{name}");
        let first = CATALOGUE.names().find(|other| recipe(other).unwrap() == known);
        assert_eq!(known.name(), first.expect("itself at least"));
    }
}

#[test]
fn the_list_says_of_each_what_it_is() {
    let all = CATALOGUE.policies();
    let names: BTreeSet<&str> = all.iter().map(|policy| policy.name).collect();
    assert_eq!(names.len(), all.len(), "a name is given twice");
    assert_eq!(all[0].name, "laxity", "the default comes first");
    for PolicyDescription { name, line, paper, recipe: known, .. } in &all {
        assert!((10..=90).contains(&line.len()) && !paper.is_empty(), "{name}: {line} [{paper}]");
        assert_eq!(recipe(&known.to_string()).unwrap(), *known, "{name}");
    }
    let of = |name: &str| {
        let policy = all.iter().find(|policy| policy.name == name).expect("it is listed");
        (policy.needs.by, policy.needs.cycle_ns(), policy.bound())
    };
    assert_eq!(of("llf"), (By::Message, None, WaitBound::Deadline));
    assert_eq!(of("qs"), (By::Queue, None, WaitBound::Ageing));
    assert_eq!(of("haren"), (By::Cycle, Some(50_000_000), WaitBound::Ageing));
    assert_eq!(of("klink"), (By::Cycle, Some(120_000_000), WaitBound::Ageing));
    assert_eq!(of("rr"), (By::Turn, None, WaitBound::Turns));
}

#[test]
fn what_is_written_is_what_is_read() {
    for (text, name, parts) in [
        ("llf", "llf", "unit=operator,rank=llf,traversal=by-rank,train=quantum"),
        (
            "llf:topology-only",
            "llf:topology-only",
            "unit=operator,rank=llf:topology-only,traversal=by-rank,train=quantum",
        ),
        (
            "laxity:overload=off",
            "laxity:overload=off",
            "unit=operator,rank=laxity:overload=off,traversal=by-rank,train=quantum",
        ),
        ("rank=edf", "edf", "unit=operator,rank=edf,traversal=by-rank,train=quantum"),
        ("train=all,unit=query", "", "unit=query,rank=laxity,traversal=by-rank,train=all"),
        ("unit=spanner:3 , rank=rr", "", "unit=spanner:3,rank=rr,traversal=by-rank,train=quantum"),
        ("qs@20ms", "qs@20ms", "unit=operator,rank=qs@20ms,traversal=by-rank,train=quantum"),
        (
            "rank=llf:sigma=1ms,period=2s",
            "llf:sigma=1ms@2s",
            "unit=operator,rank=llf:sigma=1ms@2s,traversal=by-rank,train=quantum",
        ),
        ("haren:hr", "", "unit=operator,rank=hr@50ms,traversal=by-rank,train=rows:10"),
        (
            "haren:llf:topology-only@1s",
            "",
            "unit=operator,rank=llf:topology-only@1s,traversal=by-rank,train=rows:10",
        ),
        ("haren@1s", "", "unit=operator,rank=qs@1s,traversal=by-rank,train=rows:10"),
        ("haren", "haren", "unit=operator,rank=qs@50ms,traversal=by-rank,train=rows:10"),
        ("hr:global", "hr:global", "unit=operator,rank=hr:global,traversal=by-rank,train=quantum"),
        ("tokens:12", "tokens:12", "unit=operator,rank=tokens:12,traversal=by-rank,train=one"),
        ("edgewise", "edgewise", "unit=operator,rank=qs,traversal=by-rank,train=messages:50"),
        ("train=rows:200,rank=rr", "", "unit=operator,rank=rr,traversal=by-rank,train=rows:200"),
        ("train=fraction:0.5,rank=rr", "", "unit=operator,rank=rr,traversal=by-rank,train=fraction:0.5"),
        ("train=fraction:1,rank=edf", "", "unit=operator,rank=edf,traversal=by-rank,train=all"),
        ("train=time:1500us,rank=rr", "", "unit=operator,rank=rr,traversal=by-rank,train=time:1500us"),
        ("train=4ms,rank=rr", "", "unit=operator,rank=rr,traversal=by-rank,train=time:4ms"),
        ("train=cost:5 ms,rank=rr", "", "unit=operator,rank=rr,traversal=by-rank,train=cost:5ms"),
        ("train=one,rank=rr", "", "unit=operator,rank=rr,traversal=by-rank,train=one"),
        ("train=messages:50,rank=rr", "", "unit=operator,rank=rr,traversal=by-rank,train=messages:50"),
    ] {
        let known = recipe(text).unwrap();
        assert_eq!(known.to_string(), parts, "{text}");
        assert_eq!(known.name(), if name.is_empty() { parts } else { name }, "{text}");
        assert_eq!(recipe(known.name()).unwrap(), known, "{text}");
    }
}

#[test]
fn what_is_wrong_is_named_with_what_would_be_right() {
    for (text, says) in [
        ("", r#"no policy is named ""; expected one of laxity, llf, edf"#),
        ("LLF", r#"no policy is named "LLF"; expected one of laxity, llf, edf"#),
        ("fastest", "or parts as in unit=query,rank=fcfs,"),
        (
            "fifo:topology-only",
            r#"in "fifo:topology-only": rank=fifo does not take "topology-only"; expected nothing"#,
        ),
        ("llf:topology", r#"rank=llf does not take "topology"; expected "#),
        ("unit=box", r#"in "unit=box": no unit is named "box"; expected operator, query or spanner:K"#),
        ("unit=spanner", r#"unit=spanner does not take ""; expected how many of the most urgent operators"#),
        ("unit=spanner:0", r#"unit=spanner does not take "0""#),
        ("rank=slack,unit=query", r#"no rank is named "slack"; expected laxity, llf"#),
        ("rank=rr,traversal=depth-first", r#"no traversal is named "depth-first"; expected by-rank"#),
        ("rank=rr,train=some", r#"no train is named "some"; expected one, messages:N"#),
        ("rank=rr,train=rows", r#"train=rows does not take ""; expected a number, as in rows:200"#),
        ("rank=rr,train=rows:0", r#"train=rows does not take "0""#),
        ("rank=rr,train=fraction:2", r#"train=fraction does not take "2"; expected a fraction above 0"#),
        ("rank=rr,train=cost:5", r#"train=cost does not take "5"; expected a time, as in cost:5ms"#),
        ("rank=rr,train=one:2", r#"no train is named "one:2""#),
        ("rank=qs,rank=rr", "rank is given twice; leave one of them out"),
        (
            "rank=rr,speed=9",
            r#""speed=9" is no part of a policy; expected unit, rank, traversal, train or period"#,
        ),
        ("rank=rr,", r#""" is no part of a policy"#),
        ("rr@20ms", "rank=rr does not take \"20ms\"; expected no period"),
        (
            "llf:sigma=much",
            r#"rank=llf does not take "much"; expected sigma=TIME, the error of its costs or topology-only"#,
        ),
        (
            "laxity:overload=on",
            r#"rank=laxity does not take "overload=on"; expected PART=off, of forecasts, "#,
        ),
        ("hr:local", r#"rank=hr does not take "local"; expected global"#),
        ("tokens:0", r#"rank=tokens does not take "0"; expected messages a second for each unit of weight"#),
        ("haren:best", r#"in "haren:best": no rank is named "best"; expected laxity, llf"#),
        ("rank=rr,period=soon", r#"period does not take "soon"; expected a time, as in 50ms"#),
    ] {
        let error = recipe(text).unwrap_err().to_string();
        assert!(error.contains(says), "{text:?} got: {error}");
    }
}
