use super::delays::Delays;
use super::moments::Moments;
use super::stratum::Stratum;

/// A stretch of event time: what came of it, and what was taken.
#[derive(Clone, Debug, Default)]
pub(crate) struct SubStream {
    /// By group.
    pub(crate) cells: Vec<Cell>,
    /// Of rows that were in time and those that were not.
    pub(crate) delays: Delays,
    /// Rows that were in time, and all.
    pub(crate) seen: f64,
    pub(crate) rows: f64,
    /// What was taken has been sent on, with these for N̂.
    pub(crate) closed: Option<Share>,
    /// By value: how far those of rows taken in time lie from what is usual in their group.
    pub(crate) in_time: Vec<Moments>,
    /// Its delays are part of what is known.
    pub(crate) is_learnt: bool,
}

/// One group in a sub-stream.
#[derive(Clone, Debug, Default)]
pub(crate) struct Cell {
    pub(crate) seen: u32,
    pub(crate) taken: u32,
    /// A row is taken if its dice show less; `u32::MAX` takes all.
    pub(crate) below: u32,
    /// By value.
    pub(crate) values: Vec<Moments>,
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

impl Share {
    pub(crate) const ALL: Share = Share { in_time: 1.0, doubt: 0.0, is_broken: false };

    /// N̂ of so many rows.
    pub(crate) fn total(&self, seen: f64) -> f64 {
        seen / self.in_time
    }
}

impl Cell {
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
        let cell = Cell { seen: 300, taken: 30, below: 1 << 28, values: vec![] };
        let share = Share { in_time: 0.75, doubt: 0.01, is_broken: false };
        let stratum = cell.stratum(7, share, (0.0, 0.0));
        assert_eq!((stratum.total, stratum.missing(), stratum.total_common), (400.0, 100.0, 4.0));
        // 300 · 0.25 / 0.5625.
        assert!((stratum.total_variance - 133.333).abs() < 1e-3);
        assert_eq!(cell.stratum(7, Share { is_broken: true, ..share }, (0.0, 0.0)).total_common, 104.0);
        assert_eq!(cell.stratum(7, Share::ALL, (0.0, 0.0)).total_variance, 0.0);
    }
}
