//! Streams against numbers by hand and against what must hold of any stream. Cannot catch: whether real sources are
//! like that.

use super::*;

const S: u64 = 1_000_000_000;
const MS_NS: u64 = 1_000_000;

fn take(stream: &Stream, seed: u64, count: usize) -> Vec<Arrival> {
    let mut arrivals = stream.arrivals(seed).unwrap();
    std::iter::from_fn(|| arrivals.next()).take(count).collect()
}

#[test]
fn constant_stream_is_what_the_hand_computes() {
    // 1 000 rows/s in batches of 100: one batch every 100 ms.
    let stream = Stream { row_bytes: 8, ..Stream::constant(1_000.0, 100) };
    let batches = take(&stream, 0, 3);
    let expected = |k: u64| Arrival {
        at: ProcessingTime(k * 100 * MS_NS),
        // The last row came into being just before the batch was sent.
        event_time: EventTime(k as i64 * 100 - 1),
        rows: 100,
        bytes: 800,
        watermark: Some(EventTime(k as i64 * 100 - 1)),
    };
    assert_eq!(batches, [expected(1), expected(2), expected(3)]);
    let later = Stream { start: ProcessingTime(S), event_zero: ProcessingTime(S / 2), ..stream };
    let first = take(&later, 0, 1)[0];
    assert_eq!((first.at, first.event_time), (ProcessingTime(1_100 * MS_NS), EventTime(599)));
    let clock = later.arrivals(0).unwrap().clock();
    assert_eq!(clock.due(first.event_time).plus_ns(MS_NS), first.at);
}

#[test]
fn ticks_carry_what_has_come_into_being() {
    // 25 rows/s in ticks of 100 ms: 2.5 rows a tick, in turn 2 and 3.
    let stream = Stream { batching: Batching::Every { ns: 100 * MS_NS }, ..Stream::constant(25.0, 1) };
    let rows: Vec<u32> = take(&stream, 0, 6).iter().map(|arrival| arrival.rows).collect();
    assert_eq!(rows, [2, 3, 2, 3, 2, 3]);
    // 4 rows/s: every third tick or so has a row, the others send nothing.
    let slow = Stream { rate: Rate::constant(4.0), ..stream };
    let at: Vec<u64> = take(&slow, 0, 4).iter().map(|arrival| arrival.at.0 / MS_NS).collect();
    assert_eq!(at, [300, 500, 800, 1_000]);
}

#[test]
fn a_stream_ends() {
    let stream = Stream { end: Some(ProcessingTime(S)), ..Stream::constant(10.0, 1) };
    assert_eq!(take(&stream, 0, 100).len(), 10);
    let sent = Watermarks::Sent { every_ms: 100, lag_ms: 0, delay: Delay::NONE };
    let stream = Stream { watermarks: sent, ..stream };
    assert_eq!(take(&stream, 0, 100).iter().filter(|arrival| arrival.rows > 0).count(), 10);
    for batching in [Batching::Rows(1), Batching::Every { ns: MS_NS }] {
        assert!(take(&Stream { batching, ..Stream::constant(0.0, 1) }, 0, 1).is_empty());
    }
}

#[test]
fn delays_reorder_and_arrivals_stay_in_order() {
    let stream = Stream {
        delay: Delay::Recorded { ns: [50 * MS_NS, 0, 10 * MS_NS].into() },
        watermarks: Watermarks::Behind { cadence: Cadence::Batch, lag_ms: 5 },
        ..Stream::constant(100.0, 1)
    };
    let seen: Vec<(u64, i64, Option<i64>)> = take(&stream, 0, 5)
        .iter()
        .map(|a| (a.at.0 / MS_NS, a.event_time.0, a.watermark.map(|w| w.0)))
        .collect();
    // Sent at 10, 20, …, 60 ms with delays 50, 0, 10: arrive at 60, 20, 40, 90, 50, 70. The late ones move no watermark.
    let expected =
        [(20, 19, Some(14)), (40, 29, Some(24)), (50, 49, Some(44)), (60, 9, None), (70, 59, Some(54))];
    assert_eq!(seen, expected);
}

