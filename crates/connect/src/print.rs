use crate::options::OptionReader;
use crate::{ConnectError, OptionError, Sink, TableSpec};

pub(crate) fn open(_table: &TableSpec, options: &OptionReader<'_>) -> Result<Box<dyn Sink>, ConnectError> {
    Err(options.error("connector", "not built yet").into())
}

pub(crate) fn validate(_options: &OptionReader<'_>) -> Result<(), OptionError> {
    Ok(())
}
