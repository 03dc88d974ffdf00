//! Sessions as a table: a row each, with its key and what its accumulators hold.

use std::sync::Arc;

use arrow::array::{Array, BooleanArray, Int64Array, UInt64Array};
use arrow::datatypes::{Int64Type, SchemaRef, UInt64Type};
use laxity_graph::ProcessingTime;

use super::{Session, SessionId, Sessions};
use crate::OperatorState;
use crate::chunked::Handed;
use crate::groups::HandedGroups;
use crate::join_keys::{HandedKeys, KeyEncoder, KeyTable};
use crate::state::{NamedColumn, Part, Result, bug, lists, named, table};

/// Sessions as they were when the query was held.
struct HandedSessions {
    operator: String,
    sessions: Handed<Option<Session>>,
    keys: HandedKeys,
    key_names: Vec<String>,
    aggregates: HandedGroups,
}

impl HandedSessions {
    fn table(self) -> Result<OperatorState> {
        let numbered = self.sessions.iter().enumerate();
        let (ids, sessions): (Vec<SessionId>, Vec<&Session>) =
            numbered.filter_map(|(id, session)| Some((id, session.as_ref()?))).unzip();
        let mut columns = vec![
            named("number", UInt64Array::from_iter_values(ids.iter().map(|&id| id as u64))),
            named("start", Int64Array::from_iter_values(sessions.iter().map(|s| s.start))),
            named("end", Int64Array::from_iter_values(sessions.iter().map(|s| s.end))),
            named("listed-end", sessions.iter().map(|s| s.listed).collect::<Int64Array>()),
            named("was-sent", sessions.iter().map(|s| Some(s.was_sent)).collect::<BooleanArray>()),
        ];
        let keys = self.keys.decode(sessions.iter().map(|s| s.key)).map_err(|e| bug(&self.operator, e))?;
        columns.extend(self.key_names.into_iter().zip(keys));
        columns.extend(self.aggregates.states(&ids).map_err(|e| bug(&self.operator, e))?);
        OperatorState::default().with_pieces("sessions", vec![table(columns)?])
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
        Ok(state.with_later(move || handed.table()))
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
        match parts.as_slice() {
            [] => Ok(()),
            [part] => self.restore_part(part, &is_free, operator, encoder, key_schema),
            _ => Err(own.mismatch("one table of sessions", parts.len().to_string())),
        }
    }

    fn restore_part(
        &mut self,
        part: &Part,
        is_free: &[bool],
        operator: &str,
        encoder: &KeyEncoder,
        key_schema: &SchemaRef,
    ) -> Result<()> {
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
        self.keys = KeyTable::with_capacity(part.len());
        self.by_key.reserve(part.len());
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
        let numbers: Vec<SessionId> = numbers.iter().map(|&number| number as usize).collect();
        self.aggregates.put_back(states, &numbers, is_free.len()).map_err(|e| fail(&e))
    }
}
