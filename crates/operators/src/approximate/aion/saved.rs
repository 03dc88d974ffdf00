//! What Aion knows, as tables: numbers that belong together lie in a list, in the order of the fields that they are of.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::{Array, BooleanArray, Float64Array, Int64Array, UInt8Array, UInt32Array, UInt64Array};
use arrow::datatypes::{Float64Type, Int64Type, UInt8Type, UInt32Type, UInt64Type};
use laxity_graph::Approximation;

use super::super::delayed_values::DelayedValues;
use super::super::delays::Delays;
use super::super::distinct::Distinct;
use super::super::doubt::Doubt;
use super::super::group_history::{GroupHistory, counted_lists};
use super::super::rule::SlackControl;
use super::super::sub_stream::{Cell, Kept, Share, SubStream};
use super::super::sums::Sums;
use super::Aion;
use crate::OperatorState;
use crate::state::{NamedColumn, Part, Result, lists, named};

impl Aion {
    /// All but what is verified.
    pub(in crate::approximate) fn save(&self, state: OperatorState) -> Result<OperatorState> {
        let histories = self.groups.iter().map(GroupHistory::numbers);
        let cells = || self.sub_streams.values().flat_map(|sub_stream| &sub_stream.cells);
        let values = |cell: &Cell| cell.values.iter().flat_map(Sums::numbers).collect();
        let recent = self.groups.iter().map(GroupHistory::recent_numbers);
        let samples = |cell: &Cell| {
            let of = |sample: &Arc<Vec<f64>>| std::iter::once(sample.len() as f64).chain(sample.to_vec());
            cell.kept.samples.iter().flat_map(of).collect()
        };
        // Of each expression there is a row.
        let sketches = cells().flat_map(|cell| &cell.kept.distinct).map(|sketch| sketch.to_bytes());
        let sketches: Vec<Vec<u8>> = sketches.collect();
        let lengths = sketches.iter().map(Vec::len);
        let sketches = self::lists(lengths, Arc::new(UInt8Array::from(sketches.concat())));
        let spacings = cells().map(|cell| cell.spacing);
        state
            .with("aion", self.own())?
            .with("sub-streams", self.sub_stream_columns())?
            .with(
                "cells",
                vec![
                    named("seen", UInt32Array::from_iter_values(cells().map(|cell| cell.seen))),
                    named("taken", UInt32Array::from_iter_values(cells().map(|cell| cell.taken))),
                    named("skip", UInt32Array::from_iter_values(cells().map(|cell| cell.skip))),
                    named("spacing", Float64Array::from_iter_values(spacings)),
                    numbers("values", cells().map(values)),
                    numbers("samples", cells().map(samples)),
                ],
            )?
            .with("sketches", vec![("sketch".into(), sketches)])?
            .with("histories", vec![numbers("history", histories), numbers("recent", recent)])
    }

    fn own(&self) -> Vec<NamedColumn> {
        let longest = Int64Array::from_iter_values(self.longest.iter().copied());
        let totals = &self.totals;
        let counts = [
            totals.rows_seen,
            totals.rows_taken,
            totals.rows_late,
            totals.windows,
            totals.unkept,
            totals.complete,
        ];
        let mut columns = vec![
            ("longest-delays".into(), lists([longest.len()].into_iter(), Arc::new(longest))),
            one("longest-of-last", self.longest_of_last),
            one("longest-of-all", self.longest_of_all),
            one("longest-lately", self.longest_lately),
            named("matured", UInt32Array::from(vec![self.matured])),
            named("groups", UInt64Array::from(vec![self.groups.len() as u64])),
            named("first-end", Int64Array::from(vec![self.first_end])),
            one("issued", self.issued),
            one("upstream", self.upstream),
            one("latest", self.latest),
            named("arrived", Int64Array::from(vec![self.arrived])),
            named("longest-silence", Float64Array::from(vec![self.longest_silence])),
            named("wake", Int64Array::from(vec![self.wake])),
            named("engaged", BooleanArray::from(vec![self.engaged])),
        ];
        let lists = [
            ("doubt", self.doubt.numbers().to_vec()),
            ("slack", self.slack.numbers().to_vec()),
            ("rows", self.rows.numbers()),
            ("delays", self.delays.numbers()),
            ("waited-and-saved", vec![totals.waited_ms, totals.saved_ms]),
        ];
        columns.extend(lists.map(|(name, list)| numbers(name, [list].into_iter())));
        columns.push(numbers("delayed-values", [self.delayed_numbers()].into_iter()));
        let counts = UInt64Array::from(counts.to_vec());
        columns.push(("counts".into(), self::lists([counts.len()].into_iter(), Arc::new(counts))));
        columns
    }

    /// Of each value how many numbers there are, and these.
    fn delayed_numbers(&self) -> Vec<f64> {
        let counted = |numbers: Vec<f64>| std::iter::once(numbers.len() as f64).chain(numbers);
        self.delayed.iter().map(DelayedValues::numbers).flat_map(counted).collect()
    }

