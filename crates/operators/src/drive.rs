//! Tests' driver: calls one operator as the engine would and checks the contract on the way.

use std::sync::Arc;

use arrow::array::{Array, RecordBatch};
use arrow::datatypes::{IntervalMonthDayNano, SchemaRef};
use arrow::util::display::{ArrayFormatter, FormatOptions};
use datafusion_common::ScalarValue;
use datafusion_expr::Operator as BinaryOperator;
use datafusion_physical_expr::expressions::{Column, binary, lit};
use laxity_graph::{EventTime, ProcessingTime};

use crate::{
    Chain, DeadReason, Emitted, Flow, Operator, Outbox, SourceColumn, SourceOperator, SourceSpec,
    StreamBatch, WatermarkSpec,
};

/// What to tell an operator.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    Batch(StreamBatch, ProcessingTime),
    Watermark(i64),
}

/// What an operator answered, in a form that tests compare.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Answer {
    /// Batches and watermarks in order.
    pub(crate) emitted: Vec<Sent>,
    /// Late rows as text, with the window's end.
    pub(crate) late: Vec<(String, i64)>,
    pub(crate) dead: Vec<(String, DeadReason)>,
    /// Calls that left work for later.
    pub(crate) cuts: usize,
}

#[derive(Debug, PartialEq)]
pub(crate) enum Sent {
    Batch { rows: Vec<String>, ingested: Option<ProcessingTime>, window_end: Option<EventTime> },
    Watermark(i64),
}

impl Answer {
    /// All result rows in order.
    pub(crate) fn rows(&self) -> Vec<String> {
        let batches = self.emitted.iter().filter_map(|sent| match sent {
            Sent::Batch { rows, .. } => Some(rows.clone()),
            Sent::Watermark(_) => None,
        });
        batches.flatten().collect()
    }

    pub(crate) fn sorted_rows(&self) -> Vec<String> {
        let mut rows = self.rows();
        rows.sort();
        rows
    }

    pub(crate) fn watermarks(&self) -> Vec<i64> {
        let watermarks = self.emitted.iter().filter_map(|sent| match sent {
            Sent::Watermark(watermark) => Some(*watermark),
            Sent::Batch { .. } => None,
        });
        watermarks.collect()
    }
}

/// Runs the steps; no batch may have more than `batch_rows` rows, unless it is 0.
pub(crate) fn drive(operator: &mut dyn Operator, steps: Vec<Step>, batch_rows: usize) -> Answer {
    let mut answer = Answer::default();
    for step in steps {
        let before = answer.emitted.len();
        let mut out = Outbox::default();
        let mut flow = match step {
            Step::Batch(batch, ingested) => operator.on_batch(0, batch, ingested, &mut out),
            Step::Watermark(watermark) => operator.on_watermark(EventTime(watermark), &mut out),
        };
        loop {
            let flow_now = flow.unwrap();
            collect(&mut answer, std::mem::take(&mut out), batch_rows);
            if flow_now == Flow::Done {
                break;
            }
            answer.cuts += 1;
            let sent = answer.emitted[before..].last();
            assert!(!matches!(sent, Some(Sent::Watermark(_))), "a watermark left before its results");
            flow = operator.resume(&mut out);
        }
        assert_eq!(operator.resume(&mut Outbox::default()).unwrap(), Flow::Done);
    }
    answer
}

fn collect(answer: &mut Answer, out: Outbox, batch_rows: usize) {
    for emitted in out.emitted {
        answer.emitted.push(match emitted {
            Emitted::Batch { batch, ingested, window_end } => {
                assert!(
                    batch_rows == 0 || batch.num_rows() <= batch_rows,
                    "{} rows in a batch",
                    batch.num_rows()
                );
                if let Some(watermarks) = &batch.watermark_before {
                    assert_eq!(watermarks.len(), batch.num_rows());
                }
                Sent::Batch { rows: texts(&batch.rows), ingested, window_end }
            }
            Emitted::Watermark(watermark) => Sent::Watermark(watermark.0),
        });
    }
    for late in out.late {
        assert_eq!(late.rows.num_rows(), late.window_end.len());
        answer.late.extend(texts(&late.rows).into_iter().zip(late.window_end.values().iter().copied()));
    }
    for dead in out.dead {
        answer.dead.extend(texts(&dead.rows).into_iter().map(|row| (row, dead.reason.clone())));
    }
}

