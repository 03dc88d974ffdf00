use std::collections::{BTreeMap, VecDeque};

use laxity_graph::Approximation;
use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg64;

use super::aggregate::Aggregate;
use super::delays::Delays;
use super::grid::Grid;
use super::group_history::GroupHistory;
use super::interval::Taken;
use super::late_values::LateValues;
use super::moments::Moments;
use super::rule::{Rule, SlackControl, coverage};
use super::sample_size::{Promise, rate};
use super::stratum::Stratum;
use super::sub_stream::{Cell, Share, SubStream};
use super::verification::{Results, Verification};

/// Which rows of a stream are taken, and when its windows answer.
///
/// Times are milliseconds of event time; `now` is the instant of arrival on the same clock, so that a row's delay is `now`
/// less its time. Per arrival: [`arrive`](Aion::arrive) once, [`offer`](Aion::offer) per row, [`value`](Aion::value) per value
/// of a row that was taken or asked for. Then, and at [`wake_at`](Aion::wake_at): while [`due`](Aion::due) names a window's end,
/// [`close`](Aion::close) it. The same calls give the same answers: chance comes from the seed.
#[derive(Debug)]
pub struct Aion {
    config: Config,
    sub_streams: BTreeMap<i64, SubStream>,
    groups: Vec<GroupHistory>,
    delays: Delays,
    /// The longest delay of each of the last sub-streams, and of all.
    longest: VecDeque<i64>,
    longest_of_all: i64,
    /// Of sub-streams that are not complete yet.
    longest_lately: i64,
    late: Vec<LateValues>,
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
    random: Pcg64,
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
    Taken,
    /// It stands for nothing but itself being there.
    Counted,
    /// It came too late and is dropped; if so, its values are to be told all the same, since late rows may differ.
    Late {
        /// See there.
        asked: bool,
    },
}

/// A group of a sub-stream, as it is sent on.
#[derive(Clone, Debug, PartialEq)]
pub struct Closed {
    /// Which sub-stream.
    pub sub_stream: i64,
    /// Which group.
    pub group: u32,
    /// What is known of it. The shift is that of the first value.
    pub stratum: Stratum,
    /// By value.
    pub shifts: Vec<(f64, f64)>,
}

/// Rows taken of late ones per sub-stream, to see whether they differ.
const ASKED: f64 = 40.0;

/// So many sub-streams at least have to be complete before anything is left out.
const WARM_UP: u32 = 5;

/// With fewer delays than that their law is not known.
const DELAYS_MIN: f64 = 100.0;

/// A window that has to wait looks again after such a part of the longest delay.
const WAIT_STEPS: i64 = 32;

/// N̂ by arrivals and by what is usual differ by more deviations than this: something has changed.
const CHANGED: f64 = 4.0;

/// Groups beyond that many are kept whole.
const GROUPS_MAX: usize = 100_000;

