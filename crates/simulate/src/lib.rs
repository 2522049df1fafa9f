//! Worlds that are not there.

pub mod game;
