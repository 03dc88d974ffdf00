//! What an engine tells, as the snapshot that ranks are computed from.

use std::sync::Arc;

use laxity_graph::{EventTime, OperatorId, ProcessingTime, QosCurve, QueryId, WindowShape};
use laxity_sched::{HeadSnapshot, Memory, OperatorSnapshot, QuerySnapshot, Snapshot, Unit};

use crate::metric::Metric;
use crate::watermarks::Known;
use crate::{Readings, Topology};

/// A cost until the first is measured: what a row costs a common engine. Never zero.
const PRIOR_COST_NS: f64 = 10_000.0;

const MS: f64 = 1e6;

/// Operators are logical ones; unit, id and place in the topology agree.
///
/// An operator whose queue is empty is shown with a row that comes just now: ranks by message speak of messages, and
/// a thread is ranked for those that come before the next period.
pub(crate) fn snapshot(
    topology: &Topology,
    readings: &Readings,
    windows: &[Known],
    unit: Unit,
    generation: u64,
) -> Snapshot {
    let downstream = topology.downstream();
    let now = ProcessingTime(readings.now_ns);
    let ids = |places: &[usize]| places.iter().map(|&place| OperatorId(place as u32)).collect::<Arc<[_]>>();
    let operators = topology.operators.iter().enumerate().map(|(place, operator)| {
        let get = |metric| readings.get(metric, place);
        let target_ns = topology.queries[operator.query].wishes.target.ns();
        let ago = |ms: f64| ProcessingTime(readings.now_ns.saturating_sub((ms.max(0.0) * MS) as u64));
        let head_age_ms = get(Metric::HeadAgeMs).unwrap_or(0.0);
        let ingested = ago(get(Metric::IngestAgeMs).unwrap_or(head_age_ms));
        // Flink tells −2⁶³ until there is a watermark, which says nothing of when a window closes.
        let watermark_ms = get(Metric::WatermarkMs).filter(|ms| ms.abs() < 9e18);
        let frontier = match (operator.window, watermark_ms) {
            // A priority holds for a period: a window that closes within it cannot be put off until it has.
            (Some(window), Some(watermark_ms)) => {
                let watermark_ms = watermark_ms + readings.age_ms(place);
                let closes = frontier(window, watermark_ms, now).max(ingested);
                if closes.since_ns(now) > readings.horizon_ns { closes } else { ingested }
            }
            _ => ingested,
        };
        let cost_ns = get(Metric::Cost).filter(|&cost| cost > 0.0).unwrap_or(PRIOR_COST_NS);
        let queued_rows = get(Metric::QueueRows).unwrap_or(0.0).max(0.0) as u64;
        OperatorSnapshot {
            id: OperatorId(place as u32),
            query: QueryId(operator.query as u32),
            unit: if unit.is_query() { operator.query as u32 } else { place as u32 },
            upstream: ids(&operator.upstream),
            downstream: ids(&downstream[place]),
            window: operator.window,
            running: false,
            resumes: false,
            blocked: false,
            queued_messages: queued_rows as usize,
            queued_rows,
            queued_bytes: 0,
            head: Some(HeadSnapshot {
                ingested,
                enqueued: ago(head_age_ms),
                deadline: frontier.plus_ns(target_ns),
                rows: 1,
            }),
            // The head is the oldest and the last row came now: the mean lies in the middle.
            mean_ingested: Some(ProcessingTime(ingested.0 + now.since_ns(ingested) / 2)),
            cost: (0.0, cost_ns),
            usual_cost_ns: cost_ns as u64,
            usual_rows: 1.0,
            path_cost_ns: get(Metric::PathCost).unwrap_or(0.0) as u64,
            selectivity: get(Metric::Selectivity).unwrap_or(1.0),
            row_bytes: 0.0,
        }
    });
    let operators = operators.collect();
    let mut of_query = vec![Vec::new(); topology.queries.len()];
    for place in topology.sinks_first().into_iter().rev() {
        of_query[topology.operators[place].query].push(place);
    }
    let queries = topology.queries.iter().enumerate().map(|(place, query)| QuerySnapshot {
        id: QueryId(place as u32),
        target_ns: query.wishes.target.ns(),
        weight: query.wishes.weight,
        qos: query.wishes.qos.clone().unwrap_or_else(|| QosCurve::of_target(query.wishes.target)),
        operators: ids(&of_query[place]),
        streams: windows.get(place).map(|known| known.streams.clone()).unwrap_or_default(),
        sweeping: windows.get(place).and_then(|known| known.sweeping),
    });
    Snapshot {
        now,
        workers: readings.cores,
        unit,
        memory: Memory::default(),
        graph: generation,
        changed: None,
        operators,
        queries: queries.collect(),
        remote_costs: Vec::new(),
    }
}

