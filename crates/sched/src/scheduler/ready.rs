//! Who is next: the most urgent unit, or now and then the one that has waited too long.

use std::collections::VecDeque;

use laxity_graph::{OperatorId, ProcessingTime};

use super::plans::Call;
use crate::run_queue::{Key, RunQueue};
use crate::{By, Config, Needs, Rank, Ties, Train, WaitBound};

/// The units that wait, and who is next among them.
#[derive(Debug)]
pub(super) struct Ready {
    pub units: Vec<UnitState>,
    pub queue: RunQueue,
    /// Of a rank per cycle: what it said last, by unit.
    pub priorities: Vec<f64>,
    pub per_cycle: bool,
    ties: Ties,
    /// The ageing guard: `None` where the rank bounds the wait itself.
    ageing_bound_ns: Option<u64>,
    /// Units as they joined, for the guard. Those that left stay until they are at the front, where the first always waits:
    /// nearly every turn comes by here, and taking one out of the midst would cost two cache lines more.
    joined: VecDeque<Joined>,
    joins: u64,
    /// Turns since one was given for age.
    turns: u32,
}

/// A unit waits (in the queue), is held by a worker, or has nothing ready.
#[derive(Clone, Copy, Debug)]
pub(super) struct UnitState {
    /// Operators of it that are ready.
    pub ready: u32,
    /// A worker has it.
    pub held: bool,
    /// With which it last joined.
    pub priority: f64,
    /// Of the join since which it waits; 0 where it does not, or nobody watches.
    join: u64,
}

#[derive(Clone, Copy, Debug)]
struct Joined {
    since: ProcessingTime,
    /// As [`UnitState::join`], from 1.
    join: u64,
    unit: u32,
}

/// Of so many turns one may go to a unit that waited too long: under lasting overload, when everything ages,
/// the rank still rules three quarters of the time. Picked.
pub(super) const TURNS_PER_AGED: u32 = 4;

impl Ready {
    pub fn new(needs: &Needs, config: &Config) -> Ready {
        Ready {
            units: Vec::new(),
            queue: RunQueue::default(),
            priorities: Vec::new(),
            per_cycle: needs.by == By::Cycle,
            ties: needs.ties,
            ageing_bound_ns: (needs.bound == WaitBound::Ageing).then_some(config.ageing_bound_ns),
            joined: VecDeque::new(),
            joins: 0,
            turns: 0,
        }
    }

    pub fn grow(&mut self, units: usize) {
        if self.units.len() < units {
            self.units.resize(units, UnitState { ready: 0, held: false, priority: 0.0, join: 0 });
            self.queue.grow(units);
            if self.per_cycle {
                self.priorities.resize(units, 0.0);
            }
        }
    }

    /// With which priority a unit joins, given that of its head.
    #[inline]
    pub fn priority(&mut self, rank: &mut dyn Rank, unit: u32, head: f64) -> f64 {
        if self.per_cycle { self.priorities[unit as usize] } else { rank.join(unit, head) }
    }

    #[inline]
    pub fn join(&mut self, unit: u32, priority: f64, now: ProcessingTime) {
        let key = self.key(unit, priority);
        self.units[unit as usize].priority = priority;
        self.queue.push(key);
        self.note_join(unit, now);
    }

    #[inline]
    pub fn update(&mut self, unit: u32, priority: f64) {
        // A review asks for all units again and changes few.
        if self.units[unit as usize].priority != priority {
            self.units[unit as usize].priority = priority;
            self.queue.update(unit, priority);
        }
    }

    pub fn rekey(&mut self) {
        let Ready { queue, priorities, units, .. } = self;
        queue.rekey(|unit| {
            units[unit as usize].priority = priorities[unit as usize];
            priorities[unit as usize]
        });
    }

    /// As [`rekey`](Ready::rekey), where only these units have other priorities.
    pub fn rekey_some(&mut self, units: &[u32]) {
        for &unit in units {
            if self.queue.contains(unit) {
                self.update(unit, self.priorities[unit as usize]);
            }
        }
    }

    /// Takes the next unit out.
    #[inline]
    pub fn take(&mut self, now: ProcessingTime) -> Option<u32> {
        let unit = match self.aged(now) {
            Some(aged) => {
                self.turns = 0;
                self.queue.remove(aged);
                aged
            }
            None => {
                let unit = self.queue.pop()?;
                self.turns = self.turns.saturating_add(1);
                unit
            }
        };
        self.note_leave(unit);
        Some(unit)
    }

    /// Takes this unit out, if it waits and no turn for age is due.
    #[inline]
    pub fn take_this(&mut self, unit: u32, now: ProcessingTime) -> bool {
        if self.aged(now).is_some() || !self.queue.remove(unit) {
            return false;
        }
        self.turns = self.turns.saturating_add(1);
        self.note_leave(unit);
        true
    }

