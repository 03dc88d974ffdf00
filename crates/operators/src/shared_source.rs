//! The first operator of many queries over one table, done once: the columns, the watermark, and whose each row is.

use std::sync::Arc;

use arrow::array::{RecordBatch, UInt32Array};
use arrow::compute::{interleave_record_batch, take_record_batch};
use arrow::error::ArrowError;
use laxity_graph::{EventTime, ProcessingTime};

use crate::row_index::{Access, RowIndex};
use crate::{
    DeadRows, Emitted, Operator, OperatorError, OperatorState, Outbox, OwnConstants, SourceOperator,
    SourceSpec, StateError, StreamBatch, Template,
};

/// How a query reads a table together with others: what the source does to every row is done once for all who ask the
/// same of it, and each gets the rows that its filter may keep.
#[derive(Clone, Debug)]
pub struct SharedSourceSpec {
    /// What is done to every row.
    pub source: SourceSpec,
    /// Which rows it gets.
    pub access: Access,
    /// What it does with them, if that is what others do with theirs, and the access lets no other rows through.
    pub template: Option<Arc<Template>>,
    /// What its template leaves open in its results.
    pub constants: Option<Arc<OwnConstants>>,
}

/// A source that several queries share. It stands where each had a [`SourceOperator`] before its filter: rows and
/// watermarks are the same, row for row.
pub struct SharedSource {
    spec: SourceSpec,
    source: SourceOperator,
    index: RowIndex,
    outbox: Outbox,
    /// It has taken no rows, nor over what another had.
    is_fresh: bool,
}

/// Rows as those who share the source see them.
#[derive(Debug)]
pub struct FilledRows {
    /// The rows.
    pub batch: StreamBatch,
    /// Least and latest event time in them; `None` without event time.
    pub event_times: Option<(EventTime, EventTime)>,
    /// The watermark behind them.
    pub watermark: EventTime,
}

impl SharedSource {
    /// One that nobody has joined.
    ///
    /// # Errors
    /// If columns and schema do not fit each other.
    pub fn new(spec: &SourceSpec) -> Result<SharedSource, OperatorError> {
        let source = SourceOperator::new(spec)?;
        let (index, outbox) = (RowIndex::default(), Outbox::default());
        Ok(SharedSource { spec: spec.clone(), source, index, outbox, is_fresh: true })
    }

    /// Another at the same place of the stream, for some of those who have joined this one.
    ///
    /// # Errors
    /// As for [`new`](SharedSource::new).
    pub fn fork(&self) -> Result<SharedSource, OperatorError> {
        let source = self.source.fork(&self.spec)?;
        Ok(SharedSource { source, is_fresh: self.is_fresh, ..SharedSource::new(&self.spec)? })
    }

    /// What each of those who share it would have saved of its own source.
    ///
    /// # Errors
    /// If a table cannot be made of it.
    pub fn save(&mut self) -> Result<OperatorState, StateError> {
        self.source.save()
    }

    /// Takes over what one that shares it has saved, which has come to the same place; the watermark then. Of several, none
    /// is taken back.
    ///
    /// # Errors
    /// If it does not fit.
    pub fn absorb(&mut self, state: OperatorState) -> Result<EventTime, OperatorError> {
        let internal =
            |message: String| OperatorError::Internal { operator: self.spec.name.clone(), message };
        if std::mem::take(&mut self.is_fresh) {
            self.source.restore(state).map_err(|error| internal(error.to_string()))?;
        } else {
            let mut other = SourceOperator::new(&self.spec)?;
            other.restore(state).map_err(|error| internal(error.to_string()))?;
            self.source.absorb(&other);
        }
        Ok(self.source.watermark())
    }

    /// Whether it does what is asked for.
    pub fn serves(&self, spec: &SourceSpec) -> bool {
        self.spec == *spec
    }

    /// Rows that this access lets through are this member's from now on.
    pub fn join(&mut self, member: u32, access: &Access) {
        self.index.join(member, access);
    }

    /// The member takes no more rows. `access` is what it joined with.
    pub fn leave(&mut self, member: u32, access: &Access) {
        self.index.leave(member, access);
    }

    /// Takes rows as they are read; those refused go to `dead`.
    ///
    /// # Errors
    /// If a computed column fails: whoever shares the source asked for it.
    pub fn fill(
        &mut self,
        batch: StreamBatch,
        ingested: ProcessingTime,
        dead: &mut Vec<DeadRows>,
    ) -> Result<FilledRows, OperatorError> {
        self.is_fresh = false;
        let _done = self.source.on_batch(0, batch, ingested, &mut self.outbox)?;
        dead.append(&mut self.outbox.dead);
        let mut rows = None;
        for emitted in self.outbox.emitted.drain(..) {
            if let Emitted::Batch { batch, .. } = emitted {
                rows = Some(batch);
            }
        }
        let empty = || StreamBatch::on_time(RecordBatch::new_empty(self.spec.output_schema.clone()));
        Ok(FilledRows {
            batch: rows.unwrap_or_else(empty),
            event_times: self.source.event_times(),
            watermark: self.source.watermark(),
        })
    }

    /// Pairs of a member and a row that it gets, in that order, each once.
    pub fn choose(&mut self, batch: &StreamBatch, chosen: &mut Vec<(u32, u32)>) {
        self.index.choose(&batch.rows, chosen);
    }

    /// Rows of several batches as one: by the batch and the row in it.
    ///
    /// # Errors
    /// If the batches are not alike, which those of one source always are.
    pub fn gather(batches: &[&StreamBatch], rows: &[(usize, usize)]) -> Result<StreamBatch, OperatorError> {
        let gathered = match batches {
            [batch] => {
                let indices: UInt32Array = rows.iter().map(|&(_, row)| row as u32).collect();
                take_record_batch(&batch.rows, &indices)
            }
            _ => {
                let of: Vec<&RecordBatch> = batches.iter().map(|batch| &batch.rows).collect();
                interleave_record_batch(&of, rows)
            }
        };
        let internal = |error: ArrowError| OperatorError::Internal {
            operator: "shared source".into(),
            message: error.to_string(),
        };
        let is_judged = rows.iter().any(|&(batch, _)| batches[batch].watermark_before.is_some());
        // On time, which is what a watermark at the beginning of time says.
        let before = |&(batch, row): &(usize, usize)| {
            let batch: &StreamBatch = batches[batch];
            batch.watermark_before.as_ref().map_or(i64::MIN, |before| before[row])
        };
        Ok(StreamBatch {
            rows: gathered.map_err(internal)?,
            watermark_before: is_judged.then(|| rows.iter().map(before).collect()),
        })
    }
}

#[cfg(test)]
mod tests;
