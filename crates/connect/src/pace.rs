use std::time::Duration;

use laxity_graph::ProcessingTime;

/// Rounds due instants to ticks, so that a fast source makes batches of rows and not one batch a row.
///
/// A row is released at the first tick at or after it is due: it waits for one tick at most, and that wait
/// counts as latency, because its arrival stays the instant at which it was due.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    pub start: ProcessingTime,
    pub tick: Duration,
}

/// A thousandth of a second is a tenth of the tightest targets we aim at, and the engine's quantum.
pub(crate) const TICK_DEFAULT: Duration = Duration::from_millis(1);

impl Pace {
    /// Rows due by the answer are released at `now`; `None` before the start.
    pub(crate) fn released(&self, now: ProcessingTime) -> Option<ProcessingTime> {
        let since_ns = now.0.checked_sub(self.start.0)?;
        let tick_ns = self.tick_ns();
        Some(self.start.plus_ns(since_ns / tick_ns * tick_ns))
    }

    /// When a row due at `due` is released.
    pub(crate) fn release(&self, due: ProcessingTime) -> ProcessingTime {
        let tick_ns = self.tick_ns();
        self.start.plus_ns(due.since_ns(self.start).div_ceil(tick_ns).saturating_mul(tick_ns))
    }

    fn tick_ns(&self) -> u64 {
        u64::try_from(self.tick.as_nanos()).unwrap_or(u64::MAX).max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_released_at_the_next_tick() {
        let pace = Pace { start: ProcessingTime(500), tick: Duration::from_nanos(100) };
        assert_eq!(pace.released(ProcessingTime(499)), None);
        assert_eq!(pace.released(ProcessingTime(500)), Some(ProcessingTime(500)));
        assert_eq!(pace.released(ProcessingTime(699)), Some(ProcessingTime(600)));
        assert_eq!(pace.release(ProcessingTime(500)), ProcessingTime(500));
        assert_eq!(pace.release(ProcessingTime(601)), ProcessingTime(700));
        assert_eq!(pace.release(ProcessingTime(20)), ProcessingTime(500));
    }
}
