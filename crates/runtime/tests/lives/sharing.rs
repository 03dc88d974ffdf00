//! When those who read a table together are told of what, and what it costs those who are not concerned.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use laxity_graph::{EventTime, LatencyTarget, OperatorId, ProcessingTime, QueryId, QuerySettings};
use laxity_runtime::{
    Clock, Counts, InFlight, Intake, IntakeContext, Outcome, Outlet, Parcel, Position, Process, Query,
    Reader, Rhythm, Split, Step, Taken, Template, Visited, Work, Write, Written,
};
use proptest::prelude::*;

use super::numbers::{Counting, Every, Numbers, Rest};

const MS: u64 = 1_000_000;

fn windows() -> Rhythm {
    super::windows_of(100, 100)
}

struct Now(Cell<u64>);

impl Clock for Now {
    fn now(&self) -> ProcessingTime {
        // Nothing is done in no time.
        self.0.set(self.0.get() + 1);
        ProcessingTime(self.0.get())
    }
}

/// A table of a number each millisecond, whose event time it is.
struct Table {
    clock: Now,
    process: Arc<Process>,
    intake: Intake<Numbers>,
    feed: Counting,
    staged: Vec<Parcel<Numbers>>,
    writes: Vec<Write<Numbers>>,
    backlog_bytes: u64,
    quantum_ns: u64,
    is_closing: bool,
}

/// Who was told: rows, and the watermark behind them.
type Told = (u32, Vec<u64>, Option<i64>);

impl Table {
    fn new(readers: Vec<Reader<Numbers>>, process: &Arc<Process>) -> Table {
        let feed = Counting { start: ProcessingTime::ZERO, next: 0, end: u64::MAX, gap_ns: MS, at_once: 1 };
        Table {
            clock: Now(Cell::new(0)),
            process: process.clone(),
            intake: Intake::new(OperatorId(0), readers),
            feed,
            staged: Vec::new(),
            writes: Vec::new(),
            backlog_bytes: u64::MAX,
            quantum_ns: MS,
            is_closing: false,
        }
    }

    fn look(&mut self, at_ms: u64) -> (Step, Option<Split<Numbers>>) {
        self.clock.0.set(self.clock.0.get().max(at_ms * MS));
        let mut context = IntakeContext {
            clock: &self.clock,
            quantum_ns: self.quantum_ns,
            unix_start_ms: 0,
            load: 0.0,
            backlog_bytes: self.backlog_bytes,
            memory: &self.process.memory,
            relief: |_, _, _| laxity_sched::Relief::default(),
            staged: &mut self.staged,
            writes: &mut self.writes,
        };
        if self.is_closing {
            self.intake.complete(&self.feed, &mut context);
            return (Step::Done, None);
        }
        self.intake.attend(&mut self.feed, &mut context)
    }

    /// Results that were made here, whose and of which window; `None` at the end.
    fn made(&mut self) -> Vec<(u32, Option<Vec<u64>>)> {
        let made = self.writes.drain(..).map(|Write { outlet, what }| {
            let _ = outlet.query.release(what.in_flight());
            let numbers = match what {
                Written::Rows { batch, stamps, .. } => {
                    outlet.written(&stamps);
                    Some(batch)
                }
                Written::End => None,
            };
            (outlet.query.id.0, numbers)
        });
        made.collect()
    }

    fn told(&mut self) -> Vec<Told> {
        let told = self.staged.drain(..).map(|parcel| {
            let watermark = parcel.body.watermark.map(|watermark| watermark.0);
            (parcel.to.0, parcel.body.batch.unwrap_or_default(), watermark)
        });
        told.collect()
    }
}

fn query(id: u32, target_ms: u64, process: &Arc<Process>) -> Arc<Query> {
    let latency_target = LatencyTarget::new(Duration::from_millis(target_ms)).unwrap();
    let settings = QuerySettings { latency_target, ..QuerySettings::named(format!("q{id}")) };
    Arc::new(Query::new(QueryId(id), settings, 1, process.clone()))
}

fn reader(query: &Arc<Query>, by: u64, rest: u64, rhythm: Rhythm) -> Reader<Numbers> {
    let source = OperatorId(query.id.0);
    Reader::new(query.clone(), source, None, false, ProcessingTime::ZERO)
        .sharing(Rest { by, rest, windows: None }, rhythm)
}

fn process() -> Arc<Process> {
    Arc::new(Process::new(1 << 40, 1 << 30))
}

