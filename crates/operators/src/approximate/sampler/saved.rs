//! A sampler as tables: the keys of groups, rows to be sent on, and what Aion knows.

use arrow::array::{ArrayRef, BooleanArray, Int64Array, RecordBatch, UInt32Array, UInt64Array};
use arrow::datatypes::{DataType, Int64Type, UInt32Type, UInt64Type};
use laxity_graph::ProcessingTime;

use super::{Groups, Kept, Sampler};
use crate::state::{NamedColumn, Part, Result, bug, named, table};
use crate::{OperatorState, StateError};

/// Columns before those of the rows.
const OWN: usize = 2;

impl Sampler {
    pub(super) fn saved(&mut self) -> Result<OperatorState> {
        if self.spec.verifies {
            return Err(StateError::Unsupported {
                operator: self.spec.name.clone(),
                reason: "results are held against exact ones; leave that out, or checkpoints".into(),
            });
        }
        self.tell_values().map_err(|error| StateError::Unsupported {
            operator: self.spec.name.clone(),
            reason: error.strip_backtrace(),
        })?;
        let kept: usize = self.kept.values().map(|kept| kept.groups.len()).sum();
        let own = vec![
            named("watermark", Int64Array::from(vec![self.watermark])),
            named("now", Int64Array::from(vec![self.now])),
            named("calm-until", Int64Array::from(vec![self.calm_until])),
            named("is-engaged", BooleanArray::from(vec![self.is_engaged])),
            named("steps", UInt64Array::from(vec![self.steps])),
            named("keys", UInt64Array::from(vec![self.groups.as_ref().map_or(0, Groups::len) as u64])),
            named("kept-rows", UInt64Array::from(vec![kept as u64])),
        ];
        let mut state = OperatorState::default().with("sampler", own)?;
        if let Some(groups) = &mut self.groups {
            let (keys, look_from) = groups.save().map_err(|e| bug(&self.spec.name, e))?;
            let mut columns =
                vec![named("look-from", UInt64Array::from_value(look_from as u64, groups.len()))];
            columns.extend(names(&self.spec, keys));
            state = state.with("group-keys", columns)?;
        }
        let state = self.aion.save(state)?;
        let mut pieces = Vec::new();
        for (&number, kept) in &self.kept {
            let mut groups = kept.groups.as_slice();
            for rows in &kept.batches {
                let (own, rest) = groups.split_at(rows.num_rows());
                groups = rest;
                let mut columns = vec![
                    named("sub-stream", Int64Array::from_value(number, own.len())),
                    named("group", UInt32Array::from(own.to_vec())),
                ];
                let fields = self.spec.input_schema.fields().iter();
                columns.extend(fields.map(|field| field.name().clone()).zip(rows.columns().iter().cloned()));
                pieces.push(table(columns)?);
            }
        }
        state.with_pieces("kept-rows", pieces)
    }

    pub(super) fn restored(&mut self, mut state: OperatorState) -> Result<()> {
        let own = state.take("sampler")?;
        self.watermark = own.only::<Int64Type>("watermark")?;
        self.now = own.only::<Int64Type>("now")?;
        self.calm_until = own.only::<Int64Type>("calm-until")?;
        self.is_engaged = own.flags("is-engaged")?.value(0);
        self.steps = own.only::<UInt64Type>("steps")?;
        if let Some(groups) = &mut self.groups {
            let part = state.take("group-keys")?;
            let schema = &self.spec.input_schema;
            let types: Vec<DataType> =
                self.spec.keys.iter().map(|&key| schema.field(key).data_type().clone()).collect();
            let keys = part.rest(1, &types)?;
            let look_from = part.values::<UInt64Type>("look-from")?.first().copied();
            groups
                .restore(&keys, look_from.map(|from| from as usize))
                .map_err(|e| bug(&self.spec.name, e))?;
            part.expect_rows(own.only::<UInt64Type>("keys")? as usize)?;
            if groups.len() != part.len() {
                return Err(part.mismatch(format!("{} keys", part.len()), groups.len().to_string()));
            }
        }
        self.aion.restore(&mut state)?;
        let mut found = 0;
        for part in state.take_pieces("kept-rows") {
            found += part.len() as u64;
            self.restore_kept(&part)?;
        }
        let kept = own.only::<UInt64Type>("kept-rows")?;
        if found != kept {
            return Err(own.mismatch(format!("{kept} rows kept"), found.to_string()));
        }
        state.finish()
    }

    fn restore_kept(&mut self, part: &Part) -> Result<()> {
        let rows: RecordBatch = part.rest_rows(OWN, &self.spec.input_schema)?;
        let numbers = part.values::<Int64Type>("sub-stream")?;
        let groups = part.values::<UInt32Type>("group")?;
        let mut offset = 0;
        for run in numbers.chunk_by(|a, b| a == b) {
            let of_run = &groups[offset..offset + run.len()];
            if let Some(group) = of_run.iter().find(|&&group| !self.aion.has_begun(run[0], group)) {
                return Err(part.mismatch("groups of which rows have come", group.to_string()));
            }
            let kept: &mut Kept = self.kept.entry(run[0]).or_default();
            kept.groups.extend(of_run);
            kept.push(rows.slice(offset, run.len()));
            kept.ingested = ProcessingTime::ZERO;
            offset += run.len();
        }
        Ok(())
    }
}

fn names(spec: &super::SamplerSpec, keys: Vec<ArrayRef>) -> impl Iterator<Item = NamedColumn> {
    spec.keys.iter().map(|&key| spec.input_schema.field(key).name().clone()).zip(keys)
}
