//! Priorities of operators to a [`Plan`] for threads. Start with [`Translator`].

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::str::FromStr;

use laxity_sched::Scale;

use crate::normalise::{logarithmic_nice, logarithmic_share, min_max, places};
use crate::plan::{GroupSetting, Plan, ThreadSetting};
use crate::{Schedule, ThreadId, Topology};

/// By which of the operating system's means priorities are kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Translator {
    /// Nice values; operators in one group, those of urgent queries in another.
    #[default]
    Nice,
    /// A cpu cgroup per operator, with a share.
    Shares,
    /// A cpu cgroup per operator, with a share of all cores that it cannot exceed.
    Quota,
    /// The real-time round-robin class for operators of urgent queries; nothing for the others.
    RoundRobin,
    /// A cpu cgroup per query with a share, nice values among the operators inside.
    QuerySharesNice,
}

/// Between what a translator may choose.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ranges {
    /// Nice of the most and of the least urgent.
    pub nice: (i32, i32),
    /// Weight of the most and of the least urgent group.
    pub weight: (u32, u32),
    /// Round-robin priority of the most and of the least urgent.
    pub round_robin: (u8, u8),
    /// Cores of the machine, to divide by quota.
    pub cores: usize,
}

impl Default for Ranges {
    fn default() -> Ranges {
        Ranges {
            // ±10 is a ratio of 87 in CPU weight: on Flink it lowered latency as far as ±20 did, which is 7 500.
            nice: (-10, 10),
            // The range of the authors' own templates for HR.
            weight: (1_000, 10),
            round_robin: (10, 1),
            cores: 1,
        }
    }
}

/// The group of the engines' own threads: heartbeats, RPC, garbage collection, checkpoints, network.
pub const SERVICE_GROUP: &str = "service";

/// The group of all operators, where they are not told apart by group.
pub const OPERATOR_GROUP: &str = "operators";

/// The group of urgent queries' operators, where only nice values tell operators apart otherwise.
///
/// A fair scheduler charges a group with what each thread in it consumes: beside threads that are always ready, one
/// that wakes up waits until the group's turn comes. Not so in a group without them.
pub const URGENT_GROUP: &str = "urgent";

/// The largest there is: what these threads want is little, and they must get it at once.
const SERVICE_WEIGHT: u32 = 10_000;

/// As the engines' own threads, so that bursts of these, as compilers make them, do not keep results waiting.
const URGENT_WEIGHT: u32 = SERVICE_WEIGHT;

/// No quota is less: a task that cannot run cannot pass checkpoints on.
const QUOTA_CORES_MIN: f64 = 0.02;

/// No such translator. The user can fix it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no translator is named {0:?}; expected one of {names}", names = NAMES.map(|(name, _)| name).join(", "))]
pub struct UnknownTranslator(String);

const NAMES: [(&str, Translator); 5] = [
    ("nice", Translator::Nice),
    ("shares", Translator::Shares),
    ("quota", Translator::Quota),
    ("rr", Translator::RoundRobin),
    ("query-shares+nice", Translator::QuerySharesNice),
];

impl FromStr for Translator {
    type Err = UnknownTranslator;

    fn from_str(text: &str) -> Result<Translator, UnknownTranslator> {
        let known = NAMES.iter().find(|(name, _)| *name == text);
        known.map(|&(_, translator)| translator).ok_or_else(|| UnknownTranslator(text.to_owned()))
    }
}

impl fmt::Display for Translator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = NAMES.iter().find(|(_, translator)| translator == self).map_or("", |(name, _)| name);
        f.write_str(name)
    }
}

/// Each task's priority: the highest of the logical operators fused in it (Lachesis, Algorithm 2); each instance of a
/// parallel operator has that operator's. Without data: the median of the others.
pub fn of_tasks(topology: &Topology, schedule: &Schedule) -> Vec<f64> {
    let known = |task: &crate::Task| {
        let priorities = task.operators.iter().filter_map(|&operator| schedule.priorities[operator]);
        priorities.min_by(f64::total_cmp)
    };
    let priorities: Vec<Option<f64>> = topology.tasks.iter().map(known).collect();
    let mut sorted: Vec<f64> = priorities.iter().copied().flatten().collect();
    sorted.sort_by(f64::total_cmp);
    let neutral = sorted.get(sorted.len() / 2).copied().unwrap_or(0.0);
    priorities.into_iter().map(|priority| priority.unwrap_or(neutral)).collect()
}

