//! The kind of simulation that has no real rows, for large scales; the other kind has real operators.

mod front;

use std::collections::VecDeque;
use std::convert::Infallible;
use std::rc::Rc;

use laxity_graph::{Emitted, EventTime, Flow, ProcessingTime, WindowShape};
use laxity_runtime::Content;
use laxity_workload::{Arrival, Cost, StageKind};
use rand_core::Rng;

use self::front::{CountedFront, CountedSpec, CountedTemplate, Members};
use crate::Rounding;
use crate::modelled::{FrontReader, Made, Modelled};
use crate::run_clock::{RunClock, Said};
use crate::sleep::Sleeper;
use crate::window::Windows;
use crate::world::Plans;

/// Rows are a count and a time, operators a [`laxity_workload::Stage`] that says what would come of them and what that
/// would cost.
#[derive(Debug)]
pub(crate) struct Counted;

/// Rows of a few event times, in order.
#[derive(Clone, Debug)]
pub(crate) struct CountedRows {
    first: Piece,
    rest: Vec<Piece>,
    bytes: u64,
    /// The last of them is the last of its message.
    ends: bool,
}

/// Rows of one event time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Piece {
    rows: u32,
    /// Whose they are, on their way through an operator that several queries share.
    member: u32,
    event_time: EventTime,
    /// The watermark before them, at their source or window.
    before: EventTime,
    /// The watermark behind them, on the way to their source; `MIN`: none.
    watermark: EventTime,
}

/// A stage, and how far it is.
#[derive(Debug)]
pub(crate) struct StageOperator {
    clock: Rc<RunClock>,
    kind: StageKind,
    cost: Cost,
    row_bytes: u32,
    window: Option<WindowShape>,
    sleeper: Option<Box<Sleeper>>,
    /// The watermark that it has told those below.
    watermark: EventTime,
    /// The fraction of a row that is not sent yet.
    carry: f64,
    windows: Windows,
    /// Of an operator that several queries share: their windows, in place of its own.
    members: Option<Box<Members>>,
    /// Of a sink: rows of a batch that is not done.
    gathered: u32,
    /// Closes windows up to here.
    closing: EventTime,
    /// What the first of them still takes to answer.
    firing_left_ns: Option<f64>,
}

/// What a stage sends.
#[derive(Debug, Default)]
pub(crate) struct CountedOutbox {
    emitted: Vec<Emitted<CountedRows>>,
    late: Vec<LateRows>,
    dead: Vec<Infallible>,
}

/// Rows that came too late, and the end of the last window that they missed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LateRows {
    rows: u64,
    member: u32,
    window_end: EventTime,
}

/// Splits rows evenly, as many keys would. What is left over goes on where the last ended.
#[derive(Debug)]
pub(crate) struct EvenKeys {
    targets: u32,
    next: u32,
}

impl CountedRows {
    /// Rows of one event time, of so many bytes each.
    fn of(piece: Piece, row_bytes: u32) -> CountedRows {
        let bytes = u64::from(piece.rows) * u64::from(row_bytes);
        CountedRows { first: piece, rest: Vec::new(), bytes, ends: true }
    }

    fn pieces(&self) -> impl Iterator<Item = &Piece> {
        std::iter::once(&self.first).chain(&self.rest)
    }

    fn rows(&self) -> u32 {
        self.first.rows + self.rest.iter().map(|piece| piece.rows).sum::<u32>()
    }

    /// What becomes of every piece, in order, as rows of so many bytes.
    fn map(&self, row_bytes: u32, mut to: impl FnMut(Piece) -> Piece) -> CountedRows {
        let mut out = CountedRows::of(to(self.first), row_bytes);
        for &piece in &self.rest {
            let piece = to(piece);
            if out.first.rows == 0 {
                out.first = piece;
            } else if piece.rows > 0 {
                out.rest.push(piece);
            }
        }
        CountedRows { bytes: u64::from(out.rows()) * u64::from(row_bytes), ..out }
    }

