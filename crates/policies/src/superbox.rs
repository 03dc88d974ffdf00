//! What all traversals share: the graph of a unit, and the paper's cost, selectivity and tuple as they are measured
//! here.

use laxity_graph::OperatorId;
use laxity_sched::OperatorSnapshot;

/// The operators of a unit as places 0 … n − 1, producers first, with what every plan needs of their graph.
///
/// Kept from plan to plan, because it changes only when the graph does.
#[derive(Clone, Debug, Default)]
pub(super) struct Superbox {
    ids: Vec<OperatorId>,
    /// Sorted.
    by_id: Vec<(OperatorId, u32)>,
    downstream: Lists,
    /// D(b): b and everything downstream of it, producers first.
    reach: Lists,
    post_order: Vec<u32>,
}

/// Lists of places, one per place, end to end.
#[derive(Clone, Debug, Default)]
struct Lists {
    ends: Vec<u32>,
    places: Vec<u32>,
}

impl Superbox {
    pub fn of(operators: &[OperatorSnapshot]) -> Superbox {
        let ids: Vec<OperatorId> = operators.iter().map(|operator| operator.id).collect();
        let mut by_id: Vec<(OperatorId, u32)> =
            ids.iter().enumerate().map(|(place, &id)| (id, place as u32)).collect();
        by_id.sort_unstable();
        let place_of = |id: &OperatorId| {
            let found = by_id.binary_search_by_key(id, |&(id, _)| id).ok();
            found.map(|found| by_id[found].1)
        };
        let mut downstream = Lists::default();
        for operator in operators {
            // What lies in other units is not ours to order.
            downstream.push(operator.downstream.iter().filter_map(place_of));
        }
        let reach = reach(&downstream);
        let post_order = post_order(&downstream);
        Superbox { ids, by_id, downstream, reach, post_order }
    }

    /// Whether these are the operators it was made of, with the edges they had: ids come again, in other graphs.
    pub fn is_of(&self, operators: &[OperatorSnapshot]) -> bool {
        self.ids.len() == operators.len()
            && self.ids.iter().zip(operators).enumerate().all(|(place, (&id, operator))| {
                let mut kept =
                    self.downstream.of(place).iter().map(|&place| self.ids[place as usize]).peekable();
                let is_kept = |below: &OperatorId| kept.next_if_eq(below).is_some() || !self.has(*below);
                id == operator.id && operator.downstream.iter().all(is_kept) && kept.peek().is_none()
            })
    }

    fn has(&self, id: OperatorId) -> bool {
        self.by_id.binary_search_by_key(&id, |&(id, _)| id).is_ok()
    }

    pub fn id(&self, place: usize) -> OperatorId {
        self.ids[place]
    }

    /// Of one of its operators.
    pub fn place(&self, id: OperatorId) -> usize {
        // Usually they follow one another.
        let near = id.index().wrapping_sub(self.ids[0].index());
        if self.ids.get(near) == Some(&id) {
            return near;
        }
        let found = self.by_id.binary_search_by_key(&id, |&(id, _)| id);
        self.by_id[found.expect("an operator of the unit")].1 as usize
    }

    pub fn downstream(&self, place: usize) -> &[u32] {
        self.downstream.of(place)
    }

    /// D(b).
    pub fn reach(&self, place: usize) -> &[u32] {
        self.reach.of(place)
    }

    /// Every place once, each after all that feed it, and close to what it feeds.
    pub fn post_order(&self) -> &[u32] {
        &self.post_order
    }
}

impl Lists {
    fn push(&mut self, places: impl IntoIterator<Item = u32>) {
        self.places.extend(places);
        self.ends.push(self.places.len() as u32);
    }

    fn of(&self, place: usize) -> &[u32] {
        let start = place.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.places[start as usize..self.ends[place] as usize]
    }

    fn len(&self) -> usize {
        self.ends.len()
    }
}

fn reach(downstream: &Lists) -> Lists {
    let boxes = downstream.len();
    let mut lists = Lists::default();
    let mut reached = vec![false; boxes];
    for place in 0..boxes {
        reached[place..].fill(false);
        reached[place] = true;
        // Producers stand first, so one pass reaches everything.
        let found = (place..boxes).filter(|&at| {
            if reached[at] {
                downstream.of(at).iter().for_each(|&below| reached[below as usize] = true);
            }
            reached[at]
        });
        let found: Vec<u32> = found.map(|at| at as u32).collect();
        lists.push(found);
    }
    lists
}