    /// Takes the next unit out and puts `unit` back in its stead, if that is more urgent than `unit` is.
    #[inline]
    pub fn swap(&mut self, unit: u32, priority: f64, now: ProcessingTime) -> Option<u32> {
        if self.aged(now).is_some() {
            let other = self.take(now)?;
            self.units[unit as usize].held = false;
            self.join(unit, priority, now);
            return Some(other);
        }
        self.turns = self.turns.saturating_add(1);
        let other = self.queue.exchange(self.key(unit, priority))?;
        let state = &mut self.units[unit as usize];
        (state.held, state.priority) = (false, priority);
        self.note_leave(other);
        self.note_join(unit, now);
        Some(other)
    }

    /// Priority of the unit that `take` would give.
    pub fn top(&self, now: ProcessingTime) -> Option<f64> {
        let top = self.queue.peek()?.unit();
        Some(if self.aged(now).is_some() { f64::NEG_INFINITY } else { self.units[top as usize].priority })
    }

    /// When the unit that has waited longest will have waited too long, where the guard is on.
    pub fn next_ageing(&self) -> Option<ProcessingTime> {
        let bound_ns = self.ageing_bound_ns?;
        Some(self.joined.front()?.since.plus_ns(bound_ns))
    }

    /// So many turns were given elsewhere by a worker that passed over this.
    pub fn passed_over(&mut self, turns: u32) {
        self.turns = self.turns.saturating_add(turns);
    }

    /// Takes a unit out for good.
    pub fn remove(&mut self, unit: u32) {
        if self.queue.remove(unit) {
            self.note_leave(unit);
        }
        let state = &mut self.units[unit as usize];
        state.ready = 0;
        state.held = false;
        if let Some(priority) = self.priorities.get_mut(unit as usize) {
            *priority = 0.0;
        }
    }

    #[inline]
    fn key(&self, unit: u32, priority: f64) -> Key {
        let tie = match self.ties {
            Ties::Arrival => self.queue.arrival(),
            Ties::Id => 0,
        };
        Key::new(priority, tie, unit)
    }

    /// The unit that has waited longest, if it has waited too long and a turn for age is due.
    #[inline]
    fn aged(&self, now: ProcessingTime) -> Option<u32> {
        let bound_ns = self.ageing_bound_ns.filter(|_| self.turns >= TURNS_PER_AGED - 1)?;
        let oldest = self.joined.front()?;
        (now.since_ns(oldest.since) >= bound_ns).then_some(oldest.unit)
    }

    #[inline]
    fn note_join(&mut self, unit: u32, now: ProcessingTime) {
        if self.ageing_bound_ns.is_none() {
            return;
        }
        self.joins += 1;
        self.units[unit as usize].join = self.joins;
        if self.joined.len() > 2 * self.queue.len() + JOINED_MIN {
            let units = &self.units;
            self.joined.retain(|joined| units[joined.unit as usize].join == joined.join);
        }
        self.joined.push_back(Joined { since: now, join: self.joins, unit });
    }

    #[inline]
    fn note_leave(&mut self, unit: u32) {
        if self.ageing_bound_ns.is_none() {
            return;
        }
        self.units[unit as usize].join = 0;
        let units = &self.units;
        while self.joined.pop_front_if(|first| units[first.unit as usize].join != first.join).is_some() {}
    }
}

/// So many that left may stay in any case.
const JOINED_MIN: usize = 64;

/// What decides whether more may be merged into a granted message.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Granted {
    pub deadline: ProcessingTime,
    pub channel: u32,
    /// Of all messages merged into it; 0 for a watermark or a resumption.
    pub rows: u32,
}

/// What a worker has, and how much of its train is used.
#[derive(Debug, Default)]
pub(super) struct Worker {
    pub unit: Option<u32>,
    pub running: Option<OperatorId>,
    since: ProcessingTime,
    pub messages: u64,
    pub rows: u64,
    pub cpu_ns: u64,
    messages_max: u64,
    /// Of the message that it was granted last.
    pub granted: Granted,
    /// What is left of the plan, last first, and how many messages of the operator at its end are left in its
    /// turn, if that has begun.
    pub plan: Vec<OperatorId>,
    pub turn: Option<usize>,
    /// What it did last, for what a call costs.
    pub last_call: Option<Call>,
}

impl Worker {
    #[inline]
    pub fn start(&mut self, unit: u32, messages_max: u64, now: ProcessingTime) {
        let mut plan = std::mem::take(&mut self.plan);
        plan.clear();
        let last_call = self.last_call;
        *self = Worker { unit: Some(unit), since: now, messages_max, plan, last_call, ..Worker::default() };
    }

    #[inline]
    pub fn expired(&self, train: Train, quantum_ns: u64, now: ProcessingTime) -> bool {
        match train {
            Train::Message => true,
            Train::Messages(messages) => self.messages >= messages,
            Train::TimeNs(time_ns) => now.since_ns(self.since) >= time_ns,
            Train::Quantum => now.since_ns(self.since) >= quantum_ns,
            Train::Rows(rows) => self.rows >= rows,
            Train::Fraction(_) => self.messages >= self.messages_max,
            Train::CostNs(cpu_ns) => self.cpu_ns >= cpu_ns,
        }
    }
}
