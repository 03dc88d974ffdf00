//! The one picture of every engine: adapters draw it; ranks and translators never see the engine itself.

use std::sync::Arc;
use std::time::Duration;

use laxity_graph::{LatencyTarget, QosCurve, WindowShape};

/// What an engine runs, as far as it can be seen from outside: queries, their logical operators, the tasks that
/// carry these out, and the threads of each task (Lachesis §2).
///
/// Indices refer to the vectors of the same topology.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Topology {
    /// Jobs, topologies, applications: what has a latency target.
    pub queries: Vec<Query>,
    /// Logical operators, in an order in which producers come before consumers where there is no cycle.
    pub operators: Vec<Operator>,
    /// Physical operators.
    pub tasks: Vec<Task>,
}

/// A query and what was asked for it.
#[derive(Clone, Debug, PartialEq)]
pub struct Query {
    /// Unique over all engines, and the same for as long as the query runs.
    pub key: Arc<str>,
    /// What people call it.
    pub name: String,
    /// What was asked for it.
    pub wishes: Wishes,
}

/// What a user asks for one query.
#[derive(Clone, Debug, PartialEq)]
pub struct Wishes {
    /// The latency target, or the default of a query without one.
    pub target: LatencyTarget,
    /// Whether the target was given: such a query is called urgent.
    pub is_urgent: bool,
    /// Relative importance.
    pub weight: f64,
    /// Utility by latency; that of the target where it is not given.
    pub qos: Option<QosCurve>,
    /// For the policy `static`: higher goes first.
    pub priority: Option<f64>,
    /// The window that its windowed operators close, where the plan does not say.
    pub window: Option<WindowShape>,
}

impl Default for Wishes {
    fn default() -> Wishes {
        Wishes {
            target: LatencyTarget::DEFAULT,
            is_urgent: false,
            weight: 1.0,
            qos: None,
            priority: None,
            window: None,
        }
    }
}

impl Wishes {
    /// A latency target and nothing else.
    pub fn within(target: Duration) -> Option<Wishes> {
        Some(Wishes { target: LatencyTarget::new(target)?, is_urgent: true, ..Wishes::default() })
    }
}

/// A logical operator: what metrics describe and a rank ranks. Its parallel instances share all of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Operator {
    /// Unique over all engines; another one after a restart, because counters begin anew.
    pub key: Arc<str>,
    /// What people call it.
    pub name: String,
    /// Its query.
    pub query: usize,
    /// Operators that feed it.
    pub upstream: Vec<usize>,
    /// The window it closes, if any.
    pub window: Option<WindowShape>,
    /// Parallel instances on all machines, as far as the engine tells; those on this one are its tasks.
    pub instances: u32,
}

/// A physical operator: one thread's work. Fused from several logical operators in engines that chain them.
#[derive(Clone, Debug, PartialEq)]
pub struct Task {
    /// Logical operators it carries out; at least one.
    pub operators: Vec<usize>,
    /// Which parallel instance, from 0.
    pub instance: u32,
    /// The thread that runs it, then its helpers.
    pub threads: Vec<Thread>,
    /// How much later than asked its timers may fire, for an engine whose idle threads poll. `None`: as it is.
    pub timer_slack_ns: Option<u64>,
}

/// A thread of an engine.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Thread {
    /// Which one.
    pub id: ThreadId,
    /// As the engine names it.
    pub name: String,
}

/// A thread of this machine. Thread ids are used again; with the start time they are not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
pub struct ThreadId {
    /// Its process.
    pub pid: u32,
    /// Its own id.
    pub tid: u32,
    /// When it started, in clock ticks since boot (`/proc/PID/task/TID/stat`, field 22).
    pub started_ticks: u64,
}

impl Topology {
    /// Appends another one, of another engine.
    pub fn append(&mut self, other: &Topology) {
        let (queries, operators) = (self.queries.len(), self.operators.len());
        self.queries.extend(other.queries.iter().cloned());
        self.operators.extend(other.operators.iter().cloned().map(|mut operator| {
            operator.query += queries;
            operator.upstream.iter_mut().for_each(|up| *up += operators);
            operator
        }));
        self.tasks.extend(other.tasks.iter().cloned().map(|mut task| {
            task.operators.iter_mut().for_each(|operator| *operator += operators);
            task
        }));
    }

