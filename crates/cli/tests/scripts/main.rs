//! The workloads that are SQL and whose results were worked out without it, against the program and in virtual time.
//!
//! Catches wrong results, and results that depend on the policy, the cores, delays, or how rows were cut into batches: in
//! virtual time exactly and for every seed again. Cannot catch what is wrong in the same way in the second computation.

mod on_threads;
mod virtual_time;

use std::fs;
use std::path::Path;

use laxity_workload::script::{self, NamedScript, OutputFile, Pace};
use tempfile::TempDir;

/// A script with a known answer, written into a folder of its own.
struct Written {
    name: &'static str,
    folder: TempDir,
    expected: Vec<OutputFile>,
}

impl Written {
    /// `before` is SQL that goes before the script's own.
    fn new(named: &NamedScript, seed: u64, replay: Option<f64>, before: &str) -> Written {
        let pace = Pace { replay, ..pace(named.name) };
        let folder = tempfile::tempdir().unwrap();
        for part in ["data", "out"] {
            fs::create_dir(folder.path().join(part)).unwrap();
        }
        let script = named.build(seed, pace).unwrap();
        fs::write(folder.path().join("script.sql"), before.to_owned() + &script.sql).unwrap();
        for input in script.inputs {
            let lines: Vec<String> = input.lines.collect();
            fs::write(folder.path().join(input.path), lines.join("\n") + "\n").unwrap();
        }
        let expected = named.expected(seed, pace).unwrap().expect("only those with an answer are asked");
        Written { name: named.name, folder, expected }
    }

    fn sql(&self) -> std::path::PathBuf {
        self.folder.path().join("script.sql")
    }

    /// The files that it wrote have the lines expected, in any order.
    fn check(&self, how: &str) {
        for file in &self.expected {
            let wanted = sorted(file.lines.iter().cloned());
            let got = sorted(lines(&self.folder.path().join(&file.path)));
            let differs = wanted.iter().zip(&got).position(|(wanted, got)| wanted != got);
            let place = differs.unwrap_or(wanted.len().min(got.len()));
            assert!(
                wanted == got,
                "{} {how}, {}: {} lines for {}; wanted {:?}, got {:?}",
                self.name,
                file.path,
                got.len(),
                wanted.len(),
                wanted.get(place),
                got.get(place)
            );
        }
    }
}

fn lines(path: &Path) -> Vec<String> {
    fs::read_to_string(path).unwrap_or_default().lines().map(str::to_owned).collect()
}

fn sorted(lines: impl IntoIterator<Item = String>) -> Vec<String> {
    let mut lines: Vec<String> = lines.into_iter().collect();
    lines.sort_unstable();
    lines
}

/// Small: everything here runs without optimisation. Linear Road's windows are of minutes, and bulk tenants read ten
/// times as much.
fn pace(name: &str) -> Pace {
    let (rows_per_s, seconds) = match name {
        "linear-road" => (12.0, 400),
        "cameo-tenants" => (100.0, 12),
        _ => (400.0, 12),
    };
    Pace { rows_per_s, seconds, ..Pace::default() }
}

fn with_answers() -> Vec<&'static NamedScript> {
    let has_answer = |named: &&NamedScript| named.expected(0, pace(named.name)).unwrap().is_some();
    script::all().iter().filter(has_answer).collect()
}
