//! Why a result was late: its latency split into parts that sum to it exactly.
//!
//! A driver carries [`Stamps`] with every batch, adds each hop, and at the sink records the [`Parts`] in the
//! [`Lateness`] of the query. No clock is read here.

use laxity_graph::ProcessingTime;

/// What a batch remembers of its way so far. Per batch, never per row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Stamps {
    /// When the last event in it was due to arrive (open loop: the intended arrival).
    pub ingested: ProcessingTime,
    /// When it entered the first mailbox.
    pub admitted: ProcessingTime,
    /// Time spent in mailboxes.
    pub queue_ns: u64,
    /// Time spent in operators.
    pub execute_ns: u64,
}

impl Stamps {
    /// A batch enters the first mailbox.
    pub fn admitted(ingested: ProcessingTime, admitted: ProcessingTime) -> Stamps {
        Stamps { ingested, admitted, queue_ns: 0, execute_ns: 0 }
    }

    /// One operator more: it waited from `enqueued` to `started` and was worked on until `finished`. A run that
    /// was interrupted between resumptions counts as worked on; a driver that knows better subtracts.
    #[must_use]
    pub fn hop(self, enqueued: ProcessingTime, started: ProcessingTime, finished: ProcessingTime) -> Stamps {
        Stamps {
            queue_ns: self.queue_ns.saturating_add(started.since_ns(enqueued)),
            execute_ns: self.execute_ns.saturating_add(finished.since_ns(started)),
            ..self
        }
    }

    /// The stamps of a result that was held back for a frontier, where these are those of the message that
    /// released it and `ingested` is the last event in the result.
    ///
    /// The way to the operator was that of the releasing message, as near as one can tell without keeping
    /// stamps per window; what lies between is found to be waiting for the frontier.
    #[must_use]
    pub fn released(self, ingested: ProcessingTime) -> Stamps {
        let source_ns = self.admitted.since_ns(self.ingested);
        Stamps { ingested, admitted: ingested.plus_ns(source_ns), ..self }
    }

    /// Splits the latency of a result that reached its sink at `reached` and was written at `written`.
    ///
    /// Where parts overlap so that they exceed the latency, the later in the order source, sink, execute,
    /// queue is cut. Waiting for the frontier is what nothing else explains.
    pub fn parts(&self, reached: ProcessingTime, written: ProcessingTime) -> Parts {
        let mut left_ns = written.since_ns(self.ingested);
        let mut take = |part_ns: u64| {
            let part_ns = part_ns.min(left_ns);
            left_ns -= part_ns;
            part_ns
        };
        let source_ns = take(self.admitted.since_ns(self.ingested));
        let sink_ns = take(written.since_ns(reached));
        let execute_ns = take(self.execute_ns);
        let queue_ns = take(self.queue_ns);
        Parts { source_ns, queue_ns, execute_ns, frontier_ns: left_ns, sink_ns }
    }
}

/// A latency, or a sum of latencies, by cause.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Parts {
    /// Between the intended arrival and the first mailbox: a slow or held-back source.
    pub source_ns: u64,
    /// In mailboxes: other work went first.
    pub queue_ns: u64,
    /// In operators.
    pub execute_ns: u64,
    /// In a window or join, until the watermark released it.
    pub frontier_ns: u64,
    /// In the sink.
    pub sink_ns: u64,
}

/// Where time went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// At the source.
    Source,
    /// In mailboxes.
    Queue,
    /// In operators.
    Execute,
    /// Waiting for the watermark.
    Frontier,
    /// In the sink.
    Sink,
}

impl Cause {
    /// All causes, in the order a result meets them.
    pub const ALL: [Cause; 5] = [Cause::Source, Cause::Queue, Cause::Execute, Cause::Frontier, Cause::Sink];

    /// As reports name it.
    pub fn name(self) -> &'static str {
        match self {
            Cause::Source => "source",
            Cause::Queue => "queue",
            Cause::Execute => "execute",
            Cause::Frontier => "frontier",
            Cause::Sink => "sink",
        }
    }
}

impl Parts {
    /// The whole latency.
    pub fn latency_ns(&self) -> u64 {
        Cause::ALL.iter().fold(0, |sum: u64, &cause| sum.saturating_add(self.of(cause)))
    }

    /// The part of one cause.
    pub fn of(&self, cause: Cause) -> u64 {
        match cause {
            Cause::Source => self.source_ns,
            Cause::Queue => self.queue_ns,
            Cause::Execute => self.execute_ns,
            Cause::Frontier => self.frontier_ns,
            Cause::Sink => self.sink_ns,
        }
    }

    /// The largest part; among equals the one met first.
    pub fn cause(&self) -> Cause {
        let mut largest = Cause::Source;
        for cause in Cause::ALL {
            if self.of(cause) > self.of(largest) {
                largest = cause;
            }
        }
        largest
    }

