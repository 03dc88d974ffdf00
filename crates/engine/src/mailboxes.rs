//! The scheduler core behind locks: one for each of its shards.
//!
//! Which shard a worker goes to is [`laxity_sched::Shards`]' rule; here are the threads. A thread holds one lock
//! at a time. A worker learns how urgent other shards are from what they publish, without their locks, so it may
//! find less than it was told when it gets there, and then chooses again. While one shard is used nothing is published,
//! and nothing looked at.
//!
//! How workers sleep and wake is told in `mailboxes/parking.rs`.

mod addresses;
mod ahead;
mod parking;
mod slot;

use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;

use laxity_graph::{EventTime, OperatorId, ProcessingTime, QueryId, WorkerId};
use laxity_runtime::Look;
use laxity_sched::{
    Address, Config, Grant, Ladder, LeavesOut, Message, OperatorSpec, Outlook, Placement, QuerySpec, Recipe,
    Relief, RunReport, Scheduler, Shard, Work,
};
use parking_lot::Mutex;
use rand_core::SeedableRng;
use rand_pcg::Pcg32;

use self::addresses::Addresses;
use self::parking::Parking;
use self::slot::{Desk, Slot};
use crate::sync::MutexGuard;
use crate::unit::Fetched;

/// Other shards that a worker looks at beside its home: one brings a pick near the front of all that wait, and more
/// bring little (`laxity_sched`'s tests).
const SAMPLED: usize = 1;

/// Mailboxes of all operators, in the order the scheduler gives them out.
pub(crate) struct Mailboxes<T, U> {
    shards: Vec<Slot<T, U>>,
    /// For who adds and removes queries; the others go by `addresses`.
    placement: Mutex<Placement>,
    /// [`Placement::used`]. The first time that it rises above 1 it is written under the lock of the shard that was the
    /// only one, so that whoever leaves that shard afterwards publishes it.
    used: AtomicUsize,
    addresses: Addresses,
    parking: Parking,
    merging: Merging<T>,
    /// What the message that a table is to be looked at carries.
    look: fn() -> T,
    seed: u64,
}

/// A worker, and where it is among the shards.
pub(crate) struct WorkerState {
    worker: WorkerId,
    /// Another one once more shards are used.
    home: usize,
    /// What it was granted, by its id on the shard where it is: that of the process may be another's by the time that
    /// it is done.
    granted: OperatorId,
    /// The shard whose unit it holds or held last.
    at: usize,
    /// Turns given elsewhere that its home has not heard of.
    passed: u32,
    slept_ns: u64,
    random: Pcg32,
}

impl WorkerState {
    /// How long it has slept since it was last asked.
    pub(crate) fn take_slept_ns(&mut self) -> u64 {
        std::mem::take(&mut self.slept_ns)
    }
}

/// What a worker has done.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Finished {
    pub report: RunReport,
    /// Of a source whose watermark rose: how far, and when the rows that raised it were due.
    pub progress: Option<(EventTime, ProcessingTime)>,
    /// When it was done.
    pub ended: ProcessingTime,
    /// Of a table: when to look at it again, if nobody wakes it before; of an operator, when to tell it the time.
    pub look: Option<Look>,
}

/// What a worker does next.
#[derive(Debug)]
pub(crate) enum Next<T, U> {
    Run(Grant<T>, U),
    /// Lets go of what was refused, and asks again: there is nothing to do before it would sleep.
    Refused,
    Stop,
}

/// A shard's number, an operator's id there, and what is behind its lock.
type Found<'a, T, U> = (usize, OperatorId, MutexGuard<'a, Desk<T, U>>);

/// Which messages a worker takes together.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Merging<T> {
    /// Rows of them all at most; 0 takes each alone.
    pub rows_max: u32,
    /// Messages at most, beside the one granted.
    pub messages_max: usize,
    /// Whether the second can be processed with the first.
    pub fits: fn(&Message<T>, &Message<T>) -> bool,
}

