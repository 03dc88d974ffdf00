//! How much of a total is not known, for rows that were left out and for rows that have not come; every interval is a
//! sum over these.

use super::moments::Moments;

/// What is known of the rows of one sub-stream, or of one group in it, and of how many of them were taken.
///
/// Rows that are missing are, until late rows say otherwise, like those that came; so they are rows that were not
/// taken, and `total` less `taken` of them are unknown.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stratum {
    /// Tells it from all others of the query.
    pub id: i64,
    /// n: rows that were taken, each with the same probability.
    pub taken: f64,
    /// Rows that came.
    pub seen: f64,
    /// N̂: rows that there are, with those that have not come; exact if equal to `seen`.
    pub total: f64,
    /// Variance of N̂ that is this stratum's own: who is missing is chance.
    pub total_variance: f64,
    /// Deviation of N̂ that all strata share: the share of rows in time is an estimate.
    pub total_common: f64,
    /// By how much the mean of late rows is estimated to lie above that of the others, and the deviation of that.
    pub shift: (f64, f64),
}

impl Stratum {
    /// All rows came and were taken.
    pub fn whole(id: i64, rows: f64) -> Stratum {
        Stratum {
            id,
            taken: rows,
            seen: rows,
            total: rows,
            total_variance: 0.0,
            total_common: 0.0,
            shift: (0.0, 0.0),
        }
    }

    /// As numbers in a row, for state. The id is two of them: one would be exact to 2⁵³ only, and times may be any.
    pub(crate) fn numbers(&self) -> [f64; Stratum::NUMBERS] {
        let Stratum { id, taken, seen, total, total_variance, total_common, shift } = *self;
        let halves = [(id >> 32) as f64, f64::from(id as u32)];
        [halves[0], halves[1], taken, seen, total, total_variance, total_common, shift.0, shift.1]
    }

    /// How many [`numbers`](Stratum::numbers) there are.
    pub(crate) const NUMBERS: usize = 9;

    /// See [`numbers`](Stratum::numbers).
    pub(crate) fn of_numbers(numbers: &[f64; Stratum::NUMBERS]) -> Stratum {
        let &[high, low, taken, seen, total, total_variance, total_common, shift, shift_deviation] = numbers;
        Stratum {
            id: ((high as i64) << 32) | low as i64,
            taken,
            seen,
            total,
            total_variance,
            total_common,
            shift: (shift, shift_deviation),
        }
    }

    /// Rows that have not come.
    pub fn missing(&self) -> f64 {
        (self.total - self.seen).max(0.0)
    }
}

/// An estimated total, and what its error is made of.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Total {
    /// The estimate.
    pub value: f64,
    /// Variance by chance, which adds up.
    pub variance: f64,
    /// Deviation that all strata share, which adds up as it is.
    pub common: f64,
    /// Likewise: what late rows may differ by.
    pub shift: f64,
    /// Degrees of freedom of the variance.
    pub freedom: f64,
}

impl Total {
    /// That of a stratum, of a quantity whose sum over the rows taken, and that of its squares, are given: 0 for rows
    /// that a filter drops.
    pub fn of(stratum: &Stratum, sum: f64, squares: f64) -> Total {
        let n = stratum.taken.max(1.0);
        Total::of_centred(stratum, sum, squares - sum * sum / n, 0.0)
    }

    /// The same of a value less `c`, NULL and what a filter drops left out. Of late rows as large a part counts as of
    /// others, and their shift with it.
    pub fn of_values(stratum: &Stratum, values: &Moments, c: f64) -> Total {
        if stratum.taken <= 0.0 {
            return Total::default();
        }
        let (passing, d) = (values.count / stratum.taken, values.mean - c);
        // Not by squares around zero, which cancel.
        let centred = values.m2 + values.count * d * d * (1.0 - passing);
        Total::of_centred(stratum, values.count * d, centred, passing)
    }

    fn of_centred(stratum: &Stratum, sum: f64, centred: f64, passing: f64) -> Total {
        let n = stratum.taken;
        if n <= 0.0 {
            return Total::default();
        }
        let mean = sum / n;
        let spread = if n > 1.0 { (centred / (n - 1.0)).max(0.0) } else { 0.0 };
        let unknown = (1.0 - n / stratum.total.max(n)).max(0.0);
        let late = stratum.missing() * passing;
        // Whoever is missing, or one too many, is a late row.
        let late_mean = mean + passing * stratum.shift.0;
        Total {
            value: stratum.total * mean + late * stratum.shift.0,
            variance: stratum.total.powi(2) * unknown * spread / n
                + stratum.total_variance * late_mean.powi(2),
            common: stratum.total_common * late_mean,
            shift: late * stratum.shift.1,
            freedom: if unknown > 0.0 { n - 1.0 } else { 0.0 },
        }
    }

    /// Of two strata.
    pub fn add(&mut self, other: &Total) {
        self.value += other.value;
        self.variance += other.variance;
        self.common += other.common;
        self.shift += other.shift;
        self.freedom += other.freedom;
    }

    /// Its deviation.
    pub fn deviation(&self) -> f64 {
        (self.variance + self.common * self.common + self.shift * self.shift).sqrt()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_the_stratum_whatever_its_id() {
        for id in [0, 7, -1, -9, i64::MIN, i64::MAX, (1 << 53) + 1, -(1 << 53) - 1, u32::MAX.into()] {
            let stratum = Stratum { seen: 8.0, shift: (0.5, 0.25), ..Stratum::whole(id, 4.0) };
            assert_eq!(Stratum::of_numbers(&stratum.numbers()), stratum);
        }
    }

    #[test]
    fn a_stratum_by_hand() {
        // 4 of 8 rows taken of 10: values 1, 2, 3, 6; mean 3, s² = (4 + 1 + 0 + 9)/3.
        let stratum = Stratum {
            taken: 4.0,
            seen: 8.0,
            total_variance: 4.0,
            total_common: 0.5,
            ..Stratum::whole(1, 10.0)
        };
        let values: Moments = [1.0, 2.0, 3.0, 6.0].into_iter().collect();
        let total = Total::of_values(&stratum, &values, 0.0);
        assert_eq!((total.value, total.common, total.freedom), (30.0, 1.5, 3.0));
        // 100 · 0.6 · (14/3)/4 = 70, and 4 · 9 = 36.
        assert!((total.variance - 106.0).abs() < 1e-9);
        assert!((Total::of(&stratum, 12.0, 50.0).variance - 106.0).abs() < 1e-9);
        // Two rows have not come, and are 0.5 ± 0.25 above the others.
        let shifted = Total::of_values(&Stratum { shift: (0.5, 0.25), ..stratum }, &values, 0.0);
        assert_eq!((shifted.value, shifted.shift), (31.0, 0.5));
        // Of all rows nothing is unknown.
        assert_eq!(Total::of_values(&Stratum::whole(1, 4.0), &values, 0.0).deviation(), 0.0);
        // Half of the rows taken pass a filter: they are 0, 0, 0, 0, 1, 2, 3, 6.
        let filtered = Total::of_values(&Stratum { taken: 8.0, ..Stratum::whole(1, 16.0) }, &values, 0.0);
        let zeros = Total::of(&Stratum { taken: 8.0, ..Stratum::whole(1, 16.0) }, 12.0, 50.0);
        assert!((filtered.value - 24.0).abs() < 1e-9 && (filtered.variance - zeros.variance).abs() < 1e-9);
    }
}
