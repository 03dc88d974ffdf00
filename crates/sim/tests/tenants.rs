//! Two kinds of tenants under lasting overload, one three times as important as the other: who is given up by the default.
//! Cannot catch: what becomes of workloads less regular than these. `laxity bench laxity-parts` looks at random ones.

use std::time::Duration;

use laxity_graph::{
    Dataflow, Input, LatencyTarget, Node, NodeId, Partitioning, ProcessingTime, QuerySettings,
};
use laxity_sim::{Cluster, Cut, Keep, Setup, Simulation};
use laxity_workload::{Cost, Feed, QueryModel, Spacing, Stage, StageKind, Stream, Workload};

const LOAD: f64 = 1.8;
const EACH: usize = 3;

/// A query of one operator that takes so long for each of its rows, which come as often for all.
fn query(seed: u64, index: usize, weight: f64, cost_ms: f64, rows_per_s: f64, target_ms: u64) -> QueryModel {
    let mut dataflow = Dataflow::new(QuerySettings {
        latency_target: LatencyTarget::new(Duration::from_millis(target_ms)).unwrap(),
        weight,
        ..QuerySettings::named(format!("query {index}"))
    });
    let stages =
        [(StageKind::Source, 0.0), (StageKind::Rows { selectivity: 1.0 }, cost_ms), (StageKind::Sink, 0.0)];
    let mut last = None;
    for (kind, cost_ms) in stages {
        let input = |from| Input { from, partitioning: Partitioning::Forward };
        let stage = Stage::new(kind, Cost { fixed_ns: cost_ms * 1e6, ..Cost::NONE }, 100);
        let name = format!("node {}", dataflow.nodes().len());
        let inputs = last.map(input).into_iter().collect();
        last = Some(dataflow.push(Node { name, parallelism: 1, inputs, window: None, stage }).unwrap());
    }
    let stream = Stream { spacing: Spacing::Poisson, ..Stream::constant(rows_per_s, 1) };
    let arrivals = stream.arrivals(seed * 100 + index as u64).unwrap();
    let feeds = vec![Feed { node: NodeId(0), instance: 0, arrivals }];
    QueryModel { dataflow, feeds, deployed: ProcessingTime::ZERO }
}

/// What share of what came of the important ones and of the others was in time, as a mean of eight runs.
fn kept(costs_ms: [f64; 2], target_ms: u64) -> [f64; 2] {
    let runs: Vec<[f64; 2]> = (0..8).map(|seed| kept_once(seed, costs_ms, target_ms)).collect();
    [0, 1].map(|kind| runs.iter().map(|kept| kept[kind]).sum::<f64>() / runs.len() as f64)
}

fn kept_once(seed: u64, costs_ms: [f64; 2], target_ms: u64) -> [f64; 2] {
    let rows_per_s = LOAD / (EACH as f64 * (costs_ms[0] + costs_ms[1]) / 1e3);
    let queries = (0..2 * EACH).map(|index| {
        let (weight, cost_ms) = [(3.0, costs_ms[0]), (1.0, costs_ms[1])][index % 2];
        query(seed, index, weight, cost_ms, rows_per_s, target_ms)
    });
    let workload = Workload { name: "tenants".into(), queries: queries.collect() };
    let (warm_up, measured) = (Duration::from_secs(5), Duration::from_secs(20));
    let setup = Setup {
        cluster: Cluster::one(1),
        duration: warm_up + measured,
        warm_up,
        cut: Cut::AtQuantum { rows_min: 1 },
        keep: Keep { timeline: false, results: false, trace: false, checks: true },
        ..Setup::default()
    };
    let outcome = Simulation::new(workload, laxity_policies::recipe("laxity").unwrap(), setup).run().unwrap();
    assert_eq!(outcome.violations, []);
    let came = EACH as f64 * rows_per_s * measured.as_secs_f64();
    let met = |kind: usize| {
        outcome.queries.iter().skip(kind).step_by(2).map(|query| query.lateness.met).sum::<u64>()
    };
    [met(0) as f64 / came, met(1) as f64 / came]
}

/// With equal costs, and where the important ones cost less.
#[test]
fn the_weightier_are_given_up_last() {
    for target_ms in [60, 100, 1_000] {
        for costs_ms in [[6.0, 6.0], [4.0, 8.0]] {
            let [heavy, light] = kept(costs_ms, target_ms);
            assert!(heavy > 1.2 * light, "{target_ms} ms, {costs_ms:?}: {heavy:.3} and {light:.3}");
        }
    }
}

/// Not what is wanted, and said at the policy: three times the weight for twice the cost is given up first where a target
/// holds few messages. A rule that mends it may change this.
#[test]
fn at_twice_the_cost_the_weightier_are_given_up_first() {
    for target_ms in [60, 100] {
        let [heavy, light] = kept([8.0, 4.0], target_ms);
        assert!(heavy < light, "{target_ms} ms: {heavy:.3} and {light:.3}");
    }
}
