//! The state of a windowed aggregation: slices of time, and what is merged of them.

pub(crate) mod saved;
mod sealed;

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, VecDeque};
use std::ops::{Bound, Range};
use std::sync::Arc;

use datafusion_common::{DataFusionError, internal_err};
use laxity_graph::{EventTime, ProcessingTime};

use super::{Window, Windowing};
use crate::groups::{Aggregation, Filling, Groups, Partial, Taken};
use crate::slices::Slicing;
use sealed::Sealed;

/// Rows that every window sees alike.
///
/// Sliced: `first` is the slice's start, `second` the end of the first window that sees these rows, or
/// [`ALL_WINDOWS`]. A row that was late for the first windows of its slice must stay invisible to them even when
/// they have not been sent yet, or results would depend on how rows are cut into batches.
///
/// Attached: end and start of the window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct PartKey {
    pub(super) first: i64,
    pub(super) second: i64,
}

/// As `PartKey::second`: on time for every window. Sorts before every end.
pub(super) const ALL_WINDOWS: i64 = i64::MIN;

/// A run of `2^level` slices, aligned to a multiple of its length.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct NodeKey {
    /// Index of the first slice.
    start: i128,
    level: u32,
}

/// A window of fewer parts than this is merged part by part. Below it a tree of merged runs costs more than it
/// saves: about two new nodes per slide and log2 of the parts to merge.
const TREE_PARTS_MIN: usize = 9;

/// The state of a windowed aggregation, from which windows are put together.
pub(super) struct Parts {
    windowing: Windowing,
    lateness_ms: i64,
    parts: BTreeMap<PartKey, Part>,
    /// Merged runs of slices, shared by the windows that contain them (a segment tree). Complete slices only, and
    /// those take no more rows: a part takes rows until the first window that sees it is sent.
    nodes: BTreeMap<NodeKey, Arc<Partial>>,
    /// The last window sent, or a mark past all that the watermark has closed.
    sent: Window,
    /// Watermarks below this end no window and let nothing be forgotten.
    wakes_at: i64,
    /// Of everything sealed.
    sealed_bytes: usize,
}

struct Part {
    filling: Option<Filling>,
    /// More than one only where late rows are allowed.
    sealed: Vec<Sealed>,
    /// The latest ingestion among its rows.
    ingested: ProcessingTime,
}

type Result<T> = std::result::Result<T, DataFusionError>;

/// A merge.
pub(super) struct Task {
    pub(super) inputs: Vec<Input>,
    /// Where the result goes: a run of slices, or the window.
    pub(super) output: Option<NodeKey>,
}

/// What a task merges.
pub(super) enum Input {
    Ready(Arc<Partial>),
    /// A run of slices that exists, or that a task before this one makes.
    Node(NodeKey),
}

/// What makes a window of the parts that have seen it.
pub(super) struct Merges {
    pub(super) ingested: ProcessingTime,
    /// Each after those it needs. The last makes the window.
    pub(super) tasks: VecDeque<Task>,
    /// The window's groups before the last, if there is more than merging to do.
    pub(super) begun: Option<Groups>,
}

impl Parts {
    pub(super) fn new(windowing: Windowing, lateness_ms: i64) -> Parts {
        Parts {
            windowing,
            lateness_ms,
            parts: BTreeMap::new(),
            nodes: BTreeMap::new(),
            sent: Window { end: i64::MIN, start: i64::MIN },
            wakes_at: i64::MAX,
            sealed_bytes: 0,
        }
    }

    /// Adds rows to a part.
    pub(super) fn update(
        &mut self,
        key: PartKey,
        aggregation: &Aggregation,
        taken: Taken<'_>,
        rows: Range<usize>,
        ingested: ProcessingTime,
        scratch: &mut Vec<usize>,
    ) -> Result<()> {
        self.filling(key, aggregation, ingested)?.update(taken, rows, scratch)
    }

    /// Adds groups of a slice that begins then, whose rows are in time for every window.
    pub(super) fn merge(
        &mut self,
        start_ms: i64,
        aggregation: &Aggregation,
        partial: &Partial,
        ingested: ProcessingTime,
        scratch: &mut Vec<usize>,
    ) -> Result<()> {
        let Windowing::Sliced(slicing) = self.windowing else {
            return internal_err!("windows that rows bring with them have no slices");
        };
        let (first, _) = slicing.slice(start_ms);
        // Between two hops.
        if slicing.last_end(first).is_none() {
            return Ok(());
        }
        let key = PartKey { first, second: ALL_WINDOWS };
        self.filling(key, aggregation, ingested)?.merge(partial, 0..partial.len, scratch)
    }

