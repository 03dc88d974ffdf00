//! The life of a grant on a simulated core: worked out at once, and let out when its time has passed.

use laxity_graph::{EventTime, WorkerId};
use laxity_runtime::{InFlight, MERGED_MESSAGES_MAX, Parcel, Run};
use laxity_sched::{Message, RunReport, Work};
use laxity_workload::{Cost, StageKind};

use super::World;
use crate::event::Event;
use crate::machine::{Sharing, Ticket};
use crate::modelled::Modelled;
use crate::queue::ScheduledEvent;
use crate::run_clock::Begin;
use crate::{Slice, Sources};

/// How cores are given work, and what becomes of it.
impl<C: Modelled> World<C> {
    /// Gives every idle core of a machine something to do while there is something.
    pub(super) fn dispatch(&mut self, machine: u32) {
        let bound = self.setup.memory_bound_bytes.unwrap_or(0);
        let state = &mut self.machines[machine as usize];
        let Sharing::Scheduler(scheduler) = &mut state.sharing else {
            self.dispatch_threads(machine);
            return;
        };
        scheduler.on_memory(state.bytes, bound);
        if self.setup.overheads.wake_ns > 0 {
            self.wake_one(machine);
            self.ask_again(machine);
            return;
        }
        loop {
            let state = &mut self.machines[machine as usize];
            let Sharing::Scheduler(scheduler) = &mut state.sharing else { return };
            if scheduler.waiting_units() == 0 {
                break;
            }
            let Some(number) = state.idle.pop() else { break };
            if !self.start(machine, number) {
                self.machines[machine as usize].idle.push(number);
                break;
            }
        }
        self.ask_again(machine);
    }

    /// Sees to it that a scheduler that wants to be asked again is, and that tables are looked at.
    fn ask_again(&mut self, machine: u32) {
        let state = &mut self.machines[machine as usize];
        // Who was woken looks for work, and wakes the next where there is more.
        self.watch.settled(machine, if state.waking > 0 { 0 } else { state.idle.len() });
        if state.idle.is_empty() || (self.closing && self.outstanding == 0) {
            return;
        }
        if let Some((look, _)) = state.next_look().filter(|_| !self.closing && state.waking == 0) {
            let at = look.max(self.now);
            if state.alarm_at.is_none_or(|alarm| alarm > at || alarm < self.now) {
                state.alarm_at = Some(at);
                self.queue.push(at, ScheduledEvent::Alarm(machine));
            }
        }
        let Some((due, _)) = state.next_timeout() else { return };
        // What is due already was asked for just now.
        let due = due.max(self.now.plus_ns(1));
        if state.tick_at.is_none_or(|at| at > due || at <= self.now) {
            state.tick_at = Some(due);
            self.queue.push(due, ScheduledEvent::Tick(machine));
        }
    }

    pub(super) fn tick(&mut self, machine: u32) {
        let state = &mut self.machines[machine as usize];
        if state.tick_at != Some(self.now) {
            return;
        }
        state.tick_at = None;
        if let Some((_, place)) = state.next_timeout() {
            let number = state.idle.remove(place);
            self.start_or_rest(machine, number);
        }
        self.dispatch(machine);
    }

    /// Wakes a core if there is work and none is on its way to it, as the engine does: who is woken wakes the next.
    fn wake_one(&mut self, machine: u32) {
        let state = &mut self.machines[machine as usize];
        let Sharing::Scheduler(scheduler) = &state.sharing else { return };
        if scheduler.waiting_units() > 0
            && let Some(number) = state.idle.pop()
        {
            self.wake(machine, number);
        }
    }

    fn wake(&mut self, machine: u32, number: u32) {
        self.machines[machine as usize].waking += 1;
        let core = machine * self.setup.cluster.cores() as u32 + number;
        self.queue.push(self.now.plus_ns(self.setup.overheads.wake_ns), ScheduledEvent::Woken(core));
    }

    pub(super) fn woken(&mut self, core: u32) {
        let (machine, number) = (self.cores[core as usize].machine, self.cores[core as usize].number);
        self.machines[machine as usize].waking -= 1;
        self.start_or_rest(machine, number);
        self.dispatch(machine);
    }

    /// A table is to be looked at, and there may be nobody awake for it.
    pub(super) fn alarm(&mut self, machine: u32) {
        let state = &mut self.machines[machine as usize];
        // It may have been put off, where the machine stood still.
        if state.alarm_at.is_none_or(|alarm| alarm > self.now) {
            return;
        }
        state.alarm_at = None;
        if let Some((look, place)) = state.next_look()
            && look <= self.now
        {
            let number = state.idle.remove(place);
            if self.setup.overheads.wake_ns > 0 {
                self.wake(machine, number);
            } else {
                self.start_or_rest(machine, number);
            }
        }
        self.dispatch(machine);
    }

