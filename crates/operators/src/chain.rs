//! Several operators as one that the scheduler sees: between them rows cost no message, and a long answer of one still
//! stops at the quantum.

use std::collections::VecDeque;

use laxity_graph::{Approximation, EventClock, EventTime, ProcessingTime, fetch};

use crate::{
    Emitted, Flow, GroupsOfSlice, Operator, OperatorError, OperatorFactory, OperatorState, Outbox,
    StateError, StatePart, StreamBatch,
};

/// Operators that run as one instance, each feeding the next without a mailbox between them (Flink's
/// operator chaining).
///
/// A result keeps the ingestion time and window end that it had when it left the operator that held it back,
/// through all those after it.
pub struct Chain {
    links: Vec<Link>,
}

struct Link {
    operator: Box<dyn Operator>,
    /// What the operator has just sent. Empty between calls.
    outbox: Outbox,
    /// Messages that wait because this link still has work left from the one before.
    /// Invariant: empty when the chain is done.
    waiting: VecDeque<Message>,
    has_more: bool,
    /// Cause of what the link sends without naming a cause.
    cause: Cause,
}

struct Message {
    input: usize,
    content: Content,
    cause: Cause,
}

enum Content {
    Batch(StreamBatch),
    Watermark(EventTime),
}

#[derive(Clone, Copy, Default)]
struct Cause {
    /// `None`: the message that the chain itself is at.
    ingested: Option<ProcessingTime>,
    window_end: Option<EventTime>,
    /// What to tell the next link where `ingested` is `None`.
    message: ProcessingTime,
}

impl Chain {
    /// Chains operators, first to last. There must be at least one.
    pub fn new(operators: Vec<Box<dyn Operator>>) -> Chain {
        assert!(!operators.is_empty(), "a chain needs an operator");
        let links = operators.into_iter().map(|operator| Link {
            operator,
            outbox: Outbox::default(),
            waiting: VecDeque::new(),
            has_more: false,
            cause: Cause::default(),
        });
        Chain { links: links.collect() }
    }

    /// A factory that chains what the given factories make. One factory is returned as it is.
    pub fn factory(mut factories: Vec<OperatorFactory>) -> OperatorFactory {
        assert!(!factories.is_empty(), "a chain needs an operator");
        if factories.len() == 1 {
            return factories.remove(0);
        }
        OperatorFactory::new(move |context| {
            let operators = factories.iter().map(|factory| factory.make(context));
            Ok(Box::new(Chain::new(operators.collect::<Result<_, _>>()?)))
        })
    }

    /// Hands a message to the first link, and what each link sends straight to the next. As long as no call leaves
    /// work, which is how nearly all messages go, nothing waits anywhere.
    fn start(
        &mut self,
        input: usize,
        content: Content,
        ingested: ProcessingTime,
        out: &mut Outbox,
    ) -> Result<Flow, OperatorError> {
        let cause = Cause { message: ingested, ..Cause::default() };
        deliver(&mut self.links, Message { input, content, cause }, out)?;
        Ok(self.flow())
    }

    fn flow(&self) -> Flow {
        let is_left = |link: &Link| link.has_more || !link.waiting.is_empty();
        if self.links.iter().any(is_left) { Flow::More } else { Flow::Done }
    }

    /// Works until nothing waits, or until what the first unfinished call sent has gone through the rest of the
    /// chain. The last link goes first, so that order is kept and little waits.
    fn run(&mut self, out: &mut Outbox) -> Result<Flow, OperatorError> {
        let mut cut = false;
        loop {
            let ready = |link: &Link| link.has_more || !link.waiting.is_empty();
            let Some(at) = self.links.iter().rposition(ready) else { return Ok(Flow::Done) };
            if cut && self.links[at].has_more {
                return Ok(Flow::More);
            }
            let links = &mut self.links[at..];
            if links[0].has_more {
                let flow = links[0].operator.resume(&mut links[0].outbox)?;
                sent(links, flow, out)?;
            } else if let Some(message) = links[0].waiting.pop_front() {
                take(links, message, out)?;
            }
            cut |= links[0].has_more;
        }
    }
}

/// Gives the first of `links` a message, at once if it is through with those before.
fn deliver(links: &mut [Link], message: Message, out: &mut Outbox) -> Result<(), OperatorError> {
    if links[0].has_more || !links[0].waiting.is_empty() {
        links[0].waiting.push_back(message);
        return Ok(());
    }
    take(links, message, out)
}

fn take(links: &mut [Link], message: Message, out: &mut Outbox) -> Result<(), OperatorError> {
    let link = &mut links[0];
    link.cause = message.cause;
    let flow = match message.content {
        Content::Batch(batch) => {
            let ingested = message.cause.ingested.unwrap_or(message.cause.message);
            link.operator.on_batch(message.input, batch, ingested, &mut link.outbox)?
        }
        Content::Watermark(watermark) => link.operator.on_watermark(watermark, &mut link.outbox)?,
    };
    sent(links, flow, out)
}

