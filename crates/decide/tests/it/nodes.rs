//! Decisions about nodes, on thousands of small random clusters.

mod oracle;
mod placements;
mod plans;
mod rules;
mod world;
