//! The first rows of each window and key.

mod best;
mod saved;

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, RecordBatch, UInt32Array, UInt64Array};
use arrow::compute::{SortOptions, take_arrays};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use arrow::error::ArrowError;
use arrow::row::{RowConverter, Rows, SortField};
use laxity_graph::{EventTime, ProcessingTime};

use crate::expression::internal;
use crate::join_keys::{EncodedKeys, KeyEncoder, KeyTable};
use crate::window_rows::{WindowColumns, WindowKey, WindowRows};
use crate::{Flow, Operator, OperatorError, OperatorFactory, OperatorState, Outbox, StateError, StreamBatch};
use best::{Best, Kept};

/// Keeps the first rows of each window and key: `ROW_NUMBER() OVER (PARTITION BY window_start, window_end, keys…
/// ORDER BY …) BETWEEN from AND to`. With `to = 1` it is Flink's windowed deduplication.
///
/// The input carries its window as columns. A window's rows are emitted when the watermark reaches
/// `window_end - 1`, each key's in order.
#[derive(Clone, Debug)]
pub struct WindowRankSpec {
    /// As `explain` names it.
    pub name: String,
    /// Columns of the input.
    pub input_schema: SchemaRef,
    /// Column of the window's start, a timestamp in milliseconds.
    pub window_start: usize,
    /// Column of the window's end, a timestamp in milliseconds.
    pub window_end: usize,
    /// The other PARTITION BY columns. May be empty. NULLs are one key.
    pub keys: Vec<usize>,
    /// The ORDER BY columns, most significant first.
    pub order_by: Vec<RankOrder>,
    /// First rank to emit, from 1.
    pub from: u64,
    /// Last rank to emit.
    pub to: u64,
    /// Which of two rows comes first that the ORDER BY columns do not tell apart.
    pub ties: RankTies,
    /// Name of the column that holds the rank, a BIGINT after the input's columns. `None`: no such column.
    pub rank_column: Option<String>,
}

/// One ORDER BY column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RankOrder {
    /// The column.
    pub column: usize,
    /// DESC.
    pub descending: bool,
    /// NULLs come first. Flink's default: NULL is the lowest value, so first iff ascending.
    pub nulls_first: bool,
}

/// What decides between rows of equal ORDER BY columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RankTies {
    /// The row that came first is first. Only where rows of a key always come in the same order, or results would
    /// depend on how inputs interleave.
    FirstArrival,
    /// The row that came last is first: Flink's deduplication that keeps the newest row. The same holds.
    LastArrival,
    /// All columns of the row, in their order.
    Columns,
}

impl WindowRankSpec {
    /// The input's columns, then the rank if it was asked for.
    pub fn output_schema(&self) -> SchemaRef {
        let mut fields: Vec<_> = self.input_schema.fields().iter().cloned().collect();
        if let Some(name) = &self.rank_column {
            fields.push(Arc::new(Field::new(name, DataType::Int64, false)));
        }
        Arc::new(Schema::new(fields))
    }

    /// Makes the operator's instances.
    pub fn factory(self) -> OperatorFactory {
        OperatorFactory::new(move |context| Ok(Box::new(WindowRank::new(&self, context.batch_rows)?)))
    }
}

/// The operator of a [`WindowRankSpec`].
///
/// A kept row is held as bytes alone: its ORDER BY columns, the number of its arrival where that decides between
/// ties, then all of its columns, in Arrow's row format. Bytes compare as the rows do, and decode to the output.
#[derive(Debug)]
struct WindowRank {
    name: String,
    input: SchemaRef,
    columns: WindowColumns,
    keys: KeyEncoder,
    order_columns: Vec<usize>,
    /// Encodes the ORDER BY columns: a prefix of what `rows` makes.
    order: RowConverter,
    ties: RankTies,
    /// Rows that have come so far: the number of the next.
    arrived: u64,
    /// Encodes the ORDER BY columns, the arrival unless `ties` are told apart by columns, then all columns.
    rows: Arc<RowConverter>,
    from: usize,
    to: usize,
    output: SchemaRef,
    has_rank: bool,
    windows: BTreeMap<WindowKey, Window>,
    watermark: EventTime,
    /// The window being emitted. No message is taken before it is through.
    firing: Option<Firing>,
    batch_rows: usize,
    /// For deduplication: within one batch and window, the row of the best order so far, by key number.
    /// [`NONE`] between batches, so that a small batch does not pay for many keys.
    leaders: Vec<u32>,
    /// Sum of the sizes of `windows`.
    bytes: usize,
}

