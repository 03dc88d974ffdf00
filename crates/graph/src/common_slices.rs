//! The slices of time that windows of several lengths can be put together of.

/// Slices that lie whole in each window of several kinds or not at all, where each kind is made of slices of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CommonSlices {
    slice_ms: i64,
    longest_ms: i64,
}

/// A kind's own slices are of so many common ones at most: each costs it as much as some rows, and shorter ones hold fewer
/// rows that fall together.
const SLICES_MAX: i64 = 64;

impl CommonSlices {
    /// Of one kind.
    pub fn of(slice_ms: i64) -> CommonSlices {
        CommonSlices { slice_ms, longest_ms: slice_ms }
    }

    /// With one more; `None` where they would be too short.
    #[must_use]
    pub fn with(self, slice_ms: i64) -> Option<CommonSlices> {
        let common = CommonSlices {
            slice_ms: common_divisor(self.slice_ms, slice_ms),
            longest_ms: self.longest_ms.max(slice_ms),
        };
        (common.longest_ms / common.slice_ms <= SLICES_MAX).then_some(common)
    }

    /// How long they are.
    pub fn slice_ms(self) -> i64 {
        self.slice_ms
    }
}

/// The greatest common divisor of two that are not negative.
pub fn common_divisor(a: i64, b: i64) -> i64 {
    if b == 0 { a } else { common_divisor(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_are_the_common_divisor_while_they_are_not_too_short() {
        let minute = CommonSlices::of(60_000);
        assert_eq!(minute.with(5 * 60_000).map(CommonSlices::slice_ms), Some(60_000));
        assert_eq!(minute.with(90_000).map(CommonSlices::slice_ms), Some(30_000));
        // An hour in minutes is sixty, two in minutes are more than enough.
        assert!(minute.with(60 * 60_000).is_some());
        assert_eq!(minute.with(2 * 60 * 60_000), None);
        assert_eq!(minute.with(59_999), None);
    }
}