#[test]
fn each_is_told_when_its_windows_end_and_the_quiet_never() {
    let process = process();
    let queries: Vec<_> = (0..4).map(|id| query(id, 200, &process)).collect();
    let readers = vec![
        reader(&queries[0], 2, 0, windows()),
        reader(&queries[1], 50, 3, windows()),
        // No number leaves that.
        reader(&queries[2], 2, 2, windows()),
        reader(&queries[3], 70, 69, Rhythm::Rows),
    ];
    let mut table = Table::new(readers, &process);
    let mut told = Vec::new();
    for at_ms in (10..=350).step_by(10) {
        table.look(at_ms);
        told.extend(table.told().into_iter().map(|told| (at_ms, told)));
    }
    let of = |id: u32| told.iter().filter(move |(_, told)| told.0 == id);
    let times = |id| of(id).map(|(at, _)| *at).collect::<Vec<_>>();
    // With the first look that sees the last millisecond of the window.
    assert_eq!(times(0), [100, 200, 300]);
    assert_eq!(times(1), [100, 200, 300]);
    assert_eq!(times(2), [0; 0]);
    assert_eq!(times(3), [70, 140, 210, 280, 350]);
    let all: Vec<u64> = of(0).flat_map(|(_, (_, rows, _))| rows.clone()).collect();
    assert_eq!(all, (0..all.len() as u64).map(|row| 2 * row).collect::<Vec<_>>());
    assert!(of(0).chain(of(1)).all(|(at, (.., watermark))| watermark.is_some_and(|of| of >= *at as i64 - 1)));
    assert!(of(3).all(|(_, (_, rows, watermark))| rows.len() == 1 && watermark.is_none()));
    // All were offered all rows, and time has come as far for all.
    assert!(queries.iter().all(|query| query.rows_in() == table.feed.next));
    assert_eq!(queries[2].watermark(), Some(EventTime(table.feed.next as i64 - 1)));
}

#[test]
fn who_joins_gets_what_comes_and_who_leaves_nothing() {
    let process = process();
    let queries: Vec<_> = (0..3).map(|id| query(id, 200, &process)).collect();
    let mut table = Table::new(vec![reader(&queries[0], 1, 0, windows())], &process);
    table.look(30);
    let seen = table.feed.next;
    assert!(table.intake.join(reader(&queries[1], 1, 0, windows())).is_none());
    assert!(!table.intake.leave(&queries[0], &process.memory));
    table.look(60);
    // It has the place of the one that left, and nothing of what that held.
    assert!(table.intake.join(reader(&queries[2], 10, 5, windows())).is_none());
    table.look(120);
    let mut told = table.told();
    told.sort_unstable();
    assert_eq!(told.iter().map(|told| told.0).collect::<Vec<_>>(), [1, 2]);
    assert_eq!(told[0].1, (seen..100).collect::<Vec<_>>());
    assert_eq!(told[1].1.first(), Some(&65));
    assert_eq!((queries[0].rows_in(), queries[1].rows_in()), (seen, table.feed.next - seen));
    assert!(!table.intake.leave(&queries[1], &process.memory));
    assert!(table.intake.leave(&queries[2], &process.memory));
    let on_its_way: usize = told.iter().map(|told| 8 * told.1.len()).sum();
    assert_eq!(process.memory.used_bytes(), on_its_way as u64);
}

#[test]
fn what_is_over_the_quantum_waits_for_the_next_look_the_nearest_target_first() {
    let process = process();
    let queries: Vec<_> = (0..100).map(|id| query(id, 1_000 - 9 * u64::from(id), &process)).collect();
    let readers = queries.iter().map(|query| reader(query, 1, 0, windows())).collect();
    let mut table = Table { quantum_ns: 3, ..Table::new(readers, &process) };
    let (mut at_ms, mut looks, mut told) = (100, 0, Vec::new());
    while told.len() < 100 {
        let (step, _) = table.look(at_ms);
        at_ms += 1;
        looks += 1;
        told.extend(table.told());
        assert!(told.len() == 100 || matches!(step, Step::At { due, .. } if due.0 < 100 * MS), "{step:?}");
        assert!(looks < 1_000);
    }
    assert!(looks > 3, "{looks}");
    let order: Vec<u32> = told.iter().map(|told| told.0).collect();
    assert_eq!(order, (0..100).rev().collect::<Vec<_>>());
}

