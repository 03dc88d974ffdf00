//! Dates that change often, for ranks that look at an operator only when its date has come.

/// A calendar queue: who is due next, in constant amortised time where due times are spread evenly.
///
/// R. Brown, "Calendar queues: a fast O(1) priority queue implementation for the simulation event set problem",
/// CACM 31(10), 1988; named by Aurora §6.2 for the next change of bucket of every box. A year of days, each a
/// list in order of due time; an item of a later year waits in the list of its day. Items are small integers
/// and stand in at most once, so that an item's date can be changed or struck out in place.
///
/// | Symbol | Field |
/// | --- | --- |
/// | n, number of days in a year | `days`, a power of two |
/// | δ, length of a day | `1 << shift` ns |
/// | day that is looked at | `today` |
///
/// Deviates from the paper: a day's length is a power of two, to save a division; it is estimated anew not only
/// when the number of items has doubled or halved, but also when operations have become dear, because here
/// due times change while their number does not. Does badly where nearly all items are due in one burst and
/// a few much later: then a day is a long list.
#[derive(Debug)]
pub(crate) struct Calendar {
    /// The first item of each day.
    days: Vec<u32>,
    /// By item.
    entries: Vec<Entry>,
    shift: u32,
    len: usize,
    /// Nothing is due on a day before this one. Counted from 0, not from a year's start.
    today: u64,
    /// Days and list entries passed over since the length of a day was estimated.
    steps: u64,
    /// How many of them are paid for.
    allowed: u64,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    due_ns: u64,
    next: u32,
    /// `NONE` for the first of its day, `ABSENT` for an item that is not in the calendar.
    previous: u32,
}

const NONE: u32 = u32::MAX;
const ABSENT: u32 = u32::MAX - 1;

const DAYS_MIN: usize = 8;

/// Items whose distances give the length of a day, and how many mean distances a day is long: Brown's numbers.
const SAMPLE: usize = 25;
const DAY_DISTANCES: u64 = 3;

/// Steps that an operation may take on average before the length of a day is estimated anew. Brown's lists hold
/// about 1.5 items and every third day is empty; picked well above that.
const STEPS: u64 = 8;

impl Default for Calendar {
    fn default() -> Calendar {
        Calendar {
            days: vec![NONE; DAYS_MIN],
            entries: Vec::new(),
            // About a millisecond, until there is something to estimate it from.
            shift: 20,
            len: 0,
            today: 0,
            steps: 0,
            allowed: 0,
        }
    }
}

impl Calendar {
    /// Enters an item, or moves it to another date.
    pub fn set(&mut self, item: u32, due_ns: u64) {
        self.cancel(item);
        if self.entries.len() <= item as usize {
            let absent = Entry { due_ns: 0, next: NONE, previous: ABSENT };
            self.entries.resize(item as usize + 1, absent);
        }
        self.insert(item, due_ns);
        self.len += 1;
        self.allowed += STEPS;
        if self.len > 2 * self.days.len() {
            self.rebuild(2 * self.days.len());
        } else if self.steps > self.allowed + self.days.len() as u64 {
            self.rebuild(self.days.len());
        }
    }

    /// Strikes an item out, if it stands in.
    pub fn cancel(&mut self, item: u32) {
        let Some(&Entry { due_ns, next, previous }) = self.entries.get(item as usize) else { return };
        match previous {
            ABSENT => return,
            NONE => {
                let day = self.day_of(due_ns);
                self.days[day] = next;
            }
            previous => self.entries[previous as usize].next = next,
        }
        if next != NONE {
            self.entries[next as usize].previous = previous;
        }
        self.entries[item as usize].previous = ABSENT;
        self.len -= 1;
        if self.days.len() > DAYS_MIN && self.len < self.days.len() / 2 {
            self.rebuild(self.days.len() / 2);
        }
    }

    /// Takes out the item that is due first, if it is due by `now_ns`. Among those due at one instant any.
    pub fn take_due(&mut self, now_ns: u64) -> Option<(u64, u32)> {
        let (due_ns, item) = self.first_by(now_ns)?;
        self.allowed += STEPS;
        self.cancel(item);
        Some((due_ns, item))
    }

    fn first_by(&mut self, now_ns: u64) -> Option<(u64, u32)> {
        if self.len == 0 {
            self.today = self.today.max(now_ns >> self.shift);
            return None;
        }
        for _ in 0..self.days.len() {
            let first = self.days[self.today as usize & (self.days.len() - 1)];
            if first != NONE {
                let due_ns = self.entries[first as usize].due_ns;
                if due_ns >> self.shift == self.today {
                    return (due_ns <= now_ns).then_some((due_ns, first));
                }
            }
            if self.today >= now_ns >> self.shift {
                return None;
            }
            self.today += 1;
            self.steps += 1;
        }
        // Nothing in a whole year: go straight to the first of all.
        self.steps += self.days.len() as u64;
        let firsts = self.days.iter().filter(|&&item| item != NONE);
        let (due_ns, item) = firsts.map(|&item| (self.entries[item as usize].due_ns, item)).min()?;
        self.today = (due_ns >> self.shift).min(now_ns >> self.shift);
        (due_ns <= now_ns).then_some((due_ns, item))
    }

    fn insert(&mut self, item: u32, due_ns: u64) {
        let day = self.day_of(due_ns);
        let (mut previous, mut next) = (NONE, self.days[day]);
        while next != NONE && self.entries[next as usize].due_ns < due_ns {
            previous = next;
            next = self.entries[next as usize].next;
            self.steps += 1;
        }
        self.entries[item as usize] = Entry { due_ns, next, previous };
        match previous {
            NONE => self.days[day] = item,
            previous => self.entries[previous as usize].next = item,
        }
        if next != NONE {
            self.entries[next as usize].previous = item;
        }
        self.today = self.today.min(due_ns >> self.shift);
    }

