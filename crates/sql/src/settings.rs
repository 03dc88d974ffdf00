//! SET and RESET: which keys there are, what their values may be, and what is said of a key that nobody has.

use std::path::PathBuf;
use std::time::Duration;

use datafusion_sql::sqlparser::ast::Ident;
use laxity_graph::{Checkpoints, LatencyTarget, QosCurve, QuerySettings, RowErrors};

use datafusion_sql::sqlparser::tokenizer::Location;

use crate::approximate::Approximate;
use crate::error::{Fault, SqlErrorKind, did_you_mean, edit_distance};

/// The SET keys in force at one place of a script. They hold for every INSERT after them, until set again or
/// RESET, as in Flink.
#[derive(Debug, Clone, PartialEq)]
pub struct SessionSettings {
    /// `pipeline.name`.
    pub name: Option<String>,
    /// `laxity.latency.target`.
    pub latency_target: LatencyTarget,
    /// `laxity.qos`: how useful a result is by its latency. `None`: as the target implies.
    pub qos: Option<QosCurve>,
    /// `laxity.weight`, default 1.
    pub weight: f64,
    /// `laxity.late.table`: where rows go that come too late for a query's first window operator.
    pub late_table: Option<String>,
    /// `laxity.memory.limit`.
    pub memory_limit_bytes: Option<u64>,
    /// `laxity.shed`, default false: rows of the query may be dropped when the machine is overloaded.
    pub shed: bool,
    /// `laxity.share`, default on: the query reads tables together with others, which is cheaper for all.
    pub share: bool,
    /// `laxity.approximate.error` and what goes with it.
    pub approximate: Approximate,
    /// `laxity.row.error`.
    pub row_errors: RowErrors,
    /// `laxity.allowed.lateness` or `table.exec.emit.allow-lateness`, in milliseconds. Default 0.
    pub allowed_lateness_ms: i64,
    /// `laxity.max.event.ahead`, in milliseconds: rows further in the future than this are dead.
    pub max_event_ahead_ms: Option<i64>,
    /// `parallelism.default`, default 1.
    pub parallelism: usize,
    /// `table.exec.source.idle-timeout`.
    pub idle_timeout: Option<Duration>,
    /// `execution.checkpointing.interval`. `None`: no checkpoints.
    pub checkpoint_interval: Option<Duration>,
    /// `execution.checkpointing.dir`, or `state.checkpoints.dir`, as it was before Flink 1.20.
    pub checkpoint_folder: Option<PathBuf>,
    /// `table.local-time-zone`. UTC is the only zone so far.
    pub time_zone: String,
    /// Keys of Flink that have no meaning here, with their values, in the order they were set.
    pub ignored: Vec<(String, String)>,
    /// Keys that look mistyped: where they are set, and what may have been meant.
    pub(crate) doubts: Vec<(Location, String)>,
}

impl Default for SessionSettings {
    fn default() -> SessionSettings {
        SessionSettings {
            name: None,
            latency_target: LatencyTarget::DEFAULT,
            qos: None,
            weight: 1.0,
            late_table: None,
            memory_limit_bytes: None,
            shed: false,
            share: true,
            approximate: Approximate::default(),
            row_errors: RowErrors::Fail,
            allowed_lateness_ms: 0,
            max_event_ahead_ms: None,
            parallelism: 1,
            idle_timeout: None,
            checkpoint_interval: None,
            checkpoint_folder: None,
            time_zone: "UTC".into(),
            ignored: vec![],
            doubts: vec![],
        }
    }
}

/// Keys that have an effect here.
const KEYS: &[&str] = &[
    "pipeline.name",
    "laxity.latency.target",
    "laxity.qos",
    "laxity.weight",
    POLICY_KEY,
    "laxity.shed",
    "laxity.share",
    "laxity.row.error",
    "laxity.late.table",
    "laxity.memory.limit",
    "laxity.allowed.lateness",
    "laxity.max.event.ahead",
    "laxity.approximate.error",
    "laxity.approximate.confidence",
    "laxity.approximate.when",
    "laxity.approximate.method",
    INTERVAL_KEY,
    FOLDER_KEY,
    OLD_FOLDER_KEY,
    "parallelism.default",
    "table.exec.emit.allow-lateness",
    "table.exec.source.idle-timeout",
    "table.local-time-zone",
];

