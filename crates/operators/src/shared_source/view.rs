//! Queries that keep the same rows of a table and compute something of each (those of one CREATE VIEW, in whatever shape
//! they go on): the filter is asked once a batch, and an expression is computed once, however many select it.
//!
//! Each query says for itself what it selects. So one that reads two columns of a view computes no third, and a row that
//! makes an expression fail is the fault of those alone who asked for it.

mod program;
mod spec;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use arrow::array::{RecordBatch, RecordBatchOptions};
use arrow::datatypes::{FieldRef, Schema};
use datafusion_physical_expr::PhysicalExpr;

use self::program::{Plan, Program};
pub(super) use self::spec::ViewRows;
pub use self::spec::ViewSpec;
use self::spec::{Place, renumbered};
use crate::expression::internal;
use crate::{OperatorError, SourceColumn, SourceSpec, StreamBatch, WatermarkSpec};

/// What is done for all members of a view behind its source.
pub(super) struct View {
    /// Of the first member, for what all have in common.
    first: Arc<ViewSpec>,
    /// Columns of the table that the source fills, behind those that it computes. More may come, none go.
    columns: Vec<(usize, FieldRef)>,
    computed: Vec<FieldRef>,
    /// What comes out. One that nobody uses is another's next.
    slots: Vec<Slot>,
    /// Those in use, and the others.
    slot_of: HashMap<Arc<dyn PhysicalExpr>, usize>,
    free: Vec<usize>,
    members: BTreeMap<u32, Member>,
    /// `None` where something has come or gone since it was made.
    program: Option<Program>,
    /// The source fills fewer columns than it should.
    reads_more: bool,
    failed: Vec<(u32, OperatorError)>,
}

struct Slot {
    /// Over the table.
    expr: Arc<dyn PhysicalExpr>,
    users: u32,
}

struct Member {
    spec: Arc<ViewSpec>,
    /// Its columns among the slots.
    slots: Vec<usize>,
}

const NAME: &str = "shared view";

impl View {
    /// One that nobody has joined.
    pub fn new(first: &Arc<ViewSpec>) -> View {
        let fields = first.columns().filter(|(place, _)| matches!(place, Place::Computed(_)));
        let mut view = View {
            first: Arc::clone(first),
            columns: Vec::new(),
            computed: fields.map(|(_, field)| Arc::clone(field)).collect(),
            slots: Vec::new(),
            slot_of: HashMap::new(),
            free: Vec::new(),
            members: BTreeMap::new(),
            program: None,
            reads_more: false,
            failed: Vec::new(),
        };
        view.take_columns(first);
        view.reads_more = false;
        view
    }

    /// Another with the same rows, that nobody has joined. Its source fills the same columns.
    pub fn fork(&self) -> View {
        View { columns: self.columns.clone(), reads_more: self.reads_more, ..View::new(&self.first) }
    }

    fn rows(&self) -> &ViewRows {
        &self.first.rows
    }

    /// Whether it has the rows that this one asks for.
    pub fn serves(&self, spec: &ViewSpec) -> bool {
        *self.rows() == spec.rows
    }

    pub fn join(&mut self, number: u32, spec: &Arc<ViewSpec>) {
        let slots = spec.selected.iter().map(|expr| self.slot(expr)).collect();
        if !spec.inner.is_empty() {
            self.program = None;
        }
        self.members.insert(number, Member { spec: Arc::clone(spec), slots });
        self.take_columns(spec);
    }

    /// Whether its source has to be made again, asked once.
    pub fn reads_more(&mut self) -> bool {
        std::mem::take(&mut self.reads_more)
    }

    fn slot(&mut self, expr: &Arc<dyn PhysicalExpr>) -> usize {
        if let Some(&known) = self.slot_of.get(expr) {
            self.slots[known].users += 1;
            return known;
        }
        self.program = None;
        let slot = Slot { expr: Arc::clone(expr), users: 1 };
        let place = match self.free.pop() {
            Some(free) => {
                self.slots[free] = slot;
                free
            }
            None => {
                self.slots.push(slot);
                self.slots.len() - 1
            }
        };
        self.slot_of.insert(Arc::clone(expr), place);
        place
    }

    pub fn leave(&mut self, number: u32) {
        let Some(member) = self.members.remove(&number) else { return };
        if !member.spec.inner.is_empty() {
            self.program = None;
        }
        for place in member.slots {
            let slot = &mut self.slots[place];
            slot.users -= 1;
            if slot.users == 0 {
                self.slot_of.remove(&slot.expr);
                self.free.push(place);
                self.program = None;
            }
        }
    }

    fn take_columns(&mut self, spec: &ViewSpec) {
        let before = self.columns.len();
        for (place, field) in spec.columns() {
            if let Place::Table(column) = place
                && self.columns.iter().all(|(known, _)| *known != column)
            {
                self.columns.push((column, Arc::clone(field)));
            }
        }
        if self.columns.len() > before {
            self.program = None;
            self.reads_more = true;
        }
    }

    /// Where the source puts a column: those computed first, so that nothing moves when more are filled.
    fn column_of(&self, place: Place) -> Option<usize> {
        match place {
            Place::Computed(column) => Some(column),
            Place::Table(column) => {
                let known = self.columns.iter().position(|(known, _)| *known == column)?;
                Some(self.computed.len() + known)
            }
        }
    }