impl<T> Merging<T> {
    fn merge(
        &self,
        shard: &mut Shard<T>,
        worker: WorkerId,
        grant: &Grant<T>,
        now: ProcessingTime,
        merged: &mut Vec<Message<T>>,
    ) {
        let Work::Message { message: first, .. } = &grant.work else { return };
        if first.rows >= self.rows_max {
            return;
        }
        while merged.len() < self.messages_max {
            let next = shard.merge_if(worker, self.rows_max, now, |next| (self.fits)(first, next));
            let Some(next) = next else { return };
            merged.push(next);
        }
    }
}

impl<T, U: Clone + Fetched> Mailboxes<T, U> {
    /// With so few shards, and so many where queries crowd, but no more than workers.
    pub(crate) fn new(
        (few, many): (usize, usize),
        policy: &Recipe,
        config: &Config,
        merging: Merging<T>,
        look: fn() -> T,
    ) -> Mailboxes<T, U> {
        let shards: Vec<Slot<T, U>> =
            Shard::several(few, many, policy, config).into_iter().map(Slot::new).collect();
        let placement = Placement::new(few.min(shards.len()), shards.len());
        let parking = Parking::new();
        Mailboxes {
            used: AtomicUsize::new(placement.used()),
            placement: Mutex::new(placement),
            shards,
            addresses: Addresses::new(),
            parking,
            merging,
            look,
            seed: config.seed,
        }
    }

    /// How many schedulers are used.
    #[inline]
    pub(crate) fn used(&self) -> usize {
        self.used.load(Relaxed)
    }

    /// More shards are used from now on.
    fn use_shards(&self, used: usize) {
        let only = self.shards[0].lock();
        self.used.store(used, Relaxed);
        // Nobody is called aged by then: that is seen when it is left the next time.
        self.shards[0].publish(&only, ProcessingTime::ZERO);
        drop(only);
        self.shards.iter().for_each(|slot| slot.lock().shard.share_workers(used));
    }

    /// What a worker starts with.
    pub(crate) fn worker_state(&self, worker: WorkerId) -> WorkerState {
        let home = worker.index() % self.used();
        let random = Pcg32::seed_from_u64(self.seed.wrapping_add(u64::from(worker.0)));
        WorkerState { worker, home, granted: OperatorId(u32::MAX), at: home, passed: 0, slept_ns: 0, random }
    }

    /// Adds a query with its operators, and what workers get in their hands that are granted one.
    pub(crate) fn add_query(&self, query: QuerySpec, operators: &[OperatorSpec], units: &[U]) {
        self.add(query, operators, units, None, false);
    }

    /// Adds a table: something that is to be looked at, called as this operator of this query. Beside its only reader, if
    /// it has but one.
    pub(crate) fn add_table(
        &self,
        query: QuerySpec,
        operator: OperatorSpec,
        unit: U,
        reader: Option<QueryId>,
    ) {
        self.add(query, &[operator], &[unit], reader, true);
    }

    fn add(
        &self,
        query: QuerySpec,
        operators: &[OperatorSpec],
        units: &[U],
        beside: Option<QueryId>,
        is_table: bool,
    ) {
        let id = query.id;
        let ids: Vec<OperatorId> = operators.iter().map(|operator| operator.id).collect();
        // Held throughout: who removes it finds all of it.
        let mut placement = self.placement.lock();
        let shard = placement.beside(beside);
        let fed = beside.and_then(|reader| placement.locals(reader)).unwrap_or_default();
        let mut desk = self.shards[shard].lock();
        let first = desk.shard.add_query(query, operators);
        let bound = desk.shard.ids_bound() as usize;
        desk.units.resize(bound, None);
        desk.fed.resize(bound, 0..0);
        for ((local, &id), unit) in (first.0..).map(OperatorId).zip(&ids).zip(units) {
            desk.units[local.index()] = Some(unit.clone());
            desk.fed[local.index()] = fed.clone();
            if is_table {
                desk.agenda.enlist(local);
            }
            self.addresses.place(id, Address { shard, local });
        }
        drop(desk);
        let used = placement.used();
        placement.place(id, &ids, shard, first);
        if placement.used() > used {
            self.use_shards(placement.used());
        }
    }

