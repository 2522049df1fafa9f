//! Random numbers that a simulation can repeat.

use std::fmt;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use uuid::Uuid;

/// The only source of random numbers of a part, apart from keys and tokens. Clones share one sequence.
#[derive(Clone)]
pub struct Random {
    /// `None`: the system's.
    seeded: Option<Arc<Mutex<fastrand::Rng>>>,
}

impl Random {
    /// Returns the system's source.
    pub fn system() -> Self {
        Self { seeded: None }
    }

    /// Returns a source with the same sequence for the same seed.
    pub fn seeded(seed: u64) -> Self {
        Self { seeded: Some(Arc::new(Mutex::new(fastrand::Rng::with_seed(seed)))) }
    }

    /// Returns any number.
    pub fn u64(&self) -> u64 {
        self.draw(|rng| rng.u64(..), || fastrand::u64(..))
    }

    /// Returns a number in a range, which must not be empty.
    pub fn below(&self, range: Range<usize>) -> usize {
        self.draw(|rng| rng.usize(range.clone()), || fastrand::usize(range.clone()))
    }

    /// Returns a number from 0 up to, but not including, 1.
    pub fn fraction(&self) -> f64 {
        self.draw(fastrand::Rng::f64, fastrand::f64)
    }

    /// Returns a version 4 UUID.
    pub fn uuid(&self) -> Uuid {
        self.draw(
            |rng| uuid::Builder::from_random_bytes(rng.u128(..).to_ne_bytes()).into_uuid(),
            Uuid::new_v4,
        )
    }

    fn draw<T>(
        &self,
        from_seeded: impl FnOnce(&mut fastrand::Rng) -> T,
        from_system: impl FnOnce() -> T,
    ) -> T {
        match &self.seeded {
            Some(rng) => from_seeded(&mut rng.lock().unwrap_or_else(PoisonError::into_inner)),
            None => from_system(),
        }
    }
}

impl Default for Random {
    fn default() -> Self {
        Self::system()
    }
}

impl fmt::Debug for Random {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Random").field("is_seeded", &self.seeded.is_some()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_has_the_same_sequence_and_clones_share_it() {
        let draw = |random: &Random| {
            (random.u64(), random.below(3..9), random.uuid(), random.clone().u64())
        };
        let (one, two) = (Random::seeded(1), Random::seeded(1));
        assert_eq!(draw(&one), draw(&two));
        assert_ne!(draw(&one), draw(&Random::seeded(1)), "the sequence goes on");
        assert_eq!(one.uuid().get_version_num(), 4);
        assert!((0.0..1.0).contains(&Random::system().fraction()));
        assert_ne!(Random::system().uuid(), Random::system().uuid());
    }
}
