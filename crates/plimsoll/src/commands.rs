//! The subcommands, one file each.

pub(crate) mod evaluate;
pub(crate) mod up;
