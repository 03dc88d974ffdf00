//! From a plan to a query that runs: its parts are made, its outputs and tables opened, those of others joined where
//! they can be; what fails half-way is undone.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use laxity_connect::{RefusedRows, Scan, ScanEnvironment, ScanSpec, SinkSpec, TableSpec, Waiting};
use laxity_graph::{OperatorId, ProcessingTime, QueryId};
use laxity_operators::{InstanceContext, OperatorError, SharedSourceSpec, SharedStage, Stage, Way, Ways};
use laxity_runtime::{
    ArrowRows, Expanded, Instance, Intake, Outcome, Outlet, Position, Query, Reader, Rhythm, SHARED_BY_MIN,
    Source, expand,
};
use laxity_sched::OperatorSpec;
use parking_lot::Mutex;

use crate::chain_of_causes;
use crate::checkpoints::Keeping;
use crate::config::JoinFrom;
use crate::place::Place;
use crate::plan::{QueryPlan, SubmitError};
use crate::restarts::Beginning;
use crate::shared::Shared;
use crate::sink_io::Places;
use crate::tables::{Leaves, Table, TableWaker, WayIn};
use crate::unit::Unit;

mod build;
mod kept;
mod predecessor;

use self::build::{Builder, letters_of};
use self::kept::SavedSource;
pub(crate) use self::predecessor::Predecessor;

/// How queries come in: one at a time, each whole or not at all.
#[derive(Default)]
pub(crate) struct Submission {
    unbegun: Arc<Unbegun>,
    /// Of what tables are written to. Tables of several files may bear one name.
    places: Places,
    started: Option<ScanEnvironment>,
    /// What was read by sources that have had all there is, and will not read again.
    ended: Vec<ScanSpec>,
    /// Outputs that connect once tables are read: whose query ends before has no table to leave.
    to_connect: Vec<Arc<Outlet>>,
}

/// Those who are known and do not read yet, because tables are opened at the start.
///
/// Taken after the [`Submission`]'s lock and before those of [`Shared`]. Tables and files are opened without it, so that who
/// ends a query, which takes it too, waits for none of them. Held from when a query is known to when all of it is: nobody
/// clears up after half of one.
#[derive(Default)]
pub(crate) struct Unbegun(Mutex<Vec<Wanted>>);

impl Unbegun {
    /// Ends a query by `end`: it will not begin to read.
    pub fn end(&self, query: QueryId, end: impl FnOnce() -> bool) -> bool {
        let mut waiting = self.0.lock();
        waiting.retain(|wanted| wanted.query.id != query);
        end()
    }
}

/// A query that is to read a table.
struct Wanted {
    spec: ScanSpec,
    query: Arc<Query>,
    source: Source,
    rhythm: Option<Rhythm>,
    share: Option<Share>,
    /// Its operators, where the scheduler gets to know them only once it is clear that others will not do their work.
    parts: Option<Parts>,
    /// Where it goes on if it is restored, or began, if it is started again.
    from: Option<Place>,
    /// And what was saved of its source.
    saved: Option<SavedSource>,
}

/// The operators of a query, as the scheduler and workers know them.
struct Parts {
    operators: Vec<OperatorSpec>,
    units: Vec<Unit>,
}

/// How it can read the table with others.
struct Share {
    /// By its filter, and by what it computes first.
    rows: Option<SharedStage>,
    view: Option<SharedStage>,
    rhythm: Rhythm,
    /// Its source, which then does the rest.
    instance: Arc<Instance<ArrowRows>>,
    /// Where its results go, if to one place.
    outlet: Option<Arc<Outlet>>,
    batch_rows: usize,
}

/// How a query that comes later gets to the rows of a table.
enum Entrance {
    /// By a copy of its own.
    Opened(Box<Opened>),
    /// With those who read it already; all that the query reads of it.
    Joins(Arc<Table>, Vec<Wanted>),
}

/// A table that is open and not yet read.
struct Opened {
    spec: ScanSpec,
    environment: ScanEnvironment,
    position: Position,
    waker: TableWaker,
    scan: Box<dyn Scan>,
    readers: Vec<Wanted>,
}

/// The parts of a query that is not known to anybody yet.
struct Made {
    instances: Vec<Arc<Instance<ArrowRows>>>,
    outlets: Vec<Arc<Outlet>>,
    /// Its checkpoints.
    keeping: Option<Keeping>,
    /// Tables to be opened at the start.
    wanted: Vec<Wanted>,
    /// Those that are open.
    entrances: Vec<Entrance>,
    parts: Parts,
}

