use crate::{MessageContext, Needs, Rank, WaitBound};

/// `edf`: earliest deadline first. Cameo §4.2: [`super::Llf`] without the operator's own cost, t_MF + L − C_path(o).
///
/// The path behind the operator stays in, because the deadline is the query's, at the sink. Optimal on one
/// worker while all deadlines can be met; under overload it can miss nearly all of them one after the other.
#[derive(Clone, Copy, Debug, Default)]
pub struct Edf;

impl Rank for Edf {
    fn needs(&self) -> Needs {
        Needs { inherits: true, instants: true, ..Needs::by_message(WaitBound::Deadline) }
    }

    fn message(&mut self, context: &MessageContext) -> f64 {
        context.deadline().0 as f64 - context.path_cost_ns as f64
    }
}
