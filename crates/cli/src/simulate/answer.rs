//! What the simulator is asked and what a person reads of it: who keeps his target, why who does not, and how many
//! tenants would fit.

use std::time::Duration;

use hdrhistogram::Histogram;
use laxity_engine::{Policy, WORKERS_PER_SHARD};
use laxity_sched::{Cause, Lateness};
use laxity_sim::{
    Cluster, Driver, Keep, OsThreads, Outcome, Overheads, ScheduledSources, Setup, Simulation, Sources,
};

use crate::failure::Failure;
use crate::quantity::{plural, short_duration, short_share};
use crate::simulate::costs::{Costs, SourceCosts};
use crate::simulate::model::{Model, shared, workload};
use crate::simulate::shared::{SharedCosts, fronts};
use crate::table::{Column, Table};

/// What is asked of the simulator.
pub struct Question<'a> {
    /// What a tenant runs.
    pub models: &'a [Model],
    /// What it costs.
    pub costs: &'a Costs,
    /// Who decides.
    pub policy: &'a Policy,
    /// On how many cores.
    pub cores: usize,
    /// At so many times the rate that was measured.
    pub rate: f64,
    /// How many tenants.
    pub tenants: usize,
    /// How many to look for at most.
    pub up_to: usize,
    /// Virtual time.
    pub duration: Duration,
    /// Seed of every random choice.
    pub seed: u64,
}

/// All tenants' copies of one query together.
struct Standing {
    name: String,
    target_ns: u64,
    /// Of all results; `None` without any.
    latency: Option<Histogram<u64>>,
    lateness: Lateness,
    /// Cores that one copy keeps busy.
    cores: f64,
}

/// Every promise is that 99 % of the results are in time.
const KEPT: f64 = 0.99;

/// Latency is counted once this share of the time has passed.
const WARM_UP: f64 = 0.2;

/// From the signal of a condition to the first instruction of who waited for it: the median of 1 500 on two cores of a
/// virtual machine (Linux 6, p90 50 µs). A timer that goes off there is about 100 µs late, which is left out.
const WAKE_NS: u64 = 12_000;

/// CPU time of the system for each switch from a thread to another, where every operator has one: waking, timers and faults
/// included: 3.7 s for 302 000 switches in a cell of `laxity-bench density` under `os` (`perf stat`, two cores of a virtual
/// machine), 2.6 s for 121 000 in another, with three times the page faults.
const SWITCH_NS: u64 = 12_000;

