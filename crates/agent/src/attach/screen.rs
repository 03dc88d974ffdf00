use std::io::Write;

use crate::report::Report;

/// Where the table goes: drawn over itself on a terminal, else printed when something changes.
pub(super) struct Screen {
    plain: bool,
    drawn: usize,
}

impl Screen {
    pub fn new(plain: bool) -> Screen {
        Screen { plain, drawn: 0 }
    }

    pub fn width(&self) -> usize {
        let known = terminal_size::terminal_size().map(|(width, _)| usize::from(width.0));
        if self.plain { 200 } else { known.unwrap_or(120) }
    }

    pub fn height(&self) -> Option<usize> {
        let known = terminal_size::terminal_size().map(|(_, height)| usize::from(height.0));
        if self.plain { None } else { known }
    }

    /// One line that stays.
    pub fn say(&mut self, line: &str) {
        self.wipe();
        let _ = writeln!(std::io::stdout(), "{line}");
    }

    /// The table, in place of the last one.
    pub fn draw(&mut self, table: &str, report: &Report) {
        // A log needs no line per second that says nothing new.
        if self.plain && report.rounds > 2 && report.changes.is_empty() && report.failed.is_empty() {
            return;
        }
        self.wipe();
        let mut out = std::io::stdout().lock();
        // A reader that has gone ends nothing: the engine's threads still need us.
        let _ = out.write_all(table.as_bytes());
        let _ = out.flush();
        if !self.plain {
            self.drawn = table.lines().count();
        }
    }

    fn wipe(&mut self) {
        if self.drawn > 0 {
            // Up so many lines, and clear to the end of the screen (ECMA-48: CPL, ED).
            let _ = write!(std::io::stdout(), "\x1b[{}F\x1b[J", self.drawn);
            self.drawn = 0;
        }
    }
}
