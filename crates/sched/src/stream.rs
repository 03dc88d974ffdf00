//! When the windows of a query end, by streams: forecasts and what was told by other nodes, put together.

use std::collections::VecDeque;

use laxity_graph::{EventTime, OperatorId, ProcessingTime, QueryId, WindowEnds};

use crate::{StreamReport, SwmEstimator, SwmForecast};

/// One source stream of a query that leads to windows, at one instant.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StreamSnapshot {
    /// The source.
    pub source: OperatorId,
    /// What it has reached.
    pub watermark: EventTime,
    /// The next window end that its watermark has to pass.
    pub end: EventTime,
    /// When the sweeping watermark of that window will be ingested; `None` while nothing is known.
    pub forecast: Option<SwmForecast>,
    /// When the forecast was made, where another node made it and told us ([`crate::StreamReport`]): how old it
    /// is. `None` where it is our own.
    pub told: Option<ProcessingTime>,
}

/// A sweeping watermark on its way: ingested by all streams of the query, not yet out of its sinks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sweeping {
    /// The window end it has passed.
    pub end: EventTime,
    /// When the last of the streams passed it: w, which is known now.
    pub ingested: ProcessingTime,
}

/// What is known of the windows of a query: when they end, and which of them are on their way out.
#[derive(Debug, Default)]
pub(crate) struct Windows {
    pub streams: Vec<Stream>,
    /// Oldest first; at most [`SWEEPING_MAX`].
    sweeping: VecDeque<Sweeping>,
    /// The last end that every stream has passed.
    released: Option<EventTime>,
    /// Something changed since the last snapshot.
    pub changed: bool,
}

/// When the watermark of a stream passes the end of a window, made once per watermark so that it can be asked for
/// at every message.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Expected {
    end: EventTime,
    /// One deviation before the mean: a frontier expected too late costs a deadline, one expected too early
    /// only costs order.
    early_ns: f64,
    ns_per_ms: f64,
}

impl Expected {
    /// When it is expected to pass `end`.
    pub fn at(&self, end: EventTime) -> ProcessingTime {
        let ahead_ms = end.0.saturating_sub(self.end.0) as f64;
        ProcessingTime((self.early_ns + self.ns_per_ms * ahead_ms).max(0.0) as u64)
    }
}

/// A source stream and the windows it feeds.
#[derive(Debug)]
pub(crate) struct Stream {
    pub source: OperatorId,
    /// Those of each kind of window, ascending.
    ends: Vec<WindowEnds>,
    /// How far apart those are that hold all of these.
    grain_ms: i64,
    watermark: EventTime,
    swm: SwmEstimator,
    /// What nodes above last said, by their source.
    told: Vec<StreamReport>,
}

/// Windows that close one after the other while a query is far behind: more are counted as one with the last.
const SWEEPING_MAX: usize = 32;

impl Windows {
    /// Windows that end then read this source.
    pub fn add(&mut self, source: OperatorId, ends: WindowEnds) {
        let place = self.streams.iter().position(|stream| stream.source == source).unwrap_or_else(|| {
            self.streams.push(Stream {
                source,
                ends: Vec::new(),
                grain_ms: 0,
                watermark: EventTime::MIN,
                swm: SwmEstimator::default(),
                told: Vec::new(),
            });
            self.streams.len() - 1
        });
        let stream = &mut self.streams[place];
        if let Err(place) = stream.ends.binary_search(&ends) {
            stream.ends.insert(place, ends);
            let all = stream.ends.iter().copied().reduce(WindowEnds::with);
            stream.grain_ms = all.map_or(0, WindowEnds::every_ms);
        }
        self.changed = true;
    }

