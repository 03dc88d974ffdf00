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
/// is time for, and the last one before the end is twice as far from it as looks are apart at most.
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

    /// When to look again at a table whose next row is due at `next_row`, if nobody waits for rows before `window_end`.
    pub fn next_look(
        self,
        load: f64,
        now: ProcessingTime,
        next_row: ProcessingTime,
        window_end: Option<ProcessingTime>,
    ) -> ProcessingTime {
        let apart_ns = self.ns(load);
        // Looks that are as far apart as they may be have nothing to gain, and would all meet at the end.
        let at = match window_end.filter(|_| apart_ns < self.ns_max) {
            None => now.plus_ns(apart_ns),
            // The row that ends the window, at once.
            Some(end) if next_row >= end => return next_row,
            Some(end) => {
                let left_ns = end.since_ns(now);
                let slept_ns = if left_ns <= 2 * apart_ns { left_ns } else { (left_ns / 2).min(self.ns_max) };
                now.plus_ns(slept_ns)
            }
        };
        at.max(next_row)
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

    #[test]
    fn half_of_the_time_to_a_window_s_end_is_slept_through() {
        let at = |ms: u64| ProcessingTime(ms * 1_000_000);
        let looks = |spacing: Spacing, end: Option<ProcessingTime>| {
            let mut looks = vec![at(0)];
            while let Some(&last) = looks.last().filter(|&&last| last <= at(400)) {
                // A row a millisecond, but none in the last five of the window.
                let next_row = if last >= at(395) { at(403) } else { last.plus_ns(1_000_000) };
                looks.push(spacing.next_look(1.0, last, next_row, end));
            }
            looks.iter().map(|look| look.0 / 1_000_000).collect::<Vec<_>>()
        };
        let near = Spacing::default().with_target(40_000_000);
        assert_eq!(looks(near, Some(at(400))), [0, 100, 200, 300, 350, 375, 387, 400, 403]);
        assert_eq!(looks(near, None)[..4], [0, 10, 20, 30]);
        assert_eq!(
            looks(Spacing::NONE, Some(at(400)))[..4],
            [0, 1, 2, 3],
            "each row, where looks cost nothing"
        );
        let far = Spacing::default().with_target(10_000_000_000);
        assert_eq!(looks(far, Some(at(399))), [0, 100, 200, 300, 400, 500]);
        assert_eq!(near.next_look(0.0, at(7), at(8), Some(at(5))), at(8), "that row ends it");
    }
}
