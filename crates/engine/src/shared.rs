//! The state that workers, writers and callers have in common, and what each of them does with tables and outputs
//! through it. Who adds a lock reads the order of locks first.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use laxity_connect::{ScanEnvironment, ScanPosition, Wait, Waiting};
use laxity_graph::{OperatorId, QueryId};
use laxity_runtime::{
    ArrowRows, Entry, InFlight, Intake, Look, Parcel, Process, Query, Registry, SharedRecords, Split, Write,
};
use parking_lot::{Condvar, Mutex, RwLock};

use crate::chain_of_causes;
use crate::checkpoints::Checkpoints;
use crate::clock::Clock;
use crate::config::EngineConfig;
use crate::dispatch::Dispatch;
use crate::keeper::Alarm;
use crate::load::Load;
use crate::open_tables::OpenTables;
use crate::restarts::Restarts;
use crate::sink_io::SinkPool;
use crate::snapshot::QuerySnapshot;
use crate::tables::{Connectors, Looked, Table, TableContext, TableWaker};
use crate::worker_times::WorkerTimes;

/// What all threads of an engine see.
///
/// Locks are taken in the order of the fields, where more than one is; none is held while a shard's is waited for.
pub(crate) struct Shared {
    pub clock: Clock,
    pub config: EngineConfig,
    pub connectors: Connectors,
    pub registry: RwLock<Registry<ArrowRows, Arc<Table>>>,
    pub open_tables: OpenTables,
    pub dispatch: Dispatch,
    pub process: Arc<Process>,
    /// Rung when there is something to clear up.
    pub alarm: Arc<Alarm>,
    pub sinks: Arc<SinkPool>,
    pub checkpoints: Checkpoints,
    pub restarts: Restarts,
    /// Some query allows rows to be dropped or left out.
    pub relieves: AtomicBool,
    /// How busy the workers are.
    pub load: Load,
    /// By worker.
    pub worker_times: Vec<WorkerTimes>,
    /// Signalled when a query ends.
    pub ended: Condvar,
    pub ended_lock: Mutex<()>,
    pub stopping: AtomicBool,
    /// What is done as one, where the configuration says to keep that.
    pub shared_work: SharedRecords,
}

impl Shared {
    /// Looks at a table, on the thread of the caller. What it admits goes to `staged`, results that it makes to the sinks.
    pub(crate) fn look_at(
        self: &Arc<Shared>,
        table: &Arc<Table>,
        staged: &mut Vec<Parcel<ArrowRows>>,
    ) -> Looked {
        let context = self.table_context();
        let relief = |source, rows, leaves_out, now| self.dispatch.relief(source, rows, leaves_out, now);
        let mut writes = Vec::new();
        let mut looked = table.attend(&context, relief, staged, &mut writes);
        self.write(&mut writes);
        if !looked.seated.is_empty() {
            self.relieve(std::mem::take(&mut looked.seated));
        }
        if let Some(split) = looked.split.take() {
            self.split(table, split, looked.resume.take());
        }
        if self.stopping.load(Ordering::Relaxed) {
            looked.look = None;
        }
        if looked.is_done {
            self.remove_table(table);
        }
        looked
    }

    /// Closes a table once what is due of it has been handed over.
    pub(crate) fn complete(&self, table: &Table) {
        let (mut staged, mut writes) = (Vec::new(), Vec::new());
        table.complete(&self.table_context(), &mut staged, &mut writes);
        self.write(&mut writes);
        self.hand_over(&mut staged);
    }

