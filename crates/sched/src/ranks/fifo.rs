use crate::{Needs, Rank, WaitBound};

/// `fifo`: operators run in the order in which they became ready, as in an engine with one global run queue.
///
/// Cameo §6, baseline "FIFO". All priorities are equal, so the run queue's order of arrival decides; an
/// operator whose quantum is over joins at the end. Does badly whenever work differs in urgency: everyone
/// waits for everyone.
#[derive(Clone, Copy, Debug, Default)]
pub struct Fifo;

impl Rank for Fifo {
    fn needs(&self) -> Needs {
        Needs::by_turn(WaitBound::Turns)
    }
}
