//! The best rows as a table.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, RecordBatch, UInt64Array};
use arrow::datatypes::{Int64Type, SchemaRef, UInt64Type};
use arrow::row::RowConverter;
use laxity_graph::{EventTime, ProcessingTime};

use super::best::HandedBest;
use super::{RankTies, Window, WindowRank, encode};
use crate::state::{LATER_ROWS, Part, Result, bug, named, table};
use crate::{OperatorState, Outbox, StreamBatch};

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

/// Keys of a window.
struct Run {
    window: usize,
    keys: Range<usize>,
}

impl HandedRanks {
    fn own(&self) -> Result<OperatorState> {
        let rows: usize = self.windows.iter().map(|best| best.all_rows().count()).sum();
        let own = vec![
            named("watermark", Int64Array::from(vec![self.watermark.0])),
            named("arrived", UInt64Array::from(vec![self.arrived])),
            named("rows", UInt64Array::from(vec![rows as u64])),
        ];
        OperatorState::default().with("window-rank", own)
    }

    fn table(&self, runs: &[Run]) -> Result<RecordBatch> {
        let parser = self.rows.parser();
        let rows = runs.iter().flat_map(|run| self.windows[run.window].rows(run.keys.clone()));
        let columns = self.rows.convert_rows(rows.map(|row| parser.parse(row)));
        let mut columns = columns.map_err(|e| bug(&self.name, e))?.split_off(self.order_columns);
        let arrival = self.has_arrival.then(|| ("arrival".into(), columns.remove(0)));
        let names = self.input.fields().iter().map(|field| field.name().clone());
        table(arrival.into_iter().chain(names.zip(columns)).collect())
    }

    /// Keys in runs, each of which has about so many rows.
    fn runs(&self, rows: usize) -> Vec<Vec<Run>> {
        let (mut runs, mut left) = (Vec::<Vec<Run>>::new(), 0);
        for (window, best) in self.windows.iter().enumerate() {
            let mut from = 0;
            while from < best.keys() {
                if left == 0 {
                    runs.push(Vec::new());
                    left = rows;
                }
                let to = from + best.keys_of_rows(left);
                left = left.saturating_sub(best.rows_of_keys(to.min(best.keys()) - from));
                runs.last_mut().expect("the first is there").push(Run { window, keys: from..to });
                from = to;
            }
        }
        runs
    }
}

impl WindowRank {
    /// Hands out the best rows by window and key, keys in the order in which they came.
    pub(super) fn saved(&mut self) -> OperatorState {
        let handed = Arc::new(HandedRanks {
            name: self.name.clone(),
            watermark: self.watermark,
            arrived: self.arrived,
            rows: self.rows.clone(),
            order_columns: self.order_columns.len(),
            has_arrival: self.ties != RankTies::Columns,
            input: self.input.clone(),
            windows: self.windows.values_mut().map(|window| window.best.hand_out()).collect(),
        });
        let (runs, of_runs) = (handed.runs(LATER_ROWS), handed.clone());
        let state = OperatorState::default().with_later(move || handed.own());
        state.with_parts_later("rows", runs.len(), move |at| of_runs.table(&runs[at]))
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