    /// A source has reached `watermark`.
    pub fn on_watermark(&mut self, source: OperatorId, watermark: EventTime, ingested: ProcessingTime) {
        let Some(stream) = self.streams.iter_mut().find(|stream| stream.source == source) else { return };
        if watermark <= stream.watermark {
            return;
        }
        self.changed = true;
        stream.swm.observe(watermark, stream.ended(watermark), stream.grain_ms, ingested);
        stream.watermark = watermark;
        // A window of several streams is released by the least watermark (Klink §3.3).
        let ended = self.streams.iter().map(|stream| stream.ended(stream.watermark)).min();
        let Some(end) = ended.filter(|&end| end > EventTime::MIN && Some(end) > self.released) else {
            return;
        };
        let first = self.released.replace(end).is_none();
        // What ended before the first watermark came was never open here.
        if first {
            return;
        }
        let sweep = Sweeping { end, ingested };
        if self.sweeping.len() < SWEEPING_MAX {
            self.sweeping.push_back(sweep);
        } else if let Some(last) = self.sweeping.back_mut() {
            last.end = end;
        }
    }

    /// A node above says when the stream that comes in by `entry` is due. Something older changes nothing.
    pub fn on_report(&mut self, entry: OperatorId, report: StreamReport) {
        let Some(stream) = self.streams.iter_mut().find(|stream| stream.source == entry) else { return };
        match stream.told.iter_mut().find(|told| told.source == report.source) {
            Some(told) if told.at > report.at => return,
            Some(told) => *told = report,
            None => stream.told.push(report),
        }
        self.changed = true;
    }

    /// What nodes below should know: what we know ourselves, and where we were told, that.
    pub fn reports(&self, query: QueryId, now: ProcessingTime) -> impl Iterator<Item = StreamReport> {
        self.streams.iter().flat_map(move |stream| {
            let own = || {
                let StreamSnapshot { source, end, forecast, .. } = stream.snapshot();
                let ns_per_ms = stream.swm.ns_per_ms();
                Some(StreamReport { query, source, end, forecast: forecast?, ns_per_ms, at: now })
            };
            let own = if stream.told.is_empty() { own() } else { None };
            stream.told.iter().copied().chain(own)
        })
    }

    /// When the watermark of a source is expected to pass the next end of a window; `None` while unknown.
    pub fn expected(&self, source: OperatorId) -> Option<Expected> {
        let stream = self.streams.iter().find(|stream| stream.source == source)?;
        let StreamSnapshot { end, forecast, .. } = stream.snapshot();
        let forecast = forecast?;
        let early_ns = forecast.mean_ns - forecast.deviation_ns;
        Some(Expected { end, early_ns, ns_per_ms: stream.swm.ns_per_ms() })
    }

    /// The oldest sweeping watermark on its way.
    pub fn sweeping(&self) -> Option<Sweeping> {
        self.sweeping.front().copied()
    }

    /// All sinks have seen everything up to `watermark`.
    pub fn on_sunk(&mut self, watermark: EventTime) {
        while self.sweeping.front().is_some_and(|sweep| passes(watermark, sweep.end)) {
            self.sweeping.pop_front();
            self.changed = true;
        }
    }

    /// Nothing is on its way any more.
    pub fn on_empty(&mut self) {
        self.changed |= !self.sweeping.is_empty();
        self.sweeping.clear();
    }
}

impl Stream {
    pub fn snapshot(&self) -> StreamSnapshot {
        let end = self.next_end();
        let own = || self.swm.forecast(end);
        // Of several streams, the one that comes last sweeps.
        let told = self.told.iter().map(|report| (report.forecast(end), report.at));
        let told = told.max_by(|a, b| a.0.mean_ns.total_cmp(&b.0.mean_ns)).filter(|_| end > EventTime::MIN);
        let forecast = told.map(|(forecast, _)| forecast).or_else(own).filter(|_| end < EventTime::MAX);
        StreamSnapshot {
            source: self.source,
            watermark: self.watermark,
            end,
            forecast,
            told: told.map(|(_, at)| at),
        }
    }

