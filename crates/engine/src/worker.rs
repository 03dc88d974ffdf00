use std::sync::Arc;

use laxity_graph::{OperatorId, WorkerId};

use crate::dispatch::Dispatch;
use crate::engine::Shared;
use crate::instance::{Instance, RunContext};
use crate::mailboxes::{Finished, Next};
use crate::niceness::yield_to_prompt_threads;

/// What a worker thread does: ask the scheduler, run, hand over, ask again.
pub(crate) fn body(shared: Arc<Shared>, worker: WorkerId) -> impl FnOnce() + Send + 'static {
    move || {
        let Dispatch::Scheduled(mailboxes) = &shared.dispatch else { return };
        yield_to_prompt_threads(shared.config.worker_nice);
        let clock = shared.clock;
        let quantum_ns = shared.config.quantum.as_nanos() as u64;
        let mut staged = Vec::new();
        let mut finished = None;
        // Instances by id. Grows with the engine's table; the lock is taken only for ids not seen before.
        let mut instances: Vec<Arc<Instance>> = Vec::new();
        loop {
            let next = mailboxes.exchange(
                worker,
                finished.take(),
                &mut staged,
                || clock.now(),
                |at| Some(clock.instant(at)),
            );
            let Next::Run(grant) = next else { return };
            let instance = look_up(&mut instances, grant.operator, &shared);
            let mut context = RunContext { clock: &clock, quantum_ns, staged: &mut staged };
            let run = instance.run(grant.work, &mut context);
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
