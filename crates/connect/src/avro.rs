//! `avro`: a record is a datum of the schema that follows from the columns, as with Flink. The schema is not in it; where
//! a registry has it, `confluent.rs` is the format, and files, which have it too, are in `file.rs`.

mod codec;
pub(crate) mod confluent;
mod datum;
pub(crate) mod file;
mod fit;
mod registry;
mod schema;
mod shape;
mod types;
mod varint;

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions, new_null_array};
use arrow::datatypes::{Field, Schema, SchemaRef};
use arrow_avro::schema::{AvroSchema, SCHEMA_METADATA_KEY};
use arrow_avro::writer::format::AvroBinaryFormat;
use arrow_avro::writer::{Encoder, WriterBuilder};

use self::datum::Reading;
use self::fit::Origin;
use self::schema::Timestamps;
use self::types::on_the_wire;
use crate::OptionError;
use crate::format::Format;
use crate::options::OptionReader;
use crate::record::{BadRecord, RecordDecoder, RecordEncoder, Records};

#[derive(Clone, Copy, Debug)]
struct Avro;

pub(crate) fn read_format(
    schema: &Schema,
    options: &OptionReader<'_>,
) -> Result<Arc<dyn Format>, OptionError> {
    let encodings = [("binary", ())];
    let _the_only_one = options.choice("avro.encoding", &encodings)?;
    // Of the schema alone, which is not in a record.
    let _bytes_are_the_same = Timestamps::read(options, "avro.timestamp_mapping.legacy")?;
    match on_the_wire(schema) {
        Ok(_) => Ok(Arc::new(Avro)),
        Err(reason) => Err(options.error("format", reason)),
    }
}

impl Format for Avro {
    fn extension(&self) -> &'static str {
        "avro"
    }

    fn record_decoder(&self, schema: &SchemaRef, wanted: &SchemaRef) -> Box<dyn RecordDecoder> {
        let wire = on_the_wire(schema).expect("checked with the options");
        let json = AvroSchema::try_from(&wire).expect("checked with the options").json_string;
        Box::new(AvroDecoder(
            Reading::new(&json, None, Arc::clone(wanted)).expect("a schema of these columns"),
        ))
    }

    fn record_encoder(&self, schema: &SchemaRef) -> Box<dyn RecordEncoder> {
        let wire = on_the_wire(schema).expect("checked with the options");
        let json = AvroSchema::try_from(&wire).expect("checked with the options").json_string;
        Box::new(AvroEncoder::new(schema, &json).expect("a schema of these columns"))
    }
}

struct AvroDecoder(Reading);

impl RecordDecoder for AvroDecoder {
    fn decode(&mut self, records: &Records, range: Range<usize>, bad: &mut Vec<BadRecord>) -> RecordBatch {
        let places: Vec<usize> = range.collect();
        let rows = self.0.decode(records, &places, bad, &mut Vec::new());
        bad.sort_by_key(|record| record.index);
        rows
    }
}

/// Makes data of a schema.
struct AvroEncoder {
    /// The schema's fields.
    own: SchemaRef,
    /// For each of them, the column that it is made of.
    origins: Vec<Origin>,
    encoder: Encoder,
}

impl AvroEncoder {
    /// # Errors
    /// If the schema is none, or the columns do not make it.
    fn new(columns: &Schema, json: &str) -> Result<AvroEncoder, String> {
        let own = datum::columns_of(json)?;
        let origins = fit::find(&own, &on_the_wire(columns)?)?;
        // What the decoder notes in its fields is not the encoder's.
        let plain =
            |field: &Arc<Field>| Field::new(field.name(), field.data_type().clone(), field.is_nullable());
        let fields: Vec<Field> = own.fields().iter().map(plain).collect();
        let metadata = [(SCHEMA_METADATA_KEY.to_owned(), json.to_owned())].into();
        let own = Schema::new_with_metadata(fields, metadata);
        let encoder = WriterBuilder::new(own.clone()).build_encoder::<AvroBinaryFormat>();
        let encoder = encoder.map_err(|error| error.to_string())?;
        Ok(AvroEncoder { own: Arc::new(own), origins, encoder })
    }
}

impl RecordEncoder for AvroEncoder {
    fn encode(&mut self, rows: &RecordBatch, records: &mut Records) -> Result<(), String> {
        let columns = self.origins.iter().zip(self.own.fields()).map(|(origin, field)| match origin {
            Origin::Field(column) => fit::convert(rows.column(*column), field.data_type()),
            Origin::Null => Ok(new_null_array(field.data_type(), rows.num_rows())),
        });
        let columns: Vec<ArrayRef> = columns.collect::<Result<_, _>>()?;
        let size = RecordBatchOptions::new().with_row_count(Some(rows.num_rows()));
        let rows = RecordBatch::try_new_with_options(Arc::clone(&self.own), columns, &size)
            .map_err(|error| error.to_string())?;
        self.encoder.encode(&rows).map_err(|error| error.to_string())?;
        self.encoder.flush().iter().for_each(|record| records.push(Some(&record)));
        Ok(())
    }
}

#[cfg(test)]
mod tests;