/// No row.
const NONE: u32 = u32::MAX;

/// The best rows of one window.
#[derive(Debug)]
struct Window {
    keys: KeyTable,
    best: Best,
    ingested: ProcessingTime,
    /// Bytes of the rows in `best`.
    row_bytes: usize,
    /// Size at the last count.
    bytes: usize,
}

/// How far the emission of a window is.
#[derive(Debug)]
struct Firing {
    window: Window,
    end: EventTime,
    /// Keys before this one are out or in `sorted`.
    key: usize,
    /// Rows of the key before, in order.
    sorted: Vec<Kept>,
    /// Rows of `sorted` that are out or not wanted.
    done: usize,
}

impl WindowRank {
    fn new(spec: &WindowRankSpec, batch_rows: usize) -> Result<WindowRank, OperatorError> {
        let bug = |e: ArrowError| internal(&spec.name, e);
        let schema = &spec.input_schema;
        if spec.from == 0 || spec.to < spec.from {
            return Err(internal(&spec.name, format!("ranks {} to {}", spec.from, spec.to)));
        }
        let order: Vec<SortField> = spec
            .order_by
            .iter()
            .map(|by| {
                let options = SortOptions { descending: by.descending, nulls_first: by.nulls_first };
                SortField::new_with_options(schema.field(by.column).data_type().clone(), options)
            })
            .collect();
        let all = schema.fields().iter().map(|field| SortField::new(field.data_type().clone()));
        let arrival = match spec.ties {
            RankTies::Columns => None,
            ties => Some(SortField::new_with_options(
                DataType::UInt64,
                SortOptions { descending: ties == RankTies::LastArrival, nulls_first: false },
            )),
        };
        let rows =
            RowConverter::new(order.iter().cloned().chain(arrival).chain(all).collect()).map_err(bug)?;
        Ok(WindowRank {
            name: spec.name.clone(),
            input: Arc::clone(schema),
            columns: WindowColumns::new(&spec.name, schema, spec.window_start, spec.window_end)?,
            keys: KeyEncoder::new(schema, &spec.keys).map_err(bug)?,
            order_columns: spec.order_by.iter().map(|by| by.column).collect(),
            order: RowConverter::new(order).map_err(bug)?,
            rows: Arc::new(rows),
            ties: spec.ties,
            arrived: 0,
            from: usize::try_from(spec.from).unwrap_or(usize::MAX),
            to: usize::try_from(spec.to).unwrap_or(usize::MAX),
            output: spec.output_schema(),
            has_rank: spec.rank_column.is_some(),
            windows: BTreeMap::new(),
            watermark: EventTime::MIN,
            firing: None,
            batch_rows: batch_rows.max(1),
            leaders: Vec::new(),
            bytes: 0,
        })
    }

    /// Takes the rows of one batch that belong to one window.
    fn insert(
        &mut self,
        batch: &RecordBatch,
        group: WindowRows,
        encoded: &Encoded,
        ingested: ProcessingTime,
    ) -> Result<(), ArrowError> {
        let window = self.windows.entry(group.window).or_insert_with(|| Window::new(self.to, ingested));
        window.ingested = window.ingested.max(ingested);
        let (ties, leaders) = (self.ties, &mut self.leaders);
        let candidates = match group.rows {
            Some(rows) => window.candidates(rows.into_iter(), encoded, ties, leaders),
            None => window.candidates(0..batch.num_rows() as u32, encoded, ties, leaders),
        };
        if !candidates.is_empty() {
            let rows = UInt32Array::from_iter_values(candidates.iter().map(|&(_, row)| row));
            let numbers = rows.values().iter().map(|&row| self.arrived + u64::from(row));
            let arrival = (ties != RankTies::Columns).then(|| UInt64Array::from_iter_values(numbers));
            let all = take_arrays(batch.columns(), &rows, None)?;
            let rows = encode(&self.rows, &self.order_columns, arrival, all)?;
            for (&(key, _), row) in candidates.iter().zip(rows.iter()) {
                window.row_bytes = window.row_bytes.strict_add_signed(window.best.offer(key, row.data()));
            }
        }
        self.bytes -= window.bytes;
        window.bytes = window.size_bytes();
        self.bytes += window.bytes;
        Ok(())
    }

