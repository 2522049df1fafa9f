//! All decisions of Plimsoll as pure functions: observations in, decisions with reasons out.
//!
//! There is no clock, no I/O, no randomness and no run-time error in this crate: uncertainty is a result.

pub mod allocation;
pub mod checks;
pub mod cron;
pub mod duration;
pub mod fleet;
pub mod gameserver;
pub mod nodes;
mod random;
mod reason;
pub mod rules;
pub mod workload;

pub use reason::Reason;
