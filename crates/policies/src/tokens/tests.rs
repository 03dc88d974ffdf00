//! Shares of one worker in virtual time, against numbers worked out by hand. Cannot catch: what several workers make of
//! shares.

use laxity_graph::{EventTime, WorkerId};

use super::*;
use laxity_sched::{Config, Message, OperatorSpec, QuerySpec, RunReport, Scheduler};

const MS: u64 = 1_000_000;
const S: u64 = 1_000 * MS;

/// Queries of a source and a sink, 1 ms a message each, on one worker: 500 messages a second in all.
struct World {
    scheduler: Scheduler<()>,
    now: u64,
    done: Vec<u32>,
}

impl World {
    fn new(policy: &str, weights: &[f64]) -> World {
        let mut scheduler = Scheduler::new(crate::recipe(policy).unwrap().compose(), Config::default());
        for (id, &weight) in (0..).zip(weights) {
            scheduler.add_query(QuerySpec { id: QueryId(id), target_ns: S, weight, qos: None });
            for (place, upstream) in [(0, vec![]), (1, vec![OperatorId(2 * id)])] {
                let id = OperatorId(2 * id + place);
                let query = QueryId(id.0 / 2);
                scheduler.add_operator(OperatorSpec { id, query, upstream, window: None, channels: 1 });
            }
        }
        World { scheduler, now: 0, done: vec![0; weights.len()] }
    }

    fn send(&mut self, to: u32, ingested: u64) {
        let message = Message {
            to: OperatorId(to),
            channel: 0,
            progress: EventTime(self.now as i64),
            ingested: ProcessingTime(ingested),
            rows: 1,
            bytes: 1,
            body: (),
        };
        self.scheduler.on_message(message, ProcessingTime(self.now));
    }

    /// Lets time pass while these queries have more input than can be done. Results of each query per second.
    fn run(&mut self, seconds: u64, active: &[u32]) -> Vec<f64> {
        self.done.fill(0);
        let end = self.now + seconds * S;
        while self.now < end {
            for &query in active {
                while self.scheduler.queued_messages(OperatorId(2 * query)) < 4 {
                    self.send(2 * query, self.now);
                }
            }
            let grant = self.scheduler.next(WorkerId(0), ProcessingTime(self.now)).expect("there is work");
            let laxity_sched::Work::Message { message, .. } = grant.work else {
                panic!("nothing is resumed")
            };
            self.now += MS;
            match grant.operator.0 % 2 {
                0 => self.send(grant.operator.0 + 1, message.ingested.0),
                _ => self.done[grant.operator.index() / 2] += 1,
            }
            let report = RunReport { rows_in: 1, rows_out: 1, cpu_ns: MS, more: false };
            self.scheduler.on_finished(WorkerId(0), report, ProcessingTime(self.now));
        }
        self.done.iter().map(|&done| f64::from(done) / seconds as f64).collect()
    }
}

fn near(got: &[f64], expected: &[f64], tolerance: f64) {
    let close = |(got, expected): (&f64, &f64)| (got - expected).abs() <= tolerance;
    assert!(got.iter().zip(expected).all(close), "{got:?} for {expected:?}");
}

#[test]
fn shares_of_20_40_and_40_percent_are_met_and_who_is_alone_gets_everything() {
    // Cameo Fig. 6: 12, 24 and 24 tokens; one dataflow after the other joins.
    for policy in ["tokens", "tokens:10", "tokens@1ms", "unit=query,rank=tokens,train=one"] {
        let mut world = World::new(policy, &[12.0, 24.0, 24.0]);
        world.run(2, &[0]);
        near(&world.run(3, &[0]), &[500.0, 0.0, 0.0], 2.0);
        world.run(2, &[0, 1]);
        near(&world.run(5, &[0, 1, 2]), &[100.0, 200.0, 200.0], 10.0);
    }
}

#[test]
fn beyond_the_tokens_all_are_alike() {
    // 12, 24 and 24 of 500 messages have tokens; the other 440 go in the order of arrival, 146.7 each.
    let mut world = World::new("tokens:1", &[12.0, 24.0, 24.0]);
    world.run(2, &[0, 1, 2]);
    near(&world.run(5, &[0, 1, 2]), &[158.7, 170.7, 170.7], 2.0);
}

#[test]
fn what_is_left_over_goes_to_who_has_no_tokens_and_owes_nothing() {
    let mut world = World::new("tokens", &[1.0, 1.0]);
    world.run(5, &[0]);
    // The other comes back: half each at once, although the first had twice its share for seconds.
    near(&world.run(3, &[0, 1]), &[250.0, 250.0], 10.0);
}

#[test]
fn more_tokens_than_capacity_lapse_alike() {
    // 1 200, 2 400 and 2 400 tokens a second for 500 messages.
    let mut world = World::new("tokens:100", &[12.0, 24.0, 24.0]);
    world.run(2, &[0, 1, 2]);
    near(&world.run(5, &[0, 1, 2]), &[100.0, 200.0, 200.0], 10.0);
}

#[test]
fn a_result_goes_with_the_token_of_its_source() {
    let mut rank = Tokens { rate: Some(2.0), ..Tokens::default() };
    let mut snapshot = Snapshot::of_query(&[(&[], 1.0, 1.0), (&[0], 1.0, 1.0)]);
    snapshot.now = ProcessingTime(10 * S);
    assert!(rank.review(&snapshot), "the sources have new tokens");
    // Two tokens in the second that begins at 10 s: at its start and in its middle.
    assert_eq!(rank.join(0, f64::INFINITY), (10 * S) as f64);
    let start = |rank: &mut Tokens, at: u64| rank.starts(QueryId(0), OperatorId(0), ProcessingTime(at));
    start(&mut rank, 9 * S);
    assert_eq!(rank.join(0, f64::INFINITY), (10 * S + S / 2) as f64);
    start(&mut rank, 10 * S + 1);
    assert_eq!(rank.join(0, f64::INFINITY), f64::INFINITY);
    start(&mut rank, 10 * S + 2);
    start(&mut rank, 10 * S + 3);
    let tag = |at: u64| rank.tag(QueryId(0), ProcessingTime(at));
    let expected = [(10 * S) as f64, (10 * S + S / 2) as f64, f64::INFINITY, f64::INFINITY];
    assert_eq!([9 * S, 10 * S + 1, 10 * S + 2, 10 * S + 3].map(tag), expected);
    assert_eq!(tag(9 * S + 1), (10 * S) as f64, "a window's result has the time of what closed it");
    assert_eq!(tag(8 * S), (10 * S) as f64, "older than all that is remembered");
    assert_eq!(rank.tag(QueryId(7), ProcessingTime(1)), f64::INFINITY);
    assert_eq!(rank.tags[0].len(), 3, "what is alike is kept once");
}
