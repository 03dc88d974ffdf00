use std::convert::Infallible;

use laxity_graph::EventTime;

use crate::{Content, Front};

/// What queries have in common that share a front and differ in their filters alone: one operator works for all of them,
/// with the query as one key more.
pub trait Template<C: Content>: Clone {
    /// That of a reader that asks for this; `None` where it has none.
    fn of(spec: &FrontSpec<C>) -> Option<&Self>;

    /// Whether it is the same.
    fn is(&self, other: &Self) -> bool;

    /// The operator, before its first row.
    ///
    /// # Errors
    /// If it cannot be built.
    fn operator(&self) -> Result<C::Operator, C::Error>;

    /// Its input: pairs of a member and a row of the batch that is its.
    ///
    /// # Errors
    /// If the batch is not one of the front's.
    fn input(&self, batch: &C::Batch, rows: &[(u32, u32)]) -> Result<C::Batch, C::Error>;

    /// What it has sent, for each member in one batch.
    ///
    /// # Errors
    /// If the batches are not the operator's.
    fn by_member(batches: &[C::Batch]) -> Result<Vec<(u32, C::Batch)>, C::Error>;

    /// Of rows that came too late: whose each is, and the end of the last window that it missed, ms.
    fn late(late: &C::Late) -> Vec<(u32, i64)>;

    /// What stands in a member's results and is another in those of others.
    type Own: Clone;

    /// That of a reader that asks for this; `None` where there is nothing of the kind.
    fn own(spec: &FrontSpec<C>) -> Option<Self::Own>;

    /// A member's results, with that in them.
    ///
    /// # Errors
    /// If they are not the operator's.
    fn with_own(own: &Self::Own, results: C::Batch) -> Result<C::Batch, C::Error>;

    /// What the operator holds, of all members at once.
    type Saved: Clone;

    /// That, between two messages. It goes on as if it had not been asked.
    ///
    /// # Errors
    /// If it cannot be saved.
    fn save(operator: &mut C::Operator) -> Result<Self::Saved, C::Error>;

    /// What the member's own operator that keeps rows would hold, had it done that alone.
    ///
    /// # Errors
    /// If that cannot be told apart.
    fn of_member(saved: &Self::Saved, member: u32) -> Result<C::State, String>;

    /// Whether who held that has sent all windows that end at this watermark.
    fn has_sent(&self, state: &C::State, watermark: EventTime) -> bool;

    /// Gives the operator what these members held alone at this place of the stream. All windows that have ended were sent,
    /// of it and of them.
    ///
    /// # Errors
    /// If that does not fit.
    fn take_in(&self, operator: &mut C::Operator, held: Vec<(u32, C::State)>) -> Result<(), C::Error>;
}

/// What a reader asks for of a front.
pub(crate) type FrontSpec<C> = <<C as Content>::Front as Front>::Spec;

/// What is kept of a front.
pub(crate) type FrontState<C> = <<C as Content>::Front as Front>::State;

/// Each query works for itself.
#[derive(Clone, Copy, Debug)]
pub enum NoTemplate {}

impl<C: Content> Template<C> for NoTemplate {
    fn of(_: &FrontSpec<C>) -> Option<&NoTemplate> {
        None
    }

    fn is(&self, _: &NoTemplate) -> bool {
        match *self {}
    }

    fn operator(&self) -> Result<C::Operator, C::Error> {
        match *self {}
    }

    fn input(&self, _: &C::Batch, _: &[(u32, u32)]) -> Result<C::Batch, C::Error> {
        match *self {}
    }

    fn by_member(_: &[C::Batch]) -> Result<Vec<(u32, C::Batch)>, C::Error> {
        Ok(vec![])
    }

    fn late(_: &C::Late) -> Vec<(u32, i64)> {
        vec![]
    }

    type Own = Infallible;

    fn own(_: &FrontSpec<C>) -> Option<Infallible> {
        None
    }

    fn with_own(own: &Infallible, _: C::Batch) -> Result<C::Batch, C::Error> {
        match *own {}
    }

    type Saved = Infallible;

    fn save(operator: &mut C::Operator) -> Result<Infallible, C::Error> {
        unreachable!("nobody makes such an operator, and {} bytes are of one", C::state_bytes(operator))
    }

    fn of_member(saved: &Infallible, _: u32) -> Result<C::State, String> {
        match *saved {}
    }

    fn has_sent(&self, _: &C::State, _: EventTime) -> bool {
        match *self {}
    }

    fn take_in(&self, _: &mut C::Operator, _: Vec<(u32, C::State)>) -> Result<(), C::Error> {
        match *self {}
    }
}
