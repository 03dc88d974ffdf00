//! The engine's front door: what an embedder calls to start it, to bring queries in and to end them, while workers and
//! writers run behind it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use laxity_connect::{ConnectError, Scan, ScanEnvironment, ScanSpec};
use laxity_graph::{EventTime, ProcessingTime, QueryId, WorkerId};
use laxity_runtime::{
    ArrowRows, Entry, Instance, LookCosts, MERGED_MESSAGES_MAX, MERGED_ROWS_MAX, Outcome, Payload, Process,
    Promise, SharedRecords, SharedWork, Stage, fits,
};
use laxity_sched::Config;
use parking_lot::{Condvar, Mutex, RwLock};

use crate::checkpoints::Checkpoints;
use crate::clock::Clock;
use crate::config::{CannotSwitch, Ending, EngineConfig, JoinFrom, Policy};
use crate::dispatch::Dispatch;
use crate::load::Load;
use crate::mailboxes::{Mailboxes, Merging};
use crate::open_tables::OpenTables;
use crate::plan::{QueryPlan, SubmitError};
use crate::restarts::{Beginning, Restarts};
use crate::shared::Shared;
use crate::sink_io::SinkPool;
use crate::snapshot::{
    CheckpointSnapshot, EngineFigures, EngineSnapshot, OperatorMeasurement, QueryFigures, QuerySnapshot,
    RecordedFeed, WorkCosts,
};
use crate::submission::{Predecessor, Submission, Unbegun};
use crate::tables::Connectors;
use crate::worker_times::WorkerTimes;
use crate::{keeper, taking, worker};

/// Threads that write tables. Two, so that one slow file does not hold up every other.
const SINK_THREADS: usize = 2;

/// A running engine: worker threads, threads that write, and the queries they serve.
///
/// [`submit`](Engine::submit) queries, [`start`](Engine::start), then [`wait`](Engine::wait) for the end of
/// bounded inputs or [`stop`](Engine::stop). Queries submitted before the start share the scan of a table
/// they all read; one submitted later joins it ([`JoinFrom`]). While all others run, a query can be
/// [cancelled](Engine::cancel), [altered](Engine::alter) and [replaced](Engine::replace).
pub struct Engine {
    shared: Arc<Shared>,
    /// Held while tables and files are opened: taken by who brings a query in, and by nobody else.
    submission: Arc<Mutex<Submission>>,
    unbegun: Arc<Unbegun>,
    workers: Mutex<Vec<JoinHandle<()>>>,
    sink_threads: Mutex<Vec<JoinHandle<()>>>,
    keeper: Mutex<Option<JoinHandle<()>>>,
}

impl Engine {
    /// An engine without queries. No thread runs yet.
    pub fn new(config: EngineConfig) -> Engine {
        Engine::with_clock(config, Clock::start())
    }

    /// As [`new`](Engine::new), for who had to know the clock before the configuration.
    pub fn with_clock(config: EngineConfig, clock: Clock) -> Engine {
        let dispatch = match config.policy.recipe() {
            Some(recipe) => {
                let scheduling = Config {
                    workers: config.workers,
                    quantum_ns: config.quantum.as_nanos() as u64,
                    seed: config.seed,
                    ..Config::default()
                };
                let merging = Merging {
                    rows_max: if config.merge { MERGED_ROWS_MAX } else { 0 },
                    messages_max: MERGED_MESSAGES_MAX,
                    fits: fits::<ArrowRows>,
                };
                Dispatch::Scheduled(Mailboxes::new(
                    config.shards(),
                    recipe,
                    &scheduling,
                    merging,
                    Payload::look,
                ))
            }
            None => Dispatch::Threads(Arc::default()),
        };
        let shared = Arc::new(Shared {
            clock,
            connectors: Connectors::default(),
            registry: RwLock::default(),
            open_tables: OpenTables::default(),
            dispatch,
            process: Arc::new(Process::kept(config.memory_limit_bytes, config.credit_bytes)),
            alarm: Arc::default(),
            sinks: Arc::new(SinkPool::new(clock)),
            checkpoints: Checkpoints::default(),
            restarts: Restarts::default(),
            relieves: AtomicBool::new(false),
            load: Load::default(),
            worker_times: (0..config.workers).map(|_| WorkerTimes::default()).collect(),
            ended: Condvar::new(),
            ended_lock: Mutex::new(()),
            stopping: AtomicBool::new(false),
            shared_work: SharedRecords::default(),
            config,
        });
        if let Dispatch::Threads(threads) = &shared.dispatch {
            let (engine, of_body) = (Arc::downgrade(&shared), Arc::downgrade(threads));
            threads.run_by(move |unit, mailbox| {
                if let (Some(engine), Some(threads)) = (engine.upgrade(), of_body.upgrade()) {
                    worker::serve(&engine, &threads, unit, mailbox);
                }
            });
        }
        let alarm = shared.alarm.clone();
        shared.process.tells(move || alarm.ring());
        let holds_sources = shared.config.policy.recipe().is_some_and(|recipe| recipe.needs().holds_sources);
        shared.process.memory.hold_sources(holds_sources);
        let engine = Arc::downgrade(&shared);
        shared.sinks.on_credit(move |tables| {
            if let Some(engine) = engine.upgrade() {
                engine.wake(tables);
            }
        });
        let unbegun: Arc<Unbegun> = Arc::default();
        let submission = Arc::new(Mutex::new(Submission::new(unbegun.clone())));
        let (engine, again) = (Arc::downgrade(&shared), submission.clone());
        shared.restarts.submits_by(move |plan, beginning| {
            let stopped = || SubmitError::Thread { source: std::io::ErrorKind::Interrupted.into() };
            let shared = engine.upgrade().ok_or_else(stopped)?;
            again.lock().submit(&shared, plan, beginning, None)
        });
        Engine {
            shared,
            submission,
            unbegun,
            workers: Mutex::default(),
            sink_threads: Mutex::default(),
            keeper: Mutex::default(),
        }
    }

