//! One SET of a key: how values are read, and what is said of those that make no sense.

use std::time::Duration;

use datafusion_sql::sqlparser::ast::Ident;
use laxity_graph::{CheckpointPlace, LatencyTarget, QosCurve};
use laxity_text::{QuantityError, duration_text, parse_duration, parse_flink_bytes, parse_flink_duration};

use super::INTERVAL_KEY;
use crate::error::{Fault, SqlErrorKind};

/// Flink's least.
const INTERVAL_MIN: Duration = Duration::from_millis(10);

/// Copies of an operator at most. A typing mistake must not make a million.
const PARALLELISM_MAX: usize = 1024;

/// `SET 'key' = 'value'`.
pub(super) struct Setting<'a> {
    pub key: &'a Ident,
    pub value: &'a str,
}

impl Setting<'_> {
    pub fn invalid(&self, message: String) -> Box<Fault> {
        Fault::new(SqlErrorKind::Option, self.key.span.start, message)
    }

    /// The value is not what the key takes.
    fn refused(&self, takes: &str) -> Box<Fault> {
        self.invalid(format!("'{}' takes {takes}, not '{}'", self.key.value, self.value))
    }

    pub fn duration(&self) -> Result<Duration, Box<Fault>> {
        let hint = "write a number and a unit: '50 ms', '1 s', '2 min', '1 h', '1 d'";
        parse_flink_duration(self.value).map_err(|error| match (error, parse_duration(self.value)) {
            (QuantityError::NotWhole, Ok(duration)) if !duration.is_zero() => {
                self.refused("a whole number of a unit").hint(format!("write '{}'", duration_text(duration)))
            }
            _ => self.refused("a duration").hint(hint),
        })
    }

    pub fn bytes(&self) -> Result<u64, Box<Fault>> {
        parse_flink_bytes(self.value).ok().filter(|bytes| *bytes > 0).ok_or_else(|| {
            self.refused("a size above zero").hint("write a number and a unit: '512 kb', '64 mb', '2 gb'")
        })
    }

    /// Two words, in any case.
    pub fn one_of<T>(&self, one: (&str, T), other: (&str, T)) -> Result<T, Box<Fault>> {
        let word = self.value.trim();
        if word.eq_ignore_ascii_case(one.0) {
            Ok(one.1)
        } else if word.eq_ignore_ascii_case(other.0) {
            Ok(other.1)
        } else {
            Err(self.refused(&format!("'{}' or '{}'", one.0, other.0)))
        }
    }

    pub fn name(&self) -> Result<String, Box<Fault>> {
        match self.value.trim() {
            "" => Err(self.invalid(format!("'{}' must not be empty", self.key.value))),
            name => Ok(name.to_string()),
        }
    }

    pub fn latency_target(&self) -> Result<LatencyTarget, Box<Fault>> {
        LatencyTarget::new(self.duration()?).ok_or_else(|| {
            self.invalid("'laxity.latency.target' must be more than zero: no result can take no time".into())
                .hint("leave it out for a query that is in no hurry")
        })
    }

    pub fn curve(&self) -> Result<QosCurve, Box<Fault>> {
        qos_curve(self.value).map_err(|what| {
            self.invalid(format!("'laxity.qos': {what}")).hint(
                "write points of latency and utility, the latency rising, the utility falling from 1 to 0: \
                 '(0 ms,1) (50 ms,1) (1 s,0)'",
            )
        })
    }

    pub fn weight(&self) -> Result<f64, Box<Fault>> {
        let weight = self.value.trim().parse::<f64>().ok();
        weight
            .filter(|weight| weight.is_finite() && *weight > 0.0)
            .ok_or_else(|| self.refused("a number above zero"))
    }

    pub fn parallelism(&self) -> Result<usize, Box<Fault>> {
        let copies = self.value.trim().parse::<usize>().ok();
        copies
            .filter(|copies| (1..=PARALLELISM_MAX).contains(copies))
            .ok_or_else(|| self.refused(&format!("a whole number from 1 to {PARALLELISM_MAX}")))
    }

    /// `None` for zero, which switches checkpoints off, as in Flink.
    pub fn checkpoint_interval(&self) -> Result<Option<Duration>, Box<Fault>> {
        let interval = self.duration()?;
        if interval.is_zero() {
            return Ok(None);
        }
        if interval < INTERVAL_MIN {
            let message = format!("'{INTERVAL_KEY}' must be at least 10 ms, not '{}'", self.value);
            return Err(self.invalid(message).hint("each writes to the disk: '10 s' costs next to nothing"));
        }
        Ok(Some(interval))
    }

    pub fn checkpoint_place(&self) -> Result<CheckpointPlace, Box<Fault>> {
        let text = self.value.trim();
        let path = match text.split_once("://") {
            None => text.strip_prefix("file:").unwrap_or(text),
            Some(("file", path)) => path,
            Some(_) => return Ok(CheckpointPlace::Elsewhere(text.to_owned())),
        };
        match path.is_empty() {
            true => {
                let message = format!("'{}' names no folder", self.key.value);
                Err(self.invalid(message).hint("write 'file:///var/lib/laxity'"))
            }
            false => Ok(CheckpointPlace::Folder(path.into())),
        }
    }

    pub fn time_zone(&self) -> Result<String, Box<Fault>> {
        if ["UTC", "default", "Etc/UTC", "GMT", "GMT+00:00", "Z"].contains(&self.value) {
            return Ok("UTC".into());
        }
        let message = format!("time zone '{}' is not supported; the session is in UTC", self.value);
        Err(self.invalid(message).hint("convert at the edges, or leave the key out"))
    }
}

