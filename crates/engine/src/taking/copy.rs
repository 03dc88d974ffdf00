//! What a query that is held and drained holds, put together for a checkpoint.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};

use arrow::array::RecordBatch;
use laxity_connect::OutputPosition;
use laxity_graph::ProcessingTime;
use laxity_operators::{LaterParts, OperatorState, SavedTemplate, StateError, StatePart, WindowsState};
use laxity_runtime::InstanceState;
use laxity_state::{Draft, InstanceEntry, LaterTables, Manifest, NamedTable};

use super::reading::SourceRead;
use crate::checkpoints::{Keeping, KeptWindows, count_names};
use crate::shared::Shared;
use crate::sink_io::Prepared;

/// A checkpoint whose outputs have not said yet where they stand.
pub(crate) struct Taken {
    pub keeping: Arc<Keeping>,
    pub manifest: Manifest,
    /// What its instances hold. Their tables may still have to be made.
    pub states: Vec<OperatorState>,
    /// What is still to be found of it: that may take long where others hold much.
    pub work: Option<Work>,
    pub replies: Receiver<Prepared>,
    /// Outputs that will say.
    pub awaited: usize,
    pub outputs: Vec<(usize, OutputPosition)>,
    pub handed: Vec<u64>,
    pub pause_ns: u64,
}

/// What others held who do a query's work, and its part of that.
pub(crate) struct Work {
    /// Among its instances.
    place: usize,
    prefix: String,
    saved: SavedTemplate,
    member: u32,
}

impl Keeping {
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
        let (mut instances, mut states) = (Vec::new(), Vec::new());
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
            states.push(operator);
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
        let handed = sources.iter().map(|source| source.handed).collect();
        Ok(Taken {
            keeping: self.clone(),
            manifest,
            states,
            work,
            replies,
            awaited,
            outputs,
            handed,
            pause_ns: 0,
        })
    }
}

impl Work {
    /// Adds it to what the other instances held.
    ///
    /// # Errors
    /// If it cannot be told from that of others.
    fn add_to(self, states: &mut [OperatorState]) -> Result<(), StateError> {
        let state = self.saved.of_member(self.member)?;
        states[self.place] = WindowsState { prefix: self.prefix, state }.whole();
        Ok(())
    }
}

/// What is written, but for what outputs say. Of tables that nobody has waited for the first ones are made now, until they are
/// more than so many bytes: what is small is all there then.
///
/// # Errors
/// If one cannot be made, or told from those of others.
pub(super) fn draft(
    manifest: Manifest,
    mut states: Vec<OperatorState>,
    work: Option<Work>,
    small_bytes: usize,
) -> Result<Draft, String> {
    if let Some(work) = work {
        work.add_to(&mut states).map_err(|error| error.to_string())?;
    }
    let mut draft = Draft { manifest, ..Draft::default() };
    for (instance, state) in states.into_iter().enumerate() {
        let mut tables: Vec<NamedTable> = state.parts.into_iter().map(StatePart::into_pieces).collect();
        for parts in state.later {
            let (mut made, mut bytes) = (0, 0);
            let mut from_first = named(&parts, 0);
            while bytes <= small_bytes
                && let Some(table) = from_first.next().transpose()?
            {
                bytes += table.1.iter().map(RecordBatch::get_array_memory_size).sum::<usize>();
                made += 1;
                tables.push(table);
            }
            if bytes > small_bytes {
                let make = Arc::new(move || named(&parts, made));
                draft.later.push(LaterTables { instance, make });
            }
        }
        draft.tables.push(tables);
    }
    Ok(draft)
}

/// The parts from that one on. An operator that panics ends its query and no other, also where its tables are made behind its back.
fn named(parts: &LaterParts, from: usize) -> Box<dyn Iterator<Item = Result<NamedTable, String>>> {
    let mut parts = parts.from(from);
    Box::new(std::iter::from_fn(move || {
        let next = std::panic::AssertUnwindSafe(|| parts.next());
        match std::panic::catch_unwind(next) {
            Ok(part) => part.map(|part| part.map(StatePart::into_pieces).map_err(|error| error.to_string())),
            Err(panic) => {
                let why = laxity_runtime::panic_text(&*panic);
                Some(Err(format!("internal error: {why} (please report this)")))
            }
        }
    }))
}
