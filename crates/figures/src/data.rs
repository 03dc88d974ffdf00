//! The numbers of a figure, on their way from its run to its csv, its plots and its verdict.

use std::fmt::Display;

/// What an experiment gives: the raw rows, and the charts made of them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Data {
    /// Every number seen, one row per run and measure. Goes to the csv.
    pub table: Table,
    /// One plot each; the paper's panels.
    pub charts: Vec<Chart>,
}

/// Rows under named columns.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Table {
    /// Names with units.
    pub columns: Vec<String>,
    /// As written to the csv.
    pub rows: Vec<Vec<String>>,
}

impl Table {
    /// An empty table with these columns.
    pub fn new<const N: usize>(columns: [&str; N]) -> Table {
        Table { columns: columns.map(String::from).to_vec(), rows: Vec::new() }
    }

    /// Appends a row.
    ///
    /// # Panics
    /// If it has another number of cells than there are columns.
    pub fn push<const N: usize>(&mut self, cells: [&dyn Display; N]) {
        assert_eq!(N, self.columns.len(), "cells for columns {:?}", self.columns);
        self.rows.push(cells.map(|cell| cell.to_string()).to_vec());
    }
}

/// One plot.
#[derive(Clone, Debug, PartialEq)]
pub struct Chart {
    /// What the file name ends with where a figure has several; empty for the only one.
    pub name: String,
    /// Horizontal.
    pub x: Axis,
    /// Vertical.
    pub y: Axis,
    /// How points are drawn.
    pub marks: Marks,
    /// What is drawn.
    pub series: Vec<Series>,
}

/// One axis.
#[derive(Clone, Debug, PartialEq)]
pub struct Axis {
    /// Label with unit.
    pub label: String,
    /// Logarithmic, base 10. Points that are not positive are left out.
    pub log: bool,
    /// Names of the places 0, 1, 2 … where the axis has no numbers.
    pub categories: Vec<String>,
}

impl Axis {
    /// A linear axis.
    pub fn linear(label: &str) -> Axis {
        Axis { label: label.into(), log: false, categories: Vec::new() }
    }

    /// A logarithmic axis.
    pub fn log(label: &str) -> Axis {
        Axis { log: true, ..Axis::linear(label) }
    }

    /// An axis of names.
    pub fn names<T: Display>(label: &str, names: impl IntoIterator<Item = T>) -> Axis {
        let categories = names.into_iter().map(|name| name.to_string()).collect();
        Axis { categories, ..Axis::linear(label) }
    }
}

/// How points are drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Marks {
    /// Joined by lines, with a mark at each.
    Lines,
    /// Joined by lines without marks: distributions and time series.
    Curve,
    /// Marks alone.
    Points,
    /// Bars beside each other at each category.
    Bars,
}

/// One line, cloud or set of bars.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// As in the legend.
    pub name: String,
    /// In order of x.
    pub points: Vec<(f64, f64)>,
    /// Half widths of 95 % confidence intervals, one per point; empty where there is one run.
    pub errors: Vec<f64>,
}

impl Series {
    /// A series without error bars.
    pub fn new(name: impl Into<String>, points: Vec<(f64, f64)>) -> Series {
        Series { name: name.into(), points, errors: Vec::new() }
    }

    /// A series of repeated runs: at each x, the mean with its 95 % confidence interval.
    pub fn of_runs(name: impl Into<String>, runs: impl IntoIterator<Item = (f64, Vec<f64>)>) -> Series {
        let mut series = Series::new(name, Vec::new());
        for (x, values) in runs {
            let (mean, half) = mean_and_interval(&values);
            series.points.push((x, mean));
            series.errors.push(half);
        }
        series
    }

    /// y at this x, if there is a point.
    pub fn at(&self, x: f64) -> Option<f64> {
        self.points.iter().find(|point| point.0 == x).map(|point| point.1)
    }

    /// The last y; NaN without points, which no comparison holds for.
    pub fn last(&self) -> f64 {
        self.points.last().map_or(f64::NAN, |point| point.1)
    }

    /// The first y; NaN without points.
    pub fn first(&self) -> f64 {
        self.points.first().map_or(f64::NAN, |point| point.1)
    }

    /// The largest y; NaN without points.
    pub fn max(&self) -> f64 {
        self.points.iter().map(|point| point.1).fold(f64::NAN, f64::max)
    }

    /// The smallest y; NaN without points.
    pub fn min(&self) -> f64 {
        self.points.iter().map(|point| point.1).fold(f64::NAN, f64::min)
    }
}

impl Data {
    /// The chart of that name.
    ///
    /// # Panics
    /// If the figure has none of that name: a judge and its run disagree.
    pub fn chart(&self, name: &str) -> &Chart {
        self.charts.iter().find(|chart| chart.name == name).unwrap_or_else(|| panic!("no chart {name:?}"))
    }
}

impl Chart {
    /// The same as one of several.
    #[must_use]
    pub(crate) fn named(self, name: &str) -> Chart {
        Chart { name: name.into(), ..self }
    }

    /// The series of that name.
    ///
    /// # Panics
    /// If the chart has none of that name: a judge and its run disagree.
    pub fn series(&self, name: &str) -> &Series {
        self.series.iter().find(|series| series.name == name).unwrap_or_else(|| panic!("no series {name:?}"))
    }
}

/// Mean, and half the width of its 95 % confidence interval by Student's t; 0 for a single value.
pub(crate) fn mean_and_interval(values: &[f64]) -> (f64, f64) {
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    if values.len() < 2 {
        return (mean, 0.0);
    }
    let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (count - 1.0);
    let t = T_975.get(values.len() - 2).copied().unwrap_or(1.96);
    (mean, t * (variance / count).sqrt())
}

/// The 97.5 % quantiles of Student's t for 1 to 9 degrees of freedom.
const T_975: [f64; 9] = [12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_is_students() {
        // 1, 2, 3: mean 2, deviation 1, so 4.303 / sqrt(3).
        let (mean, half) = mean_and_interval(&[1.0, 2.0, 3.0]);
        assert_eq!(mean, 2.0);
        assert!((half - 2.4843).abs() < 1e-3);
        assert_eq!(mean_and_interval(&[5.0]), (5.0, 0.0));
    }

    #[test]
    fn a_series_knows_its_ends() {
        let series = Series::new("s", vec![(1.0, 4.0), (2.0, 3.0), (3.0, 7.0)]);
        assert_eq!((series.first(), series.last(), series.min(), series.max()), (4.0, 7.0, 3.0, 7.0));
        assert_eq!(series.at(2.0), Some(3.0));
        assert!(Series::new("none", vec![]).last().is_nan());
    }
}
