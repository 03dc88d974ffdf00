//! The reference that every policy is compared with, step by step. It shares no code with the scheduler's mechanism.

use std::collections::BTreeMap;

use laxity_graph::ProcessingTime;
use laxity_sched::{Composition, Config, RunReport, Snapshot, Train, WaitBound};

use crate::policies::{Key, Oracle};

/// The scheduler as one would write it without a thought for speed: lists, and a linear scan for the least.
///
/// Units are operators. Costs are given, not learnt.
#[derive(Debug)]
pub struct Model {
    pub operators: BTreeMap<u32, Operator>,
    workers: BTreeMap<u32, Tenure>,
    oracle: Oracle,
    inherits: bool,
    train: Train,
    /// What the last cycle said, and when the next begins.
    priorities: BTreeMap<u32, f64>,
    cycle_due: ProcessingTime,
    /// By stride: pass and CPU time of each that has more to do, and the pass of who was served last.
    used: BTreeMap<u32, (f64, u64)>,
    served: f64,
    arrivals: u64,
    last: Option<u32>,
    quantum_ns: u64,
    ageing_bound_ns: Option<u64>,
    /// Turns since one was given for age.
    turns: u32,
    mailbox_bytes_max: u64,
}

#[derive(Debug, Default)]
pub struct Operator {
    pub upstream: Vec<u32>,
    pub downstream: Vec<u32>,
    pub mailbox: Vec<Waiting>,
    channels: BTreeMap<u32, i64>,
    pub running: bool,
    pub blocked: bool,
    resume: bool,
    current: f64,
    /// Arrival number and time at the run queue, while it waits there.
    joined: Option<(u64, ProcessingTime)>,
}

#[derive(Clone, Debug)]
pub struct Waiting {
    pub id: u64,
    pub bytes: u64,
    rows: u64,
    local: i64,
    key: f64,
}

#[derive(Debug)]
struct Tenure {
    operator: u32,
    since: ProcessingTime,
    messages: u64,
    messages_max: u64,
    rows: u64,
    cpu_ns: u64,
}

/// What a message is ranked by.
#[derive(Clone, Copy, Debug)]
pub struct Facts {
    pub id: u64,
    pub channel: u32,
    pub bytes: u64,
    pub rows: u64,
    pub progress: i64,
    pub ingested: u64,
    pub target_ns: u64,
    pub cost_ns: u64,
    pub path_cost_ns: u64,
}

impl Model {
    pub fn new(oracle: Oracle, composition: &Composition, config: &Config) -> Model {
        let needs = composition.rank.needs();
        let ages = needs.bound == WaitBound::Ageing;
        Model {
            operators: BTreeMap::new(),
            workers: BTreeMap::new(),
            oracle,
            inherits: needs.inherits,
            train: composition.train,
            priorities: BTreeMap::new(),
            cycle_due: ProcessingTime::ZERO,
            used: BTreeMap::new(),
            served: 0.0,
            arrivals: 0,
            last: None,
            quantum_ns: config.quantum_ns,
            ageing_bound_ns: ages.then_some(config.ageing_bound_ns),
            turns: 0,
            mailbox_bytes_max: config.mailbox_bytes_max,
        }
    }

    /// True if the operator now waits in the run queue and did not before.
    pub fn message(&mut self, to: u32, facts: Facts, now: ProcessingTime) -> bool {
        let key = match self.oracle {
            Oracle::Key(Key::Laxity) => {
                facts.ingested as f64 + facts.target_ns as f64
                    - (facts.cost_ns as f64 + facts.path_cost_ns as f64)
            }
            Oracle::Key(Key::Deadline) => {
                facts.ingested as f64 + facts.target_ns as f64 - facts.path_cost_ns as f64
            }
            Oracle::Key(Key::Target) => facts.ingested as f64 + facts.target_ns as f64,
            Oracle::Key(Key::Cost) => facts.cost_ns as f64,
            Oracle::Key(Key::Ingestion) => facts.ingested as f64,
            Oracle::Key(Key::Equal)
            | Oracle::Cyclic
            | Oracle::Queue
            | Oracle::Cycle(..)
            | Oracle::Stride(_)
            | Oracle::None => 0.0,
        };
        let Some(operator) = self.operators.get_mut(&to) else { return false };
        let behind_all = operator.mailbox.last().map_or(i64::MIN, |waiting| waiting.local);
        let last = operator.channels.entry(facts.channel).or_insert(i64::MIN);
        // No progress yet, neither now nor before: order of arrival.
        let local = facts.progress.max(*last);
        let local = if local == i64::MIN { behind_all } else { local };
        *last = local;
        let Facts { id, bytes, rows, .. } = facts;
        operator.mailbox.push(Waiting { id, bytes, rows, local, key });
        // Stable, so that ties stay in order of arrival.
        operator.mailbox.sort_by_key(|waiting| waiting.local);
        self.settle(to, now)
    }