impl Question<'_> {
    /// What was simulated, so that nobody takes it for a run.
    pub fn heading(&self, origin: &str) -> String {
        format!(
            "Simulated, not run: {} on {}, policy {}, {} times the input that was measured, {} of virtual time.\n\
             Costs and arrivals {origin}.\n\n",
            plural(self.tenants, "tenant"),
            plural(self.cores, "core"),
            self.policy.name(),
            self.rate,
            short_duration(self.duration.as_nanos() as u64),
        )
    }

    /// The table, the verdict, and how many tenants fit.
    ///
    /// # Errors
    /// If the simulator refuses the model: our bug.
    pub fn answer(&self) -> Result<String, Failure> {
        let outcome = self.simulate(self.tenants)?;
        let standings = self.standings(&outcome, self.tenants);
        let mut text = table(&standings);
        text.push('\n');
        text.push_str(&together(&standings));
        let verdict = Verdict::of(&standings);
        text.push_str(&verdict.text());
        text.push_str(&format!(
            "The cores would be {:.0} % busy in operators, {:.1} % with looks at tables, {:.1} % with everything else.\n",
            100.0 * outcome.utilisation(),
            100.0 * outcome.share(outcome.look_ns),
            100.0 * outcome.share(outcome.overhead_ns),
        ));
        let all_work = outcome.share(outcome.busy_ns + outcome.look_ns + outcome.overhead_ns);
        text.push_str(&self.told_of_sharing());
        match verdict.is_kept() {
            Some(is_kept) => text.push_str(&self.fit(is_kept, all_work)?),
            None => text.push_str("How many tenants fit cannot be told either.\n"),
        }
        Ok(text)
    }

    /// What is done as one, and so is no query's own time.
    fn told_of_sharing(&self) -> String {
        let members: usize = self.costs.shared.iter().map(|shared| shared.members.len()).sum();
        if members == 0 {
            return String::new();
        }
        let (as_one, operators) = self
            .costs
            .shared
            .iter()
            .map(SharedCosts::as_one)
            .fold((0, 0), |(queries, operators), (more, of)| (queries + more, operators + of));
        let done = match as_one {
            0 => String::new(),
            _ => format!(", {as_one} of them done by {}", plural(operators, "operator")),
        };
        format!(
            "Of a tenant {members} queries read tables with others{done}: that time is with the looks at tables, not with \
             the cores of each.\n"
        )
    }

    /// How many tenants fit: the most with which every target is kept.
    fn fit(&self, now_kept: bool, utilisation: f64) -> Result<String, Failure> {
        // With more than keep the cores busy no target lasts.
        let bearable = (self.tenants as f64 * 1.05 / utilisation.max(1e-6)) as usize + 1;
        let most = self.up_to.max(self.tenants).min(bearable);
        let (mut fits, mut too_many) = if now_kept { (self.tenants, None) } else { (0, Some(self.tenants)) };
        let mut first = None;
        loop {
            let next = match too_many {
                None if fits >= most => break,
                None => (2 * fits).min(most),
                Some(too_many) if too_many - fits <= (fits / 50).max(1) => break,
                Some(too_many) => fits + (too_many - fits) / 2,
            };
            let standings = self.standings(&self.simulate(next)?, next);
            // A query that gives results with fewer tenants and none with more misses with more.
            match standings.into_iter().find(|standing| standing.is_kept() != Some(true)) {
                None => fits = next,
                Some(missed) => {
                    too_many = Some(next);
                    first = Some(missed.name);
                }
            }
        }
        let first =
            first.map_or(String::new(), |name| format!("; with more, {name} would be the first to miss"));
        Ok(match fits {
            0 => "Not even one tenant fits.\n".into(),
            _ if too_many.is_none() && fits < bearable => {
                format!("At least {} fit; --up-to looks further.\n", plural(fits, "tenant"))
            }
            _ if fits > self.tenants => {
                format!("{fits} tenants fit, {} more than these{first}.\n", fits - self.tenants)
            }
            _ if fits == self.tenants => {
                format!("{} and no more: that is what fits{first}.\n", plural(fits, "tenant"))
            }
            _ => format!("{} would fit{first}.\n", plural(fits, "tenant")),
        })
    }

    fn simulate(&self, tenants: usize) -> Result<Outcome, Failure> {
        // Threads need no scheduler, so that any will do.
        let (driver, policy) = match self.policy {
            Policy::ThreadPerOperator => (Driver::OsThreads(OsThreads::linux(self.cores)), Policy::default()),
            Policy::Scheduled(_) => (Driver::Scheduler, self.policy.clone()),
        };
        let policy = policy.recipe().expect("it is scheduled").clone();
        let (sources, mut overheads) = self.sources(tenants);
        if matches!(driver, Driver::OsThreads(_)) {
            overheads.switch_ns = SWITCH_NS;
        }
        let setup = Setup {
            cluster: Cluster::one(self.cores),
            overheads,
            sources,
            duration: self.duration,
            warm_up: self.duration.mul_f64(WARM_UP),
            seed: self.seed,
            merge_rows_max: Some(1_024),
            credit_bytes: 8 << 20,
            driver,
            shards: self.cores.div_ceil(WORKERS_PER_SHARD),
            shards_of_crowd: self.cores,
            // Thousands of histograms of three digits would be most of the memory.
            latency_digits: if self.models.len() * tenants > 1_000 { 2 } else { 3 },
            keep: Keep { timeline: false, results: false, trace: false, checks: false },
            ..Setup::default()
        };
        let simulation = Simulation::new(workload(self.models, tenants, self.rate), policy, setup);
        simulation.run().map_err(|error| Failure::World(error.into()))
    }

    /// How tables are read, and what everything but operators costs.
    fn sources(&self, tenants: usize) -> (Sources, Overheads) {
        let Some(SourceCosts { look_ns, row_ns, message_ns }) = self.costs.sources else {
            let overheads = Overheads { call_ns: self.costs.call_ns, ..Overheads::default() };
            return (Sources::AtOnce, overheads);
        };
        let sources = ScheduledSources {
            look_ns: look_ns as u64,
            row_ns,
            shared: shared(self.models, tenants),
            fronts: fronts(self.models, &self.costs.shared, tenants),
            ..ScheduledSources::default()
        };
        // What a grant costs is part of what a message does.
        let overheads = Overheads { message_ns: message_ns as u64, wake_ns: WAKE_NS, ..Overheads::default() };
        (Sources::Scheduled(sources), overheads)
    }

    fn standings(&self, outcome: &Outcome, tenants: usize) -> Vec<Standing> {
        let seconds = self.duration.as_secs_f64();
        (0..self.models.len())
            .map(|model| {
                let copies = || outcome.queries.iter().skip(model).step_by(self.models.len());
                let mut lateness = Lateness::default();
                copies().for_each(|copy| lateness.merge(&copy.lateness));
                let latency = sum(copies().filter_map(|copy| copy.latency.as_ref()));
                let busy_ns: u64 = copies().map(|copy| copy.busy_ns).sum();
                let first = copies().next().expect("a copy of every query");
                Standing {
                    name: first.name.strip_suffix(" #1").unwrap_or(&first.name).to_string(),
                    target_ns: first.target_ns,
                    latency,
                    lateness,
                    cores: busy_ns as f64 / 1e9 / seconds / tenants as f64,
                }
            })
            .collect()
    }
}

