//! What does the scheduler cost per message (enqueue + pick + finish), by rank and number of ready operators?
//!
//! Every operator always has one message waiting. The quantum is 0, so each message goes through the run
//! queue: the dearest case, unless the policy's own train is longer. A message is due every microsecond, so
//! cycles and reviews have their part in it. The least of the rounds is what it costs; the median beside it
//! says how noisy the machine was.
//!
//! Of that, the pick: the call of `next`, timed one by one, less what the clock takes. Its mean, so with the cycles and
//! reviews that fall into it.
//!
//! For ranks per cycle or with reviews, also what one costs per operator, after every one of them has
//! changed. Non-goals: threads, locks, and the driver's own cost.
//!
//! With `--overload` what waits takes a hundred times as long, so that most of what is due within a second cannot be kept.
//!
//! `cargo run --release -p laxity-policies --example pick_cost [--small] [--overload] [POLICY…] [OPERATORS…]`

// An example is a driver, and a driver has a clock.
#![allow(clippy::disallowed_methods)]

use std::time::{Duration, Instant};

use laxity_graph::{EventTime, OperatorId, ProcessingTime, QueryId, WorkerId};
use laxity_sched::{Config, Message, OperatorSpec, QuerySpec, RunReport, Scheduler, UnknownPolicy, Work};

/// Queries are chains of this many operators: source, filter, window, sink.
const CHAIN: u32 = 4;

/// Targets from 50 ms to 60 s.
const TARGETS_NS: [u64; 4] = [50_000_000, 800_000_000, 10_000_000_000, 60_000_000_000];

fn main() -> Result<(), UnknownPolicy> {
    let flag = |flag: &str| std::env::args().any(|argument| argument == flag);
    let (small, load) = (flag("--small"), if flag("--overload") { Load::Over } else { Load::Within });
    let (sizes, messages): (&[u32], u32) =
        if small { (&[10, 1_000], 500) } else { (&[10, 1_000, 10_000, 100_000], 20_000) };
    let asked: Vec<String> =
        std::env::args().skip(1).filter(|argument| !argument.starts_with("--")).collect();
    let (numbers, names): (Vec<&str>, Vec<&str>) =
        asked.iter().map(String::as_str).partition(|argument| argument.parse::<u32>().is_ok());
    let policies = if names.is_empty() { laxity_policies::names() } else { names };
    let numbers: Vec<u32> = numbers.iter().filter_map(|number| number.parse().ok()).collect();
    let sizes = if numbers.is_empty() { sizes } else { &numbers };
    println!(
        "policy,ready_operators,ns_per_message_min,ns_per_message_median,pick_ns,cycle_ns_per_operator,checksum"
    );
    for policy in policies {
        for &operators in sizes {
            let (rounds, checksum) = measure(policy, operators, messages, load)?;
            let (least, median) = (rounds[0], rounds[rounds.len() / 2]);
            let pick = pick(policy, operators, messages, load)?;
            let cycle = cycle(policy, operators, load)?.map_or_else(String::new, |ns| format!("{ns:.1}"));
            println!("{policy},{operators},{least:.0},{median:.0},{pick:.0},{cycle},{checksum:016x}");
        }
    }
    Ok(())
}

/// Many and short, so that on a busy machine some run without being interrupted.
const ROUNDS: usize = 101;

/// ns per message of every round, ascending, and a digest of the order, so that a faster but different order
/// is noticed.
fn measure(
    policy: &str,
    operators: u32,
    messages: u32,
    load: Load,
) -> Result<(Vec<f64>, u64), UnknownPolicy> {
    let mut driver = Driver::new(policy, operators, load)?;
    for _ in 0..3 * operators.max(messages) {
        driver.step::<false>();
    }
    let mut rounds = Vec::with_capacity(ROUNDS);
    for _ in 0..ROUNDS {
        let started = Instant::now();
        for _ in 0..messages {
            driver.step::<false>();
        }
        rounds.push(started.elapsed().as_nanos() as f64 / f64::from(messages));
    }
    rounds.sort_by(f64::total_cmp);
    Ok((rounds, driver.checksum))
}

/// ns of a call of `next`: the least of the rounds.
fn pick(policy: &str, operators: u32, messages: u32, load: Load) -> Result<f64, UnknownPolicy> {
    let mut driver = Driver::new(policy, operators, load)?;
    for _ in 0..3 * operators.max(messages) {
        driver.step::<true>();
    }
    let (mut least, mut least_clock) = (Duration::MAX, Duration::MAX);
    for _ in 0..ROUNDS {
        driver.picking = Duration::ZERO;
        for _ in 0..messages {
            driver.step::<true>();
        }
        least = least.min(driver.picking);
        let clock = (0..messages).map(|_| std::hint::black_box(Instant::now()).elapsed()).sum();
        least_clock = least_clock.min(clock);
    }
    Ok(least.saturating_sub(least_clock).as_nanos() as f64 / f64::from(messages))
}

