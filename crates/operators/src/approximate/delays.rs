//! The law by which a window knows, at any instant, which share of its rows has come, and how many more would come if
//! it waited.

/// How long rows take from their event to their arrival: an empirical law, which forgets.
///
/// Delays below 64 ms are told apart by the millisecond, longer ones within 3 %; each class keeps the mean of what is in
/// it, so that the share of rows in time is exact for a constant delay too.
#[derive(Clone, Debug, Default)]
pub struct Delays {
    classes: Vec<Class>,
    /// That it stands for, and of them those that it was learnt from.
    rows: f64,
    observed: f64,
    sum_ms: f64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Class {
    rows: f64,
    sum_ms: f64,
}

/// Delays up to this are told apart by the millisecond.
const FINE_MS: u32 = 64;

impl Delays {
    /// As numbers in a row, for state: rows, those observed, the sum of delays, then two of each class.
    pub(crate) fn numbers(&self) -> Vec<f64> {
        let classes = self.classes.iter().flat_map(|class| [class.rows, class.sum_ms]);
        [self.rows, self.observed, self.sum_ms].into_iter().chain(classes).collect()
    }

    /// See [`numbers`](Delays::numbers). `None`: there are other than so many.
    pub(crate) fn from_numbers(numbers: &[f64]) -> Option<Delays> {
        let (&[rows, observed, sum_ms], classes) = numbers.split_first_chunk()?;
        let (classes, []) = classes.as_chunks() else { return None };
        let classes = classes.iter().map(|&[rows, sum_ms]| Class { rows, sum_ms });
        Some(Delays { classes: classes.collect(), rows, observed, sum_ms })
    }

    /// One more row, which stands for so many; an event that is not to have happened yet took no time.
    pub fn push(&mut self, delay_ms: i64, rows: f64) {
        let delay_ms = delay_ms.clamp(0, i64::from(u32::MAX)) as u32;
        let class = class_of(delay_ms);
        if self.classes.len() <= class {
            self.classes.resize(class + 1, Class::default());
        }
        let sum_ms = rows * f64::from(delay_ms);
        self.classes[class].rows += rows;
        self.classes[class].sum_ms += sum_ms;
        self.rows += rows;
        self.observed += 1.0;
        self.sum_ms += sum_ms;
    }

    /// Those rows too, after what is known counts `keep` times as much as before.
    pub fn learn(&mut self, newer: &Delays, keep: f64) {
        if self.classes.len() < newer.classes.len() {
            self.classes.resize(newer.classes.len(), Class::default());
        }
        for class in &mut self.classes {
            class.rows *= keep;
            class.sum_ms *= keep;
        }
        for (class, newer) in self.classes.iter_mut().zip(&newer.classes) {
            class.rows += newer.rows;
            class.sum_ms += newer.sum_ms;
        }
        self.rows = self.rows * keep + newer.rows;
        self.observed = self.observed * keep + newer.observed;
        self.sum_ms = self.sum_ms * keep + newer.sum_ms;
    }

    /// Delays, ms, and how many rows each stands for, in order.
    pub(crate) fn law(&self) -> impl Iterator<Item = (f64, f64)> {
        let classes = self.classes.iter().filter(|class| class.rows > 0.0);
        classes.map(|class| (class.sum_ms / class.rows, class.rows))
    }

    /// How many rows it was learnt from, older ones counting less.
    pub fn observed(&self) -> f64 {
        self.observed
    }

    /// E\[D\], ms.
    pub fn mean_ms(&self) -> f64 {
        if self.rows > 0.0 { self.sum_ms / self.rows } else { 0.0 }
    }

    /// Which part of the rows of `[start, end)` is there at `now`, event time on the clock of arrivals: the mean of
    /// P(D ≤ now − t) over the stretch. What Eq. 4.7 says of the mean delay, of all of them.
    pub fn on_time_share(&self, start_ms: i64, end_ms: i64, now_ms: i64) -> f64 {
        if self.rows <= 0.0 || end_ms <= start_ms {
            return 1.0;
        }
        let oldest = (now_ms - start_ms).max(0) as f64;
        let youngest = (now_ms - end_ms).max(0) as f64;
        // ∫ P(D ≤ x) dx from a to b is E[(b − D)⁺] − E[(a − D)⁺].
        let mut area = 0.0;
        for class in self.classes.iter().filter(|class| class.rows > 0.0) {
            let delay_ms = class.sum_ms / class.rows;
            area += class.rows * ((oldest - delay_ms).max(0.0) - (youngest - delay_ms).max(0.0));
        }
        (area / self.rows / (end_ms - start_ms) as f64).clamp(0.0, 1.0)
    }
}

fn class_of(delay_ms: u32) -> usize {
    if delay_ms < FINE_MS {
        return delay_ms as usize;
    }
    // The five bits below the first one, and where that is.
    let shift = 26 - delay_ms.leading_zeros();
    (FINE_MS + (shift - 1) * 32 + ((delay_ms >> shift) - 32)) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_follow_each_other() {
        assert_eq!([0, 63, 64, 65, 66, 127, 128, 132].map(class_of), [0, 63, 64, 64, 65, 95, 96, 97]);
        let classes: Vec<usize> = (0..1_000_000).step_by(7).map(class_of).collect();
        assert!(classes.windows(2).all(|pair| pair[0] <= pair[1]));
        assert!(class_of(u32::MAX) < 1_000);
    }

    #[test]
    fn the_share_in_time_of_a_constant_and_of_two_delays() {
        let mut constant = Delays::default();
        (0..100).for_each(|_| constant.push(150, 1.0));
        // Of 600 ms those of the last 150 are on their way at the end.
        assert_eq!(constant.on_time_share(0, 600, 600), 0.75);
        assert_eq!(constant.on_time_share(0, 600, 700), 1.0 - 50.0 / 600.0);
        assert_eq!(constant.on_time_share(0, 600, 750), 1.0);
        assert_eq!(constant.on_time_share(0, 600, 100), 0.0);
        let mut half = Delays::default();
        (0..100).for_each(|i| half.push(if i % 2 == 0 { 0 } else { 300 }, 1.0));
        assert_eq!(half.on_time_share(0, 600, 600), 0.75);
        assert_eq!(half.mean_ms(), 150.0);
        half.learn(&constant, 0.0);
        assert_eq!((half.mean_ms(), half.observed()), (150.0, 100.0));
    }

    #[test]
    fn a_row_may_stand_for_several() {
        let mut some = Delays::default();
        some.push(0, 3.0);
        some.push(300, 1.0);
        assert_eq!((some.on_time_share(0, 600, 600), some.mean_ms(), some.observed()), (0.875, 75.0, 2.0));
    }

    #[test]
    fn the_share_in_time_of_an_exponential_delay() {
        let mut delays = Delays::default();
        let draws = 20_000;
        (0..draws).for_each(|i| {
            delays.push((-240.0 * (1.0 - (f64::from(i) + 0.5) / f64::from(draws)).ln()) as i64, 1.0)
        });
        // 1 − 240/600·(1 − e^(−600/240)) = 0.6328.
        let share = delays.on_time_share(0, 600, 600);
        assert!((share - 0.6328).abs() < 0.002, "{share}");
    }
}
