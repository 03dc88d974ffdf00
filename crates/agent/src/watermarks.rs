//! Klink's forecasts (§3.1) for engines that tell only where their watermarks are now.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use laxity_graph::{EventTime, OperatorId, ProcessingTime, QueryId, WindowEnds, WindowShape};
use laxity_sched::{StreamReport, StreamSnapshot, Sweeping, SwmEstimator};

use crate::metric::Metric;
use crate::{Readings, Topology};

/// When the windows of each query close, as far as watermarks read once a period tell: what Klink ranks by.
///
/// A stream is what comes in to one windowed operator, whose own input watermark is the least of its inputs; so an
/// engine that takes long to pass watermarks on shows as delay, which it is. Known to within one period. Where the
/// window closes on another machine, the stream is what the operators here let out to it; where the agent of the machine
/// before tells when its watermarks are due, that counts, because ours come late by what queues before us.
#[derive(Debug, Default)]
pub(crate) struct Watermarks {
    /// By where watermarks are read, and whose windows they close.
    streams: HashMap<(Arc<str>, Arc<str>), Stream>,
}

#[derive(Debug)]
struct Stream {
    query: usize,
    /// Of the windowed operator.
    place: usize,
    estimator: SwmEstimator,
    watermark: EventTime,
    /// The next window end to be passed.
    end: EventTime,
    /// The last end that passed, and when that was seen.
    passed: Option<Sweeping>,
}

/// What is known of one query.
#[derive(Clone, Debug, Default)]
pub(crate) struct Known {
    pub streams: Vec<StreamSnapshot>,
    pub sweeping: Option<Sweeping>,
}

impl Watermarks {
    /// Takes in the watermarks of one period; answers by query.
    pub fn observe(&mut self, topology: &Topology, readings: &Readings) -> Vec<Known> {
        let mut known = vec![Known::default(); topology.queries.len()];
        let here = topology.runs_here();
        let downstream = topology.downstream();
        let mut seen = BTreeSet::new();
        for (place, operator) in topology.operators.iter().enumerate() {
            let Some(ends) = operator.window.and_then(WindowShape::ends) else { continue };
            let told = readings.streams.get(&place);
            let points = points(topology, readings, &here, place);
            let known = &mut known[operator.query];
            if points.is_empty() {
                // No watermark is seen here: what was told is all there is.
                known.streams.extend(told.map(|told| StreamSnapshot {
                    source: OperatorId(place as u32),
                    watermark: EventTime(told.end.0.saturating_sub(ends.every_ms())),
                    end: told.end,
                    forecast: Some(told.forecast),
                    told: Some(told.at),
                }));
            }
            let sinks: Vec<usize> = (0..topology.operators.len())
                .filter(|&sink| {
                    topology.operators[sink].query == operator.query && downstream[sink].is_empty()
                })
                .collect();
            for point in points {
                let Some(now_at) = watermark(readings, point) else { continue };
                let key = (topology.operators[point].key.clone(), operator.key.clone());
                let stream = self.streams.entry(key.clone()).or_insert_with(Stream::new);
                seen.insert(key);
                (stream.query, stream.place) = (operator.query, place);
                stream.observe(now_at, ends, ProcessingTime(readings.now_ns));
                known.streams.push(StreamSnapshot {
                    source: OperatorId(point as u32),
                    watermark: now_at,
                    end: stream.end,
                    forecast: told
                        .map(|told| told.forecast(stream.end))
                        .or_else(|| stream.estimator.forecast(stream.end)),
                    told: told.map(|told| told.at),
                });
                let out = |end: EventTime| {
                    sinks.iter().filter_map(|&sink| watermark(readings, sink)).all(|at| at.0 >= end.0 - 1)
                };
                if let Some(passed) = stream.passed.filter(|passed| !out(passed.end))
                    && known.sweeping.is_none_or(|oldest| passed.ingested < oldest.ingested)
                {
                    known.sweeping = Some(passed);
                }
            }
        }
        self.streams.retain(|key, _| seen.contains(key));
        known
    }

    /// By windowed operator: when its sweeping watermark is due, for agents of machines behind. Of several streams,
    /// the one that comes last sweeps.
    pub fn reports(&self, now_ns: u64) -> BTreeMap<usize, StreamReport> {
        let mut reports: BTreeMap<usize, StreamReport> = BTreeMap::new();
        for stream in self.streams.values() {
            let Some(forecast) = stream.estimator.forecast(stream.end) else { continue };
            let report = StreamReport {
                query: QueryId(stream.query as u32),
                source: OperatorId(stream.place as u32),
                end: stream.end,
                forecast,
                ns_per_ms: stream.estimator.ns_per_ms(),
                at: ProcessingTime(now_ns),
            };
            let later = |known: &StreamReport| report.forecast(known.end).mean_ns > known.forecast.mean_ns;
            if reports.get(&stream.place).is_none_or(later) {
                reports.insert(stream.place, report);
            }
        }
        reports
    }
}

