//! The checker of waiting: it judges from outside, so it counts as ready only what certainly is.

use std::collections::{BTreeSet, HashMap};

use laxity_graph::ProcessingTime;
use laxity_sched::WaitBound;

use super::{Found, Promise};
use crate::Setup;
use crate::event::Event;
use crate::topology::Topology;

/// No core is idle while a unit is ready, and no ready unit waits longer than its rank promises.
///
/// From outside, an operator is certainly ready if it has work, neither runs nor sleeps, and no mailbox below it is more
/// than half full (fuller ones may block it). A worker that sleeps with its operator runs it. A unit is certainly ready if an operator of it is and none of it runs.
#[derive(Debug)]
pub(super) struct Waits {
    promise: Promise,
    operators: Vec<OperatorState>,
    units: Vec<UnitState>,
    machines: Vec<MachineState>,
    /// Of a query on a machine: its unit, where units are queries. Else units are operators.
    unit_of: Vec<(u32, u32)>,
    full_bytes: u64,
    quantum_ns: u64,
    ageing_ns: u64,
    deferral_ns: u64,
    cores: u64,
    wake_ns: u64,
    /// Of messages that wait: bytes and t_M.
    messages: HashMap<u64, (u64, ProcessingTime)>,
    /// Operators of the units that are queries, which come after those that are operators.
    members: Vec<Vec<u32>>,
}

#[derive(Debug)]
struct OperatorState {
    machine: u32,
    query: u32,
    /// Those on the same machine that feed it, and that it feeds.
    upstream: Vec<u32>,
    downstream: Vec<u32>,
    messages: u64,
    bytes: u64,
    running: bool,
    more: bool,
    asleep: bool,
    target_ns: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct UnitState {
    machine: u32,
    /// Operators of it that have work and do not run; those that run.
    with_work: u32,
    running: u32,
    since: ProcessingTime,
    /// It may have been blocked for a while, so that its wait says nothing.
    excused: bool,
    /// Several operators of it ran as it became one unit.
    mixed: bool,
    /// By when at the latest it is ahead of all that comes, where deadlines rule.
    due: ProcessingTime,
}

#[derive(Debug, Default)]
struct MachineState {
    /// Units that wait.
    waiting: BTreeSet<u32>,
    waiting_max: u64,
    /// Units that wait, by when they are ahead of all that comes.
    by_due: BTreeSet<(ProcessingTime, u32)>,
    /// By core: when its turn with a unit began, and which.
    turns: HashMap<u32, (u32, ProcessingTime, ProcessingTime)>,
    turn_max_ns: u64,
    run_max_ns: u64,
}

impl Waits {
    pub fn new(topology: &Topology, setup: &Setup, promise: Promise) -> Waits {
        let here = |machine: u32, others: &mut dyn Iterator<Item = u32>| -> Vec<u32> {
            others.filter(|&other| topology.operator(other).machine == machine).collect()
        };
        let operators = (0..topology.operators.len() as u32).map(|operator| {
            let place = topology.operator(operator);
            let mut below =
                topology.routes(operator).iter().flat_map(|route| route.first..route.first + route.targets);
            OperatorState {
                machine: place.machine,
                query: place.query.0,
                upstream: here(place.machine, &mut place.upstream.iter().copied()),
                downstream: here(place.machine, &mut below),
                messages: 0,
                bytes: 0,
                running: false,
                more: false,
                asleep: false,
                target_ns: place.target_ns,
            }
        });
        let mut waits = Waits {
            promise,
            operators: operators.collect(),
            units: Vec::new(),
            machines: (0..setup.cluster.machines()).map(|_| MachineState::default()).collect(),
            unit_of: Vec::new(),
            full_bytes: setup.config.mailbox_bytes_max / 2,
            quantum_ns: setup.config.quantum_ns.max(setup.config.quantum_max_ns),
            ageing_ns: setup.config.ageing_bound_ns,
            deferral_ns: setup.config.deferral_max_ns,
            cores: setup.cluster.cores() as u64,
            wake_ns: setup.overheads.wake_ns,
            messages: HashMap::new(),
            members: Vec::new(),
        };
        waits.make_units();
        waits
    }