const INTERVAL_KEY: &str = "execution.checkpointing.interval";
const FOLDER_KEY: &str = "execution.checkpointing.dir";
const OLD_FOLDER_KEY: &str = "state.checkpoints.dir";

/// Belongs to the process and not to a query: [`crate::PolicySetting`].
pub(crate) const POLICY_KEY: &str = "laxity.policy";

/// Flink's least.
const INTERVAL_MIN: Duration = Duration::from_millis(10);

/// Copies of an operator at most. A typing mistake must not make a million.
const PARALLELISM_MAX: usize = 1024;

impl SessionSettings {
    pub(crate) fn set(&mut self, key: &Ident, value: &str) -> Result<(), Box<Fault>> {
        let invalid = |message: String| Fault::new(SqlErrorKind::Option, key.span.start, message);
        let duration = || {
            parse_duration(value).ok_or_else(|| {
                if let Some(whole) = whole_duration(value) {
                    return invalid(format!("'{}' takes a whole number of a unit, not '{value}'", key.value))
                        .hint(format!("write '{whole}'"));
                }
                invalid(format!("'{}' takes a duration, not '{value}'", key.value))
                    .hint("write a number and a unit: '50 ms', '1 s', '2 min', '1 h', '1 d'")
            })
        };
        match key.value.as_str() {
            "pipeline.name" => {
                if value.trim().is_empty() {
                    return Err(invalid("'pipeline.name' must not be empty".into()));
                }
                self.name = Some(value.trim().to_string());
            }
            "laxity.latency.target" => {
                self.latency_target = LatencyTarget::new(duration()?).ok_or_else(|| {
                    invalid(
                        "'laxity.latency.target' must be more than zero: no result can take no time".into(),
                    )
                    .hint("leave it out for a query that is in no hurry")
                })?;
            }
            "laxity.qos" => self.qos = Some(curve(value).map_err(|what| {
                invalid(format!("'laxity.qos': {what}")).hint(
                    "write points of latency and utility, the latency rising, the utility falling from 1 to 0: \
                     '(0 ms,1) (50 ms,1) (1 s,0)'",
                )
            })?),
            "laxity.weight" => {
                self.weight = value
                    .trim()
                    .parse::<f64>()
                    .ok()
                    .filter(|weight| weight.is_finite() && *weight > 0.0)
                    .ok_or_else(|| {
                        invalid(format!("'laxity.weight' takes a number above zero, not '{value}'"))
                    })?;
            }
            "laxity.shed" => {
                self.shed = match value.trim().to_ascii_lowercase().as_str() {
                    "true" => true,
                    "false" => false,
                    _ => {
                        return Err(invalid(format!("'laxity.shed' takes 'true' or 'false', not '{value}'")));
                    }
                };
            }
            "laxity.share" => {
                self.share = match value.trim().to_ascii_lowercase().as_str() {
                    "on" => true,
                    "off" => false,
                    _ => return Err(invalid(format!("'laxity.share' takes 'on' or 'off', not '{value}'"))),
                };
            }
            "laxity.row.error" => {
                self.row_errors = match value.trim().to_ascii_lowercase().as_str() {
                    "fail" => RowErrors::Fail,
                    "dead-letter" => RowErrors::DeadLetter,
                    _ => {
                        let message = format!("'laxity.row.error' takes 'fail' or 'dead-letter', not '{value}'");
                        return Err(invalid(message));
                    }
                };
            }
            "laxity.late.table" => self.late_table = Some(value.trim().to_string()),
            "laxity.memory.limit" => {
                self.memory_limit_bytes =
                    Some(parse_bytes(value).filter(|bytes| *bytes > 0).ok_or_else(|| {
                        invalid(format!("'laxity.memory.limit' takes a size above zero, not '{value}'"))
                            .hint("write a number and a unit: '512 kb', '64 mb', '2 gb'")
                    })?);
            }
            "laxity.allowed.lateness" | "table.exec.emit.allow-lateness" => {
                self.allowed_lateness_ms = millis(duration()?);
            }
            "laxity.max.event.ahead" => {
                let ahead = duration()?;
                if ahead.is_zero() {
                    return Err(invalid("'laxity.max.event.ahead' must be more than zero".into()));
                }
                self.max_event_ahead_ms = Some(millis(ahead));
            }
            key if key.starts_with("laxity.approximate.") && KEYS.contains(&key) => {
                self.approximate.set(key, value).map_err(|(message, hint)| invalid(message).hint(hint))?;
            }
            "parallelism.default" => {
                self.parallelism = value
                    .trim()
                    .parse::<usize>()
                    .ok()
                    .filter(|parallelism| (1..=PARALLELISM_MAX).contains(parallelism))
                    .ok_or_else(|| {
                        invalid(format!(
                            "'parallelism.default' takes a whole number from 1 to {PARALLELISM_MAX}, not '{value}'"
                        ))
                    })?;
            }
            "table.exec.source.idle-timeout" => {
                let timeout = duration()?;
                // Zero switches it off, as in Flink.
                self.idle_timeout = (!timeout.is_zero()).then_some(timeout);
            }
            INTERVAL_KEY => {
                let interval = duration()?;
                // Zero switches them off, as in Flink.
                self.checkpoint_interval = (!interval.is_zero()).then_some(interval);
                if interval > Duration::ZERO && interval < INTERVAL_MIN {
                    let message = format!("'{INTERVAL_KEY}' must be at least 10 ms, not '{value}'");
                    return Err(invalid(message).hint("each writes to the disk: '10 s' costs next to nothing"));
                }
            }
            FOLDER_KEY | OLD_FOLDER_KEY => {
                let folder = local_folder(value).map_err(|what| {
                    invalid(format!("'{}' {what}", key.value)).hint("write 'file:///var/lib/laxity'")
                })?;
                self.checkpoint_folder = Some(folder);
            }
            "table.local-time-zone" => {
                if !["UTC", "default", "Etc/UTC", "GMT", "GMT+00:00", "Z"].contains(&value) {
                    return Err(invalid(format!(
                        "time zone '{value}' is not supported; the session is in UTC"
                    ))
                    .hint("convert at the edges, or leave the key out"));
                }
                self.time_zone = "UTC".into();
            }
            other if other.starts_with("laxity.") => {
                let known = || KEYS.iter().copied().filter(|known| known.starts_with("laxity."));
                let near = did_you_mean(other, known()).map(|near| format!("did you mean '{near}'?"));
                let fault = invalid(format!("unknown key '{other}'; Laxity's keys are {}", list(known())));
                return Err(match near {
                    Some(near) => fault.hint(near),
                    None => fault,
                });
            }
            "execution.runtime-mode" if value.eq_ignore_ascii_case("batch") => {
                return Err(invalid(
                    "batch mode is not supported; a bounded input ends a streaming query too".into(),
                )
                .hint("leave the key out or set it to 'streaming'"));
            }
            other => {
                if let Some(doubt) = doubt(other) {
                    self.doubts.push((key.span.start, doubt));
                }
                self.ignored.retain(|(known, _)| *known != key.value);
                self.ignored.push((key.value.clone(), value.to_string()));
            }
        }
        Ok(())
    }

