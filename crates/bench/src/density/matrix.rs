//! Which cells there are, and how long they take.

use std::time::Duration;

use super::cell::{Point, Shape};

/// Coordinates of the matrix.
#[derive(Clone, Debug, PartialEq)]
pub struct Matrix {
    /// Urgent queries.
    pub queries: Vec<usize>,
    /// Shares of the machine.
    pub loads: Vec<f64>,
    /// Own tables (false), shared tables (true).
    pub is_shared: Vec<bool>,
    /// Sizes of the urgent windows.
    pub windows_ms: Vec<u64>,
    /// Ends staggered (false), together (true).
    pub is_together: Vec<bool>,
}

impl Matrix {
    /// All of it.
    pub fn whole() -> Matrix {
        Matrix {
            queries: vec![10, 100, 400, 1_000, 4_000, 10_000],
            loads: vec![0.5, 0.8, 0.95],
            is_shared: vec![false, true],
            windows_ms: vec![100, 1_000],
            is_together: vec![false, true],
        }
    }

    /// A few cells that take seconds.
    pub fn small() -> Matrix {
        Matrix { queries: vec![10], loads: vec![0.5], windows_ms: vec![100], ..Matrix::whole() }
    }

    /// Every cell.
    pub fn points(&self) -> Vec<Point> {
        let mut points = Vec::new();
        for &queries in &self.queries {
            for &is_shared in &self.is_shared {
                for &window_ms in &self.windows_ms {
                    for &is_together in &self.is_together {
                        let shape = Shape { queries, is_shared, window_ms, is_together };
                        points.extend(self.loads.iter().map(|&load| Point { shape, load }));
                    }
                }
            }
        }
        points
    }
}

/// How long a cell of windows of this size is measured: some twenty-five windows, or four.
///
/// The whole matrix, three times, is then two hours; what a longer run would show is what `--seconds` is for.
pub fn measured(window_ms: u64) -> Duration {
    Duration::from_millis(if window_ms <= 100 { 2_500 } else { 4_000 })
}

/// What a process takes beside the time that is measured: half a millisecond to start a query, which is what ten thousand
/// are allowed, and a third of a second to end.
pub fn beside(queries: usize) -> Duration {
    Duration::from_micros(350_000 + 500 * queries as u64)
}

/// Why a policy cannot run so many queries; `None` if it can.
pub fn refusal(policy: &str, queries: usize, room: u64) -> Option<String> {
    // A source and a window; the sink runs on the window's thread.
    const THREADS_EACH: u64 = 2;
    let needed = queries as u64 * THREADS_EACH;
    (policy == "os" && needed > room)
        .then(|| format!("{needed} threads are more than the system's limits leave room for ({room})"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_matrix_is_the_product_of_its_coordinates() {
        let points = Matrix::whole().points();
        assert_eq!(points.len(), 6 * 3 * 2 * 2 * 2);
        let mut names: Vec<String> = points.iter().map(Point::to_string).collect();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), points.len());
    }

    #[test]
    fn all_of_it_takes_about_two_hours() {
        let of = |point: &Point| {
            let policies = if point.shape.queries >= 4_000 { 3.0 } else { 4.0 };
            let once = measured(point.shape.window_ms) + beside(point.shape.queries);
            3.0 * policies * once.as_secs_f64()
        };
        let hours = Matrix::whole().points().iter().map(of).sum::<f64>() / 3_600.0;
        assert!((1.8..2.2).contains(&hours), "{hours}");
    }

    #[test]
    fn only_threads_run_out() {
        assert_eq!(refusal("laxity", 10_000, 100), None);
        assert_eq!(refusal("os", 400, 1_000), None);
        assert_eq!(refusal("os", 10_000, u64::MAX), None);
        let said = refusal("os", 500, 900).unwrap();
        assert_eq!(said, "1000 threads are more than the system's limits leave room for (900)");
    }
}
