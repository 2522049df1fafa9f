//! What every long-lived process needs, whatever it does.

mod clock;

pub use clock::Clock;
