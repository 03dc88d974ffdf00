//! What queries that read a table together have done for them as one, in numbers.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use std::convert::Infallible;
use std::rc::Rc;

use laxity_graph::{Emitted, EventTime, Flow, ProcessingTime};
use laxity_runtime::{Filled, Front, NoTemplate, Template};
use laxity_workload::StageKind;

use super::{Counted, CountedOutbox, CountedRows, LateRows, Piece, StageOperator};
use crate::modelled::FrontReader;
use crate::run_clock::RunClock;
use crate::window::{Open, Windows};
use crate::{SharedFront, SharedTemplate};

/// What a reader asks for: a part of the rows.
#[derive(Clone, Debug)]
pub(crate) struct CountedSpec {
    clock: Rc<RunClock>,
    front: Rc<SharedFront>,
    number: usize,
    share: f64,
    /// Where its rows begin, as a part of the distance between two of them.
    phase: f64,
    template: Option<CountedTemplate>,
}

/// Queries that one operator does the work of.
#[derive(Clone, Debug)]
pub(crate) struct CountedTemplate {
    clock: Rc<RunClock>,
    /// Of the front, and in it.
    place: (usize, usize),
    of: SharedTemplate,
}

/// Finds out whose rows are: of each member every so many.
#[derive(Debug)]
pub(crate) struct CountedFront {
    spec: CountedSpec,
    watermark: EventTime,
    /// Rows so far.
    rows: u64,
    /// By the number of a row: whose it is.
    next: BinaryHeap<Reverse<(u64, u32)>>,
    /// By member: where its next row is, and from there to the one after that. `None` for who has left, or has none.
    strides: Vec<Option<(f64, f64)>>,
}

/// Windows of the members of a template, and what is being sent of those that are closed.
#[derive(Debug)]
pub(crate) struct Members {
    of: SharedTemplate,
    windows: BTreeMap<u32, Windows>,
    results: VecDeque<(u32, Open)>,
}

/// Results that are made before somebody else may have a turn: as many groups as the real operator puts together at once.
const RESULTS_AT_ONCE: usize = 512;

impl CountedSpec {
    pub fn of(reader: FrontReader<'_>) -> CountedSpec {
        const GOLDEN: f64 = 0.618_033_988_749_894_9;
        let FrontReader { clock, number, front, member } = reader;
        let of = front.members[member];
        let template = of.template.map(|place| CountedTemplate {
            clock: Rc::clone(clock),
            place: (number, place),
            of: front.templates[place],
        });
        CountedSpec {
            clock: Rc::clone(clock),
            front: Rc::clone(front),
            number,
            share: of.share,
            phase: (member as f64 * GOLDEN).fract(),
            template,
        }
    }
}

impl Front for CountedFront {
    type Batch = CountedRows;
    type Spec = CountedSpec;
    type Dead = Infallible;
    type State = EventTime;
    type Error = Infallible;

    fn new(spec: &CountedSpec) -> Result<CountedFront, Infallible> {
        Ok(CountedFront {
            spec: spec.clone(),
            watermark: EventTime::MIN,
            rows: 0,
            next: BinaryHeap::new(),
            strides: Vec::new(),
        })
    }

    fn fork(&self) -> Result<CountedFront, Infallible> {
        Ok(CountedFront { watermark: self.watermark, rows: self.rows, ..CountedFront::new(&self.spec)? })
    }

    fn save(&mut self) -> Result<EventTime, Infallible> {
        Ok(self.watermark)
    }

    fn absorb(&mut self, watermark: EventTime) -> Result<EventTime, Infallible> {
        self.watermark = self.watermark.max(watermark);
        Ok(self.watermark)
    }

    fn serves(&self, spec: &CountedSpec) -> bool {
        self.spec.number == spec.number
    }

