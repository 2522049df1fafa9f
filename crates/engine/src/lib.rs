//! The embedded Kubernetes API: an API server in this process, with objects on disk and watches from memory.

mod clock;
pub mod patch;
mod quote;
pub mod selector;

pub use clock::Clock;
