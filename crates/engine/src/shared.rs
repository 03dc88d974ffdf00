use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use laxity_connect::ScanEnvironment;
use laxity_graph::{OperatorId, QueryId};
use laxity_runtime::{
    ArrowRows, InFlight, Instance, Intake, Look, Outlet, Parcel, Process, Query, Split, Write,
};
use parking_lot::{Condvar, Mutex, RwLock};

use crate::chain_of_causes;
use crate::clock::Clock;
use crate::config::EngineConfig;
use crate::dispatch::Dispatch;
use crate::load::Load;
use crate::sink_io::SinkPool;
use crate::tables::{Connectors, Looked, Table, TableContext, TableWaker};
use crate::worker::{Unit, WorkerTimes};

/// What all threads of an engine see.
///
/// Locks are taken in the order of the fields, where more than one is; none is held while a shard's is waited for, but
/// those above `units` by who adds or removes a query.
pub(crate) struct Shared {
    pub clock: Clock,
    pub config: EngineConfig,
    pub connectors: Connectors,
    pub queries: RwLock<BTreeMap<QueryId, Entry>>,
    /// By operator.
    pub units: RwLock<Vec<Unit>>,
    /// Of queries and tables.
    pub next_query: AtomicUsize,
    pub dispatch: Dispatch,
    pub process: Arc<Process>,
    pub sinks: Arc<SinkPool>,
    /// Some query allows rows to be dropped.
    pub sheds: AtomicBool,
    /// How busy the workers are.
    pub load: Load,
    /// By worker.
    pub worker_times: Vec<WorkerTimes>,
    /// Queries that have not ended.
    pub running: AtomicUsize,
    /// Signalled when a query ends.
    pub ended: Condvar,
    pub ended_lock: Mutex<()>,
    pub stopping: AtomicBool,
}

/// A query, running or not.
pub(crate) struct Entry {
    pub query: Arc<Query>,
    pub instances: Vec<Arc<Instance<ArrowRows>>>,
    pub outlets: Vec<Arc<Outlet>>,
    /// Its messages are dropped and its state is freed.
    pub retired: bool,
}

impl Shared {
    /// An id for a query or a table.
    pub(crate) fn query_id(&self) -> QueryId {
        QueryId(self.next_query.fetch_add(1, Ordering::Relaxed) as u32)
    }

    /// Looks at a table, on the thread of the caller. What it admits goes to `staged`.
    pub(crate) fn look_at(
        self: &Arc<Shared>,
        table: &Arc<Table>,
        staged: &mut Vec<Parcel<ArrowRows>>,
    ) -> Looked {
        let context = TableContext {
            clock: &self.clock,
            quantum_ns: self.config.quantum.as_nanos() as u64,
            backlog_bytes: self.config.backlog_bytes,
            memory: &self.process.memory,
            // Threads of their own know of no load: a table then keeps the distance that costs the least.
            load: if let Dispatch::Threads(_) = self.dispatch { 1.0 } else { self.load.get() },
            sheds: &self.sheds,
        };
        let shed = |source, rows, now| self.dispatch.rows_to_shed(source, rows, now);
        let mut looked = table.attend(&context, shed, staged);
        if let Some(split) = looked.split.take() {
            self.split(table, split);
        }
        if self.stopping.load(Ordering::Relaxed) {
            looked.look = None;
        }
        if looked.is_done {
            self.remove_table(table);
        }
        looked
    }

    /// Opens a copy of a table for readers that hold up the others.
    fn split(self: &Arc<Shared>, table: &Table, split: Split<ArrowRows>) {
        let waker = TableWaker::default();
        let environment =
            ScanEnvironment { skip_rows: split.skip_rows, waker: waker.waker(), ..table.environment.clone() };
        match self.connectors.open(&table.spec, &environment) {
            Ok(scan) => {
                let make = |id| {
                    let intake = Intake::of_split(id, split);
                    Table::new(self.query_id(), table.spec.clone(), environment, intake, scan)
                };
                let copy = self.add_table(&waker, make);
                self.dispatch.wake(copy.id, self.clock.now());
            }
            Err(error) => split.fail(&chain_of_causes(&error)),
        }
    }

    /// Registers a table made with the id that it is given. It rests until it is woken.
    pub(crate) fn add_table(
        self: &Arc<Shared>,
        waker: &TableWaker,
        make: impl FnOnce(OperatorId) -> Table,
    ) -> Arc<Table> {
        let mut units = self.units.write();
        let id = OperatorId(units.len() as u32);
        let table = Arc::new(make(id));
        units.push(Unit::Table(table.clone()));
        drop(units);
        let (spec, operator) = Look::unit(table.query, id, table.target_ns());
        self.dispatch.add_query(spec, vec![operator], &[Unit::Table(table.clone())]);
        waker.belong_to(self, id);
        table
    }

    pub(crate) fn remove_table(&self, table: &Table) {
        table.close();
        self.dispatch.remove_query(table.query, self.clock.now());
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
        // Their query has ended.
        for message in messages.drain(..) {
            let unit = self.units.read()[message.to.index()].clone();
            if let Unit::Operator(instance) = unit {
                self.release(&instance.query, InFlight::one(message.rows, message.bytes));
            }
        }
    }

    pub(crate) fn all_ended(&self) -> bool {
        self.running.load(Ordering::Acquire) == 0
    }

    /// What the keeper thread does: clears up after ended queries, and watches the memory bound.
    pub(crate) fn keep(&self) {
        const PERIOD: Duration = Duration::from_nanos(laxity_runtime::Load::PERIOD_NS);
        let mut seen = laxity_runtime::Load::default();
        while !self.stopping.load(Ordering::Acquire) {
            std::thread::sleep(PERIOD);
            self.load.observe(&self.worker_times, self.clock.now(), &mut seen);
            let memory = &self.process.memory;
            if memory.is_over() {
                let running: Vec<Arc<Query>> =
                    self.queries.read().values().map(|entry| entry.query.clone()).collect();
                memory.relieve(&running, self.clock.now());
            }
            self.dispatch.on_memory(memory.used_bytes(), memory.limit_bytes());
            self.process.take_ended().into_iter().for_each(|query| self.retire(query));
        }
    }

    /// Clears up after a query that has ended.
    pub(crate) fn retire(&self, id: QueryId) {
        let mut queries = self.queries.write();
        let Some(entry) = queries.get_mut(&id).filter(|entry| !entry.retired) else { return };
        entry.retired = true;
        let query = entry.query.clone();
        // The instances stay for those who ask what they have done.
        let (instances, outlets) = (entry.instances.clone(), std::mem::take(&mut entry.outlets));
        drop(queries);
        for message in self.dispatch.remove_query(id, self.clock.now()) {
            self.release(&query, InFlight::one(message.rows, message.bytes));
        }
        for instance in &instances {
            if instance.clear() {
                self.wake(query.wake());
            }
        }
        outlets.iter().for_each(|outlet| self.sinks.close(outlet));
        self.running.fetch_sub(1, Ordering::AcqRel);
        let _guard = self.ended_lock.lock();
        self.ended.notify_all();
    }
}
