//! Which rows of a stream are taken, and when its windows answer.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use laxity_graph::Approximation;

use super::aggregate::Aggregate;
use super::closed::Closed;
use super::delayed_values::DelayedValues;
use super::delays::Delays;
use super::distinct::Distinct;
use super::doubt::Doubt;
use super::grid::Grid;
use super::group_history::GroupHistory;
use super::moments::Moments;
use super::rule::{Rule, SlackControl, coverage};
use super::sample_size::Promise;
use super::stratum::Stratum;
use super::sub_stream::{Cell, Share, SubStream};
use super::sums::Sums;
use super::verification::{Results, Verification};

mod cut;
mod dice;
mod rows;
mod saved;

pub use rows::Told;

/// Which rows of a stream are taken, and when its windows answer.
///
/// Times are milliseconds of event time; `now` is the instant of arrival on the same clock, so that a row's delay is `now`
/// less its time. Per arrival: [`arrive`](Aion::arrive) once, [`offer`](Aion::offer) of the rows, [`value`](Aion::value) for each
/// value of those that were taken or asked for. Then, and at [`wake_at`](Aion::wake_at): while [`due`](Aion::due) names a window's end,
/// [`close`](Aion::close) it. The same calls give the same answers: chance comes from the seed.
#[derive(Debug)]
pub struct Aion {
    config: Config,
    sub_streams: BTreeMap<i64, SubStream>,
    groups: Vec<GroupHistory>,
    /// Sub-streams that are remembered of each.
    memory: f64,
    delays: Delays,
    /// The longest delay of each of the last sub-streams, and of all.
    longest: VecDeque<i64>,
    longest_of_last: i64,
    longest_of_all: i64,
    /// Of sub-streams that are not complete yet.
    longest_lately: i64,
    /// By value.
    delayed: Vec<DelayedValues>,
    /// By value: each that is taken is kept.
    keeps: Vec<bool>,
    /// By expression whose distinct values are counted: of none.
    no_distinct: Vec<Arc<Distinct>>,
    doubt: Doubt,
    /// Sub-streams whose rows have all come.
    matured: u32,
    /// Rows of a whole sub-stream: mean, mean square, as in a group.
    rows: GroupHistory,
    slack: SlackControl,
    first_end: Option<i64>,
    issued: i64,
    upstream: i64,
    latest: i64,
    arrived: Option<i64>,
    longest_silence: f64,
    wake: Option<i64>,
    engaged: bool,
    /// A sub-stream has begun since it is engaged.
    begun_engaged: bool,
    /// Of sub-streams that rows come for.
    plans: Vec<rows::Plan>,
    /// Room for each row's sub-stream.
    marks: Vec<u8>,
    /// Bytes of what cells keep, and of what is kept of groups: they are asked for at every message.
    kept_bytes: usize,
    recent_bytes: usize,
    verification: Verification,
    totals: Approximation,
}

/// What is asked of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// Windows.
    pub grid: Grid,
    /// Error and confidence.
    pub promise: Promise,
    /// What is computed of a group.
    pub aggregates: Vec<Aggregate>,
    /// Aion, or a baseline.
    pub rule: Rule,
    /// Results are held against exact ones once all rows have come. Then [`Aion::value`] is to be told of every row.
    pub verifies: bool,
    /// Of the dice.
    pub seed: u64,
}

/// What becomes of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Offer {
    /// It is in the sample: its values are to be told.
    Taken {
        /// It is the first row of its group in its sub-stream.
        first: bool,
    },
    /// It stands for nothing but itself being there.
    Counted {
        /// See there.
        first: bool,
    },
    /// It came too late and is dropped; if so, its values are to be told all the same, since late rows may differ.
    Late {
        /// See there.
        asked: bool,
    },
}

impl Offer {
    /// Its values are to be told, whoever verifies.
    pub fn is_asked(self) -> bool {
        matches!(self, Offer::Taken { .. } | Offer::Late { asked: true })
    }
}

/// So many sub-streams at least have to be complete before anything is left out.
const WARM_UP: u32 = 5;

