//! What reaches a source, when, and with which watermarks: drawn from a seed, or as it was recorded.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

use laxity_graph::{EventClock, EventTime, ProcessingTime};
use rand_distr::{Distribution, Exp1, Poisson};
use rand_pcg::Pcg64;

use crate::delay::{Delay, DelaySampler};
use crate::rate::{Growth, Rate};
use crate::{Arrival, Arrivals, Offered, WorkloadError, seed};

/// A synthetic input: at which rate rows come into being, how they are put into batches, what the network does to
/// the batches, and which watermarks go with them.
///
/// Rows come into being from `start` on; event time is the processing time at which they do, counted from
/// `event_zero`. A batch is sent just after its last row has come into being, has that row's event time, and arrives
/// a delay later; batches overtake one another where delays differ.
#[derive(Clone, Debug, PartialEq)]
pub struct Stream {
    /// Rows per second over time.
    pub rate: Rate,
    /// How regular they come.
    pub spacing: Spacing,
    /// How they are put together.
    pub batching: Batching,
    /// Bytes of a row.
    pub row_bytes: u32,
    /// From the event to its ingestion.
    pub delay: Delay,
    /// Which watermarks go with the rows.
    pub watermarks: Watermarks,
    /// When the first row can come into being.
    pub start: ProcessingTime,
    /// When the last one can; `None` for a stream without end.
    pub end: Option<ProcessingTime>,
    /// The instant of event time 0. Windows are aligned to it.
    pub event_zero: ProcessingTime,
}

/// How regular rows come into being.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spacing {
    /// As regular as the rate allows.
    Even,
    /// A Poisson process of batches (of a fixed number of rows) or of rows (in a tick) with the rate as its
    /// intensity.
    Poisson,
}

/// How rows are put into batches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Batching {
    /// A batch is sent as soon as it has so many rows.
    Rows(u32),
    /// A batch is sent at every tick with what has come into being since the last; none if that is nothing.
    Every {
        /// Distance of two ticks.
        ns: u64,
    },
}

/// Which watermarks go with the rows.
#[derive(Clone, Debug, PartialEq)]
pub enum Watermarks {
    /// None at all.
    None,
    /// Made where the rows arrive: the highest event time there so far, less the lag.
    Behind {
        /// How often.
        cadence: Cadence,
        /// How far behind the highest event time.
        lag_ms: i64,
    },
    /// Made where events are, and sent through the same kind of network as a message of its own (Klink §2.2: the
    /// source injects watermarks). One that is overtaken by a later one says nothing and is left out.
    Sent {
        /// Distance of two.
        every_ms: u64,
        /// How far behind the event time at which it is made.
        lag_ms: i64,
        /// Its own delay.
        delay: Delay,
    },
}

/// How often a watermark is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cadence {
    /// With every batch.
    Batch,
    /// With the first batch that arrives when so much time has passed since the last one.
    Every {
        /// The time.
        ns: u64,
    },
    /// With the batch that completes so many rows since the last one.
    Rows(u64),
}

impl Stream {
    /// Even rows in batches of `batch`, without delay, a watermark behind each batch, from time 0 on for ever.
    pub fn constant(rows_per_s: f64, batch: u32) -> Stream {
        Stream {
            rate: Rate::constant(rows_per_s),
            spacing: Spacing::Even,
            batching: Batching::Rows(batch),
            row_bytes: 100,
            delay: Delay::NONE,
            watermarks: Watermarks::Behind { cadence: Cadence::Batch, lag_ms: 0 },
            start: ProcessingTime::ZERO,
            end: None,
            event_zero: ProcessingTime::ZERO,
        }
    }

    /// What arrives. The same seed gives the same arrivals.
    ///
    /// # Errors
    /// If a rate or a delay is impossible.
    pub fn arrivals(&self, seed: u64) -> Result<Box<dyn Arrivals>, WorkloadError> {
        self.rate.check()?;
        let watermark_delay = match &self.watermarks {
            Watermarks::Sent { delay, .. } => delay.clone(),
            _ => Delay::NONE,
        };
        Ok(Box::new(StreamArrivals {
            growth: Growth::new(&self.rate, seed::derived(seed, 0)),
            spacing: seed::generator(seed, 1),
            delay: self.delay.sampler(seed::derived(seed, 2))?,
            watermark_delay: watermark_delay.sampler(seed::derived(seed, 3))?,
            stream: self.clone(),
            sent: 0.0,
            born: 0.0,
            ticks: 0,
            next_batch: None,
            next_watermark: None,
            watermarks_made: 0,
            started: false,
            on_the_way: BinaryHeap::new(),
            sequence: 0,
            highest: EventTime::MIN,
            last_watermark: EventTime::MIN,
            last_watermark_at: None,
            rows_since_watermark: 0,
        }))
    }

