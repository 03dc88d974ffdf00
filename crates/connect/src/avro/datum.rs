//! From the data of one writer to rows. Its schema says what the bytes are; what the columns want is made of them.

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions, new_null_array};
use arrow::datatypes::SchemaRef;
use arrow_avro::reader::{Decoder, ReaderBuilder};
use arrow_avro::schema::{AvroSchema, Fingerprint, FingerprintAlgorithm, SchemaStore};

use super::fit::{self, Origin};
use super::schema;
use crate::record::{BadRecord, RECORDS_MAX, Records, around_faults};

/// Bytes before a datum in a registry's framing: zero, and the number of the writer's schema.
pub(super) const HEADER_BYTES: usize = 5;

/// A writer's schema, and how its data become rows of some columns.
pub(super) struct Reading {
    schema: AvroSchema,
    /// The writer's, as data bring it in their header. One of our own choice where they have none.
    id: u32,
    has_header: bool,
    /// Of the columns.
    declared: SchemaRef,
    /// For each of them, its place among what the decoder gives.
    origins: Vec<Origin>,
    decoded: Decoded,
    decoder: Decoder,
    framed: Vec<u8>,
}

/// What is decoded of a writer's data; the rest is skipped.
#[derive(Default)]
struct Decoded {
    /// Of its fields; `None`: all.
    fields: Option<Vec<usize>>,
    /// Its schema without fields of records inside that no column has; `None`: with all.
    inside: Option<AvroSchema>,
}

impl Reading {
    /// `id` is what stands in the header of each datum; `None` where they have none.
    ///
    /// # Errors
    /// If the schema is none, or the columns cannot be had from it.
    pub(super) fn new(json: &str, id: Option<u32>, declared: SchemaRef) -> Result<Reading, String> {
        let schema = AvroSchema::new(json.to_owned());
        let (id, has_header) = (id.unwrap_or(1), id.is_some());
        let all = decoder(&schema, id, &Decoded::default())?;
        let mut origins = fit::find(&declared, &all.schema())?;
        let mut wanted: Vec<usize> = origins.iter().filter_map(|origin| origin.field()).collect();
        if wanted.is_empty() && !all.schema().fields().is_empty() {
            // So that rows can be counted.
            wanted.push(0);
        }
        wanted.sort_unstable();
        let inside = schema::without_unread(&schema.json_string, &declared).map(AvroSchema::new);
        let fields = Some(wanted.clone());
        let most = [Decoded { fields: fields.clone(), inside }, Decoded { fields, inside: None }];
        // A type may be named in a field that is left out, and used in one that is not.
        let projected = most.into_iter().find_map(|decoded| {
            let projected = decoder(&schema, id, &decoded).ok()?;
            Some((projected, decoded))
        });
        let (decoder, decoded) = match projected {
            Some(projected) => {
                for origin in &mut origins {
                    if let Origin::Field(place) = origin {
                        *place = wanted.partition_point(|other| other < place);
                    }
                }
                projected
            }
            None => (all, Decoded::default()),
        };
        Ok(Reading { schema, id, has_header, declared, origins, decoded, decoder, framed: Vec::new() })
    }

    /// Rows of the records at these places; a bad one costs itself alone. `good` gets the places of the others.
    pub(super) fn decode(
        &mut self,
        records: &Records,
        places: &[usize],
        bad: &mut Vec<BadRecord>,
        good: &mut Vec<usize>,
    ) -> RecordBatch {
        let declared = Arc::clone(&self.declared);
        around_faults(&declared, places, bad, good, |part| {
            self.decode_all(records, part).inspect_err(|_| {
                // A decoder keeps what it read before a fault.
                let fresh = decoder(&self.schema, self.id, &self.decoded);
                self.decoder = fresh.expect("one was made before");
            })
        })
    }

    /// Rows of all of these records; where one is bad, which of them and what is wrong.
    fn decode_all(&mut self, records: &Records, places: &[usize]) -> Result<RecordBatch, (usize, String)> {
        for (at, &place) in places.iter().enumerate() {
            let record = match self.has_header {
                true => records.get(place),
                // The decoder wants one.
                false => {
                    self.framed.clear();
                    self.framed.extend_from_slice(&header(self.id));
                    self.framed.extend_from_slice(records.get(place));
                    &self.framed
                }
            };
            let left = self.decoder.capacity();
            let fault = match self.decoder.decode(record) {
                Ok(bytes) if self.decoder.capacity() + 1 != left => Some(format!(
                    "the record ends inside a value, after {} bytes",
                    bytes.max(HEADER_BYTES) - HEADER_BYTES
                )),
                Ok(bytes) if bytes != record.len() => {
                    Some(format!("{} bytes too many", record.len() - bytes))
                }
                Ok(_) => None,
                Err(error) => Some(error.to_string()),
            };
            if let Some(fault) = fault {
                return Err((at, fault));
            }
        }
        let rows = self.decoder.flush().map_err(|error| (0, error.to_string()))?;
        let Some(rows) = rows else { return Ok(RecordBatch::new_empty(Arc::clone(&self.declared))) };
        self.declared(&rows).map_err(|fault| (0, fault))
    }

    fn declared(&self, rows: &RecordBatch) -> Result<RecordBatch, String> {
        let columns = self.origins.iter().zip(self.declared.fields()).map(|(origin, field)| match origin {
            Origin::Field(place) => fit::convert(rows.column(*place), field.data_type())
                .map_err(|fault| format!("column '{}': {fault}", field.name())),
            Origin::Null => Ok(new_null_array(field.data_type(), rows.num_rows())),
        });
        let columns: Vec<ArrayRef> = columns.collect::<Result<_, _>>()?;
        let size = RecordBatchOptions::new().with_row_count(Some(rows.num_rows()));
        RecordBatch::try_new_with_options(Arc::clone(&self.declared), columns, &size)
            .map_err(|error| error.to_string())
    }
}

impl Origin {
    fn field(&self) -> Option<usize> {
        match self {
            Origin::Field(place) => Some(*place),
            Origin::Null => None,
        }
    }
}

/// What stands before a datum whose schema has this number.
pub(super) fn header(id: u32) -> [u8; HEADER_BYTES] {
    let [a, b, c, d] = id.to_be_bytes();
    [0, a, b, c, d]
}

/// The columns that data of this schema are.
///
/// # Errors
/// If it is no schema of a record.
pub(super) fn columns_of(json: &str) -> Result<SchemaRef, String> {
    Ok(decoder(&AvroSchema::new(json.to_owned()), 1, &Decoded::default())?.schema())
}

fn decoder(schema: &AvroSchema, id: u32, decoded: &Decoded) -> Result<Decoder, String> {
    let id = Fingerprint::Id(id);
    let mut store = SchemaStore::new_with_type(FingerprintAlgorithm::Id);
    store.set(id, schema.clone()).map_err(|error| error.to_string())?;
    let builder = ReaderBuilder::new()
        .with_writer_schema_store(store)
        .with_active_fingerprint(id)
        .with_batch_size(RECORDS_MAX);
    let builder = match &decoded.fields {
        Some(fields) => builder.with_projection(fields.clone()),
        None => builder,
    };
    let builder = match &decoded.inside {
        Some(inside) => builder.with_reader_schema(inside.clone()),
        None => builder,
    };
    builder.build_decoder().map_err(|error| error.to_string())
}