/// With fewer delays than that their law is not known.
const DELAYS_MIN: f64 = 100.0;

/// A window that has to wait looks again after such a part of the longest delay.
const WAIT_STEPS: i64 = 32;

/// N̂ by arrivals and by what is usual differ by more deviations than this: something has changed.
const CHANGED: f64 = 4.0;

impl Aion {
    /// At the beginning of a stream.
    pub fn new(config: Config) -> Aion {
        let values = config.aggregates.iter().filter_map(Aggregate::value).map(|value| value + 1).max();
        let values = values.unwrap_or(0);
        let is_kept = |value| config.aggregates.iter().any(|of| of.kept_value() == Some(value));
        let sketches = config.aggregates.iter().filter_map(Aggregate::sketched).map(|which| which + 1).max();
        let no_distinct = Arc::new(Distinct::new(config.promise));
        Aion {
            sub_streams: BTreeMap::new(),
            groups: Vec::new(),
            memory: GroupHistory::memory(config.grid.sub_streams_max()),
            delays: Delays::default(),
            longest: VecDeque::new(),
            longest_of_last: 0,
            longest_of_all: 0,
            longest_lately: 0,
            delayed: vec![DelayedValues::default(); values],
            keeps: (0..values).map(is_kept).collect(),
            no_distinct: vec![no_distinct; sketches.unwrap_or(0)],
            doubt: Doubt::default(),
            matured: 0,
            rows: GroupHistory::default(),
            slack: SlackControl::default(),
            first_end: None,
            issued: i64::MIN,
            upstream: i64::MIN,
            latest: i64::MIN,
            arrived: None,
            longest_silence: 0.0,
            wake: None,
            engaged: true,
            begun_engaged: false,
            plans: Vec::new(),
            marks: Vec::new(),
            kept_bytes: 0,
            recent_bytes: 0,
            verification: Verification::default(),
            totals: Approximation::default(),
            config,
        }
    }

    /// What happened so far; what was asked for is not told.
    pub fn totals(&self) -> Approximation {
        self.totals
    }

    /// Whether rows may be left out from the next sub-stream on; else windows are as exact as without it.
    pub fn engage(&mut self, engaged: bool) {
        self.engaged = engaged;
        self.begun_engaged &= engaged;
    }

    /// Whether rows have come that may be left out, since that was last allowed.
    pub fn has_begun_engaged(&self) -> bool {
        self.begun_engaged
    }

    /// Rows come now.
    pub fn arrive(&mut self, now: i64) {
        if let Some(before) = self.arrived.replace(now) {
            self.longest_silence = self.longest_silence.max((now - before) as f64);
        }
    }

    /// No row at or before that time is still to come, says the table.
    pub fn upstream(&mut self, watermark: i64) {
        self.upstream = self.upstream.max(watermark);
    }

    /// Where nothing waits, windows up to that watermark answer with nothing: the end of the last of them, if it is news.
    pub fn pass(&mut self, watermark: i64) -> Option<i64> {
        let end =
            self.config.grid.end_after(watermark.saturating_add(1)).saturating_sub(self.config.grid.step_ms);
        let is_news = end > self.issued && self.first_end.is_none_or(|first| end < first);
        if is_news {
            self.issued = end;
        }
        is_news.then_some(end)
    }

    /// Whether rows of that group have come in that sub-stream.
    pub(crate) fn has_begun(&self, sub_stream: i64, group: u32) -> bool {
        let cells = self.sub_streams.get(&sub_stream).map(|sub_stream| &sub_stream.cells);
        cells.and_then(|cells| cells.get(group as usize)).is_some_and(|cell| cell.seen > 0)
    }

    /// Of so many groups, those that rows wait for or that were there of late.
    pub fn alive(&self, count: usize) -> Vec<bool> {
        let mut alive = vec![false; count];
        for (alive, history) in alive.iter_mut().zip(&self.groups) {
            *alive = history.is_known(self.memory);
        }
        for sub_stream in self.sub_streams.values() {
            for (alive, cell) in alive.iter_mut().zip(&sub_stream.cells) {
                *alive |= cell.seen > 0;
            }
        }
        alive
    }

