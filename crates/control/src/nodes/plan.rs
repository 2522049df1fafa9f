//! One evaluation of the cluster, as plain values.

use api::plimsoll::NodeAutoscaler;
use decide::nodes::{Evaluation, GroupState, ScaleDown, ScaleUp};
use jiff::Timestamp;
use serde_json::{Map, Value};

use super::describe::describe;
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
    pub(super) fn new(autoscaler: &NodeAutoscaler, observed: &Observation, now: Timestamp) -> Self {
        let mut evaluation = Evaluation::new(&observed.cluster, &observed.settings, now);
        let added = evaluation.scale_up_answered(&observed.answers);
        let removed = evaluation.scale_down(&observed.status, &added);
        let subject = ObjectName::new(autoscaler);
        let description = describe(&subject, &added, &removed, &evaluation).json;
        let groups = evaluation.group_states.clone();
        Self { is_healthy: evaluation.is_healthy, added, removed, groups, description }
    }
}
