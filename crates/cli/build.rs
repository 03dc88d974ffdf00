//! What the linker can do for a smaller program, where it can.

use std::path::Path;
use std::process::{Command, Stdio};

/// Keep one of functions whose machine code is the same: the same kernels for types of one width are a good part of the
/// program. And write addresses that are only moved as bits instead of 24 bytes each, which needs glibc 2.36.
const SMALLER: [&str; 2] = ["-Wl,--icf=all", "-Wl,-z,pack-relative-relocs"];

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    if std::env::var("PROFILE").is_ok_and(|profile| profile == "release") {
        for argument in SMALLER.into_iter().filter(|argument| works(argument)) {
            println!("cargo::rustc-link-arg-bins={argument}");
        }
    }
}

/// Asks by linking and running a program that does nothing: which linker and loader there are, is the toolchain's, the
/// system's and the user's choice.
fn works(argument: &str) -> bool {
    let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let (Some(rustc), Some(target), Some(out)) = (variable("RUSTC"), variable("TARGET"), variable("OUT_DIR"))
    else {
        return false;
    };
    let (source, program) = (Path::new(&out).join("nothing.rs"), Path::new(&out).join("nothing"));
    if std::fs::write(&source, "fn main() {}\n").is_err() {
        return false;
    }
    let mut link = Command::new(rustc);
    link.arg("--target").arg(target).arg("-C").arg(format!("link-arg={argument}"));
    if let Some(linker) = variable("RUSTC_LINKER") {
        link.arg("-C").arg(format!("linker={linker}"));
    }
    if let Some(flags) = variable("CARGO_ENCODED_RUSTFLAGS") {
        link.args(flags.split('\u{1f}'));
    }
    link.arg(&source).arg("-o").arg(&program);
    succeeds(&mut link) && succeeds(&mut Command::new(program))
}

fn succeeds(command: &mut Command) -> bool {
    command.stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|status| status.success())
}
