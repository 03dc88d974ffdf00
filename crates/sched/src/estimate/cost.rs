//! What a run will cost, learnt from what runs have cost: every rank by cost or slack stands on this.

/// Predicted CPU time of an operator: C_o(n) = a + b·n, so that a 1-row and an 8 192-row message are both
/// predicted.
///
/// An exponentially decayed least-squares fit of (rows, CPU ns) with a, b ≥ 0. Messages without rows (bare
/// watermarks) have an estimate of their own, that of firing a window: it costs nothing like taking rows in, and
/// one line through both would predict neither.
#[derive(Clone, Debug)]
pub struct CostModel {
    fixed_ns: f32,
    per_row_ns: f32,
    /// 0 until a watermark was seen.
    watermark_ns: f32,
    /// Decayed weight and means.
    weight: f32,
    rows: f32,
    cost: f32,
    /// Decayed sums of squared deviations from the means. They keep their precision where raw sums of squares
    /// would cancel, so that single precision is enough and a model is 32 bytes.
    rows_rows: f32,
    rows_cost: f32,
}

/// Weight that a sample keeps when the next arrives: a memory of about 50 runs, long enough to average
/// noise and short enough to follow a change of load within a second. Picked, not derived.
const KEEP: f32 = 0.98;

/// Most watermarks fire nothing, and results wait for those that do: the estimate follows dear ones at once and
/// forgets them slowly, half in 700 that cost nothing. Picked.
const KEEP_FIRING: f32 = 0.999;
const KEEP_BELOW_FIRING: f32 = 0.5;

/// Prior of a, before the first run: the order of a small expression over a few rows.
const PRIOR_FIXED_NS: f32 = 1_000.0;

/// Prior of b: about 50 million rows a second.
const PRIOR_PER_ROW_NS: f32 = 20.0;

/// The prior speaks through two samples, at 0 and at this many rows.
const PRIOR_ROWS: f32 = 1_000.0;

impl Default for CostModel {
    fn default() -> CostModel {
        CostModel {
            fixed_ns: PRIOR_FIXED_NS,
            per_row_ns: PRIOR_PER_ROW_NS,
            watermark_ns: 0.0,
            // Two samples of weight 1/2: enough to fix the line, little beside the first real run.
            weight: 1.0,
            rows: PRIOR_ROWS / 2.0,
            cost: PRIOR_FIXED_NS + PRIOR_PER_ROW_NS * PRIOR_ROWS / 2.0,
            rows_rows: PRIOR_ROWS * PRIOR_ROWS / 4.0,
            rows_cost: PRIOR_PER_ROW_NS * PRIOR_ROWS * PRIOR_ROWS / 4.0,
        }
    }
}

impl CostModel {
    /// Predicted CPU time of a message of `rows` rows; 0 rows is a bare watermark. Never 0.
    #[inline]
    pub fn predict_ns(&self, rows: u32) -> u64 {
        let ns = match rows {
            0 if self.watermark_ns == 0.0 => PRIOR_FIXED_NS,
            0 => self.watermark_ns,
            rows => self.fixed_ns + self.per_row_ns * rows as f32,
        };
        (ns as u64).max(1)
    }

    /// What a message costs here as messages have been: the dearer of a usual batch and a usual watermark,
    /// since a result may wait for either.
    #[inline]
    pub fn usual_ns(&self) -> u64 {
        let batch = self.fixed_ns + self.per_row_ns * self.rows;
        (batch.max(self.watermark_ns) as u64).max(1)
    }

    /// Rows of a usual message.
    pub fn usual_rows(&self) -> f64 {
        self.rows.into()
    }

    /// a and b in ns and ns per row.
    pub fn line(&self) -> (f64, f64) {
        (self.fixed_ns.into(), self.per_row_ns.into())
    }

    /// Takes in one processed message: all its grants together.
    #[inline]
    pub fn observe(&mut self, rows: u32, cpu_ns: u64) {
        let cost = cpu_ns as f32;
        if rows == 0 {
            let keep = match self.watermark_ns {
                0.0 => 0.0,
                last if cost > last => KEEP_BELOW_FIRING,
                _ => KEEP_FIRING,
            };
            self.watermark_ns = (self.watermark_ns * keep + cost * (1.0 - keep)).max(1.0);
            return;
        }
        let n = rows as f32;
        // West's update of weighted means and co-moments, with every old weight multiplied by KEEP.
        let old = self.weight * KEEP;
        self.weight = old + 1.0;
        let (d_rows, d_cost) = (n - self.rows, cost - self.cost);
        self.rows += d_rows / self.weight;
        self.cost += d_cost / self.weight;
        let share = old / self.weight;
        self.rows_rows = self.rows_rows * KEEP + share * d_rows * d_rows;
        self.rows_cost = self.rows_cost * KEEP + share * d_rows * d_cost;
        self.fit();
    }

