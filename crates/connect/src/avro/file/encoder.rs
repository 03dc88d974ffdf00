//! Rows on their way into a file of Avro.

use std::hash::{BuildHasher, RandomState};
use std::path::PathBuf;

use arrow::array::RecordBatch;
use arrow::datatypes::Schema;

use super::{AvroFiles, MARK_BYTES};
use crate::avro::codec::Codec;
use crate::avro::types::on_the_wire;
use crate::avro::varint::write_long;
use crate::avro::{AvroEncoder, schema};
use crate::record::{RECORDS_MAX, RecordEncoder, Records};
use crate::{ConnectError, Encoder};

/// A block ends with the record that makes it so long: what Avro's own writer does.
const BLOCK_BYTES: usize = 64_000;

/// Makes a file of rows. Its bytes come with each block that is full.
pub(super) struct AvroFileEncoder {
    /// Names the output in errors.
    path: PathBuf,
    encoder: AvroEncoder,
    codec: Codec,
    /// Ends the header and every block. No other file has it, so that whoever looks for it finds a place in this one.
    mark: [u8; MARK_BYTES],
    /// What the file begins with, until that is written.
    header: Vec<u8>,
    records: Records,
    block: Vec<u8>,
    /// Records in it.
    count: i64,
    packed: Vec<u8>,
}

impl AvroFileEncoder {
    /// # Errors
    /// If Avro cannot hold a column.
    pub(super) fn new(
        AvroFiles { codec, timestamps }: AvroFiles,
        columns: &Schema,
        path: PathBuf,
    ) -> Result<AvroFileEncoder, ConnectError> {
        let failed = |message: String| ConnectError::Encode { path: path.clone(), format: "avro", message };
        let json = schema::json_of(&on_the_wire(columns).map_err(failed)?, timestamps);
        let encoder = AvroEncoder::new(columns, &json).map_err(failed)?;
        let (low, high) = (RandomState::new().hash_one(1), RandomState::new().hash_one(2));
        let mark = ((u128::from(high) << 64) | u128::from(low)).to_be_bytes();
        let mut header = b"Obj\x01".to_vec();
        write_long(2, &mut header);
        for text in ["avro.schema", &json, "avro.codec", codec.name()] {
            write_long(text.len() as i64, &mut header);
            header.extend_from_slice(text.as_bytes());
        }
        write_long(0, &mut header);
        header.extend_from_slice(&mark);
        let (records, block, packed) = (Records::default(), Vec::new(), Vec::new());
        Ok(AvroFileEncoder { path, encoder, codec, mark, header, records, block, count: 0, packed })
    }

    fn end_block(&mut self, out: &mut Vec<u8>) -> Result<(), ConnectError> {
        out.append(&mut self.header);
        self.packed.clear();
        self.codec.pack(&self.block, &mut self.packed).map_err(|error| self.failed(error.to_string()))?;
        write_long(std::mem::take(&mut self.count), out);
        write_long(self.packed.len() as i64, out);
        out.extend_from_slice(&self.packed);
        out.extend_from_slice(&self.mark);
        self.block.clear();
        Ok(())
    }

    fn failed(&self, message: String) -> ConnectError {
        ConnectError::Encode { path: self.path.clone(), format: "avro", message }
    }
}

impl Encoder for AvroFileEncoder {
    fn encode(&mut self, rows: &RecordBatch, out: &mut Vec<u8>) -> Result<(), ConnectError> {
        for first in (0..rows.num_rows()).step_by(RECORDS_MAX) {
            let rows = rows.slice(first, RECORDS_MAX.min(rows.num_rows() - first));
            self.records.clear();
            self.encoder.encode(&rows, &mut self.records).map_err(|message| self.failed(message))?;
            for index in 0..self.records.len() {
                self.block.extend_from_slice(self.records.get(index));
                self.count += 1;
                if self.block.len() >= BLOCK_BYTES {
                    self.end_block(out)?;
                }
            }
        }
        Ok(())
    }

    fn finish(&mut self, out: &mut Vec<u8>) -> Result<(), ConnectError> {
        if self.count > 0 {
            self.end_block(out)?;
        }
        // Of no row.
        out.append(&mut self.header);
        Ok(())
    }
}
