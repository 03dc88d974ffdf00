use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::Job;

/// A lower bound on the mean latency of `jobs` on `cores` cores, in nanoseconds; 0 without jobs.
///
/// It is the largest of three, each of which no schedule can beat:
///
/// 1. *Span.* A chain of operators cannot run on two cores at once, so each job takes at least its span.
/// 2. *SRPT on one core of speed m*, over the work after release. In any interval, m cores do at most
///    m · length of work. Cut a schedule on m cores at its completions: within each piece the fast core
///    can do the same work, in any order, by the end of the piece; so every completion of the original
///    happens no later. Shortest remaining processing time minimises the sum of completions on one core
///    with preemption (Schrage 1968), so it is at most that of the original.
/// 3. *The same over all work*, where a job may start as soon as its first batch is there. Letting work
///    start early only removes constraints; latency still counts from the release.
///
/// The third is the strong one under overload, the first at light load. Releases and work may be 0.
pub fn mean_latency_ns(jobs: &[Job], cores: usize) -> f64 {
    if jobs.is_empty() {
        return 0.0;
    }
    let count = jobs.len() as f64;
    let span: f64 = jobs.iter().map(|job| job.span_ns as f64).sum::<f64>() / count;
    let released: f64 = jobs.iter().map(|job| job.release_ns as f64).sum::<f64>() / count;
    let tails = jobs.iter().map(|job| (job.release_ns, job.work_ns)).collect();
    let wholes = jobs.iter().map(Job::whole).collect();
    let tail = srpt_mean_completion(tails, cores) - released;
    let whole = srpt_mean_completion(wholes, cores) - released;
    span.max(tail).max(whole).max(0.0)
}

/// Mean completion under shortest remaining processing time, of (release, work) on one core of speed
/// `speed`.
fn srpt_mean_completion(mut jobs: Vec<(u64, u64)>, speed: usize) -> f64 {
    let count = jobs.len() as f64;
    let speed = speed.max(1) as u128;
    jobs.sort_unstable();
    // Time is counted in 1/speed ns, so that everything stays whole: one unit of work takes one unit.
    let scaled = |ns: u64| u128::from(ns) * speed;
    let mut remaining: BinaryHeap<Reverse<u128>> = BinaryHeap::new();
    let mut sum = 0.0;
    let mut now = 0u128;
    let mut next = 0;
    while next < jobs.len() || !remaining.is_empty() {
        if remaining.is_empty() {
            now = now.max(scaled(jobs[next].0));
        }
        while next < jobs.len() && scaled(jobs[next].0) <= now {
            remaining.push(Reverse(u128::from(jobs[next].1)));
            next += 1;
        }
        let Some(Reverse(work)) = remaining.pop() else { continue };
        let until = jobs.get(next).map_or(u128::MAX, |job| scaled(job.0));
        if now.saturating_add(work) <= until {
            now += work;
            sum += now as f64 / speed as f64;
        } else {
            remaining.push(Reverse(work - (until - now)));
            now = until;
        }
    }
    sum / count
}
