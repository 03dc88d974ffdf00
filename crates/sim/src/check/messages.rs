use std::collections::HashMap;

use super::{Ending, Found};
use crate::event::Event;

/// Every message is granted once, and in order of its channel.
#[derive(Debug, Default)]
pub(super) struct Messages {
    /// Those that wait: of whom, and by which channel.
    waiting: HashMap<u64, (u32, u32)>,
    /// By operator: how many wait.
    counts: Vec<u64>,
    /// The last message that each channel gave.
    last: HashMap<(u32, u32), u64>,
}

impl Messages {
    pub fn on(&mut self, event: &Event, found: &mut Found) {
        match *event {
            Event::Enqueued { operator, channel, message, .. } => {
                if self.waiting.insert(message, (operator, channel)).is_some() {
                    found.say("a message is enqueued once", || format!("message {message} was again"));
                    return;
                }
                let index = operator as usize;
                if self.counts.len() <= index {
                    self.counts.resize(index + 1, 0);
                }
                self.counts[index] += 1;
            }
            Event::Granted { operator, message: Some(message), .. }
            | Event::Merged { operator, message, .. } => self.take(operator, message, found),
            _ => {}
        }
    }

    fn take(&mut self, operator: u32, message: u64, found: &mut Found) {
        let Some((owner, channel)) = self.waiting.remove(&message) else {
            found.say("a message is granted once, after it was enqueued", || {
                format!("message {message} was given to operator {operator} without waiting for it")
            });
            return;
        };
        self.counts[owner as usize] -= 1;
        if owner != operator {
            found.say("a message is granted to its operator", || {
                format!("message {message} of operator {owner} was given to operator {operator}")
            });
        }
        let last = self.last.insert((owner, channel), message);
        if last.is_some_and(|last| last > message) {
            found.say("messages of a channel are granted in the order enqueued", || {
                format!(
                    "operator {operator} got message {message} of channel {channel} after message {}",
                    last.unwrap_or_default()
                )
            });
        }
    }

    pub fn end(&self, ending: &Ending, found: &mut Found) {
        for (operator, &waiting) in ending.waiting.iter().enumerate() {
            let seen = self.counts.get(operator).copied().unwrap_or(0);
            if seen != waiting {
                found.say("no message is lost", || {
                    format!("{seen} messages were enqueued for operator {operator} and not granted, {waiting} wait")
                });
            }
        }
        if ending.drained && !self.waiting.is_empty() {
            found.say("what is drained has nothing left", || format!("{} messages wait", self.waiting.len()));
        }
    }
}
