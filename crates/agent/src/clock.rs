use rustix::time::{ClockId, clock_gettime};

/// Nanoseconds since boot, suspension included: the line on which the kernel says when threads started.
pub(crate) fn since_boot_ns() -> u64 {
    ns(ClockId::Boottime) as u64
}

/// CPU time that this process has used, ns.
pub(crate) fn own_cpu_ns() -> u64 {
    ns(ClockId::ProcessCPUTime) as u64
}

/// Milliseconds since 1970.
pub(crate) fn wall_ms() -> f64 {
    ns(ClockId::Realtime) as f64 / 1e6
}

fn ns(clock: ClockId) -> i64 {
    let time = clock_gettime(clock);
    time.tv_sec * 1_000_000_000 + time.tv_nsec
}
