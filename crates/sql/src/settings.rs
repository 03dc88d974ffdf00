//! SET and RESET: which keys there are, what their values may be, and what is said of a key that nobody has.

mod setting;

use std::time::Duration;

use datafusion_sql::sqlparser::ast::Ident;
use datafusion_sql::sqlparser::tokenizer::Location;
use laxity_graph::{CheckpointPlace, Checkpoints, LatencyTarget, QosCurve, QuerySettings, RowErrors};
use laxity_text::{closest, distance};

use self::setting::Setting;
pub use self::setting::qos_curve;
use crate::approximate::Approximate;
use crate::error::Fault;

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
    pub checkpoint_place: Option<CheckpointPlace>,
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
            checkpoint_place: None,
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

impl SessionSettings {
    pub(crate) fn set(&mut self, key: &Ident, value: &str) -> Result<(), Box<Fault>> {
        let setting = Setting { key, value };
        match key.value.as_str() {
            "pipeline.name" => self.name = Some(setting.name()?),
            "laxity.latency.target" => self.latency_target = setting.latency_target()?,
            "laxity.qos" => self.qos = Some(setting.curve()?),
            "laxity.weight" => self.weight = setting.weight()?,
            "laxity.shed" => self.shed = setting.one_of(("true", true), ("false", false))?,
            "laxity.share" => self.share = setting.one_of(("on", true), ("off", false))?,
            "laxity.row.error" => {
                let choices = (("fail", RowErrors::Fail), ("dead-letter", RowErrors::DeadLetter));
                self.row_errors = setting.one_of(choices.0, choices.1)?;
            }
            "laxity.late.table" => self.late_table = Some(value.trim().to_string()),
            "laxity.memory.limit" => self.memory_limit_bytes = Some(setting.bytes()?),
            "laxity.allowed.lateness" | "table.exec.emit.allow-lateness" => {
                self.allowed_lateness_ms = millis(setting.duration()?);
            }
            "laxity.max.event.ahead" => {
                let ahead = setting.duration()?;
                if ahead.is_zero() {
                    return Err(setting.invalid("'laxity.max.event.ahead' must be more than zero".into()));
                }
                self.max_event_ahead_ms = Some(millis(ahead));
            }
            key if key.starts_with("laxity.approximate.") && KEYS.contains(&key) => {
                let wrong = |(message, hint)| setting.invalid(message).hint(hint);
                self.approximate.set(key, value).map_err(wrong)?;
            }
            "parallelism.default" => self.parallelism = setting.parallelism()?,
            // Zero switches it off, as in Flink.
            "table.exec.source.idle-timeout" => {
                self.idle_timeout = Some(setting.duration()?).filter(|timeout| !timeout.is_zero());
            }
            INTERVAL_KEY => self.checkpoint_interval = setting.checkpoint_interval()?,
            FOLDER_KEY | OLD_FOLDER_KEY => self.checkpoint_place = Some(setting.checkpoint_place()?),
            "table.local-time-zone" => self.time_zone = setting.time_zone()?,
            other if other.starts_with("laxity.") => return Err(unknown(&setting)),
            "execution.runtime-mode" if value.eq_ignore_ascii_case("batch") => {
                let message = "batch mode is not supported; a bounded input ends a streaming query too";
                return Err(setting
                    .invalid(message.into())
                    .hint("leave the key out or set it to 'streaming'"));
            }
            _ => self.ignore(&setting),
        }
        Ok(())
    }

    /// Remembers a key that has no effect here, and that it looks mistyped if it does.
    fn ignore(&mut self, setting: &Setting) {
        let key = &setting.key.value;
        if let Some(doubt) = doubt(key) {
            self.doubts.push((setting.key.span.start, doubt));
        }
        self.ignored.retain(|(known, _)| known != key);
        self.ignored.push((key.clone(), setting.value.to_string()));
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
            FOLDER_KEY | OLD_FOLDER_KEY => self.checkpoint_place = None,
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
            leaves_out: self.approximate.error.is_some() && self.approximate.only_behind,
            row_errors: self.row_errors,
            checkpoints: self
                .checkpoint_interval
                .map(|interval| Checkpoints { interval, place: self.checkpoint_place.clone() }),
        }
    }
}

/// That Laxity has no such key, and which it has.
fn unknown(setting: &Setting) -> Box<Fault> {
    let key = &setting.key.value;
    let known = || KEYS.iter().copied().filter(|known| known.starts_with("laxity."));
    let list = known().collect::<Vec<_>>().join(", ");
    let fault = setting.invalid(format!("unknown key '{key}'; Laxity's keys are {list}"));
    match closest(key, known()) {
        Some(near) => fault.hint(format!("did you mean '{near}'?")),
        None => fault,
    }
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
    // One letter more, less, other or swapped, also among Flink's own.
    let slip = closest(key, KEYS.iter().copied()).filter(|near| !is_flinks || distance(key, near) <= 1);
    match (without_prefix.or(slip), is_flinks) {
        (Some(near), _) => Some(format!("key '{key}' has no effect; did you mean '{near}'?")),
        (None, false) => Some(format!("key '{key}' has no effect: neither Laxity nor Flink has such a key")),
        (None, true) => None,
    }
}

fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_is_documented() {
        let docs = include_str!("../../../docs/sql.md");
        for key in KEYS {
            assert!(docs.contains(&format!("`{key}`")), "docs/sql.md says nothing of {key}");
        }
    }

    #[test]
    fn checkpoints_are_set_as_in_flink() {
        let mut settings = SessionSettings::default();
        let key = |name: &str| Ident::new(name);
        assert_eq!(settings.of_query("q".into()).checkpoints, None);
        settings.set(&key("execution.checkpointing.interval"), "10 s").unwrap();
        let folder = |path: &str| CheckpointPlace::Folder(path.into());
        let elsewhere = |uri: &str| CheckpointPlace::Elsewhere(uri.into());
        for (name, value, place) in [
            ("execution.checkpointing.dir", "file:///var/state", folder("/var/state")),
            ("state.checkpoints.dir", "file:/var/old", folder("/var/old")),
            ("execution.checkpointing.dir", "state", folder("state")),
            ("execution.checkpointing.dir", " s3://bucket/state", elsewhere("s3://bucket/state")),
        ] {
            settings.set(&key(name), value).unwrap();
            let (place, interval) = (Some(place), Duration::from_secs(10));
            assert_eq!(settings.of_query("q".into()).checkpoints, Some(Checkpoints { interval, place }));
        }
        settings.set(&key("execution.checkpointing.interval"), "0").unwrap();
        assert_eq!(settings.of_query("q".into()).checkpoints, None);
        let wrong = settings.set(&key("execution.checkpointing.dir"), "file://").unwrap_err();
        assert!(wrong.message.contains("names no folder"), "{}", wrong.message);
        let wrong = settings.set(&key("execution.checkpointing.interval"), "1 ms").unwrap_err();
        assert!(wrong.message.contains("at least 10 ms"), "{}", wrong.message);
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
        check(
            "laxity.latency.target",
            "0.5 ms",
            "'laxity.latency.target' takes a whole number of a unit, not '0.5 ms'",
            Some("write '500 us'"),
        );
        check(
            "laxity.memory.limit",
            "1.5 gb",
            "'laxity.memory.limit' takes a size above zero, not '1.5 gb'",
            Some("write a number and a unit: '512 kb', '64 mb', '2 gb'"),
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
