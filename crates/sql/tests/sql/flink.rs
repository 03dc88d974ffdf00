//! What a real Flink said, kept in `tests/flink`, against what Laxity says.
//!
//! Every difference is listed with its reason in `docs/flink.md`; `tests/flink/differences.tsv` says which
//! expressions each entry is about, and an entry about nothing is a failure too. What `make flink-check` has not
//! asked of Flink is not seen here.

mod nexmark;
mod queries;
mod sinks;

use std::any::Any;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use arrow::datatypes::{DataType, TimeUnit};
use laxity_operators::Stage;
use laxity_sql::{SqlFile, compile};
use regex::Regex;

use crate::driver::run_cells;

/// The type of an expression, and a text or NULL for each row.
type Said = (String, Vec<Option<String>>);

/// What Flink says to an expression. `None`: refused, or failed.
type Answer = Option<Said>;

/// A field as it stands in a file, and its value.
type Field = (String, Option<String>);

struct Case {
    expr: String,
    flink: Answer,
}

/// Expressions of one query. One that fails takes the query with it, and each is asked alone.
const TOGETHER: usize = 12;

/// How the names of files end that hold the answers of an older Flink.
const OLDER: &str = "-1.20";

/// Name of the threads that ask.
const ASKING: &str = "asking";

#[test]
fn expressions_have_flinks_values() {
    let cases = cases("expressions.tsv");
    let chunks: Vec<&[Case]> = cases.chunks(TOGETHER).collect();
    let next = AtomicUsize::new(0);
    let answers = Mutex::new(BTreeMap::new());
    // An operator's error is a panic of the driver, which is an answer here; other tests' panics are told.
    let told = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        if std::thread::current().name() != Some(ASKING) {
            told(panic);
        }
    }));
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            let asking = std::thread::Builder::new().name(ASKING.into());
            let spawned = asking.spawn_scoped(scope, || {
                while let Some(chunk) = chunks.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let exprs: Vec<&str> = chunk.iter().map(|case| case.expr.as_str()).collect();
                    let said: Vec<_> = match ask(&exprs) {
                        Ok(all) => all.into_iter().map(Ok).collect(),
                        Err(_) => {
                            exprs.iter().map(|expr| ask(&[expr]).map(|mut one| one.remove(0))).collect()
                        }
                    };
                    answers.lock().unwrap().extend(exprs.iter().map(|expr| expr.to_string()).zip(said));
                }
            });
            spawned.unwrap();
        }
    });
    let answers = answers.into_inner().unwrap();

    let mut differences = Differences::listed("expressions");
    for case in &cases {
        let ours = &answers[&case.expr];
        if !same(&case.flink, ours) {
            differences.add(&case.expr, || {
                let ours = match ours {
                    Err(reason) => format!("! {reason}"),
                    Ok(answer) => shown(&Some(answer.clone())),
                };
                format!("  flink {}\n  ours  {ours}", shown(&case.flink))
            });
        }
    }
    differences.assert_all_listed(cases.len());
}

/// What an older Flink says otherwise than the current one: here it is only seen to be known.
#[test]
fn where_an_older_flink_differs_is_said() {
    let mut files = 0;
    for entry in std::fs::read_dir(folder()).unwrap() {
        let path = entry.unwrap().path();
        let Some(topic) =
            path.file_stem().and_then(|stem| stem.to_str()).filter(|stem| stem.ends_with(OLDER))
        else {
            continue;
        };
        let mut differences = Differences::listed(topic);
        let text = std::fs::read_to_string(&path).unwrap();
        let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
        for line in &lines {
            differences.add(line, String::new);
        }
        differences.assert_all_listed(lines.len());
        files += 1;
    }
    assert!(files >= 4, "{files} files of Flink{OLDER}");
}

#[test]
fn fields_of_files_are_read_as_flink_does() {
    let text = std::fs::read_to_string(folder().join("inputs.tsv")).unwrap();
    let mut tables: BTreeMap<(&str, &str), Vec<Field>> = BTreeMap::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let cells: Vec<&str> = line.split('\t').collect();
        let (field, value) = (unescaped(cells[2]).unwrap(), unescaped(cells[3]));
        tables.entry((cells[0], cells[1])).or_default().push((field, value));
    }
    let mut differences = Differences::listed("inputs");
    let scratch = tempfile::tempdir().unwrap();
    let count: usize = tables.values().map(Vec::len).sum();
    for (number, ((format, data_type), fields)) in tables.into_iter().enumerate() {
        let path = scratch.path().join(format!("{number}.{format}"));
        let line = |(id, (field, _)): (usize, &Field)| match format {
            "json" => format!("{{\"id\": {id}, \"x\": {field}}}\n"),
            _ => format!("{id},{field}\n"),
        };
        std::fs::write(&path, fields.iter().enumerate().map(line).collect::<String>()).unwrap();
        let text = format!(
            "CREATE TABLE t (id INT, x {data_type}) WITH ('connector' = 'filesystem', 'path' = '{}', 'format' = \
             '{format}', 'laxity.bad-field' = 'null'); SELECT id, CAST(x AS STRING) FROM t;",
            path.display()
        );
        let script = compile(&[SqlFile { path: "inputs.sql".into(), text }]).unwrap();
        let rows = run_cells(&script.queries[0]);
        let ours: BTreeMap<usize, Option<String>> = rows
            .into_iter()
            .map(|row| (row[0].as_deref().unwrap().parse().unwrap(), row[1].clone()))
            .collect();
        for (id, (field, flink)) in fields.iter().enumerate() {
            let ours = ours.get(&id).cloned().flatten();
            // Bytes that are no text are not compared: a CAST shows them otherwise.
            let is_hex = flink.as_deref().is_some_and(|shown| shown.starts_with("x'")) && ours.is_some();
            if is_hex || same_value(data_type, flink.as_deref(), ours.as_deref()) {
                continue;
            }
            let case = format!("{format} {data_type} {field}");
            differences.add(&case, || format!("  flink {flink:?}\n  ours  {ours:?}"));
        }
    }
    differences.assert_all_listed(count);
}

