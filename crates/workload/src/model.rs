//! Queries as the simulator knows them: what they cost and how many rows they make, not what they compute.

use std::fmt;

use laxity_graph::{Dataflow, EventClock, EventTime, NodeId, ProcessingTime};

use crate::Delay;

/// Queries that share a machine.
#[derive(Debug)]
pub struct Workload {
    /// As reports name it.
    pub name: String,
    /// The queries, each with what it reads.
    pub queries: Vec<QueryModel>,
}

/// A query whose operators are costs.
#[derive(Debug)]
pub struct QueryModel {
    /// The graph. Its settings carry name, latency target, weight and utility curve.
    pub dataflow: Dataflow<Stage>,
    /// What it reads; one per instance of every source node.
    pub feeds: Vec<Feed>,
    /// When it is submitted.
    pub deployed: ProcessingTime,
}

/// What a node of a modelled query does with time and rows.
#[derive(Clone, Debug, PartialEq)]
pub struct Stage {
    /// CPU time.
    pub cost: Cost,
    /// What comes out.
    pub kind: StageKind,
    /// Bytes of a row that it sends on.
    pub row_bytes: u32,
    /// When it waits for something else than a core.
    pub sleep: Option<Sleep>,
}

impl Stage {
    /// A stage that never sleeps.
    pub const fn new(kind: StageKind, cost: Cost, row_bytes: u32) -> Stage {
        Stage { cost, kind, row_bytes, sleep: None }
    }
}

/// Time in which a stage holds rows and needs no core, as a call to a remote system takes. It is no CPU time, and holds
/// whoever runs the stage: a thread of its own, or a worker that others wait for.
#[derive(Clone, Debug, PartialEq)]
pub struct Sleep {
    /// Chance that a row taken in makes it sleep.
    pub chance_per_row: f64,
    /// For how long.
    pub length: Delay,
}

/// CPU time of one call: `fixed_ns + per_row_ns · rows`, and of a bare watermark `watermark_ns`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cost {
    /// Per call, whatever comes with it.
    pub fixed_ns: f64,
    /// Per row taken in.
    pub per_row_ns: f64,
    /// Per bare watermark that releases nothing.
    pub watermark_ns: f64,
}

impl Cost {
    /// Nothing at all: what stands for a place only.
    pub const NONE: Cost = Cost { fixed_ns: 0.0, per_row_ns: 0.0, watermark_ns: 0.0 };

    /// Only by rows.
    pub const fn per_row(per_row_ns: f64) -> Cost {
        Cost { per_row_ns, ..Cost::NONE }
    }

    /// Also per call; a bare watermark is a call.
    pub const fn per_call(fixed_ns: f64, per_row_ns: f64) -> Cost {
        Cost { fixed_ns, per_row_ns, watermark_ns: fixed_ns }
    }

    /// On a machine of another speed.
    #[must_use]
    pub fn times(self, factor: f64) -> Cost {
        Cost {
            fixed_ns: self.fixed_ns * factor,
            per_row_ns: self.per_row_ns * factor,
            watermark_ns: self.watermark_ns * factor,
        }
    }
}

/// What comes out of a stage.
#[derive(Clone, Debug, PartialEq)]
pub enum StageKind {
    /// Hands on what its feed delivers, and makes watermarks of it.
    Source,
    /// `selectivity` rows out per row in: filter, projection, union, flat map.
    Rows {
        /// Rows out per row in.
        selectivity: f64,
    },
    /// Aggregates over the window of its node and answers when the watermark has passed the end. Rows of all
    /// inputs go into the same window: two inputs make it a window join.
    Window {
        /// Rows out per row in the window.
        selectivity: f64,
        /// But at most so many rows per window: the number of groups.
        rows_max: f64,
        /// CPU time per row in the window when it answers: 0 where it aggregates as rows come.
        fire_per_row_ns: f64,
        /// Bytes of state per row held: 0 where it aggregates as rows come.
        state_row_bytes: u32,
    },
    /// Ends the way; the latency of a result is taken as it has run.
    Sink,
}

/// What one source instance reads.
#[derive(Debug)]
pub struct Feed {
    /// The source node.
    pub node: NodeId,
    /// Which of its instances.
    pub instance: usize,
    /// What arrives, and when.
    pub arrivals: Box<dyn Arrivals>,
}

/// Batches in order of arrival. Deterministic: an implementation owns its seed.
pub trait Arrivals: fmt::Debug + Send {
    /// The next batch; `None` at the end of the input. `at` never falls.
    fn next(&mut self) -> Option<Arrival>;

    /// What it offers in the long run, for [`crate::offered_load`]; `None` if that is not known.
    fn offered(&self) -> Option<Offered> {
        None
    }

    /// Where its event times lie on the processing-time line. By default event time 0 is the driver's start.
    fn clock(&self) -> EventClock {
        EventClock { event_origin: EventTime(0), processing_origin: ProcessingTime::ZERO, speed: 1.0 }
    }
}

/// What a feed offers in the long run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Offered {
    /// Rows per second.
    pub rows_per_s: f64,
    /// Batches with rows per second.
    pub batches_per_s: f64,
    /// Bare watermarks per second.
    pub watermarks_per_s: f64,
}

/// One batch, as it reaches the system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// When it is ingested, or would be were the system not behind: latency counts from here.
    pub at: ProcessingTime,
    /// Event time of its rows (of a bare watermark: when it was made). The network delay is `at` less the instant
    /// that [`Arrivals::clock`] gives for it. Not ordered where delays vary.
    pub event_time: EventTime,
    /// Rows; 0 for a bare watermark.
    pub rows: u32,
    /// Bytes of all rows.
    pub bytes: u64,
    /// The watermark behind it, if it carries one.
    pub watermark: Option<EventTime>,
}
