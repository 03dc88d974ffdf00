//! Many readers of a table at the cost of those who have rows in a batch: who waits for a window's end is left alone
//! until then.

mod audiences;
mod handing_over;
mod seats;
mod splitting;
mod visits;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};
use std::sync::Arc;

use laxity_graph::{EventClock, EventTime, OperatorId, ProcessingTime, QueryId};

use super::as_one::{AsOne, Before, StepContext};
use super::reader::Taken;
use super::shared_slices::SharedSlices;
use super::shared_work::{Record, SharedRecords};
use super::{Asked, Feed, IntakeContext, Position, Reader, Relieves, TELL_TIME_EVERY_NS, end};
use crate::offered::Offered;
use crate::pace::Pace;
use crate::{Clock, Content, EVERY_ROW, Filled, Front, Query, RecordedArrival, Rhythm, Template};

/// Readers of a table that ask the same of its rows, but for their filters.
///
/// What they ask for is done once a batch. A member without rows in it is not visited: it is told of time when a window
/// ends that it may have rows in, and what it has of that window is handed over then and not row by row.
pub(super) struct Group<C: Content> {
    front: C::Front,
    /// Its columns among those of the table as it is read; `None` if it takes all.
    columns: Option<Vec<usize>>,
    /// By the number that each joined with.
    members: Vec<Option<Member<C>>>,
    free: Vec<u32>,
    /// Those of one template among them, by their place here.
    as_one: Vec<Option<AsOne<C>>>,
    /// What those of them have in common that differ in their windows alone.
    slices: Vec<Option<SharedSlices<C>>>,
    /// Those that came to be so since it was asked last.
    seated: Vec<QueryId>,
    /// What members hold rows of, the oldest first.
    kept: VecDeque<Kept<C::Batch>>,
    /// Of the first of `kept`.
    first_kept: u32,
    kept_bytes: u64,
    held_rows: u64,
    /// Who is to be told of which watermark; the nearest target first among equals. An entry that is not its member's
    /// `timer` is outdated.
    timers: BinaryHeap<Reverse<(EventTime, u64, u32)>>,
    /// Who is to get what is held for it now.
    ready: VecDeque<u32>,
    /// Who waits for credit.
    behind: Vec<u32>,
    /// Who waits to be let go.
    parked: Vec<u32>,
    /// Who is looked at before all others: a checkpoint waits for it, or it was let go.
    first: VecDeque<u32>,
    /// Members by their source, but for those of a template: others may have been given the ids of their operators.
    by_source: HashMap<OperatorId, u32>,
    /// Those of a template.
    seated_as: HashMap<QueryId, u32>,
    /// All of them, by their query: one of many leaves without a look at the others.
    by_query: HashMap<QueryId, Vec<u32>>,
    /// How far the table has come.
    place: Position,
    watermark: EventTime,
    /// When the last batch was due.
    arrival: ProcessingTime,
    /// Where the clock moves the watermark on.
    clocked: Option<Clocked>,
    /// Members that are told of time.
    timed: usize,
    /// How the watermark follows the clock.
    pub pace: Pace,
    offered: Arc<Offered>,
    /// How many of `members` were told of the end, once the table has ended.
    ended: Option<usize>,
    chosen: Vec<(u32, u32)>,
    /// Every row of a batch, for those of a template who get them all: pairs of something and a row.
    every_row: Vec<(u32, u32)>,
    dead: Vec<<C::Front as Front>::Dead>,
    /// Where what it does is written down, if that is asked for, and the time there that was told of.
    record: Option<Record>,
    recorded_ns: u64,
}

struct Member<C: Content> {
    reader: Reader<C>,
    spec: <C::Front as Front>::Spec,
    rhythm: Rhythm,
    /// By batch and row, or [`EVERY_ROW`].
    held: Vec<(u32, u32)>,
    /// How many rows that is.
    held_rows: u32,
    /// Least and latest event time of the batches that it had rows in, since it was told of time last.
    event_times: Option<(EventTime, EventTime)>,
    told: EventTime,
    timer: Option<EventTime>,
    is_ready: bool,
    is_behind: bool,
    is_parked: bool,
    visit: Visit<C>,
    /// Times that it was given rows or told of time, but for visits.
    handed: u64,
    /// It is one of those of a template: of which, and which of them. Nothing is held for it or handed over to it then.
    seat: Option<(usize, u32)>,
    /// Of such a one: who gets the same rows, and where. The front knows one of them.
    audience: Option<(usize, u32)>,
    /// Its number where the group writes down what it does.
    recorded: usize,
}

