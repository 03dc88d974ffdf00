//! Tables of saved state, as files in Arrow's format.

use std::fs::File;
use std::io::{BufWriter, Cursor, Write};
use std::path::Path;

use arrow::array::RecordBatch;
use arrow::compute::concat_batches;
use arrow::error::ArrowError;
use arrow::ipc::reader::FileReader;
use arrow::ipc::writer::FileWriter;

use crate::manifest::StoredFile;

/// Writes a table as an Arrow IPC file, piece by piece: its bytes, and their checksum.
pub(crate) fn encode(pieces: &[RecordBatch], into: &mut dyn Write) -> Result<(u64, u32), Failed> {
    let mut counted = Counted { into, bytes: 0, hasher: crc32fast::Hasher::new() };
    // The writer gives each array in one piece, and what stands around it in many.
    let mut writer =
        FileWriter::try_new(BufWriter::with_capacity(BUFFER_BYTES, &mut counted), &pieces[0].schema())?;
    pieces.iter().try_for_each(|rows| writer.write(rows))?;
    writer.into_inner()?.flush().map_err(Failed::Disk)?;
    Ok((counted.bytes, counted.hasher.finalize()))
}

const BUFFER_BYTES: usize = 64 << 10;

/// Why a table could not be written.
pub(crate) enum Failed {
    Disk(std::io::Error),
    Table(String),
}

impl From<ArrowError> for Failed {
    fn from(error: ArrowError) -> Failed {
        match error {
            ArrowError::IoError(_, error) => Failed::Disk(error),
            error => Failed::Table(error.to_string()),
        }
    }
}

/// Sees what goes by.
struct Counted<'a> {
    into: &'a mut dyn Write,
    bytes: u64,
    hasher: crc32fast::Hasher,
}

impl Write for Counted<'_> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let written = self.into.write(bytes)?;
        self.bytes += written as u64;
        self.hasher.update(&bytes[..written]);
        Ok(written)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.into.flush()
    }
}

/// Reads it, if it is what was written.
pub(crate) fn decode(bytes: &[u8], stored: &StoredFile) -> Result<RecordBatch, String> {
    if bytes.len() as u64 != stored.bytes {
        return Err(format!("it has {} bytes; {} were written", bytes.len(), stored.bytes));
    }
    if crc32fast::hash(bytes) != stored.crc32 {
        return Err("its checksum is another: it was changed or damaged".into());
    }
    let text = |error: arrow::error::ArrowError| error.to_string();
    let mut reader = FileReader::try_new(Cursor::new(bytes), None).map_err(text)?;
    let schema = reader.schema();
    let pieces = reader.by_ref().collect::<Result<Vec<_>, _>>().map_err(text)?;
    match &pieces[..] {
        [] => Ok(RecordBatch::new_empty(schema)),
        [only] => Ok(only.clone()),
        several => concat_batches(&schema, several).map_err(text),
    }
}

/// Writes a file, and returns when it is on the disk.
pub(crate) fn write_synced(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let mut file = File::create_new(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}
