//! The deepest sharing of a table: queries that differ in a constant have one operator, state and all, and only their
//! results part.

mod checkpoints;

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;

use laxity_graph::{Emitted, EventClock, EventTime, Flow, ProcessingTime};
use laxity_sched::Stamps;

use self::checkpoints::Copied;
pub(super) use self::checkpoints::{Part, Standing};
use super::end;
use super::shared_work::TemplateRecord;
use crate::template::{FrontSpec, PartsOf, SlicerOf, SlicesOf};
use crate::{Clock, Content, Outlet, Query, Rhythm, Slicer, Template, Write};

/// Members of a group whose queries are one but for their filters: their rows go through one operator, and what comes out
/// of it goes to each one's own outlet, the nearest target first.
///
/// Rows are taken as they are read; windows are fired in steps, so that others have their turn in between.
pub(super) struct AsOne<C: Content> {
    template: C::Template,
    operator: C::Operator,
    outbox: C::Outbox,
    /// Of the operator's windows: that of each of these queries.
    rhythm: Rhythm,
    seats: Seats<C>,
    /// A seat is never given twice: the operator may still hold rows of who has left it.
    next_seat: u32,
    /// Whose rows may be in windows that have not ended.
    open: Vec<u32>,
    /// The nearest target of these, ns, as it was when they got rows or windows were fired last.
    nearest_ns: u64,
    /// Seats and rows of the batch at hand.
    rows: Vec<(u32, u32)>,
    event_times: Option<(EventTime, EventTime)>,
    told: EventTime,
    firing: Option<Firing<C>>,
    state_bytes: u64,
    batches: u32,
    /// Where what it does is written down, if that is asked for.
    pub record: Option<TemplateRecord>,
    /// For that: of the windows at hand.
    fired: Fired,
    /// What restored members held alone, until the operator is needed.
    arrived: Vec<(u32, C::State)>,
    /// What rows of its members have come to that others have too, to be added before a window is fired.
    sliced: VecDeque<Sliced<C>>,
    /// For checkpoints: what the operator held.
    copied: Option<Copied<C>>,
    is_asked: bool,
    /// Who has taken its part of the copy.
    stopping: Vec<u32>,
}

pub(super) struct Seat<C: Content> {
    query: Arc<Query>,
    outlet: Arc<Outlet>,
    own: Option<<C::Template as Template<C>>::Own>,
    /// Latest event time of the batches that it had rows in; `None` where it is not among those with open windows.
    latest: Option<EventTime>,
    /// Times that it got rows, or results came out for it.
    handed: u64,
}

/// What a member had before it came, if it is restored.
pub(super) struct Before<C: Content> {
    /// Its own operator held this.
    pub held: C::State,
    /// Least and latest event time of rows in that.
    pub event_times: Option<(EventTime, EventTime)>,
}

/// What rows have come to, for some of the members.
struct Sliced<C: Content> {
    slices: Arc<SlicesOf<C>>,
    /// Pieces that were added.
    added: usize,
    /// Pairs of what stands for all who got the rows, and a seat.
    whose: Vec<(u32, u32)>,
}

/// By number. A row of a member costs a look here, so that a good hash would be most of it; numbers are given in order.
type Seats<C> = HashMap<u32, Seat<C>, BuildHasherDefault<OfSeat>>;

/// Spreads numbers that follow each other.
#[derive(Default)]
struct OfSeat(u64);