    /// Groups have other numbers from now on, and those that are not alive none.
    pub fn renumber(&mut self, numbers: &[Option<u32>]) {
        renumber(&mut self.groups, numbers);
        self.sub_streams.values_mut().for_each(|sub_stream| renumber(&mut sub_stream.cells, numbers));
    }

    /// Bytes held, about.
    pub fn bytes(&self) -> usize {
        let cell = size_of::<Cell>() + self.delayed.len() * size_of::<Moments>();
        let cells: usize = self.sub_streams.values().map(|sub_stream| sub_stream.cells.len()).sum();
        cells * cell
            + self.kept_bytes
            + self.recent_bytes
            + self.groups.len() * (size_of::<GroupHistory>() + self.delayed.len() * size_of::<Moments>())
    }

    /// Adds up what is kept.
    fn count_kept(&mut self) {
        self.kept_bytes = self.sub_streams.values().map(SubStream::kept_bytes).sum();
        self.recent_bytes = self.groups.iter().map(GroupHistory::recent_bytes).sum();
    }

    /// When to ask [`due`](Aion::due) again, if no row comes before.
    pub fn wake_at(&self) -> Option<i64> {
        self.wake
    }

    /// Whether [`due`](Aion::due) may name a window, or looks at what was taken of it: all values are to be told before.
    pub fn may_answer(&self, now: i64) -> bool {
        let Some(end) = self.first_end else { return false };
        let is_looked_at_later = self.wake.is_some_and(|next| next > now && next > end);
        self.upstream >= end - 1 || (now.max(self.latest) >= end && !is_looked_at_later)
    }

    /// The end of a window that is to answer now.
    pub fn due(&mut self, now: i64) -> Option<i64> {
        let planned = self.wake.take();
        self.mature(now);
        let end = self.first_end?;
        if self.upstream >= end - 1 {
            self.count(end, now, true, true);
            return Some(end);
        }
        let wait = self.slack_ms();
        let rule = if self.engaged { self.config.rule } else { Rule::Bounded { ms: i64::MAX / 4 } };
        let is_due = match rule {
            Rule::Bounded { ms } => self.latest.saturating_sub(ms) >= end,
            Rule::KSlack | Rule::AionMinus => self.waits(now, end + self.longest_of_all.max(1)),
            Rule::AqKSlack => {
                let share_ms = self.slack.share() * self.longest_of_all as f64;
                self.waits(now, end + share_ms.round() as i64)
            }
            Rule::Aion => {
                if now < end {
                    self.wake = Some(end);
                    return None;
                }
                // It was looked at a moment ago, and a look is dear.
                if let Some(next) = planned.filter(|&next| next > now && next > end) {
                    self.wake = Some(next);
                    return None;
                }
                // What all wait for comes by itself, or the source says so.
                if self.is_silent(now) || !self.is_warm(end) {
                    return None;
                }
                if now > end + wait {
                    self.count(end, now, true, true);
                    return Some(end);
                }
                match self.verdict(end, now) {
                    Verdict::Kept => {
                        self.count(end, now, true, false);
                        return Some(end);
                    }
                    Verdict::Never => {
                        self.count(end, now, false, false);
                        return Some(end);
                    }
                    Verdict::NotYet => {
                        let step = (wait / WAIT_STEPS).max(1);
                        self.wake = Some((now + step).min(end + wait + 1));
                        return None;
                    }
                }
            }
        };
        if is_due {
            self.count(end, now, true, matches!(rule, Rule::Bounded { .. } | Rule::KSlack));
        }
        is_due.then_some(end)
    }

