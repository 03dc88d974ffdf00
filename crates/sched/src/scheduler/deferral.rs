//! How far above a window its rows may already wait for its end, for ranks that forecast watermarks.

use laxity_graph::{OperatorId, WindowEnds, WindowShape};

use super::operator::Operator;
use crate::Scheduler;

/// Which rows may wait for the end of a window, beyond what Cameo's TRANSFORM lets wait.
///
/// Cameo defers what waits for a window operator. The rows that are still on their way to one wait for the same
/// window's end: nothing that they influence leaves before it. A rank that says so
/// ([`crate::Needs::forecasts`]) has them deferred at every operator from the source on, if all ways from there
/// lead through windows whose ends time alone tells. The message that closes a window is told from the others at each
/// operator as at the window itself: it crosses the end.
impl<T> Scheduler<T> {
    /// A new operator changes what those above it lead to.
    pub(super) fn refresh_deferral_above(&mut self, id: OperatorId) {
        let mut changed = vec![id];
        while let Some(next) = changed.pop() {
            let on_the_way = self.ends_on_the_way(next);
            let Some(operator) = self.operators[next.index()].as_mut() else { continue };
            let before = std::mem::replace(&mut operator.links.on_the_way, on_the_way);
            if before != on_the_way || next == id {
                changed.extend_from_slice(&operator.links.upstream);
                self.refresh_deferral(next);
            }
        }
    }

    /// What an operator defers to under the rank that rules now.
    pub(super) fn refresh_deferral(&mut self, id: OperatorId) {
        let Some(operator) = self.operator(id) else { return };
        let links = &operator.links;
        let deferring_to = links.window_ends.or(links.on_the_way.filter(|_| self.needs.forecasts));
        let mut sources = match deferring_to {
            None => Vec::new(),
            Some(_) if operator.is_source => vec![id],
            Some(_) => self.sources_of(&links.upstream),
        };
        if links.window_ends.is_none() && sources.len() > SOURCES_ON_THE_WAY_MAX {
            // The frontier is that of the slowest source. A sample of many says it too early, if it errs.
            let step = sources.len().div_ceil(SOURCES_ON_THE_WAY_MAX);
            sources = sources.into_iter().step_by(step).collect();
        }
        let operator = self.operators[id.index()].as_mut().expect("looked up above");
        operator.defers = deferring_to.is_some();
        operator.links.deferring_to = deferring_to;
        operator.links.sources = sources;
    }

    /// The fewest that hold all ends of the windows that lie next below; `None` where a way leads past them to a sink.
    fn ends_on_the_way(&self, id: OperatorId) -> Option<WindowEnds> {
        let below = self.operator(id)?.links.downstream.iter().filter_map(|&below| self.operator(below));
        // One way past the windows is enough.
        below.map(Operator::awaited_ends).reduce(|all, ends| Some(all?.with(ends?))).flatten()
    }
}

impl<T> Operator<T> {
    /// The window ends that rows sent to this operator wait for; `None` where they need not wait.
    fn awaited_ends(&self) -> Option<WindowEnds> {
        self.links.window.map_or(self.links.on_the_way, WindowShape::ends)
    }
}

/// Sources that a frontier is predicted from at operators that are no windows: they see every row.
const SOURCES_ON_THE_WAY_MAX: usize = 16;

#[cfg(test)]
mod tests {
    use laxity_graph::{EventTime, ProcessingTime, QueryId};

    use super::*;
    use crate::{Composition, Config, Laxity, Llf, Message, OperatorSpec, QuerySpec};

    const fn window(slide_ms: i64, end_ms: Option<i64>) -> Option<WindowShape> {
        Some(WindowShape { size_ms: 2 * slide_ms, slide_ms, end_ms })
    }

    /// Operators with their inputs and windows, in one query.
    fn scheduler(composition: Composition, operators: &[(&[u32], Option<WindowShape>)]) -> Scheduler<()> {
        let mut scheduler = Scheduler::new(composition, Config::default());
        scheduler.add_query(QuerySpec { id: QueryId(0), target_ns: 1_000_000, weight: 1.0, qos: None });
        for (id, (upstream, window)) in operators.iter().enumerate() {
            scheduler.add_operator(OperatorSpec {
                id: OperatorId(id as u32),
                query: QueryId(0),
                upstream: upstream.iter().map(|&id| OperatorId(id)).collect(),
                window: *window,
                channels: 1,
            });
        }
        scheduler
    }