impl Hasher for OfSeat {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&byte| self.write_u32(u32::from(byte)));
    }

    fn write_u32(&mut self, number: u32) {
        // The golden ratio's multiplier, which leaves the high bits as well spread as the low ones (Knuth 6.4).
        self.0 = (self.0 ^ u64::from(number)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
}

/// Windows on their way out.
struct Firing<C: Content> {
    watermark: EventTime,
    target_ns: u64,
    phase: Phase,
    started: ProcessingTime,
    /// Of the rows that raised the watermark.
    stamps: Stamps,
    /// What the operator has sent, by window.
    collected: VecDeque<Results<Vec<C::Batch>>>,
    /// Of these windows, those whose results lie by seat.
    parted: Vec<Results<PartsOf<C>>>,
    /// What is to be sent, in this order.
    outgoing: VecDeque<Outgoing>,
    /// Of those whose windows were open: whose still are.
    open: Vec<u32>,
    /// The nearest target of these, ns.
    nearest_ns: u64,
}

/// What is to be done next for windows on their way out.
#[derive(Clone, Copy)]
enum Phase {
    /// To tell those whose windows are open how far time has come, from this one on.
    Tell(usize),
    /// To go on with the operator.
    Operate,
    /// To find out whose its results are.
    Part,
    /// To send them.
    Send,
    /// To pass time on to those whose windows were open, from this one on.
    Pass(usize),
}

/// Results of the windows that are being fired.
#[derive(Clone, Copy, Default)]
struct Fired {
    results: u64,
    rows: u64,
    ns: u64,
}

/// What came of a window.
struct Results<B> {
    rows: B,
    window_end: Option<EventTime>,
    ingested: Option<ProcessingTime>,
}

/// A part of the results of a window.
#[derive(Clone, Copy)]
struct Outgoing {
    seat: u32,
    target_ns: u64,
    /// Which window's.
    window: usize,
    /// Which of the parts of that.
    part: usize,
}

/// When a step began, and what it may use.
pub(super) struct StepContext<'a, C: Content, K> {
    pub clock: &'a K,
    pub started: ProcessingTime,
    pub quantum_ns: u64,
    pub event_clock: Option<EventClock>,
    pub writes: &'a mut Vec<Write<C>>,
}

/// Runs of the operator between two questions for the size of its state.
const BATCHES_BETWEEN_STATE_CHECKS: u32 = 16;

impl<C: Content> AsOne<C> {
    /// One that nobody has joined, at this place of the stream.
    ///
    /// # Errors
    /// If the operator cannot be built.
    pub fn new(template: &C::Template, rhythm: Rhythm, told: EventTime) -> Result<AsOne<C>, C::Error> {
        Ok(AsOne {
            template: template.clone(),
            operator: template.operator()?,
            outbox: C::Outbox::default(),
            rhythm,
            seats: Seats::default(),
            next_seat: 0,
            open: Vec::new(),
            nearest_ns: u64::MAX,
            rows: Vec::new(),
            event_times: None,
            told,
            firing: None,
            state_bytes: 0,
            batches: 0,
            record: None,
            fired: Fired::default(),
            arrived: Vec::new(),
            sliced: VecDeque::new(),
            copied: None,
            is_asked: false,
            stopping: Vec::new(),
        })
    }

    /// Whether that is what its members have in common.
    pub fn is(&self, template: &C::Template) -> bool {
        self.template.is(template)
    }

    /// Whether who held that can come in now: no window that has ended is left to be sent, of it or of those who are here.
    pub fn takes_in(&self, held: &C::State, watermark: EventTime) -> bool {
        !self.has_work(watermark) && self.template.has_sent(held, watermark.max(self.told))
    }

    /// One more, from the next row on: its seat.
    pub fn join(
        &mut self,
        query: Arc<Query>,
        spec: &FrontSpec<C>,
        outlet: Arc<Outlet>,
        before: Option<Before<C>>,
    ) -> u32 {
        let seat = self.next_seat;
        self.next_seat = seat.wrapping_add(1);
        let mut latest = None;
        if let Some(Before { held, event_times }) = before {
            self.arrived.push((seat, held));
            if let Some((low, high)) = event_times {
                latest = Some(high);
                self.open.push(seat);
                self.nearest_ns = self.nearest_ns.min(query.target_ns());
                let (least, most) = self.event_times.unwrap_or((low, high));
                self.event_times = Some((least.min(low), most.max(high)));
            }
        }
        if query.is_held() {
            // It has told how far it was before it came: nothing may come out for it until that is saved.
            self.stopping.push(seat);
        }
        self.seats.insert(seat, Seat { query, outlet, own: C::Template::own(spec), latest, handed: 0 });
        seat
    }

