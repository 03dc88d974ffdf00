//! How often a table is looked at: too seldom makes rows late, too often costs more than the rows.

use laxity_graph::ProcessingTime;

/// How far apart looks at a table are, at least: a share of the nearest target that reads it.
///
/// With time to spare a twentieth, so that a row is seen soon after it is due. As workers have less of it, up to a quarter:
/// what a look costs is then shared by five times as many rows, and most of the target is still left for them. In
/// between in proportion, so that a load does not swing about one number.
///
/// Where all who read it wait for a window's end, a row in its midst is nobody's business: half of the time to the end is
/// slept through. What has gathered by then has as long again until it is due, so that no look brings more work than there
/// is time for, and the last one before the end is twice as far from it as looks are apart at most, or one or two rows.
/// A window ends with the first row behind it. Where rows come as evenly as the last two, that is known, too.
#[derive(Clone, Copy, Debug)]
pub(super) struct Spacing {
    target_ns: u64,
    ns_max: u64,
}

/// Of the target, at rest.
const SHARE_MIN: f64 = 0.05;
/// Of the target, where no time is left.
const SHARE_MAX: f64 = 0.25;
/// Up to this load there is time to spare.
const LOAD_LOW: f64 = 0.5;
/// From this load on there is none.
const LOAD_HIGH: f64 = 0.9;
/// No table rests longer than this: by then a fast one has more rows than fit a batch, and a person who looks at the live
/// table sees it move.
const NS_MAX: u64 = 100_000_000;
/// Nor one of few rows of which nobody waits for any: so often the live table is drawn.
const FEW_NS_MAX: u64 = 500_000_000;
/// They are few where so many take longer: a batch of the usual size.
const MANY_ROWS: u64 = 1_024;
/// Less work than a look at them.
const LAST_ROWS: u64 = 2;

/// What is known of a table's rows when there is none to be had.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ahead {
    /// When the last came.
    pub last_row: ProcessingTime,
    /// When the next comes.
    pub next_row: ProcessingTime,
    /// How many came since there was none before, and how long that was, ns; `None` at first.
    pub came: Option<(u64, u64)>,
    /// From when on a row ends the window that all wait for.
    pub window_end: Option<ProcessingTime>,
}

impl Spacing {
    /// Whatever the target is.
    pub const NONE: Spacing = Spacing { target_ns: 0, ns_max: 0 };

    /// For another target.
    pub fn with_target(self, target_ns: u64) -> Spacing {
        Spacing { target_ns, ..self }
    }

    /// Also for this target.
    pub fn with_nearer_target(self, target_ns: u64) -> Spacing {
        self.with_target(self.target_ns.min(target_ns))
    }

    /// Of the nearest that reads the table.
    pub fn target_ns(self) -> u64 {
        self.target_ns
    }

    /// The distance at this load, 0 to 1.
    pub fn ns(self, load: f64) -> u64 {
        let pressed = ((load - LOAD_LOW) / (LOAD_HIGH - LOAD_LOW)).clamp(0.0, 1.0);
        let share = SHARE_MIN + (SHARE_MAX - SHARE_MIN) * pressed;
        ((self.target_ns as f64 * share) as u64).min(self.ns_max)
    }

    /// When to look again at a table.
    pub fn next_look(self, load: f64, now: ProcessingTime, ahead: Ahead) -> ProcessingTime {
        let apart_ns = self.ns(load);
        // Looks that are as far apart as they may be have nothing to gain, and would all meet at the end.
        let at = match ahead.window_end.filter(|_| apart_ns < self.ns_max) {
            None => now.plus_ns(apart_ns),
            // The row that ends the window, at once.
            Some(end) if ahead.next_row >= end => return ahead.next_row,
            Some(end) => {
                let left_ns = end.since_ns(now);
                if left_ns <= ahead.time_of_rows_ns(LAST_ROWS).max(2 * apart_ns) {
                    ahead.row_behind(end, apart_ns).min(now.plus_ns(FEW_NS_MAX))
                } else {
                    let rest_ns = ahead.time_of_rows_ns(MANY_ROWS).clamp(self.ns_max, FEW_NS_MAX);
                    now.plus_ns((left_ns / 2).min(rest_ns))
                }
            }
        };
        at.max(ahead.next_row)
    }
}

