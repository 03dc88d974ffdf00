/// What a query that leaves rows out has done so far.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Approximation {
    /// Half the width of an interval, relative to the result, that was asked for.
    pub error: f64,
    /// In how many windows at least the error is to be kept.
    pub confidence: f64,
    /// Rows are left out only while the query is behind.
    pub only_behind: bool,
    /// Rows may be left out at present.
    pub is_engaged: bool,
    /// Rows have come since that could be left out.
    pub has_begun: bool,
    /// How often it began to leave rows out because it was behind.
    pub steps: u64,
    /// Rows that came in time or late.
    pub rows_seen: u64,
    /// Rows that were taken.
    pub rows_taken: u64,
    /// Rows that came after their window had answered.
    pub rows_late: u64,
    /// Window ends at which something was due.
    pub windows: u64,
    /// Of them, those that no bound could be given for that is as asked; they say so.
    pub unkept: u64,
    /// Of them, those that waited until all rows had come, as an exact query does.
    pub complete: u64,
    /// How long after their end windows answered, all together, ms.
    pub waited_ms: f64,
    /// How much earlier that was than the longest delay seen so far, all together, ms.
    pub saved_ms: f64,
    /// Results of groups that were held against the exact ones later, where that was asked for.
    pub checked: u64,
    /// Of them, those whose error was within what was asked for, or that said it was not.
    pub within: u64,
}
