//! The workloads that are SQL and whose results were worked out without it, against the program and in virtual time; and
//! the golden topics in virtual time.
//!
//! Catches wrong results, and results that depend on the policy, the cores, delays, or how rows were cut into batches: in
//! virtual time exactly and for every seed again. Cannot catch what is wrong in the same way in the second computation.

mod approximate_after_kills;
mod approximate_in_overload;
mod approximate_over_several;
mod by_hand;
mod crash;
mod kept;
mod on_threads;
mod one_table;
mod sharing;
mod statement_sets;
mod virtual_time;
mod while_it_runs;

use std::fs;
use std::io::Cursor;
use std::path::{Path, PathBuf};

use arrow::ipc::reader::FileReader;
use arrow::ipc::writer::FileWriter;
use laxity_operators::{OperatorState, StatePart};
use laxity_workload::script::{self, NamedScript, OutputFile, Pace};
use tempfile::TempDir;

/// Numbers that look random, the same each time.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % sides
    }

    fn pick<'a>(&mut self, of: &[&'a str]) -> &'a str {
        of[self.roll(of.len() as u64) as usize]
    }
}

fn from_environment(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |value| value.parse().expect("a number"))
}

/// A script with a known answer, written into a folder of its own.
struct Written {
    name: String,
    folder: TempDir,
    expected: Vec<OutputFile>,
    /// By query, where that is known.
    late_rows: Vec<u64>,
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
        Written { name: named.name.into(), folder, expected, late_rows: vec![] }
    }

    /// A topic of the golden folder with what its sinks must write: late tables and dead letters are not written in
    /// virtual time.
    fn golden(topic: &str, before: &str) -> Written {
        let folder = tempfile::tempdir().unwrap();
        for part in ["data", "out"] {
            fs::create_dir(folder.path().join(part)).unwrap();
        }
        for entry in fs::read_dir(golden().join("data")).unwrap() {
            let path = entry.unwrap().path();
            fs::copy(&path, folder.path().join("data").join(path.file_name().unwrap())).unwrap();
        }
        let sql = fs::read_to_string(golden().join(topic).with_extension("sql")).unwrap();
        let late_table = sql.split("'laxity.late.table' = '").nth(1).and_then(|rest| rest.split('\'').next());
        let late_table = late_table.map(|table| format!("out/{table}.csv"));
        fs::write(folder.path().join("script.sql"), before.to_owned() + &sql).unwrap();
        let text = fs::read_to_string(golden().join(topic).with_extension("expected")).unwrap();
        let (mut expected, mut late_rows) = (Vec::new(), Vec::new());
        for section in text.split("== ").skip(1) {
            let mut lines = section.lines().map(str::to_owned);
            let path = format!("out/{}", lines.next().unwrap());
            if path == "out/counts" {
                let counted = |line: String| line.split(" late").next()?.rsplit(' ').next()?.parse().ok();
                late_rows = lines.map(|line| counted(line).expect("a number of late rows")).collect();
            } else if late_table.as_ref() != Some(&path) && sql.contains(&format!("'path' = '{path}'")) {
                expected.push(OutputFile { path, lines: lines.collect() });
            }
        }
        Written { name: topic.into(), folder, expected, late_rows }
    }

    fn sql(&self) -> PathBuf {
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

/// State as it is after it was written as Arrow IPC and read again.
fn carried(state: OperatorState) -> OperatorState {
    let carried = state.whole().unwrap().parts.into_iter().map(|part| {
        let (name, pieces) = part.into_pieces();
        let rows = arrow::compute::concat_batches(&pieces[0].schema(), &pieces).unwrap();
        let mut file = Vec::new();
        let mut writer = FileWriter::try_new(&mut file, &rows.schema()).unwrap();
        writer.write(&rows).unwrap();
        writer.finish().unwrap();
        let mut reader = FileReader::try_new(Cursor::new(file), None).unwrap();
        StatePart::new(name, reader.next().unwrap().unwrap())
    });
    OperatorState::of(carried.collect())
}

fn lines(path: &Path) -> Vec<String> {
    fs::read_to_string(path).unwrap_or_default().lines().map(str::to_owned).collect()
}

fn sorted(lines: impl IntoIterator<Item = String>) -> Vec<String> {
    let mut lines: Vec<String> = lines.into_iter().collect();
    lines.sort_unstable();
    lines
}

fn golden() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden")
}

fn golden_topics() -> Vec<String> {
    let files = fs::read_dir(golden()).unwrap().map(|entry| entry.unwrap().path());
    let scripts = files.filter(|path| path.extension().is_some_and(|extension| extension == "sql"));
    sorted(scripts.map(|path| path.file_stem().unwrap().to_str().unwrap().to_owned()))
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
