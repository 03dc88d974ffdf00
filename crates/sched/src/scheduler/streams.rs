//! Which window ends are on their way through a query: forecasts learn from when they come in, ranks see when they are
//! out.

use laxity_graph::{EventTime, OperatorId, ProcessingTime, QueryId, WindowShape};

use super::operator::Operator;
use crate::stream::{Expected, Windows};
use crate::{Message, QuerySnapshot, Scheduler};

/// Where the sweeping watermarks of a query are: ingested at its sources, gone at its sinks.
impl<T> Scheduler<T> {
    /// A new operator closes windows of its query that read these sources.
    pub(super) fn add_windows(
        &mut self,
        query: QueryId,
        window: Option<WindowShape>,
        sources: &[OperatorId],
    ) {
        let Some(ends) = window.and_then(WindowShape::ends) else { return };
        let Some(query) = self.queries.get_mut(query.index()).and_then(Option::as_mut) else { return };
        let windows = query.windows.get_or_insert_default();
        for &source in sources {
            windows.add(source, ends);
            if let Some(source) = self.operators[source.index()].as_mut() {
                source.links.feeds_windows = true;
            }
        }
    }

    /// A watermark of a source was ingested. True if the next one is forecast by it from now on.
    pub(super) fn on_watermark(
        &mut self,
        source: OperatorId,
        watermark: EventTime,
        ingested: ProcessingTime,
    ) -> bool {
        let Some(operator) = self.operators[source.index()].as_mut() else { return false };
        if !operator.links.feeds_windows {
            return false;
        }
        operator.links.expected = None;
        let query = operator.query;
        let Some(windows) = self.windows_mut(query) else { return false };
        windows.on_watermark(source, watermark, ingested);
        self.needs.forecasts
    }

    /// When the watermark of a source is expected to pass the next end of a window. Found when the first message asks: one
    /// that ends a window does not, and where windows have a row or two few others come.
    pub(super) fn expected(&mut self, source: OperatorId) -> Option<Expected> {
        let operator = self.operator(source)?;
        if let Some(expected) = operator.links.expected {
            return expected;
        }
        let windows = self.query(operator.query).and_then(|query| query.windows.as_deref());
        let expected = windows.and_then(|windows| windows.expected(source));
        self.operators[source.index()].as_mut()?.links.expected = Some(expected);
        expected
    }

    /// An operator has dealt with its message. Where it is a sink below windows, and all sinks have seen the
    /// watermark that swept a window, it has left.
    pub(super) fn on_sunk(&mut self, id: OperatorId) {
        let Some(operator) = self.operators[id.index()].as_mut() else { return };
        let links = &mut operator.links;
        if !links.below_window || !links.downstream.is_empty() {
            return;
        }
        let (channel, progress) = links.at;
        let channels = links.channels.len().max(channel as usize) + 1;
        if links.sunk.len() < channels {
            links.sunk.resize(channels, EventTime::MIN);
        }
        let sunk = &mut links.sunk[channel as usize];
        if progress <= *sunk {
            return;
        }
        *sunk = progress;
        let query = operator.query;
        if self.windows_mut(query).is_none_or(|windows| windows.sweeping().is_none()) {
            return;
        }
        let sinks = self.query(query).map_or(&[][..], |query| &query.operators);
        let sinks = sinks.iter().filter_map(|&id| self.operator(id)).map(|operator| &operator.links);
        let sinks = sinks.filter(|links| links.below_window && links.downstream.is_empty());
        let sunk = sinks.map(|links| links.sunk.iter().copied().min().unwrap_or(EventTime::MIN)).min();
        if let (Some(sunk), Some(windows)) = (sunk, self.windows_mut(query)) {
            windows.on_sunk(sunk);
        }
    }

    /// Brings the streams in the kept snapshot up to date.
    pub(super) fn refresh_streams(&mut self) {
        // Both are in order of id.
        let mut queries = self.queries.iter_mut().flatten();
        for snapshot in &mut self.view.snapshot.queries {
            let Some(query) = queries.find(|query| query.spec.id == snapshot.id) else { return };
            if let Some(windows) = query.windows.as_deref_mut().filter(|windows| windows.changed) {
                windows.describe(snapshot);
                windows.changed = false;
            }
        }
    }

    /// A watermark that no sink told of (its last channel fell silent) has left once nothing of the query is
    /// left: else the query would be overdue for ever.
    pub(super) fn forget_swept(&mut self) {
        for index in 0..self.queries.len() {
            let Some(query) = &self.queries[index] else { continue };
            if query.windows.as_ref().is_none_or(|windows| windows.sweeping().is_none()) {
                continue;
            }
            let busy = |id: &OperatorId| self.operator(*id).is_some_and(|o| o.running || o.has_work());
            if !query.operators.iter().any(busy)
                && let Some(windows) = self.windows_mut(QueryId(index as u32))
            {
                windows.on_empty();
            }
        }
    }

    fn windows_mut(&mut self, query: QueryId) -> Option<&mut Windows> {
        self.queries.get_mut(query.index())?.as_mut()?.windows.as_deref_mut()
    }
}

