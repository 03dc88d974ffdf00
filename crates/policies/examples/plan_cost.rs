//! What do Aurora's decisions cost: making one plan, by traversal and superbox, and one cycle of the QoS ranks, by number
//! of operators?
//!
//! Plans are made over and over for units whose costs move a little all the time, as estimates do. Cycles see a
//! hundredth of the operators changed since the last. The least of the rounds is what it costs; the median beside it says
//! how noisy the machine was. Non-goals: what the order is good for, and following it.
//!
//! `cargo run --release -p laxity-policies --example plan_cost [--small]`

// An example is a driver, and a driver has a clock.
#![allow(clippy::disallowed_methods)]

use std::hint::black_box;
use std::time::Instant;

use laxity_graph::{EventTime, OperatorId, ProcessingTime, QueryId};
use laxity_policies::{Auto, MinCost, MinLatency, MinMemory, Qos};
use laxity_sched::{
    CallCost, Composition, Config, Dispatch, Message, OperatorSpec, Plan, QuerySpec, Rank, RunReport,
    Scheduler, Snapshot, Unit,
};

const TARGETS_NS: [u64; 4] = [50_000_000, 800_000_000, 10_000_000_000, 60_000_000_000];

fn main() {
    let small = std::env::args().any(|argument| argument == "--small");
    let rounds = if small { 3 } else { 101 };
    println!("what,superbox_or_operators,ns_min,ns_median");
    for (name, parents) in [("chain of 5", chain(5)), ("tree of 6", figure_4()), ("tree of 121", tree(3, 5))]
    {
        let mut plans: [(&str, Box<dyn Plan>); 4] = [
            ("min-cost", Box::<MinCost>::default()),
            ("min-latency", Box::<MinLatency>::default()),
            ("min-memory", Box::<MinMemory>::default()),
            ("auto", Box::<Auto>::default()),
        ];
        for (plan_name, plan) in &mut plans {
            let times = plan_ns(&mut **plan, &parents, rounds);
            println!("plan {plan_name},{name},{:.0},{:.0}", times[0], times[rounds / 2]);
        }
    }
    for operators in if small { &[100, 1_000][..] } else { &[1_000, 10_000, 100_000] } {
        type Make = fn() -> Qos;
        let ranks: [(&str, Make); 4] = [
            ("qos", Qos::default),
            ("qos:1x1", || Qos::bucketed(1, 1)),
            ("qos:20x20", || Qos::bucketed(20, 20)),
            ("qos:200x200", || Qos::bucketed(200, 200)),
        ];
        for (name, rank) in ranks {
            let times = cycle_ns(&mut rank(), *operators, rounds);
            println!("cycle {name},{operators},{:.0},{:.0}", times[0], times[rounds / 2]);
        }
    }
}

/// Which operator each one feeds, producers first.
type Parents = Vec<Option<u32>>;

fn chain(length: u32) -> Parents {
    (1..=length).map(|next| (next < length).then_some(next)).collect()
}

fn figure_4() -> Parents {
    vec![Some(3), Some(2), Some(3), Some(5), Some(5), None]
}

/// Aurora's application tree: every box has so many children, on so many levels.
fn tree(fan_out: u32, depth: u32) -> Parents {
    let count = (fan_out.pow(depth) - 1) / (fan_out - 1);
    // Numbered from the root down, then turned round.
    (0..count).rev().map(|from_root| (from_root > 0).then(|| count - 1 - (from_root - 1) / fan_out)).collect()
}

fn scheduler(queries: u32, parents: &Parents) -> Scheduler<()> {
    let mut scheduler =
        Scheduler::new(laxity_policies::recipe("aurora").expect("a preset").compose(), Config::default());
    let length = parents.len() as u32;
    for query in 0..queries {
        let target_ns = TARGETS_NS[query as usize % TARGETS_NS.len()];
        scheduler.add_query(QuerySpec { id: QueryId(query), target_ns, weight: 1.0, qos: None });
        for place in 0..length {
            let feeds = |other: &u32| parents[*other as usize] == Some(place);
            scheduler.add_operator(OperatorSpec {
                id: OperatorId(query * length + place),
                query: QueryId(query),
                upstream: (0..place).filter(feeds).map(|other| OperatorId(query * length + other)).collect(),
                window: None,
                channels: 1,
            });
        }
    }
    for operator in 0..queries * length {
        let now = ProcessingTime(1_000 * u64::from(operator % 50_000));
        let message = Message {
            to: OperatorId(operator),
            channel: 0,
            progress: EventTime::MIN,
            ingested: now,
            rows: 100,
            bytes: 10_000,
            body: (),
        };
        scheduler.on_message(message, now);
    }
    scheduler
}

/// ns per plan of every round, ascending.
fn plan_ns(plan: &mut dyn Plan, parents: &Parents, rounds: usize) -> Vec<f64> {
    const PLANS: u32 = 200;
    let mut snapshot = scheduler(1, parents).snapshot(ProcessingTime(60_000_000));
    let mut order = Vec::new();
    let mut times = Vec::new();
    for round in 0..rounds as u32 {
        let started = Instant::now();
        for number in 0..PLANS {
            // A cost that moves by a thousandth, now here, now there.
            let place = (round * PLANS + number) as usize % snapshot.operators.len();
            snapshot.operators[place].cost.1 *= if number % 2 == 0 { 1.001 } else { 0.999 };
            let query = &snapshot.queries[0];
            plan.dispatch(&Dispatch { now: snapshot.now, query, call: CallCost::default() });
            order.clear();
            plan.plan(&snapshot.operators, &mut order);
            black_box(&order);
        }
        times.push(started.elapsed().as_nanos() as f64 / f64::from(PLANS));
    }
    times.sort_by(f64::total_cmp);
    times
}

/// ns per cycle of every round, ascending.
fn cycle_ns(rank: &mut Qos, operators: u32, rounds: usize) -> Vec<f64> {
    let mut snapshot: Snapshot = {
        let mut scheduler = scheduler(operators / 5, &chain(5));
        scheduler.set_policy(Composition::of(Qos::default()), ProcessingTime(60_000_000));
        assert_eq!(scheduler.composition().unit, Unit::Operator);
        // Ask and answer once, so that the units are those of the new policy.
        let worker = laxity_graph::WorkerId(0);
        if scheduler.next(worker, ProcessingTime(60_000_000)).is_some() {
            scheduler.on_finished(worker, RunReport::default(), ProcessingTime(60_000_000));
        }
        scheduler.snapshot(ProcessingTime(60_000_000))
    };
    let mut priorities = vec![0.0; operators as usize];
    rank.cycle(&snapshot, &mut priorities);
    let mut times = Vec::new();
    for round in 0..rounds as u32 {
        snapshot.now = snapshot.now.plus_ns(10_000_000);
        let changed: Vec<OperatorId> =
            (0..operators / 100).map(|number| OperatorId((number * 97 + round * 31) % operators)).collect();
        for id in &changed {
            snapshot.operators[id.index()].mean_ingested = Some(snapshot.now);
        }
        snapshot.changed = Some(changed);
        let started = Instant::now();
        rank.cycle(&snapshot, &mut priorities);
        times.push(started.elapsed().as_nanos() as f64);
        black_box(&priorities);
    }
    times.sort_by(f64::total_cmp);
    times
}
