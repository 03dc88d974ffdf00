//! How large a sample of a group has to be, learnt from the sub-streams before it (Farhat's thesis, Eq. 4.1); what is
//! not known well enough is kept whole.

use std::collections::VecDeque;
use std::f64::consts::FRAC_1_SQRT_2;
use std::sync::Arc;

use super::aggregate::Aggregate;
use super::interval::SKEWED;
use super::moments::Moments;
use super::order_statistics::rows_within;
use super::sample_size::{Promise, of_squared_variation, of_sum, of_variance, squared_variation};

/// What is remembered of a group: how many rows a sub-stream of it has, and its values.
///
/// Eq. 4.1 averages over the last m sub-streams; here older ones count less and less, with the same mean age, which needs no
/// room per sub-stream.
#[derive(Clone, Debug, Default)]
pub(crate) struct GroupHistory {
    /// Sub-streams seen.
    pub(crate) rounds: u32,
    /// Rows of a sub-stream: mean and mean square.
    rows: f64,
    rows_squared: f64,
    /// Rows of one of the last sub-streams.
    rows_lately: f64,
    /// By value, and the rows taken that it was there for.
    values: Vec<Moments>,
    taken: f64,
    /// By value, where a percentile is asked for: the last of those that were taken.
    recent: Vec<VecDeque<f64>>,
    /// Sub-streams since it was there.
    absent: u32,
}

/// m of Eq. 4.1, which the thesis does not give, at least. Picked: four windows of the evaluation.
const HISTORY: f64 = 20.0;

/// The same for how many rows come just now.
const LATELY: f64 = 4.0;

/// What was learnt that many times m ago counts for 5 %.
const ABSENT_MAX: f64 = 3.0;

/// Values that are remembered one by one: of those on one side of the median, half of these, the share is known within a
/// twentieth.
const RECENT: usize = 1_024;

/// A group whose values are known from fewer rows is kept whole.
const TAKEN_MIN: f64 = 60.0;

/// The least sample of a group: below, variances are guesses.
const SAMPLE_MIN: f64 = 30.0;

impl GroupHistory {
    /// As numbers in a row, for state: six of the group, then five of each value.
    pub(crate) fn numbers(&self) -> Vec<f64> {
        let counts = [f64::from(self.rounds), f64::from(self.absent)];
        let own = counts.into_iter().chain([self.rows, self.rows_squared, self.rows_lately, self.taken]);
        own.chain(self.values.iter().flat_map(Moments::numbers)).collect()
    }

    /// See [`numbers`](GroupHistory::numbers). `None`: there are other than so many.
    pub(crate) fn from_numbers(numbers: &[f64]) -> Option<GroupHistory> {
        let (&[rounds, absent, rows, rows_squared, rows_lately, taken], values) =
            numbers.split_first_chunk()?;
        let (values, []) = values.as_chunks() else { return None };
        let values = values.iter().map(|&numbers| Moments::of(numbers)).collect();
        let (rounds, absent) = (rounds as u32, absent as u32);
        let recent = Vec::new();
        Some(GroupHistory { rounds, rows, rows_squared, rows_lately, values, taken, recent, absent })
    }

    /// The last values, one after the other with how many they are: what [`numbers`](GroupHistory::numbers) leaves out.
    pub(crate) fn recent_numbers(&self) -> Vec<f64> {
        let of = |recent: &VecDeque<f64>| std::iter::once(recent.len() as f64).chain(recent.clone());
        self.recent.iter().flat_map(of).collect()
    }

    /// See [`recent_numbers`](GroupHistory::recent_numbers). `None`: there are other than so many.
    pub(crate) fn with_recent(mut self, numbers: &[f64]) -> Option<GroupHistory> {
        self.recent =
            counted_lists(numbers)?.into_iter().map(|list| list.iter().copied().collect()).collect();
        Some(self)
    }

    /// Bytes of them.
    pub(crate) fn recent_bytes(&self) -> usize {
        self.recent.iter().map(|recent| recent.capacity() * size_of::<f64>()).sum()
    }

    /// By how much what is known of the stream counts less after another sub-stream.
    pub(crate) const KEEP: f64 = 1.0 - 1.0 / HISTORY;

    /// How many sub-streams are remembered where a window has so many: it may see mornings and nights, and its rows are as
    /// many as all of these have, and not as the last ones.
    pub(crate) fn memory(sub_streams: i64) -> f64 {
        HISTORY.max(sub_streams as f64)
    }

