//! Where the client's thread and the scan meet. The scan never waits here; the thread does when too many bytes lie
//! here.

use std::sync::Arc;

use laxity_connect::{ConnectError, Waker};
use parking_lot::{Condvar, Mutex};

use super::chunk::{Chunk, Partition};

/// Bytes brought and not yet taken, at most. Beyond, they stay with the client, which has a bound of its own.
const BUFFER_BYTES: usize = 4 << 20;

/// What goes from the thread that waits for messages to whoever decodes them.
pub(crate) struct Handover {
    state: Mutex<State>,
    /// Signalled when there is room again, and when nobody will take any more.
    room: Condvar,
    waker: Waker,
}

#[derive(Default)]
struct State {
    chunk: Chunk,
    /// Found since they were last taken.
    partitions: Vec<Partition>,
    /// How the table ended; a fault is told once.
    end: Option<Result<(), ConnectError>>,
    /// The reader was told that nothing is there.
    waited_for: bool,
    dropped: bool,
}

/// Answer of [`Handover::take`].
pub(crate) enum Taken {
    Messages,
    Nothing,
    End(Result<(), ConnectError>),
}

impl Handover {
    pub(crate) fn new(waker: Waker) -> Arc<Handover> {
        Arc::new(Handover { state: Mutex::default(), room: Condvar::new(), waker })
    }

    /// Hands messages over, and leaves none behind. Waits where too many are there; false if nobody wants them any more.
    pub(crate) fn put(&self, chunk: &mut Chunk) -> bool {
        let mut state = self.state.lock();
        while state.chunk.bytes() >= BUFFER_BYTES && !state.dropped {
            self.room.wait(&mut state);
        }
        if state.dropped {
            return false;
        }
        match state.chunk.len() {
            0 => std::mem::swap(&mut state.chunk, chunk),
            _ => state.chunk.append(chunk),
        }
        self.wake(state);
        true
    }

    /// Says that there are more partitions.
    pub(crate) fn add(&self, partitions: &[Partition]) {
        let mut state = self.state.lock();
        state.partitions.extend_from_slice(partitions);
        self.wake(state);
    }

    pub(crate) fn end(&self, end: Result<(), ConnectError>) {
        let mut state = self.state.lock();
        state.end = Some(end);
        self.wake(state);
    }

    fn wake(&self, mut state: parking_lot::MutexGuard<'_, State>) {
        let wake = std::mem::take(&mut state.waited_for);
        drop(state);
        if wake {
            self.waker.wake();
        }
    }

    /// Nobody will take any more.
    pub(crate) fn drop_reader(&self) {
        self.state.lock().dropped = true;
        self.room.notify_one();
    }

    pub(crate) fn is_dropped(&self) -> bool {
        self.state.lock().dropped
    }

    /// Takes all messages that are there in place of those of `chunk`, and the partitions found meanwhile. With
    /// `wait`, the waker is called when there is something again.
    pub(crate) fn take(&self, chunk: &mut Chunk, partitions: &mut Vec<Partition>, wait: bool) -> Taken {
        let mut state = self.state.lock();
        partitions.append(&mut state.partitions);
        if state.chunk.len() > 0 {
            let was_full = state.chunk.bytes() >= BUFFER_BYTES;
            chunk.clear();
            std::mem::swap(chunk, &mut state.chunk);
            if was_full {
                self.room.notify_one();
            }
            return Taken::Messages;
        }
        if let Some(end) = &mut state.end {
            return Taken::End(std::mem::replace(end, Ok(())));
        }
        state.waited_for |= wait;
        Taken::Nothing
    }

    pub(crate) fn held_bytes(&self) -> u64 {
        self.state.lock().chunk.held_bytes()
    }
}