    /// The groups of a part that still take rows.
    fn filling(
        &mut self,
        key: PartKey,
        aggregation: &Aggregation,
        ingested: ProcessingTime,
    ) -> Result<&mut Groups> {
        let part = match self.parts.entry(key) {
            Entry::Occupied(entry) => entry.into_mut(),
            Entry::Vacant(entry) => {
                let end = next_end(self.windowing, self.sent, key);
                self.wakes_at = self.wakes_at.min(end.map_or(i64::MIN, last_ms));
                entry.insert(Part { filling: None, sealed: Vec::new(), ingested })
            }
        };
        part.ingested = part.ingested.max(ingested);
        let filling = match &mut part.filling {
            Some(filling) => filling,
            none => none.insert(Filling::Groups(aggregation.groups()?)),
        };
        filling.groups(aggregation)
    }

    /// Whether a part is of a slice that has ended at this watermark.
    pub(super) fn has_ended(&self, watermark: EventTime) -> bool {
        let first = self.parts.keys().next();
        first.is_some_and(|key| is_closed(end_of_part(self.windowing, *key), 0, watermark))
    }

    /// Takes out what is filled of slices that have ended at this watermark: when each began, and when the latest of its rows
    /// was ingested.
    pub(super) fn take_ended(
        &mut self,
        watermark: EventTime,
        aggregation: &Aggregation,
    ) -> Result<Vec<(i64, Groups, ProcessingTime)>> {
        let mut ended = Vec::new();
        while let Some(entry) = self.parts.first_entry() {
            if !is_closed(end_of_part(self.windowing, *entry.key()), 0, watermark) {
                break;
            }
            let (key, part) = entry.remove_entry();
            if let Some(filling) = part.filling {
                ended.push((key.first, filling.into_groups(aggregation)?, part.ingested));
            }
        }
        Ok(ended)
    }

    /// The earliest window that `watermark` closes and that was not sent yet. Empty windows are skipped.
    pub(super) fn next_window(&self, watermark: EventTime) -> Option<Window> {
        self.next_unsent().filter(|window| is_closed(window.end, 0, watermark))
    }

    fn next_unsent(&self) -> Option<Window> {
        match self.windowing {
            Windowing::Attached => {
                let sent = PartKey { first: self.sent.end, second: self.sent.start };
                let (key, _) = self.parts.range((Bound::Excluded(sent), Bound::Unbounded)).next()?;
                Some(Window { end: key.first, start: key.second })
            }
            Windowing::Sliced(slicing) => {
                let mut end = None;
                for &key in self.parts.keys() {
                    let next = next_end(self.windowing, self.sent, key);
                    end = end.into_iter().chain(next).min();
                    // Slices are in order, and so are the ends of the windows that see all of them.
                    if key.second == ALL_WINDOWS && next.is_some() {
                        break;
                    }
                }
                end.map(|end| Window { end, start: slicing.window_start(end) })
            }
        }
    }

    /// Windows already sent that see part `key` and that late rows may still change.
    pub(super) fn sent_windows(&self, key: PartKey, watermark: EventTime) -> Vec<Window> {
        if self.lateness_ms == 0 {
            return Vec::new();
        }
        match self.windowing {
            Windowing::Attached if is_closed(key.first, 0, watermark) => {
                vec![Window { end: key.first, start: key.second }]
            }
            Windowing::Attached => Vec::new(),
            Windowing::Sliced(slicing) => {
                let first = slicing.next_end(key.first, key.second.saturating_sub(1));
                std::iter::successors(first, |&end| slicing.next_end(key.first, end))
                    .take_while(|&end| is_closed(end, 0, watermark))
                    .map(|end| Window { end, start: slicing.window_start(end) })
                    .collect()
            }
        }
    }

