//! Aion driven by a list of arrivals, each answer beside the exact one: what its tests and the figures of the thesis
//! are made with.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use laxity_graph::Approximation;

use super::aggregate::Aggregate;
use super::aion::{Aion, Config, Offer, Told};
use super::closed::Closed;
use super::interval::Estimate;
use super::moments::Moments;
use super::rule::Rule;
use super::stratum::Stratum;
use super::sums::Sums;

/// A row that reaches a stream.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Arrival {
    /// When, on the clock of event time, ms.
    pub at_ms: i64,
    /// When it happened, ms.
    pub time_ms: i64,
    /// Its group.
    pub group: u32,
    /// Value 0.
    pub value: f64,
}

/// What a window said of a group.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// The window's end, ms.
    pub end_ms: i64,
    /// When it answered, ms.
    pub at_ms: i64,
    /// The group.
    pub group: u32,
    /// By aggregate: what it said, and what is so.
    pub results: Vec<(Estimate, f64)>,
    /// Rows that were taken, of those in time, of all.
    pub taken: f64,
    /// See `taken`.
    pub seen: f64,
    /// See `taken`.
    pub rows: f64,
}

impl Answer {
    /// The largest error of its results, relative to what is so.
    pub fn error(&self) -> f64 {
        let errors = self.results.iter().map(|(estimate, exact)| match estimate.value == *exact {
            true => 0.0,
            false => ((estimate.value - exact) / exact).abs(),
        });
        errors.fold(0.0, f64::max)
    }

    /// The largest error that it owns to.
    pub fn said(&self) -> f64 {
        self.results.iter().map(|(estimate, _)| estimate.relative()).fold(0.0, f64::max)
    }
}

/// Lets rows arrive in order and windows answer, without a query around it: what figures and tests drive. A window answers
/// with what its rows are worth at that instant; computing takes no time.
pub fn replay(config: &Config, arrivals: &[Arrival]) -> (Vec<Answer>, Approximation) {
    let exact = Exact::of(config, arrivals);
    replay_beside(config, arrivals, &exact)
}

/// The same of several rules over the same rows, of which the exact answers are computed once.
pub fn replay_each(config: &Config, rules: &[Rule], arrivals: &[Arrival]) -> Vec<Vec<Answer>> {
    let exact = Exact::of(config, arrivals);
    let of_rule = |&rule| replay_beside(&Config { rule, ..config.clone() }, arrivals, &exact).0;
    rules.iter().map(of_rule).collect()
}

fn replay_beside(
    config: &Config,
    arrivals: &[Arrival],
    exact: &BTreeMap<(i64, u32), Exact>,
) -> (Vec<Answer>, Approximation) {
    let mut replay =
        Replay { aion: Aion::new(config.clone()), config, strata: BTreeMap::new(), answers: Vec::new() };
    let is_grouped = arrivals.iter().any(|row| row.group > 0);
    let mut rest = arrivals;
    while let Some(first) = rest.first() {
        let batch = rest.partition_point(|arrival| arrival.at_ms <= first.at_ms);
        replay.arrive(&rest[..batch], is_grouped);
        rest = &rest[batch..];
    }
    let last = arrivals.last().map_or(0, |arrival| arrival.at_ms);
    replay.aion.upstream(i64::MAX);
    replay.answer(last);
    let totals = replay.aion.totals();
    let mut answers = replay.answers;
    for answer in &mut answers {
        let exact = exact.get(&(answer.end_ms, answer.group)).cloned().unwrap_or_default();
        answer.rows = exact.moments.count;
        let mut whole = Closed::whole(exact.moments.count, vec![exact.moments]);
        whole.kept.samples = vec![Arc::new(exact.values)];
        for (aggregate, (_, so)) in config.aggregates.iter().zip(&mut answer.results) {
            *so = match aggregate {
                Aggregate::Distinct(_) => {
                    let bits = whole.kept.samples[0].iter().map(|value| value.to_bits());
                    bits.collect::<HashSet<_>>().len() as f64
                }
                _ => aggregate.estimate(&[&whole], config.promise).value,
            };
        }
    }
    (answers, totals)
}

/// A sub-stream and a group.
type Key = (i64, u32);

struct Replay<'a> {
    aion: Aion,
    config: &'a Config,
    /// By sub-stream and group.
    strata: BTreeMap<Key, Closed>,
    answers: Vec<Answer>,
}

