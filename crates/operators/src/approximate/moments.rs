//! The numbers from which means, variances and their errors are computed, in a form in which parts can be put together.

/// Count, mean and central sums up to the fourth power of some values, merged without loss.
///
/// Pébay, "Formulas for Robust, One-Pass Parallel Computation of Covariances and Arbitrary-Order Statistical Moments"
/// (Sandia 2008), equations 2.1 and 3.1. Sums of plain powers would cancel where the mean is far from zero.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Moments {
    /// How many values.
    pub count: f64,
    /// Their mean; 0 for none.
    pub mean: f64,
    /// Σ (x − mean)².
    pub m2: f64,
    /// Σ (x − mean)³.
    pub m3: f64,
    /// Σ (x − mean)⁴.
    pub m4: f64,
}

impl Moments {
    /// One more value.
    pub fn push(&mut self, value: f64) {
        let n1 = self.count;
        let n = n1 + 1.0;
        let delta = value - self.mean;
        let step = delta / n;
        let square = step * step;
        let term = delta * step * n1;
        self.mean += step;
        self.m4 += term * square * (n * n - 3.0 * n + 3.0) + 6.0 * square * self.m2 - 4.0 * step * self.m3;
        self.m3 += term * step * (n - 2.0) - 3.0 * step * self.m2;
        self.m2 += term;
        self.count = n;
    }

    /// Those values too.
    pub fn merge(&mut self, other: &Moments) {
        if other.count == 0.0 {
            return;
        }
        if self.count == 0.0 {
            *self = *other;
            return;
        }
        let (a, b) = (*self, *other);
        let n = a.count + b.count;
        let delta = b.mean - a.mean;
        let (d2, ab) = (delta * delta, a.count * b.count);
        self.count = n;
        self.mean = a.mean + delta * b.count / n;
        self.m2 = a.m2 + b.m2 + d2 * ab / n;
        self.m3 = a.m3
            + b.m3
            + delta * d2 * ab * (a.count - b.count) / (n * n)
            + 3.0 * delta * (a.count * b.m2 - b.count * a.m2) / n;
        self.m4 = a.m4
            + b.m4
            + d2 * d2 * ab * (a.count * a.count - ab + b.count * b.count) / (n * n * n)
            + 6.0 * d2 * (a.count * a.count * b.m2 + b.count * b.count * a.m2) / (n * n)
            + 4.0 * delta * (a.count * b.m3 - b.count * a.m3) / n;
    }

    /// The same values, each counting that much: how older ones are forgotten.
    #[must_use]
    pub fn scaled(self, weight: f64) -> Moments {
        Moments {
            count: self.count * weight,
            mean: self.mean,
            m2: self.m2 * weight,
            m3: self.m3 * weight,
            m4: self.m4 * weight,
        }
    }

    /// Variance of the population that the values were drawn from, unbiased; 0 for fewer than two.
    pub fn variance(&self) -> f64 {
        if self.count > 1.0 { (self.m2 / (self.count - 1.0)).max(0.0) } else { 0.0 }
    }

    /// Square root of [`variance`](Moments::variance).
    pub fn deviation(&self) -> f64 {
        self.variance().sqrt()
    }

    /// Fourth standardised moment: 3 for a normal law, 9 for an exponential one; 3 where nothing varies.
    pub fn kurtosis(&self) -> f64 {
        if self.m2 > 0.0 { self.count * self.m4 / (self.m2 * self.m2) } else { 3.0 }
    }

    /// Square of the third standardised moment: 0 for a symmetric law, 4 for an exponential one.
    pub fn squared_skewness(&self) -> f64 {
        if self.m2 > 0.0 { self.count * self.m3 * self.m3 / self.m2.powi(3) } else { 0.0 }
    }

    /// Σ x.
    pub fn sum(&self) -> f64 {
        self.count * self.mean
    }

    /// Σ (x − c), Σ (x − c)², Σ (x − c)³ and Σ (x − c)⁴.
    pub fn sums_around(&self, c: f64) -> [f64; 4] {
        let d = self.mean - c;
        [
            self.count * d,
            self.m2 + self.count * d * d,
            self.m3 + 3.0 * d * self.m2 + self.count * d * d * d,
            self.m4 + 4.0 * d * self.m3 + 6.0 * d * d * self.m2 + self.count * d.powi(4),
        ]
    }
}

impl Moments {
    /// As numbers in a row, for state.
    pub(crate) fn numbers(&self) -> [f64; 5] {
        [self.count, self.mean, self.m2, self.m3, self.m4]
    }

    /// See [`numbers`](Moments::numbers).
    pub(crate) fn of([count, mean, m2, m3, m4]: [f64; 5]) -> Moments {
        Moments { count, mean, m2, m3, m4 }
    }
}

impl FromIterator<f64> for Moments {
    fn from_iter<I: IntoIterator<Item = f64>>(values: I) -> Moments {
        let mut moments = Moments::default();
        values.into_iter().for_each(|value| moments.push(value));
        moments
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The definition, in two passes.
    fn literal(values: &[f64]) -> Moments {
        let count = values.len() as f64;
        let mean = if values.is_empty() { 0.0 } else { values.iter().sum::<f64>() / count };
        let sum = |power: i32| values.iter().map(|value| (value - mean).powi(power)).sum();
        Moments { count, mean, m2: sum(2), m3: sum(3), m4: sum(4) }
    }

    fn close(a: Moments, b: Moments) -> bool {
        let near = |a: f64, b: f64, scale: f64| (a - b).abs() <= 1e-9 * (1.0 + scale.abs());
        a.count == b.count
            && near(a.mean, b.mean, b.mean)
            && near(a.m2, b.m2, b.m2)
            && near(a.m3, b.m3, b.m4 + b.m2)
            && near(a.m4, b.m4, b.m4 + b.m2)
    }

    #[test]
    fn four_values_by_hand() {
        // 1, 2, 3, 10: mean 4; deviations −3, −2, −1, 6.
        let moments: Moments = [1.0, 2.0, 3.0, 10.0].into_iter().collect();
        let by_hand = Moments { count: 4.0, mean: 4.0, m2: 50.0, m3: 180.0, m4: 81.0 + 16.0 + 1.0 + 1296.0 };
        assert!(close(moments, by_hand), "{moments:?}");
        assert!((moments.variance() - 50.0 / 3.0).abs() < 1e-12);
        // Around 0: 16, 1 + 4 + 9 + 100, 1 + 8 + 27 + 1000, 1 + 16 + 81 + 10 000.
        for (sum, expected) in moments.sums_around(0.0).iter().zip([16.0, 114.0, 1036.0, 10098.0]) {
            assert!((sum - expected).abs() < 1e-6, "{sum} for {expected}");
        }
    }

    proptest! {
        #[test]
        fn pushed_and_merged_are_the_definition(
            a in proptest::collection::vec(-100.0..100.0f64, 0..40),
            b in proptest::collection::vec(-100.0..100.0f64, 0..40),
        ) {
            let mut merged: Moments = a.iter().copied().collect();
            prop_assert!(close(merged, literal(&a)), "{merged:?}");
            merged.merge(&b.iter().copied().collect());
            let both: Vec<f64> = a.into_iter().chain(b).collect();
            prop_assert!(close(merged, literal(&both)), "{merged:?} {:?}", literal(&both));
        }
    }
}
