use std::ops::Range;

use arrow::array::{Array, ArrayRef, BooleanArray};
use datafusion_common::Result;
use datafusion_expr::GroupsAccumulator;

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

    /// The same, going on as if it had not been asked. `None`: it cannot.
    fn snapshot(&self) -> Option<Vec<ArrayRef>> {
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
        self.0.state(datafusion_expr::EmitTo::All)
    }

    fn evaluate(&mut self) -> Result<ArrayRef> {
        self.0.evaluate(datafusion_expr::EmitTo::All)
    }

    fn bytes(&self) -> usize {
        self.0.size()
    }
}

/// Those positions of some arrays.
pub(super) fn slices(arrays: &[ArrayRef], range: &Range<usize>) -> Vec<ArrayRef> {
    arrays.iter().map(|array| array.slice(range.start, range.len())).collect()
}