    fn add(&mut self, other: &Parts) {
        self.source_ns = self.source_ns.saturating_add(other.source_ns);
        self.queue_ns = self.queue_ns.saturating_add(other.queue_ns);
        self.execute_ns = self.execute_ns.saturating_add(other.execute_ns);
        self.frontier_ns = self.frontier_ns.saturating_add(other.frontier_ns);
        self.sink_ns = self.sink_ns.saturating_add(other.sink_ns);
    }
}

/// The account of one query: how many results kept their target, and why the others did not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Lateness {
    /// Results recorded.
    pub results: u64,
    /// Results within their target.
    pub met: u64,
    /// The latency of the missed ones, summed by part.
    pub missed: Parts,
    /// Missed results by their largest part, in the order of [`Cause::ALL`].
    pub missed_because: [u64; 5],
}

impl Lateness {
    /// Takes in one result. True if it kept its target.
    pub fn record(&mut self, target_ns: u64, parts: Parts) -> bool {
        self.results += 1;
        if parts.latency_ns() <= target_ns {
            self.met += 1;
            return true;
        }
        self.missed.add(&parts);
        self.missed_because[parts.cause() as usize] += 1;
        false
    }

    /// Adds the account of another thread.
    pub fn merge(&mut self, other: &Lateness) {
        self.results += other.results;
        self.met += other.met;
        self.missed.add(&other.missed);
        for (mine, theirs) in self.missed_because.iter_mut().zip(other.missed_because) {
            *mine += theirs;
        }
    }

    /// Share of results within their target; 1 where there are none.
    pub fn met_share(&self) -> f64 {
        if self.results == 0 { 1.0 } else { self.met as f64 / self.results as f64 }
    }

    /// Share of the missed latency that a cause is to blame for; 0 where nothing was missed.
    pub fn share(&self, cause: Cause) -> f64 {
        let all_ns = self.missed.latency_ns();
        if all_ns == 0 { 0.0 } else { self.missed.of(cause) as f64 / all_ns as f64 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const fn at(ns: u64) -> ProcessingTime {
        ProcessingTime(ns)
    }

    #[test]
    fn a_regular_result_waits_for_nothing_but_queues() {
        // Due at 100, read at 130, run 150-160 and again 200-215, at the sink 215, written 220.
        let stamps =
            Stamps::admitted(at(100), at(130)).hop(at(130), at(150), at(160)).hop(at(160), at(200), at(215));
        let parts = stamps.parts(at(215), at(220));
        let expected =
            Parts { source_ns: 30, queue_ns: 20 + 40, execute_ns: 10 + 15, frontier_ns: 0, sink_ns: 5 };
        assert_eq!(parts, expected);
        assert_eq!(parts.latency_ns(), 120);
        assert_eq!(parts.cause(), Cause::Queue);
    }

    #[test]
    fn a_window_result_waits_for_the_frontier() {
        // The releasing watermark: due at 1 000, read at 1 010, waits 20, fires in 5. The last row of the window
        // was due at 400, so that 600 of the 640 went by before the watermark was due.
        let watermark = Stamps::admitted(at(1_000), at(1_010)).hop(at(1_010), at(1_030), at(1_035));
        let parts = watermark.released(at(400)).parts(at(1_035), at(1_040));
        let expected = Parts { source_ns: 10, queue_ns: 20, execute_ns: 5, frontier_ns: 600, sink_ns: 5 };
        assert_eq!(parts, expected);
        assert_eq!((parts.latency_ns(), parts.cause()), (640, Cause::Frontier));
    }

    #[test]
    fn only_missed_results_are_explained() {
        let mut lateness = Lateness::default();
        let quick = Parts { execute_ns: 50, ..Parts::default() };
        let slow = Parts { queue_ns: 80, execute_ns: 20, ..Parts::default() };
        assert!(lateness.record(50, quick));
        assert!(!lateness.record(50, slow));
        let mut other = Lateness::default();
        other.record(10, Parts { sink_ns: 100, ..Parts::default() });
        lateness.merge(&other);
        assert_eq!((lateness.results, lateness.met), (3, 1));
        assert_eq!(lateness.missed, Parts { queue_ns: 80, execute_ns: 20, sink_ns: 100, ..Parts::default() });
        assert_eq!(lateness.missed_because, [0, 1, 0, 0, 1]);
        assert_eq!(lateness.share(Cause::Sink), 0.5);
    }

    proptest! {
        #[test]
        fn parts_sum_to_the_latency(
            ingested in 0u64..1_000, admitted in 0u64..2_000, queue_ns in 0u64..2_000,
            execute_ns in 0u64..2_000, reached in 0u64..4_000, written in 0u64..4_000,
        ) {
            let stamps = Stamps { ingested: at(ingested), admitted: at(admitted), queue_ns, execute_ns };
            let parts = stamps.parts(at(reached), at(written));
            prop_assert_eq!(parts.latency_ns(), written.saturating_sub(ingested));
        }
    }
}
