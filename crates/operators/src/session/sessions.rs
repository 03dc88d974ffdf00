//! The sessions of all keys: where a row goes, and which of them are due.

mod by_end;
mod saved;

use std::collections::{BTreeSet, VecDeque};

use arrow::array::ArrayRef;
use datafusion_common::DataFusionError;
use laxity_graph::{EventTime, ProcessingTime};
use smallvec::SmallVec;

use crate::chunked::Chunked;
use crate::groups::{Aggregation, NumberedGroups, Taken};
use crate::join_keys::{EncodedKeys, KeyEncoder, KeyTable};
use by_end::ByEnd;

/// The sessions of all keys. Each has a number, under which the aggregates know it; that of one that ended is given away
/// again.
pub(super) struct Sessions {
    gap_ms: i64,
    lateness_ms: i64,
    keys: KeyTable,
    /// Sessions of each key, ascending.
    by_key: Vec<OfKey>,
    /// Keys without sessions.
    idle_keys: usize,
    /// `None` where a number is free.
    sessions: Chunked<Option<Session>, SESSIONS_IN_CHUNK>,
    free: Vec<SessionId>,
    aggregates: NumberedGroups,
    /// Those not sent since they last grew, by an end they once had: growing leaves it, looking finds the true
    /// one. Most rows make a session grow. What is not [`Session::listed`] so is of one that is gone.
    open: ByEnd,
    /// By end, those sent that allowed late rows may still change.
    sent: BTreeSet<(i64, SessionId)>,
    /// Rows of the current batch that the aggregates have not seen.
    placed: Placed,
    /// Sent ones that rows of the current batch changed.
    touched: Vec<SessionId>,
    /// Sent ones to send once more.
    again: VecDeque<SessionId>,
}

pub(super) type SessionId = usize;

/// Most keys have one at a time.
type OfKey = SmallVec<[SessionId; 2]>;

#[derive(Clone)]
struct Session {
    key: u32,
    start: i64,
    end: i64,
    /// Under which end the session stands in `open`, if it does.
    listed: Option<i64>,
    ingested: ProcessingTime,
    was_sent: bool,
    is_touched: bool,
}

/// A run of rows, and the session of each.
#[derive(Default)]
struct Placed {
    from: usize,
    sessions: Vec<SessionId>,
}

/// Where a row goes.
pub(super) enum Fate {
    Placed,
    /// Dropped; the end of the window it would have made.
    Late(i64),
}

/// A row that is to be placed.
#[derive(Clone, Copy)]
pub(super) struct Arrival {
    /// Its place in the batch.
    pub(super) row: usize,
    pub(super) time: i64,
    /// The watermark before it.
    pub(super) seen: i64,
    pub(super) ingested: ProcessingTime,
}

/// Results of some sessions.
pub(super) struct Evaluated {
    /// Columns of keys, then of results.
    pub(super) columns: Vec<ArrayRef>,
    pub(super) starts: Vec<i64>,
    pub(super) ends: Vec<i64>,
    pub(super) ingested: ProcessingTime,
    /// Whether one of them went out before.
    pub(super) is_update: bool,
}

type Result<T> = std::result::Result<T, DataFusionError>;

/// Some 30 KB.
const SESSIONS_IN_CHUNK: usize = if cfg!(test) { 4 } else { 512 };

/// Keys without sessions, before they are forgotten.
const IDLE_KEYS_MIN: usize = 1_024;

/// And so many of each four: where keys come back after a while, those without a session are not forgotten only to be learnt again.
const IDLE_KEYS_OF_FOUR: usize = 3;

impl Sessions {
    pub(super) fn new(gap_ms: i64, lateness_ms: i64, aggregation: &Aggregation) -> Result<Sessions> {
        Ok(Sessions {
            gap_ms,
            lateness_ms,
            keys: KeyTable::default(),
            by_key: Vec::new(),
            idle_keys: 0,
            sessions: Chunked::default(),
            free: Vec::new(),
            aggregates: NumberedGroups::new(aggregation)?,
            open: ByEnd::default(),
            sent: BTreeSet::new(),
            placed: Placed::default(),
            touched: Vec::new(),
            again: VecDeque::new(),
        })
    }

