use crate::options::OptionReader;
use crate::{ConnectError, OptionError, Sink, SinkEnvironment, TableSpec};

pub(crate) fn open(
    _table: &TableSpec,
    _env: &SinkEnvironment,
    options: &OptionReader<'_>,
) -> Result<Box<dyn Sink>, ConnectError> {
    Err(options.error("connector", "not built yet").into())
}

pub(crate) fn validate(_table: &TableSpec, _options: &OptionReader<'_>) -> Result<(), OptionError> {
    Ok(())
}
