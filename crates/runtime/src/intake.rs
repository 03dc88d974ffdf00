//! Tables: when to look at one, what of it to admit, and who reads it.
//!
//! One table serves all queries that read it. Each reader has its own credit, so one that falls behind leaves a backlog
//! of shared batches. Past a bound on that, the table waits for it, unless readers with a much shorter target would have
//! to wait too: then those behind share a second copy of the table from there on. So a slow query never slows the source
//! of an urgent one, and overload never adds a copy for every query, which would make it worse.
//!
//! A look is work like any other: it has a deadline, costs time and runs where the scheduler says. Nobody needs a row
//! every millisecond for a target of ten seconds, so looks keep a distance that follows from the nearest target that reads
//! the table and from the slack there is ([`Spacing`]); a look that comes late takes a larger bite. Where all wait for the
//! ends of windows, and it is known when these come ([`Pace`](crate::pace::Pace)), there are few looks in between.

mod as_one;
mod group;
mod next_look;
mod reader;
mod shared_slices;
mod shared_work;
mod spacing;
mod wants;

use std::fmt::{self, Display};
use std::sync::Arc;

use laxity_graph::{EventClock, EventTime, OperatorId, ProcessingTime, QueryId, fetch};
use laxity_sched::{LeavesOut, Relief};

use self::group::Group;
pub use self::reader::{Reader, Taken};
pub use self::shared_work::{SharedMember, SharedRecords, SharedWork, TemplateWork};
use self::spacing::{Ahead, Spacing};
use self::wants::Wants;
use crate::{Clock, Content, Front, Memory, Outcome, Parcel, Query, Template, Write};

/// Says what is to be done with so many rows that have come to a source, of a query that is so far with leaving rows out.
pub trait Relieves: FnMut(OperatorId, u32, LeavesOut) -> Relief {}

impl<F: FnMut(OperatorId, u32, LeavesOut) -> Relief> Relieves for F {}

/// The outside of a table: what its connector brings.
pub trait Feed<C: Content> {
    /// Why it cannot be read on.
    type Error: Display;

    /// The next rows, or when to ask again.
    ///
    /// # Errors
    /// When the table as a whole cannot be read on.
    fn poll(&mut self, now: ProcessingTime) -> Result<FeedEvent<C::Batch>, Self::Error>;

    /// Does a piece of what can be done before rows are due. True while there is more of it.
    ///
    /// # Errors
    /// As for [`poll`](Feed::poll).
    fn prepare(&mut self) -> Result<bool, Self::Error>;

    /// When rows come due that are not prepared; `None` where nothing has to be.
    fn prepared_until(&self) -> Option<ProcessingTime>;

    /// True if it can be opened once more and gives the same rows from the start.
    fn is_repeatable(&self) -> bool;

    /// Bytes that it holds of what was read and not given out yet.
    fn held_bytes(&self) -> u64;

    /// How event time lies on the clock, where it is known.
    fn event_clock(&self) -> Option<EventClock>;

    /// Rows put aside as unreadable so far.
    fn dead_rows(&self) -> u64;

    /// Part of a bounded table read so far, 0 to 1.
    fn progress(&self) -> Option<f64>;

    /// Whether who has checkpoints may go on from the last one after this error, a little later.
    fn may_pass(_error: &Self::Error) -> bool {
        false
    }

    /// Some of the columns of its rows.
    fn project(batch: &C::Batch, columns: &[usize]) -> C::Batch;
}

/// What a table has to say.
#[derive(Debug)]
pub enum FeedEvent<B> {
    /// Rows, and when the last of them was due to arrive.
    Batch(B, ProcessingTime),
    /// Nothing is due before then.
    NotBefore(ProcessingTime),
    /// Nothing is there, and who brings it will say so.
    Waiting,
    /// It has ended.
    End,
}