#[test]
fn every_delay_is_the_sampled_one_and_no_row_is_lost() {
    for delay in [Delay::KLINK_UNIFORM, Delay::KLINK_ZIPF, Delay::AION_EXPONENTIAL, Delay::AION_GAMMA] {
        let stream = Stream {
            delay: delay.clone(),
            spacing: Spacing::Poisson,
            end: Some(ProcessingTime(20 * S)),
            ..Stream::constant(10_000.0, 10)
        };
        let arrivals = take(&stream, 4, usize::MAX);
        assert!(arrivals.is_sorted_by_key(|arrival| arrival.at));
        let n = arrivals.len() as f64;
        assert!((n - 20_000.0).abs() < 6.0 * 20_000.0_f64.sqrt(), "{n}");
        let (mean, variance) = delay.moments();
        let seen = arrivals.iter().map(|a| a.at.0 as f64 - a.event_time.0 as f64 * 1e6).sum::<f64>() / n;
        // Event time is cut to milliseconds: half of one on average.
        assert!((seen - mean - 5e5).abs() < 6.0 * (variance / n).sqrt() + 1e4, "{delay:?} {seen} {mean}");
    }
}

#[test]
fn poisson_ticks_have_poisson_counts() {
    let stream = Stream {
        spacing: Spacing::Poisson,
        batching: Batching::Every { ns: 10 * MS_NS },
        end: Some(ProcessingTime(1_000 * S)),
        ..Stream::constant(400.0, 1)
    };
    let arrivals = take(&stream, 5, usize::MAX);
    // 100 000 ticks with mean and variance 4; empty ticks send nothing.
    let ticks = 100_000.0;
    let sum: f64 = arrivals.iter().map(|a| f64::from(a.rows)).sum();
    let squares: f64 = arrivals.iter().map(|a| f64::from(a.rows).powi(2)).sum();
    let mean = sum / ticks;
    assert!((mean - 4.0).abs() < 6.0 * (4.0_f64 / ticks).sqrt(), "{mean}");
    // The variance of a sample variance is (μ₄ − σ⁴)/n with μ₄ = λ + 3λ² = 52.
    let variance = squares / ticks - mean * mean;
    assert!((variance - 4.0).abs() < 6.0 * ((52.0 - 16.0) / ticks).sqrt(), "{variance}");
    let empty = 1.0 - arrivals.len() as f64 / ticks;
    let expected = (-4.0_f64).exp();
    assert!((empty - expected).abs() < 6.0 * (expected * (1.0 - expected) / ticks).sqrt(), "{empty}");
}

#[test]
fn watermark_cadence_counts_time_or_rows() {
    let marks = |cadence| -> Vec<u64> {
        let watermarks = Watermarks::Behind { cadence, lag_ms: 0 };
        let stream = Stream { watermarks, ..Stream::constant(1_000.0, 10) };
        take(&stream, 0, 60).iter().filter(|a| a.watermark.is_some()).map(|a| a.at.0 / MS_NS).collect()
    };
    assert_eq!(marks(Cadence::Every { ns: 200 * MS_NS }), [10, 210, 410]);
    assert_eq!(marks(Cadence::Rows(200)), [200, 400, 600]);
    assert_eq!(marks(Cadence::Batch).len(), 60);
}

#[test]
fn sent_watermarks_have_their_own_delay() {
    let stream = Stream {
        watermarks: Watermarks::Sent {
            every_ms: 100,
            lag_ms: 20,
            delay: Delay::Recorded { ns: [5 * MS_NS, 230 * MS_NS, 5 * MS_NS, 5 * MS_NS].into() },
        },
        ..Stream::constant(10.0, 1)
    };
    let marks: Vec<Arrival> = take(&stream, 0, 20).into_iter().filter(|a| a.rows == 0).collect();
    let seen: Vec<(u64, i64, i64)> =
        marks.iter().map(|a| (a.at.0 / MS_NS, a.event_time.0, a.watermark.unwrap().0)).collect();
    // Made at 100, 200, 300, 400 …; the second is overtaken by the third and fourth.
    assert_eq!(seen[..4], [(105, 99, 79), (305, 299, 279), (405, 399, 379), (505, 499, 479)]);
}

