//! Every rank under the load that is worst for it: how long does a ready operator wait?

use laxity_graph::{EventTime, OperatorId, ProcessingTime, QueryId, WorkerId};
use laxity_policies::recipe;
use laxity_sched::{
    Composition, Config, Message, OperatorSpec, QuerySpec, RunReport, Scheduler, Train, WaitBound,
};

use crate::policies::Policy;

const OPERATORS: u32 = 8;
const QUANTUM_NS: u64 = 1_000;
const RUN_NS: u64 = 300;
const AGEING_NS: u64 = 50_000;
const URGENT_NS: u64 = 10_000;
const PATIENT_NS: u64 = 2_000_000;

/// Operator 0 belongs to the patient query and gets one dear message. All others always have work, cheap and
/// urgent. How long does the one message wait?
fn wait_of_the_least_urgent(composition: Composition) -> u64 {
    let config =
        Config { quantum_ns: QUANTUM_NS, quantum_max_ns: 0, ageing_bound_ns: AGEING_NS, ..Config::default() };
    let mut scheduler = Scheduler::new(composition, config);
    for id in 0..OPERATORS {
        let target_ns = if id == 0 { PATIENT_NS } else { URGENT_NS };
        scheduler.add_query(QuerySpec { id: QueryId(id), target_ns, weight: 1.0, qos: None });
        scheduler.add_operator(OperatorSpec {
            id: OperatorId(id),
            query: QueryId(id),
            upstream: vec![],
            window: None,
            channels: 1,
        });
    }
    let mut now = ProcessingTime(1_000_000);
    let send = |scheduler: &mut Scheduler<()>, id: u32, rows: u32, now: ProcessingTime| {
        let message = Message {
            to: OperatorId(id),
            channel: 0,
            progress: EventTime(0),
            ingested: now,
            rows,
            bytes: 0,
            body: (),
        };
        scheduler.on_message(message, now);
    };
    for id in (1..OPERATORS).chain(1..OPERATORS) {
        send(&mut scheduler, id, 1, now);
    }
    let started = now;
    send(&mut scheduler, 0, 100_000, now);
    while now.since_ns(started) < 100 * PATIENT_NS {
        let operator = scheduler.next(WorkerId(0), now).expect("there is always work").operator;
        if operator == OperatorId(0) {
            return now.since_ns(started);
        }
        now = now.plus_ns(RUN_NS);
        send(&mut scheduler, operator.0, 1, now);
        let report = RunReport { rows_in: 1, rows_out: 1, cpu_ns: RUN_NS, more: false };
        scheduler.on_finished(WorkerId(0), report, now);
    }
    panic!("starved");
}

/// Until a worker looks up again, where messages of one row take a run and each finds two more waiting.
fn turn_ns(train: Train) -> u64 {
    match train {
        Train::Message => RUN_NS,
        Train::Messages(messages) | Train::Rows(messages) => messages * RUN_NS,
        Train::Fraction(_) => 2 * RUN_NS,
        Train::Quantum => QUANTUM_NS + RUN_NS,
        Train::TimeNs(ns) | Train::CostNs(ns) => ns + RUN_NS,
    }
}

fn check_bound(policy: &Policy) {
    let composition = policy.composition();
    let bound = composition.rank.needs().bound;
    let turns_ns = u64::from(OPERATORS) * turn_ns(composition.train);
    let wait_ns = wait_of_the_least_urgent(composition);
    let bound_ns = match bound {
        WaitBound::Turns => turns_ns,
        // What is ingested after PATIENT - URGENT has a later deadline; before it, up to two messages per
        // operator are queued. Costs, and errors of them, shift both ends by less than the dear message's.
        WaitBound::Deadline => PATIENT_NS + 2 * turns_ns + 12_000,
        WaitBound::Ageing => AGEING_NS + 4 * turns_ns,
    };
    assert!(wait_ns <= bound_ns, "{} waited {wait_ns} ns of {bound_ns}", policy.name);
}

#[test]
fn no_ready_operator_waits_longer_than_its_rank_says() {
    Policy::all().iter().for_each(check_bound);
    // Every seventh composition: all of them take a minute.
    (0..Policy::COMPOSITIONS).step_by(7).map(Policy::composed).for_each(|policy| check_bound(&policy));
}

#[test]
fn without_the_guard_cheap_work_and_long_queues_would_starve_the_rest() {
    for name in ["sjf", "qs"] {
        let wait_ns = wait_of_the_least_urgent(recipe(name).unwrap().compose());
        assert_eq!(wait_ns >= AGEING_NS, name == "sjf", "{name} waited {wait_ns} ns");
    }
}

#[test]
fn a_deadline_is_not_postponed() {
    let wait_ns = wait_of_the_least_urgent(recipe("edf").unwrap().compose());
    // Work ingested up to PATIENT - URGENT later goes first, as it should.
    assert!(wait_ns >= PATIENT_NS - URGENT_NS - 100_000, "{wait_ns}");
}

#[test]
fn random_is_uniform() {
    // One message per operator, over and over: each of the 8 is first in about 1/8 of 8 000 rounds. The
    // standard deviation is sqrt(8000 * 1/8 * 7/8) = 29.6; six of them are allowed.
    let mut first = [0u32; OPERATORS as usize];
    let mut scheduler: Scheduler<()> =
        Scheduler::new(recipe("random").unwrap().compose(), Config { quantum_ns: 0, ..Config::default() });
    scheduler.add_query(QuerySpec { id: QueryId(0), target_ns: 1, weight: 1.0, qos: None });
    let message = |id: u32| Message {
        to: OperatorId(id),
        channel: 0,
        progress: EventTime(0),
        ingested: ProcessingTime::ZERO,
        rows: 1,
        bytes: 0,
        body: (),
    };
    for id in 0..OPERATORS {
        scheduler.add_operator(OperatorSpec {
            id: OperatorId(id),
            query: QueryId(0),
            upstream: vec![],
            window: None,
            channels: 1,
        });
        scheduler.on_message(message(id), ProcessingTime::ZERO);
    }
    for _ in 0..8_000 {
        let id = scheduler.next(WorkerId(0), ProcessingTime::ZERO).unwrap().operator;
        first[id.index()] += 1;
        scheduler.on_finished(WorkerId(0), RunReport::default(), ProcessingTime::ZERO);
        scheduler.on_message(message(id.0), ProcessingTime::ZERO);
    }
    assert!(first.iter().all(|&times| times.abs_diff(1_000) < 178), "{first:?}");
}
