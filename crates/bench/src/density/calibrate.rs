//! What load this machine's cores have to bear is set by what rows cost on it: the CPU time of both halves is measured
//! under `laxity`, and the rates follow.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::Context;
use serde::{Deserialize, Serialize};

use super::cell::{Cell, Heavy, Input, Point, Shape, Tables, Urgent};
use super::engine_run::EngineFigures;
use super::launch::{Launch, Launcher};
use super::sql;

/// Heavy queries of each cell of the matrix.
pub const HEAVY_QUERIES: usize = 4;

/// The policy that the load is measured under.
const POLICY: &str = "laxity";

/// At this load both halves are measured together.
const TOGETHER_AT: f64 = 0.8;

/// More rows than this a second, of one table, are beyond any use.
const ROWS_PER_S_MAX: f64 = 50e6;

/// What the rows of each shape cost here. The ends of windows make no difference to that.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub struct Calibration {
    /// Cores of the machine.
    pub cores: f64,
    lines: BTreeMap<String, Line>,
}

/// CPU seconds in a second at a rate of each table: `idle + per_row · rows_per_s`.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, Serialize)]
pub struct Line {
    idle_cores: f64,
    core_s_per_row: f64,
    /// What was measured: rows per second of each table, CPU seconds in a second.
    measured: [(f64, f64); 2],
}

/// The rates of a cell.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rates {
    /// Of each urgent table.
    pub urgent_rows_per_s: u64,
    /// Of each heavy table.
    pub heavy_rows_per_s: u64,
    /// Share of the machine that the cell will take by this calibration. More than was asked for where even the least
    /// rate, a row a second, is more.
    pub load: f64,
}

impl Calibration {
    /// Nothing measured yet, on so many cores.
    pub fn new(cores: usize) -> Calibration {
        Calibration { cores: cores as f64, lines: BTreeMap::new() }
    }

    /// Reads what [`write`](Calibration::write) wrote.
    ///
    /// # Errors
    /// If the file cannot be read or holds something else.
    pub fn read(path: &Path) -> anyhow::Result<Calibration> {
        let text = fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
        serde_json::from_slice(&text).with_context(|| format!("{} is no calibration", path.display()))
    }

    /// Keeps what was measured.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn write(&self, path: &Path) -> anyhow::Result<()> {
        fs::write(path, serde_json::to_string_pretty(self)?)
            .with_context(|| format!("cannot write {}", path.display()))
    }

    /// The cell of a point of the matrix.
    ///
    /// # Errors
    /// If its shape was not measured.
    pub fn cell(&self, point: &Point) -> anyhow::Result<(Cell, Rates)> {
        let rates = self.rates(point).with_context(|| format!("{} is not calibrated", point.shape))?;
        let cell = Cell {
            name: point.to_string(),
            urgent: point.shape.urgent(rates.urgent_rows_per_s),
            heavy: heavy(point.shape.tables(), rates.heavy_rows_per_s),
        };
        Ok((cell, rates))
    }

    fn rates(&self, point: &Point) -> Option<Rates> {
        let urgent = self.lines.get(&urgent_key(point.shape))?;
        let heavy = self.lines.get(&heavy_key(point.shape))?;
        let together = self.lines.get(&together_key(point.shape)).map_or(1.0, |line| line.core_s_per_row);
        let half = self.cores * point.load / 2.0 / together;
        let (urgent_rows_per_s, heavy_rows_per_s) = (urgent.rows_per_s(half), heavy.rows_per_s(half));
        let cores = urgent.cores_at(urgent_rows_per_s as f64) + heavy.cores_at(heavy_rows_per_s as f64);
        Some(Rates { urgent_rows_per_s, heavy_rows_per_s, load: cores * together / self.cores })
    }

    /// Measures what is not known yet of a shape; a line to show, if anything was measured.
    ///
    /// # Errors
    /// If the engine cannot be run.
    pub fn measure(
        &mut self,
        shape: Shape,
        launcher: &Launcher,
        measured: Duration,
    ) -> anyhow::Result<Option<String>> {
        if self.lines.contains_key(&together_key(shape)) {
            return Ok(None);
        }
        let half = self.cores * TOGETHER_AT / 2.0;
        if let Entry::Vacant(vacant) = self.lines.entry(heavy_key(shape)) {
            let cell = |rows_per_s| Cell {
                name: heavy_key(shape),
                urgent: Urgent { queries: 0, ..shape.urgent(1) },
                heavy: heavy(shape.tables(), rows_per_s),
            };
            let line = line(half, guess(half, HEAVY_QUERIES), launcher, measured, cell)?;
            vacant.insert(line);
        }
        if let Entry::Vacant(vacant) = self.lines.entry(urgent_key(shape)) {
            let cell = |rows_per_s| Cell {
                name: urgent_key(shape),
                urgent: shape.urgent(rows_per_s),
                heavy: Heavy::NONE,
            };
            let line = line(half, guess(half, shape.queries), launcher, measured, cell)?;
            vacant.insert(line);
        }
        // Side by side they cost each other caches and switches, or share what was idle.
        let point = Point { shape, load: TOGETHER_AT };
        let (cell, rates) = self.cell(&point)?;
        let figures = figures(&cell, launcher, measured)?;
        let cores = figures.cpu_s / figures.measured_s;
        let factor = (cores / (rates.load * self.cores)).clamp(0.5, 2.0);
        let at = (rates.load, cores);
        let line = Line { idle_cores: 0.0, core_s_per_row: factor, measured: [at, at] };
        self.lines.insert(together_key(shape), line);
        let urgent = self.lines[&urgent_key(shape)];
        Ok(Some(format!(
            "{}: {:.2} µs a row, {:.3} cores without rows; beside the heavy half {:.2} times that",
            urgent_key(shape),
            urgent.core_s_per_row * 1e6 / shape.queries as f64,
            urgent.idle_cores,
            factor
        )))
    }
}

