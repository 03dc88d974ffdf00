//! The way in, from what a table brings to rows that are admitted, and where it is held up.

use laxity_graph::OperatorId;
use laxity_runtime::{IntakeContext, Look, Split, Step};
use laxity_sched::Relief;

use super::World;
use crate::event::Event;
use crate::machine::Sharing;
use crate::modelled::Modelled;
use crate::queue::ScheduledEvent;
use crate::run_clock::Begin;
use crate::table::{Read, Table};

/// How rows come in, and when they are held back.
impl<C: Modelled> World<C> {
    /// A table is to be looked at then, whatever was appointed, where no scheduler keeps that.
    pub(super) fn appoint(&mut self, table: u32, look: Look) {
        let at = look.at.max(self.now);
        if self.tables[table as usize].look.replace(Look { at, ..look }).map(|before| before.at) != Some(at) {
            self.queue.push(at, ScheduledEvent::Arrive(table));
        }
    }

    pub(super) fn arrive(&mut self, table: u32) {
        let state = &mut self.tables[table as usize];
        // It may have been looked at since, and appointed anew.
        let Some(look) = state.look.filter(|look| !self.closing && look.at <= self.now) else { return };
        state.look = None;
        let machine = self.topology.operator(state.place).machine;
        if self.setup.sources.scheduled().is_some() {
            self.enqueue_look(table, look.due);
        } else {
            self.clock.begin(Begin { at: self.now, core: None, call_ns: 0, slowdown: 1.0, is_message: true });
            let (step, _) = self.attend(table);
            let mut staged = std::mem::take(&mut self.staged);
            for message in staged.drain(..) {
                self.count_in(&message);
                self.enqueue(message);
            }
            self.staged = staged;
            self.note_held(table, step);
            if let Some(look) = Look::after(step) {
                self.appoint(table, look);
            }
        }
        self.dispatch(machine);
    }

    /// Takes in what has arrived, as far as there is credit; it is staged.
    pub(super) fn attend(&mut self, table: u32) -> (Step, Option<Split<C>>) {
        let Table { place, intake, feed, .. } = &mut self.tables[table as usize];
        let place = self.topology.operator(*place);
        let Some(reader) = intake.readers().next() else { return (Step::Done, None) };
        let waits_for_credit =
            |reader: &laxity_runtime::Reader<C>| !reader.query.has_credit(OperatorId(table));
        if self.setup.closed_loop && intake.readers().all(waits_for_credit) {
            // Nothing comes into being that cannot be taken in.
            return (Step::Held(self.now.plus_ns(CLOSED_LOOP_RETRY_NS)), None);
        }
        let process = std::sync::Arc::clone(reader.query.process());
        let costs = self.setup.sources.scheduled();
        let (now, topology, watch) = (self.now, &self.topology, &mut self.watch);
        let machine = &mut self.machines[place.machine as usize];
        let load = match &machine.sharing {
            Sharing::Scheduler(_) => machine.load.get(),
            // Threads know of no load: a table then keeps the distance that costs the least.
            Sharing::Threads(_) => 1.0,
        };
        let sharing = &mut machine.sharing;
        let mut context = IntakeContext {
            clock: &*self.clock,
            quantum_ns: costs.map_or(self.clock.quantum_ns(), |_| self.setup.config.quantum_ns),
            unix_start_ms: 0,
            load,
            // Where rows come at once there is one reader, which waits for nobody.
            backlog_bytes: costs.map_or(u64::MAX, |costs| costs.backlog_bytes),
            memory: &process.memory,
            relief: |source: OperatorId, rows, leaves_out| match sharing {
                Sharing::Scheduler(scheduler) if rows > 0 => {
                    let local = topology.operator(source.0).local;
                    let relief = scheduler.relief(local, rows, leaves_out, now);
                    if relief.drop > 0 {
                        watch.on(now, Event::Shed { operator: source.0, rows: relief.drop });
                    }
                    relief
                }
                _ => Relief::default(),
            },
            staged: &mut self.staged,
            writes: &mut self.writes,
        };
        let mut read = Read { feed, clock: &self.clock, costs };
        intake.attend(&mut read, &mut context)
    }

    /// Says so where arrivals are held back from now on.
    pub(super) fn note_held(&mut self, table: u32, step: Step) {
        let is_held = matches!(step, Step::Held(_));
        let state = &mut self.tables[table as usize];
        let was_held = std::mem::replace(&mut state.is_held, is_held);
        if is_held && !was_held {
            self.watch.on(self.now, Event::Held { operator: state.place });
        }
    }

    /// Tables that wait for the credit of a query may go on now that something has been worked off on that machine.
    pub(super) fn wake_tables(&mut self, query: usize, machine: u32) {
        for table in self.running[query].wake() {
            if self.setup.sources.scheduled().is_some() {
                self.wake_table(table.0, machine);
            } else {
                self.appoint(table.0, Look::due(self.now));
            }
        }
    }
}

/// As long as a table waits for memory in the runtime before it tries again.
const CLOSED_LOOP_RETRY_NS: u64 = 10_000_000;
