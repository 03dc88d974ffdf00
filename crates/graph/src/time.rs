//! The two times that must never be mixed, of the event and of its handling, and the one clock that leads from one to
//! the other.

use std::fmt;
use std::time::Duration;

use crate::WindowEnds;

/// When something happened, in milliseconds since the Unix epoch: Flink's `TIMESTAMP(3)`.
///
/// `MIN` is "no progress yet", `MAX` is "nothing more will come".
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EventTime(pub i64);

impl EventTime {
    /// Before every event.
    pub const MIN: EventTime = EventTime(i64::MIN);
    /// After every event: the watermark of an ended input.
    pub const MAX: EventTime = EventTime(i64::MAX);
}

impl fmt::Display for EventTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            EventTime::MIN => f.write_str("-inf"),
            EventTime::MAX => f.write_str("+inf"),
            EventTime(ms) => write!(f, "{ms} ms"),
        }
    }
}

/// When we handle something: nanoseconds since the driver (engine, simulator) started.
///
/// A plain number, because the pure crates take time as an argument and never read a clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct ProcessingTime(pub u64);

impl ProcessingTime {
    /// The driver's start.
    pub const ZERO: ProcessingTime = ProcessingTime(0);
    /// Never.
    pub const MAX: ProcessingTime = ProcessingTime(u64::MAX);

    /// Nanoseconds since `earlier`; 0 if `earlier` is later.
    pub fn since_ns(self, earlier: ProcessingTime) -> u64 {
        self.0.saturating_sub(earlier.0)
    }

    /// This instant `ns` nanoseconds later, saturating.
    #[must_use]
    pub fn plus_ns(self, ns: u64) -> ProcessingTime {
        ProcessingTime(self.0.saturating_add(ns))
    }

    /// This instant `duration` later, saturating.
    #[must_use]
    pub fn plus(self, duration: Duration) -> ProcessingTime {
        self.plus_ns(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX))
    }
}

/// Size and slide of a window in event time, as the scheduler needs them (Cameo's TRANSFORM).
///
/// Tumbling: `slide_ms == size_ms`. Session: both are the gap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WindowShape {
    /// Length of a window.
    pub size_ms: i64,
    /// Distance between the starts of two successive windows.
    pub slide_ms: i64,
    /// When one of them ends: 0 for windows without an offset. `None` of sessions: nobody can tell from the time alone when
    /// these close.
    pub end_ms: Option<i64>,
}

impl WindowShape {
    /// When windows end, where time alone tells.
    pub fn ends(self) -> Option<WindowEnds> {
        WindowEnds::new(self.slide_ms, self.end_ms?)
    }
}

/// Where a source places event times on the processing-time line: the instant at which an event of time
/// `event_origin` is due. Gives event-time latency (Klink §6.1.2) under replay at any speed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct EventClock {
    /// An event time …
    pub event_origin: EventTime,
    /// … and the instant at which it is due.
    pub processing_origin: ProcessingTime,
    /// Event-time milliseconds that pass in one millisecond of processing time.
    pub speed: f64,
}

impl EventClock {
    /// The instant at which `event` is due; the driver's start for everything before it.
    pub fn due(&self, event: EventTime) -> ProcessingTime {
        let ahead_ms = (event.0 as f64 - self.event_origin.0 as f64) / self.speed;
        let due_ns = self.processing_origin.0 as f64 + ahead_ms * 1e6;
        ProcessingTime(due_ns.max(0.0) as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn event_clock_scales_by_speed() {
        let clock = EventClock {
            event_origin: EventTime(1_000),
            processing_origin: ProcessingTime(5_000_000),
            speed: 10.0,
        };
        // 100 ms of event time pass in 10 ms of processing time.
        assert_eq!(clock.due(EventTime(1_100)), ProcessingTime(15_000_000));
        assert_eq!(clock.due(EventTime(-1_000_000_000)), ProcessingTime::ZERO);
    }

    #[test]
    fn processing_time_saturates() {
        assert_eq!(ProcessingTime(3).since_ns(ProcessingTime(5)), 0);
        assert_eq!(ProcessingTime::MAX.plus_ns(1), ProcessingTime::MAX);
        assert_eq!(ProcessingTime(1).plus(Duration::from_micros(2)), ProcessingTime(2_001));
    }
}