impl Line {
    fn through(first: (f64, f64), second: (f64, f64)) -> Line {
        let measured = [first, second];
        let (less, more) = if first.0 <= second.0 { (first, second) } else { (second, first) };
        let slope = (more.1 - less.1) / (more.0 - less.0);
        // The same rate twice, or noise: no more is known than what a row costs all told.
        if more.0 < less.0 * 1.2 || slope <= 0.0 || slope * more.0 > more.1 {
            return Line { idle_cores: 0.0, core_s_per_row: more.1 / more.0, measured };
        }
        Line { idle_cores: more.1 - slope * more.0, core_s_per_row: slope, measured }
    }

    fn cores_at(&self, rows_per_s: f64) -> f64 {
        self.idle_cores + self.core_s_per_row * rows_per_s
    }

    fn rows_per_s(&self, cores: f64) -> u64 {
        whole((cores - self.idle_cores) / self.core_s_per_row)
    }
}

/// Two measurements: at a guess, and where that says that half the load lies.
fn line(
    half: f64,
    guess: f64,
    launcher: &Launcher,
    measured: Duration,
    cell: impl Fn(u64) -> Cell,
) -> anyhow::Result<Line> {
    let cores_at = |rows_per_s: f64| -> anyhow::Result<(f64, f64)> {
        let cell = cell(whole(rows_per_s));
        let figures = figures(&cell, launcher, measured)?;
        let queries = figures.queries.len().max(1) as f64;
        let admitted: u64 = figures.queries.iter().map(|query| query.rows_in).sum();
        // Where the machine could not take them all, what it took is what that CPU time was for.
        let rows_per_s = (admitted as f64 / queries / figures.measured_s).min(whole(rows_per_s) as f64);
        Ok((rows_per_s.max(0.1), figures.cpu_s / figures.measured_s))
    };
    let first = cores_at(guess)?;
    // Not too far at once: batches grow with the rate, and a row gets cheaper.
    let second = cores_at(first.0 * (half / first.1.max(1e-3)).clamp(0.1, 20.0))?;
    Ok(Line::through(first, second))
}

/// Rates are whole numbers, and at least a row a second.
fn whole(rows_per_s: f64) -> u64 {
    rows_per_s.clamp(1.0, ROWS_PER_S_MAX).round() as u64
}

