//! The queries of a process: their names, the ids of their operators, and how far each has come.
//!
//! An end has three steps. *Ended*: nothing of the query is written any more, whoever said so. *Retired*: it is out of the
//! tables it read, its messages are dropped and its state is freed. *Gone*: nothing of it is on its way anywhere, so that
//! its name and the ids of its operators can be given again. What is left then is its account, for who asks.
//!
//! The driver does what follows from each step, without this in its hands: [`Retiring`] says what.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use laxity_graph::{IdSpace, OperatorId, ProcessingTime, QueryId};

use crate::{Content, Instance, Outlet, Query};

/// See the module. `T` is what the driver knows a table by.
pub struct Registry<C: Content, T> {
    entries: BTreeMap<QueryId, Entry<C, T>>,
    /// By operator: whose it is, until nothing is on its way to it any more. `None` for tables.
    owners: Vec<Option<Arc<Query>>>,
    /// Of operators and tables.
    ids: IdSpace,
    /// Of queries that are not gone, and whose each is: of one that takes the place of another, its own.
    names: HashMap<String, QueryId>,
    /// Of queries and tables. Never given again.
    next_query: u32,
    /// Take in no more rows and work off what they have, until then at most.
    draining: Vec<(QueryId, ProcessingTime)>,
    /// Retired, and something is left of them.
    departing: Vec<QueryId>,
    running: usize,
}

/// A query, running or not.
pub struct Entry<C: Content, T> {
    /// The query.
    pub query: Arc<Query>,
    /// Its operators' instances. They stay for those who ask what they have done; none where others do its work.
    pub instances: Vec<Arc<Instance<C>>>,
    /// Where its results and late rows go; none once it is retired.
    pub outlets: Vec<Arc<Outlet>>,
    tables: Vec<T>,
    stage: Stage,
    /// Nobody will ask for its account.
    is_forgotten: bool,
}

/// How far a query has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// It may take rows in.
    Running,
    /// It takes no more in; what it has is worked off.
    Draining,
    /// Its messages are dropped and its state is freed.
    Retired,
    /// Nothing of it is on its way.
    Gone,
}

/// A name and ids for a query that is about to come.
#[derive(Clone, Debug)]
pub struct Reserved {
    /// What the scheduler will know it by.
    pub id: QueryId,
    /// The first of its operators; the others follow.
    pub first: OperatorId,
    name: String,
    operators: u32,
    /// Who had the name before.
    before: Option<QueryId>,
}

/// A query that has ended. What is to be done, in this order: no table admits anything for it any more; the scheduler
/// forgets it, and what it hands back is released; its instances are cleared and its outlets completed;
/// [`Registry::on_retired`].
pub struct Retiring<C: Content, T> {
    /// The query.
    pub query: Arc<Query>,
    /// Tables that it reads.
    pub tables: Vec<T>,
    /// Its instances.
    pub instances: Vec<Arc<Instance<C>>>,
    /// Its outlets.
    pub outlets: Vec<Arc<Outlet>>,
}

impl<C: Content, T> Default for Registry<C, T> {
    fn default() -> Registry<C, T> {
        Registry {
            entries: BTreeMap::new(),
            owners: Vec::new(),
            ids: IdSpace::default(),
            names: HashMap::new(),
            next_query: 0,
            draining: Vec::new(),
            departing: Vec::new(),
            running: 0,
        }
    }
}

impl<C: Content, T> Registry<C, T> {
    /// An id for a query or a table.
    pub fn query_id(&mut self) -> QueryId {
        self.next_query += 1;
        QueryId(self.next_query - 1)
    }

    /// Names and ids for a query of so many operators; `None` where its name is that of one that is not gone.
    pub fn reserve(&mut self, name: &str, operators: u32) -> Option<Reserved> {
        self.reserve_after(name, operators, None)
    }

    /// As [`reserve`](Registry::reserve), where the name may be that of a query that is about to end.
    pub fn reserve_after(&mut self, name: &str, operators: u32, ending: Option<QueryId>) -> Option<Reserved> {
        let before = self.names.get(name).copied();
        if before.is_some() && before != ending {
            return None;
        }
        let first = OperatorId(self.ids.take(operators));
        let id = self.query_id();
        self.names.insert(name.to_owned(), id);
        Some(Reserved { id, first, name: name.to_owned(), operators, before })
    }

