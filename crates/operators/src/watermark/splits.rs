//! Watermarks of the parts of an input.

use std::sync::Arc;

use arrow::array::{AsArray, Int32Array, Int64Array, ListArray, RecordBatch};
use arrow::datatypes::{Int32Type, Int64Type};
use laxity_graph::EventTime;

use crate::OperatorState;
use crate::state::{self, lists};

/// Watermarks of the parts of an input, each by itself: the input's is the least of those that are waited for.
///
/// A part that is behind the others is not late so, and one that has given nothing yet holds the others back. Which
/// are waited for, that is all but the idle ones, comes with the rows: the column is one of lists of which the first item
/// is the row's part and the others, where there are any, are the parts waited for from that row on.
#[derive(Clone, Debug)]
pub(super) struct Splits {
    column: usize,
    /// By part.
    watermarks: Vec<i64>,
    awaited: Vec<i32>,
}

/// Which part each of some rows is of.
pub(super) struct SplitRows<'a> {
    offsets: &'a [i32],
    items: &'a [i32],
}

impl Splits {
    pub(super) fn new(column: usize) -> Splits {
        Splits { column, watermarks: Vec::new(), awaited: Vec::new() }
    }

    pub(super) fn save(&self, state: OperatorState) -> state::Result<OperatorState> {
        let watermarks = Int64Array::from(self.watermarks.clone());
        let awaited = Int32Array::from(self.awaited.clone());
        let own = vec![
            ("watermarks".into(), lists([watermarks.len()].into_iter(), Arc::new(watermarks))),
            ("awaited".into(), lists([awaited.len()].into_iter(), Arc::new(awaited))),
        ];
        state.with("parts-of-input", own)
    }

    pub(super) fn restore(&mut self, state: &mut OperatorState) -> state::Result<()> {
        let own = state.take("parts-of-input")?;
        self.watermarks = own.only_list::<Int64Type>("watermarks")?;
        self.awaited = own.only_list::<Int32Type>("awaited")?;
        Ok(())
    }

    /// The column of these rows.
    pub(super) fn list<'a>(&self, rows: &'a RecordBatch) -> &'a ListArray {
        rows.column(self.column).as_list()
    }

    /// All parts that are waited for from some of these rows on.
    pub(super) fn await_any_of(&mut self, rows: &SplitRows<'_>) {
        for row in 0..rows.len() {
            self.awaited.extend(rows.awaited(row));
        }
        self.awaited.sort_unstable();
        self.awaited.dedup();
    }

    /// Only those that are waited for after these rows.
    pub(super) fn await_last_of(&mut self, rows: &SplitRows<'_>) {
        let last = (0..rows.len()).rev().map(|row| rows.awaited(row)).find(|awaited| !awaited.is_empty());
        if let Some(awaited) = last {
            self.awaited = awaited.to_vec();
        }
    }

    /// From a row on, these are waited for; true if they are others than before.
    pub(super) fn await_these(&mut self, awaited: &[i32]) -> bool {
        if awaited.is_empty() || awaited == self.awaited {
            return false;
        }
        self.awaited = awaited.to_vec();
        true
    }

    /// A row of this part has come. True if the watermark of the whole may rise.
    pub(super) fn advance(&mut self, part: i32, bound: i64, watermark: i64) -> bool {
        let part = part as usize;
        if part >= self.watermarks.len() {
            self.watermarks.resize(part + 1, EventTime::MIN.0);
        }
        let own = &mut self.watermarks[part];
        let before = *own;
        *own = before.max(bound);
        // Those that are ahead do not hold it back.
        *own > before && before <= watermark
    }

    /// The least watermark of those waited for.
    pub(super) fn least(&self) -> i64 {
        let of = |part: &i32| self.watermarks.get(*part as usize).copied().unwrap_or(EventTime::MIN.0);
        self.awaited.iter().map(of).min().unwrap_or(EventTime::MIN.0)
    }
}

impl<'a> SplitRows<'a> {
    pub(super) fn of(list: &'a ListArray) -> SplitRows<'a> {
        let items = list.values().as_primitive::<Int32Type>().values();
        SplitRows { offsets: list.value_offsets(), items }
    }

    fn len(&self) -> usize {
        self.offsets.len() - 1
    }

    pub(super) fn part(&self, row: usize) -> i32 {
        self.items[self.offsets[row] as usize]
    }

    /// Empty where nothing changes.
    pub(super) fn awaited(&self, row: usize) -> &'a [i32] {
        &self.items[self.offsets[row] as usize + 1..self.offsets[row + 1] as usize]
    }
}