impl<T> Operator<T> {
    /// A sink takes this message: what it will have seen when it is done.
    #[inline]
    pub fn takes(&mut self, message: &Message<T>) {
        if self.links.below_window && self.links.downstream.is_empty() {
            self.links.at = (message.channel, message.progress);
        }
    }
}

impl Windows {
    pub fn describe(&self, snapshot: &mut QuerySnapshot) {
        snapshot.streams.clear();
        snapshot.streams.extend(self.streams.iter().map(|stream| stream.snapshot()));
        snapshot.sweeping = self.sweeping();
    }
}

#[cfg(test)]
mod tests {
    use laxity_graph::WorkerId;

    use super::*;
    use crate::{Composition, Config, Fcfs, OperatorSpec, QuerySpec, RunReport, StreamSnapshot, Sweeping};

    const WORKER: WorkerId = WorkerId(0);

    fn message(to: u32, channel: u32, progress_ms: i64, at: ProcessingTime) -> Message<()> {
        let (to, progress) = (OperatorId(to), EventTime(progress_ms));
        Message { to, channel, progress, ingested: at, rows: 0, bytes: 0, body: () }
    }

    /// Source 0 feeds the windows 1 and 2 of 1 s, and both the sink 3. Operator 4 has no windows.
    fn scheduler() -> Scheduler<()> {
        let mut scheduler = Scheduler::new(Composition::of(Fcfs), Config::default());
        let window = Some(WindowShape { size_ms: 1_000, slide_ms: 1_000, end_ms: Some(0) });
        let operators: [(u32, &[u32], _, _); 5] = [
            (0, &[], None, 1),
            (1, &[0], window, 1),
            (2, &[0], window, 1),
            (3, &[1, 2], None, 2),
            (4, &[], None, 1),
        ];
        for (id, upstream, window, channels) in operators {
            let query = QueryId(id / 4);
            if id % 4 == 0 {
                scheduler.add_query(QuerySpec { id: query, target_ns: 1, weight: 1.0, qos: None });
            }
            let (id, upstream) = (OperatorId(id), upstream.iter().copied().map(OperatorId).collect());
            scheduler.add_operator(OperatorSpec { id, query, upstream, window, channels });
        }
        scheduler
    }

    fn run(scheduler: &mut Scheduler<()>, now: ProcessingTime) -> u32 {
        let operator = scheduler.next(WORKER, now).unwrap().operator;
        scheduler.on_finished(WORKER, RunReport::default(), now);
        operator.0
    }

    fn query(scheduler: &Scheduler<()>, now: ProcessingTime) -> (Vec<StreamSnapshot>, Option<Sweeping>) {
        let mut queries = scheduler.snapshot(now).queries;
        assert_eq!((queries[1].streams.len(), queries[1].sweeping), (0, None));
        let query = queries.swap_remove(0);
        (query.streams, query.sweeping)
    }

    #[test]
    fn a_watermark_is_followed_from_its_source_to_its_sink() {
        let mut scheduler = scheduler();
        let second = |s: u64| ProcessingTime(s * 1_000_000_000 + 7);
        for s in 0..5 {
            scheduler.on_message(message(0, 0, s * 1_000 - 1, second(s as u64)), second(s as u64));
        }
        let now = second(5);
        let (streams, sweeping) = query(&scheduler, now);
        assert_eq!(streams.len(), 1);
        assert_eq!((streams[0].watermark, streams[0].end), (EventTime(3_999), EventTime(5_000)));
        assert_eq!(streams[0].forecast.unwrap().mean_ns, now.0 as f64);
        // The one at 0 found no open window.
        let first = Some(Sweeping { end: EventTime(1_000), ingested: second(1) });
        assert_eq!(sweeping, first);
        (0..5).for_each(|_| assert_eq!(run(&mut scheduler, now), 0));
        // Both channels of the sink have to see the end.
        scheduler.on_message(message(3, 0, 1_999, now), now);
        run(&mut scheduler, now);
        assert_eq!(query(&scheduler, now).1, first);
        scheduler.on_message(message(3, 1, 999, now), now);
        run(&mut scheduler, now);
        assert_eq!(query(&scheduler, now).1.unwrap().end, EventTime(2_000));
        // The other channel falls silent; nothing is left, so nothing is on its way.
        scheduler.forget_swept();
        assert_eq!(query(&scheduler, now).1, None);
    }

    #[test]
    fn a_driver_that_knows_progress_after_the_run_says_it_then() {
        let mut scheduler = scheduler();
        scheduler.on_progress(OperatorId(0), EventTime(1_500), ProcessingTime(5));
        scheduler.on_progress(OperatorId(0), EventTime(2_100), ProcessingTime(9));
        scheduler.on_progress(OperatorId(4), EventTime(2_100), ProcessingTime(9));
        let (streams, sweeping) = query(&scheduler, ProcessingTime(10));
        assert_eq!(streams[0].end, EventTime(3_000));
        assert_eq!(sweeping, Some(Sweeping { end: EventTime(2_000), ingested: ProcessingTime(9) }));
    }
}
