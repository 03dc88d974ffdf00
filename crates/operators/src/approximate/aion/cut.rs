//! The rows of a batch by sub-stream: where delays differ, those of several come in turn.

use super::super::grid::Grid;

/// Rows of one batch that are of one sub-stream, in their order.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rows<'a> {
    /// Of the batch.
    from: usize,
    /// By row of the batch, its sub-stream's mark, in whole words; nothing where all from there on are of it.
    marks: &'a [[u8; WORD]],
    mark: u8,
    count: usize,
}

/// Above that many sub-streams in a batch, runs of rows are looked at one by one.
const MARKS: i64 = 64;

/// The mark behind the last row, of no sub-stream.
const NONE: u8 = u8::MAX;

/// Rows that are looked at together.
const WORD: usize = 64;

/// Calls for the rows of each sub-stream; of the earliest first where there are few of them. The earliest and the latest time.
pub(super) fn each_sub_stream(
    grid: Grid,
    times: &[i64],
    marks: &mut Vec<u8>,
    mut call: impl FnMut(i64, Rows<'_>),
) -> Option<(i64, i64)> {
    let (&earliest, &latest) = (times.iter().min()?, times.iter().max()?);
    let (first, last) = (grid.sub_stream(earliest), grid.sub_stream(latest));
    let all = |from, count| Rows { from, marks: &[], mark: 0, count };
    if first == last {
        call(first, all(0, times.len()));
        return Some((earliest, latest));
    }
    if last - first >= MARKS {
        let mut from = 0;
        while from < times.len() {
            let number = grid.sub_stream(times[from]);
            let (start, end) = grid.stretch(number);
            let length = times[from..].iter().position(|time| !(start..end).contains(time));
            let length = length.unwrap_or(times.len() - from);
            call(number, all(from, length));
            from += length;
        }
        return Some((earliest, latest));
    }
    let (start, _) = grid.stretch(first);
    // With the half no product of a whole quotient is rounded to below it: exact for sub-streams of up to 2⁴⁰ ms.
    let per_ms = 1.0 / grid.sub_stream_ms as f64;
    marks.clear();
    marks.extend(times.iter().map(|time| (((time - start) as f64 + 0.5) * per_ms) as u8));
    marks.resize(times.len().next_multiple_of(WORD), NONE);
    let (marks, _) = marks.as_chunks::<WORD>();
    for (number, mark) in (first..=last).zip(0..) {
        let in_word = |word: &[u8; WORD]| word.iter().map(|&of| u8::from(of == mark)).sum::<u8>();
        let count = marks.iter().map(|word| usize::from(in_word(word))).sum();
        if count > 0 {
            call(number, Rows { from: 0, marks, mark, count });
        }
    }
    Some((earliest, latest))
}

impl<'a> Rows<'a> {
    pub(super) fn len(&self) -> usize {
        self.count
    }

    /// Their places in the batch.
    pub(super) fn places(self) -> Places<'a> {
        Places { rows: self, at: 0, left: 0 }
    }
}

/// See [`Rows::places`].
#[derive(Clone, Debug)]
pub(super) struct Places<'a> {
    rows: Rows<'a>,
    /// Of the next row, or of the next word.
    at: usize,
    /// Rows of the word before that are still to come, a bit for each.
    left: u64,
}

impl Iterator for Places<'_> {
    type Item = usize;

    fn next(&mut self) -> Option<usize> {
        self.nth(0)
    }

    /// Passes over rows by the word.
    fn nth(&mut self, skip: usize) -> Option<usize> {
        let Rows { from, marks, mark, count } = self.rows;
        if marks.is_empty() {
            let at = self.at.saturating_add(skip);
            self.at = at.saturating_add(1);
            return (at < count).then_some(from + at);
        }
        let mut skip = skip;
        loop {
            let here = self.left.count_ones() as usize;
            if skip < here {
                break;
            }
            skip -= here;
            self.left = bits(marks.get(self.at)?, mark);
            self.at += 1;
        }
        for _ in 0..skip {
            self.left &= self.left - 1;
        }
        let bit = self.left.trailing_zeros() as usize;
        self.left &= self.left - 1;
        Some((self.at - 1) * WORD + bit)
    }
}

/// A bit for each that has that mark, eight at a time.
fn bits(marks: &[u8; WORD], mark: u8) -> u64 {
    const ONES: u64 = u64::from_ne_bytes([1; 8]);
    const LOW: u64 = ONES * 0x7f;
    // Moves the lowest bit of each byte into the highest byte, in order: none of the products meets another.
    const GATHER: u64 = 0x0102_0408_1020_4080;
    let (eights, _) = marks.as_chunks::<8>();
    eights.iter().enumerate().fold(0, |bits, (place, eight)| {
        let differs = u64::from_le_bytes(*eight) ^ (ONES * u64::from(mark));
        let is_equal = !(((differs & LOW) + LOW) | differs | LOW) >> 7;
        bits | (is_equal.wrapping_mul(GATHER) >> 56) << (8 * place)
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::super::super::grid::Span;
    use super::*;

    proptest! {
        #[test]
        fn each_row_is_of_its_sub_stream(
            times in proptest::collection::vec(-4_000_i64..4_000, 1..300),
            wide in any::<bool>(),
            step in 1_i64..2_000,
            phase in -50_i64..50,
            skips in proptest::collection::vec(0_usize..90, 1..9),
        ) {
            let grid = Grid::new(step, phase, Span::Fixed(step));
            let times: Vec<i64> = times.iter().map(|time| time * if wide { 1 } else { step } / 100).collect();
            let mut expected: BTreeMap<i64, Vec<usize>> = BTreeMap::new();
            for (row, &time) in times.iter().enumerate() {
                expected.entry(grid.sub_stream(time)).or_default().push(row);
            }
            let mut found: BTreeMap<i64, Vec<usize>> = BTreeMap::new();
            each_sub_stream(grid, &times, &mut vec![9; 7], |number, rows| {
                let places: Vec<usize> = rows.places().collect();
                assert_eq!(places.len(), rows.len());
                let (mut some, mut at) = (rows.places(), 0);
                for &skip in skips.iter().cycle() {
                    at += skip;
                    let place = some.nth(skip);
                    assert_eq!(place, places.get(at).copied());
                    if place.is_none() {
                        break;
                    }
                    at += 1;
                }
                found.entry(number).or_default().extend(places);
            });
            prop_assert_eq!(found, expected);
        }
    }
}
