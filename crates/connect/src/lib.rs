//! The outside world, one file each.
