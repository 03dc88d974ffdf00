//! What a simulation tells of itself. Two runs are the same if the digests of their events are.

use std::fmt;

use laxity_graph::{EventTime, ProcessingTime};

/// What happened, as seen from outside: what traces are made of and what checkers watch.
///
/// Operators, queries and messages are numbered over the whole simulation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Event {
    /// A query starts: its operators are known from now on.
    Deployed { query: u32 },
    /// A message waits for its operator.
    Enqueued {
        machine: u32,
        operator: u32,
        channel: u32,
        message: u64,
        rows: u32,
        bytes: u64,
        ingested: ProcessingTime,
    },
    /// A core begins to run an operator: with this message, or to go on with what it left.
    Granted { machine: u32, core: u32, operator: u32, message: Option<u64> },
    /// The run takes this message too.
    Merged { machine: u32, core: u32, operator: u32, message: u64 },
    /// The run is over.
    Finished { machine: u32, core: u32, operator: u32, rows_in: u32, late_rows: u64, more: bool },
    /// An operator sends rows to those it feeds, once for every edge; a sink writes them.
    Sent { operator: u32, rows: u32 },
    /// An operator tells those below how far it is.
    Watermark { operator: u32, watermark: EventTime },
    /// Nothing is there for the core to do.
    Idle { machine: u32, core: u32 },
    /// A source holds arrivals back.
    Held { operator: u32 },
    /// Rows were dropped before they were admitted, to shed load.
    Shed { operator: u32, rows: u32 },
    /// A result was written.
    Result { query: u32, rows: u32, ingested: ProcessingTime },
    /// Another policy rules a machine.
    Switched { machine: u32 },
    /// An operator with a thread of its own sleeps, and needs no core.
    Slept { operator: u32 },
    /// It goes on with what it left.
    Woke { operator: u32 },
}

/// A running digest of all events, and their text if asked for.
#[derive(Debug)]
pub(crate) struct Trace {
    pub digest: u64,
    pub text: Option<String>,
}

impl Trace {
    pub fn new(keep_text: bool) -> Trace {
        Trace { digest: 0, text: keep_text.then(String::new) }
    }

    pub fn on(&mut self, at: ProcessingTime, event: &Event) {
        let words = event.words();
        self.mix(at.0);
        words.into_iter().for_each(|word| self.mix(word));
        if let Some(text) = &mut self.text {
            use fmt::Write;
            let _ = writeln!(text, "{:>15} {event}", at.0);
        }
    }

    /// One round of SplitMix64's finaliser: cheap, and no bit of the past is lost.
    fn mix(&mut self, word: u64) {
        let mut z = (self.digest ^ word).wrapping_add(0x9e37_79b9_7f4a_7c15);
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        self.digest = z ^ (z >> 27);
    }
}

impl Event {
    fn words(&self) -> [u64; 3] {
        let pair = |high: u32, low: u32| u64::from(high) << 32 | u64::from(low);
        match *self {
            Event::Deployed { query } => [1, query.into(), 0],
            Event::Enqueued { operator, channel, message, rows, ingested, .. } => {
                [pair(2, operator), pair(channel, rows), message ^ ingested.0.rotate_left(32)]
            }
            Event::Granted { machine, core, operator, message } => {
                [pair(3, operator), pair(machine, core), message.map_or(u64::MAX, |message| message)]
            }
            Event::Merged { machine, core, operator, message } => {
                [pair(4, operator), pair(machine, core), message]
            }
            Event::Finished { machine, core, operator, rows_in, late_rows, more } => [
                pair(5 | u32::from(more) << 8, operator),
                pair(machine, core),
                u64::from(rows_in) | late_rows << 32,
            ],
            Event::Sent { operator, rows } => [pair(6, operator), rows.into(), 0],
            Event::Watermark { operator, watermark } => [pair(7, operator), watermark.0 as u64, 0],
            Event::Idle { machine, core } => [8, pair(machine, core), 0],
            Event::Held { operator } => [pair(9, operator), 0, 0],
            Event::Shed { operator, rows } => [pair(10, operator), rows.into(), 0],
            Event::Result { query, rows, ingested } => [pair(11, query), rows.into(), ingested.0],
            Event::Switched { machine } => [12, machine.into(), 0],
            Event::Slept { operator } => [pair(13, operator), 0, 0],
            Event::Woke { operator } => [pair(14, operator), 0, 0],
        }
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Event::Deployed { query } => write!(f, "deployed   query {query}"),
            Event::Enqueued { machine, operator, channel, message, rows, bytes, ingested } => write!(
                f,
                "enqueued   operator {operator} channel {channel} message {message} rows {rows} bytes {bytes} ingested {} machine {machine}",
                ingested.0
            ),
            Event::Granted { machine, core, operator, message } => {
                write!(f, "granted    operator {operator} machine {machine} core {core} ")?;
                match message {
                    Some(message) => write!(f, "message {message}"),
                    None => f.write_str("to go on"),
                }
            }
            Event::Merged { machine, core, operator, message } => {
                write!(f, "merged     operator {operator} machine {machine} core {core} message {message}")
            }
            Event::Finished { machine, core, operator, rows_in, late_rows, more } => {
                write!(
                    f,
                    "finished   operator {operator} machine {machine} core {core} rows {rows_in} late {late_rows}"
                )?;
                if more { f.write_str(" more") } else { Ok(()) }
            }
            Event::Sent { operator, rows } => write!(f, "sent       operator {operator} rows {rows}"),
            Event::Watermark { operator, watermark } => {
                write!(f, "watermark  operator {operator} {watermark}")
            }
            Event::Idle { machine, core } => write!(f, "idle       machine {machine} core {core}"),
            Event::Held { operator } => write!(f, "held       operator {operator}"),
            Event::Shed { operator, rows } => write!(f, "shed       operator {operator} rows {rows}"),
            Event::Result { query, rows, ingested } => {
                write!(f, "result     query {query} rows {rows} ingested {}", ingested.0)
            }
            Event::Switched { machine } => write!(f, "switched   machine {machine}"),
            Event::Slept { operator } => write!(f, "slept      operator {operator}"),
            Event::Woke { operator } => write!(f, "woke       operator {operator}"),
        }
    }
}
