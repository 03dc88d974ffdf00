//! Tables that are being read, and how they are opened.
//!
//! What a look at one does is [`laxity_runtime::Intake`]'s; here are the connectors behind it. A table is a unit of the
//! scheduler like an operator, with a query of its own, and runs on a worker.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};

use laxity_connect::{
    ConnectError, Preparation, RecordPlace, Scan, ScanEnvironment, ScanEvent, ScanPosition, ScanSpec, Waker,
    open_scan,
};
use laxity_graph::{EventClock, OperatorId, ProcessingTime, QueryId, fetch};
use laxity_operators::{SharedSourceSpec, StreamBatch, Way};
use laxity_runtime::{
    ArrowRows, Feed, FeedEvent, Given, Intake, IntakeContext, Look, Memory, Parcel, Position, Query, Reader,
    Relieves, Split, Step, Taken, Visited, Work, Write,
};
use laxity_sched::{LeavesOut, Relief};
use parking_lot::{Mutex, RwLock};

use crate::chain_of_causes;
use crate::clock::Clock;

/// A table being read.
pub(crate) struct Table {
    pub id: OperatorId,
    /// What the scheduler knows it by: looks are no query's work, but everybody's who reads it.
    pub query: QueryId,
    pub spec: ScanSpec,
    pub environment: ScanEnvironment,
    // As an operator's: one worker has it at a time.
    cell: Mutex<Cell>,
}

struct Cell {
    intake: Intake<ArrowRows>,
    /// What those got last whose place others took. The next look hands it over, behind what the one before it has admitted.
    left: Vec<Parcel<ArrowRows>>,
    /// The nearest target, as the scheduler was told last.
    target_ns: u64,
    /// `None` once it is done.
    scan: Option<Scanned>,
}

/// How far a query has read a table, for its checkpoint.
pub(crate) struct ReadUpTo {
    pub position: Position,
    /// Of a table that comes in parts.
    pub offsets: Option<ScanPosition>,
    pub is_repeatable: bool,
    /// See [`Given`].
    pub taken: Option<Taken<ArrowRows>>,
    pub handed: u64,
    pub work: Option<Work<ArrowRows>>,
}

/// What a table says of that.
pub(crate) enum Reading {
    UpTo(ReadUpTo),
    /// It is to be asked again once it was looked at.
    Later,
}

/// A query whose place another one takes.
pub(crate) struct Leaves<'a> {
    pub query: &'a Query,
    pub memory: &'a Memory,
    pub now: ProcessingTime,
}

/// How a query that comes later gets to the rows of a table that others read.
pub(crate) enum WayIn {
    /// It reads with them.
    Joins,
    /// By another copy, opened so, from there on: it asks for columns that they do not.
    Copy(Box<ScanEnvironment>, Position),
    /// It asks for columns that they do not, and what they read cannot be read twice.
    None,
    /// They have left it meanwhile.
    Closed,
}

/// What a look at a table led to.
pub(crate) struct Looked {
    /// When to look again.
    pub look: Option<Look>,
    /// It will not be looked at any more.
    pub is_done: bool,
    /// Those who read it have a copy of their own from now on.
    pub split: Option<Split<ArrowRows>>,
    /// Whose work is done with that of others from here on: restored ones, where it came to their place.
    pub seated: Vec<QueryId>,
    /// Where that copy begins, if not after so many rows.
    pub resume: Option<ScanPosition>,
    /// That it found.
    pub rows: u64,
    /// Part of its time that stands where shared work is written down, ns.
    pub recorded_ns: u64,
    pub started: ProcessingTime,
    pub ended: ProcessingTime,
}

/// How tables are opened: by their connector, or by the program.
#[derive(Default)]
pub(crate) struct Connectors {
    provided: RwLock<HashMap<String, Box<OpenScan>>>,
}

/// Opens a table that the program provides itself.
pub(crate) type OpenScan =
    dyn Fn(&ScanSpec, &ScanEnvironment) -> Result<Box<dyn Scan>, ConnectError> + Send + Sync;

