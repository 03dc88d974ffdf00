use laxity_sched::{MessageContext, Needs, Rank, WaitBound};

/// Orleans 1.5's run queue, as Cameo §6 describes the default it compares with: a `ConcurrentBag`, in which a
/// thread takes the task it put in last, and only without one of its own the oldest of another thread.
///
/// Tasks that workers make go before those that come in from outside, last in first out; those that come in,
/// into a source or from another machine, were put in by the threads of the network and are stolen in order of arrival.
///
/// Deviation: there is one bag of the workers, not one per worker.
///
/// Bad where more work comes down the pipeline than it can take: what came in waits without bound.
#[derive(Debug, Default)]
pub(crate) struct Orleans {
    joins: f64,
}

/// Tells a message from outside from one made here.
const OUTSIDE: f64 = 1.0;
const INSIDE: f64 = -1.0;

impl Rank for Orleans {
    fn needs(&self) -> Needs {
        Needs::by_message(WaitBound::Ageing)
    }

    fn message(&mut self, context: &MessageContext) -> f64 {
        if context.is_from_outside { OUTSIDE } else { INSIDE }
    }

    fn join(&mut self, _unit: u32, head: f64) -> f64 {
        self.joins += 1.0;
        head * self.joins
    }
}