impl Translator {
    /// Sets nice values.
    pub fn sets_nice(self) -> bool {
        matches!(self, Translator::Nice | Translator::QuerySharesNice)
    }

    /// Needs cpu cgroups, not only profits from them.
    pub fn needs_groups(self) -> bool {
        !matches!(self, Translator::Nice | Translator::RoundRobin)
    }

    /// The plan for these priorities. `service` are the threads of the same processes that are no operators.
    pub fn plan(
        self,
        topology: &Topology,
        schedule: &Schedule,
        service: &[ThreadId],
        ranges: &Ranges,
    ) -> Plan {
        let mut plan = Plan::default();
        let group = |weight| GroupSetting { weight, quota_cores: None };
        plan.groups.insert(SERVICE_GROUP.to_owned(), group(SERVICE_WEIGHT));
        for &thread in service {
            let setting = ThreadSetting { group: Some(SERVICE_GROUP.to_owned()), ..ThreadSetting::default() };
            plan.threads.insert(thread, setting);
        }
        let priorities = of_tasks(topology, schedule);
        match self {
            Translator::Nice => {
                plan.groups.insert(OPERATOR_GROUP.to_owned(), group(100));
                let values = nice_values(&priorities, schedule.scale, ranges);
                let before_others = urgent_queries(topology, &values, ranges);
                if !before_others.is_empty() {
                    plan.groups.insert(URGENT_GROUP.to_owned(), group(URGENT_WEIGHT));
                }
                for (task, nice) in values.into_iter().enumerate() {
                    let is_before = before_others.contains(&query_of(topology, task));
                    let name = if is_before { URGENT_GROUP } else { OPERATOR_GROUP };
                    set(&mut plan, topology, task, |thread| {
                        thread.group = Some(name.to_owned());
                        thread.nice = Some(nice);
                    });
                }
            }
            Translator::Shares | Translator::Quota => {
                let names = operator_groups(topology);
                let weights = weights(&priorities, schedule.scale, ranges);
                let sum: f64 = distinct(&names, &weights).values().sum();
                for (task, (name, &weight)) in names.iter().zip(&weights).enumerate() {
                    let quota_cores = (self == Translator::Quota)
                        .then(|| (weight / sum * ranges.cores as f64).max(QUOTA_CORES_MIN));
                    let setting = GroupSetting { weight: weight.round().max(1.0) as u32, quota_cores };
                    plan.groups.insert(name.clone(), setting);
                    set(&mut plan, topology, task, |thread| thread.group = Some(name.clone()));
                }
            }
            Translator::RoundRobin => {
                plan.groups.insert(OPERATOR_GROUP.to_owned(), group(100));
                let is_urgent = |task: usize| topology.queries[query_of(topology, task)].wishes.is_urgent;
                let urgent: Vec<usize> = (0..priorities.len()).filter(|&task| is_urgent(task)).collect();
                let of_urgent: Vec<f64> = urgent.iter().map(|&task| priorities[task]).collect();
                let (best, worst) = (ranges.round_robin.0.into(), ranges.round_robin.1.into());
                let classes = min_max(&of_urgent, best, worst);
                for task in 0..priorities.len() {
                    let place = urgent.iter().position(|&other| other == task);
                    let class = place.map_or(0, |place| classes[place].round() as u8);
                    set(&mut plan, topology, task, |thread| {
                        thread.group = Some(OPERATOR_GROUP.to_owned());
                        thread.round_robin = Some(class);
                    });
                }
            }
            Translator::QuerySharesNice => {
                query_shares(&mut plan, topology, &priorities, schedule.scale, ranges)
            }
        }
        for task in &topology.tasks {
            for thread in &task.threads {
                let setting = plan.threads.entry(thread.id).or_default();
                setting.timer_slack_ns = task.timer_slack_ns;
            }
        }
        plan
    }
}

/// Whose operators are fused in the task: no engine fuses those of several.
fn query_of(topology: &Topology, task: usize) -> usize {
    topology.operators[topology.tasks[task].operators[0]].query
}

