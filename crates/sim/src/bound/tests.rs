//! Hand-made schedules, and for small random ones: bound <= preemptive optimum <= optimum without
//! preemption <= any list schedule.

use proptest::prelude::*;

use super::*;

fn best(jobs: &[Job], cores: usize, objective: Objective, preemption: Preemption) -> f64 {
    optimum(jobs, cores, objective, preemption).unwrap()
}

const STEP: Preemption = Preemption::Every { step_ns: 1 };

#[test]
fn preempting_the_long_job_is_worth_it() {
    // One core. 10 long from 0, 1 long from 1: set aside, latencies 11 and 1; not, 10 and 10.
    let jobs = [Job::chain(0, 10, 10), Job::chain(1, 1, 3)];
    assert_eq!(best(&jobs, 1, Objective::Latency, STEP), 12.0);
    assert_eq!(best(&jobs, 1, Objective::Latency, Preemption::Never), 13.0);
    // Waiting for the short one without preemption: it ends at 2, the long one at 12: 1 + 12.
    assert_eq!(mean_latency_ns(&jobs, 1), 6.0);
}

#[test]
fn one_of_three_is_late_when_three_units_are_due_within_two() {
    let jobs = [Job::chain(0, 1, 2), Job::chain(0, 1, 2), Job::chain(0, 1, 2)];
    assert_eq!(best(&jobs, 1, Objective::Late, STEP), 1.0);
    assert_eq!(late_jobs(&jobs, 1), 1);
    assert_eq!(late_weight(&jobs, 1), 1.0);
    assert_eq!(best(&jobs, 2, Objective::Late, STEP), 0.0);
    assert_eq!(late_jobs(&jobs, 2), 0);
}

#[test]
fn late_jobs_of_disjoint_intervals_add() {
    let at = |release: u64| Job::chain(release, 2, release + 3);
    let jobs = [at(0), at(0), at(100), at(100)];
    assert_eq!(late_jobs(&jobs, 1), 2);
    assert_eq!(best(&jobs, 1, Objective::Late, STEP), 2.0);
}

#[test]
fn a_chain_longer_than_its_target_is_late_on_any_number_of_cores() {
    let jobs = [Job::chain(0, 5, 4)];
    assert_eq!(late_jobs(&jobs, 1_000), 1);
    assert_eq!(mean_latency_ns(&jobs, 1_000), 5.0);
    let spread = Job { span_ns: 1, ..jobs[0] };
    assert_eq!(late_jobs(&[spread], 1_000), 0);
}

#[test]
fn the_cheaper_promise_is_broken() {
    let heavy = Job { weight: 5.0, ..Job::chain(0, 4, 4) };
    let light = Job::chain(0, 4, 4);
    assert_eq!(best(&[heavy, light], 1, Objective::Late, STEP), 1.0);
    assert_eq!(late_weight(&[heavy, light], 1), 1.0);
}

#[test]
fn work_ahead_counts_once_it_cannot_be_done_in_time() {
    // Two windows end at 10. Behind each are 8 of work that could begin at 0, and 1 more after: 18 in all,
    // so one ends at 9 + at best, shortest first: 9 and 18, less 10 each.
    let ahead = Some(Ahead { from_ns: 0, work_ns: 8 });
    let job = Job { ahead, ..Job::chain(10, 1, 100) };
    assert_eq!(mean_latency_ns(&[job, job], 1), (9.0 + 18.0) / 2.0 - 10.0);
    // With two cores nothing presses but the last unit of work.
    assert_eq!(mean_latency_ns(&[job, job], 2), 1.0);
}

#[test]
fn nothing_and_too_much() {
    assert_eq!(mean_latency_ns(&[], 4), 0.0);
    assert_eq!(late_jobs(&[], 4), 0);
    assert_eq!(best(&[], 1, Objective::Late, STEP), 0.0);
    let jobs = vec![Job::chain(0, 1, 1); 11];
    let refused = optimum(&jobs, 1, Objective::Late, STEP).unwrap_err();
    assert_eq!(refused, TooLarge { jobs: 11, steps: 11 });
}

/// Gives jobs in this order to whichever core is free first, without preemption.
fn list_schedule(jobs: &[Job], cores: usize) -> (f64, f64) {
    let mut free = vec![0; cores];
    let (mut latency, mut late) = (0.0, 0.0);
    for job in jobs {
        let core = (0..cores).min_by_key(|core| free[*core]).unwrap();
        free[core] = free[core].max(job.release_ns) + job.work_ns;
        latency += (free[core] - job.release_ns) as f64;
        late += if free[core] > job.deadline_ns { job.weight } else { 0.0 };
    }
    (latency, late)
}

fn few_jobs() -> impl Strategy<Value = Vec<Job>> {
    let job = (0u64..8, 1u64..5, 0u64..8, 1u8..4).prop_map(|(release, work, slack, weight)| Job {
        weight: f64::from(weight),
        ..Job::chain(release, work, release + work / 2 + slack)
    });
    prop::collection::vec(job, 1..6)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn bounds_and_optima_are_ordered(jobs in few_jobs(), cores in 1usize..4) {
        let count = jobs.len() as f64;
        let latency = best(&jobs, cores, Objective::Latency, STEP);
        let rigid = best(&jobs, cores, Objective::Latency, Preemption::Never);
        let (listed, late_listed) = list_schedule(&jobs, cores);
        prop_assert!(mean_latency_ns(&jobs, cores) * count <= latency + 1e-6);
        prop_assert!(latency <= rigid && rigid <= listed);

        let late = best(&jobs, cores, Objective::Late, STEP);
        let late_rigid = best(&jobs, cores, Objective::Late, Preemption::Never);
        prop_assert!(late_weight(&jobs, cores) <= late + 1e-6);
        prop_assert!(late <= late_rigid && late_rigid <= late_listed);

        let counted: Vec<Job> = jobs.iter().map(|job| Job { weight: 1.0, ..*job }).collect();
        prop_assert!(late_jobs(&counted, cores) as f64 <= best(&counted, cores, Objective::Late, STEP));
    }

    #[test]
    fn one_core_without_releases_is_shortest_first(mut work in prop::collection::vec(1u64..6, 1..6)) {
        let jobs: Vec<Job> = work.iter().map(|work| Job::chain(0, *work, 99)).collect();
        work.sort_unstable();
        let mut end = 0;
        let sum: u64 = work.iter().map(|work| { end += work; end }).sum();
        prop_assert_eq!(best(&jobs, 1, Objective::Latency, STEP), sum as f64);
        prop_assert!((mean_latency_ns(&jobs, 1) - sum as f64 / jobs.len() as f64).abs() < 1e-6);
    }
}
