//! Sub-streams of Farhat's thesis, section 4.2.1, for windows of any length and distance; rows are counted by them and
//! never by window.

/// Where windows end, and how event time is cut into sub-streams: each window is a run of whole ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grid {
    /// Windows end at `phase_ms + k · step_ms`.
    pub step_ms: i64,
    /// See `step_ms`.
    pub phase_ms: i64,
    /// How long they are.
    pub span: Span,
    /// f: length of a sub-stream, a divisor of the step.
    pub sub_stream_ms: i64,
}

/// How long windows are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Span {
    /// All alike.
    Fixed(i64),
    /// From the last multiple of this before their end, past the phase.
    Since(i64),
}

/// Length of a sub-stream in the thesis' evaluation, for windows of 3 and 6 s (section 4.2.1).
const SUB_STREAM_MS: i64 = 600;

/// A window is cut into about so many, where they would be more at that length.
const SUB_STREAMS: i64 = 10;

impl Grid {
    /// Windows of that length at that distance, shifted by the phase.
    pub fn new(step_ms: i64, phase_ms: i64, span: Span) -> Grid {
        let wanted = SUB_STREAM_MS.max(step_ms / SUB_STREAMS).min(step_ms);
        // The longest divisor of the step that is not above; at worst a millisecond less than a tenth of the step.
        let pieces = (step_ms + wanted - 1) / wanted;
        let pieces = (pieces..=pieces * 4).find(|pieces| step_ms % pieces == 0).unwrap_or(1);
        Grid { step_ms, phase_ms, span, sub_stream_ms: step_ms / pieces }
    }

    /// The number of the sub-stream of a time.
    pub fn sub_stream(&self, time_ms: i64) -> i64 {
        (time_ms - self.phase_ms).div_euclid(self.sub_stream_ms)
    }

    /// Start and end of a sub-stream.
    pub fn stretch(&self, sub_stream: i64) -> (i64, i64) {
        let start = sub_stream * self.sub_stream_ms + self.phase_ms;
        (start, start + self.sub_stream_ms)
    }

    /// The first end after a time.
    pub fn end_after(&self, time_ms: i64) -> i64 {
        ((time_ms - self.phase_ms).div_euclid(self.step_ms) + 1) * self.step_ms + self.phase_ms
    }

    /// Where the window with that end starts.
    pub fn start_of(&self, end_ms: i64) -> i64 {
        match self.span {
            Span::Fixed(size_ms) => end_ms - size_ms,
            Span::Since(max_ms) => (end_ms - 1 - self.phase_ms).div_euclid(max_ms) * max_ms + self.phase_ms,
        }
    }

    /// Sub-streams in the longest windows.
    pub fn sub_streams_max(&self) -> i64 {
        let (Span::Fixed(longest_ms) | Span::Since(longest_ms)) = self.span;
        longest_ms / self.sub_stream_ms
    }

    /// Sub-streams in the window with that end.
    pub fn sub_streams(&self, end_ms: i64) -> i64 {
        (end_ms - self.start_of(end_ms)) / self.sub_stream_ms
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_thesis_cuts_windows_into_600_ms() {
        let length = |step| Grid::new(step, 0, Span::Fixed(step)).sub_stream_ms;
        assert_eq!(
            [3_000, 6_000, 1_000, 10_000, 3_600_000, 601, 7].map(length),
            [600, 600, 500, 1_000, 360_000, 601, 7]
        );
    }

    #[test]
    fn windows_end_on_the_grid() {
        let hop = Grid::new(1_000, 0, Span::Fixed(2_000));
        assert_eq!((hop.end_after(-1), hop.end_after(0), hop.end_after(999)), (0, 1_000, 1_000));
        assert_eq!((hop.start_of(1_000), hop.sub_streams(1_000)), (-1_000, 4));
        assert_eq!((hop.sub_stream(1_499), hop.stretch(2)), (2, (1_000, 1_500)));
        // CUMULATE by 10 up to 30: windows that end at 10, 20 and 30 begin at 0.
        let cumulate = Grid::new(10, 0, Span::Since(30));
        assert_eq!([10, 20, 30, 40].map(|end| cumulate.start_of(end)), [0, 0, 0, 30]);
    }
}
