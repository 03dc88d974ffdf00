use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use laxity_graph::{OperatorId, WorkerId};

use crate::dispatch::Dispatch;
use crate::engine::Shared;
use crate::instance::{Instance, RunContext};
use crate::mailboxes::{Finished, Next};
use crate::niceness::yield_to_prompt_threads;

/// What a worker has spent its time on. Written by that worker alone.
#[derive(Default)]
#[repr(align(64))]
pub(crate) struct WorkerTimes {
    operator_ns: AtomicU64,
}

impl WorkerTimes {
    fn count(&self, operator_ns: u64) {
        self.operator_ns.store(self.operator_ns() + operator_ns, Relaxed);
    }

    /// Inside operators.
    pub(crate) fn operator_ns(&self) -> u64 {
        self.operator_ns.load(Relaxed)
    }
}

/// What a worker thread does: ask the scheduler, run, hand over, ask again.
pub(crate) fn body(shared: Arc<Shared>, worker: WorkerId) -> impl FnOnce() + Send + 'static {
    move || {
        let Dispatch::Scheduled(mailboxes) = &shared.dispatch else { return };
        yield_to_prompt_threads(shared.config.worker_nice);
        let clock = shared.clock;
        let quantum_ns = shared.config.quantum.as_nanos() as u64;
        let mut whereabouts = mailboxes.whereabouts(worker);
        let (mut staged, mut merged) = (Vec::new(), Vec::new());
        let mut finished = None;
        let times = &shared.worker_times[worker.index()];
        // Instances by id. Grows with the engine's table; the lock is taken only for ids not seen before.
        let mut instances: Vec<Arc<Instance>> = Vec::new();
        loop {
            let next =
                mailboxes
                    .exchange(&mut whereabouts, finished.take(), &mut staged, &mut merged, || clock.now());
            // Their query ended between the run that made them and the hand-over.
            for message in staged.drain(..) {
                look_up(&mut instances, message.to, &shared).query.release(message.rows, message.bytes);
            }
            let Next::Run(grant) = next else { return };
            let instance = look_up(&mut instances, grant.operator, &shared);
            let mut context = RunContext {
                clock: &clock,
                quantum_ns,
                merged: &mut merged,
                staged: &mut staged,
                operator_ns: 0,
            };
            let run = instance.run(grant.work, &mut context);
            times.count(context.operator_ns);
            finished = Some(Finished { operator: grant.operator, run });
        }
    }
}

fn look_up<'a>(seen: &'a mut Vec<Arc<Instance>>, id: OperatorId, shared: &Shared) -> &'a Arc<Instance> {
    if seen.len() <= id.index() {
        seen.extend(shared.instances.read()[seen.len()..].iter().cloned());
    }
    &seen[id.index()]
}