    pub(crate) fn reset(&mut self, key: Option<&Ident>) -> Result<(), Box<Fault>> {
        let fresh = SessionSettings::default();
        let Some(key) = key else {
            *self = SessionSettings { doubts: std::mem::take(&mut self.doubts), ..fresh };
            return Ok(());
        };
        match key.value.as_str() {
            "pipeline.name" => self.name = None,
            "laxity.latency.target" => self.latency_target = fresh.latency_target,
            "laxity.qos" => self.qos = None,
            "laxity.weight" => self.weight = fresh.weight,
            "laxity.shed" => self.shed = false,
            "laxity.share" => self.share = true,
            "laxity.row.error" => self.row_errors = RowErrors::Fail,
            "laxity.late.table" => self.late_table = None,
            "laxity.memory.limit" => self.memory_limit_bytes = None,
            "laxity.allowed.lateness" | "table.exec.emit.allow-lateness" => self.allowed_lateness_ms = 0,
            "laxity.max.event.ahead" => self.max_event_ahead_ms = None,
            key if key.starts_with("laxity.approximate.") && KEYS.contains(&key) => {
                self.approximate.reset(key)
            }
            "parallelism.default" => self.parallelism = 1,
            "table.exec.source.idle-timeout" => self.idle_timeout = None,
            INTERVAL_KEY => self.checkpoint_interval = None,
            FOLDER_KEY | OLD_FOLDER_KEY => self.checkpoint_folder = None,
            "table.local-time-zone" => {}
            other if other.starts_with("laxity.") => return self.set(key, ""),
            other => self.ignored.retain(|(known, _)| known != other),
        }
        Ok(())
    }

