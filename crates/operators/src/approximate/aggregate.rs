use super::aion::Closed;
use super::interval::{Estimate, Pair, Taken, average, count, deviation, ratio, rows, sum, variance};
use super::sample_size::Promise;

/// What a query computes of a group, as far as its sample goes by it. Values are numbered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
    /// Needs every row that comes, as a sketch of distinct values.
    Whole,
}

impl Aggregate {
    /// The value that it is of, or the last of several.
    pub fn value(&self) -> Option<usize> {
        match *self {
            Aggregate::Rows | Aggregate::Whole => None,
            Aggregate::Ratio { over, under, product } => Some(over.max(under).max(product)),
            Aggregate::Count(value)
            | Aggregate::Sum(value)
            | Aggregate::Average(value)
            | Aggregate::Variance(value)
            | Aggregate::Deviation(value) => Some(value),
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
        }
    }
}
