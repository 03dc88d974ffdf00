//! Which stretch of event time a row is aggregated into, and which stretches a window is merged of; saturates at both
//! ends of time.

use laxity_graph::common_divisor;

use crate::WindowKind;

/// Cuts event time into slices such that each window is a run of whole slices: rows are aggregated once per
/// slice, and windows that overlap share that work.
///
/// Tumbling: a slice is a window. Hopping: gcd(size, slide). Cumulating: the step. After "panes" of Li et al.,
/// "No Pane, No Gain" (SIGMOD Record 2005), section 3.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Slicing {
    slice_ms: i64,
    /// In `[0, slice_ms)`.
    offset_ms: i64,
    kind: WindowKind,
}

impl Slicing {
    /// `None` for sessions, which data cuts and not time.
    pub(crate) fn new(kind: WindowKind) -> Option<Slicing> {
        let (slice_ms, offset_ms) = match kind {
            WindowKind::Tumble { size_ms, offset_ms } => (size_ms, offset_ms),
            WindowKind::Hop { size_ms, slide_ms, offset_ms } => {
                (common_divisor(size_ms, slide_ms), offset_ms)
            }
            WindowKind::Cumulate { step_ms, offset_ms, .. } => (step_ms, offset_ms),
            WindowKind::Session { .. } => return None,
        };
        Some(Slicing { slice_ms, offset_ms: offset_ms.rem_euclid(slice_ms), kind })
    }

    /// How long a slice is.
    pub(crate) fn slice_ms(&self) -> i64 {
        self.slice_ms
    }

    /// Start and end of the slice of a row, saturating.
    pub(crate) fn slice(&self, time_ms: i64) -> (i64, i64) {
        // Both terms lie in [0, slice), so that their difference cannot overflow.
        let mut past = time_ms.rem_euclid(self.slice_ms) - self.offset_ms;
        if past < 0 {
            past += self.slice_ms;
        }
        // time + (slice - past), in two steps that cannot pass a representable end.
        (time_ms.saturating_sub(past), time_ms.saturating_add(self.slice_ms - past))
    }

    /// Position of a slice among all slices, for grouping neighbours.
    pub(crate) fn index(&self, slice_start: i64) -> i128 {
        (i128::from(slice_start) - i128::from(self.offset_ms)).div_euclid(i128::from(self.slice_ms))
    }

    /// Start of the slice of that index, saturating.
    pub(crate) fn start_of(&self, index: i128) -> i64 {
        clamp(index * i128::from(self.slice_ms) + i128::from(self.offset_ms))
    }

    /// End of the first window that holds the slice and ends after `after`.
    pub(crate) fn next_end(&self, slice_start: i64, after: i64) -> Option<i64> {
        let (start, after) = (i128::from(slice_start), i128::from(after));
        let end = match self.kind {
            WindowKind::Tumble { size_ms, offset_ms } => {
                let end = floor(start, size_ms, offset_ms) + i128::from(size_ms);
                (end > after).then_some(end)
            }
            WindowKind::Hop { size_ms, slide_ms, offset_ms } => {
                // Ends are aligned like starts, shifted by the size.
                let phase = i128::from(offset_ms) + i128::from(size_ms);
                let slide = i128::from(slide_ms);
                let past = after.max(start) - phase;
                let end = phase + (past.div_euclid(slide) + 1) * slide;
                (end - i128::from(size_ms) <= start).then_some(end)
            }
            WindowKind::Cumulate { max_ms, step_ms, offset_ms } => {
                let base = floor(start, max_ms, offset_ms);
                let step = i128::from(step_ms);
                let end = base + ((after.max(start) - base).div_euclid(step) + 1) * step;
                (end <= base + i128::from(max_ms)).then_some(end)
            }
            WindowKind::Session { .. } => None,
        };
        // An end beyond the time line saturates, and is passed once only.
        end.map(clamp).filter(|&end| i128::from(end) > after)
    }

    /// End of the last window that holds the slice.
    pub(crate) fn last_end(&self, slice_start: i64) -> Option<i64> {
        let start = i128::from(slice_start);
        match self.kind {
            WindowKind::Tumble { size_ms, offset_ms } => {
                Some(clamp(floor(start, size_ms, offset_ms) + i128::from(size_ms)))
            }
            WindowKind::Hop { size_ms, slide_ms, offset_ms } => {
                let end = floor(start, slide_ms, offset_ms) + i128::from(size_ms);
                (end > start).then(|| clamp(end))
            }
            WindowKind::Cumulate { max_ms, offset_ms, .. } => {
                Some(clamp(floor(start, max_ms, offset_ms) + i128::from(max_ms)))
            }
            WindowKind::Session { .. } => None,
        }
    }

