//! Rows of an OVER that wait for the watermark.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use arrow::array::{ArrayRef, Int64Array, RecordBatch, UInt32Array};
use arrow::compute::{concat_batches, interleave, take_record_batch};
use arrow::datatypes::{Int64Type, SchemaRef, UInt32Type};
use arrow::error::ArrowError;
use laxity_graph::ProcessingTime;

use crate::state::{self, COPIED_ROWS, Part, bug, named, table};

/// Rows that wait for the watermark.
///
/// They lie in pieces, a piece per batch that came, each with its rows in the order in which they are due. Pieces of few
/// rows are put together, so that a stream of small messages costs about as much memory as its rows.
pub(super) struct Pending {
    schema: SchemaRef,
    pieces: Vec<Piece>,
    /// When the next row of each piece is due, the nearest first.
    next: BinaryHeap<Reverse<(Key, usize)>>,
    bytes: usize,
    /// What the last save keeps besides, at most.
    saved_bytes: usize,
    /// So many pieces are put together.
    pieces_max: usize,
}

/// The order in which rows are taken: when they are due, their time, the order of arrival.
type Key = (i64, i64);

struct Piece {
    rows: RecordBatch,
    keys: Vec<u32>,
    times: Vec<i64>,
    due: Vec<i64>,
    /// Rows as they are due; those before `at` are out.
    order: Vec<u32>,
    at: usize,
    ingested: ProcessingTime,
    bytes: usize,
    /// What was saved last, if it is not copied, and none of its rows is out since.
    saved: Option<RecordBatch>,
}

/// Rows of one batch that are not late, by their place in it.
#[derive(Default)]
pub(super) struct Arrived {
    rows: Vec<u32>,
    keys: Vec<u32>,
    times: Vec<i64>,
    due: Vec<i64>,
}

/// Rows whose time has come, in order.
pub(super) struct Due {
    pub(super) rows: RecordBatch,
    pub(super) keys: Vec<u32>,
    pub(super) times: Vec<i64>,
    pub(super) due: Vec<i64>,
    pub(super) ingested: ProcessingTime,
}

/// Columns of what is saved before those of the rows.
const OWN: usize = 3;

/// Pieces at least, before any are put together.
const PIECES_MIN: usize = 64;

/// Pieces that have fewer rows than this, taken together, are worth copying.
const SMALL_ROWS: usize = 256;

impl Arrived {
    pub(super) fn push(&mut self, row: u32, key: u32, time: i64, due: i64) {
        self.rows.push(row);
        self.keys.push(key);
        self.times.push(time);
        self.due.push(due);
    }
}

impl Piece {
    fn next(&self) -> Option<Key> {
        let row = *self.order.get(self.at)? as usize;
        Some((self.due[row], self.times[row]))
    }

    fn left(&self) -> &[u32] {
        &self.order[self.at..]
    }

    /// The rows that are left, in the order in which they came. The same arrays as the last time, if they are many and those.
    fn save(&mut self, schema: &SchemaRef, operator: &str) -> state::Result<RecordBatch> {
        if let Some(saved) = &self.saved {
            return Ok(saved.clone());
        }
        let mut left = self.left().to_vec();
        left.sort_unstable();
        let of = |values: &[i64]| Int64Array::from_iter_values(left.iter().map(|&row| values[row as usize]));
        let keys = UInt32Array::from_iter_values(left.iter().map(|&row| self.keys[row as usize]));
        let mut columns =
            vec![named("key", keys), named("time", of(&self.times)), named("due", of(&self.due))];
        let rows = match self.at {
            0 => self.rows.clone(),
            _ => take_record_batch(&self.rows, &UInt32Array::from(left)).map_err(|e| bug(operator, e))?,
        };
        let names = schema.fields().iter().map(|field| field.name().clone());
        columns.extend(names.zip(rows.columns().iter().cloned()));
        let table = table(columns)?;
        self.saved = (table.num_rows() >= COPIED_ROWS).then(|| table.clone());
        Ok(table)
    }
}

impl Pending {
    pub(super) fn new(schema: SchemaRef) -> Pending {
        Pending {
            schema,
            pieces: Vec::new(),
            next: BinaryHeap::new(),
            bytes: 0,
            saved_bytes: 0,
            pieces_max: PIECES_MIN,
        }
    }