    fn join(&mut self, member: u32, spec: &CountedSpec) {
        let place = member as usize;
        self.strides.resize(self.strides.len().max(place + 1), None);
        if spec.share > 0.0 {
            let every = 1.0 / spec.share.min(1.0);
            let first = self.rows as f64 + spec.phase * every;
            self.strides[place] = Some((first, every));
            self.next.push(Reverse((first as u64, member)));
        }
    }

    fn leave(&mut self, member: u32, _: &CountedSpec) {
        self.strides[member as usize] = None;
        self.next.retain(|Reverse((_, of))| *of != member);
    }

    fn fill(
        &mut self,
        batch: CountedRows,
        _: ProcessingTime,
        _: &mut Vec<Infallible>,
    ) -> Result<Filled<CountedRows>, Infallible> {
        let CountedSpec { clock, front, .. } = &self.spec;
        clock.spend(front.batch_ns + front.row_ns * f64::from(batch.rows()));
        let mut watermark = self.watermark;
        let mut event_times: Option<(EventTime, EventTime)> = None;
        let filled = batch.map(0, |piece| {
            let before = watermark;
            watermark = watermark.max(piece.watermark);
            if piece.rows > 0 {
                let (least, latest) = event_times.unwrap_or((piece.event_time, piece.event_time));
                event_times = Some((least.min(piece.event_time), latest.max(piece.event_time)));
            }
            Piece { before, watermark: EventTime::MIN, ..piece }
        });
        self.watermark = watermark;
        let batch = CountedRows { bytes: batch.bytes, ..filled };
        Ok(Filled { batch, event_times, watermark })
    }

    fn choose(&mut self, batch: &CountedRows, chosen: &mut Vec<(u32, u32)>) {
        chosen.clear();
        let (first, end) = (self.rows, self.rows + u64::from(batch.rows()));
        self.rows = end;
        while let Some(&Reverse((row, member))) = self.next.peek().filter(|next| next.0.0 < end) {
            self.next.pop();
            let Some((at, every)) = &mut self.strides[member as usize] else { continue };
            chosen.push((member, (row - first) as u32));
            *at += *every;
            self.next.push(Reverse((*at as u64, member)));
        }
        chosen.sort_unstable();
    }

    fn gather(batches: &[&CountedRows], rows: &[(usize, usize)]) -> Result<CountedRows, Infallible> {
        let mut gathered: Option<CountedRows> = None;
        for of_batch in rows.chunk_by(|one, next| one.0 == next.0) {
            let batch = batches[of_batch[0].0];
            let bytes = batch.share_of_bytes(of_batch.len() as u32);
            let mut of_piece = batch.pieces();
            let (mut piece, mut stop) = (Piece { rows: 0, ..batch.first }, 0);
            for &(_, row) in of_batch {
                while row as u32 >= stop
                    && let Some(next) = of_piece.next()
                {
                    (piece, stop) = (*next, stop + next.rows);
                }
                append(&mut gathered, Piece { rows: 1, ..piece });
            }
            if let Some(gathered) = &mut gathered {
                gathered.bytes += bytes;
            }
        }
        let none = || Piece { rows: 0, ..batches[0].first };
        Ok(gathered.unwrap_or_else(|| CountedRows::of(none(), 0)))
    }
}

/// One more piece, with the last where they are alike.
fn append(rows: &mut Option<CountedRows>, piece: Piece) {
    let Some(rows) = rows else {
        *rows = Some(CountedRows::of(piece, 0));
        return;
    };
    let last = rows.rest.last_mut().unwrap_or(&mut rows.first);
    if (Piece { rows: 0, ..*last }) == (Piece { rows: 0, ..piece }) {
        last.rows += piece.rows;
    } else {
        rows.rest.push(piece);
    }
}

impl Template<Counted> for CountedTemplate {
    fn of(spec: &CountedSpec) -> Option<&CountedTemplate> {
        spec.template.as_ref()
    }

    fn is(&self, other: &CountedTemplate) -> bool {
        self.place == other.place
    }

