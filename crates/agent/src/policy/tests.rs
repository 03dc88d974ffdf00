//! How policies that a person names are taken by the agent, and what is said that they leave out.

use std::time::Duration;

use super::*;
use crate::topology::Wishes;
use crate::topology::tests::chains;

/// Two queries of two operators at 100 s: the first has a target of 50 ms and an empty queue, the second a backlog.
fn case() -> (Topology, Readings) {
    let mut topology = chains(&[2, 2]);
    topology.queries[0].wishes = Wishes::within(Duration::from_millis(50)).unwrap();
    let mut readings = Readings::at(100_000_000_000, 0.0, None, 2);
    readings.set(Metric::QueueRows, [0.0, 0.0, 40.0, 100.0].map(Some).to_vec());
    readings.set(Metric::HeadAgeMs, [0.0, 0.0, 200.0, 500.0].map(Some).to_vec());
    readings.set(Metric::IngestAgeMs, [0.0, 0.0, 200.0, 700.0].map(Some).to_vec());
    readings.set(Metric::Cost, [1_000.0; 4].map(Some).to_vec());
    readings.set(Metric::Selectivity, [1.0; 4].map(Some).to_vec());
    readings.set(Metric::PathCost, [1_000.0, 0.0, 1_000.0, 0.0].map(Some).to_vec());
    (topology, readings)
}

fn priorities(policy: &str) -> Vec<f64> {
    let (topology, readings) = case();
    let schedule = policy.parse::<Policy>().unwrap().schedule(&topology, &readings);
    schedule.priorities.into_iter().map(Option::unwrap).collect()
}

#[test]
fn a_short_target_goes_before_a_backlog() {
    for policy in ["llf", "edf", "laxity"] {
        let priorities = priorities(policy);
        assert!(
            priorities[0].max(priorities[1]) < priorities[2].min(priorities[3]),
            "{policy}: {priorities:?}"
        );
    }
    // ln of the laxity in ns: 50 ms less the 1 µs behind it, and 60 s after it came in 0.7 s ago.
    let edf = priorities("edf");
    assert!((edf[0].exp() / 49.999e6 - 1.0).abs() < 1e-9);
    assert!((edf[3].exp() / 59.3e9 - 1.0).abs() < 1e-9);
}

#[test]
fn what_has_no_effect_here_is_said() {
    let left_out = |policy: &str| policy.parse::<Policy>().unwrap().left_out();
    let laxity = "policy laxity: what it decides by the CPU time of single runs and by short memory has no effect here";
    assert_eq!(left_out("laxity").as_deref(), Some(laxity));
    assert_eq!(
        left_out("klink").as_deref(),
        Some("policy klink: what it decides by short memory has no effect here")
    );
    assert_eq!(["llf", "edf", "qs", "static", "congestion"].map(left_out), [const { None }; 5]);
}

#[test]
fn nothing_is_given_up_under_laxity() {
    // A backlog of hours, far beyond any capacity: the order stays that of deadlines.
    let (topology, mut readings) = case();
    readings.set(Metric::QueueRows, [1e12; 4].map(Some).to_vec());
    let schedule = |policy: &str| policy.parse::<Policy>().unwrap().schedule(&topology, &readings).priorities;
    assert_eq!(schedule("laxity"), schedule("laxity:overload=off:memory=off"));
}

#[test]
fn congestion_looks_behind() {
    // 40 rows before a queue of 100 are none too many.
    assert_eq!(priorities("congestion"), [0.0, 0.0, 0.0, -101f64.ln()].map(|p| p + 0.0));
}

#[test]
fn static_priorities_are_the_users() {
    let (mut topology, readings) = case();
    topology.queries[1].wishes.priority = Some(3.0);
    let schedule = "static".parse::<Policy>().unwrap().schedule(&topology, &readings);
    assert_eq!(
        schedule.priorities,
        [Some(0.0), Some(0.0), Some(-3.0), Some(-3.0)].map(|p| p.map(|p: f64| p + 0.0))
    );
}

#[test]
fn what_has_no_data_is_neutral() {
    let (topology, mut readings) = case();
    readings.set(Metric::QueueRows, vec![Some(1.0), None, Some(2.0), Some(3.0)]);
    let schedule = "congestion".parse::<Policy>().unwrap().schedule(&topology, &readings);
    assert_eq!(schedule.priorities, [Some(-2f64.ln()), None, Some(0.0), Some(-4f64.ln())]);
}

#[test]
fn turns_are_not_for_an_operating_system() {
    assert_eq!("rr".parse::<Policy>().unwrap_err(), PolicyError::ByTurn { name: "rr".into() });
    assert!("random".parse::<Policy>().is_ok());
    let error = "nonesuch".parse::<Policy>().unwrap_err().to_string();
    assert!(error.contains("nonesuch") && error.contains("llf") && error.contains("congestion"), "{error}");
}

#[test]
fn a_random_rank_is_not_the_same_for_all() {
    let priorities = priorities("random");
    assert!(priorities.windows(2).any(|pair| pair[0] != pair[1]), "{priorities:?}");
}
