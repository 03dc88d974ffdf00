//! Seeded random simulations with faults, and checkers that watch: `make simulate`.
//!
//! `faults [--runs N] [--seed S] [--policy NAME] [--trace]` runs the seeds S, S + 1, … and prints, for every one that
//! breaks a rule, what was seen and how to see it again. `--trace` prints every event of every run.

use std::process::ExitCode;

use laxity_sim::Scenario;

fn main() -> ExitCode {
    let (mut runs, mut seed, mut policy, mut trace) = (1_000, 0, None, false);
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let mut number = || arguments.next().and_then(|value| value.parse::<u64>().ok());
        match argument.as_str() {
            "--runs" => runs = number().unwrap_or_else(|| usage("--runs takes a number")),
            "--seed" => {
                seed = number().unwrap_or_else(|| usage("--seed takes a number"));
            }
            "--policy" => {
                let name = arguments.next().unwrap_or_else(|| usage("--policy takes a name"));
                if let Err(error) = laxity_policies::recipe(&name) {
                    usage(&error.to_string());
                }
                policy = Some(name);
            }
            "--trace" => trace = true,
            other => usage(&format!("unknown option {other:?}")),
        }
    }
    let (mut failed, mut grants) = (0u64, 0u64);
    for seed in seed..seed.saturating_add(runs) {
        let mut scenario = Scenario::of_seed(seed, policy.as_deref());
        scenario.simulation.setup.keep.trace = trace;
        let summary = scenario.summary.clone();
        let violations = match scenario.simulation.run() {
            Ok(outcome) => {
                grants += outcome.grants;
                print!("{}", outcome.trace.unwrap_or_default());
                outcome.violations
            }
            Err(error) => usage(&error.to_string()),
        };
        if !violations.is_empty() {
            failed += 1;
            let again = match &policy {
                None => format!("make simulate SEED={seed} RUNS=1"),
                Some(name) => format!(
                    "cargo run --release -p laxity-sim --example faults -- --runs 1 --seed {seed} --policy {name}"
                ),
            };
            println!("seed {seed}: {summary}");
            violations.iter().for_each(|violation| println!("  {violation}"));
            println!("  again: {again}");
        }
    }
    println!("{runs} simulations, {grants} grants, {failed} with violations");
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn usage(why: &str) -> ! {
    eprintln!("{why}\nusage: faults [--runs N] [--seed S] [--policy NAME] [--trace]");
    std::process::exit(2)
}
