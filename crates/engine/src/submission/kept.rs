//! A query with checkpoints as it comes in: what it goes on from, and what is kept of it from then on.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;

use laxity_connect::{SinkSpec, TableSpec};
use laxity_graph::{EventTime, NodeId, OperatorId};
use laxity_operators::{OperatorState, SharedStage, Stage, WindowsState};
use laxity_runtime::{ArrowRows, Instance, LastCheckpoint, Outlet, Query, Source, Taken};
use parking_lot::Mutex;

use crate::chain_of_causes;
use crate::checkpoints::{
    Asking, Found, Keeping, KeptOutlet, KeptSource, KeptWindows, Restored, counts_of,
    find as find_checkpoint, instance_state, not_busy,
};
use crate::place::Place;
use crate::plan::{QueryPlan, StatePlan, SubmitError};
use crate::shared::Shared;
use crate::sink_io::Finish;

/// What was found of a query that is about to be made.
pub(super) struct Kept {
    pub found: Found,
    pub finish: Arc<Finish>,
    query: Arc<Query>,
    outputs: Vec<(SinkSpec, usize)>,
    interval_ns: u64,
}

/// Where a source of a query begins.
pub(super) enum From {
    /// As a query that was never there.
    Beginning,
    /// It has had that, and its first operator held this.
    Place(Place, Box<SavedSource>),
    /// It has had all there is.
    Ended,
}

/// What was saved with a source, for when it reads with others.
#[derive(Clone)]
pub(super) struct SavedSource {
    /// Of its first operator, with what others may do for it.
    state: OperatorState,
    event_times: Option<(EventTime, EventTime)>,
    /// What its windows held, for others who may do its work.
    pub windows: Option<OperatorState>,
}

impl SavedSource {
    /// What those have who do a part of it for others, and what is left for the operator itself.
    pub fn parts(&self, stage: &SharedStage) -> (Taken<ArrowRows>, OperatorState) {
        let (front, rest) = stage.parts(self.state.clone());
        (Taken { front, event_times: self.event_times }, rest)
    }
}

/// Looks for what it goes on from.
pub(super) fn find(
    shared: &Shared,
    plan: &QueryPlan,
    state: &StatePlan,
    query: &Arc<Query>,
) -> Result<Kept, SubmitError> {
    let name = &query.settings.name;
    let outputs = plan.outputs();
    let results = outputs.len() - plan.late.iter().len();
    let found = find_checkpoint(&shared.checkpoints, name, state, &outputs)?;
    let finish = Arc::new(Finish::new(query.clone(), results, found.next));
    let interval_ns = u64::try_from(state.interval.as_nanos()).unwrap_or(u64::MAX).max(1_000_000);
    Ok(Kept { found, finish, query: query.clone(), outputs, interval_ns })
}

impl Kept {
    /// Gives the parts of the query, which have done nothing yet, what they held; how its checkpoints are taken from now
    /// on, and where its sources begin.
    ///
    /// # Errors
    /// If an operator cannot be saved, or what was saved does not fit.
    pub fn restore(
        self,
        shared: &Arc<Shared>,
        plan: &QueryPlan,
        instances: &[Arc<Instance<ArrowRows>>],
        sources: &[Source],
        outlets: &[Arc<Outlet>],
    ) -> Result<(Keeping, HashMap<OperatorId, From>), SubmitError> {
        let Kept { found, finish, query, outputs, interval_ns } = self;
        let refused = |message: String| SubmitError::State { query: query.settings.name.clone(), message };
        let mut windows = None;
        for (place, instance) in instances.iter().enumerate() {
            // Once before anything runs, so that one that cannot be saved is refused and not stopped later.
            let begins =
                instance.save().map_err(|why| refused(format!("it cannot be checkpointed: {why}")))?;
            if let Some(of) = WindowsState::of(begins.operator) {
                windows = Some(KeptWindows { place, prefix: of.prefix });
            }
        }
        let is_of_template = |source: &Source| match &plan.dataflow.node(source.node).stage {
            Stage::Source { shared, .. } => shared.as_ref().is_some_and(|of| of.spec.template.is_some()),
            _ => false,
        };
        let windows = windows.filter(|_| sources.iter().any(is_of_template));
        let table_of = |node: NodeId| match &plan.dataflow.node(node).stage {
            Stage::Source { scan, .. } => scan.table.name.clone(),
            _ => String::new(),
        };
        let kept_source = |source: &Source| KeptSource {
            node: source.node.0,
            operator: source.operator,
            table: table_of(source.node),
            stage: match &plan.dataflow.node(source.node).stage {
                Stage::Source { shared, view, .. } => shared.clone().or_else(|| view.clone()),
                _ => None,
            },
        };
        let store = found.store.clone();
        let keeping = Keeping {
            query: query.clone(),
            interval_ns,
            store: found.store,
            sources: sources.iter().map(kept_source).collect(),
            outlets: outlets
                .iter()
                .zip(&outputs)
                .map(|(outlet, (spec, _))| KeptOutlet {
                    outlet: outlet.clone(),
                    table: spec.table.name.clone(),
                })
                .collect(),
            instances: instances.to_vec(),
            finish: finish.clone(),
            windows,
            is_busy: not_busy(),
            asking: Asking::default(),
            goes_back: plan.state.as_ref().is_some_and(|state| state.at.is_some()),
            last: Mutex::default(),
            left_out: AtomicU32::new(0),
        };
        write_last(shared, &keeping, &finish, &store);
        let Some(restored) = found.restored else {
            let beginning = |source: &Source| (source.operator, From::Beginning);
            return Ok((keeping, sources.iter().map(beginning).collect()));
        };
        let begins = |source: &Source| match &plan.dataflow.node(source.node).stage {
            Stage::Source { scan, .. } => begins(&query, source, &scan.table, &restored),
            _ => Ok(From::Beginning),
        };
        let from = sources.iter().map(|source| Ok((source.operator, begins(source)?)));
        let from = from.collect::<Result<_, String>>().map_err(&refused)?;
        let complete = give_back(instances, &restored).map_err(&refused)?;
        query.count_from(counts_of(&restored.manifest.counts));
        tracing::info!(
            query = query.settings.name,
            checkpoint = restored.manifest.checkpoint,
            "goes on from its checkpoint"
        );
        complete.iter().for_each(|outlet| shared.sinks.close(outlet));
        Ok((keeping, from))
    }
}

