//! Chance, from a seed that comes in with the question: the same seed gives the same answer.

/// A row of numbers that look like chance (SplitMix64).
#[derive(Clone, Debug)]
pub(crate) struct Chance(u64);

impl Chance {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// Gives a number below `end`, each as likely as the other; nothing when there is none.
    pub(crate) fn below(&mut self, end: usize) -> Option<usize> {
        // The high half of a product is even enough: the error is `end` in 2^64.
        let wide = u128::from(self.next()) * end as u128;
        (end > 0).then_some((wide >> 64) as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_comes_up_about_as_often() {
        let mut chance = Chance::new(7);
        let mut seen = [0; 10];
        for _ in 0..10_000 {
            seen[chance.below(10).unwrap()] += 1;
        }
        assert!(seen.iter().all(|n| (850..1150).contains(n)), "{seen:?}");
        assert_eq!(chance.below(0), None);
    }

    #[test]
    fn the_same_seed_gives_the_same_row() {
        let row = |seed| {
            let mut chance = Chance::new(seed);
            [chance.next(), chance.next(), chance.next()]
        };
        assert_eq!(row(1), row(1));
        assert_ne!(row(1), row(2));
    }
}
