//! What operators hold, as tables: for checkpoints, and for whoever wants to read one.

use std::sync::{Arc, LazyLock};

use arrow::array::{
    Array, ArrayRef, ArrowPrimitiveType, AsArray, BooleanArray, ListArray, PrimitiveArray, RecordBatch,
};
use arrow::buffer::{OffsetBuffer, ScalarBuffer};
use arrow::compute::concat_batches;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};

/// What an operator instance holds between two messages, as tables that anybody can read. Of one that holds nothing, none.
///
/// Instants of the process ([`ProcessingTime`](laxity_graph::ProcessingTime)) are not in it: they mean nothing to the next.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OperatorState {
    /// The tables. Their order means nothing: a part is found by its name.
    pub parts: Vec<StatePart>,
    /// More of them, not made yet: see [`whole`](OperatorState::whole).
    pub later: Vec<LaterParts>,
}

/// Tables of what an operator has handed out, to be made when nobody waits: a query is held while its operators are saved. They are
/// made one after the other, so that memory is needed for one of them at a time.
#[derive(Clone)]
pub struct LaterParts(Arc<dyn Fn(usize) -> MadeParts + Send + Sync>);

type MadeParts = Box<dyn Iterator<Item = Result<StatePart>> + Send>;

/// One table of it.
#[derive(Clone, Debug, PartialEq)]
pub struct StatePart {
    /// In kebab case, unique within the operator's state, and stable: part of the format.
    pub name: String,
    /// The table.
    pub rows: RecordBatch,
    /// More of its rows, where it is so large that they are not put together.
    pub more: Vec<RecordBatch>,
}

impl StatePart {
    /// One of these rows.
    pub fn new(name: impl Into<String>, rows: RecordBatch) -> StatePart {
        StatePart { name: name.into(), rows, more: Vec::new() }
    }

    /// Its name, and its rows in their order.
    pub fn into_pieces(self) -> (String, Vec<RecordBatch>) {
        let mut pieces = self.more;
        pieces.insert(0, self.rows);
        (self.name, pieces)
    }

    pub(crate) fn renamed(self, rename: impl FnOnce(&str) -> String) -> StatePart {
        StatePart { name: rename(&self.name), ..self }
    }
}

impl LaterParts {
    /// So many parts, each made when it is asked for.
    fn each(
        parts: usize,
        make: impl Fn(usize) -> Result<StatePart> + Clone + Send + Sync + 'static,
    ) -> LaterParts {
        LaterParts(Arc::new(move |from| Box::new((from..parts).map(make.clone()))))
    }

    /// All of them, made at once when the first is asked for.
    fn all(make: impl FnOnce() -> Result<Vec<StatePart>> + Send + 'static) -> LaterParts {
        let made = LazyLock::new(|| make().map_err(|error| error.to_string()));
        LaterParts(Arc::new(move |from| match &*made {
            Ok(parts) => Box::new(parts.get(from..).unwrap_or_default().to_vec().into_iter().map(Ok)),
            Err(why) => Box::new(std::iter::once(Err(bug("state", why)))),
        }))
    }

    fn renamed(self, rename: impl Fn(&str) -> String + Clone + Send + Sync + 'static) -> LaterParts {
        LaterParts(Arc::new(move |from| {
            let rename = rename.clone();
            Box::new(self.from(from).map(move |part| Ok(part?.renamed(&rename))))
        }))
    }

    /// The parts from that one on: the same each time.
    pub fn from(&self, from: usize) -> MadeParts {
        (self.0)(from)
    }
}

impl PartialEq for LaterParts {
    fn eq(&self, other: &LaterParts) -> bool {
        let made = |parts: &LaterParts| parts.from(0).collect::<Result<Vec<_>>>();
        matches!((made(self), made(other)), (Ok(own), Ok(others)) if own == others)
    }
}

impl std::fmt::Debug for LaterParts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("LaterParts")
    }
}

