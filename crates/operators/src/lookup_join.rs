//! A stream enriched from a table at processing time; the table is read elsewhere, and a batch keeps the version it
//! began with.

mod table;

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, UInt32Array};
use arrow::compute::take_arrays;
use arrow::datatypes::SchemaRef;
use datafusion_physical_expr::PhysicalExpr;
use laxity_graph::{EventTime, ProcessingTime, RowErrors};

use crate::expression::{Selection, internal};
use crate::join_keys::{EncodedKeys, KeyEncoder};
use crate::join_output::JoinOutput;
use crate::{
    DeadRows, Flow, JoinKind, Operator, OperatorError, OperatorState, Outbox, StateError, StreamBatch,
};
pub use table::{LookupRows, LookupTable};

/// Puts the rows of a table beside those of a stream: `JOIN dim FOR SYSTEM_TIME AS OF o.proctime AS d ON o.k = d.k`.
///
/// A row meets the table as it is when the row is processed; a later version of the table changes no result that is
/// out. Nothing is kept of the stream, so times, watermarks and windows go through as they are.
#[derive(Clone, Debug)]
pub struct LookupJoinSpec {
    /// As `explain` names it.
    pub name: String,
    /// Inner or left.
    pub kind: JoinKind,
    /// Columns of the stream.
    pub stream_schema: SchemaRef,
    /// Its key columns. May be empty: every row of the table is met then.
    pub stream_keys: Vec<usize>,
    /// Columns of the table.
    pub table_schema: SchemaRef,
    /// Its key columns, of the same types as the stream's, in the same order.
    pub table_keys: Vec<usize>,
    /// What a pair must fulfil besides, over the stream's columns and then the table's.
    pub condition: Option<Arc<dyn PhysicalExpr>>,
    /// What becomes of a pair over which the condition fails.
    pub row_errors: RowErrors,
}

impl LookupJoinSpec {
    /// The stream's columns, then the table's, nullable where rows without a partner are kept.
    pub fn output_schema(&self) -> SchemaRef {
        self.kind.output_schema(&self.stream_schema, &self.table_schema)
    }

    /// Makes one instance.
    ///
    /// # Errors
    /// If the keys do not fit each other, or the join is neither inner nor left.
    pub fn operator(
        &self,
        table: Arc<LookupTable>,
        batch_rows: usize,
    ) -> Result<Box<dyn Operator>, OperatorError> {
        if !matches!(self.kind, JoinKind::Inner | JoinKind::Left) {
            return Err(internal(&self.name, format!("a lookup join cannot be {}", self.kind)));
        }
        let key_types = |schema: &SchemaRef, keys: &[usize]| -> Vec<_> {
            keys.iter().map(|&key| schema.field(key).data_type().clone()).collect()
        };
        let stream_types = key_types(&self.stream_schema, &self.stream_keys);
        let table_types = key_types(&self.table_schema, &self.table_keys);
        if stream_types != table_types {
            return Err(internal(&self.name, format!("keys {stream_types:?} and {table_types:?}")));
        }
        let keys = KeyEncoder::new(&self.stream_schema, &self.stream_keys);
        Ok(Box::new(LookupJoin {
            keys: keys.map_err(|e| internal(&self.name, e))?,
            has_keys: !self.stream_keys.is_empty(),
            keeps_unmatched: self.kind == JoinKind::Left,
            output: JoinOutput::new(
                self.name.clone(),
                self.kind,
                Arc::clone(&self.stream_schema),
                Arc::clone(&self.table_schema),
                self.condition.clone(),
                self.row_errors,
            ),
            output_schema: self.output_schema(),
            table,
            batch_rows: batch_rows.max(1),
            pending: None,
        }))
    }
}

/// The operator of a [`LookupJoinSpec`].
struct LookupJoin {
    keys: KeyEncoder,
    has_keys: bool,
    keeps_unmatched: bool,
    output: JoinOutput,
    output_schema: SchemaRef,
    table: Arc<LookupTable>,
    batch_rows: usize,
    pending: Option<Pending>,
}

