//! Which rows of each key count for the next.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Int64Array, UInt32Array, UInt64Array};
use arrow::datatypes::{Int64Type, UInt64Type};

use super::OverFrame;
use crate::chunked::{Chunked, Handed};
use crate::state::{self, NamedColumn, Part, lists, named};

/// Of each key.
pub(super) type ByKey<T> = Chunked<T, KEYS_IN_CHUNK>;

/// The same as it was.
pub(super) type HandedByKey<T> = Handed<T, KEYS_IN_CHUNK>;

/// A copy is an allocation or several for each.
const KEYS_IN_CHUNK: usize = if cfg!(test) { 4 } else { 128 };

/// Which rows of each key count for the next one.
pub(super) struct Frames {
    frame: OverFrame,
    by_key: ByKey<Frame>,
    /// Times kept in all of `by_key`.
    entries: usize,
    /// Spare: the last row of each key within one time, by key.
    last: Vec<u32>,
}

#[derive(Clone)]
struct Frame {
    /// Of a bounded RANGE, the times of the rows that count, ascending.
    times: VecDeque<i64>,
    /// Of bounded ROWS, how many count.
    rows: u64,
    /// Time of the last row taken, or a later one at which a timer of Flink's went off.
    taken: i64,
    /// Of a bounded RANGE, the watermark at which the key is forgotten.
    forgotten_at: Option<i64>,
    /// What was `forgotten_at` before rows moved it on, later than the watermark. Ascending.
    superseded: VecDeque<i64>,
    /// Of the rows that wait, those whose time is later than of all that are due before: when they are due, and their
    /// time. Both ascend.
    waiting: VecDeque<(i64, i64)>,
    /// Rows that are due from then on count without those before, which had been forgotten when they came. Ascending.
    anew_from: Vec<i64>,
}

/// What aggregates do with rows that are taken in order.
pub(super) struct Steps<'a> {
    /// Number of each row's key.
    pub(super) keys: &'a [u32],
    /// How many keys there are.
    pub(super) key_count: usize,
    /// How many of the key's oldest rows stop to count before each row does. `None`: none ever does, and values need
    /// not be kept.
    pub(super) expired: Option<Vec<u32>>,
    /// The row whose result is each row's: the last of its time and key. `None`: the row itself.
    pub(super) result_of: Option<UInt32Array>,
}

impl Default for Frame {
    fn default() -> Frame {
        Frame {
            times: VecDeque::new(),
            rows: 0,
            taken: i64::MIN,
            forgotten_at: None,
            superseded: VecDeque::new(),
            waiting: VecDeque::new(),
            anew_from: Vec::new(),
        }
    }
}

impl Frame {
    fn is_forgotten(&self, watermark: i64) -> bool {
        self.forgotten_at.is_some_and(|at| watermark >= at)
    }

    /// What Flink's timers have done up to a watermark. One that forgets the key, but was superseded, still counts as
    /// the time of a row that was taken.
    fn go_on_to(&mut self, seen: i64) {
        if self.is_forgotten(seen) {
            self.forgotten_at = None;
            self.superseded.clear();
            self.taken = i64::MIN;
            while self.waiting.front().is_some_and(|(due, _)| *due <= seen) {
                self.waiting.pop_front();
            }
            self.anew_from.push(seen.saturating_add(1));
        }
        while let Some(at) = self.superseded.pop_front_if(|at| *at <= seen) {
            self.taken = self.taken.max(at);
        }
    }

    /// As Flink sets the timer that forgets: half as long again as the row counts, moved on only by a row that would
    /// count beyond it.
    fn remember(&mut self, time: i64, preceding_ms: i64) {
        let needed = time.saturating_add(preceding_ms).saturating_add(1);
        if self.forgotten_at.is_none_or(|at| at < needed) {
            self.superseded.extend(self.forgotten_at);
            self.forgotten_at = Some(time.saturating_add(longest_memory_ms(preceding_ms)));
        }
    }

    /// The latest time of the rows that are due at a watermark which is not below that of the last step.
    fn last_due(&self, watermark: i64) -> i64 {
        let due = self.waiting.partition_point(|(due, _)| *due <= watermark);
        due.checked_sub(1).map_or(self.taken, |last| self.taken.max(self.waiting[last].1))
    }

    fn wait(&mut self, due: i64, time: i64) {
        let at = self.waiting.partition_point(|(before, _)| *before <= due);
        if at > 0 && self.waiting[at - 1].1 >= time {
            return;
        }
        let behind = self.waiting.iter().skip(at).take_while(|(_, later)| *later <= time).count();
        if behind == 0 && at == self.waiting.len() {
            self.waiting.push_back((due, time));
            return;
        }
        let rest = self.waiting.split_off(at);
        self.waiting.push_back((due, time));
        self.waiting.extend(rest.into_iter().skip(behind));
    }

