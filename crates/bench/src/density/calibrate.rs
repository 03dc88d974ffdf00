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
    curves: BTreeMap<String, Curve>,
    /// By shape: what both halves cost side by side, of what they cost each alone.
    together: BTreeMap<String, f64>,
}

/// CPU seconds in a second by the rate of each table: a power of the rate between any two measurements, since batches grow
/// with it and a row gets cheaper.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
struct Curve {
    /// Rows per second of each table, CPU seconds in a second; both rise.
    measured: Vec<(f64, f64)>,
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
        Calibration { cores: cores as f64, ..Calibration::default() }
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
        let urgent = self.curves.get(&urgent_key(point.shape))?;
        let heavy = self.curves.get(&heavy_key(point.shape))?;
        let together = self.together.get(&urgent_key(point.shape)).copied().unwrap_or(1.0);
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
        if self.together.contains_key(&urgent_key(shape)) {
            return Ok(None);
        }
        let half = self.cores * TOGETHER_AT / 2.0;
        if let Entry::Vacant(vacant) = self.curves.entry(heavy_key(shape)) {
            let cell = |rows_per_s| Cell {
                name: heavy_key(shape),
                urgent: Urgent { queries: 0, ..shape.urgent(1) },
                heavy: heavy(shape.tables(), rows_per_s),
            };
            vacant.insert(curve(half, guess(half, HEAVY_QUERIES), launcher, measured, cell)?);
        }
        if let Entry::Vacant(vacant) = self.curves.entry(urgent_key(shape)) {
            let cell = |rows_per_s| Cell {
                name: urgent_key(shape),
                urgent: shape.urgent(rows_per_s),
                heavy: Heavy::NONE,
            };
            vacant.insert(curve(half, guess(half, shape.queries), launcher, measured, cell)?);
        }
        // Side by side they cost each other caches and switches, or share what was idle.
        let point = Point { shape, load: TOGETHER_AT };
        let (cell, rates) = self.cell(&point)?;
        let figures = figures(&cell, launcher, measured)?;
        let cores = figures.cpu_s / figures.measured_s;
        let factor = (cores / (rates.load * self.cores)).clamp(0.5, 2.0);
        self.together.insert(urgent_key(shape), factor);
        let rows_per_s = self.curves[&urgent_key(shape)].rows_per_s(half);
        Ok(Some(format!(
            "{}: {rows_per_s} rows/s of each table take {half:.2} cores, {:.2} µs a row; beside the heavy half {factor:.2} times that",
            urgent_key(shape),
            half * 1e6 / rows_per_s as f64 / shape.queries as f64,
        )))
    }
}

impl Curve {
    /// One more measurement. Those that it contradicts, or that are about the same, are noise, and older.
    fn add(&mut self, rows_per_s: f64, cores: f64) {
        self.measured.retain(|&(rate, at)| {
            (rate < rows_per_s / 1.2 && at < cores) || (rate > rows_per_s * 1.2 && at > cores)
        });
        self.measured.push((rows_per_s, cores));
        self.measured.sort_by(|one, other| one.0.total_cmp(&other.0));
    }

    /// A measurement near there, and the exponent from it on.
    fn near(&self, is_below: impl Fn((f64, f64)) -> bool) -> ((f64, f64), f64) {
        let below = self.measured.iter().filter(|&&measured| is_below(measured)).count();
        let first = below.saturating_sub(1).min(self.measured.len().saturating_sub(2));
        match self.measured[first..] {
            [from, to, ..] => {
                let exponent = (to.1 / from.1).ln() / (to.0 / from.0).ln();
                (from, exponent.clamp(EXPONENT_MIN, 1.0))
            }
            [only] => (only, 1.0),
            [] => ((1.0, 1.0), 1.0),
        }
    }

    fn cores_at(&self, rows_per_s: f64) -> f64 {
        let (from, exponent) = self.near(|(rate, _)| rate <= rows_per_s);
        from.1 * (rows_per_s / from.0).powf(exponent)
    }

    fn rows_per_s(&self, cores: f64) -> u64 {
        let (from, exponent) = self.near(|(_, at)| at <= cores);
        let rate = from.0 * (cores / from.1).powf(1.0 / exponent);
        // Further out nothing is known.
        let most = self.measured.last().map_or(f64::INFINITY, |(rate, _)| 2.0 * rate);
        whole(rate.min(most))
    }
}

/// A row more costs something. The flattest seen between two measurements.
const EXPONENT_MIN: f64 = 0.3;

/// Measurements of a half at most.
const MEASUREMENTS_MAX: usize = 4;

