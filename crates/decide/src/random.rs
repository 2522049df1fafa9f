//! Pseudo-random numbers from a seed that is part of the input: the same seed leads to the same result.

/// A pseudo-random number generator (SplitMix64).
#[derive(Clone, Debug)]
pub(crate) struct SeededRandom(u64);

impl SeededRandom {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// Returns a uniformly distributed number below `end`; `None` if `end` is 0.
    pub(crate) fn below(&mut self, end: usize) -> Option<usize> {
        // The high half of a product is uniform enough: the error is `end` in 2^64.
        let wide = u128::from(self.next()) * end as u128;
        (end > 0).then_some((wide >> 64) as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_uniformly_distributed() {
        let mut random = SeededRandom::new(7);
        let mut counts = [0; 10];
        for _ in 0..10_000 {
            counts[random.below(10).unwrap()] += 1;
        }
        assert!(counts.iter().all(|n| (850..1150).contains(n)), "{counts:?}");
        assert_eq!(random.below(0), None);
    }

    #[test]
    fn the_same_seed_generates_the_same_numbers() {
        let row = |seed| {
            let mut random = SeededRandom::new(seed);
            [random.next(), random.next(), random.next()]
        };
        assert_eq!(row(1), row(1));
        assert_ne!(row(1), row(2));
    }
}