    /// A sub-stream of it is over; so many are remembered. `samples` are empty where no percentile of the value is asked for.
    pub(crate) fn learn(
        &mut self,
        memory: f64,
        rows: f64,
        taken: f64,
        values: &[Moments],
        samples: &[Arc<Vec<f64>>],
    ) {
        let weight = (1.0 / (f64::from(self.rounds) + 1.0)).max(1.0 / memory);
        let keep = 1.0 - 1.0 / memory;
        self.rounds += 1;
        self.absent = if rows > 0.0 { 0 } else { self.absent + 1 };
        self.rows += weight * (rows - self.rows);
        self.rows_squared += weight * (rows * rows - self.rows_squared);
        self.rows_lately += weight.max(1.0 / LATELY) * (rows - self.rows_lately);
        if taken == 0.0 {
            return;
        }
        self.taken = self.taken * keep + taken;
        self.values.resize(values.len(), Moments::default());
        for (known, new) in self.values.iter_mut().zip(values) {
            *known = known.scaled(keep);
            known.merge(new);
        }
        self.recent.resize(samples.len(), VecDeque::new());
        for (recent, new) in self.recent.iter_mut().zip(samples) {
            recent.extend(&new[new.len().saturating_sub(RECENT)..]);
            recent.drain(..recent.len().saturating_sub(RECENT));
        }
    }

    /// It was there in one of the last sub-streams: what is older counts for nothing any more.
    pub(crate) fn is_known(&self, memory: f64) -> bool {
        self.rounds > 0 && f64::from(self.absent) < ABSENT_MAX * memory
    }

    /// E\[N_i\].
    pub(crate) fn rows(&self) -> f64 {
        self.rows
    }

    /// The same where rows become more or fewer: what was lately, if that is less. A rate from too many rows takes too few of
    /// them, which no waiting mends.
    pub(crate) fn rows_at_least(&self) -> f64 {
        self.rows.min(self.rows_lately)
    }

    /// σ(N_i).
    pub(crate) fn rows_deviation(&self) -> f64 {
        (self.rows_squared - self.rows * self.rows).max(0.0).sqrt()
    }

    /// Mean of a value; 0 if it was never there.
    pub(crate) fn mean(&self, value: usize) -> f64 {
        self.values.get(value).map_or(0.0, |moments| moments.mean)
    }

    /// Mean and variance of the first value.
    pub(crate) fn spread(&self) -> (f64, f64) {
        self.values.first().map_or((1.0, 0.0), |moments| (moments.mean, moments.variance()))
    }

    /// n: rows to take of a window of so many sub-streams, whose N̂ will have that relative deviation, and N overestimated by
    /// two deviations. `None`: all, since little is known or the group is small.
    pub(crate) fn sample(
        &self,
        aggregates: &[Aggregate],
        promise: Promise,
        sub_streams: f64,
        rows_deviation: f64,
    ) -> Option<(f64, f64)> {
        if self.taken < TAKEN_MIN {
            return None;
        }
        let rows = self.rows * sub_streams + 2.0 * self.rows_deviation() * sub_streams.sqrt();
        let promise = Promise { error: promise.error * AIM, ..promise };
        let (mut sample, mut kurtosis) = (SAMPLE_MIN, 1.0f64);
        for aggregate in aggregates {
            sample = sample.max(self.sample_of(aggregate, promise, rows, rows_deviation * rows)?);
            // Ranks do not vary with the values.
            let value = aggregate.value().filter(|_| aggregate.kept_value().is_none());
            let value = value.and_then(|value| self.values.get(value));
            kurtosis = kurtosis.max(value.map_or(1.0, Moments::kurtosis));
        }
        // As many are taken as the dice say, and vary as they do: two deviations more than enough. That of n is √n, that of
        // s² relative to it √((κ − 1)/n).
        let sample = sample + 2.0 * (kurtosis * sample).sqrt() + PER_STRATUM * sub_streams;
        (sample < WHOLE_FROM * rows).then_some((sample, rows))
    }

