//! The only reader of the machine's clocks.
#![allow(clippy::disallowed_methods)]

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use laxity_graph::ProcessingTime;

/// Monotonic time since the engine was made, and the wall-clock time it was made at.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    start: Instant,
    unix_start_ms: i64,
}

impl Clock {
    /// A clock that reads zero now.
    pub fn start() -> Clock {
        let unix = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Clock { start: Instant::now(), unix_start_ms: i64::try_from(unix.as_millis()).unwrap_or(i64::MAX) }
    }

    /// Now.
    pub fn now(&self) -> ProcessingTime {
        laxity_runtime::Clock::now(self)
    }

    /// Unix milliseconds at processing time zero: where PROCTIME() columns have their origin.
    pub fn unix_start_ms(&self) -> i64 {
        self.unix_start_ms
    }

    /// The `Instant` of a processing time, for waits with a deadline.
    pub(crate) fn instant(&self, at: ProcessingTime) -> Instant {
        // A wait of a day is as good as one without end, and cannot overflow.
        const LONGEST_WAIT: Duration = Duration::from_secs(86_400);
        self.start + Duration::from_nanos(at.0).min(self.start.elapsed() + LONGEST_WAIT)
    }
}

/// CPU time that this thread has had, ns: what it did, whatever ran on its core meanwhile.
pub(crate) fn thread_cpu_ns() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

impl laxity_runtime::Clock for Clock {
    #[inline]
    fn now(&self) -> ProcessingTime {
        ProcessingTime(self.start.elapsed().as_nanos() as u64)
    }
}