    /// The settings of a query of that name.
    pub(crate) fn of_query(&self, name: String) -> QuerySettings {
        QuerySettings {
            name,
            latency_target: self.latency_target,
            qos: self.qos.clone(),
            weight: self.weight,
            idle_timeout: self.idle_timeout,
            memory_limit_bytes: self.memory_limit_bytes,
            shed: self.shed,
            row_errors: self.row_errors,
            checkpoints: self
                .checkpoint_interval
                .map(|interval| Checkpoints { interval, folder: self.checkpoint_folder.clone() }),
        }
    }
}

/// The folder that a URI names, or a path.
fn local_folder(text: &str) -> Result<PathBuf, String> {
    let text = text.trim();
    let path = match text.split_once("://") {
        None => text.strip_prefix("file:").unwrap_or(text),
        Some(("file", path)) => path,
        Some((scheme, _)) => {
            return Err(format!("is on '{scheme}'; only folders of this machine can be used"));
        }
    };
    if path.is_empty() { Err("names no folder".into()) } else { Ok(PathBuf::from(path)) }
}

/// What the keys of Flink begin with.
const FLINK_KEYS: &[&str] = &[
    "akka.",
    "blob.",
    "classloader.",
    "client.",
    "cluster.",
    "containerized.",
    "env.",
    "execution.",
    "fs.",
    "heartbeat.",
    "high-availability",
    "historyserver.",
    "io.",
    "job",
    "kubernetes.",
    "metrics.",
    "parallelism.",
    "pekko.",
    "pipeline.",
    "process.",
    "python.",
    "queryable-state.",
    "rest.",
    "restart-strategy",
    "s3.",
    "security.",
    "slot",
    "sql-client.",
    "sql-gateway.",
    "state",
    "table.",
    "task",
    "user.",
    "web.",
    "yarn.",
    "zookeeper.",
];

/// What may have been meant by a key that has no effect here; `None` if it is one of Flink's.
fn doubt(key: &str) -> Option<String> {
    let is_flinks = FLINK_KEYS.iter().any(|prefix| key.starts_with(prefix));
    let without_prefix = KEYS.iter().copied().find(|known| known.strip_prefix("laxity.") == Some(key));
    // One letter more, less or other, also among Flink's own.
    let slip = did_you_mean(key, KEYS.iter().copied())
        .filter(|near| !is_flinks || near.len().abs_diff(key.len()) <= 1 && edit_distance(key, near) <= 2);
    match (without_prefix.or(slip), is_flinks) {
        (Some(near), _) => Some(format!("key '{key}' has no effect; did you mean '{near}'?")),
        (None, false) => Some(format!("key '{key}' has no effect: neither Laxity nor Flink has such a key")),
        (None, true) => None,
    }
}

/// A utility curve as written, `(0 ms,1) (50 ms,1) (1 s,0)`; commas between points are optional.
fn curve(text: &str) -> Result<QosCurve, String> {
    let mut points = Vec::new();
    let mut rest = text.trim();
    while !rest.is_empty() {
        let number = points.len() + 1;
        let wrong = |what: &str| format!("point {number}, {what}, in '{}'", text.trim());
        let point = rest.strip_prefix('(').ok_or_else(|| wrong("should begin with '('"))?;
        let (point, after) = point.split_once(')').ok_or_else(|| wrong("lacks its ')'"))?;
        let (latency, utility) =
            point.split_once(',').ok_or_else(|| wrong("should be a latency and a utility, '(50 ms,1)'"))?;
        let latency = parse_duration(latency).ok_or_else(|| wrong("has no duration before its comma"))?;
        let utility =
            utility.trim().parse::<f64>().map_err(|_| wrong("has no number from 0 to 1 behind its comma"))?;
        points.push((latency, utility));
        rest = after.trim_start_matches(|c: char| c == ',' || c.is_whitespace());
    }
    QosCurve::new(points).map_err(|invalid| invalid.to_string())
}

fn list<'a>(names: impl Iterator<Item = &'a str>) -> String {
    names.collect::<Vec<_>>().join(", ")
}

fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

