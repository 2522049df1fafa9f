//! Worlds that are not there.

pub mod day;
pub mod game;
pub mod trace;
