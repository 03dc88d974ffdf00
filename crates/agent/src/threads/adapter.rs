//! An engine of named threads as the agent sees it: jobs and operators are what its thread names say.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

use laxity_http::{Http, Tls};

use super::graphite::Graphite;
use super::series::{Sums, parse_prometheus, sum};
use super::{Names, ThreadsSpec};
use crate::adapter::{KernelTimes, Notes};
use crate::clock::since_boot_ns;
use crate::linux::{executable_lines, processes, thread_ids, thread_name, ticks_per_second};
use crate::metric::{Driver, Metric, Values};
use crate::topology::{Operator, Query, Task, Thread, ThreadId, Topology, Wishes};
use crate::{Adapter, AdapterError, jvm};

/// An engine read by its threads' names, and by the metrics it shows or pushes, if any.
#[derive(Debug)]
pub struct ThreadsEngine {
    spec: ThreadsSpec,
    topology: Topology,
    /// By operator: job and name.
    names: Vec<(String, String)>,
    processes: BTreeMap<u32, Process>,
    prometheus: Option<(Http, String)>,
    graphite: Option<Graphite>,
    sums: Sums,
    sampled_ms: f64,
    notes: Notes,
    dumps: jvm::Dumps,
    times: KernelTimes,
}

#[derive(Debug, Default)]
struct Process {
    query: Option<String>,
    /// As of the last look.
    threads: BTreeMap<ThreadId, String>,
    next_ms: f64,
    wait_ms: f64,
}

/// A thread has the name of the one that started it until it gives itself its own.
const NAMELESS_MS: f64 = 10_000.0;

/// As for Flink.
const DUMP_PATIENCE: Duration = Duration::from_secs(2);

/// As for Flink: thread dumps stop a virtual machine for a moment.
const DUMP_WAIT_MS: (f64, f64) = (1_000.0, 30_000.0);

impl ThreadsEngine {
    /// Begins to read it.
    ///
    /// # Errors
    /// If the address for Graphite is taken.
    pub fn start(spec: ThreadsSpec) -> Result<ThreadsEngine, AdapterError> {
        let mut notes = Notes::default();
        let graphite = match spec.graphite {
            None => None,
            Some(address) => {
                let graphite = Graphite::listen(address).map_err(|error| {
                    AdapterError::Absent(format!("cannot listen for Graphite at {address}: {error}"))
                })?;
                notes.say(format!("{} is to push to Graphite at {}", spec.name, graphite.address()));
                Some(graphite)
            }
        };
        if let Some(slack) = spec.timer_slack {
            notes.say(format!(
                "timers of {}'s operator threads may fire {:?} late: idle, they poll (timer_slack in the file)",
                spec.name, slack
            ));
        }
        let prometheus = spec.prometheus.as_deref().map(|url| {
            let path = url.find("://").and_then(|at| url[at + 3..].find('/').map(|slash| at + 3 + slash));
            let (base, path) = path.map_or((url, "/metrics"), |at| url.split_at(at));
            (Http::new(base, &Tls::default()), path.to_owned())
        });
        Ok(ThreadsEngine {
            spec,
            topology: Topology::default(),
            names: Vec::new(),
            processes: BTreeMap::new(),
            prometheus,
            graphite,
            sums: Sums::new(),
            sampled_ms: 0.0,
            notes,
            dumps: jvm::Dumps::default(),
            times: KernelTimes::default(),
        })
    }

    fn find_processes(&mut self) {
        let own = std::process::id();
        let mut found = BTreeMap::new();
        let is_candidate = |&pid: &u32| pid != own && (self.spec.names == Names::Linux || jvm::is_java(pid));
        for pid in processes().into_iter().filter(is_candidate) {
            let line = executable_lines(pid).join(" ");
            let Some(groups) = self.spec.process.captures(&line) else { continue };
            let query = groups.name("query").map(|query| query.as_str().to_owned());
            let known = self.processes.remove(&pid).filter(|known| known.query == query);
            found.insert(pid, known.unwrap_or(Process { query, ..Process::default() }));
        }
        self.processes = found;
        if self.processes.is_empty() {
            self.notes.say(format!("no process of {} runs here yet ({})", self.spec.name, self.spec.process));
        }
    }