impl<C: Content> Member<C> {
    /// Those of a template hold nobody up, and where one that is held stands has been told.
    fn may_leave(&self) -> bool {
        self.seat.is_none() && !self.reader.query.is_held()
    }
}

/// A checkpoint wants to know how far a member was given the table.
enum Visit<C: Content> {
    None,
    /// At the next look all that is held for it goes to its operators.
    Asked,
    /// That was done here. What comes behind it waits until its query is let go.
    Done(Position, Taken<C>),
}

/// How far the clock has moved the watermark, and the Unix time of processing time zero.
#[derive(Clone, Copy)]
struct Clocked {
    told: ProcessingTime,
    unix_start_ms: i64,
}

impl Clocked {
    fn unix_ms(self, at: ProcessingTime) -> EventTime {
        EventTime(self.unix_start_ms.saturating_add((at.0 / 1_000_000) as i64))
    }
}

/// A batch that rows are held of.
struct Kept<B> {
    /// `None` once nobody holds any.
    batch: Option<B>,
    bytes: u64,
    held: u32,
    /// Who had rows in it.
    members: Vec<u32>,
    /// It is as its one member sees it.
    is_members: bool,
}

/// More rows than that are handed over though no window ends: a message of them costs little more a row.
const HELD_ROWS_MAX: u32 = 1_024;

/// Bytes of batches that may be kept for rows that are held; those who hold rows of the oldest get them then.
const KEPT_BYTES_MAX: u64 = 4 << 20;

/// As many batches, however small.
const KEPT_MAX: usize = 4_096;

impl<C: Content> Group<C> {
    /// A group that nobody has joined.
    pub fn new(front: C::Front, columns: Option<Vec<usize>>) -> Group<C> {
        Group {
            front,
            columns,
            members: Vec::new(),
            free: Vec::new(),
            as_one: Vec::new(),
            slices: Vec::new(),
            seated: Vec::new(),
            kept: VecDeque::new(),
            first_kept: 0,
            kept_bytes: 0,
            held_rows: 0,
            timers: BinaryHeap::new(),
            ready: VecDeque::new(),
            behind: Vec::new(),
            parked: Vec::new(),
            first: VecDeque::new(),
            by_source: HashMap::new(),
            seated_as: HashMap::new(),
            by_query: HashMap::new(),
            place: Position::default(),
            watermark: EventTime::MIN,
            arrival: ProcessingTime::ZERO,
            clocked: None,
            timed: 0,
            pace: Pace::default(),
            offered: Arc::default(),
            ended: None,
            chosen: Vec::new(),
            every_row: Vec::new(),
            dead: Vec::new(),
            record: None,
            recorded_ns: 0,
        }
    }

    /// What it does is written down from now on.
    pub fn record(&mut self, records: &SharedRecords) {
        let record = Record::new(records);
        for member in self.members.iter_mut().flatten() {
            member.recorded = record.joined(&member.reader.query, member.reader.source, None);
        }
        let (members, as_one) = (&self.members, &mut self.as_one);
        for one in as_one.iter_mut().flatten() {
            let alike = members
                .iter()
                .flatten()
                .filter(|member| C::Template::of(&member.spec).is_some_and(|template| one.is(template)));
            one.record = Some(record.template(alike.map(|member| member.recorded)));
        }
        self.record = Some(record);
    }

    /// Time that was written down since the last such question, ns.
    pub fn take_recorded_ns(&mut self) -> u64 {
        let told = &mut self.recorded_ns;
        self.record.as_ref().map_or(0, |record| record.take_spent_ns(told))
    }

    /// Whether such a reader is one of these.
    pub fn serves(&self, spec: &<C::Front as Front>::Spec, columns: &Option<Vec<usize>>) -> bool {
        self.ended.is_none() && self.columns == *columns && self.front.serves(spec)
    }