/// A batch being joined.
struct Pending {
    batch: StreamBatch,
    keys: EncodedKeys,
    /// The version that all rows of the batch meet, however long it takes.
    table: Arc<LookupRows>,
    row: usize,
    /// How many partners of that row have been looked at.
    partner: usize,
    /// Whether one of them was a match.
    matched: bool,
}

/// Rows to be put side by side.
#[derive(Default)]
struct Pairs {
    stream: Vec<u32>,
    /// `None`: padding.
    table: Vec<Option<u32>>,
}

impl Pairs {
    fn with_capacity(pairs: usize) -> Pairs {
        Pairs { stream: Vec::with_capacity(pairs), table: Vec::with_capacity(pairs) }
    }

    fn push(&mut self, stream: usize, table: Option<u32>) {
        self.stream.push(stream as u32);
        self.table.push(table);
    }
}

impl LookupJoin {
    /// Puts out one batch.
    fn join(&mut self, out: &mut Outbox) -> Result<Flow, OperatorError> {
        let Some(mut pending) = self.pending.take() else { return Ok(Flow::Done) };
        let pairs = match self.output.has_condition() {
            false => self.equal_pairs(&mut pending),
            true => self.fulfilling_pairs(&mut pending, &mut out.dead)?,
        };
        if !pairs.stream.is_empty() {
            out.batch(self.joined(&pending, pairs)?);
        }
        if pending.row == pending.batch.num_rows() {
            return Ok(Flow::Done);
        }
        self.pending = Some(pending);
        Ok(Flow::More)
    }

    fn equal_pairs(&self, pending: &mut Pending) -> Pairs {
        let left = pending.batch.num_rows() - pending.row;
        let mut pairs = Pairs::with_capacity(self.batch_rows.min(left));
        while pending.row < pending.batch.num_rows() && pairs.stream.len() < self.batch_rows {
            let partners = pending.table.partners(&pending.keys, pending.row);
            if partners.is_empty() && self.keeps_unmatched {
                pairs.push(pending.row, None);
            }
            let wanted = self.batch_rows - pairs.stream.len();
            let taken = partners.iter().skip(pending.partner).take(wanted);
            let before = pairs.stream.len();
            taken.for_each(|&partner| pairs.push(pending.row, Some(partner)));
            let partner = match partners.is_empty() {
                true => 0,
                false => pending.partner + pairs.stream.len() - before,
            };
            if partner < partners.len() {
                pending.partner = partner;
                break;
            }
            (pending.row, pending.partner) = (pending.row + 1, 0);
        }
        pairs
    }

    fn fulfilling_pairs(
        &self,
        pending: &mut Pending,
        dead: &mut Vec<DeadRows>,
    ) -> Result<Pairs, OperatorError> {
        let mut candidates = Pairs::default();
        // How many candidates each row has here, and whether they are its last.
        let mut rows: Vec<(usize, usize, bool)> = Vec::new();
        let mut budget = self.batch_rows;
        let (mut row, mut partner) = (pending.row, pending.partner);
        while row < pending.batch.num_rows() && budget > 0 {
            let partners = pending.table.partners(&pending.keys, row);
            let taken = (partners.len() - partner).min(budget);
            partners[partner..partner + taken].iter().for_each(|&p| candidates.push(row, Some(p)));
            let is_last = partner + taken == partners.len();
            rows.push((row, taken, is_last));
            // A row without partners may be padded.
            budget -= taken.max(1).min(budget);
            (row, partner) = if is_last { (row + 1, 0) } else { (row, partner + taken) };
        }
        (pending.row, pending.partner) = (row, partner);
        let selection = match candidates.stream.is_empty() {
            true => Selection::Nothing,
            false => {
                let (stream, table) = self.sides(pending, &candidates)?;
                self.output.select(&self.output.pairs(stream, table)?, dead)?
            }
        };
        let fulfils = |candidate: usize| match &selection {
            Selection::All => true,
            Selection::Nothing => false,
            Selection::Some(mask) => mask.value(candidate),
        };
        let mut pairs = Pairs::default();
        let mut candidate = 0;
        for (row, count, is_last) in rows {
            for at in candidate..candidate + count {
                if fulfils(at) {
                    pairs.push(row, candidates.table[at]);
                    pending.matched = true;
                }
            }
            candidate += count;
            if is_last && !std::mem::take(&mut pending.matched) && self.keeps_unmatched {
                pairs.push(row, None);
            }
        }
        Ok(pairs)
    }

