//! What no scheduler can beat: the clairvoyant bound that every policy is measured against.
//!
//! A [`Job`] is the work behind one result. [`optimum`] finds the best schedule of a handful of jobs by
//! search; [`mean_latency_ns`], [`late_jobs`] and [`late_weight`] are lower bounds for any number of jobs,
//! each with the argument why no schedule is better. All of them know the future, pay no overhead, and
//! may preempt at will.
//!
//! Not here: schedules that can be run. A bound need not be attained by any.

mod exact;
mod late;
mod latency;
#[cfg(test)]
mod tests;

pub use exact::{Objective, Preemption, TooLarge, optimum};
pub use late::{late_jobs, late_weight};
pub use latency::mean_latency_ns;

/// The work behind one result.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Job {
    /// Latency counts from here: t_M, the ingestion of the last event that influenced the result.
    pub release_ns: u64,
    /// CPU time that cannot begin before the release, over all operators.
    pub work_ns: u64,
    /// The part of `work_ns` that no two cores can share: the longest chain of operators.
    pub span_ns: u64,
    /// When it is due.
    pub deadline_ns: u64,
    /// What a miss costs; 1 where all count the same.
    pub weight: f64,
    /// Work that must be done too, but that may begin earlier: the window's earlier batches.
    pub ahead: Option<Ahead>,
}

/// Work that may be done before the release of its job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ahead {
    /// The earliest instant at which any of it could begin.
    pub from_ns: u64,
    /// CPU time.
    pub work_ns: u64,
}

impl Job {
    /// A job of one chain of operators, of weight 1, without work ahead.
    pub fn chain(release_ns: u64, work_ns: u64, deadline_ns: u64) -> Job {
        Job { release_ns, work_ns, span_ns: work_ns, deadline_ns, weight: 1.0, ahead: None }
    }

    /// The earliest instant at which any of its work can be done, and all of its work.
    fn whole(&self) -> (u64, u64) {
        match self.ahead {
            Some(ahead) => (ahead.from_ns.min(self.release_ns), self.work_ns + ahead.work_ns),
            None => (self.release_ns, self.work_ns),
        }
    }
}
