//! `raw`: a record is the value of the only column. Of files it is in `raw/lines.rs`.

pub(crate) mod lines;

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, BinaryBuilder, BooleanBuilder, Float32Array, Float64Array, Int8Array,
    Int16Array, Int32Array, Int64Array, RecordBatch, StringBuilder,
};
use arrow::datatypes::{
    DataType, Field, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, Schema, SchemaRef,
};

use crate::OptionError;
use crate::format::Format;
use crate::options::OptionReader;
use crate::record::{BadRecord, RecordDecoder, RecordEncoder, Records};

#[derive(Clone, Copy, Debug)]
struct Raw {
    is_little_endian: bool,
}

pub(crate) fn read_format(
    schema: &Schema,
    options: &OptionReader<'_>,
) -> Result<Arc<dyn Format>, OptionError> {
    let (raw, _) = read_options(schema, options)?;
    Ok(Arc::new(raw))
}

/// The options, and the only column.
fn read_options<'a>(schema: &'a Schema, options: &OptionReader<'_>) -> Result<(Raw, &'a Field), OptionError> {
    let charset = options.text("raw.charset").unwrap_or("UTF-8");
    if !charset.eq_ignore_ascii_case("utf-8") {
        return Err(options.error("raw.charset", format!("'{charset}' is not supported; texts are UTF-8")));
    }
    let endianness = [("big-endian", false), ("little-endian", true)];
    let is_little_endian = options.choice("raw.endianness", &endianness)?.unwrap_or(false);
    let refused = match schema.fields().as_ref() {
        [field] if is_supported(field.data_type()) => return Ok((Raw { is_little_endian }, field)),
        [field] => format!("raw cannot hold column '{}' of type {}", field.name(), field.data_type()),
        fields => format!("raw holds one column, and there are {}", fields.len()),
    };
    Err(options.error("format", refused))
}

fn is_supported(data_type: &DataType) -> bool {
    use DataType::*;
    matches!(data_type, Utf8 | Binary | Boolean | Int8 | Int16 | Int32 | Int64 | Float32 | Float64)
}

impl Format for Raw {
    fn extension(&self) -> &'static str {
        "raw"
    }

    fn record_decoder(&self, schema: &SchemaRef, wanted: &SchemaRef) -> Box<dyn RecordDecoder> {
        Box::new(RawDecoder { raw: *self, schema: Arc::clone(schema), wanted: Arc::clone(wanted) })
    }

    fn record_encoder(&self, _schema: &SchemaRef) -> Box<dyn RecordEncoder> {
        Box::new(RawEncoder(*self))
    }
}

struct RawDecoder {
    raw: Raw,
    schema: SchemaRef,
    /// The column, or none.
    wanted: SchemaRef,
}

impl RecordDecoder for RawDecoder {
    fn decode(&mut self, records: &Records, range: Range<usize>, bad: &mut Vec<BadRecord>) -> RecordBatch {
        let field = self.schema.field(0);
        let mut good = Vec::with_capacity(range.len());
        for index in range {
            let fault = match records.get_opt(index) {
                None if field.is_nullable() => None,
                None => Some("a NOT NULL field is null".to_owned()),
                Some(bytes) => self.raw.fault(field.data_type(), bytes),
            };
            match fault {
                Some(reason) => {
                    bad.push(BadRecord { index, reason: format!("column '{}': {reason}", field.name()) });
                }
                None => good.push(records.get_opt(index)),
            }
        }
        let column = self.raw.column(field.data_type(), &good);
        let columns = self.wanted.fields().iter().map(|_| Arc::clone(&column)).collect();
        let size = arrow::array::RecordBatchOptions::new().with_row_count(Some(good.len()));
        RecordBatch::try_new_with_options(Arc::clone(&self.wanted), columns, &size)
            .expect("the column has its type, and NULL only where it may")
    }

    fn takes_null(&self) -> bool {
        true
    }
}

impl Raw {
    fn fault(self, data_type: &DataType, bytes: &[u8]) -> Option<String> {
        let width = match data_type {
            DataType::Utf8 => {
                return std::str::from_utf8(bytes).is_err().then(|| "not UTF-8".to_owned());
            }
            DataType::Binary => return None,
            other => width(other),
        };
        (bytes.len() != width).then(|| format!("{} bytes, where {data_type} has {width}", bytes.len()))
    }

