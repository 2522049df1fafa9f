//! The allocator through all its doors.

mod certificates;
mod choosing;
mod clusters;
mod doors;
mod kubernetes;
mod trouble;
mod world;

use world::World;
