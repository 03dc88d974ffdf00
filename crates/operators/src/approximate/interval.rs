//! Estimates with their intervals: COUNT, SUM, AVG, ratios, variances, from strata and what was taken of each.
//!
//! Totals are the stratified expansion estimator (Cochran, "Sampling Techniques", 3rd edition, 5.3); ratios, averages and
//! variances are functions of totals, linearised (5.6, 6.4; Särndal, Swensson, Wretman, "Model Assisted Survey Sampling",
//! 5.5): the error is that of the total of each row's influence.

use std::borrow::Cow;

use super::moments::Moments;
use super::normal::student;
use super::sample_size::Promise;
use super::stratum::{Stratum, Total};

/// A result and how far the exact one may lie from it, with the confidence asked for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// The result; NaN where nothing is known.
    pub value: f64,
    /// Half the width of the interval.
    pub half_width: f64,
}

impl Estimate {
    /// Half the width relative to the result: 0 where it is exact, infinite around zero.
    pub fn relative(&self) -> f64 {
        if self.half_width == 0.0 { 0.0 } else { (self.half_width / self.value).abs() }
    }

    /// Nobody can say how far off it is.
    fn without_bound(self) -> Estimate {
        Estimate { half_width: f64::INFINITY, ..self }
    }

    fn of(total: Total, confidence: f64) -> Estimate {
        let deviation = total.deviation();
        if deviation == 0.0 {
            return Estimate { value: total.value, half_width: 0.0 };
        }
        // What N̂ adds is known from many rows; only sampling of few has fewer degrees.
        let freedom = if total.freedom > 0.0 { total.freedom } else { f64::INFINITY };
        Estimate { value: total.value, half_width: student(0.5 + confidence / 2.0, freedom) * deviation }
    }
}

/// What was taken of a stratum and passed the filters behind it: the values of one expression, NULL left out.
#[derive(Clone, Copy, Debug)]
pub struct Taken {
    /// Of which stratum.
    pub stratum: Stratum,
    /// The values that count.
    pub values: Moments,
}

impl Taken {
    /// From one row nobody knows how far the others are from it, as far as there are any: where there is one with a
    /// probability of a thousandth, no confidence that is asked for hangs on it.
    fn is_thin(&self) -> bool {
        self.stratum.taken < 2.0 && self.stratum.total > self.stratum.taken * 1.001
    }

    fn add(&mut self, other: &Taken) {
        let (a, b) = (&mut self.stratum, &other.stratum);
        // What has no row missing has no shift either.
        a.shift = if a.missing() > 0.0 { a.shift } else { b.shift };
        a.taken += b.taken;
        a.seen += b.seen;
        a.total += b.total;
        a.total_variance += b.total_variance;
        a.total_common += b.total_common;
        self.values.merge(&other.values);
    }
}

/// Strata of which one row or none was taken as one with the next, or the last with the one before it: collapsed strata
/// (Cochran 5A.12). One that is thin is left where all are so together.
fn collapsed(taken: &[Taken]) -> Cow<'_, [Taken]> {
    if !taken.iter().any(Taken::is_thin) {
        return Cow::Borrowed(taken);
    }
    let mut collapsed: Vec<Taken> = Vec::with_capacity(taken.len());
    for next in taken {
        match collapsed.last_mut().filter(|last| last.is_thin()) {
            Some(last) => last.add(next),
            None => collapsed.push(*next),
        }
    }
    if let [.., _, last] = collapsed[..]
        && last.is_thin()
    {
        collapsed.pop();
        collapsed.last_mut().expect("one is before the last").add(&last);
    }
    Cow::Owned(collapsed)
}

/// COUNT of rows, which are counted as they come: nothing but those that are missing is unknown.
pub fn rows(taken: &[Taken], promise: Promise) -> Estimate {
    let mut total = Total::default();
    for Taken { stratum, .. } in taken {
        total.add(&Total {
            value: stratum.total,
            variance: stratum.total_variance,
            common: stratum.total_common,
            ..Total::default()
        });
    }
    Estimate::of(total, promise.confidence)
}

/// COUNT of an expression.
pub fn count(taken: &[Taken], promise: Promise) -> Estimate {
    let taken = &*collapsed(taken);
    let mut total = Total::default();
    for Taken { stratum, values } in taken {
        let stratum = Stratum { shift: (0.0, 0.0), ..*stratum };
        total.add(&Total::of(&stratum, values.count, values.count));
    }
    let estimate = Estimate::of(total, promise.confidence);
    if taken.iter().any(Taken::is_thin) { estimate.without_bound() } else { estimate }
}

/// SUM.
pub fn sum(taken: &[Taken], promise: Promise) -> Estimate {
    let taken = &*collapsed(taken);
    let estimate = Estimate::of(total(taken), promise.confidence);
    if is_normal(taken) { estimate } else { estimate.without_bound() }
}

/// Whether the mean of what was taken is spread about as the normal law has it, without which there is no interval: Cochran
/// (2.15) wants more than 25·G² rows, G being the skewness, for a 95 % interval that fails in no more than 6 %. What has no
/// variance never gets there: the skewness of a sample of it grows with the root of the sample.
pub fn is_normal(taken: &[Taken]) -> bool {
    let is_whole = taken.iter().all(|Taken { stratum, .. }| stratum.taken >= stratum.total);
    let mut all = Moments::default();
    taken.iter().for_each(|Taken { values, .. }| all.merge(values));
    let is_thin = taken.iter().any(Taken::is_thin);
    is_whole || !is_thin && (all.m2 <= 0.0 || all.count > SKEWED * all.squared_skewness())
}

/// See [`is_normal`].
pub(crate) const SKEWED: f64 = 25.0;

