//! What the tables of the last checkpoint were made of, so that the next one gets the files of those that are the same.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use arrow::array::{Array, RecordBatch};
use arrow::datatypes::SchemaRef;

use crate::manifest::StoredFile;

/// The tables of a checkpoint in a folder of its own, and the file of each.
#[derive(Debug)]
pub(crate) struct Written {
    number: u64,
    /// By the addresses of the arrays, piece by piece.
    tables: HashMap<Vec<usize>, Table>,
}

#[derive(Debug)]
struct Table {
    schema: SchemaRef,
    file: StoredFile,
    /// Arrays never change. For as long as this is here no other one comes to lie where one of them was, though what they
    /// held is let go with their owner.
    _arrays: Vec<Weak<dyn Array>>,
}

impl Written {
    /// That of a checkpoint, of which nothing is written yet.
    pub fn new(number: u64) -> Written {
        Written { number, tables: HashMap::new() }
    }

    /// Which checkpoint that is.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// A table of these pieces is in that file.
    pub fn note(&mut self, pieces: &[RecordBatch], file: StoredFile) {
        let Some(first) = pieces.first() else { return };
        let arrays = arrays(pieces).map(Arc::downgrade).collect();
        self.tables.insert(addresses(pieces), Table { schema: first.schema(), file, _arrays: arrays });
    }

    /// The file of a table of the very same arrays, in the same pieces.
    pub fn file_of(&self, pieces: &[RecordBatch]) -> Option<&StoredFile> {
        let addresses = addresses(pieces);
        // A table without columns is known by nothing.
        let table = self.tables.get(&addresses).filter(|_| !addresses.is_empty())?;
        (table.schema == pieces.first()?.schema()).then_some(&table.file)
    }
}

fn arrays(pieces: &[RecordBatch]) -> impl Iterator<Item = &Arc<dyn Array>> {
    pieces.iter().flat_map(RecordBatch::columns)
}

fn addresses(pieces: &[RecordBatch]) -> Vec<usize> {
    arrays(pieces).map(|array| Arc::as_ptr(array).cast::<()>().addr()).collect()
}
