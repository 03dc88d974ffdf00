//! SESSION by itself: rows wait for the bounds of their session.

mod saved;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use arrow::array::{Array, Int64Array, RecordBatch};
use arrow::datatypes::{DataType, SchemaRef};
use arrow::error::ArrowError;
use arrow::row::{RowConverter, RowParser, Rows, SortField};
use laxity_graph::{EventTime, ProcessingTime};

use crate::expression::internal;
use crate::window_expand::expanded_schema;
use crate::window_rows::{check_timestamp, choose, timestamp_column, timestamps};
use crate::{
    DeadReason, DeadRows, Flow, LateRows, Operator, OperatorError, OperatorFactory, OperatorState, Outbox,
    StateError, StreamBatch,
};

/// The SESSION table function by itself: rows wait until their session has closed, then leave with its bounds
/// as `window_start`, `window_end` and `window_time`.
///
/// The input must be partitioned by the keys.
#[derive(Clone, Debug)]
pub struct SessionExpandSpec {
    /// As `explain` names it.
    pub name: String,
    /// Columns of the input.
    pub input_schema: SchemaRef,
    /// The time attribute, a timestamp in milliseconds.
    pub time: usize,
    /// It is a PROCTIME(): no row is late, it counts for the sessions that are open when it comes.
    pub processing_time: bool,
    /// PARTITION BY. May be empty. NULLs are one key.
    pub keys: Vec<usize>,
    /// Silence that ends a session.
    pub gap_ms: i64,
}

impl SessionExpandSpec {
    /// As [`WindowExpandSpec::output_schema`](crate::WindowExpandSpec::output_schema).
    pub fn output_schema(&self) -> SchemaRef {
        expanded_schema(&self.input_schema, self.time)
    }

    /// Makes the operator's instances.
    pub fn factory(self) -> OperatorFactory {
        OperatorFactory::new(move |context| Ok(Box::new(SessionExpand::new(&self, context.batch_rows)?)))
    }
}

/// The operator of a [`SessionExpandSpec`].
///
/// Flink's rule: a row makes a window `[time, time + gap)`, which merges with every window of its key that it
/// overlaps or touches and that has not closed by the watermark before the row. The row is late if there is
/// none and its own window has closed.
#[derive(Debug)]
struct SessionExpand {
    name: String,
    time: usize,
    processing_time: bool,
    gap_ms: i64,
    input: SchemaRef,
    key_columns: Vec<usize>,
    key_converter: RowConverter,
    rows: RowConverter,
    parser: RowParser,
    output: SchemaRef,
    sessions: BTreeMap<SessionKey, Session>,
    by_key: HashMap<Arc<[u8]>, Vec<SessionKey>>,
    next_id: u64,
    watermark: EventTime,
    /// The session being emitted. No message is taken before it is through.
    firing: Option<(i64, Session)>,
    batch_rows: usize,
    bytes: usize,
}

/// A session by its end, then its number: the order in which sessions close.
type SessionKey = (i64, u64);

#[derive(Debug)]
struct Session {
    key: Arc<[u8]>,
    start: i64,
    /// In Arrow's row format.
    rows: Vec<Box<[u8]>>,
    ingested: ProcessingTime,
}

/// Bytes of a waiting row besides its contents: its slot and the allocator's header.
const ROW_OVERHEAD_BYTES: usize = size_of::<Box<[u8]>>() + 16;

/// Bytes of a session besides its key: itself and its entries in both maps.
const SESSION_OVERHEAD_BYTES: usize = 2 * size_of::<(SessionKey, Session)>();