    fn start_or_rest(&mut self, machine: u32, number: u32) {
        if !self.start(machine, number) {
            self.machines[machine as usize].idle.push(number);
        }
    }

    /// Asks what an idle core does now. False if nothing.
    fn start(&mut self, machine: u32, number: u32) -> bool {
        self.attend_agenda(machine, number);
        let state = &mut self.machines[machine as usize];
        let Sharing::Scheduler(scheduler) = &mut state.sharing else { return false };
        let worker = WorkerId(number);
        let looked_at = scheduler.cycle_work();
        let grant = scheduler.next(worker, self.now);
        let looked_at = scheduler.cycle_work() - looked_at;
        let mut overhead_ns = self.setup.overheads.cycle_ns_per_operator * looked_at;
        let Some(grant) = grant else {
            self.totals.overhead_ns += overhead_ns;
            self.watch.on(self.now, Event::Idle { machine, core: number });
            return false;
        };
        let operator = state.operators[grant.operator.index()];
        let place = self.topology.operator(operator);
        let core_index = machine * self.setup.cluster.cores() as u32 + number;
        let core = &mut self.cores[core_index as usize];
        let is_spared = self.setup.overheads.spares_free && place.cost == Cost::NONE;
        if !is_spared {
            overhead_ns += self.setup.overheads.schedule_ns;
            if scheduler.began_dispatch(worker) {
                overhead_ns += self.setup.overheads.dispatch_ns;
            }
            if core.operator != Some(operator) {
                overhead_ns += self.setup.overheads.switch_ns;
                self.totals.switches += 1;
            }
        }
        core.operator = Some(operator);
        self.totals.grants += 1;
        core.granted = self.now;
        let is_sink = place.kind == StageKind::Sink;
        let work = match grant.work {
            Work::Message { message, enqueued } => {
                let (id, message) = unpack(message);
                self.watch
                    .on(self.now, Event::Granted { machine, core: number, operator, message: Some(id) });
                state.queued_rows -= u64::from(message.rows);
                state.queued_messages -= 1;
                Self::note_progress(&mut self.progress, operator, message.progress);
                // The engine's sinks write what comes, batch by batch.
                if let Some(rows_max) = self.setup.merge_rows_max.filter(|_| !is_sink) {
                    let fits = |next: &Message<Ticket<C>>| message.body.goes_with(&next.body.payload);
                    while self.merged.len() < MERGED_MESSAGES_MAX
                        && let Some(more) = scheduler.merge_if(worker, rows_max, self.now, fits)
                    {
                        let (id, more) = unpack(more);
                        let event = Event::Merged { machine, core: number, operator, message: id };
                        self.watch.on(self.now, event);
                        state.queued_rows -= u64::from(more.rows);
                        state.queued_messages -= 1;
                        Self::note_progress(&mut self.progress, operator, more.progress);
                        self.merged.push(more);
                    }
                }
                Work::Message { message, enqueued }
            }
            Work::Resume => {
                self.watch.on(self.now, Event::Granted { machine, core: number, operator, message: None });
                Work::Resume
            }
        };
        overhead_ns += self.setup.overheads.message_ns * (1 + self.merged.len() as u64);
        let started = self.clock.done(machine as usize, number as usize, self.now, overhead_ns);
        let slowdown = self.slowdown(machine);
        let core = &mut self.cores[core_index as usize];
        core.started = started;
        let mut underway = core.underway.take().unwrap_or_default();
        let begin = Begin {
            at: started,
            core: Some((machine as usize, number as usize)),
            call_ns: if is_spared { 0 } else { self.setup.overheads.call_ns },
            slowdown,
            is_message: matches!(work, Work::Message { .. }),
        };
        self.work(operator, work, begin, &mut underway);
        let done = underway.run.ended;
        let core = &mut self.cores[core_index as usize];
        core.underway = Some(underway);
        core.run = core.run.wrapping_add(1);
        self.queue.push(done, ScheduledEvent::Finish { core: core_index, run: core.run });
        true
    }

    /// An operator holds so many bytes more than before.
    pub(super) fn state_changed(&mut self, operator: u32, grown_bytes: i64) {
        let place = self.topology.operator(operator);
        let machine = &mut self.machines[place.machine as usize];
        machine.bytes = machine.bytes.saturating_add_signed(grown_bytes);
        self.bytes = self.bytes.saturating_add_signed(grown_bytes);
        self.totals.memory_peak_bytes = self.totals.memory_peak_bytes.max(self.bytes);
    }

    /// What the timeline says of a run of this operator.
    pub(super) fn note_progress(progress: &mut [EventTime], operator: u32, of_message: EventTime) {
        if let Some(progress) = progress.get_mut(operator as usize) {
            *progress = of_message;
        }
    }

