//! The loop of a worker thread; nothing is decided here.

mod of_one;

use std::sync::Arc;

use laxity_graph::WorkerId;
use laxity_runtime::{Look, RunContext};
use laxity_sched::{CallCost, RunReport};

use crate::clock::thread_cpu_ns;
use crate::dispatch::Dispatch;
use crate::mailboxes::{Finished, Next};
use crate::shared::Shared;
use crate::unit::Unit;

pub(crate) use self::of_one::serve;

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
            if slept_ns > 0 {
                shared.load.observe(&shared.worker_times, clock.now());
            }
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
                    let look = run.wake.map(Look::due);
                    Finished { report: run.report, progress: run.progress, ended: run.ended, look }
                }
                Unit::Table(table) => {
                    let had_ns = shared.config.record.then(thread_cpu_ns);
                    let looked = shared.look_at(table, &mut staged);
                    merged.clear();
                    // What is admitted goes to queries on any shard.
                    if mailboxes.used() > 1 {
                        shared.hand_over(&mut mailboxes.take_elsewhere(&worker_state, &mut staged));
                    }
                    let cpu_ns = looked.ended.since_ns(looked.started);
                    // Who wakes begins with a look, and beside other programs often stands still amid it: where somebody wants to
                    // know what looks cost, that is no part of it.
                    let took_ns = had_ns.map_or(cpu_ns, |had_ns| cpu_ns.min(thread_cpu_ns() - had_ns));
                    times.count_look(looked.rows, took_ns.saturating_sub(looked.recorded_ns));
                    let report = RunReport { rows_in: 0, rows_out: 0, cpu_ns, more: false };
                    Finished { report, progress: None, ended: looked.ended, look: looked.look }
                }
            };
            if let Some(ended) = ended.replace(done.ended).filter(|_| slept_ns == 0) {
                // Runs that the operating system came between hardly count.
                let run_began = done.ended.0.saturating_sub(done.report.cpu_ns);
                between.observe(true, run_began.saturating_sub(ended.0));
                times.set_between(between.change_ns as u64);
            }
            times.set_awake(done.ended.since_ns(started).saturating_sub(asleep_ns));
            shared.load.observe(&shared.worker_times, done.ended);
            finished = Some(done);
        }
    }
}
