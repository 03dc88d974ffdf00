//! Rows of both sides as tables.

use arrow::array::{Int64Array, RecordBatch, UInt64Array};
use arrow::datatypes::{Int64Type, UInt64Type};
use laxity_graph::{EventTime, ProcessingTime};

use super::{LEFT, RIGHT, Window, WindowJoin};
use crate::join_keys::KeyTable;
use crate::join_side::JoinSide;
use crate::state::{Result, bug, named};
use crate::{OperatorState, Outbox, StreamBatch};

/// The parts of the two sides.
const NAMES: [&str; 2] = ["left", "right"];

impl WindowJoin {
    /// Rows of both sides, by window, in the order in which they came.
    pub(super) fn saved(&self) -> Result<OperatorState> {
        let rows = |side: usize| {
            let rows: usize = self.windows.values().map(|window| window.sides[side].len()).sum();
            UInt64Array::from(vec![rows as u64])
        };
        let own = vec![
            named("watermark", Int64Array::from(vec![self.watermark.0])),
            named("left-rows", rows(LEFT)),
            named("right-rows", rows(RIGHT)),
        ];
        let mut state = OperatorState::default().with("window-join", own)?;
        for (side, name) in NAMES.into_iter().enumerate() {
            let groups = self.windows.values().map(|window| window.sides[side].rows.pieces().to_vec());
            state = state.with_groups(name, groups.collect())?;
        }
        Ok(state)
    }

    pub(super) fn restored(&mut self, mut state: OperatorState) -> Result<()> {
        let own = state.take("window-join")?;
        for (side, name) in NAMES.into_iter().enumerate() {
            let mut found = 0;
            for part in state.take_pieces(name) {
                found += part.len() as u64;
                let rows = part.rest_rows(0, &self.inputs[side].schema)?;
                self.put_back(side, rows)?;
            }
            let expected = own.only::<UInt64Type>(["left-rows", "right-rows"][side])?;
            if found != expected {
                return Err(own.mismatch(format!("{expected} rows {name}"), found.to_string()));
            }
        }
        // Only now: rows that wait are behind no watermark.
        self.watermark = EventTime(own.only::<Int64Type>("watermark")?);
        state.finish()
    }

    fn put_back(&mut self, side: usize, rows: RecordBatch) -> Result<()> {
        let fail = |e: &dyn std::fmt::Display| bug(&self.output.name, e);
        let keys = self.inputs[side].encoder.encode(&rows).map_err(|e| fail(&e))?;
        let batch = StreamBatch::on_time(rows);
        let groups = self.inputs[side].columns.split(&batch, EventTime::MIN, &mut Outbox::default());
        for group in groups {
            let window = self.windows.entry(group.window).or_insert_with(|| Window {
                keys: KeyTable::default(),
                sides: [LEFT, RIGHT].map(|i| JoinSide::new(self.inputs[i].schema.clone(), self.batch_rows)),
                ingested: ProcessingTime::ZERO,
                bytes: 0,
            });
            window.sides[side]
                .push(&batch.rows, group.rows.as_deref(), &keys, &mut window.keys)
                .map_err(|e| bug(&self.output.name, e))?;
            self.bytes -= window.bytes;
            window.bytes = window.size_bytes();
            self.bytes += window.bytes;
        }
        Ok(())
    }
}
