//! The way out of a run: to operators on the same machine, over the network, or out of a sink.

use std::sync::atomic::Ordering::Relaxed;

use laxity_graph::ProcessingTime;
use laxity_runtime::{Outlet, Parcel, Written};
use laxity_sched::Message;
use laxity_workload::StageKind;

use super::{InTransit, World, WrittenRows, local};
use crate::ResultRecord;
use crate::event::Event;
use crate::fault::stalled_until;
use crate::machine::{Sharing, Ticket, Underway};
use crate::modelled::Modelled;
use crate::queue::ScheduledEvent;
use crate::run_clock::Said;

/// How rows and watermarks travel.
impl<C: Modelled> World<C> {
    /// Lets out what a run did, now that its time is over. After the run was worked out it took `execute_ns` more, and was
    /// kept from working for `wait_ns` in between.
    pub(super) fn send(&mut self, operator: u32, underway: &mut Underway<C>, execute_ns: u64, wait_ns: u64) {
        for said in underway.said.drain(..) {
            self.watch.on(
                self.now,
                match said {
                    Said::Rows(rows) => Event::Sent { operator, rows },
                    Said::Watermark(watermark) => Event::Watermark { operator, watermark },
                },
            );
        }
        if let Some(looked) = underway.looked.take() {
            self.looked(looked, underway, execute_ns + wait_ns);
            return;
        }
        let place = self.topology.operator(operator);
        let (query, machine) = (place.query.index(), place.machine);
        let returned_credit = self.running[query].settle(underway.run.sent, underway.run.done);
        if returned_credit || underway.run.returned_credit {
            self.wake_tables(query, machine);
        }
        for mut message in underway.staged.drain(..) {
            message.body.stamps.execute_ns += execute_ns;
            message.body.stamps.queue_ns += wait_ns;
            self.hand_over(operator, message);
        }
        self.let_out(operator, underway, execute_ns, wait_ns);
    }

    /// What is written goes out; as [`send`](World::send).
    pub(super) fn let_out(
        &mut self,
        operator: u32,
        underway: &mut Underway<C>,
        execute_ns: u64,
        wait_ns: u64,
    ) {
        for mut write in underway.writes.drain(..) {
            write.what.delay(execute_ns, wait_ns, self.now);
            match stalled_until(&self.setup.faults, write.outlet.query.id, self.now) {
                Some(until) => {
                    self.outstanding += 1;
                    self.travel(InTransit::Stalled(operator, write), until);
                }
                None => self.write(operator, &write.outlet, write.what),
            }
        }
    }

    /// To the mailbox of an operator here, or on the way to another machine.
    fn hand_over(&mut self, from: u32, message: Parcel<C>) {
        self.count_in(&message);
        let to = message.to.0;
        if self.topology.operator(from).machine == self.topology.operator(to).machine {
            self.enqueue(message);
            return;
        }
        let last = self.arrivals.entry((from, to)).or_insert(ProcessingTime::ZERO);
        *last = self.now.plus_ns(self.network.sample_ns()).max(*last);
        let at = *last;
        let mut routes = self.topology.routes(from).iter();
        let route = routes.find(|route| {
            (route.first..route.first + route.targets).contains(&to) && route.channel == message.channel
        });
        let route = route.expect("it was sent along one").number;
        self.travel(InTransit::Message(route, message), at);
    }

    pub(super) fn travel(&mut self, in_transit: InTransit<C>, at: ProcessingTime) {
        let slot = match self.free.pop() {
            Some(slot) => {
                self.in_transit[slot as usize] = Some(in_transit);
                slot
            }
            None => {
                self.in_transit.push(Some(in_transit));
                self.in_transit.len() as u32 - 1
            }
        };
        self.queue.push(at, ScheduledEvent::Deliver(slot));
    }

