use laxity_graph::{EventTime, OperatorId};
use laxity_sched::{Message, Stamps};

use super::World;
use crate::event::Event;
use crate::fault::burst;
use crate::instance::Body;
use crate::machine::Sharing;
use crate::queue::Coming;

/// How rows come in, and when they are held back.
impl World {
    /// Foresees the next batch of a source.
    pub(super) fn expect_arrival(&mut self, feed: u32) {
        if let Some(arrival) = self.feeds[feed as usize].advance() {
            self.queue.push(arrival.at.max(self.now), Coming::Arrive(feed));
        }
    }

    pub(super) fn arrive(&mut self, feed: u32) {
        if self.closing {
            return;
        }
        let operator = self.feeds[feed as usize].operator;
        if self.admits(operator) {
            self.admit(feed);
        } else {
            self.hold(feed);
        }
        self.dispatch(self.topology.operator(operator).machine);
    }

    /// A query with nothing in flight is always admitted: only rows move its watermark on and free its windows.
    fn admits(&self, operator: u32) -> bool {
        let place = self.topology.operator(operator);
        let account = &self.accounts[place.query.index()];
        if account.in_flight_messages == 0 {
            return true;
        }
        let bound = self.setup.memory_bound_bytes;
        account.in_flight_bytes < self.setup.credit_bytes
            && bound.is_none_or(|bound| self.machines[place.machine as usize].bytes < bound)
    }

    fn hold(&mut self, feed: u32) {
        let operator = self.feeds[feed as usize].operator;
        let place = self.topology.operator(operator);
        if !std::mem::replace(&mut self.feeds[feed as usize].held, true) {
            self.watch.on(self.now, Event::Held { operator });
        }
        let state = &mut self.feeds[feed as usize];
        if !std::mem::replace(&mut state.in_query_list, true) {
            self.accounts[place.query.index()].held.push(feed);
        }
        if self.setup.memory_bound_bytes.is_some() && !std::mem::replace(&mut state.in_machine_list, true) {
            self.machines[place.machine as usize].held.push(feed);
        }
    }

    /// Sources of this query, or any on this machine, may go on now that something has been worked off.
    pub(super) fn release_held(&mut self, query: usize, machine: u32) {
        if !self.accounts[query].held.is_empty() {
            let held = std::mem::take(&mut self.accounts[query].held);
            held.iter().for_each(|feed| self.feeds[*feed as usize].in_query_list = false);
            self.release(held);
        }
        let below = self.setup.memory_bound_bytes.is_some_and(|b| self.machines[machine as usize].bytes < b);
        if below && !self.machines[machine as usize].held.is_empty() {
            let held = std::mem::take(&mut self.machines[machine as usize].held);
            held.iter().for_each(|feed| self.feeds[*feed as usize].in_machine_list = false);
            self.release(held);
        }
    }

    fn release(&mut self, held: Vec<u32>) {
        for feed in held {
            // It may stand in two lists, and have gone on from the other.
            if !self.feeds[feed as usize].held || self.closing {
                continue;
            }
            if self.admits(self.feeds[feed as usize].operator) {
                self.feeds[feed as usize].held = false;
                self.admit(feed);
                // The query may have sources on other machines than the one where room was made.
                self.dispatch(self.topology.operator(self.feeds[feed as usize].operator).machine);
            } else {
                self.hold(feed);
            }
        }
    }

    /// Takes the batch of a source in.
    fn admit(&mut self, feed: u32) {
        if self.setup.closed_loop {
            self.feeds[feed as usize].fall_behind(self.now);
        }
        let Some(arrival) = self.feeds[feed as usize].next else { return };
        let operator = self.feeds[feed as usize].operator;
        let query = self.topology.operator(operator).query;
        let factor = match self.contents {
            Some(_) => 1.0,
            None => burst(&self.setup.faults, query, arrival.at),
        };
        let (rows, bytes) = if factor == 1.0 {
            (arrival.rows, arrival.bytes)
        } else {
            ((f64::from(arrival.rows) * factor).round() as u32, (arrival.bytes as f64 * factor) as u64)
        };
        let (rows, bytes) = self.shed(operator, rows, bytes);
        if rows == 0 && arrival.rows > 0 && arrival.watermark.is_none() {
            self.expect_arrival(feed);
            return;
        }
        self.accounts[query.index()].rows_in += u64::from(rows);
        let watermark = arrival.watermark.unwrap_or(EventTime::MIN);
        let body = Body {
            id: 0,
            enqueued: self.now,
            stamps: Stamps::admitted(arrival.at, self.now),
            route: None,
            watermark,
            before: EventTime::MIN,
            event_time: arrival.event_time,
            window_end: EventTime::MIN,
            contents: self.contents.as_mut().filter(|_| rows > 0).and_then(|contents| contents.arrive(feed)),
        };
        let message = Message {
            to: OperatorId(operator),
            channel: 0,
            progress: watermark,
            ingested: arrival.at,
            rows,
            bytes,
            body,
        };
        self.count_in(&message);
        self.enqueue(message);
        self.expect_arrival(feed);
    }

    /// What is left of a batch when load is shed.
    fn shed(&mut self, operator: u32, rows: u32, bytes: u64) -> (u32, u64) {
        let place = self.topology.operator(operator);
        let Sharing::Scheduler(scheduler) = &mut self.machines[place.machine as usize].sharing else {
            return (rows, bytes);
        };
        if !self.setup.shed || rows == 0 {
            return (rows, bytes);
        }
        let dropped = scheduler.rows_to_shed(place.local, rows, self.now).min(rows);
        if dropped == 0 {
            return (rows, bytes);
        }
        self.accounts[place.query.index()].rows_shed += u64::from(dropped);
        self.watch.on(self.now, Event::Shed { operator, rows: dropped });
        let left = rows - dropped;
        (left, (bytes as f64 * f64::from(left) / f64::from(rows)).round() as u64)
    }
}