    /// What makes a window, which is to be sent now, again or for the first time.
    pub(super) fn merges(
        &mut self,
        window: Window,
        is_first: bool,
        aggregation: &Aggregation,
    ) -> Result<Merges> {
        if is_first {
            self.sent = window;
        }
        let mut keys = Vec::new();
        let mut ingested = ProcessingTime::ZERO;
        for (&key, part) in self.seen_by(window) {
            keys.push(key);
            ingested = ingested.max(part.ingested);
        }
        let mut tasks = VecDeque::new();
        let mut inputs = Vec::new();
        let mut begun = None;
        match (self.windowing, keys.as_slice()) {
            (_, &[only]) if self.is_last_use(only, window) => {
                // Nothing else needs its rows: no merge, no copy.
                if let Some(part) = self.parts.remove(&only) {
                    self.sealed_bytes -= part.sealed.iter().map(Sealed::bytes).sum::<usize>();
                    begun = part.filling.map(|filling| filling.into_groups(aggregation)).transpose()?;
                    inputs.extend(part.sealed.into_iter().map(|sealed| Input::Ready(sealed.partial)));
                }
            }
            (Windowing::Sliced(slicing), keys) if keys.len() >= TREE_PARTS_MIN && self.lateness_ms == 0 => {
                for &key in keys {
                    self.seal(key)?;
                }
                self.plan_runs(slicing, window, &mut tasks, &mut inputs);
                let late = keys.iter().filter(|key| key.second != ALL_WINDOWS);
                inputs.extend(late.flat_map(|key| self.ready(*key)));
            }
            (_, keys) => {
                for &key in keys {
                    self.seal(key)?;
                    inputs.extend(self.ready(key));
                }
            }
        }
        tasks.push_back(Task { inputs, output: None });
        Ok(Merges { ingested, tasks, begun })
    }

    fn seen_by(&self, window: Window) -> impl Iterator<Item = (&PartKey, &Part)> {
        let range = match self.windowing {
            Windowing::Attached => {
                let key = PartKey { first: window.end, second: window.start };
                (Bound::Included(key), Bound::Included(key))
            }
            Windowing::Sliced(_) => {
                let bound = |first| PartKey { first, second: ALL_WINDOWS };
                (Bound::Included(bound(window.start)), Bound::Excluded(bound(window.end)))
            }
        };
        let is_sliced = matches!(self.windowing, Windowing::Sliced(_));
        self.parts.range(range).filter(move |(key, _)| !is_sliced || key.second <= window.end)
    }

    fn is_last_use(&self, key: PartKey, window: Window) -> bool {
        let last_end = match self.windowing {
            Windowing::Attached => Some(key.first),
            Windowing::Sliced(slicing) => slicing.last_end(key.first),
        };
        self.lateness_ms == 0 && last_end == Some(window.end)
    }

    fn seal(&mut self, key: PartKey) -> Result<()> {
        if let Some(part) = self.parts.get_mut(&key)
            && let Some(filling) = part.filling.take()
        {
            let partial = filling.seal()?;
            self.sealed_bytes += partial.bytes;
            part.sealed.push(Sealed::new(partial));
        }
        Ok(())
    }

    fn ready(&self, key: PartKey) -> impl Iterator<Item = Input> + use<> {
        let sealed = self.parts.get(&key).map(|part| part.sealed.clone());
        sealed.unwrap_or_default().into_iter().map(|sealed| Input::Ready(sealed.partial))
    }

    /// Covers the slices of a window with as few merged runs as there are, planning those that are missing.
    fn plan_runs(
        &self,
        slicing: Slicing,
        window: Window,
        tasks: &mut VecDeque<Task>,
        inputs: &mut Vec<Input>,
    ) {
        let mut start = slicing.index(window.start);
        let end = slicing.index(window.end);
        while start < end {
            let mut level = 0;
            while start.rem_euclid(2 << level) == 0 && start + (2 << level) <= end {
                level += 1;
            }
            inputs.extend(self.plan_run(slicing, NodeKey { start, level }, tasks));
            start += 1 << level;
        }
    }

    fn plan_run(&self, slicing: Slicing, key: NodeKey, tasks: &mut VecDeque<Task>) -> Vec<Input> {
        if self.nodes.contains_key(&key) || tasks.iter().any(|task| task.output == Some(key)) {
            return vec![Input::Node(key)];
        }
        let bound = |index| PartKey { first: slicing.start_of(index), second: ALL_WINDOWS };
        let slices = self.parts.range(bound(key.start)..bound(key.start + (1 << key.level)));
        let mut slices = slices.filter(|(key, _)| key.second == ALL_WINDOWS).map(|(&key, _)| key);
        match (slices.next(), slices.next()) {
            (None, _) => Vec::new(),
            (Some(only), None) => self.ready(only).collect(),
            _ => {
                let level = key.level - 1;
                let mut halves = self.plan_run(slicing, NodeKey { start: key.start, level }, tasks);
                let right = NodeKey { start: key.start + (1 << level), level };
                halves.extend(self.plan_run(slicing, right, tasks));
                if halves.len() > 1 {
                    tasks.push_back(Task { inputs: halves, output: Some(key) });
                    return vec![Input::Node(key)];
                }
                halves
            }
        }
    }

