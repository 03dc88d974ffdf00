//! Looks at a table in virtual time: when it is looked at again, what is admitted, who waits for whom and who leaves.
//! Cannot catch: what connectors do wrong, and what takes several threads.

use std::cell::Cell;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use arrow::array::{ArrayRef, AsArray, Int64Array, RecordBatch};
use arrow::datatypes::Int64Type;
use laxity_graph::{
    Approximation, EventClock, EventTime, LatencyTarget, OperatorId, ProcessingTime, QueryId, QuerySettings,
    WindowEnds,
};
use laxity_operators::StreamBatch;
use laxity_runtime::{
    ArrowRows, Clock, Feed, FeedEvent, InFlight, Intake, IntakeContext, Outcome, Parcel, Process, Promise,
    Query, Reader, Rhythm, Split, Step,
};
use laxity_sched::{LeavesOut, Relief};
use proptest::prelude::*;

const MS: u64 = 1_000_000;

#[derive(Default)]
struct Now(Cell<u64>);

impl Clock for Now {
    fn now(&self) -> ProcessingTime {
        ProcessingTime(self.0.get())
    }
}

/// Numbered rows, each due at its time; reading one takes time.
struct Numbers<'a> {
    clock: &'a Now,
    due_ns: Vec<u64>,
    next: usize,
    batch_rows_max: usize,
    row_ns: u64,
    ends: bool,
    repeatable: bool,
    /// Rows that are decoded, where they have to be: so many at a time.
    decoded: Option<(usize, usize)>,
    event_clock: Option<EventClock>,
}

impl<'a> Numbers<'a> {
    fn new(clock: &'a Now, due_ns: Vec<u64>) -> Numbers<'a> {
        let batch_rows_max = usize::MAX;
        Numbers {
            clock,
            due_ns,
            next: 0,
            batch_rows_max,
            row_ns: 0,
            ends: true,
            repeatable: true,
            decoded: None,
            event_clock: None,
        }
    }

    /// Opened once more, as the table was.
    fn reopen(&self, skip_rows: u64) -> Numbers<'a> {
        let decoded = self.decoded.map(|(_, piece)| (0, piece));
        Numbers { due_ns: self.due_ns.clone(), next: skip_rows as usize, decoded, ..*self }
    }
}

impl Feed<ArrowRows> for Numbers<'_> {
    type Error = Infallible;

    fn poll(&mut self, now: ProcessingTime) -> Result<FeedEvent<StreamBatch>, Infallible> {
        let Some(&first) = self.due_ns.get(self.next) else {
            return Ok(if self.ends { FeedEvent::End } else { FeedEvent::Waiting });
        };
        if first > now.0 {
            return Ok(FeedEvent::NotBefore(ProcessingTime(first)));
        }
        let due = self.due_ns[self.next..].iter().take_while(|&&due| due <= now.0);
        let count = due.count().min(self.batch_rows_max);
        let numbers = self.next as i64..(self.next + count) as i64;
        self.next += count;
        self.clock.0.set(self.clock.0.get() + self.row_ns * count as u64);
        let column: ArrayRef = Arc::new(Int64Array::from_iter_values(numbers));
        let rows = RecordBatch::try_from_iter([("n", column)]).expect("one column");
        Ok(FeedEvent::Batch(StreamBatch::on_time(rows), ProcessingTime(self.due_ns[self.next - 1])))
    }

    fn prepare(&mut self) -> Result<bool, Infallible> {
        let next = self.next;
        Ok(self.decoded.as_mut().is_some_and(|(decoded, piece)| {
            let more = *decoded < next + 2 * *piece;
            *decoded = (*decoded).max(next) + if more { *piece } else { 0 };
            more
        }))
    }

    fn prepared_until(&self) -> Option<ProcessingTime> {
        let (decoded, _) = self.decoded?;
        let first_missing = self.due_ns.get(decoded.max(self.next))?;
        Some(ProcessingTime(*first_missing))
    }

    fn is_repeatable(&self) -> bool {
        self.repeatable
    }

    fn held_bytes(&self) -> u64 {
        0
    }

    fn event_clock(&self) -> Option<EventClock> {
        self.event_clock
    }

    fn dead_rows(&self) -> u64 {
        0
    }

    fn progress(&self) -> Option<f64> {
        None
    }

    fn project(batch: &StreamBatch, columns: &[usize]) -> StreamBatch {
        StreamBatch::on_time(batch.rows.project(columns).expect("columns of this table"))
    }
}

fn process(credit_bytes: u64) -> Arc<Process> {
    Arc::new(Process::new(1 << 30, credit_bytes))
}