impl Replay<'_> {
    /// These come together.
    fn arrive(&mut self, batch: &[Arrival], is_grouped: bool) {
        let Some(now) = batch.first().map(|first| first.at_ms) else { return };
        while let Some(wake) = self.aion.wake_at().filter(|&wake| wake <= now) {
            self.answer(wake);
        }
        self.aion.arrive(now);
        let times: Vec<i64> = batch.iter().map(|row| row.time_ms).collect();
        let groups: Vec<usize> = match is_grouped {
            true => batch.iter().map(|row| row.group as usize).collect(),
            false => Vec::new(),
        };
        let groups = is_grouped.then_some(&*groups);
        let is_sketched = self.config.aggregates.iter().any(|aggregate| aggregate.sketched().is_some());
        let (mut rows, mut offers) = (Vec::new(), Vec::new());
        let (mut in_time, mut in_time_offers) = (Vec::new(), Vec::new());
        self.aion.offer(now, &times, groups, |row, offer: Offer| {
            if offer.is_asked() {
                rows.push(row as u32);
                offers.push(offer);
            }
            if is_sketched && !matches!(offer, Offer::Late { .. }) {
                in_time.push(row as u32);
                in_time_offers.push(offer);
            }
        });
        let told = Told { rows: &rows, offers: &offers, times: &times, groups };
        self.aion.value(now, told, 0, |at| Some(batch[rows[at] as usize].value));
        if is_sketched {
            let value = |&row: &u32| batch[row as usize].value.to_le_bytes();
            let bytes: Vec<[u8; 8]> = in_time.iter().map(value).collect();
            let told = Told { rows: &in_time, offers: &in_time_offers, times: &times, groups };
            self.aion.distinct(told, 0, |at| Some(&bytes[at]));
        }
        self.answer(now);
    }

    fn answer(&mut self, now: i64) {
        let grid = self.config.grid;
        while let Some(end) = self.aion.due(now) {
            for closed in self.aion.close(end, now) {
                self.strata.insert((closed.sub_stream, closed.group), closed);
            }
            let (from, to) = (grid.sub_stream(grid.start_of(end)), grid.sub_stream(end - 1));
            let mut by_group: BTreeMap<u32, Vec<&Closed>> = BTreeMap::new();
            for (&(_, group), closed) in self.strata.range((from, 0)..=(to, u32::MAX)) {
                by_group.entry(group).or_default().push(closed);
            }
            for (group, strata) in by_group {
                let results = self
                    .config
                    .aggregates
                    .iter()
                    .map(|aggregate| (aggregate.estimate(&strata, self.config.promise), f64::NAN));
                let results = results.collect();
                let sum = |of: fn(&Stratum) -> f64| strata.iter().map(|closed| of(&closed.stratum)).sum();
                self.answers.push(Answer {
                    end_ms: end,
                    at_ms: now,
                    group,
                    results,
                    taken: sum(|stratum| stratum.taken),
                    seen: sum(|stratum| stratum.seen),
                    rows: 0.0,
                });
            }
            let needed_from = grid.sub_stream(grid.start_of(end + grid.step_ms));
            self.strata = self.strata.split_off(&(needed_from, 0));
        }
    }
}

/// Values of a window and group, all of them; one by one where moments are not enough.
#[derive(Clone, Debug, Default)]
struct Exact {
    moments: Moments,
    values: Vec<f64>,
}

impl Exact {
    /// By the window's end and the group.
    fn of(config: &Config, arrivals: &[Arrival]) -> BTreeMap<(i64, u32), Exact> {
        let grid = config.grid;
        let is_needed =
            |aggregate: &Aggregate| aggregate.kept_value().is_some() || aggregate.sketched().is_some();
        let keeps = config.aggregates.iter().any(is_needed);
        // By sub-stream first, of which each row is in one.
        let first = arrivals.iter().map(|row| grid.sub_stream(row.time_ms)).min().unwrap_or(0);
        let mut sub_streams: Vec<Vec<(Sums, Vec<f64>)>> = Vec::new();
        for row in arrivals {
            let (number, group) = ((grid.sub_stream(row.time_ms) - first) as usize, row.group as usize);
            if sub_streams.len() <= number {
                sub_streams.resize(number + 1, Vec::new());
            }
            let groups = &mut sub_streams[number];
            if groups.len() <= group {
                groups.resize(group + 1, Default::default());
            }
            let (sums, values) = &mut groups[group];
            sums.push(row.value);
            if keeps {
                values.push(row.value);
            }
        }
        let mut windows: BTreeMap<(i64, u32), Exact> = BTreeMap::new();
        for (groups, number) in sub_streams.into_iter().zip(first..) {
            let (start, sub_stream_end) = grid.stretch(number);
            for ((sums, values), group) in groups.into_iter().zip(0..) {
                let mut end = grid.end_after(sub_stream_end - 1);
                while sums.count() > 0.0 && grid.start_of(end) <= start {
                    let exact = windows.entry((end, group)).or_default();
                    exact.moments.merge(&sums.moments());
                    exact.values.extend(&values);
                    end += grid.step_ms;
                }
            }
        }
        windows
    }
}
