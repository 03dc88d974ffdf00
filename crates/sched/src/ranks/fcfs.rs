use crate::{MessageContext, Needs, Rank, Reads, WaitBound};

/// `fcfs`: the operator that holds the oldest message, by its ingestion into the system (t_M), goes first.
///
/// Klink §6.1.1 and the thesis' baseline "FCFS". Age is measured from ingestion, not from arrival at this operator,
/// so work that is half done goes before work that has just come in. The order of ages never changes, so t_M
/// itself is the key. Does badly when a heavy query falls behind: its old messages hold back every other query.
#[derive(Clone, Copy, Debug, Default)]
pub struct Fcfs;

impl Rank for Fcfs {
    fn needs(&self) -> Needs {
        let reads = Reads { ages: true, ..Reads::NOTHING };
        Needs { inherits: true, reads, ..Needs::by_message(WaitBound::Deadline) }
    }

    fn message(&mut self, context: &MessageContext) -> f64 {
        context.ingested.0 as f64
    }
}