/// What making the parts of a query has done to others.
#[derive(Default)]
struct Undo {
    /// Opened for it.
    outlets: Vec<Arc<Outlet>>,
}

impl Submission {
    /// With those who do not read yet, for who ends queries.
    pub fn new(unbegun: Arc<Unbegun>) -> Submission {
        Submission { unbegun, ..Submission::default() }
    }

    /// `before`: the one that it takes the place of, which ends next.
    pub fn submit(
        &mut self,
        shared: &Arc<Shared>,
        plan: &Arc<QueryPlan>,
        beginning: Beginning,
        before: Option<&Predecessor>,
    ) -> Result<QueryId, SubmitError> {
        let settings = plan.dataflow.settings.clone();
        let name = settings.name.clone();
        let is_sink = |stage: &Stage<_, _>| matches!(stage, Stage::Sink(_));
        let nodes = plan.dataflow.nodes();
        let sinks = nodes.iter().filter(|node| is_sink(&node.stage)).count();
        let operators = nodes.iter().filter(|node| !is_sink(&node.stage)).map(|node| node.parallelism as u32);
        let operators: u32 = operators.sum();
        if let Some((used, room)) = shared.dispatch.lacks_room(operators.into()) {
            return Err(SubmitError::ThreadRoom { query: name, needed: operators.into(), used, room });
        }
        let Some(reserved) =
            shared.registry.write().reserve_after(&name, operators, before.map(|before| before.query.id))
        else {
            return Err(SubmitError::NameTaken { query: name });
        };
        let query = Arc::new(Query::new(reserved.id, settings, sinks, shared.process.clone()));
        let mut undo = Undo::default();
        let made = self.make(shared, plan, &beginning, &query, reserved.first, before, &mut undo);
        let Made { instances, outlets, keeping, mut wanted, entrances, parts } = made.inspect_err(|_| {
            // Its files may be asked for again.
            undo.outlets.iter().for_each(|outlet| shared.sinks.discard(outlet));
            shared.sinks.forget(query.id);
            shared.registry.write().withdraw(&reserved);
        })?;
        self.to_connect.extend(outlets.iter().filter(|outlet| !outlet.is_immediate).cloned());
        let unbegun = self.unbegun.clone();
        let mut waiting = unbegun.0.lock();
        // Before anything of it runs: it may end at once, and who clears up after it looks for it here.
        if plan.state.is_some() {
            shared.restarts.keep(query.id, plan.clone(), beginning);
        }
        shared.registry.write().enter(&reserved, query.clone(), instances, outlets);
        match &mut wanted[..] {
            [wanted] if wanted.may_be_seated() => wanted.parts = Some(parts),
            _ => shared.dispatch.add_query(query.spec(), &parts.operators, &parts.units),
        }
        waiting.extend(wanted);
        if let Some(keeping) = keeping {
            shared.checkpoints.keep(keeping, shared.clock.now());
        }
        if query.settings.shed {
            shared.dispatch.allow_shedding(query.id);
        }
        if query.settings.leaves_out {
            shared.dispatch.allow_leaving_out(query.id);
        }
        if query.settings.shed || query.settings.leaves_out {
            shared.relieves.store(true, Ordering::Relaxed);
        }
        entrances.into_iter().for_each(|entrance| enter(shared, entrance, before));
        drop(waiting);
        if self.has_started() {
            self.connect(shared);
        }
        Ok(query.id)
    }

    fn connect(&mut self, shared: &Shared) {
        self.to_connect.drain(..).for_each(|outlet| shared.sinks.connect(&outlet));
    }

    /// Tables are read.
    pub fn has_started(&self) -> bool {
        self.started.is_some()
    }

    /// Whether the query can have what the other one writes.
    ///
    /// # Errors
    /// If it cannot.
    pub fn hands_over(&self, before: &Predecessor, plan: &QueryPlan) -> Result<(), SubmitError> {
        before.gives_up(plan, &self.places)
    }

    /// A query that has read all there is.
    pub fn note_complete(&mut self, plan: &QueryPlan) {
        self.ended.extend(plan.dataflow.nodes().iter().filter_map(|node| match &node.stage {
            Stage::Source { scan, .. } => Some(scan.clone()),
            _ => None,
        }));
    }

