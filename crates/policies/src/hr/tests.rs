//! Rates of small graphs by hand, and of random ones against all paths tried. Cannot catch: estimates that are wrong.

use laxity_sched::Unit;
use proptest::prelude::*;

use super::*;

fn rates(global: bool, operators: &[(&[u32], f64, f64)]) -> Vec<f64> {
    let snapshot = Snapshot::of_query(operators);
    let mut priorities = vec![0.0; operators.len()];
    HighestRate { global, ..HighestRate::default() }.cycle(&snapshot, &mut priorities);
    priorities.into_iter().map(|priority: f64| (-priority).exp()).collect()
}

fn near(got: &[f64], expected: &[f64]) {
    let close = |(got, expected): (&f64, &f64)| (got - expected).abs() <= 1e-9 * expected.abs();
    assert!(got.len() == expected.len() && got.iter().zip(expected).all(close), "{got:?} for {expected:?}");
}

#[test]
fn a_pipeline_by_hand() {
    // Source 2 ns, filter 3 ns that keeps half, sink 4 ns; what a sink's selectivity says does not matter.
    // Sink: 1 / 4. Filter: 0.5 / (3 + 0.5 · 4) = 0.1. Source: 0.5 / (2 + 3 + 0.5 · 4) = 1 / 14.
    let pipeline: [(&[u32], f64, f64); 3] = [(&[], 2.0, 1.0), (&[0], 3.0, 0.5), (&[1], 4.0, 0.0)];
    near(&rates(false, &pipeline), &[1.0 / 14.0, 0.1, 0.25]);
    near(&rates(true, &pipeline), &[1.0 / 14.0, 0.1, 0.25]);
}

#[test]
fn the_best_branch_counts_or_all_do() {
    // A source of 1 ns feeds a sink of 1 ns and one of 7 ns.
    // Best path: 1 / (1 + 1). All: (1 + 1) / (1 + 1 + 7).
    let fork: [(&[u32], f64, f64); 3] = [(&[], 1.0, 1.0), (&[0], 1.0, 1.0), (&[0], 7.0, 1.0)];
    near(&rates(false, &fork), &[0.5, 1.0, 1.0 / 7.0]);
    near(&rates(true, &fork), &[2.0 / 9.0, 1.0, 1.0 / 7.0]);
}

#[test]
fn what_lets_nothing_through_comes_last() {
    for global in [false, true] {
        let rates = rates(global, &[(&[], 1.0, 1.0), (&[0], 1.0, 0.0), (&[1], 1.0, 1.0), (&[0], 50.0, 1.0)]);
        assert_eq!(rates[1], 0.0);
        assert!(rates[0] > 0.0 && rates.iter().all(|rate| !rate.is_nan()), "{rates:?}");
    }
}

#[test]
fn the_path_that_is_best_below_need_not_be_best_above() {
    // 1 is dear to enter, so of the paths below it the one that multiplies rows wins: from 1,
    // by 2: 1 / (10 + 1) = 0.091, by 3: 4 / (10 + 8 + 4 · 1) = 0.182; from 2 alone 1, from 3 alone 4 / 12.
    let operators: [(&[u32], f64, f64); 6] = [
        (&[], 1.0, 1.0),
        (&[0], 10.0, 1.0),
        (&[1], 1.0, 1.0),
        (&[1], 8.0, 4.0),
        (&[3], 1.0, 1.0),
        (&[0], 100.0, 1.0),
    ];
    let rates = rates(false, &operators);
    near(&rates[1..4], &[4.0 / 22.0, 1.0, 4.0 / 12.0]);
}

#[test]
fn a_query_goes_by_its_best_operator_that_has_work() {
    let mut snapshot = Snapshot::of_query(&[(&[], 2.0, 1.0), (&[0], 3.0, 0.5), (&[1], 4.0, 1.0)]);
    snapshot.unit = Unit::Query;
    snapshot.operators.iter_mut().for_each(|operator| operator.unit = 0);
    let mut priorities = [0.0];
    HighestRate::default().cycle(&snapshot, &mut priorities);
    near(&[(-priorities[0]).exp()], &[0.25]);
    snapshot.operators[1].queued_messages = 1;
    HighestRate::default().cycle(&snapshot, &mut priorities);
    near(&[(-priorities[0]).exp()], &[0.1]);
}

/// S / C̄ of every path, the best.
fn literal(operators: &[(Vec<u32>, f64, f64)], from: u32) -> f64 {
    fn paths(operators: &[(Vec<u32>, f64, f64)], from: u32) -> Vec<Vec<u32>> {
        let below: Vec<u32> =
            (0..operators.len() as u32).filter(|id| operators[*id as usize].0.contains(&from)).collect();
        if below.is_empty() {
            return vec![vec![from]];
        }
        let tails = below.into_iter().flat_map(|id| paths(operators, id));
        tails.map(|tail| [vec![from], tail].concat()).collect()
    }
    let rate = |path: Vec<u32>| {
        let (mut size, mut cost) = (1.0, 0.0);
        for (place, id) in path.iter().enumerate() {
            let (_, row_cost_ns, selectivity) = operators[*id as usize];
            cost += row_cost_ns * size;
            size *= if place + 1 == path.len() { 1.0 } else { selectivity };
        }
        size / cost
    };
    paths(operators, from).into_iter().map(rate).fold(0.0, f64::max)
}

proptest! {
    #[test]
    fn agrees_with_all_paths_tried(
        operators in prop::collection::vec((prop::collection::vec(any::<prop::sample::Index>(), 1..3), 1u32..50, 0u32..30), 1..8)
    ) {
        let operators: Vec<(Vec<u32>, f64, f64)> = operators
            .into_iter()
            .enumerate()
            .map(|(id, (inputs, cost, tenths))| {
                let mut inputs: Vec<u32> = inputs.iter().map(|input| input.index(id.max(1)) as u32).collect();
                inputs.sort_unstable();
                inputs.dedup();
                (if id == 0 { vec![] } else { inputs }, f64::from(cost), f64::from(tenths) / 10.0)
            })
            .collect();
        let slices: Vec<(&[u32], f64, f64)> = operators.iter().map(|(i, c, s)| (i.as_slice(), *c, *s)).collect();
        for (id, rate) in rates(false, &slices).into_iter().enumerate() {
            let expected = literal(&operators, id as u32);
            prop_assert!((rate - expected).abs() <= 1e-9 * expected, "{} of {:?}: {} for {}", id, operators, rate, expected);
        }
    }
}
