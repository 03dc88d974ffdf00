//! What tables can be. A connector is one file and one line in the list of its crate; one of another crate is made
//! known with [`register`].

use arrow::array::RecordBatch;
use arrow::datatypes::DataType;
use parking_lot::RwLock;

use crate::options::OptionReader;
use crate::{
    ConnectError, Delivery, OpenSink, OptionError, Scan, ScanEnvironment, ScanSpec, SinkEnvironment,
    TableSpec, blackhole, datagen, filesystem, nexmark, print,
};

/// What a table is by its option 'connector'.
pub trait Connector: Sync {
    /// The option's value.
    fn name(&self) -> &'static str;

    /// `None` if its tables cannot be read.
    fn source(&self) -> Option<&dyn SourceConnector> {
        None
    }

    /// `None` if its tables cannot be written.
    fn sink(&self) -> Option<&dyn SinkConnector> {
        None
    }

    /// `None` if rows cannot be looked up in its tables.
    fn lookup(&self) -> Option<&dyn LookupConnector> {
        None
    }

    /// The METADATA columns that its tables may have.
    fn metadata(&self) -> &'static [MetadataKey] {
        &[]
    }

    /// True if what is read comes in parts that each have a watermark of their own. A table with a watermark then has
    /// a column more: see [`SplitColumn`](crate::SplitColumn).
    fn has_splits(&self) -> bool {
        false
    }

    /// True if a field of a ROW can be read without the rest of it. A table then has columns more: see
    /// [`FieldColumn`](crate::FieldColumn).
    fn reads_fields(&self) -> bool {
        false
    }
}

/// Tables that are read.
pub trait SourceConnector: Sync {
    /// Checks the WITH clause without touching what is outside.
    ///
    /// # Errors
    /// Names the first option that is missing, unknown or malformed, with the valid choices.
    fn validate(&self, table: &TableSpec, options: &OptionReader<'_>) -> Result<(), OptionError>;

    /// Opens a table.
    ///
    /// # Errors
    /// As [`open_scan`](crate::open_scan).
    fn open(
        &self,
        spec: &ScanSpec,
        env: &ScanEnvironment,
        options: &OptionReader<'_>,
    ) -> Result<Box<dyn Scan>, ConnectError>;

    /// Whether the table ends.
    fn is_bounded(&self, table: &TableSpec) -> bool;

    /// False if a query that goes on from a checkpoint cannot go on in the midst of the table: reading always begins with
    /// the first row, and the rows may be others by then.
    fn is_read_on(&self, _table: &TableSpec) -> bool {
        true
    }

    /// About how long a table takes to open, with its first rows made ready, on a core to itself. By default that of a small file.
    fn opening_ns(&self) -> u64 {
        300_000
    }
}

/// Tables that are written.
pub trait SinkConnector: Sync {
    /// Checks the WITH clause without touching what is outside.
    ///
    /// # Errors
    /// Names the first option that is missing, unknown or malformed, with the valid choices; a column that the format
    /// cannot hold is an error of the option 'format'.
    fn validate(&self, table: &TableSpec, options: &OptionReader<'_>) -> Result<(), OptionError>;

    /// Opens a table.
    ///
    /// # Errors
    /// As [`open_sink`](crate::open_sink).
    fn open(
        &self,
        table: &TableSpec,
        env: &SinkEnvironment,
        options: &OptionReader<'_>,
    ) -> Result<OpenSink, ConnectError>;

    /// The last checkpoint that an output of this query committed, as the outside itself tells: a restored query begins at
    /// exactly that one, 0 being the beginning. `None` if nobody keeps such a record: any complete one will do. Asked
    /// before [`open`](SinkConnector::open), of an environment that is checkpointed.
    ///
    /// # Errors
    /// If the outside cannot be asked.
    fn committed(
        &self,
        _table: &TableSpec,
        _env: &SinkEnvironment,
        _options: &OptionReader<'_>,
    ) -> Result<Option<u64>, ConnectError> {
        Ok(None)
    }

    /// Whether the outside keeps such a record of this table. Two of them cannot be brought up to one checkpoint at once.
    fn keeps_record(&self, _table: &TableSpec, _options: &OptionReader<'_>) -> bool {
        false
    }

    /// What a query with checkpoints is promised here.
    fn delivery(&self, _table: &TableSpec, _options: &OptionReader<'_>) -> Delivery {
        Delivery::AtLeastOnce
    }
}

/// Tables outside of files that rows are looked up in: read whole, and again at the times that the `lookup.` options say.
pub trait LookupConnector: Sync {
    /// Checks the WITH clause without touching what is outside.
    ///
    /// # Errors
    /// Names the first option that is missing, unknown or malformed.
    fn validate(&self, table: &TableSpec, options: &OptionReader<'_>) -> Result<(), OptionError>;

    /// All rows, with the columns asked for. May block.
    ///
    /// # Errors
    /// If the outside fails or refuses.
    fn read(&self, spec: &ScanSpec, options: &OptionReader<'_>) -> Result<Vec<RecordBatch>, ConnectError>;
}

/// Something that a connector tells of a row beside its columns, or takes with one: `METADATA FROM 'key'`.
pub struct MetadataKey {
    /// Its name.
    pub key: &'static str,
    /// Its own type, as SQL writes it.
    pub sql_type: &'static str,
    /// Whether a column of this type can hold it.
    pub fits: fn(&DataType) -> bool,
    /// Whether a table that is written takes it.
    pub is_written: bool,
}

/// Makes a connector of another crate known to this process. Once is enough; before any SQL is read.
pub fn register(connector: &'static dyn Connector) {
    let mut registered = REGISTERED.write();
    if registered.iter().all(|other| other.name() != connector.name()) {
        registered.push(connector);
    }
}

/// The connector of that name.
pub fn connector(name: &str) -> Option<&'static dyn Connector> {
    all().into_iter().find(|connector| connector.name() == name)
}

/// All of them, ours first.
pub(crate) fn all() -> Vec<&'static dyn Connector> {
    BUILT_IN.iter().copied().chain(REGISTERED.read().iter().copied()).collect()
}

const BUILT_IN: &[&dyn Connector] = &[
    &filesystem::Filesystem,
    &datagen::Datagen,
    &nexmark::Nexmark,
    &print::Print,
    &blackhole::BlackholeTable,
];

static REGISTERED: RwLock<Vec<&'static dyn Connector>> = RwLock::new(Vec::new());

/// Taken for every table: how many read or write it is the engine's to say.
const OF_FLINK: [&str; 2] = ["scan.parallelism", "sink.parallelism"];

/// What is chosen by the option 'connector' among those that have a `part`; others are refused with this sentence.
pub(crate) fn chosen<T: ?Sized>(
    options: &OptionReader<'_>,
    part: fn(&'static dyn Connector) -> Option<&'static T>,
    refused: &str,
) -> Result<&'static T, OptionError> {
    for key in OF_FLINK {
        options.count(key, 1)?;
    }
    let all = all();
    let choices: Vec<(&str, &'static T)> =
        all.iter().filter_map(|connector| Some((connector.name(), part(*connector)?))).collect();
    options.required_choice("connector", &choices).map_err(|error| {
        let is_other = |name: &str| all.iter().any(|connector| connector.name() == name);
        match options.text("connector").filter(|name| is_other(name)) {
            Some(_) => {
                let names: Vec<String> = choices.iter().map(|(name, _)| format!("'{name}'")).collect();
                let (last, rest) = names.split_last().expect("some are built in");
                options.error("connector", format!("{refused} {} and {last}", rest.join(", ")))
            }
            None => error,
        }
    })
}
