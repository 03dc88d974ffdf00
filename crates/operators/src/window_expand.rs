use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit};

use crate::{OperatorError, OperatorFactory, WindowKind};

/// The windowing table function by itself: each row once per window that holds it, with `window_start`,
/// `window_end` and `window_time` (end - 1 ms, the new event-time attribute) appended.
///
/// As in Flink it drops nothing: whether a row is late is for the windowed operator behind it to say, from the
/// watermark that travels with each row.
#[derive(Clone, Debug)]
pub struct WindowExpandSpec {
    /// As `explain` names it.
    pub name: String,
    /// Columns of the input.
    pub input_schema: SchemaRef,
    /// The event-time attribute, a timestamp in milliseconds.
    pub time: usize,
    /// Tumble, hop or cumulate. A session needs an aggregation: its bounds are not known row by row.
    pub window: WindowKind,
}

impl WindowExpandSpec {
    /// The input's columns, then `window_start`, `window_end` (timestamps without zone) and `window_time` (of
    /// the type of the time attribute, with its field metadata).
    pub fn output_schema(&self) -> SchemaRef {
        let timestamp = DataType::Timestamp(TimeUnit::Millisecond, None);
        let time = self.input_schema.field(self.time);
        let mut fields: Vec<_> = self.input_schema.fields().iter().cloned().collect();
        fields.push(Arc::new(Field::new("window_start", timestamp.clone(), false)));
        fields.push(Arc::new(Field::new("window_end", timestamp, false)));
        fields.push(Arc::new(time.clone().with_name("window_time").with_nullable(false)));
        Arc::new(Schema::new(fields))
    }

    /// Makes the operator's instances.
    pub fn factory(self) -> OperatorFactory {
        OperatorFactory::new(move |_| {
            Err(OperatorError::Internal { operator: self.name.clone(), message: "not built yet".into() })
        })
    }
}
