use arrow::array::RecordBatch;

use super::LineEncoder;
use crate::record::{RecordEncoder, Records};
use crate::{ConnectError, Encoder};

/// Makes a record of each row as the line that a file would have.
pub(crate) struct LineRecords {
    encoder: LineEncoder,
    /// A line may hold line feeds.
    line_by_line: bool,
    text: Vec<u8>,
}

impl LineRecords {
    pub(crate) fn new(encoder: LineEncoder, line_by_line: bool) -> LineRecords {
        LineRecords { encoder, line_by_line, text: Vec::new() }
    }

    fn encode_lines(&mut self, rows: &RecordBatch) -> Result<(), String> {
        self.text.clear();
        self.encoder.encode(rows, &mut self.text).map_err(|error| match error {
            ConnectError::Encode { message, .. } => message,
            other => other.to_string(),
        })
    }
}

impl RecordEncoder for LineRecords {
    fn encode(&mut self, rows: &RecordBatch, records: &mut Records) -> Result<(), String> {
        if !self.line_by_line {
            self.encode_lines(rows)?;
            let lines = self.text.split_inclusive(|byte| *byte == b'\n');
            lines.for_each(|line| records.push(Some(line.strip_suffix(b"\n").unwrap_or(line))));
            return Ok(());
        }
        for row in 0..rows.num_rows() {
            self.encode_lines(&rows.slice(row, 1))?;
            records.push(Some(self.text.strip_suffix(b"\n").unwrap_or(&self.text)));
        }
        Ok(())
    }
}
