use super::parts::{format_duration, parse_duration_ns};
use super::{Fault, RankEntry, RankRecipe};
use crate::Perturbed;

/// What stands behind the name of a rank: `key=value` or a bare value, each taken once.
#[derive(Debug)]
pub struct Parameters<'a> {
    pub(super) entry: &'static RankEntry,
    pub(super) left: Vec<&'a str>,
}

impl<'a> Parameters<'a> {
    /// The value of `key=value`.
    pub fn named(&mut self, key: &str) -> Option<&'a str> {
        let value = |parameter: &&'a str| parameter.strip_prefix(key)?.strip_prefix('=');
        let place = self.left.iter().position(|parameter| value(parameter).is_some())?;
        value(&self.left.remove(place))
    }

    /// The next parameter without a key.
    pub fn bare(&mut self) -> Option<&'a str> {
        let place = self.left.iter().position(|parameter| !parameter.contains('='))?;
        Some(self.left.remove(place))
    }

    /// Whether this word is given.
    pub fn flag(&mut self, word: &str) -> bool {
        let place = self.left.iter().position(|parameter| *parameter == word);
        place.is_some_and(|place| self.left.remove(place) == word)
    }

    /// Whether a part is at work: `key=off` switches it off, and is then written behind the label of the rank.
    pub fn is_on(&mut self, key: &str, label: &mut String) -> Result<bool, Fault> {
        match self.named(key) {
            None => Ok(true),
            Some("off") => {
                label.push_str(&format!(":{key}=off"));
                Ok(false)
            }
            Some(other) => Err(self.refuse(&format!("{key}={other}"))),
        }
    }

    /// The next parameter without a key, as a time above 0.
    pub fn bare_duration_ns(&mut self) -> Result<Option<u64>, Fault> {
        let Some(text) = self.bare() else { return Ok(None) };
        match parse_duration_ns(text).filter(|&ns| ns > 0) {
            Some(ns) => Ok(Some(ns)),
            None => Err(self.refuse(text)),
        }
    }

    /// The value of `key=value`, as a time.
    pub fn named_duration_ns(&mut self, key: &str) -> Result<Option<u64>, Fault> {
        let Some(text) = self.named(key) else { return Ok(None) };
        match parse_duration_ns(text) {
            Some(ns) => Ok(Some(ns)),
            None => Err(self.refuse(text)),
        }
    }

    /// The rank, with wrong costs where `sigma=TIME` asks for that.
    pub fn perturbed(&mut self, rank: RankRecipe) -> Result<RankRecipe, Fault> {
        let Some(sigma_ns) = self.named_duration_ns("sigma")? else { return Ok(rank) };
        let suffix = format!(":sigma={}", format_duration(sigma_ns));
        Ok(rank.decorated(&suffix, move |rank| Perturbed::new(rank, sigma_ns)))
    }

    /// The rank does not take this.
    pub fn refuse(&self, value: &str) -> Fault {
        let switch = if self.entry.by_frontier { super::parse::TOPOLOGY_ONLY } else { "" };
        let takes = match (self.entry.takes, switch) {
            ("", "") => "nothing".to_owned(),
            (takes, "") => takes.to_owned(),
            ("", switch) => switch.to_owned(),
            (takes, switch) => format!("{takes} or {switch}"),
        };
        Fault::value(format!("rank={}", self.entry.name), value, takes)
    }
}
