//! Property tests of decisions.

mod allocation;
mod fleet;
mod nodes;
mod scale_down;
