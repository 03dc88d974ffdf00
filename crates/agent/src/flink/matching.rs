//! Which thread works for which subtask. Flink does not tell thread ids, so names, attempts and start times must do.

use std::collections::BTreeMap;

use super::names::{Role, TaskName};
use crate::topology::{Thread, ThreadId};

/// A subtask as REST describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Wanted {
    pub vertex: String,
    pub subtask: u32,
    /// Of its vertex: after a rescale, tasks of the old and of the new one may both have threads for a moment.
    pub parallelism: u32,
    pub attempt: u32,
    /// When it was deployed, ms since 1970.
    pub start_ms: i64,
    /// Its TaskManager's process.
    pub pid: u32,
}

/// A thread as its process shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Found {
    pub id: ThreadId,
    pub name: String,
    /// When it started, ms since 1970.
    pub start_ms: i64,
}

/// The threads of every subtask, and which of those may be another's.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Matched {
    /// By subtask wanted; the task's own thread first. Empty where none was found.
    pub threads: Vec<Vec<Thread>>,
    /// Subtasks whose name others bear that started so near that start times do not tell.
    pub uncertain: Vec<usize>,
}

/// Start times nearer than this do not tell two tasks apart: they are taken on two processes' clocks, and the kernel
/// rounds to 10 ms.
const APART_MS: i64 = 50;

/// Matches subtasks and threads by process, name, instance and attempt, and those that share all of these, because
/// two jobs use the same names, by the order in which they started.
pub(super) fn match_threads(wanted: &[Wanted], found: &[Found]) -> Matched {
    type Key<'a> = (u32, &'a str, u32, u32, u32);
    type ByRole<'a> = BTreeMap<Role, Vec<&'a Found>>;
    let mut threads: BTreeMap<(u32, String, u32, u32, u32), ByRole> = BTreeMap::new();
    for thread in found {
        if let Some(name) = TaskName::parse(&thread.name) {
            let key = (thread.id.pid, name.vertex, name.subtask, name.parallelism, name.attempt);
            threads.entry(key).or_default().entry(name.role).or_default().push(thread);
        }
    }
    let mut alike: BTreeMap<Key, Vec<usize>> = BTreeMap::new();
    for (place, task) in wanted.iter().enumerate() {
        alike
            .entry((task.pid, task.vertex.as_str(), task.subtask, task.parallelism, task.attempt))
            .or_default()
            .push(place);
    }
    let mut matched = Matched { threads: vec![Vec::new(); wanted.len()], uncertain: Vec::new() };
    for ((pid, vertex, subtask, parallelism, attempt), mut places) in alike {
        let key = (pid, vertex.to_owned(), subtask, parallelism, attempt);
        let Some(by_role) = threads.get_mut(&key) else { continue };
        places.sort_by_key(|&place| wanted[place].start_ms);
        for pair in places.windows(2) {
            if wanted[pair[1]].start_ms - wanted[pair[0]].start_ms < APART_MS {
                matched.uncertain.extend(pair);
            }
        }
        let starts: Vec<i64> = places.iter().map(|&place| wanted[place].start_ms).collect();
        for found in by_role.values_mut() {
            found.sort_by_key(|thread| (thread.start_ms, thread.id));
            for (place, thread) in in_order(&starts, found) {
                let thread = Thread { id: thread.id, name: thread.name.clone() };
                matched.threads[places[place]].push(thread);
            }
        }
    }
    matched.uncertain.sort_unstable();
    matched.uncertain.dedup();
    matched
}

/// Pairs tasks and threads, both by start. As many of both: one to one. Else each thread goes to the last task that
/// was deployed before it, because a task's helpers may be several or none.
fn in_order<'a>(starts: &[i64], found: &[&'a Found]) -> Vec<(usize, &'a Found)> {
    if starts.len() == found.len() {
        return found.iter().copied().enumerate().collect();
    }
    let owner =
        |thread: &Found| starts.partition_point(|&start| start <= thread.start_ms + APART_MS).checked_sub(1);
    found.iter().filter_map(|&thread| Some((owner(thread)?, thread))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted(vertex: &str, start_ms: i64) -> Wanted {
        Wanted { vertex: vertex.into(), subtask: 0, parallelism: 1, attempt: 0, start_ms, pid: 7 }
    }

    fn found(tid: u32, name: &str, start_ms: i64) -> Found {
        Found { id: ThreadId { pid: 7, tid, started_ticks: 0 }, name: name.into(), start_ms }
    }

    fn tids(matched: &Matched) -> Vec<Vec<u32>> {
        matched.threads.iter().map(|threads| threads.iter().map(|thread| thread.id.tid).collect()).collect()
    }

    #[test]
    fn equal_names_are_told_apart_by_start() {
        // The second job's threads come first in the dump.
        let tasks = [wanted("Calc[2]", 1_000), wanted("Calc[2]", 9_000)];
        let threads = [
            found(20, "Calc[2] (1/1)#0", 9_120),
            found(21, "OutputFlusher for Calc[2] (1/1)#0", 9_300),
            found(10, "Calc[2] (1/1)#0", 1_200),
            found(11, "OutputFlusher for Calc[2] (1/1)#0", 1_210),
            found(12, "Time Trigger for Calc[2] (1/1)#0", 1_220),
        ];
        let matched = match_threads(&tasks, &threads);
        assert_eq!(tids(&matched), [vec![10, 11], vec![20, 21]]);
        assert!(matched.uncertain.is_empty());
    }

    #[test]
    fn what_start_times_do_not_tell_is_said() {
        let tasks = [wanted("Calc[2]", 1_000), wanted("Calc[2]", 1_020), wanted("Calc[3]", 1_000)];
        assert_eq!(match_threads(&tasks, &[found(1, "Calc[2] (1/1)#0", 1_100)]).uncertain, [0, 1]);
    }

    #[test]
    fn a_helper_that_only_one_of_two_has_goes_to_it() {
        let tasks = [wanted("Source: a", 1_000), wanted("Source: a", 5_000)];
        let threads = [
            found(1, "Source: a (1/1)#0", 1_100),
            found(2, "Source: a (1/1)#0", 5_100),
            found(3, "Legacy Source Thread - Source: a (1/1)#0", 5_400),
        ];
        assert_eq!(tids(&match_threads(&tasks, &threads)), [vec![1], vec![2, 3]]);
    }

    #[test]
    fn another_attempt_instance_or_process_is_another_thread() {
        let task = wanted("Calc[2]", 1_000);
        let other =
            Found { id: ThreadId { pid: 8, tid: 4, started_ticks: 0 }, ..found(4, "Calc[2] (1/1)#0", 1_001) };
        let threads = [found(2, "Calc[2] (1/1)#1", 1_001), found(3, "Calc[2] (2/2)#0", 1_001), other];
        assert_eq!(tids(&match_threads(&[task], &threads)), [Vec::<u32>::new()]);
    }
}
