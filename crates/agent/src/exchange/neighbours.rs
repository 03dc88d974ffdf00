//! How reports of other agents complete what is read here. Reads no clock and no network: time is an argument.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

use laxity_graph::{EventTime, OperatorId, ProcessingTime, QueryId};
use laxity_sched::{StreamReport, SwmForecast};

use super::message::{OperatorCost, QueryReport, Report, Stream};
use crate::metric::{Metric, path_costs};
use crate::{Readings, Topology};

/// What other agents last said, and what is to be said to each.
#[derive(Debug)]
pub(super) struct Neighbours {
    /// What this one is called.
    node: String,
    stale: Duration,
    /// By node.
    heard: BTreeMap<String, Heard>,
    notes: Vec<String>,
    knows_namesake: bool,
}

#[derive(Debug)]
struct Heard {
    report: Report,
    at_ns: u64,
    /// The user was told of its silence.
    is_silent: bool,
}

/// Another agent, as the user sees it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Neighbour {
    /// What it calls itself; empty before it was reached.
    pub node: String,
    /// Where it is told, if it is one of the peers.
    pub address: Option<String>,
    /// How long ago it was last heard.
    pub age: Option<Duration>,
    /// What it said still counts.
    pub is_used: bool,
    /// Jobs in which it has operators next to those here.
    pub jobs: usize,
    /// Why it could not be told.
    pub problem: Option<String>,
}

/// A machine that was taken out of the cluster need not be shown for ever.
const FORGOTTEN: Duration = Duration::from_secs(600);

impl Neighbours {
    pub fn new(node: String, stale: Duration) -> Neighbours {
        Neighbours { node, stale, heard: BTreeMap::new(), notes: Vec::new(), knows_namesake: false }
    }

    pub fn stale(&self) -> Duration {
        self.stale
    }

    /// A report came in.
    pub fn on_report(&mut self, report: Report, at_ns: u64) {
        if report.node == self.node {
            if !std::mem::replace(&mut self.knows_namesake, true) {
                self.notes.push(format!(
                    "another agent calls itself {:?} too and is not listened to; give each its own node in [exchange]",
                    self.node
                ));
            }
            return;
        }
        match self.heard.get_mut(&report.node) {
            Some(heard) if heard.at_ns > at_ns => {}
            Some(heard) => (heard.report, heard.at_ns) = (report, at_ns),
            None => {
                self.notes.push(format!("agent {} is heard", report.node));
                self.heard.insert(report.node.clone(), Heard { report, at_ns, is_silent: false });
            }
        }
    }

    /// What to say to the user since the last call: who fell silent, and who is heard again.
    pub fn notes(&mut self, now_ns: u64) -> Vec<String> {
        self.heard.retain(|_, heard| u128::from(now_ns.saturating_sub(heard.at_ns)) <= FORGOTTEN.as_nanos());
        for (node, heard) in &mut self.heard {
            let is_silent = now_ns.saturating_sub(heard.at_ns) > self.stale.as_nanos() as u64;
            if is_silent != std::mem::replace(&mut heard.is_silent, is_silent) {
                self.notes.push(if is_silent {
                    format!(
                        "agent {node} has been silent for {:.0} s: jobs that go on there are ranked by what is known here",
                        self.stale.as_secs_f64()
                    )
                } else {
                    format!("agent {node} is heard again")
                });
            }
        }
        std::mem::take(&mut self.notes)
    }

    pub fn list(&self, topology: &Topology, now_ns: u64) -> Vec<Neighbour> {
        let graph = Graph::of(topology);
        let neighbour = |(node, heard): (&String, &Heard)| {
            let age_ns = now_ns.saturating_sub(heard.at_ns);
            let jobs = (0..topology.queries.len()).filter(|&query| {
                let there = graph.operators_of(query, heard);
                !graph.fed_from_here(&there).is_empty() || !graph.feeding_here(&there).is_empty()
            });
            Neighbour {
                node: node.clone(),
                address: None,
                age: Some(Duration::from_nanos(age_ns)),
                is_used: u128::from(age_ns) <= self.stale.as_nanos(),
                jobs: jobs.count(),
                problem: None,
            }
        };
        self.heard.iter().map(neighbour).collect()
    }

