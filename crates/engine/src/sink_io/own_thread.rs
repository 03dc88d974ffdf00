//! The thread of an output that may stall. It connects before there is anything to write, goes on writing while what was
//! written before is under way, and ends with the output.

use std::sync::Arc;

use laxity_graph::ProcessingTime;
use laxity_runtime::Outlet;
use parking_lot::{Condvar, MutexGuard};

use super::turn::Looks;
use super::{Busy, PoolState, Served, SinkPool};
use crate::fault::Fault;

/// How an output's own thread is reached.
pub(super) struct OwnThread {
    pub wake: Arc<Condvar>,
    is_running: bool,
    connection: Connection,
}

/// What was done to connect ahead of the first write.
#[derive(Clone, Copy)]
enum Connection {
    /// Nobody has asked for it yet.
    Wanted,
    /// It is due then.
    Due(ProcessingTime),
    /// There is nothing to be done, or writes do it.
    Done,
}

impl OwnThread {
    pub fn new(connects: bool) -> OwnThread {
        let connection = if connects { Connection::Wanted } else { Connection::Done };
        OwnThread { wake: Arc::default(), is_running: false, connection }
    }
}

impl SinkPool {
    /// Lets an output connect before there is anything to write, if it is one that does. Nobody waits for it.
    pub(crate) fn connect(self: &Arc<SinkPool>, outlet: &Arc<Outlet>) {
        if outlet.is_immediate {
            return;
        }
        let encoding = self.encodings.read()[outlet.number].clone();
        // Held meanwhile: the number stays that of its output.
        let open = encoding.lock();
        if !open.is_written_by(outlet) {
            return;
        }
        let mut state = self.state.lock();
        let own = state.sinks[outlet.number].as_mut().and_then(|entry| entry.own.as_mut());
        if let Some(own) = own.filter(|own| matches!(own.connection, Connection::Wanted)) {
            own.connection = Connection::Due(self.clock.now());
            self.wake_own(&mut state, outlet.number);
        }
    }

    /// Wakes the thread of an output that has one of its own; it is started when there is something to do for the first time.
    pub(super) fn wake_own(self: &Arc<SinkPool>, state: &mut PoolState, index: usize) {
        let Some(entry) = &mut state.sinks[index] else { return };
        let Some(own) = &mut entry.own else { return };
        own.wake.notify_one();
        if std::mem::replace(&mut own.is_running, true) {
            return;
        }
        let pool = self.clone();
        let thread = std::thread::Builder::new().name(format!("sink {}", entry.name));
        match thread.spawn(move || pool.run_own(index)) {
            // Not joined: it may be stalled for ever.
            Ok(_) => state.own_threads += 1,
            Err(error) => {
                // The threads that outputs share have to do.
                tracing::warn!(output = entry.name, %error, "the output gets no thread of its own");
                entry.own = None;
                let due = entry.due;
                state.ready.push(std::cmp::Reverse((due, index)));
                self.wake.notify_one();
            }
        }
    }

    fn run_own(&self, index: usize) {
        let mut state = self.state.lock();
        let mut looks = Looks::default();
        while let Some(entry) = &state.sinks[index] {
            let Some(own) = &entry.own else { break };
            let wake = own.wake.clone();
            if entry.may_write() {
                looks = Looks::default();
                if self.serve(&mut state, index).is_last {
                    break;
                }
            } else if !entry.under_way.is_empty() {
                let Served { has_arrived, .. } = self.serve(&mut state, index);
                let is_idle = state.sinks[index].as_ref().is_some_and(|entry| !entry.may_write());
                if has_arrived {
                    looks = Looks::default();
                } else if is_idle {
                    wake.wait_for(&mut state, looks.next());
                }
            } else if state.stopping {
                break;
            } else {
                match own.connection {
                    Connection::Due(at) if at > self.clock.now() => {
                        wake.wait_until(&mut state, self.clock.instant(at));
                    }
                    Connection::Due(_) => self.connect_own(&mut state, index),
                    Connection::Wanted | Connection::Done => wake.wait(&mut state),
                }
            }
        }
        state.own_threads -= 1;
        self.own_ended.notify_all();
    }

    /// Connects once. Where that cannot help, all who write here have failed.
    fn connect_own(&self, state: &mut MutexGuard<'_, PoolState>, index: usize) {
        let Some(entry) = &mut state.sinks[index] else { return };
        let mut output = entry.output.take();
        entry.busy = Some(Busy { since: self.clock.now(), rows: 0 });
        let (output, connection) = MutexGuard::unlocked(state, || {
            let connected = output.as_mut().map_or(Ok(None), |output| output.connect());
            let connection = match connected {
                Ok(Some(pause)) => Connection::Due(self.clock.now().plus(pause)),
                Ok(None) => Connection::Done,
                Err(error) => {
                    let fault = Fault::from(error);
                    let encoding = self.encodings.read()[index].clone();
                    let outlets = encoding.lock().outlets();
                    outlets.iter().for_each(|outlet| fault.end(&outlet.query));
                    Connection::Done
                }
            };
            (output, connection)
        });
        let Some(entry) = &mut state.sinks[index] else { return };
        entry.output = output;
        entry.busy = None;
        if let Some(own) = &mut entry.own {
            own.connection = connection;
        }
    }
}
