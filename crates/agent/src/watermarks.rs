use std::collections::HashMap;
use std::sync::Arc;

use laxity_graph::{EventTime, OperatorId, ProcessingTime};
use laxity_sched::{StreamSnapshot, Sweeping, SwmEstimator};

use crate::metric::Metric;
use crate::{Readings, Topology};

/// When the windows of each query close, as far as watermarks read once a period tell: what Klink ranks by.
///
/// A stream is what comes in to one windowed operator, whose own input watermark is the least of its inputs; so an
/// engine that takes long to pass watermarks on shows as delay, which it is. Known to within one period.
#[derive(Debug, Default)]
pub(crate) struct Watermarks {
    streams: HashMap<Arc<str>, Stream>,
}

#[derive(Debug, Default)]
struct Stream {
    estimator: SwmEstimator,
    watermark: Option<EventTime>,
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
        let now = ProcessingTime(readings.now_ns);
        let watermark = |place: usize| {
            let read = readings.get(Metric::WatermarkMs, place);
            // Before the first one Flink tells −2⁶³, after the last 2⁶³ − 1, both rounded.
            read.filter(|ms| ms.abs() < 9e18).map(|ms| EventTime(ms as i64))
        };
        let mut known = vec![Known::default(); topology.queries.len()];
        let downstream = topology.downstream();
        self.streams.retain(|key, _| topology.operators.iter().any(|operator| operator.key == *key));
        for (place, operator) in topology.operators.iter().enumerate() {
            let Some(slide_ms) =
                operator.window.filter(|w| w.is_aligned && w.slide_ms > 0).map(|w| w.slide_ms)
            else {
                continue;
            };
            let Some(now_at) = watermark(place) else { continue };
            let ended = |w: EventTime| EventTime(w.0.saturating_add(1).div_euclid(slide_ms) * slide_ms);
            let stream = self.streams.entry(operator.key.clone()).or_default();
            if stream.watermark.is_none_or(|before| before < now_at) {
                stream.estimator.observe(now_at, ended(now_at), slide_ms, now);
                if stream.watermark.is_some_and(|before| ended(before) < ended(now_at)) {
                    stream.passed = Some(Sweeping { end: ended(now_at), ingested: now });
                }
                stream.watermark = Some(now_at);
            }
            let end = EventTime(ended(now_at).0.saturating_add(slide_ms));
            let known = &mut known[operator.query];
            known.streams.push(StreamSnapshot {
                source: OperatorId(place as u32),
                watermark: now_at,
                end,
                forecast: stream.estimator.forecast(end),
                told: None,
            });
            let sinks = (0..topology.operators.len()).filter(|&sink| {
                topology.operators[sink].query == operator.query && downstream[sink].is_empty()
            });
            let is_out = |end: EventTime| sinks.clone().filter_map(watermark).all(|at| at.0 >= end.0 - 1);
            if let Some(passed) = stream.passed.filter(|passed| !is_out(passed.end))
                && known.sweeping.is_none_or(|oldest| passed.ingested < oldest.ingested)
            {
                known.sweeping = Some(passed);
            }
        }
        known
    }
}

#[cfg(test)]
mod tests {
    use laxity_graph::WindowShape;

    use super::*;
    use crate::topology::tests::chains;

    #[test]
    fn a_window_sweeps_until_it_is_out_of_the_sink() {
        let mut topology = chains(&[3]);
        topology.operators[1].window =
            Some(WindowShape { size_ms: 1_000, slide_ms: 1_000, is_aligned: true });
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
}
