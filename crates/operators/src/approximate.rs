//! Approximate windows that don't wait for stragglers: Aion.
//!
//! Farhat, "Klink: Progress-Aware Scheduling for Streaming Data Systems" and Aion, master's thesis, University of Waterloo
//! 2021, chapter 4. A window answers at its end, or as little later as its sample needs, from a part of the rows that
//! came by then, with an interval that holds the exact result as often as the user asked for.

mod aggregate;
mod aion;
mod closed;
mod delayed_values;
mod delays;
mod distinct;
mod doubt;
mod estimator;
mod grid;
mod group_history;
mod interval;
mod moments;
mod normal;
mod order_statistics;
mod ratio_error;
mod replay;
mod rule;
mod sample_size;
mod sampler;
mod stratum;
mod sub_stream;
mod sums;
mod verification;

pub use aggregate::Aggregate;
pub use aion::{Aion, Config, Offer, Told};
pub use closed::Closed;
pub use delays::Delays;
pub use distinct::{Distinct, Seen, distinct_count};
pub use estimator::{Estimator, Shows};
pub use grid::{Grid, Span};
pub use interval::{
    Estimate, Pair, Taken, average, count, deviation, ratio, rows, sum, total_rows, variance,
};
pub use moments::Moments;
pub use order_statistics::{Sample, percentile};
pub use replay::{Answer, Arrival, replay, replay_each};
pub use rule::Rule;
pub use sample_size::{
    Promise, of_mean, of_sum, of_variance, rate, rows_at_most, rows_by_deadline, rows_expected,
    squared_variation,
};
pub use sampler::{Beside, SAMPLE_COLUMN, Sampler, SamplerSpec};
pub use stratum::{Stratum, Total};
