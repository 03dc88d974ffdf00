//! What a sampler took, as results: aggregate functions of DataFusion over its column.

mod distinct;
mod percentile;

use std::collections::BTreeMap;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Float64Array, ListArray};
use arrow::buffer::OffsetBuffer;
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, FieldRef, Float64Type};
use datafusion_common::{Result, ScalarValue, exec_err, internal_err};
use datafusion_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion_expr::{Accumulator, AggregateUDF, AggregateUDFImpl, Signature, Volatility};

use super::aggregate::Aggregate;
use super::interval::{Estimate, Taken, average, count, deviation, rows, sum, variance};
use super::moments::Moments;
use super::ratio_error::RatioError;
use super::sample_size::Promise;
use super::sampler::Strata;
use super::stratum::Stratum;
use distinct::DistinctEstimate;
use percentile::PercentileEstimate;

/// An aggregate function over what a [`Sampler`](super::Sampler) sends, whose sample column it takes; or over a value, of rows
/// that no sampler has seen.
#[derive(Clone, Debug, PartialEq)]
pub struct Estimator {
    /// What is computed.
    pub aggregate: Aggregate,
    /// VAR_SAMP and STDDEV_SAMP: n − 1 divides.
    pub is_sample: bool,
    /// What of it.
    pub shows: Shows,
    /// Its argument is a sample column.
    pub of_sample: bool,
    /// For its interval.
    pub promise: Promise,
    /// Of the result: a number.
    pub data_type: DataType,
}

/// What is shown of an estimate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Shows {
    /// The estimate.
    Value,
    /// Half the width of its interval relative to it; NULL where no bound can be given.
    Error,
    /// Rows that were taken.
    Taken,
    /// Rows that came in time.
    Seen,
}

impl Estimator {
    /// As a function of DataFusion.
    pub fn function(self) -> Arc<AggregateUDF> {
        Arc::new(AggregateUDF::new_from_impl(Function {
            signature: Signature::variadic_any(Volatility::Immutable),
            estimator: self,
        }))
    }

    /// An empty group's state.
    pub(super) fn accumulating(&self) -> Estimating {
        Estimating { estimator: self.clone(), is_exact: false, strata: BTreeMap::new() }
    }

    fn estimate(&self, taken: &[Taken]) -> Estimate {
        match self.aggregate {
            Aggregate::Rows | Aggregate::Whole => rows(taken, self.promise),
            Aggregate::Count(_) => count(taken, self.promise),
            Aggregate::Sum(_) => sum(taken, self.promise),
            Aggregate::Average(_) => average(taken, self.promise),
            Aggregate::Variance(_) => variance(taken, self.is_sample, self.promise),
            Aggregate::Deviation(_) => deviation(taken, self.is_sample, self.promise),
            Aggregate::Ratio { .. } | Aggregate::Percentile { .. } | Aggregate::Distinct(_) => {
                unreachable!("{:?} of a sample has an accumulator of its own", self.aggregate)
            }
        }
    }

    fn is_count(&self) -> bool {
        matches!(self.aggregate, Aggregate::Rows | Aggregate::Count(_)) && self.shows == Shows::Value
            || matches!(self.shows, Shows::Taken | Shows::Seen)
    }

    fn scalar(&self, value: Option<f64>) -> Result<ScalarValue> {
        let Some(value) = value.filter(|value| value.is_finite()) else {
            return ScalarValue::try_from(&self.data_type);
        };
        Ok(match self.data_type {
            DataType::Float64 => ScalarValue::Float64(Some(value)),
            DataType::Int64 => ScalarValue::Int64(Some(value.round() as i64)),
            DataType::UInt64 => ScalarValue::UInt64(Some(value.round() as u64)),
            DataType::Decimal128(precision, scale) => {
                let units = (value * 10f64.powi(i32::from(scale))).round();
                ScalarValue::Decimal128(Some(units as i128), precision, scale)
            }
            ref other => return internal_err!("an estimate as {other}"),
        })
    }
}

#[derive(Clone, Debug, PartialEq)]
struct Function {
    signature: Signature,
    estimator: Estimator,
}

impl Eq for Function {}

impl Hash for Function {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.estimator.shows.hash(state);
        self.estimator.data_type.hash(state);
    }
}

