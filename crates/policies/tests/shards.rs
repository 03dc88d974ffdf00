//! Several schedulers against one, and against what their relaxation allows. Cannot catch: anything about locks.

use laxity_graph::{EventTime, IdSpace, OperatorId, ProcessingTime, QueryId, WindowShape, WorkerId};
use laxity_policies::recipe;
use laxity_sched::{
    Config, Grant, Message, OperatorSpec, Outlook, QuerySpec, RunReport, Scheduler, Shards, Top, Work,
};
use proptest::prelude::*;
use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg32;

const QUERIES: u32 = 6;
const WORKERS: u32 = 4;

fn query(id: u32) -> QuerySpec {
    QuerySpec { id: QueryId(id), target_ns: 1_000 * u64::from(1 + id % 3), weight: 1.0, qos: None }
}

/// A source that feeds a window.
fn operators(query: u32) -> [OperatorSpec; 2] {
    [0, 1].map(|place| OperatorSpec {
        id: OperatorId(2 * query + place),
        query: QueryId(query),
        upstream: if place == 0 { vec![] } else { vec![OperatorId(2 * query)] },
        window: (place == 1).then_some(WindowShape { size_ms: 10, slide_ms: 10, end_ms: Some(0) }),
        channels: 1,
    })
}

fn message(to: u32, ingested: u64, body: u64) -> Message<u64> {
    Message {
        to: OperatorId(to),
        channel: 0,
        progress: EventTime(body as i64),
        ingested: ProcessingTime(ingested),
        rows: 1,
        bytes: 8,
        body,
    }
}