/// What all tables share.
pub(crate) struct TableContext<'a> {
    pub clock: &'a Clock,
    pub quantum_ns: u64,
    pub backlog_bytes: u64,
    pub memory: &'a Memory,
    pub load: f64,
    /// Some query allows rows to be dropped or left out: the scheduler has to hear of all that comes.
    pub relieves: &'a AtomicBool,
}

impl<'a> TableContext<'a> {
    /// For a look, which leaves what it admits and makes in these.
    fn intake<S: Relieves>(
        &self,
        relief: S,
        staged: &'a mut Vec<Parcel<ArrowRows>>,
        writes: &'a mut Vec<Write<ArrowRows>>,
    ) -> IntakeContext<'a, ArrowRows, Clock, S> {
        IntakeContext {
            clock: self.clock,
            quantum_ns: self.quantum_ns,
            unix_start_ms: self.clock.unix_start_ms(),
            backlog_bytes: self.backlog_bytes,
            memory: self.memory,
            load: self.load,
            relief,
            staged,
            writes,
        }
    }
}

/// Wakes a table that waits for bytes, once it is known: a scan is opened before its table is.
#[derive(Clone, Default)]
pub(crate) struct TableWaker(Arc<OnceLock<Box<dyn Fn() + Send + Sync>>>);

impl TableWaker {
    /// What a scan calls.
    pub fn waker(&self) -> Waker {
        let table = self.0.clone();
        Waker::new(move || {
            if let Some(wake) = table.get() {
                wake();
            }
        })
    }

    /// Says how the table is woken. It is to be looked at after that: who called before was not heard.
    pub fn wakes_by(&self, wake: impl Fn() + Send + Sync + 'static) {
        let _ = self.0.set(Box::new(wake));
    }
}

impl Connectors {
    /// Takes scans of the table from `open` instead of its connector.
    pub fn provide(&self, table: &str, open: Box<OpenScan>) {
        self.provided.write().insert(table.to_string(), open);
    }

    pub fn open(
        &self,
        spec: &ScanSpec,
        environment: &ScanEnvironment,
    ) -> Result<Box<dyn Scan>, ConnectError> {
        match self.provided.read().get(&spec.table.name) {
            Some(open) => open(spec, environment),
            None => open_scan(spec, environment),
        }
    }
}

impl Table {
    pub fn new(
        query: QueryId,
        spec: ScanSpec,
        environment: ScanEnvironment,
        intake: Intake<ArrowRows>,
        scan: Box<dyn Scan>,
    ) -> Table {
        let id = intake.id;
        let target_ns = intake.target_ns();
        let scan = Scanned {
            offered: intake.position().rows,
            at: scan.position(),
            places: VecDeque::new(),
            scan,
            rows: 0,
        };
        let cell = Mutex::new(Cell { intake, left: Vec::new(), target_ns, scan: Some(scan) });
        Table { id, query, spec, environment, cell }
    }

    /// Asks for the memory behind it that its next look will touch. Nothing while it is looked at.
    pub fn fetch(&self) {
        let Some(cell) = self.cell.try_lock() else { return };
        if let Some(feed) = &cell.scan {
            fetch(&*feed.scan);
            feed.scan.fetch();
        }
        cell.intake.fetch();
    }

    /// The target of a look, ns.
    pub fn target_ns(&self) -> u64 {
        self.cell.lock().intake.target_ns()
    }

    /// Targets of those who read it have changed.
    pub fn space(&self) {
        self.cell.lock().intake.space();
    }

    /// True if the nearest target of those who read it is another than at the last call.
    pub fn is_retargeted(&self) -> bool {
        let mut cell = self.cell.lock();
        let target_ns = cell.intake.target_ns();
        std::mem::replace(&mut cell.target_ns, target_ns) != target_ns
    }

    /// True if all of these columns are read.
    pub fn has_columns(&self, columns: &[usize]) -> bool {
        columns.iter().all(|column| self.spec.columns.binary_search(column).is_ok())
    }

