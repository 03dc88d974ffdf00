use laxity_graph::ProcessingTime;

/// Which part of the time that workers have they have worked lately.
#[derive(Clone, Copy, Debug, Default)]
pub struct Load {
    share: f64,
    at: ProcessingTime,
    awake_ns: u64,
}

impl Load {
    /// How often to observe, while there is work.
    pub const PERIOD_NS: u64 = 20_000_000;

    /// 0 to 1.
    pub fn get(&self) -> f64 {
        self.share
    }

    /// Takes what so many workers have been awake for since they began, all together, as it is now; the load after it.
    pub fn observe(&mut self, awake_ns: u64, workers: usize, now: ProcessingTime) -> f64 {
        // Half of what is known is of the last 40 ms: a burst is met, a single long run is not.
        const KEPT: f64 = 0.7;
        let passed_ns = now.since_ns(self.at) as f64;
        let had_ns = passed_ns * workers as f64;
        if had_ns > 0.0 {
            let load = (awake_ns.saturating_sub(self.awake_ns) as f64 / had_ns).min(1.0);
            let kept = KEPT.powf(passed_ns / Load::PERIOD_NS as f64);
            self.share = kept * self.share + (1.0 - kept) * load;
        }
        (self.at, self.awake_ns) = (now, awake_ns);
        self.share
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_of_what_is_known_is_of_the_last_two_periods() {
        let mut load = Load::default();
        let mut observe = |period: u64, awake_ms: u64| {
            load.observe(awake_ms * 1_000_000, 2, ProcessingTime(period * Load::PERIOD_NS))
        };
        // Of 40 ms that two workers have in a period, 40, then none: 1 - .7 of it, then .7 of that. In the end half a load for
        // three periods that nobody looked in.
        let shares = [observe(1, 40), observe(2, 40), observe(2, 40), observe(3, 100), observe(6, 160)];
        let before = 0.7 * 0.21 + 0.3;
        let expected = [0.3, 0.21, 0.21, before, 0.343 * before + 0.657 * 0.5];
        assert!(shares.iter().zip(expected).all(|(seen, share)| (seen - share).abs() < 1e-9), "{shares:?}");
    }
}
