//! The smallest rows and operators that the runtime can be driven with: each number is known, so one that is lost,
//! doubled or out of order is seen at once.

use std::collections::BTreeMap;
use std::convert::Infallible;

use laxity_graph::{Emitted, EventClock, EventTime, Flow, ProcessingTime};
use laxity_runtime::{Content, EVERY_ROW, Feed, FeedEvent, Filled, Front, Slicer, Template};

/// Rows are numbers; a table gives 0, 1, 2 … and its operators pass them on.
#[derive(Debug)]
pub struct Numbers;

/// Passes numbers on: half of a batch at once, the rest when it is resumed.
pub struct Pass {
    /// Fails at this one.
    pub fails_at: Option<u64>,
    pub left: Vec<u64>,
    pub ended: bool,
    /// Of a query that may be one of a template, and of a template: numbers wait until their window ends.
    pub windows: Option<Every>,
}

/// What queries have in common whose windows are of so many numbers. Behind 32 bits a number says whose it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Every(pub u64);

impl Every {
    fn has_ended(self, number: u64, watermark: EventTime) -> bool {
        let number = number & u64::from(u32::MAX);
        (number / self.0 * self.0 + self.0 - 1) as i64 <= watermark.0
    }
}

impl Template<Numbers> for Every {
    fn of(rest: &Rest) -> Option<&Every> {
        rest.windows.as_ref()
    }

    fn is(&self, other: &Every) -> bool {
        self == other
    }

    fn operator(&self) -> Result<Pass, String> {
        Ok(Pass { fails_at: None, left: Vec::new(), ended: false, windows: Some(*self) })
    }

    fn input(&self, batch: &Vec<u64>, rows: &[(u32, u32)]) -> Result<Vec<u64>, String> {
        Ok(rows.iter().map(|&(member, row)| u64::from(member) << 32 | batch[row as usize]).collect())
    }

    type Parts = Vec<(u32, Vec<u64>)>;

    fn by_member(batches: &[Vec<u64>]) -> Result<Self::Parts, String> {
        let mut of_members: BTreeMap<u32, Vec<u64>> = BTreeMap::new();
        for &number in batches.iter().flatten() {
            of_members.entry((number >> 32) as u32).or_default().push(number & u64::from(u32::MAX));
        }
        Ok(of_members.into_iter().collect())
    }

    fn members(parts: &Self::Parts) -> impl Iterator<Item = u32> {
        parts.iter().map(|(member, _)| *member)
    }

    fn part(parts: &Self::Parts, place: usize) -> Vec<u64> {
        parts[place].1.clone()
    }

    fn late((): &()) -> Vec<(u32, i64)> {
        vec![]
    }

    type Own = Infallible;

    fn own(_: &Rest) -> Option<Infallible> {
        None
    }

    fn with_own(own: &Infallible, _: Vec<u64>) -> Result<Vec<u64>, String> {
        match *own {}
    }

    type Saved = Vec<u64>;

    fn save(operator: &mut Pass) -> Result<Vec<u64>, String> {
        Ok(operator.left.clone())
    }

    fn of_member(saved: &Vec<u64>, member: u32) -> Result<Vec<u64>, String> {
        let own = saved.iter().filter(|&number| (number >> 32) as u32 == member);
        let mut own: Vec<u64> = own.map(|number| number & u64::from(u32::MAX)).collect();
        own.sort_unstable();
        Ok(own)
    }

    fn has_sent(&self, held: &Vec<u64>, watermark: EventTime) -> bool {
        held.iter().all(|&number| !self.has_ended(number, watermark))
    }

    fn take_in(&self, operator: &mut Pass, held: Vec<(u32, Vec<u64>)>) -> Result<(), String> {
        for (member, held) in held {
            operator.left.extend(held.iter().map(|number| u64::from(member) << 32 | number));
        }
        Ok(())
    }

    type Rows = (u64, u64);

    fn rows(rest: &Rest) -> Option<(u64, u64)> {
        Some((rest.by, rest.rest))
    }

    fn gets_every_row(rest: &Rest) -> bool {
        rest.by == 1
    }

    type Slicer = Sliced;

    fn slice_ms(&self) -> Option<i64> {
        (self.0 > 0).then_some(self.0 as i64)
    }

    fn has_slices_of(&self, other: &Every) -> bool {
        self.0 > 0 && other.0 > 0
    }

