//! Checkpoints that somebody asks for, besides those that are due.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use super::{Checkpoints, Keeping};
use crate::clock::Clock;
use crate::snapshot::CheckpointSnapshot;

/// Whether somebody waits for the next one of a query.
#[derive(Default)]
pub(crate) struct Asking(Mutex<State>);

#[derive(Clone, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Nobody,
    Asked,
    /// It is being written, under this number.
    Taken(u64),
    Refused(String),
}

impl Asking {
    /// One is to be taken now, also if nothing has come since the last.
    pub fn is_asked(&self) -> bool {
        *self.0.lock() == State::Asked
    }

    pub fn ask(&self) {
        *self.0.lock() = State::Asked;
    }

    pub fn take(&self, number: u64) {
        let mut state = self.0.lock();
        if *state == State::Asked {
            *state = State::Taken(number);
        }
    }

    pub fn refuse(&self, why: &str) {
        let mut state = self.0.lock();
        if *state != State::Nobody {
            let why = if why.is_empty() { "the query ends, or begins just now" } else { why };
            *state = State::Refused(why.to_owned());
        }
    }
}

impl Checkpoints {
    /// Takes one of the query of that name now, or of all that have some: what came of each. Waits until they are safe,
    /// `patience` at most.
    pub fn take_now(
        &self,
        clock: &Clock,
        query: Option<&str>,
        patience: Duration,
    ) -> Vec<(String, Result<CheckpointSnapshot, String>)> {
        let named = |keeping: &Keeping| query.is_none_or(|name| keeping.query.settings.name == name);
        let asked: Vec<Arc<Keeping>> = {
            let state = self.state.lock();
            let kept = state.kept.iter().map(|due| &due.keeping);
            kept.filter(|keeping| named(keeping) && !keeping.query.stopped()).cloned().collect()
        };
        asked.iter().for_each(|keeping| keeping.asking.ask());
        self.wake.notify_all();
        let deadline = clock.now().plus(patience);
        let answers = asked.iter().map(|keeping| {
            let answer = loop {
                if let Some(answer) = keeping.answer(clock) {
                    break answer;
                }
                if clock.now() >= deadline {
                    break Err("it is not safe yet; it is being gone on with".to_owned());
                }
                std::thread::sleep(LOOK);
            };
            (keeping.query.settings.name.clone(), answer)
        });
        answers.collect()
    }
}

/// How often it is seen whether one is safe.
const LOOK: Duration = Duration::from_millis(2);

impl Keeping {
    /// What has come of asking; `None` as long as that is not known.
    fn answer(&self, clock: &Clock) -> Option<Result<CheckpointSnapshot, String>> {
        let mut state = self.asking.0.lock();
        let last = self.query.last_checkpoint();
        let answer = match &*state {
            State::Refused(why) => Err(why.clone()),
            State::Taken(number) => {
                let safe = last.filter(|last| last.number >= *number);
                let stopped = || self.query.stopped().then(|| Err("the query has ended".to_owned()));
                safe.map(|last| Ok(CheckpointSnapshot::of(&last, clock.now()))).or_else(stopped)?
            }
            State::Asked if self.query.stopped() => Err("the query has ended".to_owned()),
            State::Asked | State::Nobody => return None,
        };
        *state = State::Nobody;
        Some(answer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_did_not_ask_gets_no_answer() {
        let asking = Asking::default();
        asking.refuse("no");
        asking.take(7);
        assert_eq!(*asking.0.lock(), State::Nobody);
        asking.ask();
        assert!(asking.is_asked());
        asking.take(8);
        assert!(!asking.is_asked());
        assert_eq!(*asking.0.lock(), State::Taken(8));
        // What was taken may still fail to be written.
        asking.refuse("the disk is full");
        assert_eq!(*asking.0.lock(), State::Refused("the disk is full".to_owned()));
    }
}
