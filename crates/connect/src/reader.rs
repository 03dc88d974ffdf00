//! From the files of a table to rows, whatever their format. When rows are due, and where bad ones go, is for the scans
//! that use it.

use std::fs::{File, Metadata};
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arrow::array::RecordBatch;

use crate::claim::{Claim, Taken};
use crate::compression::Compression;
use crate::container::Container;
use crate::dead_letter::BadRow;
use crate::file_column::FileColumns;
use crate::format::Format;
use crate::monitor::{self, Monitor, Opening};
use crate::numbering::Numbering;
use crate::stream::{Stream, may_block};
use crate::text_file::{Decode, TextFile};
use crate::{ConnectError, FilePlace, FilesRead, OptionError, TableSpec, Waker};

/// Reads the columns asked for from some files, one after the other, in bounded memory and in small steps.
pub(crate) struct TableReader {
    /// As its files are.
    table: Arc<TableSpec>,
    /// Those that are read from files.
    columns: Vec<usize>,
    file_columns: FileColumns,
    files: Vec<PathBuf>,
    next_file: usize,
    /// Finds further files.
    monitor: Option<Monitor>,
    current: Option<Current>,
    /// The file opened last.
    path: Arc<Path>,
    /// Of that one, if files are followed: with what it begins; and of one that does not grow, how many of its records were
    /// decoded, and how many of them were given out before.
    front: FilePlace,
    file_records: u64,
    records_given: u64,
    can_grow: bool,
    format: Arc<dyn Format>,
    /// Of the formats of lines.
    decoder: Option<Box<dyn Decode>>,
    compression: Option<Compression>,
    /// Bad rows of that file.
    bad: Vec<BadRow>,
    /// Records of the files so far, bad ones included, and those of the last step.
    records: u64,
    numbering: Numbering,
    waker: Waker,
    /// Nobody writes the files meanwhile.
    _claims: Vec<Claim>,
    bytes_read: Arc<AtomicU64>,
    /// `None` if one of the files is no regular one, and so of no known length.
    bytes_total: Option<u64>,
}

enum Current {
    Text(Box<TextFile>),
    Container(Box<dyn Container>),
}

/// What came of a step.
pub(crate) enum Step {
    /// At least one row, and no more than a piece.
    Rows(RecordBatch),
    /// Something was done; there is more to do.
    More,
    /// Nothing has come from outside.
    Waiting,
    /// There is nothing until the files are looked at again.
    Quiet,
    /// The last file has ended.
    End,
}

impl TableReader {
    pub(crate) fn new(
        table: Arc<TableSpec>,
        columns: Vec<usize>,
        files: Vec<PathBuf>,
        format: Arc<dyn Format>,
        compression: Option<Compression>,
        waker: Waker,
    ) -> Result<TableReader, ConnectError> {
        let (file_columns, table, columns) = FileColumns::of(&table, &columns)?;
        let decoder = format.line_decoder(&table.schema, &columns);
        let mut bytes_total = Some(0);
        let mut claims = Vec::new();
        for path in &files {
            let failed = |source| ConnectError::Io { action: "open", path: path.clone(), source };
            let found = std::fs::metadata(path).map_err(failed)?;
            if may_block(found.file_type()) {
                bytes_total = None;
                continue;
            }
            let refused = |taken: Taken| OptionError {
                table: table.name.clone(),
                key: "path".to_owned(),
                message: format!("{}: {taken}", path.display()),
            };
            claims.push(Claim::to_read(&found).map_err(refused)?);
            bytes_total = bytes_total.map(|bytes| bytes + found.len());
        }
        let mut reader = TableReader {
            table,
            columns,
            file_columns,
            files,
            next_file: 0,
            monitor: None,
            current: None,
            path: Arc::from(Path::new("")),
            front: FilePlace::default(),
            file_records: 0,
            records_given: 0,
            can_grow: false,
            format,
            decoder,
            compression,
            bad: Vec::new(),
            records: 0,
            numbering: Numbering::default(),
            waker,
            _claims: claims,
            bytes_read: Arc::default(),
            bytes_total,
        };
        // A file that cannot be opened is better known before the queries start.
        reader.open_next_file()?;
        Ok(reader)
    }

