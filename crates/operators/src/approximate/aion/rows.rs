//! Rows as they come: which are taken, and what their values are. What is left out costs a count.

use std::sync::Arc;

use super::super::group_history::GroupHistory;
use super::super::sample_size::rate;
use super::super::sub_stream::{Cell, SubStream};
use super::cut::{Rows, each_sub_stream};
use super::dice::share;
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

/// Other seeds than that of the sample's dice.
const GLANCES: u64 = 0x9e37_79b9_7f4a_7c15;
const LATE: u64 = 0xd1b5_4a32_d192_ed03;

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
    /// Rows of those times and groups have come; `tell` hears what becomes of them, those of one sub-stream in turn, but not of
    /// those that are counted and not the first of their group, unless results are verified or distinct values counted. Without
    /// groups all are of group 0. The sub-streams they lie in: the first and the last, if there are rows.
    pub fn offer(
        &mut self,
        now: i64,
        times: &[i64],
        groups: Option<&[usize]>,
        mut tell: impl FnMut(usize, Offer),
    ) -> Option<(i64, i64)> {
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
        let mut marks = std::mem::take(&mut self.marks);
        let grid = self.config.grid;
        let span = each_sub_stream(grid, times, &mut marks, |number, rows| {
            self.offer_of(now, number, (times, groups, rows), &mut tell);
        });
        self.marks = marks;
        let (earliest, latest) = span?;
        self.latest = self.latest.max(latest);
        Some((grid.sub_stream(earliest), grid.sub_stream(latest)))
    }

    /// The same of rows of one sub-stream.
    fn offer_of(
        &mut self,
        now: i64,
        number: i64,
        (times, groups, rows): (&[i64], Option<&[usize]>, Rows<'_>),
        tell: &mut impl FnMut(usize, Offer),
    ) {
        let seed = self.config.seed;
        let (start, end) = self.config.grid.stretch(number);
        if self.config.verifies {
            let group = |row: usize| groups.map_or(0, |groups| groups[row]);
            rows.places().for_each(|row| self.verification.row(number, group(row) as u32));
        }
        // No row of it takes longer than one from its start would.
        let may_be_longest = now - start > self.longest_of_all.min(self.longest_lately);
        let longest = match may_be_longest {
            true => rows.places().map(|row| now - times[row]).max().unwrap_or(0),
            false => 0,
        };
        self.longest_of_all = self.longest_of_all.max(longest);
        let is_closed = end <= self.issued;
        let sub_stream = match is_closed {
            false => self.sub_streams.entry(number).or_default(),
            true => match self.sub_streams.get_mut(&number) {
                Some(sub_stream) => sub_stream,
                None => {
                    self.totals.rows_late += rows.len() as u64;
                    rows.places().for_each(|row| tell(row, Offer::Late { asked: false }));
                    return;
                }
            },
        };
        self.longest_lately = self.longest_lately.max(longest);
        if sub_stream.glance_of == 0 {
            sub_stream.glance_of = ((self.rows.rows() / DELAYS_LOOKED_AT) as u32).max(1);
        }
        let glance_dice = |throw| share(seed ^ GLANCES, number, 0, throw);
        glance(sub_stream, glance_dice, rows, |row| now - times[row]);
        let before = sub_stream.rows as u64;
        sub_stream.rows += rows.len() as f64;
        if sub_stream.closed.is_some() || is_closed {
            self.totals.rows_late += rows.len() as u64;
            let expected = self.rows.rows() * 0.1;
            for (row, throw) in rows.places().zip(before..) {
                let asked = !self.delayed.is_empty()
                    && share(seed ^ LATE, number, 0, throw) < ASKED / expected.max(ASKED);
                tell(row, Offer::Late { asked });
            }
            return;
        }
        sub_stream.seen += rows.len() as f64;
        let window_end = self.config.grid.end_after(end - 1);
        self.first_end = Some(self.first_end.map_or(window_end, |first| first.min(window_end)));
        let mut cells = std::mem::take(&mut sub_stream.cells);
        self.begun_engaged |= self.engaged && cells.is_empty();
        let taken = self.sample(number, window_end, &mut cells, (groups, rows), tell);
        self.totals.rows_taken += taken;
        if let Some(sub_stream) = self.sub_streams.get_mut(&number) {
            sub_stream.cells = cells;
        }
    }

    /// Throws for the rows of a sub-stream, each for its group. How many are taken.
    fn sample(
        &mut self,
        number: i64,
        window_end: i64,
        cells: &mut Vec<Cell>,
        (groups, rows): (Option<&[usize]>, Rows<'_>),
        tell: &mut impl FnMut(usize, Offer),
    ) -> u64 {
        let seed = self.config.seed;
        let tells_all = self.tells_all();
        let mut taken = 0;
        match groups {
            Some(groups) => {
                for row in rows.places() {
                    let group = groups[row];
                    if group >= cells.len() {
                        cells.resize_with(group + 1, Cell::default);
                    }
                    let cell = &mut cells[group];
                    let first = cell.seen == 0;
                    if first {
                        *cell = self.begun(number, window_end, group);
                    }
                    cell.seen += 1;
                    if cell.skip > 0 {
                        cell.skip -= 1;
                        if first || tells_all {
                            tell(row, Offer::Counted { first });
                        }
                    } else {
                        taken += 1;
                        cell.take(|throw| share(seed, number, group, throw));
                        tell(row, Offer::Taken { first });
                    }
                }
            }
            None => {
                if cells.is_empty() {
                    cells.push(self.begun(number, window_end, 0));
                }
                let cell = &mut cells[0];
                let is_begun = cell.seen > 0;
                cell.seen += rows.len() as u32;
                if let Some(row) = rows.places().next().filter(|_| !is_begun && cell.skip > 0) {
                    tell(row, Offer::Counted { first: true });
                }
                let mut places = rows.places();
                let mut at = cell.skip as usize;
                let mut first = !is_begun && at == 0;
                let mut next = places.nth(at);
                while let Some(row) = next {
                    taken += 1;
                    cell.take(|throw| share(seed, number, 0, throw));
                    tell(row, Offer::Taken { first });
                    first = false;
                    at += 1 + cell.skip as usize;
                    next = places.nth(cell.skip as usize);
                }
                cell.skip = (at - rows.len()) as u32;
            }
        }
        taken
    }

    /// A group of a sub-stream whose first row comes now.
    fn begun(&mut self, number: i64, window_end: i64, group: usize) -> Cell {
        let plan = self.plan(number, window_end);
        let history = self.groups.get(group).filter(|_| group < GROUPS_MAX);
        let spacing = history.map_or(0.0, |history| spacing(&self.config, plan, history));
        let mut cell = Cell::new(spacing, self.delayed.len(), share(self.config.seed, number, group, 0));
        cell.kept.samples = vec![Arc::default(); self.delayed.len()];
        cell.kept.distinct.clone_from(&self.no_distinct);
        self.kept_bytes += cell.kept.bytes();
        cell
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
                        let sample = Arc::make_mut(&mut cell.kept.samples[value]);
                        let before = sample.capacity();
                        sample.push(what);
                        self.kept_bytes += (sample.capacity() - before) * size_of::<f64>();
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
                let distinct = Arc::make_mut(&mut cell.kept.distinct[which]);
                let before = distinct.size();
                distinct.insert(what);
                self.kept_bytes = (self.kept_bytes + distinct.size()).saturating_sub(before);
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
}

impl Cell {
    /// A row of it is taken.
    fn take(&mut self, dice: impl Fn(u64) -> f64) {
        self.taken += 1;
        if self.spacing > 0.0 {
            self.leave_out(dice(u64::from(self.taken)));
        }
    }
}

/// Looks at the delay of one row, any, of each block of so many.
fn glance(
    sub_stream: &mut SubStream,
    dice: impl Fn(u64) -> f64,
    rows: Rows<'_>,
    delay_ms: impl Fn(usize) -> i64,
) {
    let block = sub_stream.glance_of;
    let before = sub_stream.rows as u64;
    let (mut places, mut at) = (rows.places(), sub_stream.glance_in as usize);
    let mut next = places.nth(at);
    while let Some(row) = next {
        sub_stream.delays.push(delay_ms(row), f64::from(block));
        let in_block = (dice(before + at as u64) * f64::from(block)) as u32;
        let skip = (sub_stream.glance_left + in_block) as usize;
        at += 1 + skip;
        sub_stream.glance_left = block - 1 - in_block;
        next = places.nth(skip);
    }
    sub_stream.glance_in = (at - rows.len()) as u32;
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