    /// What is known of all sub-streams before a window's end that were not sent on yet. Everything at the end of the input,
    /// which is `i64::MAX`.
    pub fn close(&mut self, end: i64, now: i64) -> Vec<Closed> {
        let grid = self.config.grid;
        if self.config.verifies {
            self.remember(end, now);
        }
        let mut closed = Vec::new();
        let numbers: Vec<i64> = self.sub_streams.keys().copied().collect();
        for number in numbers {
            let (_, stretch_end) = grid.stretch(number);
            if stretch_end > end || self.sub_streams[&number].closed.is_some() {
                continue;
            }
            let share = self.share(number, now);
            let shifts = self.shifts(number, share, now);
            let Some(sub_stream) = self.sub_streams.get_mut(&number) else { continue };
            sub_stream.closed = Some(share);
            sub_stream.shifts.clone_from(&shifts);
            if self.groups.len() < sub_stream.cells.len() {
                self.groups.resize(sub_stream.cells.len(), GroupHistory::default());
            }
            let absent = Cell::default();
            for (group, history) in self.groups.iter_mut().enumerate() {
                let cell = sub_stream.cells.get(group).unwrap_or(&absent);
                if cell.seen == 0 {
                    if history.rounds > 0 {
                        history.learn(self.memory, 0.0, 0.0, &[], &[]);
                    }
                    continue;
                }
                let values: Vec<Moments> = cell.values.iter().map(Sums::moments).collect();
                let rows = share.total(f64::from(cell.seen));
                history.learn(self.memory, rows, f64::from(cell.taken), &values, &cell.kept.samples);
                let shift = shifts.first().copied().unwrap_or_default();
                let stratum = cell.stratum(number, share, shift);
                closed.push(Closed {
                    sub_stream: number,
                    group: group as u32,
                    stratum,
                    shifts: shifts.clone(),
                    values,
                    kept: cell.kept.clone(),
                });
            }
            self.delayed.iter_mut().for_each(|values| values.forget(GroupHistory::KEEP));
            self.longest_silence *= GroupHistory::KEEP;
        }
        self.issued = self.issued.max(end);
        self.mature(now);
        self.count_kept();
        let next = |(_, sub_stream): (&i64, &SubStream)| sub_stream.closed.is_none();
        let first_open = self.sub_streams.iter().find(|&entry| next(entry)).map(|(&number, _)| number);
        self.first_end = first_open.map(|number| grid.end_after(grid.stretch(number).1 - 1));
        closed
    }

    /// How long rows may take: the longest delay of the last sub-streams.
    fn slack_ms(&self) -> i64 {
        self.longest_of_last.max(self.longest_lately)
    }

    fn waits(&mut self, now: i64, until: i64) -> bool {
        let is_over = now >= until && !self.is_silent(now);
        if now < until {
            self.wake = Some(until);
        }
        is_over
    }

    /// Nothing has come for far longer than usual: what is missing may be anything.
    fn is_silent(&self, now: i64) -> bool {
        const USUAL: f64 = 3.0;
        let usual = (USUAL * self.longest_silence).max(self.config.grid.sub_stream_ms as f64);
        self.arrived.is_none_or(|arrived| (now - arrived) as f64 > usual)
    }

    /// Which part of a sub-stream has come by now.
    fn share(&self, number: i64, now: i64) -> Share {
        let (start, end) = self.config.grid.stretch(number);
        let sub_stream = &self.sub_streams[&number];
        if let Some(closed) = sub_stream.closed {
            return closed;
        }
        let estimates =
            self.config.rule == Rule::Aion && self.engaged && self.delays.observed() >= DELAYS_MIN;
        if !estimates || self.upstream >= end - 1 || now > end + self.slack_ms() {
            return Share::ALL;
        }
        let in_time = self.delays.on_time_share(start, end, now).max(SHARE_MIN);
        if in_time >= 1.0 {
            return Share::ALL;
        }
        let by_arrivals = sub_stream.seen / in_time;
        let (usual, deviation) = (self.rows.rows(), self.rows.rows_deviation());
        let chance = sub_stream.seen * (1.0 - in_time) / (in_time * in_time);
        let far = CHANGED * (deviation * deviation + chance + 1.0).sqrt();
        let is_broken = (by_arrivals - usual).abs() > far;
        let learnt = (1.0 - in_time) / (in_time * self.delays.observed());
        Share { in_time, doubt: (learnt + self.doubt.of(1.0 - in_time)).sqrt(), is_broken }
    }