    /// Nothing comes of it, and nothing knows its ids.
    pub fn withdraw(&mut self, reserved: &Reserved) {
        match reserved.before.filter(|&before| !self.is_gone(before)) {
            Some(before) => self.names.insert(reserved.name.clone(), before),
            None => self.names.remove(&reserved.name),
        };
        self.ids.give_back(reserved.first.0, reserved.operators);
    }

    /// The query is there, and may end from now on.
    pub fn enter(
        &mut self,
        reserved: &Reserved,
        query: Arc<Query>,
        instances: Vec<Arc<Instance<C>>>,
        outlets: Vec<Arc<Outlet>>,
    ) {
        self.own(reserved.first, reserved.operators, Some(&query));
        self.running += 1;
        let (tables, stage, is_forgotten) = (Vec::new(), Stage::Running, false);
        let entry = Entry { query, instances, outlets, tables, stage, is_forgotten };
        self.entries.insert(reserved.id, entry);
    }

    /// An operator's id for a table.
    pub fn table_id(&mut self) -> OperatorId {
        let id = OperatorId(self.ids.take(1));
        self.own(id, 1, None);
        id
    }

    /// The table is closed. Who still wakes it by its id may wake another: a look too many does no harm.
    pub fn give_back_table_id(&mut self, id: OperatorId) {
        self.ids.give_back(id.0, 1);
    }

    /// The query reads this table. False if there is no such query or it takes no more in: the table is to let go of it
    /// before it admits anything.
    #[must_use]
    pub fn reads(&mut self, id: QueryId, table: T) -> bool {
        let entry = self.entries.get_mut(&id).filter(|entry| entry.stage == Stage::Running);
        entry.map(|entry| entry.tables.push(table)).is_some()
    }

    /// Whether the query takes rows in.
    pub fn takes_in(&self, id: QueryId) -> bool {
        self.entries.get(&id).is_some_and(|entry| entry.stage == Stage::Running)
    }

    /// Whose operator that is, as long as something may be on its way to it.
    pub fn owner(&self, operator: OperatorId) -> Option<Arc<Query>> {
        self.owners.get(operator.index()).cloned().flatten()
    }

    /// Takes the operators of a query that others do the work of. Nothing is on its way to them; once the driver has let go
    /// of them, [`give_back`](Registry::give_back) their ids.
    pub fn relieve(&mut self, id: QueryId) -> Vec<Arc<Instance<C>>> {
        self.entries.get_mut(&id).map(|entry| std::mem::take(&mut entry.instances)).unwrap_or_default()
    }

    /// Ids of instances of one query that are gone.
    pub fn give_back(&mut self, instances: &[Arc<Instance<C>>]) {
        if let Some(first) = instances.first() {
            let operators = instances.len() as u32;
            self.own(first.id, operators, None);
            self.ids.give_back(first.id.0, operators);
        }
    }

    /// The query takes no more in, as soon as the driver has taken it out of the tables returned and [said
    /// so](Registry::drain). `None` if there is none, or it ends already.
    pub fn begin_to_drain(&mut self, id: QueryId) -> Option<(Arc<Query>, Vec<T>)>
    where
        T: Clone,
    {
        let entry = self.entries.get_mut(&id)?;
        if entry.stage != Stage::Running || entry.query.stopped() {
            return None;
        }
        entry.stage = Stage::Draining;
        // It keeps them: whoever retires it meanwhile must not believe that it has left them.
        Some((entry.query.clone(), entry.tables.clone()))
    }

    /// No table admits anything for it any more: what it has is worked off, until then at most.
    pub fn drain(&mut self, id: QueryId, until: ProcessingTime) {
        if let Some(entry) = self.entries.get_mut(&id).filter(|entry| entry.stage == Stage::Draining) {
            entry.tables.clear();
            self.draining.push((id, until));
        }
    }

