use rustix::process::{getpriority_process, setpriority_process};
use rustix::thread::gettid;

/// Makes the calling thread nicer by `nice`, so that threads which only pass rows on get a core at once.
///
/// Needs no privilege: a thread may always become nicer. Where the system refuses all the same, latency is
/// worse and nothing else changes, so it is only noted.
pub(crate) fn yield_to_prompt_threads(nice: i32) {
    // On Linux a thread id names one thread to these calls, not its process.
    let thread = Some(gettid());
    let set = getpriority_process(thread)
        .and_then(|now| if nice > 0 { setpriority_process(thread, now + nice) } else { Ok(()) });
    if let Err(error) = set {
        tracing::debug!(%error, "a worker keeps its priority");
    }
}
