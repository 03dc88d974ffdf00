use std::collections::HashMap;
use std::sync::Arc;

use laxity_connect::TableSpec;
use laxity_graph::OperatorId;
use parking_lot::Mutex;

use crate::tables::Table;

/// The tables that are being read, to be found by who would read one too and by who ends everything.
#[derive(Default)]
pub(crate) struct OpenTables(Mutex<Inner>);

#[derive(Default)]
struct Inner {
    by_id: HashMap<OperatorId, Arc<Table>>,
    by_name: HashMap<String, Vec<OperatorId>>,
}

impl OpenTables {
    pub fn add(&self, table: Arc<Table>) {
        let mut inner = self.0.lock();
        inner.by_name.entry(table.spec.table.name.clone()).or_default().push(table.id);
        inner.by_id.insert(table.id, table);
    }

    /// False if it is not there any more: somebody else has removed it.
    pub fn remove(&self, table: &Table) -> bool {
        let mut inner = self.0.lock();
        // Its id may be another's by now.
        let is_it = inner.by_id.get(&table.id).is_some_and(|of_id| of_id.query == table.query);
        if !is_it {
            return false;
        }
        inner.by_id.remove(&table.id);
        let name = &table.spec.table.name;
        if let Some(ids) = inner.by_name.get_mut(name) {
            ids.retain(|&id| id != table.id);
            if ids.is_empty() {
                inner.by_name.remove(name);
            }
        }
        true
    }

    /// One that reads what this declares, with all of these columns if there is such a one.
    pub fn find(&self, spec: &TableSpec, columns: &[usize]) -> Option<Arc<Table>> {
        let inner = self.0.lock();
        let ids = inner.by_name.get(&spec.name)?;
        let alike = || {
            let tables = ids.iter().map(|id| &inner.by_id[id]);
            tables.filter(|table| table.spec.table.is(spec))
        };
        alike().find(|table| table.has_columns(columns)).or_else(|| alike().next()).cloned()
    }

    pub fn all(&self) -> Vec<Arc<Table>> {
        self.0.lock().by_id.values().cloned().collect()
    }

    #[cfg(test)]
    pub fn count(&self) -> usize {
        self.0.lock().by_id.len()
    }
}
