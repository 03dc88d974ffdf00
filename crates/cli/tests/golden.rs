//! Golden SQL: every topic of `tests/golden`, run by the real program. See the README there.
//!
//! Catches wrong results, and results that depend on the policy, the workers or the parallelism. Cannot catch
//! wrong timing, and is no better than the eyes (and `check.py`) that looked at the expected files.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tempfile::TempDir;

const UPDATE: &str = "LAXITY_UPDATE_GOLDEN";

#[test]
fn results_are_the_expected_ones() {
    let mut differing = Vec::new();
    for topic in topics() {
        let results = match Run::of(&topic).results() {
            Ok(results) => results,
            Err(failure) => {
                differing.push(failure);
                continue;
            }
        };
        let expected = golden().join(format!("{topic}.expected"));
        if std::env::var_os(UPDATE).is_some() {
            fs::write(&expected, &results).unwrap();
        }
        let wanted = fs::read_to_string(&expected).unwrap_or_default();
        if results != wanted {
            differing.push(format!("{topic}:\n{}", difference(&wanted, &results)));
        }
    }
    assert!(differing.is_empty(), "{}\n(to accept: {UPDATE}=1)", differing.join("\n"));
}

#[test]
fn results_do_not_depend_on_the_policy() {
    let listed = laxity(Path::new(".")).arg("policies").output().unwrap();
    let listed = String::from_utf8(listed.stdout).unwrap();
    let policies =
        listed.lines().take_while(|line| !line.is_empty()).map(|line| line.split(' ').next().unwrap());
    for policy in policies.chain(["llf:topology-only"]) {
        same_results(|run| Run { policy: policy.into(), ..run });
    }
}

#[test]
fn results_do_not_depend_on_a_switch_of_policy() {
    // The runs take some tens of milliseconds.
    let switches =
        ["1ms=rr", "3ms=llf", "6ms=random", "10ms=unit=query,rank=fcfs", "15ms=laxity", "21ms=fifo"];
    same_results(|run| Run { switches: switches.map(String::from).to_vec(), ..run });
}

#[test]
fn results_do_not_depend_on_the_number_of_workers() {
    // Eight share two schedulers.
    for (workers, policy) in [("1", "laxity"), ("3", "laxity"), ("8", "laxity"), ("8", "rr")] {
        same_results(|run| Run { workers: workers.into(), policy: policy.into(), ..run });
    }
}

#[test]
fn results_do_not_depend_on_the_parallelism() {
    same_results(|run| Run { before: "SET 'parallelism.default' = '4';\n".into(), ..run });
}

#[test]
fn refusals_say_where_and_why() {
    let mut differing = Vec::new();
    for name in names(&golden().join("errors"), "sql") {
        let folder = fresh_copy();
        let output =
            laxity(&folder.path().join("errors")).args(["run", &format!("{name}.sql")]).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        let expected = golden().join("errors").join(format!("{name}.stderr"));
        if std::env::var_os(UPDATE).is_some() {
            fs::write(&expected, &said).unwrap();
        }
        let wanted = fs::read_to_string(&expected).unwrap_or_default();
        if said != wanted || output.status.code() != Some(2) {
            differing.push(format!("{name}: {}\n{}", output.status, difference(&wanted, &said)));
        }
    }
    assert!(differing.is_empty(), "{}\n(to accept: {UPDATE}=1)", differing.join("\n"));
}

#[test]
fn a_second_computation_agrees() {
    let Ok(checked) = Command::new("python3").arg(golden().join("check.py")).output() else {
        eprintln!("skipped: no python3 here");
        return;
    };
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stderr));
}

fn same_results(change: impl Fn(Run) -> Run) {
    let mut differing = Vec::new();
    for topic in topics() {
        let run = change(Run::of(&topic));
        let wanted = fs::read_to_string(golden().join(format!("{topic}.expected"))).unwrap_or_default();
        match run.results() {
            Ok(results) if results == wanted => {}
            Ok(results) => differing.push(format!("{run:?}\n{}", difference(&wanted, &results))),
            Err(failure) => differing.push(failure),
        }
    }
    assert!(differing.is_empty(), "{}", differing.join("\n"));
}

/// One way to run a topic.
#[derive(Debug)]
struct Run {
    topic: String,
    /// SQL that goes before the topic's own.
    before: String,
    policy: String,
    /// As `--switch` takes them.
    switches: Vec<String>,
    workers: String,
}

