use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use laxity_connect::{Scan, ScanEnvironment, ScanSpec, TableSpec};
use laxity_graph::{OperatorId, QueryId};
use laxity_operators::Stage;
use laxity_runtime::{ArrowRows, Expanded, Instance, Intake, Outlet, Query, Reader, Source, expand};
use laxity_sched::{OperatorSpec, QuerySpec};

use crate::plan::{Builder, QueryPlan, SubmitError};
use crate::shared::{Entry, Shared};
use crate::tables::{Table, TableWaker};
use crate::worker::Unit;

/// How queries come in: one at a time, each whole or not at all.
#[derive(Default)]
pub(crate) struct Submission {
    /// What reads tables that are opened at the start.
    waiting: Vec<Wanted>,
    /// By the place that tables write to: how many outputs were opened. Tables of several files may bear one name.
    parts: HashMap<PathBuf, usize>,
    names: HashMap<String, QueryId>,
    started: Option<ScanEnvironment>,
}

/// A query that is to read a table.
struct Wanted {
    spec: ScanSpec,
    query: Arc<Query>,
    source: Source,
}

/// A table that is open and not yet read.
struct Opened {
    spec: ScanSpec,
    environment: ScanEnvironment,
    waker: TableWaker,
    scan: Box<dyn Scan>,
    readers: Vec<(Wanted, Option<Vec<usize>>)>,
}

/// The parts of a query that is not known to anybody yet.
struct Made {
    instances: Vec<Arc<Instance<ArrowRows>>>,
    operators: Vec<OperatorSpec>,
    outlets: Vec<Arc<Outlet>>,
    /// Tables to be opened at the start.
    wanted: Vec<Wanted>,
    /// Those that are open.
    tables: Vec<Opened>,
    /// The instances, as workers know them.
    added: Vec<Unit>,
}

impl Submission {
    pub fn submit(&mut self, shared: &Arc<Shared>, plan: &QueryPlan) -> Result<QueryId, SubmitError> {
        let settings = plan.dataflow.settings.clone();
        let name = settings.name.clone();
        if self.names.contains_key(&name) {
            return Err(SubmitError::NameTaken { query: name });
        }
        let id = shared.query_id();
        let is_sink = |stage: &Stage<_, _>| matches!(stage, Stage::Sink(_));
        let sinks = plan.dataflow.nodes().iter().filter(|node| is_sink(&node.stage)).count();
        let query = Arc::new(Query::new(id, settings, sinks, shared.process.clone()));
        let parts_before = self.parts.clone();
        let mut opened = Vec::new();
        let made = self.make(shared, plan, &query, &mut opened);
        let Made { instances, operators, outlets, wanted, tables, added } = made.inspect_err(|_| {
            // Its files may be asked for again.
            opened.iter().for_each(|outlet| shared.sinks.discard(outlet));
            self.parts = parts_before;
        })?;
        self.waiting.extend(wanted);
        let spec = QuerySpec {
            id,
            target_ns: query.target_ns(),
            weight: query.settings.weight,
            qos: query.settings.qos.clone(),
        };
        let sheds = query.settings.shed;
        // Before anything of it runs: it may end at once, and who clears up after it looks for it here.
        let entry = Entry { query, instances, outlets, retired: false };
        shared.running.fetch_add(1, Ordering::AcqRel);
        shared.queries.write().insert(id, entry);
        shared.dispatch.add_query(spec, operators, &added);
        if sheds {
            shared.dispatch.allow_shedding(id);
            shared.sheds.store(true, Ordering::Relaxed);
        }
        self.names.insert(name, id);
        tables.into_iter().for_each(|opened| begin(shared, opened));
        Ok(id)
    }

