//! SQL that somebody has mangled: every file of the repository, with bytes and words changed at random. It may be
//! refused, and never panics or takes long. LAXITY_FUZZ=1000 makes that many of each file; seeds are printed.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use laxity_sql::{SqlErrorKind, SqlFile, compile};

/// Longer than any of these may take, on a busy machine and without optimisation.
const COMPILE_MAX: Duration = Duration::from_secs(5);

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

fn corpus() -> Vec<(PathBuf, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut files = Vec::new();
    for folder in ["tests/golden", "tests/golden/errors", "examples"] {
        for entry in std::fs::read_dir(root.join(folder)).unwrap() {
            let path = entry.unwrap().path();
            // The boards are three hundred times the same.
            if path.extension().is_some_and(|e| e == "sql") && !path.ends_with("boards.sql") {
                files.push((path.clone(), std::fs::read_to_string(&path).unwrap()));
            }
        }
    }
    files.sort();
    files
}

/// A few changes, of words and of characters.
fn mutated(text: &str, others: &[(PathBuf, String)], random: &mut Random) -> String {
    let mut words: Vec<String> =
        text.split_inclusive(|c: char| !c.is_alphanumeric()).map(String::from).collect();
    for _ in 0..=random.below(4) {
        let at = random.below(words.len());
        let other = &others[random.below(others.len())].1;
        let foreign: Vec<&str> = other.split_inclusive(|c: char| !c.is_alphanumeric()).collect();
        match random.below(8) {
            0 => drop(words.remove(at)),
            1 => words.insert(at, words[at].clone()),
            2 => {
                let other = random.below(words.len());
                words.swap(at, other);
            }
            3 => words.insert(at, foreign[random.below(foreign.len())].to_string()),
            4 => words.truncate(at.max(1)),
            5 => words
                .splice(at..at, std::iter::repeat_n("(".to_string(), 1 + random.below(300)))
                .for_each(drop),
            6 => {
                let strange =
                    ["\u{0}", "'", "`", "\u{feff}", "/*", "--", "99999999999999999999", "-1", "é", ";", "\\"];
                words.insert(at, strange[random.below(strange.len())].to_string());
            }
            _ => {
                // A piece of the file again, many times.
                let end = (at + 1 + random.below(12)).min(words.len());
                let piece: Vec<String> = words[at..end].to_vec();
                let times = 1 + random.below(60);
                let repeated = std::iter::repeat_n(piece, times).flatten();
                words.splice(at..at, repeated).for_each(drop);
            }
        }
        if words.is_empty() {
            words.push(";".into());
        }
    }
    words.concat()
}

#[test]
#[expect(clippy::disallowed_methods, reason = "it is time that is tested")]
fn mangled_files_are_refused_in_time_or_taken() {
    let corpus = corpus();
    let whole: Option<usize> =
        std::env::var("LAXITY_FUZZ").ok().map(|times| times.parse().expect("a number"));
    let (mut refused, mut all) = (0, 0);
    for (number, (path, text)) in corpus.iter().enumerate() {
        for time in 0..whole.unwrap_or(3) {
            let seed = (number as u64) << 32 | time as u64;
            let sql = mutated(text, &corpus, &mut Random(seed));
            let started = Instant::now();
            let compiled = compile(&[SqlFile { path: path.clone(), text: sql.clone() }]);
            let took = started.elapsed();
            assert!(took < COMPILE_MAX, "seed {seed} of {} took {took:?}:\n{sql}", path.display());
            if took > COMPILE_MAX / 10 {
                println!("seed {seed} of {} took {took:?}", path.display());
            }
            all += 1;
            if let Err(error) = compiled {
                refused += 1;
                assert_ne!(
                    error.kind,
                    SqlErrorKind::Internal,
                    "seed {seed} of {}: {error}\n{sql}",
                    path.display()
                );
            }
        }
    }
    println!("{refused} of {all} refused");
    // Else nothing was mangled.
    assert!(refused * 3 > all, "{refused} of {all}");
}