    fn over_source(&self, expr: &Arc<dyn PhysicalExpr>) -> Result<Arc<dyn PhysicalExpr>, OperatorError> {
        let over = renumbered(expr, |number| self.column_of(Place::of_number(number)));
        over.map_err(|error| internal(NAME, error))
    }

    /// The source that fills what all of them read.
    ///
    /// # Errors
    /// If a column is missing.
    pub fn source(&self) -> Result<SourceSpec, OperatorError> {
        let rows = self.rows();
        let computed = rows.computed.iter().map(|expr| SourceColumn::Computed(Arc::clone(expr)));
        let columns = self.columns.iter().map(|(column, _)| SourceColumn::Physical(*column));
        let fields = self.computed.iter().chain(self.columns.iter().map(|(_, field)| field)).cloned();
        let column = |number: usize| {
            let column = self.column_of(Place::of_number(number));
            column.ok_or_else(|| internal(NAME, "a column of the watermark is missing"))
        };
        let watermark = rows.watermark.as_ref().map(|watermark| {
            Ok::<_, OperatorError>(WatermarkSpec {
                time_column: column(watermark.time_column)?,
                expression: self.over_source(&watermark.expression)?,
                max_ahead_ms: watermark.max_ahead_ms,
                split_column: watermark.split_column.map(column).transpose()?,
            })
        });
        Ok(SourceSpec {
            columns: computed.chain(columns).collect(),
            output_schema: Arc::new(Schema::new(fields.collect::<Vec<_>>())),
            watermark: watermark.transpose()?,
            ..self.first.source.clone()
        })
    }

    /// What rows of the source are to the members; `None` if none of them is kept. Members over whose expressions a row fails
    /// are [left out](View::take_failed).
    ///
    /// # Errors
    /// If the parts do not fit each other.
    pub fn calculate(&mut self, batch: StreamBatch) -> Result<Option<StreamBatch>, OperatorError> {
        if batch.num_rows() == 0 || self.members.is_empty() {
            return Ok(None);
        }
        let mut program = match self.program.take() {
            Some(program) => program,
            None => self.program_of(&batch, |_| true)?,
        };
        match program.run(batch.clone()) {
            Ok(calculated) => {
                self.program = Some(program);
                Ok(calculated)
            }
            Err(_) => self.calculate_without_failing(batch),
        }
    }

    /// For those who do not fail alone.
    #[cold]
    fn calculate_without_failing(
        &mut self,
        batch: StreamBatch,
    ) -> Result<Option<StreamBatch>, OperatorError> {
        let fault = |(number, member): (&u32, &Member)| {
            Some((*number, member.spec.fault(&batch, |place| self.column_of(place))?))
        };
        self.failed = self.members.iter().filter_map(fault).collect();
        if self.failed.len() == self.members.len() {
            return Ok(None);
        }
        let has_failed = |number: u32| self.failed.iter().any(|(failed, _)| *failed == number);
        self.program_of(&batch, |number| !has_failed(number))?.run(batch)
    }

    /// What is to be done for these members.
    fn program_of(
        &self,
        batch: &StreamBatch,
        is_for: impl Fn(u32) -> bool,
    ) -> Result<Program, OperatorError> {
        let members = || self.members.iter().filter(|(number, _)| is_for(**number)).map(|(_, member)| member);
        let mut selected = vec![None; self.slots.len()];
        for &slot in members().flat_map(|member| &member.slots) {
            if selected[slot].is_none() {
                selected[slot] = Some(self.over_source(&self.slots[slot].expr)?);
            }
        }
        let mut known = HashSet::new();
        let inner = members().flat_map(|member| &member.spec.inner).filter(|one| known.insert(*one));
        let inner = inner.map(|(step, expr)| Ok((*step, self.over_source(expr)?)));
        let predicates = self.rows().predicates.iter().map(|predicate| self.over_source(predicate));
        Program::new(Plan {
            input: batch.rows.schema(),
            predicates: predicates.collect::<Result<_, _>>()?,
            inner: inner.collect::<Result<_, OperatorError>>()?,
            selected,
        })
    }

    /// Members that have failed since this was asked last, and what each has to say of it.
    pub fn take_failed(&mut self) -> Vec<(u32, OperatorError)> {
        std::mem::take(&mut self.failed)
    }

    pub fn members(&self) -> impl Iterator<Item = u32> {
        self.members.keys().copied()
    }

    /// A batch as this member sees it.
    ///
    /// # Errors
    /// If it was calculated before the member was there.
    pub fn of_member(&self, number: u32, batch: &StreamBatch) -> Result<StreamBatch, OperatorError> {
        let member = self.members.get(&number).ok_or_else(|| internal(NAME, "it is not a member"))?;
        let columns = member.slots.iter().map(|slot| batch.rows.columns().get(*slot).cloned());
        let columns = columns.collect::<Option<Vec<_>>>().unwrap_or_default();
        let count = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        let rows = RecordBatch::try_new_with_options(Arc::clone(&member.spec.schema), columns, &count);
        let rows = rows.map_err(|error| internal(NAME, error))?;
        Ok(StreamBatch { rows, watermark_before: batch.watermark_before.clone() })
    }
}

#[cfg(test)]
mod tests;
