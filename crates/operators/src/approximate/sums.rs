//! What a row costs on its way into a sample: a few additions here, of which moments are made once, when a window asks.

use super::moments::Moments;

/// Moments in the making: sums of powers around the first value, which take no division per value.
///
/// The first value is one of them, so that none lies much farther from it than from the mean, and no more is cancelled than
/// their number's digits.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Sums {
    first: f64,
    count: f64,
    /// Of the first to the fourth power.
    powers: [f64; 4],
}

impl Sums {
    /// How many.
    pub(crate) fn count(&self) -> f64 {
        self.count
    }

    /// One more value.
    pub(crate) fn push(&mut self, value: f64) {
        if self.count == 0.0 {
            self.first = value;
        }
        let d = value - self.first;
        let square = d * d;
        self.count += 1.0;
        self.powers[0] += d;
        self.powers[1] += square;
        self.powers[2] += square * d;
        self.powers[3] += square * square;
    }

    /// As numbers in a row, for state.
    pub(crate) fn numbers(&self) -> [f64; 6] {
        let [a, b, c, d] = self.powers;
        [self.first, self.count, a, b, c, d]
    }

    /// See [`numbers`](Sums::numbers).
    pub(crate) fn of([first, count, a, b, c, d]: [f64; 6]) -> Sums {
        Sums { first, count, powers: [a, b, c, d] }
    }

    /// What they come to.
    pub(crate) fn moments(&self) -> Moments {
        let Sums { first, count, powers: [s1, s2, s3, s4] } = *self;
        if count == 0.0 {
            return Moments::default();
        }
        let d = s1 / count;
        Moments {
            count,
            mean: first + d,
            m2: (s2 - d * s1).max(0.0),
            m3: s3 - 3.0 * d * s2 + 2.0 * d * d * s1,
            m4: (s4 - 4.0 * d * s3 + 6.0 * d * d * s2 - 3.0 * d * d * d * s1).max(0.0),
        }
    }
}

/// How far values lie from what is usual: their number, sum and squares.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Distances {
    count: f64,
    sum: f64,
    squares: f64,
}

impl Distances {
    /// One more.
    pub(crate) fn push(&mut self, distance: f64) {
        self.count += 1.0;
        self.sum += distance;
        self.squares += distance * distance;
    }

    /// How many.
    pub(crate) fn count(&self) -> f64 {
        self.count
    }

    /// Each counts that much.
    pub(crate) fn scale(&mut self, by: f64) {
        self.count *= by;
        self.sum *= by;
        self.squares *= by;
    }

    /// As numbers in a row, for state.
    pub(crate) fn numbers(&self) -> [f64; 3] {
        [self.count, self.sum, self.squares]
    }

    /// See [`numbers`](Distances::numbers).
    pub(crate) fn of([count, sum, squares]: [f64; 3]) -> Distances {
        Distances { count, sum, squares }
    }

    /// As moments, of which the third and the fourth are not known.
    pub(crate) fn moments(&self) -> Moments {
        if self.count == 0.0 {
            return Moments::default();
        }
        let mean = self.sum / self.count;
        let m2 = (self.squares - mean * self.sum).max(0.0);
        Moments { count: self.count, mean, m2, ..Moments::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn sums(values: &[f64]) -> Moments {
        let mut sums = Sums::default();
        values.iter().for_each(|value| sums.push(*value));
        sums.moments()
    }

    #[test]
    fn of_equal_values_nothing_varies() {
        let moments = sums(&[0.1; 1_000]);
        assert_eq!((moments.mean, moments.m2, moments.m3, moments.m4), (0.1, 0.0, 0.0, 0.0));
        assert_eq!(sums(&[]), Moments::default());
    }

    #[test]
    fn distances_by_hand() {
        let mut distances = Distances::default();
        [1.0, 2.0, 6.0].into_iter().for_each(|distance| distances.push(distance));
        // Mean 3; 4 + 1 + 9.
        assert_eq!(distances.moments(), Moments { count: 3.0, mean: 3.0, m2: 14.0, ..Moments::default() });
    }

    proptest! {
        #[test]
        fn sums_are_moments(values in proptest::collection::vec(-100.0..100.0f64, 1..60), far in -1e6..1e6f64) {
            let values: Vec<f64> = values.iter().map(|value| value + far).collect();
            let (sums, pushed) = (sums(&values), values.iter().copied().collect::<Moments>());
            let near = |a: f64, b: f64, scale: f64| (a - b).abs() <= 1e-7 * (1.0 + scale.abs());
            prop_assert!(
                near(sums.mean, pushed.mean, 1.0)
                    && near(sums.m2, pushed.m2, pushed.m2)
                    && near(sums.m3, pushed.m3, pushed.m4 + pushed.m2)
                    && near(sums.m4, pushed.m4, pushed.m4),
                "{sums:?} {pushed:?}"
            );
        }
    }
}
