//! What those who read a table want of looks at it, counted: one more or less of ten thousand is no question to all of them.

use std::collections::BTreeMap;

use laxity_graph::WindowEnds;

use crate::Rhythm;

/// How near their targets are, and where their windows end.
#[derive(Debug, Default)]
pub(super) struct Wants {
    /// How many want the same.
    readers: BTreeMap<(u64, Option<Rhythm>), u32>,
    window_ends: Option<WindowEnds>,
}

impl Wants {
    /// One more, of this target, ns.
    pub fn add(&mut self, target_ns: u64, rhythm: Option<Rhythm>) {
        let readers = self.readers.entry((target_ns, rhythm)).or_default();
        *readers += 1;
        if *readers == 1 {
            self.find_common();
        }
    }

    /// One less. False if there was none: its target was another when it was counted.
    pub fn remove(&mut self, target_ns: u64, rhythm: Option<Rhythm>) -> bool {
        let Some(readers) = self.readers.get_mut(&(target_ns, rhythm)) else { return false };
        *readers -= 1;
        if *readers == 0 {
            self.readers.remove(&(target_ns, rhythm));
            self.find_common();
        }
        true
    }

    /// The nearest target, ns.
    pub fn nearest_ns(&self) -> u64 {
        self.readers.first_key_value().map_or(u64::MAX, |((target_ns, _), _)| *target_ns)
    }

    /// All wait for the ends of windows alone, which are these.
    pub fn window_ends(&self) -> Option<WindowEnds> {
        self.window_ends
    }

    fn find_common(&mut self) {
        self.window_ends = Rhythm::common(self.readers.keys().map(|(_, rhythm)| *rhythm));
    }
}

impl FromIterator<(u64, Option<Rhythm>)> for Wants {
    fn from_iter<I: IntoIterator<Item = (u64, Option<Rhythm>)>>(readers: I) -> Wants {
        let mut wants = Wants::default();
        for reader in readers {
            *wants.readers.entry(reader).or_default() += 1;
        }
        wants.find_common();
        wants
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn rhythm(kind: u8) -> Option<Rhythm> {
        match kind {
            0 => None,
            1 => Some(Rhythm::Rows),
            kind => {
                let ends = WindowEnds::new(i64::from(kind) * 500, i64::from(kind % 3) * 50).unwrap();
                Some(Rhythm::Windows { ends, reach_ms: 1 })
            }
        }
    }

    proptest! {
        /// Whoever comes and goes, it is what asking all who are there would say.
        #[test]
        fn it_is_as_if_all_were_asked(changes in prop::collection::vec((1u64..4, 0u8..6, 0usize..8, any::<bool>()), 1..60)) {
            let mut readers: Vec<(u64, Option<Rhythm>)> = Vec::new();
            let mut wants = Wants::default();
            for (target_ns, kind, place, comes) in changes {
                if comes || readers.is_empty() {
                    readers.push((target_ns, rhythm(kind)));
                    wants.add(target_ns, rhythm(kind));
                } else {
                    let (target_ns, rhythm) = readers.swap_remove(place % readers.len());
                    prop_assert!(wants.remove(target_ns, rhythm));
                }
                let all: Wants = readers.iter().copied().collect();
                for wants in [&wants, &all] {
                    let nearest = readers.iter().map(|(target_ns, _)| *target_ns).min();
                    prop_assert_eq!(wants.nearest_ns(), nearest.unwrap_or(u64::MAX));
                    prop_assert_eq!(wants.window_ends(), Rhythm::common(readers.iter().map(|(_, rhythm)| *rhythm)));
                }
            }
            prop_assert!(!wants.remove(9, None), "nobody has that target");
        }
    }
}
