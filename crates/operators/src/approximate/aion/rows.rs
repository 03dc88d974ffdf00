//! Rows as they come: which are taken, and what their values are. What is left out costs a count.

use std::sync::Arc;

use super::super::group_history::GroupHistory;
use super::super::sample_size::rate;
use super::super::sub_stream::{Cell, SubStream};
use super::dice::Dice;
use super::{Aion, Config, DELAYS_MIN, Offer, SHARE_MIN, SHARES_MAX, WARM_UP};
use crate::approximate::Rule;

/// Rows whose values are told.
#[derive(Clone, Copy, Debug)]
pub struct Told<'a> {
    /// Which they are, of those that were offered together.
    pub rows: &'a [u32],
    /// What became of each of them.
    pub offers: &'a [Offer],
    /// Of all that were offered: time and group; without groups all are of group 0.
    pub times: &'a [i64],
    /// See `times`.
    pub groups: Option<&'a [usize]>,
}

/// Rows taken of late ones per sub-stream, to see whether they differ.
const ASKED: f64 = 40.0;

/// Of a sub-stream about so many delays are looked at: with those of the last twenty the share in time is known within a
/// quarter of a percent.
const DELAYS_LOOKED_AT: f64 = 2_048.0;

/// Groups beyond that many are kept whole.
const GROUPS_MAX: usize = 100_000;

/// What the rates of a sub-stream's groups have in common.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plan {
    /// Of which sub-stream, and what was known then.
    number: i64,
    learnt: u32,
    engaged: bool,
    /// The part of it that will have come by the window's end; nothing where none is left out.
    share: Option<f64>,
    /// Of the window.
    sub_streams: f64,
    /// Σ (1 − p)/p over the window's sub-streams.
    missing_per_row: f64,
    /// Relative deviation of the window's N̂ that is not the chance of who is missing: errors of its sub-streams go together.
    doubt: f64,
}

impl Aion {
    /// Rows of those times and groups have come; `tell` hears of each in turn what becomes of it, but not of those that are
    /// counted and not the first of their group, unless results are verified or distinct values counted. Without groups all
    /// are of group 0.
    pub fn offer(
        &mut self,
        now: i64,
        times: &[i64],
        groups: Option<&[usize]>,
        mut tell: impl FnMut(usize, Offer),
    ) {
        self.totals.rows_seen += times.len() as u64;
        let zeros: Vec<usize>;
        let groups = match groups {
            // Then each row is told of.
            None if self.tells_all() => {
                zeros = vec![0; times.len()];
                Some(&*zeros)
            }
            groups => groups,
        };
        let mut from = 0;
        while from < times.len() {
            let number = self.config.grid.sub_stream(times[from]);
            let to = from + self.of_one(number, &times[from..]);
            let groups = groups.map(|groups| &groups[from..to]);
            self.offer_of(now, number, &times[from..to], groups, |row, offer| tell(from + row, offer));
            from = to;
        }
    }

    /// How many rows at the beginning are of that sub-stream.
    fn of_one(&self, number: i64, times: &[i64]) -> usize {
        let (start, end) = self.config.grid.stretch(number);
        times.iter().position(|time| !(start..end).contains(time)).unwrap_or(times.len())
    }

