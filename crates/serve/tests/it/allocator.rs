//! The allocator through all its endpoints.

pub(crate) mod certificates;
mod chaos;
mod choosing;
mod clusters;
mod kubernetes;
mod published;
pub(crate) mod real;
mod self_signed;
mod service;
mod trouble;
pub(crate) mod world;

use world::World;
