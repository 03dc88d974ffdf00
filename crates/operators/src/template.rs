//! Behind a shared source: rows are marked with their query on the way in, and results are sorted out by query on the
//! way out.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, RecordBatch, UInt32Array};
use arrow::compute::{concat_batches, take_record_batch};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef, UInt32Type};
use arrow::error::ArrowError;
use datafusion_common::ScalarValue;

use crate::slices::Slicing;
use crate::{InstanceContext, LateRows, Operator, OperatorError, OperatorFactory, StreamBatch, WindowKind};

mod saved;
mod slicer;

pub use saved::{SavedTemplate, Windows};
pub use slicer::{Slicer, SlicerSpec, Slices};

/// What queries have in common that differ in the constants of their filters alone: one operator does what each of them
/// does with its rows, with the query as one key more (NiagaraCQ's expression signatures, AStream's shared aggregation).
///
/// The query is a column of its input, behind all others, and comes out again by its name.
#[derive(Debug)]
pub struct Template {
    input_schema: SchemaRef,
    operator: OperatorFactory,
    /// The place of the query among the keys of the groups.
    member_key: usize,
    /// What it has in common with those that differ from it in their windows alone, and how long the slices are that its
    /// windows are made of, ms.
    slices: Option<(Arc<SlicerSpec>, i64)>,
}

/// Constants in the results of one query, where those of another have others: the template has NULL there.
#[derive(Clone, Debug)]
pub struct OwnConstants(Vec<(usize, ScalarValue)>);

/// Results of several queries, those of each together.
#[derive(Debug)]
pub struct ByMember {
    /// Without the column that says whose they are.
    rows: RecordBatch,
    /// Whose, and the rows that are theirs.
    parts: Vec<(u32, Range<u32>)>,
}

impl ByMember {
    /// Whose there are.
    pub fn members(&self) -> impl Iterator<Item = u32> {
        self.parts.iter().map(|(member, _)| *member)
    }

    /// What each of them has.
    pub fn parts(&self) -> impl Iterator<Item = (u32, StreamBatch)> {
        self.members().enumerate().map(|(place, member)| (member, self.part(place)))
    }

    /// The results of that one of them.
    pub fn part(&self, place: usize) -> StreamBatch {
        let Range { start, end } = self.parts[place].1;
        StreamBatch::on_time(self.rows.slice(start as usize, (end - start) as usize))
    }
}

impl Template {
    /// The name of the column that says whose a row is. Nobody can write it in SQL.
    pub const MEMBER: &'static str = "\u{1}member";

    /// Groups that are put together before somebody else may have his turn: some 100 µs of work.
    const BATCH_ROWS: usize = 512;

    /// One that reads these columns. The operator's input has a column more, as [`with_member`](Template::with_member) has
    /// it; it is a key of the operator's groups, in that place among them.
    pub fn new(source: &Schema, operator: OperatorFactory, member_key: usize) -> Template {
        Template { input_schema: Template::with_member(source), operator, member_key, slices: None }
    }

    /// One whose rows can be aggregated together with those of others that differ in their windows alone.
    #[must_use]
    pub fn with_slices(self, spec: Arc<SlicerSpec>, window: WindowKind) -> Template {
        let slices = Slicing::new(window).map(|slicing| (spec, slicing.slice_ms()));
        Template { slices, ..self }
    }

    /// What it has in common with those that differ from it in their windows alone, and how long the slices are that its
    /// windows are made of, ms. `None` where these have to see each row themselves.
    pub fn slices(&self) -> Option<(&Arc<SlicerSpec>, i64)> {
        self.slices.as_ref().map(|(spec, slice_ms)| (spec, *slice_ms))
    }

