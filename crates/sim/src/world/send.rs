use laxity_graph::{EventTime, OperatorId, ProcessingTime};
use laxity_sched::Message;
use laxity_workload::StageKind;

use super::{Traveller, World, local};
use crate::ResultRecord;
use crate::contents::{Rows, Split};
use crate::event::Event;
use crate::instance::{Body, Emitted};
use crate::machine::Sharing;
use crate::queue::Coming;
use crate::topology::{Route, Spread};

/// How rows and watermarks travel.
impl World {
    /// Gives what a run produced to those below. The rows that were sent, each once.
    ///
    /// The run worked for `execute_ns` and was kept from working for `wait_ns` in between; `before` is the watermark
    /// that the operator had told of before it.
    pub(super) fn send(
        &mut self,
        operator: u32,
        emitted: &mut Vec<Emitted>,
        before: EventTime,
        execute_ns: u64,
        wait_ns: u64,
    ) -> u32 {
        let mut progress = before;
        let mut rows_out = 0;
        let is_sink = self.topology.operator(operator).kind == StageKind::Sink;
        for mut piece in emitted.drain(..) {
            piece.stamps = piece.stamps(execute_ns, wait_ns);
            if piece.rows == 0 {
                progress = progress.max(piece.watermark);
                self.watch.on(self.now, Event::Watermark { operator, watermark: piece.watermark });
                self.stage_watermark(operator, &piece);
                continue;
            }
            rows_out += piece.rows;
            self.watch.on(self.now, Event::Sent { operator, rows: piece.rows });
            if is_sink {
                self.write(operator, &piece);
            } else {
                self.stage_rows(operator, &piece, progress);
            }
        }
        let mut staged = std::mem::take(&mut self.staged);
        for message in staged.drain(..) {
            self.hand_over(operator, message);
        }
        self.staged = staged;
        rows_out
    }

    fn stage_rows(&mut self, operator: u32, piece: &Emitted, progress: EventTime) {
        if let Some(rows) = piece.contents {
            self.stage_contents(operator, rows, piece, progress);
            return;
        }
        for place in 0..self.topology.routes(operator).len() {
            let route = self.topology.routes(operator)[place];
            match route.spread {
                Spread::All => self.stage(operator, &route, route.first, piece.rows, piece, progress),
                Spread::RoundRobin => {
                    let counter = &mut self.counters[route.counter as usize];
                    let target = route.first + *counter;
                    *counter = (*counter + 1) % route.targets;
                    self.stage(operator, &route, target, piece.rows, piece, progress);
                }
                Spread::Hash => {
                    // Even keys: all the same, and the rows left over go on where the last ones ended.
                    let (each, over) = (piece.rows / route.targets, piece.rows % route.targets);
                    let counter = &mut self.counters[route.counter as usize];
                    let first = *counter;
                    *counter = (first + over) % route.targets;
                    for target in 0..route.targets {
                        let turn = (target + route.targets - first) % route.targets;
                        let rows = each + u32::from(turn < over);
                        if rows > 0 {
                            self.stage(operator, &route, route.first + target, rows, piece, progress);
                        }
                    }
                }
            }
        }
    }

    /// As `stage_rows`, with rows that know where they go.
    fn stage_contents(&mut self, operator: u32, rows: Rows, piece: &Emitted, progress: EventTime) {
        let Some(mut contents) = self.contents.take() else { return };
        for place in 0..self.topology.routes(operator).len() {
            let route = self.topology.routes(operator)[place];
            let shared = contents.share(rows);
            let piece = Emitted { contents: Some(shared), ..*piece };
            if route.spread == Spread::Hash && route.targets > 1 {
                let keys = self.topology.keys(&route);
                let split = Split { rows: shared, route: route.counter, keys, targets: route.targets };
                match contents.split(&split) {
                    Ok(parts) => parts.into_iter().for_each(|part| {
                        let piece = Emitted { contents: Some(part.rows), ..piece };
                        self.stage(operator, &route, route.first + part.target, part.count, &piece, progress);
                    }),
                    Err(message) => self.fail(operator, message),
                }
                continue;
            }
            let mut target = route.first;
            if route.spread == Spread::RoundRobin {
                let counter = &mut self.counters[route.counter as usize];
                target += *counter;
                *counter = (*counter + 1) % route.targets;
            }
            self.stage(operator, &route, target, piece.rows, &piece, progress);
        }
        contents.free(rows);
        self.contents = Some(contents);
    }

    fn stage(
        &mut self,
        operator: u32,
        route: &Route,
        to: u32,
        rows: u32,
        piece: &Emitted,
        progress: EventTime,
    ) {
        let row_bytes = self.topology.operator(operator).row_bytes;
        self.staged_at[to as usize] = self.staged.len() as u32;
        self.staged.push(Message {
            to: OperatorId(to),
            channel: route.channel,
            progress,
            ingested: piece.stamps.ingested,
            rows,
            bytes: u64::from(rows) * u64::from(row_bytes),
            body: Body {
                id: 0,
                enqueued: ProcessingTime::ZERO,
                stamps: piece.stamps,
                route: Some(route.counter),
                watermark: EventTime::MIN,
                before: piece.before,
                event_time: piece.event_time,
                window_end: piece.window_end,
                contents: piece.contents,
            },
        });
    }

