//! Asks a Java virtual machine for its threads. SIGQUIT ends a process that does not catch it, so that is looked at
//! first.

use std::fs;
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::linux::{executable_lines, user_of};

/// A virtual machine does not show its threads.
#[derive(Debug, thiserror::Error)]
pub enum JvmError {
    /// Signalling it would end it.
    #[error("process {0} is no Java virtual machine that can be attached to")]
    NotJava(u32),
    /// It lets only its own user in, and root.
    #[error(
        "the threads of process {pid} are only shown to its user {user} and to root; run the agent as one of them"
    )]
    NotAllowed {
        /// The process.
        pid: u32,
        /// Whose it is.
        user: u32,
    },
    /// It does not listen.
    #[error(
        "process {pid} did not open its attach socket within {seconds} s; it may be too busy, or run with \
         -XX:+DisableAttachMechanism"
    )]
    Silent {
        /// The process.
        pid: u32,
        /// How long we waited.
        seconds: u64,
    },
    /// It answered, but not with a dump.
    #[error("process {pid} refused a thread dump: {answer}")]
    Refused {
        /// The process.
        pid: u32,
        /// What it said.
        answer: String,
    },
    /// The world failed; trying again may help.
    #[error("cannot attach to process {pid}")]
    Io {
        /// The process.
        pid: u32,
        /// Why.
        #[source]
        source: io::Error,
    },
}

/// How long a saturated machine may take to open its socket, and again to answer.
const PATIENCE: Duration = Duration::from_secs(10);

const STEP: Duration = Duration::from_millis(20);

/// The process was started as `java`.
pub fn is_java(pid: u32) -> bool {
    let arguments = executable_lines(pid);
    arguments.first().is_some_and(|program| Path::new(program).file_name().is_some_and(|name| name == "java"))
}

/// A thread dump over HotSpot's attach protocol: what `jstack` does, without starting a virtual machine to ask one.
///
/// A file `.attach_pidN` and SIGQUIT make the machine open the socket `.java_pidN`. There it takes the protocol's
/// version, a command and three arguments, each ended by a zero byte, and answers with a status line and the output
/// (OpenJDK, `attachListener_posix.cpp`).
pub(super) fn thread_dump(pid: u32) -> Result<String, JvmError> {
    let io_error = |source: io::Error| JvmError::Io { pid, source };
    let user = user_of(pid).map_err(io_error)?;
    let own = rustix::process::geteuid().as_raw();
    if own != 0 && own != user {
        return Err(JvmError::NotAllowed { pid, user });
    }
    let inner = inner_pid(pid).map_err(io_error)?;
    let socket = PathBuf::from(format!("/proc/{pid}/root/tmp/.java_pid{inner}"));
    if !socket.exists() {
        ask_for_socket(pid, inner, user, &socket)?;
    }
    let mut stream = UnixStream::connect(&socket).map_err(io_error)?;
    stream.set_read_timeout(Some(PATIENCE)).map_err(io_error)?;
    stream.write_all(b"1\0threaddump\0\0\0\0").map_err(io_error)?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).map_err(io_error)?;
    let answer = String::from_utf8_lossy(&answer);
    match answer.split_once('\n') {
        Some(("0", dump)) => Ok(dump.to_owned()),
        _ => Err(JvmError::Refused { pid, answer: answer.chars().take(200).collect() }),
    }
}

fn ask_for_socket(pid: u32, inner: u32, user: u32, socket: &Path) -> Result<(), JvmError> {
    let io_error = |source: io::Error| JvmError::Io { pid, source };
    // To a process that does not catch it SIGQUIT is the end: so with -Xrs, or if this is no JVM at all.
    let status = fs::read_to_string(format!("/proc/{pid}/status")).map_err(io_error)?;
    if !catches_quit(&status) || !has_libjvm(pid) {
        return Err(JvmError::NotJava(pid));
    }
    let places =
        [format!("/proc/{pid}/cwd/.attach_pid{inner}"), format!("/proc/{pid}/root/tmp/.attach_pid{inner}")];
    let mut request = None;
    let mut failure = io::Error::other("no folder for the request");
    for place in places {
        match fs::write(&place, []) {
            Ok(()) => {
                request = Some(place);
                break;
            }
            Err(error) => failure = error,
        }
    }
    let request = request.ok_or_else(|| io_error(failure))?;
    // The machine heeds only requests of its own user. Where we may not give it away we are that user.
    let _ = std::os::unix::fs::chown(&request, Some(user), None);
    let outcome = signal_and_wait(pid, socket);
    let _ = fs::remove_file(&request);
    outcome
}

fn signal_and_wait(pid: u32, socket: &Path) -> Result<(), JvmError> {
    let target = i32::try_from(pid).ok().and_then(Pid::from_raw).ok_or(JvmError::NotJava(pid))?;
    kill_process(target, Signal::QUIT).map_err(|error| JvmError::Io { pid, source: error.into() })?;
    for _ in 0..PATIENCE.as_millis() / STEP.as_millis() {
        std::thread::sleep(STEP);
        if socket.exists() {
            return Ok(());
        }
    }
    Err(JvmError::Silent { pid, seconds: PATIENCE.as_secs() })
}

/// The id that the process has in its own container.
fn inner_pid(pid: u32) -> io::Result<u32> {
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("NSpid:"));
    Ok(line.and_then(|ids| ids.split_ascii_whitespace().last()?.parse().ok()).unwrap_or(pid))
}

fn catches_quit(status: &str) -> bool {
    let line = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
    let caught = line.and_then(|bits| u64::from_str_radix(bits.trim(), 16).ok()).unwrap_or(0);
    // Signal n is bit n − 1; SIGQUIT is 3.
    caught >> 2 & 1 == 1
}

fn has_libjvm(pid: u32) -> bool {
    fs::read_to_string(format!("/proc/{pid}/maps")).is_ok_and(|maps| maps.contains("/libjvm.so"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_would_die_of_it_is_not_signalled() {
        // This very process is no JVM; reaching the next line is the test.
        assert!(matches!(thread_dump(std::process::id()), Err(JvmError::NotJava(_))));
        assert!(catches_quit("SigCgt:\t0000000000000004\n"));
        assert!(!catches_quit("SigCgt:\tfffffffffffffffb\n"));
    }
}
