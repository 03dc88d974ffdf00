//! Benchmarks: every number the README quotes.
