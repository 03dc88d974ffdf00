//! The state of a simulated machine between two events; what changes it stands in `world`.

use std::fmt;

use laxity_graph::{ProcessingTime, QueryId, WorkerId};
use laxity_runtime::{Agenda, Content, Load, Parcel, Payload, Run, Write};
use laxity_sched::{OperatorSpec, QuerySpec, Scheduler};

use crate::order::{Order, add_query};
use crate::run_clock::Said;
use crate::table::Looked;
use crate::threads::Threads;

/// A machine: its cores, and who shares them among its operators.
#[derive(Debug)]
pub(crate) struct Machine<C: Content> {
    pub sharing: Sharing<C>,
    /// Cores without work, the one to be used next at the end.
    pub idle: Vec<u32>,
    /// By the id that the scheduler knows: the operator in the simulation.
    pub operators: Vec<u32>,
    /// Rows, queued or in hand, and state.
    pub bytes: u64,
    pub queued_rows: u64,
    pub queued_messages: u64,
    /// When the scheduler is asked again although nothing happened.
    pub tick_at: Option<ProcessingTime>,
    /// Cores that were woken and have not begun to look for work.
    pub waking: u32,
    /// When its tables are to be looked at, where looks are scheduled; by shard.
    pub agendas: Vec<Agenda>,
    /// When a core is woken for that.
    pub alarm_at: Option<ProcessingTime>,
    /// How busy the cores are.
    pub load: Load,
}

/// Who shares the cores.
#[derive(Debug)]
pub(crate) enum Sharing<C: Content> {
    Scheduler(Order<Ticket<C>>),
    Threads(Threads<C>),
}

/// What waits in a mailbox, and its number: different for every message, rising in the order in which they were enqueued.
pub(crate) struct Ticket<C: Content> {
    pub id: u64,
    pub payload: Payload<C::Batch>,
}

/// A core and its run.
#[derive(Debug)]
pub(crate) struct Core<C: Content> {
    pub machine: u32,
    /// Its number on the machine.
    pub number: u32,
    /// The operator it runs, or ran last; none at first.
    pub operator: Option<u32>,
    /// Counts its runs, so that the end of one that was interrupted is recognised.
    pub run: u32,
    /// Of a core that runs threads: it runs none.
    pub idle: bool,
    /// Of a thread's run: CPU time of it that passes on this core, and what was charged to it already.
    pub piece_ns: u64,
    pub charged_ns: u64,
    pub granted: ProcessingTime,
    pub started: ProcessingTime,
    /// Not without work, up to the end of the last run.
    pub awake_ns: u64,
    /// Moved about with every run, so no more than a pointer. `None` before the first.
    pub underway: Option<Box<Underway<C>>>,
}

/// What a run did, which nobody knows of before its time has passed.
#[derive(Debug)]
pub(crate) struct Underway<C: Content> {
    pub run: Run,
    /// For other instances, and for the outside.
    pub staged: Vec<Parcel<C>>,
    pub writes: Vec<Write<C>>,
    pub said: Vec<Said>,
    /// Of a table.
    pub looked: Option<Looked<C>>,
    pub late_rows: u64,
    /// CPU time of the operator, and time it slept, before it worked.
    pub cpu_ns: u64,
    /// The part of it that a full heap made more than the work.
    pub slowed_ns: u64,
    pub sleep_ns: u64,
}

impl<C: Content> Machine<C> {
    /// When a core without work has to look at a table, and its place among those; the one to be used next of several.
    pub fn next_look(&self) -> Option<(ProcessingTime, usize)> {
        let cores = self.idle.iter().enumerate().rev();
        let looks =
            cores.filter_map(|(place, &number)| Some((self.agendas[self.home(number)].next()?, place)));
        looks.min_by_key(|&(look, _)| look)
    }

    /// The agenda that a core attends.
    pub fn home(&self, number: u32) -> usize {
        match &self.sharing {
            Sharing::Scheduler(order) => order.home(WorkerId(number)),
            Sharing::Threads(_) => 0,
        }
    }

    /// When a core without work is to ask its scheduler again, and its place among those; likewise.
    pub fn next_timeout(&self) -> Option<(ProcessingTime, usize)> {
        let Sharing::Scheduler(order) = &self.sharing else { return None };
        let cores = self.idle.iter().enumerate().rev();
        let timeouts =
            cores.filter_map(|(place, &number)| Some((order.next_timeout(WorkerId(number))?, place)));
        timeouts.min_by_key(|&(at, _)| at)
    }
}

impl<C: Content> Sharing<C> {
    /// A query with all its operators here, from sources to sinks.
    pub fn add_query(&mut self, query: QuerySpec, operators: Vec<OperatorSpec>) {
        match self {
            Sharing::Scheduler(order) => order.add_query(query, operators),
            Sharing::Threads(threads) => add_query(&mut threads.graph, query, operators),
        }
    }

    /// A table, and its reader if it has but one.
    pub fn add_table(&mut self, query: QuerySpec, operator: OperatorSpec, reader: Option<QueryId>) {
        match self {
            Sharing::Scheduler(order) => order.add_table(query, operator, reader),
            Sharing::Threads(threads) => add_query(&mut threads.graph, query, vec![operator]),
        }
    }

    /// See [`Order::allow`]. Threads know of no load, so that nobody is told to.
    pub fn allow(&mut self, query: QueryId, drop: bool, leave_out: bool) {
        if let Sharing::Scheduler(order) = self {
            order.allow(query, drop, leave_out);
        }
    }

    /// The only scheduler, where there is one.
    pub fn only(&mut self) -> Option<&mut Scheduler<Ticket<C>>> {
        match self {
            Sharing::Scheduler(order) => order.only(),
            Sharing::Threads(_) => None,
        }
    }
}

impl<C: Content> Core<C> {
    pub fn new(machine: u32, number: u32) -> Core<C> {
        Core {
            machine,
            number,
            operator: None,
            run: 0,
            idle: false,
            piece_ns: 0,
            charged_ns: 0,
            granted: ProcessingTime::ZERO,
            started: ProcessingTime::ZERO,
            awake_ns: 0,
            underway: None,
        }
    }
}

impl<C: Content> Default for Underway<C> {
    fn default() -> Underway<C> {
        Underway {
            run: Run::default(),
            staged: Vec::new(),
            writes: Vec::new(),
            said: Vec::new(),
            looked: None,
            late_rows: 0,
            cpu_ns: 0,
            slowed_ns: 0,
            sleep_ns: 0,
        }
    }
}

impl<C: Content> fmt::Debug for Ticket<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ticket").field("id", &self.id).field("payload", &self.payload).finish()
    }
}