    fn slice(&self, offset: u32, rows: u32) -> CountedRows {
        let end = offset + rows;
        let mut start = 0;
        let mut part: Option<CountedRows> = None;
        for piece in self.pieces() {
            let stop = start + piece.rows;
            let (from, to) = (start.max(offset), stop.min(end));
            if from < to {
                // The watermark goes with the last of the rows before it.
                let watermark = if to == stop { piece.watermark } else { EventTime::MIN };
                let cut = Piece { rows: to - from, watermark, ..*piece };
                match &mut part {
                    None => part = Some(CountedRows::of(cut, 0)),
                    Some(part) => part.rest.push(cut),
                }
            }
            start = stop;
        }
        let part = part.unwrap_or_else(|| CountedRows::of(Piece { rows: 0, ..self.first }, 0));
        CountedRows { bytes: self.share_of_bytes(rows), ends: self.ends && end >= start, ..part }
    }

    fn share_of_bytes(&self, rows: u32) -> u64 {
        match self.rows() {
            0 => 0,
            all if all == rows => self.bytes,
            all => (self.bytes as f64 * f64::from(rows) / f64::from(all)).round() as u64,
        }
    }
}

impl StageOperator {
    fn take_rows(&mut self, batch: &CountedRows, ingested: ProcessingTime, outbox: &mut CountedOutbox) {
        match (&self.kind, self.window) {
            (StageKind::Window { .. }, Some(shape)) => {
                for piece in batch.pieces().filter(|piece| piece.rows > 0) {
                    let rows = u64::from(piece.rows);
                    if !self.windows.add(shape, piece.event_time, piece.before, rows, ingested) {
                        self.clock.late_rows.set(self.clock.late_rows.get() + rows);
                        let window_end = Windows::last_end(shape, piece.event_time);
                        outbox.late.push(LateRows { rows, member: 0, window_end });
                    }
                }
            }
            (StageKind::Rows { selectivity } | StageKind::Window { selectivity, .. }, _) => {
                let selectivity = *selectivity;
                let out = batch.map(self.row_bytes, |piece| Piece {
                    rows: self.round(selectivity, piece.rows),
                    ..piece
                });
                self.emit(out, None, None, outbox);
            }
            (StageKind::Source, _) => {
                let mut watermark = self.watermark;
                let out = batch.map(self.row_bytes, |piece| {
                    // Where several share a table, their front has said it.
                    let before = watermark.max(piece.before);
                    watermark = watermark.max(piece.watermark);
                    Piece { before, watermark: EventTime::MIN, ..piece }
                });
                self.emit(out, None, None, outbox);
                if watermark > self.watermark {
                    self.tell(watermark, outbox);
                }
            }
            (StageKind::Sink, _) => {
                // A result is a batch that is done.
                self.gathered += batch.rows();
                if batch.ends {
                    let rows = std::mem::take(&mut self.gathered);
                    let piece = Piece { rows, ..batch.first };
                    self.emit(CountedRows::of(piece, self.row_bytes), None, None, outbox);
                }
            }
        }
    }

    /// Windows answer, up to the watermark that is being taken in; then those below are told of it.
    fn close(&mut self, outbox: &mut CountedOutbox) -> Flow {
        let watermark = self.closing;
        if let StageKind::Window { selectivity, rows_max, fire_per_row_ns, .. } = self.kind {
            while let Some(open) = self.windows.closed(watermark) {
                let left_ns = self.firing_left_ns.unwrap_or(fire_per_row_ns * open.rows as f64);
                let now_ns = left_ns.min(self.clock.left_ns().max(0.0));
                self.clock.spend(now_ns);
                if now_ns < left_ns {
                    self.firing_left_ns = Some(left_ns - now_ns);
                    return Flow::More;
                }
                self.firing_left_ns = None;
                self.windows.pop();
                // A window answers as a whole: no fraction goes to the next, and one that has rows has one to say.
                let exact = (selectivity * open.rows as f64).min(rows_max);
                let piece = Piece {
                    rows: (exact.round() as u32).max(u32::from(exact > 0.0)),
                    member: 0,
                    event_time: EventTime(open.end.0 - 1),
                    before: self.watermark,
                    watermark: EventTime::MIN,
                };
                let rows = CountedRows::of(piece, self.row_bytes);
                self.emit(rows, Some(open.last_ingested), Some(open.end), outbox);
            }
        }
        self.tell(watermark, outbox);
        Flow::Done
    }

