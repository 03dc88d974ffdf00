//! Thread names of a TaskManager: the only sign of which subtask a thread works for.

/// What a thread name of a TaskManager says: `Legacy Source Thread - Source: clicks[1] (1/3)#0`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct TaskName {
    pub role: Role,
    /// The vertex' name. No job: equal names of two jobs are told apart by when they started.
    pub vertex: String,
    /// From 0.
    pub subtask: u32,
    pub parallelism: u32,
    pub attempt: u32,
}

/// What a thread does for its task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Role {
    /// Runs the mailbox: the operators themselves.
    Task,
    /// Makes the rows of a source of the old interface.
    LegacySource,
    /// Fetches rows from outside for a source.
    Fetcher,
    /// Sends buffers on that are not full.
    OutputFlusher,
}

/// Timers are not among them: they only post to the mailbox, and stay with the engine's own threads.
const HELPERS: [(&str, Role); 3] = [
    ("Legacy Source Thread - ", Role::LegacySource),
    ("Source Data Fetcher for ", Role::Fetcher),
    ("OutputFlusher for ", Role::OutputFlusher),
];

const TIMERS: [&str; 2] = ["Time Trigger for ", "System Time Trigger for "];

impl TaskName {
    /// `None` for threads that belong to no task.
    pub fn parse(thread: &str) -> Option<TaskName> {
        if TIMERS.iter().any(|prefix| thread.starts_with(prefix)) {
            return None;
        }
        let helper = HELPERS.iter().find_map(|&(prefix, role)| Some((thread.strip_prefix(prefix)?, role)));
        let (task, role) = helper.unwrap_or((thread, Role::Task));
        let (rest, attempt) = task.rsplit_once('#')?;
        let (vertex, place) = rest.strip_suffix(')')?.rsplit_once(" (")?;
        let (subtask, parallelism) = place.split_once('/')?;
        let (subtask, parallelism): (u32, u32) = (subtask.parse().ok()?, parallelism.parse().ok()?);
        let attempt = attempt.parse().ok()?;
        (1..=parallelism).contains(&subtask).then(|| TaskName {
            role,
            vertex: vertex.to_owned(),
            subtask: subtask - 1,
            parallelism,
            attempt,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(thread: &str, role: Role, vertex: &str, instance: (u32, u32), attempt: u32) {
        let (subtask, parallelism) = instance;
        assert_eq!(
            TaskName::parse(thread),
            Some(TaskName { role, vertex: vertex.to_owned(), subtask, parallelism, attempt })
        );
    }

    #[test]
    fn threads_of_tasks() {
        check("Calc[10] (2/3)#0", Role::Task, "Calc[10]", (1, 3), 0);
        check("Legacy Source Thread - Source: a[1] (1/1)#4", Role::LegacySource, "Source: a[1]", (0, 1), 4);
        check("OutputFlusher for Calc[2] (1/1)#0", Role::OutputFlusher, "Calc[2]", (0, 1), 0);
        check("Source Data Fetcher for Source: k (12/12)#1", Role::Fetcher, "Source: k", (11, 12), 1);
        let chain = "Window[6] -> (Calc[7] -> a: Writer, b: Writer)";
        check(&format!("{chain} (1/2)#0"), Role::Task, chain, (0, 2), 0);
    }

    #[test]
    fn threads_of_the_engine() {
        for thread in [
            "flink-pekko.actor.default-dispatcher-5",
            "Flink Netty Server (0) Thread 0",
            "System Time Trigger for Calc[7] (1/1)#0",
            "GC Thread#0",
            "G1 Refine#1",
            "x (0/1)#0",
            "x (2/1)#0",
        ] {
            assert_eq!(TaskName::parse(thread), None, "{thread}");
        }
    }
}
