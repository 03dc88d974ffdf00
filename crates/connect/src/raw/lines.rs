//! `raw` in files: a line is the value of the only column, as with Flink.

use std::path::PathBuf;
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, BinaryBuilder, RecordBatch, RecordBatchOptions, StringBuilder};
use arrow::datatypes::{DataType, Schema, SchemaRef};

use super::read_options;
use crate::compression::{Compression, Packer};
use crate::dead_letter::BadRow;
use crate::format::Format;
use crate::options::OptionReader;
use crate::text_file::{Decode, Decoded};
use crate::{ConnectError, Encoder, OptionError, PIECE_ROWS};

#[derive(Clone, Copy, Debug)]
struct RawLines;

pub(crate) fn read_format(
    schema: &Schema,
    options: &OptionReader<'_>,
) -> Result<Arc<dyn Format>, OptionError> {
    let (_numbers, field) = read_options(schema, options)?;
    match field.data_type() {
        DataType::Utf8 | DataType::Binary => Ok(Arc::new(RawLines)),
        other => {
            let message = format!(
                "a line of a raw file is a STRING or BYTES, and column '{}' is {other}, whose bytes may be a line's end",
                field.name()
            );
            Err(options.error("format", message))
        }
    }
}

impl Format for RawLines {
    fn extension(&self) -> &'static str {
        "raw"
    }

    fn line_decoder(&self, schema: &SchemaRef, columns: &[usize]) -> Option<Box<dyn Decode>> {
        let wanted = Arc::new(schema.project(columns).expect("columns of the table"));
        Some(Box::new(RawLineDecoder { schema: Arc::clone(schema), wanted }))
    }

    fn file_encoder(
        &self,
        _schema: SchemaRef,
        _is_new: bool,
        compression: Compression,
        path: PathBuf,
    ) -> Result<Box<dyn Encoder>, ConnectError> {
        let mut encoder = RawLineEncoder { path, packer: None, text: Vec::new() };
        encoder.packer = Some(compression.packer().map_err(|error| encoder.failed(error))?);
        Ok(Box::new(encoder))
    }
}

struct RawLineDecoder {
    schema: SchemaRef,
    /// The column, or none.
    wanted: SchemaRef,
}

impl Decode for RawLineDecoder {
    fn decode(
        &mut self,
        text: &[u8],
        last: bool,
        first_line: u64,
        bad: &mut Vec<BadRow>,
    ) -> Result<Decoded, String> {
        let field = self.schema.field(0);
        let (mut good, mut bytes, mut lines) = (Vec::new(), 0, 0);
        while good.len() < PIECE_ROWS && bytes < text.len() {
            let rest = &text[bytes..];
            let end = match memchr::memchr(b'\n', rest) {
                Some(end) => end + 1,
                None if last => rest.len(),
                None => break,
            };
            let line = rest[..end].strip_suffix(b"\n").unwrap_or(&rest[..end]);
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            if *field.data_type() == DataType::Utf8 && std::str::from_utf8(line).is_err() {
                let reason = format!("column '{}': not UTF-8", field.name());
                bad.push(BadRow::new(first_line + lines, reason, line).at(lines as usize));
            } else {
                good.push(line);
            }
            (bytes, lines) = (bytes + end, lines + 1);
        }
        let columns = self.wanted.fields().iter().map(|_| column(field.data_type(), &good)).collect();
        let size = RecordBatchOptions::new().with_row_count(Some(good.len()));
        let rows = RecordBatch::try_new_with_options(Arc::clone(&self.wanted), columns, &size)
            .expect("the column has its type, and no NULL");
        Ok(Decoded { rows: (!good.is_empty()).then_some(rows), bytes, lines })
    }

    fn start_file(&mut self, _lines: u64) {}

    fn format(&self) -> &'static str {
        "raw"
    }
}

fn column(data_type: &DataType, lines: &[&[u8]]) -> ArrayRef {
    match data_type {
        DataType::Utf8 => {
            let mut texts = StringBuilder::new();
            let text = |line| std::str::from_utf8(line).expect("checked to be UTF-8");
            lines.iter().for_each(|line| texts.append_value(text(line)));
            Arc::new(texts.finish())
        }
        _ => {
            let mut values = BinaryBuilder::new();
            lines.iter().for_each(|line| values.append_value(line));
            Arc::new(values.finish())
        }
    }
}

struct RawLineEncoder {
    /// Names the output in errors.
    path: PathBuf,
    /// `None` once the output is complete.
    packer: Option<Packer>,
    text: Vec<u8>,
}

impl RawLineEncoder {
    fn failed(&self, error: impl ToString) -> ConnectError {
        ConnectError::Encode { path: self.path.clone(), format: "raw", message: error.to_string() }
    }