fn query(id: u32, target_ms: u64, process: &Arc<Process>) -> Arc<Query> {
    let latency_target = LatencyTarget::new(Duration::from_millis(target_ms)).expect("a target");
    let settings = QuerySettings { latency_target, ..QuerySettings::named(format!("q{id}")) };
    Arc::new(Query::new(QueryId(id), settings, 1, Arc::clone(process)))
}

/// Its source is the operator of its number.
fn reader(query: &Arc<Query>) -> Reader<ArrowRows> {
    Reader::new(Arc::clone(query), OperatorId(query.id.0), None, false, ProcessingTime::ZERO)
}

/// A table, with what a look at it needs.
struct Looks<'a> {
    clock: &'a Now,
    process: Arc<Process>,
    quantum_ns: u64,
    backlog_bytes: u64,
    load: f64,
    staged: Vec<Parcel<ArrowRows>>,
}

impl<'a> Looks<'a> {
    fn new(clock: &'a Now, process: &Arc<Process>) -> Looks<'a> {
        let process = Arc::clone(process);
        Looks { clock, process, quantum_ns: MS, backlog_bytes: u64::MAX, load: 0.0, staged: Vec::new() }
    }

    fn at(
        &mut self,
        at_ns: u64,
        intake: &mut Intake<ArrowRows>,
        feed: &mut Numbers<'_>,
    ) -> (Step, Option<Split<ArrowRows>>) {
        self.clock.0.set(self.clock.0.get().max(at_ns));
        let mut context = IntakeContext {
            clock: self.clock,
            quantum_ns: self.quantum_ns,
            unix_start_ms: 0,
            load: self.load,
            backlog_bytes: self.backlog_bytes,
            memory: &self.process.memory,
            relief: |_, _, _| Relief::default(),
            staged: &mut self.staged,
            writes: &mut Vec::new(),
        };
        intake.attend(feed, &mut context)
    }

    /// What was admitted since it was asked last, and who got it.
    fn admitted(&mut self) -> Vec<(u32, Vec<i64>)> {
        self.staged.drain(..).map(|parcel| (parcel.to.0, numbers(&parcel))).collect()
    }
}

fn numbers(parcel: &Parcel<ArrowRows>) -> Vec<i64> {
    let batch = parcel.body.batch.as_ref();
    batch.map_or(Vec::new(), |batch| batch.rows.column(0).as_primitive::<Int64Type>().values().to_vec())
}

fn each_ms(rows: u64) -> Vec<u64> {
    (0..rows).map(|row| row * MS).collect()
}

fn at(step: Step) -> u64 {
    match step {
        Step::At { at, .. } | Step::Amid { at, .. } | Step::Held(at) | Step::Waiting(Some(at)) => at.0,
        Step::Waiting(None) | Step::Done => panic!("{step:?}"),
    }
}

#[test]
fn who_may_leave_rows_out_says_how_far_it_is_and_is_told_to() {
    let process = process(u64::MAX);
    let settings = QuerySettings { leaves_out: true, ..QuerySettings::named("q0") };
    let query = Arc::new(Query::new(QueryId(0), settings, 1, Arc::clone(&process)));
    let clock = Now::default();
    let mut feed = Numbers::new(&clock, (0..4).map(|number| number * 1_000 * MS).collect());
    let mut intake = Intake::new(OperatorId(9), vec![reader(&query)]);
    let begun =
        |is_engaged, has_begun| Some(Approximation { is_engaged, has_begun, ..Approximation::default() });
    let so_far = [None, begun(false, false), begun(true, false), begun(true, true)];
    let mut asked = Vec::new();
    for (at, approximation) in (0..).zip(so_far) {
        *query.approximation.lock() = approximation;
        clock.0.set(at * 1_000 * MS);
        let mut context = IntakeContext {
            clock: &clock,
            quantum_ns: MS,
            unix_start_ms: 0,
            load: 0.0,
            backlog_bytes: u64::MAX,
            memory: &process.memory,
            relief: |_, _, leaves_out| {
                asked.push(leaves_out);
                Relief { drop: 0, leave_out: at % 2 == 1 }
            },
            staged: &mut Vec::new(),
            writes: &mut Vec::new(),
        };
        intake.attend(&mut feed, &mut context);
        assert_eq!(query.is_overloaded(0), at % 2 == 1);
    }
    assert_eq!(asked, [LeavesOut::Nothing, LeavesOut::Nothing, LeavesOut::Soon, LeavesOut::AllItCan]);
    assert!(query.is_overloaded(query.target_ns()), "whatever it is told");
}

#[test]
fn looks_keep_a_distance_by_the_nearest_target_and_the_load() {
    let distance_ms = |targets_ms: &[u64], load| {
        let (clock, process) = (Now::default(), process(1 << 20));
        let queries: Vec<_> =
            targets_ms.iter().enumerate().map(|(id, &target)| query(id as u32, target, &process)).collect();
        let mut intake = Intake::new(OperatorId(9), queries.iter().map(reader).collect());
        let mut feed = Numbers::new(&clock, each_ms(1_000));
        let mut looks = Looks { load, ..Looks::new(&clock, &process) };
        at(looks.at(0, &mut intake, &mut feed).0).div_ceil(MS)
    };
    let of_100 = [0.0, 0.5, 0.7, 0.9, 1.0].map(|load| distance_ms(&[100], load));
    assert_eq!(of_100, [5, 5, 15, 25, 25]);
    assert_eq!([distance_ms(&[100, 40], 0.0), distance_ms(&[60_000, 5_000], 1.0)], [2, 100]);
    // No closer than rows are.
    assert_eq!(distance_ms(&[1], 0.0), 1);
}

#[test]
fn the_distance_follows_those_who_are_left() {
    let (clock, process) = (Now::default(), process(1 << 20));
    let (near, far) = (query(0, 20, &process), query(1, 1_000, &process));
    let mut intake = Intake::new(OperatorId(9), vec![reader(&near), reader(&far)]);
    let mut feed = Numbers::new(&clock, each_ms(1_000));
    let mut looks = Looks::new(&clock, &process);
    assert_eq!(at(looks.at(0, &mut intake, &mut feed).0), MS);
    near.end(Outcome::Finished);
    assert_eq!(at(looks.at(MS, &mut intake, &mut feed).0), 51 * MS);
    far.end(Outcome::Finished);
    assert_eq!(looks.at(51 * MS, &mut intake, &mut feed).0, Step::Done);
}

#[test]
fn the_nearest_target_is_that_of_those_who_are_there() {
    let (clock, process) = (Now::default(), process(1 << 20));
    let [near, also, far] = [(0, 20), (1, 20), (2, 1_000)].map(|(id, target)| query(id, target, &process));
    let mut intake = Intake::new(OperatorId(9), vec![reader(&far)]);
    let target_ms = |intake: &Intake<ArrowRows>| intake.target_ns() / 1_000_000;
    [&near, &also].into_iter().for_each(|query| assert!(intake.join(reader(query)).is_none()));
    assert_eq!(target_ms(&intake), 20);
    assert!(!intake.leave(&near, &process.memory));
    assert_eq!(target_ms(&intake), 20, "another is as near");
    // What it was counted with is not known any more: whoever looks next asks all.
    also.alter(Promise {
        latency_target: LatencyTarget::new(Duration::from_millis(500)).unwrap(),
        ..also.promise()
    });
    assert!(!intake.leave(&also, &process.memory));
    let mut looks = Looks::new(&clock, &process);
    looks.at(0, &mut intake, &mut Numbers::new(&clock, each_ms(1_000)));
    assert_eq!(target_ms(&intake), 1_000);
    assert!(intake.leave(&far, &process.memory));
}

#[test]
fn a_look_that_comes_too_early_takes_nothing_and_a_late_one_takes_all() {
    let (clock, process) = (Now::default(), process(1 << 20));
    let only = query(0, 100, &process);
    let mut intake = Intake::new(OperatorId(9), vec![reader(&only)]);
    let mut feed = Numbers::new(&clock, each_ms(1_000));
    let mut looks = Looks::new(&clock, &process);
    assert_eq!(at(looks.at(0, &mut intake, &mut feed).0), 5 * MS);
    assert_eq!(looks.admitted(), [(0, vec![0])]);
    assert_eq!(looks.at(3 * MS, &mut intake, &mut feed).0, Step::At { at: ms(5), due: ms(5) });
    assert_eq!(looks.admitted(), []);
    looks.at(8 * MS, &mut intake, &mut feed);
    assert_eq!(looks.admitted(), [(0, (1..=8).collect())]);
}

fn ms(ms: u64) -> ProcessingTime {
    ProcessingTime(ms * MS)
}

#[test]
fn a_look_ends_with_its_quantum_and_says_since_when_the_rest_is_due() {
    let (clock, process) = (Now::default(), process(1 << 20));
    let only = query(0, 100, &process);
    let mut intake = Intake::new(OperatorId(9), vec![reader(&only)]);
    // Three rows at a time, .4 ms each.
    let mut feed = Numbers {
        batch_rows_max: 3,
        row_ns: 400_000,
        ..Numbers::new(&clock, vec![0, MS, 2 * MS, 3 * MS, 4 * MS])
    };
    let mut looks = Looks::new(&clock, &process);
    let step = looks.at(10 * MS, &mut intake, &mut feed).0;
    assert_eq!(step, Step::At { at: ProcessingTime(11_200_000), due: ms(2) });
    assert_eq!(looks.admitted(), [(0, vec![0, 1, 2])]);
}

#[test]
fn who_reads_for_windows_works_rows_off_before_more_are_taken_in() {
    let (clock, process) = (Now::default(), process(1 << 20));
    let only = query(0, 100, &process);
    let windows = Rhythm::Windows { ends: WindowEnds::new(1_000, 0).expect("a distance"), reach_ms: 1_000 };
    let event_clock = Some(EventClock { event_origin: EventTime(0), processing_origin: ms(0), speed: 1.0 });
    for (rhythm, event_clock, step) in [
        // No row has said yet when they end.
        (Some(windows), event_clock, Step::Amid { at: ms(8), behind: ms(208), due: ms(108) }),
        // None ever will.
        (Some(windows), None, Step::At { at: ms(8), due: ms(8) }),
        (Some(Rhythm::Rows), event_clock, Step::At { at: ms(8), due: ms(8) }),
        (None, event_clock, Step::At { at: ms(8), due: ms(8) }),
    ] {
        let mut intake = Intake::new(OperatorId(9), vec![reader(&only).in_rhythm(rhythm)]);
        let mut feed = Numbers { event_clock, ..Numbers::new(&clock, each_ms(1_000)) };
        assert_eq!(Looks::new(&clock, &process).at(3 * MS, &mut intake, &mut feed).0, step);
    }
}

#[test]
fn rows_without_credit_wait_and_go_on_in_order() {
    let (clock, process) = (Now::default(), process(2));
    let only = query(0, 100, &process);
    let mut intake = Intake::new(OperatorId(9), vec![reader(&only)]);
    let mut feed = Numbers { batch_rows_max: 2, ..Numbers::new(&clock, vec![0; 5]) };
    let mut looks = Looks::new(&clock, &process);
    // The first batch takes the credit, the second waits, and the table with it.
    assert_eq!(at(looks.at(0, &mut intake, &mut feed).0), 0);
    assert_eq!((looks.staged.len(), intake.readers().next().unwrap().backlog_rows()), (1, 2));
    assert_eq!(looks.at(MS, &mut intake, &mut feed).0, Step::Held(ms(11)));
    let first = looks.staged.remove(0);
    assert!(only.release(InFlight::one(first.rows, first.bytes)));
    assert_eq!(only.wake(), [OperatorId(9)], "it is woken once the credit is back");
    looks.at(2 * MS, &mut intake, &mut feed);
    assert_eq!((numbers(&first), looks.admitted()), (vec![0, 1], vec![(0, vec![2, 3])]));
    // Latency counts from when they were due, not from when there was credit.
    assert_eq!(first.ingested, ProcessingTime::ZERO);
}

#[test]
fn who_judges_arrivals_is_told_the_time_behind_all_that_were_due() {
    let (clock, process) = (Now::default(), process(80));
    let only = query(0, 100, &process);
    only.judges_arrivals(OperatorId(0), true, 1_000);
    let mut intake = Intake::new(OperatorId(9), vec![reader(&only)]);
    let mut feed = Numbers { batch_rows_max: 2, ..Numbers::new(&clock, each_ms(100)) };
    let mut looks = Looks::new(&clock, &process);
    let told = |looks: &mut Looks<'_>| {
        let told = |parcel: Parcel<ArrowRows>| {
            let until_ms = parcel.body.tells_time.then_some(parcel.ingested.0 / MS);
            (until_ms, numbers(&parcel))
        };
        looks.staged.drain(..).map(told).collect::<Vec<_>>()
    };
    looks.at(0, &mut intake, &mut feed);
    assert_eq!(told(&mut looks), [(None, vec![0])], "it did not ask");
    only.asks_for_time(OperatorId(0), Some(ms(3)));
    // Late: what was due by then comes first, and what came after it is no part of the same batch.
    looks.at(5 * MS, &mut intake, &mut feed);
    let of_5 = [(None, vec![1, 2]), (None, vec![3]), (Some(3), vec![]), (None, vec![4, 5])];
    assert_eq!(told(&mut looks), of_5);
    // Before its time, if that is when it asked to be told.
    only.asks_for_time(OperatorId(0), Some(ms(6)));
    looks.at(6 * MS, &mut intake, &mut feed);
    assert_eq!(told(&mut looks), [(None, vec![6]), (Some(6), vec![])]);
    // Once only. With seven rows that are not given back all its credit is in use soon.
    looks.at(11 * MS, &mut intake, &mut feed);
    assert_eq!(told(&mut looks), [(None, vec![7, 8]), (None, vec![9, 10])]);
    only.asks_for_time(OperatorId(0), Some(ms(12)));
    looks.at(14 * MS, &mut intake, &mut feed);
    assert_eq!(told(&mut looks), []);
    assert!(only.release(InFlight::one(11, 88)));
    looks.at(15 * MS, &mut intake, &mut feed);
    // The time comes behind rows that waited.
    assert_eq!(told(&mut looks)[..3], [(None, vec![11]), (None, vec![12]), (Some(12), vec![])]);
}

