//! How old the head of a queue is in an engine that tells only how many rows came and how many were taken.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

/// How long the first row of each queue has waited, from counters alone.
///
/// Queues are first in, first out: the row that an operator takes next is number `taken + 1` of those that came, so
/// it came when the count of arrivals passed `taken`. Exact to the time between two samples, interpolated in it.
#[derive(Debug, Default)]
pub(crate) struct HeadAges {
    arrivals: HashMap<Arc<str>, Arrivals>,
}

#[derive(Debug, Default)]
struct Arrivals {
    /// (instant in ms, rows arrived so far), both rising; the first stands for all before it.
    points: VecDeque<(f64, f64)>,
    seen: bool,
}

/// Points kept per operator: at a period of 1 s, queues up to ten minutes old are told exactly.
const POINTS: usize = 600;

impl HeadAges {
    /// Age of the first waiting row at `now_ms`, where `arrived` rows have come and `taken` were taken.
    pub fn age_ms(&mut self, key: &Arc<str>, now_ms: f64, arrived: f64, taken: f64) -> f64 {
        let arrivals = self.arrivals.entry(key.clone()).or_default();
        arrivals.seen = true;
        let points = &mut arrivals.points;
        if points.back().is_some_and(|&(_, before)| arrived < before) {
            points.clear();
        }
        // A pause needs its two ends only.
        let pauses =
            points.len() >= 2 && points.range(points.len() - 2..).all(|&(_, count)| count == arrived);
        match points.back_mut() {
            Some(last) if pauses || last.0 >= now_ms => *last = (now_ms.max(last.0), arrived),
            _ => points.push_back((now_ms, arrived)),
        }
        if arrived <= taken {
            points.drain(..points.len() - 1);
            return 0.0;
        }
        // What was taken by the second point needs no first one.
        while points.len() > POINTS || points.get(1).is_some_and(|&(_, count)| count <= taken) {
            points.pop_front();
        }
        let (from_ms, from) = points[0];
        let came_ms = match points.get(1) {
            Some(&(to_ms, to)) if from <= taken => from_ms + (to_ms - from_ms) * (taken - from) / (to - from),
            _ => from_ms,
        };
        now_ms - came_ms
    }

    /// Forgets the operators not asked for since the last call.
    pub fn sweep(&mut self) {
        self.arrivals.retain(|_, arrivals| std::mem::take(&mut arrivals.seen));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_head_came_when_the_count_passed_what_was_taken() {
        let (mut ages, key) = (HeadAges::default(), Arc::from("a"));
        assert_eq!(ages.age_ms(&key, 0.0, 100.0, 100.0), 0.0);
        // 100 rows came in this second, 25 were taken: the head came at 250 ms.
        assert_eq!(ages.age_ms(&key, 1_000.0, 200.0, 125.0), 750.0);
        // Nothing taken, nothing came: it only gets older.
        assert_eq!(ages.age_ms(&key, 2_000.0, 200.0, 125.0), 1_750.0);
        // 200 more came in the last second, of which 100 are taken.
        assert_eq!(ages.age_ms(&key, 3_000.0, 400.0, 300.0), 500.0);
        assert_eq!(ages.age_ms(&key, 4_000.0, 400.0, 400.0), 0.0);
    }

    #[test]
    fn a_queue_older_than_the_agent_is_as_old_as_the_agent() {
        let (mut ages, key) = (HeadAges::default(), Arc::from("a"));
        assert_eq!(ages.age_ms(&key, 0.0, 500.0, 0.0), 0.0);
        assert_eq!(ages.age_ms(&key, 1_000.0, 600.0, 10.0), 1_000.0);
    }
}
