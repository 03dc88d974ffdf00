//! All figures by name, and how one is run: the files that it leaves behind are written here.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use laxity_text::closest;

use crate::{ExperimentError, Figure, Run, Scale, Verdict, csv, plot, results};
use crate::{aion, aurora, cameo, klink, lachesis, laxity, thesis};

/// All figures, paper by paper.
pub fn list() -> Vec<&'static Figure> {
    [
        thesis::FIGURES,
        aurora::FIGURES,
        cameo::FIGURES,
        klink::FIGURES,
        lachesis::FIGURES,
        aion::FIGURES,
        laxity::FIGURES,
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// The figure of that name.
///
/// # Errors
/// [`FigureError::Unknown`], with the names there are.
pub fn find(name: &str) -> Result<&'static Figure, FigureError> {
    let all = list();
    if let Some(figure) = all.iter().find(|figure| figure.name == name) {
        return Ok(figure);
    }
    let known: Vec<&str> = all.iter().map(|figure| figure.name).collect();
    let nearest = closest(name, known.iter().copied());
    Err(FigureError::Unknown { name: name.into(), nearest, known: known.join(", ") })
}

/// Where and how large.
#[derive(Clone, Debug)]
pub struct Options {
    /// The folder that gets one folder per figure, and `RESULTS.md`.
    pub out: PathBuf,
    /// The folder with rows that were observed, of the figures that want them.
    pub data: PathBuf,
    /// How large.
    pub scale: Scale,
    /// The first seed.
    pub seed: u64,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            out: "benchmarks/figures".into(),
            data: "examples/data".into(),
            scale: Scale::Paper,
            seed: 1,
        }
    }
}

/// What a run of a figure left behind.
#[derive(Clone, Debug)]
pub struct Report {
    /// The figure.
    pub figure: &'static Figure,
    /// What we see.
    pub verdict: Verdict,
    /// The files written: csv first, then plots, then the table.
    pub files: Vec<PathBuf>,
}

/// Why a figure could not be made.
#[derive(Debug, thiserror::Error)]
pub enum FigureError {
    /// The user named one that is not there.
    #[error(
        "no figure {name:?}{}; there are: {known}",
        nearest.map_or_else(String::new, |nearest| format!(", did you mean {nearest:?}?"))
    )]
    Unknown {
        /// As asked for.
        name: String,
        /// The name there is that may have been meant.
        nearest: Option<&'static str>,
        /// All names.
        known: String,
    },
    /// The disk did not take it.
    #[error("cannot write {}", path.display())]
    Write {
        /// Which file or folder.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The experiment did not run.
    #[error("figure {name} did not run")]
    Experiment {
        /// Which figure.
        name: &'static str,
        /// Why.
        source: ExperimentError,
    },
    /// The plot could not be drawn: our bug.
    #[error("figure {name} cannot be drawn: {detail}")]
    Plot {
        /// Which figure.
        name: &'static str,
        /// The plotting library's words.
        detail: String,
    },
}

/// Runs a figure and writes its csv, its plots and its row of the table.
///
/// # Errors
/// If there is no such figure, its experiment fails, or a file cannot be written.
pub fn run(name: &str, options: &Options) -> Result<Report, FigureError> {
    let figure = find(name)?;
    let size = Run { data: options.data.clone(), scale: options.scale, seed: options.seed };
    let data = (figure.run)(&size).map_err(|source| FigureError::Experiment { name: figure.name, source })?;
    let verdict = (figure.judge)(&data);
    let folder = options.out.join(figure.name);
    fs::create_dir_all(&folder).map_err(|source| FigureError::Write { path: folder.clone(), source })?;
    let mut files = Vec::new();
    let mut write = |path: PathBuf, text: &str| {
        fs::write(&path, text).map_err(|source| FigureError::Write { path: path.clone(), source })?;
        files.push(path);
        Ok(())
    };
    write(folder.join(format!("{}.csv", figure.name)), &csv::text(&data.table))?;
    for chart in &data.charts {
        let dash = if chart.name.is_empty() { "" } else { "-" };
        let title = format!("{}: {}", figure.name, figure.title);
        let svg =
            plot::svg(&title, chart).map_err(|detail| FigureError::Plot { name: figure.name, detail })?;
        write(folder.join(format!("{}{dash}{}.svg", figure.name, chart.name)), &svg)?;
    }
    let path = options.out.join("RESULTS.md");
    let old = read_or_empty(&path)?;
    let order: Vec<&str> = list().iter().map(|figure| figure.name).collect();
    let table = results::with_row(&old, figure, options.scale, &verdict, &order);
    write(path, &table)?;
    Ok(Report { figure, verdict, files })
}

fn read_or_empty(path: &Path) -> Result<String, FigureError> {
    match fs::read_to_string(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(String::new()),
        other => other.map_err(|source| FigureError::Write { path: path.into(), source }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_a_misspelt_one_is_guessed() {
        let mut names: Vec<&str> = list().iter().map(|figure| figure.name).collect();
        names.sort_unstable();
        let count = names.len();
        names.dedup();
        assert_eq!(names.len(), count);
        let Err(FigureError::Unknown { nearest, known, .. }) = find("thesis-1,1") else {
            panic!("found what is not there")
        };
        assert_eq!(nearest, Some("thesis-1.1"));
        assert!(known.contains("thesis-1.1"));
    }
}
