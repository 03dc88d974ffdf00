//! When sources that judge rows by their arrival want to be told the time, and which table tells them: behind all rows that
//! were due by then, which no clock beside the table can know.

use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

use laxity_graph::{OperatorId, ProcessingTime};
use parking_lot::Mutex;

/// Of one query. Nothing else is locked while its lock is held.
#[derive(Debug, Default)]
pub(crate) struct AskedTimes {
    is_any: AtomicBool,
    sources: Mutex<Vec<Asking>>,
}

#[derive(Debug)]
struct Asking {
    source: OperatorId,
    /// Who reads for it, once that looked.
    table: Option<OperatorId>,
    at: Option<ProcessingTime>,
    step_ms: i64,
}

impl AskedTimes {
    /// That source judges rows by when they came, batch by batch, each of which may reach over so much event time.
    pub(crate) fn add(&self, source: OperatorId, step_ms: i64) {
        self.sources.lock().push(Asking { source, table: None, at: None, step_ms });
        self.is_any.store(true, Relaxed);
    }

    /// Whether any source does.
    pub(crate) fn is_any(&self) -> bool {
        self.is_any.load(Relaxed)
    }

    /// It wants to be told then, or not any more.
    pub(crate) fn ask(&self, source: OperatorId, at: Option<ProcessingTime>) {
        self.with(source, |asking| asking.at = at);
    }

    /// What it wants, as the table hears that reads for it.
    pub(crate) fn asked(&self, source: OperatorId, table: OperatorId) -> Option<ProcessingTime> {
        if !self.is_any() {
            return None;
        }
        self.with(source, |asking| {
            asking.table = Some(table);
            asking.at
        })
        .flatten()
    }

    /// Over how much event time a batch for it may reach, ms.
    pub(crate) fn step_ms(&self, source: OperatorId) -> Option<i64> {
        if self.is_any() { self.with(source, |asking| asking.step_ms) } else { None }
    }

    /// It was told, or will be behind what waits for it: not again before it asks.
    pub(crate) fn told(&self, source: OperatorId, until: ProcessingTime) {
        self.with(source, |asking| asking.at = asking.at.filter(|&at| at > until));
    }

    /// The table that reads for it.
    pub(crate) fn table(&self, source: OperatorId) -> Option<OperatorId> {
        self.with(source, |asking| asking.table).flatten()
    }

    fn with<T>(&self, source: OperatorId, act: impl FnOnce(&mut Asking) -> T) -> Option<T> {
        self.sources.lock().iter_mut().find(|asking| asking.source == source).map(act)
    }
}
