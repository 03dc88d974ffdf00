//! How a query goes on after a row that no expression can compute: the batch is cut in halves until that row is alone.

use arrow::array::RecordBatch;
use laxity_graph::{Approximation, EventClock, EventTime, ProcessingTime};

use crate::{
    DeadReason, DeadRows, Flow, Operator, OperatorError, OperatorFactory, OperatorState, Outbox, StateError,
    StreamBatch,
};

/// An operator whose rows that make it fail are put aside, each with its error, so that no other row of their batch is
/// lost: `laxity.row.error` = `dead-letter`.
///
/// The operator must be as it was before when `on_batch` [fails over a row](OperatorError::is_of_a_row): what can do so is
/// computed before anything is kept.
pub struct FailingRows {
    operator: Box<dyn Operator>,
}

impl FailingRows {
    /// A factory whose operators put such rows aside.
    pub fn factory(factory: OperatorFactory) -> OperatorFactory {
        OperatorFactory::new(move |context| Ok(Box::new(FailingRows { operator: factory.make(context)? })))
    }

    /// The batch, or its halves where it fails, first to last: results do not depend on how rows are cut.
    fn take(
        &mut self,
        input: usize,
        batch: StreamBatch,
        ingested: ProcessingTime,
        out: &mut Outbox,
    ) -> Result<Flow, OperatorError> {
        let before = (out.emitted.len(), out.late.len(), out.dead.len());
        let error = match self.operator.on_batch(input, batch.clone(), ingested, out) {
            Err(error) if error.is_of_a_row() => error,
            other => return other,
        };
        out.emitted.truncate(before.0);
        out.late.truncate(before.1);
        out.dead.truncate(before.2);
        let rows = batch.num_rows();
        if rows <= 1 {
            out.dead.push(DeadRows { rows: batch.rows, reason: failed(&error) });
            return Ok(Flow::Done);
        }
        let half = rows / 2;
        let mut flow = self.take(input, batch.slice(0, half), ingested, out)?;
        while flow == Flow::More {
            flow = self.operator.resume(out)?;
        }
        self.take(input, batch.slice(half, rows - half), ingested, out)
    }
}

impl Operator for FailingRows {
    fn on_batch(
        &mut self,
        input: usize,
        batch: StreamBatch,
        ingested: ProcessingTime,
        out: &mut Outbox,
    ) -> Result<Flow, OperatorError> {
        self.take(input, batch, ingested, out)
    }

    fn on_watermark(&mut self, watermark: EventTime, out: &mut Outbox) -> Result<Flow, OperatorError> {
        self.operator.on_watermark(watermark, out)
    }

    fn resume(&mut self, out: &mut Outbox) -> Result<Flow, OperatorError> {
        self.operator.resume(out)
    }

    fn on_event_clock(&mut self, clock: EventClock) {
        self.operator.on_event_clock(clock);
    }

    fn keeps_time(&self) -> bool {
        self.operator.keeps_time()
    }

    fn arrival_step_ms(&self) -> Option<i64> {
        self.operator.arrival_step_ms()
    }

    fn on_overload(&mut self, is_overloaded: bool) {
        self.operator.on_overload(is_overloaded);
    }

    fn on_time(&mut self, now: ProcessingTime, out: &mut Outbox) -> Result<Flow, OperatorError> {
        self.operator.on_time(now, out)
    }

    fn approximation(&self) -> Option<Approximation> {
        self.operator.approximation()
    }

    fn wake_at(&self) -> Option<ProcessingTime> {
        self.operator.wake_at()
    }

    fn follows_processing_time(&self) -> bool {
        self.operator.follows_processing_time()
    }

    fn waits_for_time(&self) -> bool {
        self.operator.waits_for_time()
    }

    fn event_times(&self) -> Option<(EventTime, EventTime)> {
        self.operator.event_times()
    }

    fn save(&mut self) -> Result<OperatorState, StateError> {
        self.operator.save()
    }

    fn restore(&mut self, state: OperatorState) -> Result<(), StateError> {
        self.operator.restore(state)
    }

