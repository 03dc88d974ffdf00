//! `avro`: a record is a datum of the schema that follows from the columns, as with Flink. The schema is not in it.

mod types;

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow::compute::{cast, concat_batches};
use arrow::datatypes::{Schema, SchemaRef};
use arrow_avro::reader::{Decoder, ReaderBuilder};
use arrow_avro::schema::{AvroSchema, Fingerprint, FingerprintAlgorithm, SchemaStore};
use arrow_avro::writer::format::AvroBinaryFormat;
use arrow_avro::writer::{Encoder, WriterBuilder};

use self::types::on_the_wire;
use crate::OptionError;
use crate::format::Format;
use crate::options::OptionReader;
use crate::record::{BadRecord, RECORDS_MAX, RecordDecoder, RecordEncoder, Records};

#[derive(Clone, Copy, Debug)]
struct Avro;

pub(crate) fn read_format(
    schema: &Schema,
    options: &OptionReader<'_>,
) -> Result<Arc<dyn Format>, OptionError> {
    let encodings = [("binary", ())];
    let _the_only_one = options.choice("avro.encoding", &encodings)?;
    match on_the_wire(schema) {
        Ok(_) => Ok(Arc::new(Avro)),
        Err(reason) => Err(options.error("format", reason)),
    }
}

impl Format for Avro {
    fn extension(&self) -> &'static str {
        "avro"
    }

    fn record_decoder(&self, schema: &SchemaRef, columns: &[usize]) -> Box<dyn RecordDecoder> {
        let declared = schema.project(columns).expect("columns of the schema");
        let wire = Arc::new(on_the_wire(schema).expect("checked with the options"));
        let decoder = new_decoder(&wire, columns);
        let columns = columns.to_vec();
        Box::new(AvroDecoder { wire, columns, declared: Arc::new(declared), decoder, framed: Vec::new() })
    }

    fn record_encoder(&self, schema: &SchemaRef) -> Box<dyn RecordEncoder> {
        let wire = Arc::new(on_the_wire(schema).expect("checked with the options"));
        let encoder = WriterBuilder::new(wire.as_ref().clone()).build_encoder::<AvroBinaryFormat>();
        Box::new(AvroEncoder { wire, encoder: encoder.expect("checked with the options") })
    }
}

/// What arrow-avro wants before each datum: the number of the schema, as Confluent's registry has it. There is one here.
const PREFIX: [u8; 5] = [0, 0, 0, 0, 1];
const SCHEMA_ID: Fingerprint = Fingerprint::Id(1);

fn new_decoder(wire: &Schema, columns: &[usize]) -> Decoder {
    let schema = AvroSchema::try_from(wire).expect("checked with the options");
    let mut store = SchemaStore::new_with_type(FingerprintAlgorithm::Id);
    store.set(SCHEMA_ID, schema.clone()).expect("the store is of numbers");
    ReaderBuilder::new()
        .with_reader_schema(schema)
        .with_projection(columns.to_vec())
        .with_writer_schema_store(store)
        .with_active_fingerprint(SCHEMA_ID)
        .with_batch_size(RECORDS_MAX)
        .build_decoder()
        .expect("checked with the options")
}

struct AvroDecoder {
    /// All columns, in types that Avro has.
    wire: SchemaRef,
    /// Those asked for.
    columns: Vec<usize>,
    declared: SchemaRef,
    decoder: Decoder,
    framed: Vec<u8>,
}

impl AvroDecoder {
    /// Decodes these records; where one is bad, its place and what is wrong.
    fn decode_all(&mut self, records: &Records, range: Range<usize>) -> Result<RecordBatch, (usize, String)> {
        for index in range.clone() {
            self.framed.clear();
            self.framed.extend_from_slice(&PREFIX);
            self.framed.extend_from_slice(records.get(index));
            let left = self.decoder.capacity();
            let fault = match self.decoder.decode(&self.framed) {
                Ok(bytes) if self.decoder.capacity() + 1 != left => Some(format!(
                    "the record ends inside a value, after {} bytes",
                    bytes.max(PREFIX.len()) - PREFIX.len()
                )),
                Ok(bytes) if bytes != self.framed.len() => {
                    Some(format!("{} bytes too many", self.framed.len() - bytes))
                }
                Ok(_) => None,
                Err(error) => Some(error.to_string()),
            };
            if let Some(fault) = fault {
                return Err((index, fault));
            }
        }
        let rows = self.decoder.flush().map_err(|error| (range.start, error.to_string()))?;
        let Some(rows) = rows else { return Ok(RecordBatch::new_empty(Arc::clone(&self.declared))) };
        self.declared(&rows).map_err(|fault| (range.start, fault))
    }

    /// Gives the columns their declared types.
    fn declared(&self, rows: &RecordBatch) -> Result<RecordBatch, String> {
        let columns = rows.columns().iter().zip(self.declared.fields()).map(|(column, field)| {
            match column.data_type() == field.data_type() {
                true => Ok(Arc::clone(column)),
                false => cast(column, field.data_type()),
            }
        });
        let columns: Vec<ArrayRef> = columns.collect::<Result<_, _>>().map_err(|error| error.to_string())?;
        let size = RecordBatchOptions::new().with_row_count(Some(rows.num_rows()));
        RecordBatch::try_new_with_options(Arc::clone(&self.declared), columns, &size)
            .map_err(|error| error.to_string())
    }
}

impl RecordDecoder for AvroDecoder {
    fn decode(&mut self, records: &Records, range: Range<usize>, bad: &mut Vec<BadRecord>) -> RecordBatch {
        // Parts that are still to be decoded, the first one last. A decoder keeps what it read before a fault, so that is
        // decoded once more by another.
        let mut parts = vec![range];
        let mut decoded = Vec::new();
        while let Some(part) = parts.pop() {
            if part.is_empty() {
                continue;
            }
            match self.decode_all(records, part.clone()) {
                Ok(rows) => decoded.push(rows),
                Err((index, reason)) => {
                    self.decoder = new_decoder(&self.wire, &self.columns);
                    // A fault that shows when all are decoded says nothing of which: they are looked at one by one.
                    if index == part.start && part.len() > 1 {
                        parts.push(index + 1..part.end);
                        parts.push(index..index + 1);
                        continue;
                    }
                    bad.push(BadRecord { index, reason });
                    parts.push(index + 1..part.end);
                    parts.push(part.start..index);
                }
            }
        }
        bad.sort_by_key(|record| record.index);
        match decoded.len() {
            0 => RecordBatch::new_empty(Arc::clone(&self.declared)),
            1 => decoded.remove(0),
            _ => concat_batches(&self.declared, &decoded).expect("parts are of one schema"),
        }
    }
}

struct AvroEncoder {
    wire: SchemaRef,
    encoder: Encoder,
}

impl RecordEncoder for AvroEncoder {
    fn encode(&mut self, rows: &RecordBatch, records: &mut Records) -> Result<(), String> {
        let columns = rows.columns().iter().zip(self.wire.fields());
        let columns = columns.map(|(column, field)| cast(column, field.data_type()));
        let columns: Vec<ArrayRef> = columns.collect::<Result<_, _>>().map_err(|error| error.to_string())?;
        let rows =
            RecordBatch::try_new(Arc::clone(&self.wire), columns).map_err(|error| error.to_string())?;
        self.encoder.encode(&rows).map_err(|error| error.to_string())?;
        self.encoder.flush().iter().for_each(|record| records.push(Some(&record)));
        Ok(())
    }
}

#[cfg(test)]
mod tests;