/// Why state cannot be saved, or does not fit.
#[derive(Debug, thiserror::Error)]
pub enum StateError {
    /// The operator cannot be checkpointed. The user can leave out the checkpoints, or what `reason` names.
    #[error("{operator} cannot be checkpointed: {reason}")]
    Unsupported {
        /// The operator, as `explain` names it.
        operator: String,
        /// Which feature is to blame, and what to do.
        reason: String,
    },
    /// It is of another query or damaged. What holds it may be left out, and the query begins anew.
    #[error("state \"{part}\" does not fit the query: expected {expected}, found {found}")]
    Mismatch {
        /// The part's name.
        part: String,
        /// What the operator takes.
        expected: String,
        /// What was given.
        found: String,
    },
    /// A broken invariant. Ours to fix.
    #[error("{operator}: internal error: {message} (please report this)")]
    Internal {
        /// The operator.
        operator: String,
        /// The values that broke it.
        message: String,
    },
}

pub(crate) type Result<T> = std::result::Result<T, StateError>;

/// A column of a part.
pub(crate) type NamedColumn = (String, ArrayRef);

/// Rows of a part that is made as it is written: some megabytes, which the next one is made in again.
pub(crate) const LATER_ROWS: usize = if cfg!(test) { 16 } else { 131_072 };

/// A piece of at least so many rows is a part by itself. Few in tests, which hold few.
pub(crate) const CHUNK_ROWS: usize = if cfg!(test) { 8 } else { 8_192 };

/// Pieces of fewer rows are copied into one: what stands around a piece in a file takes as much as some dozens of rows.
pub(crate) const COPIED_ROWS: usize = if cfg!(test) { 2 } else { 64 };

pub(crate) fn named(name: impl Into<String>, array: impl Array + 'static) -> NamedColumn {
    (name.into(), Arc::new(array))
}

/// A list for each length, of the items one behind the other.
pub(crate) fn lists(lengths: impl Iterator<Item = usize>, items: ArrayRef) -> ArrayRef {
    let field = Arc::new(Field::new_list_field(items.data_type().clone(), true));
    Arc::new(ListArray::new(field, OffsetBuffer::from_lengths(lengths), items, None))
}

/// A bug of ours while state is saved, or taken over after it was found to fit.
pub(crate) fn bug(operator: &str, error: impl ToString) -> StateError {
    StateError::Internal { operator: operator.into(), message: error.to_string() }
}

/// A table of these columns.
pub(crate) fn table(columns: Vec<NamedColumn>) -> Result<RecordBatch> {
    let fields = columns.iter().map(|(name, array)| Field::new(name, array.data_type().clone(), true));
    let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
    let arrays = columns.into_iter().map(|(_, array)| array).collect();
    RecordBatch::try_new(schema, arrays).map_err(|e| bug("state", e))
}

impl StateError {
    /// The same of a part whose name has a prefix where the whole is looked at.
    pub(crate) fn within(self, prefix: &str) -> StateError {
        match self {
            StateError::Mismatch { part, expected, found } => {
                StateError::Mismatch { part: format!("{prefix}{part}"), expected, found }
            }
            other => other,
        }
    }
}

impl OperatorState {
    /// Of these tables.
    pub fn of(parts: Vec<StatePart>) -> OperatorState {
        OperatorState { parts, later: Vec::new() }
    }

    /// The same with all of its tables made.
    ///
    /// # Errors
    /// If one cannot be made: a bug of ours.
    pub fn whole(mut self) -> Result<OperatorState> {
        self.make_all()?;
        Ok(self)
    }

    fn make_all(&mut self) -> Result<()> {
        for later in std::mem::take(&mut self.later) {
            for part in later.from(0) {
                self.parts.push(part?);
            }
        }
        Ok(())
    }

    /// The same with other names for its parts.
    pub(crate) fn renamed(
        self,
        rename: impl Fn(&str) -> String + Clone + Send + Sync + 'static,
    ) -> OperatorState {
        let later = self.later.into_iter().map(|later| later.renamed(rename.clone())).collect();
        OperatorState { parts: self.parts.into_iter().map(|part| part.renamed(&rename)).collect(), later }
    }

    /// With all that another is.
    pub(crate) fn and(mut self, other: OperatorState) -> OperatorState {
        self.parts.extend(other.parts);
        self.later.extend(other.later);
        self
    }

