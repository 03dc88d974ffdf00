//! Every interleaving, or every one with so many preemptions, of two workers and one who enqueues.
//!
//! A lost wake-up leaves a worker waiting for ever, which loom reports as a deadlock. What the scheduler decides is
//! not in question here: it is the same in each interleaving of the locks around it.

use laxity_graph::EventTime;
use laxity_sched::{Llf, Recipe};
use loom::sync::atomic::{AtomicUsize, Ordering};
use loom::sync::{Arc, Condvar, Mutex};
use loom::thread;

use super::*;

const NOW: ProcessingTime = ProcessingTime(1);

/// Two preemptions: the races of two threads that the protocol is about need one in each.
fn model(check: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(2);
    builder.check(check);
}

/// As many queries as shards, one on each, with so many operators: query q has q · operators and those after it.
fn mailboxes(shards: u32, operators: u32) -> Arc<Mailboxes<(), ()>> {
    let merging = Merging { rows_max: 0, messages_max: 0, fits: |_, _| false };
    let config = Config { workers: 2, ..Config::default() };
    let mailboxes = Mailboxes::new(
        (shards as usize, shards as usize),
        &Recipe::of("llf", || Llf),
        &config,
        merging,
        || (),
    );
    for query in (0..shards).map(QueryId) {
        let ids = query.0 * operators..(query.0 + 1) * operators;
        let specs: Vec<OperatorSpec> = ids
            .map(|id| OperatorSpec { id: OperatorId(id), query, upstream: vec![], window: None, channels: 1 })
            .collect();
        let spec = QuerySpec { id: query, target_ns: 1, weight: 1.0, qos: None };
        mailboxes.add_query(spec, &specs, &vec![(); specs.len()]);
    }
    Arc::new(mailboxes)
}

fn message(to: u32) -> Message<()> {
    Message {
        to: OperatorId(to),
        channel: 0,
        progress: EventTime::MIN,
        ingested: NOW,
        rows: 1,
        bytes: 1,
        body: (),
    }
}

/// Works until told to stop: `run` does what a grant of this operator says, and what comes of it.
fn work(mailboxes: &Mailboxes<(), ()>, worker: u32, run: impl Fn(u32) -> Vec<Message<()>>) {
    let mut worker_state = mailboxes.worker_state(WorkerId(worker));
    let (mut staged, mut merged) = (Vec::new(), Vec::new());
    let mut finished = None;
    loop {
        let next = mailboxes.exchange(&mut worker_state, finished.take(), &mut staged, &mut merged, || NOW);
        let grant = match next {
            Next::Run(grant, ()) => grant,
            Next::Refused => {
                staged.clear();
                continue;
            }
            Next::Stop => return,
        };
        assert!(matches!(grant.work, Work::Message { .. }));
        staged = run(grant.operator.0);
        let report = RunReport::default();
        finished = Some(Finished { report, progress: None, ended: NOW, look: None });
    }
}

/// One worker, who is at home on shard 0.
fn one_worker(shards: u32, sends: impl Fn(&Mailboxes<(), ()>)) -> usize {
    let mailboxes = mailboxes(shards, 1);
    let done = Arc::new(AtomicUsize::new(0));
    let worker = {
        let (mailboxes, done) = (mailboxes.clone(), done.clone());
        thread::spawn(move || {
            work(&mailboxes, 0, |_| {
                done.fetch_add(1, Ordering::Relaxed);
                Vec::new()
            });
        })
    };
    sends(&mailboxes);
    mailboxes.stop();
    worker.join().unwrap();
    done.load(Ordering::Relaxed)
}

#[test]
fn a_message_always_wakes_a_worker() {
    loom::model(|| {
        let done = one_worker(1, |mailboxes| {
            mailboxes.enqueue(&mut vec![message(0)], NOW);
            mailboxes.enqueue(&mut vec![message(0)], NOW);
        });
        assert_eq!(done, 2);
    });
}

#[test]
fn an_appointment_that_is_due_always_wakes_a_worker() {
    loom::model(|| {
        let mailboxes = mailboxes(1, 0);
        let spec = QuerySpec { id: QueryId(9), target_ns: 1, weight: 1.0, qos: None };
        let table = OperatorSpec {
            id: OperatorId(0),
            query: QueryId(9),
            upstream: vec![],
            window: None,
            channels: 1,
        };
        mailboxes.add_table(spec, table, (), None);
        let worker = {
            let mailboxes = mailboxes.clone();
            thread::spawn(move || {
                let mut worker_state = mailboxes.worker_state(WorkerId(0));
                let (mut staged, mut merged) = (Vec::new(), Vec::new());
                let next = mailboxes.exchange(&mut worker_state, None, &mut staged, &mut merged, || NOW);
                assert!(matches!(next, Next::Run(grant, ()) if grant.operator == OperatorId(0)));
            })
        };
        mailboxes.appoint(OperatorId(0), Look::due(NOW), NOW);
        worker.join().unwrap();
    });
}

