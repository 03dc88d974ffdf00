//! How far SUM(a) / SUM(b) may be off, computed as an aggregate function over what a sampler took.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Float64Array, ListArray};
use arrow::buffer::OffsetBuffer;
use arrow::datatypes::{DataType, Field, Float64Type};
use datafusion_common::{Result, ScalarValue};
use datafusion_expr::Accumulator;

use super::interval::{Pair, ratio};
use super::moments::Moments;
use super::sample_size::Promise;
use super::sampler::Strata;
use super::stratum::Stratum;

/// The error of a quotient of two sums over a [`Sampler`](super::Sampler)'s rows: APPROX_ERROR(SUM(a) / SUM(b)).
///
/// That of the quotient is not that of its parts: what goes together in both cancels, most of all how many rows there are.
#[derive(Debug)]
pub(super) struct RatioError {
    /// a, b and a·b among the sample's values.
    values: [usize; 3],
    promise: Promise,
    strata: BTreeMap<i64, Pair>,
}

/// Numbers of a stratum in a state: its own, five of each value, the products and the shifts.
const STATE: usize = Stratum::NUMBERS + 15;

impl RatioError {
    pub(super) fn new(values: [usize; 3], promise: Promise) -> RatioError {
        RatioError { values, promise, strata: BTreeMap::new() }
    }
}

impl Accumulator for RatioError {
    fn update_batch(&mut self, arguments: &[ArrayRef]) -> Result<()> {
        let [over, under, product] = self.values.map(|value| Strata::of(&arguments[0], Some(value)));
        for row in 0..arguments[0].len() {
            let (over, under) = (over.row(row), under.row(row));
            let pair = Pair {
                stratum: over.stratum,
                values: [over.values, under.values],
                products: product.row(row).values.sum(),
                shifts: [over.stratum.shift, under.stratum.shift],
            };
            self.strata.insert(pair.stratum.id, pair);
        }
        Ok(())
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        for list in states[0].as_list::<i32>().iter().flatten() {
            for numbers in list.as_primitive::<Float64Type>().values().as_chunks::<STATE>().0 {
                let Some((stratum, rest)) = numbers.split_first_chunk() else { break };
                let moments = |at: usize| Moments {
                    count: rest[at],
                    mean: rest[at + 1],
                    m2: rest[at + 2],
                    m3: rest[at + 3],
                    m4: rest[at + 4],
                };
                let stratum = Stratum::of_numbers(stratum);
                let pair = Pair {
                    stratum,
                    values: [moments(0), moments(5)],
                    products: rest[10],
                    shifts: [(rest[11], rest[12]), (rest[13], rest[14])],
                };
                self.strata.insert(stratum.id, pair);
            }
        }
        Ok(())
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let mut numbers = Vec::with_capacity(self.strata.len() * STATE);
        for Pair { stratum, values, products, shifts } in self.strata.values() {
            numbers.extend(stratum.numbers());
            for Moments { count, mean, m2, m3, m4 } in *values {
                numbers.extend([count, mean, m2, m3, m4]);
            }
            numbers.extend([*products, shifts[0].0, shifts[0].1, shifts[1].0, shifts[1].1]);
        }
        let field = Arc::new(Field::new_list_field(DataType::Float64, true));
        let offsets = OffsetBuffer::from_lengths([numbers.len()]);
        let list = ListArray::try_new(field, offsets, Arc::new(Float64Array::from(numbers)), None)?;
        Ok(vec![ScalarValue::List(Arc::new(list))])
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let pairs: Vec<Pair> = self.strata.values().copied().collect();
        let error = ratio(&pairs, self.promise).relative();
        // Nothing where no bound can be given, as with a divisor of 0.
        let is_known = !pairs.is_empty() && error.is_finite();
        Ok(ScalarValue::Float64(Some(error).filter(|_| is_known)))
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.strata.len() * (size_of::<Pair>() + 16)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_a_state_are_one() {
        let pair = |id: i64, rows: &[(f64, f64)]| Pair {
            stratum: Stratum { taken: rows.len() as f64, ..Stratum::whole(id, 12.0) },
            values: [rows.iter().map(|row| row.0).collect(), rows.iter().map(|row| row.1).collect()],
            products: rows.iter().map(|row| row.0 * row.1).sum(),
            shifts: [(0.5, 0.25), (-0.5, 0.125)],
        };
        let of = |pairs: &[Pair]| {
            let mut error = RatioError::new([0, 1, 2], Promise { error: 0.05, confidence: 0.95 });
            error.strata.extend(pairs.iter().map(|pair| (pair.stratum.id, *pair)));
            error
        };
        let (a, b) = (pair(3, &[(1.0, 2.0), (2.0, 3.0), (3.0, 7.0)]), pair(9, &[(4.0, 6.0), (5.0, 11.0)]));
        let mut left = of(&[a]);
        let state = of(&[b, a]).state().unwrap()[0].to_array().unwrap();
        left.merge_batch(&[state]).unwrap();
        assert_eq!(left.evaluate().unwrap(), of(&[a, b]).evaluate().unwrap());
        assert!(matches!(left.evaluate().unwrap(), ScalarValue::Float64(Some(error)) if error > 0.0));
        assert_eq!(of(&[]).evaluate().unwrap(), ScalarValue::Float64(None));
    }
}