    fn operator(&self) -> Result<StageOperator, Infallible> {
        let members = Members { of: self.of, windows: BTreeMap::new(), results: VecDeque::new() };
        Ok(StageOperator {
            clock: Rc::clone(&self.clock),
            kind: StageKind::Rows { selectivity: 1.0 },
            cost: self.of.cost,
            row_bytes: self.of.row_bytes,
            window: None,
            sleeper: None,
            watermark: EventTime::MIN,
            carry: 0.0,
            windows: Windows::default(),
            members: Some(Box::new(members)),
            gathered: 0,
            closing: EventTime::MIN,
            firing_left_ns: None,
        })
    }

    fn input(&self, batch: &CountedRows, rows: &[(u32, u32)]) -> Result<CountedRows, Infallible> {
        let mut input = None;
        for of_member in rows.chunk_by(|one, next| one.0 == next.0) {
            let pairs: Vec<(usize, usize)> = of_member.iter().map(|&(_, row)| (0, row as usize)).collect();
            let own = CountedFront::gather(&[batch], &pairs)?;
            for piece in own.pieces() {
                append(&mut input, Piece { member: of_member[0].0, ..*piece });
            }
        }
        let input = input.unwrap_or_else(|| CountedRows::of(Piece { rows: 0, ..batch.first }, 0));
        Ok(CountedRows { bytes: batch.share_of_bytes(input.rows()), ..input })
    }

    type Parts = Vec<(u32, CountedRows)>;

    fn by_member(batches: &[CountedRows]) -> Result<Self::Parts, Infallible> {
        let mut of_members: BTreeMap<u32, Option<CountedRows>> = BTreeMap::new();
        for batch in batches {
            for piece in batch.pieces() {
                append(of_members.entry(piece.member).or_default(), Piece { member: 0, ..*piece });
            }
        }
        let row_bytes =
            batches.first().map_or(0.0, |batch| batch.bytes as f64 / f64::from(batch.rows().max(1)));
        let of_members = of_members.into_iter().filter_map(|(member, rows)| {
            let rows = rows?;
            let bytes = (f64::from(rows.rows()) * row_bytes) as u64;
            Some((member, CountedRows { bytes, ..rows }))
        });
        Ok(of_members.collect())
    }

    fn members(parts: &Self::Parts) -> impl Iterator<Item = u32> {
        parts.iter().map(|(member, _)| *member)
    }

    fn part(parts: &Self::Parts, place: usize) -> CountedRows {
        parts[place].1.clone()
    }

    fn late(late: &LateRows) -> Vec<(u32, i64)> {
        vec![(late.member, late.window_end.0); late.rows as usize]
    }

    // Nothing is saved in a simulation.
    type Own = Infallible;

    fn own(_: &CountedSpec) -> Option<Infallible> {
        None
    }

    fn with_own(own: &Infallible, _: CountedRows) -> Result<CountedRows, Infallible> {
        match *own {}
    }

    type Saved = ();

    fn save(_: &mut StageOperator) -> Result<(), Infallible> {
        Ok(())
    }

    fn of_member((): &(), _: u32) -> Result<(), String> {
        Err("counted rows have nothing to save".into())
    }

    fn has_sent(&self, (): &(), _: EventTime) -> bool {
        false
    }

    fn take_in(&self, _: &mut StageOperator, _: Vec<(u32, ())>) -> Result<(), Infallible> {
        Ok(())
    }

    // What rows cost was measured with those that were aggregated once: it is all of it here.
    type Rows = Infallible;

    fn rows(_: &CountedSpec) -> Option<Infallible> {
        None
    }

    /// Who does and who does not is known by who was done as one when they were measured.
    fn gets_every_row(_: &CountedSpec) -> bool {
        false
    }

    type Slicer = NoTemplate;

    fn slice_ms(&self) -> Option<i64> {
        None
    }