#[test]
fn who_has_no_credit_gets_it_later_and_in_order() {
    let process = Arc::new(Process::new(1 << 40, 100));
    let queries: Vec<_> = (0..2).map(|id| query(id, 200, &process)).collect();
    let readers = queries.iter().map(|query| reader(query, 1, 0, Rhythm::Rows)).collect();
    let mut table = Table::new(readers, &process);
    let mut got = Vec::new();
    for at_ms in (10..=1_000).step_by(10) {
        table.look(at_ms);
        for parcel in table.staged.drain(..) {
            if parcel.to.0 == 0 {
                got.extend(parcel.body.batch.unwrap());
                let _ = queries[0].release(InFlight::one(parcel.rows, parcel.bytes));
            }
        }
    }
    assert_eq!(got, (0..table.feed.next).collect::<Vec<_>>(), "the other holds nobody up");
    let behind = table.intake.readers().find(|reader| reader.query.id.0 == 1).unwrap();
    assert!(behind.backlog_rows() > 900, "{}", behind.backlog_rows());
}

#[test]
fn the_end_is_told_to_all_with_what_is_held_for_them() {
    let process = process();
    let queries: Vec<_> = (0..3).map(|id| query(id, 200, &process)).collect();
    let readers = queries.iter().enumerate().map(|(rest, query)| {
        let rhythm = if rest == 0 { Rhythm::Rows } else { windows() };
        reader(query, 3, [0, 1, 9][rest], rhythm)
    });
    let mut table = Table::new(readers.collect(), &process);
    table.feed.end = 40;
    let mut told = Vec::new();
    for at_ms in (10..200).step_by(10) {
        let (step, _) = table.look(at_ms);
        told.extend(table.told());
        if step == Step::Done {
            break;
        }
    }
    let of = |id: u32| told.iter().filter(|told| told.0 == id).cloned().collect::<Vec<Told>>();
    for (id, rows) in [(0, 14), (1, 13), (2, 0)] {
        assert_eq!(of(id).iter().map(|told| told.1.len()).sum::<usize>(), rows);
        assert_eq!(of(id).last().map(|told| told.2), Some(Some(i64::MAX)));
    }
    assert_eq!(table.intake.readers().count(), 0);
}

/// One whose windows of a hundred numbers are fired together with those of others.
fn as_one(query: &Arc<Query>, by: u64, rest: u64) -> Reader<Numbers> {
    of_template(query, by, rest, Every(100))
}

fn of_template(query: &Arc<Query>, by: u64, rest: u64, windows: Every) -> Reader<Numbers> {
    let outlet = Arc::new(Outlet::new(query.clone(), query.id.0 as usize, 1, true, false));
    let source = OperatorId(query.id.0);
    let ms = windows.0.max(1) as i64;
    Reader::new(query.clone(), source, None, false, ProcessingTime::ZERO)
        .sharing(Rest { by, rest, windows: Some(windows) }, super::windows_of(ms, ms))
        .with_outlet(Some(outlet))
}

#[test]
fn queries_of_a_template_are_one_and_keep_their_own_results() {
    let process = process();
    let queries: Vec<_> = (0..9).map(|id| query(id, 200, &process)).collect();
    let readers = queries[..8].iter().map(|query| as_one(query, 8, u64::from(query.id.0))).collect();
    let mut table = Table::new(readers, &process);
    let (mut told, mut made) = (Vec::new(), Vec::new());
    let mut look = |table: &mut Table, until_ms: u64| {
        while table.feed.next < until_ms {
            table.look(table.feed.next + 10);
            told.extend(table.told());
            made.extend(table.made());
        }
    };
    look(&mut table, 150);
    // One leaves in the midst of a window, and another comes: what it is told begins there.
    assert!(!table.intake.leave(&queries[5], &process.memory));
    assert!(table.intake.join(as_one(&queries[8], 8, 5)).is_none());
    let joined_at = table.feed.next;
    look(&mut table, 350);
    let (rows_in, left_at) = (queries[7].rows_in(), table.feed.next);
    table.feed.end = 420;
    look(&mut table, 420);
    table.look(430);
    made.extend(table.made());
    told.extend(table.told());
    assert!(told.is_empty(), "the first of them are known to be many");
    assert_eq!(rows_in, left_at);
    let of = |id: u32| made.iter().filter(move |(of, _)| *of == id).map(|(_, numbers)| numbers.clone());
    for (id, from, until, rest) in [
        (0, 0, 420, 0),
        (3, 0, 420, 3),
        (4, 0, 420, 4),
        (5, 0, 100, 5),
        (7, 0, 420, 7),
        (8, joined_at, 420, 5),
    ] {
        let numbers: Vec<u64> = of(id).flatten().flatten().collect();
        assert_eq!(
            numbers,
            (from..until).filter(|number| number % 8 == rest).collect::<Vec<_>>(),
            "query {id}"
        );
        // The end is told once, and last, to those who were there.
        let ends: Vec<bool> = of(id).map(|numbers| numbers.is_none()).collect();
        assert_eq!(ends.iter().filter(|end| **end).count(), usize::from(id != 5));
        assert_eq!(ends.last(), Some(&(id != 5)), "query {id}");
    }
    assert!(of(7).all(|numbers| numbers.is_none_or(|numbers| numbers.len() <= 13)), "a window each");
    assert_eq!(table.intake.readers().count(), 0);
    assert!(queries.iter().all(|query| query.drained()));
    assert_eq!(process.memory.used_bytes(), 0);
}