    fn emit(
        &self,
        batch: CountedRows,
        ingested: Option<ProcessingTime>,
        window_end: Option<EventTime>,
        outbox: &mut CountedOutbox,
    ) {
        let rows = batch.rows();
        if rows > 0 {
            self.clock.say(Said::Rows(rows));
            outbox.emitted.push(Emitted::Batch { batch, ingested, window_end });
        }
    }

    fn tell(&mut self, watermark: EventTime, outbox: &mut CountedOutbox) {
        self.watermark = watermark;
        self.clock.say(Said::Watermark(watermark));
        outbox.emitted.push(Emitted::Watermark(watermark));
    }

    fn round(&mut self, selectivity: f64, rows: u32) -> u32 {
        match self.clock.rounding {
            Rounding::Carry => {
                let sum = self.carry + selectivity * f64::from(rows);
                // A third of a row added three times must be a row.
                let out = (sum + 1e-9).floor();
                self.carry = (sum - out).max(0.0);
                out as u32
            }
            Rounding::Binomial => {
                // Whole rows for sure, the fraction by chance, every row on its own.
                let whole = selectivity.floor();
                let fraction = selectivity - whole;
                let chance = (fraction * (f64::from(u32::MAX) + 1.0)) as u64;
                let mut random = self.clock.random.borrow_mut();
                let lucky = (0..rows).filter(|_| u64::from(random.next_u32()) < chance).count();
                (whole * f64::from(rows)) as u32 + lucky as u32
            }
        }
    }
}

impl Content for Counted {
    type Batch = CountedRows;
    type Operator = StageOperator;
    type Outbox = CountedOutbox;
    type Partitioner = EvenKeys;
    type Late = LateRows;
    type LateShape = ();
    type Dead = Infallible;
    type Front = CountedFront;
    type Template = CountedTemplate;
    type State = ();
    type Error = Infallible;

    fn rows(batch: &CountedRows) -> u32 {
        batch.rows()
    }

    fn bytes(batch: &CountedRows) -> u64 {
        batch.bytes
    }

    fn slice(batch: &CountedRows, offset: usize, rows: usize) -> CountedRows {
        batch.slice(offset as u32, rows as u32)
    }

    fn progress(batch: &CountedRows) -> EventTime {
        batch.pieces().map(|piece| piece.watermark).max().unwrap_or(EventTime::MIN)
    }

    fn save(_: &mut StageOperator) -> Result<(), String> {
        Err("counted rows have nothing to save".into())
    }

    fn restore(_: &mut StageOperator, (): ()) -> Result<(), String> {
        Err("counted rows have nothing to restore".into())
    }

    fn without_rows(batch: &CountedRows) -> Option<CountedRows> {
        let watermark = Counted::progress(batch);
        let piece = Piece { rows: 0, watermark, ..batch.first };
        (watermark > EventTime::MIN).then(|| CountedRows::of(piece, 0))
    }

    fn concat(batches: &[&CountedRows]) -> Result<CountedRows, Infallible> {
        let mut whole = batches[0].clone();
        for batch in &batches[1..] {
            whole.rest.extend(batch.pieces());
            whole.bytes += batch.bytes;
        }
        Ok(whole)
    }

    fn split(keys: &mut EvenKeys, batch: &CountedRows) -> Result<Vec<Option<CountedRows>>, Infallible> {
        let EvenKeys { targets, next } = *keys;
        let over = |rows: u32| rows % targets;
        let share = |piece: &Piece, first: u32, target: u32| {
            let turn = (target + targets - first) % targets;
            Piece { rows: piece.rows / targets + u32::from(turn < over(piece.rows)), ..*piece }
        };
        let parts = (0..targets).map(|target| {
            let mut first = next;
            let mut part: Option<CountedRows> = None;
            for piece in batch.pieces() {
                let shared = share(piece, first, target);
                first = (first + over(piece.rows)) % targets;
                match &mut part {
                    _ if shared.rows == 0 => {}
                    None => part = Some(CountedRows::of(shared, 0)),
                    Some(part) => part.rest.push(shared),
                }
            }
            part.map(|part| CountedRows { bytes: batch.share_of_bytes(part.rows()), ..part })
        });
        let parts = parts.collect();
        keys.next = batch.pieces().fold(next, |next, piece| (next + over(piece.rows)) % targets);
        Ok(parts)
    }