    /// Numbers the units: both as operators and, behind those, as queries on machines.
    fn make_units(&mut self) {
        let mut of_query: HashMap<(u32, u32), u32> = HashMap::new();
        let count = self.operators.len() as u32;
        self.units = vec![UnitState::default(); self.operators.len()];
        for (index, operator) in self.operators.iter().enumerate() {
            self.units[index].machine = operator.machine;
            let next = count + of_query.len() as u32;
            let unit = *of_query.entry((operator.query, operator.machine)).or_insert(next);
            if unit == next {
                self.units.push(UnitState { machine: operator.machine, ..UnitState::default() });
                self.members.push(Vec::new());
            }
            self.members[(unit - count) as usize].push(index as u32);
            self.unit_of.push((index as u32, unit));
        }
    }

    fn unit(&self, operator: u32) -> u32 {
        let (alone, query) = self.unit_of[operator as usize];
        if self.promise.unit.is_query() { query } else { alone }
    }

    pub fn on(&mut self, at: ProcessingTime, event: &Event, found: &mut Found) {
        match *event {
            Event::Enqueued { operator, message, bytes, ingested, .. } => {
                self.messages.insert(message, (bytes, ingested));
                let state = &mut self.operators[operator as usize];
                state.bytes += bytes;
                state.messages += 1;
                let fresh = state.messages == 1 && !state.more && !state.running;
                let full = state.bytes > self.full_bytes;
                if fresh {
                    self.gets_work(at, operator, ingested);
                }
                for place in 0..self.operators[operator as usize].upstream.len() {
                    let above = self.operators[operator as usize].upstream[place];
                    if full {
                        self.excuse_if_below_is_full(above);
                    }
                }
            }
            Event::Granted { machine, core, operator, message } => {
                self.granted(at, machine, core, operator, message, found);
            }
            Event::Merged { operator, message, .. } => self.take(operator, message),
            Event::Finished { machine, core, operator, more, .. } => {
                let unit = self.unit(operator);
                let state = &mut self.operators[operator as usize];
                state.running = false;
                state.more = more;
                let has_work = more || state.messages > 0;
                self.units[unit as usize].running = self.units[unit as usize].running.saturating_sub(1);
                let turns = &mut self.machines[machine as usize];
                if let Some((_, began, granted)) = turns.turns.get_mut(&core) {
                    turns.run_max_ns = turns.run_max_ns.max(at.since_ns(*granted));
                    if turns.waiting.is_empty() {
                        // Nobody waited for the turn to end.
                        *began = at;
                    }
                    turns.turn_max_ns = turns.turn_max_ns.max(at.since_ns(*began));
                }
                if has_work {
                    self.units[unit as usize].with_work += 1;
                }
                self.renew(at, unit, at);
                self.excuse_if_below_is_full(operator);
            }
            Event::Slept { operator } => self.operators[operator as usize].asleep = true,
            Event::Woke { operator } => self.operators[operator as usize].asleep = false,
            _ => {}
        }
    }

    /// An idle operator has something to do.
    fn gets_work(&mut self, at: ProcessingTime, operator: u32, ingested: ProcessingTime) {
        let unit = self.unit(operator);
        self.units[unit as usize].with_work += 1;
        let target_ns = self.operators[operator as usize].target_ns;
        let due = ingested.plus_ns(target_ns).plus_ns(self.deferral_ns);
        if self.units[unit as usize].with_work == 1 && self.units[unit as usize].running == 0 {
            self.renew(at, unit, due);
            self.excuse_if_below_is_full(operator);
        }
    }

    /// An operator above a mailbox that is more than half full may be blocked.
    fn excuse_if_below_is_full(&mut self, operator: u32) {
        let full = |&below: &u32| self.operators[below as usize].bytes > self.full_bytes;
        if self.operators[operator as usize].downstream.iter().any(full) {
            let unit = self.unit(operator);
            self.units[unit as usize].excused = true;
        }
    }