    /// Event time of the last row born before `at`: a batch sent as a window ends belongs to that window, and
    /// its watermark closes it.
    fn event_time(&self, at: ProcessingTime) -> EventTime {
        EventTime((at.0 as i64 - self.event_zero.0 as i64 - 1).div_euclid(MS))
    }
}

/// What was recorded, again: for measured arrivals, and for a handful of batches placed by hand.
#[derive(Clone, Debug)]
pub struct Recorded {
    arrivals: Arc<[Arrival]>,
    cycle_ns: Option<u64>,
    next: usize,
    passes: u64,
}

impl Recorded {
    /// The arrivals, sorted by `at` (equal ones stay in order). With `cycle_ns`, which must be a multiple of 1 ms so
    /// that event time keeps up, all of them come again that much later, for ever.
    pub fn new(mut arrivals: Vec<Arrival>, cycle_ns: Option<u64>) -> Recorded {
        arrivals.sort_by_key(|arrival| arrival.at);
        Recorded { arrivals: arrivals.into(), cycle_ns, next: 0, passes: 0 }
    }
}

impl Arrivals for Recorded {
    fn next(&mut self) -> Option<Arrival> {
        if self.next == self.arrivals.len() {
            self.cycle_ns.filter(|_| self.next > 0)?;
            self.next = 0;
            self.passes += 1;
        }
        let arrival = self.arrivals[self.next];
        self.next += 1;
        let shift_ns = self.passes * self.cycle_ns.unwrap_or(0);
        let shift_ms = shift_ns as i64 / MS;
        Some(Arrival {
            at: arrival.at.plus_ns(shift_ns),
            event_time: EventTime(arrival.event_time.0.saturating_add(shift_ms)),
            watermark: arrival.watermark.map(|w| EventTime(w.0.saturating_add(shift_ms))),
            ..arrival
        })
    }

    fn offered(&self) -> Option<Offered> {
        let cycle_s = self.cycle_ns? as f64 / 1e9;
        let batches = self.arrivals.iter().filter(|arrival| arrival.rows > 0).count();
        let bare = self.arrivals.iter().filter(|arrival| arrival.rows == 0).count();
        Some(Offered {
            rows_per_s: self.arrivals.iter().map(|arrival| f64::from(arrival.rows)).sum::<f64>() / cycle_s,
            batches_per_s: batches as f64 / cycle_s,
            watermarks_per_s: bare as f64 / cycle_s,
        })
    }
}

#[derive(Debug)]
struct StreamArrivals {
    stream: Stream,
    growth: Growth,
    spacing: Pcg64,
    delay: DelaySampler,
    watermark_delay: DelaySampler,
    /// Rows that have come into being, and how many of them were sent; they differ by a fraction of a row.
    born: f64,
    sent: f64,
    ticks: u64,
    /// The batch that comes into being next: when, with how many rows.
    next_batch: Option<(ProcessingTime, u32)>,
    next_watermark: Option<ProcessingTime>,
    watermarks_made: u64,
    started: bool,
    /// By arrival, then by order of sending.
    on_the_way: BinaryHeap<Reverse<(ProcessingTime, u64, ProcessingTime, u32)>>,
    sequence: u64,
    /// Highest event time that has arrived.
    highest: EventTime,
    last_watermark: EventTime,
    last_watermark_at: Option<ProcessingTime>,
    rows_since_watermark: u64,
}

impl Arrivals for StreamArrivals {
    fn next(&mut self) -> Option<Arrival> {
        if !self.started {
            self.started = true;
            self.next_batch = self.make_batch();
            self.next_watermark = self.make_watermark();
        }
        loop {
            // Nothing that is still to be sent can arrive before it is sent: what arrives by then is in order.
            let horizon = match (self.next_batch, self.next_watermark) {
                (Some((batch, _)), Some(watermark)) => Some(batch.min(watermark)),
                (Some((batch, _)), None) => Some(batch),
                // Watermarks end with the rows: a stream that has ended would else go on with them for ever.
                (None, _) => None,
            };
            if let Some(&Reverse((at, _, sent, rows))) = self.on_the_way.peek()
                && horizon.is_none_or(|horizon| at <= horizon)
            {
                self.on_the_way.pop();
                if let Some(arrival) = self.arrive(at, sent, rows) {
                    return Some(arrival);
                }
                continue;
            }
            let horizon = horizon?;
            if self.next_watermark == Some(horizon) {
                let delay_ns = self.watermark_delay.sample_ns();
                self.send(horizon, delay_ns, 0);
                self.next_watermark = self.make_watermark();
            } else if let Some((at, rows)) = self.next_batch {
                let delay_ns = self.delay.sample_ns();
                self.send(at, delay_ns, rows);
                self.next_batch = self.make_batch();
            }
        }
    }

