//! Fields of ROW columns that are decoded without the rest of these.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, RecordBatch, RecordBatchOptions};
use arrow::buffer::NullBuffer;
use arrow::compute::nullif;
use arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef};

use super::{BadRecord, RecordDecoder, Records};

/// A column of records, or a field in one that is a ROW.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldWay {
    /// Place of the column.
    pub column: usize,
    /// Places of the fields on the way from it; empty for the column itself.
    pub fields: Vec<usize>,
}

/// Takes fields out of columns that have no others.
pub(crate) struct FieldDecoder {
    /// Of the columns, with the fields that are asked for.
    decoder: Box<dyn RecordDecoder>,
    /// Where what was asked for is among these.
    ways: Vec<FieldWay>,
    schema: SchemaRef,
}

impl FieldDecoder {
    /// One of these, in their order, of records of this schema. `decoder` makes one of columns as they are told to it.
    pub fn of(
        schema: &SchemaRef,
        asked: &[FieldWay],
        decoder: impl FnOnce(&SchemaRef) -> Box<dyn RecordDecoder>,
    ) -> Box<dyn RecordDecoder> {
        let mut of_column: BTreeMap<usize, Vec<&[usize]>> = BTreeMap::new();
        for way in asked {
            of_column.entry(way.column).or_default().push(&way.fields);
        }
        let kept: Vec<Kept> = of_column.values().map(|ways| Kept::of(ways)).collect();
        let fields =
            of_column.keys().zip(&kept).map(|(column, kept)| kept.narrowed(&schema.fields()[*column]));
        let narrowed: SchemaRef = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        let ways = asked.iter().map(|way| {
            let column = of_column.range(..way.column).count();
            FieldWay { column, fields: kept[column].places(&way.fields) }
        });
        let ways: Vec<FieldWay> = ways.collect();
        let decoder = decoder(&narrowed);
        let is_plain = ways.iter().enumerate().all(|(at, way)| way.column == at && way.fields.is_empty());
        if is_plain {
            return decoder;
        }
        let fields: Vec<Field> = ways.iter().map(|way| field_at(&narrowed, way)).collect();
        Box::new(FieldDecoder { decoder, ways, schema: Arc::new(Schema::new(fields)) })
    }
}

impl RecordDecoder for FieldDecoder {
    fn decode(&mut self, records: &Records, range: Range<usize>, bad: &mut Vec<BadRecord>) -> RecordBatch {
        let rows = self.decoder.decode(records, range, bad);
        let columns = self.ways.iter().map(|way| {
            let column = Arc::clone(rows.column(way.column));
            way.fields.iter().fold(column, |row, &field| field_of(&row, field))
        });
        let columns: Vec<ArrayRef> = columns.collect();
        let size = RecordBatchOptions::new().with_row_count(Some(rows.num_rows()));
        RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &size)
            .expect("fields of the types that were asked for")
    }

    fn takes_null(&self) -> bool {
        self.decoder.takes_null()
    }
}

/// What is kept of a column: all, or some of its fields.
enum Kept {
    All,
    Fields(BTreeMap<usize, Kept>),
}

impl Kept {
    fn of(ways: &[&[usize]]) -> Kept {
        let mut of_field: BTreeMap<usize, Vec<&[usize]>> = BTreeMap::new();
        for way in ways {
            let Some((field, rest)) = way.split_first() else { return Kept::All };
            of_field.entry(*field).or_default().push(rest);
        }
        Kept::Fields(of_field.iter().map(|(field, ways)| (*field, Kept::of(ways))).collect())
    }

    fn narrowed(&self, field: &FieldRef) -> FieldRef {
        match (self, field.data_type()) {
            (Kept::Fields(kept), DataType::Struct(fields)) => {
                let fields = kept.iter().map(|(place, kept)| kept.narrowed(&fields[*place])).collect();
                Arc::new(field.as_ref().clone().with_data_type(DataType::Struct(fields)))
            }
            _ => Arc::clone(field),
        }
    }

    /// The way to a field among those that are kept.
    fn places(&self, way: &[usize]) -> Vec<usize> {
        match (self, way.split_first()) {
            (Kept::Fields(kept), Some((field, rest))) => {
                let place = kept.range(..field).count();
                std::iter::once(place).chain(kept[field].places(rest)).collect()
            }
            _ => way.to_vec(),
        }
    }
}

fn field_at(schema: &Schema, way: &FieldWay) -> Field {
    let column = schema.field(way.column).clone();
    way.fields.iter().fold(column, |row, &place| {
        let DataType::Struct(fields) = row.data_type() else { unreachable!("a way leads through rows") };
        let nullable = row.is_nullable() || fields[place].is_nullable();
        fields[place].as_ref().clone().with_nullable(nullable)
    })
}