    /// Makes the parts of a query and opens what it needs. Where it fails, what stands in `undo` is all that stays.
    #[expect(clippy::too_many_arguments, reason = "what a submission knows; a struct would only rename it")]
    fn make(
        &mut self,
        shared: &Arc<Shared>,
        plan: &QueryPlan,
        beginning: &Beginning,
        query: &Arc<Query>,
        first: OperatorId,
        before: Option<&Predecessor>,
        undo: &mut Undo,
    ) -> Result<Made, SubmitError> {
        let Undo { outlets: opened } = undo;
        let (places, ended) = (&self.places, &mut self.ended);
        let kept = plan.state.as_ref().map(|state| kept::find(shared, plan, state, query)).transpose()?;
        let mut own_parts = HashMap::new();
        let mut next_part = |sink: &SinkSpec| {
            let place = sink.place(&query.settings.name);
            match plan.state {
                // Whoever else runs, it finds again what it wrote.
                Some(_) => {
                    let next: &mut usize = own_parts.entry(place.clone()).or_insert(0);
                    *next += 1;
                    places.note(place, *next - 1)
                }
                None => places.take(place),
            }
        };
        let mut builder = Builder {
            query,
            late: plan.late.as_ref(),
            batch_rows: shared.config.batch_rows,
            letters: letters_of(&plan.dataflow),
            sinks: &shared.sinks,
            next_part: &mut next_part,
            before,
            opened,
            finish: kept.as_ref().map(|kept| &kept.finish),
            interval: plan.state.as_ref().map(|state| state.interval),
            restored: kept.as_ref().and_then(|kept| kept.found.restored.as_ref()),
        };
        let Expanded { instances, operators, sources, outlets } =
            expand(&plan.dataflow, query, first, shared.config.record, &mut builder)?;
        let is_restored = kept.as_ref().is_some_and(|kept| kept.found.restored.is_some());
        let kept = kept.map(|kept| kept.restore(shared, plan, &instances, &sources, &outlets)).transpose()?;
        let (keeping, mut places) = kept.unzip();
        let rhythm = Rhythm::of(&plan.dataflow);
        let share =
            |source: &Source, scan: &ScanSpec, rows: &Option<SharedStage>, view: &Option<SharedStage>| {
                let (rows, view, batch_rows) = (rows.clone(), view.clone(), shared.config.batch_rows);
                let _either = rows.as_ref().or(view.as_ref())?;
                let instance = instances.iter().find(|instance| instance.id == source.operator)?.clone();
                // Dead letters are written by the query that refuses the row.
                let rhythm = rhythm.filter(|_| !RefusedRows::are_kept(&scan.table))?;
                // Who takes rows with others as they come is not told of time.
                if source.follows_processing_time && rhythm == Rhythm::Rows {
                    return None;
                }
                let outlets = Some(&outlets).filter(|outlets| outlets.len() == 1);
                let outlet = outlets.map(|outlets| outlets[0].clone());
                Some(Share { rows, view, rhythm, instance, outlet, batch_rows })
            };
        let wanted = sources.into_iter().filter_map(|source| {
            let Stage::Source { scan, shared, view, .. } = &plan.dataflow.node(source.node).stage else {
                return None;
            };
            let mut share = share(&source, scan, shared, view);
            let (from, saved) = match places.as_mut().and_then(|places| places.remove(&source.operator)) {
                Some(kept::From::Ended) => {
                    ended.push(scan.clone());
                    return None;
                }
                Some(kept::From::Place(place, saved)) => (Some(place), Some(*saved)),
                Some(kept::From::Beginning) | None => (beginning.began.get(&source.node).cloned(), None),
            };
            if is_restored && saved.is_none() {
                // Its own operators hold what was saved.
                share.iter_mut().for_each(|share| share.outlet = None);
            }
            let query = query.clone();
            Some(Wanted { spec: scan.clone(), query, source, rhythm, share, parts: None, from, saved })
        });
        let mut wanted: Vec<Wanted> = wanted.collect();
        let mut entrances = Vec::new();
        if let Some(started) = &self.started {
            for wanted in std::mem::take(&mut wanted) {
                entrances.push(entrance(shared, wanted, beginning.from, started, before)?);
            }
            entrances = joined_at_once(entrances);
        }
        let units = instances.iter().cloned().map(Unit::Operator).collect();
        Ok(Made { instances, outlets, keeping, wanted, entrances, parts: Parts { operators, units } })
    }

