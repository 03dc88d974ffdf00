//! Which visits of a shared table a reader can be spared; what it is not told of must not change its results.

use laxity_graph::{Dataflow, EventTime, common_divisor};

use crate::results::DueBy;

/// When a query that reads one table has to be told of rows and of time: what others do with the table between is nothing
/// to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rhythm {
    /// Of every row at once, and never of time: no operator keeps rows.
    Rows,
    /// Of both whenever a window ends that may have rows of it.
    Windows {
        /// Windows end at multiples of this, ms.
        every_ms: i64,
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
            DueBy::WindowEnd { .. } => {
                let windows = || flow.nodes().iter().filter_map(|node| node.window);
                // Of a cascade the inner window too ends in time: other results may be made of it.
                let every_ms = windows().map(|window| window.slide_ms).fold(0, common_divisor);
                let reach_ms = windows().map(|window| window.size_ms).fold(0, i64::saturating_add);
                Some(Rhythm::Windows { every_ms, reach_ms })
            }
        }
    }

    /// How far apart windows end, of all who read a table; `None` if one of them waits for more than that.
    pub(crate) fn common(rhythms: impl IntoIterator<Item = Option<Rhythm>>) -> Option<i64> {
        let every_ms = rhythms.into_iter().try_fold(0, |common_ms, rhythm| match rhythm {
            Some(Rhythm::Windows { every_ms, .. }) => Some(common_divisor(every_ms, common_ms)),
            Some(Rhythm::Rows) | None => None,
        });
        every_ms.filter(|&every_ms| every_ms > 0)
    }

    /// The watermark at which the next window ends that may have rows of events between these two; `None` if all of them
    /// ended when the watermark rose to `told`.
    pub(crate) fn next(
        self,
        told: EventTime,
        (earliest, latest): (EventTime, EventTime),
    ) -> Option<EventTime> {
        let Rhythm::Windows { every_ms, reach_ms } = self else { return None };
        let from = if told == EventTime::MIN { earliest.0 } else { told.0.checked_add(1)? };
        let end = from.div_euclid(every_ms).checked_add(1)?.checked_mul(every_ms)?;
        (end <= latest.0.saturating_add(reach_ms)).then_some(EventTime(end - 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_of_all_end_at_multiples_of_what_they_have_in_common() {
        let windows = |every_ms| Some(Rhythm::Windows { every_ms, reach_ms: 1 });
        assert_eq!(Rhythm::common([windows(1_000)]), Some(1_000));
        assert_eq!(Rhythm::common([windows(6_000), windows(4_000)]), Some(2_000));
        assert_eq!(Rhythm::common([windows(1_000), Some(Rhythm::Rows)]), None);
        assert_eq!(Rhythm::common([None, windows(1_000)]), None);
        assert_eq!(Rhythm::common([]), None);
    }

    #[test]
    fn time_is_told_when_a_window_ends_that_may_have_rows() {
        let tumble = Rhythm::Windows { every_ms: 1_000, reach_ms: 1_000 };
        let next = |told: i64, latest: i64| {
            tumble.next(EventTime(told), (EventTime(100), EventTime(latest))).map(|at| at.0)
        };
        assert_eq!(next(0, 300), Some(999));
        assert_eq!(next(998, 300), Some(999));
        assert_eq!(next(999, 300), None, "it has ended");
        assert_eq!(next(999, 1_000), Some(1_999));
        assert_eq!(next(i64::MIN, 5_300), Some(999), "the earliest");
        assert_eq!(next(i64::MAX, 5_300), None);
        let hop = Rhythm::Windows { every_ms: 1_000, reach_ms: 3_000 };
        let ends: Vec<i64> = std::iter::successors(Some(EventTime(0)), |&told| {
            hop.next(told, (EventTime(500), EventTime(500)))
        })
        .map(|at| at.0)
        .collect();
        assert_eq!(ends, [0, 999, 1_999, 2_999]);
        assert_eq!(Rhythm::Rows.next(EventTime(0), (EventTime(500), EventTime(500))), None);
    }
}
