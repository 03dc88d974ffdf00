//! The life of a thread on a simulated core, where the operating system shares the cores and no scheduler of ours does.

use laxity_graph::ProcessingTime;
use laxity_runtime::InFlight;
use laxity_sched::{Message, Work};

use super::run::unpack;
use super::{World, at_least};
use crate::event::Event;
use crate::machine::{Sharing, Ticket, Underway};
use crate::modelled::Modelled;
use crate::queue::ScheduledEvent;
use crate::run_clock::Begin;
use crate::threads::Threads;
use crate::{Driver, Slice};

/// A thread per operator: how the operating system gives them the cores.
impl<C: Modelled> World<C> {
    /// A message waits for its thread.
    pub(super) fn enqueue_at_thread(&mut self, operator: u32, message: Message<Ticket<C>>) {
        let (thread, now) = (self.topology.operator(operator).local.0, self.now);
        self.charge_running(self.topology.operator(operator).machine);
        let Some(threads) = self.threads_of(operator) else { return };
        let state = &mut threads.threads[thread as usize];
        state.bytes += message.bytes;
        state.mailbox.push_back((now, message));
        if state.is_ready() && threads.fair.is_asleep(thread) {
            threads.fair.wake(thread);
        }
    }

    fn threads_of(&mut self, operator: u32) -> Option<&mut Threads<C>> {
        let machine = self.topology.operator(operator).machine;
        match &mut self.machines[machine as usize].sharing {
            Sharing::Threads(threads) => Some(threads),
            Sharing::Scheduler(_) => None,
        }
    }

    /// CPU time that a run has had so far. On a slow core less is done than time goes by.
    fn worked_ns(&self, core_index: u32) -> u64 {
        let core = &self.cores[core_index as usize];
        let elapsed_ns = self.now.since_ns(core.started);
        let (machine, number) = (core.machine as usize, core.number as usize);
        let whole = self.clock.done(machine, number, core.started, core.piece_ns);
        let share = elapsed_ns as f64 / whole.since_ns(core.started).max(1) as f64;
        (core.piece_ns as f64 * share.min(1.0)) as u64
    }

    /// Charges those that run for what they have had, so that the mean is that of now.
    fn charge_running(&mut self, machine: u32) {
        let cores = self.setup.cluster.cores() as u32;
        for core_index in machine * cores..(machine + 1) * cores {
            let core = &self.cores[core_index as usize];
            let Some(operator) = core.operator.filter(|_| !core.idle) else { continue };
            let worked_ns = self.worked_ns(core_index);
            let more_ns = worked_ns.saturating_sub(self.cores[core_index as usize].charged_ns);
            self.cores[core_index as usize].charged_ns += more_ns;
            let thread = self.topology.operator(operator).local.0;
            if let Some(threads) = self.threads_of(operator) {
                threads.fair.charge(thread, more_ns);
            }
        }
    }

    /// Gives idle cores to those that wait, and running ones to those that woke and are due earlier.
    pub(super) fn dispatch_threads(&mut self, machine: u32) {
        loop {
            let state = &mut self.machines[machine as usize];
            let Sharing::Threads(threads) = &mut state.sharing else { return };
            if threads.fair.waiting() == 0 {
                break;
            }
            if state.idle.is_empty() && !self.preempt(machine) {
                break;
            }
            let state = &mut self.machines[machine as usize];
            let Sharing::Threads(threads) = &mut state.sharing else { return };
            let Some(number) = state.idle.pop() else { break };
            let Some(thread) = threads.fair.take() else { break };
            let operator = state.operators[thread as usize];
            self.run_thread(machine, number, operator);
        }
        self.watch.settled(machine, self.machines[machine as usize].idle.len());
    }

    /// Takes a core from the running thread that is due last, if who waits is eligible and due earlier.
    fn preempt(&mut self, machine: u32) -> bool {
        self.charge_running(machine);
        let cores = self.setup.cluster.cores() as u32;
        let Sharing::Threads(threads) = &self.machines[machine as usize].sharing else { return false };
        let Some(next) = threads.fair.peek() else { return false };
        let due = threads.fair.deadline(next);
        let running = (machine * cores..(machine + 1) * cores).filter_map(|core| {
            let operator = self.cores[core as usize].operator?;
            let thread = self.topology.operator(operator).local.0;
            (!threads.fair.is_protected(thread)).then(|| (threads.fair.deadline(thread), core))
        });
        let Some((last, core)) = running.max() else { return false };
        if due >= last {
            return false;
        }
        let worked_ns = self.worked_ns(core);
        self.stop_thread(core, worked_ns, false);
        true
    }

