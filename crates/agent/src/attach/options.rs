//! What `laxity attach` and `laxity restore` are told on the command line, and what holds where nothing is said.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use laxity_http::Tls;

use super::config::{ConfigError, File};
use super::default_state;
use crate::agent::{JobWish, PolicyUse};
use crate::exchange::ExchangeOptions;
use crate::quantity::duration;
use crate::threads::{ThreadsEngine, ThreadsSpec};
use crate::{Adapter, AdapterError, Flink, PolicyError, Ranges, Translator, Wishes};

/// Schedule the threads of an engine that runs already, so that urgent jobs stay fast while others fill the machine.
#[derive(Args, Clone, Debug, Default)]
pub struct AttachArgs {
    /// REST address of a Flink JobManager, as http://127.0.0.1:8081 or https://…; may be given several times
    #[arg(long, value_name = "URL")]
    pub flink: Vec<String>,
    /// Certificates by which a JobManager is known over https, PEM [default: those that browsers know]
    #[arg(long, value_name = "FILE")]
    pub ca: Option<PathBuf>,
    /// Latency target of a job, as 'alarms=50 ms'; a name may end in *; may be given several times
    #[arg(long, value_name = "NAME=TARGET")]
    pub job: Vec<String>,
    /// How operators are ranked; `laxity policies` lists them, and here also static and congestion [default: llf]
    #[arg(long)]
    pub policy: Option<String>,
    /// What ranks become: nice, shares, quota, rr or query-shares+nice [default: nice]
    #[arg(long)]
    pub translator: Option<String>,
    /// How often threads are ranked anew [default: 1 s]
    #[arg(long, value_name = "DURATION")]
    pub period: Option<String>,
    /// Nice of the most and of the least urgent thread [default: -10..10, and 0..19 without a cgroup beside other programs]
    #[arg(long, value_name = "BEST..WORST", allow_hyphen_values = true)]
    pub nice: Option<String>,
    /// Weight of each engine process beside other programs, 1 to 10000; 100 is what any process has. If not given, there is
    /// no cgroup where other programs' threads are in the engine's own
    #[arg(long, value_name = "WEIGHT", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub share: Option<u32>,
    /// Show what would be done, and do nothing
    #[arg(long)]
    pub dry_run: bool,
    /// Rank once, show it, put everything back and end
    #[arg(long)]
    pub once: bool,
    /// Settings in a file; options given here go before it
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Serve Prometheus metrics there, as 127.0.0.1:9464
    #[arg(long, value_name = "ADDRESS")]
    pub listen: Option<SocketAddr>,
    /// Where the journal is kept [default: /run/laxity, or the user's run-time folder]
    #[arg(long, value_name = "FOLDER")]
    pub state: Option<PathBuf>,
    /// Leave cgroups alone, although nice values then count inside one process only
    #[arg(long)]
    pub no_cgroup: bool,
    /// Print lines instead of redrawing a table
    #[arg(long)]
    pub plain: bool,
}

/// Put back what an agent changed that did not end well.
#[derive(Args, Clone, Debug, Default)]
pub struct RestoreArgs {
    /// Where its journal is [default: /run/laxity, or the user's run-time folder]
    #[arg(long, value_name = "FOLDER")]
    pub state: Option<PathBuf>,
}

/// What `attach` does, all told.
#[derive(Clone, Debug)]
pub struct Options {
    /// At least one.
    pub engines: Vec<EngineOptions>,
    /// What is asked for which jobs; the first that fits counts.
    pub jobs: Vec<JobWish>,
    /// Policies by their text, with what each is for.
    pub policies: Vec<PolicyOptions>,
    /// How ranks become settings.
    pub translator: Translator,
    /// Between what.
    pub ranges: Ranges,
    /// Write nothing.
    pub dry_run: bool,
    /// End after one ranking.
    pub once: bool,
    /// When to use cpu cgroups.
    pub groups: Groups,
    /// The range of nice values is asked for, not ours.
    pub is_nice_given: bool,
    /// Weight of each engine process beside other programs; 100 is usual.
    pub share: u32,
    /// Where the journal is kept.
    pub state: PathBuf,
    /// With which other agents.
    pub exchange: Option<ExchangeOptions>,
    /// Where `/metrics` is served.
    pub listen: Option<SocketAddr>,
    /// Print lines.
    pub plain: bool,
}

