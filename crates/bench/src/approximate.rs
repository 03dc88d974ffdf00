//! What approximate windows cost and save, on threads: `laxity-bench approximate`.
//!
//! Three questions, a file each: CPU per window against an exact query ([`cost`]); an overload that queries which allow an
//! error take in ([`overload`]); and what Aion costs while it leaves nothing out ([`idle`]). Rows come from memory with
//! delays of their own ([`delayed_table`]), so that nothing but the engine is measured. Non-goals: how late and how far off
//! answers are under each law of delays, which the figures `aion-*` say in virtual time.

pub mod cost;
pub mod delayed_table;
pub mod idle;
pub mod overload;

use std::path::Path;

use crate::{Findings, Size};

/// The questions by name.
pub const ALL: [&str; 3] = ["approximate-cost", "approximate-idle", "approximate-overload"];

/// Answers one of them.
///
/// # Errors
/// If a query does not run to its end, or there is no such question.
pub fn run(name: &str, size: Size, scratch: &Path) -> anyhow::Result<Findings> {
    match name {
        "approximate-cost" => cost::run(size),
        "approximate-idle" => idle::run(size),
        "approximate-overload" => overload::run(size, scratch),
        _ => anyhow::bail!("no question {name:?}"),
    }
}

/// Declares the table of [`delayed_table`]: trips from one place to another, and a key.
const DDL: &str = "CREATE TABLE trips (k BIGINT, x DOUBLE, y DOUBLE, u DOUBLE, v DOUBLE, ts TIMESTAMP(3), \
                   WATERMARK FOR ts AS ts - INTERVAL '3' SECOND) WITH ('connector' = 'datagen');\n";

/// A trip's distance on the sphere, km.
const DISTANCE: &str = "12742 * ASIN(SQRT(POWER(SIN(RADIANS(y - v) / 2), 2) + \
                        COS(RADIANS(v)) * COS(RADIANS(y)) * POWER(SIN(RADIANS(x - u) / 2), 2)))";

/// The squared distance of where a trip begins to the nearest of so many centres.
fn nearest(centres: usize) -> String {
    let centre = |number: usize| {
        let (x, y) = centre(number);
        format!("(x - ({x})) * (x - ({x})) + (y - {y}) * (y - {y})")
    };
    format!("LEAST({})", (0..centres).map(centre).collect::<Vec<_>>().join(", "))
}

/// Where the centre of that number lies: on a spiral around the middle of the table's places.
fn centre(number: usize) -> (f64, f64) {
    let (angle, reach) = (2.4 * number as f64, 0.012 * (number as f64 + 0.5).sqrt());
    let round = |value: f64| (value * 1e4).round() / 1e4;
    (
        round(delayed_table::MIDDLE.0 + reach * angle.cos()),
        round(delayed_table::MIDDLE.1 + reach * angle.sin()),
    )
}
