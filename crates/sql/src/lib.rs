//! Flink SQL to a dataflow of operators.