    fn take(&mut self, due: i64, time: i64) {
        // What is due before the key was forgotten says nothing of what comes after.
        if self.anew_from.is_empty() {
            self.taken = self.taken.max(time);
        }
        while self.waiting.front().is_some_and(|(waiting, _)| *waiting <= due) {
            self.waiting.pop_front();
        }
    }
}

fn longest_memory_ms(preceding_ms: i64) -> i64 {
    preceding_ms.saturating_add(preceding_ms / 2).saturating_add(1)
}

impl Frames {
    pub(super) fn new(frame: OverFrame) -> Frames {
        Frames { frame, by_key: ByKey::default(), entries: 0, last: Vec::new() }
    }

    /// Whether rows of one time count for each other.
    pub(super) fn has_peers(&self) -> bool {
        matches!(self.frame, OverFrame::Range { .. })
    }

    /// Makes room for so many keys.
    pub(super) fn resize(&mut self, keys: usize) {
        self.by_key.grow_with(keys, Frame::default);
    }

    /// Whether a row, which is behind the watermark `seen`, comes too late. As in Flink: always, where all rows before
    /// count; otherwise if a row of its key and of its time or a later one has been taken, or a timer of the key has
    /// gone off then. Where the key has been forgotten meanwhile, the row counts as its first.
    pub(super) fn is_late(&mut self, key: u32, time: i64, seen: i64) -> bool {
        if !self.is_bounded() {
            return true;
        }
        let frame = self.by_key.get_mut(key as usize);
        frame.go_on_to(seen);
        time <= frame.last_due(seen)
    }

    /// Takes a row that came when the watermark was `seen`, and waits until it is `due`.
    pub(super) fn accept(&mut self, key: u32, time: i64, due: i64, seen: i64) {
        if !self.is_bounded() {
            return;
        }
        let frame = self.by_key.get_mut(key as usize);
        if let OverFrame::Range { preceding_ms: Some(ms) } = self.frame {
            frame.go_on_to(seen);
            frame.remember(time, ms);
        }
        frame.wait(due, time);
    }

    /// Takes note of a row that waits.
    pub(super) fn wait(&mut self, key: u32, time: i64, due: i64) {
        if self.is_bounded() {
            self.by_key.get_mut(key as usize).wait(due, time);
        }
    }

    fn is_bounded(&self) -> bool {
        match self.frame {
            OverFrame::Rows { preceding } => preceding.is_some(),
            OverFrame::Range { preceding_ms } => preceding_ms.is_some(),
        }
    }

    /// How long a key is remembered behind its last row at most. `None`: for ever.
    pub(super) fn memory_ms(&self) -> Option<i64> {
        match self.frame {
            OverFrame::Range { preceding_ms: Some(ms) } => Some(longest_memory_ms(ms)),
            _ => None,
        }
    }