    /// The unit waits from now on, if it has work and does not run.
    fn renew(&mut self, at: ProcessingTime, unit: u32, due: ProcessingTime) {
        let state = &mut self.units[unit as usize];
        let machine = &mut self.machines[state.machine as usize];
        machine.waiting.remove(&unit);
        machine.by_due.remove(&(state.due, unit));
        if state.with_work == 0 || state.running > 0 {
            return;
        }
        state.since = at;
        state.excused = false;
        // Of a unit that ran just now, the next message is not known from outside: it may be due any time.
        state.due = due;
        machine.waiting.insert(unit);
        machine.waiting_max = machine.waiting_max.max(machine.waiting.len() as u64);
        if due > at {
            machine.by_due.insert((due, unit));
        }
    }

    fn take(&mut self, operator: u32, message: u64) {
        let (bytes, _) = self.messages.remove(&message).unwrap_or_default();
        let state = &mut self.operators[operator as usize];
        state.bytes = state.bytes.saturating_sub(bytes);
        state.messages = state.messages.saturating_sub(1);
    }

    fn granted(
        &mut self,
        at: ProcessingTime,
        machine: u32,
        core: u32,
        operator: u32,
        message: Option<u64>,
        found: &mut Found,
    ) {
        let unit = self.unit(operator);
        let state = self.units[unit as usize];
        if state.running == 0 {
            self.check_wait(at, unit, found);
            self.units[unit as usize].mixed = false;
        } else if self.promise.unit.is_query() && !state.mixed {
            found.say("a unit is with one core at a time", || {
                format!("operator {operator} was granted while another of its query ran on machine {machine}")
            });
        }
        if let Some(message) = message {
            self.check_passes(machine, unit, operator, message, found);
            self.take(operator, message);
        }
        self.operators[operator as usize].running = true;
        self.operators[operator as usize].more = false;
        let state = &mut self.units[unit as usize];
        state.with_work = state.with_work.saturating_sub(1);
        state.running += 1;
        let due = state.due;
        let turns = &mut self.machines[machine as usize];
        turns.waiting.remove(&unit);
        turns.by_due.remove(&(due, unit));
        let turn = turns.turns.entry(core).or_insert((unit, at, at));
        *turn = if turn.0 == unit { (unit, turn.1, at) } else { (unit, at, at) };
    }

    /// A unit has waited until now.
    fn check_wait(&self, at: ProcessingTime, unit: u32, found: &mut Found) {
        let state = self.units[unit as usize];
        let Some(bound_ns) = self.bound_ns(at, state.machine).filter(|_| !state.excused) else { return };
        let waited_ns = at.since_ns(state.since);
        if waited_ns > bound_ns {
            found.say("a ready unit waits no longer than its rank says", || {
                let operators = self.operators.len() as u32;
                let name = if unit < operators { "operator" } else { "query" };
                let id = if unit < operators { unit } else { self.query_of(unit) };
                format!(
                    "{name} {id} waited {waited_ns} ns since {} ns, the bound is {bound_ns} ns",
                    state.since.0
                )
            });
        }
    }

    /// Where keys are deadlines, no message goes before a unit whose key was due before the message was there.
    ///
    /// A key may be earlier than t_M by the predicted cost of the message and of its way; what is predicted is not
    /// seen from outside, so it counts as so many of the longest runs.
    fn check_passes(&self, machine: u32, unit: u32, operator: u32, message: u64, found: &mut Found) {
        const RUNS: u64 = 100;
        if self.promise.bound != Some(WaitBound::Deadline) {
            return;
        }
        let state = &self.machines[machine as usize];
        let Some(&(_, ingested)) = self.messages.get(&message) else { return };
        let waits =
            |&&(_, other): &&(ProcessingTime, u32)| other != unit && !self.units[other as usize].excused;
        let Some(&(due, other)) = state.by_due.iter().find(waits) else { return };
        if ingested > due.plus_ns(RUNS * state.run_max_ns) {
            found.say("where deadlines rule, nothing goes before what was due before it came", || {
                format!(
                    "operator {operator} got message {message} of {} ns while unit {other} waited since {} ns and was due by {} ns",
                    ingested.0, self.units[other as usize].since.0, due.0
                )
            });
        }
    }