    /// A reader of files that are found by and by.
    pub(crate) fn following(
        table: Arc<TableSpec>,
        columns: Vec<usize>,
        monitor: Monitor,
        format: Arc<dyn Format>,
        compression: Option<Compression>,
        waker: Waker,
    ) -> Result<TableReader, ConnectError> {
        let reader = TableReader::new(table, columns, Vec::new(), format, compression, waker)?;
        Ok(TableReader { monitor: Some(monitor), bytes_total: None, ..reader })
    }

    /// Reads or decodes a piece.
    pub(crate) fn step(&mut self) -> Result<Step, ConnectError> {
        let Some(current) = &mut self.current else {
            return Ok(match (self.open_next_file()?, &self.monitor) {
                (true, _) => Step::More,
                (false, Some(_)) => Step::Quiet,
                (false, None) => Step::End,
            });
        };
        let step = match (current, &mut self.decoder) {
            (Current::Text(file), Some(decoder)) => file.step(decoder.as_mut(), &mut self.bad)?,
            (Current::Container(file), _) => file.step(&mut self.bad)?,
            (Current::Text(_), None) => unreachable!("formats of lines have a decoder"),
        };
        self.numbering = Numbering::new(self.records, &self.bad);
        let rows = if let Step::Rows(rows) = &step { rows.num_rows() } else { 0 };
        let records = (rows + self.bad.len()) as u64;
        self.records += records;
        let in_file = Numbering::new(self.file_records, &self.bad);
        self.file_records += records;
        let given = in_file.rows_below(self.records_given, rows);
        self.bad.retain(|bad| in_file.of_bad(bad) >= self.records_given);
        Ok(match step {
            Step::End => {
                let place = self.place();
                if let (Some(monitor), Some(place)) = (&mut self.monitor, place) {
                    monitor.was_read(&self.path, FilePlace { is_whole: !self.can_grow, ..place });
                }
                self.current = None;
                Step::More
            }
            Step::Rows(_) if given == rows => Step::More,
            Step::Rows(rows) => {
                Step::Rows(self.file_columns.rows(rows.slice(given, rows.num_rows() - given)))
            }
            other => other,
        })
    }

    /// How far the file at hand was read.
    fn place(&self) -> Option<FilePlace> {
        let FilePlace { front_bytes, front_crc, .. } = self.front;
        Some(match self.current.as_ref()? {
            Current::Text(file) if self.can_grow => FilePlace { front_bytes, front_crc, ..file.place() },
            _ => FilePlace { records: self.file_records.max(self.records_given), ..self.front },
        })
    }

    /// How far the files were read that are followed; `None` of others.
    pub(crate) fn files_read(&self) -> Option<FilesRead> {
        let monitor = self.monitor.as_ref()?;
        Some(monitor.files_read(self.place().map(|place| (&*self.path, place))))
    }

    /// Takes the bad rows found since it was last asked, and their file. To be called after each step, also one
    /// that failed.
    pub(crate) fn take_bad(&mut self) -> Option<(Arc<Path>, Vec<BadRow>)> {
        (!self.bad.is_empty()).then(|| (Arc::clone(&self.path), std::mem::take(&mut self.bad)))
    }

    /// Where the rows and bad rows of the last step stand.
    pub(crate) fn numbering(&self) -> &Numbering {
        &self.numbering
    }

    /// Records decoded so far, bad ones included, since the first file was opened last.
    pub(crate) fn records(&self) -> u64 {
        self.records
    }

