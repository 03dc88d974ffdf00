//! The best schedule, found by trying all: for a handful of jobs, against which the bounds for many are checked.

use std::collections::HashMap;

use super::Job;

/// What the best schedule is best at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Objective {
    /// The least sum of latencies, in the jobs' nanoseconds.
    Latency,
    /// The least weight of late jobs.
    Late,
}

/// Whether a job can be set aside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Preemption {
    /// At every multiple of this many nanoseconds. Releases and work are rounded down and deadlines up, so
    /// that the answer stays a lower bound.
    Every {
        /// The step.
        step_ns: u64,
    },
    /// Never: a job that has begun keeps its core.
    Never,
}

/// More than the search can look at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{jobs} jobs of {steps} steps of work are too many to search; use the lower bounds")]
pub struct TooLarge {
    /// Jobs given.
    pub jobs: usize,
    /// Steps of work in all of them together.
    pub steps: u64,
}

/// The best that any schedule reaches on `cores` cores, by search over all of them.
///
/// Jobs are chains here: one core at a time, `work_ns` each; work ahead of the release is not looked at.
///
/// # Errors
/// If there are more than ten jobs, or more steps than would end in seconds.
pub fn optimum(
    jobs: &[Job],
    cores: usize,
    objective: Objective,
    preemption: Preemption,
) -> Result<f64, TooLarge> {
    let step = match preemption {
        Preemption::Every { step_ns } => step_ns.max(1),
        Preemption::Never => 1,
    };
    let steps: u64 = jobs.iter().map(|job| job.work_ns / step).sum();
    if jobs.len() > JOBS_MAX || (preemption != Preemption::Never && steps > STEPS_MAX) {
        return Err(TooLarge { jobs: jobs.len(), steps });
    }
    let cores = cores.max(1);
    Ok(match preemption {
        Preemption::Every { .. } => Stepwise::new(jobs, cores, objective, step).best(),
        Preemption::Never => Orders::new(jobs, cores, objective).best(),
    })
}

/// Bounds the search to 10! orders, or to as many sets of remaining work. Picked.
const JOBS_MAX: usize = 10;
const STEPS_MAX: u64 = 40;

/// Preemptive search, step by step, over (time, work left of each job).
struct Stepwise {
    release: Vec<u64>,
    released_ns: Vec<f64>,
    deadline: Vec<u64>,
    weight: Vec<f64>,
    work: Vec<u64>,
    cores: usize,
    objective: Objective,
    step_ns: u64,
    known: HashMap<(u64, Vec<u64>), f64>,
}

impl Stepwise {
    fn new(jobs: &[Job], cores: usize, objective: Objective, step_ns: u64) -> Stepwise {
        Stepwise {
            release: jobs.iter().map(|job| job.release_ns / step_ns).collect(),
            released_ns: jobs.iter().map(|job| job.release_ns as f64).collect(),
            deadline: jobs.iter().map(|job| job.deadline_ns.div_ceil(step_ns)).collect(),
            weight: jobs.iter().map(|job| job.weight).collect(),
            work: jobs.iter().map(|job| job.work_ns / step_ns).collect(),
            cores,
            objective,
            step_ns,
            known: HashMap::new(),
        }
    }

    fn best(&mut self) -> f64 {
        let work = self.work.clone();
        // A job without work is done as it is released: on time unless it is due before.
        let idle: f64 = (0..work.len())
            .filter(|job| work[*job] == 0 && self.release[*job] > self.deadline[*job])
            .map(|job| self.weight[job])
            .sum();
        let start = self.release.iter().copied().min().unwrap_or(0);
        let rest = self.from(start, work);
        match self.objective {
            Objective::Latency => rest,
            Objective::Late => rest + idle,
        }
    }

    /// The least cost of finishing `left` from `now` on.
    fn from(&mut self, now: u64, left: Vec<u64>) -> f64 {
        let unfinished = || (0..left.len()).filter(|job| left[*job] > 0);
        let Some(released) = unfinished().map(|job| self.release[job]).min() else { return 0.0 };
        if released > now {
            return self.from(released, left);
        }
        if let Some(known) = self.known.get(&(now, left.clone())) {
            return *known;
        }
        let open: Vec<usize> = unfinished().filter(|job| self.release[*job] <= now).collect();
        // An idle core never helps: using it on any open job leaves a superset of the choices.
        let take = self.cores.min(open.len());
        let mut best = f64::INFINITY;
        let mut chosen = Vec::with_capacity(take);
        self.choose(&open, 0, take, &mut chosen, now, &left, &mut best);
        self.known.insert((now, left), best);
        best
    }

    #[expect(clippy::too_many_arguments, reason = "the state of one recursion")]
    fn choose(
        &mut self,
        open: &[usize],
        at: usize,
        take: usize,
        chosen: &mut Vec<usize>,
        now: u64,
        left: &[u64],
        best: &mut f64,
    ) {
        if chosen.len() == take {
            let mut after = left.to_vec();
            let mut cost = 0.0;
            for job in chosen.iter() {
                after[*job] -= 1;
                if after[*job] == 0 {
                    cost += self.finished(*job, now + 1);
                }
            }
            *best = best.min(cost + self.from(now + 1, after));
            return;
        }
        for next in at..open.len() {
            chosen.push(open[next]);
            self.choose(open, next + 1, take, chosen, now, left, best);
            chosen.pop();
        }
    }

    fn finished(&self, job: usize, at: u64) -> f64 {
        match self.objective {
            Objective::Latency => (at * self.step_ns) as f64 - self.released_ns[job],
            Objective::Late if at > self.deadline[job] => self.weight[job],
            Objective::Late => 0.0,
        }
    }
}

/// Search over the orders in which jobs begin. Giving each job in turn to the core that is free first
/// starts none later than any schedule with that order, so the best order is the best schedule.
struct Orders<'a> {
    jobs: &'a [Job],
    objective: Objective,
    free: Vec<u64>,
    used: Vec<bool>,
    best: f64,
}

impl<'a> Orders<'a> {
    fn new(jobs: &'a [Job], cores: usize, objective: Objective) -> Orders<'a> {
        Orders { jobs, objective, free: vec![0; cores], used: vec![false; jobs.len()], best: f64::INFINITY }
    }

    fn best(mut self) -> f64 {
        self.go(0, 0.0);
        self.best
    }

    fn go(&mut self, placed: usize, cost: f64) {
        let rest: f64 = match self.objective {
            Objective::Latency => self
                .jobs
                .iter()
                .zip(&self.used)
                .filter(|(_, used)| !**used)
                .map(|(job, _)| job.work_ns as f64)
                .sum(),
            Objective::Late => 0.0,
        };
        if cost + rest >= self.best {
            return;
        }
        if placed == self.jobs.len() {
            self.best = cost;
            return;
        }
        for job in 0..self.jobs.len() {
            if self.used[job] {
                continue;
            }
            let core = (0..self.free.len()).min_by_key(|core| self.free[*core]).unwrap_or(0);
            let was = self.free[core];
            let it = self.jobs[job];
            let end = was.max(it.release_ns) + it.work_ns;
            let more = match self.objective {
                Objective::Latency => (end - it.release_ns) as f64,
                Objective::Late if end > it.deadline_ns => it.weight,
                Objective::Late => 0.0,
            };
            self.free[core] = end;
            self.used[job] = true;
            self.go(placed + 1, cost + more);
            self.used[job] = false;
            self.free[core] = was;
        }
    }
}
