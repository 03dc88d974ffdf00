/// The units that wait for a worker, most urgent first: an indexed 4-ary heap.
///
/// Four children share a cache line and halve the depth of a binary heap; positions by unit let a waiting
/// unit change its key in place. Keys never tie: `tie` is unique or the unit's own number.
#[derive(Debug, Default)]
pub(crate) struct RunQueue {
    heap: Vec<Entry>,
    /// Where each unit stands in `heap`; `ABSENT` where it does not.
    positions: Vec<u32>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Key {
    /// Lower runs first. Never NaN.
    pub priority: f64,
    pub tie: u64,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    key: Key,
    unit: u32,
}

const ARITY: usize = 4;
const ABSENT: u32 = u32::MAX;

impl Key {
    #[inline]
    pub fn before(&self, other: &Key) -> bool {
        self.priority < other.priority || (self.priority == other.priority && self.tie < other.tie)
    }
}

impl RunQueue {
    /// Makes room for `units` units.
    pub fn grow(&mut self, units: usize) {
        if self.positions.len() < units {
            self.positions.resize(units, ABSENT);
        }
    }

    pub fn len(&self) -> usize {
        self.heap.len()
    }

    pub fn contains(&self, unit: u32) -> bool {
        self.positions[unit as usize] != ABSENT
    }

    pub fn peek(&self) -> Option<(u32, Key)> {
        self.heap.first().map(|top| (top.unit, top.key))
    }

    /// Adds a unit that is not in the queue.
    pub fn push(&mut self, unit: u32, key: Key) {
        debug_assert!(!self.contains(unit), "unit {unit} waits twice");
        self.heap.push(Entry { key, unit });
        self.up(self.heap.len() - 1);
    }

    pub fn pop(&mut self) -> Option<(u32, Key)> {
        let top = *self.heap.first()?;
        self.take(0);
        Some((top.unit, top.key))
    }

    /// Takes a unit out; `None` if it does not wait.
    pub fn remove(&mut self, unit: u32) -> Option<Key> {
        let position = self.positions[unit as usize];
        (position != ABSENT).then(|| self.take(position as usize).key)
    }

    /// Gives a waiting unit another priority; its tie stays.
    pub fn update(&mut self, unit: u32, priority: f64) {
        let position = self.positions[unit as usize] as usize;
        let Some(entry) = self.heap.get_mut(position) else { return };
        let rises = priority < entry.key.priority;
        entry.key.priority = priority;
        if rises { self.up(position) } else { self.down(position) }
    }

    /// Gives every waiting unit a new priority at once.
    pub fn rekey(&mut self, mut priority: impl FnMut(u32) -> f64) {
        for entry in &mut self.heap {
            entry.key.priority = priority(entry.unit);
        }
        for position in (0..self.heap.len().div_ceil(ARITY)).rev() {
            self.down(position);
        }
    }

    fn take(&mut self, position: usize) -> Entry {
        let taken = self.heap.swap_remove(position);
        self.positions[taken.unit as usize] = ABSENT;
        if position < self.heap.len() {
            if position > 0 && self.heap[position].key.before(&self.heap[(position - 1) / ARITY].key) {
                self.up(position);
            } else {
                self.down(position);
            }
        }
        taken
    }

    fn up(&mut self, mut position: usize) {
        let entry = self.heap[position];
        while position > 0 {
            let parent = (position - 1) / ARITY;
            if !entry.key.before(&self.heap[parent].key) {
                break;
            }
            self.set(position, self.heap[parent]);
            position = parent;
        }
        self.set(position, entry);
    }

    fn down(&mut self, mut position: usize) {
        let Some(&entry) = self.heap.get(position) else { return };
        loop {
            let first = position * ARITY + 1;
            let Some(children) = self.heap.get(first..(first + ARITY).min(self.heap.len())) else { break };
            let mut best = 0;
            for child in 1..children.len() {
                if children[child].key.before(&children[best].key) {
                    best = child;
                }
            }
            match children.get(best) {
                Some(child) if child.key.before(&entry.key) => self.set(position, *child),
                _ => break,
            }
            position = first + best;
        }
        self.set(position, entry);
    }

    fn set(&mut self, position: usize, entry: Entry) {
        self.heap[position] = entry;
        self.positions[entry.unit as usize] = position as u32;
    }
}
