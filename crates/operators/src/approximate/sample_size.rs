//! How large a window is, how large its sample has to be, and at which rate rows are to be taken.
//!
//! Farhat, "Klink and Aion" (thesis, Waterloo 2021), section 4.1.
//!
//! | symbol | here | unit |
//! | --- | --- | --- |
//! | r, 1 − δ | [`Promise::error`], [`Promise::confidence`] | share |
//! | z_{δ/2} | [`Promise::z`] | – |
//! | f | `length_ms` | ms of event time |
//! | E\[G\], σ(G) | `gap_ms`: mean and deviation between two events | ms |
//! | N | `rows`: of the window, with those still to come | rows |
//! | μ, σ | `mean`, `deviation` of the values | of the value |
//! | n | what [`of_mean`] and the like give | rows |
//! | E\[D\] | `delay_ms` | ms |
//! | N_{i,ddl}, θ_i | [`rows_by_deadline`], [`rate`] | rows, share |

use super::normal::quantile;

/// What the user asked for: a relative error that is kept with a probability.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Promise {
    /// r: the relative error, above 0 and below 1.
    pub error: f64,
    /// 1 − δ: in how many windows at least, above 0 and below 1.
    pub confidence: f64,
}

impl Promise {
    /// z_{δ/2}: so many deviations on both sides of the mean hold the confidence. 1.96 for 95 %.
    pub fn z(&self) -> f64 {
        quantile(0.5 + self.confidence / 2.0)
    }
}

/// Eq. 4.2: rows that a stretch of event time holds, f / E\[G\].
pub fn rows_expected(length_ms: f64, gap_ms: f64) -> f64 {
    if gap_ms > 0.0 { length_ms / gap_ms } else { 0.0 }
}

/// The same, overestimated by two deviations, as section 4.1.2 asks without a formula.
///
/// N of a stretch is a renewal count: its variance is f·σ(G)² / E\[G\]³. Two deviations of *it* are added; two
/// deviations of a single gap, taken from E\[G\], would make the divisor negative as soon as gaps vary by half.
pub fn rows_at_most(length_ms: f64, gap_ms: f64, gap_deviation_ms: f64) -> f64 {
    let rows = rows_expected(length_ms, gap_ms);
    if gap_ms > 0.0 { rows + 2.0 * (rows * (gap_deviation_ms / gap_ms).powi(2)).sqrt() } else { rows }
}

/// Eq. 4.4: rows whose mean is within r of that of all: z²σ² / (r²μ² + z²σ²/N).
///
/// Printed without σ's square in one place and with μ(N) for μ(v) in Eq. 4.3; this is 4.3 solved for n. All rows where the mean
/// is zero and values vary: no relative error can be promised of it.
pub fn of_mean(promise: Promise, rows: f64, mean: f64, deviation: f64) -> f64 {
    of_squared_variation(promise.z(), promise.error, rows, squared_variation(mean, deviation))
}

/// Rows for a SUM, whose error has a second part: N is estimated too. What that takes of r is not left for sampling:
/// r² = r_s² + (z·σ(N̂)/N)². `None` where N̂ alone is not known well enough, however large the sample.
///
/// The thesis takes Eq. 4.4 as it is; then the bound is not kept while stragglers are missing.
pub fn of_sum(promise: Promise, rows: f64, rows_deviation: f64, mean: f64, deviation: f64) -> Option<f64> {
    if rows <= 0.0 {
        return Some(0.0);
    }
    let z = promise.z();
    let left = promise.error.powi(2) - (z * rows_deviation / rows).powi(2);
    (left > 0.0).then(|| of_squared_variation(z, left.sqrt(), rows, squared_variation(mean, deviation)))
}

/// Rows for a variance: that of s² is σ⁴(κ − 1)/n, so that it is a mean whose squared variation is κ − 1.
pub fn of_variance(promise: Promise, rows: f64, kurtosis: f64) -> f64 {
    of_squared_variation(promise.z(), promise.error, rows, (kurtosis - 1.0).max(0.0))
}

/// Eq. 4.4 over (σ/μ)².
pub fn of_squared_variation(z: f64, error: f64, rows: f64, squared_variation: f64) -> f64 {
    if rows <= 0.0 || squared_variation <= 0.0 {
        return 0.0;
    }
    if !squared_variation.is_finite() {
        return rows;
    }
    let spread = z * z * squared_variation;
    spread / (error * error + spread / rows)
}