    /// How long it takes to open the tables of all queries so far, about: rows come due after that, so that none is late
    /// from the start.
    pub fn opening_ns(&self) -> u64 {
        opening_ns(self.unbegun.0.lock().iter().map(|wanted| &wanted.spec.table))
    }

    /// Opens the tables of all queries so far; who comes later opens its own or joins them.
    pub fn start(&mut self, shared: &Arc<Shared>, environment: ScanEnvironment) -> Result<(), SubmitError> {
        self.started = Some(environment.clone());
        // All before the first row is read: what one of them opens may be what another writes.
        let waiting = std::mem::take(&mut *self.unbegun.0.lock());
        let groups = by_table(waiting);
        let read = columns_by_table(&groups, &self.ended);
        let open = |group: Vec<Wanted>| {
            let columns = match group[0].from {
                // It goes on as it was read, whoever reads the table besides: its place is counted in the rows that are left
                // of these columns.
                Some(_) => group.iter().flat_map(Wanted::columns).collect(),
                None => read[&Arc::as_ptr(&group[0].spec.table)].clone(),
            };
            open_for(shared, group, &environment, columns)
        };
        let mut opened: Vec<Opened> = groups.into_iter().map(open).collect::<Result<_, _>>()?;
        for opened in &mut opened {
            // A fault in what is read is told with the rows before it.
            let scan = &mut opened.scan;
            let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| scan.prepare()));
        }
        let unbegun = self.unbegun.clone();
        let _nobody_ends = unbegun.0.lock();
        for mut opened in opened {
            // Others have been ended meanwhile.
            opened.readers.retain(|wanted| shared.registry.read().takes_in(wanted.query.id));
            if !opened.readers.is_empty() {
                begin(shared, opened);
            }
        }
        self.connect(shared);
        Ok(())
    }
}

/// Of a table for each reader: it is opened once.
fn opening_ns<'a>(read: impl Iterator<Item = &'a Arc<TableSpec>>) -> u64 {
    // What a reader costs beside: 10 000 with a generator each begin within .35 s, opening included.
    const READER_NS: u64 = 10_000;
    let mut seen = HashSet::new();
    let of_table = |table: &Arc<TableSpec>| match seen.insert(Arc::as_ptr(table)) {
        true => laxity_connect::opening_ns(table),
        false => 0,
    };
    read.map(of_table).map(|table_ns| table_ns + READER_NS).sum()
}

/// Those who read the same table, together, as far as it can be read for all of them at once.
fn by_table(waiting: Vec<Wanted>) -> Vec<Vec<Wanted>> {
    let mut places = HashMap::new();
    let mut tables: Vec<Vec<Wanted>> = Vec::new();
    for wanted in waiting {
        let start = wanted.from.as_ref().map(Place::start);
        let place = *places.entry((Arc::as_ptr(&wanted.spec.table), start)).or_insert_with(|| {
            tables.push(Vec::new());
            tables.len() - 1
        });
        tables[place].push(wanted);
    }
    tables
}

/// What those read of each table who begin with it: what is read by whoever, those included who have had all of it. A row is
/// refused only for a value that somebody reads: so who begins again after a crash, when others go on from where they were,
/// gets the rows that it got before.
fn columns_by_table(groups: &[Vec<Wanted>], ended: &[ScanSpec]) -> HashMap<*const TableSpec, Vec<usize>> {
    let mut read: HashMap<*const TableSpec, Vec<usize>> = HashMap::new();
    for wanted in groups.iter().flatten() {
        read.entry(Arc::as_ptr(&wanted.spec.table)).or_default().extend(wanted.columns());
    }
    for spec in ended {
        read.entry(Arc::as_ptr(&spec.table)).and_modify(|columns| columns.extend(&spec.columns));
    }
    read
}