    /// What it had in windows that have not ended is dropped.
    pub fn leave(&mut self, seat: u32) {
        self.seats.remove(&seat);
    }

    pub fn is_empty(&self) -> bool {
        self.seats.is_empty()
    }

    pub fn state_bytes(&self) -> u64 {
        self.state_bytes
    }

    /// Rows of the batch at hand are of that seat.
    pub fn add(&mut self, seat: u32, rows: &[(u32, u32)], event_times: Option<(EventTime, EventTime)>) {
        self.rows.extend(rows.iter().map(|&(_, row)| (seat, row)));
        let Some(of) = self.seats.get_mut(&seat) else { return };
        of.handed += 1;
        let Some((low, high)) = event_times else { return };
        if of.latest.is_none() {
            self.open.push(seat);
            self.nearest_ns = self.nearest_ns.min(of.query.target_ns());
        }
        of.latest = Some(of.latest.map_or(high, |latest| latest.max(high)));
        let (least, latest) = self.event_times.unwrap_or((low, high));
        self.event_times = Some((least.min(low), latest.max(high)));
    }

    /// Takes the rows that were added.
    ///
    /// # Errors
    /// Those of the operator.
    pub fn take<K: Clock>(
        &mut self,
        batch: &C::Batch,
        arrival: ProcessingTime,
        clock: &K,
    ) -> Result<(), C::Error> {
        if self.rows.is_empty() {
            return Ok(());
        }
        self.settle()?;
        let (rows, started) = (self.rows.len() as u64, self.record.as_ref().map(|_| clock.now()));
        let input = self.template.input(batch, &self.rows)?;
        self.rows.clear();
        let mut flow = C::on_batch(&mut self.operator, 0, input, arrival, &mut self.outbox)?;
        while flow == Flow::More {
            flow = C::resume(&mut self.operator, &mut self.outbox)?;
        }
        self.count_refused();
        self.batches += 1;
        if self.batches.is_multiple_of(BATCHES_BETWEEN_STATE_CHECKS) {
            self.state_bytes = C::state_bytes(&self.operator);
        }
        if let (Some(record), Some(started)) = (&self.record, started) {
            record.taken(rows, clock.now().since_ns(started));
        }
        Ok(())
    }

    /// What rows have come to that members have had: pairs of what stands there for all who got them, and a seat, in order.
    pub fn add_slices(&mut self, slices: &Arc<SlicesOf<C>>, whose: Vec<(u32, u32)>) {
        self.sliced.push_back(Sliced { slices: Arc::clone(slices), added: 0, whose });
    }

    /// Whether something of that is left to be added to its windows.
    pub fn has_slices(&self) -> bool {
        !self.sliced.is_empty()
    }

    /// Adds a piece of it to its windows: true if there was one.
    ///
    /// # Errors
    /// Those of the operator.
    pub fn add_piece<K: Clock>(&mut self, clock: &K) -> Result<bool, C::Error> {
        let began = self.record.as_ref().map(|_| clock.now());
        let Some(sliced) = self.sliced.front_mut() else { return Ok(false) };
        if sliced.added < <SlicerOf<C>>::pieces(&sliced.slices) {
            <SlicerOf<C>>::give(&sliced.slices, sliced.added, &sliced.whose, &mut self.operator)?;
            sliced.added += 1;
        }
        if sliced.added >= <SlicerOf<C>>::pieces(&sliced.slices) {
            self.sliced.pop_front();
        }
        if let (Some(record), Some(began)) = (&self.record, began) {
            record.taken(0, clock.now().since_ns(began));
        }
        Ok(true)
    }