    /// Draining queries that have nothing left, or no more time.
    pub fn drained(&mut self, now: ProcessingTime) -> Vec<Arc<Query>> {
        let entries = &self.entries;
        let mut drained = Vec::new();
        self.draining.retain(|(id, until)| {
            let Some(entry) = entries.get(id).filter(|entry| entry.stage == Stage::Draining) else {
                return false;
            };
            let ends = entry.query.drained() || now >= *until;
            if ends {
                drained.push(entry.query.clone());
            }
            !ends
        });
        drained
    }

    /// The query has ended. `None` if it is retired already.
    pub fn begin_to_retire(&mut self, id: QueryId) -> Option<Retiring<C, T>> {
        let is_on = |entry: &&mut Entry<C, T>| matches!(entry.stage, Stage::Running | Stage::Draining);
        let entry = self.entries.get_mut(&id).filter(is_on)?;
        entry.stage = Stage::Retired;
        Some(Retiring {
            query: entry.query.clone(),
            tables: std::mem::take(&mut entry.tables),
            instances: entry.instances.clone(),
            outlets: std::mem::take(&mut entry.outlets),
        })
    }

    /// All that [`Retiring`] asks for is done.
    pub fn on_retired(&mut self, id: QueryId) {
        self.running -= 1;
        self.departing.push(id);
    }

    /// Gives back names and ids of retired queries that nothing is left of. How many went.
    pub fn depart(&mut self) -> usize {
        let before = self.departing.len();
        for id in std::mem::take(&mut self.departing) {
            let Some(entry) = self.entries.get_mut(&id) else { continue };
            if !entry.query.drained() {
                self.departing.push(id);
                continue;
            }
            entry.stage = Stage::Gone;
            let name = &entry.query.settings.name;
            if self.names.get(name) == Some(&id) {
                self.names.remove(name);
            }
            let instances = entry.instances.clone();
            if entry.is_forgotten {
                self.entries.remove(&id);
            }
            self.give_back(&instances);
        }
        before - self.departing.len()
    }

    /// True while something of a retired query, or a draining one, may change by itself.
    pub fn is_waiting(&self) -> bool {
        !self.departing.is_empty() || !self.draining.is_empty()
    }

    /// Lets go of the account of a query that has ended. `None` if there is none, or it runs.
    pub fn forget(&mut self, id: QueryId) -> Option<Arc<Query>> {
        let entry = self.entries.get_mut(&id);
        let entry = entry.filter(|entry| entry.query.stopped() && !entry.is_forgotten)?;
        entry.is_forgotten = true;
        let query = entry.query.clone();
        if entry.stage == Stage::Gone {
            self.entries.remove(&id);
        }
        Some(query)
    }

    /// A query, by its id.
    pub fn get(&self, id: QueryId) -> Option<&Entry<C, T>> {
        self.entries.get(&id)
    }

    /// All of them, in order of submission.
    pub fn entries(&self) -> impl Iterator<Item = &Entry<C, T>> {
        self.entries.values()
    }

    /// True if nothing of it is on its way any more, or there is none.
    pub fn is_gone(&self, id: QueryId) -> bool {
        self.entries.get(&id).is_none_or(|entry| entry.stage == Stage::Gone)
    }

    /// Queries that are not retired.
    pub fn running(&self) -> usize {
        self.running
    }

    /// What it holds: entries, names, owned operators, and the ids that tables by id have to have room for.
    pub fn held(&self) -> Held {
        Held {
            entries: self.entries.len(),
            names: self.names.len(),
            owned: self.owners.iter().flatten().count(),
            ids_bound: self.ids.bound(),
        }
    }

    fn own(&mut self, first: OperatorId, operators: u32, query: Option<&Arc<Query>>) {
        let bound = first.index() + operators as usize;
        if self.owners.len() < bound {
            self.owners.resize(bound, None);
        }
        self.owners[first.index()..bound].fill(query.cloned());
    }
}

/// See [`Registry::held`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Held {
    /// Queries, running or not forgotten.
    pub entries: usize,
    /// Names that are taken.
    pub names: usize,
    /// Operators of queries that are not gone.
    pub owned: usize,
    /// One more than the largest operator id so far.
    pub ids_bound: u32,
}

impl<C: Content, T> Entry<C, T> {
    /// How far it has come.
    pub fn stage(&self) -> Stage {
        self.stage
    }

    /// Tables that it reads.
    pub fn tables(&self) -> &[T] {
        &self.tables
    }
}
