//! For which queries it is known, before a result comes out, that one should have; for the others silence proves
//! nothing.

use laxity_graph::{Dataflow, EventClock, EventTime, ProcessingTime};

/// What makes a result of a query due, as far as that is known before it comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DueBy {
    /// Every row that comes: no operator keeps rows.
    Arrival,
    /// The watermark of the one source, as often as it passes a multiple of the slide.
    WindowEnd {
        /// Of the window that slides farthest, ms.
        slide_ms: i64,
    },
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
        let mut windows = nodes.iter().filter_map(|node| node.window).peekable();
        if windows.peek().is_none() {
            return DueBy::Arrival;
        }
        let slide_ms =
            windows.try_fold(0, |most, window| window.is_aligned.then_some(window.slide_ms.max(most)));
        match slide_ms {
            Some(slide_ms) if slide_ms > 0 => DueBy::WindowEnd { slide_ms },
            _ => DueBy::Unknown,
        }
    }

    /// The last window end that a source's watermark has passed in rising, if it has passed one.
    pub(crate) fn window_passed(self, before: EventTime, after: EventTime) -> Option<EventTime> {
        let DueBy::WindowEnd { slide_ms } = self else { return None };
        if after == EventTime::MAX {
            return (before < after).then_some(after);
        }
        // A window fires once the watermark is at its end less a millisecond.
        let last_end = |watermark: EventTime| {
            watermark.0.saturating_add(1).div_euclid(slide_ms).saturating_mul(slide_ms)
        };
        (last_end(before) < last_end(after)).then(|| EventTime(last_end(after)))
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
            DueBy::WindowEnd { slide_ms } => {
                clock.map(|clock| arrival.plus_ns((slide_ms as f64 / clock.speed * 1e6) as u64))
            }
            DueBy::Unknown => None,
        }
    }

    /// The window that ends next after the watermark.
    pub(crate) fn next_window(self, watermark: EventTime) -> Option<EventTime> {
        let DueBy::WindowEnd { slide_ms } = self else { return None };
        let next = watermark.0.checked_add(1)?.div_euclid(slide_ms).checked_add(1)?.checked_mul(slide_ms)?;
        Some(EventTime(next))
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

    fn window(slide_ms: i64, is_aligned: bool) -> Option<WindowShape> {
        Some(WindowShape { size_ms: 5_000, slide_ms, is_aligned })
    }

    #[test]
    fn operators_say_what_makes_a_result_due() {
        assert_eq!(due_by(&[(&[], None), (&[0], None)]), DueBy::Arrival);
        let one = due_by(&[(&[], None), (&[0], window(1_000, true)), (&[1], None)]);
        assert_eq!(one, DueBy::WindowEnd { slide_ms: 1_000 });
        let two = due_by(&[(&[], None), (&[0], window(1_000, true)), (&[1], window(60_000, true))]);
        assert_eq!(two, DueBy::WindowEnd { slide_ms: 60_000 });
        assert_eq!(due_by(&[(&[], None), (&[0], window(1_000, false))]), DueBy::Unknown);
        assert_eq!(due_by(&[(&[], None), (&[], None), (&[0, 1], None)]), DueBy::Unknown);
        assert_eq!(due_by(&[(&[], window(1_000, true)), (&[0], None)]), DueBy::Unknown);
    }

    #[test]
    fn a_window_is_passed_a_millisecond_before_its_end() {
        let passed = |before: i64, after: i64| {
            let due = DueBy::WindowEnd { slide_ms: 1_000 };
            due.window_passed(EventTime(before), EventTime(after)).map(|end| end.0)
        };
        assert_eq!(passed(100, 998), None);
        assert_eq!(passed(100, 999), Some(1_000));
        assert_eq!(passed(999, 1_998), None);
        assert_eq!(passed(999, 5_100), Some(5_000));
        assert_eq!(passed(-1_500, -1_001), Some(-1_000));
        assert_eq!(passed(5_100, i64::MAX), Some(i64::MAX));
        assert_eq!(passed(i64::MAX, i64::MAX), None);
        assert_eq!(passed(i64::MIN, 250), Some(0));
        assert_eq!(DueBy::Arrival.window_passed(EventTime(0), EventTime(9_999)), None);
        assert_eq!(DueBy::WindowEnd { slide_ms: 1_000 }.next_window(EventTime(999)), Some(EventTime(2_000)));
        assert_eq!(DueBy::WindowEnd { slide_ms: 1_000 }.next_window(EventTime(998)), Some(EventTime(1_000)));
    }

    #[test]
    fn a_row_held_back_is_due_when_its_window_closes() {
        let arrival = ProcessingTime(7_000_000);
        // Five milliseconds of event time in one of ours.
        let clock =
            EventClock { event_origin: EventTime(0), processing_origin: ProcessingTime::ZERO, speed: 5.0 };
        let window = DueBy::WindowEnd { slide_ms: 1_000 };
        assert_eq!(DueBy::Arrival.held_back(arrival, None), Some(arrival));
        assert_eq!(window.held_back(arrival, Some(&clock)), Some(ProcessingTime(207_000_000)));
        assert_eq!(window.held_back(arrival, None), None);
        assert_eq!(DueBy::Unknown.held_back(arrival, Some(&clock)), None);
    }
}
