//! How much the simulator simulates: 100 000 operators on 1 000 cores for a minute of virtual time.
//!
//! `scale [--operators N] [--cores N] [--nodes N] [--seconds N] [--policy NAME]`. Not a statement about policies: the
//! queries are all alike, chains of four operators with a message a second and a window of ten.

use std::process::ExitCode;
use std::time::Duration;

use laxity_graph::{
    Dataflow, Input, LatencyTarget, Node, NodeId, Partitioning, ProcessingTime, QuerySettings, WindowShape,
};
use laxity_sim::{Cluster, Keep, Setup, Simulation};
use laxity_workload::{Cost, Feed, QueryModel, Stage, StageKind, Stream, Workload};

fn main() -> ExitCode {
    let (mut operators, mut cores, mut nodes, mut seconds) = (100_000u64, 1_000, 1, 60);
    let mut policy = "laxity".to_owned();
    let mut arguments = std::env::args().skip(1);
    while let (Some(option), Some(value)) = (arguments.next(), arguments.next()) {
        let number = value.parse::<u64>();
        match (option.as_str(), number) {
            ("--operators", Ok(number)) => operators = number,
            ("--cores", Ok(number)) => cores = number,
            ("--nodes", Ok(number)) => nodes = number.max(1),
            ("--seconds", Ok(number)) => seconds = number,
            ("--policy", _) => policy = value,
            _ => {
                eprintln!("scale [--operators N] [--cores N] [--nodes N] [--seconds N] [--policy NAME]");
                return ExitCode::from(2);
            }
        }
    }
    let recipe = match laxity_policies::recipe(&policy) {
        Ok(recipe) => recipe,
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::from(2);
        }
    };
    let queries = (0..operators / 4).map(query).collect();
    let setup = Setup {
        cluster: Cluster::of(nodes as usize, (cores / nodes) as usize),
        duration: Duration::from_secs(seconds),
        latency_digits: 1,
        sample: Duration::from_secs(1),
        keep: Keep { timeline: false, results: false, trace: false, checks: false },
        ..Setup::default()
    };
    let workload = Workload { name: "scale".into(), queries };
    let outcome = match Simulation::new(workload, recipe, setup).run() {
        Ok(outcome) => outcome,
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::FAILURE;
        }
    };
    let results: u64 = outcome.queries.iter().map(|query| query.lateness.results).sum();
    println!(
        "{operators} operators, {cores} cores on {nodes} nodes, {seconds} s under {}: {} messages, {} grants, {results} results, \
         utilisation {:.2}, met {:.4}",
        outcome.policy,
        outcome.messages,
        outcome.grants,
        outcome.utilisation(),
        outcome.met_share()
    );
    ExitCode::SUCCESS
}

/// 7 ms of work per message on the way to the window: 25 000 of these keep 1 000 cores a fifth busy.
fn query(index: u64) -> QueryModel {
    let settings = QuerySettings {
        latency_target: LatencyTarget::new(Duration::from_millis(100)).unwrap_or(LatencyTarget::DEFAULT),
        ..QuerySettings::named(format!("query {index}"))
    };
    let mut dataflow = Dataflow::new(settings);
    let window = WindowShape { size_ms: 10_000, slide_ms: 10_000, end_ms: Some(0) };
    let stages = [
        (StageKind::Source, None),
        (StageKind::Rows { selectivity: 0.5 }, None),
        (
            StageKind::Window {
                selectivity: 0.1,
                rows_max: 100.0,
                fire_per_row_ns: 0.0,
                state_row_bytes: 16,
            },
            Some(window),
        ),
        (StageKind::Sink, None),
    ];
    for (place, (kind, window)) in stages.into_iter().enumerate() {
        let input = |from| Input { from: NodeId(from), partitioning: Partitioning::Forward };
        let stage = Stage::new(kind, Cost::per_call(100_000.0, 3_000.0), 100);
        let inputs = place.checked_sub(1).map(input).into_iter().collect();
        let node = Node { name: format!("stage {place}"), parallelism: 1, inputs, window, stage };
        dataflow.push(node).expect("a chain is well formed");
    }
    // Phases differ, so that not all come at once.
    let start = ProcessingTime(index % 1_000 * 1_000_000);
    let stream = Stream { start, event_zero: ProcessingTime::ZERO, ..Stream::constant(1_000.0, 1_000) };
    let arrivals = stream.arrivals(index).expect("no delay is a delay");
    QueryModel { dataflow, feeds: vec![Feed { node: NodeId(0), instance: 0, arrivals }], deployed: start }
}
