//! The standard error as a place to draw on: a display that is replaced, with messages scrolling above it.

use std::io::{self, IsTerminal, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tracing_subscriber::fmt::MakeWriter;

use crate::live::Canvas;

/// Shared by the display and the log, so that neither overwrites the other.
#[derive(Clone, Debug, Default)]
pub struct Screen {
    /// Lines of the display that now stand above the cursor.
    drawn: Arc<Mutex<usize>>,
}

/// One message being written.
#[derive(Debug)]
pub struct Message<'a> {
    _drawn: MutexGuard<'a, usize>,
}

// A terminal that does not tell its size, and a file that has none.
const DEFAULT_WIDTH: usize = 120;
const DEFAULT_HEIGHT: usize = 24;

impl Screen {
    /// True if what is drawn can be replaced.
    pub fn is_terminal() -> bool {
        io::stderr().is_terminal() && std::env::var_os("TERM").is_none_or(|term| term != "dumb")
    }

    /// The room there is now.
    pub fn canvas() -> Canvas {
        let size = terminal_size::terminal_size_of(io::stderr());
        Canvas {
            width: size.map_or(DEFAULT_WIDTH, |(width, _)| usize::from(width.0)),
            height: size.map_or(DEFAULT_HEIGHT, |(_, height)| usize::from(height.0)),
            colour: Screen::is_terminal()
                && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty()),
        }
    }

    /// Replaces the display. `text` ends with a line end, or is empty to clear.
    pub fn draw(&self, text: &str) {
        let mut drawn = self.lock();
        let replacement = format!("{}{text}", erase(*drawn));
        *drawn = text.matches('\n').count();
        // Nobody left to read is no reason to stop the queries.
        let _ = io::stderr().write_all(replacement.as_bytes());
    }

    /// Writes lines that stay, above the display, which is gone until it is next drawn.
    pub fn say(&self, text: &str) {
        let _ = writeln!(self.make_writer(), "{text}");
    }

    fn lock(&self) -> MutexGuard<'_, usize> {
        self.drawn.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Writes to the standard output. A reader that has seen enough (`| head`) is no failure.
pub fn print(text: &str) {
    let mut output = io::stdout().lock();
    let _ = output.write_all(text.as_bytes()).and_then(|()| output.flush());
}

/// Moves to the first of the last `lines` lines and clears from there on.
fn erase(lines: usize) -> String {
    if lines == 0 { String::new() } else { format!("\x1b[{lines}F\x1b[J") }
}

impl<'a> MakeWriter<'a> for Screen {
    type Writer = Message<'a>;

    fn make_writer(&'a self) -> Message<'a> {
        let mut drawn = self.lock();
        let _ = io::stderr().write_all(erase(*drawn).as_bytes());
        *drawn = 0;
        Message { _drawn: drawn }
    }
}

impl Write for Message<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        io::stderr().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stderr().flush()
    }
}
