use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::error::ArrowError;
use arrow::json::WriterBuilder;
use arrow::json::writer::LineDelimited;

use super::file::LetterFile;
use super::{DeadLetterOptions, RAW_BYTES_MAX, plain};
use crate::options::OptionReader;
use crate::{ConnectError, SplitColumn, TableSpec};

/// The dead-letter file of a table, for rows that could be read and that the query refused: their event time is NULL, or
/// an expression fails over them. A letter has the columns that the query reads. They are told apart from those that could not be read by the `query`; a line of their file is no longer known.
pub struct RefusedRows {
    table: String,
    out: Arc<LetterFile>,
}

impl RefusedRows {
    /// Whether the table names a file for them.
    pub fn wanted(table: &TableSpec) -> bool {
        table.options.contains_key("laxity.dead-letter.path")
    }

    /// `None` where the table names no file for them.
    ///
    /// # Errors
    /// As for opening the table.
    pub fn open(table: &TableSpec) -> Result<Option<RefusedRows>, ConnectError> {
        let options = DeadLetterOptions::read(&OptionReader::new(table))?;
        let Some(path) = &options.path else { return Ok(None) };
        let out = LetterFile::open(&table.name, path)?;
        Ok(Some(RefusedRows { table: table.name.clone(), out }))
    }

    /// Whether the table names a file for them.
    pub fn are_kept(table: &TableSpec) -> bool {
        DeadLetterOptions::read(&OptionReader::new(table)).is_ok_and(|options| options.path.is_some())
    }

    /// Writes a letter for each row.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn put(&self, query: &str, rows: &RecordBatch, reason: &str) -> Result<(), ConnectError> {
        let told: Vec<usize> = (0..rows.num_columns())
            .filter(|column| !SplitColumn::is(rows.schema_ref().field(*column)))
            .collect();
        let told = rows.project(&told).expect("columns of these rows");
        let mut text = Vec::new();
        for row in 0..rows.num_rows() {
            let raw = as_json(&told.slice(row, 1)).unwrap_or_else(|error| error.to_string());
            let kept = &raw[..raw.floor_char_boundary(RAW_BYTES_MAX)];
            let letter = serde_json::json!({
                "table": self.table,
                "query": query,
                "reason": plain(reason),
                "raw": kept.trim_end(),
            });
            text.extend_from_slice(letter.to_string().as_bytes());
            text.push(b'\n');
        }
        self.out.append(&text)
    }
}

fn as_json(row: &RecordBatch) -> Result<String, ArrowError> {
    // The NULL is what it is about.
    let mut writer = WriterBuilder::new().with_explicit_nulls(true).build::<_, LineDelimited>(Vec::new());
    writer.write(row)?;
    writer.finish()?;
    Ok(String::from_utf8_lossy(&writer.into_inner()).into_owned())
}
