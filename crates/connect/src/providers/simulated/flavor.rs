//! The flavors of simulated nodes: the embedded engine or a KWOK controller runs their pods.

use api::plimsoll::NodeGroup;
use serde_json::{Value, json};

/// A kind of simulated machine.
pub(super) struct Flavor {
    /// The name of its block in a NodeGroup's `provider`.
    pub(super) name: &'static str,
    /// The label or annotation by which the component that runs its pods finds a node.
    pub(super) label: Option<(&'static str, &'static str)>,
    pub(super) annotation: Option<(&'static str, &'static str)>,
}

/// Machines of the embedded engine.
pub(super) const SIMULATED: Flavor =
    Flavor { name: "simulated", label: Some(("plimsoll.dev/simulated", "true")), annotation: None };
/// Machines of KWOK.
pub(super) const KWOK: Flavor =
    Flavor { name: "kwok", label: None, annotation: Some(("kwok.x-k8s.io/node", "fake")) };

impl Flavor {
    /// Returns the providerID of a machine.
    pub(super) fn instance_id(&self, machine: &str) -> String {
        format!("{}://{machine}", self.name)
    }

    /// Returns whether a group has such machines.
    pub(super) fn is_of(&self, group: &NodeGroup) -> bool {
        group.spec.provider.contains_key(self.name)
    }

    /// Adds the label and the annotation.
    pub(super) fn mark(&self, labels: &mut Value, annotations: &mut Value) {
        if let Some((key, value)) = self.label {
            labels[key] = json!(value);
        }
        if let Some((key, value)) = self.annotation {
            annotations[key] = json!(value);
        }
    }
}
