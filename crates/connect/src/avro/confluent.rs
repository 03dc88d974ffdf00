//! `avro-confluent`: a datum whose writer's schema lies with a registry, under the number that stands before it. What was
//! written with another schema than the columns' is read by Avro's rules of evolution.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::compute::interleave_record_batch;
use arrow::datatypes::{Schema, SchemaRef};

use super::AvroEncoder;
use super::datum::{HEADER_BYTES, Reading, header};
use super::registry::{Answer, Registry};
use super::schema::{self, Timestamps};
use super::types::on_the_wire;
use crate::OptionError;
use crate::format::Format;
use crate::options::OptionReader;
use crate::record::{BadRecord, RecordDecoder, RecordEncoder, RecordSchemas, Records, SchemaFault};

#[derive(Debug)]
struct Confluent {
    registry: Arc<Registry>,
    /// Under which schemas are registered.
    subject: Option<String>,
    /// `avro-confluent.schema`.
    schema: Option<String>,
    timestamps: Timestamps,
}

const SUBJECT: &str = "avro-confluent.subject";
const SCHEMA: &str = "avro-confluent.schema";

pub(crate) fn read_format(
    columns: &Schema,
    options: &OptionReader<'_>,
) -> Result<Arc<dyn Format>, OptionError> {
    let registry = Arc::new(Registry::read(options)?);
    on_the_wire(columns).map_err(|reason| options.error("format", reason))?;
    let subject = options.text(SUBJECT).map(str::to_owned).or_else(|| {
        let part = if options.is_of_key() { "key" } else { "value" };
        options.of_table().text("topic").map(|topic| format!("{topic}-{part}"))
    });
    let schema = options.text(SCHEMA).map(str::to_owned);
    let timestamps = Timestamps::read(options, "avro-confluent.timestamp_mapping.legacy")?;
    let format = Confluent { registry, subject, schema, timestamps };
    if let Some(own) = &format.schema {
        // Its data are to make the columns again.
        let fault = Reading::new(own, None, Arc::new(columns.clone())).err();
        let fault = fault.or_else(|| AvroEncoder::new(columns, own).err());
        fault.map_or(Ok(()), |why| Err(options.error(SCHEMA, format!("does not fit the columns: {why}"))))?;
    }
    Ok(Arc::new(format))
}

impl Confluent {
    fn json(&self, columns: &Schema) -> String {
        match &self.schema {
            Some(own) => own.clone(),
            None => {
                let columns = on_the_wire(columns).expect("checked with the options");
                schema::json_of(&columns, self.timestamps)
            }
        }
    }
}

impl Format for Confluent {
    fn extension(&self) -> &'static str {
        "avro"
    }

    fn record_decoder(&self, _columns: &SchemaRef, wanted: &SchemaRef) -> Box<dyn RecordDecoder> {
        Box::new(ConfluentDecoder {
            registry: Arc::clone(&self.registry),
            declared: Arc::clone(wanted),
            readings: HashMap::new(),
        })
    }

    fn record_encoder(&self, columns: &SchemaRef) -> Box<dyn RecordEncoder> {
        let encoder = AvroEncoder::new(columns, &self.json(columns));
        Box::new(encoder.expect("checked with the options"))
    }

    fn schemas(&self, columns: &SchemaRef) -> Option<Arc<dyn RecordSchemas>> {
        Some(Arc::new(Schemas {
            registry: Arc::clone(&self.registry),
            subject: self.subject.clone(),
            json: self.json(columns),
            columns: Arc::clone(columns),
        }))
    }
}

/// What the registry is asked before records are read or written.
#[derive(Debug)]
struct Schemas {
    registry: Arc<Registry>,
    subject: Option<String>,
    json: String,
    columns: SchemaRef,
}

impl RecordSchemas for Schemas {
    fn service(&self) -> String {
        self.registry.service()
    }

    fn number(&self, record: &[u8]) -> Option<u32> {
        number(record)
    }

