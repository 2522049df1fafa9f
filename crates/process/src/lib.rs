//! The parts that every long-lived process needs, whatever it does.

mod clock;
pub mod listen;
pub mod log;
mod random;
mod supervise;

pub use clock::Clock;
pub use random::Random;
pub use supervise::{Supervised, Supervisor, TaskEnded, catch_panic};
