//! Text that people write: durations, sizes, and names that are not quite right.
//!
//! One grammar for all who read them. [`parse_duration`] and [`parse_bytes`] want a unit and take decimals;
//! [`parse_flink_duration`] and [`parse_flink_bytes`] take what Flink takes in a file that is to run there too: whole
//! numbers, milliseconds and bytes where there is no unit. Unit names are the same in both, in any case.
//!
//! Not here: what to say where the text is wrong. Whoever asked knows what it was for.
//!
//! ```
//! use laxity_text::{QuantityError, closest, duration_text, parse_bytes, parse_duration, parse_flink_duration};
//!
//! let target = parse_duration("1.5 s").unwrap();
//! assert_eq!(duration_text(target), "1500 ms");
//! assert_eq!(parse_duration("1500"), Err(QuantityError::NoUnit));
//! assert_eq!(parse_flink_duration("1500"), Ok(target));
//! assert_eq!(parse_bytes("64 kb"), Ok(65_536));
//! assert_eq!(closest("carier", ["carrier", "delay"]), Some("carrier"));
//! ```

mod bytes;
mod duration;
mod quantity;
mod suggestion;

pub use bytes::{parse_bytes, parse_flink_bytes};
pub use duration::{duration_text, duration_word, parse_duration, parse_flink_duration, parse_ns};
pub use quantity::QuantityError;
pub use suggestion::{closest, distance};