    /// Makes the parts of a query and opens what it needs. Where it fails, outlets in `opened` are all that stays.
    fn make(
        &mut self,
        shared: &Arc<Shared>,
        plan: &QueryPlan,
        query: &Arc<Query>,
        opened: &mut Vec<Arc<Outlet>>,
    ) -> Result<Made, SubmitError> {
        let parts = &mut self.parts;
        let mut next_part = |table: &TableSpec| {
            let place = table.base.join(table.options.get("path").unwrap_or(&table.name));
            let next = parts.entry(place).or_insert(0);
            *next += 1;
            *next - 1
        };
        let mut builder = Builder {
            query,
            late: plan.late.as_ref(),
            batch_rows: shared.config.batch_rows,
            sinks: &shared.sinks,
            next_part: &mut next_part,
            opened,
        };
        // Held until the operators stand there: their ids follow each other.
        let mut units = shared.units.write();
        let first = OperatorId(units.len() as u32);
        let Expanded { instances, operators, sources, outlets } =
            expand(&plan.dataflow, query, first, shared.config.record, &mut builder)?;
        let wanted = sources.into_iter().filter_map(|source| {
            let Stage::Source { scan, .. } = &plan.dataflow.node(source.node).stage else { return None };
            Some(Wanted { spec: scan.clone(), query: query.clone(), source })
        });
        let mut wanted: Vec<Wanted> = wanted.collect();
        let mut tables = Vec::new();
        if let Some(environment) = &self.started {
            let start = ScanEnvironment::new(shared.clock.now(), environment.start_wall);
            let each =
                std::mem::take(&mut wanted).into_iter().map(|wanted| open(shared, vec![wanted], &start));
            tables = each.collect::<Result<Vec<Opened>, _>>()?;
        }
        let added: Vec<Unit> = instances.iter().cloned().map(Unit::Operator).collect();
        units.extend(added.iter().cloned());
        Ok(Made { instances, operators, outlets, wanted, tables, added })
    }

    /// How long it takes to open the tables of all queries so far, about: rows come due after that, so that none is late
    /// from the start.
    pub fn opening_ns(&self) -> u64 {
        // Of a file with its first piece decoded, on a core to itself: .1 to .3 ms.
        const TABLE_NS: u64 = 300_000;
        self.waiting.len() as u64 * TABLE_NS
    }

    /// Opens the tables of all queries so far; who comes later opens its own.
    pub fn start(&mut self, shared: &Arc<Shared>, environment: ScanEnvironment) -> Result<(), SubmitError> {
        self.started = Some(environment.clone());
        // All before the first row is read: what one of them opens may be what another writes.
        let mut opened: Vec<Opened> = by_table(std::mem::take(&mut self.waiting))
            .into_iter()
            .map(|wanted| open(shared, wanted, &environment))
            .collect::<Result<_, _>>()?;
        for opened in &mut opened {
            // A fault in what is read is told with the rows before it.
            let _ = opened.scan.prepare();
        }
        opened.into_iter().for_each(|opened| begin(shared, opened));
        Ok(())
    }
}

/// Those who read the same table, together.
fn by_table(waiting: Vec<Wanted>) -> Vec<Vec<Wanted>> {
    let mut places = HashMap::new();
    let mut tables: Vec<Vec<Wanted>> = Vec::new();
    for wanted in waiting {
        let place = *places.entry(Arc::as_ptr(&wanted.spec.table)).or_insert_with(|| {
            tables.push(Vec::new());
            tables.len() - 1
        });
        tables[place].push(wanted);
    }
    tables
}

/// Opens a table for these queries: it reads the union of their columns.
fn open(shared: &Shared, wanted: Vec<Wanted>, environment: &ScanEnvironment) -> Result<Opened, SubmitError> {
    let mut union: Vec<usize> = wanted.iter().flat_map(|wanted| &wanted.spec.columns).copied().collect();
    union.sort_unstable();
    union.dedup();
    let place_of = |column: &usize| union.binary_search(column).expect("part of the union");
    let places = |wanted: &Wanted| {
        let all = wanted.spec.columns == union;
        (!all).then(|| wanted.spec.columns.iter().map(place_of).collect())
    };
    let spec = ScanSpec { columns: union.clone(), ..wanted[0].spec.clone() };
    let waker = TableWaker::default();
    let environment = ScanEnvironment { waker: waker.waker(), ..environment.clone() };
    let scan = shared
        .connectors
        .open(&spec, &environment)
        .map_err(|source| SubmitError::Connect { query: wanted[0].query.settings.name.clone(), source })?;
    let readers = wanted
        .into_iter()
        .map(|wanted| {
            let columns = places(&wanted);
            (wanted, columns)
        })
        .collect();
    Ok(Opened { spec, environment, waker, scan, readers })
}

/// Lets those who wait for a table read it.
fn begin(shared: &Arc<Shared>, opened: Opened) {
    let Opened { spec, environment, waker, scan, readers } = opened;
    let reader = |(wanted, columns): (Wanted, Option<Vec<usize>>)| -> Reader<ArrowRows> {
        let Wanted { query, source, .. } = wanted;
        let Source { operator, follows_processing_time, .. } = source;
        let (start, skipped) = (environment.start, environment.skip_rows);
        Reader::new(query, operator, columns, follows_processing_time, start, skipped)
    };
    let readers = readers.into_iter().map(reader).collect();
    let table = shared.add_table(&waker, |id| {
        Table::new(shared.query_id(), spec, environment, Intake::new(id, readers), scan)
    });
    let now = shared.clock.now();
    shared.dispatch.appoint(table.id, now, now);
}
