use laxity_sched::{Rank, Scale, Snapshot, WaitBound};

/// `congestion`: the operator whose queue exceeds those behind it by most goes first.
///
/// Queue sizes alone let an operator run on while the one behind it cannot take more. Back-pressure, or max-weight,
/// scheduling (Tassiulas, Ephremides 1992, §III) ranks by the difference instead, which is known to keep queues finite
/// wherever any schedule does.
///
/// | Symbol | Field | Unit |
/// | --- | --- | --- |
/// | Q_o | `queued_rows` | rows |
/// | D(o) | `downstream` | – |
///
/// w_o = max(0, Q_o − max over d in D(o) of Q_d), higher first. Deviates in leaving out the service rate, which on
/// one core per thread is that of the thread's share. Does badly for latency at light load: it knows no target.
#[derive(Clone, Copy, Debug, Default)]
pub struct Congestion;

impl Rank for Congestion {
    fn name(&self) -> &'static str {
        "congestion"
    }

    fn wait_bound(&self) -> WaitBound {
        WaitBound::Ageing
    }

    fn scale(&self) -> Scale {
        Scale::Linear
    }

    fn period_ns(&self) -> Option<u64> {
        Some(1_000_000_000)
    }

    fn cycle(&mut self, snapshot: &Snapshot, priorities: &mut [f64]) {
        priorities.fill(0.0);
        for operator in &snapshot.operators {
            let behind = operator.downstream.iter().filter_map(|&id| snapshot.operator(id));
            let fullest = behind.map(|below| below.queued_rows).max().unwrap_or(0);
            let excess = operator.queued_rows.saturating_sub(fullest) as f64;
            let priority = &mut priorities[operator.unit as usize];
            *priority = priority.min(-excess);
        }
    }
}