#[test]
fn those_that_come_one_by_one_are_one_from_the_fourth_on() {
    let process = process();
    let queries: Vec<_> = (0..12).map(|id| query(id, 200, &process)).collect();
    // Six that get every seventh number, and as many who get all of them and do not make the others more.
    let reader = |query: &Arc<Query>| match query.id.0 {
        id @ 0..6 => as_one(query, 7, u64::from(id)),
        _ => as_one(query, 1, 0),
    };
    let mut table = Table::new(vec![reader(&queries[0]), reader(&queries[6])], &process);
    for at in [7, 8, 1, 2, 9, 3, 4, 10, 11, 5] {
        assert!(table.intake.join(reader(&queries[at])).is_none());
    }
    let seated: Vec<u32> = table.intake.take_seated().iter().map(|id| id.0).collect();
    assert_eq!(seated, [9, 3, 4, 10, 11, 5]);
    let (mut told, mut made) = (Vec::new(), Vec::new());
    table.feed.end = 250;
    for at_ms in (10..400).step_by(10) {
        table.look(at_ms);
        told.extend(table.told());
        made.extend(table.made());
    }
    for id in 0..12 {
        let of_its_own = told.iter().filter(|(of, ..)| *of == id).flat_map(|(_, rows, _)| rows);
        let of_all =
            made.iter().filter(|(of, _)| *of == id).filter_map(|(_, numbers)| numbers.as_ref()).flatten();
        let (of_its_own, of_all): (Vec<u64>, Vec<u64>) =
            (of_its_own.copied().collect(), of_all.copied().collect());
        let is_seated = seated.contains(&id);
        assert_eq!(of_its_own.is_empty(), is_seated, "query {id}");
        let wanted = (0..250).filter(|number| id >= 6 || number % 7 == u64::from(id));
        assert_eq!(if is_seated { of_all } else { of_its_own }, wanted.collect::<Vec<_>>(), "query {id}");
    }
}

#[test]
fn who_gets_the_same_rows_as_others_keeps_its_own_windows() {
    let process = process();
    let queries: Vec<_> = (0..12).map(|id| query(id, 200, &process)).collect();
    // Three kinds of windows over the even numbers, and one of its own.
    let reader =
        |query: &Arc<Query>| of_template(query, 2, 0, Every([100, 150, 300][query.id.0 as usize % 3]));
    let mut readers: Vec<_> = queries[..9].iter().map(reader).collect();
    readers.push(of_template(&queries[9], 7, 3, Every(100)));
    let mut table = Table::new(readers, &process);
    let (mut told, mut made) = (Vec::new(), Vec::new());
    let mut look = |table: &mut Table, until_ms: u64| {
        while table.feed.next < until_ms {
            table.look(table.feed.next + 10);
            told.extend(table.told());
            made.extend(table.made());
        }
    };
    look(&mut table, 160);
    // The one whom the front knows of leaves, and another, and two come: what they are told begins there.
    assert!(!table.intake.leave(&queries[3], &process.memory));
    look(&mut table, 170);
    assert!(!table.intake.leave(&queries[7], &process.memory));
    assert!(table.intake.join(reader(&queries[10])).is_none());
    let first_joined = table.feed.next;
    look(&mut table, 330);
    assert!(table.intake.join(reader(&queries[11])).is_none());
    let second_joined = table.feed.next;
    table.feed.end = 700;
    look(&mut table, 700);
    table.look(720);
    made.extend(table.made());
    assert!(told.is_empty());
    let until = |left_at: u64, windows: u64| left_at / windows * windows;
    for (id, from, until, by, rest) in [
        (0, 0, 700, 2, 0),
        (3, 0, until(160, 100), 2, 0),
        (4, 0, 700, 2, 0),
        (5, 0, 700, 2, 0),
        (6, 0, 700, 2, 0),
        (7, 0, until(170, 150), 2, 0),
        (8, 0, 700, 2, 0),
        (9, 0, 700, 7, 3),
        (10, first_joined, 700, 2, 0),
        (11, second_joined, 700, 2, 0),
    ] {
        let of_it = made.iter().filter(|(of, _)| *of == id).filter_map(|(_, numbers)| numbers.as_ref());
        let numbers: Vec<u64> = of_it.clone().flatten().copied().collect();
        let wanted: Vec<u64> = (from..until).filter(|number| number % by == rest).collect();
        assert_eq!(numbers, wanted, "query {id}");
        // Each result is of one window of its own.
        let windows = if by == 7 { 100 } else { [100, 150, 300][id as usize % 3] };
        let is_one =
            |numbers: &Vec<u64>| numbers.iter().all(|number| number / windows == numbers[0] / windows);
        assert!(of_it.clone().all(is_one), "query {id}");
    }
    assert_eq!(table.intake.readers().count(), 0);
    assert_eq!(process.memory.used_bytes(), 0);
}

