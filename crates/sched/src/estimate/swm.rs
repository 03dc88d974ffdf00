//! Klink's forecast of when windows can close: what slack and forecast deadlines are made of.

use std::collections::VecDeque;

use laxity_graph::{EventTime, ProcessingTime};

use super::normal::deviations;

/// When the next sweeping watermark (SWM) of one stream will be ingested: the first watermark that passes the end
/// of a window (Klink §3.1).
///
/// The n-th sample is (e_n, w_n): the window's end in event time, and the ingestion of the watermark that
/// passed it. A prediction is mean and deviation of one such w for a given end.
///
/// | Symbol | Here | Unit |
/// | --- | --- | --- |
/// | w_n | ingestion of the n-th SWM | ns |
/// | d_n | w_n − slope · e_n: what lies between a window's end and its SWM | ns |
/// | p | distance of two ends, times the slope | ns |
/// | h | [`SwmEstimator::HISTORY`] = 400 epochs | |
///
/// Deviates from the paper in three ways.
/// - *d is the SWM's own*, not a mean over the epoch's events. Events do not know by how much the source holds its
///   watermark back, nor that watermarks come at intervals; the SWM's delay has both in it. The figure klink-9c sets
///   the paper's statistic beside it.
/// - *The variance is predictive*: of one SWM to come, s²·(1 + 1/n + …). Eq. 6 is that of a mean over h epochs.
/// - *Event time may run at any speed* (replays). The slope is that of real time unless a least-squares line
///   through the samples says otherwise; the uncertainty of a fitted slope is part of the variance.
///
/// A sample far out of the forecast is not learned from; several in a row, or a run of misses on one side, mean
/// that the stream has changed, and the history begins anew. About 200 bytes, and 8 per epoch.
#[derive(Clone, Debug, Default)]
pub struct SwmEstimator {
    /// Every watermark, for the time until there are samples.
    line: WatermarkLine,
    history: History,
    /// Consecutive samples that were too far off to be believed.
    outliers: u8,
    /// Consecutive samples outside of two deviations: above, or below if negative.
    misses: i8,
}

/// A prediction of one SWM's ingestion.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SwmForecast {
    /// E\[w\]. A point on the line of processing time; not rounded, and before 0 if so predicted.
    pub mean_ns: f64,
    /// Standard deviation of w, the uncertainty of the mean included.
    pub deviation_ns: f64,
    /// Epochs that it was learned from.
    pub epochs: u32,
}

impl SwmForecast {
    /// t_min and t_max (Eq. 7): where w falls with probability `share`, if its delay is normal.
    ///
    /// With few epochs the deviation is itself uncertain, and Student's law takes the place of the normal one.
    pub fn interval(&self, share: f64) -> (f64, f64) {
        let reach = self.deviation_ns * student(deviations(share), self.epochs);
        (self.mean_ns - reach, self.mean_ns + reach)
    }
}

/// Fewer samples are no history. With three a line has one degree of freedom left.
const SAMPLES_MIN: usize = 3;

/// Samples from which on outliers are recognised; before, the deviation is too uncertain itself. Picked.
const JUDGED_FROM: usize = 16;

/// Deviations. No usual delay law comes this far out: the exponential one passes it once in 8 000 samples.
const OUTLIER: f64 = 8.0;
const OUTLIERS_MAX: u8 = 4;

/// A run of misses beyond two deviations on one side: 0.08⁸ < 1e-8 even for Zipf's law.
const MISSES_MAX: i8 = 8;

/// A speed this near to that of real time that does not differ from it significantly is real time.
const REAL_TIME_WITHIN: f64 = 0.1;

impl SwmEstimator {
    /// Epochs remembered: h of Klink §6.2.
    pub const HISTORY: usize = 400;

    /// Takes in a watermark. `ended` is the last window end at or before it: it swept if that is new.
    ///
    /// `grain_ms` is a common divisor of all window ends of the stream.
    pub fn observe(
        &mut self,
        watermark: EventTime,
        ended: EventTime,
        grain_ms: i64,
        ingested: ProcessingTime,
    ) {
        if watermark == EventTime::MIN || watermark == EventTime::MAX {
            return;
        }
        let swept = self.line.last.is_some_and(|(last, _)| last < ended.0.saturating_sub(1));
        if swept {
            self.sample(ended, grain_ms, ingested);
        }
        self.line.observe(watermark, ingested);
    }

