//! The check of approximate results against exact ones while a query runs; it keeps all that sampling would save, and
//! only where it is asked for.

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::sync::Arc;

use super::aggregate::Aggregate;
use super::closed::Closed;
use super::interval::Estimate;
use super::moments::Moments;
use super::sample_size::Promise;

/// All rows of a stream and what windows said before they had them: how a user sees that bounds are kept.
#[derive(Debug, Default)]
pub(crate) struct Verification {
    /// By sub-stream and group: rows, and their values.
    whole: BTreeMap<(i64, u32), Whole>,
    waiting: VecDeque<Answered>,
}

/// All rows of a group in a sub-stream.
#[derive(Debug, Default)]
struct Whole {
    rows: f64,
    moments: Vec<Moments>,
    /// By value, where a percentile is asked for.
    values: Vec<Vec<f64>>,
    distinct: Vec<HashSet<Box<[u8]>>>,
}

/// What a window says of each group and aggregate.
pub(crate) type Results = Vec<(u32, Aggregate, Estimate)>;

#[derive(Debug)]
struct Answered {
    end: i64,
    /// First and last sub-stream.
    window: (i64, i64),
    results: Results,
}

impl Verification {
    /// A row has come, in time or not.
    pub(crate) fn row(&mut self, sub_stream: i64, group: u32) {
        self.whole.entry((sub_stream, group)).or_default().rows += 1.0;
    }

    /// It has that value, which `is_kept` for a percentile.
    pub(crate) fn value(&mut self, sub_stream: i64, group: u32, value: usize, what: f64, is_kept: bool) {
        let whole = self.whole.entry((sub_stream, group)).or_default();
        if whole.moments.len() <= value {
            whole.moments.resize(value + 1, Moments::default());
            whole.values.resize(value + 1, Vec::new());
        }
        whole.moments[value].push(what);
        if is_kept {
            whole.values[value].push(what);
        }
    }

    /// It has that value of those that are counted once.
    pub(crate) fn distinct(&mut self, sub_stream: i64, group: u32, which: usize, what: &[u8]) {
        let whole = self.whole.entry((sub_stream, group)).or_default();
        if whole.distinct.len() <= which {
            whole.distinct.resize(which + 1, HashSet::new());
        }
        if !whole.distinct[which].contains(what) {
            whole.distinct[which].insert(what.into());
        }
    }

    /// The window with that end has said this.
    pub(crate) fn remember(&mut self, end: i64, window: (i64, i64), results: Results) {
        self.waiting.push_back(Answered { end, window, results });
    }

    /// Holds windows that end by then against all their rows. How many groups there were, and in how many the bound was kept
    /// by every result, or said not to be.
    pub(crate) fn check(&mut self, until: i64, promise: Promise) -> (u64, u64) {
        let (mut checked, mut within) = (0, 0);
        while let Some(Answered { window: (from, to), results, .. }) =
            self.waiting.pop_front_if(|answered| answered.end <= until)
        {
            let mut kept: BTreeMap<u32, bool> = BTreeMap::new();
            for (group, aggregate, estimate) in results {
                let exact = self.exact(from..=to, group, aggregate, promise);
                let error =
                    if estimate.value == exact { 0.0 } else { ((estimate.value - exact) / exact).abs() };
                let is_kept = error <= promise.error || estimate.relative() > promise.error;
                *kept.entry(group).or_insert(true) &= is_kept;
            }
            checked += kept.len() as u64;
            within += kept.values().filter(|&&kept| kept).count() as u64;
            let needed_from = self.waiting.front().map_or(to, |next| next.window.0);
            self.whole = self.whole.split_off(&(needed_from, 0));
        }
        (checked, within)
    }

    fn exact(
        &self,
        window: std::ops::RangeInclusive<i64>,
        group: u32,
        aggregate: Aggregate,
        promise: Promise,
    ) -> f64 {
        let wholes = window.filter_map(|sub_stream| self.whole.get(&(sub_stream, group)));
        if let Some(which) = aggregate.sketched() {
            let all = wholes.filter_map(|whole| whole.distinct.get(which)).flatten();
            return all.collect::<HashSet<_>>().len() as f64;
        }
        let values = aggregate.value().map_or(0, |last| last + 1);
        let (mut rows, mut all) = (0.0, vec![Moments::default(); values]);
        let mut samples = vec![Vec::new(); values];
        for whole in wholes {
            rows += whole.rows;
            all.iter_mut().zip(&whole.moments).for_each(|(all, values)| all.merge(values));
            samples.iter_mut().zip(&whole.values).for_each(|(all, values)| all.extend(values));
        }
        let mut closed = Closed::whole(rows, all);
        closed.kept.samples = samples.into_iter().map(Arc::new).collect();
        aggregate.estimate(&[&closed], promise).value
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_is_held_against_rows_that_came_later() {
        let promise = Promise { error: 0.05, confidence: 0.95 };
        let mut verification = Verification::default();
        let row = |verification: &mut Verification, sub_stream, what| {
            verification.row(sub_stream, 0);
            verification.value(sub_stream, 0, 0, what, false);
        };
        [10.0, 20.0].into_iter().for_each(|what| row(&mut verification, 0, what));
        row(&mut verification, 1, 70.0);
        let says = |value, half_width| vec![(0, Aggregate::Sum(0), Estimate { value, half_width })];
        // 30 and 70: the first says 31 and is within 5 %, the second 60 and is not, the third owns that it is not.
        verification.remember(600, (0, 0), says(31.0, 1.0));
        verification.remember(1_200, (1, 1), says(60.0, 1.0));
        verification.remember(1_201, (1, 1), says(60.0, 20.0));
        assert_eq!(verification.check(600, promise), (1, 1));
        assert_eq!(verification.check(i64::MAX, promise), (2, 1));
    }
}
