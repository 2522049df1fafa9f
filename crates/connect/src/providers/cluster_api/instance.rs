//! A Machine as an instance of its group.

use super::objects::Machine;
use crate::providers::{Instance, InstanceError, InstanceState};

/// Returns the state of a machine. One that failed after it had a Node is left to the rules for unready nodes.
pub(super) fn instance(machine: &Machine) -> Instance {
    let is_creating = machine.node().is_none();
    let state = match (machine.is_deleting(), is_creating) {
        (true, _) => InstanceState::Deleting,
        (false, true) => InstanceState::Creating,
        (false, false) => InstanceState::Running,
    };
    let failure = machine.failure().filter(|_| state == InstanceState::Creating);
    let error = failure.map(|message| InstanceError {
        is_out_of_resources: false,
        message: format!("Machine {}: {message}", machine.metadata.name),
    });
    Instance { id: instance_id(machine), state, error }
}

/// Returns the providerID of a machine, or a placeholder while it has none.
pub(super) fn instance_id(machine: &Machine) -> String {
    if let Some(id) = machine.provider_id() {
        return id.to_owned();
    }
    let state = match (machine.failure(), machine.is_deleting()) {
        (Some(_), _) => "failed",
        (None, true) => "deleting",
        (None, false) => "pending",
    };
    format!("{state}-machine-{}_{}", machine.metadata.namespace, machine.metadata.name)
}
