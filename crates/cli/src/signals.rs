//! Ctrl-C and its relatives: the first asks for a drain, the second ends the process at once.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGXFSZ};
use signal_hook::flag;

/// Whether somebody asked the program to stop.
#[derive(Clone, Debug)]
pub struct StopRequest(Arc<AtomicBool>);

impl StopRequest {
    /// Listens to SIGINT, SIGTERM and SIGHUP from now on. SIGXFSZ no longer ends the process.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn listen() -> io::Result<StopRequest> {
        let asked = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            // The order matters: at the first signal this sees the flag still down, at the second it is up.
            flag::register_conditional_shutdown(signal, 128 + signal, Arc::clone(&asked))?;
            flag::register(signal, Arc::clone(&asked))?;
        }
        // A file over the limit of `ulimit -f` is an error of the query that writes it, not the end of all: with a handler
        // the write fails with EFBIG. Nobody looks at the flag.
        flag::register(SIGXFSZ, Arc::default())?;
        Ok(StopRequest(asked))
    }

    /// For what a signal may end at once.
    pub fn never() -> StopRequest {
        StopRequest(Arc::default())
    }

    /// True from the first signal on.
    pub fn made(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }
}
