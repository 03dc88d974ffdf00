//! What is kept of a run: command, versions, machine, raw data, summary.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context;

use crate::Findings;

/// A folder `DATE-NAME` below `benchmarks/runs`.
pub struct RunFolder {
    path: PathBuf,
    summary: String,
}

impl RunFolder {
    /// Makes the folder and notes command and machine.
    ///
    /// # Errors
    /// If the folder cannot be written.
    pub fn create(below: &Path, name: &str) -> anyhow::Result<RunFolder> {
        let date = said("date", &["-u", "+%Y-%m-%d-%H%M"]);
        let path = below.join(format!("{date}-{name}"));
        fs::create_dir_all(&path).with_context(|| format!("cannot make {}", path.display()))?;
        let command: Vec<String> = std::env::args().skip(1).collect();
        let mut summary = String::new();
        writeln!(summary, "# {name}, {date} UTC\n")?;
        writeln!(summary, "- command: `make bench` (`laxity-bench {}`)", command.join(" "))?;
        writeln!(summary, "- revision: {}", said("git", &["rev-parse", "--short", "HEAD"]))?;
        writeln!(summary, "- compiler: {}", said("rustc", &["--version"]))?;
        writeln!(summary, "- machine: {}", machine())?;
        writeln!(summary, "- kernel: {}\n", said("uname", &["-sr"]))?;
        Ok(RunFolder { path, summary })
    }

    /// Adds what one benchmark found.
    ///
    /// # Errors
    /// If the folder cannot be written.
    pub fn add(&mut self, benchmark: &str, findings: &Findings) -> anyhow::Result<()> {
        let mut raw = findings.columns.join(",");
        raw.push('\n');
        for row in &findings.rows {
            raw.push_str(&row.join(","));
            raw.push('\n');
        }
        fs::write(self.path.join(format!("{benchmark}.csv")), raw)?;
        writeln!(self.summary, "## {benchmark}\n")?;
        for line in &findings.summary {
            writeln!(self.summary, "- {line}")?;
        }
        self.summary.push('\n');
        fs::write(self.path.join("summary.md"), &self.summary)?;
        Ok(())
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

fn machine() -> String {
    let info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = info.lines().find_map(|line| line.strip_prefix("model name")).unwrap_or(": unknown");
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let load = load.split(' ').next().unwrap_or("unknown");
    format!(
        "{cores} cores of {}, load average {load} at the start",
        model.trim_start_matches([' ', '\t', ':'])
    )
}

fn said(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output();
    let text = output.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_string());
    text.ok().filter(|text| !text.is_empty()).unwrap_or_else(|| "unknown".into())
}
