//! Checks whether a node is a candidate for removal.

use super::ScaleDownContext;
use super::unremovable::UnremovableReason;
use crate::nodes::drain::after;
use crate::nodes::utilization::{self, Counted};
use crate::nodes::{NodeId, Snapshot};

/// Returns a node's utilization if it is a candidate, or the first reason why it is not.
pub(super) fn check(
    context: &ScaleDownContext<'_>,
    snapshot: &Snapshot<'_>,
    node: NodeId,
) -> Result<f64, UnremovableReason> {
    let observed = context.node(node);
    let settings = context.input.settings;
    let Some(group) = context.group_of(node) else { return Err(UnremovableReason::NotAutoscaled) };
    if context.is_being_removed(node) {
        return Err(UnremovableReason::CurrentlyBeingDeleted);
    }
    let resting = context.input.status.resting.get(&observed.name);
    if let Some(until) = resting.filter(|until| **until > context.input.now) {
        return Err(UnremovableReason::RecentlyFailed(*until));
    }
    if context.is_starting(node) {
        let created_at = observed.created_at.unwrap_or(context.input.now);
        let until = after(created_at, settings.scale_up.max_node_startup_time);
        return Err(UnremovableReason::RecentlyAdded(until));
    }
    if group.is_rolling_out {
        return Err(UnremovableReason::NodeGroupRollingOut);
    }
    if context.size_of(group).target <= group.min {
        return Err(UnremovableReason::NodeGroupMinSizeReached(group.min));
    }
    if observed.scale_down_disabled {
        return Err(UnremovableReason::ScaleDownDisabledAnnotation);
    }
    let counted = Counted {
        without_daemon_sets: group
            .options
            .ignore_daemon_sets_utilization
            .unwrap_or(settings.scale_down.ignore_daemon_sets_utilization),
        without_mirror_pods: settings.scale_down.ignore_mirror_pods_utilization,
    };
    let pods = snapshot.pods_on(node).iter().map(|pod| context.pod(*pod));
    let pods = pods.filter(|pod| !context.rules.is_long_gone(pod));
    let Some(utilization) = utilization::requested_share(observed, pods, counted) else {
        return Err(UnremovableReason::UnexpectedError);
    };
    if !context.is_ready(node) && !settings.scale_down.unready_enabled {
        return Err(UnremovableReason::ScaleDownUnreadyDisabled);
    }
    let threshold = match utilization::gpu_of(observed) {
        Some(_) => group
            .options
            .gpu_utilization_threshold
            .unwrap_or(settings.scale_down.gpu_utilization_threshold),
        None => {
            group.options.utilization_threshold.unwrap_or(settings.scale_down.utilization_threshold)
        }
    };
    if utilization > threshold {
        return Err(UnremovableReason::NotUnderutilized { utilization, threshold });
    }
    Ok(utilization)
}
