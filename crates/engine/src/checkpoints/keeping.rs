//! What is known of one query for its checkpoints, and how one is put together.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU32};
use std::sync::mpsc::{Receiver, channel};

use laxity_connect::OutputPosition;
use laxity_graph::{OperatorId, ProcessingTime};
use laxity_operators::{OperatorState, SavedTemplate, SharedStage, StatePart, WindowsState};
use laxity_runtime::{ArrowRows, Counts, Instance, InstanceState, Outlet, Query};
use laxity_state::{
    Draft, InstanceEntry, Manifest, Offsets, OutputEntry, QueryFolder, SourceEntry, StateFolder,
};
use parking_lot::Mutex;

use super::asked::Asking;
use super::finish::Finish;
use crate::shared::Shared;
use crate::sink_io::Prepared;
use crate::tables::{Reading, Table};

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

/// A query that reads with others and gets nothing is saved once in so many times though, at least: its tables have been
/// read on, and after a crash they are read from the place of the furthest behind.
const LEFT_OUT_MAX: u32 = 30;

/// How far a held query has read, as far as its tables can say.
pub(crate) enum SourcesRead {
    All(Vec<SourceRead>),
    /// One of them has to be looked at first.
    Later,
    /// It ends, or reads on by a copy that is being opened.
    Unknown,
}

/// How far a source has read.
#[derive(Clone)]
pub(crate) struct SourceRead {
    pub entry: SourceEntry,
    /// What it had that is not in its operators.
    pub front: Option<OperatorState>,
    /// See [`laxity_runtime::Given::handed`].
    pub handed: u64,
    /// Where others do the query's work: what they held of it, and how long it took them to copy that.
    pub work: Option<(SavedTemplate, u32)>,
    pub copy_ns: u64,
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
    /// See [`WindowsState`].
    pub prefix: String,
}

/// What others held who do a query's work, and its part of that.
pub(crate) struct Work {
    /// Among its instances.
    place: usize,
    prefix: String,
    saved: SavedTemplate,
    member: u32,
}

/// An outlet of a query.
#[derive(Clone)]
pub(crate) struct KeptOutlet {
    pub outlet: Arc<Outlet>,
    pub table: String,
}

/// A checkpoint whose outputs have not said yet where they stand.
pub(crate) struct Taken {
    pub keeping: Arc<Keeping>,
    pub draft: Draft,
    /// What is still to be found of it: that may take long where others hold much.
    pub work: Option<Work>,
    pub replies: Receiver<Prepared>,
    /// Outputs that will say.
    pub awaited: usize,
    pub outputs: Vec<(usize, OutputPosition)>,
    pub handed: Vec<u64>,
    pub pause_ns: u64,
}

impl Keeping {
    /// How far its sources have read, of a query that is held. `is_first`: as it has just been.
    pub fn sources(&self, shared: &Shared, is_first: bool) -> SourcesRead {
        let Some(tables) = self.tables(shared) else { return SourcesRead::Unknown };
        let (mut all, mut waits) = (Vec::new(), false);
        for source in &self.sources {
            match self.read(shared, &tables, source, is_first) {
                SourcesRead::All(read) => all.extend(read),
                SourcesRead::Later => waits = true,
                SourcesRead::Unknown => return SourcesRead::Unknown,
            }
        }
        if waits { SourcesRead::Later } else { SourcesRead::All(all) }
    }

    fn tables(&self, shared: &Shared) -> Option<Vec<Arc<Table>>> {
        let registry = shared.registry.read();
        registry
            .takes_in(self.query.id)
            .then(|| registry.get(self.query.id).map(|entry| entry.tables().to_vec()))?
    }

    fn read(
        &self,
        shared: &Shared,
        tables: &[Arc<Table>],
        source: &KeptSource,
        is_first: bool,
    ) -> SourcesRead {
        let none = SourceEntry { node: source.node, table: source.table.clone(), ..SourceEntry::default() };
        for table in tables {
            let read = match table.read_up_to(&self.query, source.operator, is_first) {
                None => continue,
                Some(Reading::UpTo(read)) => read,
                Some(Reading::Later) => {
                    if is_first {
                        shared.wake(vec![table.id]);
                    }
                    return SourcesRead::Later;
                }
            };
            let offsets = read.offsets.map(|place| Offsets {
                next: place.offsets.into_iter().map(|((topic, part), next)| (topic, part, next)).collect(),
                dead_rows: place.dead_rows,
            });
            let schema = &table.spec.table.schema;
            let columns = table.spec.columns.iter().map(|&column| schema.field(column).name().clone());
            let event_times = read.taken.as_ref().map(|taken| match taken.event_times {
                Some((least, latest)) => (least.0, latest.0),
                None => (i64::MAX, i64::MIN),
            });
            let entry = SourceEntry {
                columns: columns.collect(),
                rows: read.position.rows,
                dead_rows: read.position.dead_rows,
                is_repeatable: read.is_repeatable,
                start_wall_ms: table.environment.start_wall.0,
                event_times,
                offsets,
                ..none
            };
            let front = read.taken.map(|taken| taken.front);
            let copy_ns = read.work.as_ref().map_or(0, |work| work.took_ns);
            let work = read.work.map(|work| (work.held, work.member));
            return SourcesRead::All(vec![SourceRead { entry, front, handed: read.handed, work, copy_ns }]);
        }
        // Looked at last: it may have ended meanwhile, and reads nothing then.
        match self.query.has_ended(source.operator) {
            true => {
                let entry = SourceEntry { has_ended: true, ..none };
                SourcesRead::All(vec![SourceRead { entry, front: None, handed: 0, work: None, copy_ns: 0 }])
            }
            false => SourcesRead::Unknown,
        }
    }

