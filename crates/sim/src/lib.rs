//! The scheduler in virtual time.

pub mod bound;
