//! The allocator through all its doors.

mod choosing;
mod kubernetes;
mod trouble;
mod world;

use world::World;
