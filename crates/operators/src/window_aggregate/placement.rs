//! Which slice a row belongs to and for which of its windows it came too late, judged by the watermark before that row;
//! quick where a whole batch has one answer.

use std::collections::HashMap;

use super::Windowing;
use super::parts::{ALL_WINDOWS, PartKey};

/// Finds the part of each row of a batch.
pub(super) struct Placer {
    windowing: Windowing,
    lateness_ms: i64,
    /// The first `used` are those of the current batch; the rest is kept for its allocations.
    slots: Vec<Slot>,
    used: usize,
    by_key: HashMap<PartKey, usize>,
    /// The part of the last batch that had only one: most likely the next batch's too.
    last: Option<Claim>,
    late_rows: Vec<u32>,
    late_ends: Vec<i64>,
}

/// Where a batch goes.
pub(super) enum Placed {
    /// All of it into one part.
    One(PartKey),
    /// As `slots` and `late` say.
    Many,
}

/// Some rows of a batch.
pub(super) enum Rows<'a> {
    /// Offset and length.
    Run(usize, usize),
    Scattered(&'a [u32]),
}

/// Rows of one part.
struct Slot {
    claim: Claim,
    rows: Vec<u32>,
}

/// A part and which rows belong to it. Ranges are half open.
#[derive(Clone, Copy)]
struct Claim {
    key: PartKey,
    /// Times, or the end of the window.
    first: (i64, i64),
    /// The start of the window, where windows are attached.
    second: Option<i64>,
    /// The watermark before the row.
    watermarks: (i64, i64),
}

/// The fate of one row.
enum Fate {
    Part(Claim),
    /// Dropped; the end of the last window it missed.
    Late(i64),
    /// In no window at all.
    Between,
}

impl Placer {
    pub(super) fn new(windowing: Windowing, lateness_ms: i64) -> Placer {
        Placer {
            windowing,
            lateness_ms,
            slots: Vec::new(),
            used: 0,
            by_key: HashMap::new(),
            last: None,
            late_rows: Vec::new(),
            late_ends: Vec::new(),
        }
    }

    /// Places rows. `first` and `second` are their time twice, or the end and start of their window; `before` is
    /// the source's watermark before each, `watermark` the operator's own, which may be ahead of it where an
    /// idle source came back.
    pub(super) fn place(
        &mut self,
        first: &[i64],
        second: &[i64],
        before: Option<&[i64]>,
        watermark: i64,
    ) -> Placed {
        if let Some(key) = self.place_together(first, second, before, watermark) {
            return Placed::One(key);
        }
        for slot in &mut self.slots[..self.used] {
            slot.rows.clear();
        }
        self.used = 0;
        self.by_key.clear();
        self.late_rows.clear();
        self.late_ends.clear();
        let mut at = 0;
        for row in 0..first.len() {
            let seen = before.map_or(watermark, |before| before[row].max(watermark));
            // Neighbours mostly belong together; disorder mostly spans a few slices.
            let recent = self.used.saturating_sub(4)..self.used;
            let takes =
                |&i: &usize| i < self.used && self.slots[i].claim.takes(first[row], second[row], seen);
            if let Some(found) = std::iter::once(at).chain(recent).find(takes) {
                at = found;
            } else {
                match self.fate(first[row], second[row], seen) {
                    Fate::Part(claim) => at = self.slot(claim),
                    Fate::Late(end) => {
                        self.late_rows.push(row as u32);
                        self.late_ends.push(end);
                        continue;
                    }
                    Fate::Between => continue,
                }
            }
            self.slots[at].rows.push(row as u32);
        }
        Placed::Many
    }

    /// Rows by part, after `Placed::Many`.
    pub(super) fn slots(&self) -> impl Iterator<Item = (PartKey, Rows<'_>)> {
        self.slots[..self.used].iter().filter_map(|slot| {
            let (&first, &last) = (slot.rows.first()?, slot.rows.last()?);
            let is_run = (last - first) as usize + 1 == slot.rows.len();
            let rows =
                if is_run { Rows::Run(first as usize, slot.rows.len()) } else { Rows::Scattered(&slot.rows) };
            Some((slot.claim.key, rows))
        })
    }

    /// Rows dropped and the ends of the last windows they missed, after `Placed::Many`.
    pub(super) fn late(&self) -> (&[u32], &[i64]) {
        (&self.late_rows, &self.late_ends)
    }

    /// The part of the whole batch, if it is one.
    fn place_together(
        &mut self,
        first: &[i64],
        second: &[i64],
        before: Option<&[i64]>,
        watermark: i64,
    ) -> Option<PartKey> {
        let (low, high) = range(first)?;
        let (start, start_high) = match self.windowing {
            Windowing::Sliced(_) => (low, low),
            Windowing::Attached => range(second)?,
        };
        let (seen, seen_high) = match before {
            None => (watermark, watermark),
            Some(before) => {
                let (low, high) = range(before)?;
                (low.max(watermark), high.max(watermark))
            }
        };
        if start != start_high {
            return None;
        }
        // A claim is a box: it takes all rows if it takes the lowest and the highest.
        let takes_all = |claim: &Claim| claim.takes(low, start, seen) && claim.takes(high, start, seen_high);
        if let Some(claim) = self.last.filter(takes_all) {
            return Some(claim.key);
        }
        let Fate::Part(claim) = self.fate(low, start, seen) else { return None };
        self.last = Some(claim);
        takes_all(&claim).then_some(claim.key)
    }

    fn fate(&self, first: i64, second: i64, seen: i64) -> Fate {
        // A window is closed when end - 1 + lateness <= watermark, that is end <= closed.
        let closed = seen.saturating_add(1).saturating_sub(self.lateness_ms);
        let open_until = |end: i64| end.saturating_sub(1).saturating_add(self.lateness_ms);
        match self.windowing {
            Windowing::Sliced(slicing) => {
                let slice = slicing.slice(first);
                let Some(last_end) = slicing.last_end(slice.0) else { return Fate::Between };
                let Some(first_open) = slicing.next_end(slice.0, closed) else { return Fate::Late(last_end) };
                let is_on_time = slicing.next_end(slice.0, i64::MIN) == Some(first_open);
                let (visible_from, since) =
                    if is_on_time { (ALL_WINDOWS, i64::MIN) } else { (first_open, seen) };
                Fate::Part(Claim {
                    key: PartKey { first: slice.0, second: visible_from },
                    first: slice,
                    second: None,
                    watermarks: (since, open_until(first_open)),
                })
            }
            Windowing::Attached if first <= closed => Fate::Late(first),
            Windowing::Attached => Fate::Part(Claim {
                key: PartKey { first, second },
                first: (first, first.saturating_add(1)),
                second: Some(second),
                watermarks: (i64::MIN, open_until(first)),
            }),
        }
    }

    fn slot(&mut self, claim: Claim) -> usize {
        let used = &mut self.used;
        let slots = &mut self.slots;
        *self.by_key.entry(claim.key).or_insert_with(|| {
            let at = *used;
            *used += 1;
            match slots.get_mut(at) {
                Some(slot) => slot.claim = claim,
                None => slots.push(Slot { claim, rows: Vec::new() }),
            }
            at
        })
    }
}

impl Claim {
    fn takes(&self, first: i64, second: i64, seen: i64) -> bool {
        self.first.0 <= first
            && first < self.first.1
            && self.second.is_none_or(|expected| expected == second)
            && self.watermarks.0 <= seen
            && seen < self.watermarks.1
    }
}

fn range(values: &[i64]) -> Option<(i64, i64)> {
    let low = *values.iter().min()?;
    let high = *values.iter().max()?;
    Some((low, high))
}