/// A table being read, with those who read it.
pub struct Intake<C: Content> {
    /// What the scheduler knows the table by.
    pub id: OperatorId,
    /// Who takes every row.
    readers: Vec<Reader<C>>,
    /// Who takes some, by what they ask for besides.
    groups: Vec<Group<C>>,
    /// Who will read with others from a later place on, that of the nearest last: of restored queries what comes before
    /// it is known already.
    later: Vec<(u64, Reader<C>)>,
    /// What those ask for who begin to read it together, until all of them have begun.
    coming: Vec<Asked<C>>,
    ended: bool,
    dead_rows_seen: u64,
    /// Rows that it has given to those who read it from the first on, skipped ones included.
    rows_offered: u64,
    /// Bytes counted against the process: what the table holds, and the backlog. Readers share batches, so that is the one
    /// of the furthest behind.
    backlog_bytes: u64,
    /// Of the last rows that were taken.
    last_arrival: ProcessingTime,
    /// What was due by then was taken.
    read_until: ProcessingTime,
    /// What distance looks keep.
    spacing: Spacing,
    /// How many rows it had offered when it was last found without more of them, and when that was.
    rested: Option<(u64, ProcessingTime)>,
    /// What was known then, if the last window seemed to have ended: its rows were on their way to those who say that it has.
    ending: Option<Ahead>,
    /// What those want who read it, if that is known.
    wants: Option<Wants>,
    /// When it is to be looked at again, as it said last.
    look_at: ProcessingTime,
    /// When that is due, if it is later.
    look_due: ProcessingTime,
    /// Where to write down what is done as one, if anybody wants to know.
    records: Option<SharedRecords>,
}

/// What a reader asks for that is done for others too, and the columns that it takes of the table.
type Asked<C> = (<<C as Content>::Front as Front>::Spec, Option<Vec<usize>>);

/// What a look needs of its surroundings.
pub struct IntakeContext<'a, C: Content, K, S> {
    /// What tells the time.
    pub clock: &'a K,
    /// How long a look may take.
    pub quantum_ns: u64,
    /// Milliseconds of the wall clock at processing time zero.
    pub unix_start_ms: i64,
    /// Which part of the time that workers have they have worked lately, 0 to 1.
    pub load: f64,
    /// Bytes that a slow reader may leave unread before the table waits for it.
    pub backlog_bytes: u64,
    /// Of the process.
    pub memory: &'a Memory,
    /// What is to be done with rows that have come.
    pub relief: S,
    /// What was admitted, counted as in flight, in order per reader.
    pub staged: &'a mut Vec<Parcel<C>>,
    /// Results of queries that are done as one, likewise.
    pub writes: &'a mut Vec<Write<C>>,
}

/// When to look at a table again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Then; work on it is due from `due` on, which may be long ago.
    At {
        /// When to begin.
        at: ProcessingTime,
        /// From when its delay counts.
        due: ProcessingTime,
    },
    /// Then, in the midst of a window that all who read it wait for: it is due when that ends, and stands until then behind the
    /// rows that wait for the end too.
    Amid {
        /// When to begin.
        at: ProcessingTime,
        /// From when its delay counts until it is due.
        behind: ProcessingTime,
        /// From when its delay counts then.
        due: ProcessingTime,
    },
    /// When a reader's credit comes back, and no later than then.
    Held(ProcessingTime),
    /// When it is woken, and no later than then.
    Waiting(Option<ProcessingTime>),
    /// Never: it has ended, or nobody reads it.
    Done,
}

/// Readers that get a copy of the table of their own.
pub struct Split<C: Content> {
    readers: Vec<Reader<C>>,
    groups: Vec<Group<C>>,
    /// Where they are.
    pub position: Position,
    ended: bool,
}

/// What a checkpoint hears of a reader of a query that is held.
pub enum Visited<C: Content> {
    /// That is what it was given.
    Given(Given<C>),
    /// It reads with others, and is being given what is held for it: to be asked again once the table was looked at.
    Later,
}

/// How much of a table a reader was given.
pub struct Given<C: Content> {
    /// How much.
    pub position: Position,
    /// What of that is not in its operators; `None` of one that reads alone.
    pub taken: Option<Taken<C>>,
    /// Times that it was given rows or told of time since it began, where it reads with others; checkpoints do not count.
    pub handed: u64,
    /// Of one whose work is done with that of others. Its own operators hold nothing then.
    pub work: Option<Work<C>>,
}

/// What is held of a query by those who do its work.
pub struct Work<C: Content> {
    /// For all whose work they do: see [`crate::Template::of_member`].
    pub held: <C::Template as Template<C>>::Saved,
    /// Which of them it is.
    pub member: u32,
    /// How long nothing could be done for them while that was copied.
    pub took_ns: u64,
}

