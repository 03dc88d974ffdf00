//! Percentiles of a window from the values that were taken, which are kept one by one: moments do not tell them.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Float64Array, ListArray};
use arrow::buffer::OffsetBuffer;
use arrow::datatypes::{DataType, Field, Float64Type};
use datafusion_common::{Result, ScalarValue, internal_err};
use datafusion_expr::Accumulator;

use super::{Estimator, Shows};
use crate::approximate::order_statistics::{Sample, percentile};
use crate::approximate::sampler::Samples;
use crate::approximate::stratum::Stratum;

/// PERCENTILE over a [`Sampler`](crate::approximate::Sampler)'s rows, or its error: what was taken of each stratum.
#[derive(Debug)]
pub(super) struct PercentileEstimate {
    estimator: Estimator,
    value: usize,
    share: f64,
    strata: BTreeMap<i64, Sample>,
}

impl PercentileEstimate {
    pub(super) fn new(estimator: &Estimator, value: usize, share: f64) -> PercentileEstimate {
        PercentileEstimate { estimator: estimator.clone(), value, share, strata: BTreeMap::new() }
    }
}

impl Accumulator for PercentileEstimate {
    fn update_batch(&mut self, arguments: &[ArrayRef]) -> Result<()> {
        let Some(samples) = Samples::of(&arguments[0], self.value) else {
            return internal_err!("a sample without its values");
        };
        for sample in (0..arguments[0].len()).filter_map(|row| samples.row(row)) {
            self.strata.insert(sample.stratum.id, sample);
        }
        Ok(())
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        for list in states[0].as_list::<i32>().iter().flatten() {
            let mut numbers = &list.as_primitive::<Float64Type>().values()[..];
            while let Some((stratum, &[count, ref rest @ ..])) = numbers.split_first_chunk() {
                let Some((values, rest)) = rest.split_at_checked(count as usize) else {
                    return internal_err!("a state that ends within {count} values");
                };
                let stratum = Stratum::of_numbers(stratum);
                self.strata.insert(stratum.id, Sample { stratum, values: Arc::new(values.to_vec()) });
                numbers = rest;
            }
        }
        Ok(())
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let mut numbers = Vec::new();
        for Sample { stratum, values } in self.strata.values() {
            numbers.extend(stratum.numbers());
            numbers.push(values.len() as f64);
            numbers.extend(values.iter());
        }
        let field = Arc::new(Field::new_list_field(DataType::Float64, true));
        let offsets = OffsetBuffer::from_lengths([numbers.len()]);
        let list = ListArray::try_new(field, offsets, Arc::new(Float64Array::from(numbers)), None)?;
        Ok(vec![ScalarValue::List(Arc::new(list))])
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let strata: Vec<Sample> = self.strata.values().cloned().collect();
        let estimate = percentile(&strata, self.share, self.estimator.promise);
        let is_there = !estimate.value.is_nan();
        let value = match self.estimator.shows {
            Shows::Error => estimate.relative(),
            _ => estimate.value,
        };
        self.estimator.scalar(Some(value).filter(|_| is_there))
    }

    fn size(&self) -> usize {
        let values = self.strata.values().map(|sample| sample.values.capacity() * size_of::<f64>());
        size_of_val(self) + values.sum::<usize>() + self.strata.len() * (size_of::<Sample>() + 16)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::approximate::{Aggregate, Promise};

    #[test]
    fn parts_of_a_state_are_one() {
        let sample = |id: i64, values: &[f64]| Sample {
            stratum: Stratum {
                taken: values.len() as f64,
                shift: (0.5, 0.25),
                ..Stratum::whole(id, values.len() as f64 * 2.0)
            },
            values: Arc::new(values.to_vec()),
        };
        let of = |samples: &[Sample]| {
            let estimator = Estimator {
                aggregate: Aggregate::Percentile { value: 0, share: 0.5 },
                is_sample: false,
                shows: Shows::Value,
                of_sample: true,
                promise: Promise { error: 0.05, confidence: 0.95 },
                data_type: DataType::Float64,
            };
            let mut estimate = PercentileEstimate::new(&estimator, 0, 0.5);
            estimate.strata.extend(samples.iter().map(|sample| (sample.stratum.id, sample.clone())));
            estimate
        };
        let (a, b, none) = (sample(3, &[1.0, 5.0]), sample(-9, &[2.0, 7.0, 9.0]), sample(11, &[]));
        let mut left = of(std::slice::from_ref(&a));
        let state = of(&[b.clone(), a.clone(), none.clone()]).state().unwrap()[0].to_array().unwrap();
        left.merge_batch(&[state]).unwrap();
        assert_eq!(left.strata, of(&[a, b, none]).strata);
        assert_eq!(left.evaluate().unwrap(), ScalarValue::Float64(Some(5.0)));
        assert_eq!(of(&[]).evaluate().unwrap(), ScalarValue::Float64(None));
    }
}
