//! One evaluation of the cluster, as plain values.

use api::plimsoll::NodeAutoscaler;
use decide::nodes::{Evaluation, GroupState, ScaleDown, ScaleUp};
use jiff::Timestamp;
use serde_json::{Map, Value};
use tokio::time::Instant;

use super::describe::describe;
use super::metrics::NodeMetrics;
use super::observe::Observation;
use crate::description::ObjectName;

/// What is to be done.
pub(super) struct Plan {
    pub(super) added: ScaleUp,
    pub(super) removed: ScaleDown,
    pub(super) is_healthy: bool,
    /// The state of each group, in the order of the observation.
    pub(super) groups: Vec<GroupState>,
    /// The decision, as `plimsoll evaluate -o json` prints it.
    pub(super) description: Map<String, Value>,
}

impl Plan {
    /// Evaluates what was observed.
    pub(super) fn new(
        autoscaler: &NodeAutoscaler,
        observed: &Observation,
        now: Timestamp,
        metrics: &NodeMetrics,
    ) -> Self {
        let mut began_at = Instant::now();
        let mut took = |function| {
            metrics.took(function, began_at.elapsed());
            began_at = Instant::now();
        };
        let mut evaluation = Evaluation::new(&observed.cluster, &observed.settings, now);
        took("updateClusterState");
        let added = evaluation.scale_up_answered(&observed.answers);
        took("scaleUp");
        let removed = evaluation.scale_down(&observed.status, &added);
        took("findUnneeded");
        let subject = ObjectName::new(autoscaler);
        let description = describe(&subject, &added, &removed, &evaluation).json;
        let groups = evaluation.group_states.clone();
        Self { is_healthy: evaluation.is_healthy, added, removed, groups, description }
    }
}
