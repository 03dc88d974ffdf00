//! Groups that take no more rows, and the tables that they are saved in: from one checkpoint to the next these stay the same
//! arrays, so that who writes them can tell.

use std::sync::Arc;

use arrow::array::RecordBatch;

use crate::groups::{Aggregation, Partial};
use crate::state::{CHUNK_ROWS, Result, bug, table};

/// Groups of a part that take no more rows.
#[derive(Clone)]
pub(super) struct Sealed {
    pub(super) partial: Arc<Partial>,
    /// The table of many groups that they are in, and their place there. Few are in none until they are saved with others.
    place: Option<(Arc<RecordBatch>, usize)>,
}

/// Sealed groups one behind the other in one table.
pub(super) struct Run {
    table: Arc<RecordBatch>,
    start: usize,
    pub(super) len: usize,
    /// How many of the sealed.
    pub(super) count: usize,
}

impl Sealed {
    pub(super) fn new(partial: Arc<Partial>) -> Sealed {
        Sealed { partial, place: None }
    }

    pub(super) fn bytes(&self) -> usize {
        self.partial.bytes
    }
}

/// Puts those that are in no table yet into some, each of many groups. Few may be left: those that were sealed last.
pub(super) fn settle<'a>(
    all: impl Iterator<Item = &'a mut Sealed>,
    aggregation: &Aggregation,
    operator: &str,
) -> Result<()> {
    let (mut few, mut groups) = (Vec::new(), 0);
    for sealed in all.filter(|sealed| sealed.place.is_none()) {
        if sealed.partial.len >= CHUNK_ROWS {
            let rows = table(aggregation.partial_columns(&sealed.partial))?;
            sealed.place = Some((Arc::new(rows), 0));
            continue;
        }
        groups += sealed.partial.len;
        few.push(sealed);
        if groups >= CHUNK_ROWS {
            put_together(&mut few, aggregation, operator)?;
            (few, groups) = (Vec::new(), 0);
        }
    }
    Ok(())
}

/// In memory they are slices of the table from then on, or they would be there twice.
fn put_together(few: &mut [&mut Sealed], aggregation: &Aggregation, operator: &str) -> Result<()> {
    let partials: Vec<&Partial> = few.iter().map(|sealed| &*sealed.partial).collect();
    let (columns, slices) = aggregation.together(&partials).map_err(|e| bug(operator, e))?;
    if columns.is_empty() {
        return Ok(());
    }
    let rows = Arc::new(table(columns)?);
    let mut start = 0;
    for (sealed, slice) in few.iter_mut().zip(slices) {
        let len = slice.len;
        **sealed = Sealed { partial: Arc::new(slice), place: Some((rows.clone(), start)) };
        start += len;
    }
    Ok(())
}

type Numbered<T> = Vec<(usize, T)>;

/// The runs of those that are in tables, and those that are in none: each with its number.
pub(super) fn runs<'a>(all: impl Iterator<Item = &'a Sealed>) -> (Numbered<Run>, Numbered<&'a Sealed>) {
    let (mut runs, mut few): (Numbered<Run>, _) = (Vec::new(), Vec::new());
    for (number, sealed) in all.enumerate() {
        let Some((table, start)) = &sealed.place else {
            few.push((number, sealed));
            continue;
        };
        let len = sealed.partial.len;
        let goes_on = runs.last_mut().filter(|(first, run)| {
            Arc::ptr_eq(&run.table, table) && run.start + run.len == *start && *first + run.count == number
        });
        match goes_on {
            Some((_, run)) => {
                run.len += len;
                run.count += 1;
            }
            None => runs.push((number, Run { table: table.clone(), start: *start, len, count: 1 })),
        }
    }
    (runs, few)
}

impl Run {
    /// The whole table as it is, or what is left of it.
    pub(super) fn rows(&self) -> RecordBatch {
        match self.len == self.table.num_rows() {
            true => (*self.table).clone(),
            false => self.table.slice(self.start, self.len),
        }
    }
}
