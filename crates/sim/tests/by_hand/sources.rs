//! Looks at tables that wait with all other work.

use laxity_graph::{QueryId, WindowShape};
use laxity_sim::{
    Decoding, FeedId, FrontMember, Overheads, ScheduledSources, SharedFront, SharedTemplate, Sources,
};

use super::*;

fn scheduled(duration_ms: u64, sources: ScheduledSources) -> Setup {
    Setup { sources: Sources::Scheduled(sources), ..setup(duration_ms) }
}

/// A chain whose one operator costs `ms` a row, fed a row each millisecond.
fn steady(name: &str, target_ms: u64, ms: f64, rows_in: u64) -> Drawn {
    let free = cost(0.0, 0.0, 0.0);
    let arrivals: Vec<_> = (0..rows_in).map(|at| arrival(at, at as i64, 1, -1)).collect();
    query(name, target_ms)
        .chain(&[
            ("source", StageKind::Source, free, None),
            ("work", rows(1.0), cost(0.0, ms, 0.0), None),
            ("sink", StageKind::Sink, free, None),
        ])
        .feed(0, 0, &arrivals)
}

fn results(outcome: &Outcome, query: u32) -> Vec<(f64, u32)> {
    let results = outcome.results.as_ref().unwrap().iter().filter(|result| result.query.0 == query);
    results.map(|result| (result.written.0 as f64 / 1e6, result.rows)).collect()
}

#[test]
fn a_look_costs_what_it_costs_and_each_row_it_finds() {
    let sources = ScheduledSources { look_ns: MS, row_ns: 1e5, ..ScheduledSources::default() };
    let outcome = run(workload(vec![job("read", 100, 0.0, &[5, 5])]), "llf", scheduled(100, sources));
    // A look at the start, and one at 5 that finds two rows.
    assert_eq!(results(&outcome, 0), [(5.0 + 1.0 + 2.0 * 0.1, 2)]);
    assert_eq!((outcome.look_ns, outcome.busy_ns, outcome.idle_ns), (2 * MS + 200_000, 0, 97 * MS + 800_000));
    assert_eq!(outcome.operators[3], "table 0");
}

#[test]
fn looks_keep_their_distance_and_take_what_has_come_meanwhile() {
    // A twentieth of the target where there is time to spare.
    let free = ScheduledSources::default();
    let outcome = run(workload(vec![steady("read", 100, 0.0, 21)]), "llf", scheduled(100, free.clone()));
    assert_eq!(results(&outcome, 0), [(0.0, 1), (5.0, 5), (10.0, 5), (15.0, 5), (20.0, 5)]);
    // Threads know of no load: a quarter.
    let os = Driver::OsThreads(OsThreads::default());
    let setup = Setup { driver: os, ..scheduled(100, free.clone()) };
    let outcome = run(workload(vec![steady("read", 100, 0.0, 51)]), "llf", setup);
    assert_eq!(results(&outcome, 0), [(0.0, 1), (25.0, 25), (50.0, 25)]);
    // No batch is larger than the connectors make them.
    let small = ScheduledSources { batch_rows_max: 2, ..free };
    let outcome = run(workload(vec![steady("read", 100, 0.0, 6)]), "llf", scheduled(100, small));
    assert_eq!(results(&outcome, 0), [(0.0, 1), (5.0, 2), (5.0, 2), (5.0, 1)]);
}