    fn sample_of(&self, aggregate: &Aggregate, promise: Promise, rows: f64, deviation: f64) -> Option<f64> {
        let value = match *aggregate {
            // Counted and sketched as they come.
            Aggregate::Rows | Aggregate::Distinct(_) => return Some(0.0),
            Aggregate::Percentile { value, share } => {
                return self.sample_of_percentile(value, share, promise, rows);
            }
            Aggregate::Whole => return None,
            Aggregate::Ratio { over, under, product } => {
                return self.sample_of_ratio([over, under, product], promise, rows);
            }
            Aggregate::Count(value)
            | Aggregate::Sum(value)
            | Aggregate::Average(value)
            | Aggregate::Variance(value)
            | Aggregate::Deviation(value) => self.values.get(value).filter(|known| known.count > 1.0)?,
        };
        let there = (value.count / self.taken).min(1.0);
        // Its own error is two deviations of s²: σ² √((κ − 1)/n).
        let doubt = 1.0 + 2.0 * ((value.kurtosis() - 1.0).max(0.0) / value.count).sqrt();
        let spread = (value.variance() * doubt).sqrt();
        let z = promise.z();
        let skewed = SKEWED * value.squared_skewness() * SKEWED_MARGIN / there;
        let sample = match *aggregate {
            Aggregate::Count(_) => of_squared_variation(z, promise.error, rows, (1.0 - there) / there),
            Aggregate::Sum(_) => {
                // With a zero wherever it is NULL.
                let (mean, square) =
                    (there * value.mean, there * (spread * spread + value.mean * value.mean));
                let deviation_of = (square - mean * mean).max(0.0).sqrt();
                // Where N̂ alone would take more than half of r² the window waits until it does not.
                let deviation = deviation.min(promise.error * FRAC_1_SQRT_2 / z * rows);
                of_sum(promise, rows, deviation, mean, deviation_of)?.max(skewed)
            }
            Aggregate::Average(_) => {
                let squared = squared_variation(value.mean, spread);
                (of_squared_variation(z, promise.error, rows * there, squared) / there).max(skewed)
            }
            Aggregate::Variance(_) => {
                (of_variance(promise, rows * there, value.kurtosis() * doubt) / there).max(skewed)
            }
            // dσ/σ is half of dσ²/σ².
            Aggregate::Deviation(_) => {
                let twice = Promise { error: 2.0 * promise.error, ..promise };
                (of_variance(twice, rows * there, value.kurtosis() * doubt) / there).max(skewed)
            }
            Aggregate::Rows
            | Aggregate::Whole
            | Aggregate::Ratio { .. }
            | Aggregate::Percentile { .. }
            | Aggregate::Distinct(_) => 0.0,
        };
        Some(sample)
    }

    /// As many as have two of their values on both sides of the quantile and within the error, by how many of the last values
    /// lie there; two deviations fewer are taken to.
    fn sample_of_percentile(&self, value: usize, share: f64, promise: Promise, rows: f64) -> Option<f64> {
        let mut sorted: Vec<f64> = self.recent.get(value)?.iter().copied().collect();
        let there = (self.values.get(value)?.count / self.taken).min(1.0);
        if (sorted.len() as f64) < TAKEN_MIN {
            return None;
        }
        sorted.sort_by(f64::total_cmp);
        let count = sorted.len() as f64;
        let middle = sorted[((count - 1.0) * share).round() as usize];
        let reach = promise.error * middle.abs();
        let less = |than: f64| sorted.partition_point(|&value| value < than) as f64 / count;
        let at_most = |than: f64| sorted.partition_point(|&value| value <= than) as f64 / count;
        let surely = |apart: f64| apart - 2.0 * (apart * (1.0 - apart) / count).max(0.0).sqrt();
        let (below, above) = (surely(share - less(middle - reach)), surely(at_most(middle + reach) - share));
        let sample = rows_within(share, share - below, share + above, promise)?;
        // Of a part of all: n of an infinite population is n·N/(N + n) of N.
        let rows = rows * there;
        (rows > 0.0).then(|| sample * rows / (rows + sample) / there)
    }

    /// Of a ratio R the variation is that of a − R·b over the mean of a; both have to be normal.
    fn sample_of_ratio(&self, values: [usize; 3], promise: Promise, rows: f64) -> Option<f64> {
        let [over, under, product] = values.map(|value| self.values.get(value).copied());
        let (over, under, product) = (over?, under?, product?);
        if over.count <= 1.0 || under.mean == 0.0 {
            return None;
        }
        let ratio = over.mean / under.mean;
        let common = product.mean - over.mean * under.mean;
        let variance = over.variance() + ratio * ratio * under.variance() - 2.0 * ratio * common;
        let doubt = |value: &Moments| 1.0 + 2.0 * ((value.kurtosis() - 1.0).max(0.0) / value.count).sqrt();
        let spread = (variance.max(0.0) * doubt(&over).max(doubt(&under))).sqrt();
        let skewed = over.squared_skewness().max(under.squared_skewness()) * SKEWED * SKEWED_MARGIN;
        let squared = squared_variation(over.mean, spread);
        Some(of_squared_variation(promise.z(), promise.error, rows, squared).max(skewed))
    }
}

/// Lists of numbers, each after how many it has.
pub(crate) fn counted_lists(mut numbers: &[f64]) -> Option<Vec<&[f64]>> {
    let mut lists = Vec::new();
    while let Some((&count, rest)) = numbers.split_first() {
        if !(0.0..=rest.len() as f64).contains(&count) {
            return None;
        }
        let (list, rest) = rest.split_at(count as usize);
        lists.push(list);
        numbers = rest;
    }
    Some(lists)
}

