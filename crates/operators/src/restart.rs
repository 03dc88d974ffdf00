//! Operators that are put aside or killed, and replaced, again and again: what tests hold state against.

use std::sync::Arc;

use laxity_graph::{Approximation, EventClock, EventTime, ProcessingTime};

use crate::{
    Emitted, Flow, InstanceContext, Operator, OperatorError, OperatorFactory, OperatorState, Outbox,
    StateError, StreamBatch,
};

type Carry = Arc<dyn Fn(OperatorState) -> OperatorState + Send + Sync>;

/// See [`OperatorFactory::killed`].
struct Killed {
    operator: Box<dyn Operator>,
    make: OperatorFactory,
    context: InstanceContext,
    carry: Carry,
    saved_after: u64,
    killed_after: u64,
    messages: u32,
    saved: Option<OperatorState>,
    /// What it was told since it was saved.
    since: Vec<Told>,
    /// What it sent since: rows, watermarks, late rows and dead rows.
    sent: [usize; 4],
    clock: Option<EventClock>,
    event_times: Option<(EventTime, EventTime)>,
}

#[derive(Clone)]
enum Told {
    Batch(usize, StreamBatch, ProcessingTime),
    Watermark(EventTime),
    Overload(bool),
    Time(ProcessingTime),
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
        self.killed(after, after, carry)
    }

    /// The same operators, each of which is saved after message `i` wherever bit `i mod 64` of `saved_after` is set, and
    /// killed after it where that of `killed_after` is. A new instance then takes over what was saved last, through `carry`
    /// as above but only then, and is told what came since: what it makes of that was sent already, and is as much.
    #[must_use]
    pub fn killed(
        self,
        saved_after: u64,
        killed_after: u64,
        carry: impl Fn(OperatorState) -> OperatorState + Send + Sync + 'static,
    ) -> OperatorFactory {
        let carry: Carry = Arc::new(carry);
        OperatorFactory::new(move |context| {
            Ok(Box::new(Killed {
                operator: self.make(context)?,
                make: self.clone(),
                context: *context,
                carry: Arc::clone(&carry),
                saved_after,
                killed_after,
                messages: 0,
                saved: None,
                since: Vec::new(),
                sent: [0; 4],
                clock: None,
                event_times: None,
            }))
        })
    }
}

impl Killed {
    /// Tells it something, and counts what it sends.
    fn counted(
        &mut self,
        out: &mut Outbox,
        act: impl FnOnce(&mut dyn Operator, &mut Outbox) -> Result<Flow, OperatorError>,
    ) -> Result<Flow, OperatorError> {
        let before = sent(out);
        let flow = act(self.operator.as_mut(), out)?;
        let after = sent(out);
        self.sent
            .iter_mut()
            .zip(before.iter().zip(after))
            .for_each(|(sum, (before, now))| *sum += now - before);
        if flow == Flow::Done {
            let bit = 1 << (self.messages % u64::BITS);
            self.messages += 1;
            if self.saved_after & bit != 0 {
                self.saved = Some(self.operator.save().map_err(|error| internal(&error))?);
                self.since.clear();
                self.sent = [0; 4];
            }
            if self.killed_after & bit != 0 {
                self.start_again()?;
            }
        }
        Ok(flow)
    }

    fn start_again(&mut self) -> Result<(), OperatorError> {
        self.operator = self.make.make(&self.context)?;
        if let Some(clock) = self.clock {
            self.operator.on_event_clock(clock);
        }
        if let Some(saved) = &self.saved {
            self.operator.restore((self.carry)(saved.clone())).map_err(|error| internal(&error))?;
        }
        let mut again = Outbox::default();
        for told in self.since.clone() {
            let mut flow = match told {
                Told::Batch(input, batch, ingested) => {
                    self.operator.on_batch(input, batch, ingested, &mut again)?
                }
                Told::Watermark(watermark) => self.operator.on_watermark(watermark, &mut again)?,
                Told::Time(now) => self.operator.on_time(now, &mut again)?,
                Told::Overload(is_overloaded) => {
                    self.operator.on_overload(is_overloaded);
                    Flow::Done
                }
            };
            while flow == Flow::More {
                flow = self.operator.resume(&mut again)?;
            }
        }
        match sent(&again) == self.sent {
            true => Ok(()),
            false => Err(internal(&format!("it sent {:?}, and {:?} when killed", self.sent, sent(&again)))),
        }
    }
}

/// Rows, watermarks, late rows and dead rows.
fn sent(out: &Outbox) -> [usize; 4] {
    let mut sent = [0; 4];
    for emitted in &out.emitted {
        match emitted {
            Emitted::Batch { batch, .. } => sent[0] += batch.num_rows(),
            Emitted::Watermark(_) => sent[1] += 1,
        }
    }
    sent[2] = out.late.iter().map(|late| late.rows.num_rows()).sum();
    sent[3] = out.dead.iter().map(|dead| dead.rows.num_rows()).sum();
    sent
}

fn internal(error: &dyn ToString) -> OperatorError {
    OperatorError::Internal { operator: "killed".into(), message: error.to_string() }
}

impl Operator for Killed {
    fn on_batch(
        &mut self,
        input: usize,
        batch: StreamBatch,
        ingested: ProcessingTime,
        out: &mut Outbox,
    ) -> Result<Flow, OperatorError> {
        self.since.push(Told::Batch(input, batch.clone(), ingested));
        let mut times = None;
        let flow = self.counted(out, |operator, out| {
            let flow = operator.on_batch(input, batch, ingested, out);
            times = operator.event_times();
            flow
        });
        self.event_times = times;
        flow
    }

    fn on_watermark(&mut self, watermark: EventTime, out: &mut Outbox) -> Result<Flow, OperatorError> {
        self.since.push(Told::Watermark(watermark));
        self.counted(out, |operator, out| operator.on_watermark(watermark, out))
    }

    fn resume(&mut self, out: &mut Outbox) -> Result<Flow, OperatorError> {
        self.counted(out, |operator, out| operator.resume(out))
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
        self.since.push(Told::Overload(is_overloaded));
        self.operator.on_overload(is_overloaded);
    }

    fn on_time(&mut self, now: ProcessingTime, out: &mut Outbox) -> Result<Flow, OperatorError> {
        self.since.push(Told::Time(now));
        self.counted(out, |operator, out| operator.on_time(now, out))
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
