use laxity_sched::{MessageContext, Needs, Rank, Reads, WaitBound};

/// `sjf`: the operator whose next message is predicted to cost least goes first. Cameo §4.2: priority = C_o.
///
/// Least mean waiting time for independent messages; blind to deadlines. Does badly where urgent work is
/// dear, and starves dear work while cheap work keeps coming, hence the ageing guard.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sjf;

impl Rank for Sjf {
    fn needs(&self) -> Needs {
        let reads = Reads { costs: true, ..Reads::NOTHING };
        Needs { reads, ..Needs::by_message(WaitBound::Ageing) }
    }

    fn message(&mut self, context: &MessageContext) -> f64 {
        context.cost_ns as f64
    }
}
