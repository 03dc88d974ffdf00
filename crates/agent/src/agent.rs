//! One agent over all engines of a machine: what a round does and in which order, and when a policy is due.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::Arc;
use std::time::Duration;

use crate::clock::{own_cpu_ns, since_boot_ns, wall_ms};
use crate::exchange::Exchange;
use crate::linux::{Applier, Autogroup, Busy, Journal, JournalError, OWN_NICE, Watchdog, thread_ids};
use crate::metric::{Metric, MetricGraph, MissingMetric};
use crate::plan::{Change, Plan};
use crate::reader::Reader;
use crate::report::{Report, Row};
use crate::{
    Adapter, OPERATOR_GROUP, Policy, Ranges, Readings, Schedule, ThreadId, Topology, Translator, Wishes,
};

/// The loop of Lachesis' Algorithm 1 over several engines: refresh, read metrics, rank, translate, apply what changed.
///
/// Call [`Agent::round`] once a period, and [`Agent::finish`] at the end.
pub struct Agent {
    engines: Vec<Reader>,
    uses: Vec<PolicyUse>,
    translator: Translator,
    ranges: Ranges,
    jobs: Arc<[JobWish]>,
    /// `None` for a dry run.
    applier: Option<Applier>,
    watchdog: Option<Watchdog>,
    /// `None`: this machine is all there is.
    exchange: Option<Exchange>,
    busy: Busy,
    dry: Plan,
    notes: Vec<String>,
    rounds: u64,
}

/// An agent cannot begin.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    /// The policy and the engine do not go together. The user can fix it.
    #[error(transparent)]
    Metric(#[from] MissingMetric),
    /// The world failed.
    #[error("cannot start a thread to read an engine")]
    Thread(#[source] io::Error),
}

/// What a user asks for the jobs of a name.
#[derive(Clone, Debug, PartialEq)]
pub struct JobWish {
    /// The job's name, or its beginning before a `*`.
    pub name: String,
    /// What is asked.
    pub wishes: Wishes,
}

/// A policy and what it is for.
#[derive(Debug)]
pub struct PolicyUse {
    /// The policy.
    pub policy: Policy,
    /// Names of jobs as in [`JobWish`]; empty: all that no other use names.
    pub jobs: Vec<String>,
    /// How often it ranks.
    pub period: Duration,
    /// Only while this share of all cores is busy. The next use that fits stands in where it is not.
    pub above_busy: Option<f64>,
    due_ns: u64,
    is_on: bool,
    plan: Plan,
    schedule: Option<Schedule>,
}

/// Of the load at which a policy is switched to, it is left at this share: at one and the same load it would be
/// switched to and fro.
const HYSTERESIS: f64 = 0.9;

/// So long may an engine take to be seen for the first time: longer than a virtual machine has to show its threads.
const FIRST_PATIENCE: Duration = Duration::from_secs(15);

/// A round that begins so much before a policy is due counts as in time: sleeping is that exact.
const EARLY_NS: u64 = 5_000_000;

impl PolicyUse {
    /// For all jobs.
    pub fn new(policy: Policy, period: Duration) -> PolicyUse {
        PolicyUse {
            policy,
            jobs: Vec::new(),
            period,
            above_busy: None,
            due_ns: 0,
            is_on: true,
            plan: Plan::default(),
            schedule: None,
        }
    }

    fn names(&self, job: &str) -> bool {
        self.jobs.iter().any(|name| matches(name, job))
    }

    fn update_condition(&mut self, busy: Option<f64>) {
        let Some(bound) = self.above_busy else { return };
        let bound = if self.is_on { bound * HYSTERESIS } else { bound };
        // Not known yet: as on an idle machine.
        self.is_on = busy.is_some_and(|busy| busy > bound);
    }
}

/// What is asked for a job: by the first wish that fits.
pub(crate) fn wishes_of(jobs: &[JobWish], name: &str) -> Wishes {
    let wish = jobs.iter().find(|wish| matches(&wish.name, name));
    wish.map_or_else(Wishes::default, |wish| wish.wishes.clone())
}

fn matches(pattern: &str, name: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(beginning) => name.starts_with(beginning),
        None => pattern == name,
    }
}