#[test]
fn a_message_on_another_shard_always_wakes_a_worker() {
    model(|| {
        let done = one_worker(2, |mailboxes| {
            mailboxes.enqueue(&mut vec![message(1)], NOW);
            mailboxes.enqueue(&mut vec![message(0)], NOW);
        });
        assert_eq!(done, 2);
    });
}

fn work_made_by_a_worker_is_done_before_all_stop(shards: u32) {
    let mailboxes = mailboxes(shards, 2);
    let done = Arc::new(AtomicUsize::new(0));
    let workers: Vec<_> = (0..2)
        .map(|id| {
            let (mailboxes, done) = (mailboxes.clone(), done.clone());
            thread::spawn(move || {
                work(&mailboxes, id, |operator| {
                    done.fetch_add(1, Ordering::Relaxed);
                    if operator % 2 == 0 { vec![message(operator + 1)] } else { Vec::new() }
                });
            })
        })
        .collect();
    let last_source = 2 * (shards - 1);
    mailboxes.enqueue(&mut vec![message(last_source)], NOW);
    mailboxes.stop();
    for worker in workers {
        worker.join().unwrap();
    }
    assert_eq!(done.load(Ordering::Relaxed), 2);
}

#[test]
fn work_made_by_a_worker_is_done_before_all_stop_on_one_shard() {
    model(|| work_made_by_a_worker_is_done_before_all_stop(1));
}

#[test]
fn work_made_by_a_worker_is_done_before_all_stop_on_two_shards() {
    model(|| work_made_by_a_worker_is_done_before_all_stop(2));
}

/// Two messages, each of which is done only while the other is: a worker that sleeps beside waiting work leaves
/// its colleague waiting for ever.
fn both_work_at_once(shards: u32, operators: u32, sends: impl Fn(&Mailboxes<(), ()>)) {
    let mailboxes = mailboxes(shards, operators);
    let meeting = Arc::new((Mutex::new(0), Condvar::new()));
    let workers: Vec<_> = (0..2)
        .map(|id| {
            let (mailboxes, meeting) = (mailboxes.clone(), meeting.clone());
            thread::spawn(move || {
                work(&mailboxes, id, |_| {
                    let (present, arrived) = &*meeting;
                    let mut present = present.lock().unwrap();
                    *present += 1;
                    arrived.notify_all();
                    while *present < 2 {
                        present = arrived.wait(present).unwrap();
                    }
                    Vec::new()
                });
            })
        })
        .collect();
    sends(&mailboxes);
    {
        let (present, arrived) = &*meeting;
        let mut present = present.lock().unwrap();
        while *present < 2 {
            present = arrived.wait(present).unwrap();
        }
    }
    mailboxes.stop();
    for worker in workers {
        worker.join().unwrap();
    }
}

#[test]
fn nobody_sleeps_while_one_of_two_enqueued_together_waits() {
    model(|| {
        both_work_at_once(1, 2, |mailboxes| {
            mailboxes.enqueue(&mut vec![message(0), message(1)], NOW);
        });
    });
}

#[test]
fn nobody_sleeps_while_one_of_two_on_a_shard_waits() {
    model(|| {
        both_work_at_once(2, 2, |mailboxes| {
            mailboxes.enqueue(&mut vec![message(2), message(3)], NOW);
        });
    });
}

#[test]
fn nobody_sleeps_while_another_shard_has_work() {
    model(|| {
        both_work_at_once(2, 1, |mailboxes| {
            mailboxes.enqueue(&mut vec![message(0)], NOW);
            mailboxes.enqueue(&mut vec![message(1)], NOW);
        });
    });
}

#[test]
fn a_query_that_ends_gives_back_what_was_not_done() {
    model(|| {
        let mailboxes = mailboxes(2, 1);
        let done = Arc::new(AtomicUsize::new(0));
        let workers: Vec<_> = (0..2)
            .map(|id| {
                let (mailboxes, done) = (mailboxes.clone(), done.clone());
                thread::spawn(move || {
                    work(&mailboxes, id, |_| {
                        done.fetch_add(1, Ordering::Relaxed);
                        Vec::new()
                    });
                })
            })
            .collect();
        mailboxes.enqueue(&mut vec![message(0), message(1)], NOW);
        let back = mailboxes.remove_query(QueryId(1), NOW).len();
        let mut late = vec![message(1)];
        mailboxes.enqueue(&mut late, NOW);
        mailboxes.stop();
        for worker in workers {
            worker.join().unwrap();
        }
        assert_eq!(late.len(), 1, "nobody takes it any more");
        assert_eq!(done.load(Ordering::Relaxed) + back, 2);
    });
}
