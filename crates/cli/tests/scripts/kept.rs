//! What a program of an older format of checkpoints left when it was killed, and goes on from.

use std::fs;
use std::io::Read as _;
use std::path::Path;
use std::process::Command;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use flate2::read::GzDecoder;

use crate::lines;

/// Two queries in one file of checkpoints, and what they had written by then and shortly after it.
#[test]
fn a_checkpoint_of_version_2_is_gone_on_from() {
    let kept = Path::new("tests/kept/version-2");
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    ["out", "state"].iter().for_each(|name| fs::create_dir(folder.join(name)).unwrap());
    fs::copy(kept.join("script.sql"), folder.join("script.sql")).unwrap();
    for name in ["out/tumbling.csv", "out/hopping.csv"] {
        // What begins anew would write the first line again, as it was.
        let written = fs::read_to_string(kept.join(name)).unwrap().replacen('0', "9", 1);
        fs::write(folder.join(name), written).unwrap();
    }
    let text = fs::read_to_string(kept.join("checkpoints-4.pack.gz.base64")).unwrap();
    let packed = BASE64_STANDARD.decode(text.replace('\n', "")).unwrap();
    let mut pack = Vec::new();
    GzDecoder::new(&*packed).read_to_end(&mut pack).unwrap();
    assert!(pack.ends_with(b"\x02\0\0\0laxity\0\x01"), "its version");
    fs::write(folder.join("state/checkpoints-4.pack"), pack).unwrap();

    let output = Command::new(env!("CARGO_BIN_EXE_laxity"))
        .current_dir(folder)
        .env_remove("LAXITY_LOG")
        .args(["run", "script.sql", "--plain", "--workers", "2", "--state", "state", "--speed", "20"])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");

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
        let mut got = lines(&folder.join(format!("out/{name}.csv")));
        got.sort_unstable();
        expected.sort_unstable();
        assert_eq!(got, expected, "{name}: {said}");
    }
}
