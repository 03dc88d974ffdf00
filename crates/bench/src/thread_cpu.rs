//! CPU time of the engine's threads, as the system accounts it.

use std::fs;

use anyhow::Context;

/// CPU time so far of the threads of this process whose name begins so, in nanoseconds.
///
/// # Errors
/// If the system does not say (not Linux, or a kernel without scheduler statistics).
pub fn cpu_ns_of(prefix: &str) -> anyhow::Result<u64> {
    let mut total_ns = 0;
    for task in fs::read_dir("/proc/self/task").context("needs Linux")? {
        let task = task?.path();
        // A thread may end between the listing and the look.
        let Ok(name) = fs::read_to_string(task.join("comm")) else { continue };
        if !name.starts_with(prefix) {
            continue;
        }
        let Ok(statistics) = fs::read_to_string(task.join("schedstat")) else { continue };
        let on_cpu = statistics.split_ascii_whitespace().next().context("empty schedstat")?;
        total_ns += on_cpu.parse::<u64>().context("schedstat is not numbers")?;
    }
    Ok(total_ns)
}
