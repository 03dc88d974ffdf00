//! Rows as the text of COPY: a line a row, tabs between values, `\N` for NULL.

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, StringBuilder};
use arrow::compute::{CastOptions, cast, cast_with_options};
use arrow::datatypes::{DataType, SchemaRef, TimeUnit};
use arrow::error::ArrowError;
use arrow::util::display::{ArrayFormatter, FormatOptions};

/// Whether values of a type go both ways.
pub(crate) fn fits(data_type: &DataType) -> bool {
    use DataType::*;
    matches!(
        data_type,
        Boolean
            | Int8
            | Int16
            | Int32
            | Int64
            | Float32
            | Float64
            | Decimal128(..)
            | Utf8
            | Utf8View
            | Date32
            | Time32(_)
            | Time64(_)
            | Timestamp(..)
            | Binary
            | BinaryView
            | FixedSizeBinary(_)
    )
}

/// Appends rows to `out`.
pub(crate) fn encode(rows: &RecordBatch, out: &mut Vec<u8>) -> Result<(), ArrowError> {
    let options = FormatOptions::new();
    // A time of a zone goes out in UTC, which is what the connection is set to.
    let without_zone = |column: &ArrayRef| match column.data_type() {
        DataType::Timestamp(unit, Some(_)) => cast(column, &DataType::Timestamp(*unit, None)),
        _ => Ok(column.clone()),
    };
    let texts = rows.columns().iter().map(without_zone).collect::<Result<Vec<_>, ArrowError>>()?;
    let columns: Vec<(ArrayFormatter<'_>, bool, &ArrayRef)> = texts
        .iter()
        .map(|column| {
            let is_bytes = matches!(
                column.data_type(),
                DataType::Binary | DataType::BinaryView | DataType::FixedSizeBinary(_)
            );
            Ok((ArrayFormatter::try_new(column, &options)?, is_bytes, column))
        })
        .collect::<Result<_, ArrowError>>()?;
    let mut text = String::new();
    for row in 0..rows.num_rows() {
        for (place, (formatter, is_bytes, column)) in columns.iter().enumerate() {
            if place > 0 {
                out.push(b'\t');
            }
            if column.is_null(row) {
                out.extend_from_slice(b"\\N");
                continue;
            }
            text.clear();
            formatter.value(row).write(&mut text)?;
            if *is_bytes {
                out.extend_from_slice(b"\\\\x");
            }
            escape(text.as_bytes(), out);
        }
        out.push(b'\n');
    }
    Ok(())
}

fn escape(text: &[u8], out: &mut Vec<u8>) {
    let mut plain = 0;
    for (at, byte) in text.iter().enumerate() {
        let letter = match byte {
            b'\\' => b'\\',
            b'\n' => b'n',
            b'\r' => b'r',
            b'\t' => b't',
            _ => continue,
        };
        out.extend_from_slice(&text[plain..at]);
        out.extend_from_slice(&[b'\\', letter]);
        plain = at + 1;
    }
    out.extend_from_slice(&text[plain..]);
}

/// What the server is asked for in place of a column, so that its text is read here: times without their zone, bytes
/// as hexadecimal digits.
pub(crate) fn selected(column: &str, data_type: &DataType) -> String {
    match data_type {
        DataType::Timestamp(_, Some(_)) => format!("{column}::timestamptz AT TIME ZONE 'UTC'"),
        DataType::Binary | DataType::BinaryView | DataType::FixedSizeBinary(_) => {
            format!("encode({column}, 'hex')")
        }
        _ => column.to_owned(),
    }
}

/// Rows of whole lines, each with its end.
///
/// # Errors
/// Names the column of a value that is not of its type.
pub(crate) fn decode(lines: &[u8], schema: &SchemaRef) -> Result<RecordBatch, String> {
    let mut columns: Vec<StringBuilder> = schema.fields().iter().map(|_| StringBuilder::new()).collect();
    let mut count = 0;
    let mut text = Vec::new();
    // Behind the end of the last line is no other.
    let lines = lines.strip_suffix(b"\n").map(|lines| lines.split(|byte| *byte == b'\n'));
    for line in lines.into_iter().flatten() {
        let mut values = line.split(|byte| *byte == b'\t');
        for column in &mut columns {
            let value = values.next().ok_or("a line has too few values")?;
            if value == b"\\N" {
                column.append_null();
                continue;
            }
            text.clear();
            unescape(value, &mut text);
            column.append_value(std::str::from_utf8(&text).map_err(|error| error.to_string())?);
        }
        count += 1;
    }
    let arrays = schema.fields().iter().zip(&mut columns).map(|(field, column)| {
        let texts: ArrayRef = Arc::new(column.finish());
        parsed(&texts, field.data_type()).map_err(|error| format!("column {}: {error}", field.name()))
    });
    let arrays = arrays.collect::<Result<Vec<_>, String>>()?;
    let options = arrow::array::RecordBatchOptions::new().with_row_count(Some(count));
    RecordBatch::try_new_with_options(schema.clone(), arrays, &options).map_err(|error| error.to_string())
}

fn parsed(texts: &ArrayRef, wanted: &DataType) -> Result<ArrayRef, ArrowError> {
    let options = CastOptions { safe: false, ..CastOptions::default() };
    match wanted {
        DataType::Timestamp(unit, Some(_)) => {
            let naive = cast_with_options(texts, &DataType::Timestamp(*unit, None), &options)?;
            // The digits are of UTC, whatever the column's zone is called.
            let ticks = cast_with_options(&naive, &DataType::Int64, &options)?;
            cast_with_options(&ticks, wanted, &options)
        }
        DataType::Timestamp(TimeUnit::Millisecond, None) => {
            // Beyond milliseconds the digits are cut, as Flink does.
            let fine = cast_with_options(texts, &DataType::Timestamp(TimeUnit::Microsecond, None), &options)?;
            cast_with_options(&fine, wanted, &options)
        }
        DataType::Binary | DataType::BinaryView | DataType::FixedSizeBinary(_) => {
            let bytes: arrow::array::BinaryArray = {
                let texts = arrow::array::AsArray::as_string::<i32>(texts);
                texts.iter().map(|text| text.map(hex)).collect()
            };
            cast_with_options(&(Arc::new(bytes) as ArrayRef), wanted, &options)
        }
        _ => cast_with_options(texts, wanted, &options),
    }
}

fn hex(text: &str) -> Vec<u8> {
    let digit = |byte: u8| (byte as char).to_digit(16).unwrap_or(0) as u8;
    text.as_bytes().chunks_exact(2).map(|pair| digit(pair[0]) << 4 | digit(pair[1])).collect()
}

fn unescape(value: &[u8], out: &mut Vec<u8>) {
    let mut bytes = value.iter();
    while let Some(byte) = bytes.next() {
        if *byte != b'\\' {
            out.push(*byte);
            continue;
        }
        out.push(match bytes.next() {
            Some(b'b') => 8,
            Some(b'f') => 12,
            Some(b'n') => b'\n',
            Some(b'r') => b'\r',
            Some(b't') => b'\t',
            Some(b'v') => 11,
            Some(other) => *other,
            None => b'\\',
        });
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::{BinaryArray, BooleanArray, Decimal128Array, Float64Array, Int64Array, StringArray};
    use arrow::array::{Date32Array, TimestampMillisecondArray};
    use arrow::datatypes::{Field, Schema};

    use super::*;

    fn rows() -> RecordBatch {
        let ms = |zone: Option<&str>| -> ArrayRef {
            let times = TimestampMillisecondArray::from(vec![Some(1_700_000_000_123), Some(-1), None]);
            Arc::new(match zone {
                Some(zone) => times.with_timezone(zone),
                None => times,
            })
        };
        let columns: Vec<(&str, ArrayRef)> = vec![
            ("n", Arc::new(Int64Array::from(vec![Some(1), None, Some(i64::MIN)]))),
            ("s", Arc::new(StringArray::from(vec![Some("a\tb\\N\nc\rü"), Some(""), Some("\\N")]))),
            ("d", Arc::new(Float64Array::from(vec![Some(0.1), Some(1e300), Some(f64::INFINITY)]))),
            ("b", Arc::new(BooleanArray::from(vec![Some(true), Some(false), None]))),
            (
                "p",
                Arc::new(
                    Decimal128Array::from(vec![Some(-5), Some(1234), None])
                        .with_precision_and_scale(10, 3)
                        .unwrap(),
                ),
            ),
            ("day", Arc::new(Date32Array::from(vec![Some(0), Some(19_000), None]))),
            ("at", ms(None)),
            ("zoned", ms(Some("UTC"))),
        ];
        RecordBatch::try_from_iter_with_nullable(
            columns.into_iter().map(|(name, column)| (name, column, true)),
        )
        .unwrap()
    }

    #[test]
    fn rows_come_back() {
        let rows = rows();
        let mut text = Vec::new();
        encode(&rows, &mut text).unwrap();
        assert_eq!(decode(&text, &rows.schema()).unwrap(), rows);
    }

    #[test]
    fn bytes_go_out_as_hexadecimal_digits() {
        let bytes: ArrayRef = Arc::new(BinaryArray::from(vec![Some(&[0_u8, 255][..]), None]));
        let rows = RecordBatch::try_from_iter(vec![("b", bytes)]).unwrap();
        let mut text = Vec::new();
        encode(&rows, &mut text).unwrap();
        assert_eq!(String::from_utf8(text).unwrap(), "\\\\x00ff\n\\N\n");
        assert_eq!(decode(b"00ff\n\\N\n", &rows.schema()).unwrap().column(0), rows.column(0));
    }

    #[test]
    fn one_column_of_empty_texts_keeps_its_rows() {
        let schema = Arc::new(Schema::new(vec![Field::new("s", DataType::Utf8, true)]));
        assert_eq!(decode(b"\n\nx\n", &schema).unwrap().num_rows(), 3);
        assert_eq!(decode(b"", &schema).unwrap().num_rows(), 0);
    }

    #[test]
    fn a_value_of_another_type_names_its_column() {
        let schema = Arc::new(Schema::new(vec![Field::new("n", DataType::Int64, true)]));
        assert!(decode(b"x\n", &schema).unwrap_err().starts_with("column n: "));
    }
}