/// Types and values of expressions over the table `v`.
fn ask(exprs: &[&str]) -> Result<Vec<Said>, String> {
    let items = |part: &dyn Fn(usize) -> String| (0..exprs.len()).map(part).collect::<Vec<_>>().join(", ");
    let inner = items(&|at| format!("{} AS c{at}", exprs[at]));
    let outer = items(&|at| format!("c{at}, CAST(c{at} AS STRING) AS t{at}"));
    let text = format!("{} SELECT id__, {outer} FROM (SELECT id AS id__, {inner} FROM v);", tables());
    let file = SqlFile { path: folder().join("expressions.sql"), text };
    let asked = catch_unwind(AssertUnwindSafe(|| {
        let script = compile(&[file]).map_err(|error| format!("{error}"))?;
        let query = &script.queries[0];
        let types = query.dataflow.nodes().iter().find_map(|node| match &node.stage {
            Stage::Sink(sink) => Some(sink.table.schema.clone()),
            _ => None,
        });
        let types = types.expect("a query has a sink");
        let mut rows = run_cells(query);
        rows.sort_by_key(|row| row[0].as_ref().and_then(|id| id.parse::<i64>().ok()));
        Ok((0..exprs.len())
            .map(|at| {
                let values = rows.iter().map(|row| row[2 + 2 * at].clone()).collect();
                (type_name(types.field(1 + 2 * at).data_type()), values)
            })
            .collect())
    }));
    told_by(asked)
}

/// An operator's error is a panic of the driver.
fn told_by<T>(asked: Result<Result<T, String>, Box<dyn Any + Send>>) -> Result<T, String> {
    asked.unwrap_or_else(|panic| {
        let said = panic.downcast_ref::<String>().cloned();
        Err(said.or_else(|| panic.downcast_ref::<&str>().map(|text| text.to_string())).unwrap_or_default())
    })
}

fn same(flink: &Answer, ours: &Result<Said, String>) -> bool {
    match (flink, ours) {
        (None, Err(_)) => true,
        (Some((flink_type, flink)), Ok((our_type, ours))) => {
            flink_type == our_type
                && flink.len() <= ours.len()
                // One value stands for all rows.
                && ours.iter().enumerate().all(|(row, value)| {
                    same_value(flink_type, flink[row.min(flink.len() - 1)].as_deref(), value.as_deref())
                })
        }
        _ => false,
    }
}

/// Floats are compared as numbers: Java 17 does not always write the shortest digits, and the last digit of what is
/// computed by series is not the same in every library.
fn same_value(data_type: &str, flink: Option<&str>, ours: Option<&str>) -> bool {
    let (Some(flink), Some(ours)) = (flink, ours) else { return flink == ours };
    let parsed = |text: &str| text.replace("Infinity", "inf").parse::<f64>().unwrap();
    match data_type {
        "FLOAT" => (parsed(flink) as f32).to_bits() == (parsed(ours) as f32).to_bits(),
        "DOUBLE" => {
            let (flink, ours) = (parsed(flink), parsed(ours));
            let apart = flink.to_bits().abs_diff(ours.to_bits());
            apart <= LAST_DIGITS || (flink.is_nan() && ours.is_nan())
        }
        _ => flink == ours,
    }
}

/// Steps of the last digit of a DOUBLE that count as equal.
const LAST_DIGITS: u64 = 2;

fn shown(answer: &Answer) -> String {
    let Some((data_type, values)) = answer else { return "!".into() };
    let values =
        values.iter().map(|value| value.as_ref().map_or("\\N".to_string(), |text| format!("{text:?}")));
    format!("{data_type}: {}", values.collect::<Vec<_>>().join(" "))
}

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/flink")
}

fn tables() -> String {
    std::fs::read_to_string(folder().join("tables.sql")).unwrap().replace("DATA", "data")
}

