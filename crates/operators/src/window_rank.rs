use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema, SchemaRef};

use crate::{OperatorError, OperatorFactory};

/// Keeps the first rows of each window and key: `ROW_NUMBER() OVER (PARTITION BY window_start, window_end, keys…
/// ORDER BY …) BETWEEN from AND to`. With `to = 1` it is Flink's windowed deduplication.
///
/// The input carries its window as columns. A window's rows are emitted when the watermark reaches
/// `window_end - 1`, each key's in order.
#[derive(Clone, Debug)]
pub struct WindowRankSpec {
    /// As `explain` names it.
    pub name: String,
    /// Columns of the input.
    pub input_schema: SchemaRef,
    /// Column of the window's start, a timestamp in milliseconds.
    pub window_start: usize,
    /// Column of the window's end, a timestamp in milliseconds.
    pub window_end: usize,
    /// The other PARTITION BY columns. May be empty. NULLs are one key.
    pub keys: Vec<usize>,
    /// The ORDER BY columns, most significant first.
    pub order_by: Vec<RankOrder>,
    /// First rank to emit, from 1.
    pub from: u64,
    /// Last rank to emit.
    pub to: u64,
    /// Name of the column that holds the rank, a BIGINT after the input's columns. `None`: no such column.
    pub rank_column: Option<String>,
}

/// One ORDER BY column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RankOrder {
    /// The column.
    pub column: usize,
    /// DESC.
    pub descending: bool,
    /// NULLs come first. Flink's default: NULL is the lowest value, so first iff ascending.
    pub nulls_first: bool,
}

impl WindowRankSpec {
    /// The input's columns, then the rank if it was asked for.
    pub fn output_schema(&self) -> SchemaRef {
        let mut fields: Vec<_> = self.input_schema.fields().iter().cloned().collect();
        if let Some(name) = &self.rank_column {
            fields.push(Arc::new(Field::new(name, DataType::Int64, false)));
        }
        Arc::new(Schema::new(fields))
    }

    /// Makes the operator's instances.
    pub fn factory(self) -> OperatorFactory {
        OperatorFactory::new(move |_| {
            Err(OperatorError::Internal { operator: self.name.clone(), message: "not built yet".into() })
        })
    }
}
