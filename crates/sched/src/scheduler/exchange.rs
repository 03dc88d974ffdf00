//! The scheduler as one node of several: what it tells the others, and what it makes of what they tell.

use laxity_graph::{OperatorId, ProcessingTime, QueryId, WindowShape};

use crate::{CostReport, RemoteCost, Scheduler, StreamReport};

/// What nodes tell each other (Klink §4). Once a cycle: `stream_reports` go to the nodes below, `cost_reports` to
/// those above.
impl<T> Scheduler<T> {
    /// Operators on other nodes close such windows, and read this source. To be said once all operators of the query
    /// that run here were added.
    pub fn add_window_elsewhere(&mut self, source: OperatorId, window: WindowShape) {
        let Some(query) = self.operator(source).map(|operator| operator.query) else { return };
        self.add_windows(query, Some(window), &[source]);
        // What leaves for another node has, as far as this one can tell, left.
        let mut below = vec![source];
        while let Some(operator) = below.pop().and_then(|id| self.operators[id.index()].as_mut()) {
            if !std::mem::replace(&mut operator.links.below_window, true) {
                below.extend(&operator.links.downstream);
            }
        }
    }

    /// For the nodes below: when the watermarks of each stream are due, as known here or as told from above.
    pub fn stream_reports(&self, now: ProcessingTime) -> Vec<StreamReport> {
        let windows =
            self.queries.iter().flatten().filter_map(|query| Some((query.spec.id, query.windows.as_ref()?)));
        windows.flat_map(|(query, windows)| windows.reports(query, now)).collect()
    }

    /// A node above reports a stream that comes in here by `entry`.
    pub fn on_stream_report(&mut self, entry: OperatorId, report: StreamReport) {
        let Some(query) = self.operator(entry).map(|operator| operator.query) else { return };
        if let Some(windows) = self.queries[query.index()].as_mut().and_then(|query| query.windows.as_mut()) {
            windows.on_report(entry, report);
        }
    }

    /// For the nodes above: what each query still costs here and below. This node is `node` in all reports.
    pub fn cost_reports(&mut self, node: u32, now: ProcessingTime) -> Vec<CostReport> {
        self.node = Some(node);
        self.refresh_view(now);
        CostReport::all(&self.view.snapshot, node)
    }

    /// A node below reports. `feeders` pairs operators there with those here that feed them. The path costs count
    /// like replies ([`on_reply`](Scheduler::on_reply)).
    pub fn on_cost_report(&mut self, report: &CostReport, feeders: &[(OperatorId, OperatorId)]) {
        report.merge_into(&mut self.remote_costs, self.node, feeders);
        self.query_changed(report.query);
        for &(_, feeder) in feeders {
            let ways = self.remote_costs.iter().filter(|remote| remote.query == report.query);
            let ways = ways.flat_map(|remote| &remote.ways).filter(|way| way.operator == feeder);
            let path_ns = ways.map(|way| way.path_ns).max();
            self.on_reply(feeder, path_ns.unwrap_or(0));
        }
    }

    /// What other nodes said of costs, by query and node. How old it is, it says itself.
    pub fn remote_costs(&self) -> &[RemoteCost] {
        &self.remote_costs
    }

    fn query_changed(&mut self, id: QueryId) {
        let first = self.query(id).and_then(|query| query.operators.first().copied());
        if let Some(first) = first {
            self.view.touch(first);
        }
    }
}

#[cfg(test)]
mod tests {
    use laxity_graph::{EventTime, WorkerId};

    use super::*;
    use crate::{
        Backlog, Composition, Config, Fcfs, Message, OperatorSpec, QuerySpec, QueuedCost, RunReport,
        SwmForecast, Unit,
    };

    const MS: u64 = 1_000_000;
    const WORKER: WorkerId = WorkerId(0);
    const WINDOW: WindowShape = WindowShape { size_ms: 1_000, slide_ms: 1_000, end_ms: Some(0) };

