//! What holds for every input, whichever one comes.

mod allocation;
mod fleet;
mod nodes;
mod scale_down;