    /// Aggregates rows by slices of that length, for it and such others.
    ///
    /// # Errors
    /// If it has none, or if one cannot be made.
    pub fn slicer(&self, slice_ms: i64) -> Result<Slicer, OperatorError> {
        let spec = self.slices.as_ref().map(|(spec, _)| Arc::clone(spec));
        let spec = spec.ok_or_else(|| internal(&ArrowError::ComputeError("no slices".into())))?;
        Slicer::new(spec, slice_ms, &self.input_schema)
    }

    /// These columns and whose a row is.
    pub fn with_member(columns: &Schema) -> SchemaRef {
        let member = Field::new(Template::MEMBER, DataType::UInt32, false);
        let fields = columns.fields().iter().cloned().chain([Arc::new(member)]);
        Arc::new(Schema::new(fields.collect::<Vec<_>>()))
    }

    /// Whether it reads these columns.
    pub fn reads(&self, columns: &Schema) -> bool {
        *self.input_schema == *Template::with_member(columns)
    }

    /// The operator, for all who will join.
    ///
    /// # Errors
    /// If it cannot be built.
    pub fn operator(&self) -> Result<Box<dyn Operator>, OperatorError> {
        self.operator.make(&InstanceContext { instance: 0, parallelism: 1, batch_rows: Template::BATCH_ROWS })
    }

    /// Its input: pairs of a member and a row of the batch that is its. A row may be several members'.
    ///
    /// # Errors
    /// If the batch has other columns.
    pub fn input(&self, batch: &StreamBatch, rows: &[(u32, u32)]) -> Result<StreamBatch, OperatorError> {
        marked(&self.input_schema, batch, rows)
    }

    /// What the operator has sent, in the order that it was sent in for each member.
    ///
    /// # Errors
    /// If there is no column that says whose a row is.
    pub fn by_member(batches: &[StreamBatch]) -> Result<ByMember, OperatorError> {
        let Some(first) = batches.first() else {
            return Ok(ByMember { rows: RecordBatch::new_empty(Arc::new(Schema::empty())), parts: vec![] });
        };
        let schema = first.rows.schema();
        let rows = concat_batches(&schema, batches.iter().map(|batch| &batch.rows));
        let mut rows = rows.map_err(|error| internal(&error))?;
        let place = schema.index_of(Template::MEMBER).map_err(|error| internal(&error))?;
        let members = rows.remove_column(place);
        let members = members.as_primitive::<UInt32Type>().values();
        let mut order: Vec<u32> = (0..members.len() as u32).collect();
        // Stable: a member's rows stay in their order.
        order.sort_by_key(|&row| members[row as usize]);
        if !order.is_sorted() {
            rows = take_record_batch(&rows, &UInt32Array::from(order.clone()))
                .map_err(|error| internal(&error))?;
        }
        let of_members = order.chunk_by(|&one, &next| members[one as usize] == members[next as usize]);
        let mut first = 0;
        let parts = of_members.map(|of_member| {
            let rows = first..first + of_member.len() as u32;
            first = rows.end;
            (members[of_member[0] as usize], rows)
        });
        Ok(ByMember { parts: parts.collect(), rows })
    }

    /// Of rows that came too late: whose each is, and the end of the last window that it missed, ms.
    pub fn late(late: &LateRows) -> impl Iterator<Item = (u32, i64)> {
        let members = late.rows.column_by_name(Template::MEMBER);
        let members =
            members.into_iter().flat_map(|column| column.as_primitive::<UInt32Type>().values().to_vec());
        members.zip(late.window_end.values().iter().copied())
    }
}

impl OwnConstants {
    /// By column of the results, each of them once.
    pub fn new(of: Vec<(usize, ScalarValue)>) -> OwnConstants {
        OwnConstants(of)
    }