    fn day_of(&self, due_ns: u64) -> usize {
        (due_ns >> self.shift) as usize & (self.days.len() - 1)
    }

    /// Starts a year of so many days, each as long as suits what is due next.
    fn rebuild(&mut self, days: usize) {
        let waits = |item: &u32| self.entries[*item as usize].previous != ABSENT;
        let items: Vec<u32> = (0..self.entries.len() as u32).filter(waits).collect();
        let mut due: Vec<u64> = items.iter().map(|&item| self.entries[item as usize].due_ns).collect();
        if let Some(shift) = day_shift(&mut due) {
            self.shift = shift;
        }
        self.days.clear();
        self.days.resize(days, NONE);
        self.today = due.iter().min().map_or(0, |first| first >> self.shift);
        for item in items {
            self.insert(item, self.entries[item as usize].due_ns);
        }
        self.steps = 0;
        // A rebuild is itself linear: the next must be as long in coming.
        self.allowed = 4 * (days + self.len) as u64;
    }
}

/// δ as a power of two: some mean distances between the items due next, leaving out the largest distances.
fn day_shift(due: &mut [u64]) -> Option<u32> {
    let sampled = due.len().min(SAMPLE);
    if sampled < 2 {
        return None;
    }
    if due.len() > SAMPLE {
        due.select_nth_unstable(SAMPLE);
    }
    let sample = &mut due[..sampled];
    sample.sort_unstable();
    let mean = (sample[sampled - 1] - sample[0]) / (sampled as u64 - 1);
    let (mut sum, mut count) = (0, 0);
    for pair in sample.windows(2) {
        let distance = pair[1] - pair[0];
        if distance <= 2 * mean {
            sum += distance;
            count += 1;
        }
    }
    let day_ns: u64 = DAY_DISTANCES.saturating_mul(sum) / count.max(1);
    (day_ns > 0).then(|| day_ns.ilog2())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    /// The oracle: a sorted set.
    #[derive(Default)]
    struct Sorted {
        dates: BTreeSet<(u64, u32)>,
    }

    impl Sorted {
        fn set(&mut self, item: u32, due_ns: u64) {
            self.cancel(item);
            self.dates.insert((due_ns, item));
        }

        fn cancel(&mut self, item: u32) {
            self.dates.retain(|&(_, other)| other != item);
        }
    }

    #[derive(Clone, Debug)]
    enum Operation {
        Set(u32, u64),
        Cancel(u32),
        Advance(u64),
    }

    fn operation() -> impl Strategy<Value = Operation> {
        let spread = prop_oneof![0u64..50, 0u64..100_000, 0u64..10_000_000_000_000];
        prop_oneof![
            6 => (0u32..200, spread.clone()).prop_map(|(item, in_ns)| Operation::Set(item, in_ns)),
            1 => (0u32..200).prop_map(Operation::Cancel),
            3 => spread.prop_map(Operation::Advance),
        ]
    }

    proptest! {
        #[test]
        fn agrees_with_a_sorted_set(operations in prop::collection::vec(operation(), 0..400)) {
            let (mut calendar, mut sorted) = (Calendar::default(), Sorted::default());
            let mut now = 0;
            for operation in operations {
                match operation {
                    // Some dates are in the past already.
                    Operation::Set(item, in_ns) => {
                        let due_ns = (now + in_ns).saturating_sub(20);
                        calendar.set(item, due_ns);
                        sorted.set(item, due_ns);
                    }
                    Operation::Cancel(item) => {
                        calendar.cancel(item);
                        sorted.cancel(item);
                    }
                    Operation::Advance(by) => {
                        now += by;
                        while let Some((due_ns, item)) = calendar.take_due(now) {
                            let first = sorted.dates.first().expect("the calendar has one").0;
                            prop_assert_eq!(due_ns, first);
                            prop_assert!(sorted.dates.remove(&(due_ns, item)));
                        }
                        prop_assert!(sorted.dates.first().is_none_or(|&(due_ns, _)| due_ns > now));
                    }
                }
                prop_assert_eq!(calendar.len, sorted.dates.len());
            }
        }
    }

    /// Steps per operation where every item, once due, is entered again up to `spread_ns` later.
    fn steps_per_operation(items: u32, spread_ns: u64) -> f64 {
        let mut calendar = Calendar::default();
        let mut random = 1u64;
        let mut next = || {
            // Knuth's MMIX generator.
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            random >> 33
        };
        for item in 0..items {
            calendar.set(item, next() % spread_ns);
        }
        let rounds = 10 * u64::from(items);
        let (mut steps, mut operations, mut now) = (0, 0, 0);
        while operations < rounds {
            now += spread_ns / u64::from(items);
            while let Some((due_ns, item)) = calendar.take_due(now) {
                let before = calendar.steps;
                calendar.set(item, due_ns + 1 + next() % spread_ns);
                operations += 1;
                steps += calendar.steps.saturating_sub(before);
            }
            steps += u64::from(calendar.len == 0);
        }
        (steps + calendar.steps) as f64 / operations as f64
    }

    #[test]
    fn an_operation_costs_the_same_for_many_items_as_for_few() {
        for spread_ns in [1_000_000, 60_000_000_000] {
            let few = steps_per_operation(100, spread_ns);
            let many = steps_per_operation(20_000, spread_ns);
            assert!(few < 8.0 && many < 8.0, "{few} and {many} steps at a spread of {spread_ns} ns");
        }
    }
}