    /// True if it reads with others and was given nothing since the last checkpoint, which is not too long ago: what it
    /// holds is what was saved, and only its tables have been read on.
    pub fn is_left_out(&self, shared: &Shared) -> bool {
        let Some(handed) = self.last.lock().as_ref().map(|last| last.handed.clone()) else { return false };
        let Some(tables) = self.tables(shared) else { return false };
        let is_given_nothing = |(source, handed): (&KeptSource, u64)| {
            tables.iter().find_map(|table| table.handed(&self.query, source.operator)) == Some(handed)
        };
        let is_quiet = self.query.drained() && self.sources.iter().zip(handed).all(is_given_nothing);
        // Not all of them at once.
        let most = LEFT_OUT_MAX - self.query.id.0 % (LEFT_OUT_MAX / 2);
        is_quiet && self.left_out.fetch_add(1, Relaxed) + 1 < most
    }

    /// True if nothing has come in or out since the last checkpoint: another one would say the same.
    pub fn is_as_saved(&self, sources: &[SourceRead]) -> bool {
        let last = self.last.lock();
        let entries = || sources.iter().map(|source| &source.entry);
        last.as_ref()
            .is_some_and(|last| last.sources.iter().eq(entries()) && last.counts == self.query.counts())
    }

    /// All that the query is, but for what its outputs say. It is held and drained.
    ///
    /// # Errors
    /// If an operator cannot be saved.
    pub fn take(
        self: &Arc<Keeping>,
        shared: &Shared,
        sources: Vec<SourceRead>,
        now: ProcessingTime,
    ) -> Result<Taken, String> {
        let of_others = sources.iter().find_map(|source| source.work.clone());
        let work = match (&self.windows, of_others) {
            (Some(KeptWindows { place, prefix }), Some((saved, member))) => {
                Some(Work { place: *place, prefix: prefix.clone(), saved, member })
            }
            (_, Some(_)) => {
                return Err("internal error: its work is done by others (please report this)".into());
            }
            // It ends, and others may have done its work: what its own operators hold says nothing.
            (Some(_), None) if sources.iter().any(|source| source.entry.has_ended) => {
                return Err(String::new());
            }
            (_, None) => None,
        };
        let (mut instances, mut tables) = (Vec::new(), Vec::new());
        for instance in &self.instances {
            let InstanceState { frontier, out_watermark_ms, operator } = instance.save()?;
            let source = self.sources.iter().position(|source| source.operator == instance.id);
            let read =
                source.and_then(|place| Some((self.sources[place].stage.as_ref()?, sources.get(place)?)));
            let operator = match read {
                Some((stage, SourceRead { front: Some(front), .. })) => stage.whole(front.clone(), operator),
                _ => operator,
            };
            instances.push(InstanceEntry {
                node: instance.node,
                instance: instance.number,
                name: instance.name.clone(),
                channels: frontier.channels,
                watermark_ms: frontier.combined_ms,
                out_watermark_ms,
                parts: Vec::new(),
            });
            tables.push(operator.parts.into_iter().map(StatePart::into_pieces).collect());
        }
        let checkpoint = self.finish.next_number();
        let outputs = self.finish.ended();
        let (reply, replies) = channel();
        let mut awaited = 0;
        for (number, kept) in self.outlets.iter().enumerate() {
            let has_ended = outputs.iter().any(|(ended, _)| *ended == number);
            if !kept.outlet.is_immediate && !has_ended {
                shared.sinks.prepare(&kept.outlet, checkpoint, number, reply.clone());
                awaited += 1;
            }
        }
        let manifest = Manifest {
            query: self.query.settings.name.clone(),
            checkpoint,
            taken_unix_ms: shared.clock.unix_start_ms() + (now.0 / 1_000_000) as i64,
            shape: self.store.shape.clone(),
            sources: sources.iter().map(|source| source.entry.clone()).collect(),
            counts: count_names(self.query.counts()),
            instances,
            ..Manifest::default()
        };
        let draft = Draft { manifest, tables };
        let handed = sources.iter().map(|source| source.handed).collect();
        Ok(Taken { keeping: self.clone(), draft, work, replies, awaited, outputs, handed, pause_ns: 0 })
    }

    /// Where the outputs stood, as a manifest has it.
    pub fn output_entries(&self, positions: &[(usize, OutputPosition)]) -> Vec<OutputEntry> {
        output_entries(&self.outlets, positions)
    }
}

impl Work {
    /// Adds its tables to what the other instances held.
    ///
    /// # Errors
    /// If they cannot be told from those of others.
    pub fn add_to(self, draft: &mut Draft) -> Result<(), String> {
        let state = self.saved.of_member(self.member).map_err(|error| error.to_string())?;
        let whole = WindowsState { prefix: self.prefix, state }.whole();
        draft.tables[self.place] = whole.parts.into_iter().map(StatePart::into_pieces).collect();
        Ok(())
    }
}

fn output_entries(outlets: &[KeptOutlet], positions: &[(usize, OutputPosition)]) -> Vec<OutputEntry> {
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
    Draft { manifest, tables: Vec::new() }
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
        operator: OperatorState { parts: parts.collect() },
    }
}

fn count_names(counts: Counts) -> BTreeMap<String, u64> {
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