impl AggregateUDFImpl for Function {
    fn name(&self) -> &str {
        match (self.estimator.shows, self.estimator.aggregate) {
            (Shows::Taken, _) => "approx_rows",
            (Shows::Seen, _) => "approx_seen",
            (Shows::Error, Aggregate::Rows | Aggregate::Count(_) | Aggregate::Whole) => {
                "approx_error_of_count"
            }
            (Shows::Error, Aggregate::Sum(_)) => "approx_error_of_sum",
            (Shows::Error, Aggregate::Average(_)) => "approx_error_of_avg",
            (Shows::Error, Aggregate::Variance(_)) if self.estimator.is_sample => "approx_error_of_var_samp",
            (Shows::Error, Aggregate::Variance(_)) => "approx_error_of_var_pop",
            (Shows::Error, Aggregate::Deviation(_)) if self.estimator.is_sample => {
                "approx_error_of_stddev_samp"
            }
            (Shows::Error, Aggregate::Deviation(_)) => "approx_error_of_stddev_pop",
            (Shows::Error | Shows::Value, Aggregate::Ratio { .. }) => "approx_error_of_ratio",
            (Shows::Error, Aggregate::Percentile { .. }) => "approx_error_of_percentile",
            (Shows::Error, Aggregate::Distinct(_)) => "approx_error_of_approx_count_distinct",
            (Shows::Value, Aggregate::Percentile { .. }) => "approx_percentile",
            (Shows::Value, Aggregate::Distinct(_)) => "approx_count_distinct",
            (Shows::Value, Aggregate::Rows | Aggregate::Count(_) | Aggregate::Whole) => "approx_count",
            (Shows::Value, Aggregate::Sum(_)) => "approx_sum",
            (Shows::Value, Aggregate::Average(_)) => "approx_avg",
            (Shows::Value, Aggregate::Variance(_)) => "approx_variance",
            (Shows::Value, Aggregate::Deviation(_)) => "approx_stddev",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(self.estimator.data_type.clone())
    }

    fn accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        Ok(match (self.estimator.of_sample, self.estimator.aggregate) {
            (true, Aggregate::Ratio { over, under, product }) => {
                Box::new(RatioError::new([over, under, product], self.estimator.promise))
            }
            (true, Aggregate::Percentile { value, share }) => {
                Box::new(PercentileEstimate::new(&self.estimator, value, share))
            }
            (true, Aggregate::Distinct(which)) => Box::new(DistinctEstimate::new(&self.estimator, which)),
            _ => {
                let is_exact = args.expr_fields.iter().all(|field| has_few_values(field.data_type()));
                Box::new(Estimating { is_exact, ..self.estimator.accumulating() })
            }
        })
    }

    fn state_fields(&self, args: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        let data_type = match (self.estimator.of_sample, self.estimator.aggregate) {
            (true, Aggregate::Distinct(_)) => DataType::Binary,
            _ => state_type(),
        };
        Ok(vec![Arc::new(Field::new(args.name, data_type, false))])
    }
}

pub(super) fn state_type() -> DataType {
    DataType::List(Arc::new(Field::new_list_field(DataType::Float64, true)))
}

/// What was taken of each stratum of a group.
#[derive(Debug)]
pub(super) struct Estimating {
    estimator: Estimator,
    /// Distinct values of the argument are counted and not sketched.
    is_exact: bool,
    strata: BTreeMap<i64, Taken>,
}

/// Numbers of a stratum in a state: its own, and five of its values.
const STATE: usize = Stratum::NUMBERS + 5;

/// Of DataFusion's HyperLogLog, which has 2¹⁴ registers: 1.04/√m.
const HLL_DEVIATION: f64 = 1.04 / 128.0;

/// DataFusion has a bit for each value of these.
fn has_few_values(data_type: &DataType) -> bool {
    use DataType::{Boolean, Int8, Int16, UInt8, UInt16};
    matches!(data_type, Boolean | Int8 | Int16 | UInt8 | UInt16)
}

/// The stratum of rows that no sampler has seen.
const UNSAMPLED: i64 = i64::MIN;