    /// As far as it was so when they were measured: there all of them were done as one with some.
    fn has_slices_of(&self, other: &CountedTemplate) -> bool {
        self.place.0 == other.place.0
    }

    fn slicer(&self, _: i64) -> Result<NoTemplate, Infallible> {
        unreachable!("it has no slices")
    }
}

impl Members {
    /// Takes rows of several members in.
    pub fn take(
        &mut self,
        clock: &RunClock,
        batch: &CountedRows,
        ingested: ProcessingTime,
        outbox: &mut CountedOutbox,
    ) {
        let SharedTemplate { cost, window, .. } = self.of;
        clock.spend(cost.fixed_ns + cost.per_row_ns * f64::from(batch.rows()));
        for piece in batch.pieces().filter(|piece| piece.rows > 0) {
            let (rows, member) = (u64::from(piece.rows), piece.member);
            let windows = self.windows.entry(member).or_default();
            if !windows.add(window, piece.event_time, piece.before, rows, ingested) {
                let window_end = Windows::last_end(window, piece.event_time);
                clock.late_rows.set(clock.late_rows.get() + rows);
                outbox.late.push(LateRows { rows, member, window_end });
            }
        }
    }

    /// Windows close, up to that watermark.
    pub fn fire(&mut self, clock: &RunClock, watermark: EventTime, outbox: &mut CountedOutbox) -> Flow {
        for (&member, windows) in &mut self.windows {
            while let Some(open) = windows.closed(watermark) {
                windows.pop();
                self.results.push_back((member, open));
            }
        }
        self.windows.retain(|_, windows| windows.held_rows() > 0);
        // By window, as the real operator has them.
        self.results.make_contiguous().sort_by_key(|(_, open)| open.end);
        clock.spend(self.of.cost.watermark_ns);
        self.go_on(clock, outbox)
    }

    /// Sends some of what came of that.
    pub fn go_on(&mut self, clock: &RunClock, outbox: &mut CountedOutbox) -> Flow {
        for (member, open) in self.results.drain(..self.results.len().min(RESULTS_AT_ONCE)) {
            clock.spend(self.of.result_ns);
            // A window answers as a whole, and one that has rows has one to say.
            let exact = (self.of.selectivity * open.rows as f64).min(self.of.rows_max);
            let piece = Piece {
                rows: (exact.round() as u32).max(u32::from(exact > 0.0)),
                member,
                event_time: EventTime(open.end.0 - 1),
                before: EventTime::MIN,
                watermark: EventTime::MIN,
            };
            if piece.rows > 0 {
                outbox.emitted.push(Emitted::Batch {
                    batch: CountedRows::of(piece, self.of.row_bytes),
                    ingested: Some(open.last_ingested),
                    window_end: Some(open.end),
                });
            }
        }
        if self.results.is_empty() { Flow::Done } else { Flow::More }
    }
}

#[cfg(test)]
mod tests {
    use laxity_graph::WindowShape;
    use laxity_runtime::Content;
    use laxity_workload::Cost;

    use super::*;
    use crate::sources::{FeedId, FrontMember};
    use crate::{Setup, SharedFront};

    fn front(shares: &[f64]) -> (CountedFront, Vec<CountedSpec>) {
        let feed = FeedId { query: laxity_graph::QueryId(0), feed: 0 };
        let template = SharedTemplate {
            cost: Cost::NONE,
            result_ns: 0.0,
            window: WindowShape { size_ms: 10, slide_ms: 10, end_ms: Some(0) },
            selectivity: 1.0,
            rows_max: 1.0,
            row_bytes: 8,
        };
        let members = shares.iter().map(|&share| FrontMember { feed, share, template: Some(0) });
        let front =
            SharedFront { members: members.collect(), templates: vec![template], ..SharedFront::default() };
        let (front, clock) = (Rc::new(front), Rc::new(RunClock::new(&Setup::default())));
        let specs: Vec<CountedSpec> = (0..shares.len())
            .map(|member| CountedSpec::of(FrontReader { clock: &clock, number: 0, front: &front, member }))
            .collect();
        let mut front = CountedFront::new(&specs[0]).unwrap();
        specs.iter().enumerate().for_each(|(member, spec)| front.join(member as u32, spec));
        (front, specs)
    }