impl SessionExpand {
    fn new(spec: &SessionExpandSpec, batch_rows: usize) -> Result<SessionExpand, OperatorError> {
        let bug = |e: ArrowError| internal(&spec.name, e);
        check_timestamp(&spec.name, &spec.input_schema, spec.time)?;
        let sort_field = |column: usize| SortField::new(spec.input_schema.field(column).data_type().clone());
        let all = (0..spec.input_schema.fields().len()).map(sort_field).collect();
        let rows = RowConverter::new(all).map_err(bug)?;
        Ok(SessionExpand {
            name: spec.name.clone(),
            time: spec.time,
            processing_time: spec.processing_time,
            gap_ms: spec.gap_ms,
            key_converter: RowConverter::new(spec.keys.iter().map(|&key| sort_field(key)).collect())
                .map_err(bug)?,
            input: Arc::clone(&spec.input_schema),
            key_columns: spec.keys.clone(),
            parser: rows.parser(),
            rows,
            output: spec.output_schema(),
            sessions: BTreeMap::new(),
            by_key: HashMap::new(),
            next_id: 0,
            watermark: EventTime::MIN,
            firing: None,
            batch_rows: batch_rows.max(1),
            bytes: 0,
        })
    }

    /// Puts a row into its session. Returns the end of the window it would have made if it is late.
    fn place(
        &mut self,
        key: &[u8],
        time: i64,
        seen: i64,
        row: &[u8],
        ingested: ProcessingTime,
    ) -> Result<(), i64> {
        let (mut start, mut end) = (time, time.saturating_add(self.gap_ms));
        let is_open = |end: i64| end.saturating_sub(1) > seen;
        let met = |&(its_end, id): &SessionKey, sessions: &BTreeMap<SessionKey, Session>| {
            is_open(its_end) && time <= its_end && sessions[&(its_end, id)].start <= end
        };
        let of_key = self.by_key.get(key).map_or(&[][..], Vec::as_slice);
        let mut met: Vec<SessionKey> = of_key.iter().copied().filter(|of| met(of, &self.sessions)).collect();
        if met.is_empty() && !is_open(end) {
            return Err(end);
        }
        self.bytes += row.len() + ROW_OVERHEAD_BYTES;
        if let [only] = met[..]
            && only.0 >= end
            && let Some(session) = self.sessions.get_mut(&only)
        {
            session.start = session.start.min(start);
            session.ingested = session.ingested.max(ingested);
            session.rows.push(row.into());
            return Ok(());
        }

        // The session of most rows takes the others in.
        met.sort_by_key(|of| self.sessions[of].rows.len());
        let merged: Vec<(SessionKey, Session)> =
            met.iter().rev().filter_map(|of| Some((*of, self.sessions.remove(of)?))).collect();
        let mut merged = merged.into_iter();
        let mut session = match merged.next() {
            Some(((its_end, _), session)) => {
                (start, end) = (start.min(session.start), end.max(its_end));
                session
            }
            None => {
                let key: Arc<[u8]> = match self.by_key.get_key_value(key) {
                    Some((key, _)) => Arc::clone(key),
                    None => key.into(),
                };
                self.bytes += key.len() + SESSION_OVERHEAD_BYTES;
                Session { key, start, rows: Vec::new(), ingested }
            }
        };
        for ((its_end, _), other) in merged {
            (start, end) = (start.min(other.start), end.max(its_end));
            session.ingested = session.ingested.max(other.ingested);
            session.rows.extend(other.rows);
            self.bytes -= other.key.len() + SESSION_OVERHEAD_BYTES;
        }
        session.start = start;
        session.ingested = session.ingested.max(ingested);
        session.rows.push(row.into());
        let id = (end, self.next_id);
        self.next_id += 1;
        let of_key = self.by_key.entry(Arc::clone(&session.key)).or_default();
        of_key.retain(|of| !met.contains(of));
        of_key.push(id);
        self.sessions.insert(id, session);
        Ok(())
    }