#[test]
fn a_table_that_is_behind_is_read_in_steps_for_who_judges_arrivals() {
    let (clock, process) = (Now::default(), process(1 << 20));
    let only = query(0, 100, &process);
    // 20 ms of event time, which pass in 5.
    only.judges_arrivals(OperatorId(0), true, 20);
    let mut intake = Intake::new(OperatorId(9), vec![reader(&only)]);
    let event_clock =
        EventClock { event_origin: EventTime(0), processing_origin: ProcessingTime::ZERO, speed: 4.0 };
    let due_ns = [3, 4, 9, 11, 900, 901].map(|due_ms| due_ms * MS).to_vec();
    let mut feed = Numbers { ends: false, event_clock: Some(event_clock), ..Numbers::new(&clock, due_ns) };
    let mut looks = Looks::new(&clock, &process);
    looks.at(1_000 * MS, &mut intake, &mut feed);
    // Where nothing is due for long it goes on where something is.
    let batches = [vec![0, 1], vec![2, 3], vec![4, 5]].map(|rows| (0, rows));
    assert_eq!(looks.admitted().as_slice(), &batches);
}

#[test]
fn who_is_held_is_told_the_time_once_it_is_let_go() {
    let (clock, process) = (Now::default(), process(1 << 20));
    let only = query(0, 100, &process);
    only.judges_arrivals(OperatorId(0), true, 1_000);
    let mut intake = Intake::new(OperatorId(9), vec![reader(&only)]);
    let mut feed = Numbers::new(&clock, vec![0, 50 * MS]);
    let mut looks = Looks::new(&clock, &process);
    looks.at(0, &mut intake, &mut feed);
    looks.staged.clear();
    only.asks_for_time(OperatorId(0), Some(ms(2)));
    only.hold();
    looks.at(5 * MS, &mut intake, &mut feed);
    assert!(looks.staged.is_empty());
    assert_eq!(only.let_go(), [OperatorId(9)], "its table is to be looked at");
    looks.at(6 * MS, &mut intake, &mut feed);
    assert!(looks.staged.len() == 1 && looks.staged[0].body.tells_time);
}

