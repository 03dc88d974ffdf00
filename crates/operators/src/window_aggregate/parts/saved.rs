//! Parts as a table, and the groups of all as another: keys, then what the accumulators hold.

use std::sync::Arc;

use arrow::array::{BooleanArray, Int64Array, UInt32Array, UInt64Array};
use arrow::datatypes::{Int64Type, UInt32Type, UInt64Type};
use laxity_graph::ProcessingTime;

use super::{Part, PartKey, Parts};
use crate::OperatorState;
use crate::groups::{Aggregation, Filling, Partial};
use crate::state::{Result, bug, named, table};
use crate::window_aggregate::Window;

/// Columns before those of keys and states.
const OWN: usize = 1;

impl Parts {
    /// Writes down what windows are put together from. Merged runs are not: they are made again where they are needed.
    pub(in crate::window_aggregate) fn save(
        &mut self,
        state: OperatorState,
        operator: &str,
        aggregation: &Aggregation,
    ) -> Result<OperatorState> {
        aggregation.note_keys();
        let (mut first, mut second) = (Vec::new(), Vec::new());
        let (mut groups, mut fills, mut pieces) = (Vec::new(), Vec::new(), Vec::new());
        for (key, part) in &mut self.parts {
            let filling = part.filling.as_mut().map(|filling| filling.snapshot(aggregation));
            let filling = filling.transpose().map_err(|e| bug(operator, e))?;
            let sealed = part.sealed.iter().map(|partial| (partial, false));
            for (partial, is_filled) in sealed.chain(filling.iter().map(|partial| (partial, true))) {
                let number = UInt32Array::from_value(first.len() as u32, partial.len);
                let mut columns = vec![named("part", number)];
                columns.extend(aggregation.partial_columns(partial));
                pieces.push(table(columns)?);
                first.push(key.first);
                second.push(key.second);
                groups.push(partial.len as u64);
                fills.push(is_filled);
            }
        }
        let sent = vec![
            named("end", Int64Array::from(vec![self.sent.end])),
            named("start", Int64Array::from(vec![self.sent.start])),
            named("wakes-at", Int64Array::from(vec![self.wakes_at])),
        ];
        let parts = vec![
            named("first", Int64Array::from(first)),
            named("second", Int64Array::from(second)),
            named("groups", UInt64Array::from(groups)),
            named("is-filled", BooleanArray::from(fills)),
        ];
        state.with("windows-sent", sent)?.with("parts", parts)?.with_pieces("groups", pieces)
    }

    /// Takes over what [`save`](Parts::save) has written.
    pub(in crate::window_aggregate) fn restore(
        &mut self,
        state: &mut OperatorState,
        operator: &str,
        aggregation: &Aggregation,
    ) -> Result<()> {
        let sent = state.take("windows-sent")?;
        self.sent = Window { end: sent.only::<Int64Type>("end")?, start: sent.only::<Int64Type>("start")? };
        self.wakes_at = sent.only::<Int64Type>("wakes-at")?;
        let parts = state.take("parts")?;
        let (first, second) = (parts.values::<Int64Type>("first")?, parts.values::<Int64Type>("second")?);
        let (groups, fills) = (parts.values::<UInt64Type>("groups")?, parts.flags("is-filled")?);
        let types = aggregation.partial_types().map_err(|e| bug(operator, e))?;
        let mut number = 0;
        for piece in state.take_pieces("groups") {
            let columns = piece.rest(OWN, &types)?;
            let numbers = piece.values::<UInt32Type>("part")?;
            let mut offset = 0;
            for run in numbers.chunk_by(|a, b| a == b) {
                if number == first.len() || run[0] as usize != number || run.len() as u64 != groups[number] {
                    let expected = match groups.get(number) {
                        Some(groups) => format!("{groups} groups of part {number}"),
                        None => "no more groups".into(),
                    };
                    return Err(piece.mismatch(expected, format!("{} of part {}", run.len(), run[0])));
                }
                let columns: Vec<_> = columns.iter().map(|c| c.slice(offset, run.len())).collect();
                let partial = aggregation.partial_of(&columns, run.len()).map_err(|e| bug(operator, e))?;
                let key = PartKey { first: first[number], second: second[number] };
                self.put_back(key, partial, fills.value(number))
                    .ok_or_else(|| piece.mismatch("one unfinished run of groups for a part", "two"))?;
                offset += run.len();
                number += 1;
            }
        }
        match number == first.len() {
            true => Ok(()),
            false => Err(parts.mismatch(format!("groups of {} parts", first.len()), number.to_string())),
        }
    }

    fn put_back(&mut self, key: PartKey, partial: Partial, is_filled: bool) -> Option<()> {
        let empty = || Part { filling: None, sealed: Vec::new(), ingested: ProcessingTime::ZERO };
        let part = self.parts.entry(key).or_insert_with(empty);
        if part.filling.is_some() {
            return None;
        }
        if is_filled {
            part.filling = Some(Filling::AtRest(Arc::new(partial)));
        } else {
            self.sealed_bytes += partial.bytes;
            part.sealed.push(Arc::new(partial));
        }
        Some(())
    }
}
