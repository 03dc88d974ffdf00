//! OVER as tables: a row for each key with its frame, and the rows that wait.

use arrow::array::{AsArray, Int64Array, UInt64Array};
use arrow::datatypes::{DataType, Int64Type, UInt64Type};
use laxity_graph::EventTime;

use super::OverAggregate;
use crate::OperatorState;
use crate::state::{NamedColumn, Result, bug, named};

/// Columns of the keys' table before those of the keys themselves.
const OWN: usize = 6;

impl OverAggregate {
    pub(super) fn saved(&mut self) -> Result<OperatorState> {
        self.frames.resize(self.keys.len());
        let (keys, frames) = (self.encoder.hand_out(&self.keys), self.frames.hand_out());
        let key_names: Vec<String> =
            self.key_schema.fields().iter().map(|field| field.name().clone()).collect();
        let calls = self.calls.iter_mut().map(|call| {
            let handed = call.running.hand_out(self.keys.len()).map_err(|e| bug(&self.name, e))?;
            Ok((call.name.clone(), handed))
        });
        let calls = calls.collect::<Result<Vec<_>>>()?;
        let (name, count) = (self.name.clone(), self.keys.len() as u32);
        let table = move || {
            let mut columns = frames.columns();
            columns.extend(key_names.into_iter().zip(keys.decode(0..count).map_err(|e| bug(&name, e))?));
            for (call, handed) in calls {
                let names = (0..).map(|at| if at == 0 { call.clone() } else { format!("{call}[{at}]") });
                columns.extend(names.zip(handed()).collect::<Vec<NamedColumn>>());
            }
            OperatorState::default().with("keys", columns)
        };
        let (waiting, pieces) = self.pending.save(&self.name)?;
        let own = vec![
            named("watermark", Int64Array::from(vec![self.watermark.0])),
            named("swept", Int64Array::from(vec![self.swept])),
            named("keys", UInt64Array::from(vec![self.keys.len() as u64])),
            named("waiting", UInt64Array::from(vec![waiting as u64])),
        ];
        Ok(OperatorState::default().with("over", own)?.with_pieces("waiting", pieces)?.with_later(table))
    }

    pub(super) fn restored(&mut self, mut state: OperatorState) -> Result<()> {
        let own = state.take("over")?;
        self.watermark = EventTime(own.only::<Int64Type>("watermark")?);
        self.swept = own.only::<Int64Type>("swept")?;
        let part = state.take("keys")?;
        part.expect_rows(own.only::<UInt64Type>("keys")? as usize)?;
        let mut types: Vec<DataType> =
            self.key_schema.fields().iter().map(|field| field.data_type().clone()).collect();
        let mut widths = Vec::with_capacity(self.calls.len());
        for call in &mut self.calls {
            let empty = call.running.hand_out(0).map_err(|e| bug(&self.name, e))?();
            widths.push(empty.len());
            types.extend(empty.iter().map(|column| column.data_type().clone()));
        }
        let columns = part.rest(OWN, &types)?;
        let (keys, mut columns) = columns.split_at(self.key_schema.fields().len());
        self.keys = self.encoder.table_of(keys, part.len()).map_err(|e| bug(&self.name, e))?;
        if self.keys.len() != part.len() {
            return Err(part.mismatch(format!("{} keys", part.len()), self.keys.len().to_string()));
        }
        self.frames.restore(&part)?;
        for (call, width) in self.calls.iter_mut().zip(widths) {
            let (own, rest) = columns.split_at(width);
            columns = rest;
            for column in &own[call.running.rows_in(width)] {
                let lists = column.as_list::<i32>();
                let found = lists.value_offsets().windows(2).map(|range| (range[1] - range[0]) as usize);
                if !found.eq(self.frames.lengths()) {
                    let expected = format!("an item of {} for each row that counts", call.name);
                    return Err(part.mismatch(expected, "more or fewer"));
                }
            }
            call.running.restore(own).map_err(|e| bug(&self.name, e))?;
        }
        let mut waiting = 0;
        for piece in state.take_pieces("waiting") {
            waiting += piece.len() as u64;
            self.pending.restore(&piece, self.keys.len())?;
        }
        self.pending.waiting().for_each(|(key, time, due)| self.frames.wait(key, time, due));
        let expected = own.only::<UInt64Type>("waiting")?;
        if waiting != expected {
            return Err(own.mismatch(format!("{expected} rows that wait"), waiting.to_string()));
        }
        state.finish()
    }
}
