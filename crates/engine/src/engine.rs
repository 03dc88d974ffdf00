use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use laxity_connect::{ConnectError, Scan, ScanEnvironment, ScanSpec};
use laxity_graph::{EventTime, OperatorId, QueryId, WorkerId};
use laxity_sched::{Config, QuerySpec};
use parking_lot::{Condvar, Mutex, RwLock};

use crate::clock::Clock;
use crate::config::{CannotSwitch, EngineConfig, Policy};
use crate::dispatch::Dispatch;
use crate::instance::Instance;
use crate::mailboxes::{Mailboxes, Merging};
use crate::memory::Memory;
use crate::merge::{MERGED_MESSAGES_MAX, MERGED_ROWS_MAX, fits};
use crate::niceness::yield_to_prompt_threads;
use crate::operator_threads::OperatorThreads;
use crate::plan::{ExpandedScan, QueryPlan, SubmitError, expand};
use crate::query::{Outcome, Query};
use crate::scan_io::{Lane, Reader, ScanPool};
use crate::sink_io::{SinkHandle, SinkPool};
use crate::snapshot::{EngineSnapshot, OperatorMeasurement, QuerySnapshot, RecordedFeed};
use crate::worker::{self, WorkerTimes};

/// Threads that read tables. Two for those that decode, so that one slow file does not hold up every other.
const SCAN_THREADS: [(&str, Lane); 3] =
    [("scan-prompt", Lane::Prompt), ("scan-bulk-0", Lane::Bulk), ("scan-bulk-1", Lane::Bulk)];
/// Threads that write tables. Two, for the same reason.
const SINK_THREADS: usize = 2;

/// A running engine: worker threads, I/O threads and the queries they serve.
///
/// [`submit`](Engine::submit) queries, [`start`](Engine::start), then [`wait`](Engine::wait) for the end of
/// bounded inputs or [`stop`](Engine::stop). Queries submitted before the start share the scan of a table
/// they all read; one submitted later opens its own.
pub struct Engine {
    shared: Arc<Shared>,
    submission: Mutex<Submission>,
    workers: Mutex<Vec<JoinHandle<()>>>,
    scan_threads: Mutex<Vec<JoinHandle<()>>>,
    sink_threads: Mutex<Vec<JoinHandle<()>>>,
    keeper: Mutex<Option<JoinHandle<()>>>,
}

/// What all threads of an engine see.
pub(crate) struct Shared {
    pub clock: Clock,
    pub config: EngineConfig,
    pub dispatch: Dispatch,
    pub instances: RwLock<Vec<Arc<Instance>>>,
    pub memory: Arc<Memory>,
    pub scans: Arc<ScanPool>,
    pub sinks: Arc<SinkPool>,
    /// By worker.
    pub worker_times: Vec<WorkerTimes>,
    queries: RwLock<Vec<Entry>>,
    /// Signalled when a query ends.
    ended: Condvar,
    ended_lock: Mutex<()>,
    stopping: AtomicBool,
}

struct Entry {
    query: Arc<Query>,
    instances: Vec<Arc<Instance>>,
    sinks: Vec<Arc<SinkHandle>>,
    /// Its messages are dropped and its state is freed.
    retired: bool,
}

#[derive(Default)]
struct Submission {
    /// Scans to open at the start.
    waiting: Vec<(ScanSpec, Reader)>,
    parts: HashMap<String, usize>,
    started: Option<ScanEnvironment>,
}

impl Engine {
    /// An engine without queries. No thread runs yet.
    pub fn new(config: EngineConfig) -> Engine {
        Engine::with_clock(config, Clock::start())
    }

    /// As [`new`](Engine::new), for who had to know the clock before the configuration.
    pub fn with_clock(config: EngineConfig, clock: Clock) -> Engine {
        let dispatch = match config.policy.composer() {
            Some(composer) => {
                let scheduling = Config {
                    workers: config.workers,
                    quantum_ns: config.quantum.as_nanos() as u64,
                    seed: config.seed,
                    ..Config::default()
                };
                let merging = Merging {
                    rows_max: if config.merge { MERGED_ROWS_MAX } else { 0 },
                    messages_max: MERGED_MESSAGES_MAX,
                    fits,
                };
                Dispatch::Scheduled(Mailboxes::new(config.shards(), composer, &scheduling, merging))
            }
            None => {
                Dispatch::Threads(Arc::new(OperatorThreads::new(clock, config.quantum.as_nanos() as u64)))
            }
        };
        let shared = Shared {
            clock,
            dispatch,
            instances: RwLock::new(Vec::new()),
            memory: Arc::new(Memory::new(config.memory_limit_bytes)),
            scans: Arc::new(ScanPool::new(clock, config.credit_bytes, config.backlog_bytes)),
            sinks: Arc::new(SinkPool::new(clock)),
            worker_times: (0..config.workers).map(|_| WorkerTimes::default()).collect(),
            queries: RwLock::new(Vec::new()),
            ended: Condvar::new(),
            ended_lock: Mutex::new(()),
            stopping: AtomicBool::new(false),
            config,
        };
        Engine {
            shared: Arc::new(shared),
            submission: Mutex::default(),
            workers: Mutex::default(),
            scan_threads: Mutex::default(),
            sink_threads: Mutex::default(),
            keeper: Mutex::default(),
        }
    }

