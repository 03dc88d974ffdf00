//! Between the bytes of a text file and a decoder of its format: keeps the place, the line numbers and a bound on
//! memory. Where a record ends is for the decoder to say.

use std::io::{ErrorKind, Read};
use std::path::Path;
use std::sync::Arc;

use arrow::array::RecordBatch;

use crate::ConnectError;
use crate::FilePlace;
use crate::dead_letter::BadRow;
use crate::reader::Step;

/// Text read at a time, and so about what a piece holds where rows are long.
const BLOCK_BYTES: usize = 1 << 16;

/// A record longer than this is a bad row: it bounds the memory that one unclosed quote can take.
const RECORD_BYTES_MAX: usize = 4 << 20;

/// Decodes records of a line-oriented format.
pub(crate) trait Decode: Send {
    /// Reads whole records from the front of `text`, at most a piece of good ones ([`crate::PIECE_ROWS`]), and puts
    /// the bad ones aside. `first_line` is the number of the line at which `text` starts.
    ///
    /// With `last`, nothing follows `text`, and its end ends a record. Consumes nothing if and only if `text`
    /// holds no whole record.
    ///
    /// # Errors
    /// When the text is not of this format as a whole; the message says why.
    fn decode(
        &mut self,
        text: &[u8],
        last: bool,
        first_line: u64,
        bad: &mut Vec<BadRow>,
    ) -> Result<Decoded, String>;

    /// Begins with another file, behind so many lines: forgets what it knows of the one before, such as that its header was read.
    fn start_file(&mut self, lines: u64);

    /// Name of the format.
    fn format(&self) -> &'static str;
}

/// Answer of [`Decode::decode`].
#[derive(Debug, Default)]
pub(crate) struct Decoded {
    pub rows: Option<RecordBatch>,
    pub bytes: usize,
    pub lines: u64,
}

/// A file of lines, read in blocks of bounded size.
pub(crate) struct TextFile {
    path: Arc<Path>,
    input: Box<dyn Read + Send>,
    buffer: Vec<u8>,
    /// The text not decoded yet is `buffer[start..end]`.
    start: usize,
    end: usize,
    line: u64,
    /// The text holds no whole record: more of it is needed.
    starved: bool,
    input_ended: bool,
    /// A read error that waits until the rows before it are delivered.
    failed: Option<std::io::Error>,
    /// In the middle of a line too long to be kept.
    skipping: bool,
    checked_for_text: bool,
    /// What follows the last line end is left for later.
    is_growing: bool,
    /// Bytes taken off the front so far.
    taken: u64,
}

impl TextFile {
    /// `bytes` is the length of the text where it is known: a short file needs no long buffer.
    pub(crate) fn new(path: Arc<Path>, input: Box<dyn Read + Send>, bytes: Option<u64>) -> TextFile {
        // One more shows the end without another block.
        let length = bytes.map_or(BLOCK_BYTES, |bytes| usize::try_from(bytes + 1).unwrap_or(BLOCK_BYTES));
        TextFile {
            path,
            input,
            buffer: vec![0; length.min(BLOCK_BYTES)],
            start: 0,
            end: 0,
            line: 1,
            starved: true,
            input_ended: false,
            failed: None,
            skipping: false,
            checked_for_text: false,
            is_growing: false,
            taken: 0,
        }
    }

    /// The same from a place further on.
    #[must_use]
    pub(crate) fn opened_at(self, place: &FilePlace, is_growing: bool) -> TextFile {
        let FilePlace { bytes, lines, skips_line, .. } = *place;
        let (line, checked_for_text) = (lines + 1, bytes > 0);
        TextFile { taken: bytes, line, skipping: skips_line, checked_for_text, is_growing, ..self }
    }

    /// Where it is, behind what was read as records.
    pub(crate) fn place(&self) -> FilePlace {
        let (bytes, lines, skips_line) = (self.taken, self.line - 1, self.skipping);
        FilePlace { bytes, lines, skips_line, ..FilePlace::default() }
    }

    pub(crate) fn held_bytes(&self) -> u64 {
        self.buffer.capacity() as u64
    }

