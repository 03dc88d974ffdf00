//! What the operating system says of this process. Zero where it says nothing (not Linux).

use std::fs;

/// CPU time of all threads so far.
pub(crate) fn cpu_ns() -> u64 {
    fs::read_to_string("/proc/self/stat").ok().and_then(|stat| parse_cpu_ns(&stat)).unwrap_or(0)
}

/// Largest resident size so far.
pub(crate) fn peak_rss_bytes() -> u64 {
    fs::read_to_string("/proc/self/status").ok().and_then(|status| parse_kb(&status, "VmHWM:")).unwrap_or(0)
}

/// Resident size now.
pub(crate) fn rss_bytes() -> u64 {
    fs::read_to_string("/proc/self/status").ok().and_then(|status| parse_kb(&status, "VmRSS:")).unwrap_or(0)
}

fn parse_cpu_ns(stat: &str) -> Option<u64> {
    // USER_HZ is 100 on every Linux architecture that Rust's standard library supports (proc(5)).
    const NS_PER_TICK: u64 = 10_000_000;
    // The command, in parentheses, may hold spaces: fields are counted from behind it (utime is the 12th).
    let mut fields = stat.rsplit_once(')')?.1.split_ascii_whitespace().skip(11);
    let user: u64 = fields.next()?.parse().ok()?;
    let system: u64 = fields.next()?.parse().ok()?;
    Some((user + system) * NS_PER_TICK)
}

fn parse_kb(status: &str, key: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix(key))?;
    let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kilobytes * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_found_behind_a_command_with_spaces() {
        let stat = "7 (a b) c) S 1 7 7 0 -1 4194560 1 0 0 0 250 50 0 0 20 0 3 0 100 1 1";
        assert_eq!(parse_cpu_ns(stat), Some(3_000_000_000));
        let status = "VmPeak:\t9 kB\nVmHWM:\t  2048 kB\nVmRSS:\t  1024 kB\n";
        assert_eq!((parse_kb(status, "VmHWM:"), parse_kb(status, "VmRSS:")), (Some(2 << 20), Some(1 << 20)));
    }
}
