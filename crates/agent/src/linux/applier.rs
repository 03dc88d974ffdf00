//! From a [`Plan`] to the kernel: whatever is changed stands in the journal before.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};

use super::capability::Capability;
use super::cgroup::{Hierarchy, Version};
use super::class::{Class, set_class};
use super::journal::{Journal, JournalError};
use super::proc::{
    process_status, set_timer_slack, thread_ids, thread_status, ticks_per_second, timer_slack_ns,
};
use super::restore::{Restored, is_same, restore, set_nice};
use crate::ThreadId;
use crate::clock::since_boot_ns;
use crate::plan::{Change, GroupSetting, Plan};

/// Carries plans out: journals what was, then writes what differs from the plan before.
///
/// Every process's threads stay below the cgroup they were in, so that limits of a container keep holding: the agent
/// makes one group there, with a group below for each of the plan's.
#[derive(Debug)]
pub struct Applier {
    journal: Journal,
    /// `None`: without groups.
    hierarchy: Option<Hierarchy>,
    applied: Plan,
    processes: BTreeMap<u32, Process>,
    /// Weight of our group per process in it.
    weight: u32,
    /// Our group in each cgroup that processes were found in, and how many of them.
    bases: BTreeMap<PathBuf, u32>,
}

#[derive(Debug)]
struct Process {
    started_ticks: u64,
    nice: i32,
    timer_slack_ns: Option<u64>,
    attached_ticks: u64,
    base: Option<PathBuf>,
}

/// Threads of a new process that go to one group.
#[derive(Debug)]
struct Together {
    group: String,
    /// Whether they could be moved at once; `None`: not tried yet.
    done: Option<bool>,
}

/// What came of one plan.
#[derive(Debug, Default)]
pub struct Applied {
    /// What was written.
    pub changes: Vec<Change>,
    /// What could not be.
    pub failed: Vec<Failed>,
}

/// A write that the kernel refused.
#[derive(Debug)]
pub struct Failed {
    /// Which.
    pub change: Change,
    /// Why.
    pub error: io::Error,
}

/// What the agent's group is called.
pub(super) const BASE: &str = "laxity";

/// More agents than this beside each other share a group.
const AGENTS_MAX: u32 = 16;

/// Of every real-time period, for the agent's group and for the operators in it: below the kernel's own 95 %, so that
/// something is left for others even if a real-time thread never sleeps.
const REAL_TIME_SHARES: (f64, f64) = (0.8, 0.7);

impl Applier {
    /// With the journal that the last agent left in order, and the cpu cgroups to use, if any.
    pub fn new(journal: Journal, hierarchy: Option<Hierarchy>) -> Applier {
        Applier {
            journal,
            hierarchy,
            applied: Plan::default(),
            processes: BTreeMap::new(),
            weight: 100,
            bases: BTreeMap::new(),
        }
    }

    /// How much CPU the engines get beside other programs: the weight of each of their processes, where 100 is what
    /// any process has.
    #[must_use]
    pub fn with_weight(self, weight: u32) -> Applier {
        Applier { weight, ..self }
    }

    /// What was applied last.
    pub fn applied(&self) -> &Plan {
        &self.applied
    }

