//! Quantiles of a stratified sample, with an interval that asks nothing of the law of the values.
//!
//! Of n rows taken by chance the number below the quantile is binomial, so that two of the rows hold it between them with a
//! probability that is known: David and Nagaraja, "Order Statistics" (3rd edition), 7.1. Here rows stand for different numbers
//! of rows, and a part of all is taken:
//!
//! - n is W / max w·(1 − θ), where w is the number of rows that one stands for, W their sum and θ the part that was taken. A
//!   mean whose weights are at most 1/n is, in every convex measure, no further spread than one of n equal ones (majorisation);
//!   that strata differ makes the number less spread than the binomial law (Hoeffding, Ann. Math. Statist. 27, 1956).
//! - Where N̂ is uncertain, strata may weigh more or less than was thought. That moves ranks by as much as values below the
//!   quantile are more frequent in them than in all.
//! - Where late rows are known to differ, those that are missing may lie on either side: ranks move by their share.
//!
//! No sketch stands between: a sample is small already, and is kept as it is. KLL of Apache DataSketches tosses coins of its
//! own, so that the same rows would not give the same result.

use std::sync::Arc;

use statrs::function::beta::beta_reg;

use super::interval::Estimate;
use super::sample_size::Promise;
use super::stratum::Stratum;

/// What was taken of a stratum, value by value, NULL left out.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    /// Of which stratum.
    pub stratum: Stratum,
    /// In any order.
    pub values: Arc<Vec<f64>>,
}

/// The value below which that share of all lies, between two neighbours in proportion: PERCENTILE. NaN of no value.
pub fn percentile(samples: &[Sample], share: f64, promise: Promise) -> Estimate {
    let strata = collapsed(samples);
    let mut sorted: Vec<Weighted> = Vec::with_capacity(strata.iter().map(|s| s.values.len()).sum());
    for (place, strata) in strata.iter().enumerate() {
        let weight = strata.stratum.total.max(strata.stratum.taken) / strata.stratum.taken.max(1.0);
        sorted.extend(strata.values.iter().map(|&value| Weighted { value, weight, place }));
    }
    if sorted.is_empty() {
        return Estimate { value: f64::NAN, half_width: 0.0 };
    }
    sorted.sort_by(|a, b| a.value.total_cmp(&b.value));
    let value = interpolated(&sorted, share);
    let is_whole = strata.iter().all(|Sample { stratum, .. }| {
        stratum.taken >= stratum.total && stratum.total_variance == 0.0 && stratum.total_common == 0.0
    });
    if is_whole {
        return Estimate { value, half_width: 0.0 };
    }
    let all: f64 = sorted.iter().map(|one| one.weight).sum();
    let thinnest = strata.iter().map(|Sample { stratum, .. }| {
        let weight = stratum.total.max(stratum.taken) / stratum.taken.max(1.0);
        (weight - 1.0).max(0.0)
    });
    let thinnest = thinnest.fold(0.0, f64::max);
    let size = if thinnest > 0.0 { all / thinnest } else { f64::INFINITY };
    let moved = moved(&strata, &sorted, value, share, promise);
    // Between its neighbours, of which one is a row above and one a row below.
    let (below, above) = shares_around(share - 1.0 / all, share + 1.0 / all, size, promise.confidence);
    let low = below.and_then(|below| at_or_below(&sorted, (below - moved) * all));
    let high = above.and_then(|above| at_or_above(&sorted, (above + moved) * all));
    let half_width = match (low, high) {
        (Some(low), Some(high)) => (value - low).max(high - value).max(0.0),
        _ => f64::INFINITY,
    };
    Estimate { value, half_width }
}

/// A value, for how many rows it stands, and of which stratum it is.
struct Weighted {
    value: f64,
    weight: f64,
    place: usize,
}

/// Of what no row was taken is as what comes next, or last.
fn collapsed(samples: &[Sample]) -> Vec<Sample> {
    let mut strata: Vec<Sample> = Vec::with_capacity(samples.len());
    for next in samples {
        let is_empty = |sample: &Sample| sample.stratum.taken < 1.0;
        match strata.last_mut().filter(|last| is_empty(last) || is_empty(next)) {
            Some(last) => {
                let (a, b) = (&mut last.stratum, &next.stratum);
                a.shift = if is_empty_of_missing(a) { b.shift } else { a.shift };
                a.taken += b.taken;
                a.seen += b.seen;
                a.total += b.total;
                a.total_variance += b.total_variance;
                a.total_common += b.total_common;
                if last.values.is_empty() {
                    last.values = Arc::clone(&next.values);
                }
            }
            None => strata.push(next.clone()),
        }
    }
    strata
}

fn is_empty_of_missing(stratum: &Stratum) -> bool {
    stratum.missing() <= 0.0
}

