//! `filesystem`: files and folders as tables. Reading is here; writing is in `file_sink.rs`, and reading at a pace in
//! `replay.rs`.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use arrow::array::RecordBatch;
use laxity_graph::ProcessingTime;

use crate::compression::Compression;
use crate::dead_letter::{DeadLetterOptions, DeadLetters};
use crate::format::{Direction, Format, file_format};
use crate::lookup::LookupOptions;
use crate::monitor::Monitor;
use crate::options::OptionReader;
use crate::partition;
use crate::reader::{Step, TableReader};
use crate::replay::{self, ReplayOptions};
use crate::root::keep_within;
use crate::{
    ConnectError, Connector, Delivery, FileMetadata, MetadataKey, OpenSink, OptionError, Preparation, Scan,
    ScanEnvironment, ScanEvent, ScanPosition, ScanSpec, ScannedBatch, SinkConnector, SinkEnvironment,
    SourceConnector, TableSpec, file_sink, query_path,
};

/// A file or a folder, read as fast as it is asked for. With `laxity.replay.*` options it is paced: see
/// [`replay`].
struct FilesystemScan {
    reader: TableReader,
    dead: DeadLetters,
    /// Records before the first that is its.
    records_before: u64,
    rows_to_skip: u64,
    /// Decoded ahead.
    piece: Option<RecordBatch>,
    /// The number of its first row.
    piece_at: u64,
    /// Where it begins, in files that are followed.
    before_piece: Option<ScanPosition>,
    /// How the input ended; a fault is told once.
    end: Option<Result<(), ConnectError>>,
    /// How often files are looked at that may come or grow, and whether nothing has come since the last look.
    monitor: Option<Duration>,
    is_quiet: bool,
}

struct SourceOptions {
    format: Arc<dyn Format>,
    compression: Option<Compression>,
    dead_letters: DeadLetterOptions,
    replay: Option<ReplayOptions>,
    /// Files are looked at so often for what is new.
    monitor: Option<Duration>,
}

impl SourceOptions {
    fn read(options: &OptionReader<'_>) -> Result<SourceOptions, OptionError> {
        path(options)?;
        if options.text("path").is_some_and(query_path::is_of_queries) {
            let message = "a table that has a file for each query that writes it cannot be read: name the folder in a table of its own";
            return Err(options.error("path", message));
        }
        let format = file_format(options, Direction::Read)?;
        let compression = Compression::read(options)?;
        if format.is_container() && matches!(compression, Some(Compression::Gzip | Compression::Zstd)) {
            let message = format!("{} is compressed inside; leave the option out", format.extension());
            return Err(options.error("compression", message));
        }
        let mut dead_letters = DeadLetterOptions::read(options)?;
        if format.ignore_parse_errors() == Some(false) {
            dead_letters.tolerate_none();
        }
        let replay = ReplayOptions::read(options)?;
        let monitor = Monitor::is_asked_for(options)?;
        if replay.is_some() && monitor.is_some() {
            let message = "a replay is of files that are there when it starts; leave one of them out";
            return Err(options.error("source.monitor-interval", message));
        }
        partition::default_name(options)?;
        // Of the same table when rows are looked up in it.
        LookupOptions::read(options)?;
        options.finish()?;
        Ok(SourceOptions { format, compression, dead_letters, replay, monitor })
    }
}

/// The option 'path', absolute or relative to the SQL file.
pub(crate) fn path(options: &OptionReader<'_>) -> Result<PathBuf, OptionError> {
    let text = options.required("path", "a file or a folder")?;
    if text.is_empty() {
        return Err(options.error("path", "empty; give a file or a folder"));
    }
    let text = text.strip_prefix("file://").unwrap_or(text);
    if let Some((scheme, _)) = text.split_once("://") {
        return Err(options.error("path", format!("'{scheme}://' is not supported; give a local path")));
    }
    let path = options.table().base.join(text);
    keep_within(options, "path", &path)?;
    Ok(path)
}

/// `'connector' = 'filesystem'`.
pub(crate) struct Filesystem;