    /// Takes a process in, before the first plan for its threads.
    ///
    /// # Errors
    /// If its group cannot be made: the world failed, and trying again may help.
    pub fn attach(&mut self, pid: u32) -> io::Result<()> {
        let status = process_status(pid)?;
        if self.processes.get(&pid).is_some_and(|known| known.started_ticks == status.started_ticks) {
            return Ok(());
        }
        let attached_ticks = since_boot_ns() / (1_000_000_000 / ticks_per_second());
        // Only who may set it may read it.
        let timer_slack_ns = timer_slack_ns(pid).ok();
        self.journal.process(pid, status.started_ticks, status.nice, attached_ticks, timer_slack_ns);
        let base = match &self.hierarchy {
            None => None,
            Some(hierarchy) => {
                let home = hierarchy.of_thread(pid, pid)?;
                let base = self.base_in(&home);
                if !hierarchy.is_open(&home)? {
                    self.journal.opened(&home);
                }
                self.journal.made(&base, &home);
                self.journal.sync().map_err(io::Error::other)?;
                hierarchy.create(&base)?;
                hierarchy.open(&home)?;
                hierarchy.open(&base)?;
                let processes = self.bases.entry(base.clone()).or_default();
                *processes += 1;
                // What the processes had when each was a group of its own.
                hierarchy.set(
                    &base,
                    GroupSetting { weight: (self.weight * *processes).min(10_000), quota_cores: None },
                )?;
                // A plan's groups must come to be in the new place too.
                self.applied.groups.clear();
                Some(base)
            }
        };
        self.processes.insert(
            pid,
            Process {
                started_ticks: status.started_ticks,
                nice: status.nice,
                timer_slack_ns,
                attached_ticks,
                base,
            },
        );
        Ok(())
    }

    /// Ours in that group. One that is there and that we did not make is another agent's, who removes it when it ends.
    fn base_in(&self, home: &Path) -> PathBuf {
        let names =
            std::iter::once(BASE.to_owned()).chain((2..=AGENTS_MAX).map(|nth| format!("{BASE}-{nth}")));
        let mut bases = names.map(|name| home.join(name));
        let free = bases.find(|base| self.bases.contains_key(base) || !base.exists());
        free.unwrap_or_else(|| home.join(BASE))
    }

    /// Forgets processes that ended.
    pub fn keep(&mut self, pids: &BTreeSet<u32>) {
        self.processes.retain(|pid, _| pids.contains(pid));
    }

    /// Writes what differs from the last plan.
    ///
    /// A thread that ended meanwhile is passed over. What the kernel refuses is tried again with the next plan.
    ///
    /// # Errors
    /// If the journal cannot be written; then nothing was changed.
    pub fn apply(&mut self, mut plan: Plan) -> Result<Applied, JournalError> {
        if self.hierarchy.is_none() {
            plan.groups.clear();
            plan.threads.values_mut().for_each(|setting| setting.group = None);
        }
        self.adopt_newborn(&mut plan);
        let changes = plan.changes_from(&self.applied);
        for change in &changes {
            self.note(change);
        }
        self.journal.sync()?;
        let is_real_time = plan.threads.values().any(|setting| setting.round_robin > Some(0));
        let mut applied = Applied::default();
        let mut together = self.together(&plan, &changes);
        for change in changes {
            match self.write(&change, is_real_time, &mut together) {
                Ok(()) => applied.changes.push(change),
                Err(error) => {
                    forget(&mut plan, &change);
                    if thread_of(&change).is_none_or(is_same) {
                        applied.failed.push(Failed { change, error });
                    }
                }
            }
        }
        self.applied = plan;
        Ok(applied)
    }

    /// The plan would change so much.
    pub fn changes(&self, plan: &Plan) -> Vec<Change> {
        plan.changes_from(&self.applied)
    }

    /// Puts everything back.
    ///
    /// # Errors
    /// If the journal cannot be read.
    pub fn finish(mut self) -> Result<Restored, JournalError> {
        restore(&mut self.journal)
    }

    /// A thread that an operator started inherits its nice value and timer slack; unless it is an operator too, its
    /// process's are right.
    fn adopt_newborn(&self, plan: &mut Plan) {
        for (thread, setting) in &mut plan.threads {
            let Some(process) = self.processes.get(&thread.pid) else { continue };
            if thread.started_ticks < process.attached_ticks {
                continue;
            }
            let had = self.applied.threads.get(thread);
            if setting.nice.is_none() {
                setting.nice = match had {
                    Some(had) => had.nice,
                    None => thread_status(thread.pid, thread.tid)
                        .is_ok_and(|status| status.nice != process.nice)
                        .then_some(process.nice),
                };
            }
            if setting.timer_slack_ns.is_none() {
                setting.timer_slack_ns = match had {
                    Some(had) => had.timer_slack_ns,
                    None => process
                        .timer_slack_ns
                        .filter(|&ns| timer_slack_ns(thread.tid).is_ok_and(|has| has != ns)),
                };
            }
        }
    }

