//! The seam for work on a table that several readers share; the operators behind it cannot tell whether it was shared.

use std::convert::Infallible;
use std::fmt::{Debug, Display};
use std::marker::PhantomData;

use laxity_graph::{EventTime, ProcessingTime};

/// What is done to the rows of a table once for all readers that ask the same of them: columns are filled, the watermark
/// is found, and each reader gets the rows that its filter may keep, or what is made of all of them.
///
/// Who stands behind it takes rows and watermarks as if it had done that itself.
pub trait Front: Sized {
    /// Rows that travel as one.
    type Batch;
    /// What a reader asks for, its own filter included.
    type Spec: Clone + Debug;
    /// Rows that are refused.
    type Dead;
    /// What it holds between two batches, but for who has joined it.
    type State: Clone + Debug;
    /// Why rows cannot be filled.
    type Error: Display;

    /// One that nobody has joined.
    ///
    /// # Errors
    /// If what is asked for does not fit together.
    fn new(spec: &Self::Spec) -> Result<Self, Self::Error>;

    /// Another at the same place of the stream that nobody has joined.
    ///
    /// # Errors
    /// As [`new`](Front::new).
    fn fork(&self) -> Result<Self, Self::Error>;

    /// What each who has joined it would have saved, had it done this itself.
    ///
    /// # Errors
    /// If that cannot be put together.
    fn save(&mut self) -> Result<Self::State, Self::Error>;

    /// Takes over what was saved for one that has come to this place, and says the watermark then. Where another was taken
    /// over before, nothing of that is taken back.
    ///
    /// # Errors
    /// If it is another's.
    fn absorb(&mut self, state: Self::State) -> Result<EventTime, Self::Error>;

    /// Whether it does what a reader asks for, but for its filter.
    fn serves(&self, spec: &Self::Spec) -> bool;

    /// Rows that this filter may keep are this member's from now on.
    fn join(&mut self, member: u32, spec: &Self::Spec);

    /// The member takes no more rows. `spec` is what it joined with.
    fn leave(&mut self, member: u32, spec: &Self::Spec);

    /// Takes rows as they are read. Those refused go to `dead`.
    ///
    /// # Errors
    /// If they cannot be filled, for anybody.
    fn fill(
        &mut self,
        batch: Self::Batch,
        ingested: ProcessingTime,
        dead: &mut Vec<Self::Dead>,
    ) -> Result<Filled<Self::Batch>, Self::Error>;

    /// Where rows are stamped with the time at which they come, and nothing else says how far time is: that is the watermark
    /// now. False where the rows say it.
    fn tell_time(&mut self, _watermark: EventTime) -> bool {
        false
    }

    /// Members over whose expressions a row of the last batch has failed, and why: they are to leave, and get nothing of it.
    fn take_failed(&mut self) -> Vec<(u32, Self::Error)> {
        Vec::new()
    }

    /// Pairs of a member and a row that it gets, in that order, each once. A member that gets all has one pair, with
    /// [`EVERY_ROW`].
    fn choose(&mut self, batch: &Self::Batch, chosen: &mut Vec<(u32, u32)>);

    /// A batch as a member sees it; `None` where all see the same.
    ///
    /// # Errors
    /// If the member has joined since.
    fn of_member(&self, _member: u32, _batch: &Self::Batch) -> Result<Option<Self::Batch>, Self::Error> {
        Ok(None)
    }

    /// Rows of several batches as one: by the batch and the row in it, which may be [`EVERY_ROW`].
    ///
    /// # Errors
    /// If the batches are not alike, which those of one front always are.
    fn gather(batches: &[&Self::Batch], rows: &[(usize, usize)]) -> Result<Self::Batch, Self::Error>;
}

/// Instead of the number of a row: all rows of the batch.
pub const EVERY_ROW: u32 = u32::MAX;

/// Rows as those see them who share a front.
#[derive(Debug)]
pub struct Filled<B> {
    /// The rows.
    pub batch: B,
    /// Least and latest event time in them; `None` without event time.
    pub event_times: Option<(EventTime, EventTime)>,
    /// The watermark behind them.
    pub watermark: EventTime,
}

/// Nobody shares anything: what content has whose readers take all rows themselves.
pub struct Unshared<B, D, E>(Infallible, PhantomData<(B, D, E)>);

impl<B, D, E: Display> Front for Unshared<B, D, E> {
    type Batch = B;
    type Spec = Infallible;
    type Dead = D;
    type State = Infallible;
    type Error = E;

    fn new(spec: &Infallible) -> Result<Self, E> {
        match *spec {}
    }

    fn fork(&self) -> Result<Self, E> {
        match self.0 {}
    }

    fn save(&mut self) -> Result<Infallible, E> {
        match self.0 {}
    }

    fn absorb(&mut self, state: Infallible) -> Result<EventTime, E> {
        match state {}
    }

    fn serves(&self, spec: &Infallible) -> bool {
        match *spec {}
    }

    fn join(&mut self, _: u32, spec: &Infallible) {
        match *spec {}
    }

    fn leave(&mut self, _: u32, spec: &Infallible) {
        match *spec {}
    }

    fn fill(&mut self, _: B, _: ProcessingTime, _: &mut Vec<D>) -> Result<Filled<B>, E> {
        match self.0 {}
    }

    fn choose(&mut self, _: &B, _: &mut Vec<(u32, u32)>) {
        match self.0 {}
    }

    fn gather(batches: &[&B], _: &[(usize, usize)]) -> Result<B, E> {
        unreachable!("nobody makes such a front, and {} batches are of one", batches.len())
    }
}
