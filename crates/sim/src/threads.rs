//! The baseline without a scheduler of ours: the operating system decides, and a rank may set nice values (Lachesis).

mod eevdf;
mod nice;

use std::collections::VecDeque;
use std::time::Duration;

use laxity_graph::ProcessingTime;
use laxity_sched::{
    CostModel, HeadSnapshot, Message, OperatorSnapshot, Rank, Recipe, Scheduler, Selectivity, Snapshot,
};

use laxity_runtime::Content;

use crate::machine::{Ticket, Underway};

pub(crate) use self::eevdf::FairQueue;
pub(crate) use self::nice::nice_values;

/// A thread for every operator instance, and how an operating system shares the cores among them: fairly, by
/// virtual deadlines (EEVDF, as Linux does since 6.6), with one queue for all cores of a machine.
///
/// Left out: the balancing between queues of cores, cgroups, and what else runs on a machine.
#[derive(Debug)]
pub struct OsThreads {
    /// How long a thread runs before another has its turn. Default 3 ms, Linux's base slice on eight cores or more.
    pub slice: Duration,
    /// The end of a slice is noticed at the next of the timer interrupts, which come so often on every core. Default zero: at
    /// once.
    pub tick: Duration,
    /// Who has had no more than its due is not interrupted within its slice, whoever wakes (Linux's `RUN_TO_PARITY`). Default
    /// no.
    pub to_parity: bool,
    /// Sets nice values anew every period, as Lachesis does. Default: all threads have nice 0.
    pub renice: Option<Renice>,
}

/// A rank over a snapshot becomes nice values.
pub struct Renice {
    /// How often. Lachesis: 1 s.
    pub period: Duration,
    /// Whose rank it is, made once per node. Nothing but the rank counts.
    pub rank: Recipe,
    /// The most urgent thread's. At least −20.
    pub best: i32,
    /// The least urgent one's. At most 19.
    pub worst: i32,
}

impl Default for OsThreads {
    fn default() -> OsThreads {
        OsThreads { slice: Duration::from_millis(3), tick: Duration::ZERO, to_parity: false, renice: None }
    }
}

impl OsThreads {
    /// Linux as distributions ship it for servers (6.12 to 6.18: a base slice of .7 ms, more of it on more cores; 250 interrupts a
    /// second), on a machine of so many cores.
    pub fn linux(cores: usize) -> OsThreads {
        // kernel/sched/fair.c, update_sysctl: logarithmic, of no more than eight.
        let factor = 1 + cores.clamp(1, 8).ilog2();
        OsThreads {
            slice: Duration::from_micros(700) * factor,
            tick: Duration::from_millis(4),
            to_parity: true,
            renice: None,
        }
    }
}

impl std::fmt::Debug for Renice {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Renice")
            .field("period", &self.period)
            .field("rank", &self.rank.name())
            .field("best", &self.best)
            .field("worst", &self.worst)
            .finish()
    }
}

/// The threads of one machine.
#[derive(Debug)]
pub(crate) struct Threads<C: Content> {
    /// Knows the graph, and runs nothing.
    pub graph: Scheduler<Ticket<C>>,
    /// By the id that the machine knows.
    pub threads: Vec<Thread<C>>,
    pub fair: FairQueue,
    /// Ends of slices are noticed at multiples of this; 0: at once.
    tick_ns: u64,
    pub rank: Option<Box<dyn Rank>>,
    priorities: Vec<f64>,
}

/// A thread: it has nothing to do, waits for a core, runs, sleeps with its operator, or is blocked by a full mailbox
/// below it.
#[derive(Debug)]
pub(crate) struct Thread<C: Content> {
    /// With when each was enqueued.
    pub mailbox: VecDeque<(ProcessingTime, Message<Ticket<C>>)>,
    pub bytes: u64,
    pub blocked: bool,
    pub asleep: bool,
    /// Of the message in hand: what comes of it when it is done.
    pub in_hand: bool,
    pub underway: Option<Box<Underway<C>>>,
    /// CPU time that it still takes, and has taken.
    pub left_ns: u64,
    pub worked_ns: u64,
    /// How long it is going to sleep before it works, and has slept.
    pub sleep_ns: u64,
    pub slept_ns: u64,
    pub began: ProcessingTime,
    cost: CostModel,
    selectivity: Selectivity,
}