/// Measured at a guess, then where that says that the half lies, until it does.
fn curve(
    half: f64,
    guess: f64,
    launcher: &Launcher,
    measured: Duration,
    cell: impl Fn(u64) -> Cell,
) -> anyhow::Result<Curve> {
    let mut curve = Curve::default();
    let mut rate = guess;
    for _ in 0..MEASUREMENTS_MAX {
        let cell = cell(whole(rate));
        let figures = figures(&cell, launcher, measured)?;
        let queries = figures.queries.len().max(1) as f64;
        let admitted: u64 = figures.queries.iter().map(|query| query.rows_in).sum();
        // Where the machine could not take them all, what it took is what that CPU time was for.
        let took = (admitted as f64 / queries / figures.measured_s).min(whole(rate) as f64).max(0.1);
        let cores = (figures.cpu_s / figures.measured_s).max(1e-3);
        curve.add(took, cores);
        if (0.9..1.1).contains(&(cores / half)) {
            break;
        }
        // Not too far at once: batches grow with the rate.
        rate = match curve.measured[..] {
            [_] => took * (half / cores).clamp(0.05, 20.0),
            _ => curve.rows_per_s(half) as f64,
        };
    }
    Ok(curve)
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
    let launch = Launch { warm_up: measured / 4, ..Launch::new(&text, POLICY, measured) };
    launcher.run(&launch).with_context(|| format!("calibrating {}", cell.name))
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

#[cfg(test)]
mod tests {
    use super::*;

    const SHAPE: Shape = Shape { queries: 100, is_shared: false, window_ms: 100, is_together: true };

    fn curve(measured: &[(f64, f64)]) -> Curve {
        let mut curve = Curve::default();
        measured.iter().for_each(|&(rate, cores)| curve.add(rate, cores));
        curve
    }

    fn calibration(urgent: Curve, heavy: Curve, factor: f64) -> Calibration {
        let curves = [(urgent_key(SHAPE), urgent), (heavy_key(SHAPE), heavy)].into();
        Calibration { cores: 2.0, curves, together: [(urgent_key(SHAPE), factor)].into() }
    }

    #[test]
    fn a_curve_goes_through_its_measurements() {
        let curve = curve(&[(400.0, 0.4), (100.0, 0.2), (1_600.0, 1.6)]);
        // Half a power up to 400, in proportion above.
        assert_eq!(
            [0.1, 0.2, 0.4, 0.8, 1.6, 2.0].map(|cores| curve.rows_per_s(cores)),
            [25, 100, 400, 800, 1_600, 2_000]
        );
        for rate in [25.0, 100.0, 200.0, 400.0, 1_000.0, 3_000.0] {
            assert_eq!(curve.rows_per_s(curve.cores_at(rate)), rate as u64);
        }
        assert_eq!(curve.rows_per_s(16.0), 3_200, "no further than twice what was measured");
    }

    #[test]
    fn the_last_measurement_outweighs_what_it_contradicts() {
        assert_eq!(curve(&[(100.0, 0.5), (200.0, 0.4)]).measured, [(200.0, 0.4)], "twice the rows for less");
        assert_eq!(curve(&[(100.0, 0.5), (110.0, 0.6)]).measured, [(110.0, 0.6)], "about the same");
        assert_eq!(curve(&[(100.0, 0.5)]).rows_per_s(0.25), 50, "in proportion, where no more is known");
    }

    #[test]
    fn each_half_gets_half_of_the_load() {
        let (urgent, heavy) = (curve(&[(2_000.0, 0.5)]), curve(&[(10_000.0, 0.2), (40_000.0, 0.8)]));
        // Of 2 cores half are 0.5 each: 2 000 and 25 000 rows/s.
        let point = Point { shape: SHAPE, load: 0.5 };
        let (cell, rates) = calibration(urgent.clone(), heavy.clone(), 1.0).cell(&point).unwrap();
        assert_eq!((cell.urgent.rows_per_s, cell.heavy.rows_per_s), (2_000, 25_000));
        assert!((rates.load - 0.5).abs() < 1e-6);
        // Together they cost a quarter more: 0.4 each.
        let (cell, rates) = calibration(urgent, heavy, 1.25).cell(&point).unwrap();
        assert_eq!((cell.urgent.rows_per_s, cell.heavy.rows_per_s), (1_600, 20_000));
        assert!((rates.load - 0.5).abs() < 1e-6);
        assert!(Calibration::new(2).cell(&point).is_err());
    }

    #[test]
    fn less_than_a_row_a_second_cannot_be_offered() {
        let (dear, heavy) = (curve(&[(1.0, 1.5)]), curve(&[(10_000.0, 0.2), (40_000.0, 0.8)]));
        let (cell, rates) = calibration(dear, heavy, 1.0).cell(&Point { shape: SHAPE, load: 0.5 }).unwrap();
        assert_eq!(cell.urgent.rows_per_s, 1);
        assert!((rates.load - 1.0).abs() < 1e-6, "1.5 and 0.5 of 2 cores: {}", rates.load);
    }
}