#[test]
fn who_is_behind_asks_for_no_look_to_be_told_the_time() {
    let next_look_ms = |credit_bytes| {
        let (clock, process) = (Now::default(), process(credit_bytes));
        let (on_time, other) = (query(0, 10_000, &process), query(1, 10_000, &process));
        let told = Reader::new(Arc::clone(&on_time), OperatorId(0), None, true, ProcessingTime::ZERO);
        let mut intake = Intake::new(OperatorId(9), vec![told, reader(&other)]);
        // Two batches at the start: without credit the second waits.
        let mut feed = Numbers { batch_rows_max: 1, ..Numbers::new(&clock, vec![0, 0, 900 * MS]) };
        let mut looks = Looks::new(&clock, &process);
        looks.at(0, &mut intake, &mut feed);
        for parcel in std::mem::take(&mut looks.staged).into_iter().filter(|parcel| parcel.to.0 == 1) {
            let _ = other.release(InFlight::one(parcel.rows, parcel.bytes));
        }
        let behind = intake.readers().next().unwrap().backlog_rows() > 0;
        looks.at(0, &mut intake, &mut feed);
        for parcel in std::mem::take(&mut looks.staged).into_iter().filter(|parcel| parcel.to.0 == 1) {
            let _ = other.release(InFlight::one(parcel.rows, parcel.bytes));
        }
        (behind, at(looks.at(MS, &mut intake, &mut feed).0) / MS)
    };
    // With credit it is to be told every 10 ms; behind, nothing calls for a look before the next row.
    assert_eq!(next_look_ms(1 << 20), (false, 10));
    assert_eq!(next_look_ms(1), (true, 900));
}