#[test]
fn recorded_cycles_keep_time_going() {
    let arrival = |ms: u64| Arrival {
        at: ProcessingTime(ms * MS_NS),
        event_time: EventTime(ms as i64 - 5),
        rows: 2,
        bytes: 0,
        watermark: Some(EventTime(ms as i64 - 10)),
    };
    let mut recorded = Recorded::new(vec![arrival(30), arrival(10)], Some(100 * MS_NS));
    let seen: Vec<Arrival> = std::iter::from_fn(|| recorded.next()).take(4).collect();
    assert_eq!(seen, [arrival(10), arrival(30), arrival(110), arrival(130)]);
    let offered = recorded.offered().unwrap();
    assert_eq!((offered.rows_per_s, offered.batches_per_s), (40.0, 20.0));
    let mut once = Recorded::new(vec![arrival(1)], None);
    assert!(once.next().is_some() && once.next().is_none() && once.next().is_none());
    assert!(Recorded::new(vec![], Some(1)).next().is_none());
}

#[test]
fn seeds_repeat_and_differ() {
    let stream = Stream {
        rate: Rate::pareto(10_000.0),
        delay: Delay::KLINK_ZIPF,
        batching: Batching::Every { ns: 10 * MS_NS },
        ..Stream::constant(1.0, 1)
    };
    assert_eq!(take(&stream, 1, 500), take(&stream, 1, 500));
    assert_ne!(take(&stream, 1, 500), take(&stream, 2, 500));
}

#[test]
fn offered_is_the_long_run_rate() {
    let stream = Stream {
        watermarks: Watermarks::Sent { every_ms: 200, lag_ms: 0, delay: Delay::NONE },
        ..Stream::constant(1_000.0, 50)
    };
    assert_eq!(
        stream.arrivals(0).unwrap().offered(),
        Some(Offered { rows_per_s: 1_000.0, batches_per_s: 20.0, watermarks_per_s: 5.0 })
    );
}

mod any_stream {
    use proptest::prelude::*;

    use super::*;
    use crate::RatePoint;

    fn rates() -> impl Strategy<Value = Rate> {
        let rate = 0.0..2_000.0_f64;
        prop_oneof![
            rate.clone().prop_map(Rate::constant),
            rate.clone().prop_map(Rate::pareto),
            (rate.clone(), rate.clone(), 0..3_000_u64, 1..3_000_u64).prop_map(
                |(base, burst, duration, period)| {
                    Rate::Bursts {
                        base_rows_per_s: base,
                        burst_rows_per_s: burst,
                        duration_ns: duration * MS_NS,
                        period_ns: period * MS_NS,
                    }
                }
            ),
            (prop::collection::vec((1..2_000_u64, rate), 1..5), any::<bool>()).prop_map(|(gaps, is_ramp)| {
                let mut at_ns = 0;
                let points = gaps.into_iter().map(|(gap, rows_per_s)| {
                    at_ns += gap * MS_NS;
                    RatePoint { at_ns, rows_per_s }
                });
                let points = points.collect();
                if is_ramp { Rate::Ramps(points) } else { Rate::Steps(points) }
            }),
        ]
    }

    fn delays() -> impl Strategy<Value = Delay> {
        prop_oneof![
            Just(Delay::NONE),
            (0..50_u64, 0..200_u64).prop_map(|(low, more)| Delay::Uniform {
                low_ns: low * MS_NS,
                high_ns: (low + more) * MS_NS
            }),
            Just(Delay::KLINK_ZIPF),
        ]
    }