    fn state_bytes(&self) -> usize {
        self.operator.state_bytes()
    }
}

/// Those of `rows` over which `evaluate` does not fail, as a mask; each other one is put into `dead`.
pub(crate) fn mask_of(
    rows: &RecordBatch,
    dead: &mut Vec<DeadRows>,
    evaluate: &mut dyn FnMut(&RecordBatch) -> Result<Vec<bool>, OperatorError>,
) -> Result<Vec<bool>, OperatorError> {
    let error = match evaluate(rows) {
        Err(error) if error.is_of_a_row() => error,
        other => return other,
    };
    if rows.num_rows() <= 1 {
        dead.push(DeadRows { rows: rows.clone(), reason: failed(&error) });
        return Ok(vec![false; rows.num_rows()]);
    }
    let half = rows.num_rows() / 2;
    let mut mask = mask_of(&rows.slice(0, half), dead, evaluate)?;
    mask.extend(mask_of(&rows.slice(half, rows.num_rows() - half), dead, evaluate)?);
    Ok(mask)
}

fn failed(error: &OperatorError) -> DeadReason {
    DeadReason::Failed(error.to_string().into())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{Int64Array, RecordBatch};
    use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
    use datafusion_expr::Operator as BinaryOperator;
    use datafusion_physical_expr::PhysicalExpr;
    use datafusion_physical_expr::expressions::{Column, binary, lit};
    use laxity_graph::ProcessingTime;
    use proptest::prelude::*;

    use super::*;
    use crate::drive::{Step, drive};
    use crate::{CalcSpec, InstanceContext};

    const CONTEXT: InstanceContext = InstanceContext { instance: 0, parallelism: 1, batch_rows: 64 };

    fn schema() -> SchemaRef {
        Arc::new(Schema::new(vec![Field::new("n", DataType::Int64, true)]))
    }

    /// `100 / n`, which fails for 0.
    fn hundredths(predicate: Option<Arc<dyn PhysicalExpr>>) -> OperatorFactory {
        let column = Arc::new(Column::new("n", 0)) as Arc<dyn PhysicalExpr>;
        let quotient = binary(lit(100_i64), BinaryOperator::Divide, column, &schema()).unwrap();
        CalcSpec {
            name: "Calc".into(),
            input_schema: schema(),
            predicate,
            projection: vec![(quotient, "q".into())],
            output_schema: None,
        }
        .factory()
    }

    fn batch(values: &[i64]) -> StreamBatch {
        let column = Arc::new(Int64Array::from(values.to_vec()));
        StreamBatch::on_time(RecordBatch::try_new(schema(), vec![column]).unwrap())
    }

    proptest! {
        #[test]
        fn all_rows_but_those_that_fail_go_on_in_order(
            values in prop::collection::vec(-3_i64..4, 0..70),
            cut in 1_usize..70,
        ) {
            let mut operator = FailingRows::factory(hundredths(None)).make(&CONTEXT).unwrap();
            let steps = values.chunks(cut).map(|part| Step::Batch(batch(part), ProcessingTime::ZERO)).collect();
            let answer = drive(operator.as_mut(), steps, 64);
            let wanted = values.iter().filter(|n| **n != 0).map(|n| (100 / n).to_string());
            prop_assert_eq!(answer.rows(), wanted.collect::<Vec<_>>());
            prop_assert_eq!(answer.dead.len(), values.iter().filter(|n| **n == 0).count());
            for (row, reason) in answer.dead {
                prop_assert_eq!(row, "0");
                prop_assert!(reason.to_string().to_lowercase().contains("divide by zero"), "{}", reason);
            }
        }
    }

    #[test]
    fn without_it_the_first_such_row_is_an_error() {
        let mut operator = hundredths(None).make(&CONTEXT).unwrap();
        let answered = operator.on_batch(0, batch(&[1, 0, 2]), ProcessingTime::ZERO, &mut Outbox::default());
        assert!(answered.is_err_and(|error| error.is_of_a_row()));
    }
}
