//! OVER as tables: a row for each key with its frame, and the rows that wait.

use arrow::array::{AsArray, Int64Array, UInt64Array};
use arrow::datatypes::{DataType, Int64Type, UInt64Type};
use laxity_graph::EventTime;

use super::OverAggregate;
use crate::OperatorState;
use crate::join_keys::KeyTable;
use crate::state::{LATER_ROWS, Part, Result, bug, named, table};

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
        let (name, count) = (self.name.clone(), self.keys.len());
        let part = move |at: usize| {
            let some = at * LATER_ROWS..count.min((at + 1) * LATER_ROWS);
            let mut columns = frames.columns(some.clone());
            let numbers = some.start as u32..some.end as u32;
            let keys = keys.decode(numbers).map_err(|e| bug(&name, e))?;
            columns.extend(key_names.iter().cloned().zip(keys));
            for (call, handed) in &calls {
                let names = (0..).map(|at| if at == 0 { call.clone() } else { format!("{call}[{at}]") });
                columns.extend(names.zip(handed(some.clone())));
            }
            table(columns)
        };
        let (waiting, pieces) = self.pending.save(&self.name)?;
        let own = vec![
            named("watermark", Int64Array::from(vec![self.watermark.0])),
            named("swept", Int64Array::from(vec![self.swept])),
            named("keys", UInt64Array::from(vec![self.keys.len() as u64])),
            named("waiting", UInt64Array::from(vec![waiting as u64])),
        ];
        let state = OperatorState::default().with("over", own)?.with_pieces("waiting", pieces)?;
        Ok(state.with_parts_later("keys", count.div_ceil(LATER_ROWS), part))
    }

    pub(super) fn restored(&mut self, mut state: OperatorState) -> Result<()> {
        let own = state.take("over")?;
        self.watermark = EventTime(own.only::<Int64Type>("watermark")?);
        self.swept = own.only::<Int64Type>("swept")?;
        // Before version 7 all were in one table.
        let parts = state.take("keys").map_or_else(|_| state.take_pieces("keys"), |only| vec![only]);
        let (keys, found) = (own.only::<UInt64Type>("keys")?, parts.iter().map(Part::len).sum::<usize>());
        if found as u64 != keys {
            return Err(own.mismatch(format!("{keys} keys"), found.to_string()));
        }
        let mut types: Vec<DataType> =
            self.key_schema.fields().iter().map(|field| field.data_type().clone()).collect();
        let mut widths = Vec::with_capacity(self.calls.len());
        for call in &mut self.calls {
            let empty = call.running.hand_out(0).map_err(|e| bug(&self.name, e))?(0..0);
            widths.push(empty.len());
            types.extend(empty.iter().map(|column| column.data_type().clone()));
        }
        self.keys = KeyTable::with_capacity(found);
        for part in &parts {
            self.restore_keys(part, &types, &widths)?;
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

    /// Takes over some keys more. `types`: of their columns and those of the aggregates, which are so many of each.
    fn restore_keys(&mut self, part: &Part, types: &[DataType], widths: &[usize]) -> Result<()> {
        let columns = part.rest(OWN, types)?;
        let (keys, mut columns) = columns.split_at(self.key_schema.fields().len());
        let encoded = self.encoder.encode_keys(keys).map_err(|e| bug(&self.name, e))?;
        let before = self.keys.len();
        for row in 0..part.len() {
            if self.keys.intern(&encoded, row) as usize != before + row {
                return Err(part.mismatch("each key once", format!("that of row {row} twice")));
            }
        }
        self.frames.restore(part)?;
        for (call, &width) in self.calls.iter_mut().zip(widths) {
            let (own, rest) = columns.split_at(width);
            columns = rest;
            for column in &own[call.running.rows_in(width)] {
                let lists = column.as_list::<i32>();
                let found = lists.value_offsets().windows(2).map(|range| (range[1] - range[0]) as usize);
                if !found.eq(self.frames.lengths(before)) {
                    let expected = format!("an item of {} for each row that counts", call.name);
                    return Err(part.mismatch(expected, "more or fewer"));
                }
            }
            call.running.restore(own).map_err(|e| bug(&self.name, e))?;
        }
        Ok(())
    }
}