    /// Emits closed windows, about one output batch per call, and the watermark behind them.
    fn fire(&mut self, out: &mut Outbox) -> Result<Flow, OperatorError> {
        let mut budget = self.batch_rows;
        while budget > 0 {
            let Some(mut firing) = self.firing.take().or_else(|| self.next_closed()) else {
                out.watermark(self.watermark);
                return Ok(Flow::Done);
            };
            let (rows, ranks) = firing.take(budget, self.from);
            budget -= rows.len().max(1);
            if !rows.is_empty() {
                let batch = self.decode(&rows, ranks).map_err(|e| internal(&self.name, e))?;
                out.result(StreamBatch::on_time(batch), firing.window.ingested, Some(firing.end));
            }
            if firing.is_done() {
                self.bytes -= firing.window.bytes;
            } else {
                self.firing = Some(firing);
            }
        }
        Ok(Flow::More)
    }

    fn next_closed(&mut self) -> Option<Firing> {
        let (&window, _) = self.windows.first_key_value()?;
        if window.0.saturating_sub(1) > self.watermark.0 {
            return None;
        }
        let rows = self.windows.remove(&window)?;
        Some(Firing { window: rows, end: EventTime(window.0), key: 0, sorted: Vec::new(), done: 0 })
    }

    fn decode(&self, rows: &[Kept], ranks: Vec<i64>) -> Result<RecordBatch, ArrowError> {
        let parser = self.rows.parser();
        let columns = self.rows.convert_rows(rows.iter().map(|row| parser.parse(row)))?;
        let before = self.order_columns.len() + usize::from(self.ties != RankTies::Columns);
        let mut columns = columns[before..].to_vec();
        if self.has_rank {
            columns.push(Arc::new(Int64Array::from(ranks)));
        }
        RecordBatch::try_new(Arc::clone(&self.output), columns)
    }
}

/// Rows as they are kept.
fn encode(
    rows: &RowConverter,
    order_columns: &[usize],
    arrival: Option<UInt64Array>,
    all: Vec<ArrayRef>,
) -> Result<Rows, ArrowError> {
    let order: Vec<ArrayRef> = order_columns.iter().map(|&column| Arc::clone(&all[column])).collect();
    let arrival = arrival.map(|arrival| Arc::new(arrival) as ArrayRef);
    rows.convert_columns(&order.into_iter().chain(arrival).chain(all).collect::<Vec<_>>())
}

impl Operator for WindowRank {
    fn on_batch(
        &mut self,
        _input: usize,
        batch: StreamBatch,
        ingested: ProcessingTime,
        out: &mut Outbox,
    ) -> Result<Flow, OperatorError> {
        let groups = self.columns.split(&batch, self.watermark, out);
        if groups.is_empty() {
            return Ok(Flow::Done);
        }
        let order: Vec<ArrayRef> = self.order_columns.iter().map(|&c| batch.rows.column(c).clone()).collect();
        let encoded = Encoded {
            keys: self.keys.encode(&batch.rows).map_err(|e| internal(&self.name, e))?,
            order: match order.is_empty() {
                true => None,
                false => Some(self.order.convert_columns(&order).map_err(|e| internal(&self.name, e))?),
            },
        };
        for group in groups {
            self.insert(&batch.rows, group, &encoded, ingested).map_err(|e| internal(&self.name, e))?;
        }
        self.arrived += batch.rows.num_rows() as u64;
        Ok(Flow::Done)
    }

    fn on_watermark(&mut self, watermark: EventTime, out: &mut Outbox) -> Result<Flow, OperatorError> {
        self.watermark = self.watermark.max(watermark);
        self.fire(out)
    }

    fn resume(&mut self, out: &mut Outbox) -> Result<Flow, OperatorError> {
        self.fire(out)
    }