    /// Whether somebody wants to know what it costs.
    pub fn is_recorded(&self) -> bool {
        self.record.is_some()
    }

    /// Rows of its members were aggregated elsewhere, so many in so long.
    pub fn note_sliced(&self, rows: u64, ns: u64) {
        if let Some(record) = &self.record {
            record.taken(rows, ns);
        }
    }

    /// Whether it would fire windows now, and has not begun.
    pub fn would_fire(&self, watermark: EventTime) -> bool {
        self.firing.is_none() && self.has_work(watermark)
    }

    /// Up to where its members know that time has come.
    pub fn told(&self) -> EventTime {
        self.told
    }

    /// What its members do.
    pub fn template(&self) -> &C::Template {
        &self.template
    }

    /// Whether windows are to be fired, or are being fired.
    pub fn has_work(&self, watermark: EventTime) -> bool {
        self.firing.is_some() || self.next().is_some_and(|at| at <= watermark)
    }

    fn next(&self) -> Option<EventTime> {
        self.rhythm.next(self.told, self.event_times?)
    }

    /// The nearest target of those whose windows are fired next, ns.
    pub fn target_ns(&self) -> u64 {
        if let Some(firing) = &self.firing {
            return firing.target_ns;
        }
        self.nearest_ns
    }

    /// Fires the windows that end at the watermark, which rows of that arrival have raised, until all is out (true) or the
    /// quantum is over.
    ///
    /// # Errors
    /// Those of the operator.
    pub fn step<K: Clock>(
        &mut self,
        watermark: EventTime,
        arrival: ProcessingTime,
        context: &mut StepContext<'_, C, K>,
    ) -> Result<bool, C::Error> {
        let began = self.record.as_ref().map(|_| context.clock.now());
        let mut fired = Fired::default();
        let is_out = self.go_on(watermark, arrival, context, &mut fired)?;
        if let (Some(record), Some(began)) = (&self.record, began) {
            let ns = context.clock.now().since_ns(began);
            record.spent(ns);
            self.fired.add(fired, ns);
            if is_out {
                let Fired { results, rows, ns } = std::mem::take(&mut self.fired);
                record.fired(results, rows, ns);
            }
        }
        Ok(is_out)
    }

