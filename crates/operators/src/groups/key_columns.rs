use std::ops::Range;

use arrow::array::{Array, ArrayRef};

/// Columns that hold keys.
#[derive(Clone, Copy)]
pub(super) struct KeyColumns<'a> {
    pub(super) arrays: &'a [ArrayRef],
    /// Which of the arrays. `None`: all.
    pub(super) at: Option<&'a [usize]>,
}

impl<'a> KeyColumns<'a> {
    pub(super) fn all(arrays: &'a [ArrayRef]) -> KeyColumns<'a> {
        KeyColumns { arrays, at: None }
    }

    pub(super) fn column(&self, index: usize) -> &'a ArrayRef {
        &self.arrays[self.at.map_or(index, |at| at[index])]
    }

    pub(super) fn len(&self) -> usize {
        self.at.map_or(self.arrays.len(), <[usize]>::len)
    }

    /// Calls with the columns, cut to these rows.
    pub(super) fn with_arrays<R>(&self, rows: Range<usize>, call: impl FnOnce(&[ArrayRef]) -> R) -> R {
        let is_whole = self.column(0).len() == rows.len();
        match (is_whole, self.at) {
            (true, None) => call(self.arrays),
            (true, Some(&[only])) => call(std::slice::from_ref(&self.arrays[only])),
            _ => call(&self.arrays_of(rows)),
        }
    }

    pub(super) fn arrays_of(&self, rows: Range<usize>) -> Vec<ArrayRef> {
        (0..self.len()).map(|index| self.column(index).slice(rows.start, rows.len())).collect()
    }
}