impl Connector for Filesystem {
    fn name(&self) -> &'static str {
        "filesystem"
    }

    fn source(&self) -> Option<&dyn SourceConnector> {
        Some(self)
    }

    fn sink(&self) -> Option<&dyn SinkConnector> {
        Some(self)
    }

    fn metadata(&self) -> &'static [MetadataKey] {
        &FileMetadata::KEYS
    }
}

impl SourceConnector for Filesystem {
    fn validate(&self, _table: &TableSpec, options: &OptionReader<'_>) -> Result<(), OptionError> {
        SourceOptions::read(options).map(drop)
    }

    fn open(
        &self,
        spec: &ScanSpec,
        env: &ScanEnvironment,
        options: &OptionReader<'_>,
    ) -> Result<Box<dyn Scan>, ConnectError> {
        open_scan(spec, env, options)
    }

    fn is_bounded(&self, table: &TableSpec) -> bool {
        let option = |key: &str| table.options.get(key).map(String::as_str);
        option("laxity.replay.loop") != Some("forever") && option("source.monitor-interval").is_none()
    }
}

impl SinkConnector for Filesystem {
    fn validate(&self, table: &TableSpec, options: &OptionReader<'_>) -> Result<(), OptionError> {
        file_sink::validate(table, options)
    }

    fn open(
        &self,
        table: &TableSpec,
        env: &SinkEnvironment,
        options: &OptionReader<'_>,
    ) -> Result<OpenSink, ConnectError> {
        file_sink::open(table, env, options)
    }

    fn delivery(&self, _table: &TableSpec, options: &OptionReader<'_>) -> Delivery {
        file_sink::delivery(options)
    }
}

fn open_scan(
    spec: &ScanSpec,
    env: &ScanEnvironment,
    options: &OptionReader<'_>,
) -> Result<Box<dyn Scan>, ConnectError> {
    let source = SourceOptions::read(options)?;
    let dead = DeadLetters::open(&spec.table.name, &source.dead_letters, env.leads())?;
    let resume = env.resume.clone().unwrap_or_default();
    let dead = match env.restored {
        Some(restored) => dead.going_on(restored.dead_rows),
        None if env.resume.is_some() => dead.going_on(0).after(resume.dead_rows),
        None => dead,
    };
    let open_reader = |columns: Vec<usize>| {
        let (table, waker) = (Arc::clone(&spec.table), env.waker.clone());
        let (format, compression) = (Arc::clone(&source.format), source.compression);
        if source.monitor.is_none() {
            return TableReader::new(table, columns, files_of(options)?, format, compression, waker);
        }
        let of = Arc::clone(&spec.table);
        let may_read = Box::new(move |path: &Path| keep_within(&OptionReader::new(&of), "path", path));
        let can_grow =
            !format.is_container() && !matches!(compression, Some(Compression::Gzip | Compression::Zstd));
        let monitor = Monitor::new(path(options)?, can_grow, may_read, &resume.files);
        TableReader::following(table, columns, monitor, format, compression, waker)
    };
    match source.replay {
        Some(replay) => replay::open_scan(spec, env, replay, dead, open_reader),
        None => Ok(Box::new(FilesystemScan {
            reader: open_reader(spec.columns.clone())?,
            dead,
            records_before: env.records_before(),
            rows_to_skip: env.skip_rows,
            piece: None,
            piece_at: 0,
            before_piece: None,
            end: None,
            monitor: source.monitor,
            is_quiet: false,
        })),
    }
}

impl FilesystemScan {
    /// Behind all that was decoded, in files that are followed.
    fn behind_all(&self) -> Option<ScanPosition> {
        let files = self.reader.files_read()?;
        Some(ScanPosition { files, dead_rows: self.dead.count(), ..ScanPosition::default() })
    }
}

