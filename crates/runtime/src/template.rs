//! What queries that differ in constants alone have in common: the seam to the operator that works for all of them.

use std::convert::Infallible;
use std::hash::Hash;

use laxity_graph::{EventTime, ProcessingTime};

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

    /// What it has sent, by member.
    type Parts;

    /// What it has sent in these.
    ///
    /// # Errors
    /// If the batches are not the operator's.
    fn by_member(batches: &[C::Batch]) -> Result<Self::Parts, C::Error>;

    /// Whose the parts are, each member once.
    fn members(parts: &Self::Parts) -> impl Iterator<Item = u32>;

    /// The part in that place, in one batch.
    fn part(parts: &Self::Parts, place: usize) -> C::Batch;

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

    /// Which rows a reader gets: equal for those who get the same.
    type Rows: Clone + Eq + Hash;

    /// Those of a reader that asks for this; `None` where that is not known.
    fn rows(spec: &FrontSpec<C>) -> Option<Self::Rows>;

    /// Whether that is every row. What differs in that is told apart: it gains nothing by a look at whose rows are whose.
    fn gets_every_row(spec: &FrontSpec<C>) -> bool;

    /// Does once what it and others do to each row that differ from it in their windows alone.
    type Slicer: Slicer<C>;

    /// How long the slices of time are that its windows are made of, ms; `None` where these have to see each row themselves.
    fn slice_ms(&self) -> Option<i64>;

    /// Whether the other is the same, or differs in its windows alone.
    fn has_slices_of(&self, other: &Self) -> bool;

    /// Aggregates rows by slices of that length.
    ///
    /// # Errors
    /// If that cannot be built.
    fn slicer(&self, slice_ms: i64) -> Result<Self::Slicer, C::Error>;
}

/// Aggregates rows for those who get the same ones, by slices of time that lie whole in a window of any of them or not at
/// all. What comes of it is added to the windows of each, in time for all of them.
pub trait Slicer<C: Content> {
    /// What rows have come to.
    type Slices;

    /// Takes the rows that are in time for every window: pairs of a number, which stands for all who get the row, and a row
    /// of the batch. The others stay. Nobody who will get what comes of it has been told a later time than `told`.
    ///
    /// # Errors
    /// If the batch is not one of the front's.
    fn take(
        &mut self,
        batch: &C::Batch,
        rows: &mut Vec<(u32, u32)>,
        told: EventTime,
        ingested: ProcessingTime,
    ) -> Result<(), C::Error>;

    /// Whether there is nothing of slices that have ended at this watermark.
    fn is_empty(&self, watermark: EventTime) -> bool;

    /// What the rows of slices have come to that have ended at this watermark, of which nothing is left here.
    ///
    /// # Errors
    /// If that cannot be told.
    fn seal(&mut self, watermark: EventTime) -> Result<Self::Slices, C::Error>;

    /// Bytes of what is not sealed.
    fn state_bytes(&self) -> u64;

    /// In how many pieces these can be given.
    fn pieces(slices: &Self::Slices) -> usize;

    /// How many groups they are: to give one is as much work as a row.
    fn groups(slices: &Self::Slices) -> u64;

    /// Gives a piece to the operator of a template: to each member what the number before it stands for. In that order.
    ///
    /// # Errors
    /// If it does not fit.
    fn give(
        slices: &Self::Slices,
        piece: usize,
        whose: &[(u32, u32)],
        operator: &mut C::Operator,
    ) -> Result<(), C::Error>;
}

/// What readers have rows aggregated by.
pub(crate) type SlicerOf<C> = <<C as Content>::Template as Template<C>>::Slicer;

/// What rows have come to.
pub(crate) type SlicesOf<C> = <SlicerOf<C> as Slicer<C>>::Slices;

/// What a template's operator has sent.
pub(crate) type PartsOf<C> = <<C as Content>::Template as Template<C>>::Parts;

/// Which rows a reader gets.
pub(crate) type RowsOf<C> = <<C as Content>::Template as Template<C>>::Rows;

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

    type Parts = Infallible;

    fn by_member(batches: &[C::Batch]) -> Result<Infallible, C::Error> {
        unreachable!("{} batches of an operator that there is none of", batches.len())
    }

    fn members(parts: &Infallible) -> impl Iterator<Item = u32> {
        match *parts {}
        #[expect(unreachable_code, reason = "says what it is an iterator of")]
        std::iter::empty()
    }

    fn part(parts: &Infallible, _: usize) -> C::Batch {
        match *parts {}
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

    type Rows = Infallible;

    fn rows(_: &FrontSpec<C>) -> Option<Infallible> {
        None
    }

    fn gets_every_row(_: &FrontSpec<C>) -> bool {
        false
    }

    type Slicer = NoTemplate;

    fn slice_ms(&self) -> Option<i64> {
        match *self {}
    }

    fn has_slices_of(&self, _: &NoTemplate) -> bool {
        match *self {}
    }

    fn slicer(&self, _: i64) -> Result<NoTemplate, C::Error> {
        match *self {}
    }
}

impl<C: Content> Slicer<C> for NoTemplate {
    type Slices = Infallible;

    fn take(
        &mut self,
        _: &C::Batch,
        _: &mut Vec<(u32, u32)>,
        _: EventTime,
        _: ProcessingTime,
    ) -> Result<(), C::Error> {
        match *self {}
    }

    fn is_empty(&self, _: EventTime) -> bool {
        match *self {}
    }

    fn seal(&mut self, _: EventTime) -> Result<Infallible, C::Error> {
        match *self {}
    }

    fn state_bytes(&self) -> u64 {
        match *self {}
    }

    fn pieces(slices: &Infallible) -> usize {
        match *slices {}
    }

    fn groups(slices: &Infallible) -> u64 {
        match *slices {}
    }

    fn give(slices: &Infallible, _: usize, _: &[(u32, u32)], _: &mut C::Operator) -> Result<(), C::Error> {
        match *slices {}
    }
}