/// A field of rows: NULL where the row is.
fn field_of(rows: &ArrayRef, field: usize) -> ArrayRef {
    let rows = rows.as_struct();
    let values = rows.column(field);
    let Some(nulls) = rows.nulls().filter(|nulls| nulls.null_count() > 0) else { return Arc::clone(values) };
    let both = NullBuffer::union(Some(nulls), values.nulls());
    // Decoders most often say so themselves.
    if both.is_some_and(|both| both.null_count() == values.null_count()) {
        return Arc::clone(values);
    }
    let are_null = BooleanArray::new(!nulls.inner(), None);
    nullif(values, &are_null).expect("as many fields as rows")
}

#[cfg(test)]
mod tests {
    use arrow::array::{Int64Array, StringArray, StructArray};
    use arrow::datatypes::Fields;

    use super::*;

    /// Gives the same rows, of the columns that it was made for.
    struct Given(RecordBatch);

    impl RecordDecoder for Given {
        fn decode(&mut self, _: &Records, range: Range<usize>, _: &mut Vec<BadRecord>) -> RecordBatch {
            self.0.slice(range.start, range.len())
        }
    }

    fn narrowed(rows: &ArrayRef, to: &DataType) -> ArrayRef {
        let DataType::Struct(fields) = to else { return Arc::clone(rows) };
        let from = rows.as_struct();
        let columns = fields
            .iter()
            .map(|field| narrowed(from.column_by_name(field.name()).unwrap(), field.data_type()))
            .collect();
        Arc::new(StructArray::new(fields.clone(), columns, from.nulls().cloned()))
    }

    #[test]
    fn a_field_is_taken_out_of_rows_that_have_no_others() {
        // a BIGINT, r ROW<x BIGINT NOT NULL, s ROW<y STRING, z BIGINT>, w BIGINT>, b BIGINT
        let inner: Fields =
            vec![Field::new("y", DataType::Utf8, true), Field::new("z", DataType::Int64, true)].into();
        let outer: Fields = vec![
            Field::new("x", DataType::Int64, false),
            Field::new("s", DataType::Struct(inner.clone()), true),
            Field::new("w", DataType::Int64, true),
        ]
        .into();
        let schema = Arc::new(Schema::new(vec![
            Field::new("a", DataType::Int64, true),
            Field::new("r", DataType::Struct(outer.clone()), true),
            Field::new("b", DataType::Int64, true),
        ]));
        let numbers = |of: [i64; 3]| Arc::new(Int64Array::from(of.to_vec())) as ArrayRef;
        let texts = Arc::new(StringArray::from(vec![Some("p"), None, Some("q")])) as ArrayRef;
        let s = StructArray::new(
            inner,
            vec![texts, numbers([1, 2, 3])],
            Some(NullBuffer::from(vec![true, true, false])),
        );
        let r = StructArray::new(
            outer,
            vec![numbers([10, 20, 30]), Arc::new(s), numbers([7, 8, 9])],
            Some(NullBuffer::from(vec![true, false, true])),
        );
        let rows = [numbers([4, 5, 6]), Arc::new(r) as ArrayRef, numbers([1, 1, 2])];

        let way = |column: usize, fields: &[usize]| FieldWay { column, fields: fields.to_vec() };
        let decoded = |asked: &[FieldWay]| {
            let mut told = None;
            let mut decoder = FieldDecoder::of(&schema, asked, |wanted| {
                told = Some(Arc::clone(wanted));
                let columns = wanted
                    .fields()
                    .iter()
                    .map(|field| narrowed(&rows[schema.index_of(field.name()).unwrap()], field.data_type()));
                Box::new(Given(RecordBatch::try_new(Arc::clone(wanted), columns.collect()).unwrap()))
            });
            (told.unwrap(), decoder.decode(&Records::default(), 0..3, &mut Vec::new()))
        };
        let names = |of: &DataType| {
            let DataType::Struct(fields) = of else { unreachable!() };
            fields.iter().map(|field| field.name().clone()).collect::<Vec<_>>()
        };

        let (told, given) = decoded(&[way(1, &[1, 0]), way(2, &[]), way(1, &[0])]);
        assert_eq!(names(told.field(0).data_type()), ["x", "s"]);
        assert_eq!(told.fields().len(), 2, "a is not decoded");
        assert_eq!(given.column(0).as_string::<i32>().iter().collect::<Vec<_>>(), [Some("p"), None, None]);
        assert_eq!(given.column(1), &rows[2]);
        // NOT NULL in a row that is NULL.
        assert_eq!(**given.column(2), Int64Array::from(vec![Some(10), None, Some(30)]));
        assert!(given.schema().field(2).is_nullable());

        // Who asks for the whole row, too, has it.
        let (told, given) = decoded(&[way(1, &[]), way(1, &[2])]);
        assert_eq!(names(told.field(0).data_type()), ["x", "s", "w"]);
        assert_eq!(given.column(0), &rows[1]);
        assert_eq!(**given.column(1), Int64Array::from(vec![Some(7), None, Some(9)]));

        let (told, given) = decoded(&[way(0, &[]), way(2, &[])]);
        assert_eq!(told.fields().len(), 2);
        assert_eq!(given.columns(), [Arc::clone(&rows[0]), Arc::clone(&rows[2])]);
    }
}
