//! Ranks that change another one.

use std::fmt;

use laxity_graph::QueryId;

use super::{Cycled, Event, Needs, Rank};
use crate::{MessageContext, Snapshot};

/// A rank made from another one: what it does not say itself, the inner one says. So a decorator cannot forget to pass
/// something on, whatever [`Rank`] comes to have.
pub trait Decorator: fmt::Debug + Send {
    /// The one that is changed.
    fn inner(&self) -> &dyn Rank;

    /// The one that is changed.
    fn inner_mut(&mut self) -> &mut dyn Rank;

    /// See [`Rank::needs`].
    fn needs(&self) -> Needs {
        self.inner().needs()
    }

    /// See [`Rank::seed`].
    fn seed(&mut self, seed: u64) {
        self.inner_mut().seed(seed);
    }

    /// See [`Rank::message`].
    fn message(&mut self, context: &MessageContext) -> f64 {
        self.inner_mut().message(context)
    }

    /// See [`Rank::join`].
    fn join(&mut self, unit: u32, head: f64) -> f64 {
        self.inner_mut().join(unit, head)
    }

    /// See [`Rank::on`].
    fn on(&mut self, event: Event) {
        self.inner_mut().on(event);
    }

    /// See [`Rank::review`].
    fn review(&mut self, snapshot: &Snapshot) -> bool {
        self.inner_mut().review(snapshot)
    }

    /// See [`Rank::standing_back`].
    fn standing_back(&self) -> &[QueryId] {
        self.inner().standing_back()
    }

    /// See [`Rank::cycle`].
    fn cycle<'a>(&'a mut self, snapshot: &Snapshot, priorities: &mut [f64]) -> Cycled<'a> {
        self.inner_mut().cycle(snapshot, priorities)
    }
}

impl<D: Decorator> Rank for D {
    fn needs(&self) -> Needs {
        Decorator::needs(self)
    }

    fn seed(&mut self, seed: u64) {
        Decorator::seed(self, seed);
    }

    fn message(&mut self, context: &MessageContext) -> f64 {
        Decorator::message(self, context)
    }

    fn join(&mut self, unit: u32, head: f64) -> f64 {
        Decorator::join(self, unit, head)
    }

    fn on(&mut self, event: Event) {
        Decorator::on(self, event);
    }

    fn review(&mut self, snapshot: &Snapshot) -> bool {
        Decorator::review(self, snapshot)
    }

    fn standing_back(&self) -> &[QueryId] {
        Decorator::standing_back(self)
    }

    fn cycle<'a>(&'a mut self, snapshot: &Snapshot, priorities: &mut [f64]) -> Cycled<'a> {
        Decorator::cycle(self, snapshot, priorities)
    }
}