    /// When the watermark that passes `end` will be ingested; `None` before the first watermark.
    pub fn forecast(&self, end: EventTime) -> Option<SwmForecast> {
        self.history.forecast(end).or_else(|| self.line.forecast(end))
    }

    /// Where the SWM of `end` falls with probability `share` or more, whatever the law: the normal interval, widened
    /// on either side to the observed one. Delays with a long tail pass the first too often (Zipf's law: 7.6 %
    /// instead of 2.5 % on that side), few samples make the second too narrow.
    pub fn interval(&self, end: EventTime, share: f64) -> Option<(f64, f64)> {
        let (low, high) = self.forecast(end)?.interval(share);
        let (least, most) = self.observed_interval(end, share).unwrap_or((low, high));
        Some((low.min(least), high.max(most)))
    }

    /// Where the middle `share` of the remembered SWMs would have fallen for `end`: an interval that assumes no
    /// law. `None` with too few epochs to tell. O(h log h): for people and figures, not for every cycle.
    pub fn observed_interval(&self, end: EventTime, share: f64) -> Option<(f64, f64)> {
        let line = self.history.fit()?;
        let mean_ns = self.history.forecast(end)?.mean_ns;
        let mut residuals: Vec<f64> = self.history.residuals(&line).collect();
        residuals.sort_by(f64::total_cmp);
        // The a-th and the (n + 1 − a)-th of n samples enclose the next with probability (n + 1 − 2a) / (n + 1).
        let outside = ((residuals.len() + 1) as f64 * (1.0 - share) / 2.0) as usize;
        let place = outside.checked_sub(1)?;
        Some((mean_ns + residuals[place], mean_ns + residuals[residuals.len() - 1 - place]))
    }

    /// Processing time that a millisecond of event time takes: 10⁶ in real time.
    pub fn ns_per_ms(&self) -> f64 {
        match self.history.fit() {
            Some(_) => self.history.period_ns() / self.history.grain_ms as f64,
            None => self.line.slope(),
        }
    }

    /// Epochs remembered.
    pub fn epochs(&self) -> usize {
        self.history.epochs.len()
    }

    fn sample(&mut self, end: EventTime, grain_ms: i64, ingested: ProcessingTime) {
        if self.history.grain_ms != grain_ms {
            self.history = History::new(end, grain_ms, ingested, self.line.slope());
        }
        if self.epochs() >= JUDGED_FROM
            && let Some(forecast) = self.history.forecast(end)
        {
            // Steady streams have no deviation to speak of; what the clock cannot tell apart is no outlier.
            let least_ns = 1e6 + self.history.period_ns().abs() / 100.0;
            let off = ingested.0 as f64 - forecast.mean_ns;
            let far = off.abs() > OUTLIER * forecast.deviation_ns.max(least_ns);
            let miss = off.abs() > 2.0 * forecast.deviation_ns.max(least_ns / 2.0);
            self.outliers = if far { self.outliers + 1 } else { 0 };
            self.misses = match (miss, off > 0.0) {
                (false, _) => 0,
                (true, true) => self.misses.max(0) + 1,
                (true, false) => self.misses.min(0) - 1,
            };
            if self.outliers >= OUTLIERS_MAX || self.misses.abs() >= MISSES_MAX {
                *self = SwmEstimator::default();
                self.history = History::new(end, grain_ms, ingested, REAL_TIME_NS_PER_MS);
            } else if far {
                return;
            }
        }
        self.history.push(end, ingested);
    }
}

const REAL_TIME_NS_PER_MS: f64 = 1e6;

/// Student's quantile from the normal one, by the first two terms of the Cornish–Fisher expansion: within 4 % from
/// three degrees of freedom on.
fn student(z: f64, epochs: u32) -> f64 {
    let freedom = f64::from(epochs.max(3) - 1);
    let (z3, z5) = (z.powi(3), z.powi(5));
    z + (z3 + z) / (4.0 * freedom) + (5.0 * z5 + 16.0 * z3 + 3.0 * z) / (96.0 * freedom * freedom)
}

/// The straight line through the first and the last watermark: all there is until windows have ended.
#[derive(Clone, Copy, Debug, Default)]
struct WatermarkLine {
    first: Option<(i64, u64)>,
    last: Option<(i64, u64)>,
    count: u32,
}