#[test]
fn windows_that_are_fired_as_one_go_in_steps_the_nearest_target_first() {
    let process = process();
    let queries: Vec<_> = (0..100).map(|id| query(id, 2_000 - 9 * u64::from(id), &process)).collect();
    let readers = queries.iter().map(|query| as_one(query, 1, 0)).collect();
    let mut table = Table { quantum_ns: 12, ..Table::new(readers, &process) };
    let (mut looks, mut made) = (0, Vec::new());
    while made.len() < 100 {
        let (step, _) = table.look(100 + looks);
        looks += 1;
        made.extend(table.made());
        assert!(made.len() == 100 || matches!(step, Step::At { due, .. } if due.0 < 100 * MS), "{step:?}");
        assert!(looks < 1_000);
    }
    assert!(looks > 3, "{looks}");
    let order: Vec<u32> = made.iter().map(|(id, _)| *id).collect();
    assert_eq!(order, (0..100).rev().collect::<Vec<_>>());
}

#[test]
fn an_operator_that_panics_ends_those_of_its_template_alone() {
    let process = process();
    let queries: Vec<_> = (0..10).map(|id| query(id, 200, &process)).collect();
    // No number lies in a window of none.
    let windows = |id: u32| if id < 5 { Every(0) } else { Every(100) };
    let readers = queries.iter().map(|query| of_template(query, 1, 0, windows(query.id.0)));
    let mut table = Table::new(readers.collect(), &process);
    let mut made = Vec::new();
    for at_ms in [110, 210, 310] {
        table.look(at_ms);
        made.extend(table.made());
    }
    for query in &queries {
        let has_failed = matches!(query.outcome(), Outcome::Failed(why) if why.contains("internal error"));
        assert_eq!(has_failed, query.id.0 < 5, "{}", query.id);
    }
    assert_eq!(table.intake.readers().count(), 5);
    let of = |id: u32| made.iter().filter(move |(of, _)| *of == id).count();
    assert_eq!([of(0), of(4), of(5), of(9)], [0, 0, 3, 3]);
}

#[test]
fn what_has_ended_comes_out_before_the_table_is_closed() {
    let process = process();
    let queries: Vec<_> = (0..60).map(|id| query(id, 200, &process)).collect();
    let readers = queries.iter().map(|query| match query.id.0 {
        id @ 0..30 => reader(query, 30, u64::from(id), windows()),
        _ => as_one(query, 1, 0),
    });
    let mut table = Table { quantum_ns: 12, ..Table::new(readers.collect(), &process) };
    while table.feed.next < 100 {
        table.look(130);
    }
    let begun = table.made().len() + table.told().len();
    assert!(begun < 60, "{begun}");
    let read = table.feed.next;
    table.is_closing = true;
    table.look(130);
    assert_eq!(begun + table.made().len() + table.told().len(), 60);
    assert_eq!(table.feed.next, read, "nothing more is read");
}

/// What was saved of a reader: where it stood, and what it had been told by then.
struct Saved {
    position: Position,
    taken: Taken<Numbers>,
    rows_in: u64,
    told: Vec<Told>,
}

impl Table {
    /// A checkpoint of one: it is held, its table is looked at, and it is let go.
    fn save(&mut self, query: &Query, at_ms: u64, told: &mut Vec<Told>) -> Saved {
        let source = OperatorId(query.id.0);
        query.hold();
        assert!(matches!(self.intake.visit(query, source, true), Some(Visited::Later)));
        self.look(at_ms);
        told.extend(self.told());
        let Some(Visited::Given(given)) = self.intake.visit(query, source, false) else {
            panic!("not given")
        };
        let rows_in = query.counts().rows_in;
        // Held on for a while, it is given nothing.
        let before = told.len();
        self.look(at_ms + 150);
        told.extend(self.told());
        assert!(told[before..].iter().all(|(id, ..)| *id != query.id.0), "it is held");
        assert_eq!(rows_in, query.counts().rows_in);
        let own = told[..before].iter().filter(|(id, ..)| *id == query.id.0);
        let told = own.cloned().collect();
        let _ = query.let_go();
        query.let_end();
        Saved { position: given.position, taken: given.taken.unwrap(), rows_in, told }
    }
}

