//! Parts as a table, and the groups of all as another: keys, then what the accumulators hold.

use std::sync::Arc;

use arrow::array::{BooleanArray, Int64Array, UInt32Array, UInt64Array};
use arrow::datatypes::{Int64Type, UInt32Type, UInt64Type};
use laxity_graph::ProcessingTime;

use super::{Part, PartKey, Parts};
use crate::OperatorState;
use crate::groups::{Aggregation, Filling, Partial};
use crate::state::{CHUNK_ROWS, Result, bug, named, table};
use crate::window_aggregate::Window;

/// Columns before those of keys and states.
const OWN: usize = 1;

/// Where small runs are, together.
const GROUPS: &str = "groups";
/// The column that says which part's a group is.
const PART: &str = "part";

/// Where the groups of a part are that has many: without the column, so that they are not touched.
fn whole_name(number: usize) -> String {
    format!("whole-{number}")
}

/// The groups of so many parts, each with the column that says which.
pub(crate) fn runs_of_groups(state: &mut OperatorState, parts: usize) -> Result<Vec<crate::state::Part>> {
    let mut pieces = state.take_pieces(GROUPS);
    for number in 0..parts {
        if let Ok(whole) = state.take(&whole_name(number)) {
            let numbers = UInt32Array::from_value(number as u32, whole.len());
            pieces.push(whole.behind(PART, Arc::new(numbers))?);
        }
    }
    Ok(pieces)
}

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
        let (mut groups, mut fills) = (Vec::new(), Vec::new());
        let (mut small, mut large) = (Vec::new(), Vec::new());
        for (key, part) in &mut self.parts {
            let filling = part.filling.as_mut().map(|filling| filling.snapshot(aggregation));
            let filling = filling.transpose().map_err(|e| bug(operator, e))?;
            let sealed = part.sealed.iter().map(|partial| (std::slice::from_ref(partial), false));
            for (partials, is_filled) in sealed.chain(filling.iter().map(|partials| (&partials[..], true))) {
                let len: usize = partials.iter().map(|partial| partial.len).sum();
                let number = first.len();
                if len < CHUNK_ROWS {
                    for partial in partials {
                        let numbers = UInt32Array::from_value(number as u32, partial.len);
                        let columns = std::iter::once(named(PART, numbers));
                        small.push(table(columns.chain(aggregation.partial_columns(partial)).collect())?);
                    }
                } else {
                    let pieces = partials.iter().map(|partial| table(aggregation.partial_columns(partial)));
                    large.push((whole_name(number), pieces.collect::<Result<Vec<_>>>()?));
                }
                first.push(key.first);
                second.push(key.second);
                groups.push(len as u64);
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
        let state = state.with("windows-sent", sent)?.with("parts", parts)?.with_pieces(GROUPS, small)?;
        Ok(large.into_iter().fold(state, |state, (name, pieces)| state.with_whole(name, pieces)))
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
        let mut runs: Vec<Option<Partial>> = (0..first.len()).map(|_| None).collect();
        for piece in runs_of_groups(state, first.len())? {
            let columns = piece.rest(OWN, &types)?;
            let numbers = piece.values::<UInt32Type>(PART)?;
            let mut offset = 0;
            for run in numbers.chunk_by(|a, b| a == b) {
                let number = run[0] as usize;
                let place = runs.get_mut(number).filter(|place| place.is_none());
                let Some(place) = place.filter(|_| run.len() as u64 == groups[number]) else {
                    let expected = match groups.get(number) {
                        Some(groups) => format!("{groups} groups of part {number}"),
                        None => format!("groups of {} parts", first.len()),
                    };
                    return Err(piece.mismatch(expected, format!("{} of part {}", run.len(), run[0])));
                };
                let columns: Vec<_> = columns.iter().map(|c| c.slice(offset, run.len())).collect();
                *place = Some(aggregation.partial_of(&columns, run.len()).map_err(|e| bug(operator, e))?);
                offset += run.len();
            }
        }
        for (number, run) in runs.into_iter().enumerate() {
            let Some(partial) = run else {
                return Err(parts.mismatch(format!("groups of part {number}"), "none"));
            };
            let key = PartKey { first: first[number], second: second[number] };
            self.put_back(key, partial, fills.value(number))
                .ok_or_else(|| parts.mismatch("one unfinished run of groups for a part", "two"))?;
        }
        Ok(())
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
