//! Game servers that are not there, on the embedded engine.

#![allow(clippy::unwrap_used, reason = "a test says what is wrong by failing, also in its helpers")]

mod day;
mod game;