#[derive(Clone, Debug)]
enum Step {
    Message { to: u32, age_ns: u64 },
    Next { worker: u32 },
    Finish { worker: u32, cpu_ns: u64, more: bool },
    Release { worker: u32 },
    Pass { ns: u64 },
    Remove { query: u32 },
    Policy { policy: &'static str },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let worker = || 0..WORKERS;
    let step = prop_oneof![
        8 => (0..2 * QUERIES, 0u64..900).prop_map(|(to, age_ns)| Step::Message { to, age_ns }),
        8 => worker().prop_map(|worker| Step::Next { worker }),
        8 => (worker(), 1u64..900, prop::bool::weighted(0.1))
            .prop_map(|(worker, cpu_ns, more)| Step::Finish { worker, cpu_ns, more }),
        1 => worker().prop_map(|worker| Step::Release { worker }),
        2 => (0u64..5_000).prop_map(|ns| Step::Pass { ns }),
        1 => (0..4 * QUERIES).prop_map(|query| Step::Remove { query }),
        1 => prop::sample::select(POLICIES.to_vec()).prop_map(|policy| Step::Policy { policy }),
    ];
    prop::collection::vec(step, 0..300)
}

const POLICIES: [&str; 7] = ["llf", "sjf", "qs", "rr", "random", "hr@2us", "unit=query,rank=fcfs,train=all"];

/// What a step led to: the operator granted, and its message or a resumption.
type Seen = Option<(u32, Option<u64>)>;

fn seen(grant: Option<Grant<u64>>) -> Seen {
    grant.map(|grant| {
        let body = match grant.work {
            Work::Message { message, .. } => {
                assert_eq!(message.to, grant.operator);
                Some(message.body)
            }
            Work::Resume => None,
        };
        (grant.operator.0, body)
    })
}

fn config() -> Config {
    Config {
        workers: WORKERS as usize,
        quantum_ns: 1_000,
        quantum_max_ns: 0,
        ageing_bound_ns: 20_000,
        ..Config::default()
    }
}

fn shards(shards: usize, sampled: usize, policy: &str) -> Shards<u64> {
    let mut shards = Shards::new(shards, shards, sampled, &recipe(policy).unwrap(), &config());
    for id in 0..QUERIES {
        shards.add_query(query(id), &operators(id));
    }
    shards
}

proptest! {
    #[test]
    fn one_shard_is_the_scheduler_pick_for_pick(steps in steps(), first in prop::sample::select(POLICIES.to_vec())) {
        let mut one = shards(1, 2, first);
        let mut scheduler: Scheduler<u64> = Scheduler::new(recipe(first).unwrap().compose(), config());
        for id in 0..QUERIES {
            scheduler.add_query(query(id));
            operators(id).into_iter().for_each(|operator| scheduler.add_operator(operator));
        }
        let mut now = ProcessingTime(10_000);
        let mut running = [false; WORKERS as usize];
        for (number, step) in (0..).zip(steps) {
            match step {
                Step::Message { to, age_ns } => {
                    let message = message(to, now.0 - age_ns, number);
                    prop_assert_eq!(one.on_message(message.clone(), now), scheduler.on_message(message, now));
                }
                Step::Next { worker } if !running[worker as usize] => {
                    let picked = seen(one.next(WorkerId(worker), now));
                    prop_assert_eq!(picked, seen(scheduler.next(WorkerId(worker), now)));
                    running[worker as usize] = picked.is_some();
                }
                Step::Finish { worker, cpu_ns, more } if running[worker as usize] => {
                    running[worker as usize] = false;
                    let report = RunReport { rows_in: 1, rows_out: 1, cpu_ns, more };
                    one.on_finished(WorkerId(worker), report, now);
                    scheduler.on_finished(WorkerId(worker), report, now);
                }
                Step::Release { worker } if !running[worker as usize] => {
                    prop_assert_eq!(one.release(WorkerId(worker), now), scheduler.release(WorkerId(worker), now));
                }
                Step::Pass { ns } => now = now.plus_ns(ns),
                Step::Remove { query } => {
                    let bodies = |messages: Vec<Message<u64>>| -> Vec<(u32, u64)> {
                        messages.into_iter().map(|message| (message.to.0, message.body)).collect()
                    };
                    let query = QueryId(query);
                    prop_assert_eq!(bodies(one.remove_query(query)), bodies(scheduler.remove_query(query)));
                }
                Step::Policy { policy } => {
                    one.set_policy(&recipe(policy).unwrap(), now);
                    scheduler.set_policy(recipe(policy).unwrap().compose(), now);
                }
                _ => {}
            }
            prop_assert_eq!(one.waiting_units(), scheduler.waiting_units());
            prop_assert_eq!(one.next_timeout(), scheduler.next_timeout());
        }
    }

    #[test]
    fn many_shards_lose_nothing_and_nobody_idles_beside_work(
        steps in steps(),
        first in prop::sample::select(POLICIES.to_vec()),
        number in 2usize..5,
        sampled in 0usize..3,
    ) {
        let mut shards = shards(number, sampled, first);
        let mut now = ProcessingTime(10_000);
        let mut waiting: Vec<Vec<u64>> = vec![Vec::new(); 2 * QUERIES as usize];
        let mut running: [Option<u32>; WORKERS as usize] = [None; WORKERS as usize];
        let mut resumes = vec![false; 2 * QUERIES as usize];
        let mut removed = vec![false; QUERIES as usize];
        for step in 0..steps.len() + 4_000 {
            // At the end, workers take turns until nothing is left.
            let worker = step as u32 / 2 % WORKERS;
            let last = [Step::Next { worker }, Step::Finish { worker, cpu_ns: 10, more: false }];
            match steps.get(step).cloned().unwrap_or_else(|| last[step % 2].clone()) {
                Step::Message { to, age_ns } => {
                    let body = step as u64;
                    shards.on_message(message(to, now.0 - age_ns, body), now);
                    if !removed[to as usize / 2] {
                        waiting[to as usize].push(body);
                    }
                }
                Step::Next { worker } if running[worker as usize].is_none() => {
                    let before = shards.waiting_units();
                    let Some((operator, body)) = seen(shards.next(WorkerId(worker), now)) else {
                        prop_assert_eq!(before, 0, "idle beside waiting work");
                        continue;
                    };
                    prop_assert!(!running.contains(&Some(operator)), "{} runs twice", operator);
                    match body {
                        Some(body) => prop_assert_eq!(waiting[operator as usize].remove(0), body),
                        None => prop_assert!(std::mem::take(&mut resumes[operator as usize])),
                    }
                    running[worker as usize] = Some(operator);
                }
                Step::Finish { worker, cpu_ns, more } => {
                    let Some(operator) = running[worker as usize].take() else { continue };
                    resumes[operator as usize] = more && !removed[operator as usize / 2];
                    let report = RunReport { rows_in: 1, rows_out: 1, cpu_ns, more };
                    shards.on_finished(WorkerId(worker), report, now);
                }
                Step::Release { worker } if running[worker as usize].is_none() => {
                    shards.release(WorkerId(worker), now);
                }
                Step::Pass { ns } => now = now.plus_ns(ns),
                Step::Remove { query } if query < QUERIES => {
                    let mut back: Vec<u64> = shards.remove_query(QueryId(query)).iter().map(|m| m.body).collect();
                    let mut expected: Vec<u64> =
                        [0, 1].iter().flat_map(|place| std::mem::take(&mut waiting[(2 * query + place) as usize])).collect();
                    back.sort_unstable();
                    expected.sort_unstable();
                    prop_assert_eq!(back, expected);
                    removed[query as usize] = true;
                    (0..2).for_each(|place| resumes[(2 * query + place) as usize] = false);
                }
                Step::Policy { policy } => shards.set_policy(&recipe(policy).unwrap(), now),
                _ => {}
            }
        }
        prop_assert!(waiting.iter().all(Vec::is_empty), "never granted: {:?}", waiting);
        prop_assert!(!resumes.contains(&true) && shards.waiting_units() == 0);
    }
}

/// How many waiting units are more urgent than the one picked: mean and maximum over all picks, where so many
/// units with random deadlines wait and as many workers as shards take turns.
fn rank_error(shards: usize, sampled: usize, units: u32) -> (f64, usize) {
    let config = Config { workers: shards, quantum_ns: 0, quantum_max_ns: 0, ..Config::default() };
    let mut core: Shards<u64> = Shards::new(shards, shards, sampled, &recipe("edf").unwrap(), &config);
    let mut random = Pcg32::seed_from_u64(7);
    let mut keys: Vec<u64> = Vec::new();
    for id in 0..units {
        core.add_query(
            QuerySpec { id: QueryId(id), target_ns: 1, weight: 1.0, qos: None },
            &[OperatorSpec {
                id: OperatorId(id),
                query: QueryId(id),
                upstream: vec![],
                window: None,
                channels: 1,
            }],
        );
        let key = u64::from(random.next_u32());
        keys.push(key);
        core.on_message(message(id, key, 0), ProcessingTime(1 << 33));
    }
    let mut ordered = keys.clone();
    ordered.sort_unstable();
    let (mut sum, mut most) = (0, 0);
    // The second half of a queue that only empties would be unlike one in use.
    let picks = units / 2;
    for pick in 0..picks {
        let worker = WorkerId(pick % shards as u32);
        let grant = core.next(worker, ProcessingTime(1 << 33)).expect("there is work");
        let error = ordered.partition_point(|&key| key < keys[grant.operator.index()]);
        ordered.remove(error);
        sum += error;
        most = most.max(error);
        core.on_finished(worker, RunReport::default(), ProcessingTime(1 << 33));
    }
    (sum as f64 / f64::from(picks), most)
}

#[test]
fn a_pick_is_near_the_front_however_many_wait() {
    assert_eq!(rank_error(1, 1, 500), (0.0, 0));
    for shards in [2, 4, 8, 16] {
        for sampled in [1, 2] {
            let [(few, few_max), (many, many_max)] =
                [2_000, 16_000].map(|units| rank_error(shards, sampled, units));
            let n = shards as f64;
            assert!(few < 1.5 * n && many < 1.5 * n, "{shards} shards, {sampled} sampled: {few} and {many}");
            assert!(few_max < 16 * shards && many_max < 16 * shards, "{shards}: {few_max} and {many_max}");
        }
    }
}

#[test]
fn one_more_look_is_worth_a_lot_and_none_costs_dear() {
    let [blind, one, two] = [0, 1, 2].map(|sampled| rank_error(16, sampled, 16_000).0);
    assert!(two < one && one < blind / 2.0, "{blind} {one} {two}");
}

#[test]
fn the_chosen_shard_stands_where_chance_puts_the_least_of_those_looked_at() {
    const SHARDS: usize = 12;
    let mut random = Pcg32::seed_from_u64(5);
    let mut sum = 0;
    for _ in 0..20_000 {
        let mut tops: Vec<u32> = (0..SHARDS as u32).collect();
        for place in (1..SHARDS).rev() {
            tops.swap(place, random.next_u32() as usize % (place + 1));
        }
        let top = |shard: usize| Top::new(Some(f64::from(tops[shard])));
        let outlook = Outlook { at: 3, top: top(3), home: 3, sampled: 1, lead: 0.0 };
        let chosen = outlook.choose(SHARDS, top, &mut random).unwrap();
        sum += 1 + tops[chosen];
    }
    // The least of 2 of 12, on average: 1 + 10 / 3. A place has a standard deviation below 3, its mean 3 /
    // √20 000 = 0.02.
    let mean = f64::from(sum) / 20_000.0;
    assert!((mean - 13.0 / 3.0).abs() < 0.1, "{mean}");
}

/// The patient unit waits among urgent ones that always have work, on every shard. How long?
fn wait_of_the_least_urgent(policy: &str, shards: usize) -> u64 {
    const UNITS: u32 = 16;
    const RUN_NS: u64 = 1_000;
    let config = Config {
        workers: shards,
        quantum_ns: 0,
        quantum_max_ns: 0,
        ageing_bound_ns: 100_000,
        ..Config::default()
    };
    let mut core: Shards<u64> = Shards::new(shards, shards, 1, &recipe(policy).unwrap(), &config);
    for id in 0..UNITS {
        let target_ns = if id == 0 { 400_000 } else { 10_000 };
        let source = operators(id)[0].clone();
        let source = OperatorSpec { id: OperatorId(id), ..source };
        core.add_query(QuerySpec { target_ns, ..query(id) }, &[source]);
    }
    let mut now = ProcessingTime(1_000_000);
    (1..UNITS).chain(1..UNITS).for_each(|id| assert!(core.on_message(message(id, now.0, 0), now) || id > 0));
    core.on_message(Message { rows: 100_000, ..message(0, now.0, 0) }, now);
    let started = now;
    while now.since_ns(started) < 10_000_000 {
        if a_turn_reaches_operator_0(&mut core, shards as u32, &mut now, RUN_NS) {
            return now.since_ns(started);
        }
    }
    panic!("{policy} starved on {shards} shards");
}

#[test]
fn bounds_hold_with_one_worker_in_the_place_of_all() {
    for shards in [1, 2, 4, 8] {
        for policy in ["llf", "edf", "fcfs"] {
            // New work is less urgent once its ingestion is 390 us later; two messages a unit are queued
            // before.
            let wait_ns = wait_of_the_least_urgent(policy, shards);
            assert!(wait_ns <= 400_000 + 2 * 16 * 1_000, "{policy} on {shards}: {wait_ns}");
        }
        for policy in ["fifo", "rr"] {
            let wait_ns = wait_of_the_least_urgent(policy, shards);
            assert!(wait_ns <= 16 * 1_000, "{policy} on {shards}: {wait_ns}");
        }
        for policy in ["sjf", "qs", "random"] {
            let wait_ns = wait_of_the_least_urgent(policy, shards);
            assert!(wait_ns <= 100_000 + 4 * 16 * 1_000, "{policy} on {shards}: {wait_ns}");
        }
    }
}

/// All workers run at once, and what they ran comes again; unless one was granted operator 0.
fn a_turn_reaches_operator_0(
    core: &mut Shards<u64>,
    workers: u32,
    now: &mut ProcessingTime,
    run_ns: u64,
) -> bool {
    let next = |worker| core.next(WorkerId(worker), *now).expect("there is work for all");
    let grants: Vec<Grant<u64>> = (0..workers).map(next).collect();
    if grants.iter().any(|grant| grant.operator == OperatorId(0)) {
        return true;
    }
    *now = now.plus_ns(run_ns);
    for (worker, grant) in (0..).zip(grants) {
        core.on_message(message(grant.operator.0, now.0, 0), *now);
        let report = RunReport { rows_in: 1, rows_out: 1, cpu_ns: run_ns, more: false };
        core.on_finished(WorkerId(worker), report, *now);
    }
    false
}

/// Two shards and two workers that only ever find other work on shard 1. When the home of worker 0, where query 0
/// is, has work again: how long does that wait?
fn wait_at_the_home_of_a_wanderer(policy: &str) -> u64 {
    const RUN_NS: u64 = 1_000;
    const OTHERS: u32 = 16;
    let config = Config {
        workers: 2,
        quantum_ns: 0,
        quantum_max_ns: 0,
        ageing_bound_ns: 100_000,
        ..Config::default()
    };
    let mut core: Shards<u64> = Shards::new(2, 2, 1, &recipe(policy).unwrap(), &config);
    let source = |query: u32, id: u32| OperatorSpec {
        id: OperatorId(id),
        query: QueryId(query),
        upstream: vec![],
        window: None,
        channels: 1,
    };
    // So many operators that all other queries go to the other shard; only the first ever has work.
    let large: Vec<OperatorSpec> = (0..OTHERS).map(|id| source(0, id)).collect();
    assert_eq!(core.add_query(query(0), &large), 0);
    for id in 0..OTHERS {
        assert_eq!(core.add_query(query(1 + id), &[source(1 + id, OTHERS + id)]), 1);
    }
    let mut now = ProcessingTime(1_000_000);
    (OTHERS..2 * OTHERS).for_each(|id| assert!(core.on_message(message(id, now.0, 0), now)));
    let comes = now.plus_ns(4 * RUN_NS);
    while now.since_ns(comes) < 10_000_000 {
        if now == comes {
            assert_eq!(core.shard_of_worker(WorkerId(0)), 1);
            core.on_message(Message { rows: 100_000, ..message(0, now.0, 0) }, now);
        }
        if a_turn_reaches_operator_0(&mut core, 2, &mut now, RUN_NS) {
            return now.since_ns(comes);
        }
    }
    panic!("{policy} starved")
}

#[test]
fn who_works_elsewhere_does_not_starve_its_home() {
    // One turn in four goes to age; ranks by turn come home as soon as there is work.
    for (policy, wait_ns_max) in [("sjf", 104_000), ("random", 104_000), ("fifo", 0), ("rr", 0)] {
        let wait_ns = wait_at_the_home_of_a_wanderer(policy);
        assert!(wait_ns <= wait_ns_max, "{policy}: {wait_ns} ns");
    }
}

/// What a test knows of a query that lives.
struct Living {
    query: QueryId,
    first: u32,
    length: u32,
    target_ns: u64,
}

/// Queries of one to four operators come, are altered and go while their messages wait and run, a million times.
#[test]
fn ids_come_again_and_nothing_is_lost_or_grows_over_a_million_lives() {
    const STEPS: u32 = 1_000_000;
    const AT_ONCE: usize = 40;
    let mut random = Pcg32::seed_from_u64(11);
    let mut ids = IdSpace::default();
    let mut shards: Shards<u64> = Shards::new(2, 2, 1, &recipe("laxity").unwrap(), &config());
    let mut living: Vec<Living> = Vec::new();
    let mut running: [Option<u32>; WORKERS as usize] = [None; WORKERS as usize];
    let (mut queries, mut given, mut back, mut done, mut removed_running) = (0, 0_u64, 0_u64, 0_u64, 0);
    let mut now = ProcessingTime(10_000);
    for step in 0..u64::from(STEPS) {
        now = now.plus_ns(u64::from(random.next_u32() % 500));
        let worker = random.next_u32() % WORKERS;
        let pick = |random: &mut Pcg32, living: &[Living]| random.next_u32() as usize % living.len().max(1);
        match random.next_u32() % 10 {
            0 if living.len() < AT_ONCE => {
                let length = 1 + random.next_u32() % 4;
                let (query, first) = (QueryId(queries), ids.take(length));
                queries += 1;
                let target_ns = 1_000 + u64::from(random.next_u32() % 100_000);
                let operators: Vec<OperatorSpec> = (first..first + length)
                    .map(|id| OperatorSpec {
                        id: OperatorId(id),
                        query,
                        upstream: if id == first { vec![] } else { vec![OperatorId(id - 1)] },
                        window: None,
                        channels: 1,
                    })
                    .collect();
                shards.add_query(QuerySpec { id: query, target_ns, weight: 1.0, qos: None }, &operators);
                living.push(Living { query, first, length, target_ns });
            }
            1 if !living.is_empty() => {
                let place = pick(&mut random, &living);
                let Living { query, first, length, .. } = living.swap_remove(place);
                let messages = shards.remove_query(query);
                assert!(messages.iter().all(|message| (first..first + length).contains(&message.to.0)));
                back += messages.len() as u64;
                let runs = running.iter().flatten().any(|id| (first..first + length).contains(id));
                removed_running += u32::from(runs);
                // Whoever sends counts what is on its way; here, what runs sends nothing.
                ids.give_back(first, length);
                running.iter_mut().for_each(|id| {
                    if id.is_some_and(|id| (first..first + length).contains(&id)) {
                        *id = Some(u32::MAX);
                    }
                });
            }
            2 if !living.is_empty() => {
                let place = pick(&mut random, &living);
                let of = &mut living[place];
                of.target_ns = 1_000 + u64::from(random.next_u32() % 100_000);
                let spec = QuerySpec { id: of.query, target_ns: of.target_ns, weight: 2.0, qos: None };
                shards.alter_query(spec, now);
            }
            3..=5 if !living.is_empty() => {
                let place = pick(&mut random, &living);
                let of = &living[place];
                let to = of.first + random.next_u32() % of.length;
                let message = Message { rows: 1 + random.next_u32() % 9, ..message(to, now.0 - 100, step) };
                shards.on_message(message, now);
                given += 1;
            }
            _ => match running[worker as usize].take() {
                Some(_) => {
                    let report = RunReport { rows_in: 1, rows_out: 1, cpu_ns: 300, more: false };
                    shards.on_finished(WorkerId(worker), report, now);
                }
                None => {
                    let Some(grant) = shards.next(WorkerId(worker), now) else { continue };
                    let id = grant.operator.0;
                    assert!(!running.contains(&Some(id)), "{id} runs twice");
                    let lives = living.iter().any(|of| (of.first..of.first + of.length).contains(&id));
                    assert!(lives, "{id} is gone");
                    done += 1;
                    running[worker as usize] = Some(id);
                }
            },
        }
    }
    for query in living.drain(..) {
        back += shards.remove_query(query.query).len() as u64;
        ids.give_back(query.first, query.length);
    }
    assert_eq!(done + back, given);
    assert!(
        removed_running > 1_000 && queries > 50_000,
        "{removed_running} of {queries} went while they ran"
    );
    // Each length has at most as many blocks as queries were there at once.
    let most = 10 * AT_ONCE as u32;
    assert!(ids.bound() <= most, "{} ids for {AT_ONCE} queries at once", ids.bound());
    for shard in shards.shards() {
        assert!(shard.ids_bound() <= most + 4 * WORKERS, "{}", shard.ids_bound());
        assert_eq!(shard.scheduler().waiting_units(), 0);
    }
}

/// As if it had come with the other target: the nearer one goes first from then on, and what waits moves too.
#[test]
fn a_query_that_is_altered_is_ranked_as_if_it_had_always_been_so() {
    let mut shards = shards(1, 0, "edf");
    let now = ProcessingTime(10_000);
    (0..QUERIES).for_each(|query| {
        shards.on_message(message(2 * query, 9_000, u64::from(query)), now);
    });
    let target_ns = 10;
    shards.alter_query(QuerySpec { target_ns, ..query(5) }, now);
    shards.alter_query(QuerySpec { target_ns: 1_000_000, ..query(0) }, now);
    let mut order = Vec::new();
    while let Some((operator, _)) = seen(shards.next(WorkerId(0), now)) {
        order.push(operator / 2);
        shards.on_finished(WorkerId(0), RunReport::default(), now);
    }
    // The others by their targets of one, two and three microseconds.
    assert_eq!(order, [5, 3, 1, 4, 2, 0]);
}

#[test]
fn the_ids_of_what_runs_come_again_only_when_that_is_reported() {
    let mut shards: Shards<u64> = Shards::new(1, 1, 0, &recipe("llf").unwrap(), &config());
    let one = |id: u32| {
        [OperatorSpec { id: OperatorId(id), query: QueryId(id), upstream: vec![], window: None, channels: 1 }]
    };
    let now = ProcessingTime(10_000);
    shards.add_query(query(0), &one(0));
    shards.on_message(message(0, 9_000, 1), now);
    assert_eq!(seen(shards.next(WorkerId(0), now)), Some((0, Some(1))));
    shards.remove_query(QueryId(0));
    shards.add_query(query(1), &one(1));
    assert_eq!(shards.shards()[0].ids_bound(), 2, "the first one's still runs");
    // The report of the one that went is not the other's.
    shards.on_message(message(1, 9_000, 2), now);
    assert_eq!(seen(shards.next(WorkerId(1), now)), Some((1, Some(2))));
    shards.on_message(message(1, 9_000, 3), now);
    shards.on_finished(WorkerId(0), RunReport::default(), now);
    assert_eq!(seen(shards.next(WorkerId(0), now)), None, "it runs on the other worker");
    shards.add_query(query(2), &one(2));
    assert_eq!(shards.shards()[0].ids_bound(), 2);
}