/// Queries with a target, the first of whose operators are in the better half of the nice values: where all have
/// targets, the far ones do not go with the near.
fn urgent_queries(topology: &Topology, nice_values: &[i32], ranges: &Ranges) -> BTreeSet<usize> {
    let (best, worst) = ranges.nice;
    let firsts = (0..topology.tasks.len()).filter(|&task| 2 * nice_values[task] < best + worst);
    let queries = firsts.map(|task| query_of(topology, task));
    queries.filter(|&query| topology.queries[query].wishes.is_urgent).collect()
}

/// A group per query with the priority of its most urgent task, and nice values among its own tasks.
fn query_shares(plan: &mut Plan, topology: &Topology, priorities: &[f64], scale: Scale, ranges: &Ranges) {
    let mut of_query: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for task in 0..topology.tasks.len() {
        of_query.entry(query_of(topology, task)).or_default().push(task);
    }
    let best = |tasks: &Vec<usize>| tasks.iter().map(|&task| priorities[task]).fold(f64::INFINITY, f64::min);
    let queries: Vec<f64> = of_query.values().map(best).collect();
    let weights = weights(&queries, scale, ranges);
    for ((query, tasks), weight) in of_query.into_iter().zip(weights) {
        let known = &topology.queries[query];
        let name = group_name("q", &known.name, &known.key);
        let setting = GroupSetting { weight: weight.round().max(1.0) as u32, quota_cores: None };
        plan.groups.insert(name.clone(), setting);
        let own: Vec<f64> = tasks.iter().map(|&task| priorities[task]).collect();
        for (task, nice) in tasks.into_iter().zip(nice_values(&own, scale, ranges)) {
            set(plan, topology, task, |thread| {
                thread.group = Some(name.clone());
                thread.nice = Some(nice);
            });
        }
    }
}

/// A thread that serves several tasks gets the most urgent of what they ask for, which is what was set first.
fn set(plan: &mut Plan, topology: &Topology, task: usize, to: impl Fn(&mut ThreadSetting)) {
    for thread in &topology.tasks[task].threads {
        let mut setting = ThreadSetting::default();
        to(&mut setting);
        let had = plan.threads.get(&thread.id);
        let is_less =
            had.is_some_and(|had| had.nice <= setting.nice && had.round_robin >= setting.round_robin);
        if !is_less || setting.nice.is_none() && setting.round_robin.is_none() {
            plan.threads.insert(thread.id, setting);
        }
    }
}

fn nice_values(priorities: &[f64], scale: Scale, ranges: &Ranges) -> Vec<i32> {
    let (best, worst) = (ranges.nice.0.into(), ranges.nice.1.into());
    let values = match scale {
        Scale::Linear => min_max(priorities, best, worst),
        Scale::Logarithmic => logarithmic_nice(priorities, best, worst),
        Scale::Order => min_max(&places(priorities), best, worst),
    };
    values.into_iter().map(|value| value.round() as i32).collect()
}

fn weights(priorities: &[f64], scale: Scale, ranges: &Ranges) -> Vec<f64> {
    let (best, worst) = (ranges.weight.0.into(), ranges.weight.1.into());
    match scale {
        Scale::Linear => min_max(priorities, best, worst),
        Scale::Logarithmic => logarithmic_share(priorities, best, worst),
        Scale::Order => min_max(&places(priorities), best, worst),
    }
}

/// By task: the group of the first operator in it.
fn operator_groups(topology: &Topology) -> Vec<String> {
    let name = |task: &crate::Task| {
        let operator = &topology.operators[task.operators[0]];
        group_name("o", &operator.name, &operator.key)
    };
    topology.tasks.iter().map(name).collect()
}

fn distinct<'a>(names: &'a [String], weights: &[f64]) -> BTreeMap<&'a str, f64> {
    names.iter().map(String::as_str).zip(weights.iter().copied()).collect()
}

/// A name for a directory: the beginning of what people call it, and a hash of the key that makes it the only one.
fn group_name(kind: &str, name: &str, key: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
    let shown: String = name.chars().take(32).map(plain).collect();
    // FNV-1a, 32 bits (Fowler, Noll, Vo).
    let hash =
        key.bytes().fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    format!("{kind}-{}-{hash:08x}", shown.trim_matches('-'))
}

#[cfg(test)]
mod tests;
