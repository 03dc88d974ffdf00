//! How many threads the system lets a process have: what is beyond fails in the middle of a thread's start, where nothing can be said of it.

use std::fs;

/// A stack, the stack for signals, a guard for each of them, and a heap of the allocator's.
const MAPPINGS_A_THREAD: u64 = 5;

/// A tenth is left to others.
const SHARE: (u64, u64) = (9, 10);

/// Threads that a process may have, by the system's limits; `u64::MAX` where they are not known.
#[must_use]
pub fn thread_room() -> u64 {
    let number = |path: &str| fs::read_to_string(path).ok()?.trim().parse::<u64>().ok();
    let limits = [
        number("/proc/sys/kernel/threads-max"),
        number("/proc/sys/kernel/pid_max"),
        number("/proc/sys/vm/max_map_count").map(|mappings| mappings / MAPPINGS_A_THREAD),
        number("/sys/fs/cgroup/pids.max"),
    ];
    limits.into_iter().flatten().min().map_or(u64::MAX, |least| least / SHARE.1 * SHARE.0)
}
