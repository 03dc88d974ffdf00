//! What can be asked of a running engine: figures in full for people, counts alone for who asks often, and measurements
//! for the simulator.

use std::sync::atomic::Ordering::Relaxed;

use laxity_connect::Wait;
use laxity_graph::{Approximation, EventClock, EventTime, ProcessingTime, QueryId};
use laxity_runtime::{
    LastCheckpoint, LatencySummary, MinuteFigures, Outcome, Query, RecordedArrival, Totals,
};
use laxity_sched::{Ladder, Lateness, Spells};

use crate::{Clock, process};

/// How an engine stands, for people and reports. A copy: taking one slows nobody down for long.
#[derive(Clone, Debug)]
pub struct EngineSnapshot {
    /// Time since the engine was made, ns.
    pub wall_ns: u64,
    /// CPU time of the whole process, ns.
    pub cpu_ns: u64,
    /// Of that, time that workers spent inside operators, ns: the rest is reading, writing and scheduling.
    pub operator_ns: u64,
    /// Largest resident size of the process so far.
    pub peak_rss_bytes: u64,
    /// Bytes of state and queued rows of all queries.
    pub memory_bytes: u64,
    /// The queries in order of submission.
    pub queries: Vec<QuerySnapshot>,
}

/// How an engine stands, in counts alone. Made once and filled again and again, so that looking does not allocate.
#[derive(Clone, Debug, Default)]
pub struct EngineFigures {
    /// Time since the engine was made, ns.
    pub wall_ns: u64,
    /// CPU time of the whole process, ns.
    pub cpu_ns: u64,
    /// Bytes of state and queued rows of all queries.
    pub memory_bytes: u64,
    /// The queries in order of submission.
    pub queries: Vec<QueryFigures>,
}

/// How one query stands, in counts alone.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct QueryFigures {
    /// Which.
    pub id: QueryId,
    /// Its latency target, ns.
    pub target_ns: u64,
    /// Whether it runs.
    pub state: QueryState,
    /// Output batches that left a sink.
    pub results: u64,
    /// Those within the target.
    pub met: u64,
    /// Largest latency, ns.
    pub worst_ns: u64,
    /// The same of about the last minute.
    pub last_minute: MinuteFigures,
    /// Results that are due, not out, and later than the target already.
    pub overdue: u64,
    /// How long the oldest result that is due has been so, ns.
    pub oldest_owed_ns: Option<u64>,
    /// Rows admitted from sources.
    pub rows_in: u64,
    /// Rows written by sinks.
    pub rows_out: u64,
    /// Rows that came after their window closed.
    pub rows_late: u64,
    /// Rows that could not be read.
    pub rows_dead: u64,
    /// Rows dropped at the sources to shed load.
    pub rows_shed: u64,
    /// Rows admitted, and neither processed nor written when the engine was stopped and the time to drain was over.
    pub rows_dropped: u64,
    /// Rows admitted and not yet processed.
    pub rows_queued: u64,
    /// Part of a bounded input read so far, 0 to 1.
    pub progress: Option<f64>,
}

/// [`Outcome`] without its reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueryState {
    /// Rows may still come.
    Running,
    /// It has come to its end, or was cancelled.
    Finished,
    /// An error has stopped it.
    Failed,
}

/// How one query stands, percentiles included.
#[derive(Clone, Debug)]
pub struct QuerySnapshot {
    /// Which.
    pub id: QueryId,
    /// Its name.
    pub name: String,
    /// Its latency target, ns.
    pub target_ns: u64,
    /// Running, finished, or why it was stopped.
    pub outcome: Outcome,
    /// Output latency (Cameo §4.1).
    pub latency: LatencySummary,
    /// Event-time latency (Klink §6.1.2), where the source places events on the clock.
    pub event_time_latency: Option<LatencySummary>,
    /// Output latency of about the last minute, to two digits.
    pub last_minute: LatencySummary,
    /// Results of about the last minute that kept the target.
    pub last_minute_met: u64,
    /// Output batches that left a sink, those within the target, and why the others were late.
    pub lateness: Lateness,
    /// Results that are due, not out, and later than the target already: the engine knows of rows held back at the
    /// source, of windows whose end the watermark has passed, and of batches on their way into a sink.
    pub overdue: u64,
    /// How long the oldest result that is due has been so, ns.
    pub oldest_owed_ns: Option<u64>,
    /// Mean utility of the results by the query's curve, 0 to 1; `None` without results.
    pub utility: Option<f64>,
    /// Rows admitted from sources.
    pub rows_in: u64,
    /// Rows written by sinks.
    pub rows_out: u64,
    /// Rows that came after their window closed.
    pub rows_late: u64,
    /// Late rows per window end, the last windows only.
    pub late_windows: Vec<(EventTime, u64)>,
    /// Rows that could not be read.
    pub rows_dead: u64,
    /// Rows dropped at the sources to shed load; not among those admitted.
    pub rows_shed: u64,
    /// What it has done by leaving rows out, if it does.
    pub approximation: Option<Approximation>,
    /// What was done about too much work, the gentlest first.
    pub overload: Overload,
    /// Rows admitted, and neither processed nor written when the engine was stopped and the time to drain was over.
    pub rows_dropped: u64,
    /// Rows admitted and not yet processed.
    pub rows_queued: u64,
    /// Bytes of operator state.
    pub state_bytes: u64,
    /// The watermark that reached the sinks.
    pub watermark: Option<EventTime>,
    /// How long ago that watermark was due, ns, where the source places events on the clock.
    pub watermark_lag_ns: Option<u64>,
    /// The end of the window that closes next, where the windows of the query are aligned and it has a watermark.
    pub next_window: Option<EventTime>,
    /// Part of a bounded input read so far, 0 to 1.
    pub progress: Option<f64>,
    /// Its last checkpoint that is safe.
    pub checkpoint: Option<CheckpointSnapshot>,
    /// Whom it waits for outside, and since when: brokers, a registry, a server, a disk. What it has read goes on.
    pub waiting: Vec<Wait>,
}