#[test]
fn who_gets_nothing_is_told_of_nothing_after_a_checkpoint() {
    let process = process();
    let queries: Vec<_> = (0..4).map(|id| query(id, 200, &process)).collect();
    // No number leaves that.
    let readers = queries.iter().map(|query| reader(query, 2, 2, windows()));
    let mut table = Table::new(readers.collect(), &process);
    let mut told = Vec::new();
    table.look(50);
    let source = OperatorId(0);
    assert_eq!(table.intake.handed(&queries[0], source), Some(0));
    let first = table.save(&queries[0], 90, &mut told);
    assert_eq!((first.position.rows, first.rows_in), (51, 51), "it was not read on for that");
    (250..900).step_by(10).for_each(|at_ms| drop(table.look(at_ms)));
    assert_eq!(told.len() + table.told().len(), 1, "the time at the checkpoint");
    assert_eq!(table.intake.handed(&queries[0], source), Some(0));
    assert_eq!(table.intake.handed(&queries[1], source), None, "it is another's");
    let second = table.save(&queries[0], 900, &mut told);
    assert_eq!(second.position.rows, second.rows_in);
    assert!(second.rows_in > 800);
}

proptest! {
    /// Each of many is saved at a time of its own, and all go on from there with one table.
    #[test]
    fn who_read_with_others_goes_on_from_where_each_was_saved(
        members in prop::collection::vec((1_u64..60, 0_u64..600, prop::bool::ANY), 1..7),
        pieces in (1_u64..40, 1_u64..40),
        end in 700_u64..1_300,
    ) {
        let rhythm = |is_told: bool| if is_told { windows() } else { Rhythm::Rows };
        let world = |queries: &[Arc<Query>], at_once: u64, end: u64| {
            let readers = queries.iter().zip(&members).map(|(query, (by, _, rows))| {
                reader(query, *by, by / 2, rhythm(!rows))
            });
            let readers: Vec<_> = readers.collect();
            let feed = Counting { start: ProcessingTime::ZERO, next: 0, end, gap_ns: MS * at_once, at_once };
            (readers, feed)
        };
        let account = process();
        let queries: Vec<_> = (0..members.len() as u32).map(|id| query(id, 200, &account)).collect();
        let (readers, feed) = world(&queries, pieces.0, u64::MAX);
        let mut table = Table { feed, ..Table::new(readers, &account) };
        let mut order: Vec<usize> = (0..members.len()).collect();
        order.sort_by_key(|&member| members[member].1);
        let (mut told, mut saved) = (Vec::new(), BTreeMap::new());
        for member in order {
            table.look(members[member].1);
            told.extend(table.told());
            let at_ms = table.clock.0.get() / MS;
            saved.insert(member, table.save(&queries[member], at_ms, &mut told));
        }

        let account = process();
        let again: Vec<_> = (0..members.len() as u32).map(|id| query(id, 200, &account)).collect();
        let least = saved.values().map(|saved| saved.position.rows).min().unwrap();
        // What was left longest ago may lie before the end of what is there, and some of it behind.
        let (readers, feed) = world(&again, pieces.1, end);
        let readers = readers.into_iter().enumerate().map(|(member, reader)| {
            let Saved { position, taken, rows_in, .. } = &saved[&member];
            let counts = Counts { rows_in: *rows_in, ..Counts::default() };
            again[member].count_from(counts);
            reader.skipping(Position { rows: position.rows - least, dead_rows: 0 }).going_on(taken.clone())
        });
        let begins = Position { rows: least, dead_rows: 0 };
        let intake = Intake::new(OperatorId(0), readers.collect()).from(begins);
        let mut table = Table { feed: Counting { next: least, ..feed }, intake, ..Table::new(vec![], &account) };
        let mut now: Vec<Vec<(u64, Told)>> = vec![Vec::new(); members.len()];
        for at_ms in (0..end + 200).step_by(10) {
            table.look(at_ms);
            for told in table.told() {
                now[told.0 as usize].push((table.feed.next, told));
            }
        }
        for (member, (by, _, is_rows)) in members.iter().enumerate() {
            let saved = &saved[&member];
            let before = saved.told.iter().flat_map(|(_, rows, _)| rows.clone());
            let after = now[member].iter().flat_map(|(_, (_, rows, _))| rows.clone());
            let all: Vec<u64> = before.chain(after).collect();
            let wanted: Vec<u64> = (0..end.max(saved.position.rows)).filter(|number| number % by == by / 2).collect();
            prop_assert_eq!(&all, &wanted, "member {}", member);
            prop_assert_eq!(again[member].rows_in(), end.max(saved.position.rows));
            let marks: Vec<i64> = now[member].iter().filter_map(|(_, told)| told.2).collect();
            prop_assert_eq!(marks.last(), Some(&i64::MAX));
            prop_assert!(again[member].has_ended(OperatorId(member as u32)));
            // A window that was open when it was saved ends in time, whether or not more comes for it.
            let last = (0..saved.position.rows).rev().find(|number| number % by == by / 2);
            let Some(last) = last.filter(|_| !is_rows) else { continue };
            let window_end = (last / 100 + 1) * 100;
            if window_end > saved.position.rows && window_end + pieces.1 < end {
                let fired = now[member].iter().find(|(_, told)| told.2.is_some_and(|at| at >= window_end as i64 - 1));
                prop_assert!(fired.unwrap().0 <= window_end + 10 + 2 * pieces.1);
            }
        }
    }
}