/// Flink's durations: a whole number and a unit, `ms` if there is none; also ISO 8601's `PT1.5S`.
pub(crate) fn parse_duration(text: &str) -> Option<Duration> {
    let text = text.trim();
    if let Some(rest) = text.strip_prefix("PT").or_else(|| text.strip_prefix("pt")) {
        return parse_iso_time(rest);
    }
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let number: u64 = text[..digits].parse().ok()?;
    let ns = match text[digits..].trim().to_ascii_lowercase().as_str() {
        "ns" | "nano" | "nanos" | "nanosecond" | "nanoseconds" => 1,
        "us" | "µs" | "micro" | "micros" | "microsecond" | "microseconds" => 1_000,
        "" | "ms" | "milli" | "millis" | "millisecond" | "milliseconds" => 1_000_000,
        "s" | "sec" | "secs" | "second" | "seconds" => 1_000_000_000,
        "m" | "min" | "minute" | "minutes" => 60_000_000_000,
        "h" | "hour" | "hours" => 3_600_000_000_000,
        "d" | "day" | "days" => 86_400_000_000_000,
        _ => return None,
    };
    number.checked_mul(ns).map(Duration::from_nanos)
}

/// A duration with a fraction, in a smaller unit: '500 us' for '0.5 ms'. `None` if it is no such thing.
fn whole_duration(text: &str) -> Option<String> {
    let text = text.trim();
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.')?;
    let (number, unit) = (text[..end].parse::<f64>().ok()?, text[end..].trim());
    let unit_ns = parse_duration(&format!("1 {unit}"))?.as_nanos() as f64;
    let ns = (number * unit_ns).round();
    let units =
        [("d", 86_400e9), ("h", 3_600e9), ("min", 60e9), ("s", 1e9), ("ms", 1e6), ("us", 1e3), ("ns", 1.0)];
    let (name, size_ns) = units.into_iter().find(|(_, size_ns)| ns >= *size_ns && ns % size_ns == 0.0)?;
    Some(format!("{} {name}", ns / size_ns))
}

fn parse_iso_time(text: &str) -> Option<Duration> {
    let mut total = 0.0;
    let mut number = String::new();
    for c in text.chars() {
        let unit_s = match c.to_ascii_uppercase() {
            'H' => 3_600.0,
            'M' => 60.0,
            'S' => 1.0,
            _ => {
                number.push(c);
                continue;
            }
        };
        total += number.parse::<f64>().ok()? * unit_s;
        number.clear();
    }
    (number.is_empty() && !text.is_empty()).then(|| Duration::try_from_secs_f64(total).ok()).flatten()
}

