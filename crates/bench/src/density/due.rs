//! Which rows and results of an urgent query are due by an instant: a result that is due and has not come out is
//! late, so someone other than the engine has to know how many there should be.

/// The input of one query with a tumbling window: row `n` is due, and has its event time, `n / rows_per_s` after
/// the origin, and the watermark is a millisecond behind it.
#[derive(Clone, Copy, Debug)]
pub struct Input {
    /// Rows per second.
    pub rows_per_s: u64,
    /// Event time of the first row, ms.
    pub origin_ms: i64,
}

/// Tumbling windows.
#[derive(Clone, Copy, Debug)]
pub struct Windows {
    /// Size, ms.
    pub size_ms: u64,
    /// Shift against the epoch, ms.
    pub offset_ms: u64,
}

impl Input {
    /// Rows due within so many milliseconds of the first, but for those of the window that is open then: nobody needs these
    /// before it ends.
    pub fn rows_of_ended(&self, windows: Windows, within_ms: u64) -> u64 {
        let now_ms = self.origin_ms + within_ms as i64 - windows.offset_ms as i64;
        let open_ms = now_ms.rem_euclid(windows.size_ms as i64);
        self.first_row_from(within_ms as i64 - open_ms)
    }

    /// Windows that the rows due within so many milliseconds of the first have completed: those with a row in them
    /// whose end a later row has reached.
    pub fn results(&self, windows: Windows, within_ms: u64) -> u64 {
        let size = windows.size_ms as i64;
        let offset = windows.offset_ms as i64;
        // Since the origin, as everything below.
        let mut start = (self.origin_ms - offset).div_euclid(size) * size + offset - self.origin_ms;
        let mut results = 0;
        while start + size <= within_ms as i64 {
            let first_inside = self.first_row_from(start);
            let completing = self.first_row_from(start + size);
            let has_rows = self.at_ms(first_inside) < start + size;
            results += u64::from(has_rows && self.at_ms(completing) <= within_ms as i64);
            start += size;
        }
        results
    }

    /// The first row at or after so many milliseconds since the first one.
    fn first_row_from(&self, ms: i64) -> u64 {
        (ms.max(0) as u64 * self.rows_per_s).div_ceil(1_000)
    }

    fn at_ms(&self, row: u64) -> i64 {
        (row * 1_000 / self.rows_per_s) as i64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_are_due_when_a_row_has_passed_their_end() {
        // Rows at 40, 60, 80 …; windows end at 100, 200 …: the rows at 100 and 200 complete them.
        let input = Input { rows_per_s: 50, origin_ms: 40 };
        let windows = Windows { size_ms: 100, offset_ms: 0 };
        let due = |within_ms| input.results(windows, within_ms);
        assert_eq!([due(0), due(59), due(60), due(159), due(160), due(1_000)], [0, 0, 1, 1, 2, 10]);
    }

    #[test]
    fn rows_of_an_open_window_are_not_due() {
        // Rows at 40, 60, 80 …
        let input = Input { rows_per_s: 50, origin_ms: 40 };
        let due = |within_ms, offset_ms| input.rows_of_ended(Windows { size_ms: 100, offset_ms }, within_ms);
        assert_eq!([due(59, 0), due(60, 0), due(159, 0), due(160, 0)], [0, 3, 3, 8]);
        assert_eq!([due(29, 70), due(30, 70), due(130, 70)], [0, 2, 7]);
    }

    #[test]
    fn an_offset_moves_the_ends() {
        let input = Input { rows_per_s: 1_000, origin_ms: 40 };
        // Ends at 30, 130, 230: 90 and 190 after the first row.
        let windows = Windows { size_ms: 100, offset_ms: 30 };
        let due = |within_ms| input.results(windows, within_ms);
        assert_eq!([due(89), due(90), due(189), due(190)], [0, 1, 1, 2]);
    }

    #[test]
    fn windows_without_a_row_give_nothing() {
        // A row a second: each completes the window of the one before, and nine of ten windows are empty.
        let input = Input { rows_per_s: 1, origin_ms: 7 };
        let windows = Windows { size_ms: 100, offset_ms: 0 };
        assert_eq!([input.results(windows, 999), input.results(windows, 1_000)], [0, 1]);
        assert_eq!(input.results(windows, 5_500), 5);
    }
}