    /// Takes rows, in order.
    pub(super) fn step<'a>(&mut self, keys: &'a [u32], times: &[i64], due: &[i64]) -> Steps<'a> {
        let expired = match self.frame {
            OverFrame::Rows { preceding: Some(preceding) } => {
                Some(self.step_rows(keys, times, due, preceding))
            }
            OverFrame::Range { preceding_ms: Some(ms) } => Some(self.step_range(keys, times, due, ms)),
            _ => None,
        };
        let result_of = if self.has_peers() { self.last_peers(keys, times, due) } else { None };
        Steps { keys, key_count: self.by_key.len(), expired, result_of }
    }

    fn step_rows(&mut self, keys: &[u32], times: &[i64], due: &[i64], preceding: u64) -> Vec<u32> {
        let step = |((&key, &time), &due): ((&u32, &i64), &i64)| {
            let frame = self.by_key.get_mut(key as usize);
            frame.take(due, time);
            let is_full = frame.rows > preceding;
            frame.rows += u64::from(!is_full);
            u32::from(is_full)
        };
        keys.iter().zip(times).zip(due).map(step).collect()
    }

    fn step_range(&mut self, keys: &[u32], times: &[i64], due: &[i64], preceding_ms: i64) -> Vec<u32> {
        let entries = &mut self.entries;
        let step = |((&key, &time), &due): ((&u32, &i64), &i64)| {
            let frame = self.by_key.get_mut(key as usize);
            let before = frame.times.len();
            while frame.anew_from.first().is_some_and(|from| *from <= due) {
                frame.anew_from.remove(0);
                frame.times.clear();
            }
            frame.take(due, time);
            let oldest = time.saturating_sub(preceding_ms);
            while frame.times.front().is_some_and(|first| *first < oldest) {
                frame.times.pop_front();
            }
            let expired = before - frame.times.len();
            frame.times.push_back(time);
            *entries = *entries + 1 - expired;
            expired as u32
        };
        keys.iter().zip(times).zip(due).map(step).collect()
    }

    /// `None` if each row is the last of its time and key.
    fn last_peers(&mut self, keys: &[u32], times: &[i64], due: &[i64]) -> Option<UInt32Array> {
        // A row of a forgotten key may have the time of one that is out.
        let at = |row: usize| (due[row], times[row]);
        if (1..keys.len()).all(|row| at(row) != at(row - 1)) {
            return None;
        }
        self.last.resize(self.by_key.len(), 0);
        let mut result_of = vec![0; keys.len()];
        let mut end = keys.len();
        while end > 0 {
            let start = (0..end).rposition(|row| at(row) != at(end - 1)).map_or(0, |row| row + 1);
            for (row, &key) in (start..).zip(&keys[start..end]) {
                self.last[key as usize] = row as u32;
            }
            for (result, &key) in result_of[start..end].iter_mut().zip(&keys[start..end]) {
                *result = self.last[key as usize];
            }
            end = start;
        }
        Some(UInt32Array::from(result_of))
    }

    /// The keys that are not forgotten, or have rows waiting.
    pub(super) fn kept(&self, watermark: i64, waiting: impl Iterator<Item = u32>) -> Vec<u32> {
        let mut is_kept: Vec<bool> = self.by_key.iter().map(|frame| !frame.is_forgotten(watermark)).collect();
        waiting.for_each(|key| is_kept[key as usize] = true);
        (0..is_kept.len() as u32).filter(|key| is_kept[*key as usize]).collect()
    }

    /// Leaves these keys only, numbered anew.
    pub(super) fn keep(&mut self, kept: &[u32]) {
        self.by_key.keep(kept);
        self.entries = self.by_key.iter().map(|frame| frame.times.len()).sum();
        self.last = Vec::new();
    }

    /// As they are now: as many as [`resize`](Frames::resize) has made room for.
    pub(super) fn hand_out(&mut self) -> HandedFrames {
        HandedFrames(self.by_key.hand_out())
    }

    /// Takes over some keys more.
    pub(super) fn restore(&mut self, part: &Part) -> state::Result<()> {
        let (rows, taken) = (part.values::<UInt64Type>("rows")?, part.values::<Int64Type>("taken")?);
        let (times, anew) = (part.lists::<Int64Type>("times")?, part.lists::<Int64Type>("anew-from")?);
        let forgotten_at = part.optional::<Int64Type>("forgotten-at")?;
        let superseded = part.lists::<Int64Type>("superseded")?;
        let timers = forgotten_at.iter().zip(&superseded);
        self.entries += times.iter().map(|times| times.len()).sum::<usize>();
        let frames = rows.iter().zip(&taken).zip(times.iter().zip(&anew)).zip(timers);
        self.by_key.extend(frames.map(|(((&rows, &taken), (times, anew)), (forgotten_at, superseded))| {
            Frame {
                times: times.iter().copied().collect(),
                rows,
                taken,
                forgotten_at,
                superseded: superseded.iter().copied().collect(),
                waiting: VecDeque::new(),
                anew_from: anew.to_vec(),
            }
        }));
        Ok(())
    }

    /// How many rows of a bounded frame each key from that one on has; none where all count.
    pub(super) fn lengths(&self, from: usize) -> impl Iterator<Item = usize> {
        let is_range = self.has_peers();
        let frames = (from..self.by_key.len()).map(|key| self.by_key.get(key));
        frames.map(move |frame| if is_range { frame.times.len() } else { frame.rows as usize })
    }

    pub(super) fn bytes(&self) -> usize {
        self.by_key.bytes() + 2 * self.entries * size_of::<i64>()
    }
}

/// Frames as they were.
pub(super) struct HandedFrames(HandedByKey<Frame>);

impl HandedFrames {
    /// A row for each of these keys.
    pub(super) fn columns(&self, keys: Range<usize>) -> Vec<NamedColumn> {
        let frames = || self.0.range(keys.clone());
        let times = Int64Array::from_iter_values(frames().flat_map(|frame| frame.times.iter().copied()));
        let anew = Int64Array::from_iter_values(frames().flat_map(|frame| frame.anew_from.iter().copied()));
        let superseded = frames().flat_map(|frame| frame.superseded.iter().copied());
        let superseded = Int64Array::from_iter_values(superseded);
        vec![
            named("rows", UInt64Array::from_iter_values(frames().map(|frame| frame.rows))),
            named("taken", Int64Array::from_iter_values(frames().map(|frame| frame.taken))),
            named("forgotten-at", frames().map(|frame| frame.forgotten_at).collect::<Int64Array>()),
            ("times".into(), lists(frames().map(|frame| frame.times.len()), Arc::new(times))),
            ("superseded".into(), lists(frames().map(|frame| frame.superseded.len()), Arc::new(superseded))),
            ("anew-from".into(), lists(frames().map(|frame| frame.anew_from.len()), Arc::new(anew))),
        ]
    }
}
