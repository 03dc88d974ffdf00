//! The sessions of all keys: where a row goes, and which of them are due.

mod saved;

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use arrow::array::{ArrayRef, UInt32Array};
use datafusion_common::{DataFusionError, ScalarValue};
use datafusion_expr::Accumulator;
use laxity_graph::{EventTime, ProcessingTime};

use crate::AggregateCall;
use crate::groups::{Inputs, accumulator};

/// The sessions of all keys.
///
/// Each has scalar accumulators of its own: sessions merge and end one by one, which accumulators over groups
/// do not do.
pub(super) struct Sessions {
    gap_ms: i64,
    lateness_ms: i64,
    calls: Vec<AggregateCall>,
    by_key: HashMap<Arc<[u8]>, Vec<SessionId>>,
    /// `None` where an id is free.
    sessions: Vec<Option<Session>>,
    free: Vec<SessionId>,
    /// Those not sent since they last grew, by an end they once had: growing leaves it, looking finds the true
    /// one. Most rows make a session grow.
    open: BTreeSet<(i64, SessionId)>,
    /// By end, those sent that allowed late rows may still change.
    sent: BTreeSet<(i64, SessionId)>,
    /// Sessions with rows placed and not yet added.
    touched: Vec<SessionId>,
    accumulator_bytes: usize,
    /// Spare.
    arguments: Vec<ArrayRef>,
}

pub(super) type SessionId = usize;

struct Session {
    key: Arc<[u8]>,
    start: i64,
    end: i64,
    /// Under which end the session stands in `open`, if it does.
    listed: Option<i64>,
    accumulators: Vec<Box<dyn Accumulator>>,
    bytes: usize,
    /// Rows of the current batch that are placed and not yet added.
    placed: Vec<u32>,
    ingested: ProcessingTime,
    was_sent: bool,
}

/// Where a row goes.
pub(super) enum Fate {
    Placed,
    /// Dropped; the end of the window it would have made.
    Late(i64),
}

/// A session's result.
pub(super) struct Evaluated {
    pub(super) key: Arc<[u8]>,
    pub(super) start: i64,
    pub(super) end: i64,
    pub(super) values: Vec<ScalarValue>,
    pub(super) ingested: ProcessingTime,
    /// Whether it went out before.
    pub(super) is_update: bool,
}

type Result<T> = std::result::Result<T, DataFusionError>;

impl Sessions {
    pub(super) fn new(gap_ms: i64, lateness_ms: i64, calls: Vec<AggregateCall>) -> Sessions {
        Sessions {
            gap_ms,
            lateness_ms,
            calls,
            by_key: HashMap::new(),
            sessions: Vec::new(),
            free: Vec::new(),
            open: BTreeSet::new(),
            sent: BTreeSet::new(),
            touched: Vec::new(),
            accumulator_bytes: 0,
            arguments: Vec::new(),
        }
    }

    /// Finds or makes the session of a row; `seen` is the watermark before it. `inputs` are those of its batch.
    pub(super) fn place(
        &mut self,
        key: &[u8],
        time: i64,
        seen: i64,
        row: u32,
        inputs: &Inputs,
    ) -> Result<Fate> {
        let (start, end) = (time, time.saturating_add(self.gap_ms));
        let lateness_ms = self.lateness_ms;
        let is_open = |end: i64| end.saturating_sub(1).saturating_add(lateness_ms) > seen;
        let of_key = self.by_key.get(key).map_or(&[][..], Vec::as_slice);
        let mut met = of_key.iter().copied().filter(|&id| {
            self.sessions[id].as_ref().is_some_and(|s| s.start <= end && start <= s.end && is_open(s.end))
        });
        let id = match (met.next(), met.next()) {
            (None, _) if !is_open(end) => return Ok(Fate::Late(end)),
            (None, _) => self.create(key, start, end)?,
            (Some(only), None) => {
                self.extend(only, start, end);
                only
            }
            (Some(first), Some(second)) => {
                let others: Vec<SessionId> = std::iter::once(second).chain(met).collect();
                for other in others {
                    self.merge(first, other, inputs)?;
                }
                self.extend(first, start, end);
                first
            }
        };
        if let Some(session) = &mut self.sessions[id] {
            if session.placed.is_empty() {
                self.touched.push(id);
            }
            session.placed.push(row);
        }
        Ok(Fate::Placed)
    }

