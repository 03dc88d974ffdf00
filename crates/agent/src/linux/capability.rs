//! Which permissions are missing for what the agent is to change, found before it changes anything, with advice.

use std::fmt;
use std::fs;
use std::path::Path;

use rustix::process::{Resource, getrlimit};

use super::cgroup::Hierarchy;

/// What this process may do to others' threads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Capability {
    /// CAP_SYS_NICE: lower nice values, real-time classes.
    pub sys_nice: bool,
    /// The lowest nice value that RLIMIT_NICE allows without it.
    pub nice_min: i32,
    /// The user it runs as.
    pub user: u32,
}

/// Something that is missing, what cannot be done for want of it, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lack {
    /// What is missing.
    pub what: String,
    /// What to do.
    pub remedy: String,
}

impl fmt::Display for Lack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}\n  {}", self.what, self.remedy)
    }
}

/// Bit of CAP_SYS_NICE, linux/capability.h.
const CAP_SYS_NICE: u32 = 23;

impl Capability {
    /// Of this process.
    pub fn read() -> Capability {
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        let limit = getrlimit(Resource::Nice).current;
        Capability {
            sys_nice: has_sys_nice(&status),
            // The limit counts from 20 down: 40 allows −20 (getrlimit(2)); none is no bound.
            nice_min: limit.map_or(-20, |limit| 20 - i32::try_from(limit.min(40)).unwrap_or(0)).min(20),
            user: rustix::process::geteuid().as_raw(),
        }
    }

    /// What is missing to set nice values from `best` on for threads of these users.
    pub fn lacks_for_nice(&self, best: i32, users: &[u32]) -> Vec<Lack> {
        let mut lacks = Vec::new();
        // Also with CAP_SYS_NICE: a program that anybody may start must not change anybody's threads.
        if let Some(other) = users.iter().find(|&&user| user != self.user && self.user != 0) {
            lacks.push(Lack {
                what: format!("the engine runs as user {other}, this agent as user {}", self.user),
                remedy: format!("run the agent as user {other}, or as root"),
            });
        }
        if self.sys_nice {
            return lacks;
        }
        let grant =
            "run as root, or give it CAP_SYS_NICE: docs/attach.md says how, so that not every user has it"
                .to_owned();
        // What is raised must be lowered again at the end.
        let lowest = best.min(0);
        if self.nice_min > lowest {
            lacks.push(Lack {
                what: format!(
                    "nice values down to {lowest} need CAP_SYS_NICE, or RLIMIT_NICE of {} (it is {} here)",
                    20 - lowest,
                    20 - self.nice_min
                ),
                remedy: grant,
            });
        }
        lacks
    }

    /// What is missing to make a cpu cgroup in `parent`.
    pub fn lacks_for_groups(&self, hierarchy: Option<&Hierarchy>, parent: &Path) -> Vec<Lack> {
        if hierarchy.is_none() {
            return vec![Lack {
                what: "no cpu cgroup controller is mounted".to_owned(),
                remedy: "mount cgroup2, or the cpu controller of cgroup v1, at /sys/fs/cgroup".to_owned(),
            }];
        }
        match rustix::fs::access(parent, rustix::fs::Access::WRITE_OK) {
            Ok(()) => Vec::new(),
            Err(rustix::io::Errno::ROFS) => vec![Lack {
                what: format!("{} is mounted read-only, as in most containers", parent.display()),
                remedy: "run the agent outside the container, or mount cgroups writable in it".to_owned(),
            }],
            Err(error) => vec![Lack {
                what: format!("no group can be made in {}: {error}", parent.display()),
                remedy: format!(
                    "run as root, or have the group delegated to user {} (systemd: Delegate=cpu; else chown it)",
                    self.user
                ),
            }],
        }
    }
}

fn has_sys_nice(status: &str) -> bool {
    let line = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let bits = line.and_then(|bits| u64::from_str_radix(bits.trim(), 16).ok()).unwrap_or(0);
    bits >> CAP_SYS_NICE & 1 == 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capabilities_are_bits() {
        assert!(has_sys_nice("Name:\tx\nCapEff:\t0000000000800000\n"));
        assert!(!has_sys_nice("CapEff:\t00000000ff7fffff\n"));
        assert!(!has_sys_nice(""));
    }

    #[test]
    fn what_is_missing_is_said_with_a_remedy() {
        let plain = Capability { sys_nice: false, nice_min: 0, user: 1000 };
        assert_eq!(plain.lacks_for_nice(0, &[1000]), []);
        let lacks = plain.lacks_for_nice(-10, &[1000, 0]);
        assert_eq!(lacks.len(), 2);
        assert!(
            lacks[0].what.contains("as user 0") && lacks[1].what.contains("RLIMIT_NICE of 30"),
            "{lacks:?}"
        );
        assert!(lacks[1].remedy.contains("CAP_SYS_NICE"));
        let capable = Capability { sys_nice: true, ..plain.clone() };
        assert_eq!(capable.lacks_for_nice(-20, &[1000]), []);
        // The capability is for one's own threads; only root acts on those of others.
        assert_eq!(capable.lacks_for_nice(-20, &[0]).len(), 1);
        assert_eq!(Capability { user: 0, ..capable }.lacks_for_nice(-20, &[1000]), []);
        assert_eq!(plain.lacks_for_groups(None, Path::new("/")).len(), 1);
    }
}