    pub(super) fn finish(&mut self, core_index: u32, run: u32) {
        let core = &mut self.cores[core_index as usize];
        if core.run != run {
            return;
        }
        if let Sharing::Threads(_) = self.machines[core.machine as usize].sharing {
            self.finish_piece(core_index);
            return;
        }
        let (machine, number) = (core.machine, core.number);
        let Some(operator) = core.operator else { return };
        let (granted, started) = (core.granted, core.started);
        let mut underway = core.underway.take().unwrap_or_default();
        let elapsed_ns = self.now.since_ns(started);
        self.made_ready = None;
        self.send(operator, &mut underway, 0, 0);
        let busy_ns = elapsed_ns.saturating_sub(underway.sleep_ns);
        self.cores[core_index as usize].awake_ns += self.now.since_ns(granted);
        self.totals.asleep_ns += underway.sleep_ns;
        self.totals.overhead_ns += started.since_ns(granted);
        if let Some(timeline) = self.timeline.as_mut().filter(|_| operator < self.topology.first_table) {
            timeline.push(Slice {
                start: started,
                end: self.now,
                node: machine,
                core: number,
                query: self.topology.operator(operator).query,
                operator,
                progress: self.progress[operator as usize],
            });
        }
        let (run, late_rows, slowed_ns) = (&underway.run, underway.late_rows, underway.slowed_ns);
        let RunReport { rows_in, more, .. } = run.report;
        let event = Event::Finished { machine, core: number, operator, rows_in, late_rows, more };
        self.watch.on(self.now, event);
        self.account(operator, rows_in, late_rows, busy_ns, run.done);
        self.book_slowed(operator, slowed_ns);
        self.ask_for_time(operator, run.wake);
        self.report(machine, number, operator, run);
        self.cores[core_index as usize].underway = Some(underway);
        self.start_or_rest(machine, number);
        self.dispatch(machine);
    }

    /// Tells the scheduler how a run went.
    fn report(&mut self, machine: u32, number: u32, operator: u32, run: &Run) {
        let place = self.topology.operator(operator);
        let state = &mut self.machines[machine as usize];
        let Sharing::Scheduler(scheduler) = &mut state.sharing else { return };
        scheduler.on_memory(state.bytes, self.setup.memory_bound_bytes.unwrap_or(0));
        // Where rows enter the machine, which need not be a source.
        if let Some((watermark, ingested)) = run.risen
            && self.topology.is_entry(operator)
        {
            scheduler.on_progress(place.local, watermark, ingested);
        }
        scheduler.on_finished(WorkerId(number), run.report, self.now);
        // As the engine's workers do; where looks cost nothing, papers are simulated, which know no such thing.
        let made_ready = self.made_ready.filter(|_| matches!(self.setup.sources, Sources::Scheduled(_)));
        if let Some((of, made_ready)) = made_ready
            && of == machine
        {
            scheduler.follow(WorkerId(number), made_ready, self.now);
        }
    }

    /// So much of what an operator was busy with, all told of by now, was no work but the heap's.
    pub(super) fn book_slowed(&mut self, operator: u32, slowed_ns: u64) {
        if slowed_ns == 0 || operator >= self.topology.first_table {
            return;
        }
        self.totals.busy_ns = self.totals.busy_ns.saturating_sub(slowed_ns);
        self.totals.overhead_ns += slowed_ns;
        let account = &mut self.accounts[self.topology.operator(operator).query.index()];
        account.busy_ns = account.busy_ns.saturating_sub(slowed_ns);
    }

    pub(super) fn account(
        &mut self,
        operator: u32,
        rows_in: u32,
        late_rows: u64,
        busy_ns: u64,
        done: InFlight,
    ) {
        let place = self.topology.operator(operator);
        if operator >= self.topology.first_table {
            // A table's, which is everybody's who reads it.
            self.totals.look_ns += busy_ns;
        } else {
            self.totals.busy_ns += busy_ns;
            let account = &mut self.accounts[place.query.index()];
            account.busy_ns += busy_ns;
            account.rows_late += late_rows;
            if place.kind == StageKind::Source
                && self.now >= laxity_graph::ProcessingTime::ZERO.plus(self.setup.warm_up)
            {
                account.rows_taken += u64::from(rows_in);
            }
        }
        let (messages, bytes) = (done.messages as u64, done.bytes as u64);
        self.machines[place.machine as usize].bytes -= bytes;
        self.bytes -= bytes;
        self.outstanding -= messages;
    }
}

/// A message as operators take it, and its number.
pub(super) fn unpack<C: Modelled>(message: Message<Ticket<C>>) -> (u64, Parcel<C>) {
    let Message { to, channel, progress, ingested, rows, bytes, body: Ticket { id, payload } } = message;
    (id, Message { to, channel, progress, ingested, rows, bytes, body: payload })
}
