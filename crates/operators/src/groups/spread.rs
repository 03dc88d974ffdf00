//! VAR_POP, VAR_SAMP, STDDEV_POP, STDDEV_SAMP of DOUBLE, with the values of DataFusion's accumulators bit by bit.
//!
//! What those hold cannot be put back: merged into an empty one, a mean may come out another in its last bit.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, Float64Array, UInt64Array};
use arrow::datatypes::{DataType, Float64Type, UInt64Type};
use datafusion_common::{Result, ScalarValue};
use datafusion_expr::Accumulator;
use datafusion_functions_aggregate::stddev::{stddev_pop_udaf, stddev_udaf};
use datafusion_functions_aggregate::variance::{var_pop_udaf, var_samp_udaf};
use datafusion_physical_expr::aggregate::AggregateFunctionExpr;

use super::accumulate::{Accumulate, ByGroup, LaterColumns, Make, Rows, passes};
use crate::chunked::Chunked;

/// Which of the four.
#[derive(Clone, Copy, Debug)]
pub(super) struct Measure {
    /// n − 1 divides.
    is_sample: bool,
    /// The root is taken.
    is_deviation: bool,
}

impl Measure {
    /// `None`: another function, or DISTINCT.
    pub(super) fn of(expr: &AggregateFunctionExpr) -> Option<Measure> {
        let function = expr.fun();
        let (is_sample, is_deviation) = if *function == *var_pop_udaf() {
            (false, false)
        } else if *function == *var_samp_udaf() {
            (true, false)
        } else if *function == *stddev_pop_udaf() {
            (false, true)
        } else if *function == *stddev_udaf() {
            (true, true)
        } else {
            return None;
        };
        let is_plain = !expr.is_distinct() && *expr.field().data_type() == DataType::Float64;
        is_plain.then_some(Measure { is_sample, is_deviation })
    }

    /// How the accumulator over groups is made.
    pub(super) fn make(self) -> Make {
        macro_rules! make {
            ($is_sample:literal, $is_deviation:literal) => {
                |_| {
                    let measure = Measure { is_sample: $is_sample, is_deviation: $is_deviation };
                    Box::new(Spread { measure, by_group: Chunked::default() })
                }
            };
        }
        match (self.is_sample, self.is_deviation) {
            (false, false) => make!(false, false),
            (true, false) => make!(true, false),
            (false, true) => make!(false, true),
            (true, true) => make!(true, true),
        }
    }

    fn result(self, moments: Moments) -> Option<f64> {
        let divisor = moments.count.saturating_sub(u64::from(self.is_sample));
        let variance = moments.m2 / divisor as f64;
        (divisor > 0).then_some(if self.is_deviation { variance.sqrt() } else { variance })
    }
}

/// Welford's count, mean and sum of squared distances from it.
#[derive(Clone, Copy, Debug, Default)]
struct Moments {
    count: u64,
    mean: f64,
    m2: f64,
}

impl Moments {
    fn add(&mut self, value: f64) {
        self.count += 1;
        let before = value - self.mean;
        self.mean += before / self.count as f64;
        self.m2 += before * (value - self.mean);
    }

    fn retract(&mut self, value: f64) {
        if self.count <= 1 {
            *self = Moments::default();
            return;
        }
        self.count -= 1;
        let before = self.mean - value;
        self.mean += before / self.count as f64;
        self.m2 -= before * (self.mean - value);
    }

    fn merge(&mut self, other: Moments) {
        if other.count == 0 {
            return;
        }
        let (a, b) = (self.count as f64, other.count as f64);
        let count = (self.count + other.count) as f64;
        let delta = self.mean - other.mean;
        self.mean = self.mean * a / count + other.mean * b / count;
        self.m2 = self.m2 + other.m2 + delta * delta * a * b / count;
        self.count += other.count;
    }

    fn read(states: &[ArrayRef], row: usize) -> Moments {
        Moments {
            count: states[0].as_primitive::<UInt64Type>().value(row),
            mean: states[1].as_primitive::<Float64Type>().value(row),
            m2: states[2].as_primitive::<Float64Type>().value(row),
        }
    }
}

/// By group.
struct Spread {
    measure: Measure,
    by_group: ByGroupNumber,
}

type ByGroupNumber = Chunked<Moments, { if cfg!(test) { 4 } else { 1_024 } }>;