    /// What `next` must answer: an operator, and the message or a resumption.
    pub fn next(&mut self, worker: u32, now: ProcessingTime) -> Option<(u32, Option<u64>)> {
        let mine = self.workers.get(&worker).map(|tenure| (tenure.operator, self.goes_on(tenure, now)));
        let mine = mine.filter(|(operator, _)| self.operators.get(operator).is_some_and(Operator::ready));
        let operator = match mine {
            Some((operator, true)) => operator,
            Some((operator, false)) => match self.best(now) {
                Some(other) if self.beats(other, operator, now) => {
                    self.workers.remove(&worker);
                    self.count_turn(other, now);
                    self.settle(operator, now);
                    self.start(worker, other, now);
                    other
                }
                _ => {
                    self.turns += 1;
                    self.last = Some(operator);
                    self.served = self.pass(operator);
                    self.used.entry(operator).or_default().0 = self.served;
                    operator
                }
            },
            None => {
                self.workers.remove(&worker);
                let best = self.best(now)?;
                self.count_turn(best, now);
                self.start(worker, best, now);
                best
            }
        };
        self.workers.get_mut(&worker).expect("it has one").messages += 1;
        Some((operator, self.grant(operator, now)))
    }

    /// When `next` begins a cycle, the literal priorities of a snapshot taken just before.
    pub fn cycle(&mut self, now: ProcessingTime, snapshot: impl Fn() -> Snapshot) {
        if let Oracle::Cycle(literal, period_ns) = self.oracle
            && now >= self.cycle_due
        {
            self.priorities = literal(&snapshot());
            self.cycle_due = now.plus_ns(period_ns);
        }
    }

    fn goes_on(&self, tenure: &Tenure, now: ProcessingTime) -> bool {
        match self.train {
            Train::Message => false,
            Train::Messages(messages) => tenure.messages < messages,
            Train::Fraction(_) => tenure.messages < tenure.messages_max,
            Train::Rows(rows) => tenure.rows < rows,
            Train::CostNs(cpu_ns) => tenure.cpu_ns < cpu_ns,
            Train::TimeNs(time_ns) => now.since_ns(tenure.since) < time_ns,
            Train::Quantum => now.since_ns(tenure.since) < self.quantum_ns,
        }
    }

    pub fn finished(&mut self, worker: u32, report: &RunReport) {
        let Some(tenure) = self.workers.get_mut(&worker) else { return };
        tenure.rows += u64::from(report.rows_in);
        tenure.cpu_ns += report.cpu_ns;
        let id = tenure.operator;
        let more = report.more;
        if !self.operators.contains_key(&id) {
            self.workers.remove(&worker);
            return;
        }
        let blocked = self.fullest_below(id) > self.mailbox_bytes_max;
        let operator = self.operators.get_mut(&id).expect("checked above");
        operator.running = false;
        operator.resume = more;
        operator.blocked = blocked;
        if !operator.ready() {
            self.workers.remove(&worker);
            self.used.remove(&id);
        } else if let Oracle::Stride(quantum_ns) = self.oracle {
            let (pass, cpu_ns) = self.used.entry(id).or_default();
            // A tenth less for each quantum behind the seventh, and a hundredth at least.
            let decayed = (*cpu_ns / quantum_ns).max(7) - 7;
            let priority = if decayed > 100 { 0.01 } else { f64::max(0.01, 0.9f64.powi(decayed as i32)) };
            *pass += report.cpu_ns as f64 / priority;
            *cpu_ns += report.cpu_ns;
        }
    }

    pub fn release(&mut self, worker: u32, now: ProcessingTime) -> bool {
        let Some(tenure) = self.workers.remove(&worker) else { return false };
        self.settle(tenure.operator, now)
    }

    /// Ids of the messages handed back.
    pub fn remove(&mut self, operators: &[u32]) -> Vec<u64> {
        let removed = operators.iter().filter_map(|id| self.operators.remove(id));
        removed.flat_map(|operator| operator.mailbox.into_iter().map(|waiting| waiting.id)).collect()
    }

    /// Operators in the run queue.
    pub fn waiting(&self) -> usize {
        self.operators.values().filter(|operator| operator.joined.is_some()).count()
    }

    /// Operators that could run now.
    pub fn ready(&self) -> usize {
        self.operators.values().filter(|operator| operator.ready()).count()
    }

    /// One turn in four may go to who waited too long.
    fn count_turn(&mut self, chosen: u32, now: ProcessingTime) {
        self.turns = if self.aged(now) == Some(chosen) { 0 } else { self.turns + 1 };
    }

    /// Who waited longest, if too long and if such a turn is due.
    fn aged(&self, now: ProcessingTime) -> Option<u32> {
        let bound_ns = self.ageing_bound_ns.filter(|_| self.turns >= 3)?;
        let waiting = self.operators.iter().filter_map(|(&id, o)| o.joined.map(|joined| (joined, id)));
        let ((_, since), id) = waiting.min_by_key(|((arrival, _), _)| *arrival)?;
        (now.since_ns(since) >= bound_ns).then_some(id)
    }

