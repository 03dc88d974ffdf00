//! Which windows hold an instant, as arithmetic alone; slices are tested against it, and the scheduler is told of
//! windows from here.

use laxity_graph::WindowShape;

/// How event time is cut into windows: Flink's windowing table functions.
///
/// A window is `[start, end)` in milliseconds. Lengths and steps are positive; SQL checks that before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WindowKind {
    /// `TUMBLE(size[, offset])`: back to back.
    Tumble {
        /// Length.
        size_ms: i64,
        /// Shift of all boundaries.
        offset_ms: i64,
    },
    /// `HOP(slide, size[, offset])`: a window of `size` starts every `slide`.
    Hop {
        /// Length.
        size_ms: i64,
        /// Distance between starts.
        slide_ms: i64,
        /// Shift of all boundaries.
        offset_ms: i64,
    },
    /// `CUMULATE(step, max[, offset])`: windows that share a start and grow by `step` up to `max`.
    Cumulate {
        /// Length of the longest window.
        max_ms: i64,
        /// Growth from one window to the next.
        step_ms: i64,
        /// Shift of all boundaries.
        offset_ms: i64,
    },
    /// `SESSION(gap)`: rows of one key that follow each other within `gap`.
    Session {
        /// Silence that ends a session.
        gap_ms: i64,
    },
}

impl WindowKind {
    /// The windows `(start, end)` that hold a row of time `time_ms`, earliest end first.
    ///
    /// A session yields the row's own window before merging, `[time, time + gap)`. Boundaries saturate at the
    /// ends of the time line, so that no event time can overflow.
    pub fn assign(self, time_ms: i64) -> Windows {
        let (last_start, slide, length, growth, left) = match self {
            WindowKind::Tumble { size_ms, offset_ms } => {
                (floor(time_ms, size_ms, offset_ms), 0, size_ms, 0, 1)
            }
            WindowKind::Hop { size_ms, slide_ms, offset_ms } => {
                let last = floor(time_ms, slide_ms, offset_ms);
                // Starts last, last - slide, … while start + size > time. A slide above the size leaves gaps.
                let reach = size_ms - time_ms.saturating_sub(last);
                (last, slide_ms, size_ms, 0, if reach <= 0 { 0 } else { (reach - 1) / slide_ms + 1 })
            }
            WindowKind::Cumulate { max_ms, step_ms, offset_ms } => {
                let start = floor(time_ms, max_ms, offset_ms);
                let steps = time_ms.saturating_sub(start) / step_ms + 1;
                (start, 0, steps * step_ms, step_ms, max_ms / step_ms - steps + 1)
            }
            WindowKind::Session { gap_ms } => (time_ms, 0, gap_ms, 0, 1),
        };
        Windows { last_start, slide, length, growth, left }
    }

    /// Size, slide and ends, for the scheduler.
    pub fn shape(self) -> WindowShape {
        let (size_ms, slide_ms, end_ms) = match self {
            WindowKind::Tumble { size_ms, offset_ms } => (size_ms, size_ms, Some(offset_ms)),
            WindowKind::Hop { size_ms, slide_ms, offset_ms } => {
                (size_ms, slide_ms, offset_ms.checked_add(size_ms))
            }
            WindowKind::Cumulate { max_ms, step_ms, offset_ms } => (max_ms, step_ms, Some(offset_ms)),
            WindowKind::Session { gap_ms } => (gap_ms, gap_ms, None),
        };
        WindowShape { size_ms, slide_ms, end_ms }
    }
}

/// The windows of one row. Made by [`WindowKind::assign`].
#[derive(Clone, Debug)]
pub struct Windows {
    /// Start of the last window. Earlier starts are counted back from it, so that saturation keeps them apart
    /// from later ones.
    last_start: i64,
    slide: i64,
    length: i64,
    growth: i64,
    left: i64,
}

impl Iterator for Windows {
    type Item = (i64, i64);

    fn next(&mut self) -> Option<(i64, i64)> {
        if self.left <= 0 {
            return None;
        }
        self.left -= 1;
        let start = self.last_start.saturating_sub(self.left.saturating_mul(self.slide));
        let end = start.saturating_add(self.length);
        self.length += self.growth;
        Some((start, end))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = usize::try_from(self.left).unwrap_or(0);
        (left, Some(left))
    }
}

impl ExactSizeIterator for Windows {}

/// The latest boundary `offset + k·step` at or before `time`, saturating.
fn floor(time_ms: i64, step_ms: i64, offset_ms: i64) -> i64 {
    // Both remainders lie in [0, step), so that their difference cannot overflow.
    let past = (time_ms.rem_euclid(step_ms) - offset_ms.rem_euclid(step_ms)).rem_euclid(step_ms);
    time_ms.saturating_sub(past)
}

#[cfg(test)]
mod tests {
    use laxity_graph::EventTime;

    use super::*;

