//! What can go wrong in a simulation, and what it does to cores, arrivals and sinks.

use std::time::Duration;

use laxity_graph::{ProcessingTime, QueryId};

/// Something that goes wrong for a while.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Fault {
    /// What.
    pub kind: FaultKind,
    /// When it begins.
    pub from: Duration,
    /// When it is over.
    pub to: Duration,
}

/// What goes wrong.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum FaultKind {
    /// A machine stands still: nothing runs on it and nothing reaches it, as in a long pause of a virtual machine.
    Pause {
        /// Which.
        node: usize,
    },
    /// A core takes longer for everything.
    Straggler {
        /// Of which machine.
        node: usize,
        /// Which of its cores.
        core: usize,
        /// How many times longer; at least 1.
        factor: f64,
    },
    /// More rows arrive in every batch.
    Burst {
        /// At which query; `None`: at all.
        query: Option<QueryId>,
        /// How many times more.
        factor: f64,
    },
    /// Nothing arrives; what would have does when it is over, with the event times that it had.
    Silence {
        /// At which query, and who shares a table that it was the first to read; `None`: at all.
        query: Option<QueryId>,
    },
    /// Sinks take results and do not write them before it is over.
    Stall {
        /// Of which query; `None`: all.
        query: Option<QueryId>,
    },
}

/// How fast cores are, from the faults that concern them.
#[derive(Debug, Default)]
pub(crate) struct Speeds {
    /// From, to, time that a nanosecond of work takes; `None`: it does not get done. By machine and core.
    intervals: Vec<Interval>,
}

#[derive(Clone, Copy, Debug)]
struct Interval {
    node: usize,
    core: Option<usize>,
    from_ns: u64,
    to_ns: u64,
    factor: f64,
}

impl Speeds {
    pub fn new(faults: &[Fault]) -> Speeds {
        let ns = |at: Duration| ProcessingTime::ZERO.plus(at).0;
        let interval = |fault: &Fault| {
            let (node, core, factor) = match fault.kind {
                FaultKind::Pause { node } => (node, None, f64::INFINITY),
                FaultKind::Straggler { node, core, factor } => (node, Some(core), factor.max(1.0)),
                FaultKind::Burst { .. } | FaultKind::Silence { .. } | FaultKind::Stall { .. } => return None,
            };
            Some(Interval { node, core, from_ns: ns(fault.from), to_ns: ns(fault.to), factor })
        };
        Speeds { intervals: faults.iter().filter_map(interval).collect() }
    }

    /// When `work_ns` begun at `start` is done.
    pub fn done(&self, node: usize, core: usize, start: ProcessingTime, work_ns: u64) -> ProcessingTime {
        if self.intervals.is_empty() {
            return start.plus_ns(work_ns);
        }
        let (mut now_ns, mut left_ns) = (start.0, work_ns as f64);
        loop {
            let mut factor = 1.0_f64;
            let mut until_ns = u64::MAX;
            for interval in &self.intervals {
                if interval.node != node || interval.core.is_some_and(|other| other != core) {
                    continue;
                }
                if (interval.from_ns..interval.to_ns).contains(&now_ns) {
                    factor = factor.max(interval.factor);
                    until_ns = until_ns.min(interval.to_ns);
                } else if interval.from_ns > now_ns {
                    until_ns = until_ns.min(interval.from_ns);
                }
            }
            let room_ns = (until_ns - now_ns) as f64 / factor;
            // A pause has no room; what is left of nothing is still done at its start.
            if left_ns <= room_ns || until_ns == u64::MAX {
                return ProcessingTime(now_ns.saturating_add((left_ns * factor).round() as u64));
            }
            left_ns -= room_ns;
            now_ns = until_ns;
        }
    }

    /// Until when the machine stands still.
    pub fn paused_until(&self, node: usize, now: ProcessingTime) -> Option<ProcessingTime> {
        let ends = self
            .intervals
            .iter()
            .filter(|i| i.node == node && i.factor.is_infinite() && (i.from_ns..i.to_ns).contains(&now.0));
        ends.map(|interval| ProcessingTime(interval.to_ns)).max()
    }
}

/// By how much arrivals are multiplied.
pub(crate) fn burst(faults: &[Fault], query: QueryId, at: ProcessingTime) -> f64 {
    let mut factor = 1.0;
    for fault in faults {
        if let FaultKind::Burst { query: only, factor: more } = fault.kind
            && only.is_none_or(|only| only == query)
            && at >= ProcessingTime::ZERO.plus(fault.from)
            && at < ProcessingTime::ZERO.plus(fault.to)
        {
            factor *= more.max(0.0);
        }
    }
    factor
}