impl Aion {
    /// At the beginning of a stream.
    pub fn new(config: Config) -> Aion {
        let values = config.aggregates.iter().filter_map(Aggregate::value).map(|value| value + 1).max();
        Aion {
            sub_streams: BTreeMap::new(),
            groups: Vec::new(),
            delays: Delays::default(),
            longest: VecDeque::new(),
            longest_of_all: 0,
            longest_lately: 0,
            late: vec![LateValues::default(); values.unwrap_or(0)],
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
            random: Pcg64::seed_from_u64(config.seed),
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
    }

    /// Rows come now.
    pub fn arrive(&mut self, now: i64) {
        if let Some(before) = self.arrived.replace(now) {
            self.longest_silence = self.longest_silence.max((now - before) as f64);
        }
    }

    /// A row of that group has come.
    pub fn offer(&mut self, now: i64, time: i64, group: u32) -> Offer {
        let number = self.config.grid.sub_stream(time);
        let (_, end) = self.config.grid.stretch(number);
        self.totals.rows_seen += 1;
        if self.config.verifies {
            self.verification.row(number, group);
        }
        self.latest = self.latest.max(time);
        let delay = (now - time).max(0);
        self.longest_of_all = self.longest_of_all.max(delay);
        let is_closed = end <= self.issued;
        if is_closed && !self.sub_streams.contains_key(&number) {
            self.totals.rows_late += 1;
            return Offer::Late { asked: false };
        }
        self.longest_lately = self.longest_lately.max(delay);
        let sub_stream = self.sub_streams.entry(number).or_default();
        sub_stream.delays.push(delay);
        sub_stream.rows += 1.0;
        if sub_stream.closed.is_some() || is_closed {
            self.totals.rows_late += 1;
            let expected = self.rows.rows() * 0.1;
            let asked = !self.late.is_empty() && self.dice(ASKED / expected.max(ASKED));
            return Offer::Late { asked };
        }
        let window_end = self.config.grid.end_after(end - 1);
        self.first_end = Some(self.first_end.map_or(window_end, |first| first.min(window_end)));
        sub_stream.seen += 1.0;
        let group = group as usize;
        if group >= sub_stream.cells.len() || sub_stream.cells[group].seen == 0 {
            let below = self.below(number, group, window_end);
            let values = vec![Moments::default(); self.late.len()];
            let sub_stream = self.sub_streams.entry(number).or_default();
            if group >= sub_stream.cells.len() {
                sub_stream.cells.resize(group + 1, Cell::default());
            }
            sub_stream.cells[group] = Cell { seen: 0, taken: 0, below, values };
        }
        let dice = self.random.next_u32();
        let sub_stream = self.sub_streams.entry(number).or_default();
        let cell = &mut sub_stream.cells[group];
        cell.seen += 1;
        // One row of each group at least, so that the result has it.
        if cell.below == u32::MAX || dice < cell.below || cell.taken == 0 {
            cell.taken += 1;
            self.totals.rows_taken += 1;
            Offer::Taken
        } else {
            Offer::Counted
        }
    }

    /// The value of a row that was taken or asked for; nothing is told of NULL.
    pub fn value(&mut self, now: i64, time: i64, group: u32, value: usize, what: f64, offer: Offer) {
        let number = self.config.grid.sub_stream(time);
        if self.config.verifies {
            self.verification.value(number, group, value, what);
            if !matches!(offer, Offer::Taken | Offer::Late { asked: true }) {
                return;
            }
        }
        let (_, end) = self.config.grid.stretch(number);
        let is_late = now > self.config.grid.end_after(end - 1);
        let usual = self.groups.get(group as usize).filter(|history| history.rounds > 0);
        let distance = usual.map(|usual| what - usual.mean(value));
        if is_late && let Some(distance) = distance {
            self.late[value].push(distance);
        }
        let Some(sub_stream) = self.sub_streams.get_mut(&number).filter(|_| offer == Offer::Taken) else {
            return;
        };
        if let Some(distance) = distance.filter(|_| !is_late) {
            sub_stream.in_time.resize(self.late.len(), Moments::default());
            sub_stream.in_time[value].push(distance);
        }
        if let Some(cell) = sub_stream.cells.get_mut(group as usize) {
            cell.values[value].push(what);
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

    /// Bytes held, about.
    pub fn bytes(&self) -> usize {
        let cell = size_of::<Cell>() + self.late.len() * size_of::<Moments>();
        let cells: usize = self.sub_streams.values().map(|sub_stream| sub_stream.cells.len()).sum();
        cells * cell
            + self.groups.len() * (size_of::<GroupHistory>() + self.late.len() * size_of::<Moments>())
    }

    /// When to ask [`due`](Aion::due) again, if no row comes before.
    pub fn wake_at(&self) -> Option<i64> {
        self.wake
    }

    /// The end of a window that is to answer now.
    pub fn due(&mut self, now: i64) -> Option<i64> {
        self.wake = None;
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
            let shifts: Vec<(f64, f64)> = self.shifts(share);
            let Some(sub_stream) = self.sub_streams.get_mut(&number) else { continue };
            sub_stream.closed = Some(share);
            if self.groups.len() < sub_stream.cells.len() {
                self.groups.resize(sub_stream.cells.len(), GroupHistory::default());
            }
            let absent = Cell::default();
            for (group, history) in self.groups.iter_mut().enumerate() {
                let cell = sub_stream.cells.get(group).unwrap_or(&absent);
                if cell.seen == 0 {
                    if history.rounds > 0 {
                        history.learn(0.0, 0.0, &[]);
                    }
                    continue;
                }
                history.learn(share.total(f64::from(cell.seen)), f64::from(cell.taken), &cell.values);
                let shift = shifts.first().copied().unwrap_or_default();
                let stratum = cell.stratum(number, share, shift);
                closed.push(Closed {
                    sub_stream: number,
                    group: group as u32,
                    stratum,
                    shifts: shifts.clone(),
                });
            }
            let (start, _) = grid.stretch(number);
            let in_time = self.delays.on_time_share(start, stretch_end, grid.end_after(stretch_end - 1));
            for (late, values) in self.late.iter_mut().zip(&sub_stream.in_time) {
                late.forget(GroupHistory::KEEP);
                late.learn(values, (1.0 - in_time) / in_time.max(SHARE_MIN));
            }
            self.longest_silence *= GroupHistory::KEEP;
        }
        self.issued = self.issued.max(end);
        self.mature(now);
        let next = |(_, sub_stream): (&i64, &SubStream)| sub_stream.closed.is_none();
        let first_open = self.sub_streams.iter().find(|&entry| next(entry)).map(|(&number, _)| number);
        self.first_end = first_open.map(|number| grid.end_after(grid.stretch(number).1 - 1));
        closed
    }

    /// How long rows may take: the longest delay of the last sub-streams.
    fn slack_ms(&self) -> i64 {
        self.longest.iter().copied().max().unwrap_or(0).max(self.longest_lately)
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

    fn is_warm(&self, end: i64) -> bool {
        let window = u32::try_from(self.config.grid.sub_streams(end)).unwrap_or(u32::MAX);
        self.matured >= window.max(WARM_UP) && self.delays.rows() >= DELAYS_MIN
    }

    fn dice(&mut self, probability: f64) -> bool {
        f64::from(self.random.next_u32()) < probability * f64::from(u32::MAX)
    }

    /// Eq. 4.8 for a group of a sub-stream that begins, as what the dice have to be below.
    fn below(&self, number: i64, group: usize, window_end: i64) -> u32 {
        let rule = self.config.rule;
        if !rule.samples() || !self.engaged || group >= GROUPS_MAX || !self.is_warm(window_end) {
            return u32::MAX;
        }
        let grid = self.config.grid;
        let sub_streams = grid.sub_streams(window_end) as f64;
        let by_end = |number: i64| {
            let (start, end) = grid.stretch(number);
            self.delays.on_time_share(start, end, grid.end_after(end - 1))
        };
        let share = if rule == Rule::Aion { by_end(number) } else { 1.0 };
        let Some(history) = self.groups.get(group) else { return u32::MAX };
        // What N̂ of the window will have for a deviation: who is missing is chance, and the share of them is learnt.
        let first = grid.sub_stream(grid.start_of(window_end));
        let mut missing_variance = 0.0;
        if rule == Rule::Aion {
            for number in first..first + grid.sub_streams(window_end).min(SHARES_MAX) {
                let p = by_end(number).max(SHARE_MIN);
                missing_variance += history.rows() * (1.0 - p) / p;
            }
        }
        let rows = history.rows() * sub_streams;
        let deviation = if rows > 0.0 { missing_variance.sqrt() / rows } else { 0.0 };
        let deviation = (deviation.powi(2) + self.doubt.of(1.0 - share)).sqrt();
        let sample = history.sample(&self.config.aggregates, self.config.promise, sub_streams, deviation);
        let Some((sample, _)) = sample else { return u32::MAX };
        let theta = rate(sample / sub_streams, history.rows() * share);
        if theta >= 1.0 { u32::MAX } else { (theta * f64::from(u32::MAX)) as u32 }
    }

    /// Which part of a sub-stream has come by now.
    fn share(&self, number: i64, now: i64) -> Share {
        let (start, end) = self.config.grid.stretch(number);
        let sub_stream = &self.sub_streams[&number];
        if let Some(closed) = sub_stream.closed {
            return closed;
        }
        let estimates = self.config.rule == Rule::Aion && self.engaged && self.delays.rows() >= DELAYS_MIN;
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
        let learnt = (1.0 - in_time) / (in_time * self.delays.rows());
        Share { in_time, doubt: (learnt + self.doubt.of(1.0 - in_time)).sqrt(), is_broken }
    }

    fn shifts(&self, share: Share) -> Vec<(f64, f64)> {
        let of = |late: &LateValues| if share.in_time < 1.0 { late.shift() } else { (0.0, 0.0) };
        self.late.iter().map(of).collect()
    }

    /// Whether the window would keep its bound now, in every group.
    fn verdict(&self, end: i64, now: i64) -> Verdict {
        let promise = self.config.promise;
        let mut verdict = Verdict::Kept;
        self.each_result(end, now, |_, aggregate, taken| {
            if aggregate.estimate(taken, promise).relative() <= promise.error {
                return true;
            }
            // Once all had come: what would be left is what was not taken.
            let all_come = |taken: &Taken| {
                let Taken { stratum, values } = *taken;
                let stratum =
                    Stratum { total: stratum.seen, total_variance: 0.0, total_common: 0.0, ..stratum };
                Taken { stratum, values }
            };
            let complete: Vec<Taken> = taken.iter().map(all_come).collect();
            let helps = aggregate.estimate(&complete, promise).relative() <= promise.error;
            verdict = if helps { Verdict::NotYet } else { Verdict::Never };
            !helps
        });
        verdict
    }

    /// Calls for every group and aggregate of the window with that end, with what was taken; until it says false.
    fn each_result(&self, end: i64, now: i64, mut call: impl FnMut(u32, Aggregate, &[Taken]) -> bool) {
        let grid = self.config.grid;
        let (from, to) = (grid.sub_stream(grid.start_of(end)), grid.sub_stream(end - 1));
        let window: Vec<(i64, &SubStream, Share)> = self
            .sub_streams
            .range(from..=to)
            .map(|(&number, sub_stream)| (number, sub_stream, self.share(number, now)))
            .collect();
        let groups = window.iter().map(|(_, sub_stream, _)| sub_stream.cells.len()).max().unwrap_or(0);
        let shifts: Vec<Vec<(f64, f64)>> = window.iter().map(|&(.., share)| self.shifts(share)).collect();
        let mut taken = Vec::new();
        for group in 0..groups {
            for &aggregate in &self.config.aggregates {
                taken.clear();
                for ((number, sub_stream, share), shifts) in window.iter().zip(&shifts) {
                    let Some(cell) = sub_stream.cells.get(group).filter(|cell| cell.seen > 0) else {
                        continue;
                    };
                    let shift = aggregate.value().map_or((0.0, 0.0), |value| shifts[value]);
                    let stratum = cell.stratum(*number, *share, shift);
                    let rows = Moments { count: stratum.taken, ..Moments::default() };
                    let values = aggregate.value().map_or(rows, |value| cell.values[value]);
                    taken.push(Taken { stratum, values });
                }
                if !taken.is_empty() && !call(group as u32, aggregate, &taken) {
                    return;
                }
            }
        }
    }

    /// Keeps what the window with that end says, to be held against what is so.
    fn remember(&mut self, end: i64, now: i64) {
        let promise = self.config.promise;
        let mut results = Results::new();
        self.each_result(end, now, |group, aggregate, taken| {
            results.push((group, aggregate, aggregate.estimate(taken, promise)));
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
            self.rows.learn(sub_stream.rows, 0.0, &[]);
            self.longest.push_back(self.longest_lately);
            if self.longest.len() > LONGEST_OF {
                self.longest.pop_front();
            }
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
            entry.remove();
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

/// What a window's sample is worth now.
enum Verdict {
    Kept,
    /// It will do once more rows have come.
    NotYet,
    /// It will not: too few were taken.
    Never,
}

/// How far N̂ was off lately beyond the chance of who is missing: its squared relative error in proportion to the share that
/// was missing. A ratio of means: a mean of ratios would follow the few rows that nearly complete sub-streams miss.
#[derive(Clone, Copy, Debug, Default)]
struct Doubt {
    squared_error: f64,
    missing: f64,
}

impl Doubt {
    fn learn(&mut self, squared_error: f64, missing: f64) {
        self.squared_error += (squared_error - self.squared_error) / DOUBT_OF;
        self.missing += (missing - self.missing) / DOUBT_OF;
    }

    fn of(&self, missing: f64) -> f64 {
        if self.missing > 0.0 { self.squared_error.max(0.0) / self.missing * missing } else { 0.0 }
    }
}

/// The longest delay is that of so many sub-streams.
const LONGEST_OF: usize = 200;

/// Errors of N̂ are remembered over about so many sub-streams.
const DOUBT_OF: f64 = 50.0;

/// Where less has come, N̂ would be a multiple of chance.
const SHARE_MIN: f64 = 0.02;

/// Of a window of more sub-streams, only the last few can miss rows.
const SHARES_MAX: i64 = 64;

#[cfg(test)]
mod tests;
