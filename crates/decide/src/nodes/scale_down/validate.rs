//! Checks once more, right before the first eviction, that a node can be removed.
//!
//! Time has passed since the plan: pods may have arrived or lost their other place, and budgets may be spent.

use std::collections::BTreeSet;

use super::context::ScaleDownContext;
use super::simulate::{self, takes_pods};
use super::unremovable::UnremovableReason;
use super::{ScaleDownInput, Status};
use crate::nodes::drain::{Blocking, DrainOutcome};
use crate::nodes::{Evaluation, NodeId, Pod, PodId, Scheduling};

/// The pods of a node that is about to be removed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DrainPlan {
    /// Pods to evict, all of which have another place, in the order of their priority.
    pub evict: Vec<PodId>,
    /// Pods of DaemonSets, which go with the node.
    pub daemons: Vec<PodId>,
}

impl Evaluation<'_> {
    /// Checks that a node whose removal is in progress, according to `status`, can still be removed. The simulated moves are left in
    /// the snapshot.
    pub fn validate_removal(
        &mut self,
        status: &Status,
        node: &str,
    ) -> Result<DrainPlan, UnremovableReason> {
        let growing = &BTreeSet::new();
        let input = ScaleDownInput { settings: self.settings, status, growing, now: self.now };
        let snapshot = &mut self.snapshot;
        let context = ScaleDownContext::new(snapshot, input);
        let mut nodes = context.nodes();
        let found = nodes.find(|id| &*context.node(*id).name == node);
        let Some(id) = found else { return Err(UnremovableReason::NotAutoscaled) };
        let Some(group) = context.group_of(id) else {
            return Err(UnremovableReason::NotAutoscaled);
        };
        if context.node(id).scale_down_disabled {
            return Err(UnremovableReason::ScaleDownDisabledAnnotation);
        }
        if group.is_rolling_out {
            return Err(UnremovableReason::NodeGroupRollingOut);
        }
        let size = context.size_of(group);
        if size.target.saturating_sub(size.going) < group.min {
            return Err(UnremovableReason::NodeGroupMinSizeReached(group.min));
        }
        let there = snapshot.nodes().take_while(|other| *other < context.nodes().end);
        let there: Vec<NodeId> = there.filter(|other| takes_pods(&context, *other)).collect();
        snapshot.prefer(&there);
        let evict = simulate::drain(&context, snapshot, id)?;
        let outcome = |pod: PodId| context.drain_outcome(pod, snapshot.classes.of_pod(pod));
        if let Some(idle) = evict.iter().find(|pod| outcome(**pod) == DrainOutcome::Replaced) {
            let name = context.pod(*idle).full_name().into();
            return Err(UnremovableReason::BlockedByPod(name, Blocking::GameServerIdle));
        }
        let is_daemon = |pod: &PodId| outcome(*pod) == DrainOutcome::Daemon;
        let is_on_it =
            |pod: &Pod| matches!(&pod.scheduling, Scheduling::On(place) if &**place == node);
        let on_it = snapshot.cluster.pods.iter().enumerate();
        let on_it = on_it.filter(|(_, pod)| is_on_it(pod)).map(|(pod, _)| pod);
        Ok(DrainPlan { evict, daemons: on_it.filter(is_daemon).collect() })
    }
}