    /// One more reads it, from the next row on. False where there is no next row.
    /// `begins`, if it is asked for, is told how a copy of the same columns would begin with the same row. Who `leaves` gets all
    /// rows before that one, and none from it on.
    pub fn join(
        &self,
        readers: Vec<Reader<ArrowRows>>,
        begins: Option<impl FnOnce(&ScanEnvironment, Position)>,
        leaves: Option<Leaves<'_>>,
    ) -> bool {
        let mut cell = self.cell.lock();
        let Cell { intake, scan, left, .. } = &mut *cell;
        let Some(feed) = scan else { return false };
        let begins = begins.map(|tell| (tell, self.to_another_copy(intake.position(), feed)));
        // It ends for all of them or for none.
        let joins = readers.into_iter().all(|reader| intake.join(reader).is_none());
        if let Some(Leaves { query, memory, now }) = leaves.filter(|_| joins) {
            intake.give_all::<Scanned>(query, now, left);
            intake.leave(query, memory);
        }
        if let Some((tell, (environment, position))) = begins.filter(|_| joins) {
            tell(&environment, position);
        }
        joins
    }

    /// Whether what it gave can be had again: of a pipe it cannot.
    pub fn is_found_again(&self) -> bool {
        let cell = self.cell.lock();
        cell.scan.as_ref().is_none_or(|feed| feed.is_repeatable() || feed.scan.position().is_some())
    }

    /// See [`Intake::take_seated`].
    pub fn take_seated(&self) -> Vec<QueryId> {
        self.cell.lock().intake.take_seated()
    }

    /// How one more reads it that may ask for these, the rows that are its by these columns.
    pub fn way(
        &self,
        rows: Option<&Arc<SharedSourceSpec>>,
        view: Option<&Arc<SharedSourceSpec>>,
        columns: &Option<Vec<usize>>,
    ) -> Way {
        let intake = &self.cell.lock().intake;
        let is_one = rows.is_some_and(|rows| rows.gets_every_row() && intake.is_one(rows, columns));
        // Whose rows can be told apart begins no view: its filter alone would be asked of every row.
        let begins_view = rows.is_none_or(|rows| rows.gets_every_row());
        let is_viewed = !is_one
            && view.is_some_and(|view| match begins_view {
                false => intake.serves(view, &None),
                true => intake.should_share(view, &None),
            });
        match rows {
            _ if is_viewed => Way::View,
            Some(rows) if intake.should_share(rows, columns) => Way::Rows,
            _ => Way::Alone,
        }
    }

    /// How one reads it from where it is.
    pub fn way_in(&self, columns: &[usize]) -> WayIn {
        let mut cell = self.cell.lock();
        let Cell { intake, scan, .. } = &mut *cell;
        match scan {
            None => WayIn::Closed,
            Some(_) if self.has_columns(columns) => WayIn::Joins,
            Some(feed) if feed.is_repeatable() => {
                let (environment, position) = self.to_another_copy(intake.position(), feed);
                WayIn::Copy(Box::new(environment), position)
            }
            Some(_) => WayIn::None,
        }
    }

    /// How another copy of it goes on from where it is, which is of other columns, and so of other rows.
    fn to_another_copy(&self, position: Position, feed: &mut Scanned) -> (ScanEnvironment, Position) {
        let environment = self.environment.clone();
        if let Some(resume) = feed.scan.position() {
            return (ScanEnvironment { skip_rows: 0, resume: Some(resume), ..environment }, position);
        }
        match feed.scan.records() {
            Some(records) => {
                let due_at_start = feed.scan.event_clock().map(|clock| clock.event_origin);
                let behind = Some(RecordPlace { records, due_at_start });
                let environment = ScanEnvironment { behind, skip_rows: 0, restored: None, ..environment };
                (environment, Position::default())
            }
            None => (ScanEnvironment { skip_rows: position.rows, ..environment }, position),
        }
    }

