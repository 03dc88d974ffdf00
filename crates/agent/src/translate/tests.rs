//! Translators on small topologies, with the expected settings written out. Cannot catch: what the kernel makes of
//! them.

use super::*;
use crate::topology::tests::chains;
use crate::topology::{Task, Thread};

fn schedule(priorities: &[f64], scale: Scale) -> Schedule {
    Schedule { priorities: priorities.iter().copied().map(Some).collect(), scale }
}

fn tid(plan: &Plan, tid: u32) -> &ThreadSetting {
    plan.threads.iter().find(|(thread, _)| thread.tid == tid).unwrap().1
}

const SERVICE: ThreadId = ThreadId { pid: 1, tid: 50, started_ticks: 3 };

#[test]
fn a_fused_task_takes_the_highest_priority_and_parallel_ones_the_same() {
    let mut topology = chains(&[3]);
    let mut twin = topology.tasks[2].clone();
    twin.instance = 1;
    topology.tasks =
        vec![Task { operators: vec![0, 1], ..topology.tasks[0].clone() }, topology.tasks[2].clone(), twin];
    let tasks = of_tasks(&topology, &schedule(&[5.0, -2.0, 1.0], Scale::Linear));
    assert_eq!(tasks, [-2.0, 1.0, 1.0]);
}

#[test]
fn no_data_is_the_middle() {
    let topology = chains(&[4]);
    let priorities = vec![Some(1.0), None, Some(2.0), Some(9.0)];
    let tasks = of_tasks(&topology, &Schedule { priorities, scale: Scale::Linear });
    assert_eq!(tasks, [1.0, 2.0, 2.0, 9.0]);
    let none = Schedule { priorities: vec![None; 4], scale: Scale::Linear };
    assert_eq!(of_tasks(&topology, &none), [0.0; 4]);
}

#[test]
fn nice_leaves_service_threads_their_own_group() {
    let topology = chains(&[1, 1, 1]);
    let plan = Translator::Nice.plan(
        &topology,
        &schedule(&[0.0, 5.0, 10.0], Scale::Linear),
        &[SERVICE],
        &Ranges::default(),
    );
    assert_eq!([100, 101, 102].map(|id| tid(&plan, id).nice), [Some(-10), Some(0), Some(10)]);
    assert_eq!(tid(&plan, 50), &ThreadSetting { group: Some("service".into()), ..ThreadSetting::default() });
    assert_eq!(plan.groups["service"].weight, 10_000);
}

#[test]
fn urgent_queries_are_charged_for_no_others() {
    let mut topology = chains(&[2, 1, 1]);
    let priorities = schedule(&[0.0, 9.0, 1.0, 10.0], Scale::Linear);
    let groups = |topology: &Topology, ranges| {
        let plan = Translator::Nice.plan(topology, &priorities, &[], &ranges);
        let groups = [100, 101, 102, 103].map(|id| tid(&plan, id).group.clone().unwrap());
        (groups, plan.groups.get("urgent").map(|group| group.weight))
    };
    let (operators, urgent) = ("operators".to_owned(), "urgent".to_owned());
    let none = ([0; 4].map(|_| operators.clone()), None);
    assert_eq!(groups(&topology, Ranges::default()), none);
    // The first is urgent by its first operator; the third has a target, but a far one.
    topology.queries[0].wishes.is_urgent = true;
    topology.queries[2].wishes.is_urgent = true;
    let (first, other) = (urgent.clone(), operators.clone());
    assert_eq!(groups(&topology, Ranges::default()), ([first, urgent, operators, other], Some(10_000)));
    // Who asks for no difference gets none.
    assert_eq!(groups(&topology, Ranges { nice: (0, 0), ..Ranges::default() }), none);
}

#[test]
fn shares_are_per_operator_and_quotas_divide_the_cores() {
    let topology = chains(&[1, 1]);
    // One a tenth as urgent as the other.
    let schedule = schedule(&[0.0, 10f64.ln()], Scale::Logarithmic);
    let ranges = Ranges { cores: 4, ..Ranges::default() };
    let plan = Translator::Shares.plan(&topology, &schedule, &[], &ranges);
    let (first, second) = (tid(&plan, 100).group.clone().unwrap(), tid(&plan, 101).group.clone().unwrap());
    assert_eq!((plan.groups[&first].weight, plan.groups[&second].weight), (1_000, 100));
    assert!(first.starts_with("o-op0-") && first != second);
    let plan = Translator::Quota.plan(&topology, &schedule, &[], &ranges);
    let quota = plan.groups[&first].quota_cores.unwrap();
    assert!((quota - 4.0 * 1_000.0 / 1_100.0).abs() < 1e-9);
}

#[test]
fn real_time_is_for_urgent_queries_only() {
    let mut topology = chains(&[2, 1]);
    topology.queries[0].wishes.is_urgent = true;
    let plan = Translator::RoundRobin.plan(
        &topology,
        &schedule(&[0.0, 1.0, -9.0], Scale::Linear),
        &[SERVICE],
        &Ranges::default(),
    );
    assert_eq!([100, 101, 102].map(|id| tid(&plan, id).round_robin), [Some(10), Some(1), Some(0)]);
    assert_eq!(tid(&plan, 50).round_robin, None);
}

#[test]
fn a_query_gets_a_share_and_its_operators_nice_inside() {
    let topology = chains(&[2, 1]);
    let plan = Translator::QuerySharesNice.plan(
        &topology,
        &schedule(&[0.0, 4.0, 8.0], Scale::Linear),
        &[],
        &Ranges::default(),
    );
    assert_eq!([100, 101, 102].map(|id| tid(&plan, id).nice), [Some(-10), Some(10), Some(-10)]);
    let weight = |id| plan.groups[tid(&plan, id).group.as_ref().unwrap()].weight;
    assert_eq!([100, 101, 102].map(weight), [1_000, 1_000, 10]);
}

#[test]
fn a_thread_of_two_tasks_gets_the_more_urgent() {
    let mut topology = chains(&[1, 1]);
    let shared = Thread { id: SERVICE, name: "fetcher".into() };
    topology.tasks[0].threads.push(shared.clone());
    topology.tasks[1].threads.push(shared);
    for order in [[0.0, 1.0], [1.0, 0.0]] {
        let plan =
            Translator::Nice.plan(&topology, &schedule(&order, Scale::Linear), &[], &Ranges::default());
        assert_eq!(tid(&plan, 50).nice, Some(-10));
    }
}

#[test]
fn every_translator_sets_the_timers_of_operators_that_poll() {
    let mut topology = chains(&[1, 1]);
    topology.tasks[0].timer_slack_ns = Some(1_000_000);
    for (_, translator) in NAMES {
        let schedule = schedule(&[0.0, 1.0], Scale::Linear);
        let plan = translator.plan(&topology, &schedule, &[SERVICE], &Ranges::default());
        assert_eq!([100, 101, 50].map(|at| tid(&plan, at).timer_slack_ns), [Some(1_000_000), None, None]);
    }
}

#[test]
fn names_are_read_as_written() {
    for (name, translator) in NAMES {
        assert_eq!(name.parse(), Ok(translator));
        assert_eq!(translator.to_string(), name);
    }
    let error = "ice".parse::<Translator>().unwrap_err().to_string();
    assert_eq!(
        error,
        "no translator is named \"ice\"; expected one of nice, shares, quota, rr, query-shares+nice"
    );
}
