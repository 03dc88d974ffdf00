use laxity_graph::ProcessingTime;

use crate::check::{Checkers, Ending, Promise};
use crate::event::{Event, Trace};
use crate::topology::Topology;
use crate::{Setup, Violation};

/// Everybody who is told of every event.
#[derive(Debug)]
pub(crate) struct Watch {
    pub trace: Trace,
    checkers: Option<Checkers>,
}

impl Watch {
    pub fn new(topology: &Topology, setup: &Setup, promise: Promise) -> Watch {
        Watch {
            trace: Trace::new(setup.keep.trace),
            checkers: setup.keep.checks.then(|| Checkers::new(topology, setup, promise)),
        }
    }

    pub fn on(&mut self, at: ProcessingTime, event: Event) {
        self.trace.on(at, &event);
        if let Some(checkers) = &mut self.checkers {
            checkers.on(at, &event);
        }
    }

    /// A machine has given out what it had, and so many cores have nothing to do.
    pub fn settled(&mut self, machine: u32, idle: usize) {
        if let Some(checkers) = &mut self.checkers {
            checkers.settled(machine, idle);
        }
    }

    /// Another policy promises something else from now on.
    pub fn promised(&mut self, at: ProcessingTime, promise: Promise) {
        if let Some(checkers) = &mut self.checkers {
            checkers.promised(at, promise);
        }
    }

    pub fn end(&mut self, at: ProcessingTime, ending: &Ending) -> Vec<Violation> {
        self.checkers.take().map_or_else(Vec::new, |checkers| checkers.end(at, ending))
    }
}
