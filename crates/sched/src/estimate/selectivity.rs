/// Rows out per row in, as an exponentially decayed ratio. 1 until something is known.
#[derive(Clone, Copy, Debug)]
pub struct Selectivity {
    rows_in: f32,
    rows_out: f32,
}

/// As for the cost: a memory of about 50 messages.
const KEEP: f32 = 0.98;

impl Default for Selectivity {
    fn default() -> Selectivity {
        // One row that passed: the prior of 1, outweighed by the first batch.
        Selectivity { rows_in: 1.0, rows_out: 1.0 }
    }
}

impl Selectivity {
    /// The estimate.
    pub fn get(&self) -> f64 {
        f64::from(self.rows_out / self.rows_in)
    }

    /// Takes in one processed message. A watermark brings no row in and may send many on.
    #[inline]
    pub fn observe(&mut self, rows_in: u32, rows_out: u32) {
        if rows_in > 0 {
            self.rows_in *= KEEP;
            self.rows_out *= KEEP;
        }
        self.rows_in = (self.rows_in + rows_in as f32).max(f32::MIN_POSITIVE);
        self.rows_out += rows_out as f32;
    }
}