    /// How far this source of a query has read it, as [`Intake::visit`]; `None` if that reads something else by now.
    pub fn read_up_to(&self, query: &Query, source: OperatorId, is_first: bool) -> Option<Reading> {
        let mut cell = self.cell.lock();
        let Cell { intake, scan, .. } = &mut *cell;
        let feed = scan.as_ref()?;
        Some(match intake.visit(query, source, is_first)? {
            Visited::Later => Reading::Later,
            Visited::Given(Given { position, taken, handed, work }) => Reading::UpTo(ReadUpTo {
                position,
                offsets: feed.place(position.rows),
                is_repeatable: feed.is_repeatable(),
                taken,
                handed,
                work,
            }),
        })
    }

    /// See [`Intake::handed`].
    pub fn handed(&self, query: &Query, source: OperatorId) -> Option<u64> {
        self.cell.lock().intake.handed(query, source)
    }

    /// The query reads it no longer. True if nobody does: it is closed then.
    pub fn leave(&self, query: &Query, memory: &Memory) -> bool {
        let mut cell = self.cell.lock();
        let is_last = cell.intake.leave(query, memory);
        if is_last {
            // Under the same lock: nobody joins what is about to be removed.
            cell.scan = None;
        }
        is_last
    }

    /// Looks at it, if that is due. Whatever the connector does, an error or a panic, ends those who read this table and
    /// nobody else.
    pub fn attend(
        &self,
        context: &TableContext<'_>,
        relief: impl Fn(OperatorId, u32, LeavesOut, ProcessingTime) -> Relief,
        staged: &mut Vec<Parcel<ArrowRows>>,
        writes: &mut Vec<Write<ArrowRows>>,
    ) -> Looked {
        let started = context.clock.now();
        let mut cell = self.cell.lock();
        let Cell { intake, scan, left, .. } = &mut *cell;
        staged.append(left);
        let Some(feed) = scan else {
            return Looked {
                look: None,
                is_done: true,
                split: None,
                seated: Vec::new(),
                resume: None,
                rows: 0,
                recorded_ns: 0,
                started,
                ended: started,
            };
        };
        let relieves = context.relieves.load(Relaxed);
        let relief = |source, rows, leaves_out| match relieves {
            true => relief(source, rows, leaves_out, started),
            false => Relief::default(),
        };
        let mut around = context.intake(relief, staged, writes);
        let attended =
            std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| intake.attend(feed, &mut around)));
        let (step, split) = attended.unwrap_or_else(|panic| {
            self.stop_after_panic(intake, &*panic);
            (Step::Done, None)
        });
        let look = Look::after(step);
        let is_done = step == Step::Done;
        let rows = std::mem::take(&mut feed.rows);
        if feed.places.len() > PLACES_KEPT {
            feed.forget_before(intake.least_rows());
        }
        let resume = split.as_ref().and_then(|_| feed.scan.position());
        if is_done {
            *scan = None;
        }
        let recorded_ns = intake.take_recorded_ns();
        let seated = intake.take_seated();
        Looked {
            look,
            is_done,
            split,
            seated,
            resume,
            rows,
            recorded_ns,
            started,
            ended: context.clock.now(),
        }
    }

    /// Hands over what is due of what was read, and closes it. As [`attend`](Table::attend) if that panics.
    pub fn complete(
        &self,
        context: &TableContext<'_>,
        staged: &mut Vec<Parcel<ArrowRows>>,
        writes: &mut Vec<Write<ArrowRows>>,
    ) {
        let mut cell = self.cell.lock();
        let Cell { intake, scan, left, .. } = &mut *cell;
        staged.append(left);
        let Some(feed) = scan.take() else { return };
        let mut around = context.intake(|_, _, _| Relief::default(), staged, writes);
        let complete = std::panic::AssertUnwindSafe(|| intake.complete(&feed, &mut around));
        if let Err(panic) = std::panic::catch_unwind(complete) {
            self.stop_after_panic(intake, &*panic);
        }
    }

    fn stop_after_panic(&self, intake: &mut Intake<ArrowRows>, panic: &(dyn std::any::Any + Send)) {
        let what = laxity_runtime::panic_text(panic);
        let table = &self.spec.table.name;
        intake.stop(&format!("table {table:?}: internal error: {what} (please report this)"));
    }

    /// Ends those who read it, for this reason.
    pub fn fail(&self, why: &str) {
        self.cell.lock().intake.stop(why);
    }

    /// Nothing more is read. What is left to be handed over.
    pub fn close(&self) -> Vec<Parcel<ArrowRows>> {
        let mut cell = self.cell.lock();
        cell.scan = None;
        std::mem::take(&mut cell.left)
    }
}

