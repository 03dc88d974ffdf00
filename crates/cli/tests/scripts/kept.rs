//! What a program of an older format of checkpoints left when it was killed, and goes on from.

use std::fs;
use std::io::Read as _;
use std::path::Path;
use std::process::Command;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use flate2::read::GzDecoder;

use crate::lines;

/// Goes on from what a version has left, in `folder`, and returns what was said. What begins anew would write the first line of an
/// output again, as it was: there it begins with `9`.
fn go_on(folder: &Path, version: u8, pack: u8, outputs: &[&str]) -> String {
    let kept = format!("tests/kept/version-{version}");
    let kept = Path::new(&kept);
    ["out", "state"].iter().for_each(|name| fs::create_dir(folder.join(name)).unwrap());
    fs::copy(kept.join("script.sql"), folder.join("script.sql")).unwrap();
    for name in outputs {
        let name = format!("out/{name}.csv");
        let written = fs::read_to_string(kept.join(&name)).unwrap();
        fs::write(folder.join(name), format!("9{}", &written[1..])).unwrap();
    }
    let name = format!("checkpoints-{pack}.pack");
    let text = fs::read_to_string(kept.join(format!("{name}.gz.base64"))).unwrap();
    let packed = BASE64_STANDARD.decode(text.replace('\n', "")).unwrap();
    let mut pack = Vec::new();
    GzDecoder::new(&*packed).read_to_end(&mut pack).unwrap();
    assert!(pack.ends_with(&[&[version, 0, 0, 0], &b"laxity\0\x01"[..]].concat()), "its version");
    fs::write(folder.join("state").join(name), pack).unwrap();
    run(folder, &["--state", "state"])
}

fn run(folder: &Path, more: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_laxity"))
        .current_dir(folder)
        .env_remove("LAXITY_LOG")
        .args(["run", "script.sql", "--plain", "--workers", "2", "--speed", "20"])
        .args(more)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{said}");
    said
}

fn sorted(folder: &Path, output: &str) -> Vec<String> {
    let mut lines = lines(&folder.join(format!("out/{output}.csv")));
    lines.sort_unstable();
    lines
}

/// Sessions, frames of OVER and best rows, and what they had written by then and shortly after it.
#[test]
fn a_checkpoint_of_version_6_is_gone_on_from() {
    const OUTPUTS: [&str; 3] = ["sessions", "frames", "best"];
    let (folder, undisturbed) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let said = go_on(folder.path(), 6, 8, &OUTPUTS);
    fs::create_dir(undisturbed.path().join("out")).unwrap();
    fs::copy(folder.path().join("script.sql"), undisturbed.path().join("script.sql")).unwrap();
    run(undisturbed.path(), &[]);
    for output in OUTPUTS {
        let mut got = sorted(folder.path(), output);
        let first = got.iter_mut().find(|line| line.starts_with('9')).unwrap();
        first.replace_range(..1, "0");
        got.sort_unstable();
        assert_eq!(got, sorted(undisturbed.path(), output), "{output}: {said}");
    }
}

/// Two queries in one file of checkpoints, and what they had written by then and shortly after it.
#[test]
fn a_checkpoint_of_version_2_is_gone_on_from() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let said = go_on(folder, 2, 4, &["tumbling", "hopping"]);
    let sum = |rows: &mut dyn Iterator<Item = i64>| rows.fold((0, 0), |(n, s), row| (n + 1, s + row));
    let at = |second: i64| format!("1970-01-01 00:00:{second:02}Z");
    let mut hopping = Vec::new();
    for end in (5..=35).step_by(5) {
        let (n, s) = sum(&mut ((end - 10) * 10..end * 10).filter(|n| (0..300).contains(n)));
        hopping.push(format!("0,{n},{s},{}", at(end)));
    }
    let mut tumbling = Vec::new();
    for (end, k) in [10, 20, 30].into_iter().flat_map(|end| (0..3).map(move |k| (end, k))) {
        let (n, s) = sum(&mut ((end - 10) * 10..end * 10).filter(|n| n % 3 == k));
        tumbling.push(format!("{k},{n},{s},{}", at(end)));
    }
    for rows in [&mut hopping, &mut tumbling] {
        rows[0].replace_range(..1, "9");
    }
    for (name, mut expected) in [("hopping", hopping), ("tumbling", tumbling)] {
        expected.sort_unstable();
        assert_eq!(sorted(folder, name), expected, "{name}: {said}");
    }
}
