//! Between SQL, which describes operators, and the engine, which makes as many instances of each as it needs.

use std::fmt;
use std::sync::Arc;

use laxity_graph::{Approximation, EventClock, EventTime, ProcessingTime};

use crate::{
    ExpressionFault, Flow, Operator, OperatorError, OperatorState, Outbox, SharedSourceSpec, StateError,
    StreamBatch,
};

/// What a node of a runnable dataflow does. `Source` and `Sink` describe the outside world and belong to
/// whoever opens it.
#[derive(Clone, Debug)]
pub enum Stage<Source, Sink> {
    /// Reads a table. The operator turns physical rows into the table's rows: computed columns, watermark.
    Source {
        /// What to read.
        scan: Source,
        /// Runs on a worker for every scanned batch, as input 0.
        operator: OperatorFactory,
        /// How the table can be read together with others; `None` where that gains nothing.
        shared: Option<SharedStage>,
        /// How what it computes first can be computed together with others; `None` as there.
        view: Option<SharedStage>,
    },
    /// Transforms rows.
    Operator(OperatorFactory),
    /// Writes a table.
    Sink(Sink),
}

/// A source whose part for every row is done once for all who read the table alike.
#[derive(Clone, Debug)]
pub struct SharedStage {
    /// That part, and which rows come out of it.
    pub spec: Arc<SharedSourceSpec>,
    /// The rest, in place of the stage's operator.
    pub operator: OperatorFactory,
    /// How many operators are chained in the rest. As many of both ways, so that what one has saved is the other's too.
    pub links: usize,
}

impl SharedStage {
    /// What the stage's operator would have saved: that of the part which is shared, and of the rest.
    #[must_use]
    pub fn whole(&self, source: OperatorState, rest: OperatorState) -> OperatorState {
        whole(self.links, source, rest)
    }

    /// The reverse: of the part that is shared, and of the rest.
    #[must_use]
    pub fn parts(&self, whole: OperatorState) -> (OperatorState, OperatorState) {
        parts(self.links, whole)
    }
}

/// As the chain of a source and so many operators has it: the number of each goes before the names of its parts.
///
/// A source that nothing is chained to has no numbers.
fn whole(links: usize, source: OperatorState, rest: OperatorState) -> OperatorState {
    if links == 0 {
        return source;
    }
    source.renamed(|name| format!("0-{name}")).and(rest.renamed(move |name| {
        match link_of(name).filter(|_| links > 1) {
            Some((link, name)) => format!("{}-{name}", link + 1),
            None => format!("1-{name}"),
        }
    }))
}

/// Of what was read: all tables are there.
fn parts(links: usize, whole: OperatorState) -> (OperatorState, OperatorState) {
    if links == 0 {
        return (whole, OperatorState::default());
    }
    let (mut source, mut rest) = (OperatorState::default(), OperatorState::default());
    for part in whole.parts {
        let link = link_of(&part.name).map(|(link, _)| link);
        let own = |name: &str| link_of(name).map_or(name, |(_, name)| name).to_owned();
        match link {
            Some(0) => source.parts.push(part.renamed(own)),
            Some(link) if links > 1 => {
                rest.parts.push(part.renamed(|name| format!("{}-{}", link - 1, own(name))));
            }
            Some(_) => rest.parts.push(part.renamed(own)),
            // It fits nobody, which whoever takes it over says.
            None => rest.parts.push(part),
        }
    }
    (source, rest)
}

fn link_of(name: &str) -> Option<(usize, &str)> {
    let (link, name) = name.split_once('-')?;
    Some((link.parse().ok()?, name))
}

/// What a factory is told about the instance it makes.
#[derive(Clone, Copy, Debug)]
pub struct InstanceContext {
    /// Which parallel instance, from 0.
    pub instance: usize,
    /// How many there are.
    pub parallelism: usize,
    /// Rows an operator puts in one output batch at most.
    pub batch_rows: usize,
}