#[test]
fn who_has_waited_for_rows_too_long_is_idle_once() {
    let (clock, process) = (Now::default(), process(1 << 20));
    let latency_target = LatencyTarget::new(Duration::from_millis(100)).expect("a target");
    let idle_timeout = Some(Duration::from_millis(30));
    let settings = QuerySettings { latency_target, idle_timeout, ..QuerySettings::named("idle") };
    let only = Arc::new(Query::new(QueryId(0), settings, 1, Arc::clone(&process)));
    let mut intake = Intake::new(OperatorId(9), vec![reader(&only)]);
    let mut feed = Numbers { ends: false, ..Numbers::new(&clock, vec![0]) };
    let mut looks = Looks::new(&clock, &process);
    assert_eq!(looks.at(0, &mut intake, &mut feed).0, Step::Waiting(Some(ms(30))));
    looks.staged.clear();
    assert_eq!(looks.at(30 * MS, &mut intake, &mut feed).0, Step::Waiting(None));
    assert_eq!(looks.staged.iter().map(|parcel| parcel.body.idle).collect::<Vec<_>>(), [true]);
    looks.at(60 * MS, &mut intake, &mut feed);
    assert_eq!(looks.staged.len(), 1);
}

#[test]
fn what_will_be_due_is_prepared_before_a_piece_at_a_time() {
    let (clock, process) = (Now::default(), process(1 << 20));
    let only = query(0, 100, &process);
    let mut intake = Intake::new(OperatorId(9), vec![reader(&only)]);
    // A row each 4 ms, decoded by twos.
    let due_ns = (0..20).map(|row| row * 4 * MS).collect();
    let mut feed = Numbers { decoded: Some((0, 2)), ..Numbers::new(&clock, due_ns) };
    let mut looks = Looks::new(&clock, &process);
    // Rows up to 4 ms are decoded now, and the next piece is due at 12; more than a rest ahead of the look at 5.
    let step = looks.at(0, &mut intake, &mut feed).0;
    assert_eq!((step, feed.decoded), (Step::At { at: ms(0), due: ms(12) }, Some((3, 2))));
    let step = looks.at(0, &mut intake, &mut feed).0;
    assert_eq!((step, feed.decoded), (Step::At { at: ms(5), due: ms(5) }, Some((3, 2))), "enough for now");
}