/// Some get the same numbers as others.
fn member_by() -> impl Strategy<Value = u64> {
    prop_oneof![1_u64..4, 1_u64..30]
}

/// What was saved of one of a template, done as one with others or not.
struct SavedOfTemplate {
    position: Position,
    taken: Taken<Numbers>,
    rows_in: u64,
    /// In windows that have not ended.
    held: Vec<u64>,
    /// What had come out.
    out: Vec<u64>,
}

/// What has come of a table so far, by query: results that were made, rows that its own operators were given, and how far
/// they were told time is.
#[derive(Default)]
struct Came {
    made: BTreeMap<u32, Vec<u64>>,
    told: BTreeMap<u32, Vec<u64>>,
    time: BTreeMap<u32, i64>,
}

impl Came {
    fn look(&mut self, table: &mut Table, at_ms: u64) -> Step {
        let (step, _) = table.look(at_ms);
        self.take(table);
        step
    }

    fn take(&mut self, table: &mut Table) {
        for (id, numbers) in table.made() {
            self.made.entry(id).or_default().extend(numbers.unwrap_or_default());
        }
        for (id, rows, watermark) in table.told() {
            self.told.entry(id).or_default().extend(rows);
            self.time.extend(watermark.map(|watermark| (id, watermark)));
        }
    }

    fn out_of(&self, id: u32) -> usize {
        self.made.get(&id).map_or(0, Vec::len)
    }
}

impl Table {
    /// A checkpoint of one of a template.
    fn save_of_template(
        &mut self,
        query: &Query,
        windows: Every,
        at_ms: u64,
        came: &mut Came,
    ) -> SavedOfTemplate {
        let (id, source) = (query.id.0, OperatorId(query.id.0));
        query.hold();
        let mut visited = self.intake.visit(query, source, true);
        for _ in 0..20 {
            if matches!(visited, Some(Visited::Given(_))) {
                break;
            }
            let _ = came.look(self, at_ms);
            visited = self.intake.visit(query, source, false);
        }
        let Some(Visited::Given(given)) = visited else { panic!("{id} is not given anything") };
        let rows_in = query.counts().rows_in;
        let (told, made) = (came.told.get(&id).cloned().unwrap_or_default(), came.made.get(&id).cloned());
        let (out, held) = match &given.work {
            Some(Work { held, member, .. }) => {
                (made.unwrap_or_default(), Every::of_member(held, *member).unwrap())
            }
            None => {
                let time = EventTime(came.time.get(&id).copied().unwrap_or(i64::MIN));
                told.into_iter().partition(|&number| !windows.has_sent(&vec![number], time))
            }
        };
        // Held on for a while, nothing comes out for it, or for those who are one with it.
        let before = came.out_of(id);
        let _ = came.look(self, at_ms + 150);
        assert_eq!(came.out_of(id), before, "it is held");
        assert_eq!(query.counts().rows_in, rows_in);
        let _ = query.let_go();
        query.let_end();
        SavedOfTemplate { position: given.position, taken: given.taken.unwrap(), rows_in, held, out }
    }
}