    /// Forgets a query or a table; the messages it still had.
    pub(crate) fn remove_query(&self, query: QueryId, now: ProcessingTime) -> Vec<Message<T>> {
        let mut placement = self.placement.lock();
        let Some((place, ids)) = placement.remove(query) else { return Vec::new() };
        let mut desk = self.shards[place].lock();
        drop(placement);
        let messages = desk.shard.remove_query(query);
        let mut units = Vec::new();
        for id in ids {
            let Some(Address { local, .. }) = self.addresses.locate(id) else { continue };
            self.addresses.forget(id);
            desk.agenda.dismiss(local);
            desk.fed[local.index()] = 0..0;
            units.extend(desk.units[local.index()].take());
        }
        self.leave(place, desk, now);
        // What they hold is let go of without the lock.
        drop(units);
        messages
    }

    /// A query or a table has another target, weight or QoS from now on.
    pub(crate) fn alter_query(&self, query: QuerySpec, now: ProcessingTime) {
        let Some(place) = self.placement.lock().shard_of(query.id) else { return };
        let mut desk = self.shards[place].lock();
        desk.shard.alter_query(query, now);
        self.leave(place, desk, now);
    }

    /// Another policy from now on; nothing queued is lost. Shards change one after the other: meanwhile workers
    /// choose between shards by priorities that do not compare, and inside each rightly.
    pub(crate) fn set_policy(&self, policy: &Recipe, now: ProcessingTime) {
        for (place, slot) in self.shards.iter().enumerate() {
            let mut desk = slot.lock();
            desk.shard.scheduler_mut().set_policy(policy.compose(), now);
            self.leave(place, desk, now);
        }
    }

    /// What the scheduler should know besides messages: how full the memory is.
    pub(crate) fn on_memory(&self, used_bytes: u64, bound_bytes: u64) {
        for slot in &self.shards {
            slot.lock().shard.scheduler_mut().on_memory(used_bytes, bound_bytes);
        }
    }

    /// The steps against too much work that its scheduler has taken for a query; `None` if none has it.
    pub(crate) fn ladder(&self, query: QueryId) -> Option<Ladder> {
        let place = self.placement.lock().shard_of(query)?;
        Some(self.shards[place].lock().shard.ladder(query))
    }

    /// Rows of the query may be dropped under overload.
    pub(crate) fn allow_shedding(&self, query: QueryId) {
        let place = self.placement.lock().shard_of(query);
        if let Some(place) = place {
            self.shards[place].lock().shard.allow_shedding(query, true);
        }
    }

    /// The query leaves rows out when it is told to.
    pub(crate) fn allow_leaving_out(&self, query: QueryId) {
        let place = self.placement.lock().shard_of(query);
        if let Some(place) = place {
            self.shards[place].lock().shard.allow_leaving_out(query, true);
        }
    }

    /// What is to be done with rows that have come to a source.
    pub(crate) fn relief(
        &self,
        source: OperatorId,
        rows: u32,
        leaves_out: LeavesOut,
        now: ProcessingTime,
    ) -> Relief {
        let Some((_, local, mut desk)) = self.desk_of(source) else { return Relief::default() };
        desk.shard.scheduler_mut().relief(local, rows, leaves_out, now)
    }

    /// Asks the scheduler that has the operator, which it knows by the id given.
    pub(crate) fn ask<R>(
        &self,
        operator: OperatorId,
        question: impl FnOnce(&Scheduler<T>, OperatorId) -> R,
    ) -> Option<R> {
        let (_, local, desk) = self.desk_of(operator)?;
        Some(question(desk.shard.scheduler(), local))
    }

    /// Asks every scheduler.
    pub(crate) fn ask_all<R>(&self, question: impl Fn(&Scheduler<T>) -> R) -> impl Iterator<Item = R> {
        self.shards.iter().map(move |slot| question(slot.lock().shard.scheduler()))
    }

