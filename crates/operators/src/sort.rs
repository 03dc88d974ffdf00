//! Stands last in a query over bounded tables and gives its rows an order, once all have come; a LIMIT bounds what is
//! kept until then.

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, UInt32Array, UInt64Array};
use arrow::compute::{SortColumn, SortOptions, concat_batches, lexsort_to_indices, take_record_batch};
use arrow::datatypes::{SchemaRef, UInt64Type};
use arrow::error::ArrowError;
use laxity_graph::{EventTime, ProcessingTime};

use crate::expression::internal;
use crate::state::named;
use crate::{Flow, Operator, OperatorError, OperatorFactory, OperatorState, Outbox, StateError, StreamBatch};

/// ORDER BY, OFFSET and LIMIT of a bounded input, on one instance.
///
/// With an order it waits for the end of the input; rows that the order does not tell apart come as they came. Without
/// one rows go on until there are enough. No watermark but that of the end goes on: nothing behind has windows.
#[derive(Clone, Debug)]
pub struct SortSpec {
    /// As `explain` names it.
    pub name: String,
    /// Columns that come in, and go out.
    pub input_schema: SchemaRef,
    /// Columns to sort by. May be empty.
    pub order: Vec<(usize, SortOptions)>,
    /// OFFSET: rows left out first.
    pub skip: usize,
    /// LIMIT: rows that go out at most.
    pub fetch: Option<usize>,
}

impl SortSpec {
    /// Makes the instances.
    pub fn factory(self) -> OperatorFactory {
        OperatorFactory::new(move |context| {
            Ok(Box::new(Sort {
                left_out: self.skip,
                left: self.fetch,
                spec: self.clone(),
                batch_rows: context.batch_rows.max(1),
                waiting: Vec::new(),
                waiting_rows: 0,
                sorted: None,
                ingested: ProcessingTime::ZERO,
            }))
        })
    }
}

/// The operator of a [`SortSpec`].
struct Sort {
    spec: SortSpec,
    batch_rows: usize,
    /// Rows to come that are left out.
    left_out: usize,
    /// Rows that may still go out.
    left: Option<usize>,
    /// With an order: what came.
    waiting: Vec<RecordBatch>,
    waiting_rows: usize,
    /// At the end, what is still to go out.
    sorted: Option<RecordBatch>,
    ingested: ProcessingTime,
}

/// Rows kept at least before those beyond the LIMIT are dropped.
const KEPT_MIN: usize = 8_192;

impl Sort {
    /// The rows in order, those behind OFFSET and LIMIT left out.
    fn sort(&mut self) -> Result<RecordBatch, ArrowError> {
        let rows = concat_batches(&self.spec.input_schema, &self.waiting)?;
        self.waiting.clear();
        let order = self.spec.order.iter().map(|(column, options)| SortColumn {
            values: Arc::clone(rows.column(*column)),
            options: Some(*options),
        });
        let arrival = UInt32Array::from_iter_values(0..rows.num_rows() as u32);
        let arrival = SortColumn { values: Arc::new(arrival) as ArrayRef, options: None };
        let columns: Vec<SortColumn> = order.chain([arrival]).collect();
        let limit = self.spec.fetch.map(|fetch| fetch.saturating_add(self.spec.skip));
        let indices = lexsort_to_indices(&columns, limit)?;
        take_record_batch(&rows, &indices)
    }

    /// The part of rows that OFFSET and LIMIT leave.
    fn within(&mut self, rows: &RecordBatch) -> RecordBatch {
        let skipped = self.left_out.min(rows.num_rows());
        self.left_out -= skipped;
        let count = (rows.num_rows() - skipped).min(self.left.unwrap_or(usize::MAX));
        self.left = self.left.map(|left| left - count);
        rows.slice(skipped, count)
    }

    fn send(&mut self, out: &mut Outbox) -> Flow {
        let Some(sorted) = self.sorted.take() else { return Flow::Done };
        let count = sorted.num_rows().min(self.batch_rows);
        out.result(StreamBatch::on_time(sorted.slice(0, count)), self.ingested, None);
        if count < sorted.num_rows() {
            self.sorted = Some(sorted.slice(count, sorted.num_rows() - count));
            return Flow::More;
        }
        out.watermark(EventTime::MAX);
        Flow::Done
    }
}

impl Operator for Sort {
    fn on_batch(
        &mut self,
        _input: usize,
        batch: StreamBatch,
        ingested: ProcessingTime,
        out: &mut Outbox,
    ) -> Result<Flow, OperatorError> {
        if self.spec.order.is_empty() {
            let rows = self.within(&batch.rows);
            out.batch(StreamBatch::on_time(rows));
            return Ok(Flow::Done);
        }
        self.ingested = self.ingested.max(ingested);
        self.waiting_rows += batch.num_rows();
        self.waiting.push(batch.rows);
        // What is beyond the LIMIT now stays there.
        let limit = self.spec.fetch.map(|fetch| fetch.saturating_add(self.spec.skip));
        if limit.is_some_and(|limit| self.waiting_rows > limit.saturating_mul(2).max(KEPT_MIN)) {
            let first = self.sort().map_err(|e| internal(&self.spec.name, e))?;
            self.waiting_rows = first.num_rows();
            self.waiting.push(first);
        }
        Ok(Flow::Done)
    }

