use arrow::array::RecordBatch;

use crate::options::OptionReader;
use crate::{ConnectError, Encoder, OpenSink, OptionError};

/// Swallows rows: for measuring everything but the output.
struct Blackhole;

pub(crate) fn open(options: &OptionReader<'_>) -> Result<OpenSink, ConnectError> {
    validate(options)?;
    Ok(OpenSink { encoder: Box::new(Blackhole), output: None, may_stall: false })
}

pub(crate) fn validate(options: &OptionReader<'_>) -> Result<(), OptionError> {
    options.finish()
}

impl Encoder for Blackhole {
    fn encode(&mut self, _rows: &RecordBatch, _out: &mut Vec<u8>) -> Result<(), ConnectError> {
        Ok(())
    }

    fn finish(&mut self, _out: &mut Vec<u8>) -> Result<(), ConnectError> {
        Ok(())
    }
}
