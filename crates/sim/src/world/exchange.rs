use laxity_graph::OperatorId;
use laxity_sched::{CostReport, StreamReport};

use super::{Traveller, World, at_least};
use crate::machine::Sharing;
use crate::queue::Coming;

/// What neighbours tell each other of queries that span machines (Klink §4): when watermarks are due, downstream, and
/// what work costs, upstream, each as late as the network makes it.
///
/// A machine tells of all streams of a query that it knows, also of those that do not lead to the neighbour: the
/// latest of several counts there, so that a prediction may be later than it had to be, never earlier.
impl World {
    pub(super) fn exchange(&mut self) {
        for machine in 0..self.machines.len() as u32 {
            let Sharing::Scheduler(scheduler) = &mut self.machines[machine as usize].sharing else {
                continue;
            };
            let streams = scheduler.stream_reports(self.now);
            let costs = scheduler.cost_reports(machine, self.now);
            for report in streams {
                self.tell_below(machine, report);
            }
            for report in costs {
                self.tell_above(&report);
            }
        }
        if !self.closing {
            self.queue.push(self.now.plus(at_least(self.setup.exchange)), Coming::Exchange);
        }
    }

    fn tell_below(&mut self, machine: u32, report: StreamReport) {
        for operator in self.topology.queries[report.query.index()].clone() {
            let place = self.topology.operator(operator);
            let fed = place.upstream.iter().any(|&above| self.topology.operator(above).machine == machine);
            if place.machine != machine && fed && self.topology.is_entry(operator) {
                let at = self.now.plus_ns(self.network.sample_ns());
                self.travel(Traveller::Watermarks(operator, report), at);
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
                self.travel(Traveller::Costs(above, report.clone()), at);
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
        if let Sharing::Scheduler(scheduler) = &mut self.machines[machine as usize].sharing {
            scheduler.on_stream_report(OperatorId(entry), report);
        }
    }

    pub(super) fn hear_of_costs(&mut self, machine: u32, report: &CostReport) {
        let mut feeders = self.feeders(report);
        feeders.retain(|&(_, feeder)| self.topology.operator(feeder.0).machine == machine);
        if let Sharing::Scheduler(scheduler) = &mut self.machines[machine as usize].sharing {
            scheduler.on_cost_report(report, &feeders);
        }
    }
}
