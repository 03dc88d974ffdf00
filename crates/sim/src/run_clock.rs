//! Virtual time inside a run: it moves for the operator that computes, and stands still for the world around it.

use std::cell::{Cell, RefCell};

use laxity_graph::{EventTime, ProcessingTime};
use laxity_runtime::Clock;
use rand_core::SeedableRng;
use rand_pcg::Pcg32;

use crate::fault::Speeds;
use crate::{Cut, Driver, Rounding, Setup};

/// The time of the run under way. Operators move it on by what their calls cost, as fast as the core lets them; for all
/// others it is still the instant when the run began.
///
/// They also say here what they did that no message tells, for those who watch.
#[derive(Debug)]
pub(crate) struct RunClock {
    speeds: Speeds,
    /// Machine and core; `None`: one that nothing slows.
    core: Cell<Option<(usize, usize)>>,
    started: Cell<ProcessingTime>,
    now: Cell<ProcessingTime>,
    /// CPU time of operators so far. With fractions, so that many small costs add up to what they are.
    used_ns: Cell<f64>,
    slept_ns: Cell<u64>,
    /// How many times as long work takes, and the part of `used_ns` that is due to that.
    slowdown: Cell<f64>,
    slowed_ns: Cell<f64>,
    /// Of the run, whatever is called in it; passes with the first call.
    call_ns: Cell<u64>,
    /// The fixed part of what the message costs is paid.
    called: Cell<bool>,
    quantum_ns: u64,
    rows_min: u32,
    pub rounding: Rounding,
    pub random: RefCell<Pcg32>,
    pub late_rows: Cell<u64>,
    pub said: RefCell<Vec<Said>>,
}

/// What an operator sent, once for all that it goes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Said {
    Rows(u32),
    Watermark(EventTime),
}

/// A run that begins.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Begin {
    pub at: ProcessingTime,
    pub core: Option<(usize, usize)>,
    pub call_ns: u64,
    /// How many times as long work takes.
    pub slowdown: f64,
    /// With a message, not with what is left of one.
    pub is_message: bool,
}

impl RunClock {
    pub fn new(setup: &Setup) -> RunClock {
        let (quantum_ns, rows_min) = match (&setup.driver, setup.cut) {
            (Driver::Scheduler, Cut::AtQuantum { rows_min }) => (setup.config.quantum_ns, rows_min),
            // An operating system interrupts a thread without its doing.
            (Driver::OsThreads(_), _) | (_, Cut::Never) => (u64::MAX, u32::MAX),
        };
        RunClock {
            speeds: Speeds::new(&setup.faults),
            core: Cell::new(None),
            started: Cell::default(),
            now: Cell::default(),
            used_ns: Cell::default(),
            slept_ns: Cell::default(),
            slowdown: Cell::new(1.0),
            slowed_ns: Cell::default(),
            call_ns: Cell::default(),
            called: Cell::default(),
            quantum_ns,
            rows_min,
            rounding: setup.rounding,
            random: RefCell::new(Pcg32::seed_from_u64(setup.seed)),
            late_rows: Cell::default(),
            said: RefCell::default(),
        }
    }

    pub fn begin(&self, begin: Begin) {
        self.core.set(begin.core);
        self.started.set(begin.at);
        self.now.set(begin.at);
        self.used_ns.set(0.0);
        self.slept_ns.set(0);
        self.slowdown.set(begin.slowdown);
        self.slowed_ns.set(0.0);
        self.call_ns.set(begin.call_ns);
        self.called.set(!begin.is_message);
        self.late_rows.set(0);
    }

    /// How long a run may take.
    pub fn quantum_ns(&self) -> u64 {
        self.quantum_ns
    }

    /// Work that fits in what is left of that.
    pub fn left_ns(&self) -> f64 {
        if self.quantum_ns == u64::MAX {
            return f64::INFINITY;
        }
        (self.quantum_ns as f64 - self.used_ns.get() - self.slept_ns.get() as f64) / self.slowdown.get()
    }