    fn put(&mut self, line: Option<&[u8]>) -> Result<(), ConnectError> {
        let line = line.ok_or_else(|| self.failed("a line cannot be NULL"))?;
        if memchr::memchr(b'\n', line).is_some() {
            return Err(self.failed("a value with a line's end in it would be read as two"));
        }
        self.text.extend_from_slice(line);
        self.text.push(b'\n');
        Ok(())
    }
}

impl Encoder for RawLineEncoder {
    fn encode(&mut self, rows: &RecordBatch, out: &mut Vec<u8>) -> Result<(), ConnectError> {
        if rows.num_rows() == 0 {
            return Ok(());
        }
        let column = rows.column(0);
        self.text.clear();
        match column.data_type() {
            DataType::Utf8 => {
                let mut texts = column.as_string::<i32>().iter();
                texts.try_for_each(|text| self.put(text.map(str::as_bytes)))?;
            }
            _ => column.as_binary::<i32>().iter().try_for_each(|bytes| self.put(bytes))?,
        }
        let packer = self.packer.as_mut().expect("nothing is encoded after the end");
        packer.pack_visibly(&mut self.text, out).map_err(|error| ConnectError::Encode {
            path: self.path.clone(),
            format: "raw",
            message: error.to_string(),
        })
    }

    fn finish(&mut self, out: &mut Vec<u8>) -> Result<(), ConnectError> {
        let packer = self.packer.take();
        packer.map_or(Ok(()), |packer| packer.finish(out)).map_err(|error| self.failed(error))
    }
}

#[cfg(test)]
mod tests {
    use tempfile::tempdir;

    use super::*;
    use crate::fixture::{dead_letters, drain, file_table, lines, open};
    use crate::{SinkEnvironment, SinkSpec, open_sink, validate_source};

    const COLUMN: &[(&str, DataType)] = &[("line", DataType::Utf8)];

    #[test]
    fn a_line_is_a_value_and_an_empty_one_too() {
        let folder = tempdir().unwrap();
        let mut text = b"a,\"b\r\n\n \xff\nlast".to_vec();
        std::fs::write(folder.path().join("in.txt"), &text).unwrap();
        let options = [("laxity.dead-letter.path", "dead.jsonl")];
        let table = file_table(folder.path(), "raw", "in.txt", COLUMN, &options);
        assert_eq!(lines(&drain(open(&table).unwrap().as_mut())), ["a,\"b", "", "last"]);
        assert_eq!(
            dead_letters(&folder.path().join("dead.jsonl")),
            ["3: column 'line': not UTF-8:  \u{fffd}"]
        );
        // BYTES are any.
        let table = file_table(folder.path(), "raw", "in.txt", &[("line", DataType::Binary)], &[]);
        let read = drain(open(&table).unwrap().as_mut());
        assert_eq!(read.column(0).as_binary::<i32>().value(2), b" \xff");
        text.truncate(0);
        let many: Vec<String> = (0..5_000).map(|line| format!("line {line}")).collect();
        std::fs::write(folder.path().join("in.txt"), many.join("\n")).unwrap();
        let table = file_table(folder.path(), "raw", "in.txt", COLUMN, &[]);
        assert_eq!(lines(&drain(open(&table).unwrap().as_mut())), many);
    }

    #[test]
    fn values_are_written_as_lines_where_they_are_lines() {
        let folder = tempdir().unwrap();
        for path in ["out.txt", "out.txt.gz"] {
            let table = file_table(folder.path(), "raw", path, COLUMN, &[]);
            let spec = SinkSpec { table: Arc::clone(&table) };
            let mut sink = open_sink(&spec, &SinkEnvironment::default()).unwrap();
            let of = |values: Vec<Option<&str>>| {
                let column = Arc::new(arrow::array::StringArray::from(values));
                RecordBatch::try_new(table.schema.clone(), vec![column]).unwrap()
            };
            sink.write(&of(vec![Some("é,\""), Some("")])).unwrap();
            for (value, fault) in [(None, "a line cannot be NULL"), (Some("a\nb"), "would be read as two")] {
                let error = sink.write(&of(vec![Some("lost"), value])).unwrap_err().to_string();
                assert!(error.contains(fault), "{error}");
            }
            sink.write(&of(vec![Some("end")])).unwrap();
            sink.close().unwrap();
            assert_eq!(lines(&drain(open(&table).unwrap().as_mut())), ["é,\"", "", "end"], "{path}");
        }
    }

    #[test]
    fn what_is_no_line_is_refused_with_the_options() {
        let folder = tempdir().unwrap();
        let table = file_table(folder.path(), "raw", "x", &[("n", DataType::Int32)], &[]);
        let error = validate_source(&table).unwrap_err().to_string();
        assert!(error.contains("a line of a raw file is a STRING or BYTES"), "{error}");
    }
}
