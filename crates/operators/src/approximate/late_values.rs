use super::moments::Moments;

/// Whether late rows differ from the others: a sample of each, by how far their values lie from what is usual in their
/// group. The papers assume that they do not differ.
///
/// The others are those that stand for late ones: rows in time of a sub-stream count as many of its rows are late.
#[derive(Clone, Debug, Default)]
pub(crate) struct LateValues {
    late: Moments,
    in_time: Moments,
    /// Rows that `in_time` was learnt from.
    rows: f64,
}

/// Fewer late rows say nothing: then they are taken to be like the others.
const LATE_MIN: f64 = 30.0;

impl LateValues {
    /// As numbers in a row, for state.
    pub(crate) fn numbers(&self) -> [f64; 11] {
        let [a, b] = [self.late.numbers(), self.in_time.numbers()];
        [a[0], a[1], a[2], a[3], a[4], b[0], b[1], b[2], b[3], b[4], self.rows]
    }

    /// See [`numbers`](LateValues::numbers).
    pub(crate) fn of(numbers: [f64; 11]) -> LateValues {
        let [a, b, c, d, e, late @ .., rows] = numbers;
        LateValues { late: Moments::of([a, b, c, d, e]), in_time: Moments::of(late), rows }
    }

    /// A late row's value, less what is usual in its group.
    pub(crate) fn push(&mut self, distance: f64) {
        self.late.push(distance);
    }

    /// Those of a sub-stream's rows in time, each of which stands for so many late ones.
    pub(crate) fn learn(&mut self, in_time: &Moments, late_per_row: f64) {
        self.in_time.merge(&in_time.scaled(late_per_row));
        self.rows += in_time.count;
    }

    /// Older ones count that much less.
    pub(crate) fn forget(&mut self, keep: f64) {
        self.late = self.late.scaled(keep);
        self.in_time = self.in_time.scaled(keep);
        self.rows *= keep;
    }

    /// By how much the mean of late rows is above that of the others, and the deviation of that estimate.
    pub(crate) fn shift(&self) -> (f64, f64) {
        let (late, in_time) = (&self.late, &self.in_time);
        if late.count < LATE_MIN || self.rows < LATE_MIN || in_time.count <= 0.0 {
            return (0.0, 0.0);
        }
        let variance = late.variance() / late.count + in_time.m2 / in_time.count / self.rows;
        (late.mean - in_time.mean, variance.sqrt())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shift_is_told_once_enough_late_rows_were_seen() {
        let mut values = LateValues::default();
        values.learn(&(0..100).map(|i| f64::from(i % 3)).collect(), 0.01);
        (0..29).for_each(|i| values.push(5.0 + f64::from(i % 3)));
        assert_eq!(values.shift(), (0.0, 0.0));
        (0..31).for_each(|i| values.push(5.0 + f64::from(i % 3)));
        let (shift, deviation) = values.shift();
        // σ² is 2/3 of both: √(0.67/60 + 0.67/100) = 0.13.
        assert!((shift - 5.0).abs() < 0.05 && (deviation - 0.135).abs() < 0.01, "{shift} ± {deviation}");
    }
}