    /// Adds the rows placed since the last call. Returns the sessions already sent that they changed.
    pub(super) fn add_placed(
        &mut self,
        inputs: &Inputs,
        ingested: ProcessingTime,
        watermark: EventTime,
    ) -> Result<Vec<SessionId>> {
        // One gather for all sessions, then zero-copy runs of it.
        let mut order: Vec<u32> = Vec::new();
        let mut runs: Vec<(SessionId, usize)> = Vec::new();
        for id in self.touched.drain(..) {
            let Some(session) = &mut self.sessions[id] else { continue };
            // A session may be listed twice when its id was freed by a merge and given away again.
            if !session.placed.is_empty() {
                runs.push((id, session.placed.len()));
                order.append(&mut session.placed);
            }
        }
        let is_identity = order.iter().enumerate().all(|(i, &row)| i == row as usize);
        let gathered;
        let inputs = if is_identity {
            inputs
        } else {
            gathered = inputs.take(&UInt32Array::from(order))?;
            &gathered
        };
        let mut offset = 0;
        let mut again = Vec::new();
        for (id, length) in runs {
            let Some(session) = &mut self.sessions[id] else { continue };
            session.ingested = session.ingested.max(ingested);
            for (call, accumulator) in session.accumulators.iter_mut().enumerate() {
                inputs.run_of(call, offset, length, &mut self.arguments)?;
                accumulator.update_batch(&self.arguments)?;
            }
            offset += length;
            self.accumulator_bytes -= session.bytes;
            session.bytes = session.accumulators.iter().map(|a| a.size()).sum();
            self.accumulator_bytes += session.bytes;
            if session.end.saturating_sub(1) <= watermark.0 && self.lateness_ms > 0 {
                again.push(id);
            }
        }
        Ok(again)
    }

    /// The next session that `watermark` closes and that is to be sent.
    pub(super) fn next_closed(&mut self, watermark: EventTime) -> Option<SessionId> {
        loop {
            let &(listed, id) = self.open.first()?;
            if listed.saturating_sub(1) > watermark.0 {
                return None;
            }
            self.open.pop_first();
            let Some(session) = &mut self.sessions[id] else { continue };
            if session.end == listed {
                session.listed = None;
                return Some(id);
            }
            session.listed = Some(session.end);
            self.open.insert((session.end, id));
        }
    }

    /// The result of a session; drops it unless late rows may still come.
    pub(super) fn evaluate(&mut self, id: SessionId) -> Result<Option<Evaluated>> {
        let fresh =
            if self.lateness_ms > 0 { Some((self.accumulators()?, self.accumulators()?)) } else { None };
        let Some(session) = &mut self.sessions[id] else { return Ok(None) };
        let is_update = session.was_sent;
        let (key, start, end, ingested) =
            (Arc::clone(&session.key), session.start, session.end, session.ingested);
        let values = match fresh {
            None => {
                let values = session.accumulators.iter_mut().map(|a| a.evaluate()).collect::<Result<_>>()?;
                self.remove(id);
                values
            }
            Some((mut kept, mut evaluated)) => {
                // Evaluation may consume an accumulator, so that what stays is rebuilt from its state.
                for ((old, kept), evaluated) in
                    session.accumulators.iter_mut().zip(&mut kept).zip(&mut evaluated)
                {
                    let state = state(old)?;
                    kept.merge_batch(&state)?;
                    evaluated.merge_batch(&state)?;
                }
                session.accumulators = kept;
                session.was_sent = true;
                if let Some(listed) = session.listed.take() {
                    self.open.remove(&(listed, id));
                }
                self.sent.insert((end, id));
                evaluated.iter_mut().map(|a| a.evaluate()).collect::<Result<_>>()?
            }
        };
        Ok(Some(Evaluated { key, start, end, values, ingested, is_update }))
    }