    /// Emits closed sessions, at most one output batch per call, and the watermark behind them.
    fn fire(&mut self, out: &mut Outbox) -> Result<Flow, OperatorError> {
        let mut rows: Vec<Box<[u8]>> = Vec::new();
        let (mut starts, mut ends) = (Vec::new(), Vec::new());
        let mut ingested = ProcessingTime::ZERO;
        while rows.len() < self.batch_rows {
            let Some((end, mut session)) = self.firing.take().or_else(|| self.next_closed()) else { break };
            let taken = session.rows.len().min(self.batch_rows - rows.len());
            self.bytes -=
                session.rows[..taken].iter().map(|row| row.len() + ROW_OVERHEAD_BYTES).sum::<usize>();
            rows.extend(session.rows.drain(..taken));
            starts.resize(rows.len(), session.start);
            ends.resize(rows.len(), end);
            ingested = ingested.max(session.ingested);
            if session.rows.is_empty() {
                self.bytes -= session.key.len() + SESSION_OVERHEAD_BYTES;
            } else {
                self.firing = Some((end, session));
            }
        }
        let is_full = rows.len() == self.batch_rows;
        if let Some(&end) = ends.last() {
            let batch = self.decode(&rows, starts, ends).map_err(|e| internal(&self.name, e))?;
            out.result(StreamBatch::on_time(batch), ingested, Some(EventTime(end)));
        }
        if is_full {
            return Ok(Flow::More);
        }
        out.watermark(self.watermark);
        Ok(Flow::Done)
    }

    fn next_closed(&mut self) -> Option<(i64, Session)> {
        let (&id, _) = self.sessions.first_key_value()?;
        if id.0.saturating_sub(1) > self.watermark.0 {
            return None;
        }
        let session = self.sessions.remove(&id)?;
        if let Some(of_key) = self.by_key.get_mut(&session.key) {
            of_key.retain(|of| *of != id);
            if of_key.is_empty() {
                self.by_key.remove(&session.key);
            }
        }
        Some((id.0, session))
    }

    fn decode(
        &self,
        rows: &[Box<[u8]>],
        starts: Vec<i64>,
        ends: Vec<i64>,
    ) -> Result<RecordBatch, ArrowError> {
        let mut columns = self.rows.convert_rows(rows.iter().map(|row| self.parser.parse(row)))?;
        let times = ends.iter().map(|end| end.saturating_sub(1)).collect();
        let width = columns.len();
        let type_of = |nth: usize| -> &DataType { self.output.field(width + nth).data_type() };
        columns.push(timestamp_column(starts, type_of(0)));
        columns.push(timestamp_column(ends, type_of(1)));
        columns.push(timestamp_column(times, type_of(2)));
        RecordBatch::try_new(Arc::clone(&self.output), columns)
    }

    /// Keys and whole rows of a batch as bytes.
    fn encode(&self, rows: &RecordBatch) -> Result<(Option<Rows>, Rows), ArrowError> {
        let keys: Vec<_> = self.key_columns.iter().map(|&key| Arc::clone(rows.column(key))).collect();
        let keys = if keys.is_empty() { None } else { Some(self.key_converter.convert_columns(&keys)?) };
        Ok((keys, self.rows.convert_columns(rows.columns())?))
    }
}

impl Operator for SessionExpand {
    fn on_batch(
        &mut self,
        _input: usize,
        batch: StreamBatch,
        ingested: ProcessingTime,
        out: &mut Outbox,
    ) -> Result<Flow, OperatorError> {
        let (keys, rows) = self.encode(&batch.rows).map_err(|e| internal(&self.name, e))?;
        let times = timestamps(&batch.rows, self.time);
        let (mut late, mut ends, mut dead) = (Vec::new(), Vec::new(), Vec::new());
        for row in 0..batch.num_rows() {
            if times.is_null(row) {
                dead.push(row as u32);
                continue;
            }
            let own = batch.watermark_before.as_ref().map_or(i64::MIN, |before| before[row]);
            let (mut time, seen) = (times.value(row), own.max(self.watermark.0));
            if self.processing_time {
                time = time.max(seen.saturating_add(1));
            }
            let key = keys.as_ref().map(|keys| keys.row(row));
            let key = key.as_ref().map_or(&[][..], |key| key.data());
            if let Err(end) = self.place(key, time, seen, rows.row(row).data(), ingested) {
                late.push(row as u32);
                ends.push(end);
            }
        }
        if !late.is_empty() {
            out.late.push(LateRows { rows: choose(&batch.rows, late), window_end: Int64Array::from(ends) });
        }
        if !dead.is_empty() {
            out.dead.push(DeadRows { rows: choose(&batch.rows, dead), reason: DeadReason::NullTime });
        }
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
        self.saved()
    }

