//! The best rows as a table.

use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, UInt64Array};
use arrow::datatypes::{Int64Type, SchemaRef, UInt64Type};
use arrow::row::RowConverter;
use laxity_graph::{EventTime, ProcessingTime};

use super::best::{HandedBest, Kept};
use super::{RankTies, Window, WindowRank, encode};
use crate::state::{Part, Result, bug, named, table};
use crate::{OperatorState, Outbox, StreamBatch};

/// Rows that are decoded together.
const PIECE_ROWS: usize = 8_192;

/// Rows as they were when the query was held.
struct HandedRanks {
    name: String,
    watermark: EventTime,
    arrived: u64,
    rows: Arc<RowConverter>,
    order_columns: usize,
    has_arrival: bool,
    input: SchemaRef,
    windows: Vec<HandedBest>,
}

impl HandedRanks {
    fn tables(self) -> Result<OperatorState> {
        let all: Vec<&Kept> = self.windows.iter().flat_map(HandedBest::rows).collect();
        let own = vec![
            named("watermark", Int64Array::from(vec![self.watermark.0])),
            named("arrived", UInt64Array::from(vec![self.arrived])),
            named("rows", UInt64Array::from(vec![all.len() as u64])),
        ];
        let state = OperatorState::default().with("window-rank", own)?;
        let parser = self.rows.parser();
        let pieces = all.chunks(PIECE_ROWS).map(|rows| {
            let columns = self.rows.convert_rows(rows.iter().map(|row| parser.parse(row)));
            let mut columns = columns.map_err(|e| bug(&self.name, e))?.split_off(self.order_columns);
            let arrival = self.has_arrival.then(|| ("arrival".into(), columns.remove(0)));
            let names = self.input.fields().iter().map(|field| field.name().clone());
            table(arrival.into_iter().chain(names.zip(columns)).collect())
        });
        state.with_pieces("rows", pieces.collect::<Result<_>>()?)
    }
}

impl WindowRank {
    /// Hands out the best rows by window and key, keys in the order in which they came.
    pub(super) fn saved(&mut self) -> OperatorState {
        let handed = HandedRanks {
            name: self.name.clone(),
            watermark: self.watermark,
            arrived: self.arrived,
            rows: self.rows.clone(),
            order_columns: self.order_columns.len(),
            has_arrival: self.ties != RankTies::Columns,
            input: self.input.clone(),
            windows: self.windows.values_mut().map(|window| window.best.hand_out()).collect(),
        };
        OperatorState::default().with_later(|| handed.tables())
    }

    pub(super) fn restored(&mut self, mut state: OperatorState) -> Result<()> {
        let own = state.take("window-rank")?;
        let mut found = 0;
        for part in state.take_pieces("rows") {
            found += part.len() as u64;
            self.restore_part(&part)?;
        }
        let rows = own.only::<UInt64Type>("rows")?;
        if found != rows {
            return Err(own.mismatch(format!("{rows} rows"), found.to_string()));
        }
        self.watermark = EventTime(own.only::<Int64Type>("watermark")?);
        self.arrived = own.only::<UInt64Type>("arrived")?;
        state.finish()
    }

    fn restore_part(&mut self, part: &Part) -> Result<()> {
        let (own, arrival) = match self.ties {
            RankTies::Columns => (0, None),
            _ => (1, Some(UInt64Array::new(part.values::<UInt64Type>("arrival")?, None))),
        };
        let rows = part.rest_rows(own, &self.input)?;
        let keys = self.keys.encode(&rows).map_err(|e| bug(&self.name, e))?;
        let all: Vec<ArrayRef> = rows.columns().to_vec();
        let encoded =
            encode(&self.rows, &self.order_columns, arrival, all).map_err(|e| bug(&self.name, e))?;
        let batch = StreamBatch::on_time(rows);
        let groups = self.columns.split(&batch, EventTime::MIN, &mut Outbox::default());
        for group in groups {
            let new = || Window::new(self.to, ProcessingTime::ZERO);
            let window = self.windows.entry(group.window).or_insert_with(new);
            for row in group.rows.unwrap_or_else(|| (0..batch.num_rows() as u32).collect()) {
                let key = window.keys.intern(&keys, row as usize);
                let grown = window.best.offer(key, encoded.row(row as usize).data());
                window.row_bytes = window.row_bytes.strict_add_signed(grown);
            }
            self.bytes -= window.bytes;
            window.bytes = window.size_bytes();
            self.bytes += window.bytes;
        }
        Ok(())
    }
}