    pub(super) fn push(
        &mut self,
        rows: &RecordBatch,
        arrived: Arrived,
        ingested: ProcessingTime,
    ) -> Result<(), ArrowError> {
        let Arrived { rows: chosen, keys, times, due } = arrived;
        if chosen.is_empty() {
            return Ok(());
        }
        let rows = match chosen.len() == rows.num_rows() && !is_small_part(rows) {
            true => rows.clone(),
            false => take_record_batch(rows, &UInt32Array::from(chosen))?,
        };
        self.push_piece(rows, keys, times, due, ingested);
        if self.pieces.len() > self.pieces_max {
            self.put_together()?;
        }
        Ok(())
    }

    fn push_piece(
        &mut self,
        rows: RecordBatch,
        keys: Vec<u32>,
        times: Vec<i64>,
        due: Vec<i64>,
        ingested: ProcessingTime,
    ) {
        let mut order: Vec<u32> = (0..keys.len() as u32).collect();
        let key = |row: &u32| (due[*row as usize], times[*row as usize]);
        if !order.is_sorted_by_key(key) {
            order.sort_by_key(key);
        }
        // Time and due once more for what `Frames` notes of it.
        let own = 2 * size_of::<u32>() + 4 * size_of::<i64>();
        let bytes = rows.get_array_memory_size() + keys.len() * own;
        let piece = Piece { rows, keys, times, due, order, at: 0, ingested, bytes, saved: None };
        self.bytes += bytes;
        self.next.extend(piece.next().map(|next| Reverse((next, self.pieces.len()))));
        self.pieces.push(piece);
    }

    /// Whether a row is due at the watermark.
    pub(super) fn is_due(&self, watermark: i64) -> bool {
        self.next.peek().is_some_and(|Reverse(((due, _), _))| *due <= watermark)
    }

    /// Takes about so many rows that are due, in order; rows of one time together if they count for each other.
    pub(super) fn take(
        &mut self,
        watermark: i64,
        rows_max: usize,
        whole_times: bool,
    ) -> Result<Option<Due>, ArrowError> {
        let mut taken: Vec<(usize, usize)> = Vec::new();
        let mut last = None;
        while let Some(&Reverse((next, piece))) = self.next.peek() {
            let is_enough = taken.len() >= rows_max && !(whole_times && last == Some(next));
            if next.0 > watermark || is_enough {
                break;
            }
            self.next.pop();
            // As many rows of the piece as come before the next row of any other.
            let bound = self.next.peek().map(|Reverse(other)| *other);
            let current = &mut self.pieces[piece];
            current.saved = None;
            while let Some(next) = current.next() {
                let is_next = bound.is_none_or(|bound| (next, piece) < bound) && next.0 <= watermark;
                let is_enough = taken.len() >= rows_max && !(whole_times && last == Some(next));
                if !is_next || is_enough {
                    break;
                }
                taken.push((piece, current.order[current.at] as usize));
                current.at += 1;
                last = Some(next);
            }
            self.next.extend(current.next().map(|next| Reverse((next, piece))));
        }
        if taken.is_empty() {
            return Ok(None);
        }
        let due = self.gather(&taken)?;
        self.drop_empty();
        Ok(Some(due))
    }

    fn gather(&self, taken: &[(usize, usize)]) -> Result<Due, ArrowError> {
        let of = |&(piece, row): &(usize, usize)| (&self.pieces[piece], row);
        let (first, start) = of(&taken[0]);
        let is_run =
            taken.iter().enumerate().all(|(at, &(piece, row))| piece == taken[0].0 && row == start + at);
        let rows = match is_run {
            true => first.rows.slice(start, taken.len()),
            false => {
                let column = |column: usize| -> Result<ArrayRef, ArrowError> {
                    let pieces: Vec<_> =
                        self.pieces.iter().map(|piece| piece.rows.column(column).as_ref()).collect();
                    interleave(&pieces, taken)
                };
                let columns = (0..self.schema.fields().len()).map(column).collect::<Result<_, _>>()?;
                RecordBatch::try_new(self.schema.clone(), columns)?
            }
        };
        let ingested = taken.iter().map(|row| of(row).0.ingested).max();
        Ok(Due {
            rows,
            keys: taken.iter().map(of).map(|(piece, row)| piece.keys[row]).collect(),
            times: taken.iter().map(of).map(|(piece, row)| piece.times[row]).collect(),
            due: taken.iter().map(of).map(|(piece, row)| piece.due[row]).collect(),
            ingested: ingested.unwrap_or(ProcessingTime::ZERO),
        })
    }

