//! Scaling policies: the size of a target, by checks and rules.

pub mod observe;
pub mod target;