impl WatermarkLine {
    fn observe(&mut self, watermark: EventTime, ingested: ProcessingTime) {
        let point = (watermark.0, ingested.0);
        if self.last.is_some_and(|(last, _)| watermark.0 <= last) {
            return;
        }
        self.first.get_or_insert(point);
        self.last = Some(point);
        self.count = self.count.saturating_add(1);
    }

    /// ns per ms of event time.
    fn slope(&self) -> f64 {
        let (Some(first), Some(last)) = (self.first, self.last) else { return REAL_TIME_NS_PER_MS };
        if last.0 <= first.0 || last.1 <= first.1 {
            return REAL_TIME_NS_PER_MS;
        }
        let slope = (last.1 - first.1) as f64 / (last.0 as f64 - first.0 as f64);
        if (slope / REAL_TIME_NS_PER_MS - 1.0).abs() < REAL_TIME_WITHIN { REAL_TIME_NS_PER_MS } else { slope }
    }

    fn forecast(&self, end: EventTime) -> Option<SwmForecast> {
        let (first, last) = (self.first?, self.last?);
        let due_ns = last.1 as f64 + self.slope() * (end.0 as f64 - last.0 as f64);
        // The end falls anywhere between two watermarks, and the second one sweeps.
        // A later watermark may have come in earlier: by another channel, or with rows that were held back.
        let gap_ns = last.1.saturating_sub(first.1) as f64 / f64::from(self.count.max(2) - 1);
        Some(SwmForecast { mean_ns: due_ns + gap_ns / 2.0, deviation_ns: gap_ns / 2.0, epochs: 0 })
    }
}

/// The last SWMs, as residuals from a base line, so that an epoch is 8 bytes and every sum is exact.
#[derive(Clone, Debug, Default)]
struct History {
    epochs: VecDeque<Epoch>,
    /// Distance of two ordinals.
    grain_ms: i64,
    origin_ms: i64,
    origin_ns: u64,
    /// Slope of the base line: ns per ordinal, a whole number of µs so that residuals are exact.
    base_us: i64,
    sums: Sums,
}

#[derive(Clone, Copy, Debug)]
struct Epoch {
    /// (e − origin) / grain.
    ordinal: u32,
    /// w − origin − base · ordinal.
    residual_us: i32,
}

#[derive(Clone, Copy, Debug, Default)]
struct Sums {
    x: i64,
    y: i64,
    xx: i128,
    xy: i128,
    yy: i128,
}

/// y = mean_y + slope · (x − mean_x), in µs and ordinals, above the base line.
#[derive(Clone, Copy, Debug)]
struct Line {
    slope: f64,
    mean_x: f64,
    mean_y: f64,
    variance: f64,
    count: f64,
    /// Sum of squared deviations of x; infinite where the slope was not fitted but known.
    spread: f64,
}

impl History {
    fn new(end: EventTime, grain_ms: i64, ingested: ProcessingTime, ns_per_ms: f64) -> History {
        History {
            grain_ms,
            origin_ms: end.0,
            origin_ns: ingested.0,
            base_us: (ns_per_ms * grain_ms as f64 / 1e3) as i64,
            ..History::default()
        }
    }

    fn push(&mut self, end: EventTime, ingested: ProcessingTime) {
        let epoch = self.epoch(end, ingested).or_else(|| {
            self.rebase();
            self.epoch(end, ingested)
        });
        let epoch = epoch.unwrap_or_else(|| {
            let ns_per_ms = self.period_ns() / self.grain_ms.max(1) as f64;
            *self = History::new(end, self.grain_ms, ingested, ns_per_ms);
            Epoch { ordinal: 0, residual_us: 0 }
        });
        if self.epochs.len() == SwmEstimator::HISTORY
            && let Some(oldest) = self.epochs.pop_front()
        {
            self.sums.add(oldest, -1);
        }
        self.epochs.push_back(epoch);
        self.sums.add(epoch, 1);
    }

    /// `None` if it is half an hour off the base line, or 2³² windows on.
    fn epoch(&self, end: EventTime, ingested: ProcessingTime) -> Option<Epoch> {
        let ordinal = end.0.saturating_sub(self.origin_ms) / self.grain_ms.max(1);
        let since_us = (ingested.0 as i64).checked_sub(self.origin_ns as i64)? / 1_000;
        let residual_us = since_us.checked_sub(self.base_us.checked_mul(ordinal)?)?;
        Some(Epoch { ordinal: ordinal.try_into().ok()?, residual_us: residual_us.try_into().ok()? })
    }