/// A place in a table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Position {
    /// Rows before it.
    pub rows: u64,
    /// Rows before it that could not be read, beside those.
    pub dead_rows: u64,
}

/// How often windows on processing time are moved on. Far below what a person notices, and cheap.
const TELL_TIME_EVERY_NS: u64 = 10_000_000;

/// The memory of the whole process may free up without a query's doing: who is held looks again after this.
const HELD_RETRY_NS: u64 = 10_000_000;

/// Queries whose targets differ by less than this factor wait for each other at a shared table. Picked: an
/// order of magnitude is what separates an urgent query from the others.
const PEERS_WITHIN: u64 = 10;

/// So many readers at least share what they do alike. Picked: about here the index of their filters costs less than
/// their filters.
pub const SHARED_BY_MIN: usize = 4;

impl<C: Content> Intake<C> {
    /// A table with its readers, from its first row on.
    pub fn new(id: OperatorId, readers: Vec<Reader<C>>) -> Intake<C> {
        let mut intake = Intake {
            id,
            rows_offered: 0,
            readers: Vec::new(),
            groups: Vec::new(),
            later: Vec::new(),
            coming: readers
                .iter()
                .filter_map(|reader| Some((reader.share()?.0, reader.columns.clone())))
                .collect(),
            ended: false,
            dead_rows_seen: 0,
            backlog_bytes: 0,
            last_arrival: ProcessingTime::ZERO,
            read_until: ProcessingTime::ZERO,
            spacing: Spacing::default(),
            rested: None,
            ending: None,
            wants: None,
            look_at: ProcessingTime::ZERO,
            look_due: ProcessingTime::ZERO,
            records: None,
        };
        for reader in readers {
            match reader.had() {
                had if reader.share().is_some() && had != Position::default() => {
                    intake.later.push((had.rows, reader));
                }
                _ => intake.add(reader),
            }
        }
        intake.later.sort_by_key(|(rows, _)| std::cmp::Reverse(*rows));
        intake.forget_coming();
        intake.space();
        intake
    }

    /// A copy of a table for those who were split off.
    pub fn of_split(id: OperatorId, split: Split<C>) -> Intake<C> {
        let Split { readers, groups, position, ended } = split;
        let mut intake = Intake { ended, groups, ..Intake::new(id, readers).from(position) };
        debug_assert!(intake.later.is_empty(), "who reads with others leaves with its group");
        intake.space();
        intake
    }

    /// Who reads it.
    pub fn readers(&self) -> impl Iterator<Item = &Reader<C>> {
        let later = self.later.iter().map(|(_, reader)| reader);
        self.readers.iter().chain(self.groups.iter().flat_map(Group::readers)).chain(later)
    }

    /// Queries whose windows are fired with those of others from their first row on, since this was asked last: their own
    /// operators never get any.
    pub fn take_seated(&mut self) -> Vec<QueryId> {
        self.groups.iter_mut().flat_map(Group::take_seated).collect()
    }

    fn is_unread(&self) -> bool {
        self.readers.is_empty() && self.groups.is_empty() && self.later.is_empty()
    }

    /// Those begin to read that have had what was offered so far.
    fn wake_later(&mut self) {
        while let Some((_, mut reader)) = self.later.pop_if(|(at, _)| *at <= self.rows_offered || self.ended)
        {
            let (had, dead_rows) = (reader.had().dead_rows, self.dead_rows_seen);
            reader.catch_up();
            let query = reader.query.clone();
            self.add(reader);
            query.had_dead(had.saturating_sub(dead_rows), dead_rows.saturating_sub(had));
        }
        self.forget_coming();
    }

    fn forget_coming(&mut self) {
        if self.later.is_empty() {
            self.coming = Vec::new();
        }
    }

    /// One more, with others where it may be.
    fn add(&mut self, mut reader: Reader<C>) {
        let Some((spec, rhythm)) = reader.share() else {
            self.readers.push(reader);
            return;
        };
        let alike = self.groups.iter().position(|group| group.serves(&spec, &reader.columns));
        let place = match alike {
            Some(place) => place,
            None => match C::Front::new(&spec) {
                Ok(front) => {
                    let mut group = Group::new(front, reader.columns.take());
                    self.records.iter().for_each(|records| group.record(records));
                    self.groups.push(group);
                    self.groups.len() - 1
                }
                Err(error) => return end(&reader.query, &error.to_string()),
            },
        };
        let query = reader.query.clone();
        if let Err(error) = self.groups[place].join(reader, spec, rhythm, &self.coming) {
            end(&query, &error.to_string());
        }
    }

