//! The list of debts behind every figure of lateness: a query that stalls looks worse with time, and never better.

use std::collections::VecDeque;

use laxity_graph::{EventTime, ProcessingTime};

/// Results that are due and not out: what a query would be forgiven if only results that came out were counted.
///
/// A result is owed from the arrival that makes it due. The driver says so of four kinds: a row held back at the
/// source of a query without windows ([`due`](Owed::due) by its arrival), a message between the operators of such a
/// query or in the hands of one, a batch on its way into a sink (both by the arrival they are stamped with), and a
/// window whose end a watermark has passed at the source ([`window_due`](Owed::window_due)). A row inside a window
/// that is still open is not owed, however long the scheduler lets it wait: nothing has to come out for it yet.
///
/// Roughly, and never too much. Arrivals are counted in spans of time, and due windows in groups, at most
/// [`GROUPS_MAX`] of each: when there are more, neighbours are joined, so that the older a thing is the less precisely
/// its age is known, to about an eighth of it. A group is overdue when the last arrival in it is.
#[derive(Clone, Debug)]
pub(crate) struct Owed {
    spans: VecDeque<Span>,
    /// Spans begin at least so far apart.
    span_ns: u64,
    span_ns_least: u64,
    windows: VecDeque<DueWindows>,
    /// Windows in a group, but for the oldest, which stays alone: its age is what is shown.
    group: u32,
    /// Windows up to this end are out.
    windows_out: EventTime,
}

/// Arrivals from `first` to `last`. Every arrival that is owed lies in the last span that begins before it: a new
/// span begins only after the `last` of the one before, so it takes none of its arrivals away.
#[derive(Clone, Copy, Debug)]
struct Span {
    first: ProcessingTime,
    last: ProcessingTime,
    count: u32,
}

/// Windows with successive ends; end and arrival are those of the last.
#[derive(Clone, Copy, Debug)]
struct DueWindows {
    end: EventTime,
    arrival: ProcessingTime,
    count: u32,
}

/// How many spans, and how many groups of windows, are told apart.
const GROUPS_MAX: usize = 16;

impl Owed {
    /// Nothing is owed yet. An age is told to about an eighth of the target, or of itself if that is longer.
    pub(crate) fn new(target_ns: u64) -> Owed {
        let span_ns = (target_ns / 8).max(1);
        Owed {
            spans: VecDeque::new(),
            span_ns,
            span_ns_least: span_ns,
            windows: VecDeque::new(),
            group: 1,
            windows_out: EventTime::MIN,
        }
    }

    /// Another target from now on. What is owed keeps the spans it was counted in until all of it is out.
    pub(crate) fn alter(&mut self, target_ns: u64) {
        self.span_ns_least = (target_ns / 8).max(1);
        if self.spans.is_empty() {
            self.span_ns = self.span_ns_least;
        }
    }

    /// From now on a result is owed for that arrival.
    pub(crate) fn due(&mut self, arrival: ProcessingTime) {
        let begun = self.spans.partition_point(|span| span.first <= arrival);
        if let Some(span) = begun.checked_sub(1).map(|place| &mut self.spans[place])
            && (arrival <= span.last || arrival < span.first.plus_ns(self.span_ns))
        {
            span.last = span.last.max(arrival);
            span.count += 1;
            return;
        }
        self.spans.insert(begun, Span { first: arrival, last: arrival, count: 1 });
        if self.spans.len() > GROUPS_MAX {
            self.span_ns = self.span_ns.saturating_mul(2);
            join_neighbours(&mut self.spans, |a, b| Span {
                first: a.first,
                last: b.last,
                count: a.count + b.count,
            });
        }
    }

    /// What was owed for that arrival is out, or will never be: as often as [`due`](Owed::due) was said of it.
    pub(crate) fn out(&mut self, arrival: ProcessingTime) {
        let begun = self.spans.partition_point(|span| span.first <= arrival);
        let Some(place) = begun.checked_sub(1) else {
            debug_assert!(false, "{arrival:?} was never due: {:?}", self.spans);
            return;
        };
        self.spans[place].count -= 1;
        if self.spans[place].count == 0 {
            self.spans.remove(place);
        }
        if self.spans.is_empty() {
            self.span_ns = self.span_ns_least;
        }
    }