/// A table with a reader of each target; none of them but the first has credit for more than a batch.
fn behind<'a>(clock: &'a Now, targets_ms: &[u64]) -> (Vec<Arc<Query>>, Intake<ArrowRows>, Looks<'a>) {
    let shared = process(1 << 20);
    let queries: Vec<Arc<Query>> = targets_ms
        .iter()
        .enumerate()
        .map(|(id, &target)| query(id as u32, target, &if id == 0 { shared.clone() } else { process(1) }))
        .collect();
    let intake = Intake::new(OperatorId(9), queries.iter().map(reader).collect());
    let looks = Looks { backlog_bytes: 100, ..Looks::new(clock, &shared) };
    (queries, intake, looks)
}

#[test]
fn who_can_wait_gets_a_copy_once_one_of_them_holds_up_the_urgent() {
    let clock = Now::default();
    let (_queries, mut intake, mut looks) = behind(&clock, &[20, 201, 200, 5_000]);
    let mut feed = Numbers { batch_rows_max: 10, ..Numbers::new(&clock, each_ms(1_000)) };
    let (mut now, mut split) = (0, None);
    while split.is_none() {
        let (step, of_look) = looks.at(now, &mut intake, &mut feed);
        (now, split) = (at(step).max(now + MS), of_look);
    }
    let split = split.expect("it ended with one");
    let name = |reader: &Reader<ArrowRows>| reader.query.id.0;
    // Those with more than ten times the nearest target leave; who is as near stays, though it is behind too.
    let names = (intake.readers().map(name).collect(), split.readers().map(name).collect());
    assert_eq!(names, (vec![0, 2], vec![1, 3]));
    // They take what waits for them with them, and go on behind that.
    assert_eq!(split.position.rows, feed.next as u64);
    assert!(split.readers().all(|reader| reader.backlog_rows() > 0));
    let copy = Intake::of_split(OperatorId(10), split);
    assert_eq!((copy.target_ns(), intake.target_ns()), (201 * MS, 20 * MS));
}

#[test]
fn without_a_second_copy_all_wait() {
    let clock = Now::default();
    let feed =
        |repeatable| Numbers { repeatable, batch_rows_max: 10, ..Numbers::new(&clock, each_ms(1_000)) };
    for (targets_ms, repeatable) in [([20, 5_000], false), ([20, 200], true)] {
        let (_queries, mut intake, mut looks) = behind(&clock, &targets_ms);
        let mut feed = feed(repeatable);
        let mut steps = (0..200).map(|_| {
            let now = clock.0.get() + MS;
            let (step, split) = looks.at(now, &mut intake, &mut feed);
            assert!(split.is_none());
            step
        });
        assert!(steps.any(|step| matches!(step, Step::Held(_))));
        let taken = feed.next;
        looks.at(clock.0.get() + 100 * MS, &mut intake, &mut feed);
        assert_eq!(feed.next, taken, "nothing is read that would only be kept");
    }
}

/// What happens between two looks.
#[derive(Clone, Debug)]
struct Pass {
    ns: u64,
    /// Which of the messages under way are done with, by place among them.
    done: Vec<prop::sample::Index>,
    load: f64,
    /// The table is looked at although it asked for later.
    early: bool,
}

