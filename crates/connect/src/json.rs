//! `json`: one object a line or a record, with Flink's options. Arrow's decoder reads as much as it can; what only
//! Flink would read is for `json/field.rs`.

mod field;
mod record;

use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, BinaryBuilder, Decimal128Builder, RecordBatch, RecordBatchOptions, StringArray,
    Time32MillisecondArray,
};
use arrow::compute::{cast, concat_batches};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit};
use arrow::json::ReaderBuilder;
use arrow::json::reader::Decoder;
use memchr::memchr_iter;

use crate::compression::Compression;
use crate::dead_letter::BadRow;
use crate::decimal::parse_decimal;
use crate::encode::{LineEncoder, LineRecords};
use crate::format::{BadField, Format};
use crate::options::OptionReader;
use crate::record::{RecordDecoder, RecordEncoder};
use crate::text_file::{Decode, Decoded};
use crate::timestamp::parse_time;
use crate::zone::with_offset_zones;
use crate::{ConnectError, Encoder, OptionError, base64_text};

/// Lines decoded at a time: half of what CSV takes, because a line takes twice as long.
const PIECE_LINES: usize = 512;

/// How JSON rows are written. Reading takes both timestamp formats whatever is set.
#[derive(Clone, Debug)]
pub(crate) struct JsonOptions {
    pub iso_timestamps: bool,
    /// Leave null fields out when writing.
    pub ignore_nulls: bool,
    pub ignore_parse_errors: Option<bool>,
    pub bad_field: BadField,
}

pub(crate) fn read_format(
    _schema: &Schema,
    options: &OptionReader<'_>,
) -> Result<Arc<dyn Format>, OptionError> {
    if options.boolean("json.fail-on-missing-field")? == Some(true) {
        let message =
            "'true' is not supported: a missing field is NULL, and the row dead where its column is NOT NULL";
        return Err(options.error("json.fail-on-missing-field", message));
    }
    // In JSON 1E-7 and 0.0000001 are one number.
    options.boolean("json.encode.decimal-as-plain-number")?;
    options.choice("json.map-null-key.mode", &[("FAIL", ())])?;
    let formats = [("SQL", false), ("ISO-8601", true)];
    Ok(Arc::new(JsonOptions {
        iso_timestamps: options.choice("json.timestamp-format.standard", &formats)?.unwrap_or(false),
        ignore_nulls: options.boolean("json.encode.ignore-null-fields")?.unwrap_or(false),
        ignore_parse_errors: options.boolean("json.ignore-parse-errors")?,
        bad_field: BadField::read(options)?,
    }))
}

impl Format for JsonOptions {
    fn extension(&self) -> &'static str {
        "json"
    }

    fn ignore_parse_errors(&self) -> Option<bool> {
        self.ignore_parse_errors
    }

    fn unreadable(&self, schema: &Schema) -> Option<String> {
        unreadable_column(schema)
    }

    fn unwritable(&self, schema: &Schema) -> Option<String> {
        let field = schema.fields().iter().find(|field| has_unprintable_map(field))?;
        Some(format!("json needs STRING keys in the MAP of column '{}'", field.name()))
    }

    fn line_decoder(&self, schema: &SchemaRef, columns: &[usize]) -> Option<Box<dyn Decode>> {
        let wanted = schema.project(columns).expect("columns of the schema");
        Some(Box::new(JsonDecoder::new(Arc::new(wanted), self.bad_field)))
    }

    fn file_encoder(
        &self,
        schema: SchemaRef,
        _is_new: bool,
        compression: Compression,
        path: PathBuf,
    ) -> Result<Box<dyn Encoder>, ConnectError> {
        Ok(Box::new(LineEncoder::json(self, &schema, compression, path)?))
    }

    fn record_decoder(&self, _schema: &SchemaRef, wanted: &SchemaRef) -> Box<dyn RecordDecoder> {
        Box::new(JsonDecoder::new(Arc::clone(wanted), self.bad_field))
    }

    fn record_encoder(&self, schema: &SchemaRef) -> Box<dyn RecordEncoder> {
        let encoder = LineEncoder::json(self, schema, Compression::None, PathBuf::new());
        Box::new(LineRecords::new(encoder.expect("nothing is packed"), false))
    }
}

