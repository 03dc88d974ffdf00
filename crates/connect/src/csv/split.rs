//! The first half of reading CSV: where records and fields begin and end, with quotes and escapes undone. What the
//! fields hold is not looked at; that is for `column.rs`.

use super::CsvOptions;

/// Where the fields of some records lie in the text.
#[derive(Default)]
pub(super) struct Split {
    /// Start and end of each field, row by row. Fields whose text had to be rewritten (doubled quotes,
    /// escapes) lie in `rewritten`, and have [`REWRITTEN`] set in both.
    fields: Vec<(u32, u32)>,
    rewritten: Vec<u8>,
    /// Line, start and end of each record.
    records: Vec<(u64, u32, u32)>,
    width: usize,
}

const REWRITTEN: u32 = 1 << 31;

impl Split {
    pub(super) fn clear(&mut self) {
        self.fields.clear();
        self.rewritten.clear();
        self.records.clear();
    }

    pub(super) fn rows(&self) -> usize {
        self.records.len()
    }

    /// Forgets the last record.
    pub(super) fn pop(&mut self) {
        self.records.pop();
        self.fields.truncate(self.records.len() * self.width);
    }

    /// Fields split so far, of all records.
    pub(super) fn fields(&self) -> usize {
        self.fields.len()
    }

    pub(super) fn field<'a>(&'a self, text: &'a [u8], row: usize, column: usize) -> &'a [u8] {
        self.field_at(text, row * self.width + column)
    }

    pub(super) fn field_at<'a>(&'a self, text: &'a [u8], index: usize) -> &'a [u8] {
        let (start, end) = self.fields[index];
        match start & REWRITTEN {
            0 => &text[start as usize..end as usize],
            _ => &self.rewritten[(start & !REWRITTEN) as usize..(end & !REWRITTEN) as usize],
        }
    }

    /// Line and text of a record.
    pub(super) fn record<'a>(&self, text: &'a [u8], row: usize) -> (u64, &'a [u8]) {
        let (line, start, end) = self.records[row];
        (line, &text[start as usize..end as usize])
    }
}

/// What stands at the front of the text. `bytes` and `lines` are what it takes there.
#[derive(Debug)]
pub(super) enum SplitRecord {
    /// No end of a record.
    Incomplete,
    /// A blank line, or a comment.
    Blank { bytes: usize },
    /// A record. Its fields are in the [`Split`].
    Row { bytes: usize, lines: u64 },
    /// A record that is none. If it spans lines, it gives up only its first one: an unclosed quote then
    /// costs its own line and not the good ones that it swallowed.
    Bad { bytes: usize, lines: u64, reason: BadRecord },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BadRecord {
    Width(usize),
    QuoteNotClosed,
    TextAfterQuote,
}

impl BadRecord {
    pub(super) fn describe(self, width: usize) -> String {
        match self {
            BadRecord::Width(found) => format!("expected {width} fields, found {found}"),
            BadRecord::QuoteNotClosed => "quote not closed".to_owned(),
            BadRecord::TextAfterQuote => "text between a closing quote and the delimiter".to_owned(),
        }
    }
}

/// Finds records and fields.
pub(super) struct Splitter {
    delimiter: u8,
    quote: Option<u8>,
    escape: Option<u8>,
    comments: bool,
    width: usize,
}

impl Splitter {
    pub(super) fn new(options: &CsvOptions, width: usize) -> Splitter {
        let CsvOptions { delimiter, quote, escape, comments, .. } = *options;
        Splitter { delimiter, quote, escape, comments, width }
    }

    /// Splits the record at `at` and adds it to `split` if it has the table's width.
    pub(super) fn next(
        &self,
        text: &[u8],
        at: usize,
        last: bool,
        line: u64,
        split: &mut Split,
    ) -> SplitRecord {
        split.width = self.width;
        let (fields, rewritten) = (split.fields.len(), split.rewritten.len());
        let result = self.record_at(text, at, last, self.width, split);
        if let SplitRecord::Row { bytes, .. } = result {
            // Text comes in blocks of a few megabytes.
            split.records.push((line, at as u32, (at + bytes) as u32));
        } else {
            split.fields.truncate(fields);
            split.rewritten.truncate(rewritten);
        }
        result
    }

    /// Splits the first record of `text`. `width` as `usize::MAX` takes any number of fields.
    pub(super) fn record(&self, text: &[u8], last: bool, width: usize, split: &mut Split) -> SplitRecord {
        self.record_at(text, 0, last, width, split)
    }

