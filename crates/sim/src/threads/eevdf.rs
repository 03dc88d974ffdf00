//! A model of Linux's fair scheduler, for the baseline of a thread per operator.

use std::collections::BTreeSet;

/// Earliest eligible virtual deadline first (Stoica and Abdel-Wahab 1995; Linux `kernel/sched/fair.c` since 6.6).
///
/// A thread's virtual runtime grows by 1024 / weight per nanosecond that it runs. V is the mean of the virtual
/// runtimes of all that run or wait, by weight; who is not ahead of V is eligible. Of the eligible, the one whose
/// virtual deadline (virtual runtime at its last turn plus slice · 1024 / weight) is earliest runs next. Who sleeps
/// keeps its lag, V − virtual runtime, within one slice. Where threads run to parity, nobody takes the core from one that is
/// eligible before it has had a slice.
#[derive(Debug)]
pub(crate) struct FairQueue {
    slice_ns: u64,
    to_parity: bool,
    entities: Vec<Entity>,
    /// Those that wait, by deadline.
    waiting: BTreeSet<(i64, u32)>,
    /// Over all that run or wait.
    weight: i128,
    weighted: i128,
    /// V when somebody last ran or waited.
    mean: i64,
}

#[derive(Clone, Copy, Debug)]
struct Entity {
    weight: u32,
    vruntime: i64,
    deadline: i64,
    lag: i64,
    state: State,
    /// Its slice came to an end since it last began to run.
    over: bool,
    /// The virtual runtime until which nobody interrupts it while it is eligible.
    protected_until: i64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Asleep,
    Waiting,
    Running,
}

/// Weight of nice 0.
const UNIT: i64 = 1_024;

impl FairQueue {
    pub fn new(threads: usize, slice_ns: u64, to_parity: bool) -> FairQueue {
        let entity = Entity {
            weight: UNIT as u32,
            vruntime: 0,
            deadline: 0,
            lag: 0,
            state: State::Asleep,
            over: false,
            protected_until: 0,
        };
        FairQueue {
            slice_ns: slice_ns.max(1),
            to_parity,
            entities: vec![entity; threads],
            waiting: BTreeSet::new(),
            weight: 0,
            weighted: 0,
            mean: 0,
        }
    }

    pub fn is_asleep(&self, thread: u32) -> bool {
        self.entities[thread as usize].state == State::Asleep
    }

    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    pub fn deadline(&self, thread: u32) -> i64 {
        self.entities[thread as usize].deadline
    }

    /// A sleeping thread has something to do.
    pub fn wake(&mut self, thread: u32) {
        let mean = self.mean();
        let slice = self.virtual_slice(thread);
        let entity = &mut self.entities[thread as usize];
        entity.vruntime = mean - entity.lag.clamp(-slice, slice);
        entity.deadline = entity.vruntime + slice;
        self.join(thread, State::Waiting);
    }

    /// A running or waiting thread has nothing to do.
    pub fn sleep(&mut self, thread: u32) {
        let mean = self.mean();
        self.leave(thread);
        let entity = &mut self.entities[thread as usize];
        entity.lag = mean - entity.vruntime;
        entity.state = State::Asleep;
        self.mean = mean;
    }

    /// Takes the next thread to run.
    pub fn take(&mut self) -> Option<u32> {
        // With the running ones far behind nobody may be eligible; somebody must run all the same.
        let thread = self.peek().or_else(|| self.waiting.first().map(|&(_, thread)| thread))?;
        self.leave(thread);
        self.join(thread, State::Running);
        let slice = self.virtual_slice(thread);
        let entity = &mut self.entities[thread as usize];
        entity.over = false;
        entity.protected_until = entity.deadline.min(entity.vruntime + slice);
        Some(thread)
    }

    /// Whether nobody may take its core from a running thread.
    pub fn is_protected(&self, thread: u32) -> bool {
        let entity = &self.entities[thread as usize];
        self.to_parity && entity.vruntime < entity.protected_until && self.is_eligible(thread)
    }

    /// The next thread to run, of those that are eligible.
    pub fn peek(&self) -> Option<u32> {
        self.waiting.iter().map(|&(_, thread)| thread).find(|&thread| self.is_eligible(thread))
    }

    /// A running thread waits again.
    pub fn put_back(&mut self, thread: u32) {
        self.leave(thread);
        self.join(thread, State::Waiting);
    }

    /// The slice of a running thread has ended since it began to run.
    pub fn is_over(&self, thread: u32) -> bool {
        self.entities[thread as usize].over
    }

    /// A running thread has run for so long. Where its slice is over, it has another deadline.
    pub fn charge(&mut self, thread: u32, ran_ns: u64) {
        let slice = self.virtual_slice(thread);
        let entity = &mut self.entities[thread as usize];
        let ran = (ran_ns as i64).saturating_mul(UNIT) / i64::from(entity.weight);
        entity.vruntime += ran;
        self.weighted += i128::from(ran) * i128::from(entity.weight);
        if entity.vruntime >= entity.deadline {
            entity.deadline = entity.vruntime + slice;
            entity.over = true;
        }
    }

