use arrow::array::RecordBatch;

use crate::options::OptionReader;
use crate::{ConnectError, OptionError, Sink};

/// Swallows rows: for measuring everything but the output.
struct Blackhole;

pub(crate) fn open(options: &OptionReader<'_>) -> Result<Box<dyn Sink>, ConnectError> {
    validate(options)?;
    Ok(Box::new(Blackhole))
}

pub(crate) fn validate(options: &OptionReader<'_>) -> Result<(), OptionError> {
    options.finish()
}

impl Sink for Blackhole {
    fn write(&mut self, _rows: &RecordBatch) -> Result<(), ConnectError> {
        Ok(())
    }

    fn close(&mut self) -> Result<(), ConnectError> {
        Ok(())
    }

    fn is_immediate(&self) -> bool {
        true
    }
}