/// Each in the middle of the rows that it stands for; between two middles in proportion. Of equal weights that is the position
/// (n − 1)·p of the exact function, computed as there.
fn interpolated(sorted: &[Weighted], share: f64) -> f64 {
    let first = sorted[0].weight;
    if sorted.iter().all(|one| one.weight == first) {
        let position = (sorted.len() - 1) as f64 * share;
        let (lower, upper) = (position.floor(), position.ceil());
        let (low, high) = (sorted[lower as usize].value, sorted[upper as usize].value);
        return match lower == upper || low == high {
            true => low,
            false => (upper - position) * low + (position - lower) * high,
        };
    }
    let last = sorted[sorted.len() - 1].weight;
    let all: f64 = sorted.iter().map(|one| one.weight).sum();
    let target = first / 2.0 + share * (all - first / 2.0 - last / 2.0);
    let mut before: Option<(f64, f64)> = None;
    let mut up_to = 0.0;
    for one in sorted {
        let middle = up_to + one.weight / 2.0;
        up_to += one.weight;
        if middle >= target {
            return match before {
                Some((at, value)) if middle > at => {
                    value + (one.value - value) * (target - at) / (middle - at)
                }
                _ => one.value,
            };
        }
        before = Some((middle, one.value));
    }
    sorted[sorted.len() - 1].value
}

/// By how much of all ranks may be off because N̂ is, and because late rows are others.
fn moved(strata: &[Sample], sorted: &[Weighted], value: f64, share: f64, promise: Promise) -> f64 {
    let mut below = vec![0.0; strata.len()];
    sorted.iter().filter(|one| one.value < value).for_each(|one| below[one.place] += 1.0);
    let (mut all, mut variance, mut common, mut others) = (0.0, 0.0, 0.0, 0.0);
    let z = promise.z();
    for (Sample { stratum, values }, below) in strata.iter().zip(below) {
        all += stratum.total;
        let count = values.len() as f64;
        if count > 0.0 {
            let apart = below / count - share;
            variance += stratum.total_variance * apart * apart;
            common += stratum.total_common * apart.abs();
        }
        let (shift, deviation) = stratum.shift;
        if shift.abs() > z * deviation {
            others += stratum.missing() + z * stratum.total_variance.sqrt() + stratum.total_common;
        }
    }
    if all > 0.0 { (z * (variance + common * common).sqrt() + others) / all } else { 0.0 }
}

/// The last value before which at most so many rows lie.
fn at_or_below(sorted: &[Weighted], rows: f64) -> Option<f64> {
    let (mut found, mut before) = (None, 0.0);
    for one in sorted {
        if before > rows {
            break;
        }
        found = Some(one.value);
        before += one.weight;
    }
    found
}

/// The first value with which so many rows are reached.
fn at_or_above(sorted: &[Weighted], rows: f64) -> Option<f64> {
    let mut up_to = 0.0;
    sorted.iter().find_map(|one| {
        up_to += one.weight;
        // Sums of weights are off by their rounding.
        (up_to >= rows * (1.0 - 1e-12)).then_some(one.value)
    })
}

/// Shares of a sample of so many rows between whose values the share `from` … `to` of all lies, each missed with half of what
/// confidence leaves. Nothing where no row of the sample is surely below, or above.
pub(crate) fn shares_around(from: f64, to: f64, size: f64, confidence: f64) -> (Option<f64>, Option<f64>) {
    let miss = (1.0 - confidence) / 2.0;
    if size.is_infinite() {
        return (Some(from.max(0.0)), Some(to.min(1.0)));
    }
    if size < 1.0 {
        return (None, None);
    }
    // More would not change a result, and takes longer.
    let size = size.min(1e7);
    // P(X ≥ a) for X binomial of `size` and `to`; falls with a.
    let reaches = |a: f64| beta_reg(a, size - a + 1.0, to);
    let above = (to < 1.0 && reaches(size) <= miss).then(|| {
        let least = bisected((size * to).max(1e-9), size, |a| reaches(a) <= miss);
        least / size
    });
    // P(X ≤ a) = 1 − P(X ≥ a + 1); grows with a.
    let stays = |a: f64| 1.0 - beta_reg(a + 1.0, size - a, from);
    let below = (from > 0.0 && stays(0.0) <= miss).then(|| {
        let first_beyond = bisected(0.0, (size * from).min(size - 1e-9), |a| stays(a) > miss);
        first_beyond / size
    });
    (below, above)
}

/// Where, between the two, it begins to hold.
fn bisected(from: f64, to: f64, holds: impl Fn(f64) -> bool) -> f64 {
    let (mut from, mut to) = (from, to);
    for _ in 0..50 {
        let middle = f64::midpoint(from, to);
        if holds(middle) {
            to = middle;
        } else {
            from = middle;
        }
    }
    to
}

/// Rows of a large population whose interval around that share lies within `below` … `above`; nothing where none is enough.
pub(crate) fn rows_within(share: f64, below: f64, above: f64, promise: Promise) -> Option<f64> {
    const MOST: f64 = 1e7;
    let apart = (share - below).min(above - share);
    if apart <= 0.0 {
        return None;
    }
    let mut rows = (promise.z().powi(2) * share * (1.0 - share) / (apart * apart)).max(2.0) / 4.0;
    while rows < MOST {
        let (low, high) = shares_around(share, share, rows, promise.confidence);
        if low.is_some_and(|low| low >= below) && high.is_some_and(|high| high <= above) {
            return Some(rows);
        }
        rows *= 1.1;
    }
    None
}

#[cfg(test)]
mod tests;
