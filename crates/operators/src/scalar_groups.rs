use std::mem::size_of_val;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, UInt32Array, new_empty_array};
use arrow::compute::{filter, take};
use datafusion_common::{Result, ScalarValue, not_impl_err};
use datafusion_expr::{Accumulator, EmitTo, GroupsAccumulator};
use datafusion_physical_expr::aggregate::AggregateFunctionExpr;

use crate::groups::state_types;

/// One scalar accumulator per group, for functions that have none over groups.
///
/// DataFusion's adapter visits every group at every batch; this one only those with rows in it, without which a
/// batch of a few rows would cost as much as there are keys.
pub(crate) struct ScalarGroups {
    expr: Arc<AggregateFunctionExpr>,
    accumulators: Vec<Box<dyn Accumulator>>,
    /// By group, rows in the current batch. All zero between calls.
    counts: Vec<u32>,
    /// Groups with rows in the current batch, in order of appearance.
    touched: Vec<usize>,
    accumulator_bytes: usize,
}

impl ScalarGroups {
    pub(crate) fn new(expr: Arc<AggregateFunctionExpr>) -> ScalarGroups {
        ScalarGroups {
            expr,
            accumulators: Vec::new(),
            counts: Vec::new(),
            touched: Vec::new(),
            accumulator_bytes: 0,
        }
    }

    fn for_each_group(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        mask: Option<&BooleanArray>,
        total_groups: usize,
        apply: impl Fn(&mut dyn Accumulator, &[ArrayRef]) -> Result<()>,
    ) -> Result<()> {
        while self.accumulators.len() < total_groups {
            let accumulator = self.expr.create_accumulator()?;
            self.accumulator_bytes += bytes(accumulator.as_ref());
            self.accumulators.push(accumulator);
        }
        self.counts.resize(total_groups, 0);
        for &group in groups {
            if self.counts[group] == 0 {
                self.touched.push(group);
            }
            self.counts[group] += 1;
        }
        // From here `counts` holds where each group's rows go, so that rows of a group become neighbours.
        let mut runs = Vec::with_capacity(self.touched.len());
        let mut offset = 0;
        for &group in &self.touched {
            let count = std::mem::replace(&mut self.counts[group], offset);
            runs.push((offset as usize, count as usize));
            offset += count;
        }
        let gathered;
        let gathered_mask;
        let (values, mask) = if self.touched.len() == 1 {
            (values, mask)
        } else {
            let mut order = vec![0u32; groups.len()];
            for (row, &group) in groups.iter().enumerate() {
                order[self.counts[group] as usize] = row as u32;
                self.counts[group] += 1;
            }
            let order = UInt32Array::from(order);
            gathered = values.iter().map(|v| Ok(take(v, &order, None)?)).collect::<Result<Vec<_>>>()?;
            gathered_mask = match mask {
                Some(mask) => Some(take(mask, &order, None)?.as_boolean().clone()),
                None => None,
            };
            (gathered.as_slice(), gathered_mask.as_ref())
        };
        for (&group, (offset, length)) in self.touched.iter().zip(runs) {
            self.counts[group] = 0;
            let accumulator = &mut self.accumulators[group];
            let mask = mask.map(|mask| mask.slice(offset, length));
            let values = values.iter().map(|v| {
                let run = v.slice(offset, length);
                Ok(match &mask {
                    Some(mask) => filter(&run, mask)?,
                    None => run,
                })
            });
            let values = values.collect::<Result<Vec<_>>>()?;
            self.accumulator_bytes -= bytes(accumulator.as_ref());
            apply(accumulator.as_mut(), &values)?;
            self.accumulator_bytes += bytes(accumulator.as_ref());
        }
        self.touched.clear();
        Ok(())
    }

    fn take_out(&mut self, emit_to: EmitTo) -> Vec<Box<dyn Accumulator>> {
        let taken = emit_to.take_needed(&mut self.accumulators);
        self.counts.truncate(self.accumulators.len());
        self.accumulator_bytes -= taken.iter().map(|a| bytes(a.as_ref())).sum::<usize>();
        taken
    }
}

impl GroupsAccumulator for ScalarGroups {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        group_indices: &[usize],
        opt_filter: Option<&BooleanArray>,
        total_num_groups: usize,
    ) -> Result<()> {
        self.for_each_group(values, group_indices, opt_filter, total_num_groups, |a, values| {
            a.update_batch(values)
        })
    }

    fn merge_batch(
        &mut self,
        values: &[ArrayRef],
        group_indices: &[usize],
        total_num_groups: usize,
    ) -> Result<()> {
        self.for_each_group(values, group_indices, None, total_num_groups, |a, values| a.merge_batch(values))
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        let mut taken = self.take_out(emit_to);
        if taken.is_empty() {
            return Ok(new_empty_array(self.expr.field().data_type()));
        }
        let values = taken.iter_mut().map(|a| a.evaluate()).collect::<Result<Vec<_>>>()?;
        ScalarValue::iter_to_array(values)
    }

    fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        let mut columns: Vec<Vec<ScalarValue>> = Vec::new();
        for mut accumulator in self.take_out(emit_to) {
            let state = accumulator.state()?;
            columns.resize_with(state.len(), Vec::new);
            columns.iter_mut().zip(state).for_each(|(column, value)| column.push(value));
        }
        if columns.is_empty() {
            let types = state_types(&self.expr)?;
            return Ok(types.iter().map(new_empty_array).collect());
        }
        columns.into_iter().map(ScalarValue::iter_to_array).collect()
    }

    fn convert_to_state(&self, _: &[ArrayRef], _: Option<&BooleanArray>) -> Result<Vec<ArrayRef>> {
        not_impl_err!("rows are aggregated here, never passed on as states")
    }

    fn size(&self) -> usize {
        self.accumulator_bytes + self.counts.capacity() * size_of::<u32>()
    }
}

fn bytes(accumulator: &dyn Accumulator) -> usize {
    accumulator.size().max(size_of_val(accumulator)) + size_of::<Box<dyn Accumulator>>()
}
