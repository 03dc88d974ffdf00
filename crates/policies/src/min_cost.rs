use laxity_graph::OperatorId;
use laxity_sched::{OperatorSnapshot, Plan};

use crate::superbox::{PerUnit, Superbox};

/// `min-cost`: every operator of the unit once, each after all that feed it. Aurora §4.1.2, "Min-Cost (MC)".
///
/// Fewest calls per result: a call takes along all that came from above. In post-order, so that what an operator
/// sends on is worked off while it is warm.
///
/// Deviates from the paper in that the unit may be any acyclic graph: an operator with several consumers comes
/// once, before the first of them. Does badly on latency where work is dear against calls: the first result
/// comes when nearly all work is done ([`super::MinLatency`]).
/// Waiting: every operator has its turn in every plan.
#[derive(Debug, Default)]
pub struct MinCost {
    kept: PerUnit<Superbox>,
}

impl Plan for MinCost {
    fn plan(&mut self, operators: &[OperatorSnapshot], order: &mut Vec<OperatorId>) {
        let superbox = self.kept.get(operators, |s| s.is_of(operators), || Superbox::of(operators));
        min_cost(superbox, order);
    }
}

pub(super) fn min_cost(superbox: &Superbox, order: &mut Vec<OperatorId>) {
    order.extend(superbox.post_order().iter().map(|&place| superbox.id(place as usize)));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::superbox::tests::{boxes, figure_4, names};

    #[test]
    fn figure_4_in_post_order() {
        let mut order = Vec::new();
        MinCost::default().plan(&figure_4(), &mut order);
        assert_eq!(names(&order), "b4 b5 b3 b2 b6 b1");
    }

    #[test]
    fn an_operator_with_several_consumers_comes_once() {
        let mut order = Vec::new();
        MinCost::default().plan(&boxes(&[&[1, 2], &[3], &[3], &[]]), &mut order);
        assert_eq!(order, [0, 1, 2, 3].map(OperatorId));
    }
}