    /// The engine's clock: processing time zero is when it was made.
    pub fn clock(&self) -> Clock {
        self.shared.clock
    }

    /// Takes the rows of a table from `open` instead of its connector: for a program that has rows of its own.
    /// Call before `start`, or before submitting the first query that reads the table.
    pub fn provide(
        &self,
        table: &str,
        open: impl Fn(&ScanSpec, &ScanEnvironment) -> Result<Box<dyn Scan>, ConnectError> + Send + Sync + 'static,
    ) {
        self.shared.scans.provide(table, Box::new(open));
    }

    /// Adds a query.
    ///
    /// # Errors
    /// If a table cannot be opened, an operator cannot be built, or the name is taken.
    pub fn submit(&self, plan: QueryPlan) -> Result<QueryId, SubmitError> {
        let mut submission = self.submission.lock();
        let shared = &self.shared;
        let settings = plan.dataflow.settings.clone();
        let name = settings.name.clone();
        let mut queries = shared.queries.write();
        if queries.iter().any(|entry| entry.query.settings.name == name) {
            return Err(SubmitError::NameTaken { query: name });
        }
        let id = QueryId(queries.len() as u32);
        let sinks = plan
            .dataflow
            .nodes()
            .iter()
            .filter(|node| matches!(node.stage, laxity_operators::Stage::Sink(_)))
            .count();
        let query = Arc::new(Query::new(id, settings, sinks, shared.memory.clone(), &shared.scans));
        let mut instances = shared.instances.write();
        let first = OperatorId(instances.len() as u32);
        let parts = &mut submission.parts;
        let next_part = |table: &str| {
            let next = parts.entry(table.to_string()).or_insert(0);
            *next += 1;
            *next - 1
        };
        let expanded = expand(&plan, &query, first, &shared.config, &shared.sinks, next_part)?;
        instances.extend(expanded.instances.iter().cloned());
        drop(instances);
        let spec = QuerySpec {
            id,
            target_ns: query.settings.latency_target.ns(),
            weight: query.settings.weight,
            qos: query.settings.qos.clone(),
        };
        shared.dispatch.add_query(spec, expanded.operators, &expanded.instances);
        if query.settings.shed {
            shared.dispatch.allow_shedding(id);
            shared.scans.shed();
        }
        queries.push(Entry {
            query: query.clone(),
            instances: expanded.instances,
            sinks: expanded.sinks,
            retired: false,
        });
        drop(queries);
        for ExpandedScan { spec, source, follows_processing_time } in expanded.scans {
            let reader = Reader::new(query.clone(), source, follows_processing_time);
            match &submission.started {
                None => submission.waiting.push((spec, reader)),
                Some(environment) => {
                    let start = ScanEnvironment::new(shared.clock.now(), environment.start_wall);
                    shared
                        .scans
                        .open(spec, start, vec![reader])
                        .map_err(|source| SubmitError::Connect { query: name.clone(), source })?;
                }
            }
        }
        Ok(id)
    }

    /// Another policy from now on. What is queued and what runs goes on under it; nothing is lost.
    ///
    /// # Errors
    /// If either is a thread per operator: [`CannotSwitch`].
    pub fn set_policy(&self, policy: &Policy) -> Result<(), CannotSwitch> {
        let (Dispatch::Scheduled(mailboxes), Some(composer)) = (&self.shared.dispatch, policy.composer())
        else {
            return Err(CannotSwitch);
        };
        mailboxes.set_policy(composer, self.shared.clock.now());
        Ok(())
    }