    /// The watermark has passed the end of a window at the source, by rows of that arrival.
    pub(crate) fn window_due(&mut self, end: EventTime, arrival: ProcessingTime) {
        let last = self.windows.back().map_or(self.windows_out, |windows| windows.end);
        if end <= last {
            return;
        }
        let oldest_is_last = self.windows.len() == 1;
        match self.windows.back_mut() {
            Some(last) if last.count < self.group && !oldest_is_last => {
                *last = DueWindows { end, arrival, count: last.count + 1 };
            }
            _ => self.windows.push_back(DueWindows { end, arrival, count: 1 }),
        }
        if self.windows.len() > GROUPS_MAX {
            self.group *= 2;
            let oldest = self.windows.pop_front().expect("there are more than a few");
            join_neighbours(&mut self.windows, |a, b| DueWindows { count: a.count + b.count, ..b });
            self.windows.push_front(oldest);
        }
    }

    /// All windows are out that end a millisecond behind the watermark or before.
    pub(crate) fn windows_out(&mut self, watermark: EventTime) {
        let end = EventTime(watermark.0.saturating_add(1));
        self.windows_out = self.windows_out.max(end);
        while self.windows.pop_front_if(|windows| windows.end <= end).is_some() {}
        if self.windows.is_empty() {
            self.group = 1;
        }
    }

    /// End of the first window that is owed.
    pub(crate) fn next_window(&self) -> Option<EventTime> {
        self.windows.front().map(|windows| windows.end)
    }

    /// The arrival that has been owed a result for longest.
    pub(crate) fn oldest(&self) -> Option<ProcessingTime> {
        let span = self.spans.front().map(|span| span.first);
        let window = self.windows.front().map(|windows| windows.arrival);
        span.into_iter().chain(window).min()
    }

    /// Results owed for longer than `target_ns`: they have missed it already.
    pub(crate) fn overdue(&self, now: ProcessingTime, target_ns: u64) -> u64 {
        self.sum(|last| now.since_ns(last) > target_ns)
    }

    /// Results owed.
    #[cfg(test)]
    pub(crate) fn count(&self) -> u64 {
        self.sum(|_| true)
    }

    fn sum(&self, which: impl Fn(ProcessingTime) -> bool) -> u64 {
        let spans = self.spans.iter().map(|span| (span.last, span.count));
        let windows = self.windows.iter().map(|windows| (windows.arrival, windows.count));
        spans.chain(windows).filter(|&(last, _)| which(last)).map(|(_, count)| u64::from(count)).sum()
    }

    #[cfg(test)]
    pub(crate) fn heap_bytes(&self) -> usize {
        self.spans.capacity() * size_of::<Span>() + self.windows.capacity() * size_of::<DueWindows>()
    }
}