    fn on_watermark(&mut self, watermark: EventTime, out: &mut Outbox) -> Result<Flow, OperatorError> {
        if watermark < EventTime::MAX {
            return Ok(Flow::Done);
        }
        if !self.spec.order.is_empty() {
            let rows = self.sort().map_err(|e| internal(&self.spec.name, e))?;
            self.sorted = Some(self.within(&rows));
            return Ok(self.send(out));
        }
        out.watermark(watermark);
        Ok(Flow::Done)
    }

    fn resume(&mut self, out: &mut Outbox) -> Result<Flow, OperatorError> {
        Ok(self.send(out))
    }

    fn waits_for_time(&self) -> bool {
        false
    }

    fn save(&mut self) -> Result<OperatorState, StateError> {
        let left = self.left.map(|left| left as u64);
        let own = vec![
            named("left-out", UInt64Array::from(vec![self.left_out as u64])),
            named("left", UInt64Array::from(vec![left])),
            named(
                "rows",
                UInt64Array::from(vec![self.waiting.iter().map(|rows| rows.num_rows() as u64).sum::<u64>()]),
            ),
        ];
        OperatorState::default().with("sort", own)?.with_pieces("rows", self.waiting.clone())
    }

    fn restore(&mut self, mut state: OperatorState) -> Result<(), StateError> {
        let own = state.take("sort")?;
        self.left_out = own.only::<UInt64Type>("left-out")? as usize;
        own.expect_rows(1)?;
        self.left = own.optional::<UInt64Type>("left")?.iter().flatten().next().map(|left| left as usize);
        for part in state.take_pieces("rows") {
            self.waiting_rows += part.len();
            self.waiting.push(part.rest_rows(0, &self.spec.input_schema)?);
        }
        let rows = own.only::<UInt64Type>("rows")?;
        if self.waiting_rows as u64 != rows {
            return Err(own.mismatch(format!("{rows} rows"), self.waiting_rows.to_string()));
        }
        state.finish()
    }

    fn state_bytes(&self) -> usize {
        let waiting: usize = self.waiting.iter().map(RecordBatch::get_array_memory_size).sum();
        waiting + self.sorted.as_ref().map_or(0, RecordBatch::get_array_memory_size)
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::Int64Array;
    use arrow::datatypes::{DataType, Field, Schema};
    use proptest::prelude::*;

    use super::*;
    use crate::InstanceContext;
    use crate::drive::{Step, drive};

    proptest! {
        #[test]
        fn rows_are_those_of_a_stable_sort(
            keys in prop::collection::vec(prop::option::of(0_i64..6), 0..60),
            cut in 1_usize..20,
            batch_rows in 1_usize..9,
            descending in any::<bool>(),
            is_ordered in any::<bool>(),
            skip in 0_usize..9,
            fetch in prop::option::of(0_usize..20),
        ) {
            let schema = Arc::new(Schema::new(vec![
                Field::new("k", DataType::Int64, true),
                Field::new("n", DataType::Int64, false),
            ]));
            // Flink: NULL is the lowest value.
            let options = SortOptions { descending, nulls_first: !descending };
            let spec = SortSpec {
                name: "Sort".into(),
                input_schema: Arc::clone(&schema),
                order: if is_ordered { vec![(0, options)] } else { vec![] },
                skip,
                fetch,
            };
            let rows: Vec<(Option<i64>, i64)> = keys.into_iter().zip(0..).collect();
            let batch = |rows: &[(Option<i64>, i64)]| {
                let keys: Int64Array = rows.iter().map(|row| row.0).collect();
                let numbers = Int64Array::from_iter_values(rows.iter().map(|row| row.1));
                RecordBatch::try_new(Arc::clone(&schema), vec![Arc::new(keys), Arc::new(numbers)]).unwrap()
            };
            let context = InstanceContext { instance: 0, parallelism: 1, batch_rows };
            let mut operator = spec.factory().make(&context).unwrap();
            let steps = rows.chunks(cut).map(|rows| {
                Step::Batch(StreamBatch::on_time(batch(rows)), ProcessingTime::ZERO)
            });
            let steps = steps.chain([Step::Watermark(3), Step::Watermark(i64::MAX)]).collect();
            let answer = drive(operator.as_mut(), steps, if is_ordered { batch_rows } else { 0 });
            let mut expected = rows.clone();
            match (is_ordered, descending) {
                (false, _) => {}
                (true, false) => expected.sort_by_key(|row| row.0),
                (true, true) => expected.sort_by_key(|row| std::cmp::Reverse(row.0)),
            }
            let text = |(key, n): &(Option<i64>, i64)| {
                format!("{}|{n}", key.map_or("-".to_string(), |key| key.to_string()))
            };
            let expected: Vec<String> =
                expected.iter().skip(skip).take(fetch.unwrap_or(usize::MAX)).map(text).collect();
            prop_assert_eq!(answer.rows(), expected);
            prop_assert_eq!(answer.watermarks(), [i64::MAX]);
        }
    }
}