    /// By value: by how much those of a sub-stream that are missing lie above those that came, and the deviation of that.
    fn shifts(&self, number: i64, share: Share, now: i64) -> Vec<(f64, f64)> {
        let stretch = self.config.grid.stretch(number);
        // What came after it was sent on is not among its rows.
        if let Some(closed) = self.sub_streams.get(&number).filter(|sub_stream| sub_stream.closed.is_some()) {
            return closed.shifts.clone();
        }
        let of = |values: &DelayedValues| match share.in_time < 1.0 {
            true => values.shift(&self.delays, stretch, now),
            false => (0.0, 0.0),
        };
        self.delayed.iter().map(of).collect()
    }

    /// Whether the window would keep its bound now, in every group.
    fn verdict(&self, end: i64, now: i64) -> Verdict {
        let promise = self.config.promise;
        let mut verdict = Verdict::Kept;
        self.each_result(end, now, |_, aggregate, closed| {
            if aggregate.estimate(closed, promise).relative() <= promise.error {
                return true;
            }
            // Once all had come: what would be left is what was not taken.
            let all_come = |closed: &&Closed| {
                let stratum = closed.stratum;
                let stratum =
                    Stratum { total: stratum.seen, total_variance: 0.0, total_common: 0.0, ..stratum };
                Closed { stratum, shifts: vec![], ..(*closed).clone() }
            };
            let complete: Vec<Closed> = closed.iter().map(all_come).collect();
            let complete: Vec<&Closed> = complete.iter().collect();
            let helps = aggregate.estimate(&complete, promise).relative() <= promise.error;
            verdict = if helps { Verdict::NotYet } else { Verdict::Never };
            !helps
        });
        verdict
    }

    /// Calls for every group and aggregate of the window with that end, with what was taken; until it says false.
    fn each_result(&self, end: i64, now: i64, mut call: impl FnMut(u32, Aggregate, &[&Closed]) -> bool) {
        let grid = self.config.grid;
        let (from, to) = (grid.sub_stream(grid.start_of(end)), grid.sub_stream(end - 1));
        let window: Vec<(i64, &SubStream, Share)> = self
            .sub_streams
            .range(from..=to)
            .map(|(&number, sub_stream)| (number, sub_stream, self.share(number, now)))
            .collect();
        let groups = window.iter().map(|(_, sub_stream, _)| sub_stream.cells.len()).max().unwrap_or(0);
        let shifts = window.iter().map(|&(number, _, share)| self.shifts(number, share, now));
        let shifts: Vec<Vec<(f64, f64)>> = shifts.collect();
        for group in 0..groups {
            let mut closed = Vec::new();
            for (&(number, sub_stream, share), shifts) in window.iter().zip(&shifts) {
                if let Some(cell) = sub_stream.cells.get(group).filter(|cell| cell.seen > 0) {
                    closed.push(Closed {
                        sub_stream: number,
                        group: group as u32,
                        stratum: cell.stratum(number, share, (0.0, 0.0)),
                        shifts: shifts.clone(),
                        values: cell.values.iter().map(Sums::moments).collect(),
                        kept: cell.kept.clone(),
                    });
                }
            }
            let closed: Vec<&Closed> = closed.iter().collect();
            for &aggregate in &self.config.aggregates {
                if !closed.is_empty() && !call(group as u32, aggregate, &closed) {
                    return;
                }
            }
        }
    }

    /// Keeps what the window with that end says, to be held against what is so.
    fn remember(&mut self, end: i64, now: i64) {
        let promise = self.config.promise;
        let mut results = Results::new();
        self.each_result(end, now, |group, aggregate, closed| {
            results.push((group, aggregate, aggregate.estimate(closed, promise)));
            true
        });
        let grid = self.config.grid;
        let window = (grid.sub_stream(grid.start_of(end)), grid.sub_stream(end - 1));
        self.verification.remember(end, window, results);
    }

