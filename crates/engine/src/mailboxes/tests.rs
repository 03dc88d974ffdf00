//! Real threads and real locks, so these can miss a race; `loom_tests` cannot, but sees little work.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use laxity_graph::EventTime;
use laxity_policies::recipe;
use laxity_sched::{RunReport, Shards, Top};
use proptest::prelude::*;

use super::*;
use crate::clock::Clock;

const NOW: ProcessingTime = ProcessingTime(1_000_000);
const NO_MERGING: Merging<u64> = Merging { rows_max: 0, messages_max: 0, fits: |_, _| false };

fn query(id: u32) -> QuerySpec {
    QuerySpec { id: QueryId(id), target_ns: 1_000 * u64::from(1 + id % 3), weight: 1.0, qos: None }
}

/// A source and its consumer.
fn operators(query: u32) -> [OperatorSpec; 2] {
    [0, 1].map(|place| OperatorSpec {
        id: OperatorId(2 * query + place),
        query: QueryId(query),
        upstream: if place == 0 { vec![] } else { vec![OperatorId(2 * query)] },
        window: None,
        channels: 1,
    })
}

fn message(to: u32, ingested: ProcessingTime, body: u64) -> Message<u64> {
    Message {
        to: OperatorId(to),
        channel: 0,
        progress: EventTime(body as i64),
        ingested,
        rows: 1,
        bytes: 8,
        body,
    }
}

fn mailboxes(shards: usize, workers: usize, queries: u32, policy: &str) -> Mailboxes<u64, ()> {
    let config = Config { workers, quantum_ns: 1_000, ..Config::default() };
    let mailboxes = Mailboxes::new((shards, shards), &recipe(policy).unwrap(), &config, NO_MERGING, || LOOK);
    (0..queries).for_each(|id| mailboxes.add_query(query(id), &operators(id), &[(), ()]));
    mailboxes
}

const POLICIES: [&str; 7] =
    ["laxity", "llf", "rr", "random", "qs", "hr@2us", "unit=query,rank=fcfs,train=all"];
const TIMEOUT_NS: u64 = 20_000_000_000;
/// What a look at a table carries.
const LOOK: u64 = u64::MAX;
const QUERIES: u32 = 5;
const WORKERS: u32 = 3;

#[derive(Clone, Debug)]
enum Step {
    Arrive { to: u32, age_ns: u64 },
    Work { worker: u32, cpu_ns: u64, more: bool, forward: bool },
    Pass { ns: u64 },
    Remove { query: u32 },
    Policy { policy: &'static str },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        8 => (0..2 * QUERIES, 0_u64..900).prop_map(|(to, age_ns)| Step::Arrive { to, age_ns }),
        10 => (0..WORKERS, 1_u64..900, prop::bool::weighted(0.1), any::<bool>())
            .prop_map(|(worker, cpu_ns, more, forward)| Step::Work { worker, cpu_ns, more, forward }),
        2 => (0_u64..5_000).prop_map(|ns| Step::Pass { ns }),
        1 => (0..4 * QUERIES).prop_map(|query| Step::Remove { query }),
        1 => prop::sample::select(POLICIES.to_vec()).prop_map(|policy| Step::Policy { policy }),
    ];
    prop::collection::vec(step, 0..200)
}

/// The operator granted, and its message or a resumption.
fn seen(grant: &Grant<u64>) -> (OperatorId, Option<u64>) {
    match &grant.work {
        Work::Message { message, .. } => (message.to, Some(message.body)),
        Work::Resume => (grant.operator, None),
    }
}