    fn slicer(&self, slice_ms: i64) -> Result<Sliced, String> {
        Ok(Sliced { slice: Every(slice_ms as u64), numbers: Vec::new() })
    }
}

/// Numbers that several members get, behind 32 bits that say which. One that is late for its slice is left out.
pub struct Sliced {
    slice: Every,
    numbers: Vec<u64>,
}

impl Slicer<Numbers> for Sliced {
    type Slices = Vec<u64>;

    fn take(
        &mut self,
        batch: &Vec<u64>,
        rows: &mut Vec<(u32, u32)>,
        told: EventTime,
        _: ProcessingTime,
    ) -> Result<(), String> {
        rows.retain(|&(of, row)| {
            let number = batch[row as usize];
            let is_late = self.slice.has_ended(number, told);
            if !is_late {
                self.numbers.push(u64::from(of) << 32 | number);
            }
            is_late
        });
        Ok(())
    }

    fn is_empty(&self, watermark: EventTime) -> bool {
        !self.numbers.iter().any(|&number| self.slice.has_ended(number, watermark))
    }

    fn seal(&mut self, watermark: EventTime) -> Result<Vec<u64>, String> {
        let (ended, open) = self.numbers.iter().partition(|number| self.slice.has_ended(**number, watermark));
        self.numbers = open;
        Ok(ended)
    }

    fn state_bytes(&self) -> u64 {
        8 * self.numbers.len() as u64
    }

    fn pieces(slices: &Vec<u64>) -> usize {
        slices.len()
    }

    /// Fewer than there are: what they are made of is seen at the other end.
    fn groups(_: &Vec<u64>) -> u64 {
        0
    }

    fn give(
        slices: &Vec<u64>,
        piece: usize,
        whose: &[(u32, u32)],
        operator: &mut Pass,
    ) -> Result<(), String> {
        let (of, number) = ((slices[piece] >> 32) as u32, slices[piece] & u64::from(u32::MAX));
        let members = whose.iter().filter(|pair| pair.0 == of).map(|pair| u64::from(pair.1));
        operator.left.extend(members.map(|member| member << 32 | number));
        Ok(())
    }
}

#[derive(Default)]
pub struct Outbox {
    emitted: Vec<Emitted<Vec<u64>>>,
    late: Vec<()>,
    dead: Vec<()>,
}

impl Content for Numbers {
    type Batch = Vec<u64>;
    type Operator = Pass;
    type Outbox = Outbox;
    type Partitioner = u64;
    type Late = ();
    type LateShape = ();
    type Dead = ();
    type Front = ByRest;
    type Template = Every;
    type State = Vec<u64>;
    type Error = String;

    fn rows(batch: &Vec<u64>) -> u32 {
        batch.len() as u32
    }

    fn bytes(batch: &Vec<u64>) -> u64 {
        8 * batch.len() as u64
    }

    fn slice(batch: &Vec<u64>, offset: usize, rows: usize) -> Vec<u64> {
        batch[offset..offset + rows].to_vec()
    }

    fn concat(batches: &[&Vec<u64>]) -> Result<Vec<u64>, String> {
        Ok(batches.iter().flat_map(|batch| batch.iter().copied()).collect())
    }

    fn split(targets: &mut u64, batch: &Vec<u64>) -> Result<Vec<Option<Vec<u64>>>, String> {
        let part = |target: u64| -> Vec<u64> {
            batch.iter().copied().filter(|number| number % *targets == target).collect()
        };
        Ok((0..*targets).map(|target| Some(part(target)).filter(|part| !part.is_empty())).collect())
    }

    fn on_batch(
        operator: &mut Pass,
        _: usize,
        mut batch: Vec<u64>,
        _: ProcessingTime,
        outbox: &mut Outbox,
    ) -> Result<Flow, String> {
        if operator.fails_at.is_some_and(|bad| batch.contains(&bad)) {
            return Err("a bad number".into());
        }
        if operator.ended {
            return Ok(Flow::Done);
        }
        if operator.windows.is_some() {
            operator.left.append(&mut batch);
            return Ok(Flow::Done);
        }
        operator.left = batch.split_off(batch.len() / 2);
        outbox.emitted.push(Emitted::Batch { batch, ingested: None, window_end: None });
        Ok(Flow::More)
    }

