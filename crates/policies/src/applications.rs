//! For ranks by QoS curves: an operator that several queries read has to answer to the curve of each of them.

use laxity_graph::{OperatorId, QueryId};
use laxity_sched::{OperatorSnapshot, Snapshot};

use crate::qos::Urgency;

/// Which operators serve other applications than their own query, and what it costs to get there.
///
/// An application is a query that has an output. Nearly always an operator's only one is its own query, and C_path
/// leads there; what is kept here are the others.
#[derive(Debug, Default)]
pub(super) struct Applications {
    graph: Option<u64>,
    /// Ways of operators that serve others, each after those it leads over.
    ways: Vec<Way>,
    /// By place of such an operator, in order: where its ways stand.
    shared: Vec<(u32, std::ops::Range<u32>)>,
}

/// From an operator to an application.
#[derive(Debug)]
struct Way {
    application: QueryId,
    /// Places of the operators below that lead there, each with its own way if it is shared too.
    below: Vec<(u32, Option<u32>)>,
    /// From behind the operator to the furthest output of the application.
    cost_ns: u64,
}

impl Applications {
    /// Brings graph and costs up to date. Free where no query reads another's operators.
    pub fn refresh(&mut self, snapshot: &Snapshot) {
        if self.graph != Some(snapshot.graph) {
            self.graph = Some(snapshot.graph);
            self.find(snapshot);
        }
        for way in 0..self.ways.len() {
            let costs = self.ways[way].below.iter().map(|&(place, further)| {
                let below = &snapshot.operators[place as usize];
                let behind_ns = match further {
                    Some(further) => self.ways[further as usize].cost_ns,
                    None => below.path_cost_ns,
                };
                below.usual_cost_ns + behind_ns
            });
            self.ways[way].cost_ns = costs.max().unwrap_or(0);
        }
    }

    /// The p-tuple of the operator at that place, over all its applications.
    pub fn urgency(&self, place: usize, snapshot: &Snapshot) -> Option<Urgency> {
        let operator = &snapshot.operators[place];
        let Some(ways) = self.ways_of(place) else {
            return Some(Urgency::of(operator, snapshot.query(operator.query)?, snapshot.now));
        };
        let latency_ns = operator.mean_ingested.map_or(0, |ingested| snapshot.now.since_ns(ingested));
        let here_ns = latency_ns.saturating_add(operator.own_cost_ns());
        let each = ways.iter().filter_map(|way| {
            Some(Urgency::at(snapshot.query(way.application)?, here_ns.saturating_add(way.cost_ns)))
        });
        each.reduce(Urgency::and)
    }

    /// Applications and costs behind the operator at that place, where it serves others than its own query.
    pub fn others(&self, place: usize) -> Option<impl Iterator<Item = (QueryId, u64)>> {
        Some(self.ways_of(place)?.iter().map(|way| (way.application, way.cost_ns)))
    }

    /// Places of the operators that serve others than their own query.
    pub fn shared(&self) -> impl Iterator<Item = usize> {
        self.shared.iter().map(|(place, _)| *place as usize)
    }

    fn ways_of(&self, place: usize) -> Option<&[Way]> {
        if self.shared.is_empty() {
            return None;
        }
        let found = self.shared.binary_search_by_key(&(place as u32), |(place, _)| *place).ok()?;
        let range = &self.shared[found].1;
        Some(&self.ways[range.start as usize..range.end as usize])
    }

    fn find(&mut self, snapshot: &Snapshot) {
        self.ways.clear();
        self.shared.clear();
        let crosses = |operator: &OperatorSnapshot| {
            let query = |id: &OperatorId| snapshot.operator(*id).map(|below| below.query);
            operator.downstream.iter().filter_map(query).any(|query| query != operator.query)
        };
        if !snapshot.operators.iter().any(crosses) {
            return;
        }
        let places = downstream_first(snapshot);
        let mut reached: Vec<Vec<QueryId>> = vec![Vec::new(); snapshot.operators.len()];
        for place in places {
            let operator = &snapshot.operators[place];
            let below: Vec<u32> = places_below(snapshot, operator).collect();
            let mut applications: Vec<QueryId> =
                below.iter().flat_map(|&at| reached[at as usize].iter().copied()).collect();
            if below.is_empty() {
                applications.push(operator.query);
            }
            applications.sort_unstable();
            applications.dedup();
            if applications != [operator.query] {
                let first = self.ways.len() as u32;
                for &application in &applications {
                    let leads = below.iter().filter(|&&at| reached[at as usize].contains(&application));
                    let below = leads.map(|&at| (at, self.way(at, application))).collect();
                    self.ways.push(Way { application, below, cost_ns: 0 });
                }
                let range = first..self.ways.len() as u32;
                let at = self.shared.partition_point(|&(other, _)| other < place as u32);
                self.shared.insert(at, (place as u32, range));
            }
            reached[place] = applications;
        }
    }

    fn way(&self, place: u32, application: QueryId) -> Option<u32> {
        let found = self.shared.binary_search_by_key(&place, |(place, _)| *place).ok()?;
        self.shared[found].1.clone().find(|&way| self.ways[way as usize].application == application)
    }
}

fn places_below<'a>(
    snapshot: &'a Snapshot,
    operator: &'a OperatorSnapshot,
) -> impl Iterator<Item = u32> + 'a {
    operator.downstream.iter().filter_map(|id| {
        let found = snapshot.operators.binary_search_by_key(id, |o| o.id);
        found.ok().map(|place| place as u32)
    })
}

/// All places, each after those downstream of it, whatever the ids are.
fn downstream_first(snapshot: &Snapshot) -> Vec<usize> {
    let count = snapshot.operators.len();
    let (mut order, mut seen) = (Vec::with_capacity(count), vec![false; count]);
    let mut path: Vec<(usize, Vec<u32>)> = Vec::new();
    let below = |place: usize| places_below(snapshot, &snapshot.operators[place]).collect::<Vec<u32>>();
    for start in 0..count {
        if !std::mem::replace(&mut seen[start], true) {
            path.push((start, below(start)));
        }
        while let Some((place, left)) = path.last_mut() {
            match left.pop() {
                Some(next) => {
                    if !std::mem::replace(&mut seen[next as usize], true) {
                        path.push((next as usize, below(next as usize)));
                    }
                }
                None => {
                    order.push(*place);
                    path.pop();
                }
            }
        }
    }
    order
}