proptest! {
    /// With two shards each is looked at whatever is drawn, so picks are as certain as with one.
    #[test]
    fn picks_are_those_of_the_definition(
        steps in steps(),
        number in 1_usize..3,
        first in prop::sample::select(POLICIES.to_vec()),
    ) {
        let config = Config { workers: WORKERS as usize, quantum_ns: 1_000, ..Config::default() };
        let mut definition: Shards<u64> = Shards::new(number, number, SAMPLED, &recipe(first).unwrap(), &config);
        (0..QUERIES).for_each(|id| { definition.add_query(query(id), &operators(id)); });
        let mailboxes = mailboxes(number, WORKERS as usize, QUERIES, first);
        // Who finds nothing to do then returns.
        mailboxes.stop();
        let mut workers: Vec<WorkerState> = (0..WORKERS).map(|id| mailboxes.worker_state(WorkerId(id))).collect();
        let mut running: Vec<Option<OperatorId>> = vec![None; WORKERS as usize];
        let mut now = NOW;
        for (body, step) in (0..).zip(steps) {
            match step {
                Step::Arrive { to, age_ns } => {
                    let arrived = message(to, ProcessingTime(now.0 - age_ns), body);
                    definition.on_message(arrived.clone(), now);
                    mailboxes.enqueue(&mut vec![arrived], now);
                }
                Step::Work { worker, cpu_ns, more, forward } => {
                    let id = WorkerId(worker);
                    let report = RunReport { rows_in: 1, rows_out: 1, cpu_ns, more };
                    let (mut staged, mut finished) = (Vec::new(), None);
                    if let Some(operator) = running[worker as usize].take() {
                        let mut made_ready = None;
                        if forward && operator.0 % 2 == 0 {
                            staged.push(message(operator.0 + 1, now, body));
                            let is_ready = definition.on_message(staged[0].clone(), now);
                            made_ready = Some(staged[0].to).filter(|_| is_ready);
                        }
                        definition.on_finished(id, report, now);
                        if let Some(operator) = made_ready {
                            definition.follow(id, operator, now);
                        }
                        finished = Some(Finished { report, progress: None, ended: now, look: None });
                    }
                    let expected = definition.next(id, now);
                    let place = &mut workers[worker as usize];
                    let granted = match mailboxes.exchange(place, finished, &mut staged, &mut Vec::new(), || now) {
                        Next::Run(grant, ()) => Some(grant),
                        Next::Refused => {
                            staged.clear();
                            match mailboxes.exchange(place, None, &mut staged, &mut Vec::new(), || now) {
                                Next::Run(grant, ()) => Some(grant),
                                _ => None,
                            }
                        }
                        Next::Stop => None,
                    };
                    prop_assert_eq!(granted.as_ref().map(seen), expected.as_ref().map(seen));
                    prop_assert_eq!(place.at, definition.shard_of_worker(id));
                    running[worker as usize] = granted.map(|grant| grant.operator);
                }
                Step::Pass { ns } => now = now.plus_ns(ns),
                Step::Remove { query } => {
                    let bodies = |messages: Vec<Message<u64>>| -> Vec<(OperatorId, u64)> {
                        messages.into_iter().map(|message| (message.to, message.body)).collect()
                    };
                    let query = QueryId(query);
                    prop_assert_eq!(bodies(mailboxes.remove_query(query, now)), bodies(definition.remove_query(query)));
                }
                Step::Policy { policy } => {
                    definition.set_policy(&recipe(policy).unwrap(), now);
                    mailboxes.set_policy(&recipe(policy).unwrap(), now);
                }
            }
        }
    }
}

/// What the workers of a test have seen of one operator.
#[derive(Default)]
struct Seen {
    running: AtomicBool,
    messages: AtomicU64,
    /// The next body must not be lower: one producer numbers them.
    next: AtomicU64,
}

/// Works until told to stop; sources hand on what they get. How many messages came too late for their query.
fn work(mailboxes: &Mailboxes<u64, ()>, worker: u32, seen: &[Seen]) -> u64 {
    let mut worker_state = mailboxes.worker_state(WorkerId(worker));
    let (mut staged, mut merged) = (Vec::new(), Vec::new());
    let (mut finished, mut refused) = (None, 0);
    let clock = Clock::start();
    let now = || NOW.plus_ns(clock.now().0);
    loop {
        let next = mailboxes.exchange(&mut worker_state, finished.take(), &mut staged, &mut merged, now);
        refused += staged.drain(..).count() as u64;
        let grant = match next {
            Next::Run(grant, ()) => grant,
            Next::Refused => continue,
            Next::Stop => return refused,
        };
        let Work::Message { message: granted, .. } = grant.work else { panic!("nothing leaves work behind") };
        let of_operator = &seen[grant.operator.index()];
        assert!(!of_operator.running.swap(true, Relaxed), "{} runs twice", grant.operator);
        assert!(of_operator.next.swap(granted.body + 1, Relaxed) <= granted.body, "out of order");
        of_operator.messages.fetch_add(1, Relaxed);
        if grant.operator.0 % 2 == 0 {
            staged.push(message(grant.operator.0 + 1, granted.ingested, granted.body));
        }
        of_operator.running.store(false, Relaxed);
        let report = RunReport { rows_in: 1, rows_out: 1, cpu_ns: 100, more: false };
        finished = Some(Finished { report, progress: None, ended: now(), look: None });
    }
}