/// t_MF of a row that comes now: when the watermark will have passed the end of the window it falls in, if it goes on
/// as fast as time. A watermark w closes the windows that end at or before w + 1.
fn frontier(window: WindowShape, watermark_ms: f64, now: ProcessingTime) -> ProcessingTime {
    let end = window.ends().and_then(|ends| ends.next(EventTime(watermark_ms as i64)));
    end.map_or(now, |end| now.plus_ns(((end.0 as f64 - 1.0 - watermark_ms).max(0.0) * MS) as u64))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::tests::chains;

    #[test]
    fn a_snapshot_says_what_was_read() {
        let mut topology = chains(&[2]);
        topology.operators[1].window =
            Some(WindowShape { size_ms: 10_000, slide_ms: 10_000, end_ms: Some(0) });
        let mut readings = Readings::at(60_000_000_000, 0.0, None, 2);
        readings.set(Metric::QueueRows, vec![Some(0.0), Some(12.0)]);
        readings.set(Metric::HeadAgeMs, vec![Some(0.0), Some(3_000.0)]);
        readings.set(Metric::IngestAgeMs, vec![Some(0.0), Some(4_000.0)]);
        readings.set(Metric::WatermarkMs, vec![None, Some(14_999.0)]);
        readings.set(Metric::Cost, vec![None, Some(500.0)]);
        let snapshot = snapshot(&topology, &readings, &[], Unit::Operator, 1);
        let second = &snapshot.operators[1];
        assert_eq!(second.queued_rows, 12);
        let head = second.head.unwrap();
        assert_eq!(head.enqueued, ProcessingTime(57_000_000_000));
        assert_eq!(head.ingested, ProcessingTime(56_000_000_000));
        // The window [10 s, 20 s) closes when the watermark reaches 19 999 ms: 5 s from now, and then 60 s of target.
        assert_eq!(head.deadline, ProcessingTime(125_000_000_000));
        assert_eq!(second.mean_ingested, Some(ProcessingTime(58_000_000_000)));
        assert_eq!(snapshot.operators[0].cost, (0.0, PRIOR_COST_NS));
        // Read 2 s ago, and gone on since.
        readings.append_age(2_000.0, 0, 2);
        let aged = super::snapshot(&topology, &readings, &[], Unit::Operator, 1);
        assert_eq!(aged.operators[1].head.unwrap().deadline, ProcessingTime(123_000_000_000));
        readings.set(Metric::WatermarkMs, vec![None, Some(-9.223_372_036_854_776e18)]);
        let none = super::snapshot(&topology, &readings, &[], Unit::Operator, 1);
        assert_eq!(none.operators[1].head.unwrap().deadline, ProcessingTime(116_000_000_000));
        readings.set(Metric::WatermarkMs, vec![None, Some(14_999.0)]);
        readings.horizon_ns = 5_000_000_000;
        let soon = super::snapshot(&topology, &readings, &[], Unit::Operator, 1);
        assert_eq!(soon.operators[1].head.unwrap().deadline, ProcessingTime(116_000_000_000));
        assert_eq!(*snapshot.queries[0].operators, [OperatorId(0), OperatorId(1)]);
    }

    #[test]
    fn what_has_no_window_that_time_ends_is_regular() {
        let session = WindowShape { size_ms: 10, slide_ms: 10, end_ms: None };
        assert_eq!(frontier(session, 5.0, ProcessingTime(7)), ProcessingTime(7));
    }
}
