//! The traversal for early results (Aurora §4.1.2), one of the two that `auto` chooses from.

use laxity_graph::OperatorId;
use laxity_sched::{OperatorSnapshot, Plan};

use crate::superbox::{PerUnit, Superbox, row_cost_ns, rows_per_message, selectivity};

/// `min-latency`: first the operator whose rows become results soonest, all the way; then the next. Aurora §4.1.2,
/// "Min-Latency (ML)".
///
/// Operators with work are sorted by output cost, and for each, in that order, D(b) is appended:
/// output_cost(b) = Σ_{k∈D(b)} cost(k) / o_sel(b).
///
/// | Symbol | Here | Unit |
/// | --- | --- | --- |
/// | cost(k) | b + a / n of C(n) = a + b·n, at the rows per message n that wait in the unit | ns per row |
/// | sel(k) | [`OperatorSnapshot::selectivity`] | rows per row |
/// | D(b) | b and everything downstream of it | |
/// | o_sel(b) | rows at the outputs per row at b | rows per row |
///
/// Deviates from the paper where an operator has several consumers: o_sel is the sum over all ways to an output,
/// each the product of the selectivities on it, which on a tree is the paper's product. Parallel copies are counted
/// as ways in o_sel and as costs in the sum alike, so their number cancels out. Operators without work are left
/// out as starting points, because nothing of theirs could move.
///
/// Does badly where calls are dear against work: it calls most often of all plans, and a result that is early
/// by little delays all others ([`super::Auto`] chooses). Waiting: every operator with work has its turn in
/// every plan.
#[derive(Debug, Default)]
pub struct MinLatency {
    kept: PerUnit<Kept>,
}

/// What was derived last for a unit: sorting again costs little where the order has not changed.
#[derive(Debug)]
pub(super) struct Kept {
    pub superbox: Superbox,
    /// Places by output cost.
    sorted: Vec<u32>,
    output_cost: Vec<f64>,
    output_selectivity: Vec<f64>,
}

impl Plan for MinLatency {
    fn plan(&mut self, operators: &[OperatorSnapshot], order: &mut Vec<OperatorId>) {
        self.kept
            .get(operators, |kept| kept.superbox.is_of(operators), || Kept::of(operators))
            .min_latency(operators, order);
    }
}

impl Kept {
    pub fn of(operators: &[OperatorSnapshot]) -> Kept {
        let boxes = operators.len();
        Kept {
            superbox: Superbox::of(operators),
            sorted: (0..boxes as u32).collect(),
            output_cost: vec![0.0; boxes],
            output_selectivity: vec![0.0; boxes],
        }
    }

    pub fn min_latency(&mut self, operators: &[OperatorSnapshot], order: &mut Vec<OperatorId>) {
        self.rate(operators);
        // Linear where the order is the last one still.
        let cost = &self.output_cost;
        self.sorted.sort_by(|&a, &b| cost[a as usize].total_cmp(&cost[b as usize]).then(a.cmp(&b)));
        let superbox = &self.superbox;
        for &place in self.sorted.iter().filter(|&&place| operators[place as usize].has_work()) {
            order.extend(superbox.reach(place as usize).iter().map(|&k| superbox.id(k as usize)));
        }
    }

