use laxity_sched::{Cycled, Needs, Rank, Reads, Scale, Snapshot};

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
    fn needs(&self) -> Needs {
        let reads = Reads { queues: true, ..Reads::NOTHING };
        Needs { scale: Scale::Linear, reads, ..Needs::by_cycle(1_000_000_000) }
    }

    fn cycle<'a>(&'a mut self, snapshot: &Snapshot, priorities: &mut [f64]) -> Cycled<'a> {
        priorities.fill(0.0);
        for operator in &snapshot.operators {
            let behind = operator.downstream.iter().filter_map(|&id| snapshot.operator(id));
            let fullest = behind.map(|below| below.queued_rows).max().unwrap_or(0);
            let excess = operator.queued_rows.saturating_sub(fullest) as f64;
            let priority = &mut priorities[operator.unit as usize];
            *priority = priority.min(-excess);
        }
        Cycled::ALL
    }
}