    fn sides(
        &self,
        pending: &Pending,
        pairs: &Pairs,
    ) -> Result<(Vec<ArrayRef>, Vec<ArrayRef>), OperatorError> {
        let batch = &pending.batch.rows;
        let stream = match is_whole(&pairs.stream, batch.num_rows()) {
            true => batch.columns().to_vec(),
            false => take_arrays(batch.columns(), &UInt32Array::from(pairs.stream.clone()), None)
                .map_err(|e| self.output.bug(&e))?,
        };
        let partners = match self.keeps_unmatched {
            true => UInt32Array::from_iter(pairs.table.iter().copied()),
            false => UInt32Array::from_iter_values(pairs.table.iter().copied().flatten()),
        };
        let table = take_arrays(pending.table.rows().columns(), &partners, None);
        Ok((stream, table.map_err(|e| self.output.bug(&e))?))
    }

    fn joined(&self, pending: &Pending, pairs: Pairs) -> Result<StreamBatch, OperatorError> {
        let (mut columns, table) = self.sides(pending, &pairs)?;
        columns.extend(table);
        let rows = RecordBatch::try_new(Arc::clone(&self.output_schema), columns)
            .map_err(|e| self.output.bug(&e))?;
        let before = pending.batch.watermark_before.as_ref();
        let watermark_before = before.map(|b| pairs.stream.iter().map(|&row| b[row as usize]).collect());
        Ok(StreamBatch { rows, watermark_before })
    }
}

/// Whether these, which ascend, are all rows once each.
fn is_whole(rows: &[u32], count: usize) -> bool {
    rows.len() == count && rows.iter().enumerate().all(|(at, &row)| at == row as usize)
}

impl Operator for LookupJoin {
    fn on_batch(
        &mut self,
        _input: usize,
        batch: StreamBatch,
        _ingested: ProcessingTime,
        out: &mut Outbox,
    ) -> Result<Flow, OperatorError> {
        if batch.num_rows() == 0 {
            return Ok(Flow::Done);
        }
        let keys = self.keys.encode(&batch.rows).map_err(|e| self.output.bug(&e))?;
        let table = self.table.current();
        if self.has_keys != table.has_keys() {
            return Err(internal(&self.output.name, "the table is not in the order of the keys"));
        }
        self.pending = Some(Pending { batch, keys, table, row: 0, partner: 0, matched: false });
        self.join(out)
    }

    fn on_watermark(&mut self, watermark: EventTime, out: &mut Outbox) -> Result<Flow, OperatorError> {
        out.watermark(watermark);
        Ok(Flow::Done)
    }

    fn waits_for_time(&self) -> bool {
        false
    }

    /// The table is read again.
    fn save(&mut self) -> Result<OperatorState, StateError> {
        Ok(OperatorState::default())
    }

    fn restore(&mut self, state: OperatorState) -> Result<(), StateError> {
        state.finish()
    }

    fn resume(&mut self, out: &mut Outbox) -> Result<Flow, OperatorError> {
        self.join(out)
    }

    /// All of the table, for each query that reads it: it is that query's to bound.
    fn state_bytes(&self) -> usize {
        let pending = self.pending.as_ref().map_or(0, |p| p.batch.rows.get_array_memory_size());
        pending + self.table.current().size_bytes() / self.table.instances()
    }
}

#[cfg(test)]
mod tests;