/// Decodes JSON lines: one object a line. Fields are taken by name; a missing one is null, others are ignored.
///
/// Arrow's decoder fails as a whole on one bad row, so lines are decoded together first, and in halves where
/// that fails, down to the bad line.
pub(crate) struct JsonDecoder {
    schema: SchemaRef,
    /// What Arrow decodes: texts where it would read DECIMAL, BYTES and TIME otherwise than Flink.
    readable: SchemaRef,
    bad_field: BadField,
    decoder: Decoder,
    /// Where the lines of the text at hand end, after the line feed.
    line_ends: Vec<usize>,
}

impl JsonDecoder {
    /// Into these columns, which are found by their names.
    pub(crate) fn new(schema: SchemaRef, bad_field: BadField) -> JsonDecoder {
        let readable = as_texts(&with_offset_zones(&schema));
        JsonDecoder { decoder: new_decoder(&readable), schema, readable, bad_field, line_ends: Vec::new() }
    }

    /// Decodes `lines`, appending to `rows` and `bad`.
    fn decode_lines(
        &mut self,
        text: Lines<'_>,
        lines: Range<usize>,
        rows: &mut Vec<RecordBatch>,
        bad: &mut Vec<(usize, String)>,
    ) {
        if lines.is_empty() {
            return;
        }
        let part = text.part(&lines);
        let decoded = match text.values_in(&lines) {
            Some(values) => self.decode_together(part, values),
            None => Err("a line is no object".to_owned()),
        };
        match decoded {
            Ok(batch) => rows.extend(batch),
            Err(reason) => {
                // The decoder keeps what it read before the fault.
                self.decoder = new_decoder(&self.readable);
                if lines.len() == 1 {
                    match self.decode_field_by_field(part) {
                        Some(row) => rows.push(row),
                        None => bad.push((lines.start, reason)),
                    }
                    return;
                }
                let middle = lines.start + lines.len() / 2;
                self.decode_lines(text, lines.start..middle, rows, bad);
                self.decode_lines(text, middle..lines.end, rows, bad);
            }
        }
    }

    /// Decodes one line that Arrow does not read as it is.
    fn decode_field_by_field(&mut self, line: &[u8]) -> Option<RecordBatch> {
        let line = field::readable_line(line, &self.schema, self.bad_field == BadField::Null)?;
        let decoded = self.decode_together(&line, 1);
        if decoded.is_err() {
            self.decoder = new_decoder(&self.readable);
        }
        decoded.ok()?
    }

    /// Decodes lines that must hold so many objects.
    fn decode_together(&mut self, part: &[u8], values: usize) -> Result<Option<RecordBatch>, String> {
        let clean = |error: arrow::error::ArrowError| {
            let text = error.to_string();
            let text = text.strip_prefix("Json error: ").unwrap_or(&text);
            match text.split_once("Encountered unmasked nulls in non-nullable StructArray child: Field ") {
                Some((_, field)) => format!("a NOT NULL field is missing or null: {field}"),
                None => text.to_owned(),
            }
        };
        let read = self.decoder.decode(part).map_err(clean)?;
        if !part[read..].trim_ascii().is_empty() {
            return Err("more than one value in a line".to_owned());
        }
        if self.decoder.has_partial_record() {
            return Err("the line ends inside a value".to_owned());
        }
        let batch = self.decoder.flush().map_err(clean)?;
        let rows = batch.as_ref().map_or(0, RecordBatch::num_rows);
        if rows != values {
            return Err("more than one value in a line".to_owned());
        }
        batch.map(|batch| self.declared(batch)).transpose()
    }

