//! Chance without memory: the same of the same numbers.
//!
//! So it does not matter how rows are cut into batches, nor in which order sub-streams and groups have theirs, and nothing
//! of it is saved.

/// Above 0 and below 1, uniformly: of a seed, a sub-stream, a group and how often it was thrown for them.
pub(super) fn share(seed: u64, sub_stream: i64, group: usize, throw: u64) -> f64 {
    let numbers = [sub_stream as u64, group as u64, throw];
    let bits = numbers.into_iter().fold(mix(seed), |bits, number| mix(bits ^ number));
    ((bits >> 12) as f64 + 0.5) / (1u64 << 52) as f64
}

/// Of splitmix64 (Steele, Lea, Flood: Fast Splittable Pseudorandom Number Generators, 2014): neighbours become far apart.
fn mix(number: u64) -> u64 {
    let mut bits = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn splitmix_is_as_published() {
        // The first two of seed 0.
        assert_eq!([mix(0), mix(0x9e37_79b9_7f4a_7c15)], [0xe220_a839_7b1d_cdaf, 0x6e78_9e6a_a1b9_65f4]);
    }

    #[test]
    fn throws_are_even_and_know_nothing_of_each_other() {
        // By any of the numbers: the mean of 2n throws, and how the one goes with the next.
        type Law = fn(u64) -> f64;
        let of: [Law; 4] = [
            |n| share(n, 1, 2, 3),
            |n| share(7, n as i64 - 500, 2, 3),
            |n| share(7, 1, n as usize, 3),
            |n| share(7, 1, 2, n),
        ];
        let n = 100_000;
        for law in of {
            let throws: Vec<f64> = (0..n).map(law).collect();
            assert!(throws.iter().all(|&throw| throw > 0.0 && throw < 1.0));
            let mean = throws.iter().sum::<f64>() / n as f64;
            let together = throws.windows(2).map(|pair| (pair[0] - 0.5) * (pair[1] - 0.5)).sum::<f64>();
            // Deviations of the mean, √(1/12n), and of the mean product, 1/(12√n); five of them.
            assert!((mean - 0.5).abs() < 5.0 / (12.0 * n as f64).sqrt(), "{mean}");
            assert!((together / n as f64).abs() < 5.0 / (12.0 * (n as f64).sqrt()), "{together}");
        }
    }
}
