//! Sessions as a table: a row each, with its key and what its accumulators hold.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, BooleanArray, Int64Array, RecordBatch, UInt32Array, UInt64Array};
use arrow::compute::concat;
use arrow::datatypes::{Int64Type, SchemaRef, UInt64Type};
use laxity_graph::ProcessingTime;

use super::{SESSIONS_IN_CHUNK, Session, SessionId, Sessions};
use crate::OperatorState;
use crate::chunked::Handed;
use crate::groups::HandedGroups;
use crate::join_keys::{HandedKeys, KeyEncoder, KeyTable};
use crate::state::{LATER_ROWS, NamedColumn, Part, Result, bug, lists, named, table};

/// Sessions as they were when the query was held.
struct HandedSessions {
    operator: String,
    sessions: Handed<Option<Session>, SESSIONS_IN_CHUNK>,
    keys: HandedKeys,
    key_names: Vec<String>,
    aggregates: HandedGroups,
}

impl HandedSessions {
    /// Those of these numbers.
    fn table(&self, numbers: Range<SessionId>) -> Result<RecordBatch> {
        let there = (0..).zip(self.sessions.range(numbers.clone()));
        let (places, sessions): (Vec<u32>, Vec<&Session>) =
            there.filter_map(|(place, session)| Some((place, session.as_ref()?))).unzip();
        let places = UInt32Array::from(places);
        let number = |&place: &u32| (numbers.start + place as usize) as u64;
        let mut columns = vec![
            named("number", UInt64Array::from_iter_values(places.values().iter().map(number))),
            named("start", Int64Array::from_iter_values(sessions.iter().map(|s| s.start))),
            named("end", Int64Array::from_iter_values(sessions.iter().map(|s| s.end))),
            named("listed-end", sessions.iter().map(|s| s.listed).collect::<Int64Array>()),
            named("was-sent", sessions.iter().map(|s| Some(s.was_sent)).collect::<BooleanArray>()),
        ];
        let keys = self.keys.decode(sessions.iter().map(|s| s.key)).map_err(|e| bug(&self.operator, e))?;
        columns.extend(self.key_names.iter().cloned().zip(keys));
        let numbers = numbers.start..numbers.end.min(self.sessions.len());
        columns.extend(self.aggregates.states(numbers, &places).map_err(|e| bug(&self.operator, e))?);
        table(columns)
    }
}

/// Columns before those of keys and states.
const OWN: usize = 5;

const FREE: &str = "free-numbers";

impl Sessions {
    pub(in crate::session) fn len(&self) -> usize {
        self.sessions.len() - self.free.len()
    }

    /// Numbers that have been given back, the last of which is given next.
    pub(in crate::session) fn free_numbers(&self) -> NamedColumn {
        let free = UInt64Array::from_iter_values(self.free.iter().map(|&id| id as u64));
        (FREE.into(), lists([free.len()].into_iter(), Arc::new(free)))
    }

    /// Hands out all sessions, to be written down in the order of their numbers. These and those that are free decide who goes out first
    /// of those that end together.
    pub(in crate::session) fn save(
        &mut self,
        state: OperatorState,
        operator: &str,
        encoder: &KeyEncoder,
        key_schema: &SchemaRef,
    ) -> Result<OperatorState> {
        if self.sessions.len() == self.free.len() {
            return Ok(state);
        }
        let aggregates = self.aggregates.hand_out(self.sessions.len()).map_err(|e| bug(operator, e))?;
        let handed = HandedSessions {
            operator: operator.to_owned(),
            sessions: self.sessions.hand_out(),
            keys: encoder.hand_out(&self.keys),
            key_names: key_schema.fields().iter().map(|field| field.name().clone()).collect(),
            aggregates,
        };
        let parts = self.sessions.len().div_ceil(LATER_ROWS);
        let part = move |at| handed.table(at * LATER_ROWS..(at + 1) * LATER_ROWS);
        Ok(state.with_parts_later("sessions", parts, part))
    }