impl Agent {
    /// Over these engines.
    ///
    /// # Errors
    /// If a policy needs a metric that an engine cannot give, or there can be no more threads.
    pub fn new(
        engines: Vec<Box<dyn Adapter>>,
        uses: Vec<PolicyUse>,
        jobs: Vec<JobWish>,
        translator: Translator,
        ranges: Ranges,
    ) -> Result<Agent, AgentError> {
        let mut made = Vec::new();
        for adapter in engines {
            let mut graph = MetricGraph::default();
            for used in &uses {
                graph.register(&used.policy.to_string(), &used.policy.needs(), &*adapter)?;
            }
            // What is only liked, or only shown, may be missing.
            let liked = uses.iter().flat_map(|used| used.policy.likes()).chain(SHOWN);
            for &metric in liked {
                let _ = graph.register("", &[metric], &*adapter);
            }
            made.push(Reader::start(adapter, graph).map_err(AgentError::Thread)?);
        }
        Ok(Agent {
            engines: made,
            uses,
            translator,
            ranges,
            jobs: jobs.into(),
            applier: None,
            watchdog: None,
            exchange: None,
            busy: Busy::default(),
            dry: Plan::default(),
            notes: Vec::new(),
            rounds: 0,
        })
    }

    /// Carries plans out from now on, instead of only making them.
    pub fn write_through(&mut self, applier: Applier) {
        self.applier = Some(applier);
    }

    /// Chooses nice values from here to there from now on.
    pub fn keep_nice_within(&mut self, best: i32, worst: i32) {
        self.ranges.nice = (best, worst);
    }

    /// Has real-time threads watched.
    pub fn watch_with(&mut self, watchdog: Watchdog) {
        self.watchdog = Some(watchdog);
    }

    /// Has jobs that span machines ranked by what their agents tell.
    pub fn exchange_with(&mut self, exchange: Exchange) {
        self.exchange = Some(exchange);
    }

    /// Says something to the user with the next report.
    pub fn note(&mut self, note: String) {
        self.notes.push(note);
    }

    /// What was noted since the last report.
    pub fn take_notes(&mut self) -> Vec<String> {
        std::mem::take(&mut self.notes)
    }

    /// Processes whose threads are scheduled, as of the last round.
    pub fn processes(&self) -> BTreeSet<u32> {
        self.engines.iter().flat_map(Reader::processes).collect()
    }

    /// How long between two rounds: what all periods are multiples of.
    pub fn period(&self) -> Duration {
        let gcd = |a: u64, b: u64| {
            let (mut a, mut b) = (a, b);
            while b > 0 {
                (a, b) = (b, a % b);
            }
            a
        };
        let periods = self.uses.iter().map(|used| used.period.as_millis() as u64);
        Duration::from_millis(periods.reduce(gcd).unwrap_or(1_000).max(10))
    }

    /// Looks at the engines again without planning: what can be done before anything is known to be permitted. An
    /// engine that takes long is seen as it was.
    pub fn look(&mut self) {
        // At first there is nothing to go on with but what the engines tell.
        let patience = if self.rounds <= 1 { FIRST_PATIENCE } else { self.period() / 2 };
        let until_ns = since_boot_ns() + patience.as_nanos() as u64;
        for engine in &mut self.engines {
            engine.ask(&self.jobs);
        }
        for engine in &mut self.engines {
            self.notes.extend(engine.wait(until_ns));
        }
    }

    /// One period.
    ///
    /// # Errors
    /// If the journal cannot be written. Nothing is changed then.
    pub fn round(&mut self) -> Result<Report, JournalError> {
        let started_ns = since_boot_ns();
        self.rounds += 1;
        self.look();
        let busy = self.busy.read();
        let (topology, mut readings) = self.read(busy);
        let mut neighbours = Vec::new();
        if let Some(exchange) = &mut self.exchange {
            self.notes.extend(exchange.round(&topology, &mut readings));
            neighbours = exchange.neighbours(&topology, readings.now_ns);
        }
        let plan = self.plan(&topology, &mut readings);
        let before = self.applier.as_ref().map_or(&self.dry, Applier::applied).clone();
        let (changes, failed) = self.carry_out(plan.clone())?;
        if let Some(watchdog) = &self.watchdog {
            let is_real_time = |(thread, setting): (&ThreadId, &crate::ThreadSetting)| {
                (setting.round_robin > Some(0)).then_some(*thread)
            };
            watchdog.feed(plan.threads.iter().filter_map(is_real_time).collect());
        }
        let rows = self.rows(&topology, &readings, &plan, &before);
        self.warn_of_unknown_jobs(&topology);
        Ok(Report {
            rows,
            policies: self
                .uses
                .iter()
                .filter(|used| used.is_on)
                .map(|used| used.policy.to_string())
                .collect(),
            translator: self.translator,
            is_dry: self.applier.is_none(),
            busy,
            engine_threads: plan.threads.len() - topology.threads().count().min(plan.threads.len()),
            changes,
            failed,
            neighbours,
            notes: std::mem::take(&mut self.notes),
            rounds: self.rounds,
            took: Duration::from_nanos(since_boot_ns() - started_ns),
            own_cpu: Duration::from_nanos(own_cpu_ns()),
        })
    }

