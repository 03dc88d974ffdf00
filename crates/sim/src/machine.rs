use laxity_graph::ProcessingTime;
use laxity_sched::Scheduler;

use crate::instance::{Body, Emitted, Step, Watermark};
use crate::threads::Threads;

/// A machine: its cores, and who shares them among its operators.
#[derive(Debug)]
pub(crate) struct Machine {
    pub sharing: Sharing,
    /// Cores without work, the one to be used next at the end.
    pub idle: Vec<u32>,
    /// By the id that the scheduler knows: the operator in the simulation.
    pub operators: Vec<u32>,
    /// Rows, queued or in hand, and state.
    pub bytes: u64,
    pub queued_rows: u64,
    pub queued_messages: u64,
    /// Sources that wait for memory.
    pub held: Vec<u32>,
    /// When the scheduler is asked again although nothing happened.
    pub tick_at: Option<ProcessingTime>,
}

/// Who shares the cores.
#[derive(Debug)]
pub(crate) enum Sharing {
    Scheduler(Scheduler<Body>),
    Threads(Threads),
}

impl Sharing {
    /// Who knows the graph.
    pub fn graph(&mut self) -> &mut Scheduler<Body> {
        match self {
            Sharing::Scheduler(scheduler) => scheduler,
            Sharing::Threads(threads) => &mut threads.graph,
        }
    }
}

/// A core and its run.
#[derive(Debug, Default)]
pub(crate) struct Core {
    pub machine: u32,
    /// Its number on the machine.
    pub number: u32,
    /// The operator it runs, or ran last; none at first.
    pub operator: Option<u32>,
    /// Counts its runs, so that the end of one that was interrupted is recognised.
    pub run: u32,
    /// Of a core that runs threads: it runs none.
    pub idle: bool,
    /// Of a thread's run: CPU time that was charged to it already.
    pub charged_ns: u64,
    pub granted: ProcessingTime,
    pub started: ProcessingTime,
    pub step: Step,
    /// What the run sends on.
    pub emitted: Vec<Emitted>,
    /// The watermark of the operator before the run.
    pub before: Watermark,
}
