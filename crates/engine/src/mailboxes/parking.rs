//! How workers fall asleep and wake.
//!
//! Work stands on several shards, each behind its lock; sleepers share one place.
//!
//! **To sleep**, a worker (1) announces it, under the lock here; (2) looks at every shard, under each one's lock;
//! (3) sleeps here until it gets a *permit*, if none had work. Otherwise it withdraws.
//!
//! **To wake one**, whoever makes work wait on a shard looks, *once it has that shard's lock*, whether somebody has
//! announced sleep and has no permit yet; if so, it gives one more here, after letting go.
//!
//! # No message waits while all workers sleep
//! Let a unit begin to wait under shard S's lock, in critical section E. Take any worker, and its last look at S
//! (2) before E. Its announcement (1) happens before that look, and the look before E, by the lock of S; so E
//! reads the count of announced workers as that announcement left it, or later. If E reads more than 0, it gives a
//! permit. If E reads 0, every worker announced by then had withdrawn or had a permit. In both cases some worker
//! is awake, or wakes, that has yet to look at S before it can sleep, and that look finds the unit.
//!
//! So the count is read and written `Relaxed`: the locks of the shards order it, and giving out work costs a plain
//! load. What shards publish for others to choose by ([`laxity_sched::Top`]) plays no part.
//!
//! # Nobody sleeps while work waits for it
//! For every shard with work, some worker is awake and looking for work, or there is none left to wake: a unit that
//! begins to wait gives a permit, and a worker that takes a unit and leaves more behind on that shard gives one to
//! its successor. A permit is taken back only with the last sleeper. And as a permit given is not given again to
//! the same worker, k messages wake k workers and not one k times.
//!
//! # Looks at tables
//! A table that is to be looked at in a while is work that begins to wait when nobody does anything. So who sleeps while
//! there is such a table keeps the *alarm*: of the sleepers, one sleeps no longer than until the first look is due; when
//! it gets up, for whatever reason, it gives a permit to one more, if there is one, who then keeps it. Whoever makes an
//! appointment earlier than the alarm wakes a sleeper as if work waited. By the argument above, with "is to be looked at"
//! for "waits": either it sees the sleeper, and an alarm that is no earlier than the one in force, or that sleeper's look
//! at the shard sees the appointment.
//!
//! Who finds nothing to do, and so is about to sleep, wakes nobody for the looks that it knows of: it keeps the alarm
//! itself, as it looks at the shard once more after it has announced its sleep. Else two workers wake each other for
//! every look, and one takes the other's permit until that is awake. Where there is one shard, who gets up from the alarm
//! sees all looks that are left as it takes the next unit, and wakes another then if there are any.
//!
//! # Stop
//! A worker ends if it finds nothing on any shard after it has seen the stop. What was enqueued before the stop is
//! there to be seen; what a worker makes later, it takes itself.

use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use laxity_graph::ProcessingTime;

use crate::sync::{AtomicU64, AtomicUsize, Condvar, Mutex};

pub(super) struct Parking {
    state: Mutex<State>,
    permitted: Condvar,
    /// `announced - permits`; written under the lock.
    to_wake: AtomicUsize,
    /// Until when a sleeper sleeps, ns; `u64::MAX` if none keeps the alarm. Written under the lock.
    alarm_ns: AtomicU64,
}

struct State {
    /// Workers that sleep or are about to.
    announced: usize,
    /// How many of them are to get up; never more than there are.
    permits: usize,
    stopping: bool,
    alarm: ProcessingTime,
}

impl Parking {
    /// Nobody sleeps.
    pub fn new() -> Parking {
        Parking {
            state: Mutex::new(State {
                announced: 0,
                permits: 0,
                stopping: false,
                alarm: ProcessingTime::MAX,
            }),
            permitted: Condvar::new(),
            to_wake: AtomicUsize::new(0),
            alarm_ns: AtomicU64::new(u64::MAX),
        }
    }

    /// Whether to wake one for work that waits on a shard: ask under that shard's lock.
    #[inline]
    pub fn has_sleepers(&self) -> bool {
        self.to_wake.load(Relaxed) > 0
    }

    /// Whether to wake one for a look that is due then: ask under the shard's lock.
    #[inline]
    pub fn sleeps_past(&self, look: Option<ProcessingTime>) -> bool {
        look.is_some_and(|at| at.0 < self.alarm_ns.load(Relaxed)) && self.has_sleepers()
    }

    /// Lets one more get up. Call without a shard's lock.
    pub fn wake_one(&self) {
        let mut state = self.state.lock();
        if state.permits < state.announced {
            state.permits += 1;
            self.count(&state);
            drop(state);
            self.permitted.notify_one();
        }
    }

    /// Ends the sleep of all, and that of each who finds nothing to do from now on.
    pub fn stop(&self) {
        self.state.lock().stopping = true;
        self.permitted.notify_all();
    }

    /// Sleeps while there is nothing to do. `outlook` has to ask every shard whether work waits, and when a table is to
    /// be looked at; `hands_alarm_on`, as one gets up, whether there are shards whose looks he does not see. False at the
    /// end.
    pub fn sleep(
        &self,
        outlook: impl FnOnce() -> (bool, Option<ProcessingTime>),
        now: impl Fn() -> ProcessingTime,
        hands_alarm_on: impl FnOnce() -> bool,
    ) -> bool {
        let mut state = self.state.lock();
        state.announced += 1;
        self.count(&state);
        let stopping = state.stopping;
        drop(state);

        let (work_waits, look) = outlook();

        let mut state = self.state.lock();
        let mut kept_alarm = false;
        if !work_waits && !stopping {
            while state.permits == 0 && !state.stopping {
                let Some(at) = look.filter(|&at| at < state.alarm) else {
                    state = self.permitted.wait(state);
                    continue;
                };
                kept_alarm = true;
                self.set_alarm(&mut state, at);
                let is_over;
                (state, is_over) = self.permitted.wait_for(state, Duration::from_nanos(at.since_ns(now())));
                // Somebody else may keep an earlier one by now.
                if state.alarm == at {
                    self.set_alarm(&mut state, ProcessingTime::MAX);
                }
                if is_over {
                    break;
                }
            }
            state.permits = state.permits.saturating_sub(1);
        }
        state.announced -= 1;
        state.permits = state.permits.min(state.announced);
        let to_keep_alarm = kept_alarm
            && state.permits < state.announced
            && state.alarm == ProcessingTime::MAX
            && hands_alarm_on();
        state.permits += usize::from(to_keep_alarm);
        self.count(&state);
        drop(state);
        if to_keep_alarm {
            self.permitted.notify_one();
        }
        work_waits || !stopping
    }

    fn set_alarm(&self, state: &mut State, at: ProcessingTime) {
        state.alarm = at;
        self.alarm_ns.store(at.0, Relaxed);
    }

    fn count(&self, state: &State) {
        self.to_wake.store(state.announced - state.permits, Relaxed);
    }
}
