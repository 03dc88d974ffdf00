//! `laxity-bench density`, small: sees that every cell and question runs, in processes of their own, and that what
//! they gave is kept. Never how fast.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use laxity_bench::density::{issue, outcome, questions};
use laxity_bench::queries::compile;

/// A folder of the test's own, gone at its end.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("laxity-density-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).expect("there is a temporary folder");
        Folder(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn density(folder: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_laxity-bench"));
    command.args(["density", "--small", "--runs"]).arg(folder).args(arguments);
    command.output().expect("the benchmark starts")
}

/// A file of the one run folder.
fn kept(folder: &Path, name: &str) -> String {
    let run = fs::read_dir(folder).unwrap().next().expect("a run folder").unwrap().path();
    fs::read_to_string(run.join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

#[test]
fn a_matrix_runs_and_is_judged() {
    let folder = Folder::new("matrix");
    let output = density(&folder.0, &["--cells", "matrix", "--policies", "laxity,os"]);
    assert!(output.status.success(), "{output:?}");
    let raw = kept(&folder.0, "density.csv");
    let mut lines = raw.lines().map(|line| line.split(',').collect::<Vec<_>>());
    let titles = lines.next().unwrap();
    let column = |title: &str| titles.iter().position(|&each| each == title).unwrap();
    let rows: Vec<Vec<&str>> = lines.collect();
    // Own and shared tables, ends staggered and together, two policies.
    assert_eq!(rows.len(), 2 * 2 * 2);
    for row in &rows {
        assert_eq!(row.len(), titles.len(), "{row:?}");
        let number = |title: &str| row[column(title)].parse::<f64>().unwrap();
        assert_eq!((row[column("error")], number("failed")), ("", 0.0), "{row:?}");
        assert!(number("results_due") >= 10.0 && number("cores") > 0.0, "{row:?}");
        assert!(number("rows_admitted_per_s") > 0.0 && number("peak_rss_mb") > 1.0, "{row:?}");
    }
    let summary = kept(&folder.0, "summary.md");
    for told in ["laxity meets at least 99 %", "never more CPU than os", "laxity-bench density", "machine"] {
        assert!(summary.contains(told), "{told:?} is not in {summary}");
    }
    assert!(kept(&folder.0, "calibration.json").contains("10-shared-100ms"));
}

#[test]
fn every_question_is_answered() {
    let folder = Folder::new("questions");
    let output = density(&folder.0, &["--cells", "questions"]);
    assert!(output.status.success(), "{output:?}");
    let summary = kept(&folder.0, "summary.md");
    for question in questions::ALL {
        assert!(summary.contains(&format!("## {}", question.name)), "{} is not in {summary}", question.name);
    }
}

#[test]
fn a_cell_is_printed_as_a_users_file() {
    let folder = Folder::new("sql");
    let output = density(&folder.0, &["--print-sql", "issue-200"]);
    assert!(output.status.success(), "{output:?}");
    let sql = String::from_utf8(output.stdout).unwrap();
    assert_eq!(compile(&sql).unwrap().queries.len(), 220);
    assert_eq!(fs::read_dir(&folder.0).unwrap().count(), 0, "nothing was run");
}

#[test]
fn a_plan_runs_nothing_and_a_wrong_name_says_what_there_is() {
    let folder = Folder::new("plan");
    let output = density(&folder.0, &["--plan", "--cells", "issue", "--policies", "laxity"]);
    let told = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(told.contains(&format!("{} cells", issue::cells().len())), "{told}");
    let output = density(&folder.0, &["--cells", "issue-7"]);
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && told.contains("issue-100") && told.contains("row-cost"), "{told}");
    assert_eq!(fs::read_dir(&folder.0).unwrap().count(), 0);
}

#[test]
fn columns_have_names_of_their_own() {
    let mut names = outcome::COLUMNS.to_vec();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), outcome::COLUMNS.len());
}
