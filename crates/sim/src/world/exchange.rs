//! What a machine tells its neighbours, over a network that takes time; what they make of it is the scheduler's matter.

use laxity_graph::OperatorId;
use laxity_sched::{CostReport, StreamReport};

use super::{InTransit, World, at_least};
use crate::modelled::Modelled;
use crate::queue::ScheduledEvent;

/// What neighbours tell each other of queries that span machines (Klink §4): when watermarks are due, downstream, and
/// what work costs, upstream, each as late as the network makes it.
///
/// A machine tells of all streams of a query that it knows, also of those that do not lead to the neighbour: the
/// latest of several counts there, so that a prediction may be later than it had to be, never earlier.
impl<C: Modelled> World<C> {
    pub(super) fn exchange(&mut self) {
        for machine in 0..self.machines.len() as u32 {
            let Some(scheduler) = self.machines[machine as usize].sharing.only() else { continue };
            let (mut streams, mut costs) =
                (scheduler.stream_reports(self.now), scheduler.cost_reports(machine, self.now));
            // Tables are where those who read them are.
            let queries = self.topology.queries.len();
            streams.retain(|report| report.query.index() < queries);
            costs.retain(|report| report.query.index() < queries);
            for report in streams {
                self.tell_below(machine, report);
            }
            for report in costs {
                self.tell_above(&report);
            }
        }
        if !self.closing {
            self.queue.push(self.now.plus(at_least(self.setup.exchange)), ScheduledEvent::Exchange);
        }
    }

    fn tell_below(&mut self, machine: u32, report: StreamReport) {
        for operator in self.topology.queries[report.query.index()].clone() {
            let place = self.topology.operator(operator);
            let fed = place.upstream.iter().any(|&above| self.topology.operator(above).machine == machine);
            if place.machine != machine && fed && self.topology.is_entry(operator) {
                let at = self.now.plus_ns(self.network.sample_ns());
                self.travel(InTransit::Watermarks(operator, report), at);
            }
        }
    }

    fn tell_above(&mut self, report: &CostReport) {
        let mut told = Vec::new();
        for (_, feeder) in self.feeders(report) {
            let above = self.topology.operator(feeder.0).machine;
            if !told.contains(&above) {
                told.push(above);
                let at = self.now.plus_ns(self.network.sample_ns());
                self.travel(InTransit::Costs(above, report.clone()), at);
            }
        }
    }

    /// Operators of the machine that reports, each with one on another machine that feeds it.
    fn feeders(&self, report: &CostReport) -> Vec<(OperatorId, OperatorId)> {
        let mut feeders = Vec::new();
        for operator in self.topology.queries[report.query.index()].clone() {
            let place = self.topology.operator(operator);
            if place.machine != report.node {
                continue;
            }
            let elsewhere = |&&above: &&u32| self.topology.operator(above).machine != place.machine;
            let above = place.upstream.iter().filter(elsewhere);
            feeders.extend(above.map(|&above| (OperatorId(operator), OperatorId(above))));
        }
        feeders
    }

    pub(super) fn hear_of_watermarks(&mut self, entry: u32, report: StreamReport) {
        let machine = self.topology.operator(entry).machine;
        if let Some(scheduler) = self.machines[machine as usize].sharing.only() {
            scheduler.on_stream_report(OperatorId(entry), report);
        }
    }

    pub(super) fn hear_of_costs(&mut self, machine: u32, report: &CostReport) {
        let mut feeders = self.feeders(report);
        feeders.retain(|&(_, feeder)| self.topology.operator(feeder.0).machine == machine);
        if let Some(scheduler) = self.machines[machine as usize].sharing.only() {
            scheduler.on_cost_report(report, &feeders);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use laxity_graph::{
        Dataflow, EventTime, Input, Node, NodeId, Partitioning, ProcessingTime, QueryId, QuerySettings,
        WindowShape,
    };
    use laxity_workload::{Cost, Delay, Feed, QueryModel, Stage, StageKind, Stream, Workload};

    use super::*;
    use crate::counted::Counted;
    use crate::world::Plans;
    use crate::{Cluster, Placement, Setup, Simulation};

    /// A source and a filter on machine 0, a window on 1, a sink on 2; rows of 1 ms each, one by one.
    fn world() -> World<Counted> {
        let window = WindowShape { size_ms: 500, slide_ms: 500, end_ms: Some(0) };
        let answers =
            StageKind::Window { selectivity: 1.0, rows_max: 1.0, fire_per_row_ns: 0.0, state_row_bytes: 0 };
        let stages = [
            (StageKind::Source, None),
            (StageKind::Rows { selectivity: 1.0 }, None),
            (answers, Some(window)),
            (StageKind::Sink, None),
        ];
        let mut dataflow = Dataflow::new(QuerySettings::named("far"));
        for (place, (kind, window)) in stages.into_iter().enumerate() {
            let input = |from| Input { from: NodeId(from), partitioning: Partitioning::Forward };
            let node = Node {
                name: format!("node {place}"),
                parallelism: 1,
                inputs: place.checked_sub(1).map(input).into_iter().collect(),
                window,
                stage: Stage::new(kind, Cost::per_call(0.0, 1e6), 1),
            };
            dataflow.push(node).unwrap();
        }
        let arrivals = Stream::constant(100.0, 1).arrivals(1).unwrap();
        let feeds = vec![Feed { node: NodeId(0), instance: 0, arrivals }];
        let queries = vec![QueryModel { dataflow, feeds, deployed: ProcessingTime::ZERO }];
        let setup = Setup {
            cluster: Cluster {
                nodes: 3,
                cores_per_node: 1,
                network: Delay::Constant { ns: 7_000_000 },
                placement: Placement::By(Box::new(|_, NodeId(node), _| node.saturating_sub(1))),
            },
            duration: Duration::from_secs(5),
            ..Setup::default()
        };
        let workload = Workload { name: "far".into(), queries };
        World::new(
            Simulation::new(workload, laxity_policies::recipe("klink").unwrap(), setup),
            Plans::counted(),
        )
        .unwrap()
    }

    #[test]
    fn machines_learn_what_is_on_the_others() {
        let mut world = world();
        while world.step() {}
        let first = world.machines[0].sharing.only().expect("by the scheduler");
        // Behind the filter: 1 ms each at the window and at the sink, two machines away.
        let path_ns = first.path_cost_ns(OperatorId(1));
        assert!(path_ns.abs_diff(2_000_000) < 100_000, "{path_ns}");
        // What it heard last was found 7 ms and at most a period before, for every machine that passed it on.
        let heard: Vec<_> =
            first.remote_costs().iter().map(|said| (said.queued.node, said.queued.at)).collect();
        let old_ns = |hops: u64| hops * (7_000_000 + 120_000_000);
        assert_eq!(heard.iter().map(|&(node, _)| node).collect::<Vec<_>>(), [1, 2]);
        assert!(heard.iter().all(|&(node, at)| world.now.since_ns(at) <= old_ns(node.into())), "{heard:?}");
        // The window's machine knows when watermarks are due at the source, and how old that is.
        let now = world.now;
        let second = world.machines[1].sharing.only().expect("by the scheduler");
        let snapshot = second.snapshot(now);
        let streams = &snapshot.query(QueryId(0)).unwrap().streams;
        assert_eq!(streams.len(), 1);
        assert!(streams[0].told.is_some_and(|told| now.since_ns(told) <= 7_000_000 + 120_000_000));
        assert!(streams[0].end > EventTime(4_000), "{:?}", streams[0].end);
    }
}
