use arrow::array::RecordBatch;

use crate::options::OptionReader;
use crate::{
    ConnectError, Connector, Encoder, OpenSink, OptionError, SinkConnector, SinkEnvironment, TableSpec,
};

/// `'connector' = 'blackhole'`.
pub(crate) struct BlackholeTable;

/// Swallows rows: for measuring everything but the output.
struct Blackhole;

impl Connector for BlackholeTable {
    fn name(&self) -> &'static str {
        "blackhole"
    }

    fn sink(&self) -> Option<&dyn SinkConnector> {
        Some(self)
    }
}

impl SinkConnector for BlackholeTable {
    fn validate(&self, _table: &TableSpec, options: &OptionReader<'_>) -> Result<(), OptionError> {
        options.finish()
    }

    fn open(
        &self,
        _table: &TableSpec,
        _env: &SinkEnvironment,
        options: &OptionReader<'_>,
    ) -> Result<OpenSink, ConnectError> {
        options.finish()?;
        Ok(OpenSink { encoder: Box::new(Blackhole), output: None, may_stall: false, serves_all: false })
    }
}

impl Encoder for Blackhole {
    fn encode(&mut self, _rows: &RecordBatch, _out: &mut Vec<u8>) -> Result<(), ConnectError> {
        Ok(())
    }

    fn finish(&mut self, _out: &mut Vec<u8>) -> Result<(), ConnectError> {
        Ok(())
    }
}