    /// Puts everything back. `None` after a dry run.
    ///
    /// # Errors
    /// If the journal cannot be read.
    pub fn finish(self) -> Result<Option<crate::linux::Restored>, JournalError> {
        self.applier.map(Applier::finish).transpose()
    }

    fn read(&mut self, busy: Option<f64>) -> (Topology, Readings) {
        let now_ns = since_boot_ns();
        let mut topology = Topology::default();
        let mut readings = Readings::at(now_ns, wall_ms(), busy, self.ranges.cores);
        for engine in &self.engines {
            let last = engine.last();
            let (before, operators) = (topology.operators.len(), last.topology.operators.len());
            for metric in Metric::ALL {
                readings.append(metric, last.values(metric, now_ns), before, operators);
            }
            readings.append_age(last.age_ms(now_ns), before, operators);
            topology.append(&last.topology);
        }
        (topology, readings)
    }

    /// What each query's policy says of it, together.
    fn plan(&mut self, topology: &Topology, readings: &mut Readings) -> Plan {
        for used in &mut self.uses {
            used.update_condition(readings.busy);
        }
        let of_query: Vec<Option<usize>> = topology
            .queries
            .iter()
            .map(|query| {
                let fits = |used: &PolicyUse, named: bool| {
                    used.is_on && if named { used.names(&query.name) } else { used.jobs.is_empty() }
                };
                let place = |named: bool| self.uses.iter().position(|used| fits(used, named));
                place(true).or_else(|| place(false))
            })
            .collect();
        let service = self.service_threads(topology);
        let mut plan = Plan::default();
        for (place, used) in self.uses.iter_mut().enumerate() {
            let mut own = topology.clone();
            own.tasks.retain(|task| of_query[topology.operators[task.operators[0]].query] == Some(place));
            let tasks: BTreeSet<ThreadId> = own.threads().map(|thread| thread.id).collect();
            let is_known = tasks.iter().all(|thread| used.plan.threads.contains_key(thread));
            if readings.now_ns >= used.due_ns || !is_known || used.schedule.is_none() {
                used.due_ns = readings.now_ns + (used.period.as_nanos() as u64).saturating_sub(EARLY_NS);
                readings.horizon_ns = used.period.as_nanos() as u64;
                let schedule = used.policy.schedule(topology, readings);
                let is_blind = schedule.priorities.iter().all(Option::is_none);
                let ranges = if is_blind { &neutral(&self.ranges) } else { &self.ranges };
                used.plan = self.translator.plan(&own, &schedule, &[], ranges);
                used.schedule = Some(schedule);
            }
            plan.groups.extend(used.plan.groups.clone());
            let current = used.plan.threads.iter().filter(|(thread, _)| tasks.contains(thread));
            plan.threads.extend(current.map(|(thread, setting)| (*thread, setting.clone())));
        }
        let used: BTreeSet<&String> =
            plan.threads.values().filter_map(|setting| setting.group.as_ref()).collect();
        let keep =
            |name: &String| name == OPERATOR_GROUP || name == crate::SERVICE_GROUP || used.contains(name);
        let groups: BTreeMap<_, _> = plan.groups.iter().filter(|(name, _)| keep(name)).collect();
        let groups = groups.into_iter().map(|(name, setting)| (name.clone(), *setting)).collect();
        plan.groups = groups;
        let services = self.translator.plan(
            &Topology::default(),
            &Schedule { priorities: Vec::new(), scale: laxity_sched::Scale::Order },
            &service,
            &self.ranges,
        );
        plan.groups.extend(services.groups);
        for (thread, setting) in services.threads {
            plan.threads.entry(thread).or_insert(setting);
        }
        plan
    }

    /// Every thread of the engines' processes that is no operator's.
    fn service_threads(&self, topology: &Topology) -> Vec<ThreadId> {
        let operators: BTreeSet<ThreadId> = topology.threads().map(|thread| thread.id).collect();
        let of_process = |pid: u32| thread_ids(pid).unwrap_or_default();
        let all = self.processes().into_iter().flat_map(of_process);
        all.filter(|thread| !operators.contains(thread)).collect()
    }