    /// Start of the window that ends at `end`.
    pub(crate) fn window_start(&self, end: i64) -> i64 {
        let end = i128::from(end);
        clamp(match self.kind {
            WindowKind::Tumble { size_ms, .. } | WindowKind::Hop { size_ms, .. } => end - i128::from(size_ms),
            WindowKind::Cumulate { max_ms, offset_ms, .. } => floor(end - 1, max_ms, offset_ms),
            WindowKind::Session { gap_ms } => end - i128::from(gap_ms),
        })
    }
}

/// The latest boundary `offset + k·step` at or before `time`.
fn floor(time: i128, step_ms: i64, offset_ms: i64) -> i128 {
    time - (time - i128::from(offset_ms)).rem_euclid(i128::from(step_ms))
}

fn clamp(time: i128) -> i64 {
    time.clamp(i128::from(i64::MIN), i128::from(i64::MAX)) as i64
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_hop_is_sliced_by_the_common_divisor() {
        let slicing = Slicing::new(WindowKind::Hop { size_ms: 10, slide_ms: 4, offset_ms: 1 }).unwrap();
        assert_eq!(slicing.slice(0), (-1, 1));
        assert_eq!(slicing.slice(1), (1, 3));
        // Windows start at …, -7, -3, 1, 5 …; those that hold [1, 3) end at 3, 7, 11.
        assert_eq!(slicing.next_end(1, i64::MIN), Some(3));
        assert_eq!(slicing.next_end(1, 3), Some(7));
        assert_eq!(slicing.next_end(1, 8), Some(11));
        assert_eq!(slicing.next_end(1, 11), None);
        assert_eq!(slicing.last_end(1), Some(11));
        assert_eq!(slicing.window_start(11), 1);
    }

    #[test]
    fn a_row_between_hops_is_in_no_window() {
        let slicing = Slicing::new(WindowKind::Hop { size_ms: 2, slide_ms: 4, offset_ms: 0 }).unwrap();
        assert_eq!(slicing.last_end(0), Some(2));
        assert_eq!(slicing.last_end(2), None);
        assert_eq!(slicing.next_end(2, i64::MIN), None);
    }

    #[test]
    fn extremes_saturate_and_end() {
        for kind in [
            WindowKind::Tumble { size_ms: 1 << 40, offset_ms: i64::MIN },
            WindowKind::Hop { size_ms: 1 << 40, slide_ms: 1 << 38, offset_ms: 7 },
            WindowKind::Cumulate { max_ms: 1 << 40, step_ms: 1 << 38, offset_ms: i64::MAX },
        ] {
            let slicing = Slicing::new(kind).unwrap();
            for time in [i64::MIN, i64::MIN + 1, i64::MAX - 1, i64::MAX] {
                let (start, _) = slicing.slice(time);
                let mut after = i64::MIN;
                let mut count = 0;
                while let Some(end) = slicing.next_end(start, after) {
                    assert!(end > after);
                    (after, count) = (end, count + 1);
                }
                assert!(count <= 4, "{kind:?} {time}: {count}");
            }
        }
    }

    proptest! {
        #[test]
        fn slices_lie_in_just_the_windows_of_their_rows(
            time in -300i64..300, a in 1i64..20, b in 1i64..20, offset in -50i64..50,
        ) {
            for kind in [
                WindowKind::Tumble { size_ms: a, offset_ms: offset },
                WindowKind::Hop { size_ms: a, slide_ms: b, offset_ms: offset },
                WindowKind::Cumulate { max_ms: a * b, step_ms: a, offset_ms: offset },
            ] {
                let slicing = Slicing::new(kind).unwrap();
                let (start, end) = slicing.slice(time);
                prop_assert!(start <= time && time < end);
                prop_assert_eq!(slicing.start_of(slicing.index(start)), start);
                let mut windows = Vec::new();
                let mut after = i64::MIN;
                while let Some(end) = slicing.next_end(start, after) {
                    windows.push((slicing.window_start(end), end));
                    after = end;
                }
                prop_assert_eq!(slicing.last_end(start), windows.last().map(|w| w.1));
                prop_assert_eq!(windows, kind.assign(time).collect::<Vec<_>>());
            }
        }
    }
}
