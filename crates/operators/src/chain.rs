use std::collections::VecDeque;

use laxity_graph::{EventTime, ProcessingTime};

use crate::{Emitted, Flow, Operator, OperatorError, OperatorFactory, Outbox, StreamBatch};

/// Operators that run as one instance, each feeding the next without a mailbox between them (Flink's
/// operator chaining).
///
/// A result keeps the ingestion time and window end that it had when it left the operator that held it back,
/// through all those after it.
pub struct Chain {
    links: Vec<Link>,
    /// Spare, to collect what one link sends.
    outbox: Outbox,
}

struct Link {
    operator: Box<dyn Operator>,
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
            waiting: VecDeque::new(),
            has_more: false,
            cause: Cause::default(),
        });
        Chain { links: links.collect(), outbox: Outbox::default() }
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
            let link = &mut self.links[at];
            let flow = if link.has_more {
                link.operator.resume(&mut self.outbox)?
            } else if let Some(message) = link.waiting.pop_front() {
                link.cause = message.cause;
                match message.content {
                    Content::Batch(batch) => {
                        let ingested = message.cause.ingested.unwrap_or(message.cause.message);
                        link.operator.on_batch(message.input, batch, ingested, &mut self.outbox)?
                    }
                    Content::Watermark(watermark) => {
                        link.operator.on_watermark(watermark, &mut self.outbox)?
                    }
                }
            } else {
                Flow::Done
            };
            link.has_more = flow == Flow::More;
            cut |= link.has_more;
            self.pass_on(at, out);
        }
    }

    /// Hands what link `at` sent to the next, or out.
    fn pass_on(&mut self, at: usize, out: &mut Outbox) {
        let cause = self.links[at].cause;
        out.late.append(&mut self.outbox.late);
        out.dead.append(&mut self.outbox.dead);
        let mut next = self.links.get_mut(at + 1);
        for emitted in self.outbox.emitted.drain(..) {
            let (content, cause) = match emitted {
                Emitted::Batch { batch, ingested, window_end } => {
                    let ingested = ingested.or(cause.ingested);
                    let window_end = window_end.or(cause.window_end);
                    (Content::Batch(batch), Cause { ingested, window_end, ..cause })
                }
                Emitted::Watermark(watermark) => {
                    (Content::Watermark(watermark), Cause { ingested: None, window_end: None, ..cause })
                }
            };
            match (&mut next, content) {
                (Some(next), content) => next.waiting.push_back(Message { input: 0, content, cause }),
                (None, Content::Batch(batch)) => out.emitted.push(Emitted::Batch {
                    batch,
                    ingested: cause.ingested,
                    window_end: cause.window_end,
                }),
                (None, Content::Watermark(watermark)) => out.watermark(watermark),
            }
        }
    }

    fn start(&mut self, input: usize, content: Content, ingested: ProcessingTime) {
        let cause = Cause { message: ingested, ..Cause::default() };
        self.links[0].waiting.push_back(Message { input, content, cause });
    }
}

impl Operator for Chain {
    fn on_batch(
        &mut self,
        input: usize,
        batch: StreamBatch,
        ingested: ProcessingTime,
        out: &mut Outbox,
    ) -> Result<Flow, OperatorError> {
        self.start(input, Content::Batch(batch), ingested);
        self.run(out)
    }

    fn on_watermark(&mut self, watermark: EventTime, out: &mut Outbox) -> Result<Flow, OperatorError> {
        self.start(0, Content::Watermark(watermark), ProcessingTime::ZERO);
        self.run(out)
    }

    fn resume(&mut self, out: &mut Outbox) -> Result<Flow, OperatorError> {
        self.run(out)
    }

    fn follows_processing_time(&self) -> bool {
        self.links.first().is_some_and(|link| link.operator.follows_processing_time())
    }

    fn state_bytes(&self) -> usize {
        self.links.iter().map(|link| link.operator.state_bytes()).sum()
    }
}

#[cfg(test)]
mod tests;
