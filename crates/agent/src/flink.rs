//! Apache Flink, 1.20 and 2.x: jobs and metrics over REST, threads by the JVM's own dump. Start with [`Flink`].

mod adapter;
mod answers;
mod matching;
mod names;
mod window;

pub use adapter::Flink;