    /// Forgets sessions that no late row may change any more.
    pub(super) fn forget(&mut self, watermark: EventTime) {
        while let Some(&(end, id)) = self.sent.first() {
            if end.saturating_sub(1).saturating_add(self.lateness_ms) > watermark.0 {
                break;
            }
            self.remove(id);
        }
    }

    pub(super) fn bytes(&self) -> usize {
        // A key is held once and its session is found from three indexes.
        const PER_SESSION: usize = size_of::<Option<Session>>() + 128;
        self.accumulator_bytes + self.sessions.len() * PER_SESSION
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        let indexes = self.by_key.is_empty() && self.open.is_empty() && self.sent.is_empty();
        indexes && self.free.len() == self.sessions.len() && self.accumulator_bytes == 0
    }

    fn accumulators(&self) -> Result<Vec<Box<dyn Accumulator>>> {
        self.calls.iter().map(|call| accumulator(&call.expr)).collect()
    }

    fn create(&mut self, key: &[u8], start: i64, end: i64) -> Result<SessionId> {
        let accumulators = self.accumulators()?;
        let id = self.free.pop().unwrap_or_else(|| {
            self.sessions.push(None);
            self.sessions.len() - 1
        });
        let key = match self.by_key.get_mut(key) {
            Some(of_key) => {
                of_key.push(id);
                self.sessions[of_key[0]].as_ref().map_or_else(|| Arc::from(key), |s| Arc::clone(&s.key))
            }
            None => {
                let key: Arc<[u8]> = Arc::from(key);
                self.by_key.insert(Arc::clone(&key), vec![id]);
                key
            }
        };
        let (placed, ingested) = (Vec::new(), ProcessingTime::ZERO);
        let listed = Some(end);
        let session =
            Session { key, start, end, listed, accumulators, bytes: 0, placed, ingested, was_sent: false };
        self.sessions[id] = Some(session);
        self.open.insert((end, id));
        Ok(id)
    }

    fn extend(&mut self, id: SessionId, start: i64, end: i64) {
        let Some(session) = &mut self.sessions[id] else { return };
        session.start = session.start.min(start);
        if end > session.end {
            if session.was_sent {
                // A window that grew is another window: it goes out in its own time.
                self.sent.remove(&(session.end, id));
                session.was_sent = false;
            }
            session.end = end;
            if session.listed.is_none() {
                session.listed = Some(end);
                self.open.insert((end, id));
            }
        }
    }

    /// Merges session `other` into `id`.
    fn merge(&mut self, id: SessionId, other: SessionId, inputs: &Inputs) -> Result<()> {
        let Some(mut absorbed) = self.remove(other) else { return Ok(()) };
        let Some(session) = &mut self.sessions[id] else { return Ok(()) };
        let rows = std::mem::take(&mut absorbed.placed);
        if !rows.is_empty() {
            let inputs = inputs.take(&UInt32Array::from(rows))?;
            for (call, accumulator) in absorbed.accumulators.iter_mut().enumerate() {
                inputs.run_of(call, 0, inputs.rows(), &mut self.arguments)?;
                accumulator.update_batch(&self.arguments)?;
            }
        }
        for (into, from) in session.accumulators.iter_mut().zip(&mut absorbed.accumulators) {
            into.merge_batch(&state(from)?)?;
        }
        session.ingested = session.ingested.max(absorbed.ingested);
        self.extend(id, absorbed.start, absorbed.end);
        Ok(())
    }

    fn remove(&mut self, id: SessionId) -> Option<Session> {
        let session = self.sessions[id].take()?;
        if let Some(listed) = session.listed {
            self.open.remove(&(listed, id));
        }
        if session.was_sent {
            self.sent.remove(&(session.end, id));
        }
        self.accumulator_bytes -= session.bytes;
        self.free.push(id);
        if let Some(of_key) = self.by_key.get_mut(&session.key) {
            of_key.retain(|&other| other != id);
            if of_key.is_empty() {
                self.by_key.remove(&session.key);
            }
        }
        Some(session)
    }
}

fn state(accumulator: &mut Box<dyn Accumulator>) -> Result<Vec<ArrayRef>> {
    accumulator.state()?.iter().map(ScalarValue::to_array).collect()
}