#[test]
fn nobody_looks_at_a_table_in_the_midst_of_a_window() {
    let free = cost(0.0, 0.0, 0.0);
    let windowed = |shape: Option<WindowShape>| {
        // A row each millisecond, and the watermark three behind.
        let arrivals: Vec<_> = (0..1_210).map(|at| arrival(at, at as i64, 1, at as i64 - 3)).collect();
        workload(vec![
            query("windowed", 40)
                .chain(&[
                    ("source", StageKind::Source, free, None),
                    ("window", window(0.0), free, shape),
                    ("sink", StageKind::Sink, free, None),
                ])
                .feed(0, 0, &arrivals),
        ])
    };
    let sources = ScheduledSources { look_ns: 1_000, ..ScheduledSources::default() };
    let outcome = run(windowed(tumbling(400)), "llf", scheduled(1_210, sources.clone()));
    // Each as soon as the row is there that ends it, though looks are 2 ms apart.
    assert_eq!(written(&outcome), [(0, 402.001), (0, 802.001), (0, 1_202.001)]);
    assert!((20..35).contains(&(outcome.look_ns / 1_000)), "{} looks", outcome.look_ns / 1_000);
    // So it is of windows with an offset.
    let offset = Some(WindowShape { size_ms: 400, slide_ms: 400, end_ms: Some(150) });
    let outcome = run(windowed(offset), "llf", scheduled(1_210, sources.clone()));
    assert_eq!(written(&outcome), [(0, 152.001), (0, 552.001), (0, 952.001)]);
    assert!((20..40).contains(&(outcome.look_ns / 1_000)), "{} looks", outcome.look_ns / 1_000);
    // Who has a table of windows that end more often than it is looked at looks as ever.
    let outcome = run(windowed(tumbling(2)), "llf", scheduled(1_210, sources));
    assert!(outcome.look_ns / 1_000 > 500, "{} looks", outcome.look_ns / 1_000);
}

#[test]
fn looks_are_further_apart_where_the_cores_are_busy() {
    // 95 % of the core: a quarter of the target, 25 ms.
    let setup = scheduled(2_000, ScheduledSources::default());
    let outcome = run(workload(vec![steady("busy", 100, 0.95, 2_000)]), "llf", setup);
    let late: Vec<u32> =
        results(&outcome, 0).into_iter().filter(|(at, _)| *at > 1_000.0).map(|(_, rows)| rows).collect();
    assert!(late.iter().all(|rows| (20..=26).contains(rows)), "{late:?}");
}

#[test]
fn a_look_waits_like_any_other_work() {
    let jobs = || workload(vec![job("long", 1_000, 10.0, &[0]), job("urgent", 20, 1.0, &[2])]);
    let within = |quantum_ns| {
        let config = Config { quantum_ns, ..Config::default() };
        Setup { config, cut: Cut::Never, ..scheduled(100, ScheduledSources::default()) }
    };
    // The core is with the long one when the urgent row comes, and goes on with what that has made.
    assert_eq!(written(&run(jobs(), "llf", within(100 * MS))), [(0, 10.0), (1, 11.0)]);
    // Once its quantum is over it does not.
    assert_eq!(written(&run(jobs(), "llf", within(5 * MS))), [(1, 11.0), (0, 11.0)]);
}

#[test]
fn who_sleeps_must_be_woken() {
    let overheads = Overheads { wake_ns: 50_000, ..Overheads::default() };
    let setup = Setup { overheads, ..scheduled(100, ScheduledSources::default()) };
    let outcome = run(workload(vec![job("read", 100, 1.0, &[7])]), "llf", setup);
    // For the look; what comes of it finds its core awake.
    assert_eq!(written(&outcome), [(0, 7.05 + 1.0)]);
    assert_eq!((outcome.overhead_ns, outcome.busy_ns), (0, MS));
    // Rows that come at once wake somebody too.
    let outcome =
        run(workload(vec![job("read", 100, 1.0, &[5])]), "llf", Setup { overheads, ..super::setup(100) });
    assert_eq!(written(&outcome), [(0, 5.05 + 1.0)]);
}

#[test]
fn every_message_costs_and_a_look_is_one() {
    let overheads = Overheads { message_ns: 1_000, ..Overheads::default() };
    let setup = Setup { overheads, ..scheduled(100, ScheduledSources::default()) };
    let outcome = run(workload(vec![job("read", 100, 1.0, &[5])]), "llf", setup);
    // Two looks, and source, work and sink.
    assert_eq!(outcome.overhead_ns, 5 * 1_000);
    assert_eq!(written(&outcome), [(0, 5.001 + 4.0 * 0.001 + 1.0)]);
}