#[test]
fn threads_lose_nothing_while_policies_change_and_a_query_goes() {
    const MESSAGES: u64 = 4_000;
    const QUERIES: u32 = 7;
    const GONE: u32 = 3;
    for (shards, workers) in [(1, 3), (2, 3), (3, 4)] {
        let mailboxes = mailboxes(shards, workers, QUERIES, "laxity");
        let seen: Vec<Seen> = (0..2 * QUERIES).map(|_| Seen::default()).collect();
        let refused_outside = AtomicU64::new(0);
        let mut handed_back = [0_u64; 2];
        let refused_inside = std::thread::scope(|scope| {
            let (mailboxes, seen, refused_outside) = (&mailboxes, &seen, &refused_outside);
            let working: Vec<_> = (0..workers as u32)
                .map(|worker| scope.spawn(move || work(mailboxes, worker, seen)))
                .collect();
            let producers: Vec<_> = (0..2)
                .map(|producer| {
                    scope.spawn(move || {
                        for body in 0..MESSAGES {
                            let sources = (0..QUERIES).filter(|query| query % 2 == producer);
                            let mut messages: Vec<_> =
                                sources.map(|query| message(2 * query, NOW, body)).collect();
                            mailboxes.enqueue(&mut messages, NOW);
                            assert!(messages.iter().all(|message| message.to.0 == 2 * GONE));
                            refused_outside.fetch_add(messages.len() as u64, Relaxed);
                        }
                    })
                })
                .collect();
            for policy in POLICIES.iter().cycle().take(21) {
                mailboxes.set_policy(&recipe(policy).unwrap(), NOW);
                std::thread::sleep(Duration::from_micros(300));
            }
            for message in mailboxes.remove_query(QueryId(GONE), NOW) {
                handed_back[message.to.index() - 2 * GONE as usize] += 1;
            }
            producers.into_iter().for_each(|producer| producer.join().unwrap());
            mailboxes.stop();
            working.into_iter().map(|worker| worker.join().unwrap()).sum::<u64>()
        });
        let count = |operator: u32| seen[operator as usize].messages.load(Relaxed);
        for query in (0..QUERIES).filter(|&query| query != GONE) {
            assert_eq!((count(2 * query), count(2 * query + 1)), (MESSAGES, MESSAGES), "{shards} shards");
        }
        // Of the query that went: each message ran, was handed back, or was refused, and so were its outputs.
        assert_eq!(count(2 * GONE) + handed_back[0] + refused_outside.load(Relaxed), MESSAGES);
        assert_eq!(count(2 * GONE + 1) + handed_back[1] + refused_inside, count(2 * GONE));
        assert_eq!(mailboxes.ask_all(Scheduler::waiting_units).sum::<usize>(), 0);
    }
}

/// A lost wake-up would leave the message where it is for ever: nothing else comes.
#[test]
fn a_message_alone_is_always_taken() {
    const QUERIES: u32 = 4;
    for shards in [1, 2, 4] {
        let mailboxes = mailboxes(shards, 4, QUERIES, "llf");
        let seen: Vec<Seen> = (0..2 * QUERIES).map(|_| Seen::default()).collect();
        let clock = Clock::start();
        std::thread::scope(|scope| {
            let (mailboxes, seen) = (&mailboxes, &seen);
            (0..4).for_each(|worker| {
                scope.spawn(move || work(mailboxes, worker, seen));
            });
            for body in 0..1_000 {
                let query = body as u32 % QUERIES;
                mailboxes.enqueue(&mut vec![message(2 * query, NOW, body)], NOW);
                let sent = clock.now();
                while seen[2 * query as usize + 1].next.load(Relaxed) != body + 1 {
                    if clock.now().since_ns(sent) > TIMEOUT_NS {
                        mailboxes.stop();
                        panic!("message {body} was not taken on {shards} shards");
                    }
                    std::thread::yield_now();
                }
            }
            mailboxes.stop();
        });
    }
}