/// Depth-first from the outputs up, inputs in order of place.
fn post_order(downstream: &Lists) -> Vec<u32> {
    let boxes = downstream.len();
    let mut upstream: Vec<Vec<u32>> = vec![Vec::new(); boxes];
    for place in 0..boxes {
        downstream.of(place).iter().for_each(|&below| upstream[below as usize].push(place as u32));
    }
    let mut order = Vec::with_capacity(boxes);
    let mut seen = vec![false; boxes];
    let outputs = (0..boxes).filter(|&place| downstream.of(place).is_empty());
    // (place, inputs of it already visited), in the stead of recursion: a chain may be long.
    let mut path: Vec<(u32, usize)> = Vec::new();
    for output in outputs {
        path.push((output as u32, 0));
        while let Some((place, visited)) = path.last_mut() {
            let at = *place;
            match upstream[at as usize].get(*visited) {
                Some(&above) => {
                    *visited += 1;
                    if !std::mem::replace(&mut seen[above as usize], true) {
                        path.push((above, 0));
                    }
                }
                None => {
                    order.push(at);
                    path.pop();
                }
            }
        }
    }
    order
}

/// One entry per unit, for plans that keep something from dispatch to dispatch.
///
/// Bounded: units that share a slot push each other out, which costs time and changes no plan.
#[derive(Debug)]
pub(super) struct PerUnit<C> {
    slots: Vec<Option<C>>,
}

/// Units whose plans are kept at a time. A superbox of five operators takes about 300 bytes.
const SLOTS: usize = 4096;

impl<C> Default for PerUnit<C> {
    fn default() -> PerUnit<C> {
        PerUnit { slots: Vec::new() }
    }
}

impl<C> PerUnit<C> {
    /// What is kept for the unit that these operators are; made anew where `fits` says it is of others.
    pub fn get(
        &mut self,
        operators: &[OperatorSnapshot],
        fits: impl FnOnce(&C) -> bool,
        make: impl FnOnce() -> C,
    ) -> &mut C {
        let slot = operators.first().map_or(0, |operator| operator.query.index() % SLOTS);
        if self.slots.len() <= slot {
            self.slots.resize_with(slot + 1, || None);
        }
        let kept = &mut self.slots[slot];
        if !kept.as_ref().is_some_and(fits) {
            *kept = None;
        }
        kept.get_or_insert_with(make)
    }
}

/// Rows per message among those that wait, at least 1: what a plan takes a tuple of the paper to be.
pub(super) fn rows_per_message(operators: &[OperatorSnapshot]) -> f64 {
    let (rows, messages) = operators.iter().fold((0, 0), |(rows, messages), operator| {
        (rows + operator.queued_rows, messages + operator.queued_messages)
    });
    if rows == 0 { 1.0 } else { (rows as f64 / messages as f64).max(1.0) }
}

/// cost(b): CPU time of one row of a message of so many rows. Above 0.
pub(super) fn row_cost_ns(operator: &OperatorSnapshot, rows_per_message: f64) -> f64 {
    (operator.cost.0 / rows_per_message + operator.cost.1).max(1e-3)
}

/// sel(b), kept above 0, because what was never seen to pass may.
pub(super) fn selectivity(operator: &OperatorSnapshot) -> f64 {
    operator.selectivity.max(1e-6)
}

#[cfg(test)]
pub(super) mod tests {
    use std::sync::Arc;

    use laxity_graph::QueryId;
    use proptest::prelude::*;

    use laxity_sched::Plan;

    use super::*;
    use crate::{Auto, MinCost, MinLatency, MinMemory};

    /// Boxes in this order, each with the places that it feeds; one row of one byte waits for each; cost p = 1
    /// per row, no fixed cost, selectivity 1.
    pub fn boxes(downstream: &[&[u32]]) -> Vec<OperatorSnapshot> {
        let ids = |places: &[u32]| places.iter().copied().map(OperatorId).collect::<Arc<[OperatorId]>>();
        let upstream = |place: u32| {
            let above = downstream.iter().enumerate().filter(move |(_, below)| below.contains(&place));
            above.map(|(above, _)| above as u32).collect::<Vec<u32>>()
        };
        (0..downstream.len() as u32)
            .map(|place| OperatorSnapshot {
                id: OperatorId(place),
                query: QueryId(0),
                unit: 0,
                upstream: ids(&upstream(place)),
                downstream: ids(downstream[place as usize]),
                window: None,
                running: false,
                resumes: false,
                blocked: false,
                queued_messages: 1,
                queued_rows: 1,
                queued_bytes: 1,
                head: None,
                mean_ingested: None,
                cost: (0.0, 1.0),
                usual_rows: 1.0,
                usual_cost_ns: 1,
                path_cost_ns: 0,
                selectivity: 1.0,
                row_bytes: 1.0,
            })
            .collect()
    }

