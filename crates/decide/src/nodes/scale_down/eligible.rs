//! Is a node worth trying to empty?

use super::Look;
use super::keep::Keep;
use crate::nodes::drain::after;
use crate::nodes::utilization::{self, Counted};
use crate::nodes::{NodeId, Snapshot};

/// Gives a node's utilisation if it may go, or what keeps it. The first of these decides, in this order.
pub(super) fn check(look: &Look<'_>, snapshot: &Snapshot<'_>, node: NodeId) -> Result<f64, Keep> {
    let seen = look.node(node);
    let settings = look.given.settings;
    let Some(group) = look.group_of(node) else { return Err(Keep::NotAutoscaled) };
    if look.is_going(node) {
        return Err(Keep::CurrentlyBeingDeleted);
    }
    if look.is_starting(node) {
        let created_at = seen.created_at.unwrap_or(look.given.now);
        let until = after(created_at, settings.scale_up.max_node_startup_time);
        return Err(Keep::RecentlyAdded(until));
    }
    if look.size_of(group).target <= group.min {
        return Err(Keep::NodeGroupMinSizeReached(group.min));
    }
    if seen.scale_down_disabled {
        return Err(Keep::ScaleDownDisabledAnnotation);
    }
    let counted = Counted {
        without_daemon_sets: group
            .options
            .ignore_daemon_sets_utilization
            .unwrap_or(settings.scale_down.ignore_daemon_sets_utilization),
        without_mirror_pods: settings.scale_down.ignore_mirror_pods_utilization,
    };
    let pods = snapshot.pods_on(node).iter().map(|pod| look.pod(*pod));
    let pods = pods.filter(|pod| !look.rules.is_long_gone(pod));
    let Some(utilization) = utilization::of(seen, pods, counted) else {
        return Err(Keep::UnexpectedError);
    };
    if !look.is_ready(node) && !settings.scale_down.unready_enabled {
        return Err(Keep::ScaleDownUnreadyDisabled);
    }
    let threshold = match utilization::gpu_of(seen) {
        Some(_) => group
            .options
            .gpu_utilization_threshold
            .unwrap_or(settings.scale_down.gpu_utilization_threshold),
        None => {
            group.options.utilization_threshold.unwrap_or(settings.scale_down.utilization_threshold)
        }
    };
    if utilization > threshold {
        return Err(Keep::NotUnderutilized { utilization, threshold });
    }
    Ok(utilization)
}
