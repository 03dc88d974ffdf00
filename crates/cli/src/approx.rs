//! What is said of a query that leaves rows out: in the report, in the live table, in a log and at the end.

use laxity_graph::Approximation;
use serde::Serialize;

use crate::quantity::{grouped, plural, short_duration};

/// What a query did by leaving rows out.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Approx {
    bound: f64,
    confidence: f64,
    /// That answered.
    windows: u64,
    /// Share of the groups of windows whose true error kept the bound, or that said it would not; with --verify-approx.
    within: Option<f64>,
    /// Of the rows in time.
    sampling_rate: f64,
    /// From a window's end to its answer, mean.
    wait_ms: f64,
    /// The longest delay seen less that, mean.
    wait_saved_ms: f64,
    /// Windows for which no bound could be given that is as asked.
    windows_unbounded: u64,
    /// Windows that waited until all had come.
    windows_complete: u64,
    /// How often it began to leave rows out because it was behind; only with 'laxity.approximate.when' = 'overload'.
    #[serde(skip_serializing_if = "Option::is_none")]
    overload_steps: Option<u64>,
    /// Whether it does so now; likewise.
    #[serde(skip_serializing_if = "Option::is_none")]
    overload_now: Option<bool>,
}

impl From<&Approximation> for Approx {
    fn from(approximation: &Approximation) -> Approx {
        let Approximation { windows, checked, within, rows_taken, rows_seen, rows_late, .. } = *approximation;
        let per_window = |sum_ms: f64| if windows > 0 { sum_ms / windows as f64 } else { 0.0 };
        let in_time = rows_seen.saturating_sub(rows_late);
        let only_behind = approximation.only_behind;
        Approx {
            bound: approximation.error,
            confidence: approximation.confidence,
            windows,
            within: (checked > 0).then(|| within as f64 / checked as f64),
            sampling_rate: if in_time > 0 { rows_taken as f64 / in_time as f64 } else { 1.0 },
            wait_ms: per_window(approximation.waited_ms),
            wait_saved_ms: per_window(approximation.saved_ms),
            windows_unbounded: approximation.unkept,
            windows_complete: approximation.complete,
            overload_steps: only_behind.then_some(approximation.steps),
            overload_now: only_behind.then_some(approximation.is_engaged),
        }
    }
}

impl Approx {
    /// For the live table: what it allows itself and of how many rows, or that it is exact for now.
    pub fn cell(&self) -> String {
        let steps = match self.overload_steps {
            Some(steps) if steps > 0 => format!(", {}", plural(steps as usize, "step")),
            _ => String::new(),
        };
        match self.overload_now {
            Some(false) => format!("exact{steps}"),
            _ => format!("±{} of {}{steps}", percent(self.bound), percent(self.sampling_rate)),
        }
    }

    /// For a log.
    pub fn clause(&self) -> String {
        let within = self.within.map_or(String::new(), |within| format!(" ({} held)", percent(within)));
        format!(
            "±{} at {} in {}{within}, {} of rows, {} earlier{}",
            percent(self.bound),
            percent(self.confidence),
            plural(self.windows as usize, "window"),
            percent(self.sampling_rate),
            short_duration(nanoseconds(self.wait_saved_ms)),
            match (self.overload_now, self.overload_steps) {
                (Some(true), Some(steps)) => format!(", behind, {}", plural(steps as usize, "step")),
                (Some(false), Some(steps)) => format!(", exact now, {}", plural(steps as usize, "step")),
                _ => String::new(),
            }
        )
    }

    /// What was saved, at the end.
    pub fn sentence(&self, name: &str) -> String {
        let mut sentence = format!(
            "{name} answered {} within {} (confidence {}) from {} of its rows in time, {} of event time after their end; \
             waiting for all rows would have taken {} more",
            plural(self.windows as usize, "window"),
            percent(self.bound),
            percent(self.confidence),
            percent(self.sampling_rate),
            short_duration(nanoseconds(self.wait_ms)),
            short_duration(nanoseconds(self.wait_saved_ms)),
        );
        if self.windows_unbounded > 0 {
            sentence.push_str(&format!(
                "; for {} no bound as asked could be given",
                grouped(self.windows_unbounded)
            ));
        }
        if self.windows_complete > 0 {
            sentence.push_str(&format!("; {} waited for all", grouped(self.windows_complete)));
        }
        if let Some(within) = self.within {
            sentence.push_str(&format!("; held against exact results, {} kept it", percent(within)));
        }
        match self.overload_steps {
            None => {}
            Some(0) => sentence.push_str("; it was never behind"),
            Some(1) => sentence.push_str("; it was behind once"),
            Some(steps) => sentence.push_str(&format!("; it was behind {} times", grouped(steps))),
        }
        sentence + "."
    }
}

fn percent(share: f64) -> String {
    let percent = share * 100.0;
    let rounded =
        if percent >= 10.0 { (percent * 10.0).round() / 10.0 } else { (percent * 100.0).round() / 100.0 };
    format!("{rounded} %")
}

fn nanoseconds(ms: f64) -> u64 {
    (ms * 1e6) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    const DONE: Approximation = Approximation {
        error: 0.05,
        confidence: 0.95,
        only_behind: false,
        is_engaged: true,
        has_begun: true,
        steps: 0,
        rows_seen: 1_100,
        rows_taken: 234,
        rows_late: 100,
        windows: 200,
        unkept: 3,
        complete: 12,
        waited_ms: 400.0,
        saved_ms: 500_000.0,
        checked: 400,
        within: 392,
    };

    #[test]
    fn what_was_saved_is_said() {
        let approx = Approx::from(&DONE);
        assert_eq!(approx.cell(), "±5 % of 23.4 %");
        assert_eq!(approx.clause(), "±5 % at 95 % in 200 windows (98 % held), 23.4 % of rows, 2.5 s earlier");
        assert_eq!(
            approx.sentence("miles"),
            "miles answered 200 windows within 5 % (confidence 95 %) from 23.4 % of its rows in time, 2 ms of event time \
             after their end; waiting for all rows would have taken 2.5 s more; for 3 no bound as asked could be given; \
             12 waited for all; held against exact results, 98 % kept it."
        );
    }

    #[test]
    fn under_overload_the_step_and_its_end_are_seen() {
        let behind = Approximation { only_behind: true, steps: 2, ..DONE };
        let calm = Approximation { is_engaged: false, ..behind };
        let never = Approximation { steps: 0, ..calm };
        let cells = [behind, calm, never].map(|done| Approx::from(&done).cell());
        assert_eq!(cells, ["±5 % of 23.4 %, 2 steps", "exact, 2 steps", "exact"]);
        assert!(Approx::from(&behind).clause().ends_with(", behind, 2 steps"));
        assert!(Approx::from(&calm).clause().ends_with(", exact now, 2 steps"));
        assert!(Approx::from(&calm).sentence("q").ends_with("; it was behind 2 times."));
        assert!(Approx::from(&never).sentence("q").ends_with("; it was never behind."));
    }
}
