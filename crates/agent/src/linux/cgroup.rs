//! The cpu controller of cgroups, version 1 and 2, through its files: one interface over the two.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::applier::BASE;
use crate::plan::GroupSetting;

/// Where the cpu controller is mounted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hierarchy {
    /// Which interface it has.
    pub version: Version,
    /// The folder.
    pub mount: PathBuf,
    /// The group that the folder shows, where a namespace hides those above it.
    root: PathBuf,
}

/// The two interfaces of cgroups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// Threads are moved through `tasks`; `cpu.shares`.
    V1,
    /// Threads are moved inside a threaded subtree; `cpu.weight`.
    V2,
}

/// Period of a quota, the kernel's own default.
const QUOTA_PERIOD_US: u64 = 100_000;

impl Hierarchy {
    /// The one that has the cpu controller on this machine.
    pub fn find() -> Option<Hierarchy> {
        let found = Hierarchy::parse(&fs::read_to_string("/proc/self/mountinfo").ok()?)?;
        let has_cpu = |controllers: String| controllers.split_ascii_whitespace().any(|name| name == "cpu");
        match found.version {
            Version::V1 => Some(found),
            Version::V2 => {
                let controllers = fs::read_to_string(found.mount.join("cgroup.controllers")).ok()?;
                has_cpu(controllers).then_some(found)
            }
        }
    }

    /// From the text of `/proc/PID/mountinfo`: v1's cpu controller, else v2.
    fn parse(mounts: &str) -> Option<Hierarchy> {
        let mut unified = None;
        for line in mounts.lines() {
            let Some((before, after)) = line.split_once(" - ") else { continue };
            let before: Vec<&str> = before.split(' ').collect();
            let after: Vec<&str> = after.split(' ').collect();
            let (Some(&root), Some(&mount)) = (before.get(3), before.get(4)) else { continue };
            let hierarchy = |version| Hierarchy { version, mount: mount.into(), root: root.into() };
            match (after.first(), after.get(2)) {
                (Some(&"cgroup"), Some(options)) if options.split(',').any(|option| option == "cpu") => {
                    return Some(hierarchy(Version::V1));
                }
                (Some(&"cgroup2"), _) => unified = Some(hierarchy(Version::V2)),
                _ => {}
            }
        }
        unified
    }

    /// The folder of the group that a thread is in, from the text of `/proc/PID/task/TID/cgroup`.
    fn folder_in(&self, membership: &str) -> Option<PathBuf> {
        let path = membership.lines().find_map(|line| {
            let mut parts = line.splitn(3, ':');
            let (_, controllers, path) = (parts.next()?, parts.next()?, parts.next()?);
            let is_ours = match self.version {
                Version::V1 => controllers.split(',').any(|name| name == "cpu"),
                Version::V2 => controllers.is_empty(),
            };
            is_ours.then_some(path)
        })?;
        let below = Path::new(path).strip_prefix(&self.root).ok()?;
        Some(if below.as_os_str().is_empty() { self.mount.clone() } else { self.mount.join(below) })
    }

    /// The folder of the group that a thread is in.
    pub fn of_thread(&self, pid: u32, tid: u32) -> io::Result<PathBuf> {
        let text = fs::read_to_string(format!("/proc/{pid}/task/{tid}/cgroup"))?;
        self.folder_in(&text)
            .ok_or_else(|| io::Error::other(format!("thread {tid} is in no cpu cgroup that can be seen")))
    }

    /// Whether the kernel gives the group a share: the outermost is none, nor is one of version 2 without the controller.
    pub fn has_share(&self, folder: &Path) -> bool {
        match self.version {
            // Only the outermost has that file.
            Version::V1 => !folder.join("release_agent").exists(),
            Version::V2 => folder.join("cpu.weight").exists(),
        }
    }

    /// The processes in a group.
    pub fn processes(&self, folder: &Path) -> io::Result<Vec<u32>> {
        let text = fs::read_to_string(folder.join("cgroup.procs"))?;
        Ok(text.lines().filter_map(|line| line.parse().ok()).collect())
    }

