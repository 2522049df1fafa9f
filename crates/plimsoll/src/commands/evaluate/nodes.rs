//! The decision of a NodeAutoscaler about the nodes, pods and groups in the files.

use api::plimsoll::NodeAutoscaler;
use control::nodes::describe::describe;
use control::nodes::observe::observe;
use control::{Description, Unreadable};
use decide::nodes::Evaluation;

use super::world::{Object, World};

/// Decides about one autoscaler.
pub(crate) fn decide(object: &Object, world: &World) -> Result<Option<Description>, Unreadable> {
    let autoscaler: NodeAutoscaler = object.read()?;
    let observation = observe(&autoscaler, world)?;
    let mut evaluation = Evaluation::new(&observation.cluster, &observation.settings, world.now);
    let added = evaluation.scale_up_answered(&observation.answers);
    let removed = evaluation.scale_down(&observation.status, &added);
    Ok(Some(describe(&object.object_name(), &added, &removed, &evaluation)))
}