impl Estimating {
    /// Rows that no sampler has seen: one stratum of all of them.
    fn whole(&mut self) -> &mut Taken {
        let none = || Taken { stratum: Stratum::whole(UNSAMPLED, 0.0), values: Moments::default() };
        self.strata.entry(UNSAMPLED).or_insert_with(none)
    }

    fn taken(&self) -> Vec<Taken> {
        self.strata.values().copied().collect()
    }
}

impl Accumulator for Estimating {
    fn update_batch(&mut self, arguments: &[ArrayRef]) -> Result<()> {
        if self.estimator.of_sample {
            let strata = Strata::of(&arguments[0], self.estimator.aggregate.value());
            for row in 0..arguments[0].len() {
                let taken = strata.row(row);
                self.strata.insert(taken.stratum.id, taken);
            }
            return Ok(());
        }
        let values = match self.estimator.aggregate {
            // Counted, whatever it is.
            Aggregate::Rows | Aggregate::Count(_) | Aggregate::Distinct(_) | Aggregate::Ratio { .. } => None,
            _ => Some(cast(&arguments[0], &DataType::Float64)?),
        };
        let values = values.as_ref().map(|values| values.as_primitive::<Float64Type>());
        let taken = self.whole();
        taken.stratum = Stratum::whole(UNSAMPLED, taken.stratum.taken + arguments[0].len() as f64);
        for row in (0..arguments[0].len()).filter(|&row| arguments[0].is_valid(row)) {
            taken.values.push(values.map_or(1.0, |values| values.value(row)));
        }
        Ok(())
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        let lists = states[0].as_list::<i32>();
        for list in lists.iter().flatten() {
            let numbers = list.as_primitive::<Float64Type>().values();
            for state in numbers.as_chunks::<STATE>().0 {
                let Some((stratum, &[count, mean, m2, m3, m4])) = state.split_first_chunk() else { break };
                let moments = Moments { count, mean, m2, m3, m4 };
                let stratum = Stratum::of_numbers(stratum);
                // Of a stratum that a sampler made, every part of it knows all.
                if stratum.id == UNSAMPLED {
                    let whole = self.whole();
                    whole.stratum = Stratum::whole(UNSAMPLED, whole.stratum.taken + stratum.taken);
                    whole.values.merge(&moments);
                } else {
                    self.strata.insert(stratum.id, Taken { stratum, values: moments });
                }
            }
        }
        Ok(())
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let mut numbers = Vec::with_capacity(self.strata.len() * STATE);
        for Taken { stratum, values } in self.strata.values() {
            numbers.extend(stratum.numbers());
            numbers.extend([values.count, values.mean, values.m2, values.m3, values.m4]);
        }
        let field = Arc::new(Field::new_list_field(DataType::Float64, true));
        let offsets = OffsetBuffer::from_lengths([numbers.len()]);
        let list = ListArray::try_new(field, offsets, Arc::new(Float64Array::from(numbers)), None)?;
        Ok(vec![ScalarValue::List(Arc::new(list))])
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let taken = self.taken();
        let rows: f64 = taken.iter().map(|taken| taken.values.count).sum();
        let value = match self.estimator.shows {
            Shows::Taken => Some(rows),
            Shows::Seen => Some(taken.iter().map(|taken| taken.stratum.seen).sum()),
            Shows::Value if self.estimator.is_count() => Some(self.estimator.estimate(&taken).value),
            // Of no value, as everywhere.
            _ if rows == 0.0 => None,
            Shows::Value => Some(self.estimator.estimate(&taken).value),
            // A sketch of all rows is still a sketch.
            Shows::Error if !self.estimator.of_sample => Some(match self.estimator.aggregate {
                Aggregate::Distinct(_) if !self.is_exact => self.estimator.promise.z() * HLL_DEVIATION,
                _ => 0.0,
            }),
            Shows::Error => Some(self.estimator.estimate(&taken).relative()),
        };
        if value.is_some_and(|value| value.abs() > i64::MAX as f64)
            && self.estimator.data_type == DataType::Int64
        {
            return exec_err!("an estimate of {} is out of the range of BIGINT", value.unwrap_or_default());
        }
        self.estimator.scalar(value)
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.strata.len() * (size_of::<Taken>() + 16)
    }
}
