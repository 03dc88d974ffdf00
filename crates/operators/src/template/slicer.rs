//! What templates that differ in their windows alone do to each row, done once for those of their members who get the same
//! rows: aggregated by slices of time, each of which lies whole in a window of any of them or not at all.

use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use laxity_graph::{EventTime, Flow, ProcessingTime};

use super::{Template, marked};
use crate::expression::internal;
use crate::row_times::timestamps;
use crate::slices::Slicing;
use crate::{
    AggregateCall, Emitted, GroupsOfSlice, InstanceContext, Operator, OperatorError, OperatorFactory, Outbox,
    StreamBatch, WindowAggregate, WindowAggregateSpec, WindowInput, WindowKind,
};

/// What such templates have in common.
#[derive(Debug)]
pub struct SlicerSpec {
    /// What is done to rows before they are aggregated, if anything.
    before: Option<OperatorFactory>,
    /// How they are aggregated, whatever the windows.
    aggregate: WindowAggregateSpec,
    /// The column of the source that windows are cut by, and that of the aggregation.
    times: (usize, usize),
    /// The place of who gets the rows among the keys.
    member_key: usize,
}

/// Aggregates rows for members that get the same ones. A number stands for all who get a row, in the place of the member.
pub struct Slicer {
    spec: Arc<SlicerSpec>,
    input_schema: SchemaRef,
    slicing: Slicing,
    before: Option<Box<dyn Operator>>,
    aggregate: WindowAggregate,
    /// Of what is before.
    outbox: Outbox,
}

/// What rows have come to, for all who get them.
pub struct Slices {
    groups: Vec<GroupsOfSlice>,
    member_key: usize,
}

impl SlicerSpec {
    /// `source_time`: the column of the source that windows are cut by. `None` where windows would not be the same if their
    /// rows were aggregated in another order, or not cut from time.
    pub fn new(
        before: Option<OperatorFactory>,
        aggregate: WindowAggregateSpec,
        source_time: usize,
        member_key: usize,
    ) -> Option<SlicerSpec> {
        let WindowInput::Assign { time_column, .. } = aggregate.windows else { return None };
        let is_exact = aggregate.aggregates.iter().all(AggregateCall::is_exact_in_any_order);
        let is_fit = is_exact && aggregate.allowed_lateness_ms == 0;
        is_fit.then_some(SlicerSpec { before, aggregate, times: (source_time, time_column), member_key })
    }
}

impl Slicer {
    pub(super) fn new(
        spec: Arc<SlicerSpec>,
        slice_ms: i64,
        input_schema: &SchemaRef,
    ) -> Result<Slicer, OperatorError> {
        let window = WindowKind::Tumble { size_ms: slice_ms, offset_ms: 0 };
        let slicing = Slicing::new(window).ok_or_else(|| internal("slices", "a slice has no end"))?;
        let context = InstanceContext { instance: 0, parallelism: 1, batch_rows: Template::BATCH_ROWS };
        let windows = WindowInput::Assign { time_column: spec.times.1, window, processing_time: false };
        let of_slices = WindowAggregateSpec { windows, ..spec.aggregate.clone() };
        Ok(Slicer {
            before: spec.before.as_ref().map(|before| before.make(&context)).transpose()?,
            aggregate: WindowAggregate::new(&of_slices, context.batch_rows)?,
            input_schema: Arc::clone(input_schema),
            slicing,
            outbox: Outbox::default(),
            spec,
        })
    }

    /// Takes the rows that are in time for every window, whichever these are: pairs of who gets it and a row of the batch.
    /// The others stay where they were. No operator that will get the groups has been told a later time than `told`.
    ///
    /// # Errors
    /// If the batch has other columns.
    pub fn take(
        &mut self,
        batch: &StreamBatch,
        rows: &mut Vec<(u32, u32)>,
        told: EventTime,
        ingested: ProcessingTime,
    ) -> Result<(), OperatorError> {
        let times = timestamps(batch.rows.column(self.spec.times.0)).map_err(|e| internal("slices", e))?;
        let before = batch.watermark_before.as_deref();
        let is_in_time = |row: u32| {
            let seen = before.map_or(told.0, |before| before[row as usize].max(told.0));
            // No window that holds the slice ends before that does.
            self.slicing.slice(times[row as usize]).1 > seen.saturating_add(1)
        };
        let mut taken: Vec<(u32, u32)> = Vec::with_capacity(rows.len());
        rows.retain(|&(of, row)| {
            let is_in_time = is_in_time(row);
            if is_in_time {
                taken.push((of, row));
            }
            !is_in_time
        });
        if taken.is_empty() {
            return Ok(());
        }
        let StreamBatch { rows, .. } = marked(&self.input_schema, batch, &taken)?;
        // Judged already, and not by when windows end but by when slices do.
        self.aggregate(StreamBatch::on_time(rows), ingested)
    }

    fn aggregate(&mut self, batch: StreamBatch, ingested: ProcessingTime) -> Result<(), OperatorError> {
        // It is told of no time, so nothing comes out.
        let mut nothing = Outbox::default();
        let Some(before) = &mut self.before else {
            let _done = self.aggregate.on_batch(0, batch, ingested, &mut nothing)?;
            return Ok(());
        };
        let mut flow = before.on_batch(0, batch, ingested, &mut self.outbox)?;
        while flow == Flow::More {
            flow = before.resume(&mut self.outbox)?;
        }
        for emitted in self.outbox.emitted.drain(..) {
            if let Emitted::Batch { batch, .. } = emitted {
                let _done = self.aggregate.on_batch(0, batch, ingested, &mut nothing)?;
            }
        }
        Ok(())
    }

    /// Whether there is nothing of slices that have ended at this watermark.
    pub fn is_empty(&self, watermark: EventTime) -> bool {
        !self.aggregate.has_groups(watermark)
    }

    /// What the rows of slices have come to that have ended at this watermark, of which nothing is left here.
    ///
    /// # Errors
    /// If the groups cannot be written down.
    pub fn seal(&mut self, watermark: EventTime) -> Result<Slices, OperatorError> {
        let groups = self.aggregate.take_groups(watermark).map_err(|error| internal("slices", error))?;
        Ok(Slices { groups, member_key: self.spec.member_key })
    }

    /// Bytes of groups.
    pub fn state_bytes(&self) -> usize {
        self.aggregate.state_bytes()
    }
}

impl Slices {
    /// In so many pieces they can be given.
    pub fn pieces(&self) -> usize {
        self.groups.len()
    }

    /// How many groups they are.
    pub fn groups(&self) -> u64 {
        self.groups.iter().map(|piece| piece.len() as u64).sum()
    }

    /// Gives a piece to the operator of a template. `whose`: pairs of who got the rows and a member of the template, in order.
    ///
    /// # Errors
    /// If it aggregates nothing, or something else.
    pub fn give(
        &self,
        piece: usize,
        whose: &[(u32, u32)],
        operator: &mut dyn Operator,
    ) -> Result<(), OperatorError> {
        let fail = |error| internal("slices", error);
        let Some(groups) = self.groups[piece].with_key(self.member_key, whose).map_err(fail)? else {
            return Ok(());
        };
        match operator.on_groups(&groups)? {
            true => Ok(()),
            false => Err(internal("slices", "a template aggregates no groups")),
        }
    }
}

#[cfg(test)]
mod tests;
