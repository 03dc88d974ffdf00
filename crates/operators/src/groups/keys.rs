//! The keys of groups, numbered in order of appearance.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arrow::array::{ArrayRef, RecordBatch};
use arrow::compute::concat_batches;
use arrow::datatypes::SchemaRef;
use datafusion_common::Result;
use datafusion_expr::EmitTo;
use datafusion_physical_plan::aggregates::group_values::{GroupValues, new_group_values};
use datafusion_physical_plan::aggregates::order::GroupOrdering;

use super::few_keys::{FewKeys, Kind};
use super::key_columns::KeyColumns;
use crate::operator::FEW_ROWS_MAX;
use crate::row_store::RowStore;

/// What groups are told apart by.
pub(super) struct KeyPlan {
    pub(super) schema: SchemaRef,
    /// How [`FewKeys`] keeps each column; `None` where it cannot keep one of them.
    few: Option<Box<[Kind]>>,
    /// Groups are saved now and then: from the first time on keys are noted as they come, so that telling them takes
    /// nothing apart.
    is_noted: AtomicBool,
}

/// The keys of groups, numbered in order of appearance.
///
/// A message of a few rows and a window of a few groups are served by [`FewKeys`]: it costs neither a hash table per
/// slice nor an array per row. What outgrows it goes to DataFusion's `GroupValues`, which numbers groups alike, so that
/// nothing else notices.
pub(super) enum Keys {
    /// No key columns: one group.
    One,
    Few(FewKeys),
    Many(Many),
}

/// More keys than that.
pub(super) struct Many {
    values: Box<dyn GroupValues>,
    /// The same keys in their order: `GroupValues` gives them away only for good.
    noted: Option<RowStore>,
}

/// Pieces of so many keys noted are not put together any more.
const PIECE_ROWS: usize = 8_192;

impl KeyPlan {
    pub(super) fn new(schema: SchemaRef) -> KeyPlan {
        let few = schema.fields().iter().map(|field| Kind::of(field.data_type())).collect();
        KeyPlan { schema, few, is_noted: AtomicBool::new(false) }
    }

    fn many(&self) -> Result<Many> {
        let values = new_group_values(Arc::clone(&self.schema), &GroupOrdering::None)?;
        let noted = self.is_noted().then(|| RowStore::new(Arc::clone(&self.schema), PIECE_ROWS));
        Ok(Many { values, noted })
    }

    pub(super) fn is_noted(&self) -> bool {
        self.is_noted.load(Ordering::Relaxed)
    }

    /// Keys are noted from now on.
    pub(super) fn note(&self) {
        self.is_noted.store(true, Ordering::Relaxed);
    }
}

impl Many {
    fn intern(&mut self, plan: &KeyPlan, keys: &[ArrayRef], numbers: &mut Vec<usize>) -> Result<()> {
        let mut known = self.values.len();
        self.values.intern(keys, numbers)?;
        let Some(noted) = self.noted.as_mut().filter(|_| self.values.len() > known) else { return Ok(()) };
        // New keys are numbered as they come.
        let mut new = Vec::with_capacity(self.values.len() - known);
        for (row, &number) in (0..).zip(numbers.iter()) {
            if number == known {
                new.push(row);
                known += 1;
            }
        }
        let rows = RecordBatch::try_new(Arc::clone(&plan.schema), keys.to_vec())?;
        Ok(noted.push(&rows, (new.len() < rows.num_rows()).then_some(&new))?)
    }

    /// The keys by group. The first time takes them out and puts them back, unless they have been noted all along.
    fn arrays(&mut self, plan: &KeyPlan) -> Result<Vec<ArrayRef>> {
        let Some(noted) = &self.noted else {
            let keys = self.values.emit(EmitTo::All)?;
            plan.note();
            *self = plan.many()?;
            self.intern(plan, &keys, &mut Vec::new())?;
            return Ok(keys);
        };
        match noted.pieces() {
            [only] => Ok(only.columns().to_vec()),
            pieces => Ok(concat_batches(&plan.schema, pieces)?.columns().to_vec()),
        }
    }
}

impl Keys {
    pub(super) fn new(plan: &KeyPlan) -> Result<Keys> {
        Ok(match &plan.few {
            _ if plan.schema.fields().is_empty() => Keys::One,
            Some(kinds) => Keys::Few(FewKeys::new(kinds)),
            None => Keys::Many(plan.many()?),
        })
    }

    /// Finds the number of each row's group. Returns how many groups there are.
    pub(super) fn intern(
        &mut self,
        plan: &KeyPlan,
        columns: KeyColumns<'_>,
        rows: Range<usize>,
        numbers: &mut Vec<usize>,
    ) -> Result<usize> {
        numbers.clear();
        if let (Keys::Few(few), Some(kinds)) = (&mut *self, &plan.few) {
            // Larger batches go to `GroupValues` at once: there hashing a row costs less than comparing it.
            if rows.len() <= FEW_ROWS_MAX && few.intern(kinds, columns, rows.clone(), numbers) {
                return Ok(few.len());
            }
            let mut many = plan.many()?;
            if few.len() > 0 {
                many.intern(plan, &few.arrays(kinds), numbers)?;
            }
            *self = Keys::Many(many);
        }
        match self {
            Keys::Many(many) => {
                columns.with_arrays(rows, |arrays| many.intern(plan, arrays, numbers))?;
                Ok(many.values.len())
            }
            _ => {
                numbers.resize(rows.len(), 0);
                Ok(1)
            }
        }
    }

    /// The keys by group, leaving none.
    pub(super) fn emit(&mut self, plan: &KeyPlan) -> Result<Vec<ArrayRef>> {
        match self {
            Keys::One => Ok(Vec::new()),
            Keys::Few(few) => Ok(plan.few.as_ref().map_or_else(Vec::new, |kinds| few.arrays(kinds))),
            Keys::Many(many) => many.values.emit(EmitTo::All),
        }
    }

    /// The same, leaving all.
    pub(super) fn arrays(&mut self, plan: &KeyPlan) -> Result<Vec<ArrayRef>> {
        match self {
            Keys::Many(many) => many.arrays(plan),
            few => few.emit(plan),
        }
    }

    /// The same in pieces, one behind the other, which are not copied where there are many keys.
    pub(super) fn pieces(&mut self, plan: &KeyPlan) -> Result<Vec<Vec<ArrayRef>>> {
        match self {
            Keys::Many(Many { noted: Some(noted), .. }) => {
                Ok(noted.pieces().iter().map(|piece| piece.columns().to_vec()).collect())
            }
            few => Ok(vec![few.arrays(plan)?]),
        }
    }

    pub(super) fn bytes(&self) -> usize {
        match self {
            Keys::One => 0,
            Keys::Few(few) => few.bytes(),
            Keys::Many(many) => many.values.size() + many.noted.as_ref().map_or(0, RowStore::size_bytes),
        }
    }
}
