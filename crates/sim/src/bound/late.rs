//! Lateness that no schedule avoids, for any number of jobs, with the reason why.

use std::collections::BinaryHeap;

use super::Job;

/// A lower bound on how many of `jobs` are late on `cores` cores.
///
/// *Hopeless*: a job whose span, or work shared by all cores, does not fit between release and deadline is
/// late in every schedule.
///
/// *Demand*: take an interval [a, b) and the jobs that are released in it and due in it. Where the work
/// exceeds m · (b − a), some must be late. How many at least: let all of them be released at a already and
/// let work be split over cores at will, both of which only help; then Moore's algorithm (Moore 1968,
/// with Hodgson's form) gives the exact least number of late jobs for one core of speed m, so no schedule
/// has fewer. Jobs of disjoint intervals are different jobs, so numbers of disjoint intervals add, and
/// the best set of disjoint intervals is taken.
///
/// Work ahead of the release is left out: leaving work out can only lower the number.
pub fn late_jobs(jobs: &[Job], cores: usize) -> usize {
    let (hopeless, feasible) = split(jobs, cores);
    let starts = starts(&feasible);
    // by_due[i]: the most late jobs forced among jobs due at or before the i-th deadline.
    let mut dues: Vec<u64> = feasible.iter().map(|job| job.deadline_ns).collect();
    dues.sort_unstable();
    dues.dedup();
    let mut sorted = feasible;
    sorted.sort_unstable_by_key(|job| job.deadline_ns);
    let mut gains: Vec<Vec<(usize, usize)>> = vec![Vec::new(); dues.len()];
    for start in starts {
        moore(&sorted, start, cores, &dues, |due, late| {
            let before = dues.partition_point(|other| *other <= start);
            gains[due].push((before, late));
        });
    }
    let mut best = vec![0; dues.len() + 1];
    for (due, gains) in gains.iter().enumerate() {
        best[due + 1] = best[due];
        for (before, late) in gains {
            best[due + 1] = best[due + 1].max(best[*before] + late);
        }
    }
    hopeless.len() + best[dues.len()]
}

/// A lower bound on the sum of the weights of late jobs on `cores` cores.
///
/// As [`late_jobs`], with the least weight that frees the excess of an interval: the fractional knapsack,
/// lightest weight per work first. Letting a part of a job be late for a part of its weight only helps.
/// One interval is taken, the worst.
pub fn late_weight(jobs: &[Job], cores: usize) -> f64 {
    let (hopeless, mut feasible) = split(jobs, cores);
    let certain: f64 = hopeless.iter().map(|job| job.weight).sum();
    feasible.retain(|job| job.work_ns > 0);
    feasible.sort_by(|a, b| (a.weight * b.work_ns as f64).total_cmp(&(b.weight * a.work_ns as f64)));
    let mut dues: Vec<u64> = feasible.iter().map(|job| job.deadline_ns).collect();
    dues.sort_unstable();
    dues.dedup();
    let mut worst: f64 = 0.0;
    for start in starts(&feasible) {
        for due in spread(&dues).filter(|due| *due > start) {
            let inside = || feasible.iter().filter(|job| job.release_ns >= start && job.deadline_ns <= due);
            let demand: f64 = inside().map(|job| job.work_ns as f64).sum();
            let mut excess = demand - (due - start) as f64 * cores as f64;
            let mut weight = 0.0;
            for job in inside() {
                if excess <= 0.0 {
                    break;
                }
                weight += job.weight * (excess / job.work_ns as f64).min(1.0);
                excess -= job.work_ns as f64;
            }
            worst = worst.max(weight);
        }
    }
    certain + worst
}

/// Jobs that are late in every schedule, and the others.
fn split(jobs: &[Job], cores: usize) -> (Vec<Job>, Vec<Job>) {
    let cores = cores.max(1) as u64;
    jobs.iter().partition(|job| {
        let needed = job.span_ns.max(job.work_ns.div_ceil(cores));
        job.release_ns.saturating_add(needed) > job.deadline_ns
    })
}

/// Instants at which an interval may begin. Any set gives a bound; only releases can be the best.
fn starts(jobs: &[Job]) -> Vec<u64> {
    let mut releases: Vec<u64> = jobs.iter().map(|job| job.release_ns).collect();
    releases.sort_unstable();
    releases.dedup();
    spread(&releases).collect()
}

/// At most [`INTERVAL_ENDS`] of them, evenly, the first always among them.
fn spread(sorted: &[u64]) -> impl Iterator<Item = u64> + '_ {
    sorted.iter().copied().step_by(sorted.len().div_ceil(INTERVAL_ENDS).max(1))
}

/// Keeps the bound on a hundred thousand jobs at seconds. Picked.
const INTERVAL_ENDS: usize = 512;

/// Moore's algorithm over the jobs released at `start` or later, deadlines ascending; tells after each
/// deadline at which the number grew how many jobs are late by then.
fn moore(sorted: &[Job], start: u64, cores: usize, dues: &[u64], mut tell: impl FnMut(usize, usize)) {
    let cores = cores.max(1) as u128;
    let mut kept: BinaryHeap<u64> = BinaryHeap::new();
    let mut work = 0u128;
    let mut late = 0;
    for job in sorted.iter().filter(|job| job.release_ns >= start) {
        kept.push(job.work_ns);
        work += u128::from(job.work_ns);
        if work > u128::from(job.deadline_ns - start) * cores {
            work -= u128::from(kept.pop().unwrap_or(0));
            late += 1;
            tell(dues.partition_point(|due| *due < job.deadline_ns), late);
        }
    }
}