    /// The nearest target of those who read it, ns, as they were when they came or [all were asked](Intake::space): it is
    /// looked at as if that were its own.
    pub fn target_ns(&self) -> u64 {
        self.spacing.target_ns()
    }

    /// Whether a query that asks for this should read it with others: one alone, or of a few, is better off looking at all
    /// rows itself.
    pub fn should_share(&self, spec: &<C::Front as Front>::Spec, columns: &Option<Vec<usize>>) -> bool {
        let readers = || self.readers.len() + self.groups.iter().map(Group::len).sum::<usize>();
        self.serves(spec, columns) || readers() + 1 >= SHARED_BY_MIN
    }

    /// Whether what this asks for is done as one for others.
    pub fn is_one(&self, spec: &<C::Front as Front>::Spec, columns: &Option<Vec<usize>>) -> bool {
        self.groups.iter().any(|group| group.serves(spec, columns) && group.gives_seat(spec, &[]))
    }

    /// Whether what this asks for is done for others.
    pub fn serves(&self, spec: &<C::Front as Front>::Spec, columns: &Option<Vec<usize>>) -> bool {
        self.groups.iter().any(|group| group.serves(spec, columns))
    }

    /// One more reads it, from the next row on. Gives the reader back where the table has ended.
    #[must_use]
    pub fn join(&mut self, reader: Reader<C>) -> Option<Reader<C>> {
        if self.ended {
            return Some(reader);
        }
        let target_ns = reader.query.target_ns();
        if let Some(wants) = &mut self.wants {
            wants.add(target_ns, reader.rhythm());
        }
        self.spacing = self.spacing.with_nearer_target(target_ns);
        self.add(reader);
        None
    }

    /// Admits all that a query was offered so far, whatever credit it has: it is about to leave, and another one takes what
    /// comes from here on.
    pub fn give_all<F: Feed<C>>(&mut self, query: &Query, now: ProcessingTime, staged: &mut Vec<Parcel<C>>) {
        let is_it = |reader: &&mut Reader<C>| std::ptr::eq(&*reader.query, query);
        for reader in self.readers.iter_mut().filter(is_it) {
            reader.admit_all::<F>(None, None, self.last_arrival, now, staged);
        }
        self.each_group(|group| group.give_all::<F>(query, now, staged));
    }

    /// A query reads it no longer: what it has not admitted is dropped. True if nobody is left.
    pub fn leave(&mut self, query: &Query, memory: &Memory) -> bool {
        let (target_ns, mut wants) = (query.target_ns(), self.wants.take().unwrap_or_default());
        // How many of it go, and how many of these were counted so.
        let (mut gone, mut counted) = (0, 0);
        let mut leaves = |reader: &Reader<C>| {
            let is_it = std::ptr::eq(&*reader.query, query);
            if is_it {
                gone += 1;
                counted += u32::from(wants.remove(target_ns, reader.rhythm()));
            }
            is_it
        };
        self.readers.retain(|reader| !leaves(reader));
        self.later.retain(|(_, reader)| !leaves(reader));
        self.groups.iter_mut().for_each(|group| group.leave(query.id, &mut leaves));
        self.groups.retain(|group| !group.is_empty());
        // One that was let go of before, or had another target when it was counted: all are asked at the next look.
        if gone > 0 && gone == counted {
            self.spacing = self.spacing.with_target(wants.nearest_ns());
            self.wants = Some(wants);
        }
        if self.is_unread() {
            self.count_backlog(0, memory);
        }
        self.is_unread()
    }

    /// Where it is, for another copy of the table that is to go on from here.
    pub fn position(&self) -> Position {
        Position { rows: self.rows_offered, dead_rows: self.dead_rows_seen }
    }