/// The way to the rows of a table for a query that comes later.
fn entrance(
    shared: &Shared,
    mut wanted: Wanted,
    from: JoinFrom,
    started: &ScanEnvironment,
    before: Option<&Predecessor>,
) -> Result<Entrance, SubmitError> {
    if wanted.from.is_some() && wanted.saved.is_none() {
        // It begins again: what gives nothing twice it reads with the others.
        let read = shared.open_tables.find(&wanted.spec.table, &wanted.spec.columns);
        wanted.from = wanted.from.filter(|_| read.is_none_or(|table| table.is_found_again()));
    }
    if wanted.from.is_some() {
        let environment = ScanEnvironment::new(shared.clock.now(), started.start_wall);
        let columns = wanted.columns().collect();
        return Ok(Entrance::Opened(Box::new(open_for(shared, vec![wanted], &environment, columns)?)));
    }
    let read = match from {
        JoinFrom::Now => {
            let own = before.and_then(|before| before.table(&wanted.spec));
            own.or_else(|| shared.open_tables.find(&wanted.spec.table, &wanted.spec.columns))
        }
        JoinFrom::Start => None,
    };
    let way_in = read.map(|table| (table.way_in(&wanted.spec.columns), table));
    let (environment, position) = match way_in {
        Some((WayIn::Joins, table)) => return Ok(Entrance::Joins(table, vec![wanted])),
        Some((WayIn::Copy(environment, position), _)) => (*environment, position),
        Some((WayIn::None, _)) => {
            return Err(SubmitError::Columns {
                query: wanted.query.settings.name.clone(),
                table: wanted.spec.table.name.clone(),
            });
        }
        Some((WayIn::Closed, _)) | None => {
            (ScanEnvironment::new(shared.clock.now(), started.start_wall), Position::default())
        }
    };
    Ok(Entrance::Opened(Box::new(open(shared, vec![wanted], &environment, position)?)))
}

/// Opens a table for these queries, which begin together: at its beginning, or where those of them that are restored had
/// come the least far.
fn open_for(
    shared: &Shared,
    readers: Vec<Wanted>,
    environment: &ScanEnvironment,
    columns: Vec<usize>,
) -> Result<Opened, SubmitError> {
    match Place::least(readers.iter().filter_map(|wanted| wanted.from.as_ref())) {
        None => open_columns(shared, readers, environment, Position::default(), columns),
        Some(least) => {
            let environment = least.environment(environment);
            open_columns(shared, readers, &environment, least.position, columns)
        }
    }
}

/// Opens a table for these queries: it reads the union of their columns.
fn open(
    shared: &Shared,
    readers: Vec<Wanted>,
    environment: &ScanEnvironment,
    position: Position,
) -> Result<Opened, SubmitError> {
    let columns = readers.iter().flat_map(Wanted::columns).collect();
    open_columns(shared, readers, environment, position, columns)
}

fn open_columns(
    shared: &Shared,
    readers: Vec<Wanted>,
    environment: &ScanEnvironment,
    position: Position,
    mut columns: Vec<usize>,
) -> Result<Opened, SubmitError> {
    columns.sort_unstable();
    columns.dedup();
    let spec = ScanSpec { columns, ..readers[0].spec.clone() };
    let waker = TableWaker::default();
    let waiting = Waiting::default();
    let environment = ScanEnvironment { waker: waker.waker(), waiting, ..environment.clone() };
    let scan = shared
        .connectors
        .open(&spec, &environment)
        .map_err(|source| SubmitError::Connect { query: readers[0].query.settings.name.clone(), source })?;
    Ok(Opened { spec, environment, position, waker, scan, readers })
}

/// Those that join one table do so with the same row.
fn joined_at_once(entrances: Vec<Entrance>) -> Vec<Entrance> {
    let mut joined: Vec<Entrance> = Vec::with_capacity(entrances.len());
    for entrance in entrances {
        let (table, mut wanted) = match entrance {
            Entrance::Joins(table, wanted) => (table, wanted),
            opened => {
                joined.push(opened);
                continue;
            }
        };
        let same = joined.iter_mut().find_map(|entrance| match entrance {
            Entrance::Joins(other, wanted) => Arc::ptr_eq(other, &table).then_some(wanted),
            Entrance::Opened(_) => None,
        });
        match same {
            Some(others) => others.append(&mut wanted),
            None => joined.push(Entrance::Joins(table, wanted)),
        }
    }
    joined
}