/// Where to begin: as if a row cost 2 µs, whoever reads it. Wrong by any factor, and the second measurement is nearer.
fn guess(half: f64, queries: usize) -> f64 {
    half / 2e-6 / queries as f64
}

fn figures(cell: &Cell, launcher: &Launcher, measured: Duration) -> anyhow::Result<EngineFigures> {
    let text = sql::text(cell, &launcher.scratch);
    launcher.run(&Launch::new(&text, POLICY, measured)).with_context(|| format!("calibrating {}", cell.name))
}

fn heavy(tables: Tables, rows_per_s: u64) -> Heavy {
    Heavy { queries: HEAVY_QUERIES, tables, rows_per_s, input: Input::Generated }
}

fn urgent_key(shape: Shape) -> String {
    Shape { is_together: false, ..shape }.to_string().replace("-staggered", "")
}

fn heavy_key(shape: Shape) -> String {
    format!("heavy-{}", if shape.is_shared { "shared" } else { "own" })
}

fn together_key(shape: Shape) -> String {
    format!("{}-and-heavy", urgent_key(shape))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHAPE: Shape = Shape { queries: 100, is_shared: false, window_ms: 100, is_together: true };

    fn calibration(urgent: Line, heavy: Line, factor: f64) -> Calibration {
        let together = Line { idle_cores: 0.0, core_s_per_row: factor, measured: [(0.0, 0.0); 2] };
        let lines = [(urgent_key(SHAPE), urgent), (heavy_key(SHAPE), heavy), (together_key(SHAPE), together)];
        Calibration { cores: 2.0, lines: lines.into() }
    }

    #[test]
    fn a_line_goes_through_both_measurements() {
        let line = Line::through((1_000.0, 0.3), (3_000.0, 0.7));
        assert!((line.idle_cores - 0.1).abs() < 1e-9 && (line.core_s_per_row - 0.0002).abs() < 1e-12);
        assert_eq!((line.rows_per_s(0.5), line.cores_at(0.0)), (2_000, line.idle_cores));
    }

    #[test]
    fn one_rate_or_noise_is_a_line_from_zero() {
        for (first, second) in
            [((1.0, 0.4), (1.0, 0.5)), ((10.0, 0.4), (20.0, 0.3)), ((10.0, 0.1), (20.0, 0.4))]
        {
            let line = Line::through(first, second);
            assert_eq!(line.idle_cores, 0.0);
            assert!((line.cores_at(second.0) - second.1).abs() < 1e-9, "{line:?}");
        }
    }

    #[test]
    fn each_half_gets_half_of_the_load() {
        let urgent = Line::through((1_000.0, 0.3), (3_000.0, 0.7));
        let heavy = Line::through((10_000.0, 0.2), (40_000.0, 0.8));
        // Of 2 cores half are 0.5 each: 2 000 and 25 000 rows/s.
        let point = Point { shape: SHAPE, load: 0.5 };
        let (cell, rates) = calibration(urgent, heavy, 1.0).cell(&point).unwrap();
        assert_eq!((cell.urgent.rows_per_s, cell.heavy.rows_per_s), (2_000, 25_000));
        assert!((rates.load - 0.5).abs() < 1e-6);
        // Together they cost a quarter more: 0.4 each.
        let (cell, rates) = calibration(urgent, heavy, 1.25).cell(&point).unwrap();
        assert_eq!((cell.urgent.rows_per_s, cell.heavy.rows_per_s), (1_500, 20_000));
        assert!((rates.load - 0.5).abs() < 1e-6);
        assert!(Calibration::new(2).cell(&point).is_err());
    }

    #[test]
    fn less_than_a_row_a_second_cannot_be_offered() {
        let dear = Line::through((1.0, 1.5), (1.0, 1.5));
        let heavy = Line::through((10_000.0, 0.2), (40_000.0, 0.8));
        let (cell, rates) = calibration(dear, heavy, 1.0).cell(&Point { shape: SHAPE, load: 0.5 }).unwrap();
        assert_eq!(cell.urgent.rows_per_s, 1);
        assert!((rates.load - 1.0).abs() < 1e-6, "1.5 and 0.5 of 2 cores: {}", rates.load);
    }
}