/// The steps taken for one query while not all that was promised can be kept, the gentlest first. What a step costs
/// results is said elsewhere: late ones, bounds, rows that are shed.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Overload {
    /// Its work stood back behind that of others.
    pub stood_back: OverloadStep,
    /// Messages that were late were worked off together.
    pub larger_batches: OverloadStep,
    /// It answered from a part of its rows, where it does so only when it is behind.
    pub approximate: OverloadStep,
    /// Rows were dropped at its sources.
    pub shed: OverloadStep,
}

/// A step: how often it was taken, and whether it is over.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct OverloadStep {
    /// How often it began.
    pub times: u64,
    /// For how long in all, ns; `None` where that is not known.
    pub total_ns: Option<u64>,
    /// It goes on.
    pub is_on: bool,
}

impl Overload {
    fn of(ladder: &Ladder, approximation: Option<&Approximation>, now: ProcessingTime) -> Overload {
        let step = |spells: &Spells| OverloadStep {
            times: spells.times(),
            total_ns: Some(spells.total_ns()),
            is_on: spells.is_on(now),
        };
        let only_behind = approximation.filter(|approximation| approximation.only_behind);
        Overload {
            stood_back: step(&ladder.stood_back),
            larger_batches: step(&ladder.larger_batches),
            approximate: only_behind.map_or(OverloadStep::default(), |approximation| OverloadStep {
                times: approximation.steps,
                total_ns: None,
                is_on: approximation.is_engaged,
            }),
            shed: step(&ladder.shed),
        }
    }
}

/// The last checkpoint of a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CheckpointSnapshot {
    /// Its number.
    pub number: u64,
    /// How long ago it was safe, ns.
    pub age_ns: u64,
    /// Its bytes on the disk.
    pub bytes: u64,
    /// Of those, what was written for it: the rest is as it was in the one before.
    pub written_bytes: u64,
    /// For how long the query took nothing in, in the longest of those of this run, ns.
    pub longest_pause_ns: u64,
}

/// What one operator instance costs, and what it has done.
#[derive(Clone, Debug, PartialEq)]
pub struct OperatorMeasurement {
    /// Its query.
    pub query: String,
    /// The node of the dataflow.
    pub node: usize,
    /// Which copy.
    pub instance: usize,
    /// As `explain` names it.
    pub name: String,
    /// a of C(n) = a + b n, ns: the scheduler's estimate, of the last few dozen runs.
    pub fixed_ns: f64,
    /// b, ns.
    pub per_row_ns: f64,
    /// A bare watermark's cost, ns; of one that fires a window or not.
    pub watermark_ns: u64,
    /// Since the start.
    pub totals: Totals,
}

/// CPU time of everything but operators.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WorkCosts {
    /// Of a look at a table that finds rows, ns.
    pub look_ns: f64,
    /// Of each row that it finds, ns.
    pub row_ns: f64,
    /// Of a message that a worker takes, a look included, besides what it is taken for, ns: locks, decisions, routing,
    /// and what the output's encoding takes. As of late; wake-ups are not in it. 0 where too few came to say.
    pub message_ns: f64,
}

/// What one source instance took in.
#[derive(Clone, Debug, PartialEq)]
pub struct RecordedFeed {
    /// Its query.
    pub query: String,
    /// The node of the dataflow.
    pub node: usize,
    /// Which copy.
    pub instance: usize,
    /// When event times are due, where the source has a pace of its own.
    pub clock: Option<EventClock>,
    /// In order.
    pub arrivals: Vec<RecordedArrival>,
}

impl QueryFigures {
    pub(crate) fn of(query: &Query, now: ProcessingTime) -> QueryFigures {
        let results = query.figures(now);
        QueryFigures {
            id: query.id,
            target_ns: query.target_ns(),
            state: match (query.stopped(), query.failed()) {
                (false, _) => QueryState::Running,
                (true, false) => QueryState::Finished,
                (true, true) => QueryState::Failed,
            },
            results: results.results,
            met: results.met,
            worst_ns: results.worst_ns,
            last_minute: results.last_minute,
            overdue: results.overdue,
            oldest_owed_ns: results.oldest_owed.map(|arrival| now.since_ns(arrival)),
            rows_in: query.rows_in(),
            rows_out: query.rows_out.load(Relaxed),
            rows_late: query.rows_late.load(Relaxed),
            rows_dead: query.rows_dead(),
            rows_shed: query.rows_shed.load(Relaxed),
            rows_dropped: rows_dropped(query),
            rows_queued: query.in_flight_rows.load(Relaxed).max(0) as u64,
            progress: query.progress(),
        }
    }
}

