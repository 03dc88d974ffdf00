//! How many different values there are: a HyperLogLog of every row in time, taken or not.
//!
//! A sample does not tell: whatever estimates the number of distinct values from a part of the rows is off by √(N/n) on some
//! data (Charikar, Chaudhuri, Motwani, Narasayya, "Towards Estimation Error Guarantees for Distinct Values", PODS 2000,
//! theorem 1). So no row is left out here, and the error has two parts: that of the sketch (Flajolet et al. 2007; 1.04/√m), and
//! the rows that have not come, each of which may have a value of its own.

use std::fmt;
use std::sync::Arc;

use datasketches::common::NumStdDev;
use datasketches::hll::{HllSketch, HllType, HllUnion};

use super::interval::Estimate;
use super::sample_size::Promise;
use super::stratum::Stratum;

/// Different values of some rows, sketched: exact while they are few, a byte for each of its registers at most.
#[derive(Clone, PartialEq)]
pub struct Distinct(HllSketch);

impl Distinct {
    /// Of none, as fine as the error asks: half of it is for the sketch, half for rows that have not come.
    pub fn new(promise: Promise) -> Distinct {
        Distinct(HllSketch::new(registers_log2(promise), HllType::Hll8).expect("registers are in its range"))
    }

    /// One more row has that value.
    pub fn insert(&mut self, value: &[u8]) {
        self.0.update(value);
    }

    /// As it is stored.
    pub fn to_bytes(&self) -> Vec<u8> {
        self.0.serialize()
    }

    /// See [`to_bytes`](Distinct::to_bytes). `None`: these are no such bytes.
    pub fn of_bytes(bytes: &[u8]) -> Option<Distinct> {
        HllSketch::deserialize(bytes).ok().map(Distinct)
    }

    /// Bytes held, about.
    pub fn size(&self) -> usize {
        self.0.estimated_size()
    }
}

impl fmt::Debug for Distinct {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Distinct({})", self.0.estimate())
    }
}

/// What came of a stratum.
#[derive(Clone, Debug)]
pub struct Seen {
    /// Of which stratum.
    pub stratum: Stratum,
    /// The values of all its rows that came.
    pub distinct: Arc<Distinct>,
}

/// COUNT(DISTINCT x), as far as a sketch and the rows that came tell.
pub fn distinct_count(seen: &[Seen], promise: Promise) -> Estimate {
    let Some(first) = seen.first() else { return Estimate { value: 0.0, half_width: 0.0 } };
    let mut union = HllUnion::new(first.distinct.0.lg_config_k()).expect("a sketch's registers are in range");
    seen.iter().for_each(|seen| union.update(&seen.distinct.0));
    let value = union.estimate().round();
    let z = promise.z();
    // The library knows bounds at whole deviations, which are not the same above and below.
    let (deviations, times) = match z {
        z if z <= 1.0 => (NumStdDev::One, 1.0),
        z if z <= 2.0 => (NumStdDev::Two, 1.0),
        z => (NumStdDev::Three, (z / 3.0).max(1.0)),
    };
    let below = (value - union.lower_bound(deviations).floor()).max(0.0);
    let above = (union.upper_bound(deviations).ceil() - value).max(0.0);
    // Of values as few as these each is kept as it is.
    let by_sketch = if value < EXACT_BELOW { 0.0 } else { times * below.max(above) };
    let (mut missing, mut variance, mut common) = (0.0, 0.0, 0.0);
    for Seen { stratum, .. } in seen {
        missing += stratum.missing();
        variance += stratum.total_variance;
        common += stratum.total_common;
    }
    let missing = missing + z * (variance + common * common).sqrt();
    Estimate { value, half_width: by_sketch + missing }
}

/// Of so many values no two fall together but once in 10⁵ windows: they are known by 26 bits of their hash.
const EXACT_BELOW: f64 = 24.0;

/// m = (2·z·1.04/r)², as a power of two; from 1 KiB to 256 KiB.
fn registers_log2(promise: Promise) -> u8 {
    let registers = (2.0 * promise.z() * 1.04 / promise.error).powi(2);
    (registers.log2().ceil() as u8).clamp(10, 18)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PROMISE: Promise = Promise { error: 0.05, confidence: 0.95 };

    /// Of rows with these values, cut into so many strata.
    fn seen(values: impl Iterator<Item = u64>, strata: usize) -> Vec<Seen> {
        let mut all = vec![Distinct::new(PROMISE); strata];
        for (row, value) in values.enumerate() {
            all[row % strata].insert(&value.to_le_bytes());
        }
        let of = |(distinct, id)| Seen { stratum: Stratum::whole(id, 1.0), distinct: Arc::new(distinct) };
        all.into_iter().zip(0..).map(of).collect()
    }

    #[test]
    fn registers_suffice_for_half_of_the_error() {
        // (2·1.96·1.04/0.05)² = 6 648; 2¹³ = 8 192.
        assert_eq!(registers_log2(PROMISE), 13);
        assert_eq!(registers_log2(Promise { error: 0.5, ..PROMISE }), 10);
        assert_eq!(registers_log2(Promise { error: 1e-6, ..PROMISE }), 18);
    }

    #[test]
    fn few_values_are_counted() {
        for count in [0, 1, 7, 20] {
            let estimate = distinct_count(&seen((0..1_000).map(|row| row % count.max(1)), 3), PROMISE);
            let count = if count == 0 { 1 } else { count };
            assert_eq!(estimate, Estimate { value: count as f64, half_width: 0.0 });
        }
        assert_eq!(distinct_count(&[], PROMISE).value, 0.0);
    }

    #[test]
    fn bounds_of_the_sketch_hold() {
        const TRIALS: u64 = 600;
        for (count, rows) in [(60_u64, 200_u64), (900, 1_000), (3_000, 30_000), (40_000, 40_000)] {
            let (mut held, mut widest) = (0, 0.0_f64);
            for trial in 0..TRIALS / (1 + rows / 10_000) {
                // Other values in each, some of them far more often than others.
                let value = |row: u64| (trial << 32) + if row < count { row } else { row * row % count };
                let estimate = distinct_count(&seen((0..rows).map(value), 4), PROMISE);
                held += u64::from((estimate.value - count as f64).abs() <= estimate.half_width);
                widest = widest.max(estimate.half_width / count as f64);
            }
            let trials = (TRIALS / (1 + rows / 10_000)) as f64;
            let share = held as f64 / trials;
            let tolerance = 3.3 * (0.95f64 * 0.05 / trials).sqrt();
            assert!(share >= 0.95 - tolerance, "{share} of {trials} hold {count}");
            assert!(widest < 0.035, "{widest} of {count}");
        }
    }

    #[test]
    fn each_missing_row_may_be_a_value_of_its_own() {
        let mut of = seen(0..10, 1);
        of[0].stratum = Stratum { total: 14.0, total_variance: 4.0, ..Stratum::whole(0, 10.0) };
        let estimate = distinct_count(&of, PROMISE);
        // 4 and 1.96 · 2 more.
        assert!((estimate.half_width - (4.0 + 2.0 * PROMISE.z())).abs() < 1e-9, "{estimate:?}");
    }

    #[test]
    fn bytes_are_the_sketch() {
        for rows in [0, 5, 500, 50_000] {
            let one = &seen(0..rows, 1)[0].distinct;
            assert_eq!(Distinct::of_bytes(&one.to_bytes()).as_ref(), Some(&**one));
        }
        assert_eq!(Distinct::of_bytes(b"no sketch"), None);
    }
}
