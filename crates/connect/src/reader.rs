use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arrow::array::RecordBatch;

use crate::compression::Compression;
use crate::csv::CsvDecoder;
use crate::dead_letter::{BadRow, DeadLetters};
use crate::format::Format;
use crate::json::JsonDecoder;
use crate::parquet_file::ParquetFile;
use crate::text_file::{Decode, TextFile};
use crate::{ConnectError, TableSpec};

/// Reads the columns asked for from some files, one after the other, in bounded memory.
pub(crate) struct TableReader {
    table: Arc<TableSpec>,
    columns: Vec<usize>,
    files: Vec<PathBuf>,
    next_file: usize,
    current: Option<Current>,
    /// Of the text formats.
    decoder: Option<Box<dyn Decode>>,
    compression: Option<Compression>,
    dead: DeadLetters,
    /// Bad rows were counted and written when they were first read.
    rewound: bool,
    bytes_read: Arc<AtomicU64>,
    bytes_total: u64,
}

enum Current {
    Text(Box<TextFile>),
    Parquet(Box<ParquetFile>),
}

impl TableReader {
    pub(crate) fn new(
        table: Arc<TableSpec>,
        columns: Vec<usize>,
        files: Vec<PathBuf>,
        format: Format,
        compression: Option<Compression>,
        dead: DeadLetters,
    ) -> Result<TableReader, ConnectError> {
        let decoder: Option<Box<dyn Decode>> = match format {
            Format::Csv(options) => {
                Some(Box::new(CsvDecoder::new(options, Arc::clone(&table), columns.clone())))
            }
            Format::Json(_) => Some(Box::new(JsonDecoder::new(&table, &columns))),
            Format::Parquet(_) => None,
        };
        // A missing size only makes the progress inexact; opening the file reports what is wrong with it.
        let bytes_total =
            files.iter().filter_map(|file| std::fs::metadata(file).ok()).map(|file| file.len()).sum();
        let mut reader = TableReader {
            table,
            columns,
            files,
            next_file: 0,
            current: None,
            decoder,
            compression,
            dead,
            rewound: false,
            bytes_read: Arc::default(),
            bytes_total,
        };
        // A file that cannot be opened is better known before the queries start.
        reader.open_next_file()?;
        Ok(reader)
    }

    /// The next rows, at least one; `None` at the end of the last file.
    pub(crate) fn next(&mut self) -> Result<Option<RecordBatch>, ConnectError> {
        loop {
            let Some(current) = &mut self.current else {
                if !self.open_next_file()? {
                    return Ok(None);
                }
                continue;
            };
            let mut bad: Vec<BadRow> = Vec::new();
            let (rows, path) = match (current, &mut self.decoder) {
                (Current::Text(file), Some(decoder)) => (file.next(decoder.as_mut(), &mut bad), file.path()),
                (Current::Parquet(file), _) => (file.next(&mut bad), file.path()),
                (Current::Text(_), None) => unreachable!("text formats have a decoder"),
            };
            if !self.rewound {
                self.dead.put(path, &bad)?;
            }
            match rows? {
                Some(rows) => return Ok(Some(rows)),
                None => self.current = None,
            }
        }
    }

    /// Starts again with the first file.
    pub(crate) fn rewind(&mut self) {
        self.next_file = 0;
        self.current = None;
        self.rewound = true;
        self.bytes_read.store(0, Ordering::Relaxed);
    }

    pub(crate) fn dead_rows(&self) -> u64 {
        self.dead.count()
    }

    /// Part of the bytes read, 0 to 1.
    pub(crate) fn progress(&self) -> f64 {
        if self.current.is_none() && self.next_file == self.files.len() {
            return 1.0;
        }
        let read = self.bytes_read.load(Ordering::Relaxed) as f64;
        (read / self.bytes_total.max(1) as f64).min(1.0)
    }

    fn open_next_file(&mut self) -> Result<bool, ConnectError> {
        let Some(path) = self.files.get(self.next_file) else { return Ok(false) };
        self.next_file += 1;
        let failed = |source| ConnectError::Io { action: "open", path: path.clone(), source };
        let file = File::open(path).map_err(failed)?;
        self.current = Some(match &mut self.decoder {
            Some(decoder) => {
                decoder.start_file();
                let compression = self.compression.unwrap_or_else(|| Compression::of_name(path));
                let input = compression.reader(file, Arc::clone(&self.bytes_read)).map_err(failed)?;
                Current::Text(Box::new(TextFile::new(path.clone(), input)))
            }
            None => Current::Parquet(Box::new(ParquetFile::open(
                path.clone(),
                file,
                &self.table.schema,
                &self.columns,
                Arc::clone(&self.bytes_read),
            )?)),
        });
        Ok(true)
    }
}
