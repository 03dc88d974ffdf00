//! Distinct values of a window from the sketches of its strata: partial states are merged as bytes.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray};
use datafusion_common::{Result, ScalarValue, internal_datafusion_err, internal_err};
use datafusion_expr::Accumulator;

use super::{Estimator, Shows};
use crate::approximate::distinct::{Distinct, Seen, distinct_count};
use crate::approximate::sampler::Sketches;
use crate::approximate::stratum::Stratum;

/// APPROX_COUNT_DISTINCT over a [`Sampler`](crate::approximate::Sampler)'s rows, or its error: a sketch of each stratum.
#[derive(Debug)]
pub(super) struct DistinctEstimate {
    estimator: Estimator,
    which: usize,
    strata: BTreeMap<i64, Seen>,
}

/// Bytes of a stratum in a state, before its sketch: its id, five numbers, and how long the sketch is.
const STATE: usize = 7 * size_of::<u64>();

impl DistinctEstimate {
    pub(super) fn new(estimator: &Estimator, which: usize) -> DistinctEstimate {
        DistinctEstimate { estimator: estimator.clone(), which, strata: BTreeMap::new() }
    }

    fn merge(&mut self, mut bytes: &[u8]) -> Option<()> {
        while !bytes.is_empty() {
            let (own, rest) = bytes.split_first_chunk::<STATE>()?;
            let words: Vec<[u8; 8]> = own.as_chunks::<8>().0.to_vec();
            let number = |at: usize| f64::from_le_bytes(words[at]);
            let id = i64::from_le_bytes(words[0]);
            let (sketch, rest) = rest.split_at_checked(u64::from_le_bytes(words[6]) as usize)?;
            let stratum = Stratum {
                id,
                taken: number(1),
                seen: number(2),
                total: number(3),
                total_variance: number(4),
                total_common: number(5),
                shift: (0.0, 0.0),
            };
            self.strata.insert(id, Seen { stratum, distinct: Arc::new(Distinct::of_bytes(sketch)?) });
            bytes = rest;
        }
        Some(())
    }
}

impl Accumulator for DistinctEstimate {
    fn update_batch(&mut self, arguments: &[ArrayRef]) -> Result<()> {
        let Some(sketches) = Sketches::of(&arguments[0], self.which) else {
            return internal_err!("a sample without its sketch");
        };
        for seen in (0..arguments[0].len()).filter_map(|row| sketches.row(row)) {
            self.strata.insert(seen.stratum.id, seen);
        }
        Ok(())
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        let bytes = states[0].as_binary::<i32>();
        let mut all = bytes.iter().flatten();
        let merged = all.try_for_each(|bytes| self.merge(bytes));
        merged.ok_or_else(|| internal_datafusion_err!("bytes that are no state of sketches"))
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let mut bytes = Vec::new();
        for Seen { stratum, distinct } in self.strata.values() {
            let Stratum { id, taken, seen, total, total_variance, total_common, .. } = *stratum;
            let sketch = distinct.to_bytes();
            bytes.extend(id.to_le_bytes());
            [taken, seen, total, total_variance, total_common]
                .into_iter()
                .for_each(|number| bytes.extend(number.to_le_bytes()));
            bytes.extend((sketch.len() as u64).to_le_bytes());
            bytes.extend(sketch);
        }
        Ok(vec![ScalarValue::Binary(Some(bytes))])
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let seen: Vec<Seen> = self.strata.values().cloned().collect();
        let estimate = distinct_count(&seen, self.estimator.promise);
        self.estimator.scalar(Some(match self.estimator.shows {
            Shows::Error => estimate.relative(),
            _ => estimate.value,
        }))
    }

    fn size(&self) -> usize {
        let sketches: usize = self.strata.values().map(|seen| seen.distinct.size()).sum();
        size_of_val(self) + sketches + self.strata.len() * (size_of::<Seen>() + 16)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::approximate::{Aggregate, Promise};
    use arrow::datatypes::DataType;

    #[test]
    fn parts_of_a_state_are_one() {
        let promise = Promise { error: 0.05, confidence: 0.95 };
        let seen = |id: i64, values: std::ops::Range<u64>| {
            let mut distinct = Distinct::new(promise);
            values.for_each(|value| distinct.insert(&value.to_le_bytes()));
            Seen { stratum: Stratum::whole(id, 12.0), distinct: Arc::new(distinct) }
        };
        let of = |all: &[Seen]| {
            let estimator = Estimator {
                aggregate: Aggregate::Distinct(0),
                is_sample: false,
                shows: Shows::Value,
                of_sample: true,
                promise,
                data_type: DataType::UInt64,
            };
            let mut estimate = DistinctEstimate::new(&estimator, 0);
            estimate.strata.extend(all.iter().map(|seen| (seen.stratum.id, seen.clone())));
            estimate
        };
        let (a, b) = (seen(3, 0..9), seen(-9, 6..14));
        let mut left = of(std::slice::from_ref(&a));
        let state = of(&[b, a]).state().unwrap()[0].to_array().unwrap();
        left.merge_batch(&[state]).unwrap();
        assert_eq!(left.evaluate().unwrap(), ScalarValue::UInt64(Some(14)));
        assert_eq!(left.strata.keys().collect::<Vec<_>>(), [&-9, &3]);
        let cut = ScalarValue::Binary(Some(vec![0; 60])).to_array().unwrap();
        assert!(left.merge_batch(&[cut]).is_err());
        assert_eq!(of(&[]).evaluate().unwrap(), ScalarValue::UInt64(Some(0)));
    }
}