    /// How much of the table this source of a query was given, which was [held](Query::hold) before: nothing more is
    /// admitted for it behind that. `is_first`: this hold's checkpoint has not asked before. `None` if it does not read it.
    pub fn visit(&mut self, query: &Query, source: OperatorId, is_first: bool) -> Option<Visited<C>> {
        let position = self.position();
        let is_it = |reader: &Reader<C>| std::ptr::eq(&*reader.query, query) && reader.source == source;
        if let Some(reader) = self.readers.iter().find(|reader| is_it(reader)) {
            let given = Given { position: reader.position(position), taken: None, handed: 0, work: None };
            return Some(Visited::Given(given));
        }
        if let Some((_, reader)) = self.later.iter().find(|(_, reader)| is_it(reader)) {
            let (position, taken) = (reader.had(), reader.taken.clone());
            return Some(Visited::Given(Given { position, taken, handed: 0, work: None }));
        }
        self.groups.iter_mut().find_map(|group| group.visit(query, source, is_first))
    }

    /// How often this source of a query was given rows or told of time, if it reads with others and nothing is held for it.
    pub fn handed(&self, query: &Query, source: OperatorId) -> Option<u64> {
        self.groups.iter().find_map(|group| group.handed(query, source))
    }

    /// The least that any of those was given who may be asked for that, in rows.
    pub fn least_rows(&self) -> u64 {
        let position = self.position();
        let alone = self.readers.iter().map(|reader| reader.position(position).rows);
        alone
            .chain(self.groups.iter().map(Group::least_rows))
            .min()
            .unwrap_or(position.rows)
            .min(position.rows)
    }

    /// It begins there: dead rows among those it skips were counted.
    #[must_use]
    pub fn from(self, position: Position) -> Intake<C> {
        debug_assert_eq!(self.rows_offered, 0, "it has not begun");
        let mut later = self.later;
        for (rows, reader) in &mut later {
            *rows += position.rows;
            reader.begin_at(position);
        }
        Intake { rows_offered: position.rows, dead_rows_seen: position.dead_rows, later, ..self }
    }

    /// Asks for the memory behind it that its next look will touch, where it has one reader.
    pub fn fetch(&self) {
        if let [reader] = &self.readers[..] {
            fetch(reader);
            fetch(&*reader.query);
        }
    }

    /// Targets of readers have changed: asks all of them.
    pub fn space(&mut self) {
        let wants: Wants = self.readers().map(|reader| (reader.query.target_ns(), reader.rhythm())).collect();
        self.spacing = self.spacing.with_target(wants.nearest_ns());
        self.wants = Some(wants);
    }

    /// Looks keep no distance: rows are seen when they arrive. Where a look costs nothing.
    #[must_use]
    pub fn without_rest(self) -> Intake<C> {
        Intake { spacing: Spacing::NONE.with_target(self.spacing.target_ns()), ..self }
    }

    /// What is done as one is written down there from now on.
    #[must_use]
    pub fn recording(mut self, records: SharedRecords) -> Intake<C> {
        self.groups.iter_mut().for_each(|group| group.record(&records));
        Intake { records: Some(records), ..self }
    }

    /// Time that was written down since the last such question, ns.
    pub fn take_recorded_ns(&mut self) -> u64 {
        self.groups.iter_mut().map(Group::take_recorded_ns).sum()
    }

    /// Looks at the table if that is due, else prepares what will be; admits what the readers' credit allows.
    pub fn attend<F: Feed<C>, K: Clock, S: Relieves>(
        &mut self,
        feed: &mut F,
        context: &mut IntakeContext<'_, C, K, S>,
    ) -> (Step, Option<Split<C>>) {
        let started = context.clock.now();
        let readers_before = self.readers.len();
        self.readers.retain(|reader| !reader.query.stopped());
        self.later.retain(|(_, reader)| !reader.query.stopped());
        if self.is_unread() {
            self.count_backlog(0, context.memory);
            return (Step::Done, None);
        }
        if self.readers.len() < readers_before || self.wants.is_none() {
            self.space();
        }
        let mut behind = 0;
        for reader in &mut self.readers {
            reader.flush::<F, K, S>(self.id, started, context);
            reader.tell_time(started, context);
            // Who may drop rows or leave some out must be offered them as they come: how many come decides about it.
            let settings = &reader.query.settings;
            behind += usize::from(reader.is_behind() && !settings.shed && !settings.leaves_out);
        }
        for group in &mut self.groups {
            group.flush::<F, K, S>(self.id, started, context);
            group.tell_time(started, context.unix_start_ms);
        }
        let all_wait = !self.readers.is_empty() && behind == self.readers.len() && self.groups.is_empty();
        let must_wait = all_wait
            || self.readers.iter().any(|reader| reader.backlog_bytes() > context.backlog_bytes)
            || self.groups.iter().any(|group| group.is_over(context.backlog_bytes));
        let held = Step::Held(started.plus_ns(HELD_RETRY_NS));
        let step = if self.ended {
            self.end_input(feed, started, context)
        } else if let Some(step) = self.work(feed, started, context) {
            step
        } else if must_wait {
            held
        } else {
            self.look(feed, started, context)
        };
        let split = if feed.is_repeatable() { self.split_off(context.backlog_bytes) } else { None };
        let held_bytes = if step == Step::Done { 0 } else { feed.held_bytes() };
        self.count_backlog(held_bytes, context.memory);
        match step {
            Step::At { at, .. } => (self.look_at, self.look_due) = (at, at),
            Step::Amid { at, due, .. } => (self.look_at, self.look_due) = (at, due),
            Step::Held(_) | Step::Waiting(_) | Step::Done => {}
        }
        (step, split)
    }

