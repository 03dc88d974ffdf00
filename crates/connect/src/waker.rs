use std::fmt;
use std::sync::Arc;

/// How a scan that waits for bytes from outside says that they are there. Does nothing by default.
///
/// Called from the thread that brings the bytes, never from inside [`poll`](crate::Scan::poll) or
/// [`prepare`](crate::Scan::prepare). It must not block, and may be called once too often.
#[derive(Clone, Default)]
pub struct Waker(Option<Arc<dyn Fn() + Send + Sync>>);

impl Waker {
    /// A waker that calls `wake`.
    pub fn new(wake: impl Fn() + Send + Sync + 'static) -> Waker {
        Waker(Some(Arc::new(wake)))
    }

    /// Says that a scan which waits may go on.
    pub fn wake(&self) {
        if let Some(wake) = &self.0 {
            wake();
        }
    }
}

impl fmt::Debug for Waker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "Waker" } else { "Waker(none)" })
    }
}
