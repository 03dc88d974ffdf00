//! Estimates with their intervals: COUNT, SUM, AVG, ratios, variances, from strata and what was taken of each.
//!
//! Totals are the stratified expansion estimator (Cochran, "Sampling Techniques", 3rd edition, 5.3); ratios, averages and
//! variances are functions of totals, linearised (5.6, 6.4; Särndal, Swensson, Wretman, "Model Assisted Survey Sampling",
//! 5.5): the error is that of the total of each row's influence.

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

/// COUNT of an expression, or of rows.
pub fn count(taken: &[Taken], promise: Promise) -> Estimate {
    let mut total = Total::default();
    for Taken { stratum, values } in taken {
        let stratum = Stratum { shift: (0.0, 0.0), ..*stratum };
        total.add(&Total::of(&stratum, values.count, values.count));
    }
    Estimate::of(total, promise.confidence)
}

/// SUM.
pub fn sum(taken: &[Taken], promise: Promise) -> Estimate {
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
    is_whole || all.m2 <= 0.0 || all.count > SKEWED * all.squared_skewness()
}

/// See [`is_normal`].
pub(crate) const SKEWED: f64 = 25.0;

/// AVG: the ratio of SUM and COUNT, whose errors by N̂ cancel as far as they are the same.
pub fn average(taken: &[Taken], promise: Promise) -> Estimate {
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

/// What was taken of a stratum of two expressions over the same rows.
#[derive(Clone, Copy, Debug)]
pub struct Pair {
    /// Of which stratum.
    pub stratum: Stratum,
    /// Σ a, Σ b, Σ a², Σ b², Σ a·b; NULL is 0.
    pub sums: [f64; 5],
}

/// SUM(a) / SUM(b).
pub fn ratio(taken: &[Pair], promise: Promise) -> Estimate {
    let mut totals = [Total::default(); 2];
    for Pair { stratum, sums: [a, b, aa, bb, _] } in taken {
        totals[0].add(&Total::of(stratum, *a, *aa));
        totals[1].add(&Total::of(stratum, *b, *bb));
    }
    let [a, b] = totals.map(|total| total.value);
    let value = a / b;
    let mut influence = Total::default();
    for Pair { stratum, sums: [a, b, aa, bb, ab] } in taken {
        let squares = aa - 2.0 * value * ab + value * value * bb;
        influence.add(&Total::of(stratum, a - value * b, squares));
    }
    let Estimate { half_width, .. } = Estimate::of(influence, promise.confidence);
    Estimate { value, half_width: if half_width == 0.0 { 0.0 } else { (half_width / b).abs() } }
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