    fn go_on<K: Clock>(
        &mut self,
        watermark: EventTime,
        arrival: ProcessingTime,
        context: &mut StepContext<'_, C, K>,
        fired: &mut Fired,
    ) -> Result<bool, C::Error> {
        let is_over = |now: ProcessingTime, context: &StepContext<'_, C, K>| {
            now.since_ns(context.started) >= context.quantum_ns
        };
        if self.firing.is_none() {
            self.settle()?;
            while self.add_piece(context.clock)? {
                if is_over(context.clock.now(), context) {
                    return Ok(false);
                }
            }
        }
        let mut now = context.clock.now();
        let mut firing = match self.firing.take() {
            Some(firing) => firing,
            None => {
                self.drop_copy();
                Firing::new(watermark, self.target_ns(), arrival, now)
            }
        };
        while let Some(phase) = self.go_through(&mut firing, now, arrival, context, fired)? {
            firing.phase = phase;
            now = context.clock.now();
            if is_over(now, context) {
                self.firing = Some(firing);
                return Ok(false);
            }
        }
        self.told = firing.watermark;
        (self.open, self.nearest_ns) = (firing.open, firing.nearest_ns);
        self.count_refused();
        self.state_bytes = C::state_bytes(&self.operator);
        Ok(true)
    }

    /// Does a piece of the phase that it is in: which comes then, `None` behind the last.
    fn go_through<K: Clock>(
        &mut self,
        firing: &mut Firing<C>,
        now: ProcessingTime,
        arrival: ProcessingTime,
        context: &mut StepContext<'_, C, K>,
        fired: &mut Fired,
    ) -> Result<Option<Phase>, C::Error> {
        // Time is asked for once in so many, as it costs as much as a result.
        const TOLD_AT_ONCE: usize = 64;
        const SENT_AT_ONCE: usize = 8;
        let next = match firing.phase {
            Phase::Tell(from) => {
                let open = self.open[from..].iter().take(TOLD_AT_ONCE);
                for seat in open.filter_map(|seat| self.seats.get(seat)) {
                    if let Some(clock) = context.event_clock {
                        let _ = seat.query.event_clock.set(clock);
                    }
                    seat.query.source_progress(self.told, firing.watermark, arrival);
                }
                if from + TOLD_AT_ONCE < self.open.len() {
                    return Ok(Some(Phase::Tell(from + TOLD_AT_ONCE)));
                }
                firing.started = now;
                firing.stamps = Stamps::admitted(arrival, now);
                let flow = C::on_watermark(&mut self.operator, firing.watermark, &mut self.outbox)?;
                firing.collect(C::emitted(&mut self.outbox), flow)
            }
            Phase::Operate => {
                let flow = C::resume(&mut self.operator, &mut self.outbox)?;
                firing.collect(C::emitted(&mut self.outbox), flow)
            }
            Phase::Part => {
                if let Some(of_window) = firing.collected.pop_front() {
                    firing.part(of_window, &self.seats)?;
                }
                if firing.collected.is_empty() {
                    // Stable: the windows of one query stay in their order.
                    firing.outgoing.make_contiguous().sort_by_key(|one| one.target_ns);
                    Phase::Send
                } else {
                    Phase::Part
                }
            }
            Phase::Send => {
                for outgoing in firing.outgoing.drain(..SENT_AT_ONCE.min(firing.outgoing.len())) {
                    let seat = self.seats.get_mut(&outgoing.seat);
                    let Some(seat) = seat.filter(|seat| !seat.query.stopped()) else { continue };
                    let Results { rows, window_end, ingested } = &firing.parted[outgoing.window];
                    let rows = C::Template::part(rows, outgoing.part);
                    seat.handed += 1;
                    fired.results += 1;
                    fired.rows += u64::from(C::rows(&rows));
                    let results = Results { rows, window_end: *window_end, ingested: *ingested };
                    seat.send(results, firing.stamps, firing.started, now, context.writes)?;
                }
                if firing.outgoing.is_empty() { Phase::Pass(0) } else { Phase::Send }
            }
            Phase::Pass(from) => {
                let passed = self.open[from..].iter().take(TOLD_AT_ONCE);
                for number in passed {
                    let Some(seat) = self.seats.get_mut(number) else { continue };
                    // The end is told to all of them, and once.
                    if firing.watermark < EventTime::MAX {
                        seat.pass(firing.watermark, context.writes);
                    }
                    let is_open = |latest| self.rhythm.next(firing.watermark, (latest, latest)).is_some();
                    seat.latest = seat.latest.filter(|&latest| is_open(latest));
                    if seat.latest.is_some() {
                        firing.open.push(*number);
                        firing.nearest_ns = firing.nearest_ns.min(seat.query.target_ns());
                    }
                }
                if from + TOLD_AT_ONCE >= self.open.len() {
                    return Ok(None);
                }
                Phase::Pass(from + TOLD_AT_ONCE)
            }
        };
        Ok(Some(next))
    }

    /// No row comes any more, and everything is out: so is the end, to each of its members.
    pub fn end_of_input(&mut self, writes: &mut Vec<Write<C>>) {
        self.told = EventTime::MAX;
        self.seats.values().for_each(|seat| seat.pass(EventTime::MAX, writes));
    }

    /// Whether its members have been told of the end.
    pub fn has_ended(&self) -> bool {
        self.told == EventTime::MAX
    }

    /// Whether all windows are fired, or being fired.
    pub fn is_ending(&self) -> bool {
        self.has_ended() || self.firing.as_ref().is_some_and(|firing| firing.watermark == EventTime::MAX)
    }

    /// Ends all of them, for this reason.
    pub fn stop(&mut self, why: &str) {
        self.seats.values().for_each(|seat| end(&seat.query, why));
    }

    fn count_refused(&mut self) {
        for late in C::late(&mut self.outbox).drain(..) {
            for (seat, window_end) in C::Template::late(&late) {
                if let Some(seat) = self.seats.get(&seat) {
                    seat.query.count_late(std::iter::once((window_end, 1)));
                }
            }
        }
        for dead in C::dead(&mut self.outbox).drain(..) {
            let (rows, reason) = C::dead_rows(&dead);
            tracing::error!(rows, reason, "rows refused behind a source that takes none of them");
        }
    }
}