    /// Starts the threads and opens the sources.
    ///
    /// # Errors
    /// If a table cannot be opened; nothing runs then.
    pub fn start(&self) -> Result<(), SubmitError> {
        let mut submission = self.submission.lock();
        let shared = &self.shared;
        let start = shared.clock.now();
        let start_wall = EventTime(shared.clock.unix_start_ms() + (start.0 / 1_000_000) as i64);
        let environment = ScanEnvironment::new(start, start_wall);
        submission.started = Some(environment.clone());
        for (spec, readers) in shared_scans(std::mem::take(&mut submission.waiting)) {
            let query = readers[0].query.settings.name.clone();
            shared
                .scans
                .open(spec, environment.clone(), readers)
                .map_err(|source| SubmitError::Connect { query, source })?;
        }
        if let Dispatch::Scheduled(_) = shared.dispatch {
            for worker in 0..shared.config.workers {
                let body = worker::body(shared.clone(), WorkerId(worker as u32));
                self.workers.lock().push(spawn(&format!("worker-{worker}"), body));
            }
        }
        for (name, lane) in SCAN_THREADS {
            let shared = shared.clone();
            let body = move || {
                if lane == Lane::Bulk {
                    yield_to_prompt_threads(shared.config.worker_nice);
                }
                shared.scans.run(lane, &shared.dispatch, &shared.memory);
            };
            self.scan_threads.lock().push(spawn(name, body));
        }
        for thread in 0..SINK_THREADS {
            let shared = shared.clone();
            self.sink_threads.lock().push(spawn(&format!("sink-{thread}"), move || shared.sinks.run()));
        }
        let keeper = shared.clone();
        *self.keeper.lock() = Some(spawn("keeper", move || keeper.keep()));
        Ok(())
    }

    /// Waits until every query has ended, at most for `timeout`; true if they have.
    pub fn wait(&self, timeout: Duration) -> bool {
        let deadline = self.shared.clock.instant(self.shared.clock.now().plus(timeout));
        let mut guard = self.shared.ended_lock.lock();
        while !self.shared.all_ended() {
            if self.shared.ended.wait_until(&mut guard, deadline).timed_out() {
                return self.shared.all_ended();
            }
        }
        true
    }

    /// Stops the sources, lets admitted rows reach the sinks (for `drain_timeout` at most), completes the
    /// outputs and ends all threads. Open windows are not fired: their results would be of half a window.
    pub fn stop(&self) {
        let shared = &self.shared;
        if shared.stopping.swap(true, Ordering::AcqRel) {
            return;
        }
        shared.scans.stop();
        join(&self.scan_threads);
        let deadline = shared.clock.now().plus(shared.config.drain_timeout);
        let drained = |entry: &Entry| {
            let is_stalled = || entry.sinks.iter().any(|sink| sink.is_stalled());
            entry.query.stopped() || entry.query.drained() || is_stalled()
        };
        while !shared.queries.read().iter().all(drained) && shared.clock.now() < deadline {
            // Draining takes as long as the queued work; a millisecond more is not seen.
            std::thread::sleep(Duration::from_millis(1));
        }
        for entry in shared.queries.read().iter() {
            if !entry.query.drained() && !entry.query.stopped() {
                tracing::warn!(
                    query = entry.query.settings.name,
                    rows = entry.query.in_flight_rows.load(Ordering::Relaxed),
                    "rows still queued when the time to drain was over are dropped"
                );
            }
            entry.sinks.iter().for_each(|sink| sink.close());
        }
        shared.sinks.stop();
        join(&self.sink_threads);
        for entry in shared.queries.read().iter() {
            entry.query.end(Outcome::Finished);
        }
        shared.dispatch.stop();
        join(&self.workers);
        if let Some(keeper) = self.keeper.lock().take() {
            let _ = keeper.join();
        }
    }

    /// What every operator instance has cost and done so far, in order of submission and dataflow. Nothing where
    /// policy os leaves it to threads.
    pub fn measurements(&self) -> Vec<OperatorMeasurement> {
        let Dispatch::Scheduled(mailboxes) = &self.shared.dispatch else { return Vec::new() };
        let instances: Vec<Arc<Instance>> = self.shared.instances.read().clone();
        let measure = |instance: &Arc<Instance>| {
            let ((fixed_ns, per_row_ns), watermark_ns) = mailboxes
                .ask(instance.id, |scheduler, id| (scheduler.cost_line(id), scheduler.cost_ns(id, 0)))
                .unwrap_or_default();
            OperatorMeasurement {
                query: instance.query.settings.name.clone(),
                node: instance.node,
                instance: instance.number,
                name: instance.name.clone(),
                fixed_ns,
                per_row_ns,
                watermark_ns,
                totals: instance.totals(),
            }
        };
        instances.iter().map(measure).collect()
    }