    fn restore(&mut self, state: OperatorState) -> Result<(), StateError> {
        self.restored(state)
    }

    fn state_bytes(&self) -> usize {
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::InstanceContext;
    use crate::drive::{Answer, Step, cut, drive};
    use arrow::array::{ArrayRef, TimestampMillisecondArray};
    use proptest::prelude::*;

    /// (key, value, time)
    type Row = (Option<i64>, i64, i64);

    fn batch(rows: &[Row]) -> RecordBatch {
        let times: TimestampMillisecondArray = rows.iter().map(|r| Some(r.2)).collect();
        RecordBatch::try_from_iter_with_nullable([
            ("k", Arc::new(rows.iter().map(|r| r.0).collect::<Int64Array>()) as ArrayRef, true),
            ("v", Arc::new(rows.iter().map(|r| Some(r.1)).collect::<Int64Array>()), true),
            ("t", Arc::new(times), true),
        ])
        .unwrap()
    }

    /// Gap of 5 ms.
    fn spec(keys: Vec<usize>) -> SessionExpandSpec {
        SessionExpandSpec {
            name: "w".into(),
            input_schema: batch(&[]).schema(),
            time: 2,
            processing_time: false,
            keys,
            gap_ms: 5,
        }
    }

    fn expand(keys: Vec<usize>, batch_rows: usize) -> Box<dyn Operator> {
        let context = InstanceContext { instance: 0, parallelism: 1, batch_rows };
        spec(keys).factory().make(&context).unwrap()
    }

    #[test]
    fn on_processing_time_no_row_is_late() {
        let spec = SessionExpandSpec { processing_time: true, ..spec(vec![0]) };
        let context = InstanceContext { instance: 0, parallelism: 1, batch_rows: 10 };
        let mut operator = spec.factory().make(&context).unwrap();
        let row = |v, t| Step::Batch(StreamBatch::on_time(batch(&[(Some(1), v, t)])), ProcessingTime::ZERO);
        // [1, 6) and [4, 9) are one; the clock closes it at 8. The row of 3 comes when it is 9: a session of its own.
        let steps = vec![row(1, 1), row(2, 4), Step::Watermark(8), row(3, 3), Step::Watermark(i64::MAX)];
        let answer = drive(operator.as_mut(), steps, 10);
        assert_eq!(answer.rows(), ["1|1|1|1|9|8", "1|2|4|1|9|8", "1|3|3|9|14|13"]);
        assert_eq!(answer.late, []);
    }

    /// Runs rows whose watermark stays `delay` ms behind the greatest time, cut into pieces.
    fn run(
        operator: &mut dyn Operator,
        rows: &[Row],
        delay: i64,
        lengths: &[usize],
        batch_rows: usize,
    ) -> Answer {
        drive(operator, cut(&batch(rows), &watermarks(rows, delay), lengths), batch_rows)
    }

    fn watermarks(rows: &[Row], delay: i64) -> Vec<i64> {
        rows.iter()
            .scan(i64::MIN, |highest, row| {
                *highest = (*highest).max(row.2 - delay);
                Some(*highest)
            })
            .collect()
    }

    #[test]
    fn rows_leave_with_the_bounds_of_their_session() {
        // Key 1: 0 and 9 are joined by 4 into [0, 14); key 2 has a session of its own.
        let rows = [(Some(1), 1, 0), (Some(1), 2, 9), (Some(2), 3, 2), (Some(1), 4, 4)];
        let answer = run(expand(vec![0], 100).as_mut(), &rows, 20, &[4], 100);
        assert_eq!(answer.sorted_rows(), ["1|1|0|0|14|13", "1|2|9|0|14|13", "1|4|4|0|14|13", "2|3|2|2|7|6"]);
        let answer = run(expand(vec![], 100).as_mut(), &rows, 20, &[4], 100);
        assert!(answer.rows().iter().all(|row| row.ends_with("|0|14|13")));
    }

    #[test]
    fn rows_of_closed_sessions_are_late() {
        // [0, 5) closes at watermark 4, before 3 comes, which makes [3, 8) and so touches [8, 13).
        let rows = [(Some(1), 1, 0), (Some(1), 2, 8), (Some(1), 3, 3), (Some(1), 4, -3), (Some(1), 5, 5)];
        let answer = run(expand(vec![0], 100).as_mut(), &rows, 4, &[1], 100);
        assert_eq!(answer.late, [("1|4|-3".to_owned(), 2)]);
        assert_eq!(answer.sorted_rows(), ["1|1|0|0|5|4", "1|2|8|3|13|12", "1|3|3|3|13|12", "1|5|5|3|13|12"]);
    }

    #[test]
    fn state_is_freed() {
        let mut operator = expand(vec![0], 100);
        let rows: Vec<Row> = (0..100).map(|i| (Some(i % 7), i, i)).collect();
        let mut steps = cut(&batch(&rows), &watermarks(&rows, 50), &[10]);
        steps.truncate(3);
        drive(operator.as_mut(), steps, 100);
        assert!(operator.state_bytes() > 0);
        drive(operator.as_mut(), vec![Step::Watermark(i64::MAX)], 100);
        assert_eq!(operator.state_bytes(), 0);
    }

    /// Flink's rule row by row: rows with their session's bounds, and late rows' values.
    fn literal(rows: &[Row], delay: i64) -> (Vec<String>, Vec<i64>) {
        let before: Vec<i64> = std::iter::once(i64::MIN).chain(watermarks(rows, delay)).collect();
        let mut sessions: Vec<(i64, i64, Vec<Row>)> = Vec::new();
        let mut late = Vec::new();
        for (&row, &before) in rows.iter().zip(&before) {
            let (mut start, mut end, mut members) = (row.2, row.2 + 5, vec![row]);
            let meets = |s: &(i64, i64, Vec<Row>)| {
                s.2[0].0 == row.0 && s.1 - 1 > before && s.0 <= row.2 + 5 && row.2 <= s.1
            };
            let (met, rest): (Vec<_>, Vec<_>) = sessions.into_iter().partition(meets);
            sessions = rest;
            if met.is_empty() && end - 1 <= before {
                late.push(row.1);
                continue;
            }
            for other in met {
                (start, end) = (start.min(other.0), end.max(other.1));
                members.extend(other.2);
            }
            sessions.push((start, end, members));
        }
        let text = |n: Option<i64>| n.map_or("-".to_owned(), |n| n.to_string());
        let mut out: Vec<String> = sessions
            .iter()
            .flat_map(|(start, end, members)| {
                let show = move |r: &Row| format!("{}|{}|{}|{start}|{end}|{}", text(r.0), r.1, r.2, end - 1);
                members.iter().map(show)
            })
            .collect();
        out.sort();
        (out, late)
    }

    proptest! {
        #[test]
        fn equals_the_literal_rule_however_batches_are_cut(
            drawn in proptest::collection::vec((proptest::option::weighted(0.9, 0i64..3), 0i64..25), 0..50),
            delay in 0i64..15,
            lengths in proptest::collection::vec(1usize..9, 1..9),
            batch_rows in 1usize..7,
        ) {
            let rows: Vec<Row> =
                drawn.iter().enumerate().map(|(i, &(key, behind))| (key, i as i64, i as i64 * 2 - behind)).collect();
            let answer = run(expand(vec![0], batch_rows).as_mut(), &rows, delay, &lengths, batch_rows);
            let (expected, late) = literal(&rows, delay);
            prop_assert_eq!(answer.sorted_rows(), expected);
            let values: Vec<i64> =
                answer.late.iter().map(|(row, _)| row.split('|').nth(1).unwrap().parse().unwrap()).collect();
            prop_assert_eq!(values, late);
        }
    }
}
