//! The words of a file: its tokens without what stands between them, each with its place.

use std::ops::Range;

use datafusion_sql::sqlparser::tokenizer::{Span, Token, TokenWithSpan, Tokenizer, TokenizerError};

use crate::dialect::FlinkDialect;
use crate::side_by_side::{cores, side_by_side};

/// The words of a file.
///
/// # Errors
/// The first that is none, with its place.
pub(crate) fn words_of(text: &str) -> Result<Vec<TokenWithSpan>, TokenizerError> {
    // A thread costs some 50 µs, and a word a third of one.
    const PIECE_BYTES: usize = 256 << 10;
    words_by(text, PIECE_BYTES, cores())
}

/// The words of a statement.
pub(crate) fn words_within(words: &[TokenWithSpan], span: Span) -> &[TokenWithSpan] {
    let first = words.partition_point(|word| word.span.start < span.start);
    let last = words.partition_point(|word| word.span.start < span.end);
    &words[first..last.max(first)]
}

fn words_by(text: &str, piece_bytes: usize, threads: usize) -> Result<Vec<TokenWithSpan>, TokenizerError> {
    let pieces = pieces(text, piece_bytes);
    let read = side_by_side(&pieces, threads, |piece| words_from(&text[piece.bytes.clone()], piece.line));
    // Of the whole, as the message may name a place.
    let Ok(read) = read else { return words_from(text, 1) };
    let mut words = Vec::with_capacity(read.iter().map(Vec::len).sum());
    read.into_iter().for_each(|piece| words.extend(piece));
    Ok(words)
}

/// The words of a text that begins at the first column of so many-th line of a file.
fn words_from(text: &str, line: u64) -> Result<Vec<TokenWithSpan>, TokenizerError> {
    let mut words = Vec::new();
    let tokens = Tokenizer::new(&FlinkDialect, text).tokenize_with_location()?;
    // What stands between words is half of all: it is not kept.
    words.reserve_exact(tokens.iter().filter(|token| is_word(token)).count());
    words.extend(tokens.into_iter().filter(is_word).map(|mut word| {
        word.span.start.line += line - 1;
        word.span.end.line += line - 1;
        word
    }));
    Ok(words)
}

fn is_word(token: &TokenWithSpan) -> bool {
    !matches!(token.token, Token::Whitespace(_))
}

/// A part of a file that begins with a line.
struct Piece {
    bytes: Range<usize>,
    /// From 1.
    line: u64,
}

/// What a byte stands in.
#[derive(Clone, Copy, PartialEq)]
enum Within {
    Words,
    Quotes(u8),
    LineComment,
    Comment,
}

/// Cuts a text at ends of lines that stand in no quotes and no comment, into pieces of at least so many bytes but for the
/// last.
fn pieces(text: &str, piece_bytes: usize) -> Vec<Piece> {
    let bytes = text.as_bytes();
    let (mut pieces, mut begin, mut begin_line, mut line) = (Vec::new(), 0, 1, 1);
    let (mut within, mut at) = (Within::Words, 0);
    while at < bytes.len() {
        let (byte, next) = (bytes[at], bytes.get(at + 1));
        at += 1;
        line += u64::from(byte == b'\n');
        within = match (within, byte, next) {
            // Dollars can quote too, and comments nest: rare, so that what follows is one piece.
            (Within::Words, b'$', _) | (Within::Comment, b'/', Some(b'*')) => break,
            (Within::Words, b'\'' | b'"' | b'`', _) => Within::Quotes(byte),
            (Within::Words, b'-', Some(b'-')) => Within::LineComment,
            (Within::Words, b'/', Some(b'*')) => {
                at += 1;
                Within::Comment
            }
            // A doubled quote opens again at once.
            (Within::Quotes(quote), _, _) if byte == quote => Within::Words,
            (Within::Comment, b'*', Some(b'/')) => {
                at += 1;
                Within::Words
            }
            (Within::Words | Within::LineComment, b'\n', _) => {
                if at - begin >= piece_bytes {
                    pieces.push(Piece { bytes: begin..at, line: begin_line });
                    (begin, begin_line) = (at, line);
                }
                Within::Words
            }
            _ => within,
        };
    }
    pieces.push(Piece { bytes: begin..bytes.len(), line: begin_line });
    pieces
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn check(text: &str) {
        let whole = words_from(text, 1);
        for piece_bytes in [1, 2, 7, 100] {
            let by_pieces = words_by(text, piece_bytes, 2);
            assert_eq!(by_pieces, whole, "{text:?} in pieces of {piece_bytes}");
        }
    }

    #[test]
    fn a_file_in_pieces_has_the_words_of_the_whole() {
        check(
            "SELECT 'a\nb', -- it's\n \"c\n''\" /* ' \n /* in */ \n */ FROM `t\n`;\n\nSELECT 'it''s\n' FROM u;\r\nSELECT 1",
        );
        check("SELECT $$a\n'$$\n;\nSELECT '");
        check("a -\n- b / \n* c */\n'");
        check("");
        let many = "INSERT INTO s SELECT a, 'x;\ny' FROM t;\n".repeat(50);
        assert!(pieces(&many, 100).len() > 10);
        check(&many);
    }

    proptest! {
        #[test]
        fn any_text_in_pieces_has_the_words_of_the_whole(text in "[a'\"`\n\r \\-/*$;0E]{0,60}") {
            check(&text);
        }
    }
}