fn enter(shared: &Arc<Shared>, entrance: Entrance, before: Option<&Predecessor>) {
    match entrance {
        Entrance::Opened(opened) => begin(shared, *opened),
        Entrance::Joins(table, wanted) => {
            let Some(query) = wanted.first().map(|wanted| wanted.query.clone()) else { return };
            // Held over both: whoever takes the query out of its tables finds this one among them, or it is not joined.
            let mut registry = shared.registry.write();
            if !registry.takes_in(query.id) {
                return;
            }
            let reader = |wanted: &Wanted| {
                let columns = columns_of(wanted, &table.spec);
                let way = wanted.share.as_ref().map_or(Way::Alone, |share| {
                    let view = share.view_at(&columns).and_then(Result::ok);
                    table.way(share.rows_spec(), view.as_ref(), &columns)
                });
                reader(wanted, &table.spec, way, shared.clock.now())
            };
            let readers: Vec<Reader<ArrowRows>> = wanted.iter().map(reader).collect();
            let begins = |environment: &ScanEnvironment, position| {
                let place = || Place::beginning(&table.spec.columns, environment, position);
                for wanted in &wanted {
                    shared.restarts.note_beginning(query.id, wanted.source.node, place);
                }
            };
            let leaves = before.filter(|before| before.reads(&table)).map(|before| Leaves {
                query: &before.query,
                memory: &shared.process.memory,
                now: shared.clock.now(),
            });
            let joins = table.join(readers, shared.restarts.keeps(query.id).then_some(begins), leaves);
            let _ = joins && registry.reads(query.id, table.clone());
            drop(registry);
            if joins {
                shared.relieve(table.take_seated());
                shared.retarget(&table);
                shared.dispatch.wake(table.id, shared.clock.now());
            } else {
                wanted.into_iter().for_each(|wanted| begin_anew(shared, &table, wanted));
            }
        }
    }
}

/// The table has ended since it was found: as if nobody had read it.
fn begin_anew(shared: &Arc<Shared>, table: &Table, wanted: Wanted) {
    let query = wanted.query.clone();
    let environment = ScanEnvironment::new(shared.clock.now(), table.environment.start_wall);
    match open(shared, vec![wanted], &environment, Position::default()) {
        Ok(opened) => begin(shared, opened),
        Err(error) => {
            query.end(Outcome::Failed(chain_of_causes(&error)));
        }
    }
}

/// Lets those who wait for a table read it.
fn begin(shared: &Arc<Shared>, opened: Opened) {
    let Opened { spec, environment, position, waker, scan, mut readers } = opened;
    let parts: Vec<Option<Parts>> = readers.iter_mut().map(|wanted| wanted.parts.take()).collect();
    let queries: Vec<Arc<Query>> = readers.iter().map(|wanted| wanted.query.clone()).collect();
    for Wanted { query, source, .. } in readers.iter().filter(|wanted| wanted.from.is_none()) {
        let place = || Place::beginning(&spec.columns, &environment, position);
        shared.restarts.note_beginning(query.id, source.node, place);
    }
    let ways: Vec<Ways<'_>> = readers.iter().map(Wanted::ways).collect();
    let ways = Way::of_all(&ways, SHARED_BY_MIN);
    let readers = readers.iter().zip(ways).map(|(wanted, way)| {
        let reader = reader(wanted, &spec, way, environment.start);
        match &wanted.from {
            Some(place) => reader.skipping(place.ahead_of(position)),
            None => reader,
        }
    });
    let readers = readers.collect();
    let (id, query) = shared.table_ids();
    let intake = Intake::new(id, readers).from(position);
    let intake = if shared.config.record { intake.recording(shared.shared_work.clone()) } else { intake };
    let table = Table::new(query, spec, environment, intake, scan);
    let seated: HashSet<QueryId> = table.take_seated().into_iter().collect();
    for (query, parts) in queries.iter().zip(parts) {
        let is_relieved = seated.contains(&query.id) && !shared.config.record;
        if let Some(Parts { operators, units }) = parts.filter(|_| !is_relieved) {
            shared.dispatch.add_query(query.spec(), &operators, &units);
        }
    }
    shared.relieve(seated);
    let table = shared.add_table(table, &waker, &queries);
    let now = shared.clock.now();
    shared.dispatch.appoint(table.id, now, now);
}

impl Share {
    fn rows_spec(&self) -> Option<&Arc<SharedSourceSpec>> {
        self.rows.as_ref().map(|stage| &stage.spec)
    }

    /// What it asks for to be computed, of a table of which these columns are its.
    fn view_at(&self, columns: &Option<Vec<usize>>) -> Option<Result<Arc<SharedSourceSpec>, OperatorError>> {
        self.view.as_ref().map(|stage| stage.spec.at(columns.as_deref()).map(Arc::new))
    }
}

