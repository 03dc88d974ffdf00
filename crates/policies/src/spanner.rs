//! Around any plan: only the most urgent part of a query is served in one dispatch (Aurora §4.1.1).

use laxity_graph::{OperatorId, ProcessingTime};
use laxity_sched::{Dispatch, OperatorSnapshot, Plan, QuerySnapshot};

use crate::qos::Urgency;

/// The top-k spanner of a query: its k most urgent operators and all that lies between them and the outputs.
///
/// Aurora §4.1.1: "the operator tree that is rooted at an output box and that spans the k highest priority boxes for
/// a given application", priorities as in §6.1 (`Urgency`). One dispatch serves this part alone; any plan gives
/// the order in it, because to the plan nothing waits outside; by rank, the most urgent go first anyway. Equals in the order in which they stand.
///
/// Waiting: an operator outside waits until it is among the k most urgent. Ages grow, but utility past the last
/// critical point is 0, so while fresh rows keep coming to k others it can wait for ever: only the unit has a
/// bound, not the operators in it.
#[derive(Debug)]
pub struct Spanner {
    plan: Box<dyn Plan>,
    most_urgent: u32,
    /// For whom the plan is, and when.
    dispatched: Option<(ProcessingTime, QuerySnapshot)>,
    ranked: Vec<(Urgency, u32)>,
    /// By place, whether it is part.
    part: Vec<bool>,
    /// The ids of its operators, sorted.
    ids: Vec<OperatorId>,
    /// The operators as a plan may see them.
    operators: Vec<OperatorSnapshot>,
}

impl Spanner {
    /// The plan, for what spans so many of the most urgent operators.
    pub fn new(plan: Box<dyn Plan>, most_urgent: u32) -> Spanner {
        Spanner {
            plan,
            most_urgent,
            dispatched: None,
            ranked: Vec::new(),
            part: Vec::new(),
            ids: Vec::new(),
            operators: Vec::new(),
        }
    }

    /// The same operators, with nothing waiting for those outside.
    fn narrow(&mut self, operators: &[OperatorSnapshot]) {
        let Some((now, query)) = &self.dispatched else { return };
        self.ranked.clear();
        let with_work = operators.iter().zip(0..).filter(|(operator, _)| operator.has_work());
        let urgency = |operator| Urgency::of(operator, query, *now);
        self.ranked.extend(with_work.map(|(operator, place)| (urgency(operator), place)));
        self.ranked.sort_unstable_by(|(a, at), (b, other)| a.order(b).then(at.cmp(other)));
        self.part.clear();
        self.part.resize(operators.len(), false);
        for &(_, place) in self.ranked.iter().take(self.most_urgent as usize) {
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
    }

    /// Whether the operator is part of the last spanner.
    fn spans(&self, id: OperatorId) -> bool {
        self.ids.binary_search(&id).is_ok()
    }
}

impl Plan for Spanner {
    fn dispatch(&mut self, dispatch: &Dispatch<'_>) {
        self.dispatched = Some((dispatch.now, dispatch.query.clone()));
        self.plan.dispatch(dispatch);
    }

    fn plan(&mut self, operators: &[OperatorSnapshot], order: &mut Vec<OperatorId>) {
        self.narrow(operators);
        self.plan.plan(&self.operators, order);
        order.retain(|&id| self.spans(id));
    }
}

#[cfg(test)]
mod tests {
    use laxity_graph::{QosCurve, QueryId};

    use super::*;
    use crate::MinLatency;
    use crate::superbox::tests::{figure_4, name};
    use laxity_sched::CallCost;

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
        let spanned = |k| {
            let mut spanner = Spanner::new(Box::<MinLatency>::default(), k);
            spanner.dispatch(&dispatch);
            let mut order = Vec::new();
            spanner.plan(&operators, &mut order);
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