    /// Gives the columns their declared types.
    fn declared(&self, rows: RecordBatch) -> Result<RecordBatch, String> {
        if self.schema == self.readable {
            return Ok(rows);
        }
        let columns = rows.columns().iter().zip(self.schema.fields()).map(|(column, field)| {
            match (field.data_type(), column.as_string_opt::<i32>()) {
                (DataType::Decimal128(precision, scale), Some(texts)) => {
                    self.decimals(field, texts, *precision, *scale)
                }
                (DataType::Binary, Some(texts)) => self.bytes(field, texts),
                (DataType::Time32(_), Some(texts)) => self.times(field, texts),
                (declared, _) => Ok(cast(column, declared).expect("only names of zones differ")),
            }
        });
        let columns = columns.collect::<Result<Vec<_>, String>>()?;
        let size = RecordBatchOptions::new().with_row_count(Some(rows.num_rows()));
        RecordBatch::try_new_with_options(self.schema.clone(), columns, &size).map_err(|e| e.to_string())
    }

    fn decimals(
        &self,
        field: &Field,
        texts: &StringArray,
        precision: u8,
        scale: i8,
    ) -> Result<ArrayRef, String> {
        let mut values = Decimal128Builder::with_capacity(texts.len());
        for text in texts {
            values.append_option(match text {
                None => None,
                Some(text) => match parse_decimal(text.as_bytes(), precision, scale) {
                    Some(value) => value,
                    None => self.misfit(field, text)?,
                },
            });
        }
        Ok(Arc::new(values.finish().with_data_type(field.data_type().clone())))
    }

    fn bytes(&self, field: &Field, texts: &StringArray) -> Result<ArrayRef, String> {
        let mut values = BinaryBuilder::new();
        for text in texts {
            values.append_option(match text {
                None => None,
                Some(text) => match base64_text::decode(text.as_bytes()) {
                    Some(bytes) => Some(bytes),
                    None => self.misfit(field, text)?,
                },
            });
        }
        Ok(Arc::new(values.finish()))
    }

    fn times(&self, field: &Field, texts: &StringArray) -> Result<ArrayRef, String> {
        let mut values = Time32MillisecondArray::builder(texts.len());
        for text in texts {
            values.append_option(match text {
                None => None,
                Some(text) => match parse_time(text.as_bytes()) {
                    Some(time) => Some(time),
                    None => self.misfit(field, text)?,
                },
            });
        }
        Ok(Arc::new(values.finish()))
    }

    /// A value that is none of its column.
    fn misfit<T>(&self, field: &Field, text: &str) -> Result<Option<T>, String> {
        if self.bad_field == BadField::Null && field.is_nullable() {
            return Ok(None);
        }
        let shown: String = text.chars().take(60).collect();
        let expected = match field.data_type() {
            DataType::Binary => "BYTES in Base64",
            DataType::Time32(_) => "a TIME",
            _ => "a DECIMAL",
        };
        Err(format!("column '{}': '{shown}' is not {expected}", field.name()))
    }
}

/// Lines or records, behind one another.
#[derive(Clone, Copy)]
struct Lines<'a> {
    text: &'a [u8],
    /// Where each ends, after its line feed if it has one.
    ends: &'a [usize],
}

impl<'a> Lines<'a> {
    fn get(self, line: usize) -> &'a [u8] {
        self.part(&(line..line + 1))
    }

    fn part(self, lines: &Range<usize>) -> &'a [u8] {
        let start = lines.start.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.text[start..self.ends[lines.end - 1]]
    }

    /// How many values are in these, if each that is not blank begins and ends as an object: a value that goes on in the next
    /// line would make one of the two there count for this. `None` if one does not; of one line it does not matter.
    fn values_in(self, lines: &Range<usize>) -> Option<usize> {
        let mut values = 0;
        for line in lines.clone() {
            let line = self.get(line).trim_ascii();
            if lines.len() > 1 && !line.is_empty() && (line[0] != b'{' || line[line.len() - 1] != b'}') {
                return None;
            }
            values += usize::from(!line.is_empty());
        }
        Some(values)
    }
}

/// The schema with texts in place of DECIMAL, BYTES and TIME.
fn as_texts(schema: &Schema) -> SchemaRef {
    let fields = schema.fields().iter().map(|field| match field.data_type() {
        DataType::Decimal128(..) | DataType::Binary | DataType::Time32(TimeUnit::Millisecond) => {
            Arc::new(field.as_ref().clone().with_data_type(DataType::Utf8))
        }
        _ => Arc::clone(field),
    });
    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
}