/// How many messages a second pass through the mailboxes where runs cost nothing? A message of every query circles
/// between its two operators; time is made up, so no clock is read under a lock.
///
/// `cargo test --release -p laxity-engine --lib circle -- --nocapture` prints what one lock and two give. Says
/// nothing without as many cores as workers, and little with two: lay `shard_contention` of `laxity-sched` beside it.
#[test]
fn messages_circle_on_one_shard_and_on_several() {
    const QUERIES: u32 = 64;
    let rounds = if cfg!(debug_assertions) { 50 } else { 20_000 };
    for workers in [1, 2, 4] {
        for shards in [1, 2].into_iter().filter(|&shards| shards <= workers) {
            let mailboxes = mailboxes(shards, workers, QUERIES, "llf");
            let clock = Clock::start();
            let taken: u64 = std::thread::scope(|scope| {
                let mailboxes = &mailboxes;
                let mut first: Vec<_> = (0..QUERIES).map(|query| message(2 * query, NOW, 0)).collect();
                mailboxes.enqueue(&mut first, NOW);
                mailboxes.stop();
                let circling: Vec<_> = (0..workers as u32)
                    .map(|worker| scope.spawn(move || circle(mailboxes, worker, 2 * rounds)))
                    .collect();
                circling.into_iter().map(|worker| worker.join().unwrap()).sum()
            });
            assert_eq!(taken, u64::from(QUERIES) * 2 * rounds);
            let per_s = taken as f64 * 1e9 / clock.now().0 as f64;
            println!("{workers} workers, {shards} shards: {per_s:.0} messages/s");
        }
    }
}

/// Sends each message on until it was taken so often. How many this worker took.
fn circle(mailboxes: &Mailboxes<u64, ()>, worker: u32, often: u64) -> u64 {
    let mut worker_state = mailboxes.worker_state(WorkerId(worker));
    let (mut staged, mut merged) = (Vec::new(), Vec::new());
    let (mut finished, mut taken) = (None, 0);
    loop {
        let next = mailboxes.exchange(&mut worker_state, finished.take(), &mut staged, &mut merged, || NOW);
        let Next::Run(grant, ()) = next else { return taken };
        let Work::Message { message: granted, .. } = grant.work else { panic!("nothing leaves work behind") };
        taken += 1;
        if granted.body + 1 < often {
            staged.push(message(grant.operator.0 ^ 1, NOW, granted.body + 1));
        }
        let report = RunReport { rows_in: 1, rows_out: 1, cpu_ns: 100, more: false };
        finished = Some(Finished { report, progress: None, ended: NOW, look: None });
    }
}

#[test]
fn a_decision_is_made_with_the_end_of_the_run_unless_the_lock_was_waited_for() {
    let mailboxes = mailboxes(1, 1, 1, "llf");
    mailboxes.stop();
    mailboxes.enqueue(&mut vec![message(0, NOW, 0), message(0, NOW, 1), message(0, NOW, 2)], NOW);
    let mut worker = mailboxes.worker_state(WorkerId(0));
    let (mut staged, mut merged) = (Vec::new(), Vec::new());
    let Next::Run(_, ()) = mailboxes.exchange(&mut worker, None, &mut staged, &mut merged, || NOW) else {
        panic!("three wait")
    };
    let report = RunReport { rows_in: 1, ..RunReport::default() };
    let ended = NOW.plus_ns(5);
    let finished = Some(Finished { report, progress: None, ended, look: None });
    let unasked = || panic!("the time is known");
    assert!(matches!(
        mailboxes.exchange(&mut worker, finished, &mut staged, &mut merged, unasked),
        Next::Run(..)
    ));
    let asked = AtomicU64::new(0);
    std::thread::scope(|threads| {
        let held = mailboxes.shards[0].lock();
        let waiting = threads.spawn(|| {
            let now = || NOW.plus_ns(10 + asked.fetch_add(1, Relaxed));
            mailboxes.exchange(&mut worker, finished, &mut staged, &mut merged, now)
        });
        std::thread::sleep(Duration::from_millis(20));
        assert_eq!(asked.load(Relaxed), 0, "asked before it had the lock");
        drop(held);
        assert!(matches!(waiting.join().unwrap(), Next::Run(..)));
    });
    assert_eq!(asked.load(Relaxed), 1);
}