    #[test]
    fn sessions_alone_end_when_time_does_not_tell() {
        assert_eq!(WindowKind::Session { gap_ms: 10 }.shape().ends(), None);
    }

    use proptest::prelude::*;

    proptest! {
        /// The scheduler knows of each window of a row when it ends.
        #[test]
        fn windows_end_where_their_shape_says(kind in fixed(), time_ms in -1_000i64..1_000) {
            let ends = kind.shape().ends().unwrap();
            for (_, end_ms) in windows(kind, time_ms) {
                prop_assert_eq!(ends.passed(EventTime(end_ms - 1)), EventTime(end_ms));
            }
        }
    }

    fn fixed() -> impl Strategy<Value = WindowKind> {
        (1i64..12, 1i64..30, -20i64..20, 0..3).prop_map(|(slide_ms, factor, offset_ms, kind)| match kind {
            0 => WindowKind::Tumble { size_ms: slide_ms, offset_ms },
            1 => WindowKind::Hop { size_ms: factor, slide_ms, offset_ms },
            _ => WindowKind::Cumulate { max_ms: slide_ms * factor, step_ms: slide_ms, offset_ms },
        })
    }

    fn windows(kind: WindowKind, time_ms: i64) -> Vec<(i64, i64)> {
        kind.assign(time_ms).collect()
    }

    #[test]
    fn tumble_floors_towards_the_past() {
        let kind = WindowKind::Tumble { size_ms: 10, offset_ms: 0 };
        assert_eq!(windows(kind, 0), [(0, 10)]);
        assert_eq!(windows(kind, 9), [(0, 10)]);
        assert_eq!(windows(kind, 10), [(10, 20)]);
        assert_eq!(windows(kind, -1), [(-10, 0)]);
        assert_eq!(windows(WindowKind::Tumble { size_ms: 10, offset_ms: 3 }, 2), [(-7, 3)]);
        assert_eq!(windows(WindowKind::Tumble { size_ms: 10, offset_ms: -7 }, 2), [(-7, 3)]);
    }

    #[test]
    fn hop_lists_earliest_end_first() {
        let kind = WindowKind::Hop { size_ms: 10, slide_ms: 5, offset_ms: 0 };
        assert_eq!(windows(kind, 12), [(5, 15), (10, 20)]);
        assert_eq!(windows(kind, -12), [(-20, -10), (-15, -5)]);
        let gaps = WindowKind::Hop { size_ms: 3, slide_ms: 5, offset_ms: 0 };
        assert_eq!(windows(gaps, 2), [(0, 3)]);
        assert_eq!(windows(gaps, 3), []);
    }

    #[test]
    fn cumulate_grows_from_one_start() {
        let kind = WindowKind::Cumulate { max_ms: 30, step_ms: 10, offset_ms: 0 };
        assert_eq!(windows(kind, 5), [(0, 10), (0, 20), (0, 30)]);
        assert_eq!(windows(kind, 10), [(0, 20), (0, 30)]);
        assert_eq!(windows(kind, 29), [(0, 30)]);
        assert_eq!(windows(kind, -1), [(-30, 0)]);
    }

    #[test]
    fn extremes_saturate() {
        for time in [i64::MIN, i64::MIN + 1, -1, 0, i64::MAX - 1, i64::MAX] {
            for kind in [
                WindowKind::Tumble { size_ms: 1 << 40, offset_ms: i64::MIN },
                WindowKind::Hop { size_ms: 1 << 40, slide_ms: 1 << 38, offset_ms: 7 },
                WindowKind::Cumulate { max_ms: 1 << 40, step_ms: 1 << 38, offset_ms: i64::MAX },
                WindowKind::Session { gap_ms: i64::MAX },
            ] {
                assert!(windows(kind, time).iter().all(|(start, end)| start <= &time && end >= &time));
            }
        }
    }

    proptest! {
        #[test]
        fn assign_is_every_window_that_holds_the_row(
            time in -300i64..300, step in 1i64..20, factor in 1i64..6, offset in -50i64..50,
        ) {
            let size = step * factor;
            let hop = WindowKind::Hop { size_ms: size, slide_ms: step, offset_ms: offset };
            let starts = (-100i64..100).map(|k| k * step + offset);
            let expected: Vec<_> = starts.map(|s| (s, s + size)).filter(|(s, e)| *s <= time && time < *e).collect();
            prop_assume!(time.abs() + size + 50 < 100 * step);
            prop_assert_eq!(windows(hop, time), expected);

            let cumulate = WindowKind::Cumulate { max_ms: size, step_ms: step, offset_ms: offset };
            let mut expected = Vec::new();
            for k in -700i64..700 {
                let start = k * size + offset;
                let ends = (1..=factor).map(|i| start + i * step);
                expected.extend(ends.filter(|end| start <= time && time < *end).map(|end| (start, end)));
            }
            prop_assert_eq!(windows(cumulate, time), expected);
        }
    }
}
