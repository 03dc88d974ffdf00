/// CPU time that a grant takes beside the work itself: Aurora's box call overhead o.
///
/// What lies between the start of one grant and that of the next of the same worker, less the work. Two decayed
/// means, of grants that stay with the operator and of those that change it, so that plans know what a change
/// costs. A sample far above the mean is a worker that slept or was preempted, and counts as little.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CallCost {
    /// Of a grant to another operator than the last.
    pub change_ns: f64,
    /// Of a grant to the same operator again.
    pub stay_ns: f64,
}

/// Before the first sample: the order of two clock reads and two calls of the core. Picked.
const PRIOR_NS: f64 = 500.0;

/// Weight of a sample: a memory of about 64 grants, short beside a change of load. Picked.
const SHARE: f64 = 1.0 / 64.0;

/// A sample counts as at most so many times the mean: enough to follow a change by 2 within some dozen grants.
const CLIP: f64 = 4.0;

impl Default for CallCost {
    fn default() -> CallCost {
        CallCost { change_ns: PRIOR_NS, stay_ns: PRIOR_NS }
    }
}

impl CallCost {
    /// A grant took so long beside its work.
    pub fn observe(&mut self, changed: bool, overhead_ns: u64) {
        let mean = if changed { &mut self.change_ns } else { &mut self.stay_ns };
        // A nanosecond at least, so that a mean of 0 can rise again.
        let sample = (overhead_ns as f64).min(CLIP * mean.max(1.0));
        *mean += SHARE * (sample - *mean);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn means_are_found_apart_and_outliers_hardly_count() {
        let mut call = CallCost::default();
        for round in 0..2_000u32 {
            call.observe(true, if round % 50 == 7 { 3_000_000 } else { 2_000 });
            call.observe(false, 100);
        }
        assert!((2_000.0..2_300.0).contains(&call.change_ns), "{call:?}");
        assert!((99.0..101.0).contains(&call.stay_ns), "{call:?}");
    }

    #[test]
    fn nothing_measured_as_0_stays_0() {
        let mut call = CallCost::default();
        (0..5_000).for_each(|_| call.observe(true, 0));
        assert!(call.change_ns < 1e-3);
        (0..5_000).for_each(|_| call.observe(true, 900));
        assert!((call.change_ns - 900.0).abs() < 1.0, "{call:?}");
    }
}