    /// The last window end that `watermark` has passed; `MIN` before the first watermark.
    fn ended(&self, watermark: EventTime) -> EventTime {
        self.ends.iter().map(|ends| ends.passed(watermark)).max().unwrap_or(EventTime::MIN)
    }

    /// The first window end that its watermark has not passed.
    fn next_end(&self) -> EventTime {
        if self.watermark == EventTime::MIN || self.watermark == EventTime::MAX {
            return self.watermark;
        }
        self.ends.iter().filter_map(|ends| ends.next(self.watermark)).min().unwrap_or(EventTime::MAX)
    }
}

/// A watermark w closes the windows that end at or before w + 1.
fn passes(watermark: EventTime, end: EventTime) -> bool {
    watermark.0.saturating_add(1) >= end.0
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(ns: u64) -> ProcessingTime {
        ProcessingTime(ns)
    }

    fn windows(sources: &[(u32, &[i64])]) -> Windows {
        let mut windows = Windows::default();
        for &(source, slides_ms) in sources {
            for &slide_ms in slides_ms {
                windows.add(OperatorId(source), WindowEnds::new(slide_ms, 0).unwrap());
            }
        }
        windows
    }

    #[test]
    fn ends_of_all_windows_count() {
        let mut windows = windows(&[(0, &[6_000, 4_000, 4_000])]);
        assert_eq!(windows.streams[0].grain_ms, 2_000);
        let next = |windows: &Windows| windows.streams[0].snapshot().end.0;
        assert_eq!(next(&windows), i64::MIN);
        for (watermark, end) in [(3_998, 4_000), (3_999, 6_000), (6_500, 8_000), (11_999, 16_000)] {
            windows.on_watermark(OperatorId(0), EventTime(watermark), at(1));
            assert_eq!(next(&windows), end, "after {watermark}");
        }
        windows.on_watermark(OperatorId(0), EventTime::MAX, at(2));
        assert_eq!(next(&windows), i64::MAX, "the end of the input");
    }

    #[test]
    fn the_later_stream_releases_a_window() {
        // Klink Fig. 4: two streams, windows of 1 s. Times are in seconds.
        let mut windows = windows(&[(0, &[1_000]), (1, &[1_000])]);
        let mut on = |source, watermark_s: i64, t: u64| {
            windows.on_watermark(OperatorId(source), EventTime(watermark_s * 1_000 - 1), at(t));
            windows.sweeping().map(|sweep| (sweep.end.0 / 1_000, sweep.ingested.0))
        };
        assert_eq!(on(0, 0, 1), None);
        assert_eq!(on(1, 0, 1), None);
        assert_eq!(on(0, 1, 2), None, "one stream is not enough");
        assert_eq!(on(1, 1, 2), Some((1, 2)));
        assert_eq!(on(1, 2, 3), Some((1, 2)));
        assert_eq!(on(0, 3, 4), Some((1, 2)), "the oldest on its way");
        windows.on_sunk(EventTime(998));
        assert_eq!(windows.sweeping().unwrap().end, EventTime(1_000));
        windows.on_sunk(EventTime(999));
        assert_eq!(windows.sweeping(), Some(Sweeping { end: EventTime(2_000), ingested: at(4) }));
        windows.on_empty();
        assert_eq!(windows.sweeping(), None);
        // The stream that is behind is waited for: its end is the earlier one.
        let ends: Vec<i64> = windows.streams.iter().map(|stream| stream.snapshot().end.0).collect();
        assert_eq!(ends, [4_000, 3_000]);
    }

    #[test]
    fn a_long_backlog_of_windows_is_bounded() {
        let mut windows = windows(&[(0, &[10])]);
        for n in 0..1_000 {
            windows.on_watermark(OperatorId(0), EventTime(10 * n), at(n as u64));
        }
        assert_eq!(windows.sweeping.len(), SWEEPING_MAX);
        windows.on_sunk(EventTime(9_990));
        assert_eq!(windows.sweeping(), None);
    }
}