    /// CPU time until the slice of a running thread is over.
    pub fn slice_left_ns(&self, thread: u32) -> u64 {
        let entity = &self.entities[thread as usize];
        let left = (entity.deadline - entity.vruntime).max(0);
        // Rounded up, so that the slice is over when that time is.
        ((left * i64::from(entity.weight) + UNIT - 1) / UNIT).max(1) as u64 + 1
    }

    pub fn set_nice(&mut self, thread: u32, nice: i32) {
        let weight = (UNIT as f64 / 1.25f64.powi(nice)).round().max(1.0) as u32;
        let Entity { state, weight: before, .. } = self.entities[thread as usize];
        if weight == before {
            return;
        }
        if state == State::Asleep {
            self.entities[thread as usize].weight = weight;
            return;
        }
        self.leave(thread);
        self.entities[thread as usize].weight = weight;
        let slice = self.virtual_slice(thread);
        let entity = &mut self.entities[thread as usize];
        entity.deadline = entity.vruntime + slice;
        self.join(thread, state);
    }

    fn is_eligible(&self, thread: u32) -> bool {
        i128::from(self.entities[thread as usize].vruntime) * self.weight <= self.weighted
    }

    fn mean(&self) -> i64 {
        if self.weight == 0 { self.mean } else { (self.weighted / self.weight) as i64 }
    }

    fn virtual_slice(&self, thread: u32) -> i64 {
        (self.slice_ns as i64).saturating_mul(UNIT) / i64::from(self.entities[thread as usize].weight)
    }

    fn join(&mut self, thread: u32, state: State) {
        let entity = &mut self.entities[thread as usize];
        entity.state = state;
        self.weight += i128::from(entity.weight);
        self.weighted += i128::from(entity.weight) * i128::from(entity.vruntime);
        if state == State::Waiting {
            self.waiting.insert((entity.deadline, thread));
        }
    }

    fn leave(&mut self, thread: u32) {
        let entity = &mut self.entities[thread as usize];
        self.weight -= i128::from(entity.weight);
        self.weighted -= i128::from(entity.weight) * i128::from(entity.vruntime);
        if entity.state == State::Waiting {
            self.waiting.remove(&(entity.deadline, thread));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SLICE_NS: u64 = 3_000_000;

    /// One core and threads that always have work: how long each has run after so many turns.
    fn shares(nice: &[i32], turns: usize) -> Vec<u64> {
        let mut fair = FairQueue::new(nice.len(), SLICE_NS, false);
        for (thread, &nice) in nice.iter().enumerate() {
            fair.set_nice(thread as u32, nice);
            fair.wake(thread as u32);
        }
        let mut ran = vec![0; nice.len()];
        for _ in 0..turns {
            let thread = fair.take().unwrap();
            let ran_ns = fair.slice_left_ns(thread);
            fair.charge(thread, ran_ns);
            assert!(fair.is_over(thread));
            ran[thread as usize] += ran_ns;
            fair.put_back(thread);
        }
        ran
    }

    #[test]
    fn equals_take_turns() {
        let ran = shares(&[0, 0, 0], 300);
        assert!(ran.iter().all(|&ns| ns.abs_diff(100 * SLICE_NS) < 10_000), "{ran:?}");
    }

    #[test]
    fn a_step_of_nice_is_worth_a_quarter() {
        let ran = shares(&[0, 5], 4_000);
        let ratio = ran[0] as f64 / ran[1] as f64;
        // 1.25^5 = 3.0518, as a ratio of the rounded weights 1024 and 336: 3.0476.
        assert!((ratio - 1_024.0 / 336.0).abs() < 0.02, "{ratio}");
    }

    #[test]
    fn who_slept_goes_before_who_runs_and_wins_no_more_than_a_slice() {
        let mut fair = FairQueue::new(2, SLICE_NS, false);
        fair.wake(0);
        fair.wake(1);
        assert_eq!(fair.take(), Some(0));
        fair.charge(0, SLICE_NS);
        // Half a slice behind the mean, it sleeps, and is as far behind when it wakes, however long that was.
        fair.sleep(1);
        fair.charge(0, 100 * SLICE_NS);
        fair.wake(1);
        fair.put_back(0);
        assert_eq!(fair.take(), Some(1));
        fair.charge(1, SLICE_NS);
        fair.sleep(1);
        assert!(fair.is_asleep(1));
        assert_eq!((fair.take(), fair.waiting()), (Some(0), 0));
    }

    #[test]
    fn who_has_had_no_more_than_its_due_runs_to_parity() {
        let protected_after = |to_parity, ran_ns| {
            let mut fair = FairQueue::new(2, SLICE_NS, to_parity);
            fair.wake(0);
            fair.wake(1);
            let first = fair.take().unwrap();
            fair.charge(first, SLICE_NS);
            fair.put_back(first);
            let second = fair.take().unwrap();
            fair.charge(second, ran_ns);
            fair.is_protected(second)
        };
        // Half a slice behind the mean, it is eligible until both have had as much.
        assert!(protected_after(true, SLICE_NS / 2));
        assert!(!protected_after(true, SLICE_NS + 1));
        assert!(!protected_after(false, SLICE_NS / 2));
    }
}