    /// With tables that are made later.
    pub(crate) fn with_later(
        mut self,
        make: impl FnOnce() -> Result<OperatorState> + Send + 'static,
    ) -> OperatorState {
        self.later.push(LaterParts::all(move || Ok(make()?.whole()?.parts)));
        self
    }

    /// With a large table as so many parts `name-0`, `name-1`, …, each of which is made when it is written.
    pub(crate) fn with_parts_later(
        mut self,
        name: &'static str,
        parts: usize,
        make: impl Fn(usize) -> Result<RecordBatch> + Send + Sync + 'static,
    ) -> OperatorState {
        let make = Arc::new(make);
        let part = move |at: usize| Ok(StatePart::new(format!("{name}-{at}"), make(at)?));
        self.later.push(LaterParts::each(parts, part));
        self
    }

    /// Ends taking over: every part has been taken.
    ///
    /// # Errors
    /// If one is left: the state is that of another stage.
    pub fn finish(mut self) -> Result<()> {
        self.make_all()?;
        match self.parts.into_iter().next() {
            None => Ok(()),
            Some(part) => Err(StateError::Mismatch {
                part: part.name,
                expected: "no table of that name".into(),
                found: format!("one of {} rows", part.rows.num_rows()),
            }),
        }
    }

    pub(crate) fn with(mut self, name: &str, columns: Vec<NamedColumn>) -> Result<OperatorState> {
        self.parts.push(StatePart::new(name, table(columns)?));
        Ok(self)
    }

    /// A large table, as parts `name-0`, `name-1`, … of these pieces, which are alike. Only small ones are copied: the query
    /// stands still meanwhile.
    pub(crate) fn with_pieces(self, name: &str, pieces: Vec<RecordBatch>) -> Result<OperatorState> {
        self.with_groups(name, vec![pieces])
    }

    /// The same of pieces by what goes at once: where the first are gone, parts of large ones behind them are as before.
    pub(crate) fn with_groups(mut self, name: &str, groups: Vec<Vec<RecordBatch>>) -> Result<OperatorState> {
        let is_large =
            |group: &Vec<RecordBatch>| group.iter().map(RecordBatch::num_rows).sum::<usize>() >= CHUNK_ROWS;
        let mut parts: Vec<Vec<RecordBatch>> = Vec::new();
        for groups in groups.chunk_by(|a, b| !is_large(a) && !is_large(b)) {
            let pieces: Vec<&RecordBatch> = groups.iter().flatten().collect();
            let mut rows = CHUNK_ROWS;
            for run in pieces.chunk_by(|a, b| a.num_rows().max(b.num_rows()) < COPIED_ROWS) {
                for some in run.chunks(CHUNK_ROWS / COPIED_ROWS) {
                    let piece = match some {
                        [only] => (*only).clone(),
                        several => concat_batches(&several[0].schema(), several.iter().copied())
                            .map_err(|e| bug(name, e))?,
                    };
                    if rows.max(piece.num_rows()) >= CHUNK_ROWS {
                        parts.push(Vec::new());
                        rows = 0;
                    }
                    rows += piece.num_rows();
                    parts.last_mut().expect("the first piece begins one").push(piece);
                }
            }
        }
        for (at, pieces) in parts.into_iter().enumerate() {
            self = self.with_whole(format!("{name}-{at}"), pieces);
        }
        Ok(self)
    }

    /// Takes a part out.
    pub(crate) fn take(&mut self, name: &str) -> Result<Part> {
        self.make_all()?;
        let Some(at) = self.parts.iter().position(|part| part.name == name) else {
            return Err(StateError::Mismatch {
                part: name.into(),
                expected: "a table of that name".into(),
                found: "none".into(),
            });
        };
        let (name, pieces) = self.parts.swap_remove(at).into_pieces();
        let rows = match &pieces[..] {
            [only] => only.clone(),
            several => concat_batches(&several[0].schema(), several).map_err(|e| bug(&name, e))?,
        };
        Ok(Part { name, rows })
    }

    /// Tables that are alike as one part. They are neither copied nor put together.
    pub(crate) fn with_whole(mut self, name: String, mut pieces: Vec<RecordBatch>) -> OperatorState {
        if !pieces.is_empty() {
            let rows = pieces.remove(0);
            self.parts.push(StatePart { name, rows, more: pieces });
        }
        self
    }

