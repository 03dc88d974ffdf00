//! Threads and processes as `/proc` shows them, read with few system calls, because reading is most of what an agent
//! costs.

use std::fs;
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;

use crate::ThreadId;
use crate::clock::since_boot_ns;

/// The scheduling of a thread, from `/proc/PID/task/TID/stat`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Status {
    /// Field 19.
    pub nice: i32,
    /// Field 22: start, in clock ticks since boot.
    pub started_ticks: u64,
    /// Field 40: priority in the real-time classes, else 0.
    pub priority: u8,
    /// Field 41: SCHED_OTHER is 0, SCHED_FIFO 1, SCHED_RR 2.
    pub class: i32,
}

/// Clock ticks per second of the start times in `/proc`.
pub fn ticks_per_second() -> u64 {
    rustix::param::clock_ticks_per_second()
}

/// Every process of this machine that can be seen.
pub fn processes() -> Vec<u32> {
    numbers("/proc").unwrap_or_default()
}

/// The threads of a process, with their start times.
pub fn thread_ids(pid: u32) -> io::Result<Vec<ThreadId>> {
    let tids = numbers(&format!("/proc/{pid}/task"))?;
    // One that ends meanwhile is none.
    let id = |tid| Some(ThreadId { pid, tid, started_ticks: thread_status(pid, tid).ok()?.started_ticks });
    Ok(tids.into_iter().filter_map(id).collect())
}

/// Status of one thread.
pub fn thread_status(pid: u32, tid: u32) -> io::Result<Status> {
    read_status(&format!("/proc/{pid}/task/{tid}/stat"))
}

/// Status of a process: that of its first thread.
pub fn process_status(pid: u32) -> io::Result<Status> {
    read_status(&format!("/proc/{pid}/stat"))
}

/// CPU time that a thread used, and for how long it could have run and had no core, ns.
pub fn cpu_times_ns(thread: ThreadId) -> Option<(u64, u64)> {
    let ThreadId { pid, tid, .. } = thread;
    let text = read_small(&format!("/proc/{pid}/task/{tid}/schedstat")).ok()?;
    let mut fields = text.split_ascii_whitespace();
    Some((fields.next()?.parse().ok()?, fields.next()?.parse().ok()?))
}

/// How much later than asked a thread's timers may fire. Needs CAP_SYS_NICE for threads of others.
pub fn timer_slack_ns(tid: u32) -> io::Result<u64> {
    let path = timer_slack_path(tid);
    let text = read_small(&path)?;
    text.trim().parse().map_err(|_| io::Error::other(format!("{path} is not as expected: {text}")))
}

/// As [`timer_slack_ns`]. Real-time threads have none, whatever is set.
pub fn set_timer_slack(tid: u32, ns: u64) -> io::Result<()> {
    fs::write(timer_slack_path(tid), ns.to_string())
}

/// Not shown among a process's tasks, but for each thread as if it were a process.
fn timer_slack_path(tid: u32) -> String {
    format!("/proc/{tid}/timerslack_ns")
}

/// A thread's name as Linux has it: 15 bytes of it.
pub fn thread_name(thread: ThreadId) -> io::Result<String> {
    let name = read_small(&format!("/proc/{}/task/{}/comm", thread.pid, thread.tid))?;
    Ok(name.trim_end().to_owned())
}

/// The arguments a process was started with; empty for kernel threads.
pub fn executable_lines(pid: u32) -> Vec<String> {
    let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    line.split(|&byte| byte == 0)
        .filter(|argument| !argument.is_empty())
        .map(|argument| String::from_utf8_lossy(argument).into_owned())
        .collect()
}

/// Cores that a process used on average since it started.
pub fn mean_cores(pid: u32) -> Option<f64> {
    let text = read_small(&format!("/proc/{pid}/stat")).ok()?;
    let used: u64 = stat_field::<u64>(&text, 14)? + stat_field::<u64>(&text, 15)?;
    let now_ticks = since_boot_ns() as f64 / 1e9 * ticks_per_second() as f64;
    Some(used as f64 / (now_ticks - stat_field::<f64>(&text, 22)?).max(1.0))
}

