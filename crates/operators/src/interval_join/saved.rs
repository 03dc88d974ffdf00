//! An interval join as tables: see the buffers of its sides.

use arrow::array::{Int64Array, UInt64Array};
use arrow::datatypes::{Int64Type, UInt64Type};
use laxity_graph::EventTime;

use super::IntervalJoin;
use crate::OperatorState;
use crate::state::{Result, named};

/// The parts of the two sides.
const NAMES: [&str; 2] = ["left", "right"];

impl IntervalJoin {
    pub(super) fn saved(&mut self) -> Result<OperatorState> {
        let rows = |side: usize| UInt64Array::from(vec![self.inputs[side].buffer.rows() as u64]);
        let own = vec![
            named("watermark", Int64Array::from(vec![self.watermark.0])),
            named("forwarded", Int64Array::from(vec![self.forwarded.0])),
            named("left-rows", rows(0)),
            named("right-rows", rows(1)),
        ];
        let mut state = OperatorState::default().with("interval-join", own)?;
        for (input, name) in self.inputs.iter_mut().zip(NAMES) {
            state = state.with_groups(name, input.buffer.save()?)?;
        }
        Ok(state)
    }

    pub(super) fn restored(&mut self, mut state: OperatorState) -> Result<()> {
        let own = state.take("interval-join")?;
        self.watermark = EventTime(own.only::<Int64Type>("watermark")?);
        self.forwarded = EventTime(own.only::<Int64Type>("forwarded")?);
        for (side, name) in NAMES.into_iter().enumerate() {
            let input = &mut self.inputs[side];
            for part in state.take_pieces(name) {
                input.buffer.restore(&part, &input.encoder, input.time, &self.output.name)?;
            }
            let expected = own.only::<UInt64Type>(["left-rows", "right-rows"][side])?;
            let found = input.buffer.rows() as u64;
            if found != expected {
                return Err(own.mismatch(format!("{expected} rows {name}"), found.to_string()));
            }
        }
        state.finish()
    }
}