    /// Hands over what is due of what was read, however long that takes, and reads nothing: before the table is closed.
    pub fn complete<F: Feed<C>, K: Clock, S: Relieves>(
        &mut self,
        feed: &F,
        context: &mut IntakeContext<'_, C, K, S>,
    ) {
        context.quantum_ns = u64::MAX;
        let started = context.clock.now();
        let _nothing_is_left = self.work(feed, started, context);
    }

    /// Takes rows until none is due, a reader falls behind or the quantum is over.
    fn look<F: Feed<C>, K: Clock, S: Relieves>(
        &mut self,
        feed: &mut F,
        started: ProcessingTime,
        context: &mut IntakeContext<'_, C, K, S>,
    ) -> Step {
        let mut now = started;
        self.sleep_on(feed.event_clock(), now, context);
        if now < self.look_at && self.asked_by(now).is_none() {
            // Called before its time: to prepare, or because somebody has his credit back.
            return match self.prepare(feed, now, context.load) {
                Ok(step) => step,
                Err(error) => self.fail::<F>(&error),
            };
        }
        self.ending = None;
        loop {
            let asked = self.asked_by(now).filter(|&at| at > self.read_until);
            let until = self.read_next(asked.unwrap_or(now), feed.event_clock());
            let event = match feed.poll(until) {
                Ok(event) => event,
                Err(error) => return self.fail::<F>(&error),
            };
            self.count(feed);
            if let FeedEvent::NotBefore(_) | FeedEvent::Waiting = event {
                let nothing_before = match event {
                    FeedEvent::NotBefore(due) => ProcessingTime(due.0.saturating_sub(1)),
                    _ => ProcessingTime::MAX,
                };
                self.read_until = nothing_before.min(asked.unwrap_or(now)).max(until).max(self.read_until);
                for reader in &mut self.readers {
                    reader.tell_arrived(self.id, self.read_until, now, context.staged);
                }
                if self.read_until < now {
                    continue;
                }
            }
            match event {
                FeedEvent::Batch(batch, arrival) => {
                    self.offer_all(feed, batch, arrival, now, context);
                    if let Some(step) = self.work(feed, started, context) {
                        return step;
                    }
                    now = context.clock.now();
                    let behind = self.readers.iter().any(Reader::is_behind);
                    if behind || now.since_ns(started) >= context.quantum_ns {
                        let clock = feed.event_clock();
                        let window_end = self.window_end(clock, context.load);
                        return match self.due_later(now, clock, window_end) {
                            Some(due) => self.amid(now, due),
                            None => Step::At { at: now, due: arrival },
                        };
                    }
                }
                FeedEvent::NotBefore(due) => {
                    self.appoint_next(due, feed.event_clock(), started, now, context);
                    return match self.prepare(feed, now, context.load) {
                        Ok(step) => step,
                        Err(error) => self.fail::<F>(&error),
                    };
                }
                FeedEvent::Waiting => {
                    let at = self.sooner(ProcessingTime::MAX, now, context);
                    return Step::Waiting(Some(at).filter(|&at| at < ProcessingTime::MAX));
                }
                FeedEvent::End => {
                    self.ended = true;
                    return self.end_input(feed, now, context);
                }
            }
        }
    }

