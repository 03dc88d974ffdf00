//! Undoes what a journal speaks of, at the end of an agent or after its crash. A thread id that was used again is left
//! alone.

use std::collections::{HashMap, HashSet};
use std::io;
use std::path::{Path, PathBuf};

use rustix::process::{Pid, setpriority_process};

use super::autogroup::OWN_NICE;
use super::cgroup::Hierarchy;
use super::class::set_class;
use super::journal::{Journal, JournalError, Record};
use super::proc::{process_status, set_timer_slack, thread_ids, thread_status, timer_slack_ns, user_of};
use crate::ThreadId;

/// What a restoration did.
#[derive(Debug, Default)]
pub struct Restored {
    /// Threads that are as they were.
    pub threads: usize,
    /// Threads that have ended since; nothing to do.
    pub ended: usize,
    /// Groups removed.
    pub groups: usize,
    /// Sessions of agents that weigh again what they did.
    pub sessions: usize,
    /// What could not be put back, and why. The journal keeps it.
    pub failed: Vec<String>,
}

/// Puts everything back that the journal speaks of, in the reverse order, and empties it if all went well.
///
/// # Errors
/// If the journal cannot be read or emptied.
pub fn restore(journal: &mut Journal) -> Result<Restored, JournalError> {
    let records = journal.records()?;
    let mut restored = Restored::default();
    let records = ours(records, &mut restored);
    let hierarchy = Hierarchy::find();
    let mut touched: HashSet<ThreadId> = HashSet::new();
    let homes = homes(&records);
    let together = homes.into_iter().filter(|(process, home)| {
        hierarchy.as_ref().is_some_and(|hierarchy| {
            home.exists() && is_same(*process) && hierarchy.move_process(home, process.pid).is_ok()
        })
    });
    let together: HashSet<u32> = together.map(|(process, _)| process.pid).collect();
    for record in records.iter().rev() {
        let (thread, result) = match record {
            Record::Nice { thread, nice } => (*thread, unless_gone(*thread, || set_nice(thread.tid, *nice))),
            Record::TimerSlack { thread, ns } => {
                (*thread, unless_gone(*thread, || set_timer_slack(thread.tid, *ns)))
            }
            Record::Class { thread, class } => {
                (*thread, unless_gone(*thread, || set_class(thread.tid, *class)))
            }
            Record::Group { thread, .. } if together.contains(&thread.pid) => (*thread, Ok(())),
            Record::Group { thread, folder } => (*thread, move_back(hierarchy.as_ref(), *thread, folder)),
            Record::Session { autogroup } => {
                match autogroup.put_back(OWN_NICE) {
                    Ok(was_ours) => restored.sessions += usize::from(was_ours),
                    Err(error) => restored.failed.push(format!("session {}: {error}", autogroup.name)),
                }
                continue;
            }
            Record::Process { .. } | Record::Made { .. } | Record::Opened { .. } => continue,
        };
        let first = touched.insert(thread);
        if !is_same(thread) {
            restored.ended += usize::from(first);
            continue;
        }
        match result {
            Ok(()) => restored.threads += usize::from(first),
            Err(error) => {
                restored.failed.push(format!("thread {} of process {}: {error}", thread.tid, thread.pid))
            }
        }
    }
    for record in &records {
        newborn(record, &touched);
    }
    let Some(hierarchy) = hierarchy else { return finish(journal, restored) };
    // Made parents first, so removed last; opened before anything was made in it.
    for record in records.iter().rev() {
        let (folder, done) = match record {
            Record::Made { folder, back } if folder.exists() => (folder, hierarchy.remove(folder, back)),
            Record::Opened { folder } if folder.exists() => (folder, hierarchy.close(folder)),
            _ => continue,
        };
        match done {
            Ok(()) => restored.groups += usize::from(matches!(record, Record::Made { .. })),
            Err(error) => restored.failed.push(format!("group {}: {error}", folder.display())),
        }
    }
    finish(journal, restored)
}

