use std::collections::HashMap;
use std::sync::Arc;

/// Rates of counters, differenced by us: the engines' own are smoothed over a minute.
///
/// Each difference is taken over the time between the two *samples*, not between our two reads, so that an engine
/// that answers from a cache does not look idle and then twice as fast. Smoothed exponentially with time constant
/// [`SMOOTHING_MS`]. A counter that falls has begun anew: its operator was restarted.
#[derive(Debug, Default)]
pub(crate) struct Rates {
    counters: HashMap<Arc<str>, Counter>,
}

#[derive(Debug)]
struct Counter {
    value: f64,
    sampled_ms: f64,
    /// Per second.
    rate: Option<f64>,
    seen: bool,
}

/// A few scheduling periods of 1 s: shorter, and the order of operators follows single bursts; Lachesis averages
/// over 10 s.
const SMOOTHING_MS: f64 = 3_000.0;

impl Rates {
    /// The counter stood at `value` at `sampled_ms`. Answers its rate per second, `None` before the second sample.
    pub fn rate(&mut self, key: &Arc<str>, value: f64, sampled_ms: f64) -> Option<f64> {
        let Some(counter) = self.counters.get_mut(key) else {
            self.counters.insert(key.clone(), Counter { value, sampled_ms, rate: None, seen: true });
            return None;
        };
        counter.seen = true;
        let elapsed_ms = sampled_ms - counter.sampled_ms;
        if value < counter.value || elapsed_ms < 0.0 {
            *counter = Counter { value, sampled_ms, rate: None, seen: true };
        } else if elapsed_ms > 0.0 {
            let now = (value - counter.value) / elapsed_ms * 1_000.0;
            let kept = (-elapsed_ms / SMOOTHING_MS).exp();
            counter.rate = Some(counter.rate.map_or(now, |before| now + (before - now) * kept));
            (counter.value, counter.sampled_ms) = (value, sampled_ms);
        }
        counter.rate
    }

    /// Forgets the counters not asked for since the last call.
    pub fn sweep(&mut self) {
        self.counters.retain(|_, counter| std::mem::take(&mut counter.seen));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_over_the_time_between_samples() {
        let (mut rates, key) = (Rates::default(), Arc::from("a"));
        assert_eq!(rates.rate(&key, 100.0, 1_000.0), None);
        // The same sample again says nothing.
        assert_eq!(rates.rate(&key, 100.0, 1_000.0), None);
        assert_eq!(rates.rate(&key, 300.0, 3_000.0), Some(100.0));
        // 400 more in 3 s; e⁻¹ of the old rate stays: 400 / 3 + (100 − 400 / 3) / e.
        let smoothed = rates.rate(&key, 700.0, 6_000.0).unwrap();
        assert!((smoothed - 121.0707).abs() < 1e-3, "{smoothed}");
    }

    #[test]
    fn a_restart_begins_anew() {
        let (mut rates, key) = (Rates::default(), Arc::from("a"));
        rates.rate(&key, 100.0, 0.0);
        rates.rate(&key, 200.0, 1_000.0);
        assert_eq!(rates.rate(&key, 5.0, 2_000.0), None);
        assert_eq!(rates.rate(&key, 15.0, 3_000.0), Some(10.0));
    }
}
