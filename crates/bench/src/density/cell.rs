//! One cell: which queries run, over which tables, at which rates.

use std::fmt;
use std::str::FromStr;

/// Queries that run together in a process of their own.
#[derive(Clone, Debug, PartialEq)]
pub struct Cell {
    /// As `--cells` and `--print-sql` take it.
    pub name: String,
    /// Tumbling counts with a short target.
    pub urgent: Urgent,
    /// Sliding distinct counts with a long one.
    pub heavy: Heavy,
}

/// The urgent half of a cell.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Urgent {
    /// How many queries.
    pub queries: usize,
    /// What they read.
    pub tables: Tables,
    /// Size of their windows.
    pub window_ms: u64,
    /// When the windows of different queries end.
    pub ends: Ends,
    /// Latency target of each.
    pub target_ms: u64,
    /// Rows per second of each table.
    pub rows_per_s: u64,
    /// Where the rows come from.
    pub input: Input,
}

/// The heavy half of a cell: 5 s windows every second, distinct keys among 10 000, target 10 s.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Heavy {
    /// How many queries; may be none.
    pub queries: usize,
    /// What they read.
    pub tables: Tables,
    /// Rows per second of each table.
    pub rows_per_s: u64,
    /// Where the rows come from.
    pub input: Input,
}

impl Heavy {
    /// No heavy half.
    pub const NONE: Heavy = Heavy { queries: 0, tables: Tables::Own, rows_per_s: 1, input: Input::Generated };
}

/// Who reads which table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tables {
    /// Each query has a table of its own.
    Own,
    /// All queries of a half read one.
    Shared,
}

/// When windows of different queries end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ends {
    /// Spread over the size of a window.
    Staggered,
    /// At the same instant.
    Together,
}

/// Where rows come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Input {
    /// `datagen`.
    Generated,
    /// A CSV file, replayed at the pace of its times and released once a tick.
    Replayed {
        /// The tick.
        tick_ms: u64,
    },
}

/// A cell of the matrix but for its load.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Shape {
    /// Urgent queries.
    pub queries: usize,
    /// Whether each half reads one table; else every query has its own.
    pub is_shared: bool,
    /// Size of the urgent windows.
    pub window_ms: u64,
    /// Whether the urgent windows end at the same instant; else they are spread.
    pub is_together: bool,
}

/// A cell of the matrix before its rates are known.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// Everything but the load.
    pub shape: Shape,
    /// Share of the machine that it should take, half of it heavy.
    pub load: f64,
}

impl Shape {
    /// Tables of the urgent half.
    pub fn tables(self) -> Tables {
        if self.is_shared { Tables::Shared } else { Tables::Own }
    }

    /// Ends of the urgent windows.
    pub fn ends(self) -> Ends {
        if self.is_together { Ends::Together } else { Ends::Staggered }
    }

    /// 50 ms; 100 ms from 4 000 queries on.
    pub fn target_ms(self) -> u64 {
        if self.queries >= 4_000 { 100 } else { 50 }
    }

    /// The urgent half at this rate of each table.
    pub fn urgent(self, rows_per_s: u64) -> Urgent {
        Urgent {
            queries: self.queries,
            tables: self.tables(),
            window_ms: self.window_ms,
            ends: self.ends(),
            target_ms: self.target_ms(),
            rows_per_s,
            input: Input::Generated,
        }
    }
}

impl fmt::Display for Shape {
    /// `1000-own-100ms-staggered`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tables = if self.is_shared { "shared" } else { "own" };
        let ends = if self.is_together { "together" } else { "staggered" };
        write!(f, "{}-{tables}-{}ms-{ends}", self.queries, self.window_ms)
    }
}

impl fmt::Display for Point {
    /// `1000-own-100ms-staggered-0.8`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.shape, self.load)
    }
}

impl FromStr for Point {
    type Err = String;

    fn from_str(name: &str) -> Result<Point, String> {
        let wrong = || format!("no cell {name:?}: expected a name such as '1000-own-100ms-staggered-0.8'");
        let parts: Vec<&str> = name.split('-').collect();
        let [queries, tables, window, ends, load] = parts[..] else { return Err(wrong()) };
        let either = |given: &str, yes: &str, no: &str| match given {
            given if given == yes => Ok(true),
            given if given == no => Ok(false),
            _ => Err(wrong()),
        };
        let shape = Shape {
            queries: queries.parse().map_err(|_| wrong())?,
            is_shared: either(tables, "shared", "own")?,
            window_ms: window.strip_suffix("ms").and_then(|ms| ms.parse().ok()).ok_or_else(wrong)?,
            is_together: either(ends, "together", "staggered")?,
        };
        let load: f64 = load.parse().map_err(|_| wrong())?;
        match shape.queries > 0 && shape.window_ms > 0 && load > 0.0 && load.is_finite() {
            true => Ok(Point { shape, load }),
            false => Err(wrong()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_says_everything() {
        let point: Point = "1000-own-100ms-staggered-0.8".parse().unwrap();
        let shape = Shape { queries: 1_000, is_shared: false, window_ms: 100, is_together: false };
        assert_eq!(point, Point { shape, load: 0.8 });
        for name in ["1000-own-100ms-staggered-0.8", "10000-shared-1000ms-together-0.95"] {
            assert_eq!(name.parse::<Point>().unwrap().to_string(), name);
        }
        for wrong in ["", "10", "10-own-100ms-staggered", "10-own-100-together-1", "0-own-1ms-together-1"] {
            assert!(wrong.parse::<Point>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn many_queries_have_twice_the_time() {
        let at =
            |queries| Shape { queries, is_shared: false, window_ms: 100, is_together: false }.target_ms();
        assert_eq!([at(10), at(1_000), at(4_000), at(10_000)], [50, 50, 100, 100]);
    }
}
