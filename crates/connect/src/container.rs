//! Files that are more than lines of text: they say themselves what their columns are, are packed inside, and are complete
//! with their end alone.

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::ConnectError;
use crate::dead_letter::BadRow;
use crate::reader::Step;

/// One such file that is read, from its beginning to its end.
pub(crate) trait Container: Send {
    /// Decodes a piece. `bad` gets the bad rows among the good ones.
    ///
    /// # Errors
    /// Where the file is damaged, or cannot be read. What came before was good.
    fn step(&mut self, bad: &mut Vec<BadRow>) -> Result<Step, ConnectError>;

    /// Bytes read and not decoded, as far as they are known.
    fn held_bytes(&self) -> u64 {
        0
    }
}

/// The libraries take some damaged files for whole ones and panic in their middle.
pub(crate) fn checked<T>(read: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(read)).map_err(|_| "it is damaged".to_owned())
}
