use rand_distr::{Distribution, Uniform};
use rand_pcg::Pcg64;

/// The generator of the stream `label` of a seed. Streams of one seed do not depend on each other, so that one
/// more query or source leaves the others as they were.
pub(crate) fn generator(seed: u64, label: u64) -> Pcg64 {
    let high = derived(seed, label);
    let low = derived(high, !label);
    Pcg64::new(u128::from(high) << 64 | u128::from(low), u128::from(label))
}

/// A seed of its own for a part of something seeded: SplitMix64's finaliser (Steele, Lea, Flood, OOPSLA 2014).
pub(crate) fn derived(seed: u64, label: u64) -> u64 {
    let mut z = seed.wrapping_add(label.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// A number of the seed, below `bound`; 0 if there is none.
pub(crate) fn below(seed: u64, bound: u64) -> u64 {
    Uniform::new(0, bound).map_or(0, |uniform| uniform.sample(&mut generator(seed, 0)))
}

#[cfg(test)]
mod tests {
    use rand_distr::{Distribution, StandardUniform};

    use super::*;

    #[test]
    fn streams_repeat_and_differ() {
        let draw = |seed, label| -> u64 { StandardUniform.sample(&mut generator(seed, label)) };
        assert_eq!(draw(1, 2), draw(1, 2));
        let mut seen: Vec<u64> =
            (0..10).flat_map(|seed| (0..10).map(move |label| draw(seed, label))).collect();
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen.len(), 100);
    }
}