proptest! {
    /// As above, of templates that are alike but for their windows: who works alone, who as one with others and who gets the
    /// same rows as others may change.
    #[test]
    fn members_of_templates_go_on_from_where_each_was_saved(
        members in prop::collection::vec((member_by(), 0_u64..600, 1_u64..5), 1..12),
        stay in prop::collection::vec(any::<bool>(), 12),
        pieces in (1_u64..40, 1_u64..40),
        quanta in (20_u64..2_000, 20_u64..2_000),
        end in 700_u64..1_300,
    ) {
        let account = process();
        let queries: Vec<_> = (0..members.len() as u32).map(|id| query(id, 200, &account)).collect();
        let windows = |member: usize| Every(50 * members[member].2);
        let reader = |query: &Arc<Query>| {
            let by = members[query.id.0 as usize].0;
            of_template(query, by, by / 2, windows(query.id.0 as usize))
        };
        let feed = |next, at_once, end| {
            Counting { start: ProcessingTime::ZERO, next, end, gap_ns: MS * at_once, at_once }
        };
        let readers = queries.iter().map(reader).collect();
        let mut table = Table { quantum_ns: quanta.0, ..Table::new(readers, &account) };
        table.feed = feed(0, pieces.0, u64::MAX);
        let seated: Vec<QueryId> = table.intake.take_seated();
        // Who gets all numbers and who does not are counted apart, but that one of these goes where its template has an operator.
        let mut wanted: Vec<(u64, u64)> = Vec::new();
        for (by, _, windows) in &members {
            let kin = members.iter().filter(|(other, ..)| (*other == 1) == (*by == 1)).count();
            if kin >= 4 || *by > 1 && wanted.iter().any(|(_, of)| of == windows) {
                wanted.push((*by, *windows));
            }
        }
        prop_assert_eq!(seated.len(), wanted.len());
        let mut order: Vec<usize> = (0..members.len()).collect();
        order.sort_by_key(|&member| members[member].1);
        let (mut came, mut saved) = (Came::default(), BTreeMap::new());
        for member in order {
            let _ = came.look(&mut table, members[member].1);
            let at_ms = table.clock.0.get() / MS;
            let of_it = table.save_of_template(&queries[member], windows(member), at_ms, &mut came);
            saved.insert(member, of_it);
        }

        // Some are not there any more, and one is new.
        saved.retain(|&member, _| stay[member]);
        if saved.is_empty() {
            return Ok(());
        }
        let account = process();
        let again: Vec<_> = (0..members.len() as u32).map(|id| query(id, 200, &account)).collect();
        let fresh = query(99, 200, &account);
        let least = saved.values().map(|saved| saved.position.rows).min().unwrap();
        let mut readers = vec![as_one(&fresh, 1, 0)];
        readers.extend(saved.iter().map(|(&member, saved)| {
            let SavedOfTemplate { position, taken, rows_in, held, .. } = saved;
            again[member].count_from(Counts { rows_in: *rows_in, ..Counts::default() });
            let skips = Position { rows: position.rows - least, dead_rows: 0 };
            let reader = reader(&again[member]).skipping(skips).going_on(taken.clone());
            reader.holding(Some(held.clone()))
        }));
        let begins = Position { rows: least, dead_rows: 0 };
        let intake = Intake::new(OperatorId(0), readers).from(begins);
        let mut table =
            Table { feed: feed(least, pieces.1, end), intake, quantum_ns: quanta.1, ..Table::new(vec![], &account) };
        let mut came = Came::default();
        let mut looks = (0_u64..100_000).step_by(5);
        while looks.next().is_some_and(|at_ms| came.look(&mut table, at_ms) != Step::Done) {}
        for (member, SavedOfTemplate { position, held, out, .. }) in saved {
            let (id, by) = (member as u32, members[member].0);
            // The end is told to each at least.
            let made = came.made.remove(&id);
            let is_seated = made.is_some();
            let of_its_own = || [held, came.told.remove(&id).unwrap_or_default()].concat();
            let after = made.unwrap_or_else(of_its_own);
            let all = [out, after].concat();
            let until = end.max(position.rows);
            let wanted: Vec<u64> = (0..until).filter(|number| number % by == by / 2).collect();
            prop_assert_eq!(&all, &wanted, "member {}, seated: {}", member, is_seated);
            prop_assert_eq!(again[member].rows_in(), until);
            prop_assert!(again[member].has_ended(OperatorId(id)));
        }
        let of_fresh = came.made.remove(&99).or(came.told.remove(&99)).unwrap_or_default();
        prop_assert_eq!(of_fresh, (least..end.max(least)).collect::<Vec<_>>());
    }
}