impl Decode for JsonDecoder {
    fn decode(
        &mut self,
        text: &[u8],
        last: bool,
        first_line: u64,
        bad: &mut Vec<BadRow>,
    ) -> Result<Decoded, String> {
        self.line_ends.clear();
        self.line_ends.extend(memchr_iter(b'\n', text).take(PIECE_LINES).map(|end| end + 1));
        let whole = self.line_ends.last().copied().unwrap_or(0);
        if last && whole < text.len() && self.line_ends.len() < PIECE_LINES {
            self.line_ends.push(text.len());
        }
        let Some(&bytes) = self.line_ends.last() else { return Ok(Decoded::default()) };
        let lines = self.line_ends.len();
        let line_ends = std::mem::take(&mut self.line_ends);
        let all = Lines { text, ends: &line_ends };
        let (mut parts, mut faults) = (Vec::new(), Vec::new());
        let mut start = 0;
        for line in 0..lines {
            if is_too_deep(all.get(line)) {
                self.decode_lines(all, start..line, &mut parts, &mut faults);
                faults.push((line, format!("nested more than {DEPTH_MAX} deep")));
                start = line + 1;
            }
        }
        self.decode_lines(all, start..lines, &mut parts, &mut faults);
        let (mut looked_at, mut blank) = (0, 0);
        for (line, reason) in faults {
            blank += (looked_at..line).filter(|&line| all.get(line).trim_ascii().is_empty()).count();
            looked_at = line;
            bad.push(BadRow::new(first_line + line as u64, reason, all.get(line)).at(line - blank));
        }
        self.line_ends = line_ends;
        let rows = match parts.len() {
            0 => None,
            1 => parts.pop(),
            _ => {
                Some(concat_batches(&self.schema, &parts).expect("parts are of one schema and of one block"))
            }
        };
        Ok(Decoded { rows, bytes, lines: lines as u64 })
    }

    fn start_file(&mut self, _lines: u64) {}

    fn format(&self) -> &'static str {
        "JSON lines"
    }
}

/// Arrow quotes a misfit by recursion, a level of which takes some hundred bytes of stack. As deep as serde_json goes.
const DEPTH_MAX: usize = 128;

/// Looks at the bytes alone, so that nothing that recurses ever meets such a line.
fn is_too_deep(line: &[u8]) -> bool {
    // Most lines are too short to be deep, and most others have too few brackets.
    let openings = || memchr_iter(b'{', line).count() + memchr_iter(b'[', line).count();
    if line.len() <= DEPTH_MAX || openings() <= DEPTH_MAX {
        return false;
    }
    let (mut depth, mut in_string, mut escaped) = (0_usize, false, false);
    for byte in line {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' => in_string = !in_string,
            b'[' | b'{' if !in_string => depth += 1,
            b']' | b'}' if !in_string => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth > DEPTH_MAX {
            return true;
        }
    }
    false
}

/// Why a column cannot be read from JSON.
fn unreadable_column(schema: &Schema) -> Option<String> {
    schema.fields().iter().find_map(|field| {
        let one = with_offset_zones(&Schema::new(vec![field.clone()]));
        let error = builder(&one).build_decoder().err()?;
        Some(format!("json cannot hold column '{}' of type {}: {error}", field.name(), field.data_type()))
    })
}

fn has_unprintable_map(field: &Field) -> bool {
    match field.data_type() {
        DataType::Map(entries, _) => match entries.data_type() {
            DataType::Struct(pair) => *pair[0].data_type() != DataType::Utf8 || has_unprintable_map(&pair[1]),
            _ => false,
        },
        DataType::List(item) => has_unprintable_map(item),
        DataType::Struct(fields) => fields.iter().any(|field| has_unprintable_map(field)),
        _ => false,
    }
}

fn new_decoder(schema: &SchemaRef) -> Decoder {
    builder(schema).build_decoder().expect("validation refuses columns without a decoder")
}

fn builder(schema: &SchemaRef) -> ReaderBuilder {
    // Flink, too, reads a number or a boolean into a STRING column as its text.
    ReaderBuilder::new(schema.clone()).with_batch_size(PIECE_LINES).with_coerce_primitive(true)
}

#[cfg(test)]
mod tests;
