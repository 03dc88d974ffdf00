//! The configuration file of `laxity attach` as options. An error names the key that is wrong and what was expected.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use laxity_graph::{QosCurve, WindowShape};
use serde::Deserialize;

use super::engine::FileEngine;
use super::options::{EngineOptions, PolicyOptions};
use crate::Wishes;
use crate::agent::JobWish;
use crate::exchange::{ExchangeOptions, FileExchange};
use crate::quantity::duration;

/// An option or the file is not right. The user can fix it.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// On the command line, or of the same name in the file.
    #[error("--{name}: {why}")]
    Option {
        /// Which.
        name: &'static str,
        /// What is wrong and what was expected.
        why: String,
    },
    /// The file cannot be read.
    #[error("cannot read {}", path.display())]
    Read {
        /// Which.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// The file is no TOML, or holds what is not known.
    #[error("{}: {message}", path.display())]
    Syntax {
        /// Which.
        path: PathBuf,
        /// Where and what.
        message: String,
    },
    /// A value in the file.
    #[error("{}: {key}: {why}", path.display())]
    Value {
        /// Which file.
        path: PathBuf,
        /// Which key.
        key: String,
        /// What is wrong and what was expected.
        why: String,
    },
}

/// The file for permanent use, as in `docs/attach.md`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct File {
    #[serde(skip)]
    path: PathBuf,
    pub policy: Option<String>,
    pub translator: Option<String>,
    period: Option<String>,
    pub nice: Option<String>,
    pub state: Option<PathBuf>,
    pub listen: Option<SocketAddr>,
    pub cgroup: Option<bool>,
    pub share: Option<u32>,
    exchange: Option<FileExchange>,
    #[serde(default)]
    engine: Vec<FileEngine>,
    #[serde(default)]
    job: Vec<FileJob>,
    /// Policies for some jobs, or for some loads.
    #[serde(default)]
    rule: Vec<FileRule>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct FileJob {
    name: String,
    target: Option<String>,
    weight: Option<f64>,
    priority: Option<f64>,
    /// Latency and utility, as in [["0 ms", 1.0], ["1 s", 0.0]].
    qos: Option<Vec<(String, f64)>>,
    /// Size and slide of its windows, where the engine's plan does not tell them.
    window: Option<String>,
    slide: Option<String>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct FileRule {
    policy: String,
    #[serde(default)]
    jobs: Vec<String>,
    period: Option<String>,
    above_cpu_percent: Option<f64>,
}

impl File {
    pub fn read(path: &Path) -> Result<File, ConfigError> {
        let text = std::fs::read_to_string(path)
            .map_err(|source| ConfigError::Read { path: path.to_owned(), source })?;
        File::parse(path, &text)
    }

    fn parse(path: &Path, text: &str) -> Result<File, ConfigError> {
        let file: File = toml::from_str(text)
            .map_err(|error| ConfigError::Syntax { path: path.to_owned(), message: error.to_string() })?;
        Ok(File { path: path.to_owned(), ..file })
    }

    fn wrong(&self, key: impl Into<String>, why: impl Into<String>) -> ConfigError {
        ConfigError::Value { path: self.path.clone(), key: key.into(), why: why.into() }
    }

    pub fn engines(&self) -> Result<Vec<EngineOptions>, ConfigError> {
        let engine = |engine: &FileEngine| engine.options().map_err(|(key, why)| self.wrong(key, why));
        self.engine.iter().map(engine).collect()
    }

    pub fn exchange(&self, period: Duration) -> Result<Option<ExchangeOptions>, ConfigError> {
        let options = self.exchange.as_ref().map(|exchange| exchange.options(period)).transpose();
        options.map_err(|(key, why)| self.wrong(key, why))
    }

    pub fn period(&self) -> Result<Option<Duration>, ConfigError> {
        self.period.as_deref().map(|text| duration(text).map_err(|why| self.wrong("period", why))).transpose()
    }

    pub fn jobs(&self) -> Result<Vec<JobWish>, ConfigError> {
        self.job.iter().map(|job| self.job(job)).collect()
    }

    fn job(&self, job: &FileJob) -> Result<JobWish, ConfigError> {
        let key = |field: &str| format!("job {:?}: {field}", job.name);
        let time = |field: &str, text: &str| duration(text).map_err(|why| self.wrong(key(field), why));
        let mut wishes = match &job.target {
            Some(text) => Wishes::within(time("target", text)?).unwrap_or_default(),
            None => Wishes::default(),
        };
        if let Some(weight) = job.weight {
            if !(weight > 0.0 && weight.is_finite()) {
                return Err(self.wrong(key("weight"), format!("{weight} is no weight; expected more than 0")));
            }
            wishes.weight = weight;
        }
        wishes.priority = job.priority;
        if let Some(points) = &job.qos {
            let points = points.iter().map(|(at, utility)| Ok((zero_or(&time, at)?, *utility)));
            let points = points.collect::<Result<Vec<_>, ConfigError>>()?;
            wishes.qos =
                Some(QosCurve::new(points).map_err(|error| self.wrong(key("qos"), error.to_string()))?);
        }
        if let Some(size) = &job.window {
            let size_ms = time("window", size)?.as_millis() as i64;
            let slide = job.slide.as_deref().map(|text| time("slide", text)).transpose()?;
            let slide_ms = slide.map_or(size_ms, |slide| slide.as_millis() as i64);
            wishes.window = Some(WindowShape { size_ms, slide_ms, end_ms: Some(0) });
        }
        Ok(JobWish { name: job.name.clone(), wishes })
    }

    pub fn policies(&self, period: Duration) -> Result<Vec<PolicyOptions>, ConfigError> {
        let rule = |rule: &FileRule| {
            let own = rule.period.as_deref().map(duration).transpose();
            let above_busy = rule.above_cpu_percent.map(|percent| percent / 100.0);
            if above_busy.is_some_and(|busy| !(0.0..1.0).contains(&busy)) {
                return Err(self.wrong("rule.above_cpu_percent", "expected from 0 to 100"));
            }
            Ok(PolicyOptions {
                policy: rule.policy.clone(),
                jobs: rule.jobs.clone(),
                period: own.map_err(|why| self.wrong("rule.period", why))?.unwrap_or(period),
                above_busy,
            })
        };
        self.rule.iter().map(rule).collect()
    }
}

/// Curves begin at no latency at all.
fn zero_or(
    time: &impl Fn(&str, &str) -> Result<Duration, ConfigError>,
    text: &str,
) -> Result<Duration, ConfigError> {
    let is_zero =
        text.trim_start().trim_start_matches(['0', '.']).trim().chars().all(|c| c.is_ascii_alphabetic());
    if is_zero && text.trim_start().starts_with('0') { Ok(Duration::ZERO) } else { time("qos", text) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<File, ConfigError> {
        File::parse(Path::new("agent.toml"), text)
    }

    #[test]
    fn a_whole_file_is_read() {
        let file = parse(
            r#"
            policy = "llf"
            period = "500 ms"
            nice = "-15..15"
            listen = "127.0.0.1:9464"
            [exchange]
            listen = "127.0.0.1:9465"
            peers = ["127.0.0.1:9466"]
            [[engine]]
            kind = "flink"
            url = "http://127.0.0.1:8081"
            [[job]]
            name = "alarms"
            target = "50 ms"
            weight = 2
            qos = [["0 ms", 1.0], ["50 ms", 1.0], ["1 s", 0.0]]
            window = "10 s"
            slide = "1 s"
            [[rule]]
            policy = "klink"
            jobs = ["etl-*"]
            above_cpu_percent = 80
            period = "1 s"
            "#,
        )
        .unwrap();
        assert_eq!(file.exchange(Duration::from_secs(1)).unwrap().unwrap().peers, ["127.0.0.1:9466"]);
        let jobs = file.jobs().unwrap();
        assert!(jobs[0].wishes.is_urgent);
        assert_eq!(jobs[0].wishes.weight, 2.0);
        assert_eq!(jobs[0].wishes.window.unwrap().slide_ms, 1_000);
        assert_eq!(jobs[0].wishes.qos.as_ref().unwrap().utility(525_000_000), 0.5);
        let policies = file.policies(file.period().unwrap().unwrap()).unwrap();
        assert_eq!((policies[0].above_busy, policies[0].period), (Some(0.8), Duration::from_secs(1)));
        let engines = file.engines().unwrap();
        assert!(matches!(&engines[..], [EngineOptions::Flink { url, .. }] if url == "http://127.0.0.1:8081"));
    }

    #[test]
    fn an_engine_of_named_threads_is_read() {
        let file = parse(
            r#"
            [[engine]]
            kind = "threads"
            name = "Kafka Streams"
            process = 'orders\.jar'
            names = "jvm"
            thread = 'StreamThread-(?P<instance>\d+)$'
            edges = ["parse -> join -> sink"]
            prometheus = "http://127.0.0.1:9404/metrics"
            [[engine.metric]]
            name = "queue"
            series = 'records_lag\{.*topic="(?P<operator>[^"]+)"'
            "#,
        );
        let engines = file.unwrap().engines().unwrap();
        let [EngineOptions::Threads(spec)] = &engines[..] else { panic!("{engines:?}") };
        assert_eq!((spec.name.as_str(), spec.query.as_str()), ("Kafka Streams", "Kafka Streams"));
        assert_eq!(spec.edges[1], ("join".to_owned(), "sink".to_owned()));
        assert_eq!(spec.metrics.len(), 1);
        let error = |text: &str| parse(text).unwrap().engines().unwrap_err().to_string();
        assert!(error("[[engine]]\nkind = \"threads\"\nname = \"a\"").contains("engine.process: missing"));
        assert!(
            error("[[engine]]\nkind = \"storm\"\nthread = \"(\"")
                .contains("engine.thread: regex parse error")
        );
        let slack = |line: &str| {
            let text = format!("[[engine]]\nkind = \"storm\"\n{line}");
            parse(&text).unwrap().engines().map(|engines| match &engines[0] {
                EngineOptions::Threads(spec) => spec.timer_slack,
                other => panic!("{other:?}"),
            })
        };
        assert_eq!(slack("").unwrap(), Some(Duration::from_millis(1)));
        assert_eq!(slack("timer_slack = \"200 us\"").unwrap(), Some(Duration::from_micros(200)));
        assert_eq!(slack("timer_slack = \"as it is\"").unwrap(), None);
        let wrong = slack("timer_slack = \"none\"").unwrap_err().to_string();
        assert!(wrong.contains("engine.timer_slack") && wrong.contains("as it is"), "{wrong}");
        let metric = error("[[engine]]\nkind = \"storm\"\n[[engine.metric]]\nname = \"q\"\nseries = \"x\"");
        assert!(metric.contains("expected one of rows-in, rows-out"), "{metric}");
    }

    #[test]
    fn what_is_wrong_is_said_with_its_place() {
        let unknown = parse("polcy = \"llf\"").unwrap_err().to_string();
        assert!(
            unknown.contains("agent.toml") && unknown.contains("polcy") && unknown.contains("policy"),
            "{unknown}"
        );
        let target = parse("[[job]]\nname = \"a\"\ntarget = \"soon\"").unwrap().jobs().unwrap_err();
        assert!(target.to_string().contains("job \"a\": target: \"soon\" is no duration"), "{target}");
        let half = parse("[[engine]]\nkind = \"flink\"\nurl = \"https://a\"\ncert = \"/c\"");
        let half = half.unwrap().engines().unwrap_err();
        assert!(half.to_string().contains("engine.key: missing"), "{half}");
        let kind = parse("[[engine]]\nkind = \"spark\"").unwrap().engines().unwrap_err();
        assert!(kind.to_string().contains("expected flink"), "{kind}");
    }
}
