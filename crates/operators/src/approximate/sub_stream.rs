//! What is counted while rows come: by stretch of event time and by group, until windows close over it.

use std::sync::Arc;

use super::delays::Delays;
use super::distinct::Distinct;
use super::stratum::Stratum;
use super::sums::Sums;

/// A stretch of event time: what came of it, and what was taken.
#[derive(Clone, Debug, Default)]
pub(crate) struct SubStream {
    /// By group.
    pub(crate) cells: Vec<Cell>,
    /// Of rows that were in time and those that were not.
    pub(crate) delays: Delays,
    /// Of so many rows one's delay is looked at; set with the first row, above 0 from then on.
    pub(crate) glance_of: u32,
    /// Rows until the next is, and from that one until the end of its block.
    pub(crate) glance_in: u32,
    pub(crate) glance_left: u32,
    /// Rows that were in time, and all.
    pub(crate) seen: f64,
    pub(crate) rows: f64,
    /// What was taken has been sent on, with these for N̂.
    pub(crate) closed: Option<Share>,
    /// By value, as it was sent on: by how much those that were missing lie above those that came, and the deviation of that.
    pub(crate) shifts: Vec<(f64, f64)>,
    /// Its delays are part of what is known.
    pub(crate) is_learnt: bool,
}

/// One group in a sub-stream.
#[derive(Clone, Debug, Default)]
pub(crate) struct Cell {
    pub(crate) seen: u32,
    pub(crate) taken: u32,
    /// Rows that are counted before the next is taken.
    pub(crate) skip: u32,
    /// −1 / ln(1 − θ), θ being the rate at which rows are taken; 0 takes all.
    pub(crate) spacing: f64,
    /// By value.
    pub(crate) values: Vec<Sums>,
    pub(crate) kept: Kept,
}

/// What moments do not tell of a group in a sub-stream. A window that looks at it copies none of it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Kept {
    /// By value: what was taken, where a percentile is asked for; else nothing.
    pub(crate) samples: Vec<Arc<Vec<f64>>>,
    /// By expression: the distinct values of all rows in time.
    pub(crate) distinct: Vec<Arc<Distinct>>,
}

impl Kept {
    /// Bytes held, about.
    pub(crate) fn bytes(&self) -> usize {
        let samples = self.samples.iter().map(|sample| sample.capacity() * size_of::<f64>());
        samples.sum::<usize>() + self.distinct.iter().map(|distinct| distinct.size()).sum::<usize>()
    }
}

/// Which part of a sub-stream's rows has come, and how sure that is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Share {
    /// Above 0.
    pub(crate) in_time: f64,
    /// Relative deviation of N̂ that is not the chance of who is missing.
    pub(crate) doubt: f64,
    /// The missing rows are not known at all: it seems that delays or rates have changed.
    pub(crate) is_broken: bool,
}

impl SubStream {
    /// Bytes of what its cells keep, about.
    pub(crate) fn kept_bytes(&self) -> usize {
        self.cells.iter().map(|cell| cell.kept.bytes()).sum()
    }
}

impl Share {
    pub(crate) const ALL: Share = Share { in_time: 1.0, doubt: 0.0, is_broken: false };

    /// N̂ of so many rows.
    pub(crate) fn total(&self, seen: f64) -> f64 {
        seen / self.in_time
    }
}

impl Cell {
    /// One whose rows are taken with that spacing; `dice` throws from above 0 to 1.
    pub(crate) fn new(spacing: f64, values: usize, dice: f64) -> Cell {
        let mut cell = Cell { spacing, values: vec![Sums::default(); values], ..Cell::default() };
        cell.leave_out(dice);
        cell
    }

    /// As many rows are left out as would be if each were taken by chance: a geometric law, which costs nothing per row.
    pub(crate) fn leave_out(&mut self, dice: f64) {
        self.skip = (-dice.ln() * self.spacing) as u32;
    }

    /// What is known of its rows, if that share of them has come.
    pub(crate) fn stratum(&self, id: i64, share: Share, shift: (f64, f64)) -> Stratum {
        let (seen, p) = (f64::from(self.seen), share.in_time);
        let total = share.total(seen);
        let missing = total - seen;
        Stratum {
            id,
            taken: f64::from(self.taken),
            seen,
            total,
            // Each row comes in time with probability p: N̂ = seen/p.
            total_variance: seen * (1.0 - p) / (p * p),
            total_common: if p < 1.0 { total * share.doubt } else { 0.0 }
                + if share.is_broken { missing } else { 0.0 },
            shift,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_by_hand() {
        let cell = Cell { seen: 300, taken: 30, ..Cell::default() };
        let share = Share { in_time: 0.75, doubt: 0.01, is_broken: false };
        let stratum = cell.stratum(7, share, (0.0, 0.0));
        assert_eq!((stratum.total, stratum.missing(), stratum.total_common), (400.0, 100.0, 4.0));
        // 300 · 0.25 / 0.5625.
        assert!((stratum.total_variance - 133.333).abs() < 1e-3);
        assert_eq!(cell.stratum(7, Share { is_broken: true, ..share }, (0.0, 0.0)).total_common, 104.0);
        assert_eq!(cell.stratum(7, Share::ALL, (0.0, 0.0)).total_variance, 0.0);
    }

    #[test]
    fn a_tenth_is_a_tenth() {
        // 1 / ln(10/9) = 9.49; dice of one half leave out ⌊6.58⌋, those above 0.9 none.
        let spacing = -1.0 / 0.9f64.ln();
        assert_eq!(
            [0.5, 0.999, 0.901, 0.899, 0.1].map(|dice| Cell::new(spacing, 0, dice).skip),
            [6, 0, 0, 1, 21]
        );
        assert_eq!(Cell::new(0.0, 0, 1e-9).skip, 0);
        // The mean of what is left out before one is taken: (1 − θ)/θ = 9.
        let draws = 100_000;
        let mean = (0..draws)
            .map(|i| f64::from(Cell::new(spacing, 0, (f64::from(i) + 0.5) / f64::from(draws)).skip))
            .sum::<f64>()
            / f64::from(draws);
        assert!((mean - 9.0).abs() < 0.01, "{mean}");
    }
}
