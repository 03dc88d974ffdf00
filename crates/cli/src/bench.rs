//! `laxity bench`: the figures of the papers.

use laxity_figures::{FigureError, Options, find, list, run};

use crate::args::BenchArgs;
use crate::failure::Failure;
use crate::screen::Screen;

/// Makes the figures named, or says which there are.
///
/// # Errors
/// If there is no figure of that name, or one cannot be made.
pub fn bench(args: &BenchArgs, screen: &Screen) -> Result<String, Failure> {
    if args.names.iter().any(|name| name == "list") {
        return Ok(catalogue());
    }
    let names: Vec<&str> = if args.names.iter().any(|name| name == "all") {
        list().iter().map(|figure| figure.name).collect()
    } else {
        // Before the first one is made: the last may be the mistyped one.
        let found = args.names.iter().map(|name| find(name).map(|figure| figure.name));
        found.collect::<Result<_, _>>().map_err(refused)?
    };
    let options =
        Options { out: args.out.clone(), data: args.data.clone(), scale: args.scale, seed: args.seed };
    let mut text = String::new();
    for name in names {
        screen.say(&format!("making {name}"));
        let report = run(name, &options).map_err(refused)?;
        let figure = report.figure;
        text.push_str(&format!(
            "{}: {}\n  the paper says: {}\n  we see (simulated): {}\n  same direction: {}\n",
            figure.name, figure.title, figure.says, report.verdict.sees, report.verdict.way
        ));
    }
    text.push_str(&format!("The table is in {}.\n", args.out.join("RESULTS.md").display()));
    Ok(text)
}

fn catalogue() -> String {
    let figures = list();
    let width = figures.iter().map(|figure| figure.name.len()).max().unwrap_or(0);
    figures
        .iter()
        .map(|figure| {
            format!("{:<width$}  {} ({}, {})\n", figure.name, figure.title, figure.paper, figure.section)
        })
        .collect()
}

/// Whose fault it is that there is no figure.
fn refused(error: FigureError) -> Failure {
    match error {
        FigureError::Unknown { .. } => Failure::User(error.to_string()),
        other => Failure::World(other.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_figure_has_a_line() {
        let lines = catalogue();
        assert_eq!(lines.lines().count(), list().len());
        assert!(lines.lines().any(|line| line.starts_with("cameo-8a ")), "{lines}");
    }
}