    /// Finds or makes the session of a row. Rows of a batch come in order, and [`add`](Sessions::add) behind them.
    pub(super) fn place(&mut self, keys: &EncodedKeys, arrival: Arrival, taken: Taken<'_>) -> Result<Fate> {
        let Arrival { row, time, seen, ingested } = arrival;
        let (start, end) = (time, time.saturating_add(self.gap_ms));
        let lateness_ms = self.lateness_ms;
        let is_open = |end: i64| end.saturating_sub(1).saturating_add(lateness_ms) > seen;
        let key = self.keys.find(keys, row);
        let of_key = key.map_or(&[][..], |key| &self.by_key[key as usize]);
        let mut met = of_key.iter().copied().filter(|&id| {
            self.sessions.get(id).as_ref().is_some_and(|s| s.start <= end && start <= s.end && is_open(s.end))
        });
        let id = match (met.next(), met.next()) {
            (None, _) if !is_open(end) => {
                self.add_placed(taken)?;
                self.placed.from = row + 1;
                return Ok(Fate::Late(end));
            }
            (None, _) => {
                let key = key.unwrap_or_else(|| self.keys.intern(keys, row));
                self.create(key, start, end, ingested)
            }
            (Some(only), None) => {
                self.extend(only, start, end, ingested);
                only
            }
            (Some(first), Some(second)) => {
                let others: Vec<SessionId> = std::iter::once(second).chain(met).collect();
                self.add_placed(taken)?;
                for other in others {
                    self.merge(first, other)?;
                }
                self.extend(first, start, end, ingested);
                first
            }
        };
        self.placed.sessions.push(id);
        Ok(Fate::Placed)
    }

    /// Ends a batch.
    pub(super) fn add(&mut self, taken: Taken<'_>) -> Result<()> {
        self.add_placed(taken)?;
        self.placed.from = 0;
        for id in self.touched.drain(..) {
            // One that grew is another window by now, and its number may have been given away.
            if let Some(session) = self.sessions.get_mut(id)
                && std::mem::take(&mut session.is_touched)
                && session.was_sent
            {
                self.again.push_back(id);
            }
        }
        Ok(())
    }

    fn add_placed(&mut self, taken: Taken<'_>) -> Result<()> {
        let Placed { from, sessions } = &mut self.placed;
        if !sessions.is_empty() {
            let rows = *from..*from + sessions.len();
            self.aggregates.update(taken, rows.clone(), sessions, self.sessions.len())?;
            *from = rows.end;
            sessions.clear();
        }
        Ok(())
    }

    /// Whether something may be sent at a watermark that was told before.
    pub(super) fn has_due(&self, watermark: EventTime) -> bool {
        let is_closed = |listed: i64| listed.saturating_sub(1) <= watermark.0;
        !self.again.is_empty() || self.open.first_end().is_some_and(is_closed)
    }

    /// The next session that is to be sent: changed by late rows, or closed by the watermark.
    pub(super) fn next_due(&mut self, watermark: EventTime) -> Option<SessionId> {
        self.again.pop_front().or_else(|| self.next_closed(watermark))
    }

    fn next_closed(&mut self, watermark: EventTime) -> Option<SessionId> {
        loop {
            let (listed, id) = self.open.pop_until(|listed| listed.saturating_sub(1) <= watermark.0)?;
            let session = self.sessions.get_mut(id).as_mut().filter(|session| session.listed == Some(listed));
            let Some(session) = session else { continue };
            if session.end == listed {
                session.listed = None;
                return Some(id);
            }
            session.listed = Some(session.end);
            self.open.push(session.end, id);
        }
    }

    /// The results of these sessions, each there and due once; drops those for which no late rows may come any more.
    pub(super) fn evaluate(&mut self, due: &[SessionId], encoder: &KeyEncoder) -> Result<Evaluated> {
        let are_kept = self.lateness_ms > 0;
        let mut keys = Vec::with_capacity(due.len());
        let (mut starts, mut ends) = (Vec::with_capacity(due.len()), Vec::with_capacity(due.len()));
        let (mut ingested, mut is_update) = (ProcessingTime::ZERO, false);
        for &id in due {
            let Some(session) = self.sessions.get_mut(id) else { return Err(gone(id)) };
            keys.push(session.key);
            starts.push(session.start);
            ends.push(session.end);
            ingested = ingested.max(session.ingested);
            is_update |= session.was_sent;
            if are_kept {
                session.was_sent = true;
                self.sent.insert((session.end, id));
            }
        }
        let mut columns = encoder.decode(&self.keys, keys.into_iter())?;
        columns.extend(self.aggregates.results(due, are_kept)?);
        if !are_kept {
            due.iter().try_for_each(|&id| self.remove(id).map(drop))?;
        }
        Ok(Evaluated { columns, starts, ends, ingested, is_update })
    }

