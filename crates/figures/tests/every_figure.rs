//! Runs every figure small. Catches figures that no longer run, judge by what is not there, or write files
//! that are empty or full of NaN; and runs that do not repeat. Does not catch a wrong direction: at this
//! scale a shape may be ragged, and the table says what is seen.

use std::fs;
use std::path::PathBuf;

use laxity_figures::{Options, Scale, list, run};

fn options(name: &str) -> Options {
    let out = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = fs::remove_dir_all(&out);
    let data = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../examples/data");
    Options { out, data, scale: Scale::Small, seed: 1 }
}

#[test]
fn every_figure_runs_and_writes_what_it_should() {
    let options = options("every-figure");
    for figure in list() {
        let report = run(figure.name, &options).unwrap_or_else(|error| panic!("{}: {error}", figure.name));
        assert!(!report.verdict.sees.is_empty() && !figure.says.is_empty(), "{}", figure.name);
        assert!(!report.verdict.sees.contains("NaN"), "{}: {}", figure.name, report.verdict.sees);
        assert!(report.files.len() >= 3, "{}: csv, plot and table are expected", figure.name);
        for file in &report.files {
            let text = fs::read_to_string(file).unwrap();
            assert!(text.lines().count() > 1, "{} is empty", file.display());
            for word in ["NaN", "inf,", "inf\n", "=\"inf"] {
                assert!(!text.contains(word), "{} contains {word:?}", file.display());
            }
        }
    }
    let table = fs::read_to_string(options.out.join("RESULTS.md")).unwrap();
    for figure in list() {
        assert!(table.contains(&format!("[{}]", figure.name)), "{} has no row", figure.name);
    }
}

#[test]
fn a_figure_repeats_byte_for_byte() {
    let (first, second) = (options("repeat-1"), options("repeat-2"));
    let name = "thesis-1.1";
    let files = |options: &Options| -> Vec<Vec<u8>> {
        let report = run(name, options).unwrap();
        report.files.iter().map(|file| fs::read(file).unwrap()).collect()
    };
    assert_eq!(files(&first), files(&second));
}
