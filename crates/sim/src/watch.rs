use laxity_graph::ProcessingTime;

use crate::event::{Event, Trace};
use crate::{Setup, Violation};

/// Everybody who is told of every event.
#[derive(Debug)]
pub(crate) struct Watch {
    pub trace: Trace,
    pub violations: Vec<Violation>,
}

impl Watch {
    pub fn new(setup: &Setup) -> Watch {
        Watch { trace: Trace::new(setup.keep.trace), violations: Vec::new() }
    }

    pub fn on(&mut self, at: ProcessingTime, event: Event) {
        self.trace.on(at, &event);
    }
}
