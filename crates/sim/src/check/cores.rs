use std::collections::HashMap;

use super::Found;
use crate::event::Event;

/// An operator runs on one core at a time, and a core runs one operator.
#[derive(Debug, Default)]
pub(super) struct Cores {
    /// By machine and core: what it runs.
    runs: HashMap<(u32, u32), u32>,
    /// By operator: where it runs.
    at: HashMap<u32, (u32, u32)>,
    /// Operators that must go on with what they left before they take a message.
    left: HashMap<u32, ()>,
}

impl Cores {
    pub fn on(&mut self, event: &Event, found: &mut Found) {
        match *event {
            Event::Granted { machine, core, operator, message } => {
                if let Some(other) = self.runs.insert((machine, core), operator) {
                    found.say("a core runs one operator at a time", || {
                        format!(
                            "core {core} of machine {machine} got operator {operator} while it ran {other}"
                        )
                    });
                }
                if let Some((m, c)) = self.at.insert(operator, (machine, core)) {
                    found.say("an operator runs on one core at a time", || {
                        format!("operator {operator} was given to core {core} of machine {machine} while core {c} of {m} ran it")
                    });
                }
                let left = self.left.remove(&operator).is_some();
                if left != message.is_none() {
                    found.say("an operator finishes a message before it takes the next", || {
                        format!("operator {operator} was granted {message:?} and had left work: {left}")
                    });
                }
            }
            Event::Finished { machine, core, operator, more, .. } => {
                if self.runs.remove(&(machine, core)) != Some(operator) {
                    found.say("a run that ends has begun", || {
                        format!(
                            "operator {operator} ended on core {core} of machine {machine}, which did not run it"
                        )
                    });
                }
                self.at.remove(&operator);
                if more {
                    self.left.insert(operator, ());
                }
            }
            Event::Idle { machine, core } => {
                if let Some(operator) = self.runs.get(&(machine, core)) {
                    found.say("a core that runs is not idle", || {
                        format!("core {core} of machine {machine} was idle while it ran operator {operator}")
                    });
                }
            }
            _ => {}
        }
    }
}
