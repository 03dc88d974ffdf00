use laxity_graph::{EventTime, ProcessingTime};

use crate::{Flow, Operator, OperatorError, Outbox, StreamBatch, WindowAggregateSpec};

/// Session windows.
pub(crate) struct SessionAggregate {}

impl SessionAggregate {
    pub(crate) fn new(
        spec: &WindowAggregateSpec,
        _gap_ms: i64,
        _batch_rows: usize,
    ) -> Result<SessionAggregate, OperatorError> {
        Err(crate::expression::internal(&spec.name, "sessions are not built yet"))
    }
}

impl Operator for SessionAggregate {
    fn on_batch(
        &mut self,
        _input: usize,
        _batch: StreamBatch,
        _ingested: ProcessingTime,
        _out: &mut Outbox,
    ) -> Result<Flow, OperatorError> {
        Ok(Flow::Done)
    }

    fn on_watermark(&mut self, _watermark: EventTime, _out: &mut Outbox) -> Result<Flow, OperatorError> {
        Ok(Flow::Done)
    }
}