#[test]
fn rows_are_decoded_before_they_are_due() {
    // Two rows a piece, 2 ms each.
    let decoding = Some(Decoding { piece_rows: 2, row_ns: 2e6 });
    let sources = ScheduledSources { decoding, ..ScheduledSources::default() };
    let outcome = run(workload(vec![job("read", 100, 0.0, &[0, 20, 40])]), "llf", scheduled(100, sources));
    // Nobody had time for the first piece, and the next goes before what comes of it; later rows are there.
    assert_eq!(results(&outcome, 0), [(4.0 + 2.0, 1), (20.0, 1), (40.0, 1)]);
    assert_eq!(outcome.look_ns, 3 * 2 * MS);
}

/// The first feeds of the first two queries are the same table.
fn shared() -> ScheduledSources {
    let feed = |query| FeedId { query: QueryId(query), feed: 0 };
    ScheduledSources { shared: vec![vec![feed(0), feed(1)]], ..ScheduledSources::default() }
}

#[test]
fn a_table_is_read_once_for_all() {
    let sources = ScheduledSources { row_ns: 1e5, ..shared() };
    let jobs = vec![steady("first", 100, 0.0, 21), steady("second", 200, 0.0, 21)];
    let outcome = run(workload(jobs), "llf", scheduled(100, sources));
    // As often as the nearest target wants.
    let rows = |query| results(&outcome, query).iter().map(|(_, rows)| *rows).collect::<Vec<_>>();
    assert_eq!((rows(0), rows(1)), (vec![1, 5, 5, 5, 5], vec![1, 5, 5, 5, 5]));
    assert_eq!(outcome.look_ns, 21 * 100_000);
    assert!(outcome.operators.iter().filter(|name| name.starts_with("table")).eq(["table 0", "table 0 (1)"]));
}

#[test]
fn who_cannot_keep_up_does_not_hold_up_the_urgent() {
    let jobs = |slow_target_ms| {
        workload(vec![steady("urgent", 40, 0.1, 200), steady("slow", slow_target_ms, 4.0, 200)])
    };
    let run = |slow_target_ms, backlog_bytes| {
        let sources = ScheduledSources { backlog_bytes, ..shared() };
        let cut = Cut::AtQuantum { rows_min: 1 };
        let setup = Setup { credit_bytes: 400, cut, ..scheduled(2_000, sources) };
        run(jobs(slow_target_ms), "llf", setup)
    };
    let worst_ms =
        |outcome: &Outcome| outcome.queries[0].latency.as_ref().map_or(0, |latency| latency.max()) / MS;
    // A target more than ten times as far: it gets a copy, and reads every row once.
    let apart = run(1_000, 1_000);
    assert!(worst_ms(&apart) < 40, "{} ms", worst_ms(&apart));
    assert_eq!(apart.queries.iter().map(|query| query.rows_out).collect::<Vec<_>>(), [200, 200]);
    // As near: they wait for each other.
    let together = run(300, 1_000);
    assert!(worst_ms(&together) > 100, "{} ms", worst_ms(&together));
    assert_eq!(together.queries.iter().map(|query| query.rows_out).collect::<Vec<_>>(), [200, 200]);
    // A backlog that long holds nobody up.
    assert!(worst_ms(&run(300, 1 << 20)) < 40);
}

#[test]
fn cores_take_from_all_shards_and_attend_to_the_looks_of_their_own() {
    let config = Config { quantum_ns: 100 * MS, ..Config::default() };
    let two = |sources| Setup {
        cluster: Cluster::one(2),
        config: config.clone(),
        shards: 2,
        sources,
        ..setup(100)
    };
    // The first and the third are on one shard, whose only core at home can run one of them.
    let jobs =
        || workload(vec![job("a", 100, 10.0, &[0]), job("idle", 100, 1.0, &[]), job("c", 100, 10.0, &[0])]);
    assert_eq!(written(&run(jobs(), "fifo", two(Sources::AtOnce))), [(0, 10.0), (2, 10.0)]);
    // Tables are dealt to shards as queries are, and looked at by the cores at home there.
    let looked_at = Sources::Scheduled(ScheduledSources { look_ns: MS, ..ScheduledSources::default() });
    let outcome = run(jobs(), "fifo", two(looked_at));
    assert_eq!((outcome.look_ns, written(&outcome).len()), (3 * MS, 2));
    assert_eq!(outcome.queries.iter().map(|query| query.lateness.met).collect::<Vec<_>>(), [1, 0, 1]);
}

