use laxity_graph::OperatorId;

use super::Dispatch;
use super::qos::Urgency;
use super::superbox::has_work;
use crate::OperatorSnapshot;

/// The top-k spanner of a query: its k most urgent operators and all that lies between them and the outputs.
///
/// Aurora §4.1.1: "the operator tree that is rooted at an output box and that spans the k highest priority boxes for
/// a given application", priorities as in §6.1 ([`Urgency`]). One dispatch serves this part alone; any plan gives
/// the order in it, because to the plan nothing waits outside. Equals in the order in which they stand.
///
/// Waiting: an operator outside waits until it is among the k most urgent. Ages grow, but utility past the last
/// critical point is 0, so while fresh rows keep coming to k others it can wait for ever: only the unit has a
/// bound, not the operators in it.
#[derive(Debug, Default)]
pub(crate) struct Spanner {
    ranked: Vec<(Urgency, u32)>,
    /// By place, whether it is part.
    part: Vec<bool>,
    /// The ids of its operators, sorted.
    ids: Vec<OperatorId>,
    /// The operators as a plan may see them.
    operators: Vec<OperatorSnapshot>,
}

impl Spanner {
    /// The same operators, with nothing waiting for those outside.
    pub fn narrow(
        &mut self,
        most_urgent: u32,
        dispatch: &Dispatch<'_>,
        operators: &[OperatorSnapshot],
    ) -> &[OperatorSnapshot] {
        self.ranked.clear();
        let with_work = operators.iter().zip(0..).filter(|(operator, _)| has_work(operator));
        let urgency = |operator| Urgency::of(operator, dispatch.query, dispatch.now);
        self.ranked.extend(with_work.map(|(operator, place)| (urgency(operator), place)));
        self.ranked.sort_unstable_by(|(a, at), (b, other)| a.order(b).then(at.cmp(other)));
        self.part.clear();
        self.part.resize(operators.len(), false);
        for &(_, place) in self.ranked.iter().take(most_urgent as usize) {
            self.part[place as usize] = true;
        }
        self.operators.clear();
        self.operators.extend_from_slice(operators);
        for place in 0..operators.len() {
            if !self.part[place] {
                continue;
            }
            for below in operators[place].downstream.iter() {
                // Producers stand first: what is below comes later.
                let found = operators[place..].iter().position(|operator| operator.id == *below);
                if let Some(found) = found {
                    self.part[place + found] = true;
                }
            }
        }
        self.ids.clear();
        for (operator, &part) in self.operators.iter_mut().zip(&self.part) {
            if part {
                self.ids.push(operator.id);
                continue;
            }
            operator.queued_messages = 0;
            operator.queued_rows = 0;
            operator.queued_bytes = 0;
            operator.resumes = false;
        }
        self.ids.sort_unstable();
        &self.operators
    }

    /// Whether the operator is part of the last spanner.
    pub fn spans(&self, id: OperatorId) -> bool {
        self.ids.binary_search(&id).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use laxity_graph::{ProcessingTime, QosCurve, QueryId};

    use super::super::superbox::tests::{figure_4, name};
    use super::super::{MinLatency, Plan};
    use super::*;
    use crate::{CallCost, QuerySnapshot};

    #[test]
    fn the_most_urgent_and_the_way_to_the_output() {
        let mut operators = figure_4();
        let query = QuerySnapshot {
            id: QueryId(0),
            target_ns: 100,
            weight: 1.0,
            qos: QosCurve::of_target_ns(100),
            operators: operators.iter().map(|operator| operator.id).collect(),
            streams: Vec::new(),
            sweeping: None,
        };
        let dispatch = Dispatch { now: ProcessingTime(1_000), query: &query, call: CallCost::default() };
        // All else is fresh. b4's row is on the falling part of the curve; b3's is nearer to it than b6's.
        for (place, age) in [(0, 150), (2, 90), (4, 80)] {
            operators[place].mean_ingested = Some(ProcessingTime(1_000 - age));
        }
        let mut spanner = Spanner::default();
        let mut spanned = |k| {
            let narrowed = spanner.narrow(k, &dispatch, &operators).to_vec();
            let mut order = Vec::new();
            MinLatency::default().plan(&narrowed, &mut order);
            let order: Vec<&str> = order.iter().map(|&id| name(id)).collect();
            let part = operators.iter().filter(|operator| spanner.spans(operator.id));
            (part.map(|operator| name(operator.id)).collect::<Vec<_>>().join(" "), order.join(" "))
        };
        assert_eq!(spanned(1), ("b4 b2 b1".into(), "b1 b2 b1 b4 b2 b1".into()));
        assert_eq!(spanned(2).0, "b4 b3 b2 b1");
        assert_eq!(spanned(3).0, "b4 b3 b2 b6 b1");
        assert_eq!(spanned(99).0, "b4 b5 b3 b2 b6 b1");
    }
}