    /// The same of rows of one sub-stream.
    fn offer_of(
        &mut self,
        now: i64,
        number: i64,
        times: &[i64],
        groups: Option<&[usize]>,
        mut tell: impl FnMut(usize, Offer),
    ) {
        let (_, end) = self.config.grid.stretch(number);
        if self.config.verifies {
            let group = |row: usize| groups.map_or(0, |groups| groups[row]);
            (0..times.len()).for_each(|row| self.verification.row(number, group(row) as u32));
        }
        let earliest = times.iter().copied().min().unwrap_or(now);
        self.latest = times.iter().copied().max().map_or(self.latest, |time| time.max(self.latest));
        self.longest_of_all = self.longest_of_all.max(now - earliest);
        let is_closed = end <= self.issued;
        let sub_stream = match is_closed {
            false => self.sub_streams.entry(number).or_default(),
            true => match self.sub_streams.get_mut(&number) {
                Some(sub_stream) => sub_stream,
                None => {
                    self.totals.rows_late += times.len() as u64;
                    (0..times.len()).for_each(|row| tell(row, Offer::Late { asked: false }));
                    return;
                }
            },
        };
        self.longest_lately = self.longest_lately.max(now - earliest);
        if sub_stream.glance_of == 0 {
            sub_stream.glance_of = ((self.rows.rows() / DELAYS_LOOKED_AT) as u32).max(1);
        }
        glance(sub_stream, &mut self.glances, now, times);
        sub_stream.rows += times.len() as f64;
        if sub_stream.closed.is_some() || is_closed {
            self.totals.rows_late += times.len() as u64;
            let expected = self.rows.rows() * 0.1;
            for row in 0..times.len() {
                let asked = !self.delayed.is_empty() && self.dice(ASKED / expected.max(ASKED));
                tell(row, Offer::Late { asked });
            }
            return;
        }
        sub_stream.seen += times.len() as f64;
        let window_end = self.config.grid.end_after(end - 1);
        self.first_end = Some(self.first_end.map_or(window_end, |first| first.min(window_end)));
        // What is asked only of groups that begin is dear, and runs of rows of one sub-stream are short where delays differ.
        let begins = match groups {
            Some(groups) => {
                groups.iter().any(|&group| sub_stream.cells.get(group).is_none_or(|cell| cell.seen == 0))
            }
            None => sub_stream.cells.is_empty(),
        };
        self.begun_engaged |= self.engaged && sub_stream.cells.is_empty();
        let plan = begins.then(|| self.plan(number, window_end));
        let tells_all = self.tells_all();
        let Aion { sub_streams, random, config, totals, .. } = self;
        let Some(SubStream { cells, .. }) = sub_streams.get_mut(&number) else { return };
        let begun = |group: usize, random: &mut Dice| {
            let history = self.groups.get(group).filter(|_| group < GROUPS_MAX);
            let spacing = match (plan, history) {
                (Some(plan), Some(history)) => spacing(config, plan, history),
                _ => 0.0,
            };
            let mut cell = Cell::new(spacing, self.delayed.len(), random.share());
            cell.kept.samples = vec![Arc::default(); self.delayed.len()];
            cell.kept.distinct.clone_from(&self.no_distinct);
            cell
        };
        let mut taken = 0;
        match groups {
            Some(groups) => {
                for (row, &group) in groups.iter().enumerate() {
                    if group >= cells.len() {
                        cells.resize_with(group + 1, Cell::default);
                    }
                    let cell = &mut cells[group];
                    let first = cell.seen == 0;
                    if first {
                        *cell = begun(group, random);
                    }
                    cell.seen += 1;
                    if cell.skip > 0 {
                        cell.skip -= 1;
                        if first || tells_all {
                            tell(row, Offer::Counted { first });
                        }
                    } else {
                        taken += 1;
                        cell.take(random);
                        tell(row, Offer::Taken { first });
                    }
                }
            }
            None => {
                if cells.is_empty() {
                    cells.push(begun(0, random));
                }
                let cell = &mut cells[0];
                let is_begun = cell.seen > 0;
                cell.seen += times.len() as u32;
                let mut row = cell.skip as usize;
                if !is_begun && row > 0 {
                    tell(0, Offer::Counted { first: true });
                }
                while row < times.len() {
                    taken += 1;
                    cell.take(random);
                    tell(row, Offer::Taken { first: !is_begun && row == 0 });
                    row += 1 + cell.skip as usize;
                }
                cell.skip = (row - times.len()) as u32;
            }
        }
        totals.rows_taken += taken;
    }

    /// One of the values of rows that were taken or asked for: `what` of the place among them; nothing is told of NULL.
    pub fn value(&mut self, now: i64, told: Told<'_>, value: usize, what: impl Fn(usize) -> Option<f64>) {
        let time_of = |at: usize| told.times[told.rows[at] as usize];
        let mut from = 0;
        while from < told.rows.len() {
            let number = self.config.grid.sub_stream(time_of(from));
            let (start, end) = self.config.grid.stretch(number);
            let to = (from..told.rows.len()).find(|&at| !(start..end).contains(&time_of(at)));
            let to = to.unwrap_or(told.rows.len());
            let mut sub_stream = self.sub_streams.get_mut(&number);
            for at in from..to {
                let Some(what) = what(at) else { continue };
                let group = told.groups.map_or(0, |groups| groups[told.rows[at] as usize]);
                if self.config.verifies {
                    self.verification.value(number, group as u32, value, what, self.keeps[value]);
                }
                if !told.offers[at].is_asked() {
                    continue;
                }
                if let Some(usual) = self.groups.get(group).filter(|history| history.rounds > 0) {
                    self.delayed[value].push(now - time_of(at), what - usual.mean(value));
                }
                let is_taken = matches!(told.offers[at], Offer::Taken { .. });
                let Some(sub_stream) = sub_stream.as_mut().filter(|_| is_taken) else { continue };
                if let Some(cell) = sub_stream.cells.get_mut(group) {
                    cell.values[value].push(what);
                    if self.keeps[value] {
                        Arc::make_mut(&mut cell.kept.samples[value]).push(what);
                    }
                }
            }
            from = to;
        }
    }