    /// Brings the names of threads up to date. A process that does not show its own does not hide those of others.
    fn find_threads(&mut self) -> Result<(), AdapterError> {
        let mut due = BTreeMap::new();
        let now_ms = since_boot_ns() as f64 / 1e6;
        for (&pid, process) in &mut self.processes {
            // It may end at any time, and then has no threads.
            let ids = thread_ids(pid).unwrap_or_default();
            process.threads.retain(|thread, _| ids.contains(thread));
            let is_new = ids.iter().any(|id| !process.threads.contains_key(id));
            match self.spec.names {
                Names::Linux => {
                    for id in ids {
                        let born_ms = id.started_ticks as f64 * 1_000.0 / ticks_per_second() as f64;
                        if !process.threads.contains_key(&id) || now_ms - born_ms < NAMELESS_MS {
                            process.threads.insert(id, thread_name(id).unwrap_or_default());
                        }
                    }
                }
                Names::Jvm if is_new && now_ms >= process.next_ms => {
                    process.wait_ms = (process.wait_ms * 2.0).clamp(DUMP_WAIT_MS.0, DUMP_WAIT_MS.1);
                    process.next_ms = now_ms + process.wait_ms;
                    due.insert(pid, ids);
                }
                Names::Jvm => {
                    if !is_new {
                        process.wait_ms = 0.0;
                    }
                }
            }
        }
        let mut failure = None;
        for (pid, named) in self.dumps.read(due.keys().copied(), DUMP_PATIENCE) {
            let ids = due.remove(&pid).unwrap_or_default();
            let named = match named {
                Ok(named) => named,
                Err(error) => {
                    failure = Some(error);
                    continue;
                }
            };
            let mut named: HashMap<u32, String> =
                named.into_iter().map(|thread| (thread.tid, thread.name)).collect();
            let Some(process) = self.processes.get_mut(&pid) else { continue };
            for id in ids {
                // Threads that the machine does not show are its own.
                let name = named.remove(&id.tid).unwrap_or_default();
                process.threads.insert(id, name);
            }
        }
        for pid in due.keys() {
            self.notes.say(format!("process {pid} of {} takes long to show its threads", self.spec.name));
        }
        failure.map_or(Ok(()), |error| Err(error.into()))
    }

    /// The operators and tasks that the names tell.
    fn assemble(&mut self, wishes: &dyn Fn(&str) -> Wishes) -> bool {
        let mut topology = Topology::default();
        let mut names: Vec<(String, String)> = Vec::new();
        let mut next_instance: HashMap<usize, u32> = HashMap::new();
        for process in self.processes.values() {
            for (&id, name) in &process.threads {
                let Some(groups) = self.spec.thread.captures(name) else { continue };
                let group = |name: &str| groups.name(name).map(|found| found.as_str().to_owned());
                let query = group("query").or_else(|| process.query.clone());
                let query = query.unwrap_or_else(|| self.spec.query.clone());
                let fused = group("operator").unwrap_or_else(|| name.clone());
                let operators: Vec<usize> = fused
                    .split(" -> ")
                    .map(|operator| place(&mut names, (query.clone(), operator.trim().to_owned())))
                    .collect();
                let counted = next_instance.entry(operators[0]).or_default();
                let instance = group("instance").and_then(|text| text.parse().ok()).unwrap_or(*counted);
                *counted += 1;
                let threads = vec![Thread { id, name: name.clone() }];
                let timer_slack_ns = self.spec.timer_slack.map(|slack| slack.as_nanos() as u64);
                topology.tasks.push(Task { operators, instance, threads, timer_slack_ns });
            }
        }
        self.add_named_by_edges(&mut names);
        let mut instances = vec![0; names.len()];
        topology.tasks.iter().flat_map(|task| &task.operators).for_each(|&operator| instances[operator] += 1);
        for (at, (query, operator)) in names.iter().enumerate() {
            let key = format!("{}/{query}", self.spec.name);
            let known = topology.queries.iter().position(|known| *known.key == *key);
            let place = known.unwrap_or_else(|| {
                let wishes = wishes(query);
                topology.queries.push(Query { key: key.clone().into(), name: query.clone(), wishes });
                topology.queries.len() - 1
            });
            let feeds =
                |other: &String| self.spec.edges.iter().any(|(from, to)| from == other && to == operator);
            let upstream = names.iter().enumerate().filter(|(_, (of, other))| of == query && feeds(other));
            topology.operators.push(Operator {
                key: format!("{key}/{operator}").into(),
                name: operator.clone(),
                query: place,
                upstream: upstream.map(|(place, _)| place).collect(),
                window: topology.queries[place]
                    .wishes
                    .window
                    .filter(|_| operator.to_lowercase().contains("window")),
                instances: instances[at],
            });
        }
        let is_changed = topology != self.topology;
        (self.topology, self.names) = (topology, names);
        is_changed
    }

