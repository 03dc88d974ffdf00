//! What is asked of an aggregate function, so that ours and DataFusion's stand side by side.

use std::ops::Range;

use arrow::array::{Array, ArrayRef, BooleanArray, UInt32Array};
use arrow::compute::take;
use arrow::datatypes::DataType;
use datafusion_common::Result;
use datafusion_expr::{EmitTo, GroupsAccumulator};

/// The state of one aggregate function, by group.
///
/// What DataFusion's `GroupsAccumulator` is, but for two things: rows and states are a range of arrays, so that a
/// message of one row needs no array of its own; and it ends with `state` or `evaluate`, all groups at once.
pub(super) trait Accumulate: Send {
    /// Adds rows; of those with a filter, the rows for which it is true.
    fn update(
        &mut self,
        arguments: &[ArrayRef],
        filter: Option<&BooleanArray>,
        rows: &Rows<'_>,
    ) -> Result<()>;

    /// Adds what another's `state` returned.
    fn merge(&mut self, states: &[ArrayRef], rows: &Rows<'_>) -> Result<()>;

    /// What a merge needs to know of each group.
    fn state(&mut self) -> Result<Vec<ArrayRef>>;

    /// The same in pieces, one behind the other, going on as if it had not been asked. `None`: it cannot.
    fn snapshot(&mut self) -> Option<Vec<Vec<ArrayRef>>> {
        None
    }

    /// The same of so many groups, made later of what is handed out now. `None`: it cannot, and `snapshot` is asked.
    fn hand_out(&mut self, _groups: usize) -> Option<LaterColumns> {
        None
    }

    /// Takes over what another's `state` returned, before anything else: row `i` is group `i`. Where a merge into an
    /// empty one changes a value's last bits, this does not.
    fn restore(&mut self, states: &[ArrayRef], rows: &Rows<'_>) -> Result<()> {
        self.merge(states, rows)
    }

    /// The result of each group.
    fn evaluate(&mut self) -> Result<ArrayRef>;

    /// Bytes allocated.
    fn bytes(&self) -> usize;
}

/// Columns of a state that are made when nobody waits.
pub(super) type LaterColumns = Box<dyn FnOnce() -> Result<Vec<ArrayRef>> + Send>;

/// Columns of a state in pieces, one behind the other, or how they are made.
pub(super) enum Pieces {
    Made(Vec<Vec<ArrayRef>>),
    Later(LaterColumns),
}

impl Pieces {
    pub(super) fn made(self) -> Result<Vec<Vec<ArrayRef>>> {
        match self {
            Pieces::Made(pieces) => Ok(pieces),
            Pieces::Later(columns) => Ok(vec![columns()?]),
        }
    }
}

/// One whose groups end one by one and are joined: those of sessions.
pub(super) trait ByGroup: Accumulate {
    /// Adds to a group what another holds.
    fn join(&mut self, into: usize, from: usize) -> Result<()>;

    /// The results of these groups. What they hold may be used up, unless it is to be kept.
    fn results(&mut self, groups: &[usize], are_kept: bool) -> Result<ArrayRef>;

    /// What a merge needs to know of these. They are kept.
    fn states(&mut self, groups: &[usize]) -> Result<Vec<ArrayRef>>;

    /// Forgets what came to a group.
    fn clear(&mut self, group: usize) -> Result<()>;

    /// Takes over what another's `states` returned of these groups, before anything else.
    fn put_back(&mut self, states: &[ArrayRef], groups: &[usize], total: usize) -> Result<()> {
        let rows = Rows { range: 0..groups.len(), groups, total };
        if groups.len() == total && groups.is_sorted() {
            return self.restore(states, &rows);
        }
        let mut at: Vec<Option<u32>> = vec![None; total];
        groups.iter().enumerate().for_each(|(row, &group)| at[group] = Some(row as u32));
        let indices = UInt32Array::from_iter(at.iter().copied());
        let by_group = states.iter().map(|state| Ok(take(state, &indices, None)?));
        let numbers: Vec<usize> = (0..total).collect();
        let rows = Rows { range: 0..total, groups: &numbers, total };
        self.restore(&by_group.collect::<Result<Vec<_>>>()?, &rows)?;
        (0..total).filter(|group| at[*group].is_none()).try_for_each(|group| self.clear(group))
    }
}

/// Makes the state of a function, given the type of its result.
pub(super) type Make = fn(&DataType) -> Box<dyn ByGroup>;

/// Rows of some arrays and the groups that they are in.
pub(super) struct Rows<'a> {
    /// Positions in the arrays.
    pub(super) range: Range<usize>,
    /// The group of each, as many as there are rows.
    pub(super) groups: &'a [usize],
    /// Groups so far, these included.
    pub(super) total: usize,
}

/// DataFusion's accumulator, for functions that have none of ours.
pub(super) struct Library(pub(super) Box<dyn GroupsAccumulator>);

impl Accumulate for Library {
    fn update(
        &mut self,
        arguments: &[ArrayRef],
        filter: Option<&BooleanArray>,
        rows: &Rows<'_>,
    ) -> Result<()> {
        if arguments.iter().all(|array| array.len() == rows.groups.len()) {
            return self.0.update_batch(arguments, rows.groups, filter, rows.total);
        }
        let filter = filter.map(|filter| filter.slice(rows.range.start, rows.range.len()));
        self.0.update_batch(&slices(arguments, &rows.range), rows.groups, filter.as_ref(), rows.total)
    }

    fn merge(&mut self, states: &[ArrayRef], rows: &Rows<'_>) -> Result<()> {
        self.0.merge_batch(&slices(states, &rows.range), rows.groups, rows.total)
    }

    fn state(&mut self) -> Result<Vec<ArrayRef>> {
        self.0.state(EmitTo::All)
    }

    fn evaluate(&mut self) -> Result<ArrayRef> {
        self.0.evaluate(EmitTo::All)
    }

    fn bytes(&self) -> usize {
        self.0.size()
    }
}

/// Those positions of some arrays.
pub(super) fn slices(arrays: &[ArrayRef], range: &Range<usize>) -> Vec<ArrayRef> {
    arrays.iter().map(|array| array.slice(range.start, range.len())).collect()
}

/// Whether a row counts under a filter.
pub(super) fn passes(filter: Option<&BooleanArray>, row: usize) -> bool {
    filter.is_none_or(|filter| filter.is_valid(row) && filter.value(row))
}