impl<C: Content> Threads<C> {
    pub fn new(
        graph: Scheduler<Ticket<C>>,
        operators: usize,
        os: &OsThreads,
        rank: Option<Box<dyn Rank>>,
    ) -> Threads<C> {
        Threads {
            graph,
            threads: (0..operators).map(|_| Thread::default()).collect(),
            fair: FairQueue::new(operators, nanoseconds(os.slice), os.to_parity),
            tick_ns: nanoseconds(os.tick),
            rank,
            priorities: Vec::new(),
        }
    }

    /// How long a running thread goes on from then, if nobody wakes, before it is looked whether another has its turn.
    pub fn turn_ns(&self, thread: u32, from: ProcessingTime) -> u64 {
        match self.tick_ns {
            0 => self.fair.slice_left_ns(thread),
            tick_ns => tick_ns - from.0 % tick_ns,
        }
    }

    /// Whether a thread that has work goes on: behind a message, or (`amid` it) when that time is over.
    pub fn goes_on(&self, thread: u32, amid: bool) -> bool {
        match self.tick_ns {
            0 => !self.fair.is_over(thread),
            _ => !amid || self.fair.is_protected(thread),
        }
    }

    /// Gives every thread the nice value that the rank says.
    pub fn renice(&mut self, now: ProcessingTime, best: i32, worst: i32) {
        let snapshot = self.snapshot(now);
        let Some(rank) = &mut self.rank else { return };
        self.priorities.resize(self.threads.len(), 0.0);
        rank.cycle(&snapshot, &mut self.priorities);
        let ranked: Vec<(u32, f64)> =
            snapshot.operators.iter().map(|o| (o.id.0, self.priorities[o.unit as usize])).collect();
        for (thread, nice) in nice_values(&ranked, rank.needs().scale, best, worst) {
            self.fair.set_nice(thread, nice);
        }
    }

    /// What a rank may see: the graph as the core knows it, everything else as threads have it.
    fn snapshot(&self, now: ProcessingTime) -> Snapshot {
        let mut snapshot = self.graph.snapshot(now);
        for place in 0..snapshot.operators.len() {
            let query = snapshot.operators[place].query;
            let target_ns = snapshot.query(query).map_or(0, |query| query.target_ns);
            let operator = &mut snapshot.operators[place];
            self.threads[operator.id.index()].describe(operator, target_ns);
        }
        // Producers come before consumers.
        for place in (0..snapshot.operators.len()).rev() {
            let below = snapshot.operators[place].downstream.clone();
            let costs = below.iter().filter_map(|&below| snapshot.operator(below));
            let path_ns = costs.map(|below| below.usual_cost_ns + below.path_cost_ns).max();
            snapshot.operators[place].path_cost_ns = path_ns.unwrap_or(0);
        }
        snapshot
    }
}

fn nanoseconds(duration: Duration) -> u64 {
    ProcessingTime::ZERO.plus(duration).0
}

impl<C: Content> Thread<C> {
    pub fn is_ready(&self) -> bool {
        !self.blocked && !self.asleep && (self.in_hand || !self.mailbox.is_empty())
    }

    /// A message is done.
    pub fn observe(&mut self, rows_in: u32, rows_out: u32, cpu_ns: u64) {
        self.cost.observe(rows_in, cpu_ns);
        self.selectivity.observe(rows_in, rows_out);
    }

    fn describe(&self, snapshot: &mut OperatorSnapshot, target_ns: u64) {
        snapshot.resumes = self.in_hand;
        snapshot.blocked = self.blocked;
        snapshot.queued_messages = self.mailbox.len();
        snapshot.queued_rows = self.mailbox.iter().map(|(_, message)| u64::from(message.rows)).sum();
        snapshot.queued_bytes = self.bytes;
        snapshot.head = self.mailbox.front().map(|&(enqueued, ref message)| HeadSnapshot {
            ingested: message.ingested,
            enqueued,
            deadline: message.ingested.plus_ns(target_ns),
            rows: message.rows,
        });
        snapshot.mean_ingested = self.mailbox.front().map(|(_, message)| message.ingested);
        snapshot.cost = self.cost.line();
        snapshot.usual_cost_ns = self.cost.usual_ns();
        snapshot.usual_rows = self.cost.usual_rows();
        snapshot.selectivity = self.selectivity.get();
    }
}

impl<C: Content> Default for Thread<C> {
    fn default() -> Thread<C> {
        Thread {
            mailbox: VecDeque::new(),
            bytes: 0,
            blocked: false,
            asleep: false,
            in_hand: false,
            underway: None,
            left_ns: 0,
            worked_ns: 0,
            sleep_ns: 0,
            slept_ns: 0,
            began: ProcessingTime::ZERO,
            cost: CostModel::default(),
            selectivity: Selectivity::default(),
        }
    }
}