    fn offered(&self) -> Option<Offered> {
        let rows_per_s = self.stream.rate.mean_rows_per_s();
        let batches_per_s = match self.stream.batching {
            Batching::Rows(rows) => rows_per_s / f64::from(rows.max(1)),
            Batching::Every { ns } => rows_per_s.min(1e9 / ns.max(1) as f64),
        };
        let watermarks_per_s = match self.stream.watermarks {
            Watermarks::Sent { every_ms, .. } => 1e3 / every_ms.max(1) as f64,
            _ => 0.0,
        };
        Some(Offered { rows_per_s, batches_per_s, watermarks_per_s })
    }

    fn clock(&self) -> EventClock {
        EventClock { event_origin: EventTime(0), processing_origin: self.stream.event_zero, speed: 1.0 }
    }
}

impl StreamArrivals {
    fn send(&mut self, sent: ProcessingTime, delay_ns: u64, rows: u32) {
        self.on_the_way.push(Reverse((sent.plus_ns(delay_ns), self.sequence, sent, rows)));
        self.sequence += 1;
    }

    /// The next batch.
    fn make_batch(&mut self) -> Option<(ProcessingTime, u32)> {
        match self.stream.batching {
            Batching::Rows(rows) => {
                let rows = rows.max(1);
                let expected = match self.stream.spacing {
                    Spacing::Even => f64::from(rows),
                    Spacing::Poisson => {
                        let gap: f64 = Exp1.sample(&mut self.spacing);
                        gap * f64::from(rows)
                    }
                };
                let at = self.growth.after_rows(expected)?;
                let at = self.stream.start.plus_ns(at.round() as u64);
                self.stream.end.is_none_or(|end| at <= end).then_some((at, rows))
            }
            Batching::Every { ns } => loop {
                self.ticks += 1;
                let since_start_ns = self.ticks.checked_mul(ns.max(1))?;
                let at = self.stream.start.plus_ns(since_start_ns);
                // A rate that has become 0 for good would else be asked for ever.
                if self.stream.end.is_some_and(|end| at > end) || at == ProcessingTime::MAX {
                    return None;
                }
                let expected = self.growth.until(since_start_ns as f64);
                if expected == 0.0 && self.growth.clone().after_rows(f64::MIN_POSITIVE).is_none() {
                    return None;
                }
                let rows = match self.stream.spacing {
                    Spacing::Even => {
                        self.born += expected;
                        // A millionth of a row is rounding.
                        let rows = (self.born - self.sent + 1e-6).floor();
                        self.sent += rows;
                        rows
                    }
                    Spacing::Poisson if expected > 0.0 => {
                        Poisson::new(expected).map_or(expected, |poisson| poisson.sample(&mut self.spacing))
                    }
                    Spacing::Poisson => 0.0,
                };
                if rows >= 1.0 {
                    return Some((at, rows as u32));
                }
            },
        }
    }

    /// When the next watermark of its own is made.
    fn make_watermark(&mut self) -> Option<ProcessingTime> {
        let Watermarks::Sent { every_ms, .. } = self.stream.watermarks else { return None };
        self.watermarks_made += 1;
        Some(self.stream.start.plus_ns(self.watermarks_made * every_ms.max(1) * MS as u64))
    }

    /// What has reached the system; `None` for a watermark that was overtaken.
    fn arrive(&mut self, at: ProcessingTime, sent: ProcessingTime, rows: u32) -> Option<Arrival> {
        let event_time = self.stream.event_time(sent);
        if rows > 0 {
            self.highest = self.highest.max(event_time);
            self.rows_since_watermark += u64::from(rows);
        }
        let watermark = match self.stream.watermarks {
            Watermarks::None => None,
            Watermarks::Sent { lag_ms, .. } => (rows == 0).then_some(EventTime(event_time.0 - lag_ms)),
            Watermarks::Behind { cadence, lag_ms } => {
                let is_due = match cadence {
                    Cadence::Batch => true,
                    Cadence::Every { ns } => {
                        self.last_watermark_at.is_none_or(|last| at.since_ns(last) >= ns)
                    }
                    Cadence::Rows(rows) => self.rows_since_watermark >= rows,
                };
                is_due.then_some(EventTime(self.highest.0 - lag_ms))
            }
        };
        let watermark = watermark.filter(|&watermark| watermark > self.last_watermark);
        if let Some(watermark) = watermark {
            self.last_watermark = watermark;
            self.last_watermark_at = Some(at);
            self.rows_since_watermark = 0;
        }
        if rows == 0 && watermark.is_none() {
            return None;
        }
        let bytes = u64::from(rows) * u64::from(self.stream.row_bytes);
        Some(Arrival { at, event_time, rows, bytes, watermark })
    }
}

const MS: i64 = 1_000_000;

#[cfg(test)]
mod tests;