fn pass() -> impl Strategy<Value = Pass> {
    let done = prop::collection::vec(any::<prop::sample::Index>(), 0..4);
    (0..20 * MS, done, 0.0..1.0, any::<bool>()).prop_map(|(ns, done, load, early)| Pass {
        ns,
        done,
        load,
        early,
    })
}

proptest! {
    /// Every reader gets every row once, in order, not before it was due, and then the end; whatever credit there is and
    /// whenever looks come, and whether or not it leaves for a copy.
    #[test]
    fn nothing_is_lost_or_doubled_and_order_is_kept(
        gaps_ns in prop::collection::vec(0..3 * MS, 1..80),
        targets_ms in prop::collection::vec(prop::sample::select(vec![1u64, 5, 20, 100, 1_000, 60_000]), 1..5),
        passes in prop::collection::vec(pass(), 1..60),
        credit_bytes in 1u64..400,
        backlog_bytes in 1u64..2_000,
        batch_rows_max in 1usize..20,
        row_ns in 0u64..400_000,
        decodes in any::<bool>(),
        repeatable in any::<bool>(),
    ) {
        let clock = Now::default();
        let mut due_ns = 0;
        let due_ns: Vec<u64> = gaps_ns.iter().map(|gap| { due_ns += gap; due_ns }).collect();
        let queries: Vec<Arc<Query>> = targets_ms
            .iter()
            .enumerate()
            .map(|(id, &target)| query(id as u32, target, &process(credit_bytes)))
            .collect();
        let intake = Intake::new(OperatorId(0), queries.iter().map(reader).collect());
        let decoded = decodes.then_some((0, 7));
        let feed =
            Numbers { batch_rows_max, row_ns, decoded, repeatable, ..Numbers::new(&clock, due_ns.clone()) };
        let mut tables = vec![(intake, feed, ProcessingTime::ZERO, false)];
        let mut looks = Looks { backlog_bytes, ..Looks::new(&clock, &process(u64::MAX >> 1)) };
        let mut under_way: Vec<Parcel<ArrowRows>> = Vec::new();
        let mut got: Vec<Vec<i64>> = vec![Vec::new(); queries.len()];
        let mut ended = vec![0; queries.len()];
        let release = |parcel: &Parcel<ArrowRows>| {
            let _ = queries[parcel.to.index()].release(InFlight::one(parcel.rows, parcel.bytes));
        };
        // Then all is let go of as it comes, until nothing is left.
        let rest = Pass { ns: 30 * MS, done: Vec::new(), load: 0.0, early: false };
        let count = passes.len();
        for (turn, pass) in passes.into_iter().chain(std::iter::repeat_n(rest, 1_000)).enumerate() {
            clock.0.set(clock.0.get() + pass.ns);
            looks.load = pass.load;
            for index in pass.done {
                if !under_way.is_empty() {
                    release(&under_way.remove(index.index(under_way.len())));
                }
            }
            if turn >= count {
                under_way.drain(..).for_each(|parcel| release(&parcel));
            }
            for place in 0..tables.len() {
                let (intake, feed, look, is_done) = &mut tables[place];
                if *is_done || (looks.clock.now() < *look && !pass.early) {
                    continue;
                }
                let (step, split) = looks.at(0, intake, feed);
                *is_done = step == Step::Done;
                *look = match step {
                    Step::At { at, .. } | Step::Amid { at, .. } | Step::Held(at) => at,
                    Step::Waiting(_) | Step::Done => ProcessingTime::MAX,
                };
                if let Some(split) = split {
                    prop_assert!(repeatable);
                    let copy = feed.reopen(split.position.rows);
                    let id = OperatorId(tables.len() as u32);
                    tables.push((Intake::of_split(id, split), copy, ProcessingTime::ZERO, false));
                }
            }
            for parcel in looks.staged.drain(..) {
                let rows = numbers(&parcel);
                if let Some(&last) = rows.last() {
                    prop_assert_eq!(parcel.ingested.0, due_ns[last as usize], "the last row of a batch was due then");
                    prop_assert!(parcel.body.stamps.admitted >= parcel.ingested);
                    prop_assert_eq!(ended[parcel.to.index()], 0, "no row comes behind the end");
                }
                ended[parcel.to.index()] += u32::from(parcel.body.watermark == Some(EventTime::MAX));
                got[parcel.to.index()].extend(rows);
                under_way.push(parcel);
            }
        }
        let all: Vec<i64> = (0..due_ns.len() as i64).collect();
        for (got, ended) in got.iter().zip(&ended) {
            prop_assert_eq!(got, &all);
            prop_assert_eq!(*ended, 1);
        }
        prop_assert!(tables.iter().all(|(.., is_done)| *is_done), "all tables are read to their ends");
        prop_assert_eq!(looks.process.memory.used_bytes(), 0, "no backlog is counted any more");
    }
}