impl Scan for FilesystemScan {
    fn poll(&mut self, now: ProcessingTime) -> Result<ScanEvent, ConnectError> {
        loop {
            if let Some(rows) = self.piece.take() {
                return Ok(ScanEvent::Batch(ScannedBatch { rows, arrival: now }));
            }
            if let Some(end) = &mut self.end {
                return std::mem::replace(end, Ok(())).map(|()| ScanEvent::End);
            }
            if self.prepare()? == Preparation::Waiting {
                return Ok(ScanEvent::Waiting);
            }
            if let (true, Some(interval)) = (std::mem::take(&mut self.is_quiet), self.monitor) {
                return Ok(ScanEvent::NotBefore(now.plus(interval)));
            }
        }
    }

    fn prepare(&mut self) -> Result<Preparation, ConnectError> {
        if self.piece.is_some() || self.end.is_some() {
            return Ok(Preparation::Ready);
        }
        self.before_piece = self.behind_all();
        let step = self.reader.step();
        let buried = self.reader.take_bad().map_or(Ok(()), |(file, mut bad)| {
            bad.retain(|bad| self.reader.numbering().of_bad(bad) >= self.records_before);
            self.dead.put(&file, &bad)
        });
        match buried.and(step) {
            Ok(Step::Rows(rows)) => {
                let numbering = self.reader.numbering();
                let foreign = numbering.rows_below(self.records_before, rows.num_rows());
                let skipped = self.rows_to_skip.min((rows.num_rows() - foreign) as u64);
                self.rows_to_skip -= skipped;
                let first = foreign + skipped as usize;
                if first < rows.num_rows() {
                    self.piece_at = numbering.of_row(first);
                    self.piece = Some(rows.slice(first, rows.num_rows() - first));
                    return Ok(Preparation::Ready);
                }
            }
            Ok(Step::More) => {}
            Ok(Step::Waiting) => return Ok(Preparation::Waiting),
            Ok(Step::Quiet) => self.is_quiet = true,
            Ok(Step::End) => self.end = Some(Ok(())),
            Err(error) => self.end = Some(Err(error)),
        }
        Ok(Preparation::More)
    }

    fn is_repeatable(&self) -> bool {
        self.reader.is_repeatable()
    }

    fn position(&self) -> Option<ScanPosition> {
        if self.piece.is_some() { self.before_piece.clone() } else { self.behind_all() }
    }

    fn records(&mut self) -> Option<u64> {
        while self.rows_to_skip > 0
            && self.prepare().is_ok_and(|preparation| preparation == Preparation::More)
        {}
        Some(match self.piece {
            Some(_) => self.piece_at,
            None => self.reader.records().max(self.records_before),
        })
    }

    fn held_bytes(&self) -> u64 {
        let piece_bytes = self.piece.as_ref().map_or(0, RecordBatch::get_array_memory_size);
        self.reader.held_bytes() + piece_bytes as u64
    }

    fn dead_rows(&self) -> u64 {
        self.dead.count()
    }

    fn progress(&self) -> Option<f64> {
        self.reader.progress()
    }
}

/// The files of a table.
pub(crate) fn files_of(options: &OptionReader<'_>) -> Result<Vec<PathBuf>, ConnectError> {
    let files = list_files(&path(options)?)?;
    // A link may stand in the folder.
    files.iter().try_for_each(|file| keep_within(options, "path", file))?;
    Ok(files)
}

/// The file itself, or the files of the folder and of its folders in order of their names. Names that start
/// with `.` or `_` are bookkeeping of other programs, as in Flink.
pub(crate) fn list_files(path: &Path) -> Result<Vec<PathBuf>, ConnectError> {
    let failed = |action, path: &Path, source| ConnectError::Io { action, path: path.to_owned(), source };
    let kind = std::fs::metadata(path).map_err(|source| failed("open", path, source))?;
    if !kind.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let mut entries = Vec::new();
    for entry in std::fs::read_dir(path).map_err(|source| failed("list", path, source))? {
        let entry = entry.map_err(|source| failed("list", path, source))?;
        let name = entry.file_name();
        if !matches!(name.as_encoded_bytes().first(), Some(b'.' | b'_')) {
            entries.push(entry.path());
        }
    }
    entries.sort();
    let mut files = Vec::new();
    for entry in entries {
        files.extend(list_files(&entry)?);
    }
    Ok(files)
}

#[cfg(test)]
mod tests;