    /// Results with these.
    ///
    /// # Errors
    /// If there is no such column, or one of another type.
    pub fn put_into(&self, results: StreamBatch) -> Result<StreamBatch, OperatorError> {
        let rows = &results.rows;
        let mut columns = rows.columns().to_vec();
        for (place, value) in &self.0 {
            let Some(column) = columns.get_mut(*place) else {
                return Err(internal(&ArrowError::SchemaError(format!("no column {place} for a constant"))));
            };
            let constant = value.to_array_of_size(rows.num_rows());
            *column =
                constant.map_err(|error| internal(&ArrowError::from_external_error(Box::new(error))))?;
        }
        let rows = RecordBatch::try_new(rows.schema(), columns).map_err(|error| internal(&error))?;
        Ok(StreamBatch { rows, ..results })
    }
}

/// Rows of a batch, and behind their columns the number that is paired with each.
fn marked(
    schema: &SchemaRef,
    batch: &StreamBatch,
    rows: &[(u32, u32)],
) -> Result<StreamBatch, OperatorError> {
    let members: UInt32Array = rows.iter().map(|&(member, _)| member).collect();
    let are_all = rows.len() == batch.num_rows() && rows.iter().map(|&(_, row)| row).eq(0..rows.len() as u32);
    let mut columns: Vec<ArrayRef> = match are_all {
        true => batch.rows.columns().to_vec(),
        false => {
            let indices: UInt32Array = rows.iter().map(|&(_, row)| row).collect();
            let taken = take_record_batch(&batch.rows, &indices).map_err(|error| internal(&error))?;
            taken.columns().to_vec()
        }
    };
    columns.push(Arc::new(members));
    let with_member = RecordBatch::try_new(Arc::clone(schema), columns);
    let before = |before: &arrow::buffer::ScalarBuffer<i64>| {
        rows.iter().map(|&(_, row)| before[row as usize]).collect()
    };
    Ok(StreamBatch {
        rows: with_member.map_err(|error| internal(&error))?,
        watermark_before: batch.watermark_before.as_ref().map(before),
    })
}

fn internal(error: &ArrowError) -> OperatorError {
    OperatorError::Internal { operator: "template".into(), message: error.to_string() }
}

#[cfg(test)]
mod tests {
    use arrow::array::Int64Array;
    use arrow::datatypes::Int64Type;

    use super::*;

    fn batch(values: &[i64]) -> StreamBatch {
        let values: ArrayRef = Arc::new(Int64Array::from(values.to_vec()));
        StreamBatch {
            rows: RecordBatch::try_from_iter([("v", values)]).unwrap(),
            watermark_before: Some(vec![1, 2, 3].into()),
        }
    }

    #[test]
    fn rows_get_their_members_and_results_go_back_to_them() {
        let rows = batch(&[10, 20, 30]);
        let never = OperatorFactory::new(|_| {
            Err(OperatorError::Internal { operator: String::new(), message: String::new() })
        });
        let template = Template::new(&rows.rows.schema(), never, 0);
        assert!(template.reads(&rows.rows.schema()));
        let input = template.input(&rows, &[(7, 0), (7, 2), (3, 1), (3, 2)]).unwrap();
        assert_eq!(input.watermark_before.as_deref(), Some(&[1, 3, 2, 3][..]));
        let of_members = Template::by_member(&[input.slice(0, 3), input.slice(3, 1)]).unwrap();
        let numbers = |batch: StreamBatch| batch.rows.column(0).as_primitive::<Int64Type>().values().to_vec();
        let told: Vec<(u32, Vec<i64>)> =
            of_members.parts().map(|(member, batch)| (member, numbers(batch))).collect();
        assert_eq!(told, [(3, vec![20, 30]), (7, vec![10, 30])]);
        assert!(of_members.parts().all(|(_, batch)| batch.rows.num_columns() == 1));
        assert_eq!(Template::by_member(&[]).unwrap().parts().count(), 0);
        let late = LateRows { rows: input.rows, window_end: Int64Array::from(vec![5, 6, 5, 5]) };
        assert_eq!(Template::late(&late).collect::<Vec<_>>(), [(7, 5), (7, 6), (3, 5), (3, 5)]);
    }
}