impl Run {
    fn of(topic: &str) -> Run {
        Run {
            topic: topic.into(),
            before: String::new(),
            policy: "laxity".into(),
            switches: vec![],
            workers: "2".into(),
        }
    }

    /// What the run wrote, in the form of an `.expected` file; or what it said, if it failed.
    fn results(&self) -> Result<String, String> {
        let folder = fresh_copy();
        let sql = folder.path().join(format!("{}.sql", self.topic));
        fs::write(&sql, self.before.clone() + &fs::read_to_string(&sql).unwrap()).unwrap();
        let output = laxity(folder.path())
            .args([
                "run",
                "--plain",
                "--report",
                "report.json",
                "--policy",
                &self.policy,
                "--workers",
                &self.workers,
            ])
            .args(self.switches.iter().flat_map(|switch| ["--switch", switch]))
            .arg(sql.file_name().unwrap())
            .output()
            .unwrap();
        if output.status.code() != Some(0) {
            return Err(format!("{self:?}: {}\n{}", output.status, said(&output)));
        }
        Ok(written(&folder.path().join("out")) + &counts(&folder.path().join("report.json")))
    }
}

/// Every file of the folder, its lines sorted: the order in which rows of parallel instances reach a sink is
/// nobody's promise.
///
/// Files of partitions go by their folder: what they are called is nobody's promise either.
fn written(out: &Path) -> String {
    let mut contents: BTreeMap<PathBuf, String> = BTreeMap::new();
    let mut left = vec![out.to_owned()];
    while let Some(folder) = left.pop() {
        for entry in fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                left.push(path);
                continue;
            }
            let name = if folder == out { path.as_path() } else { folder.as_path() };
            let content = fs::read_to_string(&path).unwrap();
            contents.entry(name.strip_prefix(out).unwrap().to_owned()).or_default().push_str(&content);
        }
    }
    let mut text = String::new();
    for (name, content) in contents {
        writeln!(text, "== {}", name.display()).unwrap();
        let mut lines: Vec<&str> = content.lines().collect();
        lines.sort_unstable();
        lines.iter().for_each(|line| writeln!(text, "{line}").unwrap());
    }
    text
}

fn counts(report: &Path) -> String {
    let report: serde_json::Value = serde_json::from_str(&fs::read_to_string(report).unwrap()).unwrap();
    let mut queries = BTreeMap::new();
    for query in report["queries"].as_array().unwrap() {
        let counts =
            ["in", "out", "late", "dead"].map(|kind| format!("{} {kind}", query[format!("rows_{kind}")]));
        queries.insert(query["name"].as_str().unwrap(), counts.join(", "));
    }
    queries
        .iter()
        .fold("== counts\n".to_string(), |text, (name, counts)| text + &format!("{name}: {counts}\n"))
}

fn laxity(folder: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_laxity"));
    command.current_dir(folder).env_remove("LAXITY_LOG");
    command
}

fn said(output: &Output) -> String {
    format!("{}\n{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

fn golden() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden")
}

fn topics() -> Vec<String> {
    names(&golden(), "sql")
}

fn names(folder: &Path, extension: &str) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|found| found == extension))
        .map(|path| path.file_stem().unwrap().to_str().unwrap().to_string())
        .collect();
    names.sort();
    assert!(!names.is_empty(), "{}", folder.display());
    names
}

/// The golden folder, but for the expected results, where a run may write.
fn fresh_copy() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for part in ["", "data", "errors"] {
        fs::create_dir_all(folder.path().join(part)).unwrap();
        for entry in fs::read_dir(golden().join(part)).unwrap() {
            let path = entry.unwrap().path();
            if path.is_file() && path.extension().is_none_or(|extension| extension != "expected") {
                fs::copy(&path, folder.path().join(part).join(path.file_name().unwrap())).unwrap();
            }
        }
    }
    folder
}

/// Lines that only one of two texts has.
fn difference(wanted: &str, got: &str) -> String {
    let only = |sign: char, these: &str, those: &str| -> String {
        let missing = these.lines().filter(|line| !those.lines().any(|other| other == *line));
        missing.map(|line| format!("  {sign} {line}\n")).collect()
    };
    only('-', wanted, got) + &only('+', got, wanted)
}
