//! How far a query has read that is held, as its tables tell.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use laxity_operators::{OperatorState, SavedTemplate};
use laxity_state::SourceEntry;

use crate::checkpoints::{Keeping, KeptSource};
use crate::place::saved_offsets;
use crate::shared::Shared;
use crate::tables::{Reading, Table};

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
            let offsets = read.offsets.map(saved_offsets);
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
                after_records: table.environment.behind.map_or(0, |place| place.records),
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
}
