//! The table of Flink's functions in docs/sql.md, made from `tests/flink/functions.tsv`: a function is there if its
//! example compiles. `LAXITY_UPDATE_GOLDEN=1` writes it anew.

use std::path::{Path, PathBuf};

use laxity_sql::{SqlFile, compile};

const BEGIN: &str = "<!-- functions: written by crates/sql/tests/sql/function_table.rs -->\n";
const END: &str = "<!-- end of functions -->\n";

const TABLE: &str = "
CREATE TABLE t (s STRING, i INT, d DOUBLE, o BOOLEAN, b BYTES, ts TIMESTAMP(3), a ARRAY<INT>, m MAP<STRING, INT>,
  WATERMARK FOR ts AS ts) WITH ('connector' = 'filesystem', 'path' = 't.json', 'format' = 'json');
";

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// An example that begins with `!` is an aggregate.
fn compiles(example: &str) -> bool {
    let query = match example.strip_prefix('!') {
        Some(aggregate) => format!(
            "SELECT {aggregate} AS x FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '1' DAY))
             GROUP BY window_start, window_end;"
        ),
        None => format!("SELECT {example} AS x FROM t;"),
    };
    compile(&[SqlFile { path: "f.sql".into(), text: format!("{TABLE}{query}") }]).is_ok()
}

#[test]
fn docs_list_the_functions_of_flink() {
    let list = std::fs::read_to_string(repository().join("tests/flink/functions.tsv")).unwrap();
    let mut groups: Vec<(&str, Vec<&str>, Vec<&str>)> = Vec::new();
    for line in list.lines() {
        let [group, name, example] = line.split('\t').collect::<Vec<_>>()[..] else { panic!("{line}") };
        if groups.last().is_none_or(|(last, ..)| *last != group) {
            groups.push((group, vec![], vec![]));
        }
        let (_, has, lacks) = groups.last_mut().unwrap();
        if compiles(example) { has.push(name) } else { lacks.push(name) }
    }
    let has: usize = groups.iter().map(|(_, has, _)| has.len()).sum();
    let lacks: usize = groups.iter().map(|(.., lacks)| lacks.len()).sum();
    assert!(has * 10 >= (has + lacks) * 9, "{has} of {} functions, nine tenths are wanted", has + lacks);

    let mut table = format!(
        "{has} of the {} functions that Flink documents and that append.\n\n| | has | lacks |\n|---|---|---|\n",
        has + lacks
    );
    let cell = |names: &[&str]| {
        names.iter().map(|name| format!("`{}`", name.replace('|', "\\|"))).collect::<Vec<_>>().join(" ")
    };
    for (group, has, lacks) in &groups {
        table.push_str(&format!("| {group} | {} | {} |\n", cell(has), cell(lacks)));
    }
    let path = repository().join("docs/sql.md");
    let docs = std::fs::read_to_string(&path).unwrap();
    let (before, rest) = docs.split_once(BEGIN).expect("docs/sql.md says where the table begins");
    let (there, after) = rest.split_once(END).expect("docs/sql.md says where the table ends");
    if std::env::var_os("LAXITY_UPDATE_GOLDEN").is_some() {
        std::fs::write(&path, format!("{before}{BEGIN}{table}{END}{after}")).unwrap();
        return;
    }
    assert_eq!(there, table, "LAXITY_UPDATE_GOLDEN=1 writes it anew");
}
