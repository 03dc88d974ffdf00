//! Whether rows that are still to come differ from those that came: the mean of a value by how long its row took. The papers
//! assume that it is the same for all.

use super::delays::Delays;
use super::sums::Distances;

/// How far values lie from what is usual in their group, by the delay of their rows.
///
/// What has come of a sub-stream by some instant is its quick rows, and the longer a window waits the slower are those that are
/// still missing. So there is no one difference between both: it follows from the law of delays and what a row of each delay is
/// worth. Rows that came too late for their window are looked at for that too.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct DelayedValues {
    classes: Vec<Distances>,
}

/// Fewer rows say nothing: then those that are missing are taken to be like the others.
const ROWS_MIN: f64 = 30.0;

impl DelayedValues {
    /// As numbers in a row, for state: three of each class.
    pub(crate) fn numbers(&self) -> Vec<f64> {
        self.classes.iter().flat_map(Distances::numbers).collect()
    }

    /// See [`numbers`](DelayedValues::numbers). `None`: there are other than so many.
    pub(crate) fn from_numbers(numbers: &[f64]) -> Option<DelayedValues> {
        let (classes, []) = numbers.as_chunks() else { return None };
        Some(DelayedValues { classes: classes.iter().map(|&numbers| Distances::of(numbers)).collect() })
    }

    /// A row's value, less what is usual in its group.
    pub(crate) fn push(&mut self, delay_ms: i64, distance: f64) {
        let class = class_of(delay_ms);
        if self.classes.len() <= class {
            self.classes.resize(class + 1, Distances::default());
        }
        self.classes[class].push(distance);
    }

    /// Older ones count that much less.
    pub(crate) fn forget(&mut self, keep: f64) {
        self.classes.iter_mut().for_each(|class| class.scale(keep));
    }

    /// By how much the mean of the rows of a stretch that are missing at `now` is above that of those that came, and the
    /// deviation of that estimate.
    pub(crate) fn shift(&self, delays: &Delays, (start_ms, end_ms): (i64, i64), now_ms: i64) -> (f64, f64) {
        let rows: f64 = self.classes.iter().map(Distances::count).sum();
        if rows < ROWS_MIN {
            return (0.0, 0.0);
        }
        // By class: rows that came, and that did not.
        let mut shares = vec![(0.0, 0.0); class_of(i64::MAX) + 1];
        let (mut came, mut missing) = (0.0, 0.0);
        for (delay_ms, rows) in delays.law() {
            let late = ((end_ms - now_ms) as f64 + delay_ms) / (end_ms - start_ms) as f64;
            let late = rows * late.clamp(0.0, 1.0);
            let share = &mut shares[class_of(delay_ms as i64)];
            *share = (share.0 + rows - late, share.1 + late);
            (came, missing) = (came + rows - late, missing + late);
        }
        if came <= 0.0 || missing <= 0.0 {
            return (0.0, 0.0);
        }
        let spread: f64 = self.classes.iter().map(|class| class.moments().m2).sum::<f64>() / rows;
        let (mut shift, mut variance) = (0.0, 0.0);
        // Of a delay that no value is known of, the next shorter one tells.
        let mut known = self.classes.iter().find(|class| class.count() > 0.0).copied().unwrap_or_default();
        for (class, (of_came, of_missing)) in shares.into_iter().enumerate() {
            known = self.classes.get(class).copied().filter(|class| class.count() > 0.0).unwrap_or(known);
            let weight = of_missing / missing - of_came / came;
            shift += weight * known.moments().mean;
            variance += weight * weight * spread / known.count().max(1.0);
        }
        (shift, variance.sqrt())
    }
}

/// Four to the octave.
fn class_of(delay_ms: i64) -> usize {
    let delay_ms = delay_ms.clamp(0, i64::from(u32::MAX)) as u32;
    if delay_ms < 4 {
        return delay_ms as usize;
    }
    let octave = delay_ms.ilog2();
    (4 * (octave - 1) + ((delay_ms >> (octave - 2)) & 3)) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_follow_each_other() {
        assert_eq!(
            [0, 3, 4, 5, 7, 8, 9, 10, 15, 16, 19, 20].map(class_of),
            [0, 3, 4, 5, 7, 8, 8, 9, 11, 12, 12, 13]
        );
        let classes: Vec<usize> = (0..100_000).map(class_of).collect();
        assert!(classes.windows(2).all(|pair| pair[1] == pair[0] || pair[1] == pair[0] + 1));
        assert_eq!((class_of(-5), class_of(i64::MAX)), (0, 123));
    }

    #[test]
    fn what_is_missing_is_worth_what_its_delays_are() {
        // Half of the rows take 10 ms and are worth 1, a quarter 1 s and 5, a quarter 10 s and 20; by turns 1 more and less.
        let (mut delays, mut values) = (Delays::default(), DelayedValues::default());
        for row in 0..400 {
            let (delay_ms, worth) = [(10, 1.0), (10, 1.0), (1_000, 5.0), (10_000, 20.0)][row % 4];
            delays.push(delay_ms, 1.0);
            values.push(delay_ms, worth + if row % 8 < 4 { 1.0 } else { -1.0 });
        }
        // Of 100 ms that ended 500 ms ago those of 10 ms have come.
        let (shift, deviation) = values.shift(&delays, (0, 100), 600);
        assert!((shift - 11.5).abs() < 1e-9, "{shift}");
        // σ² is 1: 1/200 + (1/4)/100 + (1/4)/100.
        assert!((deviation - 0.1).abs() < 1e-3, "{deviation}");
        // 5 s later those of 1 s have too: 20 − (2 + 5)/3.
        assert!((values.shift(&delays, (0, 100), 5_600).0 - 17.666_666).abs() < 1e-5);
        // Nothing is missing any more, or nothing has come.
        assert_eq!(values.shift(&delays, (0, 100), 20_000), (0.0, 0.0));
        assert_eq!(values.shift(&delays, (0, 100), 5), (0.0, 0.0));
        values.forget(0.01);
        assert_eq!(values.shift(&delays, (0, 100), 600), (0.0, 0.0));
    }

    #[test]
    fn who_all_take_as_long_do_not_differ() {
        let (mut delays, mut values) = (Delays::default(), DelayedValues::default());
        for row in 0..100 {
            delays.push(150, 1.0);
            values.push(150, f64::from(row % 10));
        }
        assert_eq!(values.shift(&delays, (0, 600), 600), (0.0, 0.0));
    }
}