/// All of these together; `None` if there are none.
fn sum<'a>(mut latencies: impl Iterator<Item = &'a Histogram<u64>>) -> Option<Histogram<u64>> {
    let first = latencies.next()?.clone();
    Some(latencies.fold(first, |mut sum, latency| {
        sum.add(latency).expect("equal precision");
        sum
    }))
}

fn quantile_ns(latency: Option<&Histogram<u64>>, quantile: f64) -> u64 {
    latency.map_or(0, |latency| latency.value_at_quantile(quantile))
}

/// A line for all queries of one target, where there are several: by query, a result among few is a percentile of its own.
fn together(standings: &[Standing]) -> String {
    let mut targets_ns: Vec<u64> = standings.iter().map(|standing| standing.target_ns).collect();
    targets_ns.sort_unstable();
    targets_ns.dedup();
    let line = |target_ns: u64| {
        let of_target = || standings.iter().filter(move |standing| standing.target_ns == target_ns);
        let mut lateness = Lateness::default();
        of_target().for_each(|standing| lateness.merge(&standing.lateness));
        let latency = sum(of_target().filter_map(|standing| standing.latency.as_ref()));
        let latency = latency.as_ref().filter(|_| lateness.results > 0 && of_target().count() > 1)?;
        let target = short_duration(target_ns);
        let [p50, p99] = [0.5, 0.99].map(|quantile| short_duration(quantile_ns(Some(latency), quantile)));
        let (queries, met) = (of_target().count(), short_share(lateness.met, lateness.results));
        Some(format!("All results of the {queries} queries of {target}: p50 {p50}, p99 {p99}, met {met}.\n"))
    };
    targets_ns.into_iter().filter_map(line).collect()
}

impl Standing {
    fn quantile_ns(&self, quantile: f64) -> u64 {
        quantile_ns(self.latency.as_ref(), quantile)
    }

    /// Without a result nothing was missed, and nothing kept either: it cannot be told.
    fn is_kept(&self) -> Option<bool> {
        (self.lateness.results > 0).then(|| self.lateness.met_share() >= KEPT)
    }

    fn sentence(&self) -> String {
        format!(
            "{} would miss its {} target: p99 {}, {} of its results in time; the late ones spend {:.0} % of their time {}.\n",
            self.name,
            short_duration(self.target_ns),
            short_duration(self.quantile_ns(0.99)),
            short_share(self.lateness.met, self.lateness.results),
            100.0 * self.lateness.share(self.lateness.missed.cause()),
            crate::outcome::doing(self.lateness.missed.cause()),
        )
    }
}

/// What is to be said of all targets together.
struct Verdict<'a> {
    missed: Vec<&'a Standing>,
    silent: Vec<&'a Standing>,
}

