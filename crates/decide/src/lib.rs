//! Every decision of Plimsoll, as plain functions: what was seen goes in, what to do and why comes out.
//!
//! There is no clock, no I/O, no randomness and no run-time error in here: doubt is an answer.

pub mod allocation;
mod chance;
pub mod checks;
pub mod cron;
pub mod duration;
pub mod fleet;
pub mod gameserver;
pub mod nodes;
mod reason;
pub mod rules;

pub use reason::Reason;