/// A table is looked at when its time has come, though nobody sends anything and all workers sleep.
#[test]
fn sleepers_keep_the_alarm_for_every_appointment() {
    const APPOINTMENTS: u32 = 20;
    let clock = Clock::start();
    let mailboxes = mailboxes(1, 2, 0, "llf");
    for id in 0..APPOINTMENTS {
        let [table, _] = operators(id);
        mailboxes.add_table(query(id), table, (), None);
    }
    let (send, looked) = std::sync::mpsc::channel();
    std::thread::scope(|threads| {
        for worker in 0..2 {
            let (mailboxes, send) = (&mailboxes, send.clone());
            threads.spawn(move || {
                let mut worker_state = mailboxes.worker_state(WorkerId(worker));
                let (mut staged, mut merged, mut finished) = (Vec::new(), Vec::new(), None);
                loop {
                    let now = || clock.now();
                    let next =
                        mailboxes.exchange(&mut worker_state, finished.take(), &mut staged, &mut merged, now);
                    let Next::Run(grant, ()) = next else { return };
                    assert_eq!(seen(&grant).1, Some(LOOK));
                    send.send((grant.operator, clock.now())).unwrap();
                    let report = RunReport::default();
                    finished = Some(Finished { report, progress: None, ended: clock.now(), look: None });
                }
            });
        }
        // The later one first: each new one is earlier than the alarm in force.
        let appointed: Vec<(OperatorId, ProcessingTime)> = (0..APPOINTMENTS)
            .map(|place| {
                let (table, at) =
                    (OperatorId(2 * place), clock.now().plus_ns(100_000_000 - 4_000_000 * u64::from(place)));
                mailboxes.appoint(table, Look::due(at), clock.now());
                (table, at)
            })
            .collect();
        for _ in 0..APPOINTMENTS {
            let (table, at) = looked.recv_timeout(Duration::from_secs(20)).expect("a look is missed");
            assert!(
                appointed.iter().any(|&(of, due)| of == table && at >= due),
                "{table} at {at:?} is too early"
            );
        }
        mailboxes.stop();
    });
}

/// Its query waits until nothing of it is on its way, and nothing else comes that would wake the worker.
#[test]
fn a_worker_lets_go_of_what_is_refused_before_it_sleeps() {
    let mailboxes = mailboxes(1, 1, 2, "llf");
    let mut worker = mailboxes.worker_state(WorkerId(0));
    let (mut staged, mut merged) = (Vec::new(), Vec::new());
    mailboxes.enqueue(&mut vec![message(0, NOW, 0)], NOW);
    let next = mailboxes.exchange(&mut worker, None, &mut staged, &mut merged, || NOW);
    assert!(matches!(next, Next::Run(..)));
    mailboxes.remove_query(QueryId(0), NOW);
    staged.push(message(1, NOW, 0));
    let finished = Finished { report: RunReport::default(), progress: None, ended: NOW, look: None };
    let next = mailboxes.exchange(&mut worker, Some(finished), &mut staged, &mut merged, || NOW);
    assert!(matches!(next, Next::Refused) && staged.len() == 1);
}

