//! Operators that are put aside and replaced again and again: what tests hold state against.

use std::sync::Arc;

use laxity_graph::{Approximation, EventClock, EventTime, ProcessingTime};

use crate::{
    Flow, InstanceContext, Operator, OperatorError, OperatorFactory, OperatorState, Outbox, StateError,
    StreamBatch,
};

type Carry = Arc<dyn Fn(OperatorState) -> OperatorState + Send + Sync>;

/// See [`OperatorFactory::restarted`].
struct Restarted {
    operator: Box<dyn Operator>,
    make: OperatorFactory,
    context: InstanceContext,
    carry: Carry,
    after: u64,
    messages: u32,
    clock: Option<EventClock>,
    event_times: Option<(EventTime, EventTime)>,
}

impl OperatorFactory {
    /// The same operators, each of which is saved after message `i`, dropped, and restored in a new instance, wherever bit
    /// `i mod 64` of `after` is set. What was saved goes through `carry` in between, which may write it down and read it.
    ///
    /// Rows and watermarks that come out are the same. One that cannot be saved fails at the first such message.
    #[must_use]
    pub fn restarted(
        self,
        after: u64,
        carry: impl Fn(OperatorState) -> OperatorState + Send + Sync + 'static,
    ) -> OperatorFactory {
        let carry: Carry = Arc::new(carry);
        OperatorFactory::new(move |context| {
            Ok(Box::new(Restarted {
                operator: self.make(context)?,
                make: self.clone(),
                context: *context,
                carry: Arc::clone(&carry),
                after,
                messages: 0,
                clock: None,
                event_times: None,
            }))
        })
    }
}

impl Restarted {
    /// Once a message has been worked through.
    fn after(&mut self, flow: Flow) -> Result<Flow, OperatorError> {
        if flow == Flow::Done {
            let bit = self.messages % u64::BITS;
            self.messages += 1;
            if self.after >> bit & 1 == 1 {
                self.restart()?;
            }
        }
        Ok(flow)
    }

    fn restart(&mut self) -> Result<(), OperatorError> {
        let internal = |error: StateError| OperatorError::Internal {
            operator: "restart".into(),
            message: error.to_string(),
        };
        let state = (self.carry)(self.operator.save().map_err(internal)?);
        self.operator = self.make.make(&self.context)?;
        if let Some(clock) = self.clock {
            self.operator.on_event_clock(clock);
        }
        self.operator.restore(state).map_err(internal)
    }
}

impl Operator for Restarted {
    fn on_batch(
        &mut self,
        input: usize,
        batch: StreamBatch,
        ingested: ProcessingTime,
        out: &mut Outbox,
    ) -> Result<Flow, OperatorError> {
        let flow = self.operator.on_batch(input, batch, ingested, out)?;
        self.event_times = self.operator.event_times();
        self.after(flow)
    }

    fn on_watermark(&mut self, watermark: EventTime, out: &mut Outbox) -> Result<Flow, OperatorError> {
        let flow = self.operator.on_watermark(watermark, out)?;
        self.after(flow)
    }

    fn resume(&mut self, out: &mut Outbox) -> Result<Flow, OperatorError> {
        let flow = self.operator.resume(out)?;
        self.after(flow)
    }

    fn on_event_clock(&mut self, clock: EventClock) {
        self.clock = Some(clock);
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
        let flow = self.operator.on_time(now, out)?;
        self.after(flow)
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

    fn event_times(&self) -> Option<(EventTime, EventTime)> {
        self.event_times
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
