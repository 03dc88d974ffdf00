//! How much of a look's time is the look itself and how much is its rows, for who has to predict it.

/// What looks at tables cost: the sums of a least-squares line of time by rows, over all tables.
///
/// A look that finds no row is left out: it was made to decode ahead, or to tell the time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LookCosts {
    /// Looks that found rows.
    pub looks: u64,
    /// Rows that they found.
    pub rows: u64,
    /// Time they took, ns.
    pub ns: u64,
    /// Sum of squares of rows.
    pub rows_rows: u64,
    /// Sum of products of rows and time.
    pub rows_ns: u64,
}

impl LookCosts {
    /// A look that found so many rows.
    pub fn observe(&mut self, rows: u64, ns: u64) {
        if rows > 0 {
            self.looks += 1;
            self.rows += rows;
            self.ns += ns;
            self.rows_rows = self.rows_rows.saturating_add(rows.saturating_mul(rows));
            self.rows_ns = self.rows_ns.saturating_add(rows.saturating_mul(ns));
        }
    }

    /// Those of others too.
    pub fn add(&mut self, others: LookCosts) {
        self.looks += others.looks;
        self.rows += others.rows;
        self.ns += others.ns;
        self.rows_rows = self.rows_rows.saturating_add(others.rows_rows);
        self.rows_ns = self.rows_ns.saturating_add(others.rows_ns);
    }

    /// Time of a look and of each row in it, ns, neither below nothing; their sum over all looks is what these took. Where
    /// all looks found as many rows, the line goes through nothing.
    pub fn line(&self) -> (f64, f64) {
        let (looks, rows, ns) = (self.looks as f64, self.rows as f64, self.ns as f64);
        if self.looks == 0 {
            return (0.0, 0.0);
        }
        let spread = self.rows_rows as f64 - rows * rows / looks;
        let slope = (self.rows_ns as f64 - rows * ns / looks) / spread;
        // Rounding leaves some of nothing.
        let is_known = spread > 1e-9 * self.rows_rows as f64;
        let per_row_ns = if is_known { slope.clamp(0.0, ns / rows) } else { 0.0 };
        ((ns - per_row_ns * rows) / looks, per_row_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(looks: &[(u64, u64)]) -> (f64, f64) {
        let (mut first, mut second) = (LookCosts::default(), LookCosts::default());
        for (place, &(rows, ns)) in looks.iter().enumerate() {
            if place % 2 == 0 { &mut first } else { &mut second }.observe(rows, ns);
        }
        first.add(second);
        let (fixed_ns, per_row_ns) = first.line();
        (fixed_ns.round(), (1e6 * per_row_ns).round() / 1e6)
    }

    #[test]
    fn a_line_by_rows_is_found() {
        assert_eq!(line(&[(1, 1_100), (10, 2_000), (100, 11_000)]), (1_000.0, 100.0));
        assert_eq!(line(&[(0, 9_999), (1, 1_100), (10, 2_000)]), (1_000.0, 100.0), "it found nothing");
        assert_eq!(line(&[]), (0.0, 0.0));
    }

    #[test]
    fn what_the_rows_do_not_explain_is_the_look() {
        assert_eq!(line(&[(5, 400), (5, 600), (5, 500)]), (500.0, 0.0), "all alike");
        assert_eq!(line(&[(1, 900), (9, 100)]), (500.0, 0.0), "no row is cheaper than nothing");
        assert_eq!(line(&[(1, 10), (10, 1_000)]).0, 0.0, "nor is a look");
    }
}
