//! The engines in the configuration file: what each kind must say, and what may be said in place of its defaults.

use std::net::SocketAddr;
use std::path::PathBuf;

use laxity_http::Tls;
use regex::Regex;
use serde::Deserialize;

use super::options::EngineOptions;
use crate::metric::Metric;
use crate::quantity::duration;
use crate::threads::{Names, SeriesSpec, ThreadsSpec, own_engine, storm};

/// An `[[engine]]` of the file.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FileEngine {
    kind: String,
    url: Option<String>,
    ca: Option<PathBuf>,
    cert: Option<PathBuf>,
    key: Option<PathBuf>,
    name: Option<String>,
    process: Option<String>,
    names: Option<Names>,
    thread: Option<String>,
    query: Option<String>,
    #[serde(default)]
    edges: Vec<String>,
    prometheus: Option<String>,
    graphite: Option<SocketAddr>,
    timer_slack: Option<String>,
    #[serde(default)]
    metric: Vec<FileSeries>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct FileSeries {
    name: String,
    series: String,
    #[serde(default = "one")]
    scale: f64,
}

fn one() -> f64 {
    1.0
}

impl FileEngine {
    /// What it says; else the key that is wrong, and why.
    pub fn options(&self) -> Result<EngineOptions, (String, String)> {
        let wrong = |key: &str, why: String| (format!("engine.{key}"), why);
        let spec = match self.kind.as_str() {
            "flink" => {
                let url = self.url.as_deref().ok_or_else(|| wrong("url", "missing".to_owned()))?;
                let own = match (&self.cert, &self.key) {
                    (Some(cert), Some(key)) => Some((cert.as_path(), key.as_path())),
                    (None, None) => None,
                    (Some(_), None) => {
                        return Err(wrong("key", "missing; cert and key go together".to_owned()));
                    }
                    (None, Some(_)) => {
                        return Err(wrong("cert", "missing; cert and key go together".to_owned()));
                    }
                };
                let tls = Tls::read(self.ca.as_deref(), own).map_err(|(key, why)| wrong(key, why))?;
                return super::options::flink(url, tls).map_err(|why| wrong("url", why));
            }
            "storm" => storm(),
            "laxity" => own_engine(),
            "threads" => {
                let missing = |key| wrong(key, "missing; needed for an engine of kind threads".to_owned());
                ThreadsSpec {
                    name: self.name.clone().ok_or_else(|| missing("name"))?,
                    process: regex("process", self.process.as_ref().ok_or_else(|| missing("process"))?)?,
                    thread: regex("thread", self.thread.as_ref().ok_or_else(|| missing("thread"))?)?,
                    names: Names::Linux,
                    query: self.name.clone().unwrap_or_default(),
                    ..own_engine()
                }
            }
            other => {
                let why = format!("{other:?} is no engine; expected flink, storm, laxity or threads");
                return Err(wrong("kind", why));
            }
        };
        Ok(EngineOptions::Threads(Box::new(self.over(spec)?)))
    }

    /// The specification with what is given in its place.
    fn over(&self, mut spec: ThreadsSpec) -> Result<ThreadsSpec, (String, String)> {
        if let Some(name) = &self.name {
            spec.name.clone_from(name);
        }
        if let Some(text) = &self.process {
            spec.process = regex("process", text)?;
        }
        if let Some(text) = &self.thread {
            spec.thread = regex("thread", text)?;
        }
        if let Some(query) = &self.query {
            spec.query.clone_from(query);
        }
        spec.names = self.names.unwrap_or(spec.names);
        spec.prometheus.clone_from(&self.prometheus);
        spec.graphite = self.graphite;
        match self.timer_slack.as_deref() {
            None => {}
            Some("as it is") => spec.timer_slack = None,
            Some(text) => {
                let slack = duration(text)
                    .map_err(|why| ("engine.timer_slack".to_owned(), format!("{why}, or \"as it is\"")))?;
                spec.timer_slack = Some(slack);
            }
        }
        for path in &self.edges {
            let operators: Vec<&str> = path.split("->").map(str::trim).collect();
            if operators.len() < 2 || operators.iter().any(|operator| operator.is_empty()) {
                let why = format!("{path:?} is no path; expected as in \"parse -> join -> sink\"");
                return Err(("engine.edges".to_owned(), why));
            }
            spec.edges.extend(operators.windows(2).map(|pair| (pair[0].to_owned(), pair[1].to_owned())));
        }
        for series in &self.metric {
            let metric = Metric::ALL.into_iter().find(|metric| metric.name() == series.name);
            let metric = metric.ok_or_else(|| {
                let names = Metric::ALL.map(Metric::name).join(", ");
                (
                    "engine.metric.name".to_owned(),
                    format!("{:?} is no metric; expected one of {names}", series.name),
                )
            })?;
            let series =
                SeriesSpec { metric, series: regex("metric.series", &series.series)?, scale: series.scale };
            // One's own come before those of the kind.
            spec.metrics.insert(0, series);
        }
        Ok(spec)
    }
}

fn regex(key: &str, text: &str) -> Result<Regex, (String, String)> {
    Regex::new(text).map_err(|error| (format!("engine.{key}"), error.to_string()))
}
