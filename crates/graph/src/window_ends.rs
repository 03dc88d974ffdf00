//! When windows end, as far as event time alone tells.

use std::num::NonZeroI64;

use crate::{EventTime, common_divisor};

/// Event times at which windows end: one, and as many before and after it as there is time for, all equally far apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WindowEnds {
    /// More than nothing.
    every_ms: NonZeroI64,
    /// The first at 0 or later.
    first_ms: i64,
}

impl WindowEnds {
    /// One that ends then, and the others so far apart. `None` if that is no distance.
    pub fn new(every_ms: i64, end_ms: i64) -> Option<WindowEnds> {
        let distance = NonZeroI64::new(every_ms).filter(|every_ms| every_ms.get() > 0)?;
        Some(WindowEnds { every_ms: distance, first_ms: end_ms.rem_euclid(every_ms) })
    }

    /// How far apart they are.
    pub fn every_ms(self) -> i64 {
        self.every_ms.get()
    }

    /// The last that a watermark has passed: a window ends once the watermark is a millisecond before its end. The watermark
    /// itself at both ends of the time line.
    pub fn passed(self, watermark: EventTime) -> EventTime {
        if watermark == EventTime::MIN || watermark == EventTime::MAX {
            return watermark;
        }
        EventTime((watermark.0 + 1).saturating_sub(self.past_ms(watermark)))
    }

    /// The first that a watermark has not passed. `None` at the end of the time line.
    pub fn next(self, watermark: EventTime) -> Option<EventTime> {
        let left_ms = self.every_ms() - self.past_ms(watermark);
        watermark.0.checked_add(1)?.checked_add(left_ms).map(EventTime)
    }

    /// The fewest that hold all of these and of others.
    #[must_use]
    pub fn with(self, others: WindowEnds) -> WindowEnds {
        let apart_ms = (self.first_ms - others.first_ms).abs();
        let every_ms = common_divisor(common_divisor(self.every_ms(), others.every_ms()), apart_ms);
        WindowEnds::new(every_ms, self.first_ms).unwrap_or(self)
    }

    /// How far behind the last of them the watermark is.
    fn past_ms(self, watermark: EventTime) -> i64 {
        // Both remainders lie in [0, every), so that their difference cannot overflow.
        let at_ms = watermark.0.saturating_add(1).rem_euclid(self.every_ms());
        (at_ms - self.first_ms).rem_euclid(self.every_ms())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn ends(every_ms: i64, end_ms: i64) -> WindowEnds {
        WindowEnds::new(every_ms, end_ms).unwrap()
    }

    #[test]
    fn a_window_ends_a_millisecond_before_its_end() {
        let tumble = ends(1_000, 0);
        assert_eq!(tumble.passed(EventTime(998)), EventTime(0));
        assert_eq!(tumble.passed(EventTime(999)), EventTime(1_000));
        assert_eq!(tumble.next(EventTime(998)), Some(EventTime(1_000)));
        assert_eq!(tumble.next(EventTime(999)), Some(EventTime(2_000)));
        assert_eq!(tumble.passed(EventTime(-1_001)), EventTime(-1_000));
        let offset = ends(1_000, -1_750);
        assert_eq!(offset.passed(EventTime(248)), EventTime(-750));
        assert_eq!(offset.passed(EventTime(249)), EventTime(250));
        assert_eq!(offset.next(EventTime(249)), Some(EventTime(1_250)));
    }

    #[test]
    fn time_has_two_ends() {
        let tumble = ends(1_000, 7);
        for end in [EventTime::MIN, EventTime::MAX] {
            assert_eq!(tumble.passed(end), end);
        }
        assert!(tumble.next(EventTime::MIN).is_some());
        assert_eq!(tumble.next(EventTime::MAX), None);
        assert_eq!(tumble.next(EventTime(i64::MAX - 1)), None);
        assert_eq!(WindowEnds::new(0, 0), None);
        assert_eq!(WindowEnds::new(-5, 0), None);
    }

    proptest! {
        /// As counting them one by one.
        #[test]
        fn ends_are_those_on_the_way(every_ms in 1i64..40, end_ms in -100i64..100, watermark in -200i64..200) {
            let is_end = |at: &i64| (at - end_ms) % every_ms == 0;
            let literal = (-400..=watermark + 1).rev().find(is_end).map(EventTime);
            prop_assert_eq!(Some(ends(every_ms, end_ms).passed(EventTime(watermark))), literal);
            let literal = (watermark + 2..400).find(is_end).map(EventTime);
            prop_assert_eq!(ends(every_ms, end_ms).next(EventTime(watermark)), literal);
        }

        #[test]
        fn those_of_both_and_no_more_than_needed((a, b, c, d) in (1i64..30, 1i64..30, -60i64..60, -60i64..60)) {
            let common = ends(a, c).with(ends(b, d));
            prop_assert_eq!(common, ends(b, d).with(ends(a, c)));
            let holds = |every: i64| (0..200).all(|n| [c + n * a, d + n * b].iter().all(|at| (at - c) % every == 0));
            prop_assert!(holds(common.every_ms()));
            prop_assert!(!(common.every_ms() + 1..=30).any(holds), "{common:?}");
            prop_assert_eq!((c - common.first_ms) % common.every_ms(), 0);
        }
    }
}