    fn on_batch(
        operator: &mut StageOperator,
        _input: usize,
        batch: CountedRows,
        ingested: ProcessingTime,
        outbox: &mut CountedOutbox,
    ) -> Result<Flow, Infallible> {
        let rows = batch.rows();
        let clock = &operator.clock;
        if let Some(members) = &mut operator.members {
            members.take(clock, &batch, ingested, outbox);
            return Ok(Flow::Done);
        }
        if rows > 0 {
            clock.call(operator.cost.fixed_ns);
            clock.spend(operator.cost.per_row_ns * f64::from(rows));
        } else {
            clock.call(operator.cost.watermark_ns);
        }
        if let Some(sleeper) = &mut operator.sleeper {
            clock.sleep(sleeper.sleep_ns(rows));
        }
        operator.take_rows(&batch, ingested, outbox);
        Ok(Flow::Done)
    }

    fn on_watermark(
        operator: &mut StageOperator,
        watermark: EventTime,
        outbox: &mut CountedOutbox,
    ) -> Result<Flow, Infallible> {
        if let Some(members) = &mut operator.members {
            return Ok(members.fire(&operator.clock, watermark, outbox));
        }
        let closes = operator.windows.closed(watermark).is_some();
        operator.clock.call(if closes { operator.cost.fixed_ns } else { operator.cost.watermark_ns });
        operator.closing = watermark;
        Ok(operator.close(outbox))
    }

    fn resume(operator: &mut StageOperator, outbox: &mut CountedOutbox) -> Result<Flow, Infallible> {
        if let Some(members) = &mut operator.members {
            return Ok(members.go_on(&operator.clock, outbox));
        }
        Ok(operator.close(outbox))
    }

    fn rows_that_fit(operator: &StageOperator, next_row: usize, _: u64, _: f64) -> usize {
        let fixed_ns = if next_row == 0 { operator.cost.fixed_ns } else { 0.0 };
        operator.clock.rows_that_fit(fixed_ns, operator.cost.per_row_ns)
    }

    fn on_held_back(operator: &mut StageOperator) {
        operator.clock.call(operator.cost.watermark_ns);
    }

    const RUNS_BETWEEN_STATE_CHECKS: u32 = 0;

    fn state_bytes(operator: &StageOperator) -> u64 {
        match operator.kind {
            StageKind::Window { state_row_bytes, .. } => {
                operator.windows.held_rows() * u64::from(state_row_bytes)
            }
            _ => 0,
        }
    }

    fn event_times(_: &StageOperator) -> Option<(EventTime, EventTime)> {
        None
    }

    fn follows_processing_time(_: &StageOperator) -> bool {
        false
    }

    fn ended() -> StageOperator {
        unreachable!("no query of costs ends before its simulation")
    }

    fn emitted(outbox: &mut CountedOutbox) -> &mut Vec<Emitted<CountedRows>> {
        &mut outbox.emitted
    }

    fn late(outbox: &mut CountedOutbox) -> &mut Vec<LateRows> {
        &mut outbox.late
    }

    fn dead(outbox: &mut CountedOutbox) -> &mut Vec<Infallible> {
        &mut outbox.dead
    }

    fn late_windows(late: &LateRows) -> impl Iterator<Item = (i64, u64)> {
        std::iter::once((late.window_end.0, late.rows))
    }

    fn late_rows(late: &LateRows, (): &()) -> Result<CountedRows, Infallible> {
        let piece = Piece {
            rows: late.rows as u32,
            member: late.member,
            event_time: EventTime(late.window_end.0 - 1),
            before: EventTime::MIN,
            watermark: EventTime::MIN,
        };
        Ok(CountedRows::of(piece, 0))
    }