impl Fired {
    fn add(&mut self, more: Fired, ns: u64) {
        self.results += more.results;
        self.rows += more.rows;
        self.ns += ns;
    }
}

impl<C: Content> Firing<C> {
    fn new(watermark: EventTime, target_ns: u64, arrival: ProcessingTime, now: ProcessingTime) -> Firing<C> {
        Firing {
            watermark,
            target_ns,
            phase: Phase::Tell(0),
            started: now,
            stamps: Stamps::admitted(arrival, now),
            collected: VecDeque::new(),
            parted: Vec::new(),
            outgoing: VecDeque::new(),
            open: Vec::new(),
            nearest_ns: u64::MAX,
        }
    }

    /// Keeps what the operator has sent: what comes then. Where the watermark is, is known.
    fn collect(&mut self, emitted: &mut Vec<Emitted<C::Batch>>, flow: Flow) -> Phase {
        for emitted in emitted.drain(..) {
            let Emitted::Batch { batch, ingested, window_end } = emitted else { continue };
            match self.collected.back_mut() {
                Some(last) if last.window_end == window_end && last.ingested == ingested => {
                    last.rows.push(batch);
                }
                _ => self.collected.push_back(Results { rows: vec![batch], window_end, ingested }),
            }
        }
        if flow == Flow::More { Phase::Operate } else { Phase::Part }
    }

    /// Whose each result of a window is.
    fn part(&mut self, of_window: Results<Vec<C::Batch>>, seats: &Seats<C>) -> Result<(), C::Error> {
        let Results { rows, window_end, ingested } = of_window;
        let rows = C::Template::by_member(&rows)?;
        let window = self.parted.len();
        let parts = C::Template::members(&rows).enumerate().map(|(part, seat)| {
            let target_ns = seats.get(&seat).map_or(u64::MAX, |seat| seat.query.target_ns());
            Outgoing { seat, target_ns, window, part }
        });
        self.outgoing.extend(parts);
        self.parted.push(Results { rows, window_end, ingested });
        Ok(())
    }
}

impl<C: Content> Seat<C> {
    pub fn query(&self) -> &Query {
        &self.query
    }

    fn send(
        &self,
        results: Results<C::Batch>,
        mut stamps: Stamps,
        started: ProcessingTime,
        now: ProcessingTime,
        writes: &mut Vec<Write<C>>,
    ) -> Result<(), C::Error> {
        let Results { mut rows, window_end, ingested } = results;
        if let Some(own) = &self.own {
            rows = C::Template::with_own(own, rows)?;
        }
        if let Some(ingested) = ingested.filter(|&ingested| ingested > stamps.ingested) {
            stamps = stamps.released(ingested);
        }
        let stamps = stamps.hop(started, started, now);
        let before = writes.len();
        self.outlet.send(rows, stamps, window_end, now, writes);
        self.admit(&writes[before..]);
        Ok(())
    }

    fn pass(&self, watermark: EventTime, writes: &mut Vec<Write<C>>) {
        let before = writes.len();
        self.outlet.on_watermark(watermark, writes);
        self.admit(&writes[before..]);
    }

    /// Counted before anybody can see them.
    fn admit(&self, writes: &[Write<C>]) {
        writes.iter().for_each(|write| self.query.admit(write.what.in_flight()));
    }
}
