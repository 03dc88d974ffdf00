//! The real-time round-robin class, for which no safe wrapper that takes a thread id exists.

use std::io;

/// Scheduling class and priority in it, as the kernel counts them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(crate) struct Class {
    pub policy: i32,
    pub priority: u8,
}

impl Class {
    pub const NORMAL: Class = Class { policy: libc::SCHED_OTHER, priority: 0 };

    pub fn round_robin(priority: u8) -> Class {
        if priority == 0 { Class::NORMAL } else { Class { policy: libc::SCHED_RR, priority } }
    }
}

/// Puts a thread in a class. What it starts itself begins in the normal class again.
#[allow(unsafe_code)]
pub(crate) fn set_class(tid: u32, class: Class) -> io::Result<()> {
    // Children of a real-time thread must not become real-time unnoticed.
    let reset = if class.policy == libc::SCHED_OTHER { 0 } else { libc::SCHED_RESET_ON_FORK };
    let parameter = libc::sched_param { sched_priority: class.priority.into() };
    let tid = libc::pid_t::try_from(tid).map_err(io::Error::other)?;
    // SAFETY: the call reads `parameter`, which outlives it, and writes no memory of ours.
    let result = unsafe { libc::sched_setscheduler(tid, class.policy | reset, &raw const parameter) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