    /// Operators that each operator feeds.
    pub fn downstream(&self) -> Vec<Vec<usize>> {
        let mut downstream = vec![Vec::new(); self.operators.len()];
        for (place, operator) in self.operators.iter().enumerate() {
            for &up in &operator.upstream {
                downstream[up].push(place);
            }
        }
        downstream
    }

    /// The operators, consumers before producers. Those of a cycle, which streaming graphs seldom have, come last.
    pub fn sinks_first(&self) -> Vec<usize> {
        let mut waiting: Vec<usize> = self.downstream().iter().map(Vec::len).collect();
        let mut order: Vec<usize> = (0..self.operators.len()).filter(|&place| waiting[place] == 0).collect();
        let mut next = 0;
        while let Some(&place) = order.get(next) {
            next += 1;
            for &up in &self.operators[place].upstream {
                waiting[up] -= 1;
                if waiting[up] == 0 {
                    order.push(up);
                }
            }
        }
        order.extend((0..self.operators.len()).filter(|&place| waiting[place] > 0));
        order
    }

    /// By operator: how many instances of it are tasks of this machine.
    pub fn instances_here(&self) -> Vec<u32> {
        let mut instances = vec![0; self.operators.len()];
        for &operator in self.tasks.iter().flat_map(|task| &task.operators) {
            instances[operator] += 1;
        }
        instances
    }

    /// By operator: whether an instance of it runs on this machine.
    pub fn runs_here(&self) -> Vec<bool> {
        self.instances_here().into_iter().map(|instances| instances > 0).collect()
    }

    /// All operator threads.
    pub fn threads(&self) -> impl Iterator<Item = &Thread> {
        self.tasks.iter().flat_map(|task| &task.threads)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Queries in a chain each: `chains(&[2, 3])` has operators 0 → 1 and 2 → 3 → 4, one task and thread each.
    pub(crate) fn chains(lengths: &[usize]) -> Topology {
        let mut topology = Topology::default();
        for (query, &length) in lengths.iter().enumerate() {
            topology.queries.push(Query {
                key: format!("q{query}").into(),
                name: format!("q{query}"),
                wishes: Wishes::default(),
            });
            for place in 0..length {
                let index = topology.operators.len();
                topology.operators.push(Operator {
                    key: format!("q{query}/{place}").into(),
                    name: format!("op{place}"),
                    query,
                    upstream: if place == 0 { Vec::new() } else { vec![index - 1] },
                    window: None,
                    instances: 1,
                });
                let id = ThreadId { pid: 1, tid: 100 + index as u32, started_ticks: 7 };
                let thread = Thread { id, name: format!("op{place} (1/1)#0") };
                topology.tasks.push(Task {
                    operators: vec![index],
                    instance: 0,
                    threads: vec![thread],
                    timer_slack_ns: None,
                });
            }
        }
        topology
    }

    #[test]
    fn appending_moves_indices() {
        let mut both = chains(&[2]);
        both.append(&chains(&[1, 2]));
        assert_eq!(both.operators[4].upstream, [3]);
        assert_eq!(both.operators[4].query, 2);
        assert_eq!(both.tasks[4].operators, [4]);
        assert_eq!(both.downstream()[3], [4]);
    }

    #[test]
    fn sinks_come_first_even_in_a_diamond_and_a_cycle_ends() {
        let mut diamond = chains(&[4]);
        diamond.operators[2].upstream = vec![0];
        diamond.operators[3].upstream = vec![1, 2];
        let order = diamond.sinks_first();
        assert_eq!(order[0], 3);
        assert_eq!(order[3], 0);
        diamond.operators[0].upstream = vec![3];
        assert_eq!(diamond.sinks_first().len(), 4);
    }
}
