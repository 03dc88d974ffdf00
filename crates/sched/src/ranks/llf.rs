use crate::{MessageContext, Needs, Rank, WaitBound};

/// `llf`: least laxity first. The operator whose next message must be started soonest goes first.
///
/// Cameo §4.2, Eq. 3: ddl_M = t_MF + L − C_o − C_path. Laxity is ddl_M − now; now is the same for all, so the
/// start deadline itself is the key.
///
/// | Symbol | Field | Unit |
/// | --- | --- | --- |
/// | t_MF | [`MessageContext::frontier`] | ns |
/// | L | [`MessageContext::target_ns`] | ns |
/// | C_o(n) | [`MessageContext::cost_ns`] | ns |
/// | C_path(o) | [`MessageContext::path_cost_ns`] | ns |
///
/// Deviates from the paper in that a message makes all that stand before it in its mailbox as urgent
/// ([`Needs::inherits`]): the watermark that closes a window may stand behind rows that were deferred.
/// Does badly under overload, like EDF: the latest go first although they are lost.
#[derive(Clone, Copy, Debug, Default)]
pub struct Llf;

impl Rank for Llf {
    fn needs(&self) -> Needs {
        Needs { inherits: true, instants: true, ..Needs::by_message(WaitBound::Deadline) }
    }

    fn message(&mut self, context: &MessageContext) -> f64 {
        context.deadline().0 as f64 - (context.cost_ns as f64 + context.path_cost_ns as f64)
    }
}
