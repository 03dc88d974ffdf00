//! Mutex, condition variable and atomics, or loom's where the sleeping protocol is model-checked.

#[cfg(not(feature = "loom"))]
mod real {
    use std::time::Duration;

    pub(crate) use std::sync::atomic::{AtomicU64, AtomicUsize};

    pub(crate) use parking_lot::MutexGuard;

    /// Some tens of microseconds. Who holds the lock may have been interrupted.
    const SPINS_MAX: u32 = 1_000;

    pub(crate) struct Mutex<T>(parking_lot::Mutex<T>);

    impl<T> Mutex<T> {
        pub(crate) fn new(value: T) -> Mutex<T> {
            Mutex(parking_lot::Mutex::new(value))
        }

        pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
            self.0.lock()
        }

        /// Of one that is held for microseconds, never over a wait: to sleep and be woken takes tens of them.
        pub(crate) fn lock_soon(&self) -> MutexGuard<'_, T> {
            for _ in 0..SPINS_MAX {
                match self.0.try_lock() {
                    Some(guard) => return guard,
                    None => std::hint::spin_loop(),
                }
            }
            self.0.lock()
        }

        pub(crate) fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
            self.0.try_lock()
        }
    }

    pub(crate) struct Condvar(parking_lot::Condvar);

    impl Condvar {
        pub(crate) fn new() -> Condvar {
            Condvar(parking_lot::Condvar::new())
        }

        pub(crate) fn notify_one(&self) {
            self.0.notify_one();
        }

        pub(crate) fn notify_all(&self) {
            self.0.notify_all();
        }

        pub(crate) fn wait<'a, T>(&self, mut guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
            self.0.wait(&mut guard);
            guard
        }

        /// True if the time is over.
        pub(crate) fn wait_for<'a, T>(
            &self,
            mut guard: MutexGuard<'a, T>,
            longest: Duration,
        ) -> (MutexGuard<'a, T>, bool) {
            let is_over = self.0.wait_for(&mut guard, longest).timed_out();
            (guard, is_over)
        }
    }
}

#[cfg(feature = "loom")]
mod real {
    use std::time::Duration;

    pub(crate) use loom::sync::MutexGuard;
    pub(crate) use loom::sync::atomic::{AtomicU64, AtomicUsize};

    pub(crate) struct Mutex<T>(loom::sync::Mutex<T>);

    impl<T> Mutex<T> {
        pub(crate) fn new(value: T) -> Mutex<T> {
            Mutex(loom::sync::Mutex::new(value))
        }

        pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
            self.0.lock().unwrap()
        }

        pub(crate) fn lock_soon(&self) -> MutexGuard<'_, T> {
            self.lock()
        }

        pub(crate) fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
            self.0.try_lock().ok()
        }
    }

    pub(crate) struct Condvar(loom::sync::Condvar);

    impl Condvar {
        pub(crate) fn new() -> Condvar {
            Condvar(loom::sync::Condvar::new())
        }

        pub(crate) fn notify_one(&self) {
            self.0.notify_one();
        }

        pub(crate) fn notify_all(&self) {
            self.0.notify_all();
        }

        // A wait that nobody ends is the deadlock that loom looks for.
        pub(crate) fn wait<'a, T>(&self, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
            self.0.wait(guard).unwrap()
        }

        // Time does not pass here: what is over is over, and who relies on time to get up is stuck, which is what a model is
        // to find.
        pub(crate) fn wait_for<'a, T>(
            &self,
            guard: MutexGuard<'a, T>,
            longest: Duration,
        ) -> (MutexGuard<'a, T>, bool) {
            if longest.is_zero() { (guard, true) } else { (self.wait(guard), false) }
        }
    }
}

pub(crate) use real::{AtomicU64, AtomicUsize, Condvar, Mutex, MutexGuard};
