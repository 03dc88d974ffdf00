//! Writes between leaving our hands and having left the program, in the order in which they were written.

use std::collections::VecDeque;
use std::sync::Arc;

use laxity_connect::Output;
use laxity_graph::{EventTime, ProcessingTime};
use laxity_runtime::{InFlight, Outlet};
use laxity_sched::Stamps;

use crate::clock::Clock;
use crate::fault::Fault;

/// Writes of one output.
#[derive(Default)]
pub(super) struct UnderWay {
    writes: VecDeque<Sent>,
    /// Of those that have not left.
    pub bytes: u64,
    pub rows: u64,
}

/// What went in one write, and what comes to its end with it.
struct Sent {
    parts: Vec<(Arc<Outlet>, InFlight, Part)>,
    /// The output will say what has become of it; else nothing was written.
    is_told: bool,
    since: ProcessingTime,
}

/// What one has in a write.
pub(super) enum Part {
    Rows {
        rows: u32,
        stamps: Stamps,
        window_end: Option<EventTime>,
        ready: ProcessingTime,
        /// Not dropped.
        is_written: bool,
    },
    /// It has no more.
    End,
}

/// So much may be under way at an output: more than brokers take in one request, and less than what credit allows.
pub(super) const UNDER_WAY_BYTES_MAX: u64 = 1 << 20;

impl UnderWay {
    pub fn is_empty(&self) -> bool {
        self.writes.is_empty()
    }

    /// Since when the first of them is on its way.
    pub fn since(&self) -> Option<ProcessingTime> {
        self.writes.front().map(|sent| sent.since)
    }

    pub fn clear(&mut self) {
        *self = UnderWay::default();
    }

    pub fn push(&mut self, parts: Vec<(Arc<Outlet>, InFlight, Part)>, is_told: bool, now: ProcessingTime) {
        if parts.is_empty() {
            return;
        }
        for (_, in_flight, _) in &parts {
            self.bytes += in_flight.bytes.unsigned_abs();
            self.rows += in_flight.rows.unsigned_abs();
        }
        self.writes.push_back(Sent { parts, is_told, since: now });
    }

    /// Accounts for those that have arrived, and adds them to what is done; true if one has ended that had not failed.
    pub fn settle(
        &mut self,
        mut output: Option<&mut (dyn Output + 'static)>,
        clock: &Clock,
        done: &mut Vec<(Arc<Outlet>, InFlight)>,
    ) -> bool {
        let mut has_kept = false;
        while let Some(first) = self.writes.front() {
            let arrived = match &mut output {
                Some(output) if first.is_told => output.arrived(),
                _ => Some(Ok(())),
            };
            let Some(arrived) = arrived.map(|arrived| arrived.map_err(Fault::from)) else { break };
            let Some(Sent { parts, .. }) = self.writes.pop_front() else { break };
            let now = clock.now();
            for (outlet, in_flight, part) in parts {
                self.bytes -= in_flight.bytes.unsigned_abs();
                self.rows -= in_flight.rows.unsigned_abs();
                match part {
                    Part::Rows { rows, stamps, window_end, ready, is_written } => {
                        match &arrived {
                            Ok(()) if is_written => outlet.count(rows, &stamps, window_end, ready, now),
                            Err(fault) if is_written => fault.end(&outlet.query),
                            _ => {}
                        }
                        outlet.written(&stamps);
                    }
                    Part::End => {
                        has_kept |= !outlet.query.failed();
                        outlet.closed();
                    }
                }
                done.push((outlet, in_flight));
            }
        }
        has_kept
    }
}