    /// Makes the fitted line the base line, from the oldest epoch on.
    fn rebase(&mut self) {
        let (Some(line), Some(&oldest)) = (self.fit(), self.epochs.front()) else { return };
        let slope_us = line.slope.round() as i64;
        let (first, shift_us) = (i64::from(oldest.ordinal), i64::from(oldest.residual_us));
        self.origin_ms += first * self.grain_ms;
        let origin_us = self.base_us * first + shift_us;
        self.origin_ns = self.origin_ns.saturating_add_signed(origin_us * 1_000);
        self.base_us += slope_us;
        self.sums = Sums::default();
        for epoch in &mut self.epochs {
            let ordinal = i64::from(epoch.ordinal) - first;
            let residual_us = i64::from(epoch.residual_us) - shift_us - slope_us * ordinal;
            epoch.ordinal = ordinal as u32;
            // A line through the epochs is nearer to each than half an hour, or the next one begins anew.
            epoch.residual_us = residual_us.clamp(i64::from(i32::MIN), i64::from(i32::MAX)) as i32;
            self.sums.add(*epoch, 1);
        }
    }

    /// Processing time that one grain of event time takes.
    fn period_ns(&self) -> f64 {
        let slope_us = self.fit().map_or(0.0, |line| line.slope);
        (self.base_us as f64 + slope_us) * 1e3
    }

    fn forecast(&self, end: EventTime) -> Option<SwmForecast> {
        let line = self.fit()?;
        let x = (end.0 as f64 - self.origin_ms as f64) / self.grain_ms as f64;
        let ahead = x - line.mean_x;
        let mean_us = self.base_us as f64 * x + line.mean_y + line.slope * ahead;
        let variance = line.variance * (1.0 + 1.0 / line.count + ahead * ahead / line.spread);
        Some(SwmForecast {
            mean_ns: self.origin_ns as f64 + mean_us * 1e3,
            deviation_ns: variance.sqrt() * 1e3,
            epochs: self.epochs.len() as u32,
        })
    }

    fn fit(&self) -> Option<Line> {
        let n = self.epochs.len();
        if n < SAMPLES_MIN {
            return None;
        }
        let count = n as i128;
        let Sums { x, y, xx, xy, yy } = self.sums;
        let (x, y) = (i128::from(x), i128::from(y));
        let n = n as f64;
        let spread = (count * xx - x * x) as f64 / n;
        let mixed = (count * xy - x * y) as f64 / n;
        let total = (count * yy - y * y) as f64 / n;
        let (mean_x, mean_y) = (x as f64 / n, y as f64 / n);
        let fitted = mixed / spread;
        let unexplained = (total - fitted * mixed).max(0.0);
        let real_us = self.grain_ms as f64 * REAL_TIME_NS_PER_MS / 1e3;
        let real = real_us - self.base_us as f64;
        let error = (unexplained / (n - 2.0) / spread).sqrt();
        // A µs of rounding per sample must not make real time look refuted.
        let alike = (fitted - real).abs() <= 3.0 * error + 1.0 / spread.sqrt();
        if alike && (fitted - real).abs() <= REAL_TIME_WITHIN * real_us {
            let scatter = (total - 2.0 * real * mixed + real * real * spread).max(0.0);
            let variance = scatter / (n - 1.0);
            return Some(Line { slope: real, mean_x, mean_y, variance, count: n, spread: f64::INFINITY });
        }
        Some(Line { slope: fitted, mean_x, mean_y, variance: unexplained / (n - 2.0), count: n, spread })
    }

    /// How far each SWM was from the line, in ns.
    fn residuals<'a>(&'a self, line: &'a Line) -> impl Iterator<Item = f64> + 'a {
        self.epochs.iter().map(|epoch| {
            let expected = line.mean_y + line.slope * (f64::from(epoch.ordinal) - line.mean_x);
            (f64::from(epoch.residual_us) - expected) * 1e3
        })
    }
}

impl Sums {
    fn add(&mut self, epoch: Epoch, sign: i64) {
        let (x, y) = (i64::from(epoch.ordinal), i64::from(epoch.residual_us));
        self.x += sign * x;
        self.y += sign * y;
        let (x, y) = (i128::from(x), i128::from(y));
        self.xx += i128::from(sign) * x * x;
        self.xy += i128::from(sign) * x * y;
        self.yy += i128::from(sign) * y * y;
    }
}

#[cfg(test)]
#[path = "swm/tests.rs"]
mod tests;
