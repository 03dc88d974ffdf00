use laxity_graph::QueryId;

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
