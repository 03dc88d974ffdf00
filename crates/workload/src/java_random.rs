/// The generator of `java.util.Random`, as its documentation defines it: a linear congruential one of 48 bits. Here
/// because SYN's queries are drawn from it with seed 0.
#[derive(Clone, Debug)]
pub struct JavaRandom {
    state: u64,
}

const MULTIPLIER: u64 = 0x5_deec_e66d;
const MASK: u64 = (1 << 48) - 1;

impl JavaRandom {
    /// `new Random(seed)`.
    pub fn new(seed: i64) -> JavaRandom {
        JavaRandom { state: (seed as u64 ^ MULTIPLIER) & MASK }
    }

    fn next(&mut self, bits: u32) -> i32 {
        self.state = self.state.wrapping_mul(MULTIPLIER).wrapping_add(0xb) & MASK;
        (self.state >> (48 - bits)) as i32
    }

    /// `nextInt(bound)`: 0 to `bound − 1`. A bound of 0 or less, an exception there, gives 0.
    pub fn int(&mut self, bound: i32) -> i32 {
        if bound <= 0 {
            return 0;
        }
        if bound & (bound - 1) == 0 {
            return ((i64::from(bound) * i64::from(self.next(31))) >> 31) as i32;
        }
        loop {
            let bits = self.next(31);
            let value = bits % bound;
            // The last, incomplete run of values would favour the small ones.
            if bits.wrapping_sub(value).wrapping_add(bound - 1) >= 0 {
                return value;
            }
        }
    }

    /// `nextDouble()`: at least 0 and below 1.
    pub fn double(&mut self) -> f64 {
        let high = i64::from(self.next(26));
        let low = i64::from(self.next(27));
        ((high << 27) + low) as f64 / (1_i64 << 53) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_those_of_java() {
        // As any Java prints them for new Random(0): nextInt(10) five times, and nextDouble() twice.
        let mut random = JavaRandom::new(0);
        assert_eq!([(); 5].map(|()| random.int(10)), [0, 8, 9, 7, 5]);
        let mut random = JavaRandom::new(0);
        assert_eq!([(); 2].map(|()| random.double()), [0.730967787376657, 0.24053641567148587]);
        // new Random(42) gives the ints −1170105035, 234785527, −1360544799, 205897768, of which nextInt(100) takes the
        // upper 31 bits: 1562431130, 117392763, 1467211248, 102948884.
        let mut random = JavaRandom::new(42);
        assert_eq!([(); 4].map(|()| random.int(100)), [30, 63, 48, 84]);
        assert_eq!(random.int(0), 0);
    }
}