    /// The operators of one query that run here, as (id, inputs that run here too). Operator 2 closes windows of 1 s.
    fn node(operators: &[(u32, &[u32])]) -> Scheduler<()> {
        let composition = Composition { unit: Unit::Query, ..Composition::of(Fcfs) };
        let mut scheduler = Scheduler::new(composition, Config::default());
        scheduler.add_query(QuerySpec { id: QueryId(0), target_ns: MS, weight: 1.0, qos: None });
        for &(id, upstream) in operators {
            scheduler.add_operator(OperatorSpec {
                id: OperatorId(id),
                query: QueryId(0),
                upstream: upstream.iter().copied().map(OperatorId).collect(),
                window: (id == 2).then_some(WindowShape { size_ms: 1_000, slide_ms: 1_000, end_ms: Some(0) }),
                channels: 1,
            });
        }
        // Costs and selectivities that differ: operator n takes n + 1 µs a row and passes half.
        for &(id, _) in operators {
            for _ in 0..2_000 {
                enqueue(&mut scheduler, id, 100, ProcessingTime::ZERO);
                let grant = scheduler.next(WORKER, ProcessingTime::ZERO).unwrap();
                assert_eq!(grant.operator.0, id);
                let cpu_ns = 100_000 * u64::from(id + 1);
                let report = RunReport { rows_in: 100, rows_out: 50, cpu_ns, more: false };
                scheduler.on_finished(WORKER, report, ProcessingTime::ZERO);
            }
        }
        scheduler
    }

    fn enqueue(scheduler: &mut Scheduler<()>, to: u32, rows: u32, at: ProcessingTime) {
        let message = Message {
            to: OperatorId(to),
            channel: 0,
            progress: EventTime::MIN,
            ingested: at,
            rows,
            bytes: 0,
            body: (),
        };
        scheduler.on_message(message, at);
    }

    /// Watermarks every second, 300 ms behind.
    fn watermarks(scheduler: &mut Scheduler<()>, source: u32) {
        for s in 1..20 {
            let watermark = EventTime(s * 1_000 - 1);
            scheduler.on_progress(
                OperatorId(source),
                watermark,
                ProcessingTime((s as u64 * 1_000 + 300) * MS),
            );
        }
    }

    /// Of all that is queued, here and as told.
    fn cost_ns(scheduler: &mut Scheduler<()>, now: ProcessingTime) -> f64 {
        scheduler.refresh_view(now);
        let snapshot = &scheduler.view.snapshot;
        Backlog::default().sum(snapshot, &snapshot.queries[0]).cost_ns
    }

    const NOW: ProcessingTime = ProcessingTime(19_700 * MS);

    #[test]
    fn two_nodes_that_talk_know_as_much_as_one() {
        let mut whole = node(&[(0, &[]), (1, &[0]), (2, &[1]), (3, &[2])]);
        let mut above = node(&[(0, &[]), (1, &[0])]);
        let mut below = node(&[(2, &[]), (3, &[2])]);
        watermarks(&mut whole, 0);
        watermarks(&mut below, 2);
        // Nothing is queued, so nothing is on its way.
        whole.forget_swept();
        below.forget_swept();
        for id in [0, 1] {
            enqueue(&mut above, id, 40, NOW);
            enqueue(&mut below, id + 2, 60, NOW);
        }
        for (id, rows) in [(0, 40), (1, 40), (2, 60), (3, 60)] {
            enqueue(&mut whole, id, rows, NOW);
        }
        let cost_of_whole = cost_ns(&mut whole, NOW);
        let reports = below.cost_reports(7, NOW);
        let feeders = [(OperatorId(2), OperatorId(1))];
        let cost_alone = cost_ns(&mut above, NOW);
        above.on_cost_report(&reports[0], &feeders);
        let cost_told = cost_ns(&mut above, NOW);
        assert!(cost_alone < 0.7 * cost_of_whole, "{cost_alone} of {cost_of_whole}");
        assert!((cost_told / cost_of_whole - 1.0).abs() < 1e-2, "{cost_told} and {cost_of_whole}");
        assert_eq!((above.remote_costs()[0].queued.node, above.remote_costs()[0].queued.at), (7, NOW));
        // C_path of 1: 300 µs at 2 and 400 µs at 3, for 100 rows.
        assert!(above.path_cost_ns(OperatorId(1)).abs_diff(700_000) < 10_000);
        // Older news from the same node change nothing; newer ones take their place.
        let says = |queued_ns, at| CostReport {
            queued: vec![QueuedCost { node: 7, queued_ns, at }],
            entries: vec![],
            ..reports[0].clone()
        };
        above.on_cost_report(&says(1e18, ProcessingTime(5)), &feeders);
        assert_eq!(cost_ns(&mut above, NOW), cost_told);
        above.on_cost_report(&says(0.0, NOW.plus_ns(1)), &feeders);
        assert_eq!(cost_ns(&mut above, NOW), cost_alone);
        // What this node said itself comes back by the other, and is not counted again.
        below.on_cost_report(&above.cost_reports(1, NOW)[0], &[]);
        let echo = &below.cost_reports(7, NOW)[0];
        assert_eq!(echo.queued.iter().map(|queued| queued.node).collect::<Vec<_>>(), [7, 1]);
        above.on_cost_report(echo, &feeders);
        assert_eq!(above.remote_costs().len(), 1);
        above.remove_query(QueryId(0));
        assert!(above.remote_costs().is_empty());
    }

