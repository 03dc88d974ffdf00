//! `docs/add-a-policy.md`, compiled and run: what it shows is what stands here. Its policy goes through the harness too.

mod weighted_fair;

use laxity_graph::{EventTime, OperatorId, ProcessingTime, QueryId, WorkerId};
use laxity_sched::{
    CORE, Catalogue, Config, Message, OperatorSpec, QuerySpec, RankEntry, RankRecipe, RunReport, Scheduler,
};

use weighted_fair::WeightedFair;

const RANKS: &[RankEntry] = &[RankEntry {
    paper: "virtual clocks, Zhang 1990",
    line: "by deadline within a query's share of the machine, later by as much as it is ahead",
    ..RankEntry::new("wfq", |_| Ok(RankRecipe::new("wfq", WeightedFair::default)))
}];

const CATALOGUE: Catalogue = Catalogue { ranks: &[CORE.ranks[0], RANKS], ..laxity_policies::CATALOGUE };

const PAGE: &str = include_str!("../../../../docs/add-a-policy.md");

#[test]
fn the_page_shows_what_is_compiled_here() {
    let blocks: Vec<&str> =
        PAGE.split("```rust\n").skip(1).filter_map(|rest| rest.split("```").next()).collect();
    assert_eq!(blocks.len(), 2);
    assert_eq!(blocks[0], include_str!("weighted_fair.rs"));
    assert!(include_str!("main.rs").contains(blocks[1].trim_end()), "{}", blocks[1]);
    let lines: usize = blocks.iter().map(|block| block.lines().count()).sum();
    assert!(lines <= 60, "{lines}");
}

/// Two queries of equal targets on one worker; the first has three times the weight. Every ms each sends a message that
/// takes 1 ms: how many of each are done after so many?
fn done(policy: &str, messages: u32) -> [u32; 2] {
    let composition = CATALOGUE.recipe(policy).unwrap().compose();
    let mut scheduler = Scheduler::new(composition, Config::default());
    for (id, weight) in [(0, 3.0), (1, 1.0)] {
        scheduler.add_query(QuerySpec { id: QueryId(id), target_ns: 50_000_000, weight, qos: None });
        scheduler.add_operator(OperatorSpec {
            id: OperatorId(id),
            query: QueryId(id),
            upstream: vec![],
            window: None,
            channels: 1,
        });
    }
    let mut done = [0; 2];
    for ms in 0..messages {
        let now = ProcessingTime(1 + u64::from(ms) * 1_000_000);
        for to in [OperatorId(0), OperatorId(1)] {
            let progress = EventTime(i64::from(ms));
            let message = Message { to, channel: 0, progress, ingested: now, rows: 1, bytes: 0, body: () };
            scheduler.on_message(message, now);
        }
        let operator = scheduler.next(WorkerId(0), now).unwrap().operator;
        done[operator.index()] += 1;
        let report = RunReport { rows_in: 1, rows_out: 1, cpu_ns: 1_000_000, more: false };
        scheduler.on_finished(WorkerId(0), report, now.plus_ns(1_000_000));
    }
    done
}

#[test]
fn shares_are_kept_where_deadlines_alone_would_halve() {
    let [heavy, light] = done("edf", 2_000);
    assert!(heavy.abs_diff(light) <= 20, "{heavy} and {light}");
    let [heavy, light] = done("wfq", 2_000);
    assert!((2.8..3.2).contains(&(f64::from(heavy) / f64::from(light))), "{heavy} and {light}");
}

#[test]
fn it_is_asked_for_by_name_like_any_other() {
    let recipe = CATALOGUE.recipe("unit=query,rank=wfq,train=one").unwrap();
    assert_eq!(recipe.to_string(), "unit=query,rank=wfq,traversal=by-rank,train=one");
    assert!(laxity_policies::recipe("wfq").unwrap_err().to_string().contains("no policy is named"));
}