/// Makes one of every two, in place.
fn join_neighbours<T: Copy>(groups: &mut VecDeque<T>, join: impl Fn(T, T) -> T) {
    let joined = groups.len().div_ceil(2);
    for place in 0..joined {
        let first = groups[2 * place];
        groups[place] = groups.get(2 * place + 1).map_or(first, |&second| join(first, second));
    }
    groups.truncate(joined);
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    const fn at(ms: u64) -> ProcessingTime {
        ProcessingTime(ms * MS)
    }

    const MS: u64 = 1_000_000;
    const TARGET_NS: u64 = 80 * MS;

    #[test]
    fn a_result_is_missed_from_its_target_on() {
        let mut owed = Owed::new(TARGET_NS);
        owed.due(at(100));
        assert_eq!(owed.oldest(), Some(at(100)));
        assert_eq!(owed.overdue(at(180), TARGET_NS), 0);
        assert_eq!(owed.overdue(at(181), TARGET_NS), 1);
        owed.out(at(100));
        assert_eq!((owed.oldest(), owed.overdue(at(999), TARGET_NS), owed.count()), (None, 0, 0));
    }

    #[test]
    fn a_sink_that_stalls_shows_how_long_and_how_much() {
        // A result every 10 ms; the sink writes none from 1 s to 21 s, and then all.
        let mut owed = Owed::new(TARGET_NS);
        for ms in (0..1_000).step_by(10) {
            owed.due(at(ms));
            owed.out(at(ms));
        }
        (1_000..21_000).step_by(10).for_each(|ms| owed.due(at(ms)));
        assert_eq!((owed.oldest(), owed.count()), (Some(at(1_000)), 2_000));
        // All but those of the last 80 ms, to an eighth.
        let overdue = owed.overdue(at(21_000), TARGET_NS);
        assert!((1_750..=1_992).contains(&overdue), "{overdue}");
        assert!(owed.heap_bytes() <= 32 * size_of::<Span>(), "{}", owed.heap_bytes());
        for ms in (1_000..21_000).step_by(10) {
            let oldest = owed.oldest().unwrap();
            assert!(oldest <= at(ms) && at(21_000).since_ns(oldest) <= 20_000 * MS);
            owed.out(at(ms));
        }
        assert_eq!((owed.oldest(), owed.count()), (None, 0));
    }

    #[test]
    fn a_window_is_owed_until_its_watermark_is_out() {
        let end = |second: i64| EventTime(1_000 * second);
        let mut owed = Owed::new(TARGET_NS);
        owed.window_due(end(1), at(1_005));
        owed.window_due(end(2), at(2_005));
        assert_eq!((owed.count(), owed.oldest(), owed.next_window()), (2, Some(at(1_005)), Some(end(1))));
        assert_eq!(owed.overdue(at(2_050), TARGET_NS), 1);
        owed.windows_out(EventTime(1_998));
        assert_eq!((owed.count(), owed.oldest()), (1, Some(at(2_005))));
        owed.windows_out(EventTime(1_999));
        assert_eq!(owed.count(), 0, "it ended then");
        owed.windows_out(EventTime::MAX);
        // What is out already is not owed when the source hears of it late.
        owed.window_due(EventTime::MAX, at(3_000));
        assert_eq!((owed.count(), owed.next_window()), (0, None));
    }

    #[test]
    fn many_windows_behind_are_counted_in_groups() {
        let mut owed = Owed::new(TARGET_NS);
        for window in 1..=1_000 {
            owed.window_due(EventTime(100 * window), at(100 * window as u64));
        }
        assert_eq!((owed.count(), owed.oldest()), (1_000, Some(at(100))));
        let overdue = owed.overdue(at(100_000), TARGET_NS);
        assert!((850..1_000).contains(&overdue), "{overdue}");
        // Half of them come out: of the others none is forgotten, and none is said to be older than it is.
        owed.windows_out(EventTime(50_000));
        assert!((500..=625).contains(&owed.count()), "{}", owed.count());
        assert!(owed.oldest().unwrap() > at(50_000));
        owed.windows_out(EventTime(100_000));
        assert_eq!(owed.count(), 0);
    }

    proptest! {
        /// Against a list of every arrival, in virtual time that mostly goes on; what is due goes out in any order.
        #[test]
        fn it_never_owes_too_much(
            steps in prop::collection::vec((0u64..60, 0u64..30, any::<prop::sample::Index>(), 0u32..5), 1..400),
        ) {
            let mut owed = Owed::new(TARGET_NS);
            let mut model: BTreeMap<u64, u32> = BTreeMap::new();
            let mut now_ms = 100;
            for (pass_ms, ago_ms, which, outs) in steps {
                now_ms += pass_ms;
                owed.due(at(now_ms - ago_ms));
                *model.entry(now_ms - ago_ms).or_default() += 1;
                // One comes in; none to four go out, so that the backlog grows and shrinks.
                for _ in 0..outs.saturating_sub(2) {
                    let Some(&ms) = (!model.is_empty()).then(|| which.get(&model.keys().copied().collect::<Vec<_>>()).to_owned()).as_ref() else { break };
                    owed.out(at(ms));
                    let count = model.get_mut(&ms).unwrap();
                    *count -= 1;
                    if *count == 0 { model.remove(&ms); }
                }
                prop_assert_eq!(owed.count(), model.values().map(|&count| u64::from(count)).sum::<u64>());
                let overdue: u64 =
                    model.iter().filter(|&(&ms, _)| (now_ms - ms) * MS > TARGET_NS).map(|(_, &count)| u64::from(count)).sum();
                prop_assert!(owed.overdue(at(now_ms), TARGET_NS) <= overdue);
                prop_assert!(owed.spans.len() <= GROUPS_MAX);
                match (owed.oldest(), model.keys().next()) {
                    (Some(oldest), Some(&ms)) => {
                        let span = owed.spans[0];
                        prop_assert!(oldest <= at(ms) && at(ms) <= span.last, "{:?} {} {:?}", oldest, ms, span);
                    }
                    (None, None) => {}
                    other => prop_assert!(false, "{:?}", other),
                }
            }
        }
    }
}