fn cases(file: &str) -> Vec<Case> {
    let text = std::fs::read_to_string(folder().join(file)).unwrap();
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines
        .map(|line| {
            let mut cells = line.split('\t');
            let expr = unescaped(cells.next().unwrap()).unwrap();
            let flink = match cells.next().unwrap() {
                "!plan" | "!run" => None,
                data_type => Some((kept_precision(data_type), cells.map(unescaped).collect())),
            };
            Case { expr, flink }
        })
        .collect()
}

/// Cases that differ from Flink: each must be among those that a line of `docs/flink.md` explains.
struct Differences {
    /// Number of the line, the cases it is about, and how many there are.
    listed: Vec<(usize, Regex, usize)>,
    unlisted: Vec<String>,
}

impl Differences {
    fn listed(topic: &str) -> Differences {
        let text = std::fs::read_to_string(folder().join("differences.tsv")).unwrap();
        let explained = std::fs::read_to_string(folder().join("../../docs/flink.md")).unwrap();
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        let entries = lines.map(|line| line.split('\t').collect::<Vec<_>>());
        let listed = entries.filter(|cells| cells[1] == topic).map(|cells| {
            assert!(explained.contains(&format!("\n| {} |", cells[0])), "docs/flink.md has no {}", cells[0]);
            (cells[0].parse().unwrap(), Regex::new(cells[2]).unwrap(), 0)
        });
        Differences { listed: listed.collect(), unlisted: vec![] }
    }

    fn add(&mut self, case: &str, said: impl FnOnce() -> String) {
        match self.listed.iter_mut().find(|(_, pattern, _)| pattern.is_match(case)) {
            Some((number, _, count)) => {
                *count += 1;
                // For whoever narrows a pattern: shown with --nocapture.
                println!("{number}\t{case}");
            }
            None => self.unlisted.push(format!("{case}\n{}", said())),
        }
    }

    fn assert_all_listed(mut self, cases: usize) {
        let idle = self.listed.iter().filter(|(_, _, count)| *count == 0);
        self.unlisted
            .extend(idle.map(|(number, pattern, _)| format!("entry {number} {pattern} is about nothing")));
        let unlisted = self.unlisted.join("\n");
        assert!(
            self.unlisted.is_empty(),
            "{} of {cases} differ from Flink:\n{unlisted}",
            self.unlisted.len()
        );
    }
}

fn unescaped(cell: &str) -> Option<String> {
    if cell == "\\N" {
        return None;
    }
    let mut text = String::new();
    let mut chars = cell.chars();
    while let Some(char) = chars.next() {
        text.push(match (char, char == '\\') {
            (_, true) => match chars.next() {
                Some('x') => {
                    let code: String = chars.by_ref().take(4).collect();
                    char::from_u32(u32::from_str_radix(&code, 16).unwrap()).unwrap()
                }
                other => other.unwrap(),
            },
            (plain, false) => plain,
        });
    }
    Some(text)
}

/// Laxity keeps times in steps of 1 s, 1 ms, 1 µs or 1 ns: a precision between is the next one.
fn kept_precision(flink: &str) -> String {
    let between = Regex::new(r"(TIMESTAMP(?:_LTZ)?)\((\d)\)").unwrap();
    let kept = between.replace_all(flink, |found: &regex::Captures<'_>| {
        format!("{}({})", &found[1], found[2].parse::<u32>().unwrap().div_ceil(3) * 3)
    });
    kept.into_owned()
}

/// The type as `ask.py` writes Flink's.
fn type_name(data_type: &DataType) -> String {
    match data_type {
        DataType::Boolean => "BOOLEAN".into(),
        DataType::Int8 => "TINYINT".into(),
        DataType::Int16 => "SMALLINT".into(),
        DataType::Int32 => "INT".into(),
        DataType::Int64 => "BIGINT".into(),
        DataType::Float32 => "FLOAT".into(),
        DataType::Float64 => "DOUBLE".into(),
        DataType::Utf8 => "STRING".into(),
        DataType::Binary => "BYTES".into(),
        DataType::Date32 => "DATE".into(),
        DataType::Time32(_) => "TIME".into(),
        DataType::Decimal128(precision, scale) => format!("DECIMAL({precision}, {scale})"),
        DataType::Timestamp(unit, zone) => {
            let precision = match unit {
                TimeUnit::Second => 0,
                TimeUnit::Millisecond => 3,
                TimeUnit::Microsecond => 6,
                TimeUnit::Nanosecond => 9,
            };
            format!("TIMESTAMP{}({precision})", if zone.is_some() { "_LTZ" } else { "" })
        }
        DataType::List(item) => format!("ARRAY<{}>", type_name(item.data_type())),
        DataType::Struct(fields) => {
            let fields =
                fields.iter().map(|field| format!("{} {}", field.name(), type_name(field.data_type())));
            format!("ROW<{}>", fields.collect::<Vec<_>>().join(", "))
        }
        DataType::Map(entries, _) => match entries.data_type() {
            DataType::Struct(fields) => {
                format!("MAP<{}, {}>", type_name(fields[0].data_type()), type_name(fields[1].data_type()))
            }
            other => other.to_string(),
        },
        other => other.to_string(),
    }
}
