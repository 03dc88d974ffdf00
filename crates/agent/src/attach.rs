//! `laxity attach` and `laxity restore`. Start with [`attach`].

mod config;
mod engine;
mod options;
mod screen;

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::Duration;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::agent::{Agent, AgentError, OwnPriority};
use crate::clock::since_boot_ns;
use crate::exchange::{Exchange, ExchangeError};
use crate::linux::{
    Applier, Capability, Hierarchy, Journal, JournalError, Lack, OWN_NICE, Restored, Watchdog,
    executable_lines, mean_cores, user_of,
};
use crate::report::{Report, exposition, table};
use crate::serve::MetricsServer;
use crate::{AdapterError, PolicyError, Translator, UnknownTranslator};

pub use config::ConfigError;
pub use options::{AttachArgs, EngineOptions, Groups, Options, RestoreArgs};
use screen::Screen;

/// Attaching ended before its time, or never began.
#[derive(Debug, thiserror::Error)]
pub enum AttachError {
    /// An option or the file is not right.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// No such policy here.
    #[error(transparent)]
    Policy(#[from] PolicyError),
    /// No such translator.
    #[error(transparent)]
    Translator(#[from] UnknownTranslator),
    /// No agent over these engines.
    #[error(transparent)]
    Agent(#[from] AgentError),
    /// An engine cannot be read.
    #[error(transparent)]
    Engine(#[from] AdapterError),
    /// No exchange with other agents.
    #[error(transparent)]
    Exchange(#[from] ExchangeError),
    /// The journal cannot be kept.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// Not permitted.
    #[error("not permitted:{}\n(--dry-run needs none of this)", list(.0))]
    Lacks(Vec<Lack>),
    /// `/metrics` cannot be served.
    #[error("cannot listen on {address}")]
    Listen {
        /// Where.
        address: std::net::SocketAddr,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// The world failed.
    #[error("cannot {what}")]
    Io {
        /// What was tried.
        what: &'static str,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// Not all is as it was.
    #[error("not everything could be put back; `laxity restore` tries again:{}", lines(.0))]
    Left(Vec<String>),
}

fn list(lacks: &[Lack]) -> String {
    lacks.iter().fold(String::new(), |text, lack| text + &format!("\n- {lack}"))
}

fn lines(left: &[String]) -> String {
    left.iter().fold(String::new(), |text, line| text + &format!("\n- {line}"))
}

impl AttachError {
    /// The user can do something about it: an option, a permission, the engine's address.
    pub fn is_users(&self) -> bool {
        !matches!(
            self,
            AttachError::Io { .. } | AttachError::Left(_) | AttachError::Agent(AgentError::Thread(_))
        )
    }

    /// The whole story in one line per cause.
    pub fn text(&self) -> String {
        crate::agent::chain(self)
    }
}

/// Runs `laxity attach` until a signal ends it, or one round with `--once`.
///
/// # Errors
/// If it cannot begin, or what was changed cannot be put back.
pub fn attach(args: &AttachArgs) -> Result<(), AttachError> {
    run(Options::from_args(args)?)
}

/// As [`attach`], with options from elsewhere.
///
/// # Errors
/// As [`attach`].
pub fn run(options: Options) -> Result<(), AttachError> {
    // From here on a signal ends the loop, not the process: what was changed is put back first.
    let stop = stop_signals()?;
    let uses = options.policy_uses()?;
    // First of all: on a machine whose cores are all busy even the first look would take long.
    let mut raised = (!options.dry_run).then(OwnPriority::raise);
    let mut journal = (!options.dry_run).then(|| open_journal(&options.state));
    if let (Some(Ok(own)), Some(Ok((journal, _)))) = (&mut raised, &mut journal) {
        own.raise_session(journal)?;
    }
    let mut engines = Vec::new();
    let may_set_timers = options.dry_run || Capability::read().sys_nice;
    for engine in &options.engines {
        engines.push(engine.connect(may_set_timers)?);
    }
    let left_out: Vec<String> = uses.iter().filter_map(|used| used.policy.left_out()).collect();
    let mut agent = Agent::new(engines, uses, options.jobs.clone(), options.translator, options.ranges)?;
    left_out.into_iter().for_each(|note| agent.note(note));
    match &raised {
        Some(Ok(_)) => {
            agent.note(format!("this agent runs at nice {}, to act while all cores are busy", OWN_NICE))
        }
        Some(Err(error)) => {
            agent.note(format!("this agent may be late on a busy machine: its own nice stays ({error})"));
        }
        None => {}
    }
    if !may_set_timers && options.engines.iter().any(EngineOptions::sets_timers) {
        agent.note("idle threads go on polling: to raise their timer slack needs CAP_SYS_NICE".to_owned());
    }
    let period = agent.period();
    let mut screen = Screen::new(options.plain || !std::io::stdout().is_terminal());
    if let Some(journal) = journal {
        agent.look();
        let prepared = prepare(&mut agent, &options, journal);
        if prepared.is_err() {
            agent.take_notes().iter().for_each(|note| screen.say(note));
        }
        prepared?;
    }
    let server = match options.listen {
        None => None,
        Some(address) => {
            let server =
                MetricsServer::start(address).map_err(|source| AttachError::Listen { address, source })?;
            agent.note(format!("metrics at http://{}/metrics", server.address()));
            Some(server)
        }
    };
    if let Some(exchange) = &options.exchange {
        let exchange = Exchange::start(exchange)?;
        agent.note(format!(
            "exchanges with other agents at {}; what one said counts for {:.0} s",
            exchange.address(),
            exchange.stale().as_secs_f64()
        ));
        agent.exchange_with(exchange);
    }
    let outcome = rounds(&mut agent, &options, period, &stop, server.as_ref(), &mut screen);
    let restored = agent.finish()?;
    if let Some(restored) = restored {
        screen.say(&summary(&restored));
        if !restored.failed.is_empty() {
            return Err(AttachError::Left(restored.failed));
        }
    }
    outcome
}

/// Runs `laxity restore`.
///
/// # Errors
/// If the journal cannot be read, or not everything can be put back.
pub fn restore(args: &RestoreArgs) -> Result<(), AttachError> {
    let path = args.state.clone().unwrap_or_else(default_state).join(JOURNAL);
    if !path.exists() {
        Screen::new(true).say(&format!("nothing to restore: {} does not exist", path.display()));
        return Ok(());
    }
    let restored = crate::linux::restore(&mut Journal::open(&path)?)?;
    Screen::new(true).say(&summary(&restored));
    if restored.failed.is_empty() { Ok(()) } else { Err(AttachError::Left(restored.failed)) }
}

const JOURNAL: &str = "attach.journal";

/// `/run/laxity` for root, else the user's own run-time folder: gone after a reboot, as what it speaks of is. Never a
/// folder of `/tmp`, which anybody could make before us.
pub fn default_state() -> PathBuf {
    let user = rustix::process::geteuid();
    if user.is_root() {
        return "/run/laxity".into();
    }
    let own = std::env::var_os("XDG_RUNTIME_DIR").filter(|folder| !folder.is_empty()).map(PathBuf::from);
    own.unwrap_or_else(|| format!("/run/user/{}", user.as_raw()).into()).join("laxity")
}

/// The journal, and what was put back that an agent before us left.
fn open_journal(state: &Path) -> Result<(Journal, Restored), JournalError> {
    let mut journal = Journal::open(&state.join(JOURNAL))?;
    let left = crate::linux::restore(&mut journal)?;
    Ok((journal, left))
}

/// Sees that everything is permitted.
fn prepare(
    agent: &mut Agent,
    options: &Options,
    journal: Result<(Journal, Restored), JournalError>,
) -> Result<(), AttachError> {
    let (journal, left) = journal?;
    if left.threads + left.ended + left.groups + left.sessions > 0 {
        agent.note(format!("an agent before this one did not end well: {}", summary(&left)));
    }
    let capability = Capability::read();
    let users: Vec<u32> = agent.processes().into_iter().filter_map(|pid| user_of(pid).ok()).collect();
    // Real-time classes need the same capability as the lowest nice value.
    let best = if options.translator == Translator::RoundRobin { -20 } else { options.ranges.nice.0 };
    let needs_nice = options.translator.sets_nice() || options.translator == Translator::RoundRobin;
    let mut lacks = if needs_nice { capability.lacks_for_nice(best, &users) } else { Vec::new() };
    let hierarchy = if options.groups == Groups::Never { None } else { Hierarchy::find() };
    let home = agent.processes().first().and_then(|&pid| hierarchy.as_ref()?.of_thread(pid, pid).ok());
    let home = home.or_else(|| hierarchy.as_ref().map(|hierarchy| hierarchy.mount.clone()));
    let group_lacks =
        capability.lacks_for_groups(hierarchy.as_ref(), home.as_deref().unwrap_or(Path::new("/")));
    let mut usable = hierarchy;
    if !group_lacks.is_empty() {
        if options.translator.needs_groups() {
            lacks.extend(group_lacks);
        } else {
            for lack in group_lacks.iter().filter(|_| options.groups != Groups::Never) {
                agent.note(format!("without a cpu cgroup: {lack}"));
            }
            if autogroup_is_on() {
                agent.note(
                    "the kernel groups processes by session (kernel.sched_autogroup_enabled=1): without a cpu cgroup \
                     nice values count between threads of one process only"
                        .to_owned(),
                );
            }
            usable = None;
        }
    } else if options.groups == Groups::WhereApart
        && options.translator == Translator::Nice
        && let Some(found) = &usable
        && let Some(other) = counted_beside(found, &agent.processes())
    {
        agent.note(format!(
            "without a cpu cgroup: in the one that the engine is in, threads of another program (process {other}) count \
             one by one, and in a group the engine would count as one of them; nice values count between all of these \
             (--share or cgroup = true in the configuration: with a group nevertheless)"
        ));
        if !options.is_nice_given {
            agent.keep_nice_within(NICE_BESIDE.0, NICE_BESIDE.1);
        }
        usable = None;
    }
    if !lacks.is_empty() {
        return Err(AttachError::Lacks(lacks));
    }
    if options.translator == Translator::RoundRobin {
        // So late may a round be before real-time threads are let go: later than the first, which waits until engines
        // are seen.
        let patience = (agent.period() * 5).max(Duration::from_secs(15));
        let watchdog = Watchdog::start(patience)
            .map_err(|source| AttachError::Io { what: "run a watchdog in the real-time class", source })?;
        agent.watch_with(watchdog);
    }
    agent.write_through(Applier::new(journal, usable).with_weight(options.share));
    Ok(())
}

/// Beside threads of others none of the engine's goes before what it did not go before: only what can wait is put back.
const NICE_BESIDE: (i32, i32) = (0, 19);

/// Less than this share of a core a shell takes, or what starts a container.
const COMPUTES_CORES: f64 = 0.01;

/// Another program whose threads compete with each single one of the engine's. In a group of its own the engine, however
/// many threads it runs, would weigh as much as one of them.
fn counted_beside(hierarchy: &Hierarchy, engine: &BTreeSet<u32>) -> Option<u32> {
    let homes: BTreeSet<PathBuf> =
        engine.iter().filter_map(|&pid| hierarchy.of_thread(pid, pid).ok()).collect();
    // Where the kernel groups by session, the engine counts as one outside of groups already.
    let shares = homes.iter().filter(|home| hierarchy.has_share(home) || !autogroup_is_on());
    shares.flat_map(|home| hierarchy.processes(home).unwrap_or_default()).find(|&pid| {
        // Kernel threads have no arguments.
        let is_other =
            !engine.contains(&pid) && pid != std::process::id() && !executable_lines(pid).is_empty();
        is_other && mean_cores(pid).is_some_and(|cores| cores >= COMPUTES_CORES)
    })
}

fn autogroup_is_on() -> bool {
    std::fs::read_to_string("/proc/sys/kernel/sched_autogroup_enabled").is_ok_and(|text| text.trim() == "1")
}

fn rounds(
    agent: &mut Agent,
    options: &Options,
    period: Duration,
    stop: &mpsc::Receiver<i32>,
    server: Option<&MetricsServer>,
    screen: &mut Screen,
) -> Result<(), AttachError> {
    let mut next_ns = since_boot_ns();
    // Rates need two rounds, so one round alone is shown after a second.
    let last = if options.once { 2 } else { u64::MAX };
    for round in 1..=last {
        let report = agent.round()?;
        show(&report, screen, options.once && round < last);
        if let Some(server) = server {
            server.publish(exposition(&report));
        }
        if round == last {
            break;
        }
        next_ns += period.as_nanos() as u64;
        let now_ns = since_boot_ns();
        if next_ns < now_ns {
            // Late: what was missed is not made up for.
            next_ns = now_ns;
        }
        if let Ok(signal) = stop.recv_timeout(Duration::from_nanos(next_ns - now_ns)) {
            screen.say(&format!("signal {signal}: putting everything back"));
            break;
        }
    }
    Ok(())
}

fn show(report: &Report, screen: &mut Screen, notes_only: bool) {
    for note in &report.notes {
        screen.say(note);
    }
    if !notes_only {
        screen.draw(&table(report, screen.width(), screen.height()), report);
    }
}

fn summary(restored: &Restored) -> String {
    let mut text = format!("put back {} threads", restored.threads);
    if restored.ended > 0 {
        let _ = write!(text, ", {} had ended", restored.ended);
    }
    if restored.groups > 0 {
        let _ = write!(text, ", removed {} groups", restored.groups);
    }
    if restored.sessions > 0 {
        text += ", and the nice value of the agent's session";
    }
    if !restored.failed.is_empty() {
        let _ = write!(text, ", {} failed", restored.failed.len());
    }
    text
}

fn stop_signals() -> Result<mpsc::Receiver<i32>, AttachError> {
    let io = |what| move |source| AttachError::Io { what, source };
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP]).map_err(io("listen for signals"))?;
    let (sender, receiver) = mpsc::channel();
    std::thread::Builder::new()
        .name("laxity-signals".into())
        .spawn(move || {
            for signal in signals.forever() {
                // Nobody listens any more: the end is under way.
                let _ = sender.send(signal);
            }
        })
        .map_err(io("start a thread"))?;
    let _ = std::io::stdout().flush();
    Ok(receiver)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_computes_in_the_group_of_the_engine_is_beside_it() {
        let Some(hierarchy) = Hierarchy::find() else {
            eprintln!("left out: no cpu cgroup controller is mounted");
            return;
        };
        let mut busy = std::process::Command::new("sh").args(["-c", "while :; do :; done"]).spawn().unwrap();
        std::thread::sleep(Duration::from_millis(200));
        let own = BTreeSet::from([std::process::id()]);
        let found = counted_beside(&hierarchy, &own);
        let home = hierarchy.of_thread(busy.id(), busy.id()).unwrap();
        let processes = hierarchy.processes(&home).unwrap();
        let is_beside = |found: Option<u32>| found.is_some_and(|pid| processes.contains(&pid));
        assert_eq!(is_beside(found), hierarchy.has_share(&home) || !autogroup_is_on());
        // Of the engine all are.
        let all: BTreeSet<u32> = processes.iter().copied().collect();
        let none = counted_beside(&hierarchy, &all).is_none_or(|pid| !all.contains(&pid));
        busy.kill().unwrap();
        busy.wait().unwrap();
        assert!(none);
    }
}