    fn save(&mut self) -> Result<OperatorState, StateError> {
        Ok(self.saved())
    }

    fn restore(&mut self, state: OperatorState) -> Result<(), StateError> {
        self.restored(state)
    }

    fn state_bytes(&self) -> usize {
        self.bytes
    }
}

/// Keys and ORDER BY columns of one batch.
#[derive(Debug)]
struct Encoded {
    keys: EncodedKeys,
    /// `None` if there is no ORDER BY: all rows tie.
    order: Option<Rows>,
}

impl Encoded {
    fn order(&self, row: u32) -> &[u8] {
        self.order.as_ref().map_or(&[], |order| order.row(row as usize).data())
    }
}

impl Window {
    fn new(limit: usize, ingested: ProcessingTime) -> Window {
        Window { keys: KeyTable::default(), best: Best::new(limit), ingested, row_bytes: 0, bytes: 0 }
    }

    /// Those of `rows` that may be among the best, with their key numbers: most rows are turned away by their
    /// ORDER BY columns, before the rest of them is encoded.
    fn candidates(
        &mut self,
        rows: impl Iterator<Item = u32>,
        encoded: &Encoded,
        ties: RankTies,
        leaders: &mut Vec<u32>,
    ) -> Vec<(u32, u32)> {
        // A row that comes later and ties is beaten too where the first arrival wins.
        let is_beaten = |order: &[u8], by: &[u8]| match ties {
            RankTies::FirstArrival => order >= by,
            _ => order > by,
        };
        let is_deduplication = matches!(self.best, Best::One(_));
        let mut candidates: Vec<(u32, u32)> = Vec::new();
        for row in rows {
            let key = self.keys.intern(&encoded.keys, row as usize);
            let order = encoded.order(row);
            if self.best.threshold(key).is_some_and(|worst| is_beaten(order, prefix(worst, order.len()))) {
                continue;
            }
            if is_deduplication {
                if leaders.len() < self.keys.len() {
                    leaders.resize(self.keys.len(), NONE);
                }
                let leader = &mut leaders[key as usize];
                if *leader != NONE && is_beaten(order, encoded.order(*leader)) {
                    continue;
                }
                *leader = row;
            }
            candidates.push((key, row));
        }
        if is_deduplication {
            // Rows that a later one of the batch has beaten. Ties stay: what follows in the row decides between them.
            candidates.retain(|&(key, row)| encoded.order(row) == encoded.order(leaders[key as usize]));
            candidates.iter().for_each(|&(key, _)| leaders[key as usize] = NONE);
        }
        candidates
    }

    fn size_bytes(&self) -> usize {
        size_of::<Window>() + self.keys.size_bytes() + self.best.slot_bytes() + self.row_bytes
    }
}

/// The ORDER BY part of a kept row. `order` of another row is compared with as many bytes: either they are
/// equal and so of equal length, or they differ before the shorter ends.
fn prefix(row: &[u8], length: usize) -> &[u8] {
    &row[..length.min(row.len())]
}

impl Firing {
    /// The next rows, at most `wanted`, with their ranks.
    fn take(&mut self, wanted: usize, from: usize) -> (Vec<Kept>, Vec<i64>) {
        let (mut rows, mut ranks) = (Vec::with_capacity(wanted), Vec::with_capacity(wanted));
        // A key without wanted rows costs little, but not nothing.
        let last_key = self.window.keys.len().min(self.key + wanted * KEYS_PER_ROW);
        while rows.len() < wanted {
            if self.done < self.sorted.len() {
                rows.push(std::mem::take(&mut self.sorted[self.done]));
                self.done += 1;
                ranks.push(self.done as i64);
            } else if self.key < last_key {
                self.sorted = self.window.best.take_sorted(self.key);
                self.done = self.sorted.len().min(from - 1);
                self.key += 1;
            } else {
                break;
            }
        }
        (rows, ranks)
    }

    fn is_done(&self) -> bool {
        self.key == self.window.keys.len() && self.done == self.sorted.len()
    }
}

/// Keys passed over in the time of one emitted row, roughly.
const KEYS_PER_ROW: usize = 8;

#[cfg(test)]
mod tests;
