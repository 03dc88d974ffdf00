use super::{Llf, Rank, WaitBound};
use crate::MessageContext;

/// `laxity`: the default. Today it ranks as [`Llf`] does.
#[derive(Clone, Copy, Debug, Default)]
pub struct Laxity;

impl Rank for Laxity {
    fn name(&self) -> &'static str {
        "laxity"
    }

    fn wait_bound(&self) -> WaitBound {
        Llf.wait_bound()
    }

    fn message(&mut self, context: &MessageContext) -> f64 {
        Llf.message(context)
    }

    fn inherits(&self) -> bool {
        Llf.inherits()
    }
}
