//! Flink as an engine of the agent: jobs and metrics from its REST interface, threads from dumps, and the two brought
//! together.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use laxity_http::{Http, HttpError, Tls};
use serde::de::DeserializeOwned;

use super::answers::{
    ConfigEntry, DashboardConfig, Job, JobSummary, Jobs, Metric as Answer, TaskManager, TaskManagers,
    VertexDetails, VertexMetrics,
};
use super::matching::{Found, Matched, Wanted, match_threads};
use super::window::window_in;
use crate::adapter::{KernelTimes, Notes};
use crate::clock::{since_boot_ns, wall_ms};
use crate::linux::{
    executable_lines, listens_on, process_status, processes, thread_ids, thread_status, ticks_per_second,
};
use crate::metric::{Driver, Metric, Values};
use crate::topology::{Operator, Query, Task, ThreadId, Topology, Wishes};
use crate::{Adapter, AdapterError, jvm};

/// A Flink session cluster, read over REST, as far as its TaskManagers run on this machine.
///
/// Operators are job vertices: Flink counts rows of the operators chained in one, but tells one CPU time for all.
/// Metrics are read by polling at every refresh, because the JobManager answers from a cache that it fills only when
/// asked: the first answer after a silence is as old as the silence.
pub struct Flink {
    api: Box<dyn Api>,
    topology: Topology,
    /// By operator: job and vertex.
    origins: Vec<(String, String)>,
    metrics: HashMap<(String, String), VertexMetrics>,
    read_ms: f64,
    /// By operator key: since-boot ms at which its subtasks began to live, as the freshest answer has it.
    births: HashMap<Arc<str>, f64>,
    /// By operator key: since-boot ms at which it was asked for, and what it was.
    watermarks: HashMap<Arc<str>, (f64, Option<f64>)>,
    /// What the last scan was made for.
    shape: Vec<Shape>,
    pids: BTreeMap<String, Option<u32>>,
    /// When each known process started: its id may be another's by now.
    starts: BTreeMap<u32, u64>,
    /// The JobManager's process, if it is on this machine: all of its threads are the engine's own.
    manager: Option<u32>,
    notes: Notes,
    scan: Scan,
    dumps: jvm::Dumps,
    times: KernelTimes,
    /// By operator key: what the output watermarks of a source's chain are called.
    watermark_ids: HashMap<Arc<str>, String>,
    /// By operator key: what the count of the rows that a source makes is called, before others chained to it.
    made_ids: HashMap<Arc<str>, Option<String>>,
    /// Since-boot ms at which jobs ran and Flink told no metric of any.
    unmetered_ms: Option<f64>,
}

/// A job, by both answers on it.
struct Running {
    id: String,
    name: String,
    start_ms: i64,
    job: Job,
}

/// When threads are looked for again.
#[derive(Debug)]
struct Scan {
    is_complete: bool,
    wait_ms: f64,
    next_ms: f64,
}

/// What changes when a job is started, cancelled, rescaled or restarted.
type Shape = (String, Vec<(String, u32, i64, String)>);

/// Where answers are from.
pub(super) trait Api: fmt::Debug + Send {
    fn base(&self) -> &str;
    fn get(&self, path: &str) -> Result<String, HttpError>;
}

impl Api for Http {
    fn base(&self) -> &str {
        Http::shown(self)
    }

    fn get(&self, path: &str) -> Result<String, HttpError> {
        Http::get(self, path)
    }
}

/// Longer than any scheduling period that is meant to follow the load.
const SILENCE_MS: f64 = 5_000.0;

/// Shorter than the default period, so that each of its rounds sees a new one.
const WATERMARK_MS: f64 = 900.0;

/// Thread dumps stop the engine for a moment: while threads are missing they are asked for ever more seldom.
const SCAN_WAIT_MS: (f64, f64) = (1_000.0, 30_000.0);

/// So long are dumps waited for at a time. Reading the engine is not what a round waits for, but what it knows ages.
const DUMP_PATIENCE: Duration = Duration::from_secs(2);