impl Wanted {
    /// What it reads, and what was read with it when it was checkpointed.
    fn columns(&self) -> impl Iterator<Item = usize> {
        let before = self.from.iter().flat_map(|place| &place.columns);
        self.spec.columns.iter().chain(before).copied()
    }

    /// Whether others may do all of its work.
    fn may_be_seated(&self) -> bool {
        let is_of_template = |share: &&Share| share.rows_spec().is_some_and(|spec| spec.template.is_some());
        let of_template = self.share.as_ref().filter(is_of_template);
        of_template.is_some_and(|share| share.outlet.is_some()) && !self.query.settings.shed
    }

    /// How it can read its table with others.
    fn ways(&self) -> Ways<'_> {
        let share = self.share.as_ref();
        let view = share.and_then(|share| share.view.as_ref()).and_then(|stage| stage.spec.view());
        let rows = share.and_then(Share::rows_spec);
        Ways { columns: &self.spec.columns, rows: rows.map(|spec| &**spec), view }
    }
}

/// Its columns among those of a table as it is read; `None` if it takes all.
fn columns_of(wanted: &Wanted, read: &ScanSpec) -> Option<Vec<usize>> {
    let place_of = |column: &usize| read.columns.binary_search(column).expect("it is read");
    let columns = &wanted.spec.columns;
    (*columns != read.columns).then(|| columns.iter().map(place_of).collect())
}

/// One query's end of a table that is read with these columns.
fn reader(wanted: &Wanted, read: &ScanSpec, way: Way, start: ProcessingTime) -> Reader<ArrowRows> {
    let Wanted { query, source, rhythm, share, .. } = wanted;
    let columns = columns_of(wanted, read);
    let follows_processing_time = source.follows_processing_time;
    let reader = |columns| {
        let reader = Reader::new(query.clone(), source.operator, columns, follows_processing_time, start);
        reader.in_rhythm(*rhythm)
    };
    let of_way = share.as_ref().and_then(|share| match way {
        Way::Alone => None,
        Way::Rows => share.rows.as_ref().map(|stage| (share, stage, Ok(stage.spec.clone()))),
        Way::View => Some((share, share.view.as_ref()?, share.view_at(&columns)?)),
    });
    let Some((Share { rhythm, instance, outlet, batch_rows, .. }, stage, spec)) = of_way else {
        return reader(columns);
    };
    // What is computed for it says itself which columns that takes.
    let reader = reader(columns.filter(|_| way != Way::View));
    let context = InstanceContext { instance: 0, parallelism: 1, batch_rows: *batch_rows };
    let made = spec.and_then(|spec| Ok((spec, stage.operator.make(&context)?)));
    let made = made.map_err(|error| error.to_string()).and_then(|(spec, mut rest)| {
        let taken = wanted.saved.as_ref().map(|saved| {
            let (taken, state) = saved.parts(stage);
            rest.restore(state).map(|()| taken).map_err(|error| error.to_string())
        });
        Ok((spec, rest, taken.transpose()?))
    });
    match made {
        Ok((spec, rest, taken)) => {
            instance.replace_operator(rest);
            let reader = reader.sharing(spec, *rhythm).with_outlet(outlet.clone());
            let windows = wanted.saved.as_ref().and_then(|saved| saved.windows.clone());
            match taken {
                Some(taken) => reader.going_on(taken).holding(windows),
                None => reader,
            }
        }
        // It was made before, with its source.
        Err(why) => {
            instance.fail(why);
            reader
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use arrow::datatypes::Schema;

    use super::*;

    #[test]
    fn a_table_of_many_readers_is_opened_once_and_generators_are_quick() {
        let table = |connector: &str| {
            let options = [("connector".to_string(), connector.to_string())].into();
            let schema = Arc::new(Schema::empty());
            Arc::new(TableSpec { name: "t".into(), schema, options, base: PathBuf::new() })
        };
        let (files, rows) = (table("filesystem"), table("datagen"));
        let readers = |table: &Arc<TableSpec>, count| opening_ns(std::iter::repeat_n(table, count));
        assert!(readers(&files, 1_000) < 50 * readers(&files, 1));
        let own: Vec<_> = (0..10_000).map(|_| table("datagen")).collect();
        assert!(opening_ns(own.iter()) < 500_000_000);
        assert!(readers(&rows, 1) < readers(&files, 1));
    }
}