    fn learn(&self, number: u32) -> Result<(), SchemaFault> {
        if self.registry.known(number).is_some() {
            return Ok(());
        }
        let Answer::Schema(json) = self.registry.schema(number)? else { return Ok(()) };
        let fits = Reading::new(&json, Some(number), Arc::clone(&self.columns));
        fits.map(drop)
            .map_err(|why| SchemaFault::End(format!("schema {number} does not fit the table: {why}")))
    }

    fn header(&self) -> Result<Vec<u8>, SchemaFault> {
        let subject = self.subject.as_deref();
        let subject = subject.ok_or_else(|| SchemaFault::End(format!("'{SUBJECT}' is missing")))?;
        Ok(header(self.registry.register(subject, &self.json)?).to_vec())
    }
}

/// Of the schema that a record was written with.
fn number(record: &[u8]) -> Option<u32> {
    match record.first_chunk::<HEADER_BYTES>() {
        Some([0, a, b, c, d]) => Some(u32::from_be_bytes([*a, *b, *c, *d])),
        _ => None,
    }
}

struct ConfluentDecoder {
    registry: Arc<Registry>,
    declared: SchemaRef,
    /// By number; what is wrong with one of no use.
    readings: HashMap<u32, Result<Reading, String>>,
}

impl ConfluentDecoder {
    fn reading(&mut self, number: u32) -> Result<&mut Reading, &str> {
        if !self.readings.contains_key(&number) {
            let made = match self.registry.known(number) {
                Some(Answer::Schema(json)) => Reading::new(&json, Some(number), Arc::clone(&self.declared)),
                Some(Answer::None(why)) => Err(why),
                // It is asked for before records are handed over.
                None => return Err("its schema was not asked for"),
            };
            self.readings.insert(number, made);
        }
        self.readings.get_mut(&number).expect("just made").as_mut().map_err(|why| why.as_str())
    }
}

impl RecordDecoder for ConfluentDecoder {
    fn decode(&mut self, records: &Records, range: Range<usize>, bad: &mut Vec<BadRecord>) -> RecordBatch {
        // Those of one schema together; most often there is one.
        let mut of_schema: Vec<(u32, Vec<usize>)> = Vec::new();
        for index in range {
            match number(records.get(index)) {
                None => {
                    let reason = "not of a schema registry: it begins with 0 and the number of its schema";
                    bad.push(BadRecord { index, reason: reason.to_owned() });
                }
                Some(number) => match of_schema.iter_mut().find(|(other, _)| *other == number) {
                    Some((_, places)) => places.push(index),
                    None => of_schema.push((number, vec![index])),
                },
            }
        }
        let mut batches = Vec::new();
        // For each good record, its place, and where its row is.
        let mut rows: Vec<(usize, (usize, usize))> = Vec::new();
        for (number, places) in &of_schema {
            let mut good = Vec::new();
            match self.reading(*number) {
                Ok(reading) => batches.push(reading.decode(records, places, bad, &mut good)),
                Err(why) => {
                    let why = why.to_owned();
                    bad.extend(places.iter().map(|&index| BadRecord { index, reason: why.clone() }));
                }
            }
            let batch = batches.len().wrapping_sub(1);
            rows.extend(good.into_iter().enumerate().map(|(row, place)| (place, (batch, row))));
        }
        bad.sort_by_key(|record| record.index);
        match batches.len() {
            0 => RecordBatch::new_empty(Arc::clone(&self.declared)),
            1 => batches.remove(0),
            _ => {
                rows.sort_unstable();
                let places: Vec<(usize, usize)> = rows.into_iter().map(|(_, at)| at).collect();
                in_order(&batches, &places)
            }
        }
    }
}

/// The rows at these places of the batches.
fn in_order(batches: &[RecordBatch], places: &[(usize, usize)]) -> RecordBatch {
    let schema = batches[0].schema();
    if schema.fields().is_empty() {
        let size = arrow::array::RecordBatchOptions::new().with_row_count(Some(places.len()));
        return RecordBatch::try_new_with_options(schema, vec![], &size).expect("no columns");
    }
    let batches: Vec<&RecordBatch> = batches.iter().collect();
    interleave_record_batch(&batches, places).expect("batches of one schema")
}

#[cfg(test)]
mod tests;
