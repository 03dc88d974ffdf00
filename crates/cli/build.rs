//! Lets the linker keep one of functions whose machine code is the same, where it can: the same kernels for types of one
//! width are a good part of the program.

use std::path::Path;
use std::process::{Command, Stdio};

const FOLD: &str = "-Wl,--icf=all";

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let is_release = std::env::var("PROFILE").is_ok_and(|profile| profile == "release");
    if is_release && can_fold() {
        println!("cargo::rustc-link-arg-bins={FOLD}");
    }
}

/// Asks by linking a program that does nothing: which linker it is, is the toolchain's and the user's choice.
fn can_fold() -> bool {
    let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let (Some(rustc), Some(target), Some(out)) = (variable("RUSTC"), variable("TARGET"), variable("OUT_DIR"))
    else {
        return false;
    };
    let source = Path::new(&out).join("nothing.rs");
    if std::fs::write(&source, "fn main() {}\n").is_err() {
        return false;
    }
    let mut link = Command::new(rustc);
    link.arg("--target").arg(target).arg("-C").arg(format!("link-arg={FOLD}"));
    if let Some(linker) = variable("RUSTC_LINKER") {
        link.arg("-C").arg(format!("linker={linker}"));
    }
    if let Some(flags) = variable("CARGO_ENCODED_RUSTFLAGS") {
        link.args(flags.split('\u{1f}'));
    }
    link.arg(&source).arg("-o").arg(Path::new(&out).join("nothing"));
    link.stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|status| status.success())
}
