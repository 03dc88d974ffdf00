//! The `laxity` program: wiring only.

mod args;
mod live;
mod outcome;
mod quantity;
mod report;
mod screen;
mod signals;
mod table;
mod view;

fn main() {}