/// Hands what the first of `links` has sent to the next, or out.
fn sent(links: &mut [Link], flow: Flow, out: &mut Outbox) -> Result<(), OperatorError> {
    let Some((link, next)) = links.split_first_mut() else { return Ok(()) };
    link.has_more = flow == Flow::More;
    out.late.append(&mut link.outbox.late);
    out.dead.append(&mut link.outbox.dead);
    for emitted in link.outbox.emitted.drain(..) {
        let emitted = match emitted {
            Emitted::Batch { batch, ingested, window_end } => Emitted::Batch {
                batch,
                ingested: ingested.or(link.cause.ingested),
                window_end: window_end.or(link.cause.window_end),
            },
            watermark => watermark,
        };
        if next.is_empty() {
            out.emitted.push(emitted);
            continue;
        }
        let message = link.cause.message;
        let (content, cause) = match emitted {
            Emitted::Batch { batch, ingested, window_end } => {
                (Content::Batch(batch), Cause { ingested, window_end, message })
            }
            Emitted::Watermark(watermark) => {
                (Content::Watermark(watermark), Cause { ingested: None, window_end: None, message })
            }
        };
        deliver(next, Message { input: 0, content, cause }, out)?;
    }
    Ok(())
}

impl Operator for Chain {
    fn fetch(&self) {
        for link in &self.links {
            fetch(&*link.operator);
            link.operator.fetch();
        }
    }

    fn on_batch(
        &mut self,
        input: usize,
        batch: StreamBatch,
        ingested: ProcessingTime,
        out: &mut Outbox,
    ) -> Result<Flow, OperatorError> {
        self.start(input, Content::Batch(batch), ingested, out)
    }

    fn on_watermark(&mut self, watermark: EventTime, out: &mut Outbox) -> Result<Flow, OperatorError> {
        self.start(0, Content::Watermark(watermark), ProcessingTime::ZERO, out)
    }

    fn resume(&mut self, out: &mut Outbox) -> Result<Flow, OperatorError> {
        self.run(out)
    }

    /// What is before the link that aggregates was done to the rows already.
    fn on_groups(&mut self, groups: &GroupsOfSlice) -> Result<bool, OperatorError> {
        for link in &mut self.links {
            if link.operator.on_groups(groups)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn on_event_clock(&mut self, clock: EventClock) {
        self.links.iter_mut().for_each(|link| link.operator.on_event_clock(clock));
    }

    fn keeps_time(&self) -> bool {
        self.links.iter().any(|link| link.operator.keeps_time())
    }

    fn arrival_step_ms(&self) -> Option<i64> {
        self.links.iter().filter_map(|link| link.operator.arrival_step_ms()).min()
    }

    fn on_overload(&mut self, is_overloaded: bool) {
        self.links.iter_mut().for_each(|link| link.operator.on_overload(is_overloaded));
    }

    fn on_time(&mut self, now: ProcessingTime, out: &mut Outbox) -> Result<Flow, OperatorError> {
        for at in 0..self.links.len() {
            let links = &mut self.links[at..];
            if links[0].operator.wake_at().is_some_and(|wake| wake <= now) {
                links[0].cause = Cause { message: now, ..Cause::default() };
                let link = &mut links[0];
                let flow = link.operator.on_time(now, &mut link.outbox)?;
                sent(links, flow, out)?;
            }
        }
        Ok(self.flow())
    }

    fn approximation(&self) -> Option<Approximation> {
        self.links.iter().find_map(|link| link.operator.approximation())
    }

    fn wake_at(&self) -> Option<ProcessingTime> {
        self.links.iter().filter_map(|link| link.operator.wake_at()).min()
    }

    fn follows_processing_time(&self) -> bool {
        self.links.first().is_some_and(|link| link.operator.follows_processing_time())
    }

    fn waits_for_time(&self) -> bool {
        self.links.iter().any(|link| link.operator.waits_for_time())
    }

    /// The parts of each link, with the link's number before their names.
    fn save(&mut self) -> Result<OperatorState, StateError> {
        let mut state = OperatorState::default();
        for (number, link) in self.links.iter_mut().enumerate() {
            state = state.and(link.operator.save()?.renamed(move |name| format!("{number}-{name}")));
        }
        Ok(state)
    }

    fn restore(&mut self, state: OperatorState) -> Result<(), StateError> {
        let mut state = state.whole()?;
        for (number, link) in self.links.iter_mut().enumerate() {
            let prefix = format!("{number}-");
            let is_own = |part: &mut StatePart| part.name.starts_with(&prefix);
            let own = state.parts.extract_if(.., is_own);
            let own = own.map(|part| StatePart { name: part.name[prefix.len()..].into(), ..part });
            let own = OperatorState::of(own.collect());
            link.operator.restore(own).map_err(|error| error.within(&prefix))?;
        }
        state.finish()
    }

    fn state_bytes(&self) -> usize {
        self.links.iter().map(|link| link.operator.state_bytes()).sum()
    }
}

#[cfg(test)]
mod tests;