    fn batchings() -> impl Strategy<Value = Batching> {
        prop_oneof![
            (1..50_u32).prop_map(Batching::Rows),
            (1..300_u64).prop_map(|ms| Batching::Every { ns: ms * MS_NS }),
        ]
    }

    /// Rows up to an instant, summed millisecond by millisecond; `None` where they are drawn.
    fn integral(rate: &Rate, end_ns: u64) -> Option<f64> {
        let at = |ms: u64| -> Option<f64> {
            let before = |points: &[RatePoint]| points.iter().rfind(|p| p.at_ns <= ms * MS_NS).copied();
            match rate {
                Rate::Constant { rows_per_s } => Some(*rows_per_s),
                Rate::Pareto { .. } => None,
                Rate::Bursts { base_rows_per_s, burst_rows_per_s, duration_ns, period_ns } => {
                    let is_burst = ms * MS_NS % period_ns < *duration_ns;
                    Some(if is_burst { *burst_rows_per_s } else { *base_rows_per_s })
                }
                Rate::Steps(points) => Some(before(points).unwrap_or(points[0]).rows_per_s),
                Rate::Ramps(points) => {
                    let Some(from) = before(points) else { return Some(points[0].rows_per_s) };
                    let Some(to) = points.iter().find(|p| p.at_ns > from.at_ns) else {
                        return Some(from.rows_per_s);
                    };
                    let share =
                        (ms as f64 + 0.5 - from.at_ns as f64 / 1e6) * 1e6 / (to.at_ns - from.at_ns) as f64;
                    Some(from.rows_per_s + share * (to.rows_per_s - from.rows_per_s))
                }
            }
        };
        (0..end_ns / MS_NS).map(|ms| Some(at(ms)? / 1e3)).sum()
    }

    proptest! {
        /// Rows by the integral of the rate, arrivals in order, and watermarks that rise and are kept by every row
        /// where the lag covers the delays.
        #[test]
        fn keeps_its_promises(
            rate in rates(),
            delay in delays(),
            batching in batchings(),
            is_sent in any::<bool>(),
            seed in any::<u64>(),
        ) {
            let lag_ms = (delay.max_ns().unwrap() / MS_NS) as i64 + 1;
            let watermarks = if is_sent {
                Watermarks::Sent { every_ms: 70, lag_ms, delay: delay.clone() }
            } else {
                Watermarks::Behind { cadence: Cadence::Batch, lag_ms }
            };
            let end_ns = 5 * S;
            let stream = Stream {
                rate,
                batching,
                delay: delay.clone(),
                watermarks,
                end: Some(ProcessingTime(end_ns)),
                ..Stream::constant(1.0, 1)
            };
            let arrivals = take(&stream, seed, usize::MAX);
            prop_assert!(arrivals.is_sorted_by_key(|arrival| arrival.at));
            let mut watermark = i64::MIN;
            for arrival in &arrivals {
                let delayed_ms = (arrival.at.0 / MS_NS) as i64 - arrival.event_time.0;
                prop_assert!((0..=lag_ms).contains(&delayed_ms), "{arrival:?}");
                prop_assert!(arrival.rows == 0 || arrival.event_time.0 > watermark, "late: {arrival:?}");
                if let Some(new) = arrival.watermark {
                    prop_assert!(new.0 > watermark);
                    watermark = new.0;
                }
            }
            let rows: u64 = arrivals.iter().map(|arrival| u64::from(arrival.rows)).sum();
            let Some(expected) = integral(&stream.rate, end_ns) else { return Ok(()) };
            let last_batch = match batching {
                Batching::Rows(rows) => f64::from(rows),
                // A tick may still have been open.
                Batching::Every { ns } => {
                    let open_s = (end_ns % ns) as f64 / 1e9;
                    1.0 + open_s * 2_000.0
                }
            };
            let rows = rows as f64;
            prop_assert!(rows <= expected + 1e-3 && rows >= expected - last_batch - 1e-3, "{rows} {expected}");
        }
    }
}
