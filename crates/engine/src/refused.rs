//! Rows that an operator refuses, on their way to the dead letters of a table.

use std::sync::Arc;

use laxity_connect::RefusedRows;
use laxity_graph::{Approximation, EventClock, EventTime, ProcessingTime};
use laxity_operators::{
    DeadRows, Flow, Operator, OperatorError, OperatorState, Outbox, StateError, StreamBatch,
};
use laxity_runtime::Query;

use crate::chain_of_causes;

/// An operator that writes letters for the rows it refuses. They stay in the outbox, where they are counted.
pub(crate) struct LetterWriter {
    pub operator: Box<dyn Operator>,
    pub letters: RefusedRows,
    pub query: Arc<Query>,
}

impl LetterWriter {
    fn write(&self, refused: &[DeadRows]) -> Result<(), OperatorError> {
        for dead in refused {
            let name = &self.query.settings.name;
            let written = self.letters.put(name, &dead.rows, &dead.reason.to_string());
            written.map_err(|error| {
                if error.may_pass() {
                    self.query.note_that_it_passes();
                }
                OperatorError::Row { operator: "dead letters".into(), message: chain_of_causes(&error) }
            })?;
        }
        Ok(())
    }
}

impl Operator for LetterWriter {
    fn on_batch(
        &mut self,
        input: usize,
        batch: StreamBatch,
        ingested: ProcessingTime,
        out: &mut Outbox,
    ) -> Result<Flow, OperatorError> {
        let before = out.dead.len();
        let flow = self.operator.on_batch(input, batch, ingested, out)?;
        self.write(&out.dead[before..])?;
        Ok(flow)
    }

    fn on_watermark(&mut self, watermark: EventTime, out: &mut Outbox) -> Result<Flow, OperatorError> {
        let before = out.dead.len();
        let flow = self.operator.on_watermark(watermark, out)?;
        self.write(&out.dead[before..])?;
        Ok(flow)
    }

    fn save(&mut self) -> Result<OperatorState, StateError> {
        self.operator.save()
    }

    fn restore(&mut self, state: OperatorState) -> Result<(), StateError> {
        self.operator.restore(state)
    }

    fn resume(&mut self, out: &mut Outbox) -> Result<Flow, OperatorError> {
        let before = out.dead.len();
        let flow = self.operator.resume(out)?;
        self.write(&out.dead[before..])?;
        Ok(flow)
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
        let before = out.dead.len();
        let flow = self.operator.on_time(now, out)?;
        self.write(&out.dead[before..])?;
        Ok(flow)
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

    fn state_bytes(&self) -> usize {
        self.operator.state_bytes()
    }
}
