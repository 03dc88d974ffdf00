//! The order among units that wait. Nearly every message passes here, so it is laid out for the cache.

/// The units that wait for a worker, most urgent first: an indexed 4-ary heap.
///
/// A key, its tie and its unit are one integer, and the four children of a slot are one cache line, so that a
/// level of the heap costs one line and no branch to mispredict. Positions by unit let a waiting unit change its
/// key in place.
#[derive(Debug, Default)]
pub(crate) struct RunQueue {
    /// Slots in groups of four. Slots 0 to 2 are unused, 3 is the root, and the children of slot s are the group
    /// s − 2. Slots past the end hold `Key::LAST`.
    groups: Vec<Group>,
    len: usize,
    /// Where each unit stands; `ABSENT` where it does not.
    positions: Vec<u32>,
    /// Arrivals so far: the next tie.
    arrivals: u64,
}

#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
struct Group([Key; 4]);

/// Priority (64 bits), tie (36 bits), unit (28 bits). Unique, because a unit waits once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key(u128);

const ROOT: usize = 3;
const ABSENT: u32 = u32::MAX;
const UNIT_BITS: u32 = 28;
const TIE_BITS: u32 = 36;

impl Key {
    /// Behind every key of a unit: units stay below 2^28 − 1.
    const LAST: Key = Key(u128::MAX);

    /// `priority` is not NaN; lower runs first. Equal priorities go by tie, then by unit.
    #[inline]
    pub fn new(priority: f64, tie: u64, unit: u32) -> Key {
        debug_assert!(tie < 1 << TIE_BITS && unit < (1 << UNIT_BITS) - 1, "tie {tie} of unit {unit}");
        // Adding 0 makes -0 and 0 one. Flipping the sign bit of positive and all bits of negative numbers
        // makes IEEE 754 order that of unsigned integers.
        let bits = (priority + 0.0).to_bits();
        let ordered = if bits >> 63 == 0 { bits ^ (1 << 63) } else { !bits };
        Key((u128::from(ordered) << 64) | u128::from(tie << UNIT_BITS) | u128::from(unit))
    }

    #[inline]
    pub fn unit(self) -> u32 {
        (self.0 as u32) & ((1 << UNIT_BITS) - 1)
    }

    #[inline]
    fn tie(self) -> u64 {
        (self.0 as u64) >> UNIT_BITS
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
        self.len
    }

    #[inline]
    pub fn contains(&self, unit: u32) -> bool {
        self.positions[unit as usize] != ABSENT
    }

    #[inline]
    pub fn peek(&self) -> Option<Key> {
        (self.len > 0).then(|| self.at(ROOT))
    }

    /// The first unit, and the one that is first behind it.
    #[inline]
    pub fn first_two(&self) -> [Option<u32>; 2] {
        // Among the children of the root, as in `down`.
        let second = self.groups.get(ROOT - 2).and_then(|group| group.0.into_iter().min());
        [self.peek(), second.filter(|&key| key != Key::LAST)].map(|key| key.map(Key::unit))
    }

    /// The tie of the next arrival.
    #[inline]
    pub fn arrival(&self) -> u64 {
        self.arrivals
    }

    /// Adds a unit that is not in the queue, with a key made of its own id.
    #[inline]
    pub fn push(&mut self, key: Key) {
        debug_assert!(!self.contains(key.unit()), "unit {} waits twice", key.unit());
        let slot = ROOT + self.len;
        if slot / 4 >= self.groups.len() {
            self.groups.push(Group([Key::LAST; 4]));
        }
        self.len += 1;
        self.up(slot, key);
        self.count_arrival();
    }

    #[inline]
    pub fn pop(&mut self) -> Option<u32> {
        let top = self.peek()?;
        self.take(ROOT);
        Some(top.unit())
    }

    /// Takes the first unit out and adds another, if the other goes behind it. In one descent: between two turns of a
    /// worker this is all that happens.
    #[inline]
    pub fn exchange(&mut self, key: Key) -> Option<u32> {
        let top = self.peek().filter(|&top| top <= key)?;
        debug_assert!(!self.contains(key.unit()), "unit {} waits twice", key.unit());
        self.positions[top.unit() as usize] = ABSENT;
        self.down(ROOT, key);
        self.count_arrival();
        Some(top.unit())
    }