    /// How far to read at once. A batch has one arrival for all of its rows: where they are judged by that, it reaches over a
    /// small part of a window.
    fn read_next(&self, until: ProcessingTime, clock: Option<EventClock>) -> ProcessingTime {
        let steps_ns = self.readers.iter().filter_map(|reader| reader.arrival_step_ns(clock));
        steps_ns.min().map_or(until, |step_ns| until.min(self.read_until.plus_ns(step_ns)))
    }

    /// The first instant up to `now` that a reader wants to be told of.
    fn asked_by(&self, now: ProcessingTime) -> Option<ProcessingTime> {
        self.readers.iter().filter_map(|reader| reader.asked_time(self.id)).min().filter(|&at| at <= now)
    }

    /// Offers a batch to every reader; in pieces, where some begin to read amid it.
    fn offer_all<F: Feed<C>, K: Clock, S: Relieves>(
        &mut self,
        feed: &F,
        mut batch: C::Batch,
        arrival: ProcessingTime,
        now: ProcessingTime,
        context: &mut IntakeContext<'_, C, K, S>,
    ) {
        self.wake_later();
        while let Some((at, _)) = self.later.last() {
            let (rows, before) = (C::rows(&batch), at - self.rows_offered);
            if before >= u64::from(rows) {
                break;
            }
            let piece = C::slice(&batch, 0, before as usize);
            batch = C::slice(&batch, before as usize, rows as usize - before as usize);
            self.offer(feed, piece, arrival, now, context);
            self.wake_later();
        }
        self.offer(feed, batch, arrival, now, context);
        self.wake_later();
    }

    /// Offers a batch to every reader.
    fn offer<F: Feed<C>, K: Clock, S: Relieves>(
        &mut self,
        feed: &F,
        batch: C::Batch,
        arrival: ProcessingTime,
        now: ProcessingTime,
        context: &mut IntakeContext<'_, C, K, S>,
    ) {
        self.rows_offered += u64::from(C::rows(&batch));
        self.last_arrival = arrival;
        let clock = feed.event_clock();
        self.each_group(|group| group.take::<F, K>(batch.clone(), arrival, clock.as_ref(), context.clock));
        let Some((last, others)) = self.readers.split_last_mut() else { return };
        for reader in others {
            reader.offer::<F, K, S>(self.id, batch.clone(), arrival, None, clock, now, context);
        }
        last.offer::<F, K, S>(self.id, batch, arrival, None, clock, now, context);
    }

    /// Hands over what groups have to, until the quantum is over; when to go on if something is left.
    fn work<F: Feed<C>, K: Clock, S: Relieves>(
        &mut self,
        feed: &F,
        started: ProcessingTime,
        context: &mut IntakeContext<'_, C, K, S>,
    ) -> Option<Step> {
        let (id, place) = (self.id, self.position());
        let mut left = None;
        self.each_group(|group| {
            // Who comes after one that has used the quantum up waits for the next look.
            let is_left = match left {
                None => {
                    group.has_work()
                        && group.work::<F, K, S>(id, place, started, feed.event_clock(), context)?
                }
                Some(_) => group.has_work(),
            };
            if is_left {
                let due = group.arrival();
                left = Some(left.map_or(due, |other: ProcessingTime| other.min(due)));
            }
            Ok(())
        });
        left.map(|due| Step::At { at: context.clock.now(), due })
    }

    /// Does that to all groups; one for which it cannot be done ends.
    fn each_group(&mut self, mut act: impl FnMut(&mut Group<C>) -> Result<(), C::Error>) {
        self.groups.retain_mut(|group| match act(group) {
            Ok(()) => !group.is_empty(),
            Err(error) => {
                group.stop(&error.to_string());
                false
            }
        });
    }

    fn count<F: Feed<C>>(&mut self, feed: &F) {
        let dead_rows = feed.dead_rows();
        let new_dead_rows = dead_rows.saturating_sub(self.dead_rows_seen);
        self.dead_rows_seen += new_dead_rows;
        let progress = feed.progress();
        if new_dead_rows == 0 && progress.is_none() {
            return;
        }
        for group in &self.groups {
            group.count(new_dead_rows, progress);
        }
        for reader in &mut self.readers {
            reader.count_dead(new_dead_rows);
            if let Some(progress) = progress {
                reader.query.set_progress(progress);
            }
        }
    }

