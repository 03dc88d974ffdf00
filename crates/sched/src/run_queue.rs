/// The units that wait for a worker, most urgent first: an indexed 4-ary heap.
///
/// Four children are neighbours in memory and halve the depth of a binary heap; positions by unit let a
/// waiting unit change its key in place. Keys never tie: `tie` is unique or the unit's own number.
#[derive(Debug, Default)]
pub(crate) struct RunQueue {
    heap: Vec<Entry>,
    /// Where each unit stands in `heap`; `ABSENT` where it does not.
    positions: Vec<u32>,
}

/// Priority, then tie, as one integer, so that the least of four children is found without a branch to
/// mispredict.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key(u128);

#[derive(Clone, Copy, Debug)]
struct Entry {
    key: Key,
    unit: u32,
}

const ARITY: usize = 4;
const ABSENT: u32 = u32::MAX;

impl Key {
    /// `priority` is not NaN; lower runs first.
    #[inline]
    pub fn new(priority: f64, tie: u64) -> Key {
        // Adding 0 makes -0 and 0 one. Flipping the sign bit of positive and all bits of negative numbers
        // makes IEEE 754 order that of unsigned integers.
        let bits = (priority + 0.0).to_bits();
        let ordered = if bits >> 63 == 0 { bits ^ (1 << 63) } else { !bits };
        Key((u128::from(ordered) << 64) | u128::from(tie))
    }

    fn tie(self) -> u64 {
        self.0 as u64
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

    #[inline]
    pub fn contains(&self, unit: u32) -> bool {
        self.positions[unit as usize] != ABSENT
    }

    #[inline]
    pub fn peek(&self) -> Option<(u32, Key)> {
        self.heap.first().map(|top| (top.unit, top.key))
    }

    /// Adds a unit that is not in the queue.
    #[inline]
    pub fn push(&mut self, unit: u32, key: Key) {
        debug_assert!(!self.contains(unit), "unit {unit} waits twice");
        self.heap.push(Entry { key, unit });
        self.up(self.heap.len() - 1);
    }

    #[inline]
    pub fn pop(&mut self) -> Option<(u32, Key)> {
        let top = *self.heap.first()?;
        self.take(0);
        Some((top.unit, top.key))
    }

    /// Takes a unit out; `None` if it does not wait.
    #[inline]
    pub fn remove(&mut self, unit: u32) -> Option<Key> {
        let position = self.positions[unit as usize];
        (position != ABSENT).then(|| self.take(position as usize).key)
    }

    /// Gives a waiting unit another priority; its tie stays.
    #[inline]
    pub fn update(&mut self, unit: u32, priority: f64) {
        let position = self.positions[unit as usize] as usize;
        let Some(entry) = self.heap.get_mut(position) else { return };
        let key = Key::new(priority, entry.key.tie());
        let rises = key < entry.key;
        entry.key = key;
        if rises { self.up(position) } else { self.down(position) }
    }

    /// Gives every waiting unit a new priority at once.
    pub fn rekey(&mut self, mut priority: impl FnMut(u32) -> f64) {
        for entry in &mut self.heap {
            entry.key = Key::new(priority(entry.unit), entry.key.tie());
        }
        for position in (0..self.heap.len().div_ceil(ARITY)).rev() {
            self.down(position);
        }
    }

    #[inline]
    fn take(&mut self, position: usize) -> Entry {
        let taken = self.heap.swap_remove(position);
        self.positions[taken.unit as usize] = ABSENT;
        if position < self.heap.len() {
            if position > 0 && self.heap[position].key < self.heap[(position - 1) / ARITY].key {
                self.up(position);
            } else {
                self.down(position);
            }
        }
        taken
    }

    #[inline]
    fn up(&mut self, mut position: usize) {
        let entry = self.heap[position];
        while position > 0 {
            let parent = (position - 1) / ARITY;
            if entry.key > self.heap[parent].key {
                break;
            }
            self.set(position, self.heap[parent]);
            position = parent;
        }
        self.set(position, entry);
    }

    #[inline]
    fn down(&mut self, mut position: usize) {
        let Some(&entry) = self.heap.get(position) else { return };
        loop {
            let first = position * ARITY + 1;
            let Some(children) = self.heap.get(first..(first + ARITY).min(self.heap.len())) else { break };
            let Some((&head, rest)) = children.split_first() else { break };
            let (mut best, mut place) = (head, first);
            for (child, &candidate) in rest.iter().enumerate() {
                if candidate.key < best.key {
                    (best, place) = (candidate, first + 1 + child);
                }
            }
            if best.key > entry.key {
                break;
            }
            self.set(position, best);
            position = place;
        }
        self.set(position, entry);
    }

    #[inline]
    fn set(&mut self, position: usize, entry: Entry) {
        self.heap[position] = entry;
        self.positions[entry.unit as usize] = position as u32;
    }
}
