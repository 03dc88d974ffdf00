//! Rows that wait, as a table, with the number and the bounds of their session.

use std::sync::Arc;

use arrow::array::{Int64Array, UInt64Array};
use arrow::datatypes::{Int64Type, UInt64Type};
use laxity_graph::{EventTime, ProcessingTime};

use super::{ROW_OVERHEAD_BYTES, SESSION_OVERHEAD_BYTES, Session, SessionExpand, SessionKey};
use crate::OperatorState;
use crate::state::{NamedColumn, Part, Result, bug, named, table};

/// Columns before those of the rows.
const OWN: usize = 3;

/// Rows that are decoded together.
const PIECE_ROWS: usize = 8_192;

impl SessionExpand {
    /// Rows with the number and the bounds of their session, in the order in which they would leave.
    pub(super) fn saved(&self) -> Result<OperatorState> {
        let fail = |e: arrow::error::ArrowError| bug(&self.name, e);
        let rows: usize = self.sessions.values().map(|session| session.rows.len()).sum();
        let state = OperatorState::default().with(
            "session-expand",
            vec![
                named("watermark", Int64Array::from(vec![self.watermark.0])),
                named("next-number", UInt64Array::from(vec![self.next_id])),
                named("rows", UInt64Array::from(vec![rows as u64])),
            ],
        )?;
        let all = self.sessions.iter().flat_map(|(id, session)| {
            session.rows.iter().map(move |row| (id.1, session.start, id.0, row.as_ref()))
        });
        let all: Vec<(u64, i64, i64, &[u8])> = all.collect();
        let pieces = all.chunks(PIECE_ROWS).map(|rows| {
            let columns = self.rows.convert_rows(rows.iter().map(|row| self.parser.parse(row.3)));
            let mut named_columns: Vec<NamedColumn> = vec![
                named("session", UInt64Array::from_iter_values(rows.iter().map(|row| row.0))),
                named("session-start", Int64Array::from_iter_values(rows.iter().map(|row| row.1))),
                named("session-end", Int64Array::from_iter_values(rows.iter().map(|row| row.2))),
            ];
            let names = self.input.fields().iter().map(|field| field.name().clone());
            named_columns.extend(names.zip(columns.map_err(fail)?));
            table(named_columns)
        });
        state.with_pieces("rows", pieces.collect::<Result<_>>()?)
    }

    pub(super) fn restored(&mut self, mut state: OperatorState) -> Result<()> {
        let own = state.take("session-expand")?;
        self.watermark = EventTime(own.only::<Int64Type>("watermark")?);
        self.next_id = own.only::<UInt64Type>("next-number")?;
        let rows = own.only::<UInt64Type>("rows")?;
        let mut found = 0;
        for part in state.take_pieces("rows") {
            found += part.len() as u64;
            self.restore_part(&part)?;
        }
        if found != rows {
            return Err(own.mismatch(format!("{rows} rows"), found.to_string()));
        }
        // Those of a key are looked through in the order in which they were made.
        for ids in self.by_key.values_mut() {
            ids.sort_unstable_by_key(|id| id.1);
        }
        state.finish()
    }

    fn restore_part(&mut self, part: &Part) -> Result<()> {
        let rows = part.rest_rows(OWN, &self.input)?;
        let (keys, encoded) = self.encode(&rows).map_err(|e| bug(&self.name, e))?;
        let numbers = part.values::<UInt64Type>("session")?;
        let starts = part.values::<Int64Type>("session-start")?;
        let ends = part.values::<Int64Type>("session-end")?;
        for row in 0..part.len() {
            let id: SessionKey = (ends[row], numbers[row]);
            if id.1 >= self.next_id {
                return Err(part.mismatch(format!("sessions below {}", self.next_id), id.1.to_string()));
            }
            let data = encoded.row(row);
            self.bytes += data.data().len() + ROW_OVERHEAD_BYTES;
            if let Some(session) = self.sessions.get_mut(&id) {
                session.rows.push(data.data().into());
                continue;
            }
            let key = keys.as_ref().map(|keys| keys.row(row));
            let key = key.as_ref().map_or(&[][..], |key| key.data());
            let key: Arc<[u8]> = match self.by_key.get_key_value(key) {
                Some((key, _)) => Arc::clone(key),
                None => key.into(),
            };
            self.bytes += key.len() + SESSION_OVERHEAD_BYTES;
            self.by_key.entry(Arc::clone(&key)).or_default().push(id);
            let rows = vec![data.data().into()];
            self.sessions
                .insert(id, Session { key, start: starts[row], rows, ingested: ProcessingTime::ZERO });
        }
        Ok(())
    }
}