/// When what was to arrive then does.
pub(crate) fn after_silence(faults: &[Fault], query: QueryId, at: ProcessingTime) -> ProcessingTime {
    let mut at = at;
    // One silence may end in another.
    while let Some(end) = faults.iter().find_map(|fault| match fault.kind {
        FaultKind::Silence { query: only } if only.is_none_or(|only| only == query) => {
            let end = ProcessingTime::ZERO.plus(fault.to);
            (at >= ProcessingTime::ZERO.plus(fault.from) && at < end).then_some(end)
        }
        _ => None,
    }) {
        at = end;
    }
    at
}

/// Until when the sinks of a query write nothing.
pub(crate) fn stalled_until(faults: &[Fault], query: QueryId, now: ProcessingTime) -> Option<ProcessingTime> {
    let ends = faults.iter().filter_map(|fault| match fault.kind {
        FaultKind::Stall { query: only } if only.is_none_or(|only| only == query) => {
            let (from, to) = (ProcessingTime::ZERO.plus(fault.from), ProcessingTime::ZERO.plus(fault.to));
            // Its end belongs to it: what came before is written first.
            (from..=to).contains(&now).then_some(to)
        }
        _ => None,
    });
    ends.max()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fault(kind: FaultKind, from_ms: u64, to_ms: u64) -> Fault {
        Fault { kind, from: Duration::from_millis(from_ms), to: Duration::from_millis(to_ms) }
    }

    const fn ms(ms: u64) -> u64 {
        ms * 1_000_000
    }

    #[test]
    fn work_is_stretched_by_what_it_meets() {
        let speeds = Speeds::new(&[
            fault(FaultKind::Pause { node: 0 }, 10, 20),
            fault(FaultKind::Straggler { node: 0, core: 1, factor: 2.0 }, 30, 40),
        ]);
        let done = |core, start, work| speeds.done(0, core, ProcessingTime(ms(start)), ms(work)).0;
        assert_eq!(done(0, 0, 10), ms(10));
        // 5 before the pause, 3 after it.
        assert_eq!(done(0, 5, 8), ms(23));
        // The pause, 10 at full speed until 30, 5 in 10 while slow, 1 after.
        assert_eq!(done(1, 12, 16), ms(41));
        assert_eq!(done(0, 12, 16), ms(36));
        assert_eq!(speeds.done(1, 1, ProcessingTime(ms(5)), ms(8)).0, ms(13));
        assert_eq!(speeds.paused_until(0, ProcessingTime(ms(19))), Some(ProcessingTime(ms(20))));
        assert_eq!(speeds.paused_until(0, ProcessingTime(ms(20))), None);
    }

    #[test]
    fn bursts_multiply() {
        let faults = [
            fault(FaultKind::Burst { query: None, factor: 2.0 }, 0, 10),
            fault(FaultKind::Burst { query: Some(QueryId(1)), factor: 3.0 }, 5, 10),
        ];
        let at = |query, at| burst(&faults, QueryId(query), ProcessingTime(ms(at)));
        assert_eq!([at(0, 7), at(1, 7), at(1, 4), at(1, 10)], [2.0, 6.0, 2.0, 1.0]);
    }

    #[test]
    fn what_arrives_in_silence_does_when_it_is_over() {
        let faults = [
            fault(FaultKind::Silence { query: Some(QueryId(1)) }, 10, 20),
            fault(FaultKind::Silence { query: None }, 20, 25),
        ];
        let at = |query, at| after_silence(&faults, QueryId(query), ProcessingTime(ms(at))).0 / ms(1);
        assert_eq!([at(1, 9), at(1, 10), at(1, 25), at(0, 10), at(0, 20)], [9, 25, 25, 10, 25]);
    }

    #[test]
    fn a_stall_ends_with_its_last_instant() {
        let faults = [fault(FaultKind::Stall { query: Some(QueryId(1)) }, 10, 20)];
        let until = |query, at| stalled_until(&faults, QueryId(query), ProcessingTime(ms(at)));
        let end = Some(ProcessingTime(ms(20)));
        assert_eq!(
            [until(1, 9), until(1, 10), until(1, 20), until(1, 21), until(0, 15)],
            [None, end, end, None, None]
        );
    }
}