/// Whoever has nothing to do calls it: the one at home there may be in a long run.
#[test]
fn a_look_on_another_shard_is_not_slept_past() {
    let mailboxes = mailboxes(2, 2, 0, "llf");
    for id in 0..2 {
        let [table, _] = operators(id);
        mailboxes.add_table(query(id), table, (), None);
    }
    let far =
        [OperatorId(0), OperatorId(2)].map(|table| mailboxes.addresses.locate(table).unwrap().shard == 1);
    let table = if far[0] { OperatorId(0) } else { OperatorId(2) };
    mailboxes.appoint(table, Look::due(NOW), NOW);
    mailboxes.stop();
    // At home on the first.
    let mut worker = mailboxes.worker_state(WorkerId(0));
    let next = mailboxes.exchange(&mut worker, None, &mut Vec::new(), &mut Vec::new(), || NOW);
    assert!(matches!(next, Next::Run(grant, ()) if grant.operator == table));
}

/// One worker's run, told, and what it is granted next.
fn go_on(mailboxes: &Mailboxes<u64, ()>, worker: &mut WorkerState, staged: Vec<Message<u64>>) -> OperatorId {
    let finished = Finished { report: RunReport::default(), progress: None, ended: NOW, look: None };
    let mut staged = staged;
    match mailboxes.exchange(worker, Some(finished), &mut staged, &mut Vec::new(), || NOW) {
        Next::Run(grant, ()) => grant.operator,
        _ => panic!("there is work"),
    }
}

/// The worker that looked at the table has the rows in its caches; those of others cross a lock.
#[test]
fn what_a_table_admits_for_its_only_reader_is_followed() {
    let mailboxes = mailboxes(2, 2, 3, "llf");
    mailboxes.stop();
    let on = |id: u32| mailboxes.addresses.locate(OperatorId(id)).unwrap().shard;
    assert_eq!([0, 2, 4].map(on), [0, 1, 0]);
    let table = OperatorSpec { id: OperatorId(90), query: QueryId(90), ..operators(0)[0].clone() };
    // The emptiest is the second.
    mailboxes.add_table(QuerySpec { id: QueryId(90), ..query(2) }, table, (), Some(QueryId(2)));
    assert_eq!(on(90), 0, "beside its reader");
    mailboxes.enqueue(&mut vec![message(0, NOW, 0)], NOW);
    mailboxes.wake(OperatorId(90), NOW);
    let mut worker = mailboxes.worker_state(WorkerId(0));
    let first = mailboxes.exchange(&mut worker, None, &mut Vec::new(), &mut Vec::new(), || NOW);
    assert!(matches!(first, Next::Run(grant, ()) if grant.operator == OperatorId(0)), "the nearer target");
    assert_eq!(go_on(&mailboxes, &mut worker, vec![]), OperatorId(90));
    // Behind the rows of its reader more urgent ones wait.
    mailboxes.enqueue(&mut vec![message(0, NOW, 0)], NOW);
    let mut staged = vec![message(2, NOW, 1), message(4, NOW, 2), message(2, NOW, 3)];
    let elsewhere: Vec<u64> =
        mailboxes.take_elsewhere(&worker, &mut staged).iter().map(|message| message.body).collect();
    assert_eq!((elsewhere, staged.len()), (vec![1, 3], 1));
    assert_eq!(go_on(&mailboxes, &mut worker, staged), OperatorId(4));
}

#[test]
fn each_worker_has_a_shard_of_its_own_once_queries_crowd() {
    let config = Config { workers: 2, quantum_ns: 1_000, ..Config::default() };
    // With so near targets all would be given up on the one shard, and nothing yet on the other.
    let policy = recipe("laxity:overload=off").unwrap();
    let mailboxes: Mailboxes<u64, ()> = Mailboxes::new((1, 2), &policy, &config, NO_MERGING, || LOOK);
    mailboxes.stop();
    let few = laxity_sched::CROWD as u32 / 2;
    let add = |id: u32| mailboxes.add_query(query(id), &operators(id), &[(), ()]);
    (0..few).for_each(add);
    let mut workers = [0, 1].map(|worker| mailboxes.worker_state(WorkerId(worker)));
    // Both are at home on the one that there is, whose top nobody is told.
    mailboxes.enqueue(&mut vec![message(0, NOW, 0), message(2, NOW, 0), message(4, NOW, 0)], NOW);
    for (worker, operator) in workers.iter_mut().zip([0, 2]) {
        let next = mailboxes.exchange(worker, None, &mut Vec::new(), &mut Vec::new(), || NOW);
        assert!(matches!(next, Next::Run(grant, ()) if grant.operator == OperatorId(operator)));
    }
    assert_eq!((mailboxes.used(), mailboxes.shards[0].top()), (1, Top::EMPTY));
    add(few);
    assert_eq!(mailboxes.used(), 2);
    assert_ne!(mailboxes.shards[0].top(), Top::EMPTY, "what waits there is told");
    // As urgent as that.
    assert_eq!(query(2).target_ns, query(few).target_ns);
    mailboxes.enqueue(&mut vec![message(2 * few, NOW, 0)], NOW);
    let next = workers.each_mut().map(|worker| go_on(&mailboxes, worker, vec![]));
    assert_eq!(next, [OperatorId(4), OperatorId(2 * few)]);
}