/// What is aimed at, of the error that is allowed: a window that misses it by little has to wait long for little.
const AIM: f64 = 0.95;

/// A sample's skewness swings about that of the law: so much is left for it.
const SKEWED_MARGIN: f64 = 2.0;

/// Rows by which a sample has to be larger for each stratum: the error goes with 1/n of each, of which n is chance, and where n̄ is
/// small the mean of 1/n is (1 + 1/n̄ + 2/n̄²)/n̄.
const PER_STRATUM: f64 = 1.2;

/// A sample of more than that part of a group saves nothing.
const WHOLE_FROM: f64 = 0.9;

#[cfg(test)]
mod tests {
    use super::*;

    const PROMISE: Promise = Promise { error: 0.05, confidence: 0.95 };

    fn known(values: impl Iterator<Item = f64> + Clone, rows: f64) -> GroupHistory {
        let mut history = GroupHistory::default();
        for _ in 0..50 {
            let values: Moments = values.clone().collect();
            history.learn(20.0, rows, values.count, &[values], &[]);
        }
        history
    }

    #[test]
    fn a_group_of_many_rows_is_sampled_and_a_small_one_kept_whole() {
        // 50 … 149: μ 99.5, σ² 833, (σ/μ)² 0.0842; n ≈ 3.84·0.0842/0.0025 = 129 of 3 000, and somewhat more.
        let values = (50..150).map(f64::from);
        let history = known(values.clone(), 600.0);
        let (sample, rows) = history.sample(&[Aggregate::Average(0)], PROMISE, 5.0, 0.0).unwrap();
        assert!((140.0..190.0).contains(&sample), "{sample}");
        assert!((rows - 3_000.0).abs() < 1.0, "{rows}");
        assert_eq!(known(values, 5.0).sample(&[Aggregate::Average(0)], PROMISE, 5.0, 0.0), None);
        // N̂ alone takes more than 5 %: by the time that it takes less than half of r² twice as many rows do.
        let sum = |deviation| history.sample(&[Aggregate::Sum(0)], PROMISE, 5.0, deviation).unwrap().0;
        assert!((250.0..350.0).contains(&sum(0.03)) && sum(0.03) == sum(0.5), "{}", sum(0.03));
        // Rows are counted as they come.
        let (counted, _) = history.sample(&[Aggregate::Rows], PROMISE, 5.0, 0.0).unwrap();
        assert!(counted < 50.0, "{counted}");
    }

    #[test]
    fn where_rows_become_fewer_the_last_ones_tell() {
        let mut history = known((50..150).map(f64::from), 600.0);
        assert!((history.rows_at_least() - 600.0).abs() < 1e-9);
        (0..4).for_each(|_| history.learn(20.0, 100.0, 0.0, &[], &[]));
        // 100 + 500·0.75⁴.
        assert!((history.rows_at_least() - 258.2).abs() < 0.1 && history.rows() > 500.0);
        (0..9).for_each(|_| history.learn(20.0, 5_000.0, 0.0, &[], &[]));
        assert_eq!(history.rows_at_least(), history.rows());
    }

    #[test]
    fn a_ratio_of_what_goes_together_needs_few_rows() {
        // b is 50 … 149, a is 3·b with 10 more or less in turn: a − 3·b is ±10, of a mean of 298.5, so that
        // 3.84·(10/298.5)²/0.0025 = 1.7 rows would do and 30 are taken, and some more for chance; a sum of a needs 129.
        let rows = || (50..150).map(f64::from);
        let a = |b: f64| 3.0 * b + if b % 2.0 == 0.0 { 10.0 } else { -10.0 };
        let mut history = GroupHistory::default();
        for _ in 0..50 {
            let values = [rows().map(a).collect(), rows().collect(), rows().map(|b| a(b) * b).collect()];
            history.learn(20.0, 600.0, 100.0, &values, &[]);
        }
        let ratio = Aggregate::Ratio { over: 0, under: 1, product: 2 };
        let sample = |aggregate| history.sample(&[aggregate], PROMISE, 5.0, 0.0).unwrap().0;
        assert!(sample(ratio) < 55.0, "{}", sample(ratio));
        assert!(sample(Aggregate::Sum(0)) > 120.0, "{}", sample(Aggregate::Sum(0)));
    }

    #[test]
    fn values_of_infinite_variance_are_kept_whole() {
        let pareto = (0..2_000).map(|i| (1.0 - (f64::from(i) + 0.5) / 2_000.0).powf(-1.0 / 1.3));
        assert_eq!(known(pareto, 600.0).sample(&[Aggregate::Sum(0)], PROMISE, 5.0, 0.0), None);
    }
}