    /// One of the expressions whose distinct values are counted, of rows in time, whether they were taken or not: `what` of the
    /// place among them; nothing is told of NULL.
    pub fn distinct<'a>(&mut self, told: Told<'_>, which: usize, what: impl Fn(usize) -> Option<&'a [u8]>) {
        for (at, &row) in told.rows.iter().enumerate() {
            let Some(what) = what(at) else { continue };
            let row = row as usize;
            let number = self.config.grid.sub_stream(told.times[row]);
            let group = told.groups.map_or(0, |groups| groups[row]);
            if self.config.verifies {
                self.verification.distinct(number, group as u32, which, what);
            }
            if matches!(told.offers[at], Offer::Late { .. }) {
                continue;
            }
            let cells = self.sub_streams.get_mut(&number).map(|sub_stream| &mut sub_stream.cells);
            if let Some(cell) = cells.and_then(|cells| cells.get_mut(group)) {
                Arc::make_mut(&mut cell.kept.distinct[which]).insert(what);
            }
        }
    }

    fn tells_all(&self) -> bool {
        self.config.verifies || !self.no_distinct.is_empty()
    }

    /// As long as nothing more is learnt, it is the same for all rows of a sub-stream.
    fn plan(&mut self, number: i64, window_end: i64) -> Plan {
        let (learnt, engaged) = (self.matured, self.engaged);
        self.plans.retain(|plan| (plan.learnt, plan.engaged) == (learnt, engaged));
        if let Some(plan) = self.plans.iter().find(|plan| plan.number == number) {
            return *plan;
        }
        let (grid, rule) = (self.config.grid, self.config.rule);
        let mut plan =
            Plan { number, learnt, engaged, share: None, sub_streams: 1.0, missing_per_row: 0.0, doubt: 0.0 };
        if rule.samples() && engaged && self.is_warm(window_end) {
            let sub_streams = grid.sub_streams(window_end);
            let by_end = |number: i64| {
                let (start, end) = grid.stretch(number);
                self.delays.on_time_share(start, end, grid.end_after(end - 1))
            };
            plan.share = Some(1.0);
            plan.sub_streams = sub_streams as f64;
            if rule == Rule::Aion {
                plan.share = Some(by_end(number));
                let first = grid.sub_stream(grid.start_of(window_end));
                let shares = (first..first + sub_streams.min(SHARES_MAX)).map(by_end);
                let shares: Vec<f64> = shares.map(|p| p.max(SHARE_MIN)).collect();
                plan.missing_per_row = shares.iter().map(|p| (1.0 - p) / p).sum();
                let doubts = shares.iter().map(|p| self.doubt.of(1.0 - p).sqrt());
                plan.doubt = doubts.sum::<f64>() / shares.len() as f64;
            }
        }
        self.plans.push(plan);
        plan
    }

    pub(super) fn is_warm(&self, end: i64) -> bool {
        let window = u32::try_from(self.config.grid.sub_streams(end)).unwrap_or(u32::MAX);
        self.matured >= window.max(WARM_UP) && self.delays.observed() >= DELAYS_MIN
    }

    fn dice(&mut self, probability: f64) -> bool {
        self.random.share() < probability
    }
}

impl Cell {
    /// A row of it is taken.
    fn take(&mut self, random: &mut Dice) {
        self.taken += 1;
        if self.spacing > 0.0 {
            self.leave_out(random.share());
        }
    }
}

/// Looks at the delay of one row, any, of each block of so many.
fn glance(sub_stream: &mut SubStream, random: &mut Dice, now: i64, times: &[i64]) {
    let block = sub_stream.glance_of;
    let mut at = sub_stream.glance_in as usize;
    while at < times.len() {
        sub_stream.delays.push(now - times[at], f64::from(block));
        let next = if block > 1 { random.number() % block } else { 0 };
        at += 1 + (sub_stream.glance_left + next) as usize;
        sub_stream.glance_left = block - 1 - next;
    }
    sub_stream.glance_in = (at - times.len()) as u32;
}

/// Eq. 4.8 for a group of a sub-stream that begins, as the spacing of the rows that are taken.
fn spacing(config: &Config, plan: Plan, history: &GroupHistory) -> f64 {
    let Some(share) = plan.share else { return 0.0 };
    // What N̂ of the window will have for a deviation.
    let rows = history.rows() * plan.sub_streams;
    let by_chance = (history.rows() * plan.missing_per_row).sqrt();
    let deviation = if rows > 0.0 { by_chance / rows } else { 0.0 };
    let deviation = deviation.hypot(plan.doubt);
    let sample = history.sample(&config.aggregates, config.promise, plan.sub_streams, deviation);
    let Some((sample, _)) = sample else { return 0.0 };
    let theta = rate(sample / plan.sub_streams, history.rows_at_least() * share);
    if theta < 1.0 { -1.0 / (-theta).ln_1p() } else { 0.0 }
}
