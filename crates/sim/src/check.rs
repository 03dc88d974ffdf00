//! Checkers: they see events, never the inside of the scheduler, and say what must not have happened.
//!
//! | Rule | Where |
//! | --- | --- |
//! | time never runs back; no message lost or doubled; channels keep their order | [`messages`] |
//! | an operator runs on one core, a core runs one operator | [`cores`] |
//! | no core is idle while a unit is ready; a ready unit waits no longer than its rank says | [`waits`] |
//! | rows in are rows out, late, held or queued; watermarks only rise | [`rows`] |

mod cores;
mod messages;
mod rows;
#[cfg(test)]
mod tests;
mod waits;

use laxity_graph::ProcessingTime;
use laxity_sched::{Unit, WaitBound};

use self::cores::Cores;
use self::messages::Messages;
use self::rows::Rows;
use self::waits::Waits;
use crate::event::Event;
use crate::topology::Topology;
use crate::{Setup, Violation};

/// All of them.
#[derive(Debug)]
pub(crate) struct Checkers {
    messages: Messages,
    cores: Cores,
    waits: Waits,
    rows: Rows,
    found: Found,
}

/// What must hold between a policy and those that wait.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Promise {
    pub unit: Unit,
    /// `None`: nobody promised anything.
    pub bound: Option<WaitBound>,
    /// Schedulers on a machine: with several, a bound is that of one worker.
    pub shards: usize,
}

/// What the world knows at the end, to be compared with what was seen.
#[derive(Debug, Default)]
pub(crate) struct Ending {
    /// By operator: messages that wait.
    pub waiting: Vec<u64>,
    /// By operator: rows that are in its windows, and rows that were in windows that have closed.
    pub held_rows: Vec<u64>,
    pub closed_rows: Vec<u64>,
    /// By operator: rows of the message in hand that are not in windows, less those that no event told of yet.
    pub in_hand_rows: Vec<i64>,
    /// By route: rows between machines.
    pub travelling_rows: Vec<u64>,
    /// Everything taken in must have been worked off.
    pub drained: bool,
}

/// Violations so far.
#[derive(Debug)]
pub(super) struct Found {
    at: ProcessingTime,
    seed: u64,
    violations: Vec<Violation>,
}

impl Checkers {
    pub fn new(topology: &Topology, setup: &Setup, promise: Promise) -> Checkers {
        Checkers {
            messages: Messages::default(),
            cores: Cores::default(),
            waits: Waits::new(topology, setup, promise),
            rows: Rows::new(topology, setup),
            found: Found { at: ProcessingTime::ZERO, seed: setup.seed, violations: Vec::new() },
        }
    }

    pub fn on(&mut self, at: ProcessingTime, event: &Event) {
        if at < self.found.at {
            self.found.say("time never runs back", || format!("it is {} ns after that", at.0));
        }
        self.found.at = at;
        self.messages.on(event, &mut self.found);
        self.cores.on(event, &mut self.found);
        self.waits.on(at, event, &mut self.found);
        self.rows.on(event, &mut self.found);
    }

    /// A machine has given out what it had, and so many cores have nothing to do.
    pub fn settled(&mut self, machine: u32, idle: usize) {
        if idle > 0 {
            self.waits.settled(machine, &mut self.found);
        }
    }

    /// Another policy promises something else from now on.
    pub fn promised(&mut self, at: ProcessingTime, promise: Promise) {
        self.waits.promised(at, promise);
    }

    pub fn end(mut self, at: ProcessingTime, ending: &Ending) -> Vec<Violation> {
        self.found.at = at;
        self.messages.end(ending, &mut self.found);
        self.waits.end(at, &mut self.found);
        self.rows.end(ending, &mut self.found);
        self.found.violations
    }
}

impl Found {
    /// Notes a violation. Many are as good as the first.
    pub fn say(&mut self, rule: &'static str, seen: impl FnOnce() -> String) {
        if self.violations.len() < VIOLATIONS_MAX {
            let (at, seed) = (self.at, self.seed);
            self.violations.push(Violation { at, rule, seen: seen(), seed });
        }
    }
}

const VIOLATIONS_MAX: usize = 20;