impl CheckpointSnapshot {
    pub(crate) fn of(last: &LastCheckpoint, now: ProcessingTime) -> CheckpointSnapshot {
        CheckpointSnapshot {
            number: last.number,
            age_ns: now.since_ns(last.safe_at),
            bytes: last.bytes,
            written_bytes: last.written_bytes,
            longest_pause_ns: last.longest_pause_ns,
        }
    }
}

impl QuerySnapshot {
    /// `ladder`: what its scheduler says of it, as long as it has one.
    pub(crate) fn of(query: &Query, ladder: Option<Ladder>, clock: &Clock) -> QuerySnapshot {
        let now = clock.now();
        let results = query.results(now);
        let figures = results.figures;
        let watermark = query.watermark();
        let approximation = *query.approximation.lock();
        let lag = |watermark| Some(now.since_ns(query.event_clock.get()?.due(watermark)));
        QuerySnapshot {
            id: query.id,
            name: query.settings.name.clone(),
            target_ns: query.target_ns(),
            outcome: query.outcome(),
            latency: results.latency,
            event_time_latency: results.event_time_latency,
            last_minute: results.last_minute,
            last_minute_met: figures.last_minute.met,
            lateness: results.lateness,
            overdue: figures.overdue,
            oldest_owed_ns: figures.oldest_owed.map(|arrival| now.since_ns(arrival)),
            utility: results.utility,
            rows_in: query.rows_in(),
            rows_out: query.rows_out.load(Relaxed),
            rows_late: query.rows_late.load(Relaxed),
            late_windows: query.late_windows(),
            rows_dead: query.rows_dead(),
            rows_shed: query.rows_shed.load(Relaxed),
            approximation,
            overload: Overload::of(&query.ladder(ladder), approximation.as_ref(), now),
            rows_dropped: rows_dropped(query),
            rows_queued: query.in_flight_rows.load(Relaxed).max(0) as u64,
            state_bytes: query.state_bytes.load(Relaxed).max(0) as u64,
            watermark,
            watermark_lag_ns: watermark.and_then(lag),
            next_window: watermark.and_then(|watermark| query.next_window(watermark)),
            progress: query.progress(),
            checkpoint: query.last_checkpoint().map(|last| CheckpointSnapshot::of(&last, now)),
            waiting: Vec::new(),
        }
    }

    /// Its counts alone.
    pub fn figures(&self) -> QueryFigures {
        QueryFigures {
            id: self.id,
            target_ns: self.target_ns,
            state: match self.outcome {
                Outcome::Running => QueryState::Running,
                Outcome::Finished | Outcome::Cancelled => QueryState::Finished,
                Outcome::Failed(_) => QueryState::Failed,
            },
            results: self.lateness.results,
            met: self.lateness.met,
            worst_ns: self.latency.max_ns,
            last_minute: MinuteFigures {
                results: self.last_minute.count,
                met: self.last_minute_met,
                worst_ns: self.last_minute.max_ns,
            },
            overdue: self.overdue,
            oldest_owed_ns: self.oldest_owed_ns,
            rows_in: self.rows_in,
            rows_out: self.rows_out,
            rows_late: self.rows_late,
            rows_dead: self.rows_dead,
            rows_shed: self.rows_shed,
            rows_dropped: self.rows_dropped,
            rows_queued: self.rows_queued,
            progress: self.progress,
        }
    }
}

/// Those that operators never got to, and those that an output did not take.
fn rows_dropped(query: &Query) -> u64 {
    let unwritten = match query.outcome() {
        Outcome::Finished | Outcome::Cancelled => query.in_flight_rows.load(Relaxed).max(0) as u64,
        Outcome::Running | Outcome::Failed(_) => 0,
    };
    query.rows_dropped.load(Relaxed) + unwritten
}

impl EngineFigures {
    /// Those of the engine itself; the queries are for the caller to add.
    pub(crate) fn of_engine(&mut self, now: ProcessingTime, memory_bytes: u64) {
        self.wall_ns = now.0;
        self.cpu_ns = process::cpu_ns();
        self.memory_bytes = memory_bytes;
        self.queries.clear();
    }
}

impl EngineSnapshot {
    pub(crate) fn new(
        clock: &Clock,
        memory_bytes: u64,
        operator_ns: u64,
        queries: Vec<QuerySnapshot>,
    ) -> EngineSnapshot {
        EngineSnapshot {
            wall_ns: clock.now().0,
            cpu_ns: process::cpu_ns(),
            operator_ns,
            peak_rss_bytes: process::peak_rss_bytes(),
            memory_bytes,
            queries,
        }
    }
}
