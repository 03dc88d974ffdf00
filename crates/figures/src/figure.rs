//! What a figure consists of, and how a verdict is weighed from single claims about its numbers.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use crate::{Data, ExperimentError};

/// One figure of one paper.
///
/// What the paper says is data, and so is the question whether we see the same: [`judge`](Figure::judge)
/// looks at nothing but the numbers of the run.
#[derive(Debug)]
pub struct Figure {
    /// As it is asked for: the paper and the number, `cameo-8a`.
    pub name: &'static str,
    /// What it shows, in a few words.
    pub title: &'static str,
    /// Authors, venue and year.
    pub paper: &'static str,
    /// The section that describes it.
    pub section: &'static str,
    /// What the paper says, with its printed numbers.
    pub says: &'static str,
    /// What we chose where the text is open, and which printed numbers cannot follow from it.
    pub notes: &'static str,
    /// Runs the experiment.
    pub run: fn(&Run) -> Result<Data, ExperimentError>,
    /// Compares.
    pub judge: fn(&Data) -> Verdict,
}

/// How large an experiment is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Scale {
    /// As in the paper: minutes.
    #[default]
    Paper,
    /// Seconds for all figures together; shapes may be ragged.
    Small,
}

impl FromStr for Scale {
    type Err = String;

    fn from_str(text: &str) -> Result<Scale, String> {
        match text {
            "paper" => Ok(Scale::Paper),
            "small" => Ok(Scale::Small),
            other => Err(format!("no scale {other:?}: there are paper and small")),
        }
    }
}

impl fmt::Display for Scale {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Scale::Paper => "paper",
            Scale::Small => "small",
        })
    }
}

/// How an experiment is run.
#[derive(Clone, Debug)]
pub struct Run {
    /// The folder with rows that were observed.
    pub data: PathBuf,
    /// How large.
    pub scale: Scale,
    /// The first seed; repeated runs take the next ones.
    pub seed: u64,
}

impl Run {
    /// The first at paper scale, else the second.
    pub fn pick<T>(&self, paper: T, small: T) -> T {
        match self.scale {
            Scale::Paper => paper,
            Scale::Small => small,
        }
    }

    /// As many seeds as the paper has runs; one at small scale.
    pub fn seeds(&self, paper: u64) -> std::ops::Range<u64> {
        self.seed..self.seed + self.pick(paper, 1)
    }
}

/// Whether we see what the paper says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// What we see, with numbers.
    pub sees: String,
    /// Whether it points the same way.
    pub way: Way,
}

/// The answer to "same direction?".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// The same direction, and where the paper prints a factor, at least that factor.
    Same,
    /// The same direction, but less of it than printed.
    Weaker,
    /// Some of what the paper says, not all.
    Partly,
    /// Not the same.
    No,
}

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Way::Same => "yes",
            Way::Weaker => "yes, weaker",
            Way::Partly => "partly",
            Way::No => "NO",
        })
    }
}

impl Verdict {
    /// Weighs claims: [`Way::Same`] if all hold, [`Way::No`] if none does.
    pub fn of(sees: impl Into<String>, claims: &[bool]) -> Verdict {
        let held = claims.iter().filter(|held| **held).count();
        let way = match held {
            _ if held == claims.len() => Way::Same,
            0 => Way::No,
            _ => Way::Partly,
        };
        Verdict { sees: sees.into(), way }
    }

    /// Weighs claims about the direction, and apart from them claims about the printed size.
    pub fn sized(sees: impl Into<String>, direction: &[bool], size: &[bool]) -> Verdict {
        let verdict = Verdict::of(sees, direction);
        let large = size.iter().all(|held| *held);
        let way = if verdict.way == Way::Same && !large { Way::Weaker } else { verdict.way };
        Verdict { way, ..verdict }
    }

    /// Weighs claims about the direction, and factors: as seen, and as printed. One that is many times the printed one is
    /// not what the paper saw either.
    pub fn factors(sees: impl Into<String>, direction: &[bool], factors: &[(f64, f64)]) -> Verdict {
        let size: Vec<bool> = factors.iter().map(|(seen, printed)| seen >= printed).collect();
        let verdict = Verdict::sized(sees, direction, &size);
        let beyond = factors.iter().any(|(seen, printed)| *seen > FACTOR_MAX * printed);
        let way = if beyond && verdict.way != Way::No { Way::Partly } else { verdict.way };
        Verdict { way, ..verdict }
    }
}

/// So many times what is printed is still the same. Picked: loads and costs are ours where the papers give none.
const FACTOR_MAX: f64 = 2.5;

/// A few words about `laxity` beside others, by latencies in seconds. Where it is more than 5 % behind they say that it loses.
pub(crate) fn laxity_beside(what: &str, laxity_s: f64, others_s: &[(&str, f64)]) -> String {
    let best = others_s.iter().copied().min_by(|a, b| a.1.total_cmp(&b.1));
    match best {
        Some((name, best_s)) if laxity_s > 1.05 * best_s => {
            format!("laxity loses in {what}: {laxity_s:.3} s against {best_s:.3} s under {name}")
        }
        _ => format!("laxity's {what} {laxity_s:.3} s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_verdict_weighs_its_claims() {
        assert_eq!(Verdict::of("", &[true, true]).way, Way::Same);
        assert_eq!(Verdict::of("", &[true, false]).way, Way::Partly);
        assert_eq!(Verdict::of("", &[false]).way, Way::No);
        assert_eq!(Verdict::sized("", &[true], &[false]).way, Way::Weaker);
        assert_eq!(Verdict::sized("", &[false], &[true]).way, Way::No);
        let factor = |seen| Verdict::factors("", &[true], &[(seen, 2.0)]).way;
        assert_eq!([1.9, 2.0, 5.0, 5.1].map(factor), [Way::Weaker, Way::Same, Way::Same, Way::Partly]);
        assert_eq!(Verdict::factors("", &[false], &[(9.0, 2.0)]).way, Way::No);
    }

    #[test]
    fn where_laxity_loses_it_says_so() {
        let beside = |laxity_s| laxity_beside("mean", laxity_s, &[("a", 2.0), ("b", 1.0)]);
        assert_eq!(beside(1.04), "laxity's mean 1.040 s");
        assert_eq!(beside(1.5), "laxity loses in mean: 1.500 s against 1.000 s under b");
    }

    #[test]
    fn a_scale_is_read_as_it_is_written() {
        for scale in [Scale::Paper, Scale::Small] {
            assert_eq!(scale.to_string().parse(), Ok(scale));
        }
        assert!("large".parse::<Scale>().is_err());
    }
}