    #[cfg(test)]
    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.shared
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
        self.shared.connectors.provide(table, Box::new(open));
    }

    /// Says of a query that it is [complete](crate::complete) and not submitted. Who begins to read its tables gets the rows that it
    /// would get beside it: a row is refused for a value that any of the queries reads, whichever of them are left to run. Call
    /// before `start`.
    pub fn note_complete(&self, plan: &QueryPlan) {
        self.submission.lock().note_complete(plan);
    }

    /// Adds a query. Where it fails, nothing of it stays. Of a table that others read already it gets the rows from the
    /// next on.
    ///
    /// # Errors
    /// If a table cannot be opened, an operator cannot be built, or the name is taken: that of a query that is not gone.
    pub fn submit(&self, plan: QueryPlan) -> Result<QueryId, SubmitError> {
        self.submit_from(plan, JoinFrom::Now)
    }

    /// As [`submit`](Engine::submit), with a say in where it begins to read.
    ///
    /// # Errors
    /// As for [`submit`](Engine::submit).
    pub fn submit_from(&self, plan: QueryPlan, from: JoinFrom) -> Result<QueryId, SubmitError> {
        let mut submission = self.submission.lock();
        let id = submission.submit(&self.shared, &Arc::new(plan), from.into(), None)?;
        if submission.has_started() {
            taking::start(&self.shared).map_err(|source| SubmitError::Thread { source })?;
        }
        Ok(id)
    }

    /// Ends a query while all others run. It is gone, and its name free, a little later ([`wait_gone`](Engine::wait_gone));
    /// its account stays until it is [forgotten](Engine::forget). False if there is no such query, or it has ended.
    pub fn cancel(&self, id: QueryId, ending: Ending) -> bool {
        self.unbegun.end(id, || self.shared.cancel(id, ending))
    }

    /// Promises a query something else, from what waits now on. False if there is no such query, or it has ended.
    pub fn alter(&self, id: QueryId, promise: Promise) -> bool {
        self.shared.alter(id, promise)
    }

    /// Puts a query in the place of another, which may have its name and write its tables. What can be refused is refused
    /// while the old one runs on. Then:
    ///
    /// - A table that both read is handed on between two rows: those before are the old one's, those after the new one's,
    ///   none is lost and none comes twice. Where the new one asks for columns that nobody reads it gets a copy of its own,
    ///   and rows that come while that is opened reach both. A table that the old one does not read is read as by
    ///   [`submit`](Engine::submit).
    /// - A table that both write to the same place is written on, behind what is there; rows that the old one still has on
    ///   their way come out among those of the new one.
    /// - The old one is [drained](Ending::Drain). The new one begins with an empty state: windows that are open are nobody's.
    ///
    /// A query with checkpoints that is replaced under its name by one with checkpoints takes one, is dropped, and the new one
    /// goes on from it; should a table or the store fail in between, neither runs. If only one of the two has checkpoints, they
    /// cannot write one file. Of a query that has ended nothing is gone on with.
    ///
    /// Returns when nothing of the old one is on its way any more, or the time to drain is over.
    ///
    /// # Errors
    /// As for [`submit`](Engine::submit), and [`SubmitError::TakenOver`].
    pub fn replace(&self, id: QueryId, plan: QueryPlan) -> Result<QueryId, SubmitError> {
        let shared = &self.shared;
        let plan = Arc::new(plan);
        let mut submission = self.submission.lock();
        let has_started = submission.has_started();
        let wait_gone = || has_started && self.wait_gone(id, shared.config.drain_timeout.saturating_mul(2));
        let before = Predecessor::of(shared, id);
        let new = match &before {
            Some(before) if before.is_gone_on_with(&plan) => {
                before.can_be_gone_on_with(&plan, shared.config.batch_rows)?;
                drop(submission);
                if has_started {
                    // Where it fails, the one before it counts.
                    self.checkpoint(Some(&before.query.settings.name), shared.config.drain_timeout);
                }
                self.cancel(id, Ending::Drop);
                wait_gone();
                submission = self.submission.lock();
                submission.submit(shared, &plan, Beginning::default(), None)?
            }
            Some(before) => {
                submission.hands_over(before, &plan)?;
                let new = submission.submit(shared, &plan, Beginning::default(), Some(before))?;
                self.cancel(id, Ending::Drain);
                new
            }
            None => {
                drop(submission);
                wait_gone();
                submission = self.submission.lock();
                submission.submit(shared, &plan, Beginning::default(), None)?
            }
        };
        if submission.has_started() {
            taking::start(shared).map_err(|source| SubmitError::Thread { source })?;
        }
        drop(submission);
        wait_gone();
        Ok(new)
    }

    /// Waits until nothing of a query is on its way any more, at most for `timeout`; true if so, or if there is no such
    /// query.
    pub fn wait_gone(&self, id: QueryId, timeout: Duration) -> bool {
        self.wait_until(timeout, || self.shared.registry.read().is_gone(id))
    }

    /// Lets go of the account of a query that has ended, and says what it came to. Until then it is kept: who runs for
    /// long forgets what has ended. `None` if there is no such query, or it runs.
    pub fn forget(&self, id: QueryId) -> Option<QuerySnapshot> {
        self.shared.forget(id)
    }

    /// Another policy from now on. What is queued and what runs goes on under it; nothing is lost.
    ///
    /// # Errors
    /// If either is a thread per operator: [`CannotSwitch`].
    pub fn set_policy(&self, policy: &Policy) -> Result<(), CannotSwitch> {
        let (Dispatch::Scheduled(mailboxes), Some(recipe)) = (&self.shared.dispatch, policy.recipe()) else {
            return Err(CannotSwitch);
        };
        mailboxes.set_policy(recipe, self.shared.clock.now());
        self.shared.process.memory.hold_sources(recipe.needs().holds_sources);
        Ok(())
    }

    /// Starts the threads and opens the sources. Says when the first rows are due: soon, but not before all tables are
    /// open.
    ///
    /// # Errors
    /// If a table cannot be opened; nothing runs then. If the system gives no thread; the engine is then to be dropped.
    pub fn start(&self) -> Result<ProcessingTime, SubmitError> {
        let shared = &self.shared;
        let mut submission = self.submission.lock();
        let start = shared.clock.now().plus_ns(submission.opening_ns());
        let start_wall = EventTime(shared.clock.unix_start_ms() + (start.0 / 1_000_000) as i64);
        submission.start(shared, ScanEnvironment::new(start, start_wall))?;
        drop(submission);
        if let Dispatch::Scheduled(_) = shared.dispatch {
            for worker in 0..shared.config.workers {
                let body = worker::body(shared.clone(), WorkerId(worker as u32));
                self.workers.lock().push(self.spawn(&format!("worker-{worker}"), body)?);
            }
        }
        for thread in 0..SINK_THREADS {
            let shared = shared.clone();
            let thread = self.spawn(&format!("sink-{thread}"), move || shared.sinks.run())?;
            self.sink_threads.lock().push(thread);
        }
        taking::start(shared).map_err(|source| SubmitError::Thread { source })?;
        *self.keeper.lock() = Some(self.spawn("keeper", keeper::body(shared.clone()))?);
        Ok(start)
    }

    fn spawn(&self, name: &str, body: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>, SubmitError> {
        let thread = std::thread::Builder::new().name(format!("laxity-{name}")).spawn(body);
        thread.map_err(|source| SubmitError::Thread { source })
    }

    /// Waits until every query has ended, at most for `timeout`; true if they have.
    pub fn wait(&self, timeout: Duration) -> bool {
        self.wait_until(timeout, || self.shared.all_ended())
    }

    pub(crate) fn wait_until(&self, timeout: Duration, is_so: impl Fn() -> bool) -> bool {
        let clock = &self.shared.clock;
        let deadline = clock.now().plus(timeout);
        // Asked with the lock in hand, so that no end is told in between; who tells one holds no other lock.
        let mut guard = self.shared.ended_lock.lock();
        while !is_so() {
            if clock.now() >= deadline {
                return false;
            }
            self.shared.ended.wait_until(&mut guard, clock.instant(deadline));
        }
        true
    }

    /// Takes a last checkpoint of the queries that have some, stops the sources, lets admitted rows reach the sinks (for
    /// `drain_timeout` at most), completes the outputs and ends all threads. Open windows are not fired: their results would be of half a window. What is left
    /// when the time is over is dropped and counted ([`QueryFigures::rows_dropped`]).
    pub fn stop(&self) {
        self.stop_watched(|_| ());
    }

    /// As [`stop`](Engine::stop), and tells `watch` ten times a second, while rows are worked off, how long it will wait
    /// at most.
    pub fn stop_watched(&self, mut watch: impl FnMut(Duration)) {
        const WATCH_NS: u64 = 100_000_000;
        let shared = &self.shared;
        shared.checkpoints.stop(shared.clock.now(), shared.config.drain_timeout);
        if shared.stopping.swap(true, Ordering::AcqRel) {
            return;
        }
        // One that is being looked at is waited for, so nothing is admitted afterwards. Windows that have ended come out.
        shared.open_tables.all().iter().for_each(|table| shared.complete(table));
        let mut now = shared.clock.now();
        let deadline = now.plus(shared.config.drain_timeout);
        let mut watched = now;
        let is_done = |entry: &Entry<ArrowRows, _>| {
            let is_stalled = || entry.outlets.iter().any(|outlet| shared.sinks.is_stalled(outlet));
            entry.query.stopped() || entry.query.drained() || is_stalled()
        };
        while !shared.registry.read().entries().all(is_done) && now < deadline {
            // Draining takes as long as the queued work; a millisecond more is not seen.
            std::thread::sleep(Duration::from_millis(1));
            now = shared.clock.now();
            if now >= watched.plus_ns(WATCH_NS) {
                watched = now;
                watch(Duration::from_nanos(deadline.since_ns(now)));
            }
        }
        // What is queued is dropped from here on, so workers are soon done with it. Before the outputs are completed: what
        // came after that would be neither written nor counted.
        shared.registry.read().entries().for_each(|entry| entry.query.halt());
        shared.dispatch.stop();
        join(&self.workers);
        for entry in shared.registry.read().entries() {
            entry.outlets.iter().for_each(|outlet| shared.sinks.close(outlet));
        }
        shared.sinks.stop();
        join(&self.sink_threads);
        for entry in shared.registry.read().entries() {
            entry.query.end(Outcome::Finished);
        }
        for entry in shared.registry.read().entries() {
            entry.instances.iter().for_each(|instance| {
                let _nobody_waits_any_more = instance.clear();
            });
        }
        if let Some(keeper) = self.keeper.lock().take() {
            shared.process.wake();
            let _ = keeper.join();
        }
    }

    /// Takes a checkpoint of the query of that name now, or of all that have some: what came of each, by name. Returns when
    /// they are safe, or after `patience`. Nothing for a query without checkpoints, or that has ended.
    pub fn checkpoint(
        &self,
        query: Option<&str>,
        patience: Duration,
    ) -> Vec<(String, Result<CheckpointSnapshot, String>)> {
        self.shared.checkpoints.take_now(&self.shared.clock, query, patience)
    }

    /// What every operator instance has cost and done so far, in order of submission and dataflow. Nothing where
    /// policy os leaves it to threads.
    pub fn measurements(&self) -> Vec<OperatorMeasurement> {
        let Dispatch::Scheduled(mailboxes) = &self.shared.dispatch else { return Vec::new() };
        let measure = |(stage, instance): (Stage, &Arc<Instance<ArrowRows>>)| {
            let ask = || {
                mailboxes
                    .ask(instance.id, |scheduler, id| (scheduler.cost_line(id), scheduler.cost_ns(id, 0)))
            };
            // Its id may be another's once it has ended.
            let lives = matches!(stage, Stage::Running | Stage::Draining);
            let ((fixed_ns, per_row_ns), watermark_ns) = lives.then(ask).flatten().unwrap_or_default();
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
        let registry = self.shared.registry.read();
        let of = |entry: &Entry<ArrowRows, _>| {
            entry.instances.iter().map(|instance| measure((entry.stage(), instance))).collect::<Vec<_>>()
        };
        registry.entries().flat_map(of).collect()
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

    /// What looks at tables and messages cost so far, beside what operators do. `None` where nobody counted: under policy
    /// os, and before anything ran.
    pub fn work_costs(&self) -> Option<WorkCosts> {
        let workers = &self.shared.worker_times;
        let mut looks = LookCosts::default();
        workers.iter().for_each(|worker| looks.add(worker.look_costs()));
        let (look_ns, row_ns) = looks.line();
        let between: Vec<u64> =
            workers.iter().map(WorkerTimes::between_ns).filter(|&between_ns| between_ns > 0).collect();
        let message_ns = between.iter().sum::<u64>() as f64 / between.len().max(1) as f64;
        let is_counted = matches!(self.shared.dispatch, Dispatch::Scheduled(_));
        let has_run = looks.looks > 0 || !between.is_empty();
        (is_counted && has_run).then_some(WorkCosts { look_ns, row_ns, message_ns })
    }

    /// What the sources took in so far, if the configuration says to keep that.
    pub fn recorded(&self) -> Vec<RecordedFeed> {
        let feed = |instance: &Arc<Instance<ArrowRows>>| {
            Some(RecordedFeed {
                query: instance.query.settings.name.clone(),
                node: instance.node,
                instance: instance.number,
                clock: instance.query.event_clock.get().copied(),
                arrivals: instance.recorded()?,
            })
        };
        self.shared.registry.read().entries().flat_map(|entry| &entry.instances).filter_map(feed).collect()
    }

    /// What queries that read a table together had done for them as one so far, if the configuration says to keep that.
    pub fn shared_work(&self) -> Vec<SharedWork> {
        self.shared.shared_work.lock().clone()
    }

    /// How the engine and its queries stand, percentiles of every query included: for the end of a run and its report.
    pub fn snapshot(&self) -> EngineSnapshot {
        let shared = &self.shared;
        let queries = shared.registry.read().entries().map(|entry| shared.snapshot_of(entry)).collect();
        let operator_ns = shared.worker_times.iter().map(WorkerTimes::operator_ns).sum();
        EngineSnapshot::new(&shared.clock, shared.process.memory.used_bytes(), operator_ns, queries)
    }

    /// How the engine and its queries stand, in counts alone: cheap enough to ask for several times a second, however
    /// many queries there are. Takes the place of what `figures` held before.
    pub fn figures(&self, figures: &mut EngineFigures) {
        let shared = &self.shared;
        let now = shared.clock.now();
        figures.of_engine(now, shared.process.memory.used_bytes());
        let registry = shared.registry.read();
        figures.queries.extend(registry.entries().map(|entry| QueryFigures::of(&entry.query, now)));
    }

    /// Counts the results of all queries anew from now on, as a measurement does behind a warm-up. Rows and CPU time count on.
    pub fn forget_results(&self) {
        self.shared.registry.read().entries().for_each(|entry| entry.query.forget_results());
    }

    /// How one query stands, percentiles included; `None` if there is no query of that id.
    pub fn query(&self, id: QueryId) -> Option<QuerySnapshot> {
        self.shared.registry.read().get(id).map(|entry| self.shared.snapshot_of(entry))
    }

    /// The query of that name that has not ended, and what it is promised.
    pub fn named(&self, name: &str) -> Option<(QueryId, Promise)> {
        let registry = self.shared.registry.read();
        let mut living = registry.entries().map(|entry| &entry.query).filter(|query| !query.stopped());
        living.find(|query| query.settings.name == name).map(|query| (query.id, query.promise()))
    }

    /// Names of the queries that have not ended.
    pub fn running(&self) -> Vec<String> {
        let registry = self.shared.registry.read();
        let living = registry.entries().map(|entry| &entry.query).filter(|query| !query.stopped());
        living.map(|query| query.settings.name.clone()).collect()
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.stop();
    }
}

fn join(threads: &Mutex<Vec<JoinHandle<()>>>) {
    for thread in std::mem::take(&mut *threads.lock()) {
        if thread.join().is_err() {
            tracing::error!("a thread of the engine panicked; please report this");
        }
    }
}