    /// Rows of such a cost that fit in what is left, after so much else.
    pub fn rows_that_fit(&self, fixed_ns: f64, per_row_ns: f64) -> usize {
        let left_ns = self.left_ns() - fixed_ns;
        let fit = if per_row_ns > 0.0 { left_ns / per_row_ns } else { f64::INFINITY };
        // The cast saturates: a negative room is no room, an infinite one is room for all.
        (fit as u32).max(self.rows_min).max(1) as usize
    }

    /// Lets CPU time pass.
    pub fn spend(&self, ns: f64) {
        let slowed_ns = ns * (self.slowdown.get() - 1.0);
        self.slowed_ns.set(self.slowed_ns.get() + slowed_ns);
        self.used_ns.set(self.used_ns.get() + ns + slowed_ns);
        self.pass();
    }

    /// Lets time pass in which the operator does nothing. It is as if it came before the work.
    pub fn sleep(&self, ns: u64) {
        self.slept_ns.set(self.slept_ns.get().saturating_add(ns));
        self.pass();
    }

    /// Pays the fixed part of what a message costs, once.
    pub fn call(&self, fixed_ns: f64) {
        if !self.called.replace(true) {
            self.spend(fixed_ns);
        }
    }

    /// CPU time of the run.
    pub fn cpu_ns(&self) -> u64 {
        // Rounded; it is never negative.
        (self.used_ns.get() + 0.5) as u64
    }

    /// The part of it that is more than the work.
    pub fn slowed_ns(&self) -> u64 {
        self.slowed_ns.get() as u64
    }

    pub fn slept_ns(&self) -> u64 {
        self.slept_ns.get()
    }

    pub fn say(&self, said: Said) {
        self.said.borrow_mut().push(said);
    }

    /// When `work_ns` begun at `start` is done on a core.
    pub fn done(&self, node: usize, core: usize, start: ProcessingTime, work_ns: u64) -> ProcessingTime {
        self.speeds.done(node, core, start, work_ns)
    }

    /// Until when the machine stands still.
    pub fn paused_until(&self, node: usize, now: ProcessingTime) -> Option<ProcessingTime> {
        self.speeds.paused_until(node, now)
    }

    fn pass(&self) {
        let awake = self.started.get().plus_ns(self.slept_ns.get());
        let work_ns = self.cpu_ns() + self.call_ns.get();
        self.now.set(match self.core.get() {
            Some((node, core)) => self.speeds.done(node, core, awake, work_ns),
            None => awake.plus_ns(work_ns),
        });
    }
}

impl Clock for RunClock {
    fn now(&self) -> ProcessingTime {
        self.now.get()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::{Fault, FaultKind};

    #[test]
    fn time_passes_as_the_core_lets_it() {
        let fault = |kind, from_ms, to_ms| Fault {
            kind,
            from: Duration::from_millis(from_ms),
            to: Duration::from_millis(to_ms),
        };
        let setup = Setup {
            faults: vec![fault(FaultKind::Straggler { node: 0, core: 0, factor: 2.0 }, 0, 100)],
            ..Setup::default()
        };
        let clock = RunClock::new(&setup);
        let at = ProcessingTime(1_000);
        clock.begin(Begin { at, core: Some((0, 0)), call_ns: 50, slowdown: 1.0, is_message: true });
        assert_eq!(clock.now(), at, "nothing was called yet");
        // Three calls of a third of a nanosecond are one nanosecond, and take twice as long.
        (0..3).for_each(|_| clock.spend(1.0 / 3.0));
        assert_eq!((clock.now().0, clock.cpu_ns()), (1_000 + 2 * 51, 1));
        clock.sleep(7);
        assert_eq!((clock.now().0, clock.slept_ns()), (1_007 + 2 * 51, 7));
        clock.begin(Begin { at, core: None, call_ns: 0, slowdown: 1.0, is_message: true });
        clock.call(10.0);
        clock.call(10.0);
        assert_eq!(clock.now().0, 1_010);
        clock.begin(Begin { at, core: None, call_ns: 0, slowdown: 1.5, is_message: true });
        clock.spend(10.0);
        assert_eq!((clock.now().0, clock.cpu_ns(), clock.slowed_ns()), (1_015, 15, 5));
    }
}
