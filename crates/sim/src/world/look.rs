//! Scheduled sources: a look at a table is a message with a deadline, and competes with operators for the cores.

use laxity_graph::{EventTime, OperatorId, ProcessingTime};
use laxity_runtime::{InFlight, Intake, Look, Parcel, Payload, Run, Split, Step};
use laxity_sched::RunReport;

use super::World;
use crate::machine::{Sharing, Underway};
use crate::modelled::Modelled;
use crate::queue::ScheduledEvent;
use crate::run_clock::Begin;
use crate::table::{Looked, Table};

/// Looks at tables that wait with all other work, as in the engine.
impl<C: Modelled> World<C> {
    /// The table at that place; `None` for an operator.
    pub(super) fn table_at(&self, place: u32) -> Option<u32> {
        let number = self.topology.table_number(place)?;
        self.numbers.get(number).copied().filter(|&table| table != u32::MAX)
    }

    /// The scheduler hears of a table, which is looked at from now on.
    pub(super) fn add_table(&mut self, table: u32) {
        let table = &self.tables[table as usize];
        let place = self.topology.operator(table.place);
        let (query, operator) = Look::unit(place.query, place.local, place.target_ns);
        let machine = &mut self.machines[place.machine as usize];
        let mut readers = table.intake.readers().map(|reader| reader.query.id);
        let reader = readers.next().filter(|_| readers.next().is_none());
        machine.sharing.add_table(query, operator, reader);
        if let Sharing::Scheduler(order) = &machine.sharing {
            machine.agendas[order.shard_of(place.local)].enlist(place.local);
        }
    }

    /// A table is to be looked at then.
    pub(super) fn appoint_look(&mut self, table: u32, look: Look) {
        let place = self.topology.operator(self.tables[table as usize].place);
        let machine = &mut self.machines[place.machine as usize];
        match &machine.sharing {
            Sharing::Scheduler(order) => {
                machine.agendas[order.shard_of(place.local)].appoint(place.local, look)
            }
            Sharing::Threads(_) => self.appoint(table, look),
        }
    }

    /// The message that a table is to be looked at.
    pub(super) fn enqueue_look(&mut self, table: u32, due: ProcessingTime) {
        let to = OperatorId(self.tables[table as usize].place);
        let (progress, body) = (EventTime::MIN, Payload::look());
        let message = Parcel::<C> { to, channel: 0, progress, ingested: due, rows: 0, bytes: 0, body };
        self.count_in(&message);
        self.enqueue(message);
    }

    /// An operator is to be told the time then, where it asked for that.
    pub(super) fn ask_for_time(&mut self, operator: u32, wake: Option<ProcessingTime>) {
        if let Some(due) = wake {
            self.queue.push(due.max(self.now), ScheduledEvent::Time { operator, due });
        }
    }

    /// The message that an operator's time has come. It keeps nobody waiting for the end.
    pub(super) fn tell_time(&mut self, operator: u32, due: ProcessingTime) {
        let (progress, body) = (EventTime::MIN, Payload::look());
        let to = OperatorId(operator);
        self.enqueue(Parcel::<C> { to, channel: 0, progress, ingested: due, rows: 0, bytes: 0, body });
        self.dispatch(self.topology.operator(operator).machine);
    }

    /// Looks that are due on the shard where a core is at home wait from now on.
    pub(super) fn attend_agenda(&mut self, machine: u32, number: u32) {
        while !self.closing {
            let state = &mut self.machines[machine as usize];
            let home = state.home(number);
            let Some((local, due)) = state.agendas[home].pop_due(self.now) else { return };
            let place = state.operators[local.index()];
            if let Some(table) = self.table_at(place) {
                self.enqueue_look(table, due);
            }
        }
    }

    /// A table is to be looked at now, whatever was appointed: something was worked off on that machine.
    pub(super) fn wake_table(&mut self, table: u32, machine: u32) {
        if self.closing {
            return;
        }
        let place = self.topology.operator(self.tables[table as usize].place);
        let (local, own) = (place.local, place.machine);
        if let Sharing::Threads(threads) = &self.machines[own as usize].sharing {
            self.tables[table as usize].look = None;
            if !threads.threads[local.index()].mailbox.is_empty() {
                return;
            }
        }
        self.enqueue_look(table, self.now);
        if own != machine {
            self.queue.push(self.now, ScheduledEvent::Stir(own));
        }
    }

