//! Windows of which only row counts are kept: which are open, what a watermark closes, and who is late for all.

use std::collections::VecDeque;

use laxity_graph::{EventTime, ProcessingTime, WindowEnds, WindowShape};

/// The windows of one instance that have rows and are not closed.
#[derive(Debug, Default)]
pub(crate) struct Windows {
    /// By end.
    open: VecDeque<Open>,
    /// Rows held, each once, although sliding windows share them.
    held_rows: u64,
    /// Rows that are held no more.
    closed_rows: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Open {
    pub end: EventTime,
    pub rows: u64,
    /// The largest t_M of its rows.
    pub last_ingested: ProcessingTime,
    /// Rows of which this is the last window.
    last_of: u64,
}

impl Windows {
    /// Rows of one event time. False if all their windows are closed for them: they are late.
    ///
    /// Flink's rule, judged by the watermark before the row as its source saw it, so that what is late does not
    /// depend on who ran first: a row misses windows with end − 1 ≤ that watermark. No window that it does not
    /// miss has been closed, because the watermark of an instance is never ahead of that of a source above.
    pub fn add(
        &mut self,
        shape: WindowShape,
        event_time: EventTime,
        before: EventTime,
        rows: u64,
        ingested: ProcessingTime,
    ) -> bool {
        let slide_ms = shape.slide_ms.max(1);
        let mut end_ms = Windows::last_end(shape, event_time).0;
        let mut last_of = rows;
        // From the last window that holds the event to the first.
        while end_ms > event_time.0 && end_ms - 1 > before.0 {
            let open = self.at(EventTime(end_ms));
            open.rows += rows;
            open.last_ingested = open.last_ingested.max(ingested);
            open.last_of += last_of;
            self.held_rows += last_of;
            last_of = 0;
            end_ms -= slide_ms;
        }
        last_of == 0
    }

    /// The end of the last window that holds an event time.
    pub fn last_end(shape: WindowShape, event_time: EventTime) -> EventTime {
        // Where nobody is told when they end, one starts at 0.
        let one_end_ms = shape.end_ms.unwrap_or(shape.size_ms);
        let ends = WindowEnds::new(shape.slide_ms.max(1), one_end_ms).expect("a distance");
        ends.passed(EventTime(event_time.0.saturating_add(shape.size_ms.max(1) - 1)))
    }

    /// The first window that the watermark closes.
    pub fn closed(&self, watermark: EventTime) -> Option<Open> {
        self.open.front().copied().filter(|open| open.end.0 - 1 <= watermark.0)
    }

    /// Forgets the first window.
    pub fn pop(&mut self) {
        if let Some(open) = self.open.pop_front() {
            self.held_rows -= open.last_of;
            self.closed_rows += open.last_of;
        }
    }

    pub fn held_rows(&self) -> u64 {
        self.held_rows
    }

    pub fn closed_rows(&self) -> u64 {
        self.closed_rows
    }

    fn at(&mut self, end: EventTime) -> &mut Open {
        let mut place = self.open.len();
        while place > 0 && self.open[place - 1].end >= end {
            place -= 1;
        }
        if self.open.get(place).is_none_or(|open| open.end != end) {
            let open = Open { end, rows: 0, last_ingested: ProcessingTime::ZERO, last_of: 0 };
            self.open.insert(place, open);
        }
        &mut self.open[place]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TUMBLING: WindowShape = WindowShape { size_ms: 10, slide_ms: 10, end_ms: Some(0) };
    const SLIDING: WindowShape = WindowShape { size_ms: 10, slide_ms: 4, end_ms: Some(10) };

    fn at(ns: u64) -> ProcessingTime {
        ProcessingTime(ns)
    }

    fn drain(windows: &mut Windows, watermark: i64) -> Vec<(i64, u64, u64)> {
        let mut fired = Vec::new();
        while let Some(open) = windows.closed(EventTime(watermark)) {
            fired.push((open.end.0, open.rows, open.last_ingested.0));
            windows.pop();
        }
        fired
    }

    #[test]
    fn tumbling_windows_close_at_end_less_one() {
        let mut windows = Windows::default();
        for (event, ingested) in [(3, 30), (12, 20), (9, 10)] {
            assert!(windows.add(TUMBLING, EventTime(event), EventTime::MIN, 5, at(ingested)));
        }
        assert_eq!(windows.held_rows(), 15);
        assert_eq!(drain(&mut windows, 8), []);
        assert_eq!(drain(&mut windows, 9), [(10, 10, 30)]);
        assert_eq!(windows.held_rows(), 5);
        assert!(!windows.add(TUMBLING, EventTime(7), EventTime(9), 1, at(50)), "late");
        assert_eq!(drain(&mut windows, i64::MAX), [(20, 5, 20)]);
        assert_eq!(windows.held_rows(), 0);
    }

    #[test]
    fn a_row_is_in_every_window_that_slides_over_it() {
        let mut windows = Windows::default();
        // Windows that hold 9: [0, 10), [4, 14), [8, 18).
        assert!(windows.add(SLIDING, EventTime(9), EventTime::MIN, 2, at(1)));
        assert_eq!(windows.held_rows(), 2);
        assert_eq!(drain(&mut windows, 9), [(10, 2, 1)]);
        assert_eq!(windows.held_rows(), 2, "the later windows still hold it");
        // 9 again, with the watermark at 9: the first window is missed, the others not.
        assert!(windows.add(SLIDING, EventTime(9), EventTime(9), 1, at(2)));
        assert_eq!(drain(&mut windows, 30), [(14, 3, 2), (18, 3, 2)]);
        assert_eq!(windows.held_rows(), 0);
    }
}