    /// A merged run that was planned before.
    pub(super) fn node(&self, key: NodeKey) -> Option<Arc<Partial>> {
        self.nodes.get(&key).cloned()
    }

    pub(super) fn add_node(&mut self, key: NodeKey, partial: Partial) {
        self.sealed_bytes += partial.bytes;
        self.nodes.insert(key, Arc::new(partial));
    }

    /// Forgets the parts that no window to come sees.
    pub(super) fn prune(&mut self, watermark: EventTime) {
        while let Some(entry) = self.parts.first_entry() {
            let key = entry.key();
            let last_end = end_of_part(self.windowing, *key);
            let was_sent = match self.windowing {
                Windowing::Attached => Window { end: key.first, start: key.second } <= self.sent,
                Windowing::Sliced(_) => last_end <= self.sent.end,
            };
            if !was_sent || !is_closed(last_end, self.lateness_ms, watermark) {
                break;
            }
            let part = entry.remove();
            self.sealed_bytes -= part.sealed.iter().map(Sealed::bytes).sum::<usize>();
        }
        if let Windowing::Sliced(slicing) = self.windowing {
            let first = self.parts.keys().next().map(|key| slicing.index(key.first));
            while let Some(entry) = self.nodes.first_entry() {
                if first.is_some_and(|first| entry.key().start >= first) {
                    break;
                }
                self.sealed_bytes -= entry.remove().bytes;
            }
        }
    }

    /// Lets a watermark by that ends no window, which is most of them where messages are small. Returns whether it
    /// did; if not, windows are to be sent.
    pub(super) fn pass(&mut self, watermark: EventTime) -> bool {
        if watermark.0 >= self.wakes_at {
            return false;
        }
        self.sent = self.sent.max(closed_by(watermark));
        true
    }

    /// Notes that all windows closed by `watermark` were sent.
    pub(super) fn close(&mut self, watermark: EventTime) {
        self.sent = self.sent.max(closed_by(watermark));
        self.prune(watermark);
        self.wakes_at = if self.parts.is_empty() {
            i64::MAX
        } else if self.lateness_ms > 0 {
            // What late rows may still change is forgotten at times of its own.
            i64::MIN
        } else {
            self.next_unsent().map_or(i64::MIN, |window| last_ms(window.end))
        };
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.parts.is_empty() && self.nodes.is_empty() && self.sealed_bytes == 0
    }

    pub(super) fn bytes(&self) -> usize {
        let filling = self.parts.values().filter_map(|part| part.filling.as_ref());
        self.sealed_bytes + filling.map(Filling::bytes).sum::<usize>() + self.parts.len() * size_of::<Part>()
    }
}

/// End of the first window that sees part `key` and comes after `sent`.
fn next_end(windowing: Windowing, sent: Window, key: PartKey) -> Option<i64> {
    match windowing {
        Windowing::Attached => Some(key.first),
        Windowing::Sliced(slicing) => slicing.next_end(key.first, sent.end.max(key.second.saturating_sub(1))),
    }
}

/// End of the last window that sees part `key`.
fn end_of_part(windowing: Windowing, key: PartKey) -> i64 {
    match windowing {
        Windowing::Attached => key.first,
        Windowing::Sliced(slicing) => slicing.last_end(key.first).unwrap_or(key.first),
    }
}

/// A mark past every window that `watermark` closes.
fn closed_by(watermark: EventTime) -> Window {
    Window { end: watermark.0.saturating_add(1), start: i64::MAX }
}

/// Flink's rule: a window is closed when the watermark has reached its last millisecond.
fn is_closed(end: i64, lateness_ms: i64, watermark: EventTime) -> bool {
    last_ms(end).saturating_add(lateness_ms) <= watermark.0
}

fn last_ms(end: i64) -> i64 {
    end.saturating_sub(1)
}
