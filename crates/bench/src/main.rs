//! `laxity-bench [NAME…]`: runs benchmarks and keeps what they found.

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use clap::{Parser, Subcommand};
use laxity_allocator::MiMalloc;
use laxity_bench::density::engine_run::{self, EngineRunArgs};
use laxity_bench::density::{self, DensityArgs, questions};
use laxity_bench::run_folder::RunFolder;
use laxity_bench::{
    Findings, Size, approximate, files, idle, main_job, memory_gate, message_cost, overhead, policies,
    scheduler_cost, start, throughput,
};

// As the `laxity` program has it, whose engine is measured here.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

const ALL: [&str; 10] = [
    "start",
    "scheduler-cost",
    "throughput",
    "message-cost",
    "overhead",
    "files",
    "idle",
    "memory-gate",
    "main-job",
    "policies",
];

/// Measures what the README quotes.
#[derive(Parser)]
#[command(args_conflicts_with_subcommands = true)]
struct Arguments {
    #[command(subcommand)]
    command: Option<Command>,
    /// Benchmarks to run; those that the README quotes if none is named. 'approximate' is short for all of its questions.
    names: Vec<String>,
    /// Do little, to see that everything still runs.
    #[arg(long)]
    small: bool,
    /// Where run folders go.
    #[arg(long, default_value = "benchmarks/runs")]
    runs: PathBuf,
    /// The SQL of the main job; several files with commas.
    #[arg(long, value_delimiter = ',', default_value = "examples/two-tenants.sql,examples/boards.sql")]
    main_job: Vec<PathBuf>,
}

#[derive(Subcommand)]
enum Command {
    /// How many queries do the cores carry, each inside its target? A matrix; two hours, or as little as is asked for.
    Density(Box<DensityArgs>),
    /// The process of one cell of it.
    #[command(hide = true)]
    EngineRun(EngineRunArgs),
    /// A neighbour that wants a core.
    #[command(hide = true)]
    Spin,
}

fn main() -> anyhow::Result<()> {
    laxity_allocator::keep_freed();
    let arguments = Arguments::parse();
    let size = if arguments.small { Size::Small } else { Size::Full };
    let names: Vec<&str> = if arguments.names.is_empty() {
        ALL.to_vec()
    } else {
        arguments.names.iter().map(String::as_str).collect()
    };
    let own = std::env::current_exe().context("cannot find this program")?;
    let bin = own.parent().unwrap_or(Path::new("."));
    match &arguments.command {
        Some(Command::Density(args)) => return density::run(args, &own, &bin.join("bench-scratch")),
        Some(Command::EngineRun(args)) => return engine_run::run(args),
        Some(Command::Spin) => questions::spin(),
        None => {}
    }
    let label = if let [one] = names[..] { one } else { "all" };
    let names: Vec<&str> = names
        .iter()
        .flat_map(|&name| if name == "approximate" { approximate::ALL.to_vec() } else { vec![name] })
        .collect();
    let mut folder = RunFolder::create(&arguments.runs, label)?;
    for name in names {
        println!("{name}");
        let findings = run(name, size, &bin.join("laxity"), &bin.join("bench-scratch"), &arguments.main_job)?;
        for line in &findings.summary {
            println!("  {line}");
        }
        folder.add(name, &findings)?;
    }
    if arguments.small {
        println!("small runs: the figures say nothing but that everything still runs");
    }
    println!("kept in {}", folder.path().display());
    Ok(())
}

fn run(name: &str, size: Size, program: &Path, scratch: &Path, sql: &[PathBuf]) -> anyhow::Result<Findings> {
    match name {
        "start" => start::run(size, program, scratch),
        "scheduler-cost" => scheduler_cost::run(size),
        "throughput" => throughput::run(size),
        "message-cost" => message_cost::run(size),
        "overhead" => overhead::run(size),
        "policies" => policies::run(size, program, sql, scratch),
        "files" => files::run(size, scratch),
        "idle" => idle::run(size),
        "memory-gate" => memory_gate::run(size),
        "main-job" => main_job::run(size, program, sql, scratch),
        name if approximate::ALL.contains(&name) => approximate::run(name, size, scratch),
        _ => bail!("no benchmark {name:?}; there are {}, approximate", ALL.join(", ")),
    }
}