    fn sub_stream_columns(&self) -> Vec<NamedColumn> {
        let all = || self.sub_streams.values();
        let word =
            |name, of: fn(&SubStream) -> u32| named(name, UInt32Array::from_iter_values(all().map(of)));
        let share = |of: fn(&Share) -> f64| all().map(move |s| s.closed.as_ref().map(of));
        let broken = all().map(|s| s.closed.map(|share| share.is_broken));
        vec![
            named("number", Int64Array::from_iter_values(self.sub_streams.keys().copied())),
            word("cells", |s| s.cells.len() as u32),
            word("glance-of", |s| s.glance_of),
            word("glance-in", |s| s.glance_in),
            word("glance-left", |s| s.glance_left),
            named("seen", Float64Array::from_iter_values(all().map(|s| s.seen))),
            named("rows", Float64Array::from_iter_values(all().map(|s| s.rows))),
            named("closed-in-time", share(|share| share.in_time).collect::<Float64Array>()),
            named("closed-doubt", share(|share| share.doubt).collect::<Float64Array>()),
            named("closed-is-broken", broken.collect::<BooleanArray>()),
            numbers(
                "closed-shifts",
                all().map(|s| s.shifts.iter().flat_map(|&(by, deviation)| [by, deviation]).collect()),
            ),
            named("is-learnt", all().map(|s| Some(s.is_learnt)).collect::<BooleanArray>()),
            numbers("delays", all().map(|s| s.delays.numbers())),
        ]
    }

    /// Takes over what another of the same configuration has saved.
    pub(in crate::approximate) fn restore(&mut self, state: &mut OperatorState) -> Result<()> {
        let own = state.take("aion")?;
        self.restore_own(&own)?;
        let histories = state.take("histories")?;
        histories.expect_rows(own.only::<UInt64Type>("groups")? as usize)?;
        let all = histories.lists::<Float64Type>("history")?;
        let all = all.iter().map(|numbers| GroupHistory::from_numbers(numbers).ok_or(numbers.len()));
        let all: Vec<GroupHistory> =
            all.collect::<std::result::Result<_, _>>().map_err(|n| not_so_many(&histories, "history", n))?;
        let recent = histories.lists::<Float64Type>("recent")?;
        let with_recent = |(history, numbers): (GroupHistory, &&[f64])| {
            history.with_recent(numbers).ok_or_else(|| not_so_many(&histories, "recent", numbers.len()))
        };
        self.groups = all.into_iter().zip(&recent).map(with_recent).collect::<Result<_>>()?;
        let (sub_streams, cells) = (state.take("sub-streams")?, state.take("cells")?);
        let sketches = state.take("sketches")?;
        self.restore_sub_streams(&sub_streams, &cells, &sketches)?;
        self.count_kept();
        Ok(())
    }

    fn restore_own(&mut self, own: &Part) -> Result<()> {
        let delayed = own.only_list::<Float64Type>("delayed-values")?;
        let lists = counted_lists(&delayed).filter(|lists| lists.len() == self.delayed.len());
        let of_lists = |lists: Vec<&[f64]>| lists.into_iter().map(DelayedValues::from_numbers).collect();
        let restored: Option<Vec<DelayedValues>> = lists.and_then(of_lists);
        self.delayed = restored.ok_or_else(|| not_so_many(own, "delayed-values", delayed.len()))?;
        let pair = |name: &str| -> Result<[f64; 2]> {
            let list = own.only_list::<Float64Type>(name)?;
            list.as_slice().try_into().map_err(|_| not_so_many(own, name, list.len()))
        };
        self.doubt = Doubt::from_numbers(pair("doubt")?);
        self.slack = SlackControl::from_numbers(pair("slack")?);
        let rows = own.only_list::<Float64Type>("rows")?;
        self.rows = GroupHistory::from_numbers(&rows).ok_or_else(|| not_so_many(own, "rows", rows.len()))?;
        let delays = own.only_list::<Float64Type>("delays")?;
        self.delays =
            Delays::from_numbers(&delays).ok_or_else(|| not_so_many(own, "delays", delays.len()))?;
        self.longest = own.only_list::<Int64Type>("longest-delays")?.into();
        let number = |name: &str| own.only::<Int64Type>(name);
        self.longest_of_last = number("longest-of-last")?;
        self.longest_of_all = number("longest-of-all")?;
        self.longest_lately = number("longest-lately")?;
        self.issued = number("issued")?;
        self.upstream = number("upstream")?;
        self.latest = number("latest")?;
        self.matured = own.only::<UInt32Type>("matured")?;
        let optional = |name: &str| Ok(own.optional::<Int64Type>(name)?.iter().flatten().next());
        self.first_end = optional("first-end")?;
        self.arrived = optional("arrived")?;
        self.wake = optional("wake")?;
        self.longest_silence = own.only::<Float64Type>("longest-silence")?;
        self.engaged = own.flags("engaged")?.value(0);
        let [waited_ms, saved_ms] = pair("waited-and-saved")?;
        let counts = own.only_list::<UInt64Type>("counts")?;
        let &[rows_seen, rows_taken, rows_late, windows, unkept, complete] = counts.as_slice() else {
            return Err(not_so_many(own, "counts", counts.len()));
        };
        self.totals = Approximation {
            rows_seen,
            rows_taken,
            rows_late,
            windows,
            unkept,
            complete,
            waited_ms,
            saved_ms,
            ..Approximation::default()
        };
        Ok(())
    }