/// So many queries over one table that gets a row each millisecond for 20 ms: each counts its half of them in windows of
/// 10 ms, which close with the last row of them.
fn counters(count: u32, target_ms: u64) -> Vec<Drawn> {
    let free = cost(0.0, 0.0, 0.0);
    let arrivals: Vec<_> = (0..20).map(|at| arrival(at, at as i64, 1, at as i64)).collect();
    let counter = |number: u32| {
        query(&format!("q{number}"), target_ms)
            .chain(&[
                ("source", StageKind::Source, free, None),
                ("count", window(0.0), free, tumbling(10)),
                ("sink", StageKind::Sink, free, None),
            ])
            .feed(0, 0, &arrivals)
    };
    (0..count).map(counter).collect()
}

fn front_of(count: u32, template: Option<usize>) -> ScheduledSources {
    let feed = |query| FeedId { query: QueryId(query), feed: 0 };
    let member = |query| FrontMember { feed: feed(query), share: 0.5, template };
    let count_rows = SharedTemplate {
        cost: cost(0.0, 0.0, 0.5),
        result_ns: 0.1e6,
        window: tumbling(10).unwrap(),
        selectivity: 1.0,
        rows_max: f64::INFINITY,
        row_bytes: 100,
    };
    let front = SharedFront {
        batch_ns: 0.01e6,
        row_ns: 0.001e6,
        members: (0..count).map(member).collect(),
        templates: vec![count_rows],
    };
    ScheduledSources {
        shared: vec![(0..count).map(feed).collect()],
        fronts: vec![front],
        ..ScheduledSources::default()
    }
}

#[test]
fn readers_that_share_a_front_get_their_rows_when_their_windows_end() {
    let outcome = run(workload(counters(5, 100)), "llf", scheduled(100, front_of(5, None)));
    // The first row says how the watermark goes with the clock; the table is looked at when a window ends.
    let first = 9.0 + 0.01 + 9.0 * 0.001;
    let second = 19.0 + 0.01 + 10.0 * 0.001;
    for query in 0..5 {
        let seen = results(&outcome, query);
        let rows: Vec<u32> = seen.iter().map(|(_, rows)| *rows).collect();
        assert_eq!(rows, [5, 5], "query {query}");
        assert!(
            (seen[0].0 - first).abs() < 1e-6 && (seen[1].0 - second).abs() < 1e-6,
            "query {query}: {seen:?}"
        );
    }
    // Batches of 1, 9 and 10 rows, once for all.
    assert_eq!(outcome.look_ns, 3 * 10_000 + 20 * 1_000);
}

#[test]
fn queries_of_a_template_that_begin_together_are_one_operator() {
    let outcome = run(workload(counters(5, 100)), "llf", scheduled(100, front_of(5, Some(0))));
    for query in 0..5 {
        assert_eq!(results(&outcome, query).iter().map(|(_, rows)| *rows).collect::<Vec<_>>(), [5, 5]);
    }
    // All of them have seats: two windows are fired, of five results each. The first takes all of a quantum, so that the
    // table is looked at once more behind it.
    let batches_ns = 4 * 10_000 + 20 * 1_000;
    assert_eq!(outcome.look_ns, batches_ns + 2 * (500_000 + 5 * 100_000));
    // What they have of the first window is sent in that look, which takes a row in too.
    let at = 9.0 + 0.01 + 9.0 * 0.001 + 0.5 + 5.0 * 0.1 + 0.01 + 0.001;
    assert!((results(&outcome, 4)[0].0 - at).abs() < 1e-6, "{:?}", results(&outcome, 4));
    assert_eq!(outcome.queries.iter().map(|query| query.lateness.results).collect::<Vec<_>>(), [2; 5]);
    assert_eq!(outcome.busy_ns, 0, "their own operators are free");
}
