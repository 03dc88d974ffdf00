//! Inputs that somebody has mangled, each read by a query of its own beside one whose input is good: whatever is in them,
//! the process goes on, ends in time, and the good query loses nothing. LAXITY_FUZZ=1000 makes that many of each format
//! and of SQL; the seeds of a process that fails are printed.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

/// Mangled files in one process.
const BATCH: u64 = 20;

/// More than a process of this size may take, on a busy machine and without optimisation.
const RUN_MAX: Duration = Duration::from_secs(30);

const GOOD_ROWS: usize = 5_000;

/// SplitMix64 (Steele, Lea, Flood 2014).
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % bound.max(1) as u64) as usize
    }
}

fn times() -> u64 {
    std::env::var("LAXITY_FUZZ").map_or(BATCH, |times| times.parse().expect("a number"))
}

fn laxity(folder: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_laxity"));
    command.current_dir(folder).env_remove("LAXITY_LOG").stdin(Stdio::null()).args(args).output().unwrap()
}

fn told(output: &Output) -> String {
    let text = String::from_utf8_lossy(&output.stderr);
    text.chars().take(6_000).collect()
}

const COLUMNS: &str = "n BIGINT, x DOUBLE, d DECIMAL(10, 2), s STRING, b BOOLEAN, ts TIMESTAMP(3)";

/// Columns of the table that is read in this format.
fn columns(format: &str) -> String {
    match format {
        "avro" | "json" => format!("{COLUMNS}, arr ARRAY<INT>, m MAP<STRING, INT>, r ROW<a INT, q STRING>"),
        _ => COLUMNS.to_string(),
    }
}

/// A file of the format with a few hundred good rows.
fn seed(folder: &Path, format: &str, name: &str) -> Vec<u8> {
    let nested = if matches!(format, "avro" | "json") {
        ", ARRAY[CAST(n AS INT), 2], MAP[s, CAST(n AS INT)], ROW(CAST(n AS INT), s)"
    } else {
        ""
    };
    // A checksum would see what is mangled before anything reads it.
    let codec = if format == "avro" { ", 'avro.codec' = 'null'" } else { "" };
    let sql = format!(
        "CREATE TABLE numbers (n BIGINT) WITH ('connector' = 'datagen', 'number-of-rows' = '300', 'rows-per-second' = '1000000',
           'fields.n.kind' = 'sequence', 'fields.n.start' = '1', 'fields.n.end' = '300');
         CREATE TABLE written ({}) WITH ('connector' = 'filesystem', 'path' = '{name}', 'format' = '{format}'{codec});
         INSERT INTO written SELECT n, n / 3.0, CAST(n / 7.0 AS DECIMAL(10, 2)), 'text, \"' || CAST(n AS STRING), MOD(n, 2) = 0,
           TIMESTAMP '2020-01-01 00:00:00' + INTERVAL '1' SECOND{nested} FROM (SELECT CAST(n AS STRING) AS s, n FROM numbers);",
        columns(format)
    );
    fs::write(folder.join("seed.sql"), sql).unwrap();
    let output = laxity(folder, &["run", "seed.sql"]);
    assert_eq!(output.status.code(), Some(0), "{}", told(&output));
    fs::read(folder.join(name)).unwrap()
}

/// A few changes of bytes.
fn mangled(bytes: &[u8], random: &mut Random) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    for _ in 0..=random.below(5) {
        let at = random.below(bytes.len());
        match random.below(8) {
            0 => bytes.truncate(at),
            1 => bytes.insert(at, random.below(256) as u8),
            2 => bytes[at] ^= 1 << random.below(8),
            3 => {
                let end = (at + random.below(200)).min(bytes.len());
                let piece = bytes[at..end].to_vec();
                let place = random.below(bytes.len());
                bytes.splice(place..place, piece);
            }
            4 => {
                let end = (at + random.below(100)).min(bytes.len());
                bytes.drain(at..end);
            }
            5 => {
                let deep = [b'[', b'{', b'"', b',', b'\n', 0, 0xff][random.below(7)];
                bytes.splice(at..at, std::iter::repeat_n(deep, random.below(40_000)));
            }
            6 => {
                let strange: [&[u8]; 6] =
                    [b"99999999999999999999999", b"-1e400", b"NaN", b"\xef\xbb\xbf", b"null", b"\\u0000"];
                bytes.splice(at..at, strange[random.below(6)].iter().copied());
            }
            _ => {
                let end = (at + 4).min(bytes.len());
                bytes[at..end].fill(0xff);
            }
        }
        if bytes.is_empty() {
            bytes.push(0);
        }
    }
    bytes
}

const GOOD: &str = "CREATE TABLE good (n BIGINT) WITH ('connector' = 'filesystem', 'path' = 'good.csv', 'format' = 'csv');
         CREATE TABLE kept (n BIGINT) WITH ('connector' = 'filesystem', 'path' = 'kept.csv', 'format' = 'csv');
         SET 'pipeline.name' = 'good one';
         INSERT INTO kept SELECT n FROM good;";