    fn fit(&mut self) {
        // Batches of one size alone say nothing of the slope: keep the last a, let b explain the rest.
        let (a, b) = if self.rows_rows > 1e-9 * self.rows * self.rows * self.weight {
            let b = self.rows_cost / self.rows_rows;
            (self.cost - b * self.rows, b)
        } else {
            let a = self.fixed_ns;
            (a, (self.cost - a) / self.rows)
        };
        let (a, b) = if b < 0.0 {
            (self.cost, 0.0)
        } else if a < 0.0 {
            // Least squares through the origin.
            let second = self.rows_rows + self.weight * self.rows * self.rows;
            let mixed = self.rows_cost + self.weight * self.rows * self.cost;
            (0.0, mixed / second)
        } else {
            (a, b)
        };
        self.fixed_ns = a;
        self.per_row_ns = b;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(got: u64, expected: u64) {
        assert!(got.abs_diff(expected) <= expected / 50 + 1, "predicted {got}, expected {expected}");
    }

    #[test]
    fn the_prior_is_never_zero() {
        let model = CostModel::default();
        assert_eq!([0, 1, 1_000].map(|rows| model.predict_ns(rows)), [1_000, 1_020, 21_000]);
    }

    #[test]
    fn a_line_is_found_from_batches_of_mixed_size() {
        let mut model = CostModel::default();
        for round in 0..600u64 {
            let rows = [1, 100, 8_192][round as usize % 3];
            model.observe(rows, 2_000 + 5 * u64::from(rows));
        }
        near(model.predict_ns(1), 2_005);
        near(model.predict_ns(8_192), 2_000 + 5 * 8_192);
        near(model.predict_ns(4_000), 22_000);
    }

    #[test]
    fn batches_of_one_size_are_predicted_and_others_stay_sane() {
        let mut model = CostModel::default();
        for _ in 0..5_000 {
            model.observe(8_192, 820_200);
        }
        near(model.predict_ns(8_192), 820_200);
        // The prior's fixed cost is all there is to go by: between nothing and a fifth of the batch.
        assert!((1..160_000).contains(&model.predict_ns(1)), "{}", model.predict_ns(1));
    }

    #[test]
    fn neither_coefficient_is_negative() {
        let mut falling = CostModel::default();
        let mut steep = CostModel::default();
        for round in 0..1_000u32 {
            let rows = 100 + round % 100;
            falling.observe(rows, u64::from(10_000 - 30 * rows));
            steep.observe(rows, u64::from(rows * rows));
        }
        for model in [falling, steep] {
            let (a, b) = model.line();
            assert!(a >= 0.0 && b >= 0.0, "{a} + {b} n");
        }
    }

    #[test]
    fn watermarks_are_predicted_apart() {
        let mut model = CostModel::default();
        for _ in 0..300 {
            model.observe(1_000, 10_000);
            model.observe(0, 3_000_000);
        }
        near(model.predict_ns(0), 3_000_000);
        near(model.predict_ns(1_000), 10_000);
        near(model.usual_ns(), 3_000_000);
    }

    #[test]
    fn a_firing_is_not_forgotten_among_watermarks_that_fire_nothing() {
        let mut model = CostModel::default();
        for _ in 0..20 {
            (0..50).for_each(|_| model.observe(0, 1_000));
            model.observe(0, 20_000_000);
        }
        (0..50).for_each(|_| model.observe(0, 1_000));
        let usual_ns = model.usual_ns();
        assert!((15_000_000..=20_000_000).contains(&usual_ns), "{usual_ns}");
    }

    #[test]
    fn a_change_is_followed_within_some_hundred_runs() {
        let mut model = CostModel::default();
        (0..500).for_each(|_| model.observe(100, 10_000));
        (0..300).for_each(|_| model.observe(100, 50_000));
        near(model.predict_ns(100), 50_000);
    }
}
