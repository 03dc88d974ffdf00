//! What is known of a group of a sub-stream that has ended.

use std::sync::Arc;

use super::distinct::Seen;
use super::interval::{Pair, Taken};
use super::moments::Moments;
use super::order_statistics::Sample;
use super::stratum::Stratum;
use super::sub_stream::Kept;

/// A group of a sub-stream, as it is sent on.
#[derive(Clone, Debug, PartialEq)]
pub struct Closed {
    /// Which sub-stream.
    pub sub_stream: i64,
    /// Which group.
    pub group: u32,
    /// What is known of it. The shift is that of the first value.
    pub stratum: Stratum,
    /// By value.
    pub shifts: Vec<(f64, f64)>,
    /// By value: of the rows that were taken.
    pub values: Vec<Moments>,
    /// What is not told by moments.
    pub kept: Kept,
}

impl Closed {
    /// All of so many rows, with the moments of their values.
    pub fn whole(rows: f64, values: Vec<Moments>) -> Closed {
        let stratum = Stratum::whole(0, rows);
        Closed { sub_stream: 0, group: 0, stratum, shifts: vec![], values, kept: Kept::default() }
    }

    /// What was taken of it, of a value or as rows.
    pub fn taken(&self, value: Option<usize>) -> Taken {
        let rows = Moments { count: self.stratum.taken, ..Moments::default() };
        let shift = value.and_then(|value| self.shifts.get(value).copied()).unwrap_or_default();
        let values = value.map_or(rows, |value| self.values[value]);
        Taken { stratum: Stratum { shift, ..self.stratum }, values }
    }

    /// The same, value by value.
    pub fn sample(&self, value: usize) -> Sample {
        let shift = self.shifts.get(value).copied().unwrap_or_default();
        let values = self.kept.samples.get(value).cloned().unwrap_or_default();
        Sample { stratum: Stratum { shift, ..self.stratum }, values }
    }

    /// The distinct values of its rows in time.
    pub fn distinct(&self, which: usize) -> Option<Seen> {
        let distinct = Arc::clone(self.kept.distinct.get(which)?);
        Some(Seen { stratum: self.stratum, distinct })
    }

    /// The same of two values and their product.
    pub fn pair(&self, over: usize, under: usize, product: usize) -> Pair {
        let shift = |value: usize| self.shifts.get(value).copied().unwrap_or_default();
        Pair {
            stratum: self.stratum,
            values: [self.values[over], self.values[under]],
            products: self.values[product].sum(),
            shifts: [shift(over), shift(under)],
        }
    }
}
