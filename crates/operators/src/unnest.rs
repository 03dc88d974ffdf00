//! `CROSS JOIN UNNEST` of arrays and maps: one row may become any number, so the answer is given in pieces.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, Int32Array, RecordBatch, UInt32Array};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::compute::{nullif, take, take_arrays};
use arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef};
use arrow::error::ArrowError;
use laxity_graph::{EventTime, ProcessingTime};

use crate::expression::internal;
use crate::{Flow, Operator, OperatorError, OperatorFactory, OperatorState, Outbox, StateError, StreamBatch};

/// Each row once for every element of an array or map that is in one of its columns: `CROSS JOIN UNNEST(c)`.
///
/// Rows come out in order, and their elements in that of the array. Nothing is kept, so times, watermarks and windows
/// go through as they are.
#[derive(Clone, Debug)]
pub struct UnnestSpec {
    /// As `explain` names it.
    pub name: String,
    /// Columns that come in.
    pub input_schema: SchemaRef,
    /// The column of arrays or maps.
    pub column: usize,
    /// Columns of the input that go out, before those of the element.
    pub kept: Vec<usize>,
    /// Adds the element's place in its array, from 1, as a column behind the element's.
    pub with_ordinality: bool,
    /// A row without elements goes out once, with NULLs in their place: `LEFT JOIN UNNEST(c) ON TRUE`.
    pub keeps_empty: bool,
}

impl UnnestSpec {
    /// What the elements of an array or map of this type come out as: the fields of a ROW, which are NULL where that is,
    /// key and value of a MAP, or the element itself. `None` if it is neither.
    pub fn element_fields(collection: &DataType) -> Option<Vec<FieldRef>> {
        let named = |name: &str, field: &Field| Arc::new(Field::new(name, field.data_type().clone(), true));
        match collection {
            DataType::List(item) => Some(match item.data_type() {
                DataType::Struct(fields) => fields.iter().map(|field| named(field.name(), field)).collect(),
                _ => vec![named("EXPR$0", item)],
            }),
            DataType::Map(entries, _) => match entries.data_type() {
                DataType::Struct(fields) if fields.len() == 2 => {
                    Some(vec![named("KEY", &fields[0]), named("VALUE", &fields[1])])
                }
                _ => None,
            },
            _ => None,
        }
    }

    /// The place of an element.
    pub fn place_field(nullable: bool) -> FieldRef {
        Arc::new(Field::new("ORDINALITY", DataType::Int32, nullable))
    }

    /// The columns kept, those of the element, and its place.
    ///
    /// # Errors
    /// If the column is neither array nor map.
    pub fn output_schema(&self) -> Result<SchemaRef, OperatorError> {
        let collection = self.input_schema.field(self.column);
        let elements = UnnestSpec::element_fields(collection.data_type())
            .ok_or_else(|| internal(&self.name, format!("{collection} has no elements")))?;
        let place = self.with_ordinality.then(|| UnnestSpec::place_field(self.keeps_empty));
        let kept = self.kept.iter().map(|&column| Arc::clone(&self.input_schema.fields()[column]));
        Ok(Arc::new(Schema::new(kept.chain(elements).chain(place).collect::<Vec<_>>())))
    }

    /// Makes the instances.
    pub fn factory(self) -> OperatorFactory {
        OperatorFactory::new(move |context| {
            Ok(Box::new(Unnest {
                output: self.output_schema()?,
                spec: self.clone(),
                batch_rows: context.batch_rows.max(1),
                pending: None,
            }))
        })
    }
}

/// The operator of an [`UnnestSpec`].
struct Unnest {
    spec: UnnestSpec,
    output: SchemaRef,
    batch_rows: usize,
    pending: Option<Pending>,
}

/// A batch being taken apart.
struct Pending {
    batch: StreamBatch,
    collections: Collections,
    row: usize,
    /// How many elements of that row are out.
    element: usize,
}

/// A column of arrays or maps.
struct Collections {
    offsets: OffsetBuffer<i32>,
    nulls: Option<NullBuffer>,
    /// The elements of all rows, one behind the other; several columns where an element is a ROW or an entry.
    elements: Vec<ArrayRef>,
}

impl Collections {
    fn of(column: &ArrayRef) -> Result<Option<Collections>, ArrowError> {
        if let Some(maps) = column.as_map_opt() {
            return Ok(Some(Collections {
                offsets: maps.offsets().clone(),
                nulls: maps.nulls().cloned(),
                elements: vec![Arc::clone(maps.keys()), Arc::clone(maps.values())],
            }));
        }
        let Some(lists) = column.as_list_opt::<i32>() else { return Ok(None) };
        let elements = match lists.values().as_struct_opt() {
            None => vec![Arc::clone(lists.values())],
            Some(rows) => match rows.nulls() {
                None => rows.columns().to_vec(),
                Some(nulls) => {
                    let is_null = BooleanArray::new(!nulls.inner(), None);
                    rows.columns().iter().map(|field| nullif(field, &is_null)).collect::<Result<_, _>>()?
                }
            },
        };
        Ok(Some(Collections { offsets: lists.offsets().clone(), nulls: lists.nulls().cloned(), elements }))
    }

