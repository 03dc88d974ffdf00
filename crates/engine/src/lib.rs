//! The embedded engine: mailboxes, worker threads, back-pressure, accounting, the clock.