    /// Tells the readers that have everything that no more comes, and lets go of them.
    fn end_input<F: Feed<C>, K: Clock, S: Relieves>(
        &mut self,
        feed: &F,
        now: ProcessingTime,
        context: &mut IntakeContext<'_, C, K, S>,
    ) -> Step {
        // The table has become shorter than it was where it was left.
        self.wake_later();
        self.groups.iter_mut().for_each(Group::end_of_input);
        let left = self.work(feed, now, context);
        self.readers.retain_mut(|reader| {
            let has_all = reader.may_end();
            if has_all {
                reader.end_of_input(now, context.staged);
            }
            !has_all
        });
        let held = Step::Held(now.plus_ns(HELD_RETRY_NS));
        left.unwrap_or(if self.is_unread() { Step::Done } else { held })
    }

    /// Ends all who read it.
    fn fail<F: Feed<C>>(&mut self, error: &F::Error) -> Step {
        if F::may_pass(error) {
            self.readers().for_each(|reader| reader.query.note_that_it_passes());
        }
        self.stop(&error.to_string());
        Step::Done
    }

    /// Ends all who read it, for this reason.
    pub fn stop(&mut self, why: &str) {
        let later = self.later.drain(..).map(|(_, reader)| reader);
        for reader in self.readers.drain(..).chain(later) {
            end(&reader.query, why);
        }
        self.groups.drain(..).for_each(|mut group| group.stop(why));
    }

    fn count_backlog(&mut self, held_bytes: u64, memory: &Memory) {
        let of_groups: u64 = self.groups.iter().map(Group::held_bytes).sum();
        let backlog = self.readers.iter().map(Reader::backlog_bytes).max().unwrap_or(0);
        let bytes = held_bytes + of_groups + backlog;
        if bytes != self.backlog_bytes {
            memory.grow(bytes as i64 - self.backlog_bytes as i64);
            self.backlog_bytes = bytes;
        }
    }

    /// Gives the readers that can wait a copy of their own, once one of them holds up those that cannot.
    fn split_off(&mut self, backlog_bytes: u64) -> Option<Split<C>> {
        let over = |reader: &Reader<C>| reader.backlog_bytes() > backlog_bytes;
        if !self.readers.iter().any(over) && !self.groups.iter().any(|group| group.is_over(backlog_bytes)) {
            return None;
        }
        let urgent_ns = self.target_ns().saturating_mul(PEERS_WITHIN);
        let can_wait = |reader: &Reader<C>| reader.query.target_ns() > urgent_ns;
        if !self.readers().any(|reader| can_wait(reader) && over(reader)) {
            return None;
        }
        let position = self.position();
        let (leaving, staying): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.readers).into_iter().partition(can_wait);
        self.readers = staying;
        let mut groups = Vec::new();
        self.each_group(|group| {
            if group.any_may_leave(can_wait) {
                groups.push(group.split_off(can_wait)?);
            }
            Ok(())
        });
        // All readers were offered the same rows; what differs is how many of them wait in a backlog.
        Some(Split { readers: leaving, groups, position, ended: self.ended })
    }
}

impl<C: Content> fmt::Debug for Intake<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Intake");
        shown.field("id", &self.id).field("readers", &self.readers().count()).field("ended", &self.ended);
        shown.finish_non_exhaustive()
    }
}

impl<C: Content> fmt::Debug for Split<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Split");
        shown.field("readers", &self.readers().count()).field("position", &self.position);
        shown.finish_non_exhaustive()
    }
}

impl<C: Content> Split<C> {
    /// Who.
    pub fn readers(&self) -> impl Iterator<Item = &Reader<C>> {
        self.readers.iter().chain(self.groups.iter().flat_map(Group::readers))
    }

    /// There is no copy to be had, for this reason.
    pub fn fail(&self, why: &str) {
        self.readers().for_each(|reader| end(&reader.query, why));
    }
}

fn end(query: &Arc<Query>, why: &str) {
    tracing::error!(query = query.settings.name, why, "query stopped");
    query.end(Outcome::Failed(why.to_owned()));
}

/// No rows are known of it yet.
pub(crate) const NO_PROGRESS: EventTime = EventTime::MIN;
