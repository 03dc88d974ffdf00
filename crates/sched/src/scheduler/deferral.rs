//! How far above a window its rows may already wait for its end, for ranks that forecast watermarks.

use laxity_graph::OperatorId;

use super::operator::Operator;
use crate::Scheduler;
use crate::stream::common_divisor;

/// Which rows may wait for the end of a window, beyond what Cameo's TRANSFORM lets wait.
///
/// Cameo defers what waits for a window operator. The rows that are still on their way to one wait for the same
/// window's end: nothing that they influence leaves before it. A rank that says so
/// ([`crate::Needs::forecasts`]) has them deferred at every operator from the source on, if all ways from there
/// lead through windows that are aligned. The message that closes a window is told from the others at each
/// operator as at the window itself: it crosses the end.
impl<T> Scheduler<T> {
    /// A new operator changes what those above it lead to.
    pub(super) fn refresh_deferral_above(&mut self, id: OperatorId) {
        let mut changed = vec![id];
        while let Some(id) = changed.pop() {
            let slide_ms = self.slide_on_the_way_ms(id);
            let Some(operator) = self.operators[id.index()].as_mut() else { continue };
            let before = operator.links.on_the_way_slide_ms.replace(slide_ms);
            if before != Some(slide_ms) {
                changed.extend_from_slice(&operator.links.upstream);
                self.refresh_deferral(id);
            }
        }
    }

    /// What an operator defers to under the rank that rules now.
    pub(super) fn refresh_deferral(&mut self, id: OperatorId) {
        let Some(operator) = self.operator(id) else { return };
        let window_slide_ms = operator.links.window_slide_ms;
        let slide_ms = match operator.links.on_the_way_slide_ms {
            Some(slide_ms) if window_slide_ms == 0 && self.needs.forecasts => slide_ms,
            _ => window_slide_ms,
        };
        let mut sources = match slide_ms {
            0 => Vec::new(),
            _ if operator.is_source => vec![id],
            _ => self.sources_of(&operator.links.upstream),
        };
        if window_slide_ms == 0 && sources.len() > SOURCES_ON_THE_WAY_MAX {
            // The frontier is that of the slowest source. A sample of many says it too early, if it errs.
            let step = sources.len().div_ceil(SOURCES_ON_THE_WAY_MAX);
            sources = sources.into_iter().step_by(step).collect();
        }
        let operator = self.operators[id.index()].as_mut().expect("looked up above");
        operator.deferring_slide_ms = slide_ms;
        operator.links.sources = sources;
    }

    /// The greatest distance whose multiples hold all ends of the windows that lie next below; 0 where a way leads
    /// past them to a sink.
    fn slide_on_the_way_ms(&self, id: OperatorId) -> i64 {
        let Some(operator) = self.operator(id) else { return 0 };
        let below = operator.links.downstream.iter().filter_map(|&below| self.operator(below));
        // 0 with anything is 0 here: one way past the windows is enough.
        let both = |a, b| if a == 0 || b == 0 { 0 } else { common_divisor(a, b) };
        below.map(Operator::awaited_slide_ms).reduce(both).unwrap_or(0)
    }
}

impl<T> Operator<T> {
    /// The distance of the window ends that rows sent to this operator wait for; 0 where they need not wait.
    fn awaited_slide_ms(&self) -> i64 {
        match self.links.window {
            Some(window) if window.is_aligned => window.slide_ms.max(0),
            Some(_) => 0,
            None => self.links.on_the_way_slide_ms.unwrap_or(0),
        }
    }
}

/// Sources that a frontier is predicted from at operators that are no windows: they see every row.
const SOURCES_ON_THE_WAY_MAX: usize = 16;

#[cfg(test)]
mod tests {
    use laxity_graph::{EventTime, ProcessingTime, QueryId, WindowShape};

    use super::*;
    use crate::{Composition, Config, Laxity, Llf, Message, OperatorSpec, QuerySpec};

    const fn window(slide_ms: i64, is_aligned: bool) -> Option<WindowShape> {
        Some(WindowShape { size_ms: 2 * slide_ms, slide_ms, is_aligned })
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

    fn slides(operators: &[(&[u32], Option<WindowShape>)]) -> Vec<i64> {
        let scheduler = scheduler(Composition::of(Laxity::default()), operators);
        (0..operators.len()).map(|id| scheduler.operators[id].as_ref().unwrap().deferring_slide_ms).collect()
    }

    #[test]
    fn all_on_the_way_to_a_window_waits_for_its_end() {
        // source, filter, window, map, sink
        let chain =
            [(&[] as &[u32], None), (&[0], None), (&[1], window(1_000, true)), (&[2], None), (&[3], None)];
        assert_eq!(slides(&chain), [1_000, 1_000, 1_000, 0, 0]);
    }

    #[test]
    fn a_way_past_the_window_lets_nothing_wait() {
        let fork = [(&[] as &[u32], None), (&[0], window(1_000, true)), (&[0], None), (&[1], None)];
        assert_eq!(slides(&fork), [0, 1_000, 0, 0]);
        let unaligned = [(&[] as &[u32], None), (&[0], window(1_000, false))];
        assert_eq!(slides(&unaligned), [0, 0]);
    }

    #[test]
    fn two_windows_end_at_multiples_of_what_they_have_in_common() {
        let fork = [(&[] as &[u32], None), (&[0], window(6_000, true)), (&[0], window(4_000, true))];
        assert_eq!(slides(&fork), [2_000, 6_000, 4_000]);
    }

    #[test]
    fn cameo_defers_at_the_window_alone() {
        let chain = [(&[] as &[u32], None), (&[0], None), (&[1], window(1_000, true))];
        let mut scheduler = scheduler(Composition::of(Llf), &chain);
        let slides =
            |s: &Scheduler<()>| [0, 1, 2].map(|id| s.operators[id].as_ref().unwrap().deferring_slide_ms);
        assert_eq!(slides(&scheduler), [0, 0, 1_000]);
        scheduler.set_policy(Composition::of(Laxity::default()), ProcessingTime::ZERO);
        assert_eq!(slides(&scheduler), [1_000, 1_000, 1_000]);
        scheduler.set_policy(Composition::of(Llf), ProcessingTime::ZERO);
        assert_eq!(slides(&scheduler), [0, 0, 1_000]);
    }

    #[test]
    fn the_row_that_crosses_an_end_does_not_wait() {
        let chain = [(&[] as &[u32], None), (&[0], None), (&[1], window(1_000, true))];
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
