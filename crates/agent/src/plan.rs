//! Where deciding ends and writing begins: translators make a plan, the applier carries it out, a dry run only prints
//! it.

use std::collections::BTreeMap;

use crate::ThreadId;

/// What the operating system is to do for the engines' threads: a value that can be printed, compared and tested.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// Groups of threads below the agent's own cpu cgroup, by name.
    pub groups: BTreeMap<String, GroupSetting>,
    /// Threads, the engines' own among them.
    pub threads: BTreeMap<ThreadId, ThreadSetting>,
}

/// What a group of threads gets.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GroupSetting {
    /// Share of the CPU beside other groups: 1 to 10 000, where 100 is a group's usual share (cgroup v2's unit).
    pub weight: u32,
    /// Cores it may use at most.
    pub quota_cores: Option<f64>,
}

/// What a thread gets. `None`: as it is.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ThreadSetting {
    /// Its group.
    pub group: Option<String>,
    /// −20 to 19, lower runs more.
    pub nice: Option<i32>,
    /// Its priority in the real-time round-robin class, 1 to 99; `Some(0)`: in the normal class.
    pub round_robin: Option<u8>,
    /// How much later than asked its timers may fire (prctl(2), PR_SET_TIMERSLACK).
    pub timer_slack_ns: Option<u64>,
}

/// One write.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// Make the group, or give it another setting.
    Group {
        /// Its name.
        name: String,
        /// All of its setting.
        setting: GroupSetting,
    },
    /// Move a thread.
    Move {
        /// Which.
        thread: ThreadId,
        /// Where to.
        group: String,
    },
    /// Set a thread's nice value.
    Nice {
        /// Which.
        thread: ThreadId,
        /// To what.
        nice: i32,
    },
    /// Set how late a thread's timers may fire.
    TimerSlack {
        /// Which.
        thread: ThreadId,
        /// By how much.
        ns: u64,
    },
    /// Put a thread in the real-time round-robin class, or back.
    RoundRobin {
        /// Which.
        thread: ThreadId,
        /// Its priority there; 0 for the normal class.
        priority: u8,
    },
    /// No thread is planned for that group any more.
    RemoveGroup {
        /// Its name.
        name: String,
    },
}

impl Plan {
    /// The writes that lead from `before` to this plan, in the order in which they can be made; none for what stays.
    ///
    /// A thread that is no more planned for keeps what it has: it ended, or the journal puts it back.
    pub fn changes_from(&self, before: &Plan) -> Vec<Change> {
        let mut changes = Vec::new();
        for (name, setting) in &self.groups {
            if before.groups.get(name) != Some(setting) {
                changes.push(Change::Group { name: name.clone(), setting: *setting });
            }
        }
        let nothing = ThreadSetting::default();
        for (&thread, setting) in &self.threads {
            let had = before.threads.get(&thread).unwrap_or(&nothing);
            if let Some(group) = setting.group.as_ref().filter(|&group| had.group.as_ref() != Some(group)) {
                changes.push(Change::Move { thread, group: group.clone() });
            }
            if let Some(nice) = setting.nice.filter(|_| setting.nice != had.nice) {
                changes.push(Change::Nice { thread, nice });
            }
            // Before the class, so that it is put back after it: in the real-time class threads have none.
            if let Some(ns) = setting.timer_slack_ns.filter(|_| setting.timer_slack_ns != had.timer_slack_ns)
            {
                changes.push(Change::TimerSlack { thread, ns });
            }
            if let Some(priority) = setting.round_robin.filter(|_| setting.round_robin != had.round_robin) {
                changes.push(Change::RoundRobin { thread, priority });
            }
        }
        let left = before.groups.keys().filter(|name| !self.groups.contains_key(*name));
        changes.extend(left.map(|name| Change::RemoveGroup { name: name.clone() }));
        changes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn thread(tid: u32, started_ticks: u64) -> ThreadId {
        ThreadId { pid: 1, tid, started_ticks }
    }

    fn plan(threads: &[(ThreadId, i32)], weight: u32) -> Plan {
        let setting =
            |nice| ThreadSetting { group: Some("g".into()), nice: Some(nice), ..ThreadSetting::default() };
        Plan {
            groups: [("g".into(), GroupSetting { weight, quota_cores: None })].into(),
            threads: threads.iter().map(|&(thread, nice)| (thread, setting(nice))).collect(),
        }
    }

    #[test]
    fn only_what_changes_is_written() {
        let (a, b) = (thread(1, 5), thread(2, 5));
        let before = plan(&[(a, -10), (b, 10)], 100);
        assert_eq!(before.changes_from(&before), []);
        assert_eq!(before.changes_from(&Plan::default()).len(), 5);
        let after = plan(&[(a, -10), (b, 4)], 100);
        assert_eq!(after.changes_from(&before), [Change::Nice { thread: b, nice: 4 }]);
    }

    #[test]
    fn a_thread_id_used_again_is_another_thread() {
        let before = plan(&[(thread(1, 5), 3)], 100);
        let after = plan(&[(thread(1, 9), 3)], 100);
        assert_eq!(after.changes_from(&before).len(), 2);
    }

    #[test]
    fn an_empty_group_is_removed_last() {
        let before = plan(&[(thread(1, 5), 3)], 100);
        let after = Plan {
            groups: [("h".into(), GroupSetting { weight: 1, quota_cores: None })].into(),
            threads: [(thread(1, 5), ThreadSetting { group: Some("h".into()), ..ThreadSetting::default() })]
                .into(),
        };
        let changes = after.changes_from(&before);
        assert!(matches!(changes[0], Change::Group { .. }));
        assert!(matches!(changes[1], Change::Move { .. }));
        assert_eq!(changes[2], Change::RemoveGroup { name: "g".into() });
    }
}