    /// Forgets sessions that no late row may change any more.
    pub(super) fn forget(&mut self, watermark: EventTime) -> Result<()> {
        while let Some(&(end, id)) = self.sent.first() {
            if end.saturating_sub(1).saturating_add(self.lateness_ms) > watermark.0 {
                break;
            }
            self.remove(id)?;
        }
        if self.idle_keys >= IDLE_KEYS_MIN.max(self.keys.len() / 4 * IDLE_KEYS_OF_FOUR) {
            self.forget_idle_keys();
        }
        Ok(())
    }

    fn forget_idle_keys(&mut self) {
        let is_kept = |key: &u32| !self.by_key[*key as usize].is_empty();
        let kept: Vec<u32> = (0..self.keys.len() as u32).filter(is_kept).collect();
        self.keys.keep(&kept);
        self.by_key.retain(|sessions| !sessions.is_empty());
        self.idle_keys = 0;
        for (key, sessions) in self.by_key.iter().enumerate() {
            for &id in sessions {
                self.sessions.get_mut(id).iter_mut().for_each(|session| session.key = key as u32);
            }
        }
    }

    pub(super) fn bytes(&self) -> usize {
        // A session is found from three indexes.
        const PER_SESSION: usize = 96;
        self.aggregates.bytes()
            + self.sessions.bytes()
            + self.sessions.len() * PER_SESSION
            + self.keys.size_bytes()
            + self.by_key.capacity() * size_of::<OfKey>()
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        let indexes = self.idle_keys == self.keys.len() && self.open.is_empty() && self.sent.is_empty();
        indexes && self.free.len() == self.sessions.len()
    }

    fn create(&mut self, key: u32, start: i64, end: i64, ingested: ProcessingTime) -> SessionId {
        let id = self.free.pop().unwrap_or_else(|| {
            self.sessions.push(None);
            self.sessions.len() - 1
        });
        if self.by_key.get(key as usize).is_some_and(|sessions| sessions.is_empty()) {
            self.idle_keys -= 1;
        }
        self.list(key, id);
        let listed = Some(end);
        let session = Session { key, start, end, listed, ingested, was_sent: false, is_touched: false };
        *self.sessions.get_mut(id) = Some(session);
        self.open.push(end, id);
        id
    }

    /// Lists a session under its key, which may be a new one.
    fn list(&mut self, key: u32, id: SessionId) {
        if key as usize == self.by_key.len() {
            self.by_key.push(OfKey::new());
        }
        let of_key = &mut self.by_key[key as usize];
        of_key.insert(of_key.partition_point(|&other| other < id), id);
    }

    /// Takes in what begins and ends then.
    fn extend(&mut self, id: SessionId, start: i64, end: i64, ingested: ProcessingTime) {
        let Some(session) = self.sessions.get_mut(id) else { return };
        session.start = session.start.min(start);
        session.ingested = session.ingested.max(ingested);
        if end > session.end {
            if session.was_sent {
                // A window that grew is another window: it goes out in its own time.
                self.sent.remove(&(session.end, id));
                session.was_sent = false;
            }
            session.end = end;
            if session.listed.is_none() {
                session.listed = Some(end);
                self.open.push(end, id);
            }
        }
        if session.was_sent && !session.is_touched {
            session.is_touched = true;
            self.touched.push(id);
        }
    }

    /// Merges session `other` into `id`. The aggregates have seen all rows of both.
    fn merge(&mut self, id: SessionId, other: SessionId) -> Result<()> {
        self.aggregates.join(id, other)?;
        let Some(absorbed) = self.remove(other)? else { return Ok(()) };
        self.extend(id, absorbed.start, absorbed.end, absorbed.ingested);
        Ok(())
    }

    fn remove(&mut self, id: SessionId) -> Result<Option<Session>> {
        let Some(session) = self.sessions.get_mut(id).take() else { return Ok(None) };
        if session.was_sent {
            self.sent.remove(&(session.end, id));
        }
        self.aggregates.clear(id)?;
        self.free.push(id);
        let of_key = &mut self.by_key[session.key as usize];
        of_key.retain(|other| *other != id);
        self.idle_keys += usize::from(of_key.is_empty());
        Ok(Some(session))
    }
}

fn gone(id: SessionId) -> DataFusionError {
    DataFusionError::Internal(format!("session {id} is gone"))
}
