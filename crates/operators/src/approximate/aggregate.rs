//! Which estimator answers for which aggregate of a query.

use super::closed::Closed;
use super::distinct::{Seen, distinct_count};
use super::interval::{Estimate, Pair, Taken, average, count, deviation, ratio, rows, sum, variance};
use super::order_statistics::{Sample, percentile};
use super::sample_size::Promise;

/// What a query computes of a group, as far as its sample goes by it. Values are numbered.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Aggregate {
    /// COUNT(*): known from the rows that come, whether they are taken or not.
    Rows,
    /// COUNT of a value, NULL left out.
    Count(usize),
    /// SUM.
    Sum(usize),
    /// AVG.
    Average(usize),
    /// VAR_POP or VAR_SAMP.
    Variance(usize),
    /// Their root.
    Deviation(usize),
    /// SUM of one value by that of another; both are 0 where there is none.
    Ratio {
        /// Above the line.
        over: usize,
        /// Below it.
        under: usize,
        /// Their product.
        product: usize,
    },
    /// PERCENTILE: the value below which that share of all lies. What is taken is kept, value by value.
    Percentile {
        /// Of which value.
        value: usize,
        /// Above 0 and below 1.
        share: f64,
    },
    /// APPROX_COUNT_DISTINCT of an expression; these are numbered by themselves. It sees every row in time.
    Distinct(usize),
    /// Needs every row that comes, and has no bound.
    Whole,
}

impl Aggregate {
    /// The value that it is of, or the last of several.
    pub fn value(&self) -> Option<usize> {
        match *self {
            Aggregate::Rows | Aggregate::Distinct(_) | Aggregate::Whole => None,
            Aggregate::Ratio { over, under, product } => Some(over.max(under).max(product)),
            Aggregate::Count(value)
            | Aggregate::Sum(value)
            | Aggregate::Average(value)
            | Aggregate::Variance(value)
            | Aggregate::Deviation(value)
            | Aggregate::Percentile { value, .. } => Some(value),
        }
    }

    /// The value of which each that is taken is needed, not their moments.
    pub(crate) fn kept_value(&self) -> Option<usize> {
        match *self {
            Aggregate::Percentile { value, .. } => Some(value),
            _ => None,
        }
    }

    /// The expression whose distinct values are counted.
    pub(crate) fn sketched(&self) -> Option<usize> {
        match *self {
            Aggregate::Distinct(which) => Some(which),
            _ => None,
        }
    }

    /// What it is by what was taken: of [`Aggregate::Rows`] and [`Aggregate::Whole`] the rows.
    pub fn estimate(&self, closed: &[&Closed], promise: Promise) -> Estimate {
        let taken = || closed.iter().map(|closed| closed.taken(self.value())).collect::<Vec<Taken>>();
        match *self {
            Aggregate::Rows | Aggregate::Whole => rows(&taken(), promise),
            Aggregate::Count(_) => count(&taken(), promise),
            Aggregate::Sum(_) => sum(&taken(), promise),
            Aggregate::Average(_) => average(&taken(), promise),
            Aggregate::Variance(_) => variance(&taken(), false, promise),
            Aggregate::Deviation(_) => deviation(&taken(), false, promise),
            Aggregate::Ratio { over, under, product } => {
                let pair = |closed: &&Closed| closed.pair(over, under, product);
                ratio(&closed.iter().map(pair).collect::<Vec<Pair>>(), promise)
            }
            Aggregate::Percentile { value, share } => {
                let sample = |closed: &&Closed| closed.sample(value);
                percentile(&closed.iter().map(sample).collect::<Vec<Sample>>(), share, promise)
            }
            Aggregate::Distinct(which) => {
                let seen = closed.iter().filter_map(|closed| closed.distinct(which));
                distinct_count(&seen.collect::<Vec<Seen>>(), promise)
            }
        }
    }
}