    /// A core begins to run a thread, or goes on with it.
    fn run_thread(&mut self, machine: u32, number: u32, operator: u32) {
        let core_index = machine * self.setup.cluster.cores() as u32 + number;
        let overheads = self.setup.overheads;
        let core = &mut self.cores[core_index as usize];
        let mut overhead_ns = overheads.schedule_ns;
        if core.operator.replace(operator) != Some(operator) {
            overhead_ns += overheads.switch_ns;
            self.totals.switches += 1;
        }
        self.totals.grants += 1;
        core.granted = self.now;
        core.started = self.clock.done(machine as usize, number as usize, self.now, overhead_ns);
        core.run = core.run.wrapping_add(1);
        core.idle = false;
        core.charged_ns = 0;
        let started = core.started;
        let message = self.take_message(operator, started);
        self.watch.on(self.now, Event::Granted { machine, core: number, operator, message });
        let thread = self.topology.operator(operator).local;
        let Some(threads) = self.threads_of(operator) else { return };
        let state = &threads.threads[thread.index()];
        let piece_ns = match state.sleep_ns {
            0 => state.left_ns.min(threads.turn_ns(thread.0, started)),
            // All it does is to fall asleep.
            _ => 0,
        };
        let core = &mut self.cores[core_index as usize];
        core.piece_ns = piece_ns;
        let done = self.clock.done(machine as usize, number as usize, started, piece_ns);
        self.queue.push(done, ScheduledEvent::Finish { core: core_index, run: core.run });
    }

    /// A thread without a message in hand takes the next one.
    fn take_message(&mut self, operator: u32, started: ProcessingTime) -> Option<u64> {
        let place = self.topology.operator(operator);
        let call_ns = self.setup.overheads.call_ns + self.setup.overheads.message_ns;
        let machine = &mut self.machines[place.machine as usize];
        let Sharing::Threads(threads) = &mut machine.sharing else { return None };
        let thread = &mut threads.threads[place.local.index()];
        if thread.in_hand {
            return None;
        }
        let (enqueued, message) = thread.mailbox.pop_front()?;
        thread.bytes -= message.bytes;
        machine.queued_rows -= u64::from(message.rows);
        machine.queued_messages -= 1;
        let mut underway = thread.underway.take().unwrap_or_default();
        let (upstream, local, place_machine) = (place.upstream.clone(), place.local, place.machine);
        let (id, message) = unpack(message);
        Self::note_progress(&mut self.progress, operator, message.progress);
        // The run is worked out whole, as on a core of its own; how its time passes is the operating system's matter.
        let slowdown = self.slowdown(place_machine);
        let begin = Begin { at: started, core: None, call_ns: 0, slowdown, is_message: true };
        self.work(operator, Work::Message { message, enqueued }, begin, &mut underway);
        let thread = &mut self.threads_of(operator)?.threads[local.index()];
        (thread.in_hand, thread.began, thread.worked_ns) = (true, started, 0);
        thread.left_ns = underway.cpu_ns + call_ns;
        (thread.sleep_ns, thread.slept_ns) = (underway.sleep_ns, 0);
        thread.underway = Some(underway);
        self.unblock_threads(&upstream);
        Some(id)
    }

    /// The piece that a core was to run is done.
    pub(super) fn finish_piece(&mut self, core_index: u32) {
        let machine = self.cores[core_index as usize].machine;
        self.stop_thread(core_index, self.cores[core_index as usize].piece_ns, true);
        self.dispatch_threads(machine);
    }

    /// A run is over or interrupted after so much CPU time. If it may, the core goes on with the thread while its
    /// slice lasts and it has work; else it lets go of it.
    fn stop_thread(&mut self, core_index: u32, worked_ns: u64, may_go_on: bool) {
        let core = &mut self.cores[core_index as usize];
        let Some(operator) = core.operator else { return };
        let (machine, number, started) = (core.machine, core.number, core.started);
        core.run = core.run.wrapping_add(1);
        let uncharged_ns = worked_ns.saturating_sub(core.charged_ns);
        core.charged_ns = worked_ns;
        let elapsed_ns = self.now.since_ns(started);
        self.totals.overhead_ns += started.min(self.now).since_ns(core.granted);
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
        let thread = self.topology.operator(operator).local.0;
        let Some(threads) = self.threads_of(operator) else { return };
        threads.fair.charge(thread, uncharged_ns);
        let state = &mut threads.threads[thread as usize];
        state.left_ns -= worked_ns.min(state.left_ns);
        let amid = state.left_ns > 0;
        let goes_on = may_go_on && threads.goes_on(thread, amid);
        let state = &mut threads.threads[thread as usize];
        state.worked_ns += elapsed_ns;
        if state.sleep_ns > 0 {
            self.fall_asleep(machine, number, operator);
        } else if state.left_ns == 0 {
            self.complete(machine, number, operator, elapsed_ns);
        } else {
            let event =
                Event::Finished { machine, core: number, operator, rows_in: 0, late_rows: 0, more: true };
            self.watch.on(self.now, event);
            self.account(operator, 0, 0, elapsed_ns, InFlight::default());
        }
        let ready = self.threads_of(operator).is_some_and(|t| t.threads[thread as usize].is_ready());
        if ready && goes_on {
            self.run_thread(machine, number, operator);
            return;
        }
        self.cores[core_index as usize].idle = true;
        self.machines[machine as usize].idle.push(number);
        self.rest(operator);
    }