    /// Works out what a look does, and how long it takes; what comes of it is let out once that time has passed.
    pub(super) fn look(&mut self, table: u32, begin: Begin, underway: &mut Underway<C>) {
        self.clock.begin(begin);
        // Looks that were asked for meanwhile are this one.
        let messages = 1 + self.merged.drain(..).count() as i64;
        let (step, split) = if self.closing { (Step::Done, None) } else { self.attend(table) };
        let look_ns = self.setup.sources.scheduled().map_or(0, |costs| costs.look_ns);
        self.clock.spend(look_ns as f64);
        std::mem::swap(&mut underway.staged, &mut self.staged);
        std::mem::swap(&mut underway.writes, &mut self.writes);
        let ended = laxity_runtime::Clock::now(&*self.clock);
        let report = RunReport { rows_in: 0, rows_out: 0, cpu_ns: ended.since_ns(begin.at), more: false };
        let done = InFlight { messages, ..InFlight::default() };
        underway.run = Run { report, ended, done, ..Run::default() };
        underway.looked = Some(Looked { table, step, split });
        (underway.cpu_ns, underway.sleep_ns, underway.late_rows) = (self.clock.cpu_ns(), 0, 0);
        if step == Step::Done {
            self.fail_with_readers(table);
        }
    }

    /// Lets out what a look admitted. After it was worked out it took so much longer.
    pub(super) fn looked(&mut self, looked: Looked<C>, underway: &mut Underway<C>, longer_ns: u64) {
        let Looked { table, step, split } = looked;
        for mut message in underway.staged.drain(..) {
            let stamps = &mut message.body.stamps;
            stamps.admitted = stamps.admitted.plus_ns(longer_ns);
            self.count_in(&message);
            self.enqueue(message);
        }
        let place = self.tables[table as usize].place;
        self.let_out(place, underway, longer_ns, 0);
        self.note_held(table, step);
        if let Some(split) = split {
            self.split(table, split);
        }
        if let Some(look) = Look::after(step).filter(|_| !self.closing) {
            self.appoint_look(table, look);
        }
    }

    /// Opens a copy of a table for readers that hold up the others.
    fn split(&mut self, table: u32, split: Split<C>) {
        let number = self.tables.len() as u32;
        let state = &mut self.tables[table as usize];
        let place = state.spare.pop().expect("there are as many as targets");
        let spare = std::mem::take(&mut state.spare);
        let copy = state.feed.split();
        let intake = Intake::of_split(OperatorId(number), split);
        self.topology.set_target(place, intake.target_ns());
        self.tables.push(Table::new(place, intake, copy, spare));
        let place_number = self.topology.table_number(place).expect("it is a table's");
        self.numbers[place_number] = number;
        self.add_table(number);
        self.enqueue_look(number, self.now);
    }

    /// A table whose rows cannot be read ends those who read it, and with them the simulation.
    fn fail_with_readers(&mut self, table: u32) {
        let failed = self.running.iter().position(|query| query.failed());
        if let Some(query) = failed {
            let operator = self.topology.queries[query].start;
            if let laxity_runtime::Outcome::Failed(message) = self.running[query].outcome() {
                self.fail(operator, format!("table {table}: {message}"));
            }
        }
    }

    /// Takes down how busy the cores of every machine were.
    pub(super) fn observe_load(&mut self) {
        let cores = self.setup.cluster.cores();
        for (machine, cores) in self.machines.iter_mut().zip(self.cores.chunks(cores.max(1))) {
            let awake_ns = cores.iter().map(|core| core.awake_ns).sum();
            machine.load.observe(awake_ns, cores.len(), self.now);
        }
        if !self.closing {
            self.queue.push(self.now.plus_ns(laxity_runtime::Load::PERIOD_NS), ScheduledEvent::Load);
        }
    }
}
