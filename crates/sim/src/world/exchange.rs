use laxity_graph::OperatorId;
use laxity_sched::{CostReport, StreamReport};

use super::{Traveller, World, at_least, local};
use crate::machine::Sharing;
use crate::queue::Coming;
use crate::topology::Topology;

/// What a machine tells a direct neighbour.
#[derive(Clone, Debug)]
pub(super) enum News {
    /// To the machine of an operator that it feeds: when watermarks are due.
    Stream { to: u32, report: StreamReport },
    /// To a machine that feeds it: what its operators cost, and who feeds them there.
    Cost { machine: u32, report: CostReport, feeders: Vec<(OperatorId, OperatorId)> },
}

impl News {
    pub fn machine(&self, topology: &Topology) -> u32 {
        match self {
            News::Stream { to, .. } => topology.operator(*to).machine,
            News::Cost { machine, .. } => *machine,
        }
    }
}

/// Machines tell their neighbours what they know of the queries they share (Klink §4). News travel as messages do.
impl World {
    pub(super) fn exchange(&mut self) {
        let mut news = Vec::new();
        for machine in 0..self.machines.len() {
            self.news_of(machine as u32, &mut news);
        }
        for item in news {
            let at = self.now.plus_ns(self.network.sample_ns());
            self.travel(Traveller::News(item), at);
        }
        if !self.closing {
            self.queue.push(self.now.plus(at_least(self.setup.exchange)), Coming::Exchange);
        }
    }

    fn news_of(&mut self, machine: u32, news: &mut Vec<News>) {
        let topology = &self.topology;
        let here = &mut self.machines[machine as usize];
        let Sharing::Scheduler(scheduler) = &mut here.sharing else { return };
        if !topology.crossings.iter().flatten().any(|&(above, below)| {
            topology.operator(above).machine == machine || topology.operator(below).machine == machine
        }) {
            return;
        }
        for mut report in scheduler.stream_reports(self.now) {
            // Sources are told apart by their ids, which are those of one machine where it knows them first hand.
            if report.at == self.now {
                report.source = OperatorId(here.operators[report.source.index()]);
            }
            for &(above, to) in &topology.crossings[report.query.index()] {
                if topology.operator(above).machine == machine {
                    news.push(News::Stream { to, report });
                }
            }
        }
        for report in scheduler.cost_reports(machine, self.now) {
            let mut told: Vec<(u32, Vec<(OperatorId, OperatorId)>)> = Vec::new();
            for &(above, below) in &topology.crossings[report.query.index()] {
                if topology.operator(below).machine != machine {
                    continue;
                }
                let neighbour = topology.operator(above).machine;
                let place = told.iter().position(|(machine, _)| *machine == neighbour).unwrap_or_else(|| {
                    told.push((neighbour, Vec::new()));
                    told.len() - 1
                });
                told[place].1.push((local(topology, below), local(topology, above)));
            }
            for (machine, feeders) in told {
                news.push(News::Cost { machine, report: report.clone(), feeders });
            }
        }
    }

    pub(super) fn hear(&mut self, news: News) {
        let machine = news.machine(&self.topology);
        let Sharing::Scheduler(scheduler) = &mut self.machines[machine as usize].sharing else { return };
        match news {
            News::Stream { to, report } => scheduler.on_stream_report(local(&self.topology, to), report),
            News::Cost { report, feeders, .. } => scheduler.on_cost_report(&report, &feeders),
        }
    }

    /// Tells the machines that a query has just come to of the windows that others close: all above them, by which
    /// rows enter a machine, feeds them.
    pub(super) fn announce_windows(&mut self, query: u32) {
        if self.topology.crossings[query as usize].is_empty() {
            return;
        }
        for operator in self.topology.queries[query as usize].clone() {
            let Some(window) = self.topology.operator(operator).window else { continue };
            let mut above = self.topology.operator(operator).upstream.clone();
            let mut place = 0;
            while let Some(&at) = above.get(place) {
                place += 1;
                if self.topology.is_entry(at)
                    && let Sharing::Scheduler(scheduler) =
                        &mut self.machines[self.topology.operator(at).machine as usize].sharing
                {
                    scheduler.add_window_elsewhere(self.topology.operator(at).local, window);
                }
                for further in self.topology.operator(at).upstream.clone() {
                    if !above.contains(&further) {
                        above.push(further);
                    }
                }
            }
        }
    }
}