    /// Adds what was heard of operators that run elsewhere, where nothing is known of them here.
    pub fn complete(&self, topology: &Topology, readings: &mut Readings) {
        let graph = Graph::of(topology);
        let costs = self.costs(&graph, readings.now_ns, None);
        for metric in [Metric::Cost, Metric::Selectivity, Metric::QueueRows] {
            let values = (0..topology.operators.len()).map(|place| {
                let known = readings.get(metric, place);
                known.or_else(|| value(costs.get(&place)?, metric))
            });
            let values = values.collect();
            readings.set(metric, values);
        }
        if !costs.is_empty() {
            let get = |metric, place| readings.get(metric, place);
            let values = path_costs(
                topology,
                |place| get(Metric::Cost, place),
                |place| get(Metric::Selectivity, place),
            );
            readings.set(Metric::PathCost, values);
        }
        readings.streams = self.streams(&graph, readings.now_ns, None);
    }

    /// What to tell an agent: what it runs next to ours decides what concerns it. One that was not heard yet is told
    /// what runs here, and nothing else.
    pub fn report(
        &self,
        to: Option<&str>,
        topology: &Topology,
        readings: &Readings,
        own: &BTreeMap<usize, StreamReport>,
    ) -> Report {
        let graph = Graph::of(topology);
        let heard = to.and_then(|node| self.heard.get(node));
        let told_costs = self.costs(&graph, readings.now_ns, to);
        let told_streams = self.streams(&graph, readings.now_ns, to);
        let mut queries = Vec::new();
        for (place, query) in topology.queries.iter().enumerate() {
            let here: Vec<usize> = graph.here_of(place).collect();
            if here.is_empty() {
                continue;
            }
            let there = heard.map(|heard| graph.operators_of(place, heard)).unwrap_or_default();
            let key = |&operator: &usize| topology.operators[operator].key.to_string();
            let streams = graph.reached_from(&graph.fed_from_here(&there)).into_iter().filter_map(|window| {
                // Who closes a window sees its watermarks first hand.
                let known =
                    if graph.is_here[window] { None } else { told_streams.get(&window).or(own.get(&window)) };
                Some(stream(key(&window), known?, readings.now_ns))
            });
            let behind = graph.reached_from(&graph.behind(&graph.feeding_here(&there)));
            let costs =
                behind.into_iter().filter(|operator| !there.contains(operator)).filter_map(|operator| {
                    if !graph.is_here[operator] {
                        return told_costs.get(&operator).cloned();
                    }
                    let get = |metric| readings.get(metric, operator);
                    Some(OperatorCost {
                        operator: key(&operator),
                        cost_ns: get(Metric::Cost),
                        selectivity: get(Metric::Selectivity),
                        queue_rows: get(Metric::QueueRows),
                        age_ns: 0,
                    })
                });
            queries.push(QueryReport {
                query: query.key.to_string(),
                operators: here.iter().map(key).collect(),
                streams: streams.collect(),
                costs: costs.collect(),
            });
        }
        Report { node: self.node.clone(), queries }
    }

    /// By operator that does not run here: what was said of it last, as old as it is now. What `except` said is left
    /// out: it need not be told that.
    fn costs(&self, graph: &Graph, now_ns: u64, except: Option<&str>) -> BTreeMap<usize, OperatorCost> {
        let mut costs: BTreeMap<usize, OperatorCost> = BTreeMap::new();
        for (query, age_ns) in self.fresh(now_ns, except) {
            for cost in &query.costs {
                let age_ns = age_ns.saturating_add(cost.age_ns);
                let Some(&place) = graph.places.get(cost.operator.as_str()) else { continue };
                if graph.is_here[place] || u128::from(age_ns) > self.stale.as_nanos() {
                    continue;
                }
                if costs.get(&place).is_none_or(|known| age_ns < known.age_ns) {
                    costs.insert(place, OperatorCost { age_ns, ..cost.clone() });
                }
            }
        }
        costs
    }

    /// By operator that closes a window: when its sweeping watermark is due. Of several streams, the one that comes
    /// last sweeps.
    fn streams(&self, graph: &Graph, now_ns: u64, except: Option<&str>) -> BTreeMap<usize, StreamReport> {
        let mut streams: BTreeMap<usize, StreamReport> = BTreeMap::new();
        for (query, age_ns) in self.fresh(now_ns, except) {
            for stream in &query.streams {
                let found_ns = age_ns.saturating_add(stream.age_ns);
                let Some(&place) = graph.places.get(stream.operator.as_str()) else { continue };
                let numbers = [stream.due_in_ns, stream.deviation_ns, stream.ns_per_ms];
                if u128::from(found_ns) > self.stale.as_nanos() || !numbers.iter().all(|n| n.is_finite()) {
                    continue;
                }
                let report = StreamReport {
                    query: QueryId(graph.topology.operators[place].query as u32),
                    source: OperatorId(place as u32),
                    end: EventTime(stream.end_ms),
                    forecast: SwmForecast {
                        mean_ns: now_ns as f64 - age_ns as f64 + stream.due_in_ns,
                        deviation_ns: stream.deviation_ns.max(0.0),
                        epochs: stream.epochs,
                    },
                    ns_per_ms: stream.ns_per_ms,
                    at: ProcessingTime(now_ns.saturating_sub(found_ns)),
                };
                let later =
                    |known: &StreamReport| report.forecast(known.end).mean_ns > known.forecast.mean_ns;
                if streams.get(&place).is_none_or(later) {
                    streams.insert(place, report);
                }
            }
        }
        streams
    }