type Make = dyn Fn(&InstanceContext) -> Result<Box<dyn Operator>, OperatorError> + Send + Sync;

/// Makes the instances of one operator.
#[derive(Clone)]
pub struct OperatorFactory(Arc<Make>);

impl OperatorFactory {
    /// Wraps a constructor.
    pub fn new(
        make: impl Fn(&InstanceContext) -> Result<Box<dyn Operator>, OperatorError> + Send + Sync + 'static,
    ) -> OperatorFactory {
        OperatorFactory(Arc::new(make))
    }

    /// The same operators, whose expressions that fail are told by `explain`: it may put in the place, and the
    /// expression as it is written.
    #[must_use]
    pub fn explained(self, explain: Explain) -> OperatorFactory {
        OperatorFactory::new(move |context| {
            Ok(Box::new(Explained { operator: self.make(context)?, explain: Arc::clone(&explain) }))
        })
    }

    /// Makes one instance.
    ///
    /// # Errors
    /// If the operator cannot be built from its plan.
    pub fn make(&self, context: &InstanceContext) -> Result<Box<dyn Operator>, OperatorError> {
        (self.0)(context)
    }
}

/// Puts in the place of an expression that failed, and how it is written.
pub type Explain = Arc<dyn Fn(&mut ExpressionFault) + Send + Sync>;

/// An operator, and who can tell where its expressions stand.
struct Explained {
    operator: Box<dyn Operator>,
    explain: Explain,
}

impl Explained {
    #[cold]
    fn fail(&self, mut error: OperatorError) -> OperatorError {
        if let OperatorError::Expression(fault) = &mut error {
            (self.explain)(fault);
        }
        error
    }
}

impl Operator for Explained {
    fn on_batch(
        &mut self,
        input: usize,
        batch: StreamBatch,
        ingested: ProcessingTime,
        out: &mut Outbox,
    ) -> Result<Flow, OperatorError> {
        self.operator.on_batch(input, batch, ingested, out).map_err(|error| self.fail(error))
    }

    fn on_watermark(&mut self, watermark: EventTime, out: &mut Outbox) -> Result<Flow, OperatorError> {
        self.operator.on_watermark(watermark, out).map_err(|error| self.fail(error))
    }

    fn resume(&mut self, out: &mut Outbox) -> Result<Flow, OperatorError> {
        self.operator.resume(out).map_err(|error| self.fail(error))
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
        self.operator.on_time(now, out).map_err(|error| self.fail(error))
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

impl fmt::Debug for OperatorFactory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OperatorFactory")
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::{Int64Array, RecordBatch};

    use super::*;
    use crate::StatePart;

    #[test]
    fn what_is_saved_is_the_same_whoever_does_the_source() {
        let state = |names: &[&str]| {
            let rows = |number: usize| {
                RecordBatch::try_from_iter([("v", Arc::new(Int64Array::from(vec![number as i64])) as _)])
                    .unwrap()
            };
            let parts = names.iter().enumerate();
            let parts = parts.map(|(number, name)| StatePart::new(*name, rows(number)));
            OperatorState::of(parts.collect())
        };
        let names = |state: &OperatorState| -> Vec<String> {
            state.parts.iter().map(|part| part.name.clone()).collect()
        };
        let cases: [(usize, &[&str], &[&str]); 3] = [
            (0, &[], &["source", "watermark"]),
            (1, &["rows-0", "keys"], &["0-source", "0-watermark", "1-rows-0", "1-keys"]),
            (2, &["0-rows-0", "1-keys"], &["0-source", "0-watermark", "1-rows-0", "2-keys"]),
        ];
        for (links, rest, names_of_whole) in cases {
            let (source, rest) = (state(&["source", "watermark"]), state(rest));
            let all = whole(links, source.clone(), rest.clone());
            assert_eq!(names(&all), names_of_whole);
            assert_eq!(parts(links, all), (source, rest));
        }
    }
}