    fn on_watermark(operator: &mut Pass, watermark: EventTime, outbox: &mut Outbox) -> Result<Flow, String> {
        if let Some(every) = operator.windows {
            let (mut out, open): (Vec<u64>, _) =
                operator.left.iter().partition(|number| every.has_ended(**number, watermark));
            operator.left = open;
            // Some come as they are, and some in slices.
            out.sort_unstable();
            outbox.emitted.push(Emitted::Batch { batch: out, ingested: None, window_end: Some(watermark) });
            outbox.emitted.push(Emitted::Watermark(watermark));
            return Ok(Flow::More);
        }
        if !operator.ended {
            outbox.emitted.push(Emitted::Watermark(watermark));
        }
        Ok(Flow::Done)
    }

    fn resume(operator: &mut Pass, outbox: &mut Outbox) -> Result<Flow, String> {
        if operator.windows.is_some() {
            return Ok(Flow::Done);
        }
        let batch = std::mem::take(&mut operator.left);
        outbox.emitted.push(Emitted::Batch { batch, ingested: None, window_end: None });
        Ok(Flow::Done)
    }

    fn save(operator: &mut Pass) -> Result<Vec<u64>, String> {
        Ok(operator.left.clone())
    }

    fn restore(operator: &mut Pass, state: Vec<u64>) -> Result<(), String> {
        operator.left = state;
        Ok(())
    }

    const RUNS_BETWEEN_STATE_CHECKS: u32 = 1;

    fn state_bytes(operator: &Pass) -> u64 {
        8 * operator.left.len() as u64 + 100
    }

    fn event_times(_: &Pass) -> Option<(EventTime, EventTime)> {
        None
    }

    fn follows_processing_time(_: &Pass) -> bool {
        false
    }

    fn ended() -> Pass {
        Pass { fails_at: None, left: Vec::new(), ended: true, windows: None }
    }

    fn emitted(outbox: &mut Outbox) -> &mut Vec<Emitted<Vec<u64>>> {
        &mut outbox.emitted
    }

    fn late(outbox: &mut Outbox) -> &mut Vec<()> {
        &mut outbox.late
    }

    fn dead(outbox: &mut Outbox) -> &mut Vec<()> {
        &mut outbox.dead
    }

    fn late_windows((): &()) -> impl Iterator<Item = (i64, u64)> {
        std::iter::empty()
    }

    fn late_rows((): &(), (): &()) -> Result<Vec<u64>, String> {
        Ok(Vec::new())
    }

    fn dead_rows((): &()) -> (u64, String) {
        (0, String::new())
    }
}

/// Which numbers a reader takes: those that leave so much when they are divided by that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rest {
    pub by: u64,
    pub rest: u64,
    /// What else it does can be done for many at once.
    pub windows: Option<Every>,
}

impl Rest {
    pub const ALL: Rest = Rest { by: 1, rest: 0, windows: None };
}

/// Gives each its numbers, which are their event times too.
#[derive(Default)]
pub struct ByRest {
    members: Vec<(u32, Rest)>,
    watermark: i64,
}

impl Front for ByRest {
    type Batch = Vec<u64>;
    type Spec = Rest;
    type Dead = ();
    type State = i64;
    type Error = String;

    fn new(_: &Rest) -> Result<ByRest, String> {
        Ok(ByRest::default())
    }

    fn fork(&self) -> Result<ByRest, String> {
        Ok(ByRest { members: Vec::new(), ..*self })
    }

    fn save(&mut self) -> Result<i64, String> {
        Ok(self.watermark)
    }

    fn absorb(&mut self, watermark: i64) -> Result<EventTime, String> {
        self.watermark = self.watermark.max(watermark);
        Ok(EventTime(self.watermark))
    }

    fn serves(&self, _: &Rest) -> bool {
        true
    }

    fn join(&mut self, member: u32, rest: &Rest) {
        self.members.push((member, *rest));
        self.members.sort_unstable_by_key(|(member, _)| *member);
    }

    fn leave(&mut self, member: u32, rest: &Rest) {
        self.members.retain(|other| *other != (member, *rest));
    }

    fn fill(
        &mut self,
        batch: Vec<u64>,
        _: ProcessingTime,
        _: &mut Vec<()>,
    ) -> Result<Filled<Vec<u64>>, String> {
        let time = |number: &u64| EventTime(*number as i64);
        let event_times = batch.first().map(time).zip(batch.last().map(time));
        self.watermark = event_times.map_or(self.watermark, |(_, latest)| latest.0);
        Ok(Filled { batch, event_times, watermark: EventTime(self.watermark) })
    }

