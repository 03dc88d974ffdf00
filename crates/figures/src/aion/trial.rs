//! One configuration of Aion's experiments, run by every method over the same streams.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

use laxity_operators::approximate::{Aggregate, Answer, Config, Grid, Promise, Rule, replay_each};

use super::METHODS;
use super::workload::{Delays, Stream, Workload};
use crate::ExperimentError;

/// Who answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Method {
    /// All rows, K-slack.
    Default,
    AqKSlack,
    AionMinus,
    Aion,
}

impl Method {
    pub(super) fn name(self) -> &'static str {
        match self {
            Method::Default => "Default",
            Method::AqKSlack => "AQ-K-Slack",
            Method::AionMinus => "Aion-",
            Method::Aion => "Aion",
        }
    }

    fn rule(self) -> Rule {
        match self {
            Method::Default => Rule::KSlack,
            Method::AqKSlack => Rule::AqKSlack,
            Method::AionMinus => Rule::AionMinus,
            Method::Aion => Rule::Aion,
        }
    }
}

/// One configuration.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Trial {
    pub(super) workload: Workload,
    pub(super) delays: Delays,
    /// Events per second.
    pub(super) rate: f64,
    /// Windows that count.
    pub(super) windows: usize,
    pub(super) seed: u64,
}

pub(super) const PROMISE: Promise = Promise { error: 0.05, confidence: 0.95 };

/// Windows that count of one stream; a trial has as many streams as it takes, each with windows to learn from.
const WINDOWS_PER_STREAM: usize = 100;

/// Trials that were run: several figures ask for the same.
static KNOWN: Mutex<Vec<(Trial, Vec<Windows>)>> = Mutex::new(Vec::new());

impl Trial {
    /// What windows answered under each of [`METHODS`].
    pub(super) fn run(&self) -> Result<Vec<Windows>, ExperimentError> {
        let known = || KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        let is_this = |(trial, _): &&(Trial, Vec<Windows>)| trial == self;
        if let Some((_, windows)) = known().iter().find(is_this) {
            return Ok(windows.clone());
        }
        let windows = self.run_anew(&METHODS)?;
        known().push((*self, windows.clone()));
        Ok(windows)
    }

    /// Over the same streams, of which each core has one at a time.
    fn run_anew(&self, methods: &[Method]) -> Result<Vec<Windows>, ExperimentError> {
        let parts = on_all_cores(self.windows.div_ceil(WINDOWS_PER_STREAM), |number| {
            let windows = (self.windows - number * WINDOWS_PER_STREAM).min(WINDOWS_PER_STREAM);
            let seed = self.seed * 1_000 + number as u64;
            let stream = Stream::new(self.workload, self.delays, self.rate, windows, seed)?;
            let query = Query {
                grid: self.workload.grid(),
                aggregate: self.workload.aggregate(),
                row_ms: self.workload.row_cost_ms(),
                seed,
            };
            Ok::<_, ExperimentError>(query.answers(methods, &stream))
        });
        let mut all = vec![Windows::default(); methods.len()];
        for part in parts {
            all.iter_mut().zip(part?).for_each(|(all, part)| all.add_all(part));
        }
        all.iter_mut().for_each(Windows::sort);
        Ok(all)
    }
}

/// What is asked of a stream.
#[derive(Clone, Debug)]
pub(super) struct Query {
    pub(super) grid: Grid,
    pub(super) aggregate: Aggregate,
    /// What a row costs, ms, and whether that is paid at the end of its window.
    pub(super) row_ms: (f64, bool),
    pub(super) seed: u64,
}

impl Query {
    /// What the windows that count come to under each method.
    pub(super) fn answers(&self, methods: &[Method], stream: &Stream) -> Vec<Windows> {
        let config = Config {
            grid: self.grid,
            promise: PROMISE,
            aggregates: vec![self.aggregate],
            rule: Rule::Aion,
            verifies: false,
            seed: self.seed,
        };
        let rules: Vec<Rule> = methods.iter().map(|method| method.rule()).collect();
        let (from, to) = stream.counted;
        let of_method = |(&method, answers): (&Method, Vec<Answer>)| {
            let mut windows = Windows::default();
            for answer in answers.iter().filter(|answer| (from..=to).contains(&answer.end_ms)) {
                windows.add(answer, self.processing_ms(method, answer));
            }
            windows
        };
        methods.iter().zip(replay_each(&config, &rules, &stream.arrivals)).map(of_method).collect()
    }

    /// What is left to compute when a window may answer.
    fn processing_ms(&self, method: Method, answer: &Answer) -> f64 {
        let (row_ms, is_at_end) = self.row_ms;
        match method {
            Method::Default | Method::AqKSlack if !is_at_end => row_ms,
            _ => row_ms * answer.taken,
        }
    }
}

