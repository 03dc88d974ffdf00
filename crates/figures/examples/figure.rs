//! Runs figures by name: `cargo run --release -p laxity-figures --example figure -- cameo-8a --scale small`.
//! Without names it lists them; `all` runs all.

use std::error::Error;
use std::process::ExitCode;

use laxity_figures::{Options, list, run};

fn main() -> ExitCode {
    match go() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let mut cause = Some(&*error as &dyn Error);
            let mut text = Vec::new();
            while let Some(error) = cause {
                text.push(error.to_string());
                cause = error.source();
            }
            eprintln!("error: {}", text.join(": "));
            ExitCode::FAILURE
        }
    }
}

fn go() -> Result<(), Box<dyn Error>> {
    let mut options = Options::default();
    let mut names: Vec<String> = Vec::new();
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        let mut value = || args.next().ok_or_else(|| format!("{arg} needs a value"));
        match arg.as_str() {
            "--out" => options.out = value()?.into(),
            "--data" => options.data = value()?.into(),
            "--scale" => options.scale = value()?.parse()?,
            "--seed" => options.seed = value()?.parse()?,
            "all" => names.extend(list().iter().map(|figure| figure.name.to_string())),
            name => names.push(name.into()),
        }
    }
    if names.is_empty() {
        for figure in list() {
            println!("{:14} {} ({}, {})", figure.name, figure.title, figure.paper, figure.section);
        }
    }
    for name in names {
        let report = run(&name, &options)?;
        println!("{name}: {}\n  {}", report.verdict.way, report.verdict.sees);
    }
    Ok(())
}
