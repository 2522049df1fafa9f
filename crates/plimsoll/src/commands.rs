//! The subcommands, one file each.

pub(crate) mod allocate;
pub(crate) mod completions;
pub(crate) mod evaluate;
pub(crate) mod install;
pub(crate) mod run;
pub(crate) mod sample_server;
pub(crate) mod sdk_server;
pub(crate) mod up;
