use std::fs::File;
use std::io::{Cursor, Write};
use std::path::Path;

use arrow::array::RecordBatch;
use arrow::ipc::reader::FileReader;
use arrow::ipc::writer::FileWriter;

use crate::manifest::StoredFile;

/// A table as an Arrow IPC file.
pub(crate) fn encode(rows: &RecordBatch) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    let text = |error: arrow::error::ArrowError| error.to_string();
    let mut writer = FileWriter::try_new(&mut bytes, &rows.schema()).map_err(text)?;
    writer.write(rows).map_err(text)?;
    writer.finish().map_err(text)?;
    drop(writer);
    Ok(bytes)
}

/// Reads it, if it is what was written.
pub(crate) fn decode(bytes: Vec<u8>, stored: &StoredFile) -> Result<RecordBatch, String> {
    if bytes.len() as u64 != stored.bytes {
        return Err(format!("it has {} bytes; {} were written", bytes.len(), stored.bytes));
    }
    if crc32fast::hash(&bytes) != stored.crc32 {
        return Err("its checksum is another: it was changed or damaged".into());
    }
    let text = |error: arrow::error::ArrowError| error.to_string();
    let mut reader = FileReader::try_new(Cursor::new(bytes), None).map_err(text)?;
    let schema = reader.schema();
    match (reader.next(), reader.next()) {
        (Some(rows), None) => rows.map_err(text),
        (None, _) => Ok(RecordBatch::new_empty(schema)),
        (Some(_), Some(_)) => Err("it has more than one batch".into()),
    }
}

/// Writes a file, and returns when it is on the disk.
pub(crate) fn write_synced(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let mut file = File::create_new(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}
