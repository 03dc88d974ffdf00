//! The end of a simulation: totals become the outcome, and checkers compare what they saw with what is left.

use laxity_graph::{EventTime, ProcessingTime};
use laxity_workload::StageKind;

use super::{InTransit, Totals, World};
use crate::Outcome;
use crate::check::Ending;
use crate::machine::{Sharing, Underway};
use crate::modelled::Modelled;

/// What is left at the end.
impl<C: Modelled> World<C> {
    pub(super) fn outcome(mut self) -> Outcome {
        let ending = self.ending();
        let violations = self.watch.end(self.now, &ending);
        let measured_s = self.now.since_ns(ProcessingTime::ZERO.plus(self.setup.warm_up)) as f64 / 1e9;
        let rows_queued = self.rows_queued();
        let owed_ns: Vec<Vec<u64>> = (0..self.accounts.len()).map(|query| self.owed_ns(query)).collect();
        let all_ns = self.now.0 * self.cores.len() as u64;
        let Totals {
            busy_ns,
            look_ns,
            asleep_ns,
            overhead_ns,
            switches,
            grants,
            messages,
            memory_peak_bytes,
        } = self.totals;
        Outcome {
            policy: self.policy,
            queries: self
                .accounts
                .into_iter()
                .zip(rows_queued)
                .zip(owed_ns)
                .zip(&self.running)
                .map(|(((account, rows), owed_ns), query)| account.outcome(query, rows, owed_ns, measured_s))
                .collect(),
            operators: self.topology.operators.into_iter().map(|place| place.name).collect(),
            ended: self.now,
            busy_ns,
            look_ns,
            overhead_ns,
            asleep_ns,
            idle_ns: all_ns.saturating_sub(busy_ns + look_ns + overhead_ns),
            switches,
            grants,
            messages,
            samples: self.samples,
            memory_peak_bytes,
            timeline: self.timeline,
            results: self.results,
            violations,
            digest: self.watch.trace.digest,
            trace: self.watch.trace.text,
        }
    }

    /// For how long the windows of a query are due that have not come out: those that end between the watermark that came
    /// out last and the one that all of its sources were given.
    fn owed_ns(&self, query: usize) -> Vec<u64> {
        let places = self.topology.queries[query].clone();
        let of = |operator: u32| self.topology.operator(operator);
        let given = places.clone().filter(|&operator| of(operator).kind == StageKind::Source);
        // Of sources that have ended nobody knows which windows have rows.
        let given = given.map(|source| self.given[source as usize]).min();
        let Some(given) = given.filter(|&given| given != EventTime::MAX) else { return Vec::new() };
        // What comes out is the result of the last window on the way.
        let windows = places.filter_map(|operator| of(operator).window);
        let Some(ends) = windows.filter_map(|window| window.ends()).next_back() else { return Vec::new() };
        let Some(out) = self.running[query].watermark() else { return Vec::new() };
        let owed = std::iter::successors(ends.next(out), |end| ends.next(EventTime(end.0 - 1)));
        let owed = owed.take_while(|end| *end <= ends.passed(given));
        owed.map(|end| self.now.since_ns(self.clocks[query].due(end))).collect()
    }

    /// By query: rows that wait in mailboxes or are held back.
    fn rows_queued(&self) -> Vec<u64> {
        let mut rows = vec![0u64; self.accounts.len()];
        for table in &self.tables {
            for reader in table.intake.readers() {
                rows[reader.query.id.index()] += reader.backlog_rows();
            }
        }
        for place in &self.topology.operators[..self.topology.first_table as usize] {
            rows[place.query.index()] += match &self.machines[place.machine as usize].sharing {
                Sharing::Scheduler(scheduler) => scheduler.queued_rows(place.local),
                Sharing::Threads(threads) => {
                    let waiting = &threads.threads[place.local.index()].mailbox;
                    waiting.iter().map(|(_, message)| u64::from(message.rows)).sum()
                }
            };
        }
        rows
    }

    fn ending(&self) -> Ending {
        // Of a run that is not over: what went into windows already.
        let not_told = |underway: &Option<Box<Underway<C>>>| {
            let told_later = |u: &Underway<C>| u.late_rows as i64 - i64::from(u.run.report.rows_in);
            underway.as_deref().map_or(0, told_later)
        };
        let waiting = |place: &crate::topology::Place| match &self.machines[place.machine as usize].sharing {
            Sharing::Scheduler(scheduler) => scheduler.queued_messages(place.local) as u64,
            Sharing::Threads(_) => 0,
        };
        let mut in_hand_rows: Vec<i64> =
            self.instances.iter().map(|instance| instance.rows_left() as i64).collect();
        in_hand_rows.resize(self.topology.operators.len(), 0);
        for core in &self.cores {
            let machine = &self.machines[core.machine as usize];
            let idle = machine.idle.contains(&core.number) || matches!(machine.sharing, Sharing::Threads(_));
            if let Some(operator) = core.operator.filter(|_| !idle) {
                in_hand_rows[operator as usize] += not_told(&core.underway);
            }
        }
        for (operator, place) in self.topology.operators.iter().enumerate() {
            if let Sharing::Threads(threads) = &self.machines[place.machine as usize].sharing {
                let thread = &threads.threads[place.local.index()];
                if thread.in_hand {
                    in_hand_rows[operator] += not_told(&thread.underway);
                }
            }
        }
        let mut travelling_rows = vec![0; self.topology.route_count()];
        for in_transit in self.in_transit.iter().flatten() {
            if let InTransit::Message(route, message) = in_transit {
                travelling_rows[*route as usize] += u64::from(message.rows);
            }
        }
        let windows = self.instances.iter().map(|instance| instance.inspect(C::held_and_closed_rows));
        let (held_rows, closed_rows) = windows.unzip();
        Ending {
            waiting: self.topology.operators.iter().map(waiting).collect(),
            held_rows,
            closed_rows,
            in_hand_rows,
            travelling_rows,
            drained: self.setup.drain,
        }
    }
}
