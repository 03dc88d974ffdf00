//! What is known of one query for its checkpoints, and what a manifest says of it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32};

use laxity_connect::OutputPosition;
use laxity_graph::OperatorId;
use laxity_operators::{OperatorState, SharedStage, StatePart};
use laxity_runtime::{ArrowRows, Counts, Instance, InstanceState, Outlet, Query};
use laxity_state::{Draft, InstanceEntry, Manifest, OutputEntry, QueryFolder, SourceEntry, StateFolder};
use parking_lot::Mutex;

use super::asked::Asking;
use crate::sink_io::Finish;

/// A query that is checkpointed.
pub(crate) struct Keeping {
    pub query: Arc<Query>,
    pub interval_ns: u64,
    pub store: Store,
    pub sources: Vec<KeptSource>,
    pub outlets: Vec<KeptOutlet>,
    pub instances: Vec<Arc<Instance<ArrowRows>>>,
    pub finish: Arc<Finish>,
    /// Where others may do its work: which of its instances would, and what its operator's tables are called there.
    pub windows: Option<KeptWindows>,
    /// One is being taken or written.
    pub is_busy: AtomicBool,
    /// Somebody asks for one.
    pub asking: Asking,
    /// It goes on from one before its last.
    pub goes_back: bool,
    /// How far the query was at the last one that is safe.
    pub last: Mutex<Option<Progress>>,
    /// Since that, times that one was left out as nothing had come to the query.
    pub left_out: AtomicU32,
}

/// How far a query has come: what it was given, and what came of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Progress {
    pub sources: Vec<SourceEntry>,
    pub counts: Counts,
    /// By source: how often it had been given something.
    pub handed: Vec<u64>,
}

/// Where the checkpoints of a query are.
#[derive(Clone)]
pub(crate) struct Store {
    /// Keeps other processes from it.
    pub open: Arc<StateFolder>,
    pub folder: QueryFolder,
    pub shape: Vec<String>,
}

/// A source of a query.
#[derive(Clone)]
pub(crate) struct KeptSource {
    pub node: usize,
    pub operator: OperatorId,
    pub table: String,
    /// How it reads with others, if it may.
    pub stage: Option<SharedStage>,
}

/// The operator of a query whose work may be done with that of others.
#[derive(Clone)]
pub(crate) struct KeptWindows {
    /// Among its instances.
    pub place: usize,
    /// Before the names of the tables of its windows.
    pub prefix: String,
}

/// An outlet of a query.
#[derive(Clone)]
pub(crate) struct KeptOutlet {
    pub outlet: Arc<Outlet>,
    pub table: String,
}

/// Where the outputs stood, as a manifest has it.
pub(crate) fn output_entries(
    outlets: &[KeptOutlet],
    positions: &[(usize, OutputPosition)],
) -> Vec<OutputEntry> {
    let entry = |(number, kept): (usize, &KeptOutlet)| {
        let position = positions.iter().find(|(of, _)| *of == number).map(|(_, position)| position.clone());
        let position = serde_json::to_value(position.unwrap_or_default()).expect("its keys are text");
        OutputEntry { table: kept.table.clone(), number, position }
    };
    outlets.iter().enumerate().map(entry).collect()
}

/// The checkpoint of a query that has come to its end: nothing is left of it but what it has counted and written.
pub(crate) fn last_draft(
    query: &Query,
    store: &Store,
    outlets: &[KeptOutlet],
    checkpoint: u64,
    taken_unix_ms: i64,
    positions: &[(usize, OutputPosition)],
) -> Draft {
    let manifest = Manifest {
        query: query.settings.name.clone(),
        checkpoint,
        taken_unix_ms,
        is_finished: true,
        shape: store.shape.clone(),
        counts: count_names(query.counts()),
        outputs: output_entries(outlets, positions),
        ..Manifest::default()
    };
    Draft { manifest, ..Draft::default() }
}

/// An instance as it was.
pub(crate) fn instance_state(
    entry: &InstanceEntry,
    tables: Vec<(String, arrow::array::RecordBatch)>,
) -> InstanceState<OperatorState> {
    let parts = tables.into_iter().map(|(name, rows)| StatePart::new(name, rows));
    InstanceState {
        frontier: laxity_runtime::FrontierState {
            channels: entry.channels.clone(),
            combined_ms: entry.watermark_ms,
        },
        out_watermark_ms: entry.out_watermark_ms,
        operator: OperatorState::of(parts.collect()),
    }
}

/// As a manifest has them.
pub(crate) fn count_names(counts: Counts) -> BTreeMap<String, u64> {
    let Counts { rows_in, rows_out, rows_late, rows_dead, rows_shed, rows_dropped } = counts;
    let named = [
        ("rows-in", rows_in),
        ("rows-out", rows_out),
        ("rows-late", rows_late),
        ("rows-dead", rows_dead),
        ("rows-shed", rows_shed),
        ("rows-dropped", rows_dropped),
    ];
    named.into_iter().map(|(name, rows)| (name.to_owned(), rows)).collect()
}

/// The reverse: what is not named is none.
pub(crate) fn counts_of(named: &BTreeMap<String, u64>) -> Counts {
    let rows = |name: &str| named.get(name).copied().unwrap_or(0);
    Counts {
        rows_in: rows("rows-in"),
        rows_out: rows("rows-out"),
        rows_late: rows("rows-late"),
        rows_dead: rows("rows-dead"),
        rows_shed: rows("rows-shed"),
        rows_dropped: rows("rows-dropped"),
    }
}
