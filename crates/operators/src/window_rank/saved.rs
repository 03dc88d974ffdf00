//! The best rows as a table.

use arrow::array::{ArrayRef, Int64Array, UInt64Array};
use arrow::datatypes::{Int64Type, UInt64Type};
use laxity_graph::{EventTime, ProcessingTime};

use super::{RankTies, Window, WindowRank, encode};
use crate::state::{Part, Result, bug, named, table};
use crate::{OperatorState, Outbox, StreamBatch};

/// Rows that are decoded together.
const PIECE_ROWS: usize = 8_192;

impl WindowRank {
    /// The best rows by window and key, keys in the order in which they came.
    pub(super) fn saved(&self) -> Result<OperatorState> {
        let mut all: Vec<&[u8]> = Vec::new();
        for window in self.windows.values() {
            all.extend((0..window.keys.len()).flat_map(|key| window.best.rows(key)));
        }
        let own = vec![
            named("watermark", Int64Array::from(vec![self.watermark.0])),
            named("arrived", UInt64Array::from(vec![self.arrived])),
            named("rows", UInt64Array::from(vec![all.len() as u64])),
        ];
        let state = OperatorState::default().with("window-rank", own)?;
        let pieces = all.chunks(PIECE_ROWS).map(|rows| {
            let columns = self.rows.convert_rows(rows.iter().map(|row| self.parser.parse(row)));
            let mut columns = columns.map_err(|e| bug(&self.name, e))?.split_off(self.order_columns.len());
            let arrival = (self.ties != RankTies::Columns).then(|| ("arrival".into(), columns.remove(0)));
            let names = self.input.fields().iter().map(|field| field.name().clone());
            table(arrival.into_iter().chain(names.zip(columns)).collect())
        });
        state.with_pieces("rows", pieces.collect::<Result<_>>()?)
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