    #[inline]
    fn count_arrival(&mut self) {
        self.arrivals += 1;
        if self.arrivals == 1 << TIE_BITS {
            self.renumber();
        }
    }

    /// Takes a unit out; false if it does not wait.
    #[inline]
    pub fn remove(&mut self, unit: u32) -> bool {
        let slot = self.positions[unit as usize];
        if slot == ABSENT {
            return false;
        }
        self.take(slot as usize);
        true
    }

    /// Gives a waiting unit another priority; its tie stays.
    #[inline]
    pub fn update(&mut self, unit: u32, priority: f64) {
        let slot = self.positions[unit as usize];
        if slot == ABSENT {
            return;
        }
        let old = self.at(slot as usize);
        self.settle(slot as usize, Key::new(priority, old.tie(), unit));
    }

    /// Gives every waiting unit a new priority at once.
    pub fn rekey(&mut self, mut priority: impl FnMut(u32) -> f64) {
        self.rebuild(|key| Key::new(priority(key.unit()), key.tie(), key.unit()));
    }

    /// The ties have run out: the order stays, the numbers begin again.
    fn renumber(&mut self) {
        let mut ties: Vec<u64> = self.keys().map(Key::tie).collect();
        ties.sort_unstable();
        self.rebuild(|key| {
            let tie = ties.partition_point(|&tie| tie < key.tie()) as u64;
            Key::new(0.0, tie, key.unit()).with_priority_of(key)
        });
        self.arrivals = ties.len() as u64;
    }

    /// Changes every key. A sorted list is a heap.
    fn rebuild(&mut self, change: impl FnMut(Key) -> Key) {
        let mut keys: Vec<Key> = self.keys().map(change).collect();
        keys.sort_unstable();
        for (place, key) in keys.into_iter().enumerate() {
            self.set(ROOT + place, key);
        }
    }

    fn keys(&self) -> impl Iterator<Item = Key> {
        (ROOT..ROOT + self.len).map(|slot| self.at(slot))
    }

    #[inline]
    fn take(&mut self, slot: usize) {
        let unit = self.at(slot).unit();
        self.positions[unit as usize] = ABSENT;
        self.len -= 1;
        let end = ROOT + self.len;
        let last = self.at(end);
        self.groups[end / 4].0[end % 4] = Key::LAST;
        if slot != end {
            self.settle(slot, last);
        }
    }

    /// Puts a key where it belongs, given a slot it may take.
    #[inline]
    fn settle(&mut self, slot: usize, key: Key) {
        if slot > ROOT && key < self.at(parent(slot)) { self.up(slot, key) } else { self.down(slot, key) }
    }

    #[inline]
    fn up(&mut self, mut slot: usize, key: Key) {
        while slot > ROOT {
            let above = self.at(parent(slot));
            if key > above {
                break;
            }
            self.set(slot, above);
            slot = parent(slot);
        }
        self.set(slot, key);
    }

    #[inline]
    fn down(&mut self, mut slot: usize, key: Key) {
        while let Some(Group([a, b, c, d])) = self.groups.get(slot - 2) {
            let (left, left_at) = if b < a { (b, 1) } else { (a, 0) };
            let (right, right_at) = if d < c { (d, 3) } else { (c, 2) };
            let (&best, at) = if right < left { (right, right_at) } else { (left, left_at) };
            if best > key {
                break;
            }
            let child = (slot - 2) * 4 + at;
            self.set(slot, best);
            slot = child;
        }
        self.set(slot, key);
    }

    #[inline]
    fn at(&self, slot: usize) -> Key {
        self.groups[slot / 4].0[slot % 4]
    }

    #[inline]
    fn set(&mut self, slot: usize, key: Key) {
        self.groups[slot / 4].0[slot % 4] = key;
        self.positions[key.unit() as usize] = slot as u32;
    }
}

impl Key {
    fn with_priority_of(self, other: Key) -> Key {
        Key((other.0 >> 64 << 64) | u128::from(self.0 as u64))
    }
}

