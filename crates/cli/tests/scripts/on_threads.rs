use std::process::Command;

use crate::{Written, with_answers};

/// As fast as the files can be read: worker threads, not pacing, decide what waits for what.
#[test]
fn the_program_writes_what_was_worked_out() {
    let ways = [("laxity", "2", ""), ("llf", "1", ""), ("random", "2", "SET 'parallelism.default' = '3';\n")];
    for named in with_answers() {
        for (policy, workers, before) in ways {
            let written = Written::new(named, 7, None, before);
            let output = Command::new(env!("CARGO_BIN_EXE_laxity"))
                .current_dir(written.folder.path())
                .env_remove("LAXITY_LOG")
                .args(["run", "--plain", "--policy", policy, "--workers", workers])
                .arg(written.sql())
                .output()
                .unwrap();
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{} under {policy}: {said}", written.name);
            written.check(&format!("under {policy} on {workers} workers {before:?}"));
        }
    }
}