    /// Takes over what [`save`](Sessions::save) has written.
    pub(in crate::session) fn restore(
        &mut self,
        state: &mut OperatorState,
        own: &Part,
        operator: &str,
        encoder: &KeyEncoder,
        key_schema: &SchemaRef,
    ) -> Result<()> {
        let count = own.only::<UInt64Type>("sessions")?;
        let numbers = own.only_list::<UInt64Type>(FREE)?;
        let parts = state.take_pieces("sessions");
        let found: usize = parts.iter().map(Part::len).sum();
        if found as u64 != count {
            return Err(own.mismatch(format!("{count} sessions"), found.to_string()));
        }
        let slots = found + numbers.len();
        let mut is_free = vec![false; slots];
        for &number in &numbers {
            match is_free.get_mut(number as usize) {
                Some(is_free) if !*is_free => *is_free = true,
                _ => return Err(own.mismatch(format!("numbers below {slots}, once"), number.to_string())),
            }
        }
        self.sessions.grow_with(slots, || None);
        self.free = numbers.iter().map(|&number| number as usize).collect();
        self.keys = KeyTable::with_capacity(found);
        self.by_key.reserve(found);
        let mut states: Vec<Vec<ArrayRef>> = Vec::with_capacity(parts.len());
        let mut numbers: Vec<SessionId> = Vec::with_capacity(found);
        for part in &parts {
            states.push(self.restore_part(part, &is_free, &mut numbers, operator, encoder, key_schema)?);
        }
        let columns = states.first().map_or(0, Vec::len);
        let together = (0..columns)
            .map(|column| concat(&states.iter().map(|part| part[column].as_ref()).collect::<Vec<_>>()));
        let together = together.collect::<std::result::Result<Vec<_>, _>>().map_err(|e| bug(operator, e))?;
        match parts.is_empty() {
            true => Ok(()),
            false => self.aggregates.put_back(&together, &numbers, slots).map_err(|e| bug(operator, e)),
        }
    }

    /// Takes over all but what the aggregates held, which is what it returns.
    fn restore_part(
        &mut self,
        part: &Part,
        is_free: &[bool],
        all_numbers: &mut Vec<SessionId>,
        operator: &str,
        encoder: &KeyEncoder,
        key_schema: &SchemaRef,
    ) -> Result<Vec<ArrayRef>> {
        let fail = |e: &dyn std::fmt::Display| bug(operator, e);
        let mut types: Vec<_> = key_schema.fields().iter().map(|field| field.data_type().clone()).collect();
        types.extend(self.aggregates.state_types().cloned());
        let columns = part.rest(OWN, &types)?;
        let (keys, states) = columns.split_at(key_schema.fields().len());
        let keys = encoder.encode_keys(keys).map_err(|e| fail(&e))?;
        let numbers = part.values::<UInt64Type>("number")?;
        let (starts, ends) = (part.values::<Int64Type>("start")?, part.values::<Int64Type>("end")?);
        let listed = part.optional::<Int64Type>("listed-end")?;
        let was_sent = part.flags("was-sent")?;
        for row in 0..part.len() {
            let id = numbers[row] as usize;
            if is_free.get(id) != Some(&false) || self.sessions.get(id).is_some() {
                return Err(part
                    .mismatch(format!("numbers below {} that are not free", is_free.len()), id.to_string()));
            }
            let key = self.keys.intern(&keys, row);
            self.list(key, id);
            let listed = listed.is_valid(row).then(|| listed.value(row));
            if let Some(end) = listed {
                self.open.push(end, id);
            }
            if was_sent.value(row) {
                self.sent.insert((ends[row], id));
            }
            *self.sessions.get_mut(id) = Some(Session {
                key,
                start: starts[row],
                end: ends[row],
                listed,
                ingested: ProcessingTime::ZERO,
                was_sent: was_sent.value(row),
                is_touched: false,
            });
        }
        all_numbers.extend(numbers.iter().map(|&number| number as usize));
        Ok(states.to_vec())
    }
}