    /// What a grant takes of a worker beside the operator itself, ns, as the scheduler sees it: the dearer kind,
    /// of a change of operator. 0 where policy os has no grants.
    pub fn call_ns(&self) -> u64 {
        match &self.shared.dispatch {
            Dispatch::Scheduled(mailboxes) => {
                let change_ns = mailboxes.ask_all(|scheduler| scheduler.call_cost().change_ns as u64);
                change_ns.max().unwrap_or(0)
            }
            Dispatch::Threads(_) => 0,
        }
    }

    /// What the sources took in so far, if the configuration says to keep that.
    pub fn recorded(&self) -> Vec<RecordedFeed> {
        let feed = |instance: &Arc<Instance>| {
            Some(RecordedFeed {
                query: instance.query.settings.name.clone(),
                node: instance.node,
                instance: instance.number,
                speed: instance.query.event_clock.get().map(|clock| clock.speed),
                arrivals: instance.recorded()?,
            })
        };
        self.shared.instances.read().iter().filter_map(feed).collect()
    }

    /// How the engine and its queries stand.
    pub fn snapshot(&self) -> EngineSnapshot {
        let shared = &self.shared;
        let queries = shared
            .queries
            .read()
            .iter()
            .map(|entry| QuerySnapshot::of(&entry.query, &shared.clock))
            .collect();
        let operator_ns = shared.worker_times.iter().map(WorkerTimes::operator_ns).sum();
        EngineSnapshot::new(&shared.clock, shared.memory.used_bytes(), operator_ns, queries)
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Shared {
    fn all_ended(&self) -> bool {
        self.queries.read().iter().all(|entry| entry.query.outcome() != Outcome::Running)
    }

    /// What the keeper thread does: clears up after ended queries, and watches the memory bound.
    fn keep(&self) {
        const PERIOD: Duration = Duration::from_millis(20);
        while !self.stopping.load(Ordering::Acquire) {
            std::thread::sleep(PERIOD);
            let ended: Vec<usize> = {
                let queries = self.queries.read();
                let running: Vec<Arc<Query>> =
                    queries.iter().filter(|entry| !entry.retired).map(|entry| entry.query.clone()).collect();
                self.memory.relieve(&running, self.clock.now());
                self.dispatch.on_memory(self.memory.used_bytes(), self.memory.limit_bytes());
                (0..queries.len()).filter(|&i| !queries[i].retired && queries[i].query.stopped()).collect()
            };
            for index in ended {
                self.retire(index);
            }
        }
    }

    fn retire(&self, index: usize) {
        let mut queries = self.queries.write();
        let entry = &mut queries[index];
        entry.retired = true;
        for message in self.dispatch.remove_query(entry.query.id, self.clock.now()) {
            entry.query.release(message.rows, message.bytes);
        }
        for instance in &entry.instances {
            instance.clear();
        }
        entry.sinks.iter().for_each(|sink| sink.close());
        drop(queries);
        let _guard = self.ended_lock.lock();
        self.ended.notify_all();
    }
}

/// Groups the readers of each table; a shared scan reads the union of their columns.
fn shared_scans(waiting: Vec<(ScanSpec, Reader)>) -> Vec<(ScanSpec, Vec<Reader>)> {
    type Readers = Vec<(Vec<usize>, Reader)>;
    let mut tables: Vec<(ScanSpec, Readers)> = Vec::new();
    for (spec, reader) in waiting {
        let same = tables.iter_mut().find(|(table, _)| Arc::ptr_eq(&table.table, &spec.table));
        match same {
            Some((_, readers)) => readers.push((spec.columns, reader)),
            None => tables.push((spec.clone(), vec![(spec.columns, reader)])),
        }
    }
    tables
        .into_iter()
        .map(|(mut spec, readers)| {
            let mut union: Vec<usize> = readers.iter().flat_map(|(columns, _)| columns).copied().collect();
            union.sort_unstable();
            union.dedup();
            let readers = readers
                .into_iter()
                .map(|(columns, mut reader)| {
                    let places = columns
                        .iter()
                        .map(|column| union.binary_search(column).expect("part of the union"))
                        .collect::<Vec<_>>();
                    reader.columns = (columns != union).then_some(places);
                    reader
                })
                .collect();
            spec.columns = union;
            (spec, readers)
        })
        .collect()
}

fn spawn(name: &str, body: impl FnOnce() + Send + 'static) -> JoinHandle<()> {
    std::thread::Builder::new()
        .name(format!("laxity-{name}"))
        .spawn(body)
        .expect("the system can start a dozen threads")
}

fn join(threads: &Mutex<Vec<JoinHandle<()>>>) {
    for thread in std::mem::take(&mut *threads.lock()) {
        if thread.join().is_err() {
            tracing::error!("a thread of the engine panicked; please report this");
        }
    }
}
