//! How a simulation reads tables: what a look costs, who shares a table, and what is done once for all who share it.

use laxity_graph::{QueryId, WindowShape};
use laxity_workload::Cost;

/// How tables are read.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Sources {
    /// Rows are taken in at the instant at which they arrive, at no cost and beside the scheduler: as in the models of
    /// the papers. Each feed is a table of its own.
    #[default]
    AtOnce,
    /// As in the engine: a look at a table is work that waits, has a deadline and costs time like any other.
    Scheduled(ScheduledSources),
}

/// What looks at tables cost, and who reads which.
#[derive(Clone, Debug, PartialEq)]
pub struct ScheduledSources {
    /// CPU time of a look, whatever it finds. Default 0.
    pub look_ns: u64,
    /// CPU time of a row that a look finds, once a table. Default 0.
    pub row_ns: f64,
    /// Rows that a table gives at once, at most. Default 8 192, as the engine's connectors.
    pub batch_rows_max: u32,
    /// Rows are decoded before they are due, where looks leave time for that. Default: there is nothing to decode.
    pub decoding: Option<Decoding>,
    /// Bytes that a slow reader may leave unread before its table waits for it. Default 128 MiB, as in the engine.
    pub backlog_bytes: u64,
    /// Feeds that read the same table, which is what the first of them brings. Those of queries that start later than
    /// the first have a table of their own, and so have those on another machine. Default: every feed has.
    pub shared: Vec<Vec<FeedId>>,
    /// What is done as one for some of those who share a table. Default: nothing.
    pub fronts: Vec<SharedFront>,
}

/// Readers of a shared table who ask the same of its rows, but for their filters: each gets the rows that are its own, and
/// those of a template are one operator.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SharedFront {
    /// CPU time of a batch, ns, whatever is in it, and whoever has rows in it.
    pub batch_ns: f64,
    /// CPU time of a row, ns, whosever it is.
    pub row_ns: f64,
    /// Who; of a query that reads two tables, or has to be told of all that happens, nothing is done as one.
    pub members: Vec<FrontMember>,
    /// The operators of those who are done as one.
    pub templates: Vec<SharedTemplate>,
}

/// One of the readers of a front.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FrontMember {
    /// What it reads.
    pub feed: FeedId,
    /// Which part of the rows are its own, 0 to 1: every so many, each member beginning elsewhere.
    pub share: f64,
    /// Its template, by place.
    pub template: Option<usize>,
}

/// An operator that does for several queries what the one window of each would do.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SharedTemplate {
    /// Of a batch of rows of all members, of each row, and of windows to be fired, whatever comes of that.
    pub cost: Cost,
    /// CPU time of a result, which is what one query has of one window, ns.
    pub result_ns: f64,
    /// The windows.
    pub window: WindowShape,
    /// Rows of a result for each row that it is made of.
    pub selectivity: f64,
    /// Rows of a result at most.
    pub rows_max: f64,
    /// Bytes of a row of it.
    pub row_bytes: u32,
}

/// Work on rows that can be done before they are due, a piece at a time. A table is one piece ahead, besides the one that
/// it gives out, and does the next one itself where nobody had time for it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Decoding {
    /// Rows of a piece, at least.
    pub piece_rows: u32,
    /// CPU time of a row.
    pub row_ns: f64,
}

/// What one source instance reads, in a workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FeedId {
    /// Of which query.
    pub query: QueryId,
    /// Which of its feeds.
    pub feed: usize,
}

impl Default for ScheduledSources {
    fn default() -> ScheduledSources {
        ScheduledSources {
            look_ns: 0,
            row_ns: 0.0,
            batch_rows_max: 8_192,
            decoding: None,
            backlog_bytes: 128 << 20,
            shared: Vec::new(),
            fronts: Vec::new(),
        }
    }
}

impl Sources {
    pub(crate) fn scheduled(&self) -> Option<&ScheduledSources> {
        match self {
            Sources::AtOnce => None,
            Sources::Scheduled(sources) => Some(sources),
        }
    }
}
