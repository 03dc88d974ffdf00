//! What a table waits for outside, and since when: told by the thread that waits, asked for by whoever shows it.
// The time of the outside is asked for here, and nowhere where rows are.
#![allow(clippy::disallowed_methods)]

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use laxity_graph::EventTime;
use parking_lot::Mutex;

/// Of one table that is open for one reader or writer, or of several; clones are the same one.
#[derive(Clone, Debug, Default)]
pub struct Waiting(Arc<Mutex<Option<Wait>>>);

/// A wait under way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wait {
    /// For whom: "Kafka at 127.0.0.1:9092".
    pub service: String,
    /// What it said last, or what its silence looks like.
    pub why: String,
    /// The wall clock when it began.
    pub since: EventTime,
}

impl Waiting {
    /// It is waited for `service`. The first call of a wait begins it, and logs it for the table.
    pub fn begin(&self, table: &str, service: &str, why: &str) {
        let mut wait = self.0.lock();
        match &mut *wait {
            Some(wait) if wait.service == service => why.clone_into(&mut wait.why),
            _ => {
                tracing::warn!(table, "waiting for {service}: {why}");
                *wait = Some(Wait { service: service.to_owned(), why: why.to_owned(), since: wall_clock() });
            }
        }
    }

    /// Who was waited for has answered; nothing where nobody was.
    pub fn end(&self, table: &str) {
        let Some(Wait { service, since, .. }) = self.0.lock().take() else { return };
        let waited_s = wall_clock().0.saturating_sub(since.0).max(0) / 1_000;
        tracing::warn!(table, "{service} answers again, after {waited_s} s");
    }

    /// The wait under way, if there is one.
    pub fn get(&self) -> Option<Wait> {
        self.0.lock().clone()
    }
}

fn wall_clock() -> EventTime {
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    EventTime(i64::try_from(since_1970.as_millis()).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_begins_once_and_ends() {
        let waiting = Waiting::default();
        assert_eq!(waiting.get(), None);
        let seen = waiting.clone();
        waiting.begin("t", "Kafka at h:1", "no answer");
        let first = seen.get().expect("a wait");
        waiting.begin("t", "Kafka at h:1", "refused");
        let second = seen.get().expect("a wait");
        assert_eq!((first.since, second.why.as_str()), (second.since, "refused"));
        assert!(first.since.0 > 1_700_000_000_000, "a wall clock in milliseconds");
        waiting.end("t");
        assert_eq!(seen.get(), None);
    }
}