    fn query_of(&self, unit: u32) -> u32 {
        let members = self.members.get(unit as usize - self.operators.len());
        members.and_then(|members| members.first()).map_or(u32::MAX, |&o| self.operators[o as usize].query)
    }

    /// How long a unit may have waited on this machine, by the most units and the longest turn that were seen.
    fn bound_ns(&self, at: ProcessingTime, machine: u32) -> Option<u64> {
        let state = &self.machines[machine as usize];
        let under_way = state.turns.values().filter(|(unit, ..)| self.units[*unit as usize].running > 0);
        let under_way_ns = under_way.map(|(_, _, granted)| at.since_ns(*granted)).max().unwrap_or(0);
        let run_max_ns = state.run_max_ns.max(under_way_ns);
        let turn_ns = state.turn_max_ns.max(self.quantum_ns.saturating_add(run_max_ns));
        // A core may have to be woken for each.
        let turn_ns = turn_ns.saturating_add(self.wake_ns);
        let units = state.waiting_max + self.cores;
        match self.promise.bound? {
            WaitBound::Turns => {
                let workers = if self.promise.shards > 1 { 1 } else { self.cores };
                Some((units.div_ceil(workers) + 1).saturating_mul(turn_ns))
            }
            WaitBound::Ageing => {
                Some(self.ageing_ns.saturating_add((4 * (units + 1)).saturating_mul(turn_ns)))
            }
            // Bounded by what was there before, not by a time: see `check_passes`.
            WaitBound::Deadline => None,
        }
    }

    /// The machine gave out all it could, and a core is idle.
    pub fn settled(&self, machine: u32, found: &mut Found) {
        for &unit in &self.machines[machine as usize].waiting {
            let alone = [unit];
            let members = match (unit as usize).checked_sub(self.operators.len()) {
                Some(query) => &self.members[query][..],
                None => &alone,
            };
            let certain = members.iter().copied().find(|&operator| {
                let state = &self.operators[operator as usize];
                let has_work = !state.running && !state.asleep && (state.more || state.messages > 0);
                let roomy = |&below: &u32| self.operators[below as usize].bytes <= self.full_bytes;
                has_work && state.downstream.iter().all(roomy)
            });
            if let Some(operator) = certain {
                found.say("no core is idle while a unit is ready", || {
                    format!("operator {operator} is ready on machine {machine}, and a core there is idle")
                });
                return;
            }
        }
    }

    pub fn promised(&mut self, at: ProcessingTime, promise: Promise) {
        self.promise = promise;
        for machine in &mut self.machines {
            machine.waiting.clear();
            machine.by_due.clear();
        }
        for unit in &mut self.units {
            (unit.with_work, unit.running, unit.since, unit.excused) = (0, 0, at, true);
        }
        for operator in 0..self.operators.len() as u32 {
            let unit = self.unit(operator);
            let state = &self.operators[operator as usize];
            let (running, waits) = (state.running, !state.running && (state.more || state.messages > 0));
            self.units[unit as usize].running += u32::from(running);
            self.units[unit as usize].with_work += u32::from(waits);
        }
        for unit in 0..self.units.len() as u32 {
            self.renew(at, unit, at);
            let state = &mut self.units[unit as usize];
            (state.excused, state.mixed) = (true, state.running > 1);
        }
    }

    pub fn end(&self, at: ProcessingTime, found: &mut Found) {
        for machine in &self.machines {
            for &unit in &machine.waiting {
                self.check_wait(at, unit, found);
            }
        }
    }
}