impl fmt::Debug for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Table")
            .field("id", &self.id)
            .field("table", &self.spec.table.name)
            .finish_non_exhaustive()
    }
}

/// A connector's scan, as the runtime sees it.
struct Scanned {
    scan: Box<dyn Scan>,
    /// Given in the look under way.
    rows: u64,
    /// Rows given since the table was first opened.
    offered: u64,
    /// Behind those, in a table that comes in parts.
    at: Option<ScanPosition>,
    /// Where batches began of such a table: a reader may not have taken all of them in.
    places: VecDeque<(u64, ScanPosition)>,
}

/// Places that are kept whoever may need them: to look for who does takes longer than that.
const PLACES_KEPT: usize = 512;

impl Scanned {
    /// The place behind so many rows, where a batch ended.
    fn place(&self, rows: u64) -> Option<ScanPosition> {
        if rows == self.offered {
            return self.at.clone();
        }
        self.places.iter().rev().find(|(before, _)| *before == rows).map(|(_, place)| place.clone())
    }

    /// Nobody is at a place before that.
    fn forget_before(&mut self, rows: u64) {
        while self.places.front().is_some_and(|(before, _)| *before < rows) {
            self.places.pop_front();
        }
    }
}

/// An error with its causes, in one line.
struct Failed(ConnectError);

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&chain_of_causes(&self.0))
    }
}

impl Feed<ArrowRows> for Scanned {
    type Error = Failed;

    fn poll(&mut self, now: ProcessingTime) -> Result<FeedEvent<StreamBatch>, Failed> {
        Ok(match self.scan.poll(now).map_err(Failed)? {
            ScanEvent::Batch(batch) => {
                let rows = batch.rows.num_rows() as u64;
                self.rows += rows;
                if let Some(at) = std::mem::replace(&mut self.at, self.scan.position()) {
                    self.places.push_back((self.offered, at));
                }
                self.offered += rows;
                FeedEvent::Batch(StreamBatch::on_time(batch.rows), batch.arrival)
            }
            ScanEvent::NotBefore(at) => FeedEvent::NotBefore(at),
            ScanEvent::Waiting => FeedEvent::Waiting,
            ScanEvent::End => FeedEvent::End,
        })
    }

    fn prepare(&mut self) -> Result<bool, Failed> {
        Ok(self.scan.prepare().map_err(Failed)? == Preparation::More)
    }

    fn prepared_until(&self) -> Option<ProcessingTime> {
        self.scan.prepared_until()
    }

    fn is_repeatable(&self) -> bool {
        self.scan.is_repeatable()
    }

    fn held_bytes(&self) -> u64 {
        self.scan.held_bytes()
    }

    fn event_clock(&self) -> Option<EventClock> {
        self.scan.event_clock()
    }

    fn dead_rows(&self) -> u64 {
        self.scan.dead_rows()
    }

    fn progress(&self) -> Option<f64> {
        self.scan.progress()
    }

    fn may_pass(error: &Failed) -> bool {
        error.0.may_pass()
    }

    fn project(batch: &StreamBatch, columns: &[usize]) -> StreamBatch {
        StreamBatch::on_time(batch.rows.project(columns).expect("columns of this table"))
    }
}