/// The user a process runs as.
pub fn user_of(pid: u32) -> io::Result<u32> {
    Ok(fs::metadata(format!("/proc/{pid}"))?.uid())
}

/// A file that the kernel makes as it is read, and gives whole to a read that is long enough. To read until the end takes
/// three times as many system calls, which is most of what an agent costs.
fn read_small(path: &str) -> io::Result<String> {
    let mut bytes = [0; 1_024];
    let count = fs::File::open(path)?.read(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes[..count]).into_owned())
}

fn read_status(path: &str) -> io::Result<Status> {
    let text = read_small(path)?;
    parse_status(&text).ok_or_else(|| io::Error::other(format!("{path} is not as expected: {text}")))
}

fn parse_status(text: &str) -> Option<Status> {
    Some(Status {
        nice: stat_field(text, 19)?,
        started_ticks: stat_field(text, 22)?,
        priority: stat_field(text, 40)?,
        class: stat_field(text, 41)?,
    })
}

/// A field by its number in proc(5), from the third on.
fn stat_field<T: std::str::FromStr>(text: &str, number: usize) -> Option<T> {
    // The name in brackets may hold blanks and brackets.
    text[text.rfind(')')? + 1..].split_ascii_whitespace().nth(number - 3)?.parse().ok()
}

fn numbers(folder: &str) -> io::Result<Vec<u32>> {
    let entries = fs::read_dir(folder)?;
    let mut numbers: Vec<u32> =
        entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect();
    numbers.sort_unstable();
    Ok(numbers)
}

/// Share of all cores that is busy, from `/proc/stat`.
#[derive(Debug, Default)]
pub struct Busy {
    before: Option<(u64, u64)>,
}

impl Busy {
    /// Since the last call; `None` at the first.
    pub fn read(&mut self) -> Option<f64> {
        let now = parse_busy(&fs::read_to_string("/proc/stat").ok()?)?;
        let before = self.before.replace(now)?;
        let (busy, all) = (now.0.saturating_sub(before.0), now.1.saturating_sub(before.1));
        (all > 0).then(|| busy as f64 / all as f64)
    }
}

/// Ticks spent at work, and all ticks.
fn parse_busy(text: &str) -> Option<(u64, u64)> {
    let line = text.lines().next()?.strip_prefix("cpu ")?;
    let ticks: Vec<u64> = line.split_ascii_whitespace().filter_map(|field| field.parse().ok()).collect();
    // user nice system idle iowait irq softirq steal; what follows is counted in user already.
    let all: u64 = ticks.iter().take(8).sum();
    Some((all - ticks.get(3)? - ticks.get(4)?, all))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_may_hold_brackets() {
        let fields: Vec<String> = (4..=52).map(|field| field.to_string()).collect();
        let status = parse_status(&format!("17 (a ) (b) S {}", fields.join(" "))).unwrap();
        assert_eq!(status, Status { nice: 19, started_ticks: 22, priority: 40, class: 41 });
        assert_eq!(parse_status("17 (x"), None);
    }

    #[test]
    fn our_own_threads_are_found() {
        let pid = std::process::id();
        let ids = thread_ids(pid).unwrap();
        let own = rustix::thread::gettid().as_raw_nonzero().get() as u32;
        let id = ids.iter().find(|id| id.tid == own).unwrap();
        assert!(id.started_ticks >= process_status(pid).unwrap().started_ticks);
        assert!(cpu_times_ns(*id).unwrap().0 > 0);
        assert!(!thread_name(*id).unwrap().is_empty());
        assert!(!executable_lines(pid).is_empty());
        assert!(mean_cores(pid).is_some_and(|cores| cores >= 0.0) && mean_cores(0).is_none());
    }

    #[test]
    fn idle_and_waiting_are_not_busy() {
        assert_eq!(parse_busy("cpu  10 1 4 80 5 0 0 0 3 0\ncpu0 1"), Some((15, 100)));
    }
}