    fn choose(&mut self, batch: &Vec<u64>, chosen: &mut Vec<(u32, u32)>) {
        chosen.clear();
        for &(member, Rest { by, rest, .. }) in &self.members {
            if by == 1 && !batch.is_empty() {
                chosen.push((member, EVERY_ROW));
                continue;
            }
            let rows = (0..batch.len() as u32).filter(|&row| batch[row as usize] % by == rest);
            chosen.extend(rows.map(|row| (member, row)));
        }
    }

    fn gather(batches: &[&Vec<u64>], rows: &[(usize, usize)]) -> Result<Vec<u64>, String> {
        let of = |&(batch, row): &(usize, usize)| match row as u32 {
            EVERY_ROW => batches[batch].clone(),
            _ => vec![batches[batch][row]],
        };
        Ok(rows.iter().flat_map(of).collect())
    }
}

/// So many numbers each `gap_ns`, from a start on, up to an end.
#[derive(Clone, Copy, Debug)]
pub struct Counting {
    pub start: ProcessingTime,
    pub next: u64,
    pub end: u64,
    pub gap_ns: u64,
    pub at_once: u64,
}

impl Feed<Numbers> for Counting {
    type Error = String;

    fn poll(&mut self, now: ProcessingTime) -> Result<FeedEvent<Vec<u64>>, String> {
        if self.next >= self.end {
            return Ok(FeedEvent::End);
        }
        let arrival = self.start.plus_ns(self.next / self.at_once * self.gap_ns);
        if arrival > now {
            return Ok(FeedEvent::NotBefore(arrival));
        }
        let until = (self.next + self.at_once).min(self.end);
        let numbers = (self.next..until).collect();
        self.next = until;
        Ok(FeedEvent::Batch(numbers, arrival))
    }

    fn prepare(&mut self) -> Result<bool, String> {
        Ok(false)
    }

    fn prepared_until(&self) -> Option<ProcessingTime> {
        None
    }

    fn is_repeatable(&self) -> bool {
        true
    }

    fn held_bytes(&self) -> u64 {
        64
    }

    fn event_clock(&self) -> Option<EventClock> {
        None
    }

    fn dead_rows(&self) -> u64 {
        0
    }

    fn progress(&self) -> Option<f64> {
        None
    }

    fn project(batch: &Vec<u64>, _: &[usize]) -> Vec<u64> {
        batch.clone()
    }
}

/// Such numbers, of which some fail to come and some are late.
#[derive(Debug)]
pub struct Fickle {
    pub numbers: Counting,
    /// There is no going on from this one.
    pub fails_at: Option<u64>,
    /// Those before it are there.
    pub there: u64,
    pub has_failed: bool,
    pub is_waiting: bool,
}

impl Fickle {
    pub fn new(numbers: Counting) -> Fickle {
        Fickle { numbers, fails_at: None, there: u64::MAX, has_failed: false, is_waiting: false }
    }

    /// Another copy, from there on.
    pub fn copy_from(&self, next: u64) -> Fickle {
        let numbers = Counting { next, ..self.numbers };
        Fickle { numbers, has_failed: false, is_waiting: false, ..*self }
    }

    /// Some more are there.
    pub fn bring(&mut self) {
        self.there = self.numbers.next + 50;
        self.is_waiting = false;
    }
}

impl Feed<Numbers> for Fickle {
    type Error = String;

    fn poll(&mut self, now: ProcessingTime) -> Result<FeedEvent<Vec<u64>>, String> {
        if self.fails_at.is_some_and(|number| number <= self.numbers.next) {
            self.has_failed = true;
            return Err("it cannot be read on".into());
        }
        if self.numbers.next >= self.there {
            self.is_waiting = true;
            return Ok(FeedEvent::Waiting);
        }
        self.numbers.poll(now)
    }

    fn prepare(&mut self) -> Result<bool, String> {
        Ok(false)
    }

    fn prepared_until(&self) -> Option<ProcessingTime> {
        None
    }

    fn is_repeatable(&self) -> bool {
        true
    }

    fn held_bytes(&self) -> u64 {
        64
    }

    fn event_clock(&self) -> Option<EventClock> {
        None
    }

    fn dead_rows(&self) -> u64 {
        0
    }

    fn progress(&self) -> Option<f64> {
        None
    }

    fn project(batch: &Vec<u64>, _: &[usize]) -> Vec<u64> {
        batch.clone()
    }
}