    fn carry_out(&mut self, plan: Plan) -> Result<(Vec<Change>, Vec<String>), JournalError> {
        let processes = self.processes();
        let Some(applier) = &mut self.applier else {
            let changes = plan.changes_from(&self.dry);
            self.dry = plan;
            return Ok((changes, Vec::new()));
        };
        applier.keep(&processes);
        let mut failed: Vec<String> = Vec::new();
        for pid in processes {
            if let Err(error) = applier.attach(pid) {
                failed.push(format!("process {pid}: {}", chain(&error)));
            }
        }
        let applied = applier.apply(plan)?;
        failed.extend(
            applied.failed.iter().map(|failed| format!("{:?}: {}", failed.change, chain(&failed.error))),
        );
        Ok((applied.changes, failed))
    }

    fn rows(&self, topology: &Topology, readings: &Readings, plan: &Plan, before: &Plan) -> Vec<Row> {
        let mut rows = Vec::new();
        for task in &topology.tasks {
            let operator = task.operators[0];
            let known = &topology.operators[operator];
            let thread = &task.threads[0];
            let setting = plan.threads.get(&thread.id).cloned().unwrap_or_default();
            let used = self.uses.iter().find(|used| used.plan.threads.contains_key(&thread.id));
            let priority = used
                .and_then(|used| used.schedule.as_ref())
                .and_then(|schedule| schedule.priorities.get(operator).copied().flatten());
            let get = |metric| readings.get(metric, operator);
            rows.push(Row {
                job: topology.queries[known.query].name.clone(),
                operator: known.name.clone(),
                instance: task.instance,
                thread: thread.id,
                helpers: task.threads.len() - 1,
                queue_rows: get(Metric::QueueRows),
                rate: get(Metric::RateIn),
                cores: get(Metric::Cores),
                waiting: get(Metric::Waiting),
                cost_ns: get(Metric::Cost),
                watermark_lag_ms: get(Metric::WatermarkMs)
                    .filter(|ms| ms.abs() < 9e18)
                    .map(|ms| readings.wall_ms - ms),
                sample_age_ms: get(Metric::SampleAgeMs),
                priority,
                weight: setting
                    .group
                    .as_ref()
                    .and_then(|group| plan.groups.get(group))
                    .map(|group| group.weight),
                before: before.threads.get(&thread.id).cloned(),
                setting,
            });
        }
        rows
    }

    fn warn_of_unknown_jobs(&mut self, topology: &Topology) {
        if self.rounds != 1 {
            return;
        }
        for wish in &*self.jobs {
            if !topology.queries.iter().any(|query| matches(&wish.name, &query.name)) {
                let mut names: Vec<&str> = topology.queries.iter().map(|query| query.name.as_str()).collect();
                names.sort_unstable();
                self.notes.push(format!(
                    "no job is named {:?} yet; running: {}",
                    wish.name,
                    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
                ));
            }
        }
    }
}

/// Of equals each gets the best, but of those that nothing is known of none is to be before the engine's own threads.
fn neutral(ranges: &Ranges) -> Ranges {
    let (best, worst) = ranges.nice;
    let middle = (best + worst) / 2;
    Ranges { nice: (middle, middle), ..*ranges }
}

/// For the table and `/metrics`, whatever the policy.
const SHOWN: &[Metric] = &[
    Metric::QueueRows,
    Metric::RateIn,
    Metric::Waiting,
    Metric::Cores,
    Metric::Cost,
    Metric::WatermarkMs,
    Metric::SampleAgeMs,
];

/// An error and its causes in one line.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text += &format!(": {error}");
        cause = error.source();
    }
    text
}

/// What lets this very process act on a machine whose cores are all busy. When dropped, its session is as it was.
#[derive(Debug)]
pub(crate) struct OwnPriority {
    /// As it was, where it was raised.
    session: Option<Autogroup>,
}

impl OwnPriority {
    /// Beside the others of its session.
    pub fn raise() -> io::Result<OwnPriority> {
        rustix::process::setpriority_process(None, OWN_NICE)?;
        Ok(OwnPriority { session: None })
    }

    /// Its session beside others, which others may be in too: where the kernel makes such groups, nice values count
    /// inside them only. The journal is to be clear of what an agent before left.
    pub fn raise_session(&mut self, journal: &mut Journal) -> Result<(), JournalError> {
        // One that is so already is another agent's, who puts it back.
        let Some(session) = Autogroup::own().filter(|session| session.nice > OWN_NICE) else { return Ok(()) };
        journal.session(&session)?;
        if Autogroup::set_own_nice(OWN_NICE).is_ok() {
            self.session = Some(session);
        }
        Ok(())
    }
}

impl Drop for OwnPriority {
    fn drop(&mut self) {
        if let Some(session) = &self.session {
            let _ = session.put_back(OWN_NICE);
        }
    }
}

#[cfg(test)]
mod tests;
