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
}