/// When the engine's threads go to cpu cgroups of the agent's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Groups {
    /// Wherever the translator needs them, or the engine counts as one beside other programs anyway.
    WhereApart,
    /// Wherever they can be made.
    Always,
    /// Nowhere.
    Never,
}

/// A policy's text and what it is for.
#[derive(Clone, Debug)]
pub struct PolicyOptions {
    /// As `Policy` parses it.
    pub policy: String,
    /// Names of jobs; empty: all others.
    pub jobs: Vec<String>,
    /// How often it ranks.
    pub period: Duration,
    /// Only above this share of busy cores.
    pub above_busy: Option<f64>,
}

/// Where an engine is.
#[derive(Clone, Debug)]
pub enum EngineOptions {
    /// A JobManager.
    Flink {
        /// Its REST address.
        url: String,
        /// How it is known over https.
        tls: Tls,
    },
    /// One that is read by its threads' names.
    Threads(Box<ThreadsSpec>),
}

/// Where a job names no target of its own, llf ranks all alike: the target alone says who is urgent.
const POLICY: &str = "llf";

const PERIOD: Duration = Duration::from_secs(1);

impl EngineOptions {
    /// Wants another timer slack for its threads.
    pub(super) fn sets_timers(&self) -> bool {
        matches!(self, EngineOptions::Threads(spec) if spec.timer_slack.is_some())
    }

    /// Without the permission for them, timers stay as they are.
    pub(super) fn connect(&self, may_set_timers: bool) -> Result<Box<dyn Adapter>, AdapterError> {
        Ok(match self {
            EngineOptions::Flink { url, tls } => Box::new(Flink::connect(url, tls)?),
            EngineOptions::Threads(spec) => {
                let mut spec = ThreadsSpec::clone(spec);
                spec.timer_slack = spec.timer_slack.filter(|_| may_set_timers);
                Box::new(ThreadsEngine::start(spec)?)
            }
        })
    }
}

