use laxity_workload::{Arrival, Arrivals};

/// What one source instance reads, and the batch it is about to take in.
#[derive(Debug)]
pub(crate) struct Feed {
    /// The source.
    pub operator: u32,
    arrivals: Box<dyn Arrivals>,
    /// Arrived, or about to.
    pub next: Option<Arrival>,
    /// Arrived, and held back.
    pub held: bool,
}

impl Feed {
    pub fn new(operator: u32, arrivals: Box<dyn Arrivals>) -> Feed {
        Feed { operator, arrivals, next: None, held: false }
    }

    /// Looks at the batch after this one.
    pub fn advance(&mut self) -> Option<Arrival> {
        self.next = self.arrivals.next();
        self.next
    }
}