/// (σ/μ)²; 0 where nothing varies, infinite around zero.
pub fn squared_variation(mean: f64, deviation: f64) -> f64 {
    if deviation == 0.0 { 0.0 } else { (deviation / mean).powi(2) }
}

/// Eq. 4.7: rows of a sub-stream of `length_ms` that are there by its end, f − E\[D\] over E\[G\]; none if a row takes longer
/// than that. [`super::Delays::on_time_share`] says it better where delays were seen.
pub fn rows_by_deadline(length_ms: f64, delay_ms: f64, gap_ms: f64) -> f64 {
    rows_expected((length_ms - delay_ms).max(0.0), gap_ms)
}

/// Eq. 4.8: the part of the rows that come which are taken. Above 1: there are too few by then, and the window has to wait.
pub fn rate(sample: f64, rows_by_deadline: f64) -> f64 {
    if sample <= 0.0 { 0.0 } else { sample / rows_by_deadline }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIVE_PERCENT: Promise = Promise { error: 0.05, confidence: 0.95 };

    fn near(a: f64, b: f64, within: f64) {
        assert!((a - b).abs() <= within, "{a} is not {b}");
    }

    #[test]
    fn a_window_of_three_seconds_by_hand() {
        near(FIVE_PERCENT.z(), 1.959_964, 1e-6);
        // One event a millisecond: 600 in a sub-stream, 3 000 in the window.
        assert_eq!(rows_expected(600.0, 1.0), 600.0);
        // Gamma(2, 0.5): mean 1, deviation 0.7071; the count varies by √(600·0.5) = 17.32.
        near(rows_at_most(600.0, 1.0, 0.5f64.sqrt()), 634.64, 0.01);
        // Eq. 4.4, μ = 10, σ = 10, N = 3 000: 3.8415·100 / (0.0025·100 + 3.8415·100/3 000) = 384.15/0.37805.
        near(of_mean(FIVE_PERCENT, 3_000.0, 10.0, 10.0), 1_016.1, 0.1);
        // Without bound on N: 384.15 / 0.25.
        near(of_mean(FIVE_PERCENT, 1e12, 10.0, 10.0), 1_536.6, 0.1);
        // Eq. 4.7: (600 − 240) / 1 = 360. Eq. 4.8: a fifth of 1 016.1 over 360.
        assert_eq!(rows_by_deadline(600.0, 240.0, 1.0), 360.0);
        near(rate(1_016.1 / 5.0, 360.0), 0.5645, 1e-4);
        // Rows of 700 ms delay are not there by the end of 600 ms.
        assert_eq!(rows_by_deadline(600.0, 700.0, 1.0), 0.0);
        assert!(rate(10.0, 0.0) > 1.0);
    }

    #[test]
    fn a_sum_needs_more_where_rows_are_missing() {
        // σ(N̂)/N = 1 %: r_s² = 0.0025 − (1.96·0.01)² = 0.0021159; 384.15 / (0.21159 + 0.12805).
        let sum = of_sum(FIVE_PERCENT, 3_000.0, 30.0, 10.0, 10.0).unwrap();
        near(sum, 1_131.0, 0.2);
        assert_eq!(
            of_sum(FIVE_PERCENT, 3_000.0, 0.0, 10.0, 10.0),
            Some(of_mean(FIVE_PERCENT, 3_000.0, 10.0, 10.0))
        );
        // 3 % alone is 5.9 % at 95 %: no sample makes up for it.
        assert_eq!(of_sum(FIVE_PERCENT, 3_000.0, 90.0, 10.0, 10.0), None);
    }

    #[test]
    fn what_does_not_vary_needs_no_row_and_what_is_around_zero_all() {
        assert_eq!(of_mean(FIVE_PERCENT, 3_000.0, 7.0, 0.0), 0.0);
        assert_eq!(of_mean(FIVE_PERCENT, 3_000.0, 0.0, 1.0), 3_000.0);
        // An exponential law's κ is 9.
        near(of_variance(FIVE_PERCENT, 1e12, 9.0), 3.8415 * 8.0 / 0.0025, 1.0);
    }
}
