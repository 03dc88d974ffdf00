use laxity_sched::Scale;

use super::Schedule;

/// What queue lengths mean to an operating system.
///
/// A rank by queues is made for a scheduler that looks again at once. A thread keeps its nice value for a period, in
/// which its queue fills and empties many times, and most operators' queues are nearly empty at any instant: by their
/// lengths there and then, three rows beside none would span the whole range. So lengths are averaged, and twice the
/// queue is twice the weight: −ln(1 + average). Lachesis' code does both (its text says linear, §5.3), over ten seconds.
#[derive(Debug, Default)]
pub(super) struct Queues {
    generation: u64,
    at_ns: u64,
    /// By place: the averaged key. `None`: not seen yet.
    averages: Vec<Option<f64>>,
}

/// Time constant of the averages, ns.
const AVERAGED_OVER_NS: f64 = 10e9;

impl Queues {
    /// Keys are minus lengths before, and what [`Queues`] says after. Another generation has other operators.
    pub fn average(&mut self, schedule: &mut Schedule, generation: u64, now_ns: u64) {
        if self.generation != generation || self.averages.len() != schedule.priorities.len() {
            *self = Queues { generation, at_ns: now_ns, averages: vec![None; schedule.priorities.len()] };
        }
        let kept = (-(now_ns.saturating_sub(self.at_ns) as f64) / AVERAGED_OVER_NS).exp();
        self.at_ns = now_ns;
        for (key, average) in schedule.priorities.iter_mut().zip(&mut self.averages) {
            let Some(key) = key else { continue };
            let averaged = average.map_or(*key, |average| kept * average + (1.0 - kept) * *key);
            *average = Some(averaged);
            *key = -(-averaged).max(0.0).ln_1p();
        }
        schedule.scale = Scale::Logarithmic;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn averaged(queues: &mut Queues, generation: u64, now_s: u64, lengths: [Option<f64>; 2]) -> Vec<f64> {
        let priorities = lengths.map(|length| length.map(|length| -length)).to_vec();
        let mut schedule = Schedule { priorities, scale: Scale::Linear };
        queues.average(&mut schedule, generation, now_s * 1_000_000_000);
        assert_eq!(schedule.scale, Scale::Logarithmic);
        schedule.priorities.into_iter().map(|key| key.map_or(f64::NAN, |key| (-key).exp_m1())).collect()
    }

    #[test]
    fn lengths_are_averaged_over_ten_seconds() {
        let mut queues = Queues::default();
        let close = |found: &[f64], wanted: [f64; 2]| {
            assert!(found.iter().zip(wanted).all(|(a, b)| (a - b).abs() < 1e-9), "{found:?}");
        };
        close(&averaged(&mut queues, 0, 100, [Some(8.0), Some(0.0)]), [8.0, 0.0]);
        // After ten seconds 1/e is left of what was.
        let kept = (-1.0f64).exp();
        close(&averaged(&mut queues, 0, 110, [Some(0.0), Some(100.0)]), [8.0 * kept, 100.0 * (1.0 - kept)]);
        // Other operators have no past.
        close(&averaged(&mut queues, 1, 111, [Some(3.0), Some(5.0)]), [3.0, 5.0]);
    }

    #[test]
    fn who_has_no_data_keeps_its_average() {
        let mut queues = Queues::default();
        averaged(&mut queues, 0, 0, [Some(8.0), Some(1.0)]);
        assert!(averaged(&mut queues, 0, 1_000, [None, Some(1.0)])[0].is_nan());
        assert!((averaged(&mut queues, 0, 1_000, [Some(0.0), Some(1.0)])[0] - 8.0).abs() < 1e-9);
    }
}