    /// Learns from sub-streams of which no row is still to come, and forgets those that no window needs.
    fn mature(&mut self, now: i64) {
        let grid = self.config.grid;
        // While delays are hardly known, the longest may be yet to come.
        let slack = self.slack_ms() * if self.matured < WARM_UP { 2 } else { 1 };
        for (&number, sub_stream) in &mut self.sub_streams {
            if now <= grid.stretch(number).1 + slack {
                break;
            }
            if sub_stream.is_learnt {
                continue;
            }
            sub_stream.is_learnt = true;
            self.delays.learn(&sub_stream.delays, GroupHistory::KEEP);
            sub_stream.delays = Delays::default();
            self.matured += 1;
            self.rows.learn(GroupHistory::memory(1), sub_stream.rows, 0.0, &[], &[]);
            self.longest.push_back(self.longest_lately);
            if self.longest.len() > LONGEST_OF {
                self.longest.pop_front();
            }
            self.longest_of_last = self.longest.iter().copied().max().unwrap_or(0);
            self.longest_lately = 0;
            if let Some(share) = sub_stream.closed.filter(|share| share.in_time < 1.0) {
                let error = share.total(sub_stream.seen) / sub_stream.rows - 1.0;
                let chance = (1.0 - share.in_time) / (share.in_time * sub_stream.rows);
                self.doubt.learn(error * error - chance, 1.0 - share.in_time);
            }
            if sub_stream.closed.is_some() {
                let (mean, variance) = self.groups.first().map_or((1.0, 0.0), GroupHistory::spread);
                let wanted = coverage(self.config.promise, self.rows.rows(), mean, variance);
                self.slack.learn(sub_stream.seen / sub_stream.rows.max(1.0), wanted);
            }
        }
        if self.config.verifies {
            let until = if self.upstream == i64::MAX {
                i64::MAX
            } else {
                now.saturating_sub(slack).min(self.upstream)
            };
            let (checked, within) = self.verification.check(until, self.config.promise);
            self.totals.checked += checked;
            self.totals.within += within;
        }
        let next_end = grid.end_after(self.issued.clamp(i64::MIN / 4, i64::MAX / 4));
        let needed_from = grid.sub_stream(grid.start_of(next_end));
        while let Some(entry) = self.sub_streams.first_entry() {
            let is_done = entry.get().is_learnt && entry.get().closed.is_some();
            if !is_done || *entry.key() >= needed_from {
                break;
            }
            let kept = entry.remove().kept_bytes();
            self.kept_bytes = self.kept_bytes.saturating_sub(kept);
        }
    }

    fn count(&mut self, end: i64, now: i64, is_kept: bool, is_complete: bool) {
        self.totals.windows += 1;
        self.totals.unkept += u64::from(!is_kept);
        self.totals.complete += u64::from(is_complete);
        let waited = (now - end).max(0) as f64;
        self.totals.waited_ms += waited;
        self.totals.saved_ms += (self.longest_of_all as f64 - waited).max(0.0);
    }
}

/// Puts what is of each group where its number is now.
fn renumber<T: Default>(of_groups: &mut Vec<T>, numbers: &[Option<u32>]) {
    for (group, what) in std::mem::take(of_groups).into_iter().enumerate() {
        if let Some(number) = numbers.get(group).copied().flatten() {
            let number = number as usize;
            if of_groups.len() <= number {
                of_groups.resize_with(number + 1, T::default);
            }
            of_groups[number] = what;
        }
    }
}

/// What a window's sample is worth now.
enum Verdict {
    Kept,
    /// It will do once more rows have come.
    NotYet,
    /// It will not: too few were taken.
    Never,
}

/// The longest delay is that of so many sub-streams.
const LONGEST_OF: usize = 200;

/// Where less has come, N̂ would be a multiple of chance.
const SHARE_MIN: f64 = 0.02;

/// Of a window of more sub-streams, only the last few can miss rows.
const SHARES_MAX: i64 = 64;

#[cfg(test)]
mod tests;
