//! The slow way for aggregate functions that know one group only, kept from becoming slower with the number of keys.

use std::mem::size_of_val;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, UInt32Array, new_empty_array};
use arrow::compute::{concat, filter, take};
use arrow::datatypes::DataType;
use datafusion_common::{Result, ScalarValue, not_impl_err};
use datafusion_expr::{Accumulator, EmitTo, GroupsAccumulator};
use datafusion_physical_expr::aggregate::AggregateFunctionExpr;

use super::accumulate::{Accumulate, ByGroup, Rows, slices};
use super::restore::{accumulator, accumulator_of, keeps_what_it_tells, state_types};

/// One scalar accumulator per group, for functions that have none over groups.
///
/// DataFusion's adapter visits every group at every batch; this one only those with rows in it, without which a
/// batch of a few rows would cost as much as there are keys.
pub(super) struct ScalarGroups {
    expr: Arc<AggregateFunctionExpr>,
    accumulators: Vec<Box<dyn Accumulator>>,
    /// By group, rows in the current batch. All zero between calls.
    counts: Vec<u32>,
    /// Groups with rows in the current batch, in order of appearance.
    touched: Vec<usize>,
    accumulator_bytes: usize,
}

impl ScalarGroups {
    pub(super) fn new(expr: Arc<AggregateFunctionExpr>) -> ScalarGroups {
        ScalarGroups {
            expr,
            accumulators: Vec::new(),
            counts: Vec::new(),
            touched: Vec::new(),
            accumulator_bytes: 0,
        }
    }

    /// Makes room for so many groups.
    fn grow(&mut self, groups: usize) -> Result<()> {
        while self.accumulators.len() < groups {
            let accumulator = accumulator(&self.expr)?;
            self.accumulator_bytes += bytes(accumulator.as_ref());
            self.accumulators.push(accumulator);
        }
        self.counts.resize(groups, 0);
        Ok(())
    }

    fn replace(&mut self, group: usize, accumulator: Box<dyn Accumulator>) {
        self.accumulator_bytes += bytes(accumulator.as_ref());
        let old = std::mem::replace(&mut self.accumulators[group], accumulator);
        self.accumulator_bytes -= bytes(old.as_ref());
    }

    /// What one holds, each column an array of one row. It holds it afterwards too.
    fn state_of(&mut self, group: usize) -> Result<Vec<ArrayRef>> {
        let state = self.accumulators[group].state()?;
        let state = state.iter().map(ScalarValue::to_array).collect::<Result<Vec<_>>>()?;
        if !keeps_what_it_tells(&self.expr) {
            self.replace(group, accumulator_of(&self.expr, &state, 0)?);
        }
        Ok(state)
    }

    fn for_each_group(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        mask: Option<&BooleanArray>,
        total_groups: usize,
        apply: impl Fn(&mut dyn Accumulator, &[ArrayRef]) -> Result<()>,
    ) -> Result<()> {
        self.grow(total_groups)?;
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

impl Accumulate for ScalarGroups {
    fn update(
        &mut self,
        arguments: &[ArrayRef],
        filter: Option<&BooleanArray>,
        rows: &Rows<'_>,
    ) -> Result<()> {
        let filter = filter.map(|filter| filter.slice(rows.range.start, rows.range.len()));
        self.update_batch(&slices(arguments, &rows.range), rows.groups, filter.as_ref(), rows.total)
    }

    fn merge(&mut self, states: &[ArrayRef], rows: &Rows<'_>) -> Result<()> {
        self.merge_batch(&slices(states, &rows.range), rows.groups, rows.total)
    }

    fn state(&mut self) -> Result<Vec<ArrayRef>> {
        GroupsAccumulator::state(self, EmitTo::All)
    }

    fn evaluate(&mut self) -> Result<ArrayRef> {
        GroupsAccumulator::evaluate(self, EmitTo::All)
    }

    fn bytes(&self) -> usize {
        self.size()
    }
}

impl ByGroup for ScalarGroups {
    fn join(&mut self, into: usize, from: usize) -> Result<()> {
        let state = self.state_of(from)?;
        let joined = &mut self.accumulators[into];
        self.accumulator_bytes -= bytes(joined.as_ref());
        joined.merge_batch(&state)?;
        self.accumulator_bytes += bytes(joined.as_ref());
        Ok(())
    }

    fn results(&mut self, groups: &[usize], are_kept: bool) -> Result<ArrayRef> {
        let values = groups.iter().map(|&group| {
            if !are_kept {
                return self.accumulators[group].evaluate();
            }
            let state = self.state_of(group)?;
            accumulator_of(&self.expr, &state, 0)?.evaluate()
        });
        match groups.is_empty() {
            true => Ok(new_empty_array(self.expr.field().data_type())),
            false => ScalarValue::iter_to_array(values.collect::<Result<Vec<_>>>()?),
        }
    }

    fn states(&mut self, groups: &[usize]) -> Result<Vec<ArrayRef>> {
        let mut rows: Vec<Vec<ArrayRef>> = Vec::new();
        for &group in groups {
            rows.push(self.state_of(group)?);
        }
        let types = state_types(&self.expr)?;
        let column = |(at, data_type): (usize, &DataType)| {
            let values: Vec<&dyn Array> = rows.iter().map(|row| row[at].as_ref()).collect();
            Ok(if values.is_empty() { new_empty_array(data_type) } else { concat(&values)? })
        };
        types.iter().enumerate().map(column).collect()
    }

    fn clear(&mut self, group: usize) -> Result<()> {
        self.replace(group, accumulator(&self.expr)?);
        Ok(())
    }

    fn put_back(&mut self, states: &[ArrayRef], groups: &[usize], total: usize) -> Result<()> {
        self.grow(total)?;
        for (row, &group) in groups.iter().enumerate() {
            self.replace(group, accumulator_of(&self.expr, states, row)?);
        }
        Ok(())
    }
}

fn bytes(accumulator: &dyn Accumulator) -> usize {
    accumulator.size().max(size_of_val(accumulator)) + size_of::<Box<dyn Accumulator>>()
}