    /// What counts still, and how long ago it came.
    fn fresh(&self, now_ns: u64, except: Option<&str>) -> impl Iterator<Item = (&QueryReport, u64)> {
        let heard = self.heard.iter().filter(move |(node, _)| Some(node.as_str()) != except);
        heard.flat_map(move |(_, heard)| {
            let age_ns = now_ns.saturating_sub(heard.at_ns);
            heard.report.queries.iter().map(move |query| (query, age_ns))
        })
    }
}

/// Nothing that a neighbour says may make a rank of numbers that mean nothing.
fn value(cost: &OperatorCost, metric: Metric) -> Option<f64> {
    let value = match metric {
        Metric::Cost => cost.cost_ns,
        Metric::Selectivity => cost.selectivity,
        _ => cost.queue_rows,
    };
    value.filter(|value| value.is_finite() && *value >= 0.0)
}

fn stream(operator: String, known: &StreamReport, now_ns: u64) -> Stream {
    Stream {
        operator,
        end_ms: known.end.0,
        due_in_ns: known.forecast.mean_ns - now_ns as f64,
        deviation_ns: known.forecast.deviation_ns,
        ns_per_ms: known.ns_per_ms,
        epochs: known.forecast.epochs,
        age_ns: now_ns.saturating_sub(known.at.0),
    }
}

/// The job graph, with what of it runs here.
struct Graph<'a> {
    topology: &'a Topology,
    downstream: Vec<Vec<usize>>,
    places: HashMap<&'a str, usize>,
    is_here: Vec<bool>,
}

impl<'a> Graph<'a> {
    fn of(topology: &'a Topology) -> Graph<'a> {
        let operators = topology.operators.iter().enumerate();
        Graph {
            topology,
            downstream: topology.downstream(),
            places: operators.map(|(place, operator)| (&*operator.key, place)).collect(),
            is_here: topology.runs_here(),
        }
    }

    fn here_of(&self, query: usize) -> impl Iterator<Item = usize> {
        let operators = self.topology.operators.iter().enumerate();
        operators
            .filter(move |(place, operator)| operator.query == query && self.is_here[*place])
            .map(|(place, _)| place)
    }

    /// Operators of a query that run where that was said.
    fn operators_of(&self, query: usize, heard: &Heard) -> BTreeSet<usize> {
        let key = &*self.topology.queries[query].key;
        let said = heard.report.queries.iter().filter(|said| said.query == key);
        said.flat_map(|said| &said.operators)
            .filter_map(|key| self.places.get(key.as_str()).copied())
            .collect()
    }

    /// Those of `there` that operators here feed.
    fn fed_from_here(&self, there: &BTreeSet<usize>) -> Vec<usize> {
        let fed =
            |&&place: &&usize| self.topology.operators[place].upstream.iter().any(|&up| self.is_here[up]);
        there.iter().filter(fed).copied().collect()
    }

    /// Those of `there` that feed operators here.
    fn feeding_here(&self, there: &BTreeSet<usize>) -> Vec<usize> {
        let feeds = |&&place: &&usize| self.downstream[place].iter().any(|&down| self.is_here[down]);
        there.iter().filter(feeds).copied().collect()
    }

    fn behind(&self, operators: &[usize]) -> Vec<usize> {
        operators.iter().flat_map(|&operator| self.downstream[operator].iter().copied()).collect()
    }

    /// They, and all behind them.
    fn reached_from(&self, operators: &[usize]) -> BTreeSet<usize> {
        let mut reached = BTreeSet::new();
        let mut waiting = operators.to_vec();
        while let Some(place) = waiting.pop() {
            if reached.insert(place) {
                waiting.extend(&self.downstream[place]);
            }
        }
        reached
    }
}

#[cfg(test)]
mod tests;
