use laxity_graph::{EventTime, WorkerId};
use laxity_sched::{RunReport, Work};
use laxity_workload::{Cost, StageKind};

use super::World;
use crate::Slice;
use crate::event::Event;
use crate::machine::Sharing;
use crate::queue::Coming;

/// How cores are given work, and what becomes of it.
impl World {
    /// Gives every idle core of a machine something to do while there is something.
    pub(super) fn dispatch(&mut self, machine: u32) {
        let bound = self.setup.memory_bound_bytes.unwrap_or(0);
        let state = &mut self.machines[machine as usize];
        let Sharing::Scheduler(scheduler) = &mut state.sharing else {
            self.dispatch_threads(machine);
            return;
        };
        scheduler.on_memory(state.bytes, bound);
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

    /// Sees to it that a scheduler that wants to be asked again is.
    fn ask_again(&mut self, machine: u32) {
        let state = &mut self.machines[machine as usize];
        self.watch.settled(machine, state.idle.len());
        let Sharing::Scheduler(scheduler) = &state.sharing else { return };
        if state.idle.is_empty() || (self.closing && self.outstanding == 0) {
            return;
        }
        let Some(due) = scheduler.next_timeout() else { return };
        // What is due already was asked for just now.
        let due = due.max(self.now.plus_ns(1));
        if state.tick_at.is_none_or(|at| at > due || at <= self.now) {
            state.tick_at = Some(due);
            self.queue.push(due, Coming::Tick(machine));
        }
    }

    pub(super) fn tick(&mut self, machine: u32) {
        let state = &mut self.machines[machine as usize];
        if state.tick_at != Some(self.now) {
            return;
        }
        state.tick_at = None;
        if let Some(number) = state.idle.pop()
            && !self.start(machine, number)
        {
            self.machines[machine as usize].idle.push(number);
        }
        self.dispatch(machine);
    }

    /// Asks what an idle core does now. False if nothing.
    fn start(&mut self, machine: u32, number: u32) -> bool {
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
        core.started = self.speeds.done(machine as usize, number as usize, self.now, overhead_ns);
        let instance = &mut self.instances[operator as usize];
        match grant.work {
            Work::Message { message, .. } => {
                let event =
                    Event::Granted { machine, core: number, operator, message: Some(message.body.id) };
                self.watch.on(self.now, event);
                state.queued_rows -= u64::from(message.rows);
                state.queued_messages -= 1;
                instance.accept(&message, core.started);
                if let Some(rows_max) = self.setup.merge_rows_max {
                    while let Some(more) = scheduler.merge(worker, rows_max, self.now) {
                        let message = more.body.id;
                        self.watch.on(self.now, Event::Merged { machine, core: number, operator, message });
                        state.queued_rows -= u64::from(more.rows);
                        state.queued_messages -= 1;
                        instance.accept_more(&more, core.started);
                    }
                }
            }
            Work::Resume => {
                self.watch.on(self.now, Event::Granted { machine, core: number, operator, message: None });
                instance.unpause(core.started);
            }
        }
        core.before = instance.watermark;
        let mut emitted = std::mem::take(&mut core.emitted);
        let mut step = self.advance(operator, &mut emitted);
        if !is_spared {
            step.cpu_ns += self.setup.overheads.call_ns;
        }
        let core = &mut self.cores[core_index as usize];
        (core.step, core.emitted) = (step, emitted);
        core.run = core.run.wrapping_add(1);
        // The worker sleeps along.
        let awake = core.started.plus_ns(step.sleep_ns);
        let done = self.speeds.done(machine as usize, number as usize, awake, step.cpu_ns);
        self.queue.push(done, Coming::Finish { core: core_index, run: core.run });
        true
    }

    /// An operator holds so many bytes now, after so many before.
    pub(super) fn state_changed(&mut self, operator: u32, before: u64, after: u64) {
        let place = self.topology.operator(operator);
        let machine = &mut self.machines[place.machine as usize];
        machine.bytes = machine.bytes + after - before;
        self.bytes = self.bytes + after - before;
        self.totals.memory_peak_bytes = self.totals.memory_peak_bytes.max(self.bytes);
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
        let (machine, number, step, before) = (core.machine, core.number, core.step, core.before.0);
        let Some(operator) = core.operator else { return };
        let (granted, started) = (core.granted, core.started);
        let mut emitted = std::mem::take(&mut core.emitted);
        let elapsed_ns = self.now.since_ns(started);
        let rows_out = self.send(operator, &mut emitted, before, elapsed_ns, 0);
        self.cores[core_index as usize].emitted = emitted;
        let busy_ns = elapsed_ns.saturating_sub(step.sleep_ns);
        self.totals.busy_ns += busy_ns;
        self.totals.asleep_ns += step.sleep_ns;
        self.totals.overhead_ns += started.since_ns(granted);
        if let Some(timeline) = &mut self.timeline {
            timeline.push(Slice {
                start: started,
                end: self.now,
                node: machine,
                core: number,
                query: self.topology.operator(operator).query,
                operator,
                progress: self.instances[operator as usize].progress.0,
            });
        }
        let event = Event::Finished {
            machine,
            core: number,
            operator,
            rows_in: step.rows_in,
            late_rows: step.late_rows,
            more: step.more,
        };
        self.watch.on(self.now, event);
        let freed = self.instances[operator as usize].finish(step.more, started, self.now);
        self.account(operator, step.rows_in, step.late_rows, busy_ns, freed);
        self.report(machine, number, operator, rows_out, before);
        if !self.start(machine, number) {
            self.machines[machine as usize].idle.push(number);
        }
        let query = self.topology.operator(operator).query.index();
        self.release_held(query, machine);
        self.dispatch(machine);
    }

    /// Tells the scheduler how a run went.
    fn report(&mut self, machine: u32, number: u32, operator: u32, rows_out: u32, before: EventTime) {
        let core_index = machine * self.setup.cluster.cores() as u32 + number;
        let core = &self.cores[core_index as usize];
        let place = self.topology.operator(operator);
        let state = &mut self.machines[machine as usize];
        let Sharing::Scheduler(scheduler) = &mut state.sharing else { return };
        scheduler.on_memory(state.bytes, self.setup.memory_bound_bytes.unwrap_or(0));
        let watermark = self.instances[operator as usize].watermark.0;
        if self.topology.is_entry(operator) && watermark > before {
            scheduler.on_progress(place.local, watermark, self.instances[operator as usize].ingested);
        }
        let report = RunReport {
            rows_in: core.step.rows_in,
            rows_out,
            // As a worker's clock has it, which goes on while it sleeps.
            cpu_ns: self.now.since_ns(core.started),
            more: core.step.more,
        };
        scheduler.on_finished(WorkerId(number), report, self.now);
    }

    pub(super) fn account(
        &mut self,
        operator: u32,
        rows_in: u32,
        late_rows: u64,
        busy_ns: u64,
        freed: Option<(u64, u64)>,
    ) {
        let place = self.topology.operator(operator);
        let account = &mut self.accounts[place.query.index()];
        account.busy_ns += busy_ns;
        account.rows_late += late_rows;
        if place.kind == StageKind::Source
            && self.now >= laxity_graph::ProcessingTime::ZERO.plus(self.setup.warm_up)
        {
            account.rows_taken += u64::from(rows_in);
        }
        if let Some((messages, bytes)) = freed {
            account.in_flight_bytes -= bytes;
            account.in_flight_messages -= messages;
            self.machines[place.machine as usize].bytes -= bytes;
            self.bytes -= bytes;
            self.outstanding -= messages;
        }
    }
}