/// ns per operator of a cycle after each has run once; `None` for a rank that has none. The least of a few.
fn cycle(policy: &str, operators: u32, load: Load) -> Result<Option<f64>, UnknownPolicy> {
    let mut driver = Driver::new(policy, operators, load)?;
    let needs = *driver.scheduler.needs();
    let Some(period_ns) = needs.look_every_ns else { return Ok(None) };
    let period_ns = period_ns.max(needs.look_ns_per_operator * u64::from(operators));
    let mut least = f64::INFINITY;
    for _ in 0..9 {
        for id in 0..operators {
            driver.send(OperatorId(id), 100);
        }
        driver.now += period_ns;
        let started = Instant::now();
        driver.scheduler.on_time(ProcessingTime(driver.now));
        least = least.min(started.elapsed().as_nanos() as f64 / f64::from(operators));
    }
    Ok(Some(least))
}

/// Whether what is promised can be kept.
#[derive(Clone, Copy)]
enum Load {
    Within,
    Over,
}

impl Load {
    fn factor(self) -> u64 {
        match self {
            Load::Within => 1,
            Load::Over => 100,
        }
    }
}

/// One worker, and operators that always have a message.
struct Driver {
    scheduler: Scheduler<u64>,
    now: u64,
    checksum: u64,
    /// Time in `next`, where that is taken.
    picking: Duration,
    load: Load,
}

impl Driver {
    fn new(policy: &str, operators: u32, load: Load) -> Result<Driver, UnknownPolicy> {
        let config = Config { quantum_ns: 0, ..Config::default() };
        let mut scheduler = Scheduler::new(laxity_policies::recipe(policy)?.compose(), config);
        for id in 0..operators {
            let query = QueryId(id / CHAIN);
            if id % CHAIN == 0 {
                let target_ns = TARGETS_NS[query.index() % TARGETS_NS.len()];
                scheduler.add_query(QuerySpec { id: query, target_ns, weight: 1.0, qos: None });
            }
            let upstream = if id % CHAIN == 0 { vec![] } else { vec![OperatorId(id - 1)] };
            let id = OperatorId(id);
            scheduler.add_operator(OperatorSpec { id, query, upstream, window: None, channels: 1 });
        }
        let mut driver = Driver { scheduler, now: 0, checksum: 0, picking: Duration::ZERO, load };
        for id in 0..operators {
            driver.now += 1_000;
            driver.send(OperatorId(id), 100);
        }
        Ok(driver)
    }

    fn send(&mut self, to: OperatorId, rows: u32) {
        let now = ProcessingTime(self.now);
        let message = Message {
            to,
            channel: 0,
            progress: EventTime((self.now / 1_000_000) as i64),
            ingested: now,
            rows,
            bytes: 4_096,
            body: self.now,
        };
        self.scheduler.on_message(message, now);
    }

    /// The clock is not in the code where it is not asked: that alone would cost half as much again.
    #[inline(always)]
    fn step<const TIMED: bool>(&mut self) {
        self.now += 1_000;
        let now = ProcessingTime(self.now);
        let started = TIMED.then(Instant::now);
        let Some(grant) = self.scheduler.next(WorkerId(0), now) else { return };
        if let Some(started) = started {
            self.picking += started.elapsed();
        }
        if let Work::Message { message, .. } = &grant.work {
            self.checksum =
                self.checksum.rotate_left(5).wrapping_add(u64::from(grant.operator.0) ^ message.body);
        }
        // Costs that vary by operator and by message, as a fit would see them.
        let rows_in = 64 + (self.checksum as u32 & 127);
        let cpu_ns = self.load.factor() * (500 + u64::from(rows_in) * u64::from(1 + grant.operator.0 % 7));
        let report = RunReport { rows_in, rows_out: rows_in / 2, cpu_ns, more: false };
        self.scheduler.on_finished(WorkerId(0), report, now);
        self.send(grant.operator, rows_in);
    }
}

#[cfg(test)]
mod tests {
    use super::Load;

    #[test]
    fn overload_is_one() {
        for (load, stands_back) in [(Load::Within, false), (Load::Over, true)] {
            let mut driver = super::Driver::new("laxity", 4_000, load).unwrap();
            (0..100_000).for_each(|_| driver.step::<false>());
            let stood_back =
                (0..1_000).any(|query| driver.scheduler.ladder(super::QueryId(query)).stood_back.times() > 0);
            assert_eq!(stood_back, stands_back);
        }
    }

    #[test]
    fn the_small_run_works_and_repeats() {
        let (_, first) = super::measure("laxity", 100, 1_000, Load::Over).unwrap();
        let (_, second) = super::measure("laxity", 100, 1_000, Load::Over).unwrap();
        assert_eq!(first, second);
    }
}