    /// The values of records without a fault.
    fn column(self, data_type: &DataType, records: &[Option<&[u8]>]) -> ArrayRef {
        macro_rules! numbers {
            ($array:ty, $native:ty) => {{
                let values = records.iter().map(|record| {
                    record.map(|bytes| {
                        let bytes = bytes.try_into().expect("checked to be as long");
                        match self.is_little_endian {
                            true => <$native>::from_le_bytes(bytes),
                            false => <$native>::from_be_bytes(bytes),
                        }
                    })
                });
                Arc::new(values.collect::<$array>())
            }};
        }
        match data_type {
            DataType::Utf8 => {
                let mut texts = StringBuilder::new();
                let text = |bytes| std::str::from_utf8(bytes).expect("checked to be UTF-8");
                records.iter().for_each(|record| texts.append_option(record.map(text)));
                Arc::new(texts.finish())
            }
            DataType::Binary => {
                let mut values = BinaryBuilder::new();
                records.iter().for_each(|record| values.append_option(*record));
                Arc::new(values.finish())
            }
            DataType::Boolean => {
                let mut values = BooleanBuilder::new();
                records.iter().for_each(|record| values.append_option(record.map(|bytes| bytes[0] != 0)));
                Arc::new(values.finish())
            }
            DataType::Int8 => numbers!(Int8Array, i8),
            DataType::Int16 => numbers!(Int16Array, i16),
            DataType::Int32 => numbers!(Int32Array, i32),
            DataType::Int64 => numbers!(Int64Array, i64),
            DataType::Float32 => numbers!(Float32Array, f32),
            DataType::Float64 => numbers!(Float64Array, f64),
            other => unreachable!("{other} was refused with the options"),
        }
    }
}

fn width(data_type: &DataType) -> usize {
    data_type.primitive_width().unwrap_or(1)
}

struct RawEncoder(Raw);

impl RecordEncoder for RawEncoder {
    fn encode(&mut self, rows: &RecordBatch, records: &mut Records) -> Result<(), String> {
        let column = rows.column(0);
        macro_rules! numbers {
            ($kind:ty) => {
                for value in column.as_primitive::<$kind>() {
                    match (value, self.0.is_little_endian) {
                        (None, _) => records.push(None),
                        (Some(value), true) => records.push(Some(&value.to_le_bytes())),
                        (Some(value), false) => records.push(Some(&value.to_be_bytes())),
                    }
                }
            };
        }
        match column.data_type() {
            DataType::Utf8 => {
                column.as_string::<i32>().iter().for_each(|text| records.push(text.map(str::as_bytes)));
            }
            DataType::Binary => column.as_binary::<i32>().iter().for_each(|bytes| records.push(bytes)),
            DataType::Boolean => {
                let values = column.as_boolean().iter();
                values.for_each(|value| {
                    records.push(value.map(|value| [u8::from(value)]).as_ref().map(|b| &b[..]))
                });
            }
            DataType::Int8 => numbers!(Int8Type),
            DataType::Int16 => numbers!(Int16Type),
            DataType::Int32 => numbers!(Int32Type),
            DataType::Int64 => numbers!(Int64Type),
            DataType::Float32 => numbers!(Float32Type),
            DataType::Float64 => numbers!(Float64Type),
            other => unreachable!("{other} was refused with the options"),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round_trip(column: ArrayRef, is_little_endian: bool) -> Vec<Vec<u8>> {
        let schema = Arc::new(Schema::new(vec![Field::new("v", column.data_type().clone(), true)]));
        let rows = RecordBatch::try_new(Arc::clone(&schema), vec![column]).unwrap();
        let raw = Raw { is_little_endian };
        let mut records = Records::default();
        raw.record_encoder(&schema).encode(&rows, &mut records).unwrap();
        let mut bad = Vec::new();
        let read = raw.record_decoder(&schema, &schema).decode(&records, 0..records.len(), &mut bad);
        assert_eq!((read, bad), (rows, vec![]));
        (0..records.len()).map(|index| records.get(index).to_vec()).collect()
    }

    #[test]
    fn values_are_read_as_they_were_written() {
        assert_eq!(
            round_trip(Arc::new(Int32Array::from(vec![Some(258), None])), false),
            [vec![0, 0, 1, 2], vec![]]
        );
        assert_eq!(round_trip(Arc::new(Int32Array::from(vec![258])), true), [[2, 1, 0, 0]]);
        assert_eq!(round_trip(Arc::new(Float64Array::from(vec![1.5])), false)[0][..2], [0x3f, 0xf8]);
        let texts = arrow::array::StringArray::from(vec![Some("é"), Some(""), None]);
        assert_eq!(round_trip(Arc::new(texts), false), [vec![0xc3, 0xa9], vec![], vec![]]);
        round_trip(Arc::new(arrow::array::BooleanArray::from(vec![Some(true), Some(false), None])), false);
    }

    #[test]
    fn a_record_of_another_length_is_bad() {
        let schema = Arc::new(Schema::new(vec![Field::new("v", DataType::Int32, false)]));
        let mut records = Records::default();
        records.push(Some(b"abc"));
        records.push(Some(&[0, 0, 0, 7]));
        records.push(None);
        let mut bad = Vec::new();
        let raw = Raw { is_little_endian: false };
        let rows = raw.record_decoder(&schema, &schema).decode(&records, 0..3, &mut bad);
        assert_eq!(rows.column(0).as_primitive::<Int32Type>().values(), &[7]);
        let reasons: Vec<(usize, &str)> = bad.iter().map(|bad| (bad.index, bad.reason.as_str())).collect();
        let expected =
            [(0, "column 'v': 3 bytes, where Int32 has 4"), (2, "column 'v': a NOT NULL field is null")];
        assert_eq!(reasons, expected);
    }
}