    fn note(&mut self, change: &Change) {
        match change {
            Change::Group { name, .. } => {
                for base in self.bases.keys() {
                    self.journal.made(&base.join(name), base.parent().unwrap_or(base));
                }
            }
            Change::Move { thread, .. } => {
                let Some(hierarchy) = &self.hierarchy else { return };
                let Ok(mut home) = hierarchy.of_thread(thread.pid, thread.tid) else { return };
                // One that was born in a group of ours belongs where its process was.
                let base = self.processes.get(&thread.pid).and_then(|process| process.base.as_ref());
                if let Some(base) = base.filter(|base| home.starts_with(base)) {
                    home = base.parent().unwrap_or(base).to_owned();
                }
                self.journal.group(*thread, &home);
            }
            Change::Nice { thread, .. } => {
                let Ok(status) = thread_status(thread.pid, thread.tid) else { return };
                let newborn =
                    self.processes.get(&thread.pid).filter(|p| thread.started_ticks >= p.attached_ticks);
                self.journal.nice(*thread, newborn.map_or(status.nice, |process| process.nice));
            }
            Change::TimerSlack { thread, .. } => {
                let Ok(has_ns) = timer_slack_ns(thread.tid) else { return };
                let newborn =
                    self.processes.get(&thread.pid).filter(|p| thread.started_ticks >= p.attached_ticks);
                let ns = newborn.and_then(|process| process.timer_slack_ns).unwrap_or(has_ns);
                self.journal.timer_slack(*thread, ns);
            }
            Change::RoundRobin { thread, .. } => {
                let Ok(status) = thread_status(thread.pid, thread.tid) else { return };
                self.journal.class(*thread, Class { policy: status.class, priority: status.priority });
            }
            Change::RemoveGroup { .. } => {}
        }
    }

    /// By new process that is planned for whole: the group that most of its threads go to. There they all go together,
    /// before the others leave it.
    fn together(&self, plan: &Plan, changes: &[Change]) -> BTreeMap<u32, Together> {
        let mut counts: BTreeMap<u32, BTreeMap<&str, usize>> = BTreeMap::new();
        for change in changes {
            if let Change::Move { thread, group } = change {
                *counts.entry(thread.pid).or_default().entry(group).or_default() += 1;
            }
        }
        let moved = self.applied.threads.iter().filter(|(_, setting)| setting.group.is_some());
        for (known, _) in moved {
            counts.remove(&known.pid);
        }
        counts.retain(|pid, _| {
            // What is born since the plan was made comes along.
            let attached_ticks = self.processes.get(pid).map_or(0, |process| process.attached_ticks);
            let is_planned = |thread: &ThreadId| plan.threads.get(thread).is_some_and(|t| t.group.is_some());
            let mut old = thread_ids(*pid).unwrap_or_default().into_iter();
            old.all(|thread| thread.started_ticks >= attached_ticks || is_planned(&thread))
        });
        let most = counts.into_iter().filter_map(|(pid, groups)| {
            let (group, threads) = groups.into_iter().max_by_key(|&(_, threads)| threads)?;
            (threads > 1).then(|| (pid, Together { group: group.to_owned(), done: None }))
        });
        most.collect()
    }

    /// Whether the thread has come to the group with all of its process.
    fn is_there(
        &self,
        together: &mut BTreeMap<u32, Together>,
        thread: ThreadId,
        group: &str,
        base: &Path,
    ) -> bool {
        let (Some(hierarchy), Some(together)) = (&self.hierarchy, together.get_mut(&thread.pid)) else {
            return false;
        };
        let folder = base.join(&together.group);
        // Where that is refused, they go one by one.
        let done = *together.done.get_or_insert_with(|| hierarchy.move_process(&folder, thread.pid).is_ok());
        done && together.group == group
    }