/// The records without those of other users' processes, unless we are root: with CAP_SYS_NICE a forged journal could
/// change any thread.
fn ours(records: Vec<Record>, restored: &mut Restored) -> Vec<Record> {
    let user = rustix::process::geteuid();
    if user.is_root() {
        return records;
    }
    let mut foreign = HashSet::new();
    let is_ours = |record: &Record| {
        let pid = match record {
            Record::Process { pid, .. } => *pid,
            Record::Nice { thread, .. }
            | Record::TimerSlack { thread, .. }
            | Record::Class { thread, .. }
            | Record::Group { thread, .. } => thread.pid,
            Record::Session { .. } | Record::Made { .. } | Record::Opened { .. } => return true,
        };
        match user_of(pid) {
            Ok(owner) if owner != user.as_raw() => {
                if foreign.insert(pid) {
                    restored.failed.push(format!("process {pid} belongs to user {owner}: left as it is"));
                }
                false
            }
            // It has ended.
            _ => true,
        }
    };
    records.into_iter().filter(is_ours).collect()
}

fn finish(journal: &mut Journal, restored: Restored) -> Result<Restored, JournalError> {
    if restored.failed.is_empty() {
        journal.clear()?;
    }
    Ok(restored)
}

/// Processes whose threads were all in one group, by their first thread, and which.
fn homes(records: &[Record]) -> HashMap<ThreadId, &Path> {
    let mut homes: HashMap<u32, Option<&Path>> = HashMap::new();
    for record in records {
        if let Record::Group { thread, folder } = record {
            let home = homes.entry(thread.pid).or_insert(Some(folder));
            home.take_if(|home| *home != folder);
        }
    }
    let home = |record: &Record| match *record {
        Record::Process { pid, started_ticks, .. } => {
            Some((ThreadId { pid, tid: pid, started_ticks }, homes.get(&pid).copied().flatten()?))
        }
        _ => None,
    };
    records.iter().filter_map(home).collect()
}

/// Threads that an operator started since we came have its nice value and timer slack, not their process's.
fn newborn(record: &Record, touched: &HashSet<ThreadId>) {
    let Record::Process { pid, started_ticks, nice, attached_ticks, timer_slack_ns: slack_ns } = *record
    else {
        return;
    };
    if !process_status(pid).is_ok_and(|status| status.started_ticks == started_ticks) {
        return;
    }
    let is_newborn = |thread: &ThreadId| thread.started_ticks >= attached_ticks && !touched.contains(thread);
    for thread in thread_ids(pid).unwrap_or_default().into_iter().filter(is_newborn) {
        // It may end at any time.
        if thread_status(pid, thread.tid).is_ok_and(|status| status.nice != nice) {
            let _ = set_nice(thread.tid, nice);
        }
        if let Some(ns) = slack_ns.filter(|&ns| timer_slack_ns(thread.tid).is_ok_and(|has| has != ns)) {
            let _ = set_timer_slack(thread.tid, ns);
        }
    }
}

fn move_back(hierarchy: Option<&Hierarchy>, thread: ThreadId, folder: &Path) -> io::Result<()> {
    let Some(hierarchy) = hierarchy else { return Ok(()) };
    // The engine's own group may be gone by now; its parent is then the next best.
    let there: Option<PathBuf> = folder.ancestors().find(|folder| folder.exists()).map(Path::to_owned);
    match there {
        Some(there) => unless_gone(thread, || hierarchy.move_thread(&there, thread.tid)),
        None => Ok(()),
    }
}

fn unless_gone(thread: ThreadId, write: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
    if is_same(thread) { write() } else { Ok(()) }
}

/// The thread still runs, and is not another one of the same id.
pub(crate) fn is_same(thread: ThreadId) -> bool {
    thread_status(thread.pid, thread.tid).is_ok_and(|status| status.started_ticks == thread.started_ticks)
}

/// nice of one thread: on Linux, priorities are per thread whatever the call is named.
pub(crate) fn set_nice(tid: u32, nice: i32) -> io::Result<()> {
    let tid = i32::try_from(tid).ok().and_then(Pid::from_raw);
    let tid = tid.ok_or_else(|| io::Error::other("no thread id"))?;
    Ok(setpriority_process(Some(tid), nice)?)
}