    #[test]
    fn a_watermark_that_went_to_another_node_has_left() {
        let mut above = node(&[(0, &[]), (1, &[0])]);
        above.add_window_elsewhere(OperatorId(0), WINDOW);
        watermarks(&mut above, 0);
        let sweeping =
            |scheduler: &Scheduler<()>| scheduler.snapshot(NOW).queries[0].sweeping.map(|sweep| sweep.end.0);
        assert_eq!(sweeping(&above), Some(2_000));
        let message = Message {
            to: OperatorId(1),
            channel: 0,
            progress: EventTime(2_999),
            ingested: NOW,
            rows: 5,
            bytes: 0,
            body: (),
        };
        above.on_message(message, NOW);
        above.next(WORKER, NOW).unwrap();
        assert_eq!(sweeping(&above), Some(2_000));
        above.on_finished(WORKER, RunReport::default(), NOW);
        assert_eq!(sweeping(&above), Some(4_000));
    }

    #[test]
    fn who_is_below_learns_when_watermarks_are_due_at_the_source() {
        let mut above = node(&[(0, &[]), (1, &[0])]);
        above.add_window_elsewhere(OperatorId(0), WINDOW);
        watermarks(&mut above, 0);
        // Below, a window reads what comes from there, and the watermark of 19 s is still on its way.
        let mut below = node(&[(2, &[])]);
        for s in 1..19 {
            below.on_progress(
                OperatorId(2),
                EventTime(s * 1_000 - 1),
                ProcessingTime((s as u64 * 1_000 + 900) * MS),
            );
        }
        let reports = above.stream_reports(NOW);
        let due = |s: u64| ProcessingTime((s * 1_000 + 300) * MS).0 as f64;
        assert_eq!(reports.len(), 1);
        assert_eq!(
            (reports[0].source, reports[0].end, reports[0].at),
            (OperatorId(0), EventTime(20_000), NOW)
        );
        assert_eq!((reports[0].forecast.mean_ns, reports[0].ns_per_ms), (due(20), 1e6));
        below.on_stream_report(OperatorId(2), reports[0]);
        let stream = below.snapshot(NOW).queries[0].streams[0];
        assert_eq!((stream.end, stream.told), (EventTime(19_000), Some(NOW)));
        assert_eq!(stream.forecast.unwrap().mean_ns, due(19), "overdue: it was ingested above");
        // Two sources come in by the same way: the later one sweeps. Old news change nothing.
        let late = SwmForecast { mean_ns: due(20) + 1e9, ..reports[0].forecast };
        let other = StreamReport { source: OperatorId(9), forecast: late, ..reports[0] };
        below.on_stream_report(OperatorId(2), other);
        below.on_stream_report(OperatorId(2), StreamReport { at: ProcessingTime(1), ..reports[0] });
        assert_eq!(below.snapshot(NOW).queries[0].streams[0].forecast.unwrap().mean_ns, due(19) + 1e9);
        // It passes on what it was told, with the time it was found.
        let passed_on = below.stream_reports(NOW.plus_ns(5));
        assert_eq!(passed_on, [reports[0], other]);
    }
}
