//! Parts as a table, and the groups of all as another: keys, then what the accumulators hold.

use std::sync::Arc;

use arrow::array::{BooleanArray, Int64Array, UInt32Array, UInt64Array};
use arrow::datatypes::{Int64Type, UInt32Type, UInt64Type};
use laxity_graph::ProcessingTime;

use super::sealed::{Sealed, runs, settle};
use super::{Part, PartKey, Parts};
use crate::OperatorState;
use crate::groups::{Aggregation, Apart, Filling, Partial, States};
use crate::state::{CHUNK_ROWS, Part as TakenPart, Result, bug, named, table};
use crate::window_aggregate::Window;

/// Columns before those of keys and states.
const OWN: usize = 1;

/// Where small runs are, together.
const GROUPS: &str = "groups";
/// The column that says which part's a group is.
const PART: &str = "part";

/// Where the groups of that part and of some behind it are, one behind the other, where they are many: without the column,
/// so that they are the same as long as the parts are.
fn whole_name(number: usize) -> String {
    format!("whole-{number}")
}

/// Where the keys of a part's groups are that take more rows, and are many; beside them what they hold.
fn keys_name(number: usize) -> String {
    format!("keys-{number}")
}

fn states_name(number: usize) -> String {
    format!("states-{number}")
}

/// Groups in a table of keys or states. Fewer are more files, each time; more are written again with one that a row came to. Picked: a
/// megabyte of eight bytes each.
const APART_ROWS: usize = if cfg!(test) { 16 } else { 131_072 };

/// The groups of parts that have so many each, with the column that says which.
pub(crate) fn runs_of_groups(state: &mut OperatorState, groups: &[u64]) -> Result<Vec<TakenPart>> {
    let mut pieces = state.take_pieces(GROUPS);
    for number in 0..groups.len() {
        if let Ok(whole) = state.take(&whole_name(number)) {
            let numbers = part_numbers(number, groups, whole.len() as u64);
            let numbers = numbers.ok_or_else(|| {
                let expected = format!("all groups of part {number}, or of it and some behind it");
                whole.mismatch(expected, format!("{} groups", whole.len()))
            })?;
            pieces.push(whole.behind(PART, Arc::new(numbers))?);
        }
        let keys = TakenPart::joined(state.take_pieces(&keys_name(number)))?;
        let states = TakenPart::joined(state.take_pieces(&states_name(number)))?;
        let apart = match (keys, states) {
            (Some(keys), Some(states)) => Some(keys.beside(states)?),
            (keys, states) => keys.or(states),
        };
        if let Some(whole) = apart {
            whole.expect_rows(groups[number] as usize)?;
            let numbers = UInt32Array::from_value(number as u32, whole.len());
            pieces.push(whole.behind(PART, Arc::new(numbers))?);
        }
    }
    Ok(pieces)
}

/// Whose each of so many groups is, from a part on. `None` if they end amid one.
fn part_numbers(first: usize, groups: &[u64], mut left: u64) -> Option<UInt32Array> {
    let mut numbers = Vec::with_capacity(left as usize);
    for (number, &len) in groups.iter().enumerate().skip(first) {
        if left == 0 {
            break;
        }
        left = left.checked_sub(len)?;
        numbers.extend(std::iter::repeat_n(number as u32, len as usize));
    }
    (left == 0).then(|| UInt32Array::from(numbers))
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
        let all = self.parts.values_mut().flat_map(|part| &mut part.sealed);
        settle(all, aggregation, operator)?;
        let sealed =
            || self.parts.iter().flat_map(|(key, part)| part.sealed.iter().map(move |one| (key, one)));
        let (mut first, mut second): (Vec<i64>, Vec<i64>) =
            sealed().map(|(key, _)| (key.first, key.second)).unzip();
        let mut groups: Vec<u64> = sealed().map(|(_, one)| one.partial.len as u64).collect();
        let mut fills = vec![false; groups.len()];
        let (runs, few) = runs(sealed().map(|(_, one)| one));
        let of_part = |number: usize, partial: &Partial| {
            let numbers = UInt32Array::from_value(number as u32, partial.len);
            table(std::iter::once(named(PART, numbers)).chain(aggregation.partial_columns(partial)).collect())
        };
        let mut small = Vec::new();
        for (number, one) in few {
            small.push(of_part(number, &one.partial)?);
        }
        let mut apart = Vec::new();
        for (key, part) in &mut self.parts {
            let Some(filling) = &mut part.filling else { continue };
            let (number, len) = (first.len(), filling.len());
            if len < CHUNK_ROWS && !filling.is_handed_out(aggregation) {
                for partial in filling.snapshot(aggregation).map_err(|e| bug(operator, e))? {
                    small.push(of_part(number, &partial)?);
                }
            } else {
                apart.push((number, filling.apart(aggregation).map_err(|e| bug(operator, e))?));
            }
            first.push(key.first);
            second.push(key.second);
            groups.push(len as u64);
            fills.push(true);
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
        let state = runs
            .iter()
            .fold(state, |state, (number, run)| state.with_whole(whole_name(*number), vec![run.rows()]));
        Ok(apart.into_iter().fold(state, |state, (number, Apart { keys, states })| {
            let state = state.with_runs(&keys_name(number), keys, APART_ROWS);
            let name = states_name(number);
            match states {
                States::Made(states) => state.with_runs(&name, states, APART_ROWS),
                States::Later(make) => {
                    let operator = operator.to_owned();
                    state.with_later(move || {
                        let states = make().map_err(|e| bug(&operator, e))?;
                        Ok(OperatorState::default().with_runs(&name, states, APART_ROWS))
                    })
                }
            }
        }))
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
        // Few groups of a part may lie in two tables, where one was full.
        let mut runs: Vec<Vec<Partial>> = (0..first.len()).map(|_| Vec::new()).collect();
        for piece in runs_of_groups(state, &groups)? {
            let columns = piece.rest(OWN, &types)?;
            let numbers = piece.values::<UInt32Type>(PART)?;
            let mut offset = 0;
            for run in numbers.chunk_by(|a, b| a == b) {
                let Some(of_part) = runs.get_mut(run[0] as usize) else {
                    let expected = format!("groups of {} parts", first.len());
                    return Err(piece.mismatch(expected, format!("some of part {}", run[0])));
                };
                let columns: Vec<_> = columns.iter().map(|c| c.slice(offset, run.len())).collect();
                of_part.push(aggregation.partial_of(&columns, run.len()).map_err(|e| bug(operator, e))?);
                offset += run.len();
            }
        }
        for (number, mut of_part) in runs.into_iter().enumerate() {
            let len: usize = of_part.iter().map(|partial| partial.len).sum();
            let partial = match of_part.len() {
                1 => of_part.pop(),
                _ => aggregation.joined(&of_part).map_err(|e| bug(operator, e))?,
            };
            let Some(partial) = partial.filter(|_| len as u64 == groups[number]) else {
                let expected = format!("{} groups of part {number}", groups[number]);
                return Err(parts.mismatch(expected, len.to_string()));
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
            part.sealed.push(Sealed::new(Arc::new(partial)));
        }
        Some(())
    }
}