    /// Bytes read and not decoded, as far as they are known.
    pub(crate) fn held_bytes(&self) -> u64 {
        match &self.current {
            Some(Current::Text(file)) => file.held_bytes(),
            Some(Current::Container(file)) => file.held_bytes(),
            None => 0,
        }
    }

    /// False if the files can be read only once.
    pub(crate) fn is_repeatable(&self) -> bool {
        self.bytes_total.is_some()
    }

    /// Starts again with the first file.
    ///
    /// # Errors
    /// If that cannot be done.
    pub(crate) fn rewind(&mut self) -> Result<(), ConnectError> {
        if !self.is_repeatable() {
            return Err(ConnectError::Io {
                action: "read again",
                path: self.files[0].clone(),
                source: std::io::Error::other("it is not a regular file; raise 'laxity.replay.cache'"),
            });
        }
        self.next_file = 0;
        self.current = None;
        self.records = 0;
        self.bytes_read.store(0, Ordering::Relaxed);
        Ok(())
    }

    /// Part of the bytes read, 0 to 1; `None` where nobody knows how many there will be.
    pub(crate) fn progress(&self) -> Option<f64> {
        let total = self.bytes_total?;
        if self.current.is_none() && self.next_file == self.files.len() {
            return Some(1.0);
        }
        let read = self.bytes_read.load(Ordering::Relaxed) as f64;
        Some((read / total.max(1) as f64).min(1.0))
    }

    fn open_next_file(&mut self) -> Result<bool, ConnectError> {
        let opening = match &mut self.monitor {
            Some(monitor) => monitor.next()?,
            None => {
                let path = self.files.get(self.next_file).cloned();
                self.next_file += 1;
                let place = FilePlace::default();
                path.map(|path| Opening { path, place, can_grow: false, is_growing: false })
            }
        };
        let Some(opening) = opening else { return Ok(false) };
        let Opening { path, place, .. } = &opening;
        self.path = Arc::from(path.as_path());
        let failed = |source| ConnectError::Io { action: "open", path: path.clone(), source };
        let found = std::fs::metadata(path).map_err(failed)?;
        self.file_columns.start_file(path, &found)?;
        if self.monitor.is_some() {
            self.front = FilePlace::default().with_front(&monitor::front(path).map_err(failed)?);
        }
        (self.file_records, self.records_given, self.can_grow) = (0, place.records, opening.can_grow);
        self.current = Some(match &mut self.decoder {
            Some(decoder) => {
                decoder.start_file(place.lines);
                let compression = self.compression.unwrap_or_else(|| Compression::of_name(path));
                let bytes_read = Arc::clone(&self.bytes_read);
                let input: Box<dyn Read + Send> = match may_block(found.file_type()) {
                    true => {
                        let stream = Stream::open(path, self.waker.clone()).map_err(failed)?;
                        compression.reader(stream, bytes_read)
                    }
                    false => {
                        let mut file = File::open(path).map_err(failed)?;
                        file.seek(SeekFrom::Start(place.bytes)).map_err(failed)?;
                        compression.reader(file, bytes_read)
                    }
                }
                .map_err(failed)?;
                let bytes = text_bytes(&found, compression);
                let file = TextFile::new(Arc::clone(&self.path), input, bytes);
                Current::Text(Box::new(file.opened_at(place, opening.is_growing)))
            }
            None if may_block(found.file_type()) => {
                let message = "it is not a regular file, and nothing else is read in this format".to_owned();
                let format = self.format.extension();
                return Err(ConnectError::Format { path: path.clone(), format, message });
            }
            None => Current::Container(self.format.open_container(
                Arc::clone(&self.path),
                File::open(path).map_err(failed)?,
                &self.table.schema,
                &self.columns,
                Arc::clone(&self.bytes_read),
            )?),
        });
        Ok(true)
    }
}

fn text_bytes(found: &Metadata, compression: Compression) -> Option<u64> {
    (compression == Compression::None && found.is_file()).then_some(found.len())
}