    fn write(
        &self,
        change: &Change,
        is_real_time: bool,
        together: &mut BTreeMap<u32, Together>,
    ) -> io::Result<()> {
        match change {
            Change::Group { name, setting } => self.in_bases(|hierarchy, base| {
                let folder = base.join(name);
                hierarchy.create(&folder)?;
                if is_real_time && name == crate::OPERATOR_GROUP {
                    hierarchy.allow_real_time(base, REAL_TIME_SHARES.0)?;
                    hierarchy.allow_real_time(&folder, REAL_TIME_SHARES.1)?;
                }
                hierarchy.set(&folder, *setting)
            }),
            Change::Move { thread, group } => {
                let base = self.processes.get(&thread.pid).and_then(|process| process.base.as_ref());
                match (&self.hierarchy, base) {
                    (Some(hierarchy), Some(base)) if is_same(*thread) => {
                        if self.is_there(together, *thread, group, base) {
                            return Ok(());
                        }
                        hierarchy.move_thread(&base.join(group), thread.tid)
                    }
                    _ => Err(io::ErrorKind::NotFound.into()),
                }
            }
            Change::Nice { thread, nice } if is_same(*thread) => set_nice(thread.tid, *nice),
            Change::TimerSlack { thread, ns } if is_same(*thread) => set_timer_slack(thread.tid, *ns),
            Change::RoundRobin { thread, priority } if is_same(*thread) => {
                let set = set_class(thread.tid, Class::round_robin(*priority));
                set.map_err(|error| self.why_no_real_time(error))
            }
            Change::Nice { .. } | Change::TimerSlack { .. } | Change::RoundRobin { .. } => {
                Err(io::ErrorKind::NotFound.into())
            }
            Change::RemoveGroup { name } => {
                self.in_bases(|hierarchy, base| hierarchy.remove(&base.join(name), base))
            }
        }
    }

    /// Where real-time is shared out by group, a group of cgroup v2 has none, and no file to get it by.
    fn why_no_real_time(&self, error: io::Error) -> io::Error {
        let is_v2 = self.hierarchy.as_ref().is_some_and(|hierarchy| hierarchy.version == Version::V2);
        match error.kind() {
            // Else the capability is what is missing.
            io::ErrorKind::PermissionDenied if is_v2 && Capability::read().sys_nice => io::Error::new(
                error.kind(),
                "this kernel shares real-time out by group (CONFIG_RT_GROUP_SCHED), and none can be given to a group of \
                 cgroup v2; boot with rt_group_sched=0, or use another --translator than rr",
            ),
            _ => error,
        }
    }

    fn in_bases(&self, act: impl Fn(&Hierarchy, &Path) -> io::Result<()>) -> io::Result<()> {
        let Some(hierarchy) = &self.hierarchy else { return Ok(()) };
        self.bases.keys().try_for_each(|base| act(hierarchy, base))
    }
}

fn thread_of(change: &Change) -> Option<ThreadId> {
    match change {
        Change::Move { thread, .. }
        | Change::Nice { thread, .. }
        | Change::TimerSlack { thread, .. }
        | Change::RoundRobin { thread, .. } => Some(*thread),
        Change::Group { .. } | Change::RemoveGroup { .. } => None,
    }
}

/// Takes out of the plan what was not done, so that the next one does it.
fn forget(plan: &mut Plan, change: &Change) {
    let setting = thread_of(change).and_then(|thread| plan.threads.get_mut(&thread));
    match (change, setting) {
        (Change::Group { name, .. }, _) => drop(plan.groups.remove(name)),
        (Change::Move { .. }, Some(setting)) => setting.group = None,
        (Change::Nice { .. }, Some(setting)) => setting.nice = None,
        (Change::TimerSlack { .. }, Some(setting)) => setting.timer_slack_ns = None,
        (Change::RoundRobin { .. }, Some(setting)) => setting.round_robin = None,
        _ => {}
    }
}
