use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::sync::Arc;

use laxity_connect::{ConnectError, Sink};
use laxity_graph::{OperatorId, ProcessingTime};
use laxity_operators::StreamBatch;
use laxity_runtime::{ArrowRows, Outcome, Outlet, Query, Write, Written};
use parking_lot::{Condvar, Mutex};

use crate::chain_of_causes;
use crate::clock::Clock;

/// Threads that write for all sinks, the most urgent first.
///
/// A sink is in one of three places: idle, in `ready` (it has writes), or in the hands of one thread. Writes
/// of one sink keep their order.
pub(crate) struct SinkPool {
    state: Mutex<PoolState>,
    wake: Condvar,
    clock: Clock,
}

#[derive(Default)]
struct PoolState {
    sinks: Vec<SinkState>,
    ready: BinaryHeap<Reverse<(ProcessingTime, usize)>>,
    stopping: bool,
}

struct SinkState {
    sink: Option<Box<dyn Sink>>,
    writes: VecDeque<Write<ArrowRows>>,
    busy: bool,
}

impl SinkPool {
    pub(crate) fn new(clock: Clock) -> SinkPool {
        SinkPool { state: Mutex::new(PoolState::default()), wake: Condvar::new(), clock }
    }

    /// Adds an output written by so many instances.
    pub(crate) fn add(
        &self,
        query: &Arc<Query>,
        sink: Box<dyn Sink>,
        writers: usize,
        is_result: bool,
    ) -> Arc<Outlet> {
        let mut state = self.state.lock();
        let is_immediate = sink.is_immediate();
        let number = state.sinks.len();
        state.sinks.push(SinkState { sink: Some(sink), writes: VecDeque::new(), busy: false });
        Arc::new(Outlet::new(query.clone(), number, writers, is_result, is_immediate))
    }

    /// Lets the threads return once nothing is left to write.
    pub(crate) fn stop(&self) {
        self.state.lock().stopping = true;
        self.wake.notify_all();
    }

    /// What each of the pool's threads does. `wake` is told the tables that wait for credit which is back.
    pub(crate) fn run(&self, wake: impl Fn(Vec<OperatorId>)) {
        let mut state = self.state.lock();
        loop {
            let Some(Reverse((_, index))) = state.ready.pop() else {
                if state.stopping {
                    return;
                }
                self.wake.wait(&mut state);
                continue;
            };
            let entry = &mut state.sinks[index];
            let write = entry.writes.pop_front().expect("a ready sink has writes");
            entry.busy = true;
            let mut sink = entry.sink.take();
            drop(state);
            let outlet = write.outlet.clone();
            let is_over = matches!(write.what, Written::End);
            if self.perform(write, sink.as_deref_mut()) {
                wake(outlet.query.wake());
            }
            if is_over {
                sink = None;
            }
            state = self.state.lock();
            let entry = &mut state.sinks[index];
            entry.sink = sink;
            entry.busy = false;
            if let Some(next) = entry.writes.front() {
                let due = deadline(next);
                state.ready.push(Reverse((due, index)));
            }
        }
    }

    /// True if tables wait for the credit that is back.
    fn perform(&self, write: Write<ArrowRows>, sink: Option<&mut (dyn Sink + 'static)>) -> bool {
        let Write { outlet, what } = write;
        let done = what.in_flight();
        match what {
            Written::Rows {
                batch: StreamBatch { rows: batch, .. }, rows, stamps, window_end, ready, ..
            } => {
                if let Some(sink) = sink
                    && !outlet.query.failed()
                {
                    match sink.write(&batch) {
                        Ok(()) => outlet.count(rows, &stamps, window_end, ready, self.clock.now()),
                        Err(error) => fail(&outlet.query, &error),
                    }
                }
                outlet.written(&stamps);
            }
            Written::End => {
                if let Some(Err(error)) = sink.map(|sink| sink.close()) {
                    fail(&outlet.query, &error);
                }
                outlet.closed();
            }
        }
        outlet.query.release(done)
    }

    /// Takes rows off a worker's hands, counted as in flight. True if tables wait for credit that is back.
    #[must_use]
    pub(crate) fn push(&self, write: Write<ArrowRows>) -> bool {
        if matches!(write.what, Written::End) && !write.outlet.end_channel() {
            return write.outlet.query.release(write.what.in_flight());
        }
        self.enqueue(write);
        false
    }

    fn enqueue(&self, write: Write<ArrowRows>) {
        let mut state = self.state.lock();
        let index = write.outlet.number;
        let entry = &mut state.sinks[index];
        let was_idle = entry.writes.is_empty() && !entry.busy;
        let due = deadline(&write);
        entry.writes.push_back(write);
        if was_idle {
            state.ready.push(Reverse((due, index)));
            drop(state);
            self.wake.notify_one();
        }
    }

    /// Completes an output once everything before is written. Asking twice does no harm.
    pub(crate) fn close(&self, outlet: &Arc<Outlet>) {
        let what = Written::End;
        outlet.query.admit(what.in_flight());
        self.enqueue(Write { outlet: outlet.clone(), what });
    }
}

fn deadline(write: &Write<ArrowRows>) -> ProcessingTime {
    match &write.what {
        Written::Rows { stamps, .. } => stamps.ingested.plus_ns(write.outlet.query.target_ns()),
        Written::End => ProcessingTime::MAX,
    }
}

fn fail(query: &Query, error: &ConnectError) {
    let why = chain_of_causes(error);
    tracing::error!(query = query.settings.name, why, "query stopped");
    query.end(Outcome::Failed(why));
}
