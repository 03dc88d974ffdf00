//! What the machine, or the part of it that this process was given, has of memory and of open files.
//!
//! The CPU quota of a cgroup needs nothing here: `std::thread::available_parallelism` counts it.

use std::fs;
use std::path::{Path, PathBuf};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// What queries may hold together unless they are told otherwise: half of what there is. The other half is for what is
/// not state or queued rows: code, buffers, the allocator, and results while they are made.
const QUERIES_SHARE: f64 = 0.5;

/// Bytes that queries may hold together by default; `None` where the system does not say what there is.
pub fn queries_memory_bytes() -> Option<u64> {
    memory_bytes(Path::new("/")).map(|bytes| (bytes as f64 * QUERIES_SHARE) as u64)
}

/// Lets the process open as many files as it may: a table of its own for each of thousands of queries is more than the
/// customary limit of 1 024, which stays only for programs that wait by select(2).
pub fn raise_open_files() {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current != maximum {
        // Refused, the customary limit has to do.
        let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
    }
}

/// The memory of the machine or the least bound of the cgroups around the process, whichever is less, with the files of
/// the kernel below `root`.
fn memory_bytes(root: &Path) -> Option<u64> {
    let text = |path: &str| fs::read_to_string(root.join(path)).unwrap_or_default();
    let machine = machine_bytes(&text("proc/meminfo"));
    let bounds = bounds(root, &text("proc/self/cgroup"));
    machine.into_iter().chain(bounds).min()
}

fn machine_bytes(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kilobytes * 1024)
}

/// Bounds of the groups of the process and of those around them. A line of `proc/self/cgroup` is `number:controllers:path`;
/// version 2 names no controllers (cgroups(7)).
fn bounds(root: &Path, groups: &str) -> Vec<u64> {
    let mut bounds = Vec::new();
    for line in groups.lines() {
        let mut fields = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (fields.next(), fields.next()) else { continue };
        if controllers.is_empty() {
            bounds.extend(along(&root.join("sys/fs/cgroup"), path, "memory.max"));
        } else if controllers.split(',').any(|controller| controller == "memory") {
            bounds.extend(along(&root.join("sys/fs/cgroup/memory"), path, "memory.limit_in_bytes"));
        }
    }
    bounds
}

/// The bounds in a group and in all above it. In a container the path may be that outside, while the mount shows its own
/// group as the root.
fn along(mount: &Path, path: &str, file: &str) -> Vec<u64> {
    let mut group = PathBuf::from(path.trim_start_matches('/'));
    let mut bounds = Vec::new();
    loop {
        // "max" is none; so is what version 1 has for it, which no machine has of memory.
        let bound: Option<u64> =
            fs::read_to_string(mount.join(&group).join(file)).ok().and_then(|text| text.trim().parse().ok());
        bounds.extend(bound);
        if !group.pop() {
            return bounds;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A root with these files.
    fn tree(files: &[(&str, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        root
    }

    const MEMINFO: (&str, &str) = ("proc/meminfo", "MemTotal:       24117248 kB\nMemFree: 1 kB\n");
    const MACHINE_BYTES: u64 = 24_117_248 * 1024;

    #[test]
    fn a_machine_without_groups_has_what_it_has() {
        assert_eq!(memory_bytes(tree(&[MEMINFO]).path()), Some(MACHINE_BYTES));
        assert_eq!(memory_bytes(tree(&[]).path()), None);
    }

    #[test]
    fn the_least_bound_along_the_path_counts_in_version_2() {
        let root = tree(&[
            MEMINFO,
            ("proc/self/cgroup", "0::/user.slice/app.scope\n"),
            ("sys/fs/cgroup/user.slice/memory.max", "1073741824\n"),
            ("sys/fs/cgroup/user.slice/app.scope/memory.max", "max\n"),
        ]);
        assert_eq!(memory_bytes(root.path()), Some(1 << 30));
    }

    #[test]
    fn version_1_has_a_hierarchy_for_memory() {
        let groups = "5:cpu,cpuacct:/busy\n4:memory:/tenants/a\n0::/other\n";
        let root = tree(&[
            MEMINFO,
            ("proc/self/cgroup", groups),
            ("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n"),
            ("sys/fs/cgroup/memory/tenants/a/memory.limit_in_bytes", "536870912\n"),
        ]);
        assert_eq!(memory_bytes(root.path()), Some(512 << 20));
    }

    #[test]
    fn in_a_container_the_mount_is_the_group() {
        let root = tree(&[
            MEMINFO,
            ("proc/self/cgroup", "4:memory:/docker/4f5e\n"),
            ("sys/fs/cgroup/memory/memory.limit_in_bytes", "268435456\n"),
        ]);
        assert_eq!(memory_bytes(root.path()), Some(256 << 20));
    }

    #[test]
    fn a_bound_above_the_machine_is_none() {
        let root =
            tree(&[MEMINFO, ("proc/self/cgroup", "0::/\n"), ("sys/fs/cgroup/memory.max", "1099511627776\n")]);
        assert_eq!(memory_bytes(root.path()), Some(MACHINE_BYTES));
    }
}