    fn start(&mut self, worker: u32, operator: u32, now: ProcessingTime) {
        let unit = self.operators.get_mut(&operator).expect("it waits");
        unit.joined = None;
        self.served = self.used.get(&operator).map_or(0.0, |(pass, _)| *pass);
        self.last = Some(operator);
        let messages_max = match self.train {
            Train::Fraction(fraction) => (unit.mailbox.len() as f64 * fraction).ceil() as u64,
            _ => 0,
        };
        let tenure = Tenure { operator, since: now, messages: 0, messages_max, rows: 0, cpu_ns: 0 };
        self.workers.insert(worker, tenure);
    }

    fn grant(&mut self, id: u32, now: ProcessingTime) -> Option<u64> {
        let operator = self.operators.get_mut(&id).expect("it is ready");
        operator.running = true;
        if operator.resume {
            operator.resume = false;
            return None;
        }
        operator.current = operator.urgency(self.inherits);
        let waiting = operator.mailbox.remove(0);
        let low = self.mailbox_bytes_max / 2;
        if operator.bytes() <= low {
            for above in operator.upstream.clone() {
                let blocked = self.operators.get(&above).is_some_and(|o| o.blocked);
                if blocked && self.fullest_below(above) <= self.mailbox_bytes_max {
                    self.operators.get_mut(&above).expect("seen above").blocked = false;
                    self.settle(above, now);
                }
            }
        }
        Some(waiting.id)
    }

    /// Puts an operator into the run queue if it belongs there and is not. True if so.
    fn settle(&mut self, id: u32, now: ProcessingTime) -> bool {
        let held = self.workers.values().any(|tenure| tenure.operator == id);
        let Some(operator) = self.operators.get_mut(&id) else { return false };
        if held || !operator.ready() || operator.joined.is_some() {
            return false;
        }
        operator.joined = Some((self.arrivals, now));
        let served = self.served;
        let (pass, _) = self.used.entry(id).or_default();
        *pass = pass.max(served);
        self.arrivals += 1;
        true
    }

    /// The operator that must go next among those that wait.
    fn best(&self, now: ProcessingTime) -> Option<u32> {
        let waiting = || self.operators.iter().filter_map(|(&id, o)| o.joined.map(|joined| (id, o, joined)));
        if let Some(aged) = self.aged(now) {
            return Some(aged);
        }
        match self.oracle {
            Oracle::Cyclic => waiting().map(|(id, ..)| id).min_by_key(|&id| self.turn(id)),
            Oracle::None => None,
            _ => waiting()
                .min_by(|(a, _, (a_arrival, _)), (b, _, (b_arrival, _))| {
                    self.priority(*a).total_cmp(&self.priority(*b)).then(a_arrival.cmp(b_arrival))
                })
                .map(|(id, ..)| id),
        }
    }

    /// Lower goes first.
    fn priority(&self, id: u32) -> f64 {
        let operator = &self.operators[&id];
        let priority = match self.oracle {
            Oracle::Queue => {
                let rows: u64 = operator.mailbox.iter().map(|waiting| waiting.rows + 1).sum();
                -(rows as f64)
            }
            Oracle::Cycle(..) => self.priorities.get(&id).copied().unwrap_or(0.0),
            Oracle::Stride(_) => self.used.get(&id).map_or(0.0, |(pass, _)| *pass),
            _ => operator.urgency(self.inherits),
        };
        // One zero, not two.
        priority + 0.0
    }

    /// Whether a waiting operator replaces one whose quantum is over. Equal keys: who waits was there first.
    fn beats(&self, other: u32, current: u32, now: ProcessingTime) -> bool {
        let aged = self.aged(now) == Some(other);
        let first = match self.oracle {
            Oracle::Cyclic => self.turn(other) < self.turn(current),
            Oracle::Stride(_) => self.priority(other) <= self.pass(current),
            _ => self.priority(other) <= self.priority(current),
        };
        aged || first
    }

    /// With which pass it would join.
    fn pass(&self, id: u32) -> f64 {
        self.used.get(&id).map_or(0.0, |(pass, _)| *pass).max(self.served)
    }

    /// Place in the cycle that begins behind the operator granted last.
    fn turn(&self, id: u32) -> (bool, u32) {
        (self.last.is_some_and(|last| id <= last), id)
    }

    fn fullest_below(&self, id: u32) -> u64 {
        let below = self.operators[&id].downstream.iter();
        below.filter_map(|id| self.operators.get(id)).map(Operator::bytes).max().unwrap_or(0)
    }
}

impl Operator {
    pub fn ready(&self) -> bool {
        !self.running && !self.blocked && (self.resume || !self.mailbox.is_empty())
    }

    fn bytes(&self) -> u64 {
        self.mailbox.iter().map(|waiting| waiting.bytes).sum()
    }

    fn urgency(&self, inherits: bool) -> f64 {
        let waiting = self.mailbox.iter().map(|waiting| waiting.key);
        match (self.resume, inherits) {
            (true, true) => waiting.fold(self.current, f64::min),
            (true, false) => self.current,
            (false, true) => waiting.fold(f64::INFINITY, f64::min),
            (false, false) => self.mailbox[0].key,
        }
    }
}