    /// Operators that edges lead to or come from, and that run on other machines: what their agents tell has a place.
    fn add_named_by_edges(&self, names: &mut Vec<(String, String)>) {
        let mut next = 0;
        while let Some((query, operator)) = names.get(next).cloned() {
            next += 1;
            for (from, to) in &self.spec.edges {
                if *from == operator {
                    place(names, (query.clone(), to.clone()));
                } else if *to == operator {
                    place(names, (query.clone(), from.clone()));
                }
            }
        }
    }

    fn read_metrics(&mut self) -> Result<(), AdapterError> {
        let mut sums = Sums::new();
        if let Some((http, path)) = &self.prometheus {
            let samples = parse_prometheus(&http.get(path)?);
            sums = sum(&self.spec.metrics, samples.iter().map(|(series, value)| (series.as_str(), *value)));
        }
        if let Some(graphite) = &self.graphite {
            let values = graphite.values();
            sums.extend(sum(
                &self.spec.metrics,
                values.iter().map(|(series, value)| (series.as_str(), *value)),
            ));
        }
        self.sums = sums;
        self.sampled_ms = since_boot_ns() as f64 / 1e6;
        Ok(())
    }
}

/// Where a name stands, which is at the end if it is new.
fn place(names: &mut Vec<(String, String)>, name: (String, String)) -> usize {
    names.iter().position(|known| *known == name).unwrap_or_else(|| {
        names.push(name);
        names.len() - 1
    })
}

impl Driver for ThreadsEngine {
    fn engine(&self) -> &str {
        &self.spec.name
    }

    fn provides(&self, metric: Metric) -> bool {
        matches!(metric, Metric::CpuNs | Metric::RunDelayNs | Metric::SampledMs)
            || self.spec.metrics.iter().any(|spec| spec.metric == metric)
    }

    fn read(&mut self, metric: Metric, topology: &Topology) -> Values {
        if metric == Metric::SampledMs {
            return vec![Some(self.sampled_ms); topology.operators.len()];
        }
        if let Some(values) = self.times.values(metric, topology) {
            return values;
        }
        let value = |metric, (query, operator): &(String, String)| {
            let sums = self.sums.get(&metric)?;
            let named = sums.get(&(query.clone(), operator.clone()));
            named.or_else(|| sums.get(&(String::new(), operator.clone()))).copied()
        };
        // A source takes nothing in: what it makes counts as that.
        let made = |place: usize| metric == Metric::RowsIn && topology.operators[place].upstream.is_empty();
        let of = |(place, name)| {
            value(metric, name).or_else(|| value(Metric::RowsOut, name).filter(|_| made(place)))
        };
        self.names.iter().enumerate().map(of).collect()
    }
}

impl Adapter for ThreadsEngine {
    fn refresh(&mut self, wishes: &dyn Fn(&str) -> Wishes) -> Result<bool, AdapterError> {
        self.times.on_refresh();
        self.find_processes();
        let found = self.find_threads();
        let is_changed = self.assemble(wishes);
        found?;
        self.read_metrics()?;
        Ok(is_changed)
    }

    fn topology(&self) -> &Topology {
        &self.topology
    }

    fn processes(&self) -> BTreeSet<u32> {
        self.processes.keys().copied().collect()
    }

    fn notes(&mut self) -> Vec<String> {
        self.notes.take()
    }
}

#[cfg(test)]
mod tests {
    use regex::Regex;

    use super::*;

