//! The end of a query with checkpoints: its outputs are complete once a checkpoint says so.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use laxity_connect::{Output, OutputPosition};
use laxity_runtime::{Outlet, Query};
use parking_lot::Mutex;

use crate::fault::Fault;

/// What the outputs of one query share: the numbers of its checkpoints, and who has come to its end.
pub(crate) struct Finish {
    query: Arc<Query>,
    /// Outputs for results.
    results: usize,
    state: Mutex<State>,
    write_last: OnceLock<Box<WriteLast>>,
}

/// Writes the checkpoint that says that nothing is left to be done.
type WriteLast = dyn Fn(u64, Vec<(usize, OutputPosition)>) -> Result<(), String> + Send + Sync;

struct State {
    /// Of the checkpoint that is taken next.
    next: u64,
    ended: Vec<Ended>,
}

/// An output that everything was written to.
struct Ended {
    number: usize,
    outlet: Arc<Outlet>,
    prepared_for: u64,
    position: OutputPosition,
    /// Until a checkpoint is safe that says where it stands.
    open: Option<Option<Box<dyn Output>>>,
}

impl Finish {
    pub fn new(query: Arc<Query>, results: usize, next: u64) -> Finish {
        let state = Mutex::new(State { next, ended: Vec::new() });
        Finish { query, results, state, write_last: OnceLock::new() }
    }

    /// How the last checkpoint is written. Once, before anything ends.
    pub fn writes_last(
        &self,
        write: impl Fn(u64, Vec<(usize, OutputPosition)>) -> Result<(), String> + Send + Sync + 'static,
    ) {
        let _ = self.write_last.set(Box::new(write));
    }

    /// The number of a checkpoint that is being taken.
    pub fn next_number(&self) -> u64 {
        let mut state = self.state.lock();
        state.next += 1;
        state.next - 1
    }

    /// Outputs that have come to their end, and where they stand.
    pub fn ended(&self) -> Vec<(usize, OutputPosition)> {
        self.state.lock().positions()
    }

    /// Everything was written to an output. It is kept until a checkpoint is safe that says so: with the last one of the
    /// results that is the last of all, and is written here.
    ///
    /// # Errors
    /// If the output or the store fails.
    pub fn end(
        &self,
        number: usize,
        outlet: &Arc<Outlet>,
        mut output: Option<Box<dyn Output>>,
    ) -> Result<(), Fault> {
        let mut state = self.state.lock();
        let next = state.next;
        let position = match &mut output {
            Some(output) => {
                let position = output.prepare(next)?;
                let rest = output.rest_of_prepare();
                rest.map_or(Ok(()), |rest| rest())?;
                position
            }
            None => OutputPosition::None,
        };
        let outlet = outlet.clone();
        state.ended.push(Ended { number, outlet, prepared_for: next, position, open: Some(output) });
        if state.ended.len() < self.results {
            return Ok(());
        }
        state.next += 1;
        self.write_with_patience(next, &state.positions())?;
        state.complete()
    }

    /// A checkpoint is safe: outputs that have ended before it are complete.
    ///
    /// # Errors
    /// If one of them fails.
    pub fn on_safe(&self) -> Result<(), Fault> {
        self.state.lock().complete()
    }

    fn write_with_patience(&self, number: u64, positions: &[(usize, OutputPosition)]) -> Result<(), String> {
        let Some(write) = self.write_last.get() else { return Err("the query has no store".into()) };
        let mut pauses = [100, 1_000, 5_000].into_iter();
        loop {
            let why = match write(number, positions.to_vec()) {
                Ok(()) => return Ok(()),
                Err(why) => why,
            };
            let Some(pause_ms) = pauses.next().filter(|_| !self.query.stopped()) else { return Err(why) };
            tracing::warn!(query = self.query.settings.name, why, "the last checkpoint is not written yet");
            std::thread::sleep(Duration::from_millis(pause_ms));
        }
    }
}

impl State {
    fn positions(&self) -> Vec<(usize, OutputPosition)> {
        self.ended.iter().map(|ended| (ended.number, ended.position.clone())).collect()
    }

    fn complete(&mut self) -> Result<(), Fault> {
        for ended in &mut self.ended {
            let Some(output) = ended.open.take() else { continue };
            if let Some(mut output) = output {
                output.commit(ended.prepared_for).and_then(|()| output.close())?;
            }
            ended.outlet.closed();
        }
        Ok(())
    }
}