    /// Pieces of a table as parts `name-0`, `name-1`, … of at least so many rows each, but for the last: as long as the first pieces
    /// are the same, so are the first parts.
    pub(crate) fn with_runs(mut self, name: &str, pieces: Vec<RecordBatch>, rows: usize) -> OperatorState {
        let (mut run, mut len, mut at) = (Vec::new(), 0, 0);
        for piece in pieces {
            len += piece.num_rows();
            run.push(piece);
            if len >= rows {
                self = self.with_whole(format!("{name}-{at}"), std::mem::take(&mut run));
                (len, at) = (0, at + 1);
            }
        }
        self.with_whole(format!("{name}-{at}"), run)
    }

    /// Takes out what [`with_pieces`](OperatorState::with_pieces) put in. That none is missing is for the caller to see.
    pub(crate) fn take_pieces(&mut self, name: &str) -> Vec<Part> {
        (0..).map_while(|at| self.take(&format!("{name}-{at}")).ok()).collect()
    }
}

/// A part that is being taken over. Columns of ours come first, so that those of a user's may have the same names.
pub(crate) struct Part {
    pub(crate) name: String,
    rows: RecordBatch,
}

impl Part {
    /// The rows of all. `None` of none.
    pub(crate) fn joined(parts: Vec<Part>) -> Result<Option<Part>> {
        let Some(first) = parts.first() else { return Ok(None) };
        let rows = concat_batches(&first.rows.schema(), parts.iter().map(|part| &part.rows));
        Ok(Some(Part { name: first.name.clone(), rows: rows.map_err(|e| bug(&first.name, e))? }))
    }

    /// With the columns of another, of as many rows, behind its own.
    pub(crate) fn beside(self, other: Part) -> Result<Part> {
        other.expect_rows(self.len())?;
        let all = || [&self.rows, &other.rows].into_iter();
        let fields = all().flat_map(|rows| rows.schema().fields().to_vec()).collect::<Vec<_>>();
        let columns = all().flat_map(|rows| rows.columns().to_vec()).collect();
        let rows = RecordBatch::try_new(Arc::new(Schema::new(fields)), columns);
        Ok(Part { rows: rows.map_err(|e| bug(&self.name, e))?, name: self.name })
    }

    /// With a column more, before the others.
    pub(crate) fn behind(self, name: &str, column: ArrayRef) -> Result<Part> {
        let rows = &self.rows;
        let schema = rows.schema();
        let fields = std::iter::once(Arc::new(Field::new(name, column.data_type().clone(), true)))
            .chain(schema.fields().iter().cloned());
        let columns = std::iter::once(column).chain(rows.columns().iter().cloned()).collect();
        let rows = RecordBatch::try_new(Arc::new(Schema::new(fields.collect::<Vec<_>>())), columns);
        Ok(Part { rows: rows.map_err(|e| bug(&self.name, e))?, name: self.name })
    }

    pub(crate) fn len(&self) -> usize {
        self.rows.num_rows()
    }

    pub(crate) fn mismatch(&self, expected: impl Into<String>, found: impl Into<String>) -> StateError {
        StateError::Mismatch { part: self.name.clone(), expected: expected.into(), found: found.into() }
    }

    pub(crate) fn into_rows(self) -> RecordBatch {
        self.rows
    }

    /// It has to have that many rows.
    pub(crate) fn expect_rows(&self, rows: usize) -> Result<()> {
        match self.len() {
            len if len == rows => Ok(()),
            len => Err(self.mismatch(format!("{rows} rows"), len.to_string())),
        }
    }

    pub(crate) fn array(&self, name: &str) -> Result<&ArrayRef> {
        let column = self.rows.column_by_name(name);
        column.ok_or_else(|| self.mismatch(format!("a column {name}"), names(&self.rows.schema())))
    }