impl Options {
    /// From the command line, and the file that it names.
    ///
    /// # Errors
    /// If an option is not what it must be.
    pub fn from_args(args: &AttachArgs) -> Result<Options, ConfigError> {
        let file = args.config.as_deref().map(File::read).transpose()?.unwrap_or_default();
        let option = |name: &'static str| move |why: String| ConfigError::Option { name, why };
        let tls =
            Tls::read(args.ca.as_deref(), None).map_err(|(name, why)| ConfigError::Option { name, why })?;
        let mut engines: Vec<EngineOptions> = args
            .flink
            .iter()
            .map(|url| flink(url, tls.clone()).map_err(option("flink")))
            .collect::<Result<_, _>>()?;
        engines.extend(file.engines()?);
        if engines.is_empty() {
            return Err(ConfigError::Option {
                name: "flink",
                why: "no engine to attach to; expected --flink URL, or --config FILE with an [[engine]]"
                    .to_owned(),
            });
        }
        let mut jobs = Vec::new();
        for job in &args.job {
            jobs.push(job_wish(job).map_err(option("job"))?);
        }
        jobs.extend(file.jobs()?);
        let period = match &args.period {
            Some(text) => Some(duration(text).map_err(option("period"))?),
            None => file.period()?,
        };
        let period = period.unwrap_or(PERIOD);
        let mut policies = file.policies(period)?;
        if let Some(policy) = &args.policy {
            policies.retain(|used| !used.jobs.is_empty());
            policies.push(PolicyOptions {
                policy: policy.clone(),
                jobs: Vec::new(),
                period,
                above_busy: None,
            });
        } else if !policies.iter().any(|used| used.jobs.is_empty() && used.above_busy.is_none()) {
            let policy = file.policy.clone().unwrap_or_else(|| POLICY.to_owned());
            policies.push(PolicyOptions { policy, jobs: Vec::new(), period, above_busy: None });
        }
        let translator = match args.translator.as_ref().or(file.translator.as_ref()) {
            Some(text) => {
                text.parse().map_err(|e: crate::UnknownTranslator| option("translator")(e.to_string()))?
            }
            None => Translator::default(),
        };
        let mut ranges = Ranges {
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            ..Ranges::default()
        };
        let (nice, share) = (args.nice.as_ref().or(file.nice.as_ref()), args.share.or(file.share));
        if let Some(text) = nice {
            ranges.nice = nice_range(text).map_err(option("nice"))?;
        }
        Ok(Options {
            engines,
            jobs,
            policies,
            translator,
            ranges,
            dry_run: args.dry_run,
            once: args.once,
            groups: match (args.no_cgroup, file.cgroup) {
                (true, _) | (_, Some(false)) => Groups::Never,
                // Who asks for a share asks for what has one.
                (_, Some(true)) => Groups::Always,
                (_, None) if share.is_some() => Groups::Always,
                (_, None) => Groups::WhereApart,
            },
            is_nice_given: nice.is_some(),
            share: share.unwrap_or(100).clamp(1, 10_000),
            state: args.state.clone().or(file.state.clone()).unwrap_or_else(default_state),
            exchange: file.exchange(period)?,
            listen: args.listen.or(file.listen),
            plain: args.plain,
        })
    }

    pub(super) fn policy_uses(&self) -> Result<Vec<PolicyUse>, PolicyError> {
        let made = |used: &PolicyOptions| {
            let mut policy: crate::Policy = used.policy.parse()?;
            // Any number; the same each time, so that two runs of the random policy can be compared.
            policy.seed(42);
            let mut made = PolicyUse::new(policy, used.period);
            made.jobs.clone_from(&used.jobs);
            made.above_busy = used.above_busy;
            Ok(made)
        };
        self.policies.iter().map(made).collect()
    }
}

/// Else what is wrong with the address.
pub(super) fn flink(url: &str, tls: Tls) -> Result<EngineOptions, String> {
    match url.split_once("://") {
        Some(("http" | "https", rest)) if !rest.is_empty() => {
            Ok(EngineOptions::Flink { url: url.to_owned(), tls })
        }
        _ => {
            let url = laxity_http::without_secret(url);
            Err(format!("{url:?} is no address; expected as in http://127.0.0.1:8081"))
        }
    }
}

/// `NAME=TARGET`; a name may hold `=`.
fn job_wish(text: &str) -> Result<JobWish, String> {
    let (name, target) = text
        .rsplit_once('=')
        .ok_or_else(|| format!("{text:?} has no target; expected as in 'alarms=50 ms'"))?;
    let wishes = Wishes::within(duration(target)?).ok_or_else(|| format!("{target:?} is no target"))?;
    Ok(JobWish { name: name.trim().to_owned(), wishes })
}

fn nice_range(text: &str) -> Result<(i32, i32), String> {
    let expected = || format!("{text:?} is no range; expected BEST..WORST from -20 to 19, as in -10..10");
    let (best, worst) = text.split_once("..").ok_or_else(expected)?;
    let parse = |text: &str| text.trim().parse::<i32>().ok().filter(|nice| (-20..=19).contains(nice));
    let (best, worst) = (parse(best).ok_or_else(expected)?, parse(worst).ok_or_else(expected)?);
    if best <= worst { Ok((best, worst)) } else { Err(expected()) }
}

#[cfg(test)]
mod tests;