/// Three times as long as Flink takes by default until it tells metrics of a new job.
const UNMETERED_MS: f64 = 30_000.0;

impl fmt::Debug for Flink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Flink").field("api", &self.api).finish_non_exhaustive()
    }
}

impl Flink {
    /// Of the JobManager at that address.
    ///
    /// # Errors
    /// If nothing answers there, or something else does.
    pub fn connect(url: &str, tls: &Tls) -> Result<Flink, AdapterError> {
        Flink::over(Box::new(Http::new(url, tls)))
    }

    pub(super) fn over(api: Box<dyn Api>) -> Result<Flink, AdapterError> {
        let mut flink = Flink {
            api,
            topology: Topology::default(),
            origins: Vec::new(),
            metrics: HashMap::new(),
            read_ms: f64::NEG_INFINITY,
            births: HashMap::new(),
            watermarks: HashMap::new(),
            shape: Vec::new(),
            pids: BTreeMap::new(),
            starts: BTreeMap::new(),
            manager: None,
            notes: Notes::default(),
            scan: Scan { is_complete: false, wait_ms: SCAN_WAIT_MS.0, next_ms: 0.0 },
            dumps: jvm::Dumps::default(),
            times: KernelTimes::default(),
            watermark_ids: HashMap::new(),
            made_ids: HashMap::new(),
            unmetered_ms: None,
        };
        let config: DashboardConfig = flink.ask("/config")?;
        flink.notes.say(format!("Flink {} at {}", config.flink_version, flink.api.base()));
        // Only since 1.12, and hidden where the configuration is held secret; it is read for a hint only.
        if let Ok(entries) = flink.ask::<Vec<ConfigEntry>>("/jobmanager/config") {
            flink.check_interval(&entries);
        }
        Ok(flink)
    }

    fn check_interval(&mut self, entries: &[ConfigEntry]) {
        const KEY: &str = "metrics.fetcher.update-interval";
        let given = entries.iter().find(|entry| entry.key == KEY).map_or("10000", |entry| &entry.value);
        match laxity_text::parse_flink_duration(given) {
            Ok(Duration::ZERO) => self.notes.say(format!(
                "metrics are switched off ({KEY}: 0): only policies that need none can rank, such as static and random"
            )),
            Ok(interval) if interval > Duration::from_secs(2) => self.notes.say(format!(
                "Flink renews its metrics every {} only; set {KEY}: 1000 in its configuration for ranks that follow \
                 the load",
                laxity_text::duration_text(interval)
            )),
            _ => {}
        }
    }

    fn ask<T: DeserializeOwned>(&self, path: &str) -> Result<T, HttpError> {
        let body = self.api.get(path)?;
        serde_json::from_str(&body).map_err(|source| HttpError::Strange {
            url: format!("{}{path}", self.api.base()),
            expected: "Flink's JobManager".to_owned(),
            source,
        })
    }