/// AVG: the ratio of SUM and COUNT, whose errors by N̂ cancel as far as they are the same.
pub fn average(taken: &[Taken], promise: Promise) -> Estimate {
    let taken = &*collapsed(taken);
    let rows = total_rows(taken);
    if rows <= 0.0 {
        return Estimate { value: f64::NAN, half_width: 0.0 };
    }
    let value = total(taken).value / rows;
    let influence = influence(taken, value);
    let Estimate { half_width, .. } = Estimate::of(influence, promise.confidence);
    let estimate = Estimate { value, half_width: half_width / rows };
    if is_normal(taken) { estimate } else { estimate.without_bound() }
}

/// The population's variance; with `is_sample` that which n − 1 divides.
pub fn variance(taken: &[Taken], is_sample: bool, promise: Promise) -> Estimate {
    let taken = &*collapsed(taken);
    let rows = total_rows(taken);
    let divisor = if is_sample { rows - 1.0 } else { rows };
    if rows <= 0.0 || divisor <= 0.0 {
        return Estimate { value: f64::NAN, half_width: 0.0 };
    }
    let mean = total(taken).value / rows;
    // Each row's (x − mean)², whose total over the rows is the variance.
    let mut squares = Total::default();
    for Taken { stratum, values } in taken {
        let stratum = Stratum { shift: (0.0, 0.0), ..*stratum };
        let [_, second, _, fourth] = values.sums_around(mean);
        squares.add(&Total::of(&stratum, second, fourth));
    }
    let value = squares.value / rows;
    let mut influence = Total::default();
    for Taken { stratum, values } in taken {
        let stratum = Stratum { shift: (0.0, 0.0), ..*stratum };
        let [_, second, _, fourth] = values.sums_around(mean);
        let (k, v) = (values.count, value);
        influence.add(&Total::of(&stratum, second - k * v, fourth - 2.0 * v * second + k * v * v));
    }
    let Estimate { half_width, .. } = Estimate::of(influence, promise.confidence);
    let estimate = Estimate { value: squares.value / divisor, half_width: half_width / divisor };
    if is_normal(taken) { estimate } else { estimate.without_bound() }
}

/// The root of [`variance`]: dσ = dσ² / 2σ.
pub fn deviation(taken: &[Taken], is_sample: bool, promise: Promise) -> Estimate {
    let variance = variance(taken, is_sample, promise);
    let value = variance.value.sqrt();
    let half_width = if variance.half_width == 0.0 { 0.0 } else { variance.half_width / (2.0 * value) };
    Estimate { value, half_width }
}

/// What was taken of a stratum of two expressions over the same rows, NULL being 0.
#[derive(Clone, Copy, Debug)]
pub struct Pair {
    /// Of which stratum; its shift is not that of either.
    pub stratum: Stratum,
    /// a and b: as many values as rows were taken.
    pub values: [Moments; 2],
    /// Σ a·b.
    pub products: f64,
    /// By how much late rows lie above others, and the deviation of that, of a and of b.
    pub shifts: [(f64, f64); 2],
}

impl Pair {
    fn taken(&self, which: usize) -> Taken {
        let stratum = Stratum { shift: self.shifts[which], ..self.stratum };
        Taken { stratum, values: self.values[which] }
    }

    fn sums(&self, which: usize) -> (f64, f64) {
        let values = self.values[which];
        (values.sum(), values.m2 + values.count * values.mean * values.mean)
    }
}

/// SUM(a) / SUM(b). Without a bound where a stratum is thin, or either is too skewed.
pub fn ratio(taken: &[Pair], promise: Promise) -> Estimate {
    let of = |which: usize| taken.iter().map(|pair| pair.taken(which)).collect::<Vec<_>>();
    let [over, under] = [of(0), of(1)];
    let (a, b) = (total(&over).value, total(&under).value);
    let value = a / b;
    let mut influence = Total::default();
    for pair in taken {
        let ((a, aa), (b, bb)) = (pair.sums(0), pair.sums(1));
        let squares = aa - 2.0 * value * pair.products + value * value * bb;
        // Late rows have their own mean of it.
        let stratum = Stratum { shift: (0.0, 0.0), ..pair.stratum };
        let mut total = Total::of(&stratum, a - value * b, squares);
        let [of_a, of_b] = pair.shifts;
        let shift = of_a.0 - value * of_b.0;
        let mean = (a - value * b) / stratum.taken.max(1.0);
        total.variance += stratum.total_variance * ((mean + shift).powi(2) - mean * mean);
        total.common += stratum.total_common * shift;
        total.shift += stratum.missing() * of_a.1.hypot(value * of_b.1);
        influence.add(&total);
    }
    let Estimate { half_width, .. } = Estimate::of(influence, promise.confidence);
    let estimate =
        Estimate { value, half_width: if half_width == 0.0 { 0.0 } else { (half_width / b).abs() } };
    if is_normal(&over) && is_normal(&under) { estimate } else { estimate.without_bound() }
}

/// Rows of a window, those included that have not come.
pub fn total_rows(taken: &[Taken]) -> f64 {
    let rows = |Taken { stratum, values }: &Taken| match stratum.taken > 0.0 {
        true => stratum.total * values.count / stratum.taken,
        false => 0.0,
    };
    taken.iter().map(rows).sum()
}

fn total(taken: &[Taken]) -> Total {
    influence(taken, 0.0)
}

/// The total of each row's distance from `value`.
fn influence(taken: &[Taken], value: f64) -> Total {
    let mut total = Total::default();
    for Taken { stratum, values } in taken {
        total.add(&Total::of_values(stratum, values, value));
    }
    total
}

#[cfg(test)]
mod tests;
