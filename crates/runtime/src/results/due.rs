//! For which queries it is known, before a result comes out, that one should have; for the others silence proves
//! nothing.

use laxity_graph::{Dataflow, EventClock, EventTime, ProcessingTime, WindowEnds};

/// What makes a result of a query due, as far as that is known before it comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DueBy {
    /// Every row that comes: no operator keeps rows.
    Arrival,
    /// The watermark of the one source, as often as it passes the end of one of the windows that are farthest apart.
    WindowEnd(WindowEnds),
    /// Joins, sessions, several sources: only what is on its way into a sink is known to be due.
    Unknown,
}

impl DueBy {
    /// What the operators of a query say.
    pub(crate) fn of<S>(flow: &Dataflow<S>) -> DueBy {
        let nodes = flow.nodes();
        let sources = nodes.iter().filter(|node| node.inputs.is_empty()).count();
        // A source that closes windows itself has them out before it tells how far it got.
        let fires_at_once = nodes.iter().any(|node| node.inputs.is_empty() && node.window.is_some());
        if sources != 1 || fires_at_once || nodes.iter().any(|node| node.inputs.len() > 1) {
            return DueBy::Unknown;
        }
        let windows = nodes.iter().filter_map(|node| node.window);
        let Some(ends) = windows.map(|window| window.ends()).collect::<Option<Vec<_>>>() else {
            return DueBy::Unknown;
        };
        // Of two alike, that of the later operator.
        let farthest = ends.into_iter().max_by_key(|ends| ends.every_ms());
        farthest.map_or(DueBy::Arrival, DueBy::WindowEnd)
    }

    /// The last window end that a source's watermark has passed in rising, if it has passed one.
    pub(crate) fn window_passed(self, before: EventTime, after: EventTime) -> Option<EventTime> {
        let DueBy::WindowEnd(ends) = self else { return None };
        (ends.passed(before) < ends.passed(after)).then(|| ends.passed(after))
    }

    /// From when on a row held back at the source is owed a result: at the latest when the window has closed that it
    /// belongs to, as the source paces its rows. `None` where that cannot be told.
    pub(crate) fn held_back(
        self,
        arrival: ProcessingTime,
        clock: Option<&EventClock>,
    ) -> Option<ProcessingTime> {
        match self {
            DueBy::Arrival => Some(arrival),
            DueBy::WindowEnd(ends) => {
                clock.map(|clock| arrival.plus_ns((ends.every_ms() as f64 / clock.speed * 1e6) as u64))
            }
            DueBy::Unknown => None,
        }
    }

    /// The window that ends next after the watermark.
    pub(crate) fn next_window(self, watermark: EventTime) -> Option<EventTime> {
        match self {
            DueBy::WindowEnd(ends) => ends.next(watermark),
            DueBy::Arrival | DueBy::Unknown => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use laxity_graph::{Input, Node, NodeId, Partitioning, QuerySettings, WindowShape};

    use super::*;

    /// Nodes by their inputs and the window they close.
    fn due_by(nodes: &[(&[usize], Option<WindowShape>)]) -> DueBy {
        let mut flow = Dataflow::new(QuerySettings::named("q"));
        for &(inputs, window) in nodes {
            let inputs =
                inputs.iter().map(|&from| Input { from: NodeId(from), partitioning: Partitioning::Forward });
            let node = Node { name: "n".into(), parallelism: 1, inputs: inputs.collect(), window, stage: () };
            flow.push(node).unwrap();
        }
        DueBy::of(&flow)
    }

    fn window(slide_ms: i64, end_ms: Option<i64>) -> Option<WindowShape> {
        Some(WindowShape { size_ms: 5_000, slide_ms, end_ms })
    }

    fn window_end(every_ms: i64, end_ms: i64) -> DueBy {
        DueBy::WindowEnd(WindowEnds::new(every_ms, end_ms).unwrap())
    }

    #[test]
    fn operators_say_what_makes_a_result_due() {
        assert_eq!(due_by(&[(&[], None), (&[0], None)]), DueBy::Arrival);
        let one = due_by(&[(&[], None), (&[0], window(1_000, Some(0))), (&[1], None)]);
        assert_eq!(one, window_end(1_000, 0));
        let two =
            due_by(&[(&[], None), (&[0], window(1_000, Some(0))), (&[1], window(60_000, Some(20_000)))]);
        assert_eq!(two, window_end(60_000, 20_000));
        assert_eq!(due_by(&[(&[], None), (&[0], window(1_000, None))]), DueBy::Unknown);
        assert_eq!(due_by(&[(&[], None), (&[], None), (&[0, 1], None)]), DueBy::Unknown);
        assert_eq!(due_by(&[(&[], window(1_000, Some(0))), (&[0], None)]), DueBy::Unknown);
    }

    #[test]
    fn a_window_is_passed_a_millisecond_before_its_end() {
        let passed = |before: i64, after: i64| {
            window_end(1_000, 0).window_passed(EventTime(before), EventTime(after)).map(|end| end.0)
        };
        assert_eq!(passed(100, 998), None);
        assert_eq!(passed(100, 999), Some(1_000));
        assert_eq!(passed(999, 1_998), None);
        assert_eq!(passed(999, 5_100), Some(5_000));
        assert_eq!(passed(-1_500, -1_001), Some(-1_000));
        assert_eq!(passed(5_100, i64::MAX), Some(i64::MAX));
        assert_eq!(passed(i64::MAX, i64::MAX), None);
        assert_eq!(passed(i64::MIN, 250), Some(0));
        assert_eq!(
            window_end(1_000, 300).window_passed(EventTime(100), EventTime(299)),
            Some(EventTime(300))
        );
        assert_eq!(DueBy::Arrival.window_passed(EventTime(0), EventTime(9_999)), None);
    }

    #[test]
    fn a_row_held_back_is_due_when_its_window_closes() {
        let arrival = ProcessingTime(7_000_000);
        // Five milliseconds of event time in one of ours.
        let clock =
            EventClock { event_origin: EventTime(0), processing_origin: ProcessingTime::ZERO, speed: 5.0 };
        let window = window_end(1_000, 0);
        assert_eq!(DueBy::Arrival.held_back(arrival, None), Some(arrival));
        assert_eq!(window.held_back(arrival, Some(&clock)), Some(ProcessingTime(207_000_000)));
        assert_eq!(window.held_back(arrival, None), None);
        assert_eq!(DueBy::Unknown.held_back(arrival, Some(&clock)), None);
    }
}
