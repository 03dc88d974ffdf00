//! What a user is told whose text names no policy: which part is wrong, and what could stand there.

use super::parse::PARTS;
use super::parts::list;

/// What is wrong with the text of a policy. The user can fix it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnknownPolicy {
    /// The name is none of ours.
    #[error(
        "no policy is named {name:?}; expected one of {known}, or parts as in \
         unit=query,rank=fcfs,traversal=by-rank,train=all"
    )]
    Policy {
        /// What was asked for.
        name: String,
        /// What there is.
        known: String,
    },
    /// A part that there is not.
    #[error("in {policy:?}: {part:?} is no part of a policy; expected {}, each as NAME=CHOICE", list(&PARTS))]
    Part {
        /// The whole.
        policy: String,
        /// What was asked for.
        part: String,
    },
    /// A part is given twice.
    #[error("in {policy:?}: {part} is given twice; leave one of them out")]
    Twice {
        /// The whole.
        policy: String,
        /// The part.
        part: String,
    },
    /// A choice that there is not.
    #[error("in {policy:?}: no {part} is named {choice:?}; expected {expected}")]
    Choice {
        /// The whole.
        policy: String,
        /// The part.
        part: &'static str,
        /// What was asked for.
        choice: String,
        /// What there is.
        expected: String,
    },
    /// A parameter of a choice is not what it must be.
    #[error("in {policy:?}: {choice} does not take {value:?}; expected {expected}")]
    Value {
        /// The whole.
        policy: String,
        /// The choice.
        choice: String,
        /// Its parameter.
        value: String,
        /// What it must be.
        expected: String,
    },
}

/// What a part finds wrong, before it is known of which policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// There is no such choice.
    Choice {
        /// The part.
        part: &'static str,
        /// What was asked for.
        choice: String,
        /// What there is.
        expected: String,
    },
    /// The choice does not take this.
    Value {
        /// The choice.
        choice: String,
        /// Its parameter.
        value: String,
        /// What it must be.
        expected: String,
    },
}

impl Fault {
    /// The choice does not take this.
    pub fn value(choice: impl Into<String>, value: &str, expected: impl Into<String>) -> Fault {
        Fault::Value { choice: choice.into(), value: value.to_owned(), expected: expected.into() }
    }

    pub(super) fn unknown(part: &'static str, choice: &str, known: &[&str]) -> Fault {
        Fault::Choice { part, choice: choice.to_owned(), expected: list(known) }
    }

    pub(super) fn of(self, policy: &str) -> UnknownPolicy {
        let policy = policy.to_owned();
        match self {
            Fault::Choice { part, choice, expected } => {
                UnknownPolicy::Choice { policy, part, choice, expected }
            }
            Fault::Value { choice, value, expected } => {
                UnknownPolicy::Value { policy, choice, value, expected }
            }
        }
    }
}