    fn drop_empty(&mut self) {
        if self.pieces.iter().all(|piece| !piece.left().is_empty()) {
            return;
        }
        self.pieces.retain(|piece| !piece.left().is_empty());
        self.renew();
    }

    /// Brings what is known of all pieces up to date.
    fn renew(&mut self) {
        let next = self.pieces.iter().enumerate();
        self.next = next.filter_map(|(at, piece)| Some(Reverse((piece.next()?, at)))).collect();
        self.bytes = self.pieces.iter().map(|piece| piece.bytes).sum();
    }

    /// Makes one piece of all that are small, if that is most of them. Rows keep the order in which they came.
    fn put_together(&mut self) -> Result<(), ArrowError> {
        let rows: usize = self.pieces.iter().map(|piece| piece.left().len()).sum();
        if rows < self.pieces.len() * SMALL_ROWS {
            let pieces = std::mem::take(&mut self.pieces);
            let mut parts = Vec::new();
            let (mut keys, mut times, mut due) = (Vec::new(), Vec::new(), Vec::new());
            let mut ingested = ProcessingTime::ZERO;
            for piece in &pieces {
                let mut left = piece.left().to_vec();
                left.sort_unstable();
                keys.extend(left.iter().map(|&row| piece.keys[row as usize]));
                times.extend(left.iter().map(|&row| piece.times[row as usize]));
                due.extend(left.iter().map(|&row| piece.due[row as usize]));
                parts.push(take_record_batch(&piece.rows, &UInt32Array::from(left))?);
                ingested = ingested.max(piece.ingested);
            }
            let rows = concat_batches(&self.schema, &parts)?;
            self.next.clear();
            self.push_piece(rows, keys, times, due, ingested);
            self.renew();
        }
        self.pieces_max = PIECES_MIN.max(2 * self.pieces.len());
        Ok(())
    }

    /// Key, time and due of the rows that wait.
    pub(super) fn waiting(&self) -> impl Iterator<Item = (u32, i64, i64)> {
        let of = |piece: &Piece, row: usize| (piece.keys[row], piece.times[row], piece.due[row]);
        self.pieces.iter().flat_map(move |piece| piece.left().iter().map(move |&row| of(piece, row as usize)))
    }

    /// Gives keys other numbers. Those of rows that are out may be gone.
    pub(super) fn renumber(&mut self, new_ids: &[u32]) {
        for piece in &mut self.pieces {
            piece.saved = None;
            for key in &mut piece.keys {
                *key = new_ids.get(*key as usize).copied().unwrap_or(u32::MAX);
            }
        }
    }

    /// Rows that wait, in the order in which they came, with key, time and when they are due before their columns.
    pub(super) fn save(&mut self, operator: &str) -> state::Result<(usize, Vec<RecordBatch>)> {
        let schema = &self.schema;
        let tables = self.pieces.iter_mut().map(|piece| piece.save(schema, operator));
        let tables: Vec<RecordBatch> = tables.collect::<state::Result<_>>()?;
        let own_bytes = |table: &RecordBatch| -> usize {
            table.columns()[..OWN].iter().map(|column| column.get_array_memory_size()).sum()
        };
        self.saved_bytes = self.pieces.iter().flat_map(|piece| &piece.saved).map(own_bytes).sum();
        Ok((tables.iter().map(RecordBatch::num_rows).sum(), tables))
    }

    /// Takes over a part of what was saved: rows of keys below `keys`.
    pub(super) fn restore(&mut self, part: &Part, keys: usize) -> state::Result<()> {
        let rows = part.rest_rows(OWN, &self.schema)?;
        let numbers = part.values::<UInt32Type>("key")?;
        if let Some(key) = numbers.iter().find(|key| **key as usize >= keys) {
            return Err(part.mismatch(format!("keys below {keys}"), key.to_string()));
        }
        let (times, due) = (part.values::<Int64Type>("time")?, part.values::<Int64Type>("due")?);
        self.push_piece(rows, numbers.to_vec(), times.to_vec(), due.to_vec(), ProcessingTime::ZERO);
        Ok(())
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes + self.saved_bytes
    }
}

/// A slice of a large batch must not keep all of it alive.
fn is_small_part(rows: &RecordBatch) -> bool {
    let needed: usize = rows.columns().iter().map(|c| c.to_data().get_slice_memory_size().unwrap_or(0)).sum();
    rows.get_array_memory_size() > 2 * needed + 1024
}