    fn table_context(&self) -> TableContext<'_> {
        TableContext {
            clock: &self.clock,
            quantum_ns: self.config.quantum.as_nanos() as u64,
            backlog_bytes: self.config.backlog_bytes,
            memory: &self.process.memory,
            // Threads of their own know of no load: a table then keeps the distance that costs the least.
            load: if let Dispatch::Threads(_) = self.dispatch { 1.0 } else { self.load.get() },
            relieves: &self.relieves,
        }
    }

    /// Opens a copy of a table for readers that hold up the others.
    fn split(self: &Arc<Shared>, table: &Table, split: Split<ArrowRows>, resume: Option<ScanPosition>) {
        let waker = TableWaker::default();
        let environment = ScanEnvironment {
            skip_rows: if resume.is_some() { 0 } else { split.position.rows },
            resume,
            waker: waker.waker(),
            waiting: Waiting::default(),
            ..table.environment.clone()
        };
        match self.connectors.open(&table.spec, &environment) {
            Ok(scan) => {
                let readers: Vec<Arc<Query>> = split.readers().map(|reader| reader.query.clone()).collect();
                let (id, query) = self.table_ids();
                let intake = Intake::of_split(id, split);
                let copy = Table::new(query, table.spec.clone(), environment, intake, scan);
                let copy = self.add_table(copy, &waker, &readers);
                table.space();
                self.retarget(table);
                self.dispatch.wake(copy.id, self.clock.now());
            }
            Err(error) => split.fail(&chain_of_causes(&error)),
        }
    }

    /// What a table is to be known by.
    pub(crate) fn table_ids(&self) -> (OperatorId, QueryId) {
        let mut registry = self.registry.write();
        (registry.table_id(), registry.query_id())
    }

    /// Registers a table that these queries read. It rests until it is woken.
    pub(crate) fn add_table(
        self: &Arc<Shared>,
        table: Table,
        waker: &TableWaker,
        readers: &[Arc<Query>],
    ) -> Arc<Table> {
        let table = Arc::new(table);
        let id = table.id;
        let mut registry = self.registry.write();
        let ended = |reader: &&Arc<Query>| !registry.reads(reader.id, table.clone());
        let ended: Vec<&Arc<Query>> = readers.iter().filter(ended).collect();
        drop(registry);
        // They took their leave of their tables while this one was not known. Where nobody is left, the first look ends it.
        for query in ended {
            table.leave(query, &self.process.memory);
        }
        self.open_tables.add(table.clone());
        let (spec, operator) = Look::unit(table.query, id, table.target_ns());
        let reader = if let [reader] = readers { Some(reader.id) } else { None };
        self.dispatch.add_table(spec, operator, &table, reader);
        let shared = Arc::downgrade(self);
        waker.wakes_by(move || {
            if let Some(shared) = shared.upgrade() {
                shared.wake(vec![id]);
            }
        });
        table
    }

    pub(crate) fn remove_table(&self, table: &Table) {
        self.hand_over(&mut table.close());
        // Once, whoever finds out that it is done.
        if self.open_tables.remove(table) {
            self.dispatch.remove_query(table.query, &[table.id], self.clock.now());
            self.registry.write().give_back_table_id(table.id);
        }
    }

    /// The nearest target of those who read the table may be another.
    pub(crate) fn retarget(&self, table: &Table) {
        if table.is_retargeted() {
            let (spec, _) = Look::unit(table.query, table.id, table.target_ns());
            self.dispatch.alter_query(spec, self.clock.now());
        }
    }

    /// Lets go of the operators of queries whose work is done with that of others from their first row on.
    pub(crate) fn relieve(&self, seated: impl IntoIterator<Item = QueryId>) {
        // Who records asks every operator of every query what it has cost.
        for query in seated.into_iter().filter(|_| !self.config.record) {
            let instances = self.registry.write().relieve(query);
            let ids: Vec<OperatorId> = instances.iter().map(|instance| instance.id).collect();
            // What was restored of it has been taken over; one that is held is being saved as it was before.
            for instance in instances.iter().filter(|instance| !instance.query.is_held()) {
                let _nobody_waits = instance.clear();
            }
            let unsent = self.dispatch.remove_query(query, &ids, self.clock.now());
            debug_assert!(unsent.is_empty(), "nothing has been admitted for it yet");
            // Only now: who is given them next adds them to the same scheduler.
            self.registry.write().give_back(&instances);
        }
    }

    /// Tables that wait for credit which is back.
    pub(crate) fn wake(&self, tables: Vec<OperatorId>) {
        let now = self.clock.now();
        tables.into_iter().for_each(|table| self.dispatch.wake(table, now));
    }

    /// Gives what a run has made to the sinks.
    pub(crate) fn write(&self, writes: &mut Vec<Write<ArrowRows>>) {
        writes.drain(..).for_each(|write| self.sinks.write(write));
    }

    /// Whom a query waits for outside: at its tables, its outputs and its checkpoints, each once.
    pub(crate) fn waits(&self, entry: &Entry<ArrowRows, Arc<Table>>) -> Vec<Wait> {
        if entry.query.failed() {
            return self.restarts.wait_of(entry.query.id).into_iter().collect();
        }
        let tables = entry.tables().iter().filter_map(|table| table.environment.waiting.get());
        let outputs = self.sinks.waits_of(entry.query.id);
        let mut waits: Vec<Wait> =
            tables.chain(outputs).chain(self.checkpoints.wait_of(entry.query.id)).collect();
        waits.sort_by(|one, other| one.service.cmp(&other.service).then(one.since.cmp(&other.since)));
        waits.dedup_by(|one, other| one.service == other.service);
        waits
    }

    /// How a query stands.
    pub(crate) fn snapshot_of(&self, entry: &Entry<ArrowRows, Arc<Table>>) -> QuerySnapshot {
        let ladder = self.dispatch.ladder(entry.query.id);
        QuerySnapshot { waiting: self.waits(entry), ..QuerySnapshot::of(&entry.query, ladder, &self.clock) }
    }

    /// Something of a query is done with.
    pub(crate) fn release(&self, query: &Query, one: InFlight) {
        if query.release(one) {
            self.wake(query.wake());
        }
    }

    /// Gives messages to those they are for.
    pub(crate) fn hand_over(&self, messages: &mut Vec<Parcel<ArrowRows>>) {
        if messages.is_empty() {
            return;
        }
        self.dispatch.enqueue(messages, self.clock.now());
        self.refuse(messages);
    }

    /// Lets go of messages to operators that are gone: their query has ended.
    pub(crate) fn refuse(&self, messages: &mut Vec<Parcel<ArrowRows>>) {
        for message in messages.drain(..) {
            // It is still known: what is on its way keeps it from being forgotten.
            let owner = self.registry.read().owner(message.to);
            if let Some(query) = owner.filter(|_| !message.body.is_look()) {
                self.release(&query, InFlight::one(message.rows, message.bytes));
            }
        }
    }

    pub(crate) fn all_ended(&self) -> bool {
        // Asked first: what is started again is counted among those that run before it is no longer to be started.
        !self.restarts.is_pending() && self.registry.read().running() == 0
    }

    /// Nothing is to begin any more.
    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire) || self.checkpoints.is_stopping()
    }
}
