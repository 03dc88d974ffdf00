//! The books of work that is done for several queries at once, which no single query's account would show; `laxity
//! simulate` reads them.

use std::sync::Arc;

use laxity_graph::OperatorId;
use parking_lot::Mutex;

use crate::{LookCosts, Query, RecordedArrival};

/// Where groups of readers write down what they do, one entry each: they may be gone when somebody asks.
pub type SharedRecords = Arc<Mutex<Vec<SharedWork>>>;

/// What readers of a table had done for them as one, for who wants to know what that costs.
#[derive(Clone, Debug, Default)]
pub struct SharedWork {
    /// What came.
    pub arrivals: Vec<RecordedArrival>,
    /// Of each batch: its columns, its watermark, and whose the rows are.
    pub batches: LookCosts,
    /// Handing rows to operators of one member alone; the rows are those handed over.
    pub handed: LookCosts,
    /// In the order that they joined in.
    pub members: Vec<SharedMember>,
    /// The work of those that are done as one.
    pub templates: Vec<TemplateWork>,
    /// Time of everything above, ns.
    pub spent_ns: u64,
}

/// One of the readers.
#[derive(Clone, Debug)]
pub struct SharedMember {
    /// Whose.
    pub query: Arc<Query>,
    /// The operator instance that would take the rows.
    pub source: OperatorId,
    /// Rows that were its.
    pub rows: u64,
    /// Of which template it is, if there are enough of them.
    pub template: Option<usize>,
}

/// What one operator did for all queries of a template.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TemplateWork {
    /// Batches taken in; the rows are those of members.
    pub taken: LookCosts,
    /// Times that windows were fired. What stands for rows are results: what one query has of one window.
    pub fired: LookCosts,
    /// Rows of these results.
    pub rows_out: u64,
}

/// One group's entry.
#[derive(Clone, Debug)]
pub(super) struct Record {
    records: SharedRecords,
    place: usize,
}

/// One template's, in the entry of its group.
#[derive(Clone, Debug)]
pub(super) struct TemplateRecord {
    record: Record,
    place: usize,
}

impl Record {
    /// An entry without a line.
    pub fn new(records: &SharedRecords) -> Record {
        let mut entries = records.lock();
        entries.push(SharedWork::default());
        Record { records: Arc::clone(records), place: entries.len() - 1 }
    }

    fn with<T>(&self, act: impl FnOnce(&mut SharedWork) -> T) -> T {
        act(&mut self.records.lock()[self.place])
    }

    /// One more member: its number here.
    pub fn joined(&self, query: &Arc<Query>, source: OperatorId, template: Option<usize>) -> usize {
        let query = Arc::clone(query);
        self.with(|work| {
            work.members.push(SharedMember { query, source, rows: 0, template });
            work.members.len() - 1
        })
    }

    /// So many rows were that member's.
    pub fn chosen(&self, of_members: impl Iterator<Item = (usize, u64)>) {
        self.with(|work| of_members.for_each(|(member, rows)| work.members[member].rows += rows));
    }

    /// A batch was filled and its rows found their members.
    pub fn filled(&self, arrival: RecordedArrival, ns: u64) {
        self.with(|work| {
            work.arrivals.push(arrival);
            work.batches.observe(u64::from(arrival.rows), ns);
            work.spent_ns += ns;
        });
    }

    /// A member got what was held for it.
    pub fn handed(&self, rows: u64, ns: u64) {
        self.with(|work| {
            work.handed.observe(rows, ns);
            work.spent_ns += ns;
        });
    }

    /// A template that is done as one from now on, by these members and those to come.
    pub fn template(&self, members: impl Iterator<Item = usize>) -> TemplateRecord {
        let place = self.with(|work| {
            work.templates.push(TemplateWork::default());
            let place = work.templates.len() - 1;
            members.for_each(|member| work.members[member].template = Some(place));
            place
        });
        TemplateRecord { record: self.clone(), place }
    }

    /// What was spent since the last such question, ns.
    pub fn take_spent_ns(&self, told: &mut u64) -> u64 {
        let spent_ns = self.with(|work| work.spent_ns);
        spent_ns - std::mem::replace(told, spent_ns)
    }
}

impl TemplateRecord {
    /// Among those of its group.
    pub fn place(&self) -> usize {
        self.place
    }

    pub fn taken(&self, rows: u64, ns: u64) {
        self.record.with(|work| {
            work.templates[self.place].taken.observe(rows, ns);
            work.spent_ns += ns;
        });
    }

    /// A piece of the work of firing windows.
    pub fn spent(&self, ns: u64) {
        self.record.with(|work| work.spent_ns += ns);
    }

    /// Windows were fired, in so long.
    pub fn fired(&self, results: u64, rows_out: u64, ns: u64) {
        self.record.with(|work| {
            let template = &mut work.templates[self.place];
            template.fired.observe(results, ns);
            template.rows_out += rows_out;
        });
    }
}