    fn record_at(&self, text: &[u8], at: usize, last: bool, width: usize, split: &mut Split) -> SplitRecord {
        let first = text[at];
        if first == b'\n' {
            return SplitRecord::Blank { bytes: 1 };
        }
        if first == b'\r' && (text.get(at + 1) == Some(&b'\n') || (last && at + 1 == text.len())) {
            return SplitRecord::Blank { bytes: (text.len() - at).min(2) };
        }
        if self.comments && first == b'#' {
            return match memchr::memchr(b'\n', &text[at..]) {
                Some(end) => SplitRecord::Blank { bytes: end + 1 },
                None if last => SplitRecord::Blank { bytes: text.len() - at },
                None => SplitRecord::Incomplete,
            };
        }
        let before = split.fields.len();
        // Most records have no quote at the start of a field, and are one line.
        let quote = self.quote.unwrap_or(b'\n');
        let mut start = at;
        let mut position = at;
        if self.escape.is_some() || (self.quote.is_some() && first == quote) {
            return self.quoted_record(text, at, last, width, split);
        }
        loop {
            let Some(&byte) = text.get(position) else {
                if !last {
                    return SplitRecord::Incomplete;
                }
                break;
            };
            if byte == self.delimiter {
                split.fields.push((start as u32, position as u32));
                start = position + 1;
                if self.quote.is_some() && text.get(start) == Some(&quote) {
                    split.fields.truncate(before);
                    return self.quoted_record(text, at, last, width, split);
                }
            } else if byte == b'\n' {
                break;
            }
            position += 1;
        }
        let end = if position > start && text[position - 1] == b'\r' { position - 1 } else { position };
        split.fields.push((start as u32, end as u32));
        let bytes = (position + 1).min(text.len()) - at;
        match split.fields.len() - before {
            found if width == usize::MAX || found == width => SplitRecord::Row { bytes, lines: 1 },
            found => SplitRecord::Bad { bytes, lines: 1, reason: BadRecord::Width(found) },
        }
    }

    /// As `record_at`, for records with quotes or escapes.
    fn quoted_record(
        &self,
        text: &[u8],
        at: usize,
        last: bool,
        width: usize,
        split: &mut Split,
    ) -> SplitRecord {
        let before = split.fields.len();
        let mut position = at;
        loop {
            position = match self.quoted_field(text, position, last, split) {
                FieldEnd::Delimiter(next) => next,
                FieldEnd::Record(next) => {
                    let lines = memchr::memchr_iter(b'\n', &text[at..next]).count() as u64;
                    // The last line of a file may have no end.
                    let lines = lines + u64::from(text[next - 1] != b'\n');
                    let found = split.fields.len() - before;
                    if width == usize::MAX || found == width {
                        return SplitRecord::Row { bytes: next - at, lines };
                    }
                    return self.bad_first_line(text, at, BadRecord::Width(found));
                }
                FieldEnd::Incomplete => return SplitRecord::Incomplete,
                FieldEnd::Bad(reason) => return self.bad_first_line(text, at, reason),
            };
        }
    }

    fn bad_first_line(&self, text: &[u8], at: usize, reason: BadRecord) -> SplitRecord {
        let bytes = memchr::memchr(b'\n', &text[at..]).map_or(text.len() - at, |end| end + 1);
        SplitRecord::Bad { bytes, lines: 1, reason }
    }

    /// Splits one field; `position` is its first byte, or the end of the text.
    fn quoted_field(&self, text: &[u8], mut position: usize, last: bool, split: &mut Split) -> FieldEnd {
        let quoted = self.quote.is_some() && text.get(position).copied() == self.quote;
        position += usize::from(quoted);
        let mut start = position;
        let rewritten_start = split.rewritten.len();
        let mut rewrites = false;
        let mut closed = false;
        let next = loop {
            let Some(&byte) = text.get(position) else {
                match (last, quoted && !closed) {
                    (false, _) => return FieldEnd::Incomplete,
                    (true, true) => return FieldEnd::Bad(BadRecord::QuoteNotClosed),
                    (true, false) => break FieldEnd::Record(position),
                }
            };
            if self.escape == Some(byte)
                && !closed
                && text.get(position + 1).is_some_and(|&next| next != b'\n')
            {
                split.rewritten.extend_from_slice(&text[start..position]);
                (start, rewrites) = (position + 1, true);
                position += 2;
            } else if quoted && !closed {
                if Some(byte) != self.quote {
                    position += 1;
                } else if text.get(position + 1).copied() == self.quote {
                    split.rewritten.extend_from_slice(&text[start..=position]);
                    (start, rewrites) = (position + 2, true);
                    position += 2;
                } else if position + 1 == text.len() && !last {
                    // It may be the first half of a doubled quote.
                    return FieldEnd::Incomplete;
                } else {
                    closed = true;
                    if rewrites {
                        split.rewritten.extend_from_slice(&text[start..position]);
                    } else {
                        split.fields.push((start as u32, position as u32));
                    }
                    position += 1;
                    start = position;
                }
            } else if byte == self.delimiter {
                break FieldEnd::Delimiter(position + 1);
            } else if byte == b'\n' {
                break FieldEnd::Record(position + 1);
            } else if closed && byte != b'\r' && byte != b' ' {
                return FieldEnd::Bad(BadRecord::TextAfterQuote);
            } else {
                position += 1;
            }
        };
        if !closed {
            let line_end =
                matches!(next, FieldEnd::Record(_)) && position > start && text[position - 1] == b'\r';
            let end = position - usize::from(line_end);
            if rewrites {
                split.rewritten.extend_from_slice(&text[start..end]);
            } else {
                split.fields.push((start as u32, end as u32));
            }
        }
        if rewrites {
            let (from, to) = (rewritten_start as u32, split.rewritten.len() as u32);
            split.fields.push((from | REWRITTEN, to | REWRITTEN));
        }
        next
    }
}

enum FieldEnd {
    /// Position after the delimiter.
    Delimiter(usize),
    /// Position after the record.
    Record(usize),
    Incomplete,
    Bad(BadRecord),
}
