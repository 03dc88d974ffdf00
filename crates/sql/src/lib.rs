//! Flink SQL to a dataflow of operators.

mod aggregates;
mod catalog;
mod data_type;
mod dialect;
mod error;
mod functions;
mod parse;
mod planning;
mod refuse;
mod rewrite;
mod settings;
mod statement;
mod window_function;