    /// Where the elements of a row are. NULL has none.
    fn range(&self, row: usize) -> Range<usize> {
        if self.nulls.as_ref().is_some_and(|nulls| nulls.is_null(row)) {
            return 0..0;
        }
        self.offsets[row] as usize..self.offsets[row + 1] as usize
    }
}

/// Rows that go out.
#[derive(Default)]
struct Taken {
    rows: Vec<u32>,
    /// `None`: a row without elements.
    elements: Vec<Option<u32>>,
    places: Vec<Option<i32>>,
}

impl Unnest {
    /// Puts out one batch.
    fn step(&mut self, out: &mut Outbox) -> Result<Flow, OperatorError> {
        let Some(mut pending) = self.pending.take() else { return Ok(Flow::Done) };
        let taken = self.take(&mut pending);
        if !taken.rows.is_empty() {
            let batch = self.output(&pending, taken).map_err(|e| internal(&self.spec.name, e))?;
            out.batch(batch);
        }
        if pending.row == pending.batch.num_rows() {
            return Ok(Flow::Done);
        }
        self.pending = Some(pending);
        Ok(Flow::More)
    }

    fn take(&self, pending: &mut Pending) -> Taken {
        let mut taken = Taken::default();
        while pending.row < pending.batch.num_rows() && taken.rows.len() < self.batch_rows {
            let row = pending.row as u32;
            let range = pending.collections.range(pending.row);
            let from = pending.element;
            let to = range.len().min(from + self.batch_rows - taken.rows.len());
            if range.is_empty() && self.spec.keeps_empty {
                taken.rows.push(row);
                taken.elements.push(None);
                taken.places.push(None);
            }
            taken.rows.extend(std::iter::repeat_n(row, to - from));
            taken.elements.extend((range.start + from..range.start + to).map(|at| Some(at as u32)));
            if self.spec.with_ordinality {
                taken.places.extend((from + 1..=to).map(|place| Some(place as i32)));
            }
            if to < range.len() {
                pending.element = to;
                break;
            }
            (pending.row, pending.element) = (pending.row + 1, 0);
        }
        taken
    }

    fn output(&self, pending: &Pending, taken: Taken) -> Result<StreamBatch, ArrowError> {
        let Taken { rows, elements, places } = taken;
        let batch = &pending.batch;
        let before = batch.watermark_before.as_ref();
        let watermark_before = before.map(|b| rows.iter().map(|&row| b[row as usize]).collect());
        let kept: Vec<ArrayRef> =
            self.spec.kept.iter().map(|&column| Arc::clone(batch.rows.column(column))).collect();
        let mut columns = take_arrays(&kept, &UInt32Array::from(rows), None)?;
        match one_range(&elements) {
            Some(range) => {
                let slice = |column: &ArrayRef| column.slice(range.start, range.len());
                columns.extend(pending.collections.elements.iter().map(slice));
            }
            None => {
                let elements = UInt32Array::from(elements);
                for column in &pending.collections.elements {
                    columns.push(take(column, &elements, None)?);
                }
            }
        }
        if self.spec.with_ordinality {
            columns.push(Arc::new(Int32Array::from(places)));
        }
        let rows = RecordBatch::try_new(Arc::clone(&self.output), columns)?;
        Ok(StreamBatch { rows, watermark_before })
    }
}

/// The elements as they lie, where none is passed over: they need not be copied then.
fn one_range(elements: &[Option<u32>]) -> Option<Range<usize>> {
    let first = (*elements.first()?)?;
    let in_order = elements.iter().zip(first..).all(|(element, expected)| *element == Some(expected));
    in_order.then_some(first as usize..first as usize + elements.len())
}

impl Operator for Unnest {
    fn on_batch(
        &mut self,
        _input: usize,
        batch: StreamBatch,
        _ingested: ProcessingTime,
        out: &mut Outbox,
    ) -> Result<Flow, OperatorError> {
        let column = batch.rows.column(self.spec.column);
        let collections = Collections::of(column)
            .map_err(|e| internal(&self.spec.name, e))?
            .ok_or_else(|| internal(&self.spec.name, format!("{} has no elements", column.data_type())))?;
        self.pending = Some(Pending { batch, collections, row: 0, element: 0 });
        self.step(out)
    }

    fn on_watermark(&mut self, watermark: EventTime, out: &mut Outbox) -> Result<Flow, OperatorError> {
        out.watermark(watermark);
        Ok(Flow::Done)
    }

    fn waits_for_time(&self) -> bool {
        false
    }

    fn save(&mut self) -> Result<OperatorState, StateError> {
        Ok(OperatorState::default())
    }

    fn restore(&mut self, state: OperatorState) -> Result<(), StateError> {
        state.finish()
    }

    fn resume(&mut self, out: &mut Outbox) -> Result<Flow, OperatorError> {
        self.step(out)
    }

    fn state_bytes(&self) -> usize {
        self.pending.as_ref().map_or(0, |pending| pending.batch.rows.get_array_memory_size())
    }
}

#[cfg(test)]
mod tests;