impl Accumulate for Spread {
    fn update(
        &mut self,
        arguments: &[ArrayRef],
        filter: Option<&BooleanArray>,
        rows: &Rows<'_>,
    ) -> Result<()> {
        self.by_group.grow_with(rows.total, Moments::default);
        let values = arguments[0].as_primitive::<Float64Type>();
        for (row, &group) in rows.range.clone().zip(rows.groups) {
            if values.is_valid(row) && passes(filter, row) {
                self.by_group.get_mut(group).add(values.value(row));
            }
        }
        Ok(())
    }

    fn merge(&mut self, states: &[ArrayRef], rows: &Rows<'_>) -> Result<()> {
        self.by_group.grow_with(rows.total, Moments::default);
        for (row, &group) in rows.range.clone().zip(rows.groups) {
            self.by_group.get_mut(group).merge(Moments::read(states, row));
        }
        Ok(())
    }

    fn state(&mut self) -> Result<Vec<ArrayRef>> {
        Ok(arrays(std::mem::take(&mut self.by_group).iter().copied()))
    }

    fn snapshot(&mut self) -> Option<Vec<Vec<ArrayRef>>> {
        Some(vec![arrays(self.by_group.iter().copied())])
    }

    fn hand_out(&mut self, groups: usize) -> Option<LaterColumns> {
        self.by_group.grow_with(groups, Moments::default);
        let handed = self.by_group.hand_out();
        Some(Box::new(move || Ok(arrays(handed.iter().copied()))))
    }

    fn restore(&mut self, states: &[ArrayRef], rows: &Rows<'_>) -> Result<()> {
        self.by_group = rows.range.clone().map(|row| Moments::read(states, row)).collect();
        Ok(())
    }

    fn evaluate(&mut self) -> Result<ArrayRef> {
        let by_group = std::mem::take(&mut self.by_group);
        Ok(Arc::new(by_group.iter().map(|m| self.measure.result(*m)).collect::<Float64Array>()))
    }

    fn bytes(&self) -> usize {
        size_of::<Self>() + self.by_group.bytes()
    }
}

impl ByGroup for Spread {
    fn join(&mut self, into: usize, from: usize) -> Result<()> {
        let moments = *self.by_group.get(from);
        match self.by_group.get_mut(into) {
            empty if empty.count == 0 => *empty = moments,
            joined => joined.merge(moments),
        }
        Ok(())
    }

    fn results(&mut self, groups: &[usize], _are_kept: bool) -> Result<ArrayRef> {
        let results = groups.iter().map(|&group| self.measure.result(*self.by_group.get(group)));
        Ok(Arc::new(results.collect::<Float64Array>()))
    }

    fn states(&mut self, groups: &[usize]) -> Result<Vec<ArrayRef>> {
        Ok(arrays(groups.iter().map(|&group| *self.by_group.get(group))))
    }

    fn clear(&mut self, group: usize) -> Result<()> {
        *self.by_group.get_mut(group) = Moments::default();
        Ok(())
    }
}

fn arrays(moments: impl Iterator<Item = Moments> + Clone) -> Vec<ArrayRef> {
    vec![
        Arc::new(UInt64Array::from_iter_values(moments.clone().map(|m| m.count))),
        Arc::new(Float64Array::from_iter_values(moments.clone().map(|m| m.mean))),
        Arc::new(Float64Array::from_iter_values(moments.map(|m| m.m2))),
    ]
}

/// Of one group, or of one frame.
#[derive(Debug)]
pub(super) struct OneSpread {
    measure: Measure,
    moments: Moments,
}

impl OneSpread {
    pub(super) fn new(measure: Measure) -> OneSpread {
        OneSpread { measure, moments: Moments::default() }
    }
}

impl Accumulator for OneSpread {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        values[0].as_primitive::<Float64Type>().iter().flatten().for_each(|value| self.moments.add(value));
        Ok(())
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let values = values[0].as_primitive::<Float64Type>();
        values.iter().flatten().for_each(|value| self.moments.retract(value));
        Ok(())
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    /// An empty one becomes what is merged into it, exactly.
    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        for row in 0..states[0].len() {
            let other = Moments::read(states, row);
            if self.moments.count == 0 {
                self.moments = other;
            } else {
                self.moments.merge(other);
            }
        }
        Ok(())
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let Moments { count, mean, m2 } = self.moments;
        Ok(vec![count.into(), mean.into(), m2.into()])
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        Ok(ScalarValue::Float64(self.measure.result(self.moments)))
    }

    fn size(&self) -> usize {
        size_of_val(self)
    }
}