/// A utility curve as `laxity.qos` has it, `(0 ms,1) (50 ms,1) (1 s,0)`; commas between points are optional.
///
/// # Errors
/// Says which point is wrong, and what is.
pub fn qos_curve(text: &str) -> Result<QosCurve, String> {
    let mut points = Vec::new();
    let mut rest = text.trim();
    while !rest.is_empty() {
        let number = points.len() + 1;
        let wrong = |what: &str| format!("point {number}, {what}, in '{}'", text.trim());
        let point = rest.strip_prefix('(').ok_or_else(|| wrong("should begin with '('"))?;
        let (point, after) = point.split_once(')').ok_or_else(|| wrong("lacks its ')'"))?;
        let (latency, utility) =
            point.split_once(',').ok_or_else(|| wrong("should be a latency and a utility, '(50 ms,1)'"))?;
        let latency = parse_flink_duration(latency).map_err(|_| wrong("has no duration before its comma"))?;
        let utility =
            utility.trim().parse::<f64>().map_err(|_| wrong("has no number from 0 to 1 behind its comma"))?;
        points.push((latency, utility));
        rest = after.trim_start_matches(|c: char| c == ',' || c.is_whitespace());
    }
    QosCurve::new(points).map_err(|invalid| invalid.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_utility_curve_is_read_point_by_point() {
        let written = qos_curve("(0 ms,1) (50 ms, 1),(1 s,0.25)").unwrap();
        let points: Vec<(u64, f64)> =
            written.points().iter().map(|point| (point.latency_ns / 1_000_000, point.utility)).collect();
        assert_eq!(points, [(0, 1.0), (50, 1.0), (1_000, 0.25)]);
        for (wrong, says) in [
            ("", "at least one point"),
            ("0 ms,1", "point 1, should begin with '('"),
            ("(0 ms,1", "point 1, lacks its ')'"),
            ("(soon,1)", "point 1, has no duration"),
            ("(0 ms,1) (1 s,most)", "point 2, has no number from 0 to 1"),
            ("(0 ms,1) (1 s,2)", "point 2 has utility 2; expected a number from 0 to 1"),
            ("(1 s,1) (1 s,0)", "latencies must rise"),
        ] {
            let said = qos_curve(wrong).unwrap_err();
            assert!(said.contains(says), "{wrong}: {said}");
        }
    }
}