    /// A table is to be looked at now, whatever was appointed. Who wakes one that is gone may wake another: a look too
    /// many does no harm.
    pub(crate) fn wake(&self, table: OperatorId, now: ProcessingTime) {
        let Some((shard, local, mut desk)) = self.desk_of(table) else { return };
        if desk.agenda.has(local) {
            let look = self.look_at(local, now);
            desk.shard.on_message(local, look, now);
        }
        self.leave(shard, desk, now);
    }

    /// A table is to be looked at then.
    pub(crate) fn appoint(&self, table: OperatorId, look: Look, now: ProcessingTime) {
        let Some((shard, local, mut desk)) = self.desk_of(table) else { return };
        desk.agenda.appoint(local, look);
        self.leave(shard, desk, now);
    }

    /// The shard that has an operator, locked, and its id there.
    fn desk_of(&self, operator: OperatorId) -> Option<Found<'_, T, U>> {
        let Address { shard, .. } = self.addresses.locate(operator)?;
        let desk = self.shards[shard].lock();
        // It may have gone meanwhile, and its id have come again elsewhere.
        let address = self.addresses.locate(operator).filter(|address| address.shard == shard)?;
        Some((shard, address.local, desk))
    }

    fn look_at(&self, table: OperatorId, due: ProcessingTime) -> Message<T> {
        let (progress, body) = (EventTime::MIN, (self.look)());
        Message { to: table, channel: 0, progress, ingested: due, rows: 0, bytes: 0, body }
    }

    /// Takes out what is for other shards than the one where the worker is; the rest goes with its next exchange.
    pub(crate) fn take_elsewhere(
        &self,
        worker: &WorkerState,
        staged: &mut Vec<Message<T>>,
    ) -> Vec<Message<T>> {
        let is_elsewhere = |message: &mut Message<T>| {
            self.addresses.locate(message.to).is_some_and(|address| address.shard != worker.at)
        };
        staged.extract_if(.., is_elsewhere).collect()
    }

    /// Messages from outside, in order per channel. What is left in `messages` is for operators that are gone.
    pub(crate) fn enqueue(&self, messages: &mut Vec<Message<T>>, now: ProcessingTime) {
        let place_of = |message: &Message<T>| match self.used() {
            1 => 0,
            _ => self.addresses.locate(message.to).map_or(0, |address| address.shard),
        };
        if self.used() > 1 {
            // Each lock is taken once. The sort is stable: it keeps the order per channel.
            messages.sort_by_key(place_of);
        }
        let mut refused = Vec::new();
        let mut arrived = messages.drain(..).peekable();
        while let Some(first) = arrived.peek() {
            let place = place_of(first);
            let mut desk = self.shards[place].lock();
            let mut ready = false;
            while let Some(message) = arrived.next_if(|message| place_of(message) == place) {
                ready |= self.take(place, &mut desk.shard, message, &mut refused, now);
            }
            self.publish(place, &desk, now);
            let wake = ready && self.parking.has_sleepers();
            drop(desk);
            if wake {
                self.parking.wake_one();
            }
        }
        drop(arrived);
        messages.append(&mut refused);
    }

    /// Ends the waiting of all workers once they have nothing to do.
    pub(crate) fn stop(&self) {
        self.parking.stop();
    }

    /// Hands over what the last run produced and takes the next, sleeping while there is none.
    ///
    /// `now` is asked after a lock was waited for: a decision must not be made with a time that passed meanwhile.
    /// Where the lock is free, it is made with the time when the run ended. What is left in `staged` is for operators
    /// that are gone; `merged` gets the messages that are to be processed with the one granted.
    pub(crate) fn exchange(
        &self,
        worker: &mut WorkerState,
        finished: Option<Finished>,
        staged: &mut Vec<Message<T>>,
        merged: &mut Vec<Message<T>>,
        now: impl Fn() -> ProcessingTime,
    ) -> Next<T, U> {
        worker.home = worker.worker.index() % self.used();
        let slot = &self.shards[worker.at];
        let at_once = finished.and_then(|finished| Some((slot.try_lock()?, finished.ended)));
        let (mut desk, mut instant) = at_once.unwrap_or_else(|| (slot.lock(), now()));
        // A run's outputs go to operators of its query, so to this shard; a table's were sorted out.
        let (mut refused, mut made_ready) = (Vec::new(), None);
        for message in staged.drain(..) {
            let to = message.to;
            if self.take(worker.at, &mut desk.shard, message, &mut refused, instant) {
                made_ready = made_ready.or(Some(to));
            }
        }
        staged.append(&mut refused);
        if let Some(Finished { report, progress, look, .. }) = finished {
            // Its id here comes again only after this report.
            if let Some((progress, ingested)) = progress {
                desk.shard.on_progress(worker.granted, progress, ingested);
            }
            if let Some(look) = look {
                // An operator is enlisted when it asks for the first time, if it is still there.
                if !desk.agenda.has(worker.granted) && desk.units[worker.granted.index()].is_some() {
                    desk.agenda.enlist(worker.granted);
                }
                desk.agenda.appoint(worker.granted, look);
            }
            desk.shard.on_finished(worker.worker, report, instant);
            if let Some(address) = made_ready.and_then(|operator| self.addresses.locate(operator)) {
                desk.shard.follow(worker.worker, address.local, instant);
            }
        }
        loop {
            if worker.at == worker.home {
                self.attend(worker, &mut desk, instant);
            } else if self.shards[worker.home].is_due(instant) {
                self.leave(worker.at, desk, instant);
                let mut home = self.shards[worker.home].lock();
                instant = now();
                self.attend(worker, &mut home, instant);
                self.leave(worker.home, home, instant);
                desk = self.shards[worker.at].lock();
                instant = now();
            }
            let chosen = self.choose(worker, &mut desk.shard, instant).filter(|&chosen| chosen != worker.at);
            if let Some(chosen) = chosen {
                desk.shard.release(worker.worker, instant);
                self.leave(worker.at, desk, instant);
                worker.at = chosen;
                desk = self.shards[chosen].lock();
                instant = now();
            }
            if let Some(grant) = desk.shard.next(worker.worker, instant) {
                self.merging.merge(&mut desk.shard, worker.worker, &grant, instant, merged);
                worker.granted = desk.shard.scheduler().runs(worker.worker).expect("it was just granted");
                let unit = desk.units[worker.granted.index()].clone().expect("what is granted is there");
                desk.fetch_ahead();
                self.leave(worker.at, desk, instant);
                return Next::Run(grant, unit);
            }
            if chosen.is_some() {
                // Others were quicker.
                continue;
            }
            self.leave_idle(worker.at, desk, instant);
            if !staged.is_empty() {
                // Not taken to bed: their query waits for them.
                return Next::Refused;
            }
            if self.look_in(worker.home, instant, &now) {
                desk = self.shards[worker.at].lock();
                instant = now();
                continue;
            }
            if !self.parking.sleep(|| self.outlook(), &now, || self.used() > 1) {
                return Next::Stop;
            }
            desk = self.shards[worker.at].lock();
            let slept_at = std::mem::replace(&mut instant, now());
            worker.slept_ns += instant.since_ns(slept_at);
        }
    }

    /// Whether work waits anywhere, and when the next table is to be looked at.
    fn outlook(&self) -> (bool, Option<ProcessingTime>) {
        let mut first: Option<ProcessingTime> = None;
        for slot in &self.shards {
            let (work_waits, look) = slot.outlook();
            if work_waits {
                return (true, None);
            }
            first = first.into_iter().chain(look).min();
        }
        (false, first)
    }

    /// What a worker owes its home, whose lock it has, wherever it works.
    fn attend(&self, worker: &mut WorkerState, home: &mut Desk<T, U>, now: ProcessingTime) {
        self.call_looks(home, now);
        if self.used() > 1 {
            home.shard.passed_over(std::mem::take(&mut worker.passed));
            home.shard.on_time(now);
        }
    }

    /// Attends the agenda of another shard whose workers are all in runs, so that nobody who has nothing to do sleeps past a
    /// look that is due. True if there was such a look.
    fn look_in(&self, home: usize, now: ProcessingTime, clock: &impl Fn() -> ProcessingTime) -> bool {
        for place in (0..self.shards.len()).filter(|&place| place != home) {
            if !self.shards[place].is_due(now) {
                continue;
            }
            let mut desk = self.shards[place].lock();
            let instant = clock();
            let has_looks = self.call_looks(&mut desk, instant);
            self.leave(place, desk, instant);
            if has_looks {
                return true;
            }
        }
        false
    }

    /// Makes work of the looks that are due on a shard. True if there were some.
    fn call_looks(&self, desk: &mut Desk<T, U>, now: ProcessingTime) -> bool {
        let mut any = false;
        while let Some((local, due)) = desk.agenda.pop_due(now) {
            // The shard goes by local ids, and tells the process' own when it grants.
            desk.shard.on_message(local, self.look_at(local, due), now);
            any = true;
        }
        any
    }

    /// The shard that a worker goes on with, which may be where it is, as it has the lock there; `None` if it knows
    /// of no work.
    fn choose(&self, worker: &mut WorkerState, shard: &mut Shard<T>, now: ProcessingTime) -> Option<usize> {
        if self.used() == 1 || shard.goes_on(worker.worker, now) {
            return Some(worker.at);
        }
        let top = shard.top_for(worker.worker, now);
        let outlook = Outlook { at: worker.at, top, home: worker.home, sampled: SAMPLED, lead: shard.lead() };
        let chosen = outlook.choose(self.used(), |place| self.shards[place].top(), &mut worker.random)?;
        if chosen != worker.home {
            worker.passed = worker.passed.saturating_add(1);
        }
        Some(chosen)
    }

    /// Takes a message for an operator of this shard, if it is still there. True if a unit became ready.
    #[inline]
    fn take(
        &self,
        place: usize,
        shard: &mut Shard<T>,
        message: Message<T>,
        refused: &mut Vec<Message<T>>,
        now: ProcessingTime,
    ) -> bool {
        if let Some(address) = self.addresses.locate(message.to) {
            assert_eq!(address.shard, place, "operator {} is on another shard", message.to);
            if shard.scheduler().has_operator(address.local) {
                return shard.on_message(address.local, message, now);
            }
        }
        refused.push(message);
        false
    }

    /// Lets go of a shard, and wakes a worker if one can do what is left there.
    fn leave(&self, place: usize, desk: MutexGuard<'_, Desk<T, U>>, now: ProcessingTime) {
        self.publish(place, &desk, now);
        let work_waits = self.parking.has_sleepers() && desk.shard.scheduler().waiting_units() > 0;
        let wake = work_waits || self.parking.sleeps_past(desk.agenda.next());
        drop(desk);
        if wake {
            self.parking.wake_one();
        }
    }

    /// As [`leave`](Mailboxes::leave), of a worker that will sleep, and keep the alarm for what is to be looked at.
    fn leave_idle(&self, place: usize, desk: MutexGuard<'_, Desk<T, U>>, now: ProcessingTime) {
        self.publish(place, &desk, now);
        let work_waits = self.parking.has_sleepers() && desk.shard.scheduler().waiting_units() > 0;
        drop(desk);
        if work_waits {
            self.parking.wake_one();
        }
    }

    fn publish(&self, place: usize, desk: &Desk<T, U>, now: ProcessingTime) {
        if self.used() > 1 {
            self.shards[place].publish(desk, now);
        }
    }
}

#[cfg(all(test, feature = "loom"))]
mod loom_tests;
#[cfg(all(test, not(feature = "loom")))]
mod tests;