    /// Output cost and selectivity of every operator, from the outputs up.
    fn rate(&mut self, operators: &[OperatorSnapshot]) {
        let rows = rows_per_message(operators);
        for place in (0..operators.len()).rev() {
            let below = self.superbox.downstream(place);
            let ways = match below {
                [] => 1.0,
                _ => below.iter().map(|&k| self.output_selectivity[k as usize]).sum(),
            };
            self.output_selectivity[place] = selectivity(&operators[place]) * ways;
            let reach = self.superbox.reach(place).iter();
            let cost: f64 = reach.map(|&k| row_cost_ns(&operators[k as usize], rows)).sum();
            self.output_cost[place] = cost / self.output_selectivity[place];
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::superbox::tests::{boxes, figure_4, names};

    fn plan(operators: &[OperatorSnapshot]) -> Vec<OperatorId> {
        let mut order = Vec::new();
        MinLatency::default().plan(operators, &mut order);
        order
    }

    #[test]
    fn figure_4_from_the_cheapest_output_on() {
        assert_eq!(names(&plan(&figure_4())), "b1 b2 b1 b6 b1 b4 b2 b1 b3 b2 b1 b5 b3 b2 b1");
    }

    #[test]
    fn rows_that_seldom_get_through_come_late() {
        // 0 and 1 feed 2. 0 costs 1 and lets one row of ten through, 1 costs 5 and lets all through:
        // output costs (1 + 1) / 0.1 = 20 and (5 + 1) / 1 = 6.
        let mut operators = boxes(&[&[2], &[2], &[]]);
        operators[0].selectivity = 0.1;
        operators[1].cost = (0.0, 5.0);
        assert_eq!(plan(&operators), [2, 1, 2, 0, 2].map(OperatorId));
        // Batches of a hundred rows that cost 500 each weigh as much as rows of 5 each.
        operators.iter_mut().for_each(|operator| operator.queued_rows = 100);
        operators[1].cost = (500.0, 0.0);
        assert_eq!(plan(&operators), [2, 1, 2, 0, 2].map(OperatorId));
    }

    #[test]
    fn an_operator_without_work_starts_nothing() {
        let mut operators = boxes(&[&[1], &[2], &[]]);
        operators[1].queued_messages = 0;
        operators[2].queued_messages = 0;
        operators[2].resumes = true;
        assert_eq!(plan(&operators), [2, 0, 1, 2].map(OperatorId));
    }

    #[test]
    fn copies_of_an_operator_do_not_make_it_cheaper() {
        // 0 feeds the copies 2 and 3 of an operator that costs 4, 1 feeds one that costs 5.
        let mut operators = boxes(&[&[2, 3], &[4], &[], &[], &[]]);
        for (place, cost) in [(2, 4.0), (3, 4.0), (4, 5.0)] {
            operators[place].cost = (0.0, cost);
            operators[place].queued_messages = 0;
        }
        // (1 + 2 · 4) / 2 = 4.5 against (1 + 5) / 1 = 6; one copy alone would be 5.
        assert_eq!(plan(&operators), [0, 2, 3, 1, 4].map(OperatorId));
    }

    /// The paper's text on a tree, followed literally: one product and one sum along the way down.
    fn literal(operators: &[OperatorSnapshot]) -> Vec<OperatorId> {
        let way = |mut at: usize| {
            let mut way = vec![at];
            while let Some(below) = operators[at].downstream.first() {
                at = below.index();
                way.push(at);
            }
            way
        };
        let output_cost = |place: usize| {
            let o_sel: f64 = way(place).iter().map(|&k| operators[k].selectivity).product();
            way(place).iter().map(|&k| operators[k].cost.1).sum::<f64>() / o_sel
        };
        let mut sorted: Vec<usize> = (0..operators.len()).collect();
        sorted.sort_by(|&a, &b| output_cost(a).total_cmp(&output_cost(b)));
        sorted.into_iter().flat_map(|place| way(place).into_iter().map(|k| operators[k].id)).collect()
    }

    proptest! {
        #[test]
        fn agrees_with_the_text_on_trees(
            parents in prop::collection::vec(any::<prop::sample::Index>(), 1..30),
            numbers in prop::collection::vec((1u32..50, 1u32..20), 30),
        ) {
            // Box i feeds a later one; the last is the output.
            let count = parents.len() + 1;
            let below: Vec<Vec<u32>> = (0..count)
                .map(|place| parents.get(place).map_or(vec![], |parent| {
                    vec![(place + 1 + parent.index(count - place - 1)) as u32]
                }))
                .collect();
            let below: Vec<&[u32]> = below.iter().map(Vec::as_slice).collect();
            let mut operators = boxes(&below);
            for (operator, (cost, sel)) in operators.iter_mut().zip(numbers) {
                operator.cost = (0.0, f64::from(cost));
                // Powers of two, so that both ways of multiplying round alike.
                operator.selectivity = 2f64.powi(sel as i32 - 10);
            }
            let mut planner = MinLatency::default();
            for _ in 0..2 {
                let mut order = Vec::new();
                planner.plan(&operators, &mut order);
                prop_assert_eq!(order, literal(&operators));
                // The second round sorts from what the first has left.
                operators.iter_mut().for_each(|operator| operator.cost.1 = 60.0 - operator.cost.1);
            }
        }
    }
}
