//! What the agent itself costs: its CPU time and memory over some rounds, beside a process of idle threads that it
//! schedules as an engine's. `cargo run --release -p laxity-agent --example overhead -- --threads 200 --period-ms 1000`.
//!
//! Not here: what the engine has to do to be read, and thread dumps.

use std::process::{Child, Command};
use std::time::Duration;

use clap::Parser;
use laxity_agent::linux::{Applier, Capability, Hierarchy, Journal};
use laxity_agent::threads::{ThreadsEngine, ThreadsSpec, own_engine};
use laxity_agent::{Agent, PolicyUse, Ranges, Translator};
use regex::Regex;

#[derive(Parser)]
struct Args {
    /// Operator threads.
    #[arg(long, default_value_t = 200)]
    threads: usize,
    #[arg(long, default_value_t = 1_000)]
    period_ms: u64,
    #[arg(long, default_value_t = 30)]
    rounds: u32,
    /// As for `laxity attach`; random changes the most.
    #[arg(long, default_value = "random")]
    policy: String,
    /// Write nothing.
    #[arg(long)]
    dry_run: bool,
    /// Be the engine: what the example starts.
    #[arg(long, hide = true)]
    engine: bool,
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args = Args::parse();
    if args.engine {
        return be_engine(args.threads);
    }
    let engine = Engine(
        Command::new(std::env::current_exe()?)
            .args(["--engine", "--threads", &args.threads.to_string()])
            .spawn()?,
    );
    let pid = engine.0.id();
    while laxity_agent::linux::thread_ids(pid)?.len() <= args.threads {
        std::thread::sleep(Duration::from_millis(10));
    }
    let spec = ThreadsSpec { process: Regex::new("overhead --engine ")?, ..own_engine() };
    let period = Duration::from_millis(args.period_ms);
    let uses = vec![PolicyUse::new(args.policy.parse()?, period)];
    let engines: Vec<Box<dyn laxity_agent::Adapter>> = vec![Box::new(ThreadsEngine::start(spec)?)];
    let mut agent = Agent::new(engines, uses, Vec::new(), Translator::Nice, Ranges::default())?;
    let folder = std::env::temp_dir().join(format!("laxity-overhead-{pid}"));
    if !args.dry_run && Capability::read().sys_nice {
        let writable = |hierarchy: &Hierarchy| {
            let home = hierarchy.of_thread(pid, pid).unwrap_or_default();
            Capability::read().lacks_for_groups(Some(hierarchy), &home).is_empty()
        };
        let journal = Journal::open(&folder.join("journal"))?;
        agent.write_through(Applier::new(journal, Hierarchy::find().filter(writable)));
    } else {
        println!("nothing is written: dry run, or no CAP_SYS_NICE");
    }
    // The first round moves every thread; the steady state is what lasts.
    let first = agent.round()?;
    let (mut took_ms, mut writes) = (Vec::new(), 0);
    let mut used = first.own_cpu;
    for _ in 0..args.rounds {
        std::thread::sleep(period);
        let report = agent.round()?;
        took_ms.push(report.took.as_secs_f64() * 1e3);
        writes += report.changes.len();
        used = report.own_cpu;
    }
    let cpu = (used - first.own_cpu).as_secs_f64();
    let elapsed = period.as_secs_f64() * f64::from(args.rounds);
    took_ms.sort_by(f64::total_cmp);
    let at = |share: f64| took_ms.get((took_ms.len() as f64 * share) as usize).or(took_ms.last());
    println!(
        "{} threads, period {} ms, {} rounds: {:.2} % of a core, {:.1} MB resident, round {:.1} ms at the median and \
         {:.1} ms at most, {:.0} writes a round; first round {:.1} ms, {} writes",
        args.threads,
        args.period_ms,
        args.rounds,
        cpu / elapsed * 100.0,
        resident_mb()?,
        at(0.5).unwrap_or(&0.0),
        took_ms.last().unwrap_or(&0.0),
        writes as f64 / f64::from(args.rounds),
        first.took.as_secs_f64() * 1e3,
        first.changes.len(),
    );
    agent.finish()?;
    std::fs::remove_dir_all(&folder).or_else(|error| match error.kind() {
        std::io::ErrorKind::NotFound => Ok(()),
        _ => Err(error),
    })?;
    Ok(())
}

/// Ends with us.
struct Engine(Child);

impl Drop for Engine {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Sleeping threads, named as operators, ten to a name.
fn be_engine(threads: usize) -> Result<(), Box<dyn std::error::Error>> {
    for place in 0..threads {
        let thread = std::thread::Builder::new().name(format!("op-{}", place / 10)).stack_size(64 << 10);
        thread.spawn(|| {
            loop {
                std::thread::park();
            }
        })?;
    }
    loop {
        std::thread::park();
    }
}

fn resident_mb() -> Result<f64, Box<dyn std::error::Error>> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).ok_or("no VmRSS")?;
    Ok(line.trim().trim_end_matches("kB").trim().parse::<f64>()? / 1_024.0)
}