impl Ahead {
    /// How long so many rows take to come, ns. No time of a table of which nothing is known: it may be a fast one.
    fn time_of_rows_ns(self, rows: u64) -> u64 {
        self.came.map_or(0, |(came, ns)| ns.saturating_mul(rows) / came.max(1))
    }

    /// When the first row comes behind that time, if it is as regular as the last two; no later than `late_ns` behind it.
    fn row_behind(self, time: ProcessingTime, late_ns: u64) -> ProcessingTime {
        let apart_ns = self.next_row.since_ns(self.last_row).max(1);
        let behind_ns = time.since_ns(self.next_row).div_ceil(apart_ns).saturating_mul(apart_ns);
        self.next_row.plus_ns(behind_ns).min(time.plus_ns(late_ns))
    }
}

impl Default for Spacing {
    fn default() -> Spacing {
        Spacing { target_ns: 0, ns_max: NS_MAX }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_are_further_apart_under_load_and_for_far_targets() {
        let near = Spacing::default().with_target(40_000_000);
        assert_eq!(
            [0.0, 0.5, 0.7, 0.9, 1.0].map(|load| near.ns(load).div_ceil(1_000_000)),
            [2, 2, 6, 10, 10]
        );
        assert_eq!(Spacing::default().with_target(60_000_000_000).ns(0.0), NS_MAX);
    }

    const fn at(ms: u64) -> ProcessingTime {
        ProcessingTime(ms * 1_000_000)
    }

    /// Of a window that ends at 400 ms, with so many rows in 400 ms.
    fn looks(spacing: Spacing, window_end: Option<ProcessingTime>, rows: u64) -> Vec<u64> {
        let apart_ns = at(400).0 / rows;
        let row_before = |time: ProcessingTime| ProcessingTime(time.0 / apart_ns * apart_ns);
        let mut looks = vec![at(0)];
        while let Some(&last) = looks.last().filter(|&&last| last < at(400)) {
            let last_row = row_before(last);
            let next_row = last_row.plus_ns(apart_ns);
            let ahead = Ahead { last_row, next_row, came: Some((rows, at(400).0)), window_end };
            looks.push(spacing.next_look(1.0, last, ahead));
        }
        looks.iter().map(|look| look.0 / 1_000_000).collect()
    }

    #[test]
    fn half_of_the_time_to_a_window_s_end_is_slept_through() {
        let near = Spacing::default().with_target(40_000_000);
        assert_eq!(looks(near, Some(at(400)), 40_000), [0, 100, 200, 300, 350, 375, 387, 400]);
        assert_eq!(looks(near, None, 400)[..4], [0, 10, 20, 30]);
        assert_eq!(
            looks(Spacing::NONE, Some(at(400)), 400)[..4],
            [0, 1, 2, 3],
            "each row, where looks cost nothing"
        );
        let far = Spacing::default().with_target(10_000_000_000);
        assert_eq!(looks(far, Some(at(400)), 400), [0, 100, 200, 300, 400]);
    }

    #[test]
    fn few_rows_are_not_looked_for_one_by_one() {
        let near = Spacing::default().with_target(40_000_000);
        assert_eq!(looks(near, Some(at(400)), 400), [0, 200, 300, 350, 375, 387, 400]);
        assert_eq!(looks(near, Some(at(400)), 2_048), [0, 200, 300, 350, 375, 387, 400]);
        assert_eq!(looks(near, Some(at(400)), 3_000), [0, 136, 268, 334, 367, 383, 400]);
        assert_eq!(
            looks(near, Some(at(400)), 16),
            [0, 200, 300, 350, 400],
            "two rows are taken with the one behind"
        );
        assert_eq!(looks(near, Some(at(400)), 2), [0, 400]);
        let ahead = Ahead { last_row: at(0), next_row: at(60), came: Some((1, at(60).0)), window_end: None };
        let row_behind = |end: u64| ahead.row_behind(at(end), at(10).0);
        assert_eq!([row_behind(115), row_behind(120)], [at(120), at(120)], "the row that ends it");
        assert_eq!([row_behind(121), row_behind(59)], [at(131), at(60)], "or soon after it may have come");
        let far = Ahead { window_end: Some(at(5_000)), ..ahead };
        assert_eq!(near.next_look(1.0, at(0), far), at(500), "a person sees it move");
        assert_eq!(near.next_look(1.0, at(0), Ahead { came: None, ..far }), at(100), "it may be fast");
    }
}
