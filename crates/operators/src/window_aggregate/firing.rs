//! From parts to the result of one window, in steps that can be left between any two: a window of many groups may not
//! hold a worker longer than its quantum.

use std::collections::VecDeque;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, TimestampMillisecondArray, UInt32Array};
use arrow::compute::take;
use arrow::datatypes::SchemaRef;
use datafusion_common::{DataFusionError, internal_err};
use laxity_graph::{EventTime, ProcessingTime};

use super::Window;
use super::parts::{Input, Merges, Parts, Task};
use crate::groups::{Aggregation, Groups};
use crate::{Outbox, StreamBatch};

/// A window being put together and sent, in pieces.
pub(super) struct Firing {
    window: Window,
    ingested: ProcessingTime,
    /// Merges to do, each after those it needs. The last makes the window.
    tasks: VecDeque<Task>,
    /// Where the current task is.
    merging: Option<Merging>,
    /// The window's groups before the last task, if there is more than merging to do.
    begun: Option<Groups>,
    /// Keys of the groups to send, where the window was sent before.
    changed: Option<Vec<ArrayRef>>,
    /// The result, and how many of its rows are still to go.
    result: Option<(RecordBatch, usize)>,
}

/// What a step needs to know of the operator.
pub(super) struct Context<'a> {
    pub(super) aggregation: &'a Aggregation,
    pub(super) schema: &'a SchemaRef,
    pub(super) watermark: EventTime,
    pub(super) batch_rows: usize,
}

struct Merging {
    groups: Groups,
    /// Inputs merged.
    input: usize,
    /// Groups of the current input merged.
    offset: usize,
}

type Result<T> = std::result::Result<T, DataFusionError>;

impl Firing {
    pub(super) fn new(window: Window, merges: Merges, changed: Option<Vec<ArrayRef>>) -> Firing {
        let Merges { ingested, tasks, begun } = merges;
        Firing { window, ingested, tasks, merging: None, begun, changed, result: None }
    }

    /// Works until the budget is used up. Returns whether the window is through.
    pub(super) fn step(
        &mut self,
        context: &Context<'_>,
        parts: &mut Parts,
        budget: &mut usize,
        scratch: &mut Vec<usize>,
        out: &mut Outbox,
    ) -> Result<bool> {
        while let Some(task) = self.tasks.front() {
            if self.merging.is_none() {
                let begun = if task.output.is_none() { self.begun.take() } else { None };
                let groups = begun.map_or_else(|| context.aggregation.groups_of_window(), Ok)?;
                self.merging = Some(Merging { groups, input: 0, offset: 0 });
            }
            let Some(merging) = &mut self.merging else { break };
            if !merging.step(task, parts, budget, scratch)? {
                return Ok(false);
            }
            let (task, merging) = (self.tasks.pop_front(), self.merging.take());
            let (Some(task), Some(merging)) = (task, merging) else { break };
            match task.output {
                Some(key) => parts.add_node(key, merging.groups.seal()?),
                None => {
                    let rows = self.result(merging.groups, context, scratch)?;
                    self.result = Some((rows, 0));
                }
            }
        }
        while let Some((rows, sent)) = self.result.take() {
            let left = rows.num_rows() - sent;
            if left == 0 {
                break;
            }
            if *budget == 0 {
                self.result = Some((rows, sent));
                return Ok(false);
            }
            let length = context.batch_rows.min(left);
            *budget = budget.saturating_sub(length);
            let piece = if length == rows.num_rows() {
                rows
            } else {
                let piece = rows.slice(sent, length);
                self.result = Some((rows, sent + length));
                piece
            };
            let mut batch = StreamBatch::on_time(piece);
            if self.changed.is_some() {
                batch.watermark_before = Some(vec![context.watermark.0; length].into());
            }
            out.result(batch, self.ingested, Some(EventTime(self.window.end)));
        }
        Ok(true)
    }

    /// Columns as the operator's schema says.
    fn result(
        &self,
        mut groups: Groups,
        context: &Context<'_>,
        scratch: &mut Vec<usize>,
    ) -> Result<RecordBatch> {
        let mut chosen = None;
        if let Some(keys) = self.changed.as_ref().filter(|keys| !keys.is_empty()) {
            groups.intern(keys, scratch)?;
            scratch.sort_unstable();
            scratch.dedup();
            chosen = Some(scratch.iter().map(|&group| group as u32).collect::<UInt32Array>());
        }
        let mut rows = groups.len();
        let mut columns = groups.evaluate(3)?;
        if let Some(chosen) = chosen {
            rows = chosen.len();
            columns =
                columns.iter().map(|c| take(c, &chosen, None)).collect::<std::result::Result<_, _>>()?;
        }
        for time in [self.window.start, self.window.end, self.window.end.saturating_sub(1)] {
            let field = context.schema.field(columns.len());
            let times = TimestampMillisecondArray::from_value(time, rows);
            columns.push(Arc::new(times.with_data_type(field.data_type().clone())));
        }
        Ok(RecordBatch::try_new(Arc::clone(context.schema), columns)?)
    }

    pub(super) fn bytes(&self) -> usize {
        let merging = self.merging.as_ref().map_or(0, |m| m.groups.bytes());
        let begun = self.begun.as_ref().map_or(0, Groups::bytes);
        merging + begun + self.result.as_ref().map_or(0, |(rows, _)| rows.get_array_memory_size())
    }
}

impl Merging {
    /// Returns whether everything is merged.
    fn step(
        &mut self,
        task: &Task,
        parts: &Parts,
        budget: &mut usize,
        scratch: &mut Vec<usize>,
    ) -> Result<bool> {
        while let Some(input) = task.inputs.get(self.input) {
            let partial = match input {
                Input::Ready(partial) => Arc::clone(partial),
                Input::Node(key) => match parts.node(*key) {
                    Some(partial) => partial,
                    None => return internal_err!("run of slices {key:?} was planned but not made"),
                },
            };
            let weight = partial.merging_weight();
            while self.offset < partial.len {
                if *budget == 0 {
                    return Ok(false);
                }
                let length = (partial.len - self.offset).min(budget.div_ceil(weight));
                self.groups.merge(&partial, self.offset..self.offset + length, scratch)?;
                self.offset += length;
                *budget = budget.saturating_sub(length.saturating_mul(weight));
            }
            self.input += 1;
            self.offset = 0;
        }
        Ok(true)
    }
}