    /// Aurora's Fig. 4. b1 is the root; b2 and b6 feed b1; b4 and b3 feed b2; b5 feeds b3.
    /// In the order b4 b5 b3 b2 b6 b1: producers first, as drawn from left to right.
    pub fn figure_4() -> Vec<OperatorSnapshot> {
        boxes(&[&[3], &[2], &[3], &[5], &[5], &[]])
    }

    /// The places of [`figure_4`] by the paper's names.
    pub fn name(id: OperatorId) -> &'static str {
        ["b4", "b5", "b3", "b2", "b6", "b1"][id.index()]
    }

    pub fn names(order: &[OperatorId]) -> String {
        order.iter().map(|&id| name(id)).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn a_diamond_is_reached_once_and_in_order() {
        // 0 feeds 2 and 3, 1 feeds 3; both feed 4.
        let superbox = Superbox::of(&boxes(&[&[2, 3], &[3], &[4], &[4], &[]]));
        assert_eq!(superbox.reach(0), [0, 2, 3, 4]);
        assert_eq!(superbox.reach(1), [1, 3, 4]);
        assert_eq!(superbox.post_order(), [0, 2, 1, 3, 4]);
    }

    #[test]
    fn what_is_kept_is_made_anew_for_other_operators() {
        let mut kept: PerUnit<Superbox> = PerUnit::default();
        let mut get = |operators: &[OperatorSnapshot]| {
            let made = kept.get(operators, |s| s.is_of(operators), || Superbox::of(operators));
            (made.ids.len(), made.id(0))
        };
        let small = boxes(&[&[1], &[]]);
        assert_eq!(get(&small), (2, OperatorId(0)));
        let mut grown = boxes(&[&[1], &[2], &[]]);
        assert_eq!(get(&grown).0, 3);
        grown.iter_mut().for_each(|operator| operator.query = QueryId(SLOTS as u32));
        grown[0].id = OperatorId(70);
        assert_eq!(get(&grown), (3, OperatorId(70)));
        assert_eq!(get(&small), (2, OperatorId(0)));
    }

    /// A graph in which operator i feeds any of those after it.
    fn graph(edges: &[Vec<prop::sample::Index>]) -> Vec<OperatorSnapshot> {
        let count = edges.len() as u32 + 1;
        let below: Vec<Vec<u32>> = (0..count)
            .map(|place| {
                let feeds = edges.get(place as usize).into_iter().flatten();
                let later = (count - place - 1).max(1) as usize;
                let mut below: Vec<u32> = feeds.map(|to| place + 1 + to.index(later) as u32).collect();
                below.sort_unstable();
                below.dedup();
                below
            })
            .collect();
        boxes(&below.iter().map(Vec::as_slice).collect::<Vec<_>>())
    }

    proptest! {
        #[test]
        fn every_plan_brings_all_that_waits_to_the_outputs(
            edges in prop::collection::vec(prop::collection::vec(any::<prop::sample::Index>(), 0..4), 1..12),
            numbers in prop::collection::vec((0usize..3, 0u32..15, 1u32..9), 12),
        ) {
            let mut operators = graph(&edges);
            for (operator, (messages, sel, cost)) in operators.iter_mut().zip(numbers) {
                operator.queued_messages = messages;
                operator.queued_rows = 10 * messages as u64;
                operator.selectivity = f64::from(sel) / 10.0;
                operator.cost = (f64::from(cost), 1.0);
            }
            let plans: [Box<dyn Plan>; 4] = [
                Box::<MinCost>::default(),
                Box::<MinLatency>::default(),
                Box::<MinMemory>::default(),
                Box::<Auto>::default(),
            ];
            for mut plan in plans {
                let mut order = Vec::new();
                plan.plan(&operators, &mut order);
                let mut waits: Vec<bool> = operators.iter().map(OperatorSnapshot::has_work).collect();
                for id in order {
                    if std::mem::take(&mut waits[id.index()]) {
                        let below = operators[id.index()].downstream.iter();
                        below.for_each(|below| waits[below.index()] = true);
                    }
                }
                prop_assert!(!waits.contains(&true), "{plan:?} leaves {waits:?}");
            }
        }
    }
}