/// All numbers that each source got, in order.
fn each(looks: &mut Looks<'_>, sources: u32) -> Vec<Vec<i64>> {
    let admitted = looks.admitted();
    (0..sources)
        .map(|source| {
            admitted.iter().filter(|(of, _)| *of == source).flat_map(|(_, rows)| rows.clone()).collect()
        })
        .collect()
}

/// Rows that a source was given which reads alone.
fn given<C: laxity_runtime::Content>(intake: &mut Intake<C>, query: &Query, source: u32) -> Option<u64> {
    match intake.visit(query, OperatorId(source), true)? {
        laxity_runtime::Visited::Given(given) => Some(given.position.rows),
        laxity_runtime::Visited::Later => panic!("it reads alone"),
    }
}

#[test]
fn a_held_query_gets_nothing_and_holds_nobody_up() {
    let (clock, process) = (Now::default(), process(1 << 20));
    let (held, other) = (query(0, 10, &process), query(1, 10, &process));
    let mut intake = Intake::new(OperatorId(9), vec![reader(&held), reader(&other)]).without_rest();
    let mut feed = Numbers::new(&clock, each_ms(30));
    let mut looks = Looks::new(&clock, &process);
    (0..10).for_each(|ms| drop(looks.at(ms * MS, &mut intake, &mut feed)));
    let rows = |from: i64, to: i64| (from..to).collect::<Vec<i64>>();
    assert_eq!(each(&mut looks, 2), [rows(0, 10), rows(0, 10)]);
    held.hold();
    assert_eq!(given(&mut intake, &held, 0), Some(10));
    (10..20).for_each(|ms| drop(looks.at(ms * MS, &mut intake, &mut feed)));
    assert_eq!(each(&mut looks, 2), [vec![], rows(10, 20)], "others go on");
    assert_eq!((given(&mut intake, &held, 0), given(&mut intake, &other, 1)), (Some(10), Some(20)));
    assert_eq!(intake.least_rows(), 10);
    assert_eq!(given(&mut intake, &other, 0), None, "it is not that query's source");
    assert_eq!(held.let_go(), [OperatorId(9)], "the table is to be looked at");
    looks.at(20 * MS, &mut intake, &mut feed);
    assert_eq!(each(&mut looks, 2), [rows(10, 21), vec![20]]);
    // The table ends; what was saved of the one is not safe yet.
    (21..32).for_each(|ms| drop(looks.at(ms * MS, &mut intake, &mut feed)));
    assert_eq!(each(&mut looks, 2), [rows(21, 30), rows(21, 30)]);
    assert!(other.has_ended(OperatorId(1)) && !held.has_ended(OperatorId(0)) && held.wants_to_end());
    held.let_end();
    let (step, _) = looks.at(40 * MS, &mut intake, &mut feed);
    assert_eq!((step, held.has_ended(OperatorId(0)), held.wants_to_end()), (Step::Done, true, false));
}

proptest! {
    #[test]
    fn who_was_ahead_leaves_out_what_it_had(had in prop::collection::vec(0_u64..50, 1..5), piece in 1_usize..9) {
        let (clock, process) = (Now::default(), process(1 << 20));
        let queries: Vec<_> = (0..had.len()).map(|id| query(id as u32, 10, &process)).collect();
        let least = *had.iter().min().unwrap();
        let position = |rows| laxity_runtime::Position { rows, dead_rows: 0 };
        let readers = queries.iter().zip(&had).map(|(query, had)| reader(query).skipping(position(had - least)));
        let mut intake = Intake::new(OperatorId(9), readers.collect()).from(position(least)).without_rest();
        let mut feed = Numbers { batch_rows_max: piece, ..Numbers::new(&clock, each_ms(60)).reopen(least) };
        let mut looks = Looks::new(&clock, &process);
        for ms in 0..100 {
            for (number, had) in had.iter().enumerate() {
                let given = given(&mut intake, &queries[number], number as u32);
                prop_assert!(given.is_none_or(|given| given >= *had), "one that skips has had it");
            }
            looks.at(ms * MS, &mut intake, &mut feed);
        }
        let got = each(&mut looks, had.len() as u32);
        for (got, had) in got.iter().zip(&had) {
            prop_assert_eq!(got, &(*had as i64..60).collect::<Vec<_>>());
        }
        let rows_in: Vec<u64> = queries.iter().map(|query| query.rows_in()).collect();
        prop_assert_eq!(rows_in, had.iter().map(|had| 60 - had).collect::<Vec<_>>());
    }
}