    /// Makes a group. Below it, others can be made with [`open`](Hierarchy::open).
    pub fn create(&self, folder: &Path) -> io::Result<()> {
        match fs::create_dir(folder) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            other => other?,
        }
        if self.version == Version::V2 {
            write(folder, "cgroup.type", "threaded")?;
        }
        Ok(())
    }

    /// Whether groups below a folder can have shares of their own.
    pub fn is_open(&self, folder: &Path) -> io::Result<bool> {
        match self.version {
            Version::V1 => Ok(true),
            Version::V2 => {
                let open = fs::read_to_string(folder.join("cgroup.subtree_control"))?;
                Ok(open.split_ascii_whitespace().any(|name| name == "cpu"))
            }
        }
    }

    /// Lets groups below a folder have shares of their own.
    pub fn open(&self, folder: &Path) -> io::Result<()> {
        if self.is_open(folder)? {
            return Ok(());
        }
        write(folder, "cgroup.subtree_control", "+cpu")
    }

    /// Undoes [`open`](Hierarchy::open), unless another agent's group is there by now.
    pub fn close(&self, folder: &Path) -> io::Result<()> {
        let is_agents =
            |name: &str| name.strip_prefix(BASE).is_some_and(|rest| rest.is_empty() || rest.starts_with('-'));
        let mut groups =
            fs::read_dir(folder)?.flatten().filter(|e| e.file_type().is_ok_and(|kind| kind.is_dir()));
        if !self.is_open(folder)? || groups.any(|group| group.file_name().to_str().is_some_and(is_agents)) {
            return Ok(());
        }
        write(folder, "cgroup.subtree_control", "-cpu")
    }

    /// Gives a group its setting.
    pub fn set(&self, folder: &Path, setting: GroupSetting) -> io::Result<()> {
        let quota_us = setting.quota_cores.map(|cores| ((cores * QUOTA_PERIOD_US as f64) as u64).max(1_000));
        match self.version {
            Version::V1 => {
                write(folder, "cpu.shares", &shares(setting.weight).to_string())?;
                match quota_us {
                    Some(quota_us) => {
                        write(folder, "cpu.cfs_period_us", &QUOTA_PERIOD_US.to_string())?;
                        write(folder, "cpu.cfs_quota_us", &quota_us.to_string())
                    }
                    None if folder.join("cpu.cfs_quota_us").exists() => {
                        write(folder, "cpu.cfs_quota_us", "-1")
                    }
                    None => Ok(()),
                }
            }
            Version::V2 => {
                write(folder, "cpu.weight", &setting.weight.clamp(1, 10_000).to_string())?;
                match quota_us {
                    Some(quota_us) => write(folder, "cpu.max", &format!("{quota_us} {QUOTA_PERIOD_US}")),
                    None if folder.join("cpu.max").exists() => {
                        write(folder, "cpu.max", &format!("max {QUOTA_PERIOD_US}"))
                    }
                    None => Ok(()),
                }
            }
        }
    }

    /// Allows real-time threads in a group, where the kernel shares real-time out by group.
    pub fn allow_real_time(&self, folder: &Path, share: f64) -> io::Result<()> {
        if !folder.join("cpu.rt_runtime_us").exists() {
            return Ok(());
        }
        let period_us: f64 =
            fs::read_to_string(folder.join("cpu.rt_period_us"))?.trim().parse().map_err(io::Error::other)?;
        write(folder, "cpu.rt_runtime_us", &format!("{:.0}", period_us * share))
    }

    /// Moves one thread.
    pub fn move_thread(&self, folder: &Path, tid: u32) -> io::Result<()> {
        write(folder, self.threads_file(), &tid.to_string())
    }

    /// Moves all threads of a process.
    ///
    /// Every write waits for all cores to have been through the scheduler, which takes long on a machine whose cores are
    /// all busy: one for a process of hundreds of threads, and not hundreds.
    pub fn move_process(&self, folder: &Path, pid: u32) -> io::Result<()> {
        write(folder, "cgroup.procs", &pid.to_string())
    }

    /// The threads in a group.
    pub fn threads(&self, folder: &Path) -> io::Result<Vec<u32>> {
        let text = fs::read_to_string(folder.join(self.threads_file()))?;
        Ok(text.lines().filter_map(|line| line.parse().ok()).collect())
    }

    /// Removes a group, moving what is left in it to `to`, and the groups below it first.
    pub fn remove(&self, folder: &Path, to: &Path) -> io::Result<()> {
        let Ok(entries) = fs::read_dir(folder) else { return Ok(()) };
        for entry in entries.flatten() {
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                self.remove(&entry.path(), to)?;
            }
        }
        for tid in self.threads(folder).unwrap_or_default() {
            // It may have ended, which leaves the folder as empty.
            let _ = self.move_thread(to, tid);
        }
        fs::remove_dir(folder)
    }

    fn threads_file(&self) -> &'static str {
        match self.version {
            Version::V1 => "tasks",
            Version::V2 => "cgroup.threads",
        }
    }
}

/// cgroup v1's unit: 1024 is a usual share, where v2 says 100. The kernel converts so too
/// (`cpu_weight_write_u64`, kernel/sched/core.c).
fn shares(weight: u32) -> u64 {
    (u64::from(weight) * 1_024 / 100).clamp(2, 262_144)
}

/// Writes a file of the kernel; the error names it.
fn write(folder: &Path, file: &str, text: &str) -> io::Result<()> {
    let path = folder.join(file);
    fs::write(&path, text)
        .map_err(|error| io::Error::new(error.kind(), WriteError { path, text: text.into(), error }))
}

#[derive(Debug, thiserror::Error)]
#[error("cannot write {text:?} to {}", path.display())]
struct WriteError {
    path: PathBuf,
    text: String,
    #[source]
    error: io::Error,
}

#[cfg(test)]
mod tests;