    pub(super) fn deliver(&mut self, slot: u32) {
        let Some(in_transit) = self.in_transit[slot as usize].take() else { return };
        self.free.push(slot);
        match in_transit {
            InTransit::Message(_, message) => {
                let machine = self.topology.operator(message.to.0).machine;
                self.enqueue_from(message, true);
                self.dispatch(machine);
            }
            InTransit::Watermarks(entry, report) => self.hear_of_watermarks(entry, report),
            InTransit::Costs(machine, report) => self.hear_of_costs(machine, &report),
            InTransit::Stalled(operator, write) => {
                let until = stalled_until(&self.setup.faults, write.outlet.query.id, self.now);
                if let Some(until) = until.filter(|&until| until > self.now) {
                    // Another stall began before this one was over.
                    self.travel(InTransit::Stalled(operator, write), until);
                    return;
                }
                self.outstanding -= 1;
                self.write(operator, &write.outlet, write.what);
                self.dispatch(self.topology.operator(operator).machine);
            }
        }
    }

    /// A message exists from now on.
    pub(super) fn count_in(&mut self, message: &Parcel<C>) {
        let place = self.topology.operator(message.to.0);
        self.machines[place.machine as usize].bytes += message.bytes;
        self.bytes += message.bytes;
        self.totals.memory_peak_bytes = self.totals.memory_peak_bytes.max(self.bytes);
        self.outstanding += 1;
        self.totals.messages += 1;
    }

    /// A message waits for its operator.
    pub(super) fn enqueue(&mut self, message: Parcel<C>) {
        self.enqueue_from(message, false);
    }

    fn enqueue_from(&mut self, message: Parcel<C>, is_remote: bool) {
        let operator = message.to.0;
        let place = self.topology.operator(operator);
        let machine = &mut self.machines[place.machine as usize];
        let Message { channel, progress, ingested, rows, bytes, body, .. } = message;
        if place.kind == StageKind::Source
            && let (Some(given), Some(watermark)) = (self.given.get_mut(operator as usize), body.watermark)
        {
            *given = watermark.max(*given);
        }
        let id = self.next_message;
        self.next_message += 1;
        self.watch.on(
            self.now,
            Event::Enqueued { machine: place.machine, operator, channel, message: id, rows, bytes, ingested },
        );
        machine.queued_rows += u64::from(rows);
        machine.queued_messages += 1;
        let to = local(&self.topology, operator);
        let message =
            Message { to, channel, progress, ingested, rows, bytes, body: Ticket { id, payload: body } };
        match &mut machine.sharing {
            Sharing::Scheduler(scheduler) => {
                let becomes_ready = match is_remote {
                    true => scheduler.on_remote_message(message, self.now),
                    false => scheduler.on_message(message, self.now),
                };
                if becomes_ready {
                    self.made_ready.get_or_insert((place.machine, to));
                }
            }
            Sharing::Threads(_) => self.enqueue_at_thread(operator, message),
        }
    }

    /// A result leaves its sink.
    fn write(&mut self, operator: u32, outlet: &Outlet, what: Written<C::Batch>) {
        let query = outlet.query.id;
        let in_flight = what.in_flight();
        match what {
            Written::End => {
                if outlet.end_channel() {
                    outlet.closed();
                }
            }
            Written::Rows { batch, rows, stamps, window_end, ready, .. } => {
                outlet.query.rows_out.fetch_add(u64::from(rows), Relaxed);
                let ingested = stamps.ingested;
                self.watch.on(self.now, Event::Result { query: query.0, rows, ingested });
                if self.now >= ProcessingTime::ZERO.plus(self.setup.warm_up) {
                    let event_time = window_end.unwrap_or_else(|| C::event_time(&batch));
                    let due = self.clocks[query.index()].due(event_time);
                    let account = &mut self.accounts[query.index()];
                    account.record(stamps.parts(ready, self.now), due, self.now);
                    if let Some(results) = &mut self.results {
                        results.push(ResultRecord {
                            query,
                            ingested,
                            written: self.now,
                            event_time,
                            rows,
                            execute_ns: stamps.execute_ns,
                        });
                    }
                }
                if let Some(written) = &mut self.written {
                    written.push(WrittenRows { query, sink: operator, at: self.now, batch });
                }
            }
        }
        if outlet.query.release(in_flight) {
            self.wake_tables(query.index(), self.topology.operator(operator).machine);
        }
    }
}