    fn restore_sub_streams(&mut self, part: &Part, cells: &Part, sketches: &Part) -> Result<()> {
        let numbers = part.values::<Int64Type>("number")?;
        let lengths = part.values::<UInt32Type>("cells")?;
        cells.expect_rows(lengths.iter().map(|&length| length as usize).sum())?;
        let mut cells = self.restored_cells(cells, sketches)?.into_iter();
        let word = |name: &str| part.values::<UInt32Type>(name);
        let (of, within, left) = (word("glance-of")?, word("glance-in")?, word("glance-left")?);
        let (seen, rows) = (part.values::<Float64Type>("seen")?, part.values::<Float64Type>("rows")?);
        let closed = part.optional::<Float64Type>("closed-in-time")?;
        let doubt = part.optional::<Float64Type>("closed-doubt")?;
        let broken = part.optional_flags("closed-is-broken")?;
        let learnt = part.flags("is-learnt")?;
        let (delays, shifts) =
            (part.lists::<Float64Type>("delays")?, part.lists::<Float64Type>("closed-shifts")?);
        let mut sub_streams = BTreeMap::new();
        for row in 0..part.len() {
            let closed = closed.is_valid(row).then(|| Share {
                in_time: closed.value(row),
                doubt: doubt.value(row),
                is_broken: broken.value(row),
            });
            let sub_stream = SubStream {
                cells: cells.by_ref().take(lengths[row] as usize).collect(),
                delays: Delays::from_numbers(delays[row])
                    .ok_or_else(|| not_so_many(part, "delays", delays[row].len()))?,
                glance_of: of[row],
                glance_in: within[row],
                glance_left: left[row],
                seen: seen[row],
                rows: rows[row],
                closed,
                shifts: shifts[row].as_chunks().0.iter().map(|&[by, deviation]| (by, deviation)).collect(),
                is_learnt: learnt.value(row),
            };
            sub_streams.insert(numbers[row], sub_stream);
        }
        if sub_streams.len() != numbers.len() {
            return Err(part.mismatch("each number once", "one twice"));
        }
        self.sub_streams = sub_streams;
        Ok(())
    }

    fn restored_cells(&self, part: &Part, sketches: &Part) -> Result<Vec<Cell>> {
        let word = |name: &str| part.values::<UInt32Type>(name);
        let (seen, taken, skip) = (word("seen")?, word("taken")?, word("skip")?);
        let spacing = part.values::<Float64Type>("spacing")?;
        let values = part.lists::<Float64Type>("values")?;
        let samples = part.lists::<Float64Type>("samples")?;
        let of_bytes = |bytes: &[u8]| {
            let restored = Distinct::of_bytes(bytes).map(Arc::new);
            restored.ok_or_else(|| sketches.mismatch("a sketch", format!("{} other bytes", bytes.len())))
        };
        let bytes = sketches.lists::<UInt8Type>("sketch")?;
        let mut distinct = bytes.iter().map(|bytes| of_bytes(bytes));
        let begun = seen.iter().filter(|&&seen| seen > 0).count();
        sketches.expect_rows(begun * self.no_distinct.len())?;
        let mut cell = |row: usize| {
            let (sums, rest) = values[row].as_chunks();
            let expected = if seen[row] > 0 { self.delayed.len() } else { 0 };
            if sums.len() != expected || !rest.is_empty() {
                return Err(not_so_many(part, "values", values[row].len()));
            }
            let lists = counted_lists(samples[row]).filter(|lists| lists.len() == expected);
            let Some(lists) = lists else { return Err(not_so_many(part, "samples", samples[row].len())) };
            let of_cell = if seen[row] > 0 { self.no_distinct.len() } else { 0 };
            let kept = Kept {
                samples: lists.into_iter().map(|list| Arc::new(list.to_vec())).collect(),
                distinct: distinct.by_ref().take(of_cell).collect::<Result<_>>()?,
            };
            Ok(Cell {
                seen: seen[row],
                taken: taken[row],
                skip: skip[row],
                spacing: spacing[row],
                values: sums.iter().map(|&numbers| Sums::of(numbers)).collect(),
                kept,
            })
        };
        (0..part.len()).map(&mut cell).collect()
    }
}

fn one(name: &str, value: i64) -> NamedColumn {
    named(name, Int64Array::from(vec![value]))
}

/// A list for each.
fn numbers(name: &str, of: impl Iterator<Item = Vec<f64>>) -> NamedColumn {
    let all: Vec<Vec<f64>> = of.collect();
    let lengths: Vec<usize> = all.iter().map(Vec::len).collect();
    (name.into(), lists(lengths.into_iter(), Arc::new(Float64Array::from(all.concat()))))
}

fn not_so_many(part: &Part, column: &str, found: usize) -> crate::StateError {
    part.mismatch(format!("as many numbers in {column} as the query has values for"), found.to_string())
}