    /// A column that may hold NULLs.
    pub(crate) fn optional<T: ArrowPrimitiveType>(&self, name: &str) -> Result<PrimitiveArray<T>> {
        let array = self.array(name)?;
        let found = || self.mismatch(format!("{name} as {}", T::DATA_TYPE), array.data_type().to_string());
        array.as_primitive_opt::<T>().cloned().ok_or_else(found)
    }

    /// A column without NULLs.
    pub(crate) fn values<T: ArrowPrimitiveType>(&self, name: &str) -> Result<ScalarBuffer<T::Native>> {
        let array = self.optional::<T>(name)?;
        match array.null_count() {
            0 => Ok(array.values().clone()),
            nulls => Err(self.mismatch(format!("{name} without NULLs"), format!("{nulls} NULLs"))),
        }
    }

    /// The only row's value.
    pub(crate) fn only<T: ArrowPrimitiveType>(&self, name: &str) -> Result<T::Native> {
        self.expect_rows(1)?;
        Ok(self.values::<T>(name)?[0])
    }

    pub(crate) fn flags(&self, name: &str) -> Result<BooleanArray> {
        let flags = self.optional_flags(name)?;
        match flags.null_count() {
            0 => Ok(flags),
            nulls => Err(self.mismatch(format!("{name} without NULLs"), format!("{nulls} NULLs"))),
        }
    }

    /// The same with NULLs.
    pub(crate) fn optional_flags(&self, name: &str) -> Result<BooleanArray> {
        let array = self.array(name)?;
        let found = || self.mismatch(format!("{name} as Boolean"), array.data_type().to_string());
        array.as_boolean_opt().cloned().ok_or_else(found)
    }

    /// A column of lists without NULLs, row by row.
    pub(crate) fn lists<T: ArrowPrimitiveType>(&self, name: &str) -> Result<Vec<&[T::Native]>> {
        let array = self.array(name)?;
        let found = || self.mismatch(format!("lists of {}", T::DATA_TYPE), array.data_type().to_string());
        let lists = array.as_list_opt::<i32>().ok_or_else(found)?;
        let items = lists.values().as_primitive_opt::<T>().ok_or_else(found)?;
        if lists.null_count() + items.null_count() > 0 {
            return Err(self.mismatch(format!("{name} without NULLs"), "NULLs"));
        }
        let of = |range: &[i32]| &items.values()[range[0] as usize..range[1] as usize];
        Ok(lists.value_offsets().windows(2).map(of).collect())
    }

    /// The only row's list.
    pub(crate) fn only_list<T: ArrowPrimitiveType>(&self, name: &str) -> Result<Vec<T::Native>> {
        self.expect_rows(1)?;
        Ok(self.lists::<T>(name)?.iter().flat_map(|list| list.iter().copied()).collect())
    }

    /// The columns behind the first `own`, which have to be of these types.
    pub(crate) fn rest(&self, own: usize, types: &[DataType]) -> Result<Vec<ArrayRef>> {
        let columns = self.rows.columns().get(own..).unwrap_or_default();
        if columns.iter().map(|column| column.data_type()).eq(types) {
            return Ok(columns.to_vec());
        }
        let texts = |types: &mut dyn Iterator<Item = &DataType>| {
            let texts: Vec<String> = types.map(DataType::to_string).collect();
            if texts.is_empty() { "no columns".into() } else { texts.join(", ") }
        };
        let found = texts(&mut columns.iter().map(|column| column.data_type()));
        Err(self.mismatch(texts(&mut types.iter()), found))
    }

    /// The same as rows of that schema.
    pub(crate) fn rest_rows(&self, own: usize, schema: &SchemaRef) -> Result<RecordBatch> {
        let types: Vec<DataType> = schema.fields().iter().map(|field| field.data_type().clone()).collect();
        let columns = self.rest(own, &types)?;
        let options = arrow::array::RecordBatchOptions::new().with_row_count(Some(self.len()));
        RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options)
            .map_err(|e| self.mismatch("rows of the operator's columns", e.to_string()))
    }
}

fn names(schema: &Schema) -> String {
    let names: Vec<&str> = schema.fields().iter().map(|field| field.name().as_str()).collect();
    if names.is_empty() { "no columns".into() } else { names.join(", ") }
}

#[cfg(test)]
pub(crate) mod tests;
