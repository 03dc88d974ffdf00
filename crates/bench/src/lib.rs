//! Every number the README quotes, and how it was found.
//!
//! `laxity-bench` runs one benchmark or all, prints a table, and leaves a dated folder with command, versions,
//! machine and raw data. Every benchmark takes a [`Size`]; the tests run them all small, so that none rots.
//! Nothing here is timed by a test.
#![allow(clippy::disallowed_methods, reason = "a benchmark has a clock")]

pub mod approximate;
pub mod density;
pub mod files;
pub mod idle;
pub mod main_job;
pub mod memory_gate;
pub mod memory_table;
pub mod message_cost;
pub mod overhead;
pub mod policies;
pub mod queries;
pub mod run_folder;
pub mod scheduler_cost;
pub mod start;
pub mod thread_cpu;
pub mod throughput;

/// How much a benchmark does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Size {
    /// Long enough for a number worth quoting.
    Full,
    /// Long enough to see that it still runs.
    Small,
}

impl Size {
    /// One of two values by size.
    pub fn pick<T>(self, full: T, small: T) -> T {
        match self {
            Size::Full => full,
            Size::Small => small,
        }
    }
}

/// What a benchmark found: rows for people and for the raw file.
#[derive(Clone, Debug, Default)]
pub struct Findings {
    /// Column names of the raw data.
    pub columns: Vec<&'static str>,
    /// The raw data, a row per run.
    pub rows: Vec<Vec<String>>,
    /// One line per number: what, figure, target.
    pub summary: Vec<String>,
}

/// The middle of the values; of an even number of values, the upper of the two in the middle.
///
/// # Panics
/// If there are none.
pub fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted[sorted.len() / 2]
}

/// The least value that so large a share of them does not exceed; 0 if there are none.
pub fn percentile(values: &[f64], share: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let place = (sorted.len() as f64 * share) as usize;
    sorted.get(place.min(sorted.len().saturating_sub(1))).copied().unwrap_or(0.0)
}

/// "median (least to most)".
pub fn spread(values: &[f64], unit: &str) -> String {
    let least = values.iter().copied().fold(f64::INFINITY, f64::min);
    let most = values.iter().copied().fold(0.0, f64::max);
    format!("{:.2} {unit} ({least:.2} to {most:.2})", median(values))
}