    fn slide_ms(scheduler: &Scheduler<()>, id: usize) -> i64 {
        scheduler.operators[id].as_ref().unwrap().links.deferring_to.map_or(0, WindowEnds::every_ms)
    }

    fn slides(operators: &[(&[u32], Option<WindowShape>)]) -> Vec<i64> {
        let scheduler = scheduler(Composition::of(Laxity::default()), operators);
        (0..operators.len()).map(|id| slide_ms(&scheduler, id)).collect()
    }

    #[test]
    fn all_on_the_way_to_a_window_waits_for_its_end() {
        // source, filter, window, map, sink
        let chain =
            [(&[] as &[u32], None), (&[0], None), (&[1], window(1_000, Some(0))), (&[2], None), (&[3], None)];
        assert_eq!(slides(&chain), [1_000, 1_000, 1_000, 0, 0]);
    }

    #[test]
    fn a_way_past_the_window_lets_nothing_wait() {
        let fork = [(&[] as &[u32], None), (&[0], window(1_000, Some(0))), (&[0], None), (&[1], None)];
        assert_eq!(slides(&fork), [0, 1_000, 0, 0]);
        let unaligned = [(&[] as &[u32], None), (&[0], window(1_000, None))];
        assert_eq!(slides(&unaligned), [0, 0]);
    }

    #[test]
    fn two_windows_end_at_multiples_of_what_they_have_in_common() {
        let fork = [(&[] as &[u32], None), (&[0], window(6_000, Some(0))), (&[0], window(4_000, Some(0)))];
        assert_eq!(slides(&fork), [2_000, 6_000, 4_000]);
        let offset =
            [(&[] as &[u32], None), (&[0], window(6_000, Some(0))), (&[0], window(4_000, Some(500)))];
        assert_eq!(slides(&offset), [500, 6_000, 4_000]);
    }

    #[test]
    fn cameo_defers_at_the_window_alone() {
        let chain = [(&[] as &[u32], None), (&[0], None), (&[1], window(1_000, Some(0)))];
        let mut scheduler = scheduler(Composition::of(Llf), &chain);
        let slides = |s: &Scheduler<()>| [0, 1, 2].map(|id| slide_ms(s, id));
        assert_eq!(slides(&scheduler), [0, 0, 1_000]);
        scheduler.set_policy(Composition::of(Laxity::default()), ProcessingTime::ZERO);
        assert_eq!(slides(&scheduler), [1_000, 1_000, 1_000]);
        scheduler.set_policy(Composition::of(Llf), ProcessingTime::ZERO);
        assert_eq!(slides(&scheduler), [0, 0, 1_000]);
    }

    #[test]
    fn the_row_that_crosses_an_end_does_not_wait() {
        let chain = [(&[] as &[u32], None), (&[0], None), (&[1], window(1_000, Some(0)))];
        let mut scheduler = scheduler(Composition::of(Laxity::default()), &chain);
        // Real time, every 100 ms: the source is known after 8 rows.
        let mut due = Vec::new();
        for tenth in 0..15 {
            let at = ProcessingTime(tenth * 100_000_000);
            let message = |to| Message {
                to: OperatorId(to),
                channel: 0,
                progress: EventTime(tenth as i64 * 100),
                ingested: at,
                rows: 1,
                bytes: 0,
                body: (),
            };
            scheduler.on_message(message(0), at);
            scheduler.on_message(message(1), at);
            let last = scheduler.operators[1].as_ref().unwrap().mailbox.iter().last().unwrap();
            due.push((last.deadline.0 - at.0 - 1_000_000) / 1_000_000);
        }
        // The rows at 0.8 and 0.9 s wait for 1 s, that at 1.0 s closes the window, the others wait for 2 s.
        assert_eq!(due[8..13], [200, 100, 0, 900, 800]);
    }
}
