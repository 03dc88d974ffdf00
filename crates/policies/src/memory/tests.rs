//! What is released, and for how long memory goes first.

use laxity_graph::ProcessingTime;
use laxity_sched::{Memory, MemoryMode};
use proptest::prelude::*;

use super::*;
use crate::klink::tests::{Chain, any_chain, chain, snapshot};

const CYCLE: u64 = 1_000;

fn ranked(snapshot: &Snapshot) -> Vec<f64> {
    let mut priorities = vec![0.0; snapshot.queries.len()];
    ByMemory::new(CYCLE).cycle(snapshot, &mut priorities);
    priorities
}

/// Bytes as `priorities` tell them.
fn released(snapshot: &Snapshot) -> Vec<f64> {
    ranked(snapshot).into_iter().map(|priority| -priority.round()).collect()
}

#[test]
fn the_largest_prefix_counts() {
    let chains = [
        // 8 rows of 10 bytes before a filter of a quarter: 8 · ¾ · 10 = 60.
        chain(&[(0, 1.0, 1.0), (8, 1.0, 0.25)], None),
        // Up to the first filter 4 · ½ · 10 = 20; up to the second, (4 + 6) · (1 − ½ · ½) · 10 = 75.
        chain(&[(4, 1.0, 0.5), (6, 1.0, 0.5)], None),
        // Nothing is filtered.
        chain(&[(100, 1.0, 1.0), (100, 1.0, 1.5)], None),
        // 20 rows would release 200 bytes, but at 100 ns only 10 fit into 1 000 ns: 100.
        chain(&[(20, 100.0, 0.0)], None),
    ];
    assert_eq!(released(&snapshot(0, &chains)), [60.0, 75.0, 0.0, 100.0]);
}

#[test]
fn equals_go_by_slack() {
    let filter = [(10, 1.0, 0.0)];
    let chains =
        [chain(&filter, Some((9e9, 0.0))), chain(&filter, Some((2e9, 0.0))), chain(&[], Some((1.0, 0.0)))];
    let got = ranked(&snapshot(5, &chains));
    assert!(got[1] < got[0] && got[0] < got[2], "{got:?}");
}

#[test]
fn branches_count_by_their_mean() {
    // 0 feeds 1 and 2, both feed 3: three quarters of 0's rows get to 3, which passes none.
    let mut snapshot =
        snapshot(0, &[chain(&[(8, 1.0, 1.0), (0, 1.0, 0.5), (0, 1.0, 1.0), (2, 1.0, 0.0)], None)]);
    let ids = |ids: &[u32]| ids.iter().copied().map(laxity_graph::OperatorId).collect();
    for (place, upstream, downstream) in
        [(0, &[][..], &[1, 2][..]), (1, &[0], &[3]), (2, &[0], &[3]), (3, &[1, 2], &[])]
    {
        snapshot.operators[place].upstream = ids(upstream);
        snapshot.operators[place].downstream = ids(downstream);
    }
    assert_eq!(released(&snapshot), [100.0]);
    // Without the last: up to 1, the 8 rows of 0 halve.
    snapshot.operators[3].selectivity = 1.0;
    assert_eq!(released(&snapshot), [40.0]);
}

#[test]
fn it_ends_with_half_of_the_memory_free_or_the_least_slack_gone() {
    let at = |now: u64, used_bytes: u64| Snapshot {
        now: ProcessingTime(now),
        memory: Memory { used_bytes, bound_bytes: 100 },
        ..Snapshot::default()
    };
    let mut mode = MemoryMode::default();
    let mut on = |now, used_bytes, slack: f64| mode.is_on(&at(now, used_bytes), slack);
    assert!(!on(0, 79, 500.0));
    // Entered at 84 bytes and 500 ns: left at 42 bytes or at 620.
    assert!(on(120, 84, 500.0));
    assert!(on(240, 99, -7.0), "slack that falls meanwhile does not count");
    assert!(on(360, 43, 500.0));
    assert!(!on(480, 42, 500.0), "half is free");
    assert!(!on(600, 79, 500.0));
    assert!(on(720, 80, 500.0));
    assert!(on(1_219, 80, 500.0));
    assert!(!on(1_220, 95, 500.0), "the least slack has passed");
    // Without slack, memory has every other cycle.
    let turns: Vec<bool> = (0..6).map(|n| on(2_000 + 120 * n, 95, -1.0)).collect();
    assert_eq!(turns, [true, false, true, false, true, false]);
    // With nothing at work, until memory is free. An unknown bound is never reached.
    assert!(on(3_000, 95, f64::INFINITY) && on(u64::MAX - 1, 95, 0.0) && !on(u64::MAX - 1, 10, 0.0));
    assert!(!MemoryMode::default().is_on(&Snapshot { memory: Memory::default(), ..at(0, 5) }, 1.0));
}

/// §3.4 for chains, as it stands: p_k = sz_k · (1 − Π S_i), sz_k limited to what r allows.
fn literal(chain: &Chain) -> f64 {
    let mut best: f64 = 0.0;
    for k in 0..chain.boxes.len() {
        if chain.boxes[k].selectivity >= 1.0 {
            continue;
        }
        let prefix = &chain.boxes[..=k];
        let queued: u64 = prefix.iter().map(|operator| operator.rows).sum();
        let (mut passed, mut cost) = (1.0, 0.0);
        for operator in prefix {
            cost += passed * operator.cost_ns;
            passed *= operator.selectivity;
        }
        best = best.max((queued as f64).min(CYCLE as f64 / cost) * (1.0 - passed) * 10.0);
    }
    best
}

proptest! {
    #[test]
    fn chains_release_what_the_paper_says(chains in prop::collection::vec(any_chain(), 1..8)) {
        for (chain, got) in chains.iter().zip(released(&snapshot(0, &chains))) {
            let expected = literal(chain);
            prop_assert!((got - expected.ceil()).abs() <= 1.0, "{got}, expected {expected} of {chain:?}");
        }
    }

    #[test]
    fn an_idle_query_changes_nothing(chains in prop::collection::vec(any_chain(), 1..8)) {
        let mut more = chains.clone();
        more.push(chain(&[(0, 10.0, 0.0)], Some((1.0, 0.0))));
        let got = ranked(&snapshot(3, &more));
        prop_assert_eq!(&got[..chains.len()], &ranked(&snapshot(3, &chains))[..]);
    }
}