/// How its last checkpoint is written, which says that nothing is left to be done.
fn write_last(
    shared: &Arc<Shared>,
    keeping: &Keeping,
    finish: &Arc<Finish>,
    store: &crate::checkpoints::Store,
) {
    let (query, store) = (keeping.query.clone(), store.clone());
    let outlets = keeping.outlets.clone();
    let clock = shared.clock;
    finish.writes_last(move |number, positions| {
        let now = clock.now();
        let unix_ms = clock.unix_start_ms() + (now.0 / 1_000_000) as i64;
        let draft = crate::checkpoints::last_draft(&query, &store, &outlets, number, unix_ms, &positions);
        let bytes = store.folder.write(draft).map_err(|error| chain_of_causes(&error))?;
        let last = LastCheckpoint {
            number,
            safe_at: clock.now(),
            bytes: bytes.held,
            written_bytes: bytes.written,
            longest_pause_ns: 0,
        };
        query.on_checkpoint(last);
        let _next_time = store.folder.keep_last(laxity_state::KEPT);
        Ok(())
    });
}

/// Outlets that get nothing more.
fn give_back(
    instances: &[Arc<Instance<ArrowRows>>],
    restored: &Restored,
) -> Result<Vec<Arc<Outlet>>, String> {
    let entries = &restored.manifest.instances;
    if entries.len() != instances.len() {
        let (had, has) = (entries.len(), instances.len());
        return Err(format!(
            "it had {had} instances of operators and has {has}: set the parallelism that it had"
        ));
    }
    let mut complete = Vec::new();
    for instance in instances {
        let place = entries
            .iter()
            .position(|entry| (entry.node, entry.instance) == (instance.node, instance.number))
            .ok_or_else(|| format!("{}: nothing was saved of it", instance.name))?;
        let state = instance_state(&entries[place], restored.tables[place].clone());
        complete.extend(instance.restore(state)?);
    }
    Ok(complete)
}

fn begins(query: &Query, source: &Source, table: &TableSpec, restored: &Restored) -> Result<From, String> {
    let Some(entry) = restored.manifest.sources.iter().find(|entry| entry.node == source.node.0) else {
        return Ok(From::Beginning);
    };
    if entry.has_ended {
        query.note_ended(source.operator);
        return Ok(From::Ended);
    }
    if !laxity_connect::is_read_on(table) {
        // Its operators hold what they made of those rows.
        if entry.rows > 0 {
            return Err(format!(
                "its checkpoint was taken amid table {}, which can only be read from the beginning: begin anew with \
                 --state-ignore '{}', and empty its outputs before, as all rows come again",
                entry.table, query.settings.name
            ));
        }
        return Ok(From::Beginning);
    }
    if !entry.is_repeatable && entry.offsets.is_none() {
        tracing::warn!(
            query = query.settings.name,
            table = entry.table,
            "the table gives nothing twice: rows that came since the checkpoint are lost, and reading goes on with what comes"
        );
        return Ok(From::Beginning);
    }
    let place = Place::of(entry, &table.schema).map_err(|gone| {
        format!(
            "table {} had column {} when it was checkpointed, and how far it was read is counted in rows that could be read with it: \
             put it back, or begin the query anew",
            entry.table,
            gone.join(", ")
        )
    })?;
    let instances = || restored.manifest.instances.iter().zip(&restored.tables);
    let mut of_source =
        instances().filter(|(instance, _)| (instance.node, instance.instance) == (source.node.0, 0));
    let state = of_source.next().map(|(entry, tables)| instance_state(entry, tables.clone()).operator);
    let others = instances().filter(|(instance, _)| instance.node != source.node.0);
    let mut windows = others
        .filter_map(|(entry, tables)| WindowsState::of(instance_state(entry, tables.clone()).operator))
        .map(|windows| windows.state);
    let windows = windows.next();
    let event_times = match entry.event_times {
        Some((least, latest)) => (least <= latest).then_some((EventTime(least), EventTime(latest))),
        // It read alone, which keeps no account of that: there may be any.
        None => Some((EventTime(i64::MIN / 2), EventTime::MAX)),
    };
    let saved = SavedSource { state: state.unwrap_or_default(), event_times, windows };
    Ok(From::Place(place, Box::new(saved)))
}
