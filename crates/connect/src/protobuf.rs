//! `protobuf`: a record is a message. There is no class of Java here: what it consists of is told by its `.proto` file, or
//! by what protoc made of that.

mod decode;
mod descriptor;
mod encode;
mod plan;

use std::ops::Range;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::{Schema, SchemaRef};
use prost_reflect::MessageDescriptor;

use self::decode::ProtobufDecoder;
use self::encode::ProtobufEncoder;
use self::plan::MessagePlan;
use crate::OptionError;
use crate::format::Format;
use crate::options::OptionReader;
use crate::record::{BadRecord, RecordDecoder, RecordEncoder, Records, around_faults};

#[derive(Debug)]
struct Protobuf {
    message: MessageDescriptor,
    ignore_parse_errors: Option<bool>,
    /// What a message has not is its default, and not NULL.
    reads_defaults: bool,
    /// Stands for a NULL in an array or map of texts.
    null_text: String,
}

pub(crate) fn read_format(
    columns: &Schema,
    options: &OptionReader<'_>,
) -> Result<Arc<dyn Format>, OptionError> {
    let message = descriptor::find_message(options)?;
    let ignore_parse_errors = options.boolean("protobuf.ignore-parse-errors")?;
    let reads_defaults = options.boolean("protobuf.read-default-values")?.unwrap_or(false);
    let null_text = options.text("protobuf.write-null-string-literal").unwrap_or("").to_owned();
    MessagePlan::new(&message, columns.fields(), reads_defaults)
        .map_err(|reason| options.error("format", reason))?;
    Ok(Arc::new(Protobuf { message, ignore_parse_errors, reads_defaults, null_text }))
}

impl Protobuf {
    fn plan(&self, columns: &Schema) -> MessagePlan {
        MessagePlan::new(&self.message, columns.fields(), self.reads_defaults)
            .expect("checked with the options")
    }
}

impl Format for Protobuf {
    fn extension(&self) -> &'static str {
        "pb"
    }

    fn ignore_parse_errors(&self) -> Option<bool> {
        self.ignore_parse_errors
    }

    fn record_decoder(&self, _schema: &SchemaRef, wanted: &SchemaRef) -> Box<dyn RecordDecoder> {
        Box::new(Decoding { decoder: ProtobufDecoder::new(self.plan(wanted)), declared: Arc::clone(wanted) })
    }

    fn record_encoder(&self, schema: &SchemaRef) -> Box<dyn RecordEncoder> {
        Box::new(ProtobufEncoder::new(self.plan(schema), self.null_text.clone()))
    }
}

struct Decoding {
    decoder: ProtobufDecoder,
    declared: SchemaRef,
}

impl RecordDecoder for Decoding {
    fn decode(&mut self, records: &Records, range: Range<usize>, bad: &mut Vec<BadRecord>) -> RecordBatch {
        let places: Vec<usize> = range.collect();
        let rows = around_faults(&self.declared, &places, bad, &mut Vec::new(), |part| {
            for (at, place) in part.iter().enumerate() {
                self.decoder.append(records.get(*place)).map_err(|reason| {
                    self.decoder.forget();
                    (at, reason)
                })?;
            }
            self.decoder.finish(&self.declared, part.len()).map_err(|reason| (0, reason))
        });
        bad.sort_by_key(|record| record.index);
        rows
    }
}

#[cfg(test)]
mod tests;