/// Notes what is asked of it.
#[derive(Clone)]
struct Noted(u32, std::sync::Arc<Mutex<Vec<(u32, &'static str)>>>);

impl Fetched for Noted {
    fn fetch(&self) {
        self.1.lock().push((self.0, "itself"));
    }

    fn fetch_behind(&self) {
        self.1.lock().push((self.0, "behind it"));
    }
}

#[test]
fn memory_of_the_next_but_one_is_asked_for_and_then_what_it_points_to() {
    let (config, noted) = (Config { workers: 1, ..Config::default() }, std::sync::Arc::default());
    let mailboxes = Mailboxes::new((1, 1), &recipe("llf").unwrap(), &config, NO_MERGING, || LOOK);
    mailboxes.stop();
    let unit = |id: u32| Noted(id, std::sync::Arc::clone(&noted));
    const MANY: u32 = 80;
    for id in 0..MANY {
        let query =
            QuerySpec { id: QueryId(id), target_ns: 1_000 * u64::from(id + 1), weight: 1.0, qos: None };
        mailboxes.add_query(query, &operators(id), &[unit(2 * id), unit(2 * id + 1)]);
    }
    // A table that the first query alone reads.
    let table = OperatorSpec { id: OperatorId(200), query: QueryId(200), ..operators(0)[0].clone() };
    let spec = QuerySpec { id: QueryId(200), target_ns: 2_500, weight: 1.0, qos: None };
    mailboxes.add_table(spec, table, unit(200), Some(QueryId(0)));
    mailboxes.wake(OperatorId(200), NOW);
    mailboxes.enqueue(&mut (0..MANY).map(|id| message(2 * id, NOW, 0)).collect(), NOW);
    let mut worker = mailboxes.worker_state(WorkerId(0));
    let mut finished = None;
    let mut turn = || {
        let next = mailboxes.exchange(&mut worker, finished, &mut Vec::new(), &mut Vec::new(), || NOW);
        let Next::Run(grant, _) = next else { panic!("there is work") };
        finished = Some(Finished { report: RunReport::default(), progress: None, ended: NOW, look: None });
        (grant.operator.0, std::mem::take(&mut *noted.lock()))
    };
    let turns: Vec<(u32, Vec<(u32, &str)>)> = (0..=MANY).map(|_| turn()).collect();
    let (at_table, last_fetched) =
        (turns.iter().position(|turn| turn.0 == 200).unwrap(), (MANY - 64) as usize);
    assert!((2..last_fetched).contains(&at_table));
    for place in 2..last_fetched {
        // With those that its rows go to.
        let with_fed = if place == at_table { vec![200, 0, 1] } else { vec![turns[place].0] };
        let asked = |how| with_fed.iter().map(|&unit| (unit, how)).collect::<Vec<_>>();
        assert!(turns[place - 2].1.ends_with(&asked("itself")), "{place}: {turns:?}");
        assert!(turns[place - 1].1.starts_with(&asked("behind it")), "{place}: {turns:?}");
    }
    // Of few the caches have it.
    assert!(turns[last_fetched + 2..].iter().all(|(_, asked)| asked.is_empty()), "{turns:?}");
}