    /// Reads a block, or decodes a piece of what was read. `bad` gets the bad rows among and before the good ones.
    pub(crate) fn step(
        &mut self,
        decoder: &mut dyn Decode,
        bad: &mut Vec<BadRow>,
    ) -> Result<Step, ConnectError> {
        let is_low = self.starved || self.end - self.start < BLOCK_BYTES / 2;
        if is_low && !self.input_ended {
            if self.fill() {
                return Ok(Step::More);
            }
            if self.starved {
                return Ok(Step::Waiting);
            }
        }
        if !self.check_for_text(decoder.format())? {
            self.starved = true;
            return Ok(Step::More);
        }
        if self.skipping {
            self.skip_line();
        }
        let last = self.input_ended && self.failed.is_none() && !self.is_growing;
        let text = &self.buffer[self.start..self.end];
        let decoded = match text.is_empty() {
            true => Decoded::default(),
            false => decoder
                .decode(text, last, self.line, bad)
                .map_err(|message| self.not(decoder.format(), message))?,
        };
        debug_assert!(decoded.bytes <= text.len());
        self.take(decoded.bytes);
        self.line += decoded.lines;
        if let Some(rows) = decoded.rows {
            return Ok(Step::Rows(rows));
        }
        if decoded.bytes > 0 {
            return Ok(Step::More);
        }
        if self.input_ended {
            let Some(source) = self.failed.take() else { return Ok(Step::End) };
            return Err(ConnectError::Io { action: "read", path: self.path.to_path_buf(), source });
        }
        if self.end - self.start >= RECORD_BYTES_MAX {
            self.give_up_record(bad);
        } else {
            self.starved = true;
        }
        Ok(Step::More)
    }

    fn take(&mut self, bytes: usize) {
        self.start += bytes;
        self.taken += bytes as u64;
    }

    /// Reads until the buffer is full or nothing more is there; false if nothing came at all. The buffer grows
    /// only for a record that does not fit.
    fn fill(&mut self) -> bool {
        self.buffer.copy_within(self.start..self.end, 0);
        self.end -= self.start;
        self.start = 0;
        if self.end == self.buffer.len() {
            self.buffer.resize((2 * self.end).max(BLOCK_BYTES), 0);
        } else if self.end < BLOCK_BYTES / 2 && self.buffer.len() > BLOCK_BYTES {
            self.buffer.truncate(BLOCK_BYTES);
            self.buffer.shrink_to_fit();
        }
        let before = self.end;
        while self.end < self.buffer.len() && !self.input_ended {
            match self.input.read(&mut self.buffer[self.end..]) {
                Ok(0) => self.input_ended = true,
                Ok(bytes) => self.end += bytes,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => {
                    self.input_ended = true;
                    self.failed = Some(error);
                }
            }
        }
        let new = &self.buffer[before..self.end];
        // A record ends with a line: looking at it again before would cost its length with every byte that comes.
        let has_line_end = || memchr::memchr(b'\n', new).is_some();
        if self.input_ended || self.skipping || self.end >= RECORD_BYTES_MAX || has_line_end() {
            self.starved = false;
        }
        self.end > before || self.input_ended
    }

    /// A record has no end in sight: its first line is bad, and reading goes on with the next one.
    fn give_up_record(&mut self, bad: &mut Vec<BadRow>) {
        let text = &self.buffer[self.start..self.end];
        let limit = RECORD_BYTES_MAX >> 20;
        bad.push(match memchr::memchr(b'\n', text) {
            Some(end) => BadRow::new(self.line, format!("quote not closed within {limit} MiB"), &text[..end]),
            None => BadRow::new(self.line, format!("line longer than {limit} MiB"), text),
        });
        self.skipping = true;
    }

    fn skip_line(&mut self) {
        match memchr::memchr(b'\n', &self.buffer[self.start..self.end]) {
            Some(end) => {
                self.take(end + 1);
                self.line += 1;
                self.skipping = false;
            }
            None => {
                self.take(self.end - self.start);
                self.starved = true;
            }
        }
    }

    /// Text does not start with zero bytes in it: that is another kind of file, and as rows it would only be
    /// dead letters. A zero byte further on is one bad row. False if too little has come to say.
    fn check_for_text(&mut self, format: &'static str) -> Result<bool, ConnectError> {
        let text = &self.buffer[self.start..self.end];
        if !self.checked_for_text && !self.input_ended && text.len() < 4 && !text.contains(&b'\n') {
            return Ok(false);
        }
        if std::mem::replace(&mut self.checked_for_text, true) {
            return Ok(true);
        }
        let kind = match text {
            [0x1f, 0x8b, ..] => "it is compressed with gzip: name it .gz or set 'compression' = 'gzip'",
            [0x28, 0xb5, 0x2f, 0xfd, ..] => {
                "it is compressed with zstd: name it .zst or set 'compression' = 'zstd'"
            }
            [b'P', b'A', b'R', b'1', ..] => "it is a Parquet file: set 'format' = 'parquet'",
            [b'O', b'b', b'j', 1, ..] => "it is an Avro file: set 'format' = 'avro'",
            [0xff, 0xfe, ..] | [0xfe, 0xff, ..] => "it is UTF-16 text; UTF-8 is expected",
            _ if text.iter().take(1_024).any(|byte| *byte == 0) => "it has zero bytes, so it is not text",
            _ => {
                let mark = b"\xef\xbb\xbf";
                if text.starts_with(mark) {
                    self.take(mark.len());
                }
                return Ok(true);
            }
        };
        Err(self.not(format, kind.to_owned()))
    }

    fn not(&self, format: &'static str, message: String) -> ConnectError {
        ConnectError::Format { path: self.path.to_path_buf(), format, message }
    }
}