/// Flink's memory sizes: a whole number and a unit, bytes if there is none. Units are binary.
pub(crate) fn parse_bytes(text: &str) -> Option<u64> {
    let text = text.trim();
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let number: u64 = text[..digits].parse().ok()?;
    let shift = match text[digits..].trim().to_ascii_lowercase().as_str() {
        "" | "b" | "bytes" => 0,
        "k" | "kb" | "kib" | "kibibytes" => 10,
        "m" | "mb" | "mib" | "mebibytes" => 20,
        "g" | "gb" | "gib" | "gibibytes" => 30,
        "t" | "tb" | "tib" | "tebibytes" => 40,
        _ => return None,
    };
    number.checked_mul(1 << shift)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_as_flink_reads_them() {
        let check = |text: &str, ms: Option<u64>| {
            assert_eq!(parse_duration(text), ms.map(Duration::from_millis), "{text}");
        };
        check("50 ms", Some(50));
        check("50", Some(50));
        check("2min", Some(120_000));
        check("1 H", Some(3_600_000));
        check("PT1.5S", Some(1_500));
        check("PT1H2M", Some(3_720_000));
        check("1.5 s", None);
        check("-1 s", None);
        check("", None);
        check("PT", None);
        check("99999999999999 d", None);
    }

    #[test]
    fn checkpoints_are_set_as_in_flink() {
        let mut settings = SessionSettings::default();
        let key = |name: &str| Ident::new(name);
        assert_eq!(settings.of_query("q".into()).checkpoints, None);
        settings.set(&key("execution.checkpointing.interval"), "10 s").unwrap();
        for (name, value, folder) in [
            ("execution.checkpointing.dir", "file:///var/state", "/var/state"),
            ("state.checkpoints.dir", "file:/var/old", "/var/old"),
            ("execution.checkpointing.dir", "state", "state"),
        ] {
            settings.set(&key(name), value).unwrap();
            let folder = Some(PathBuf::from(folder));
            let interval = Duration::from_secs(10);
            assert_eq!(settings.of_query("q".into()).checkpoints, Some(Checkpoints { interval, folder }));
        }
        settings.set(&key("execution.checkpointing.interval"), "0").unwrap();
        assert_eq!(settings.of_query("q".into()).checkpoints, None);
        let wrong = settings.set(&key("execution.checkpointing.dir"), "s3://bucket/state").unwrap_err();
        assert!(wrong.message.contains("is on 's3'"), "{}", wrong.message);
        let wrong = settings.set(&key("execution.checkpointing.interval"), "1 ms").unwrap_err();
        assert!(wrong.message.contains("at least 10 ms"), "{}", wrong.message);
    }

    #[test]
    fn sizes_are_binary() {
        assert_eq!(parse_bytes("64 mb"), Some(64 << 20));
        assert_eq!(parse_bytes("10"), Some(10));
        assert_eq!(parse_bytes("1 zb"), None);
    }

    #[test]
    fn a_utility_curve_is_read_point_by_point() {
        let written = curve("(0 ms,1) (50 ms, 1),(1 s,0.25)").unwrap();
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
            let said = curve(wrong).unwrap_err();
            assert!(said.contains(says), "{wrong}: {said}");
        }
    }

    #[test]
    fn settings_hold_until_reset() {
        let mut settings = SessionSettings::default();
        let key = |name: &str| Ident::new(name);
        settings.set(&key("laxity.latency.target"), "50 ms").unwrap();
        settings.set(&key("parallelism.default"), "4").unwrap();
        settings.set(&key("state.backend.type"), "rocksdb").unwrap();
        assert_eq!(settings.latency_target.duration(), Duration::from_millis(50));
        assert_eq!(settings.ignored, [("state.backend.type".to_string(), "rocksdb".to_string())]);
        settings.reset(Some(&key("laxity.latency.target"))).unwrap();
        assert_eq!(settings.latency_target, LatencyTarget::DEFAULT);
        assert_eq!(settings.parallelism, 4);
        settings.reset(None).unwrap();
        assert_eq!(settings, SessionSettings::default());
    }

    #[test]
    fn bad_settings_say_what_is_valid() {
        let check = |key: &str, value: &str, message: &str, hint: Option<&str>| {
            let fault = SessionSettings::default().set(&Ident::new(key), value).unwrap_err();
            assert_eq!((fault.message.as_str(), fault.hint.as_deref()), (message, hint));
        };
        check(
            "laxity.latency.target",
            "0 ms",
            "'laxity.latency.target' must be more than zero: no result can take no time",
            Some("leave it out for a query that is in no hurry"),
        );
        check(
            "laxity.latency.target",
            "-5 ms",
            "'laxity.latency.target' takes a duration, not '-5 ms'",
            Some("write a number and a unit: '50 ms', '1 s', '2 min', '1 h', '1 d'"),
        );
        check(
            "laxity.latncy.target",
            "1 s",
            "unknown key 'laxity.latncy.target'; Laxity's keys are laxity.latency.target, laxity.qos, \
             laxity.weight, laxity.policy, laxity.shed, laxity.share, laxity.row.error, laxity.late.table, laxity.memory.limit, \
             laxity.allowed.lateness, laxity.max.event.ahead, laxity.approximate.error, laxity.approximate.confidence, \
             laxity.approximate.when, laxity.approximate.method",
            Some("did you mean 'laxity.latency.target'?"),
        );
        check(
            "laxity.qos",
            "(0 ms,1) (50 ms;1)",
            "'laxity.qos': point 2, should be a latency and a utility, '(50 ms,1)', in '(0 ms,1) (50 ms;1)'",
            Some(
                "write points of latency and utility, the latency rising, the utility falling from 1 to 0: \
                 '(0 ms,1) (50 ms,1) (1 s,0)'",
            ),
        );
        check("laxity.shed", "yes", "'laxity.shed' takes 'true' or 'false', not 'yes'", None);
        check("laxity.share", "yes", "'laxity.share' takes 'on' or 'off', not 'yes'", None);
        check(
            "laxity.row.error",
            "skip",
            "'laxity.row.error' takes 'fail' or 'dead-letter', not 'skip'",
            None,
        );
        check(
            "parallelism.default",
            "0",
            "'parallelism.default' takes a whole number from 1 to 1024, not '0'",
            None,
        );
    }
}
