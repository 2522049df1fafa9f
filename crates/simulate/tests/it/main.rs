//! Game servers that are not there, on the embedded engine.

mod game;
