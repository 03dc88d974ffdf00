use laxity_sched::{Event, MessageContext, Needs, Rank, Snapshot, WaitBound};

/// `wfq`: by deadline while a query stays within its share of the machine, later by as much as it is ahead of it.
///
/// Virtual clocks (Zhang, SIGCOMM 1990) on top of deadlines: F_q is when everything that q sent so far would be done if
/// q had its share alone. k_M = t_MF + L + (F_q − now), with F_q = max(F_q, now) + C_o · Σ weights / (weight · workers).
#[derive(Debug, Default)]
pub struct WeightedFair {
    /// By query id: F_q.
    done_ns: Vec<f64>,
    /// Σ weights / workers.
    weights: f64,
}

impl Rank for WeightedFair {
    fn needs(&self) -> Needs {
        // A look at the whole every 10 ms, for the weights; the core's guard for who is always ahead.
        Needs { inherits: true, look_every_ns: Some(10_000_000), ..Needs::by_message(WaitBound::Ageing) }
    }

    fn message(&mut self, message: &MessageContext) -> f64 {
        let (query, now_ns) = (message.query.index(), message.now.0 as f64);
        self.done_ns.resize(self.done_ns.len().max(query + 1), 0.0);
        let cost_ns = message.cost_ns as f64 * self.weights / message.weight;
        self.done_ns[query] = self.done_ns[query].max(now_ns) + cost_ns;
        message.deadline().0 as f64 + (self.done_ns[query] - now_ns)
    }

    fn review(&mut self, snapshot: &Snapshot) -> bool {
        let weights: f64 = snapshot.queries.iter().map(|query| query.weight).sum();
        self.weights = weights / snapshot.workers as f64;
        false
    }

    fn on(&mut self, event: Event) {
        if let Event::Removed { query } = event
            && let Some(done_ns) = self.done_ns.get_mut(query.index())
        {
            *done_ns = 0.0;
        }
    }
}