/// A folder with the good query's file and input.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let rows: String = (0..GOOD_ROWS).map(|n| format!("{n}\n")).collect();
    fs::write(folder.path().join("good.csv"), rows).unwrap();
    fs::write(folder.path().join("good.sql"), GOOD).unwrap();
    folder
}

/// Runs the files and checks that the good query has all its rows in time.
#[expect(clippy::disallowed_methods, reason = "it is time that is tested")]
fn run_beside_the_good_one(folder: &Path, files: &[String], which: &str) {
    let started = Instant::now();
    let mut args = vec!["run", "good.sql"];
    args.extend(files.iter().map(String::as_str));
    args.extend(["--report", "report.json", "--memory", "512mb", "--for", "10 s"]);
    let output = laxity(folder, &args);
    let took = started.elapsed();
    // Whatever failed says so; nothing was ended by a signal, and no bug of ours was met.
    assert!(matches!(output.status.code(), Some(0 | 1)), "{which}: {:?}\n{}", output.status, told(&output));
    let all = String::from_utf8_lossy(&output.stderr).into_owned();
    // A panic of the libraries that read Avro and Parquet, contained and told as a damaged file, is not ours.
    let is_ours = |line: &&str| !["/parquet-", "/arrow-"].iter().any(|library| line.contains(library));
    let all: String = all.lines().filter(is_ours).map(|line| format!("{line}\n")).collect();
    for bad in ["panicked", "internal error", "please report this"] {
        assert!(!all.contains(bad), "{which}: {all}");
    }
    assert!(took < RUN_MAX, "{which} took {took:?}\n{}", told(&output));
    let kept = fs::read_to_string(folder.join("kept.csv")).unwrap();
    assert_eq!(kept.lines().count(), GOOD_ROWS, "{which}: {}", told(&output));
    let report: serde_json::Value =
        serde_json::from_str(&fs::read_to_string(folder.join("report.json")).unwrap()).unwrap();
    let queries = report["queries"].as_array().unwrap();
    let good = queries.iter().find(|query| query["name"] == "good one").unwrap();
    assert!(good["met"].as_f64() >= Some(0.95), "{which}: {good}");
    fs::remove_file(folder.join("kept.csv")).unwrap();
}

fn format_survives(format: &str, name: &str) {
    let folder = folder();
    let folder = folder.path();
    let bytes = seed(folder, format, name);
    assert!(bytes.len() > 1_000, "{name}: {}", bytes.len());
    let mut next = 0;
    while next < times() {
        let seeds = next..(next + BATCH).min(times());
        let mut sql = String::new();
        for seed in seeds.clone() {
            let path = format!("{seed}-{name}");
            fs::write(folder.join(&path), mangled(&bytes, &mut Random(seed))).unwrap();
            let _ = writeln!(
                sql,
                "CREATE TABLE t{seed} ({}) WITH ('connector' = 'filesystem', 'path' = '{path}', 'format' = '{format}');
                 CREATE TABLE out{seed} ({}) WITH ('connector' = 'blackhole');
                 SET 'pipeline.name' = 'mangled {seed}'; INSERT INTO out{seed} SELECT * FROM t{seed};",
                columns(format),
                columns(format),
            );
        }
        fs::write(folder.join("mangled.sql"), sql).unwrap();
        run_beside_the_good_one(folder, &["mangled.sql".into()], &format!("{name}, seeds {seeds:?}"));
        for seed in seeds.clone() {
            fs::remove_file(folder.join(format!("{seed}-{name}"))).unwrap();
        }
        next = seeds.end;
    }
}

#[test]
fn mangled_avro_harms_nobody_else() {
    format_survives("avro", "rows.avro");
}

#[test]
fn mangled_csv_harms_nobody_else() {
    format_survives("csv", "rows.csv");
}

#[test]
fn mangled_gzip_harms_nobody_else() {
    format_survives("csv", "rows.csv.gz");
}

#[test]
fn mangled_json_harms_nobody_else() {
    format_survives("json", "rows.json");
}

#[test]
fn mangled_parquet_harms_nobody_else() {
    format_survives("parquet", "rows.parquet");
}

#[test]
fn mangled_sql_harms_nobody_else() {
    let folder = folder();
    let folder = folder.path();
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden");
    fs::create_dir(folder.join("data")).unwrap();
    for entry in fs::read_dir(golden.join("data")).unwrap() {
        let path = entry.unwrap().path();
        fs::copy(&path, folder.join("data").join(path.file_name().unwrap())).unwrap();
    }
    let files = fs::read_dir(&golden).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<_> = files.filter(|path| path.extension().is_some_and(|e| e == "sql")).collect();
    files.sort();
    let mut next = 0;
    while next < times() {
        let seeds = next..(next + BATCH).min(times());
        let mut names = Vec::new();
        for seed in seeds.clone() {
            let text = fs::read(&files[seed as usize % files.len()]).unwrap();
            let name = format!("m{seed}.sql");
            fs::write(folder.join(&name), mangled(&text, &mut Random(seed))).unwrap();
            names.push(name);
        }
        run_beside_the_good_one(folder, &names, &format!("SQL, seeds {seeds:?}"));
        next = seeds.end;
    }
}