    /// The thread leaves its core to others until it has slept.
    fn fall_asleep(&mut self, machine: u32, number: u32, operator: u32) {
        let thread = self.topology.operator(operator).local;
        let Some(threads) = self.threads_of(operator) else { return };
        let state = &mut threads.threads[thread.index()];
        state.asleep = true;
        let sleep_ns = std::mem::take(&mut state.sleep_ns);
        state.slept_ns = sleep_ns;
        let until = self.now.plus_ns(sleep_ns);
        self.queue.push(until, ScheduledEvent::Wake(operator));
        let event = Event::Finished { machine, core: number, operator, rows_in: 0, late_rows: 0, more: true };
        self.watch.on(self.now, event);
        self.watch.on(self.now, Event::Slept { operator });
    }

    pub(super) fn wake_thread(&mut self, operator: u32) {
        let place = self.topology.operator(operator);
        let (machine, thread) = (place.machine, place.local);
        self.charge_running(machine);
        self.watch.on(self.now, Event::Woke { operator });
        let Some(threads) = self.threads_of(operator) else { return };
        let state = &mut threads.threads[thread.index()];
        state.asleep = false;
        if state.is_ready() && threads.fair.is_asleep(thread.0) {
            threads.fair.wake(thread.0);
        }
        self.dispatch_threads(machine);
    }

    /// The message in hand is done.
    fn complete(&mut self, machine: u32, number: u32, operator: u32, elapsed_ns: u64) {
        let thread = self.topology.operator(operator).local;
        let Some(threads) = self.threads_of(operator) else { return };
        let state = &mut threads.threads[thread.index()];
        state.in_hand = false;
        let execute_ns = state.worked_ns + state.slept_ns;
        let began = state.began;
        let mut underway = state.underway.take().unwrap_or_default();
        let wait_ns = self.now.since_ns(began).saturating_sub(execute_ns);
        // It was worked out as if nobody else needed the core.
        let counted_ns = underway.cpu_ns + underway.sleep_ns;
        self.send(operator, &mut underway, execute_ns.saturating_sub(counted_ns), wait_ns);
        let Underway { run, late_rows, cpu_ns, slowed_ns, .. } = *underway;
        let (rows_in, rows_out) = (run.report.rows_in, run.report.rows_out);
        let event = Event::Finished { machine, core: number, operator, rows_in, late_rows, more: false };
        self.watch.on(self.now, event);
        self.account(operator, rows_in, late_rows, elapsed_ns, run.done);
        self.book_slowed(operator, slowed_ns);
        self.ask_for_time(operator, run.wake);
        let full = self.is_blocked(operator);
        let Some(threads) = self.threads_of(operator) else { return };
        let state = &mut threads.threads[thread.index()];
        state.underway = Some(underway);
        state.blocked = full;
        state.observe(rows_in, rows_out, cpu_ns);
    }

    /// A thread that ran waits again, or sleeps.
    fn rest(&mut self, operator: u32) {
        let thread = self.topology.operator(operator).local;
        let Some(threads) = self.threads_of(operator) else { return };
        if threads.threads[thread.index()].is_ready() {
            threads.fair.put_back(thread.0);
        } else {
            threads.fair.sleep(thread.0);
        }
    }

    /// A thread whose reader on the same machine has a full mailbox waits until there is room.
    fn is_blocked(&mut self, operator: u32) -> bool {
        let machine = self.topology.operator(operator).machine;
        let limit = self.setup.config.mailbox_bytes_max;
        let Sharing::Threads(threads) = &self.machines[machine as usize].sharing else { return false };
        let mut below = self
            .topology
            .routes(operator)
            .iter()
            .flat_map(|route| route.first..route.first + route.targets)
            .map(|below| self.topology.operator(below))
            .filter(|below| below.machine == machine);
        below.any(|below| threads.threads[below.local.index()].bytes > limit)
    }

    fn unblock_threads(&mut self, upstream: &[u32]) {
        for &above in upstream {
            let thread = self.topology.operator(above).local;
            let blocked = self.threads_of(above).is_some_and(|t| t.threads[thread.index()].blocked);
            if !blocked || self.is_blocked(above) {
                continue;
            }
            let Some(threads) = self.threads_of(above) else { continue };
            let state = &mut threads.threads[thread.index()];
            state.blocked = false;
            if state.is_ready() && threads.fair.is_asleep(thread.0) {
                threads.fair.wake(thread.0);
            }
        }
    }

    /// Sets nice values anew.
    pub(super) fn renice(&mut self, machine: u32) {
        let Driver::OsThreads(setup) = &self.setup.driver else { return };
        let Some(renice) = &setup.renice else { return };
        let (best, worst) = (renice.best.clamp(-20, 19), renice.worst.clamp(-20, 19));
        let period = at_least(renice.period);
        if let Sharing::Threads(threads) = &mut self.machines[machine as usize].sharing {
            threads.renice(self.now, best, worst.max(best));
        }
        if !self.closing {
            self.queue.push(self.now.plus(period), ScheduledEvent::Renice(machine));
        }
    }
}