    /// One more, from the next row on. `coming`: what it asks for, and others who will join too.
    ///
    /// # Errors
    /// If it is one of a template whose operator cannot be built.
    pub fn join(
        &mut self,
        reader: Reader<C>,
        spec: <C::Front as Front>::Spec,
        rhythm: Rhythm,
        coming: &[Asked<C>],
    ) -> Result<(), C::Error> {
        let mut reader = reader;
        let taken = reader.taken.take();
        let (is_restored, event_times) =
            (taken.is_some(), taken.as_ref().and_then(|taken| taken.event_times));
        if let Some(taken) = taken {
            let watermark = self.front.absorb(taken.front)?;
            if watermark > self.watermark {
                self.watermark = watermark;
                self.offered.set_watermark(watermark);
            }
        }
        let before = reader.held.take().map(|held| Before { held, event_times });
        // What a restored one holds that nobody can take over is its own to go on with.
        let seat = match is_restored && before.is_none() {
            true => None,
            false => self.take_seat(&reader, &spec, rhythm, before, coming)?,
        };
        let number = self.free_number();
        let audience = match seat {
            Some(seat) => self.join_audience(number, seat, &spec)?,
            None => None,
        };
        if reader.query.stopped() {
            // It came to those who have just failed.
            self.free.push(number);
            return Ok(());
        }
        self.seated.extend(seat.map(|_| reader.query.id));
        self.join_at(number, seat, audience, reader, spec, rhythm);
        if seat.is_some() {
            return Ok(());
        }
        if let Some(member) = self.members[number as usize].as_mut().filter(|_| event_times.is_some()) {
            // What it was told before is not known: it is told once more.
            (member.event_times, member.told) = (event_times, EventTime::MIN);
        }
        self.set_timer(number);
        Ok(())
    }

    fn free_number(&mut self) -> u32 {
        self.free.pop().unwrap_or_else(|| {
            self.members.push(None);
            self.members.len() as u32 - 1
        })
    }

    /// `audience`: where others get the same rows, and whether the front has to know of this one too.
    fn join_at(
        &mut self,
        number: u32,
        seat: Option<(usize, u32)>,
        audience: Option<(usize, u32, bool)>,
        reader: Reader<C>,
        spec: <C::Front as Front>::Spec,
        rhythm: Rhythm,
    ) {
        if audience.is_none_or(|(.., is_first)| is_first) {
            self.front.join(number, &spec);
        }
        self.timed += usize::from(rhythm != Rhythm::Rows);
        reader.query.share(Some(&self.offered));
        let template =
            seat.and_then(|(place, _)| Some(self.as_one[place].as_ref()?.record.as_ref()?.place()));
        let record = self.record.as_ref();
        let recorded = record.map_or(0, |record| record.joined(&reader.query, reader.source, template));
        match seat {
            None => self.by_source.insert(reader.source, number),
            Some(_) => self.seated_as.insert(reader.query.id, number),
        };
        self.by_query.entry(reader.query.id).or_default().push(number);
        self.members[number as usize] = Some(Member {
            reader,
            spec,
            rhythm,
            held: Vec::new(),
            held_rows: 0,
            event_times: None,
            told: self.watermark,
            timer: None,
            is_ready: false,
            is_behind: false,
            is_parked: false,
            visit: Visit::None,
            handed: 0,
            seat,
            audience: audience.map(|(at, of, _)| (at, of)),
            recorded,
        });
    }

    /// A query is no member any more; what is held for it is dropped.
    pub fn leave(&mut self, query: QueryId, mut leaves: impl FnMut(&Reader<C>) -> bool) {
        let numbers = self.by_query.get(&query).cloned().unwrap_or_default();
        for number in numbers {
            let member = self.members[number as usize].as_ref();
            if member.is_some_and(|member| leaves(&member.reader)) {
                self.take_out(number);
            }
        }
    }

    fn take_out(&mut self, number: u32) -> Option<Member<C>> {
        let mut member = self.members[number as usize].take()?;
        self.let_go(&mut member);
        self.timed -= usize::from(member.rhythm != Rhythm::Rows);
        match member.audience {
            Some((at, audience)) => self.leave_audience(at, audience, number, &member.spec),
            None => self.front.leave(number, &member.spec),
        }
        member.reader.query.share(None);
        self.free.push(number);
        if let Some(numbers) = self.by_query.get_mut(&member.reader.query.id) {
            numbers.retain(|&other| other != number);
            if numbers.is_empty() {
                self.by_query.remove(&member.reader.query.id);
            }
        }
        match member.seat {
            None => self.by_source.remove(&member.reader.source),
            Some(_) => self.seated_as.remove(&member.reader.query.id),
        };
        if let Some((place, seat)) = member.seat
            && let Some(one) = &mut self.as_one[place]
        {
            one.leave(seat);
            if one.is_empty() {
                self.as_one[place] = None;
                self.leave_slices(place);
            }
        }
        self.behind.retain(|&behind| behind != number);
        // Its number may be another's next: what is due by it finds nothing held, or what is due anyway.
        Some(member)
    }

