use super::interval::{Estimate, Taken, average, count, deviation, sum, variance};
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
    /// Needs every row that comes, as a sketch of distinct values.
    Whole,
}

impl Aggregate {
    /// The value that it is of.
    pub fn value(&self) -> Option<usize> {
        match *self {
            Aggregate::Rows | Aggregate::Whole => None,
            Aggregate::Count(value)
            | Aggregate::Sum(value)
            | Aggregate::Average(value)
            | Aggregate::Variance(value)
            | Aggregate::Deviation(value) => Some(value),
        }
    }

    /// What it is by what was taken: of [`Aggregate::Rows`] and [`Aggregate::Whole`] the rows.
    pub fn estimate(&self, taken: &[Taken], promise: Promise) -> Estimate {
        match self {
            Aggregate::Rows | Aggregate::Count(_) | Aggregate::Whole => count(taken, promise),
            Aggregate::Sum(_) => sum(taken, promise),
            Aggregate::Average(_) => average(taken, promise),
            Aggregate::Variance(_) => variance(taken, false, promise),
            Aggregate::Deviation(_) => deviation(taken, false, promise),
        }
    }
}
