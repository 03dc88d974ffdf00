//! The threads of a Java virtual machine with the names it gives them, which Linux cuts to 15 characters. Start with
//! [`threads`].

mod attach;
mod dump;
mod dumps;

pub use attach::{JvmError, is_java};
pub use dump::{JavaThread, parse};
pub(crate) use dumps::Dumps;

/// The Java threads of a process. Stops it for the few milliseconds that a thread dump takes, so ask sparingly.
///
/// # Errors
/// If it is no JVM, does not let us, or does not answer.
pub fn threads(pid: u32) -> Result<Vec<JavaThread>, JvmError> {
    Ok(parse(&attach::thread_dump(pid)?))
}
