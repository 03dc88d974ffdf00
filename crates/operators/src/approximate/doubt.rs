/// How far N̂ was off lately beyond the chance of who is missing: its squared relative error in proportion to the share that
/// was missing. A ratio of means: a mean of ratios would follow the few rows that nearly complete sub-streams miss.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Doubt {
    squared_error: f64,
    missing: f64,
}

impl Doubt {
    /// As numbers in a row, for state.
    pub(crate) fn numbers(&self) -> [f64; 2] {
        [self.squared_error, self.missing]
    }

    /// See [`numbers`](Doubt::numbers).
    pub(crate) fn from_numbers([squared_error, missing]: [f64; 2]) -> Doubt {
        Doubt { squared_error, missing }
    }

    /// Of a sub-stream: squared relative error of N̂ less what is chance, and the share that was missing.
    pub(crate) fn learn(&mut self, squared_error: f64, missing: f64) {
        self.squared_error += (squared_error - self.squared_error) / DOUBT_OF;
        self.missing += (missing - self.missing) / DOUBT_OF;
    }

    /// Squared relative deviation of N̂ where that share is missing.
    pub(crate) fn of(&self, missing: f64) -> f64 {
        if self.missing > 0.0 { self.squared_error.max(0.0) / self.missing * missing } else { 0.0 }
    }
}

/// Errors of N̂ are remembered over about so many sub-streams.
const DOUBT_OF: f64 = 50.0;
