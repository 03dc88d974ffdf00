//! Which visits of a shared table a reader can be spared; what it is not told of must not change its results.

use laxity_graph::{Dataflow, EventTime, WindowEnds};

use crate::results::DueBy;

/// When a query that reads one table has to be told of rows and of time: what others do with the table between is nothing
/// to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rhythm {
    /// Of every row at once, and never of time: no operator keeps rows.
    Rows,
    /// Of both whenever a window ends that may have rows of it.
    Windows {
        /// When they end.
        ends: WindowEnds,
        /// The last window that a row falls in ends so long after the row at most, ms.
        reach_ms: i64,
    },
}

impl Rhythm {
    /// What the operators of a query say; `None` where it has to be told of everything: joins, sessions, several tables.
    pub fn of<S>(flow: &Dataflow<S>) -> Option<Rhythm> {
        match DueBy::of(flow) {
            DueBy::Unknown => None,
            DueBy::Arrival => Some(Rhythm::Rows),
            DueBy::WindowEnd(_) => {
                let windows = || flow.nodes().iter().filter_map(|node| node.window);
                // Of a cascade the inner window too ends in time: other results may be made of it.
                let ends = windows().filter_map(|window| window.ends()).reduce(WindowEnds::with)?;
                let reach_ms = windows().map(|window| window.size_ms).fold(0, i64::saturating_add);
                Some(Rhythm::Windows { ends, reach_ms })
            }
        }
    }

    /// When windows end, of all who read a table; `None` if one of them waits for more than that.
    pub(crate) fn common(rhythms: impl IntoIterator<Item = Option<Rhythm>>) -> Option<WindowEnds> {
        let ends = rhythms.into_iter().map(|rhythm| match rhythm {
            Some(Rhythm::Windows { ends, .. }) => Some(ends),
            Some(Rhythm::Rows) | None => None,
        });
        ends.reduce(|all, ends| Some(all?.with(ends?))).flatten()
    }

    /// The watermark at which the next window ends that may have rows of events between these two; `None` if all of them
    /// ended when the watermark rose to `told`.
    pub(crate) fn next(
        self,
        told: EventTime,
        (earliest, latest): (EventTime, EventTime),
    ) -> Option<EventTime> {
        let Rhythm::Windows { ends, reach_ms } = self else { return None };
        let before_all = EventTime(earliest.0.saturating_sub(1));
        let end = ends.next(if told == EventTime::MIN { before_all } else { told })?;
        (end.0 <= latest.0.saturating_add(reach_ms)).then_some(EventTime(end.0 - 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ends(every_ms: i64) -> WindowEnds {
        WindowEnds::new(every_ms, 0).unwrap()
    }

    #[test]
    fn windows_of_all_end_at_multiples_of_what_they_have_in_common() {
        let windows = |every_ms| Some(Rhythm::Windows { ends: ends(every_ms), reach_ms: 1 });
        assert_eq!(Rhythm::common([windows(1_000)]), Some(ends(1_000)));
        assert_eq!(Rhythm::common([windows(6_000), windows(4_000)]), Some(ends(2_000)));
        assert_eq!(Rhythm::common([windows(1_000), Some(Rhythm::Rows)]), None);
        assert_eq!(Rhythm::common([None, windows(1_000)]), None);
        assert_eq!(Rhythm::common([]), None);
    }

    #[test]
    fn time_is_told_when_a_window_ends_that_may_have_rows() {
        let tumble = Rhythm::Windows { ends: ends(1_000), reach_ms: 1_000 };
        let next = |told: i64, latest: i64| {
            tumble.next(EventTime(told), (EventTime(100), EventTime(latest))).map(|at| at.0)
        };
        assert_eq!(next(0, 300), Some(999));
        assert_eq!(next(998, 300), Some(999));
        assert_eq!(next(999, 300), None, "it has ended");
        assert_eq!(next(999, 1_000), Some(1_999));
        assert_eq!(next(i64::MIN, 5_300), Some(999), "the earliest");
        assert_eq!(next(i64::MAX, 5_300), None);
        let hop = Rhythm::Windows { ends: ends(1_000), reach_ms: 3_000 };
        let ends: Vec<i64> = std::iter::successors(Some(EventTime(0)), |&told| {
            hop.next(told, (EventTime(500), EventTime(500)))
        })
        .map(|at| at.0)
        .collect();
        assert_eq!(ends, [0, 999, 1_999, 2_999]);
        assert_eq!(Rhythm::Rows.next(EventTime(0), (EventTime(500), EventTime(500))), None);
    }
}