    fn dead_rows(dead: &Infallible) -> (u64, String) {
        match *dead {}
    }
}

impl Plans<Counted> {
    /// Of stages, which are all there is to be known.
    pub fn counted() -> Plans<Counted> {
        Plans { plans: Vec::new(), rows: Vec::new(), feeds_end: false, keeps_rows: false }
    }
}

impl Modelled for Counted {
    type Plan = ();

    fn operator((): &(), made: Made<'_>) -> Result<StageOperator, String> {
        let Made { place, clock, sleeper, .. } = made;
        Ok(StageOperator {
            clock,
            kind: place.kind.clone(),
            cost: place.cost,
            row_bytes: place.row_bytes,
            window: place.window,
            sleeper: sleeper.map(Box::new),
            watermark: EventTime::MIN,
            carry: 0.0,
            windows: Windows::default(),
            members: None,
            gathered: 0,
            closing: EventTime::MIN,
            firing_left_ns: None,
        })
    }

    fn partitioner(_keys: &[usize], targets: usize) -> EvenKeys {
        EvenKeys { targets: targets as u32, next: 0 }
    }

    fn arrived(_: &mut VecDeque<CountedRows>, arrival: &Arrival) -> CountedRows {
        let piece = Piece {
            rows: arrival.rows,
            member: 0,
            event_time: arrival.event_time,
            before: EventTime::MIN,
            watermark: arrival.watermark.unwrap_or(EventTime::MIN),
        };
        CountedRows { bytes: arrival.bytes, ..CountedRows::of(piece, 0) }
    }

    fn event_time(batch: &CountedRows) -> EventTime {
        batch.first.event_time
    }

    fn spec(reader: FrontReader<'_>) -> Option<CountedSpec> {
        Some(CountedSpec::of(reader))
    }

    fn held_and_closed_rows(operator: &StageOperator) -> (u64, u64) {
        (operator.windows.held_rows(), operator.windows.closed_rows())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn piece(rows: u32, event_ms: i64, watermark: i64) -> Piece {
        let (event_time, before) = (EventTime(event_ms), EventTime::MIN);
        Piece { rows, member: 0, event_time, before, watermark: EventTime(watermark) }
    }

    fn rows(batch: &CountedRows) -> Vec<(u32, i64, i64)> {
        batch.pieces().map(|piece| (piece.rows, piece.event_time.0, piece.watermark.0)).collect()
    }

    #[test]
    fn a_slice_has_its_rows_and_the_watermarks_behind_them() {
        let batches = [piece(4, 10, 1), piece(3, 20, 2)].map(|piece| CountedRows::of(piece, 10));
        let whole = Counted::concat(&[&batches[0], &batches[1]]).unwrap();
        assert_eq!((Counted::rows(&whole), Counted::bytes(&whole)), (7, 70));
        let head = Counted::slice(&whole, 0, 2);
        assert_eq!(rows(&head), [(2, 10, i64::MIN)]);
        assert_eq!((head.ends, head.bytes), (false, 20));
        let middle = Counted::slice(&whole, 2, 3);
        assert_eq!(rows(&middle), [(2, 10, 1), (1, 20, i64::MIN)]);
        let tail = Counted::slice(&whole, 5, 2);
        assert_eq!(rows(&tail), [(2, 20, 2)]);
        assert_eq!((tail.ends, tail.bytes), (true, 20));
    }

    #[test]
    fn even_keys_go_on_where_the_last_ended() {
        let mut keys = Counted::partitioner(&[0], 3);
        let mut split = |rows: u32| -> Vec<u32> {
            let parts = Counted::split(&mut keys, &CountedRows::of(piece(rows, 0, 0), 8)).unwrap();
            parts.iter().map(|part| part.as_ref().map_or(0, Counted::rows)).collect()
        };
        assert_eq!([split(4), split(4), split(1), split(6)], [[2, 1, 1], [1, 2, 1], [0, 0, 1], [2, 2, 2]]);
    }
}