/// Does so many jobs, one at a time on each core; what they gave, in their order.
pub(super) fn on_all_cores<T: Send>(jobs: usize, job: impl Fn(usize) -> T + Sync) -> Vec<T> {
    let next = AtomicUsize::new(0);
    let work = || {
        let mut done = Vec::new();
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= jobs {
                return done;
            }
            done.push((number, job(number)));
        }
    };
    let cores = thread::available_parallelism().map_or(1, usize::from).min(jobs);
    let mut done: Vec<(usize, T)> = thread::scope(|scope| {
        let workers: Vec<_> = (0..cores).map(|_| scope.spawn(work)).collect();
        workers.into_iter().flat_map(|worker| worker.join().expect("no job panics")).collect()
    });
    done.sort_by_key(|(number, _)| *number);
    done.into_iter().map(|(_, what)| what).collect()
}

/// What windows of one method came to.
#[derive(Clone, Debug, Default)]
pub(super) struct Windows {
    latencies_ms: Vec<f64>,
    waits_ms: f64,
    errors: Vec<f64>,
    taken: f64,
    rows: f64,
    unbounded: usize,
    lies: usize,
}

impl Windows {
    fn add(&mut self, answer: &Answer, processing_ms: f64) {
        let wait_ms = (answer.at_ms - answer.end_ms).max(0) as f64;
        self.latencies_ms.push(wait_ms + processing_ms);
        self.waits_ms += wait_ms;
        self.errors.push(answer.error());
        self.taken += answer.taken;
        self.rows += answer.rows;
        let owns = answer.said() > PROMISE.error;
        self.unbounded += usize::from(owns);
        self.lies += usize::from(answer.error() > PROMISE.error && !owns);
    }

    fn add_all(&mut self, other: Windows) {
        self.latencies_ms.extend(other.latencies_ms);
        self.waits_ms += other.waits_ms;
        self.errors.extend(other.errors);
        self.taken += other.taken;
        self.rows += other.rows;
        self.unbounded += other.unbounded;
        self.lies += other.lies;
    }

    pub(super) fn sort(&mut self) {
        self.latencies_ms.sort_by(f64::total_cmp);
        self.errors.sort_by(f64::total_cmp);
    }

    pub(super) fn count(&self) -> usize {
        self.errors.len()
    }

    pub(super) fn mean_latency_ms(&self) -> f64 {
        mean(&self.latencies_ms)
    }

    pub(super) fn mean_wait_ms(&self) -> f64 {
        self.waits_ms / self.count() as f64
    }

    /// That of a share of the windows.
    pub(super) fn latency_ms(&self, share: f64) -> f64 {
        at(&self.latencies_ms, share)
    }

    pub(super) fn mean_error(&self) -> f64 {
        mean(&self.errors)
    }

    /// That of a share of the windows.
    pub(super) fn error(&self, share: f64) -> f64 {
        at(&self.errors, share)
    }

    pub(super) fn sampling_rate(&self) -> f64 {
        self.taken / self.rows
    }

    /// Windows whose own interval is wider than the bound.
    pub(super) fn unbounded(&self) -> usize {
        self.unbounded
    }

    /// Windows that said they kept the bound, and did not.
    pub(super) fn lies(&self) -> usize {
        self.lies
    }

    /// Share of the windows whose error is within the bound, whatever they say of themselves.
    pub(super) fn within(&self) -> f64 {
        self.errors.iter().filter(|error| **error <= PROMISE.error).count() as f64 / self.count() as f64
    }

    /// Wilson's 95 % interval of that share.
    pub(super) fn wilson(&self) -> (f64, f64) {
        wilson(self.within(), self.count() as f64)
    }
}

/// Wilson's 95 % interval of a share of so many (1927).
pub(super) fn wilson(share: f64, count: f64) -> (f64, f64) {
    const Z: f64 = 1.959_964;
    let square = Z * Z / count;
    let centre = (share + square / 2.0) / (1.0 + square);
    let reach = Z / (1.0 + square) * (share * (1.0 - share) / count + square / (4.0 * count)).sqrt();
    (centre - reach, centre + reach)
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

fn at(sorted: &[f64], share: f64) -> f64 {
    let place = ((sorted.len() as f64 * share).ceil() as usize).clamp(1, sorted.len());
    sorted[place - 1]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_give_what_they_give_in_order() {
        assert_eq!(on_all_cores(100, |number| number * number), (0..100).map(|n| n * n).collect::<Vec<_>>());
        assert!(on_all_cores(0, |number| number).is_empty());
    }

    #[test]
    fn wilsons_interval_by_hand() {
        // 95 of 100: (0.95 + 0.0192)/(1.0384) ± 1.96/1.0384·√(0.000475 + 0.0000960).
        let (low, high) = wilson(0.95, 100.0);
        assert!((low - 0.8882).abs() < 1e-3 && (high - 0.9785).abs() < 1e-3, "{low} {high}");
        let (low, _) = wilson(0.97, 2_000.0);
        assert!(low > 0.96);
    }
}
