//! What the agent asks of Linux and what it writes there. Start with [`Applier`]: it carries a plan out.

mod applier;
mod autogroup;
mod capability;
mod cgroup;
mod class;
mod journal;
mod proc;
mod restore;
mod sockets;
mod watchdog;

pub use applier::{Applied, Applier, Failed};
pub use autogroup::{Autogroup, OWN_NICE};
pub use capability::{Capability, Lack};
pub use cgroup::{Hierarchy, Version};
pub use journal::{Journal, JournalError};
pub use proc::{
    Busy, Status, cpu_times_ns, executable_lines, mean_cores, process_status, processes, thread_ids,
    thread_name, thread_status, ticks_per_second, timer_slack_ns, user_of,
};
pub use restore::{Restored, restore};
pub use sockets::listens_on;
pub use watchdog::Watchdog;
