//! Tables that streams look rows up in: read whole, and read again when their files have changed; those outside of files
//! each time.

mod options;
mod reload;

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::Arc;

use arrow::array::RecordBatch;
use laxity_graph::{EventTime, ProcessingTime};
use parking_lot::Mutex;

use crate::options::OptionReader;
use crate::stream::may_block;
use crate::{
    ConnectError, LookupConnector, OptionError, ScanEnvironment, ScanEvent, ScanSpec, TableSpec, connector,
    filesystem, open_scan, validate_source,
};
pub(crate) use options::LookupOptions;

/// Keeps a table up to date for as long as it lives.
///
/// Reloads are made by one thread for all tables of the process: files are looked at, read and decoded there, beside
/// whatever version is in use meanwhile.
#[derive(Debug)]
pub struct LookupFeed(#[expect(dead_code, reason = "held, not looked at")] Arc<Followed>);

/// Takes a version of a table. An error keeps the version before.
pub type TakeVersion = Box<dyn FnMut(Vec<RecordBatch>) -> Result<(), String> + Send>;

/// Checks the WITH clause of a table that streams look rows up in, without touching files.
///
/// # Errors
/// Names the first option that is wrong, or that such a table cannot have.
pub fn validate_lookup(table: &TableSpec) -> Result<(), OptionError> {
    let options = OptionReader::new(table);
    if let Some(outside) = outside(table) {
        LookupOptions::read(&options)?;
        return outside.validate(table, &options);
    }
    if options.text("connector") != Some("filesystem") {
        let others: Vec<String> = connector::all()
            .iter()
            .filter(|connector| connector.lookup().is_some())
            .map(|connector| format!(" or a '{}'", connector.name()))
            .collect();
        return Err(options.error(
            "connector",
            format!(
                "rows cannot be looked up in it: FOR SYSTEM_TIME AS OF takes a 'filesystem'{} table, which is kept in memory",
                others.concat()
            ),
        ));
    }
    if let Some(key) = table.options.keys().find(|key| key.starts_with("laxity.replay.")) {
        return Err(options.error(key, "a table that rows are looked up in is read at once, not replayed"));
    }
    let followed = "source.monitor-interval";
    if table.options.contains_key(followed) {
        let message = "a table that rows are looked up in is read again as 'lookup.full-cache.*' says";
        return Err(options.error(followed, message));
    }
    validate_source(table)
}

/// Reads a table, hands its columns over, and does so again whenever its files have changed, at the times that the
/// `lookup.` options say.
///
/// # Errors
/// If the table cannot be read now, or `take` refuses it. A failure later is logged, and tried again the next time.
pub fn follow_table(spec: &ScanSpec, take: TakeVersion) -> Result<LookupFeed, ConnectError> {
    validate_lookup(&spec.table)?;
    let options = LookupOptions::read(&OptionReader::new(&spec.table))?;
    let followed = Followed { spec: spec.clone(), options, state: Mutex::new(State { take, read: None }) };
    followed.look()?;
    let followed = Arc::new(followed);
    reload::register(&followed);
    Ok(LookupFeed(followed))
}

/// The connector of a table that is not in files.
fn outside(table: &TableSpec) -> Option<&'static dyn LookupConnector> {
    connector::connector(table.options.get("connector")?)?.lookup()
}

/// A table that is looked at from time to time.
struct Followed {
    spec: ScanSpec,
    options: LookupOptions,
    state: Mutex<State>,
}

struct State {
    take: TakeVersion,
    /// The files as they were read.
    read: Option<Vec<Stamp>>,
}

impl std::fmt::Debug for Followed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Followed({})", self.spec.table.name)
    }
}

/// What tells a file from what it was before.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Stamp {
    path: PathBuf,
    inode: u64,
    bytes: u64,
    modified: (i64, i64),
}

impl Stamp {
    fn of(path: PathBuf, found: &Metadata) -> Stamp {
        let modified = (found.mtime(), found.mtime_nsec());
        Stamp { path, inode: found.ino(), bytes: found.len(), modified }
    }
}

impl Followed {
    /// Reads the table if its files are not those read last.
    fn look(&self) -> Result<(), ConnectError> {
        let mut state = self.state.lock();
        if let Some(outside) = outside(&self.spec.table) {
            let batches = outside.read(&self.spec, &OptionReader::new(&self.spec.table))?;
            return (state.take)(batches).map_err(|message| ConnectError::Service {
                service: format!("table {}", self.spec.table.name),
                action: "look rows up".to_owned(),
                message,
            });
        }
        let found = self.stamps()?;
        if state.read.as_ref() == Some(&found) {
            return Ok(());
        }
        let batches = read_whole(&self.spec)?;
        (state.take)(batches).map_err(|message| ConnectError::Format {
            path: found.first().map(|stamp| stamp.path.clone()).unwrap_or_default(),
            format: "a table",
            message,
        })?;
        // What changed while it was read is read again the next time.
        state.read = (self.stamps()? == found).then_some(found);
        Ok(())
    }

    fn stamps(&self) -> Result<Vec<Stamp>, ConnectError> {
        let table = &self.spec.table;
        let files = filesystem::files_of(&OptionReader::new(table))?;
        let stamp = |path: PathBuf| {
            let failed = |source| ConnectError::Io { action: "open", path: path.clone(), source };
            let found = std::fs::metadata(&path).map_err(failed)?;
            if may_block(found.file_type()) {
                return Err(ConnectError::Option(OptionError {
                    table: table.name.clone(),
                    key: "path".to_owned(),
                    message: format!(
                        "{}: not a regular file; a table that rows are looked up in is read more than once",
                        path.display()
                    ),
                }));
            }
            Ok(Stamp::of(path, &found))
        };
        files.into_iter().map(stamp).collect()
    }
}

fn read_whole(spec: &ScanSpec) -> Result<Vec<RecordBatch>, ConnectError> {
    let mut scan = open_scan(spec, &ScanEnvironment::new(ProcessingTime::ZERO, EventTime(0)))?;
    let mut batches = Vec::new();
    loop {
        match scan.poll(ProcessingTime::ZERO)? {
            ScanEvent::Batch(batch) => batches.push(batch.rows),
            ScanEvent::End => return Ok(batches),
            // Regular files that are not replayed are always there.
            ScanEvent::NotBefore(_) | ScanEvent::Waiting => {}
        }
    }
}

#[cfg(test)]
mod tests;
