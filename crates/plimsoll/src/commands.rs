//! The subcommands, one file each.

pub(crate) mod allocate;
pub(crate) mod apply;
pub(crate) mod cluster_autoscaler;
pub(crate) mod completions;
pub(crate) mod delete;
pub(crate) mod evaluate;
pub(crate) mod get;
pub(crate) mod install;
pub(crate) mod load;
pub(crate) mod run;
pub(crate) mod sample_server;
pub(crate) mod sample_service;
pub(crate) mod sdk_server;
mod session;
pub(crate) mod up;
