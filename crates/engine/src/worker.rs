//! The loop of a worker thread, and what is measured of it on the way; nothing is decided here.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use laxity_graph::WorkerId;
use laxity_runtime::{ArrowRows, Instance, Look, LookCosts, RunContext};
use laxity_sched::{CallCost, RunReport};

use crate::dispatch::Dispatch;
use crate::mailboxes::{Finished, Next};
use crate::shared::Shared;
use crate::tables::Table;

/// What a worker has spent its time on. Written by that worker alone.
#[derive(Default)]
#[repr(align(64))]
pub(crate) struct WorkerTimes {
    operator_ns: AtomicU64,
    awake_ns: AtomicU64,
    /// Between two runs without sleep, as of late.
    between_ns: AtomicU64,
    looks: [AtomicU64; 5],
}

impl WorkerTimes {
    fn count(&self, operator_ns: u64) {
        self.operator_ns.store(self.operator_ns() + operator_ns, Relaxed);
    }

    fn count_look(&self, rows: u64, ns: u64) {
        let mut costs = self.look_costs();
        costs.observe(rows, ns);
        let LookCosts { looks, rows, ns, rows_rows, rows_ns } = costs;
        let sums = [looks, rows, ns, rows_rows, rows_ns];
        self.looks.iter().zip(sums).for_each(|(sum, to)| sum.store(to, Relaxed));
    }

    /// Between the end of a run and the start of the next where it did not sleep, ns: a mean of the last few dozen; 0
    /// before the first.
    pub(crate) fn between_ns(&self) -> u64 {
        self.between_ns.load(Relaxed)
    }

    /// What looks at tables cost that found rows.
    pub(crate) fn look_costs(&self) -> LookCosts {
        let [looks, rows, ns, rows_rows, rows_ns] = self.looks.each_ref().map(|sum| sum.load(Relaxed));
        LookCosts { looks, rows, ns, rows_rows, rows_ns }
    }

    /// Not asleep, up to the end of the last run.
    pub(crate) fn awake_ns(&self) -> u64 {
        self.awake_ns.load(Relaxed)
    }

    /// Inside operators.
    pub(crate) fn operator_ns(&self) -> u64 {
        self.operator_ns.load(Relaxed)
    }
}

/// What a worker is granted.
#[derive(Clone)]
pub(crate) enum Unit {
    Operator(Arc<Instance<ArrowRows>>),
    Table(Arc<Table>),
}

/// What a worker thread does: ask the scheduler, run, hand over, ask again.
pub(crate) fn body(shared: Arc<Shared>, worker: WorkerId) -> impl FnOnce() + Send + 'static {
    move || {
        let Dispatch::Scheduled(mailboxes) = &shared.dispatch else { return };
        let clock = shared.clock;
        let quantum_ns = shared.config.quantum.as_nanos() as u64;
        let mut worker_state = mailboxes.worker_state(worker);
        let (mut staged, mut merged, mut writes) = (Vec::new(), Vec::new(), Vec::new());
        let mut finished: Option<Finished> = None;
        let (started, mut asleep_ns) = (clock.now(), 0);
        let (mut ended, mut between) = (None, CallCost::default());
        let times = &shared.worker_times[worker.index()];
        loop {
            let next =
                mailboxes
                    .exchange(&mut worker_state, finished.take(), &mut staged, &mut merged, || clock.now());
            // Their query ended between the run that made them and the hand-over.
            shared.refuse(&mut staged);
            let (grant, unit) = match next {
                Next::Run(grant, unit) => (grant, unit),
                Next::Refused => continue,
                Next::Stop => return,
            };
            let slept_ns = worker_state.take_slept_ns();
            asleep_ns += slept_ns;
            let done = match &unit {
                Unit::Operator(instance) => {
                    let mut context = RunContext {
                        clock: &clock,
                        quantum_ns,
                        merged: &mut merged,
                        staged: &mut staged,
                        writes: &mut writes,
                        operator_ns: 0,
                    };
                    let run = instance.run(grant.work, &mut context);
                    times.count(context.operator_ns);
                    shared.write(&mut writes);
                    if run.returned_credit {
                        shared.wake(instance.query.wake());
                    }
                    let look = run.wake.map(|at| Look { at, due: at });
                    Finished { report: run.report, progress: run.progress, ended: run.ended, look }
                }
                Unit::Table(table) => {
                    let looked = shared.look_at(table, &mut staged);
                    merged.clear();
                    // What is admitted goes to queries on any shard.
                    if mailboxes.shards() > 1 {
                        shared.hand_over(&mut staged);
                    }
                    let cpu_ns = looked.ended.since_ns(looked.started);
                    times.count_look(looked.rows, cpu_ns.saturating_sub(looked.recorded_ns));
                    let report = RunReport { rows_in: 0, rows_out: 0, cpu_ns, more: false };
                    Finished { report, progress: None, ended: looked.ended, look: looked.look }
                }
            };
            if let Some(ended) = ended.replace(done.ended).filter(|_| slept_ns == 0) {
                // Runs that the operating system came between hardly count.
                let run_began = done.ended.0.saturating_sub(done.report.cpu_ns);
                between.observe(true, run_began.saturating_sub(ended.0));
                times.between_ns.store(between.change_ns as u64, Relaxed);
            }
            times.awake_ns.store(done.ended.since_ns(started).saturating_sub(asleep_ns), Relaxed);
            finished = Some(done);
        }
    }
}