impl Stream {
    fn new() -> Stream {
        Stream {
            query: 0,
            place: 0,
            estimator: SwmEstimator::default(),
            watermark: EventTime::MIN,
            end: EventTime::MIN,
            passed: None,
        }
    }

    fn observe(&mut self, watermark: EventTime, ends: WindowEnds, now: ProcessingTime) {
        let ended = ends.passed(watermark);
        if self.watermark < watermark {
            self.estimator.observe(watermark, ended, ends.every_ms(), now);
            if self.watermark > EventTime::MIN && ends.passed(self.watermark) < ended {
                self.passed = Some(Sweeping { end: ended, ingested: now });
            }
            self.watermark = watermark;
        }
        self.end = ends.next(watermark).unwrap_or(EventTime::MAX);
    }
}

/// Before the first one Flink tells −2⁶³, after the last 2⁶³ − 1, both rounded.
fn watermark(readings: &Readings, place: usize) -> Option<EventTime> {
    let read = readings.get(Metric::WatermarkMs, place);
    read.filter(|ms| ms.abs() < 9e18).map(|ms| EventTime(ms as i64))
}

/// Where the watermarks that close the windows of an operator are first seen: at itself if it runs here, else at the
/// nearest operators here that lead to it, else at itself as the engine tells.
fn points(topology: &Topology, readings: &Readings, here: &[bool], window: usize) -> Vec<usize> {
    let mut points = BTreeSet::new();
    if !here[window] {
        let (mut waiting, mut seen) = (topology.operators[window].upstream.clone(), BTreeSet::new());
        while let Some(place) = waiting.pop() {
            if here[place] && watermark(readings, place).is_some() {
                points.insert(place);
            } else if seen.insert(place) {
                waiting.extend(&topology.operators[place].upstream);
            }
        }
    }
    if points.is_empty() && watermark(readings, window).is_some() {
        points.insert(window);
    }
    points.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::tests::chains;

    #[test]
    fn a_window_sweeps_until_it_is_out_of_the_sink() {
        let mut topology = chains(&[3]);
        topology.operators[1].window = Some(WindowShape { size_ms: 1_000, slide_ms: 1_000, end_ms: Some(0) });
        let mut watermarks = Watermarks::default();
        let mut at = |seconds: f64, window_ms: f64, sink_ms: f64| {
            let mut readings = Readings::at((seconds * 1e9) as u64, 0.0, None, 2);
            readings.set(Metric::WatermarkMs, vec![None, Some(window_ms), Some(sink_ms)]);
            watermarks.observe(&topology, &readings).remove(0)
        };
        let first = at(10.0, 9_500.0, -9.223_372_036_854_776e18);
        assert_eq!((first.streams[0].end, first.sweeping), (EventTime(10_000), None));
        let second = at(11.0, 10_500.0, 9_500.0);
        assert_eq!(second.streams[0].end, EventTime(11_000));
        let sweeping = second.sweeping.unwrap();
        assert_eq!((sweeping.end, sweeping.ingested), (EventTime(10_000), ProcessingTime(11_000_000_000)));
        assert_eq!(at(11.5, 10_900.0, 10_500.0).sweeping, None);
    }

    #[test]
    fn a_window_elsewhere_is_watched_where_its_rows_leave() {
        let mut topology = chains(&[3]);
        let window = WindowShape { size_ms: 1_000, slide_ms: 1_000, end_ms: Some(0) };
        topology.operators[2].window = Some(window);
        let last = topology.tasks.pop();
        let mut watermarks = Watermarks::default();
        let mut readings = Readings::at(10_000_000_000, 0.0, None, 2);
        readings.set(Metric::WatermarkMs, vec![None, Some(9_500.0), Some(7_500.0)]);
        let known = watermarks.observe(&topology, &readings).remove(0);
        assert_eq!((known.streams[0].source, known.streams[0].end), (OperatorId(1), EventTime(10_000)));
        // Where it closes its own watermark counts, but not when it is due: the machine before told that.
        topology.tasks = last.into_iter().collect();
        let forecast = laxity_sched::SwmForecast { mean_ns: 12e9, deviation_ns: 1e6, epochs: 9 };
        let at = ProcessingTime(9_900_000_000);
        let told = StreamReport {
            query: QueryId(0),
            source: OperatorId(2),
            end: EventTime(10_000),
            forecast,
            ns_per_ms: 1e6,
            at,
        };
        readings.streams.insert(2, told);
        let stream = watermarks.observe(&topology, &readings).remove(0).streams[0];
        // 2 s before the end that it was told for.
        assert_eq!((stream.end, stream.told), (EventTime(8_000), Some(at)));
        assert_eq!(stream.forecast.unwrap().mean_ns, 10e9);
        // Without any watermark of one's own the word of the machine before is all there is.
        readings.set(Metric::WatermarkMs, vec![None; 3]);
        let stream = watermarks.observe(&topology, &readings).remove(0).streams[0];
        assert_eq!((stream.end, stream.forecast), (EventTime(10_000), Some(forecast)));
    }
}