#[inline]
fn parent(slot: usize) -> usize {
    slot / 4 + 2
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;
    use std::collections::btree_map::Entry;

    #[test]
    fn keys_order_by_priority_then_tie() {
        let ordered = [f64::NEG_INFINITY, -2.5, -0.0, 1e-300, 7.0, 9e15, f64::INFINITY];
        for pair in ordered.windows(2) {
            assert!(Key::new(pair[0], 9, 9) < Key::new(pair[1], 0, 0), "{pair:?}");
        }
        assert!(Key::new(0.0, 1, 5) < Key::new(-0.0, 2, 0), "zeros are equal");
        assert!(Key::new(f64::INFINITY, (1 << TIE_BITS) - 1, 1 << 27) < Key::LAST);
    }

    #[test]
    fn ties_that_run_out_keep_their_order() {
        let mut queue = RunQueue::default();
        queue.grow(5);
        queue.arrivals = (1 << TIE_BITS) - 3;
        for unit in [4, 2, 0, 3, 1] {
            let tie = queue.arrival();
            queue.push(Key::new(1.0, tie, unit));
        }
        assert_eq!(queue.arrival(), 5);
        let order: Vec<u32> = std::iter::from_fn(|| queue.pop()).collect();
        assert_eq!(order, [4, 2, 0, 3, 1]);
    }

    #[derive(Clone, Debug)]
    enum Operation {
        Push(u32, i32),
        Update(u32, i32),
        Remove(u32),
        Pop,
        Exchange(u32, i32),
        Rekey(i32),
    }

    fn operation() -> impl Strategy<Value = Operation> {
        let (unit, priority) = (0u32..40, -5i32..5);
        prop_oneof![
            4 => (unit.clone(), priority.clone()).prop_map(|(u, p)| Operation::Push(u, p)),
            2 => (unit.clone(), priority.clone()).prop_map(|(u, p)| Operation::Update(u, p)),
            1 => unit.prop_map(Operation::Remove),
            3 => Just(Operation::Pop),
            3 => (0u32..40, -5i32..5).prop_map(|(u, p)| Operation::Exchange(u, p)),
            1 => priority.prop_map(Operation::Rekey),
        ]
    }

    proptest! {
        #[test]
        fn agrees_with_a_sorted_map(operations in prop::collection::vec(operation(), 0..200)) {
            let mut queue = RunQueue::default();
            queue.grow(40);
            // Unit to (priority, arrival).
            let mut model: BTreeMap<u32, (i32, u64)> = BTreeMap::new();
            for operation in operations {
                match operation {
                    Operation::Push(unit, priority) => {
                        if let Entry::Vacant(absent) = model.entry(unit) {
                            let tie = queue.arrival();
                            absent.insert((priority, tie));
                            queue.push(Key::new(priority.into(), tie, unit));
                        }
                    }
                    Operation::Update(unit, priority) => {
                        if let Some(entry) = model.get_mut(&unit) {
                            entry.0 = priority;
                        }
                        queue.update(unit, priority.into());
                    }
                    Operation::Remove(unit) => {
                        prop_assert_eq!(queue.remove(unit), model.remove(&unit).is_some());
                    }
                    Operation::Pop => {
                        let least = model.iter().min_by_key(|(_, key)| **key).map(|(&unit, _)| unit);
                        prop_assert_eq!(queue.pop(), least);
                        least.map(|unit| model.remove(&unit));
                    }
                    Operation::Exchange(unit, priority) => {
                        if model.contains_key(&unit) {
                            continue;
                        }
                        let tie = queue.arrival();
                        let least = model.iter().min_by_key(|(_, key)| **key).map(|(&unit, key)| (unit, *key));
                        let least = least.filter(|&(_, key)| key <= (priority, tie)).map(|(unit, _)| unit);
                        prop_assert_eq!(queue.exchange(Key::new(priority.into(), tie, unit)), least);
                        if let Some(least) = least {
                            model.remove(&least);
                            model.insert(unit, (priority, tie));
                        }
                    }
                    Operation::Rekey(by) => {
                        let rank = |unit: u32| (unit as i32 * by) % 7;
                        queue.rekey(|unit| rank(unit).into());
                        model.iter_mut().for_each(|(&unit, key)| key.0 = rank(unit));
                    }
                }
                let mut order: Vec<((i32, u64), u32)> = model.iter().map(|(&unit, &key)| (key, unit)).collect();
                order.sort_unstable();
                let first_two = [0, 1].map(|place| order.get(place).map(|&(_, unit)| unit));
                prop_assert_eq!(queue.first_two(), first_two);
                prop_assert_eq!(queue.len(), model.len());
                prop_assert!((0..40).all(|unit| queue.contains(unit) == model.contains_key(&unit)));
            }
        }
    }
}