    /// Tells every instance below: with the rows just staged for it, else by a message of its own.
    fn stage_watermark(&mut self, operator: u32, piece: &Emitted) {
        for place in 0..self.topology.routes(operator).len() {
            let route = self.topology.routes(operator)[place];
            for to in route.first..route.first + route.targets {
                let last = self.staged_at[to as usize] as usize;
                let is_last = |m: &Message<Body>| m.to.0 == to && m.channel == route.channel;
                if let Some(message) = self.staged.get_mut(last).filter(|message| is_last(message)) {
                    message.body.watermark = piece.watermark;
                    message.progress = piece.watermark;
                } else {
                    self.stage(operator, &route, to, 0, piece, piece.watermark);
                    let message = self.staged.last_mut().expect("just staged");
                    message.body.watermark = piece.watermark;
                }
            }
        }
    }

    /// To the mailbox of an operator here, or on the way to another machine.
    fn hand_over(&mut self, from: u32, message: Message<Body>) {
        self.count_in(&message);
        let to = message.to.0;
        if self.topology.operator(from).machine == self.topology.operator(to).machine {
            self.enqueue(message);
            return;
        }
        let last = self.arrivals.entry((from, to)).or_insert(ProcessingTime::ZERO);
        *last = self.now.plus_ns(self.network.sample_ns()).max(*last);
        let at = *last;
        self.travel(Traveller::Message(message), at);
    }

    pub(super) fn travel(&mut self, traveller: Traveller, at: ProcessingTime) {
        let slot = match self.free.pop() {
            Some(slot) => {
                self.travellers[slot as usize] = Some(traveller);
                slot
            }
            None => {
                self.travellers.push(Some(traveller));
                self.travellers.len() as u32 - 1
            }
        };
        self.queue.push(at, Coming::Deliver(slot));
    }

    pub(super) fn deliver(&mut self, slot: u32) {
        let Some(traveller) = self.travellers[slot as usize].take() else { return };
        self.free.push(slot);
        match traveller {
            Traveller::Message(message) => {
                let machine = self.topology.operator(message.to.0).machine;
                self.enqueue(message);
                self.dispatch(machine);
            }
            Traveller::Watermarks(entry, report) => self.hear_of_watermarks(entry, report),
            Traveller::Costs(machine, report) => self.hear_of_costs(machine, &report),
        }
    }

    /// A message exists from now on.
    pub(super) fn count_in(&mut self, message: &Message<Body>) {
        let place = self.topology.operator(message.to.0);
        let account = &mut self.accounts[place.query.index()];
        account.in_flight_bytes += message.bytes;
        account.in_flight_messages += 1;
        self.machines[place.machine as usize].bytes += message.bytes;
        self.bytes += message.bytes;
        self.totals.memory_peak_bytes = self.totals.memory_peak_bytes.max(self.bytes);
        self.outstanding += 1;
        self.totals.messages += 1;
    }

    /// A message waits for its operator.
    pub(super) fn enqueue(&mut self, mut message: Message<Body>) {
        let operator = message.to.0;
        let place = self.topology.operator(operator);
        let machine = &mut self.machines[place.machine as usize];
        message.body.id = self.next_message;
        message.body.enqueued = self.now;
        self.next_message += 1;
        self.watch.on(
            self.now,
            Event::Enqueued {
                machine: place.machine,
                operator,
                channel: message.channel,
                message: message.body.id,
                rows: message.rows,
                bytes: message.bytes,
                ingested: message.ingested,
            },
        );
        machine.queued_rows += u64::from(message.rows);
        machine.queued_messages += 1;
        match &mut machine.sharing {
            Sharing::Scheduler(scheduler) => {
                message.to = local(&self.topology, operator);
                scheduler.on_message(message, self.now);
            }
            Sharing::Threads(_) => self.enqueue_at_thread(operator, message),
        }
    }

    /// A result leaves its sink.
    fn write(&mut self, operator: u32, piece: &Emitted) {
        let query = self.topology.operator(operator).query;
        if let (Some(contents), Some(rows)) = (&mut self.contents, piece.contents) {
            contents.write(query, operator, rows, self.now);
        }
        let account = &mut self.accounts[query.index()];
        account.rows_out += u64::from(piece.rows);
        let ingested = piece.stamps.ingested;
        self.watch.on(self.now, Event::Result { query: query.0, rows: piece.rows, ingested });
        if self.now < ProcessingTime::ZERO.plus(self.setup.warm_up) {
            return;
        }
        let event_time = if piece.window_end == EventTime::MIN { piece.event_time } else { piece.window_end };
        let due = self.clocks[query.index()].due(event_time);
        account.record(piece.stamps.parts(self.now, self.now), due, self.now);
        if let Some(results) = &mut self.results {
            results.push(ResultRecord {
                query,
                ingested,
                written: self.now,
                event_time,
                rows: piece.rows,
                execute_ns: piece.stamps.execute_ns,
            });
        }
    }
}
