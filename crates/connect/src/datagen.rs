use crate::options::OptionReader;
use crate::{ConnectError, OptionError, Scan, ScanEnvironment, ScanSpec, TableSpec};

pub(crate) fn open_scan(
    _spec: &ScanSpec,
    _env: &ScanEnvironment,
    options: &OptionReader<'_>,
) -> Result<Box<dyn Scan>, ConnectError> {
    Err(options.error("connector", "not built yet").into())
}

pub(crate) fn validate(_table: &TableSpec, _options: &OptionReader<'_>) -> Result<(), OptionError> {
    Ok(())
}
