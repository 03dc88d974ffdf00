//! Where rows stand among the records of their files. A bad record is no row, and which ones are bad depends on the columns
//! that are read: so a place that others with other columns are to find again is counted in records.

use crate::dead_letter::BadRow;

/// Of the records of a piece.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Numbering {
    /// Records before the piece.
    first: u64,
    /// Places of the bad ones in the piece, ascending.
    bad: Vec<usize>,
}

impl Numbering {
    pub(crate) fn new(first: u64, bad: &[BadRow]) -> Numbering {
        Numbering { first, bad: bad.iter().map(|bad| bad.record).collect() }
    }

    /// The number of a row, or of the one behind the last; from 0.
    pub(crate) fn of_row(&self, row: usize) -> u64 {
        let before = self.bad.iter().enumerate().take_while(|(nth, place)| *place - nth <= row).count();
        self.first + (row + before) as u64
    }

    /// The number of a bad record of the piece.
    pub(crate) fn of_bad(&self, bad: &BadRow) -> u64 {
        self.first + bad.record as u64
    }

    /// How many of its rows have numbers below this one.
    pub(crate) fn rows_below(&self, number: u64, rows: usize) -> usize {
        let records = rows + self.bad.len();
        let below = usize::try_from(number.saturating_sub(self.first)).unwrap_or(records).min(records);
        below - self.bad.partition_point(|place| *place < below)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_numbered_around_bad_records() {
        let bad = |record| BadRow::new(1, "", b"").at(record);
        // Records 10 to 16, of which 10, 12, 13 and 16 are bad.
        let numbering = Numbering::new(10, &[bad(0), bad(2), bad(3), bad(6)]);
        let numbers: Vec<u64> = (0..=3).map(|row| numbering.of_row(row)).collect();
        assert_eq!(numbers, [11, 14, 15, 17]);
        let below: Vec<usize> = (9..=20).map(|number| numbering.rows_below(number, 3)).collect();
        assert_eq!(below, [0, 0, 0, 1, 1, 1, 2, 3, 3, 3, 3, 3]);
        assert_eq!(numbering.of_bad(&bad(3)), 13);
    }
}