/// Rows as `a|b|c`, with `-` for NULL and timestamps in milliseconds.
pub(crate) fn texts(rows: &RecordBatch) -> Vec<String> {
    use arrow::array::AsArray;
    use arrow::datatypes::{DataType, TimeUnit, TimestampMillisecondType};
    let options = FormatOptions::default().with_null("-");
    let cell = |column: &dyn Array, row: usize| match column.data_type() {
        DataType::Timestamp(TimeUnit::Millisecond, _) if column.is_valid(row) => {
            column.as_primitive::<TimestampMillisecondType>().value(row).to_string()
        }
        _ => ArrayFormatter::try_new(column, &options).unwrap().value(row).to_string(),
    };
    let row = |row| rows.columns().iter().map(|c| cell(c.as_ref(), row)).collect::<Vec<_>>().join("|");
    (0..rows.num_rows()).map(row).collect()
}

/// Cuts rows at the given places; a watermark that rose follows each piece, and the end of the input all.
///
/// `watermark_after` is the source's watermark after each row.
pub(crate) fn cut(rows: &RecordBatch, watermark_after: &[i64], lengths: &[usize]) -> Vec<Step> {
    let before: Vec<i64> = std::iter::once(i64::MIN).chain(watermark_after.iter().copied()).collect();
    let mut steps = Vec::new();
    let mut offset = 0;
    let mut sent = i64::MIN;
    let mut lengths = lengths.iter().copied().cycle();
    while offset < rows.num_rows() {
        let length = lengths.next().unwrap_or(1).clamp(1, rows.num_rows() - offset);
        let batch = StreamBatch {
            rows: rows.slice(offset, length),
            watermark_before: Some(before[offset..offset + length].to_vec().into()),
        };
        offset += length;
        steps.push(Step::Batch(batch, ProcessingTime(offset as u64)));
        if before[offset] > sent {
            sent = before[offset];
            steps.push(Step::Watermark(sent));
        }
    }
    steps.push(Step::Watermark(i64::MAX));
    steps
}

/// The operator behind a source that finds the watermark, `delay_ms` behind the column `time`.
pub(crate) fn behind_source(
    operator: impl Operator + 'static,
    schema: &SchemaRef,
    time: usize,
    delay_ms: i64,
) -> Chain {
    let delay = IntervalMonthDayNano::new(0, 0, delay_ms * 1_000_000);
    let delay = lit(ScalarValue::IntervalMonthDayNano(Some(delay)));
    let column = Arc::new(Column::new(schema.field(time).name(), time));
    let spec = SourceSpec {
        name: "Source".into(),
        columns: (0..schema.fields().len()).map(SourceColumn::Physical).collect(),
        output_schema: Arc::clone(schema),
        watermark: Some(WatermarkSpec {
            time_column: time,
            expression: binary(column, BinaryOperator::Minus, delay, schema).unwrap(),
            max_ahead_ms: None,
            split_column: None,
        }),
        processing_origin_ms: 0,
    };
    Chain::new(vec![Box::new(SourceOperator::new(&spec).unwrap()), Box::new(operator)])
}

/// Cuts rows as a scan hands them to a source, and ends the input.
pub(crate) fn scanned(rows: &RecordBatch, lengths: &[usize]) -> Vec<Step> {
    let steps = cut(rows, &vec![i64::MIN; rows.num_rows()], lengths).into_iter();
    let steps = steps.map(|step| match step {
        Step::Batch(batch, ingested) => Step::Batch(StreamBatch::on_time(batch.rows), ingested),
        end => end,
    });
    steps.collect()
}