impl<'a> Verdict<'a> {
    fn of(standings: &'a [Standing]) -> Verdict<'a> {
        let of = |kept| standings.iter().filter(move |standing| standing.is_kept() == kept).collect();
        Verdict { missed: of(Some(false)), silent: of(None) }
    }

    /// `None`: it cannot be told.
    fn is_kept(&self) -> Option<bool> {
        match (&self.missed[..], &self.silent[..]) {
            ([], []) => Some(true),
            ([], _) => None,
            _ => Some(false),
        }
    }

    fn text(&self) -> String {
        if self.is_kept() == Some(true) {
            return "Every target would be kept.\n".into();
        }
        let mut text: String = self.missed.iter().map(|standing| standing.sentence()).collect();
        if !self.silent.is_empty() {
            let names: Vec<&str> = self.silent.iter().map(|standing| standing.name.as_str()).collect();
            text.push_str(&format!(
                "Cannot tell of {}: no result came in that time. Simulate longer than the longest window, with \
                 --for, and measure as long, with --measure.\n",
                names.join(", ")
            ));
        }
        text
    }
}

fn table(standings: &[Standing]) -> String {
    let number = |title| Column { title, right: true, dispensable: 0 };
    let mut table = Table::new(&[
        Column { title: "query", right: false, dispensable: 0 },
        number("target"),
        number("p50"),
        number("p99"),
        number("met"),
        number("cores each"),
        Column { title: "late because of", right: false, dispensable: 0 },
    ]);
    for standing in standings {
        let silent = standing.lateness.results == 0;
        let shown = |ns| if silent { "-".into() } else { short_duration(ns) };
        table.push(vec![
            standing.name.clone(),
            short_duration(standing.target_ns),
            shown(standing.quantile_ns(0.5)),
            shown(standing.quantile_ns(0.99)),
            short_share(standing.lateness.met, standing.lateness.results),
            format!("{:.3}", standing.cores),
            causes(&standing.lateness),
        ]);
    }
    // Wide enough for any name.
    table.lines(200).join("\n") + "\n"
}

fn causes(lateness: &Lateness) -> String {
    let mut causes: Vec<(f64, &str)> =
        Cause::ALL.iter().map(|&cause| (lateness.share(cause), cause.name())).collect();
    causes.retain(|(share, _)| *share >= 0.05);
    causes.sort_by(|a, b| b.0.total_cmp(&a.0));
    let shown: Vec<String> =
        causes.iter().map(|(share, name)| format!("{name} {:.0} %", 100.0 * share)).collect();
    if shown.is_empty() { "-".into() } else { shown.join(", ") }
}

#[cfg(test)]
mod tests {
    use laxity_sched::Parts;

    use super::*;

    fn standing(name: &str, results: u64, late: u64) -> Standing {
        let mut lateness = Lateness::default();
        let mut latency = Histogram::new(3).unwrap();
        for number in 0..results {
            let took_ns = if number < late { 3 } else { 1 };
            lateness.record(2, Parts { execute_ns: took_ns, ..Parts::default() });
            latency.record(took_ns).unwrap();
        }
        Standing { name: name.into(), target_ns: 2, latency: Some(latency), lateness, cores: 0.0 }
    }

    #[test]
    fn results_of_queries_of_one_target_are_told_together() {
        // 201 results, two of them late: fewer than one in a hundred, though it is the only one of its query.
        let standings = [standing("many", 200, 1), standing("few", 1, 1), standing("silent", 0, 0)];
        assert_eq!(
            together(&standings),
            "All results of the 3 queries of 2 ns: p50 1 ns, p99 1 ns, met 99.0 %.\n"
        );
        assert_eq!(together(&standings[..1]), "", "its line tells");
        assert_eq!(together(&standings[2..]), "");
        let other = Standing { target_ns: 5, ..standing("other", 1, 0) };
        assert_eq!(together(&[standing("many", 200, 1), other]), "");
    }

    #[test]
    fn who_gave_no_result_kept_nothing() {
        let kept = [standing("prompt", 100, 1)];
        assert_eq!(Verdict::of(&kept).is_kept(), Some(true));
        let silent = [standing("prompt", 100, 1), standing("hourly", 0, 0)];
        let verdict = Verdict::of(&silent);
        assert_eq!(verdict.is_kept(), None);
        assert!(verdict.text().starts_with("Cannot tell of hourly: "), "{}", verdict.text());
        let missed = [standing("late", 100, 2), standing("hourly", 0, 0)];
        let verdict = Verdict::of(&missed);
        assert_eq!(verdict.is_kept(), Some(false));
        assert!(verdict.text().starts_with("late would miss its "), "{}", verdict.text());
        assert!(verdict.text().contains("Cannot tell of hourly"), "{}", verdict.text());
    }
}
