use laxity_graph::{OperatorId, ProcessingTime};
use laxity_runtime::{IntakeContext, Step};

use super::World;
use crate::event::Event;
use crate::machine::Sharing;
use crate::modelled::Modelled;
use crate::queue::Coming;
use crate::run_clock::Begin;
use crate::table::{Read, Table};

/// How rows come in, and when they are held back.
impl<C: Modelled> World<C> {
    /// A table is to be looked at then, whatever was appointed.
    pub(super) fn appoint(&mut self, table: u32, at: ProcessingTime) {
        let at = at.max(self.now);
        if self.tables[table as usize].look.replace(at) != Some(at) {
            self.queue.push(at, Coming::Arrive(table));
        }
    }

    pub(super) fn arrive(&mut self, table: u32) {
        let state = &mut self.tables[table as usize];
        // It may have been looked at since, and appointed anew.
        if self.closing || state.look.is_none_or(|look| look > self.now) {
            return;
        }
        state.look = None;
        let step = self.look_at(table);
        let is_held = matches!(step, Step::Held(_));
        let state = &mut self.tables[table as usize];
        let operator = state.operator;
        if is_held && !state.is_held {
            self.watch.on(self.now, Event::Held { operator });
        }
        state.is_held = is_held;
        match step {
            Step::At { at, .. } | Step::Held(at) | Step::Waiting(Some(at)) => self.appoint(table, at),
            Step::Waiting(None) | Step::Done => {}
        }
        self.dispatch(self.topology.operator(operator).machine);
    }

    /// Takes in what has arrived, as far as there is credit.
    fn look_at(&mut self, table: u32) -> Step {
        let Table { operator, intake, feed, .. } = &mut self.tables[table as usize];
        let operator = *operator;
        let place = self.topology.operator(operator);
        let query = &self.running[place.query.index()];
        if self.setup.closed_loop && !query.has_credit(OperatorId(table)) {
            // Nothing comes into being that cannot be taken in.
            return Step::Held(self.now.plus_ns(CLOSED_LOOP_RETRY_NS));
        }
        let process = std::sync::Arc::clone(query.process());
        self.clock.begin(Begin { at: self.now, core: None, call_ns: 0, is_message: true });
        let (now, sheds, local, watch) = (self.now, self.setup.shed, place.local, &mut self.watch);
        let sharing = &mut self.machines[place.machine as usize].sharing;
        let mut context = IntakeContext {
            clock: &*self.clock,
            quantum_ns: self.clock.quantum_ns(),
            unix_start_ms: 0,
            load: 0.0,
            // There is one reader, which waits for nobody.
            backlog_bytes: u64::MAX,
            memory: &process.memory,
            shed: |_, rows| match sharing {
                Sharing::Scheduler(scheduler) if sheds && rows > 0 => {
                    let dropped = scheduler.rows_to_shed(local, rows, now).min(rows);
                    if dropped > 0 {
                        watch.on(now, Event::Shed { operator, rows: dropped });
                    }
                    dropped
                }
                _ => 0,
            },
            staged: &mut self.staged,
        };
        let mut read = Read { feed, clock: &self.clock, per_row_ns: 0.0 };
        let (step, _) = intake.attend(&mut read, &mut context);
        let mut staged = std::mem::take(&mut self.staged);
        for message in staged.drain(..) {
            self.count_in(&message);
            self.enqueue(message);
        }
        self.staged = staged;
        step
    }

    /// Tables that wait for the credit of a query may go on now that something has been worked off.
    pub(super) fn wake_tables(&mut self, query: usize) {
        for table in self.running[query].wake() {
            self.appoint(table.0, self.now);
        }
    }
}

/// As long as a table waits for memory in the runtime before it tries again.
const CLOSED_LOOP_RETRY_NS: u64 = 10_000_000;