    fn jobs(&self) -> Result<Vec<Running>, HttpError> {
        let mut running: Vec<_> = self.ask::<Jobs>("/jobs/overview")?.jobs;
        // What takes long to end goes on as it was: its threads are not the engine's own.
        let has_threads = ["RUNNING", "RESTARTING", "FAILING", "CANCELLING"];
        running.retain(|job| has_threads.contains(&job.state.as_str()));
        running.sort_by(|a, b| a.jid.cmp(&b.jid));
        let mut jobs = Vec::new();
        for summary in running {
            match self.ask::<Job>(&format!("/jobs/{}", summary.jid)) {
                Ok(job) => {
                    let JobSummary { jid: id, name, start_ms, .. } = summary;
                    jobs.push(Running { id, name, start_ms, job });
                }
                // It ended between the two questions.
                Err(HttpError::Refused { status: 404, .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(jobs)
    }

    /// Which subtasks there are, where, and which threads run them.
    fn find_threads(
        &mut self,
        jobs: &[Running],
        wishes: &dyn Fn(&str) -> Wishes,
    ) -> Result<(), AdapterError> {
        let managers = self.ask::<TaskManagers>("/taskmanagers")?.taskmanagers;
        self.find_processes(&managers);
        let Layout { mut topology, origins, wanted, owners } = self.layout(jobs, wishes)?;
        let pids: BTreeSet<u32> = wanted.iter().map(|task| task.pid).collect();
        let (mut found, mut failure) = (Vec::new(), None);
        let mut dumps = self.dumps.read(pids.iter().copied(), DUMP_PATIENCE);
        let mut unread = BTreeSet::new();
        for &pid in &pids {
            match dumps.remove(&pid) {
                Some(Ok(named)) => found.extend(with_starts(pid, named)),
                Some(Err(error)) => {
                    unread.insert(pid);
                    failure = Some(error);
                }
                None => {
                    unread.insert(pid);
                    self.notes.say(format!(
                        "TaskManager process {pid} takes long to show its threads; those known of it stay as they are"
                    ));
                }
            }
        }
        if let Some(error) = failure {
            if unread.len() == pids.len() {
                return Err(error.into());
            }
            self.notes.say(error.to_string());
        }
        let mut matched = match_threads(&wanted, &found);
        self.keep_known(&mut matched, &wanted, &owners, &topology, &unread);
        self.report(&matched, &wanted, &owners, &topology);
        self.scan.is_complete = unread.is_empty()
            && !matched.threads.iter().any(Vec::is_empty)
            && jobs.iter().all(|running| running.job.vertices.iter().all(|v| v.status == "RUNNING"));
        for ((operator, instance), threads) in owners.into_iter().zip(matched.threads) {
            if !threads.is_empty() {
                topology.tasks.push(Task {
                    operators: vec![operator],
                    instance,
                    threads,
                    timer_slack_ns: None,
                });
            }
        }
        let is_known = |key: &Arc<str>| topology.operators.iter().any(|operator| operator.key == *key);
        self.births.retain(|key, _| is_known(key));
        self.watermarks.retain(|key, _| is_known(key));
        self.watermark_ids.retain(|key, _| is_known(key));
        self.made_ids.retain(|key, _| is_known(key));
        (self.topology, self.origins) = (topology, origins);
        Ok(())
    }

    /// Jobs, vertices and the subtasks that run on this machine, as REST describes them.
    fn layout(&self, jobs: &[Running], wishes: &dyn Fn(&str) -> Wishes) -> Result<Layout, AdapterError> {
        let mut layout = Layout::default();
        let topology = &mut layout.topology;
        for Running { id: jid, name, start_ms, job } in jobs {
            let first = topology.operators.len();
            let query = topology.queries.len();
            let wishes = wishes(name);
            // The same for agents that reach the JobManager by other addresses. Clusters that run one application each
            // use one and the same id.
            let key = format!("{jid}@{start_ms}");
            topology.queries.push(Query {
                key: key.clone().into(),
                name: name.clone(),
                wishes: wishes.clone(),
            });
            for vertex in &job.vertices {
                let details = match self.ask(&format!("/jobs/{jid}/vertices/{}", vertex.id)) {
                    Ok(details) => details,
                    // The job ended meanwhile.
                    Err(HttpError::Refused { status: 404, .. }) => VertexDetails { subtasks: Vec::new() },
                    Err(error) => return Err(error.into()),
                };
                let attempt = details.subtasks.iter().map(|subtask| subtask.attempt).max().unwrap_or(0);
                let node = job.plan.nodes.iter().find(|node| node.id == vertex.id);
                let inputs = node.map_or(&[][..], |node| &node.inputs);
                let place =
                    |id: &str| job.vertices.iter().position(|other| other.id == id).map(|p| first + p);
                let given = wishes.window.filter(|_| vertex.name.contains("Window"));
                let operator = topology.operators.len();
                topology.operators.push(Operator {
                    key: format!("{key}/{}#{attempt}", vertex.id).into(),
                    name: vertex.name.clone(),
                    query,
                    upstream: inputs.iter().filter_map(|input| place(&input.id)).collect(),
                    window: node.and_then(|node| window_in(&node.description)).or(given),
                    instances: vertex.parallelism,
                });
                layout.origins.push((jid.clone(), vertex.id.clone()));
                for subtask in &details.subtasks {
                    let has_thread = ["DEPLOYING", "INITIALIZING", "RUNNING", "CANCELING"];
                    let runs = has_thread.contains(&subtask.status.as_str());
                    let pid = self.pids.get(&subtask.taskmanager_id).copied().flatten();
                    let (true, Some(pid)) = (runs, pid) else { continue };
                    layout.owners.push((operator, subtask.subtask));
                    layout.wanted.push(Wanted {
                        vertex: vertex.name.clone(),
                        subtask: subtask.subtask,
                        parallelism: vertex.parallelism,
                        attempt: subtask.attempt,
                        start_ms: subtask.start_ms,
                        pid,
                    });
                }
            }
        }
        Ok(layout)
    }

    /// Of a TaskManager that does not show its threads now, what it showed before.
    fn keep_known(
        &self,
        matched: &mut Matched,
        wanted: &[Wanted],
        owners: &[(usize, u32)],
        topology: &Topology,
        unread: &BTreeSet<u32>,
    ) {
        for (place, task) in wanted.iter().enumerate().filter(|(_, task)| unread.contains(&task.pid)) {
            let (operator, instance) = owners[place];
            let key = &topology.operators[operator].key;
            let known = self.topology.tasks.iter().find(|known| {
                known.instance == instance && self.topology.operators[known.operators[0]].key == *key
            });
            let threads = known.iter().flat_map(|known| &known.threads);
            let threads = threads.filter(|thread| thread.id.pid == task.pid && !is_gone(thread.id));
            matched.threads[place] = threads.cloned().collect();
        }
    }

    fn find_processes(&mut self, managers: &[TaskManager]) {
        let gone: Vec<u32> = self.starts.keys().copied().filter(|&pid| !self.is_same(pid)).collect();
        self.starts.retain(|pid, _| !gone.contains(pid));
        self.manager = self.manager.filter(|pid| !gone.contains(pid));
        self.pids.retain(|id, pid| {
            managers.iter().any(|manager| manager.id == *id) && pid.is_none_or(|pid| !gone.contains(&pid))
        });
        let unknown: Vec<&TaskManager> =
            managers.iter().filter(|manager| !matches!(self.pids.get(&manager.id), Some(Some(_)))).collect();
        if unknown.is_empty() {
            return;
        }
        let candidates: Vec<(u32, bool)> = processes()
            .into_iter()
            .filter(|&pid| jvm::is_java(pid))
            .map(|pid| (pid, executable_lines(pid).iter().any(|argument| is_task_manager(argument))))
            .collect();
        let port = port_of(self.api.base());
        self.manager =
            candidates.iter().map(|(pid, _)| *pid).find(|&pid| listens_on(pid, &[port]) == Some(true));
        let only = match candidates.iter().filter(|(_, is_manager)| *is_manager).collect::<Vec<_>>()[..] {
            [(pid, _)] if managers.len() == 1 => Some(*pid),
            _ => None,
        };
        for manager in unknown {
            let ports = manager.ports();
            let listener = candidates.iter().find(|(pid, _)| listens_on(*pid, &ports) == Some(true));
            // Whose sockets cannot be seen is taken for it where there is no other.
            let pid = listener.map(|(pid, _)| *pid).or(only);
            if pid.is_none() {
                let id = &manager.id;
                self.notes.say(format!("TaskManager {id} is not on this machine; its tasks are left alone"));
            }
            self.pids.insert(manager.id.clone(), pid);
        }
        for pid in self.pids.values().copied().flatten().chain(self.manager) {
            if let Ok(status) = process_status(pid) {
                self.starts.entry(pid).or_insert(status.started_ticks);
            }
        }
    }

    fn is_same(&self, pid: u32) -> bool {
        let started = self.starts.get(&pid);
        process_status(pid).is_ok_and(|status| started == Some(&status.started_ticks))
    }

    fn report(&mut self, matched: &Matched, wanted: &[Wanted], owners: &[(usize, u32)], topology: &Topology) {
        if let Some(&place) = matched.uncertain.first() {
            let query = &topology.queries[topology.operators[owners[place].0].query];
            self.notes.say(format!(
                "{} tasks bear names that others of jobs started at the same moment bear too, first {:?} of {}: which \
                 of their threads is whose is a guess",
                matched.uncertain.len(),
                wanted[place].vertex,
                query.name
            ));
        }
    }

    fn take_metrics(&mut self, jobs: &[Running]) {
        let now_ms = since_boot_ns() as f64 / 1e6;
        // After a silence the answer is as old as that: it only makes Flink look again.
        let is_fresh = now_ms - self.read_ms < SILENCE_MS;
        self.read_ms = now_ms;
        self.metrics.clear();
        let mut is_told = jobs.is_empty();
        for running in jobs.iter().filter(|_| is_fresh) {
            for vertex in &running.job.vertices {
                let metrics = vertex.metrics.clone();
                is_told |= metrics.read_records_complete || metrics.write_records_complete;
                self.metrics.insert((running.id.clone(), vertex.id.clone()), metrics);
            }
        }
        if is_told {
            self.unmetered_ms = None;
        } else if now_ms - *self.unmetered_ms.get_or_insert(now_ms) > UNMETERED_MS {
            self.notes.say(format!(
                "Flink has told no metric of any job for {} s: policies that follow the load give all operators the \
                 middle; policies by deadline, static and random need none (is metrics.fetcher.update-interval 0?)",
                UNMETERED_MS / 1e3
            ));
        }
    }

    fn metric(&self, operator: usize) -> Option<&VertexMetrics> {
        self.metrics.get(&self.origins[operator])
    }

    /// Rows that a source made. What leaves a vertex may be a few sums of what its source made, or nothing; then the
    /// source's own counter tells.
    fn rows_made(&mut self, operator: usize) -> Option<f64> {
        let metrics = self.metric(operator)?;
        if !metrics.write_records_complete {
            return None;
        }
        let written = metrics.write_records;
        let this = &self.topology.operators[operator];
        let is_alone = !self.topology.operators.iter().any(|other| other.upstream.contains(&operator));
        if !is_alone && !this.name.contains(" -> ") {
            return Some(written);
        }
        let key = this.key.clone();
        let (jid, vid) = &self.origins[operator];
        let path = format!("/jobs/{jid}/vertices/{vid}/subtasks/metrics");
        let id = match self.made_ids.get(&key) {
            Some(id) => id.clone(),
            None => {
                let all: Vec<Answer> = self.ask(&path).ok()?;
                let mut counters =
                    all.iter().filter(|answer| answer.id.ends_with(".numRecordsOut")).peekable();
                // None are told while the task begins.
                counters.peek()?;
                let own = counters.find(|answer| answer.id.starts_with("Source"));
                let id = own.map(|own| escaped(&own.id));
                self.made_ids.insert(key, id.clone());
                id
            }
        };
        match id {
            Some(id) => self.ask::<Vec<Answer>>(&format!("{path}?get={id}&agg=sum")).ok()?.first()?.sum,
            None => (!is_alone).then_some(written),
        }
    }

    /// The least input watermark of a vertex's subtasks, and of a source its output watermark. Asked of windows and
    /// sinks, which are what a rank looks at, and of what sends to a window on another machine, whose agent is told; and
    /// not oftener than [`WATERMARK_MS`]: it takes a request each.
    fn watermark(&mut self, operator: usize) -> Option<f64> {
        let this = &self.topology.operators[operator];
        let is_source = this.upstream.is_empty();
        let is_sink = !self.topology.operators.iter().any(|other| other.upstream.contains(&operator));
        if is_source || this.window.is_none() && !is_sink {
            let here = self.topology.runs_here();
            let mut others = self.topology.operators.iter().enumerate();
            let sends = others.any(|(place, other)| {
                other.window.is_some() && !here[place] && other.upstream.contains(&operator)
            });
            if !(sends && here[operator]) {
                return None;
            }
        }
        let key = this.key.clone();
        let now_ms = since_boot_ns() as f64 / 1e6;
        if let Some(&(at_ms, known)) = self.watermarks.get(&key)
            && now_ms - at_ms < WATERMARK_MS
        {
            return known;
        }
        let least =
            if is_source { self.output_watermark(operator)? } else { self.input_watermark(operator)? };
        self.watermarks.insert(key, (now_ms, least));
        least
    }

    /// `None`: Flink did not answer.
    fn input_watermark(&self, operator: usize) -> Option<Option<f64>> {
        let (jid, vid) = &self.origins[operator];
        let answers: Vec<Answer> = self.ask(&format!("/jobs/{jid}/vertices/{vid}/watermarks")).ok()?;
        Some(answers.iter().filter_map(|answer| answer.value.as_ref()?.parse().ok()).reduce(f64::min))
    }

    /// The least of those that the operators of a chain let out. Those before the one that makes watermarks let out
    /// none, which Flink tells as −2⁶³.
    fn output_watermark(&mut self, operator: usize) -> Option<Option<f64>> {
        let (jid, vid) = &self.origins[operator];
        let path = format!("/jobs/{jid}/vertices/{vid}/subtasks/metrics");
        let key = &self.topology.operators[operator].key;
        let ids = match self.watermark_ids.get(key) {
            Some(ids) => ids.clone(),
            None => {
                let all: Vec<Answer> = self.ask(&path).ok()?;
                let ids = all.iter().filter(|answer| answer.id.ends_with(".currentOutputWatermark"));
                let ids = ids.map(|answer| escaped(&answer.id)).collect::<Vec<_>>().join(",");
                if ids.is_empty() {
                    return Some(None);
                }
                self.watermark_ids.insert(key.clone(), ids.clone());
                ids
            }
        };
        let answers: Vec<Answer> = self.ask(&format!("{path}?get={ids}&agg=min")).ok()?;
        Some(answers.iter().filter_map(|answer| answer.min).filter(|ms| ms.abs() < 9e18).reduce(f64::min))
    }

    /// How long its subtasks had run, on average, when the counters were read: a clock that stands while Flink answers
    /// from its cache.
    fn lived_ms(&self, operator: usize) -> Option<f64> {
        let parallelism = self.topology.tasks.iter().filter(|task| task.operators == [operator]).count();
        Some(self.metric(operator)?.lived_ms()? / parallelism.max(1) as f64)
    }

    /// How old the counters are, against the freshest that were ever seen of this operator.
    fn age_ms(&mut self, operator: usize) -> Option<f64> {
        let lived_ms = self.lived_ms(operator)?;
        let born_ms = since_boot_ns() as f64 / 1e6 - lived_ms;
        let birth = self.births.entry(self.topology.operators[operator].key.clone()).or_insert(born_ms);
        *birth = birth.min(born_ms);
        Some(born_ms - *birth)
    }
}

/// The id of a metric, as an address takes it.
fn escaped(id: &str) -> String {
    id.replace('[', "%5B").replace(']', "%5D").replace(' ', "%20")
}

/// The port in an address, or that of its scheme.
fn port_of(url: &str) -> u16 {
    let host = url.split_once("://").map_or(url, |(_, rest)| rest).split('/').next().unwrap_or("");
    let default = if url.starts_with("https:") { 443 } else { 80 };
    host.rsplit_once(':').and_then(|(_, port)| port.parse().ok()).unwrap_or(default)
}

/// The class of a TaskManager in every way to deploy one.
fn is_task_manager(argument: &str) -> bool {
    argument.ends_with("TaskManagerRunner") || argument.ends_with("TaskExecutorRunner")
}

/// Operators of all jobs, and what of them runs here.
#[derive(Default)]
struct Layout {
    topology: Topology,
    origins: Vec<(String, String)>,
    wanted: Vec<Wanted>,
    /// By subtask wanted: operator and instance.
    owners: Vec<(usize, u32)>,
}

/// The named threads of a TaskManager with the times at which they started.
fn with_starts(pid: u32, named: Vec<jvm::JavaThread>) -> Vec<Found> {
    let ids: HashMap<u32, _> =
        thread_ids(pid).unwrap_or_default().into_iter().map(|id| (id.tid, id)).collect();
    let boot_ms = wall_ms() - since_boot_ns() as f64 / 1e6;
    let tick_ms = 1_000.0 / ticks_per_second() as f64;
    let found = named.into_iter().filter_map(|thread| {
        let id = *ids.get(&thread.tid)?;
        let start_ms = (boot_ms + id.started_ticks as f64 * tick_ms) as i64;
        Some(Found { id, name: thread.name, start_ms })
    });
    found.collect()
}

fn is_gone(id: ThreadId) -> bool {
    thread_status(id.pid, id.tid).map_or(true, |status| status.started_ticks != id.started_ticks)
}

impl Driver for Flink {
    fn engine(&self) -> &str {
        "Flink"
    }

    fn provides(&self, metric: Metric) -> bool {
        matches!(
            metric,
            Metric::RowsIn
                | Metric::RowsOut
                | Metric::CpuNs
                | Metric::RunDelayNs
                | Metric::SampledMs
                | Metric::SampleAgeMs
                | Metric::WatermarkMs
        )
    }

    fn read(&mut self, metric: Metric, topology: &Topology) -> Values {
        let operators = 0..topology.operators.len();
        match metric {
            Metric::RowsIn => operators
                .map(|o| {
                    if topology.operators[o].upstream.is_empty() {
                        return self.rows_made(o);
                    }
                    self.metric(o).filter(|metrics| metrics.read_records_complete).map(|m| m.read_records)
                })
                .collect(),
            Metric::RowsOut => operators
                .map(|o| self.metric(o).filter(|m| m.write_records_complete).map(|m| m.write_records))
                .collect(),
            Metric::SampledMs => operators.map(|o| self.lived_ms(o)).collect(),
            Metric::SampleAgeMs => operators.map(|o| self.age_ms(o)).collect(),
            Metric::WatermarkMs => operators.map(|o| self.watermark(o)).collect(),
            _ => self.times.values(metric, topology).unwrap_or_default(),
        }
    }
}

impl Adapter for Flink {
    fn refresh(&mut self, wishes: &dyn Fn(&str) -> Wishes) -> Result<bool, AdapterError> {
        self.times.on_refresh();
        let jobs = self.jobs()?;
        self.take_metrics(&jobs);
        let shape: Vec<Shape> = jobs
            .iter()
            .map(|running| {
                let vertex =
                    |v: &super::answers::Vertex| (v.id.clone(), v.parallelism, v.start_ms, v.status.clone());
                (running.id.clone(), running.job.vertices.iter().map(vertex).collect())
            })
            .collect();
        if shape != self.shape {
            self.shape = shape;
            self.scan = Scan { is_complete: false, wait_ms: SCAN_WAIT_MS.0, next_ms: 0.0 };
        } else if self.scan.is_complete && self.topology.threads().any(|thread| is_gone(thread.id)) {
            self.scan.is_complete = false;
            self.scan.wait_ms = SCAN_WAIT_MS.0;
        }
        let now_ms = since_boot_ns() as f64 / 1e6;
        if self.scan.is_complete || now_ms < self.scan.next_ms {
            return Ok(false);
        }
        self.scan.next_ms = now_ms + self.scan.wait_ms;
        self.scan.wait_ms = (self.scan.wait_ms * 2.0).min(SCAN_WAIT_MS.1);
        let before = self.topology.clone();
        self.find_threads(&jobs, wishes)?;
        Ok(self.topology != before)
    }

    fn topology(&self) -> &Topology {
        &self.topology
    }

    fn processes(&self) -> BTreeSet<u32> {
        let known = self.pids.values().copied().flatten().chain(self.manager);
        known.filter(|&pid| self.is_same(pid)).collect()
    }

    fn notes(&mut self) -> Vec<String> {
        self.notes.take()
    }
}

#[cfg(test)]
mod tests;