    fn piece(rows: u32, event_ms: i64, watermark: i64) -> Piece {
        let (event_time, watermark) = (EventTime(event_ms), EventTime(watermark));
        Piece { rows, member: 0, event_time, before: EventTime::MIN, watermark }
    }

    #[test]
    fn every_member_gets_its_share_of_the_rows_in_their_order() {
        let (mut front, specs) = front(&[0.5, 0.25, 1.0, 0.0]);
        let mut of_members = [0; 4];
        let mut chosen = Vec::new();
        for batch in 0..10 {
            front.choose(&CountedRows::of(piece(10, batch, 0), 8), &mut chosen);
            assert!(chosen.is_sorted() && chosen.iter().all(|&(_, row)| row < 10), "{chosen:?}");
            chosen.iter().for_each(|&(member, _)| of_members[member as usize] += 1);
        }
        assert_eq!(of_members, [50, 25, 100, 0]);
        front.leave(2, &specs[2]);
        front.choose(&CountedRows::of(piece(100, 10, 0), 8), &mut chosen);
        assert_eq!(chosen.iter().filter(|&&(member, _)| member == 2).count(), 0, "it has left");
        assert_eq!(chosen.len(), 75);
    }

    #[test]
    fn rows_keep_their_times_and_the_watermark_before_them() {
        let (mut front, specs) = front(&[1.0]);
        let batches =
            [piece(2, 5, 3), piece(1, 12, 11), piece(2, 2, 11)].map(|piece| CountedRows::of(piece, 8));
        let batch = Counted::concat(&batches.iter().collect::<Vec<_>>()).unwrap();
        let filled = front.fill(batch, ProcessingTime::ZERO, &mut vec![]).unwrap();
        assert_eq!(filled.event_times, Some((EventTime(2), EventTime(12))));
        assert_eq!(filled.watermark, EventTime(11));
        let gathered = CountedFront::gather(&[&filled.batch], &[(0, 1), (0, 2), (0, 3), (0, 4)]).unwrap();
        let seen: Vec<(u32, i64, i64)> =
            gathered.pieces().map(|piece| (piece.rows, piece.event_time.0, piece.before.0)).collect();
        assert_eq!(seen, [(1, 5, i64::MIN), (1, 12, 3), (2, 2, 11)]);
        assert_eq!(gathered.bytes, 32);

        let template = specs[0].template.as_ref().unwrap();
        let input = template.input(&filled.batch, &[(7, 0), (7, 2), (9, 2), (9, 3)]).unwrap();
        let mut operator = template.operator().unwrap();
        let mut outbox = CountedOutbox::default();
        let _ = Counted::on_batch(&mut operator, 0, input, ProcessingTime(1), &mut outbox).unwrap();
        let late: Vec<_> = outbox.late.iter().flat_map(CountedTemplate::late).collect();
        assert_eq!(late, [(9, 10)], "2 came behind 11");
        let _ = Counted::on_watermark(&mut operator, EventTime(19), &mut outbox).unwrap();
        let sent: Vec<_> = outbox
            .emitted
            .iter()
            .filter_map(|emitted| match emitted {
                Emitted::Batch { batch, window_end, .. } => {
                    let of = CountedTemplate::by_member(std::slice::from_ref(batch)).unwrap();
                    Some((window_end.unwrap().0, of[0].0, of[0].1.rows()))
                }
                Emitted::Watermark(_) => None,
            })
            .collect();
        assert_eq!(sent, [(10, 7, 1), (20, 7, 1), (20, 9, 1)]);
    }
}