    fn spec() -> ThreadsSpec {
        ThreadsSpec {
            name: "test".into(),
            process: Regex::new("never").unwrap(),
            names: Names::Linux,
            thread: Regex::new(r"^(?P<operator>.+)-(?P<instance>\d+)$").unwrap(),
            query: "only".into(),
            edges: vec![("parse".into(), "join".into()), ("join".into(), "sink".into())],
            prometheus: None,
            graphite: None,
            metrics: Vec::new(),
            timer_slack: None,
        }
    }

    fn with_threads(names: &[&str]) -> ThreadsEngine {
        let mut engine = ThreadsEngine::start(spec()).unwrap();
        let threads = names.iter().enumerate().map(|(place, name)| {
            (ThreadId { pid: 1, tid: place as u32 + 10, started_ticks: 0 }, (*name).to_owned())
        });
        engine.processes.insert(1, Process { threads: threads.collect(), ..Process::default() });
        engine.assemble(&|_| Wishes::default());
        engine
    }

    #[test]
    fn names_make_a_topology() {
        let engine = with_threads(&["parse-0", "parse-1", "join -> sink-0", "main"]);
        let names: Vec<&str> = engine.topology.operators.iter().map(|o| o.name.as_str()).collect();
        assert_eq!(names, ["parse", "join", "sink"]);
        assert_eq!(engine.topology.operators[1].upstream, [0]);
        assert_eq!(engine.topology.operators[2].upstream, [1]);
        let tasks: Vec<_> = engine.topology.tasks.iter().map(|t| (t.operators.clone(), t.instance)).collect();
        assert_eq!(tasks, [(vec![0], 0), (vec![0], 1), (vec![1, 2], 0)]);
    }

    #[test]
    fn edges_name_what_runs_elsewhere() {
        let engine = with_threads(&["join-0", "join-1"]);
        let names: Vec<&str> = engine.topology.operators.iter().map(|o| o.name.as_str()).collect();
        assert_eq!(names, ["join", "parse", "sink"]);
        assert_eq!(engine.topology.operators[2].upstream, [0]);
        assert_eq!(engine.topology.instances_here(), [2, 0, 0]);
        let instances: Vec<u32> = engine.topology.operators.iter().map(|o| o.instances).collect();
        assert_eq!(instances, [2, 0, 0]);
    }

    /// Two workers of one Storm topology, and one of another.
    #[test]
    fn processes_of_one_query_make_one_topology() {
        let mut engine = ThreadsEngine::start(super::super::storm()).unwrap();
        for (pid, query, name) in [
            (1, "roads", "Thread-14-toll-executor[3, 3]"),
            (2, "roads", "Thread-9-toll-executor[4, 4]"),
            (3, "calls", "Thread-9-toll-executor[4, 4]"),
        ] {
            let id = ThreadId { pid, tid: 10 + pid, started_ticks: 0 };
            let threads = [(id, name.to_owned())].into();
            let process = Process { query: Some(query.to_owned()), threads, ..Process::default() };
            engine.processes.insert(pid, process);
        }
        engine.assemble(&|_| Wishes::default());
        let operators: Vec<_> = engine.topology.operators.iter().map(|o| (o.query, o.instances)).collect();
        assert_eq!(operators, [(0, 2), (1, 1)]);
        let tasks: Vec<_> = engine.topology.tasks.iter().map(|t| (t.operators[0], t.instance)).collect();
        assert_eq!(tasks, [(0, 3), (0, 4), (1, 4)]);
        // One worker ends: the other's thread is all that is left of the operator here.
        engine.processes.remove(&2);
        assert!(engine.assemble(&|_| Wishes::default()));
        assert_eq!(engine.topology.operators[0].instances, 1);
    }

    #[test]
    fn values_are_found_by_operator_with_or_without_a_job() {
        let mut engine = with_threads(&["parse-0", "join-0"]);
        let value = |query: &str, operator: &str, value| ((query.to_owned(), operator.to_owned()), value);
        engine.sums.insert(
            Metric::QueueRows,
            [value("", "parse", 3.0), value("only", "join", 4.0), value("", "join", 9.0)].into(),
        );
        let topology = engine.topology.clone();
        // The sink, which only an edge names, has none here.
        assert_eq!(engine.read(Metric::QueueRows, &topology), [Some(3.0), Some(4.0), None]);
    }
}