    /// Those whose work has come to be done with that of others since this was asked last.
    pub fn take_seated(&mut self) -> Vec<QueryId> {
        std::mem::take(&mut self.seated)
    }

    /// Who they are.
    pub fn readers(&self) -> impl Iterator<Item = &Reader<C>> {
        self.members.iter().flatten().map(|member| &member.reader)
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub fn len(&self) -> usize {
        self.members.len() - self.free.len()
    }

    /// Bytes of what it keeps, and of the longest backlog.
    pub fn held_bytes(&self) -> u64 {
        let backlogs = self.waiting().map(|member| member.reader.backlog_bytes());
        let of_templates: u64 = self.as_one.iter().flatten().map(AsOne::state_bytes).sum();
        let of_slices: u64 = self.slices.iter().flatten().map(SharedSlices::state_bytes).sum();
        of_templates
            + of_slices
            + self.kept_bytes
            + self.held_rows * size_of::<(u32, u32)>() as u64
            + backlogs.max().unwrap_or(0)
    }

    /// Whether a member has left more unread than that.
    pub fn is_over(&self, backlog_bytes: u64) -> bool {
        let waits_for_a_checkpoint = !self.parked.is_empty() && self.kept_bytes > backlog_bytes;
        waits_for_a_checkpoint || self.waiting().any(|member| member.reader.backlog_bytes() > backlog_bytes)
    }

    fn waiting(&self) -> impl Iterator<Item = &Member<C>> {
        self.behind.iter().filter_map(|&number| self.members[number as usize].as_ref())
    }

    pub fn count(&self, dead_rows: u64, progress: Option<f64>) {
        self.offered.add(0, dead_rows);
        if let Some(progress) = progress {
            self.offered.set_progress(progress);
        }
    }

    /// Moves windows on processing time on, of all at once.
    pub fn tell_time(&mut self, now: ProcessingTime, unix_start_ms: i64) {
        // Who gets rows as they come is not told of time.
        if self.timed == 0 {
            return;
        }
        let is_due = self.clocked.is_none_or(|clocked| now >= clocked.told.plus_ns(TELL_TIME_EVERY_NS));
        if !is_due || self.ended.is_some() {
            return;
        }
        let clocked = Clocked { told: now, unix_start_ms };
        // Up to the millisecond before: rows of this one may still come.
        let watermark = EventTime(clocked.unix_ms(now).0 - 1);
        if self.front.tell_time(watermark) {
            self.clocked = Some(clocked);
            if watermark > self.watermark {
                (self.watermark, self.arrival) = (watermark, now);
                self.offered.set_watermark(watermark);
            }
        }
    }

    /// When it was told the time last, if that moves its windows on.
    pub fn told_time(&self) -> Option<ProcessingTime> {
        self.clocked.filter(|_| self.timed > 0).map(|clocked| clocked.told)
    }

    /// Takes rows of the table, and finds out whose they are.
    ///
    /// # Errors
    /// If what all members ask for cannot be done to a row.
    pub fn take<F: Feed<C>, K: Clock>(
        &mut self,
        batch: C::Batch,
        arrival: ProcessingTime,
        event_clock: Option<&EventClock>,
        clock: &K,
    ) -> Result<(), C::Error> {
        let started = self.record.as_ref().map(|_| clock.now());
        let batch = match &self.columns {
            Some(columns) => F::project(&batch, columns),
            None => batch,
        };
        let (rows, bytes) = (C::rows(&batch), C::bytes(&batch));
        // A row that was due before counts for the window that is open when it comes.
        let ingested = self.clocked.map_or(arrival, |clocked| clocked.told.max(arrival));
        let Filled { batch, event_times, watermark } = self.front.fill(batch, ingested, &mut self.dead)?;
        let event_times = match self.clocked {
            Some(clocked) => Some((clocked.unix_ms(ingested), clocked.unix_ms(ingested))),
            None => event_times,
        };
        let dead_rows = self.dead.drain(..).map(|dead| C::dead_rows(&dead).0).sum();
        self.offered.add(u64::from(rows), dead_rows);
        self.arrival = arrival;
        let watermark_before = self.watermark;
        if watermark > self.watermark {
            self.watermark = watermark;
            self.offered.set_watermark(watermark);
            if let Some(event_clock) = event_clock {
                self.pace.rose(event_clock, watermark, arrival);
            }
        }
        for (number, error) in self.front.take_failed() {
            if let Some(member) = self.take_out(number) {
                end(&member.reader.query, &error.to_string());
            }
        }
        let mut chosen = std::mem::take(&mut self.chosen);
        self.front.choose(&batch, &mut chosen);
        let count = |of_member: &[(u32, u32)]| match of_member {
            [(_, EVERY_ROW)] => C::rows(&batch),
            rows => rows.len() as u32,
        };
        let kept = self.first_kept.wrapping_add(self.kept.len() as u32);
        let (mut held, mut members) = (0, Vec::new());
        for rows in chosen.chunk_by(|one, next| one.0 == next.0) {
            let number = rows[0].0;
            let Some(member) = &mut self.members[number as usize] else { continue };
            // Whether its query has ended is asked when there is a result, not with every row.
            if let Some((place, seat)) = member.seat {
                let rows = match rows {
                    [(_, EVERY_ROW)] => {
                        let known = self.every_row.len() as u32;
                        self.every_row.extend((known..C::rows(&batch)).map(|row| (0, row)));
                        &self.every_row[..C::rows(&batch) as usize]
                    }
                    rows => rows,
                };
                if let Some((at, audience)) = member.audience
                    && let Some(slices) = &mut self.slices[at]
                {
                    slices.add(audience, rows, event_times, watermark_before, &mut self.as_one);
                } else if let Some(one) = &mut self.as_one[place] {
                    one.add(seat, rows, event_times);
                }
                continue;
            }
            if member.reader.query.stopped() {
                continue;
            }
            member.held.extend(rows.iter().map(|&(_, row)| (kept, row)));
            member.held_rows += count(rows);
            held += rows.len() as u32;
            members.push(number);
            if let Some((low, high)) = event_times {
                let (least, latest) = member.event_times.unwrap_or((low, high));
                member.event_times = Some((least.min(low), latest.max(high)));
            }
            let is_due = member.rhythm == Rhythm::Rows || member.held_rows >= HELD_ROWS_MAX;
            if is_due && !std::mem::replace(&mut member.is_ready, true) {
                self.ready.push_back(number);
            }
            self.set_timer(number);
        }
        if let Some(started) = started {
            let watermark = self.watermark;
            let of_rows = RecordedArrival { at: arrival, rows, bytes, event_times, watermark };
            self.record_taken(&chosen, C::rows(&batch), of_rows, clock.now().since_ns(started));
        }
        self.chosen = chosen;
        self.slice(&batch, arrival, clock);
        self.each_as_one(|one| one.take(&batch, arrival, clock));
        if held > 0 {
            let bytes = C::bytes(&batch);
            self.kept_bytes += bytes;
            self.held_rows += u64::from(held);
            self.kept.push_back(Kept { batch: Some(batch), bytes, held, members, is_members: false });
        }
        Ok(())
    }

    /// `rows`: of the batch, less those that could not be read.
    fn record_taken(&self, chosen: &[(u32, u32)], rows: u32, arrival: RecordedArrival, took_ns: u64) {
        let Some(record) = &self.record else { return };
        let of_members = chosen.chunk_by(|one, next| one.0 == next.0).flat_map(|of_member| {
            let count = match of_member {
                [(_, EVERY_ROW)] => u64::from(rows),
                places => places.len() as u64,
            };
            self.who_get_rows_of(of_member[0].0).map(move |member| (member.recorded, count))
        });
        record.chosen(of_members);
        record.filled(arrival, took_ns);
    }

    /// The members that get what the front has chosen for this one.
    fn who_get_rows_of(&self, number: u32) -> impl Iterator<Item = &Member<C>> {
        let member = self.members[number as usize].as_ref();
        let audience = member.and_then(|member| member.audience);
        let slices = audience.and_then(|(at, of)| Some(self.slices[at].as_ref()?.mates(of)));
        let mates =
            slices.into_iter().flatten().filter_map(|mate| self.members[mate.member as usize].as_ref());
        member.filter(|_| slices.is_none()).into_iter().chain(mates)
    }

    fn set_timer(&mut self, number: u32) {
        let Some(member) = &mut self.members[number as usize] else { return };
        let next = member.event_times.and_then(|times| member.rhythm.next(member.told, times));
        if next != member.timer {
            member.timer = next;
            if let Some(at) = next {
                self.timers.push(Reverse((at, member.reader.query.target_ns(), number)));
            }
        }
    }

    /// Hands over what is due, and after the end of the table everything, until the quantum is over. True if something is
    /// left.
    pub fn work<F: Feed<C>, K: Clock, S: Relieves>(
        &mut self,
        table: OperatorId,
        place: Position,
        started: ProcessingTime,
        clock: Option<laxity_graph::EventClock>,
        context: &mut IntakeContext<'_, C, K, S>,
    ) -> Result<bool, C::Error> {
        // Time is asked for once in so many: it costs as much as a small message.
        const AT_ONCE: usize = 8;
        let mut now = started;
        self.place = place;
        for done in 1_usize.. {
            if self.first.is_empty()
                && let Some((target_ns, place)) = self.next_as_one()
                && self.next_timer().is_none_or(|nearest_ns| target_ns <= nearest_ns)
            {
                let mut step = StepContext {
                    clock: context.clock,
                    started,
                    quantum_ns: context.quantum_ns,
                    event_clock: clock,
                    writes: context.writes,
                };
                let is_out = self.fire(place, &mut step);
                now = context.clock.now();
                if !is_out || now.since_ns(started) >= context.quantum_ns {
                    return Ok(true);
                }
                continue;
            }
            let Some(number) = self.next_due() else { break };
            let rows = self.members[number as usize].as_ref().map_or(0, |member| u64::from(member.held_rows));
            let began = self.record.as_ref().map(|_| context.clock.now());
            self.hand_over::<F, K, S>(number, table, now, clock, context)?;
            if let (Some(record), Some(began)) = (&self.record, began) {
                record.handed(rows, context.clock.now().since_ns(began));
            }
            if done.is_multiple_of(AT_ONCE) {
                now = context.clock.now();
                if now.since_ns(started) >= context.quantum_ns {
                    return Ok(true);
                }
            }
        }
        self.copy_asked(context.clock);
        if !self.add_pieces(context.clock, |now| now.since_ns(started) >= context.quantum_ns) {
            return Ok(true);
        }
        // Looked at when those are let go whom others of their template wait for.
        for seat in self.as_one.iter().flatten().flat_map(AsOne::stopped) {
            let _not_now = seat.query().has_credit(table);
        }
        Ok(false)
    }

    /// The target of who is to be told of time next, or gets rows: 0 where rows wait for nothing.
    fn next_timer(&self) -> Option<u64> {
        let timer = self.timers.peek().filter(|Reverse((at, ..))| *at <= self.watermark);
        let by_time = timer.map(|Reverse((_, target_ns, _))| *target_ns);
        if self.ended.is_none() && !self.ready.is_empty() { Some(0) } else { by_time }
    }

    /// Whether something is due.
    pub fn has_work(&self) -> bool {
        !self.ready.is_empty()
            || !self.first.is_empty()
            || self.as_one.iter().flatten().any(|one| one.is_asked() || one.has_slices() || self.is_due(one))
            || self.timers.peek().is_some_and(|Reverse((at, ..))| *at <= self.watermark)
            || self.ended.is_some_and(|told| told < self.members.len())
            || self.keeps_too_much()
    }

    /// When the rows that it has work of were due.
    pub fn arrival(&self) -> ProcessingTime {
        self.arrival
    }

    /// The number of one whose work is done with that of others.
    fn seat_of(&self, query: &Query) -> Option<u32> {
        let number = *self.seated_as.get(&query.id)?;
        let member = self.members[number as usize].as_ref()?;
        std::ptr::eq(&*member.reader.query, query).then_some(number)
    }

    /// The table has ended.
    pub fn end_of_input(&mut self) {
        self.ended.get_or_insert(0);
    }

    /// Ends all of them, for this reason.
    pub fn stop(&mut self, why: &str) {
        for number in 0..self.members.len() as u32 {
            if let Some(member) = self.take_out(number) {
                end(&member.reader.query, why);
            }
        }
    }
}
