//! The table of all kinds of our own.

use crate::{Kind, agones, allocation, autoscaling, multicluster, plimsoll};

/// Every kind that Plimsoll brings along.
pub static KINDS: &[&Kind] = &[
    &agones::GAME_SERVER,
    &agones::GAME_SERVER_SET,
    &agones::FLEET,
    &autoscaling::FLEET_AUTOSCALER,
    &allocation::GAME_SERVER_ALLOCATION,
    &multicluster::GAME_SERVER_ALLOCATION_POLICY,
    &plimsoll::auto_scale_policy::KIND,
    &plimsoll::container_stats::KIND,
    &plimsoll::decision::KIND,
    &plimsoll::metric_series::KIND,
    &plimsoll::metric_source::KIND,
    &plimsoll::node_autoscaler::KIND,
    &plimsoll::node_group::KIND,
    &plimsoll::scaling_policy::KIND,
];

/// Returns the kind of an object with this `apiVersion` and `kind`. A missing `apiVersion` is the kind's own.
pub fn find(api_version: Option<&str>, kind: &str) -> Option<&'static Kind> {
    let is_it = |k: &&&Kind| {
        k.kind == kind
            && api_version.is_none_or(|v| v.split_once('/') == Some((k.group, k.version)))
    };
    KINDS.iter().find(is_it).copied()
}
